"""The artifacts folder: one writer, journals, whole files, the identity of a run, and earlier runs put away.

What it promises, each held by a crash test: a record is durable once `append` has returned; a torn tail is
moved aside and never read as data; a whole file is the old one or the new one; a folder has one writer; an
earlier run's files are moved, never overwritten. An error of the file system names the path and a remedy.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import NoReturn, Self, cast

from gradient_rl.errors import ArtifactError, DataError, FolderInUseError, NothingToReadError, UsageError
from gradient_rl.schema.jsonl import read_json

type Scalar = str | int | float | bool | None
type Key = tuple[Scalar, ...]

SCHEMA_VERSION = 1
_ELSEWHERE = "or give another folder with --artifacts"
_GO_ON = "then run it again, a training or an evaluation with --resume"
_REMEDIES = {
    errno.ENOSPC: f"free some space on that disk, {_GO_ON}",
    errno.EDQUOT: f"free some of your disk quota, {_GO_ON}",
    errno.EFBIG: f"raise the file size limit (ulimit -f), {_GO_ON}",
    errno.EACCES: f"make it writable, {_ELSEWHERE}",
    errno.EROFS: f"make it writable, {_ELSEWHERE}",
    errno.EBADF: f"it was closed, or an earlier write to it failed; find out why, {_GO_ON}",
}

LOCK_FILE = ".lock"
"""In a folder that has, or had, one writer at a time."""


@contextmanager
def telling(path: Path, action: str) -> Generator[None]:
    """Turn a refusal of the file system into one sentence with the path and a remedy.

    Args:
        path: what is worked on.
        action: what was to be done with it, such as `written`.

    Raises:
        ArtifactError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, f"check that path, {_ELSEWHERE}")
        raise ArtifactError(f"{path} cannot be {action}: {error.strerror or error}; {remedy}") from error


def raise_damage(fault: DataError) -> NoReturn:
    """Stop at the first damaged line, the default; a list's `append` collects the faults and reads on."""
    raise fault


