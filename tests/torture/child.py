"""A command of the product in a forked process that ends, fails or waits at its n-th system call. Not a test module.

The process says what it has acknowledged through a pipe: the keys of a record once `Journal.append` has returned, the digest
of a whole file before and after it takes its name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from gradient_rl.runs import Journal

CRASH = 99
"""Exit code of a process that ended itself; no command has it."""
ARTIFACTS, OUTPUT, ERRORS = "artifacts", "stdout", "stderr"
MOMENTS = ("before", "half", "after")
WAIT_S = 120
F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20
_WRITES = ("write", "fsync", "replace", "ftruncate")
_ALSO_ENDED_AT = ("unlink", "mkdir")
"""Calls that may be the last of a process; no failure of theirs is injected, for some of them may fail."""
write = os.write

type Tell = Callable[[str, str, object], None]
type Call = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a process."""

    kind: str = "none"
    """before, half, after: it ends at the call. full, broken: the call fails with ENOSPC, after half of a write, or with EIO.
    wait: the process does not get beyond its first write. short: no write takes more than a third of what it is given."""
    nth: int = 0
    """Number of the call, from 1."""
    file_size_limit: int | None = None
    output: str = OUTPUT


NONE = Fault()


@dataclass
class Ending:
    """How a process ended, and what it had acknowledged by then."""

    code: int
    errors: str
    records: list[tuple[str, list[object]]] = field(default_factory=list)
    begun: dict[str, list[str]] = field(default_factory=dict)
    """By file, digests of what may stand there: what was put there last, and what came after it."""
    whole: int = 0
    calls: int = 0
    waiting: bool = False
    modules: list[str] = field(default_factory=list)

    def preload(self) -> None:
        """Import what the process did, so that those that are forked from this one need not."""
        for name in self.modules:
            if name != "__main__" and name not in sys.modules:
                with suppress(ImportError):
                    importlib.import_module(name)

    def learn(self, what: str, place: str, value: Any) -> None:  # noqa: ANN401
        """Take in one thing that the process said."""
        match what:
            case "record":
                self.records.append((place, value))
            case "begun":
                self.begun.setdefault(place, []).append(value)
            case "whole":
                self.begun[place] = [value]
                self.whole += 1
            case "waiting":
                self.waiting = True
            case _:
                setattr(self, what, value)


class Process:
    """A command that was started in a process of its own.

    Args:
        folder: its working folder, made if need be.
        name: what its output files begin with, where several run in one folder.
    """

    def __init__(self, module: str, arguments: Sequence[str], folder: Path, fault: Fault = NONE, name: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = folder / f"{name}{ERRORS}"
        self._said = b""
        self._reader, writer = os.pipe()
        fcntl.fcntl(self._reader, F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self._reader, False)
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_child(module, arguments, folder, fault, name, writer)
        os.close(writer)

    @property
    def lines(self) -> int:
        """How much it has said so far."""
        with suppress(BlockingIOError):
            while more := os.read(self._reader, _PIPE_BYTES):
                self._said += more
        return self._said.count(b"\n")

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        self.lines  # noqa: B018 # so that the pipe does not fill
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def ending(self, code: int) -> Ending:
        """What it has said, and how it ended; the pipe is closed."""
        complete = self._said[: self._said.rfind(b"\n") + 1] if self.lines else b""
        os.close(self._reader)
        ending = Ending(code, self._errors.read_text(errors="replace") if self._errors.exists() else "")
        for line in complete.splitlines():
            ending.learn(*json.loads(line))
        return ending

    def wait(self) -> Ending:
        """Wait for its end."""
        return self.kill_after(sys.maxsize, 0.0)

    def kill_after(self, lines: int, seconds: float) -> Ending:
        """Kill it so long after it has said so many lines, unless it ends before."""
        deadline = time.monotonic() + WAIT_S
        while (code := self.poll()) is None:
            if self.lines >= lines or time.monotonic() > deadline:
                time.sleep(seconds)
                return self.kill()
            time.sleep(0.0005)
        return self.ending(code)

    def kill(self) -> Ending:
        """Kill it now."""
        os.kill(self.pid, signal.SIGKILL)
        return self.ending(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))


