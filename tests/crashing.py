"""Programs that the crash tests start in a process of their own, and kill. Not a test module."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import filelock  # noqa: F401 # so that the forked children need not import it, hundreds of times

from gradient_rl.errors import GradientError
from gradient_rl.runs import Journal, RunIdentity, archive_earlier_run, hold_folder, read_journal, write_whole

OLD, NEW = b'{"result":"old"}\n', b'{"result":"new"}\n' * 40
TORN = b'{"n":2,"body":"torn off he'
EARLIER = RunIdentity({"seed": 7}, datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
LATER = RunIdentity({"seed": 8}, datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
EARLIER_FILES = {
    "eval.json": OLD,
    "eval.md": b"# old\n",
    "eval.weak.jsonl": b'{"n":0}\n',
    "eval.weak.jsonl.torn": TORN + b"\n",
}
PATTERNS = ("eval.json", "eval.md", "eval.*.jsonl")
CRASH = 9
write, fsync, replace, ftruncate = os.write, os.fsync, os.replace, os.ftruncate

type Act = Callable[[Path], None]


def body(n: int, size: int) -> str:
    """Text of about `size` characters that tells which record it belongs to."""
    return (f"{n} é " * (size // len(f"{n} é ") + 1))[:size]


def append_until_killed(path: Path, size: int) -> None:
    """Append records and acknowledge each on stdout, for ever."""
    with Journal(path, key=["n"]) as journal:
        for n in count(len(journal.keys)):
            journal.append({"n": n, "body": body(n, size)})
            write(1, f"{n}\n".encode())


def hold_until_told(folder: Path) -> None:
    """Hold the folder until stdin ends."""
    with hold_folder(folder):
        write(1, b"held\n")
        sys.stdin.read()


def meet_the_file_size_limit(folder: Path, limit: int) -> None:
    """Append until the limit is met, then try a whole file beyond it; say on stdout what was acknowledged."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        write_whole(folder / "eval.json", b"x" * (limit + 1))
    except GradientError as error:
        sys.stderr.write(f"{error}\n")
    with Journal(folder / "eval.jsonl", key=["n"]) as journal:
        for n in count():
            journal.append({"n": n, "body": body(n, 300)})
            write(1, f"{n}\n".encode())


# The sweep: the process ends at its n-th system call, for every n, until it gets through.


def end_at(nth: int, moment: str) -> None:
    """Make this process end before, half-way through or after its n-th counted system call."""
    calls = count(1)

    def counted[**P, R](call: Callable[P, R]) -> Callable[P, R]:
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            if next(calls) != nth:
                return call(*args, **kwargs)
            if moment == "half" and call is write:
                write(args[0], args[1][: len(args[1]) // 2])  # type: ignore[index, arg-type]
            if moment == "after":
                call(*args, **kwargs)
            os._exit(CRASH)

        return wrapper

    os.write, os.fsync = counted(write), counted(fsync)
    os.replace, os.ftruncate = counted(replace), counted(ftruncate)


def in_child(act: Act, folder: Path, nth: int = 0, moment: str = "") -> bool:
    """Act in a forked process that ends at its n-th call; whether it got through."""
    pid = os.fork()
    if pid == 0:
        try:
            end_at(nth, moment)
            act(folder)
        except BaseException:  # noqa: BLE001 # a forked child must never return into the parent's code
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, CRASH), code
    return code == 0


def acknowledge(folder: Path, what: str) -> None:
    fd = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write(fd, f"{what}\n".encode())
    os.close(fd)


def acknowledged(folder: Path) -> set[str]:
    path = folder / "acknowledged"
    return set(path.read_text().split()) if path.exists() else set()


def prepare_journal(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "eval.jsonl").write_bytes(b'{"n":0,"body":"a"}\n{"n":1,"body":"b"}\n' + TORN)
    (folder / "eval.json").write_bytes(OLD)


def journal_session(folder: Path) -> None:
    with hold_folder(folder):
        with Journal(folder / "eval.jsonl", key=["n"]) as journal:
            for n in range(4):
                if (n,) not in journal.keys:
                    journal.append({"n": n, "body": body(n, 64)})
                    acknowledge(folder, str(n))
        write_whole(folder / "eval.json", NEW)
        acknowledge(folder, "whole")


def check_journal(folder: Path) -> None:
    present = [record["n"] for _, record in read_journal(folder / "eval.jsonl")]
    done = acknowledged(folder)
    assert present == list(range(len(present))), present
    assert {0, 1} | {int(n) for n in done - {"whole"}} <= set(present), (present, done)
    assert (folder / "eval.json").read_bytes() in ((NEW,) if "whole" in done else (OLD, NEW))


def check_journal_at_the_end(folder: Path) -> None:
    check_journal(folder)
    assert (folder / "eval.json").read_bytes() == NEW
    lines = (folder / "eval.jsonl").read_bytes().splitlines()
    assert len(lines) == 4
    first, *others = (folder / "eval.jsonl.torn").read_bytes().splitlines()
    assert first == TORN
    assert all(any(line.startswith(torn) for line in lines) for torn in others), others
    assert not list(folder.glob(".*.tmp"))


def prepare_archive(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, data in EARLIER_FILES.items():
        (folder / name).write_bytes(data)
    EARLIER.save(folder / "eval.run.json")
    (folder / "checkpoints").mkdir()


def archive_session(folder: Path) -> None:
    manifest = folder / "eval.run.json"
    with hold_folder(folder):
        if not manifest.exists() or RunIdentity.load(manifest) != LATER:
            archive_earlier_run(folder, manifest.name, PATTERNS)
            LATER.save(manifest)


def check_archive(folder: Path) -> None:
    home = folder / "runs" / EARLIER.label
    for name, data in EARLIER_FILES.items():
        places = [path for path in (folder / name, home / name) if path.exists()]
        assert [path.read_bytes() for path in places] == [data], name
    assert (folder / "checkpoints").is_dir()


def check_archive_at_the_end(folder: Path) -> None:
    check_archive(folder)
    home = folder / "runs" / EARLIER.label
    assert {path.name for path in home.iterdir()} == {*EARLIER_FILES, "eval.run.json"}
    assert [path.name for path in home.parent.iterdir()] == [home.name]
    assert RunIdentity.load(folder / "eval.run.json") == LATER


def sweep(root: Path, prepare: Act, act: Act, check: Act, check_at_the_end: Act) -> int:
    """End the act at every call, and its repetition at every call of that; returns the crashes survived."""
    crashes = 0
    for moment in ("before", "half", "after"):
        for nth in count(1):
            folder = root / f"{moment}-{nth}"
            prepare(folder)
            through = in_child(act, folder, nth, moment)
            check(folder)
            if through:
                break
            crashes += 1
            for again in count(1):
                copy = shutil.copytree(folder, root / "copy")
                through = in_child(act, copy, again, moment)
                check(copy)
                assert in_child(act, copy)
                check_at_the_end(copy)
                shutil.rmtree(copy)
                if through:
                    break
                crashes += 1
    return crashes


def sweep_journal(root: Path) -> None:
    crashes = sweep(root, prepare_journal, journal_session, check_journal, check_journal_at_the_end)
    sys.stdout.write(f"{crashes}\n")


def sweep_archive(root: Path) -> None:
    crashes = sweep(root, prepare_archive, archive_session, check_archive, check_archive_at_the_end)
    sys.stdout.write(f"{crashes}\n")


PROGRAMS = {
    act.__name__: act for act in (append_until_killed, hold_until_told, meet_the_file_size_limit, sweep_journal, sweep_archive)
}

if __name__ == "__main__":
    try:
        PROGRAMS[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
    except GradientError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