@contextmanager
def hold_folder(folder: Path) -> Generator[None]:
    """Make the folder if need be, and be its one writer until the block or the process ends.

    The lock is the kernel's. The pid in the file is for the message: a stale one stops nobody.

    Raises:
        FolderInUseError: another run holds it.
        ArtifactError: it cannot be made or written.
    """
    from filelock import FileLock, Timeout  # 30 ms, which a command that only reads need not pay

    pid_file = folder / ".lock.pid"
    with telling(folder, "prepared"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_FILE, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            holder = f"{folder} is in use by {_holder(pid_file)}"
            raise FolderInUseError(f"{holder}; wait until it ends, {_ELSEWHERE}") from None
    try:
        with suppress(OSError):
            pid_file.write_text(str(os.getpid()))
        yield
    finally:
        with suppress(OSError):
            pid_file.unlink()
        lock.release()


class Journal:
    """An append-only JSONL file of records with a key: present means done, twice is an error.

    Opening repairs it: what stands after the last newline was never acknowledged and goes to `NAME.torn`, one
    line for each torn tail. Only one process may have it open (`hold_folder`).

    Args:
        path: the file; it is made if it is not there.
        key: names of the fields that make up a record's key; their values are plain.
        on_damage: called for each complete line that is no record or repeats a key.

    Raises:
        DataError: a line is damaged, and `on_damage` raises.
        ArtifactError: the file system refuses.
    """

    def __init__(self, path: Path, key: Sequence[str], on_damage: Callable[[DataError], None] = raise_damage) -> None:
        self.path = path
        self.keys: set[Key] = set()
        """Keys of the records that are there."""
        self.torn = 0
        """Torn tails in `NAME.torn`, over all the times that the file was opened."""
        self._key = tuple(key)
        with telling(path, "opened"):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._end = self._repair()
            self._index(on_damage)
        except BaseException:
            self.close()
            raise

    def append(self, *records: Mapping[str, object]) -> None:
        """Write records. All are on the disk when this returns, and none in the file when this raises.

        A failed write closes the journal; opening it again tells what the disk holds.

        Raises:
            DataError: a key is there already, or a record is no JSON.
            ArtifactError: the file system refuses.
        """
        keys = [self._new_key(record, f"{self.path}, new record") for record in records]
        if len(set(keys)) < len(keys):
            raise DataError(f"{self.path}, new records: two of them have the same key")
        lines = b"".join(json_line(record) for record in records)
        with telling(self.path, "written"):
            try:
                _write_all(self._fd, lines)
                os.fsync(self._fd)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._fd, self._end)
                self.close()
                raise
        self._end += len(lines)
        self.keys.update(keys)

    def close(self) -> None:
        """Close the file. There is nothing to flush."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repair(self) -> int:
        """Move a torn tail aside, and return the length of the rest once all of that is on the disk."""
        torn = self.path.with_name(f"{self.path.name}.torn")
        with telling(self.path, "repaired"):
            end, tail = _split_tail(self._fd)
            moved = torn.read_bytes() if torn.exists() else b""
            # A crash between the move and the cut leaves the tail in both files, and it is not moved again.
            if tail and not (b"\n" + moved).endswith(b"\n" + tail + b"\n"):
                moved += tail + b"\n"
                write_whole(torn, moved)
            if tail:
                os.ftruncate(self._fd, end)
            os.fsync(self._fd)
            _sync_folder(self.path.parent)
        self.torn = moved.count(b"\n")
        return end

    def _index(self, on_damage: Callable[[DataError], None]) -> None:
        for number, record in read_journal(self.path, on_damage):
            try:
                self.keys.add(self._new_key(record, f"{self.path} line {number}"))
            except DataError as fault:
                on_damage(fault)

    def _new_key(self, record: Mapping[str, object], where: str) -> Key:
        for name in self._key:
            if not isinstance(record.get(name, ()), str | int | float | None):
                raise DataError(f"{where}: '{name}', a part of the key, is missing or not a plain value")
        key = tuple(cast("Scalar", record[name]) for name in self._key)
        if key in self.keys:
            shown = ", ".join(f"{name} {value!r}" for name, value in zip(self._key, key, strict=True))
            raise DataError(f"{where} repeats the record of {shown}")
        return key


def read_journal(path: Path, on_damage: Callable[[DataError], None] = raise_damage) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (line number, record) for each complete line; a torn tail is no line.

    Args:
        path: a journal, which may be one that a run is writing.
        on_damage: called for each complete line that is not a JSON object.

    Raises:
        NothingToReadError: the file is not there.
        DataError: a line is damaged, and `on_damage` raises.
        ArtifactError: the file system refuses.
    """
    if not path.exists():
        raise NothingToReadError(f"{path} is not there; check the path, {_ELSEWHERE}")
    with telling(path, "read"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and line.endswith(b"\n"):
                try:
                    record = _parse(line)
                except ValueError as error:
                    on_damage(DataError(f"{path} line {number} is damaged: {error}"))
                else:
                    yield number, record


def write_whole(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace a file at one stroke: after any failure or crash it holds the old bytes or the new ones.

    The temporary file beside it has a fixed name, so that a killed run leaves one at most, and one writer at a time.

    Args:
        path: the file; its folder is there.
        data: all of it, or its pieces as they come.

    Raises:
        FolderInUseError: another process is just writing this file.
        ArtifactError: the file system refuses; the old file is intact and the temporary one gone.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with telling(path, "written"):
        fd = _open_alone(temporary, path)
        try:
            if os.fstat(fd).st_size:  # of a killed run
                os.ftruncate(fd, 0)
            for piece in [data] if isinstance(data, bytes) else data:
                _write_all(fd, piece)
            os.fsync(fd)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        _sync_folder(path.parent)


def _open_alone(temporary: Path, path: Path) -> int:
    """Open the file for writing with the kernel's lock on it, which ends with the descriptor."""
    while True:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                # A writer that has ended since then has moved what was opened here; that file must not be cut.
                if os.path.samestat(os.fstat(fd), temporary.stat()):
                    return fd
        except BaseException as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                raise FolderInUseError(f"{path} is just being written by another process; wait until it ends") from None
            raise
        os.close(fd)


def json_line(value: object) -> bytes:
    """Give a value as one line of UTF-8 JSON, keys in their order; a lone surrogate becomes its JSON escape.

    Raises:
        DataError: it holds NaN, an infinity, or something that is no JSON.
    """
    return _dump(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def canonical_json(value: object) -> bytes:
    """Give a value as ASCII JSON with sorted keys: equal values, equal bytes, also after a round trip.

    Raises:
        DataError: it holds NaN, an infinity, or something that is no JSON.
    """
    return _dump(value, sort_keys=True).encode("ascii")


def digest(value: object) -> str:
    """Give the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


@dataclass(frozen=True)
class RunIdentity:
    """What a run depends on, and when it started. It is saved before the run's first record."""

    fields: Mapping[str, Scalar]
    """What a resumed run must share: digests of configuration, workspace and tasks, the seed, ..."""
    started_at: datetime
    """With a time zone."""
    notes: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    """What a resumed run may want to know, and need not share. No part of the id."""

    @property
    def run_id(self) -> str:
        """Twelve hex digits of the fields' digest: the same inputs, the same id."""
        return digest(dict(self.fields))[:12]

    @property
    def label(self) -> str:
        """`<start time>-<run id>`, the name of its folder under `runs/`."""
        return f"{self.started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{self.run_id}"

    def save(self, path: Path) -> None:
        """Write it as a whole file."""
        started = self.started_at.astimezone(UTC).isoformat(timespec="seconds")
        head = {"schema_version": SCHEMA_VERSION, "run_id": self.run_id, "started_at": started}
        write_whole(path, json_line(head | {"fields": dict(self.fields), "notes": dict(self.notes)}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            NothingToReadError: the file is not there.
            DataError: it is damaged, or of another schema version.
        """
        for _, record in read_journal(path, on_damage=lambda _: None):
            with suppress(KeyError, TypeError, ValueError):
                fields, notes = _scalars(record["fields"]), _scalars(record.get("notes", {}))
                started = datetime.fromisoformat(str(record["started_at"]))
                if record["schema_version"] == SCHEMA_VERSION and started.tzinfo:
                    return cls(fields, started, notes)
        raise DataError(
            f"{path} is not the identity of a run in schema version {SCHEMA_VERSION}; restore it, or begin a new run without "
            "--resume (the earlier one is kept under runs/)"
        )


def _scalars(value: object) -> dict[str, Scalar]:
    found = dict(cast("Mapping[str, object]", value))
    if not all(isinstance(each, str | int | float | None) for each in found.values()):
        raise TypeError("a field is no plain value")
    return cast("dict[str, Scalar]", found)


def refuse_changed(old: RunIdentity, new: RunIdentity) -> None:
    """Let a run be resumed only as what it was.

    Raises:
        UsageError: a field differs; the first one is named with both values.
    """
    for name in {**old.fields, **new.fields}:
        before, now = (run.fields.get(name, "absent") for run in (old, new))
        if before != now:
            raise UsageError(
                f"--resume: {name} was {before!r} when the run began and is {now!r} now; restore it, or "
                "begin a new run without --resume (the earlier one is kept under runs/)"
            )


def archive_earlier_run(folder: Path, manifest: str, patterns: Iterable[str]) -> Path | None:
    """Move an earlier run's files to `runs/<start time>-<run id>/` and say where; None when there are none.

    The manifest goes last: after a crash half-way the next call still knows the run, and moves the rest to
    the same place. Without a readable manifest the oldest file's time is the label. The caller holds the
    folder.

    Args:
        folder: the artifacts folder.
        manifest: name of the file that the run's `RunIdentity` was saved to.
        patterns: names or glob patterns of the command's files and folders; nothing else moves, except that
            torn tails go with their journals.

    Raises:
        ArtifactError: the file system refuses; what has not been moved stays where it is.
    """
    found = {path for p in patterns for name in (p, f"{p}.torn") for path in folder.glob(name)}
    moving = sorted(found - {folder / manifest}) + [p for p in [folder / manifest] if p.exists()]
    if not moving:
        return None
    with telling(folder, "cleared for a new run"):
        home = folder / "runs" / _label(folder / manifest, moving)
        homes = (home if i == 1 else home.with_name(f"{home.name}-{i}") for i in count(1))
        target = next(h for h in homes if not any((h / path.name).exists() for path in moving))
        target.mkdir(parents=True, exist_ok=True)
        for path in moving:
            path.replace(target / path.name)
        for changed in (target, target.parent, folder):
            _sync_folder(changed)
    return target


def _holder(pid_file: Path) -> str:
    try:
        return f"process {int(pid_file.read_text())}"
    except (OSError, ValueError):
        return "another process"


def _label(manifest: Path, moving: Sequence[Path]) -> str:
    try:
        return RunIdentity.load(manifest).label
    except (NothingToReadError, DataError):
        oldest = min(path.stat().st_mtime for path in moving)
        return f"{datetime.fromtimestamp(oldest, UTC):%Y%m%dT%H%M%SZ}-unknown"


def _split_tail(fd: int) -> tuple[int, bytes]:
    """Find the length up to the last newline, and the bytes after it."""
    if not os.fstat(fd).st_size:
        return 0, b""
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as view:
        end = view.rfind(b"\n") + 1
        return end, view[end:]


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network and shared folders cannot sync a folder at all
            raise
    finally:
        os.close(fd)


def _dump(value: object, *, ensure_ascii: bool = True, sort_keys: bool = False) -> str:
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, sort_keys=sort_keys, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"a value cannot be written as JSON: {error}") from None


def _parse(line: bytes) -> dict[str, object]:
    value = read_json(line)
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}, where a JSON object belongs")
    return cast("dict[str, object]", value)
