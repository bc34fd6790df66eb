"""A folder that is written whole or not at all."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gradient_rl.environment.workspace import DOCUMENTS_FILE, EMAILS_FILE, HELDOUT_FILE, TRAIN_FILE
from gradient_rl.errors import UsageError
from gradient_rl.runs import LOCK_FILE
from gradient_rl.worlds.generate import PARAPHRASES_FILE, WORLD_FILE

GENERATED = frozenset({EMAILS_FILE, DOCUMENTS_FILE, TRAIN_FILE, HELDOUT_FILE, WORLD_FILE, PARAPHRASES_FILE, LOCK_FILE})
"""Files that a generation writes, and that `overwrite` may replace."""


@contextmanager
def whole_folder(folder: Path, overwrite: bool = False) -> Generator[Path]:
    """Lend a temporary folder in which to write; when the block ends without an exception, it takes the place of `folder`.

    The temporary folder stands beside `folder`, or above it where that is not there yet. Nothing is left of it in any case.

    Args:
        overwrite: whether `folder` may hold an earlier generation, which is then replaced.

    Raises:
        UsageError: `folder` is a file, or holds something that may not be replaced.
        OSError: the file system refuses a write.
    """
    folder = folder.expanduser().resolve()
    _refuse_occupied(folder, overwrite)
    above = next(parent for parent in folder.parents if parent.exists())
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=above, ignore_cleanup_errors=True) as temporary:
        written = Path(temporary) / "new"
        written.mkdir()
        yield written
        _put(written, folder, aside=Path(temporary) / "old")


def _put(written: Path, folder: Path, aside: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists():
        written.rename(folder)
        return
    folder.rename(aside)
    try:
        written.rename(folder)
    except BaseException:
        aside.rename(folder)
        raise


def _refuse_occupied(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; name a folder that does not exist yet")
    held = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    if not held and not any(folder.iterdir()):
        return
    if WORLD_FILE not in held:
        raise UsageError(f"--out {folder} is not empty and holds no earlier generation; name another folder, or empty it")
    if foreign := sorted(set(held) - GENERATED):
        raise UsageError(f"--out {folder} also holds '{foreign[0]}', which no generation wrote; name another folder")
    if not overwrite:
        raise UsageError(f"--out {folder} holds an earlier generation; add --overwrite to replace it, or name another folder")