def play(module: str, arguments: Sequence[str], folder: Path, fault: Fault = NONE) -> Ending:
    """Run the command to its end, whichever that is."""
    return Process(module, arguments, folder, fault).wait()


def digest(path: Path) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# In the child


def _be_the_child(module: str, arguments: Sequence[str], folder: Path, fault: Fault, name: str, writer: int) -> None:
    code = 98
    try:
        os.chdir(folder)
        for number, place in ((1, fault.output), (2, f"{name}{ERRORS}")):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        if fault.file_size_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_size_limit, fault.file_size_limit))

        def tell(what: str, place: str, value: object) -> None:
            write(writer, f"{json.dumps([what, place, value])}\n".encode())

        code = _act(module, arguments, fault, tell)
    except BaseException:  # noqa: BLE001 # a forked child must never return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(code)


def _act(module: str, arguments: Sequence[str], fault: Fault, tell: Tell) -> int:
    calls = _Calls(fault, tell)
    calls.intercept()
    _listen(tell)
    sys.argv = [f"gradient-{module}", *arguments]
    try:
        importlib.import_module(f"gradient_rl.cli.{module}").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    tell("calls", "", calls.made)
    tell("modules", "", sorted(sys.modules))
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # as the interpreter does
    return code


def _listen(tell: Tell) -> None:
    """Say what is acknowledged."""
    append, replace = Journal.append, os.replace

    def told_append(journal: Journal, *records: Mapping[str, object]) -> None:
        append(journal, *records)
        for record in records:
            tell("record", str(journal.path), [record[name] for name in journal._key])

    def told_replace(source: Path, target: Path) -> None:
        if not Path(source).is_file():
            replace(source, target)
            return
        value = digest(Path(source))
        if Path(target).exists():
            tell("begun", str(target), digest(Path(target)))
        tell("begun", str(target), value)
        replace(source, target)
        tell("whole", str(target), value)

    Journal.append, os.replace = told_append, told_replace  # type: ignore[method-assign, assignment]


class _Calls:
    """Counts the system calls of this process, and meets one of them with the fault."""

    def __init__(self, fault: Fault, tell: Tell) -> None:
        self.made = 0
        self._fault = fault
        self._tell = tell
        self._numbers = count(1)
        self._is_full = False

    def intercept(self) -> None:
        """Put a wrapper in the place of each call."""
        for name in (*_WRITES, *_ALSO_ENDED_AT):
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, call: Call) -> Call:
        def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if name == "write" and args[0] <= 2:
                return call(*args)
            self.made = next(self._numbers)
            if self.made == self._fault.nth or self._fault.kind in ("wait", "short") or self._is_full:
                self._meet(name, call, args, kwargs)
                args = self._shortened(name, args)
            return call(*args, **kwargs)

        return counted

    def _meet(self, name: str, call: Call, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        kind = self._fault.kind
        if kind in MOMENTS:
            if kind == "half" and name == "write":
                call(args[0], args[1][: len(args[1]) // 2])
            if kind == "after":
                call(*args, **kwargs)
            os._exit(CRASH)
        if kind == "wait" and name in _WRITES:
            self._tell("waiting", "", 0)
            time.sleep(WAIT_S)
        if kind == "broken" and name in _WRITES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if kind == "full" and name in _WRITES and (name != "write" or self._is_full or len(args[1]) < 2):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _shortened(self, name: str, args: Any) -> Any:  # noqa: ANN401
        """What is left of the arguments of a write that takes less than all."""
        if name != "write" or self._fault.kind not in ("short", "full"):
            return args
        self._is_full = self._fault.kind == "full"
        return (args[0], args[1][: len(args[1]) // (3 if self._fault.kind == "short" else 2) + (self._fault.kind == "short")])
