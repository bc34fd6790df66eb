"""The list of what `python -m tests.torture` does over and over. A check of another promise is one more line in it."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from gradient_rl.runs import Journal, read_journal
from tests import crashing
from tests.torture import damaged, machine
from tests.torture.child import MOMENTS, Fault
from tests.torture.commands import ART, COMMANDS, Bench, Command, Tally, hold
from tests.torture.rounds import (
    Round,
    at,
    in_short_writes,
    killed,
    refused,
    shuffled_points,
    started_together,
    without_output,
)

SIZES = {"1 KB": (1_000, 0.03), "100 KB": (100_000, 0.06), "4 MB": (4_000_000, 0.15)}
"""Of a record, with the longest time after the first one before the process is killed."""
SESSIONS = 3
"""Processes that are killed over one file, or one run, before it is looked at as a whole."""
_HOME = TemporaryDirectory(prefix="torture-benches-")
_SEED = 0


class Check(NamedTuple):
    """A promise, and one round of trying to break it: `one_round(rng, folder)`.

    The random generator is its own, and so is the folder, which is empty and may be filled. It gives a `Tally` of what it
    tried, and raises `Found`, or fails an assertion, for what does not hold; then the folder is kept.
    """

    name: str
    one_round: Round


def journal_check(size: int, longest_s: float) -> Round:
    """A journal whose writer is killed at any moment: what was acknowledged is there once, and nothing half is read."""

    def one_round(rng: random.Random, folder: Path) -> Tally:
        path, acknowledged = folder / "run.jsonl", set[int]()
        for _ in range(SESSIONS):
            acknowledged |= _killed_while_appending(path, size, rng.uniform(0, longest_s))
        with Journal(path, key=["n"]):
            records = [(record["n"], record["body"]) for _, record in read_journal(path)]
        numbers = [number for number, _ in records]
        hold("lost", acknowledged <= set(numbers), sorted(acknowledged - set(numbers))[:5])
        hold("twice", len(set(numbers)) == len(numbers), numbers)
        hold("broken", all(text == crashing.body(n, size) for n, text in records if isinstance(n, int)), "a record was changed")
        return Tally(rounds=1, faults=SESSIONS, acknowledged=len(acknowledged))

    return one_round


def _killed_while_appending(path: Path, size: int, seconds: float) -> set[int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writer, 1)
            crashing.append_until_killed(path, size)
        except BaseException:  # noqa: BLE001 # a forked child must never return into the parent's code
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as lines:
        first = lines.readline()
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        told = first + lines.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    hold("wrong_codes", code == -signal.SIGKILL, code)
    return {int(number) for number in told.split("\n")[:-1]}


@cache
def bench(command: Command) -> Bench:
    """Made when it is first needed, for it plays the command."""
    print(f"preparing {command.name}", file=sys.stderr, flush=True)
    return Bench(Path(_HOME.name), command)


@cache
def _points(command: Command, kinds: tuple[str, ...]) -> Iterator[Fault]:
    return (fault for fault in shuffled_points(bench(command), random.Random(_SEED)) if fault.kind in kinds)


def ended_check(command: Command) -> Round:
    """Goes through all its system calls in some order; half of the time the process that goes on is ended as well."""

    def one_round(rng: random.Random, folder: Path) -> Tally:
        tested = bench(command)
        again = Fault(rng.choice(MOMENTS), rng.randint(1, tested.calls)) if rng.random() < 0.5 else None
        return at(tested, tested.begin(folder), next(_points(command, MOMENTS)), again)

    return one_round


def killed_check(command: Command) -> Round:
    """Kills it up to three times over."""

    def one_round(rng: random.Random, folder: Path) -> Tally:
        tested = bench(command)
        return killed(tested, tested.begin(folder), rng, rng.randint(1, SESSIONS))

    return one_round


def refused_check(command: Command) -> Round:
    """The file system refuses a call, a file grows beyond the limit, stdout is full, or writes are short."""

    def one_round(rng: random.Random, folder: Path) -> Tally:
        tested = bench(command)
        begun, draw = tested.begin(folder), rng.random()
        if draw < 0.1:
            return without_output(tested, begun)
        if draw < 0.2:
            return in_short_writes(tested, begun)
        limit = rng.randint(1, tested.sizes[-1]) if draw < 0.5 else None
        return refused(tested, begun, Fault(file_size_limit=limit) if limit else next(_points(command, ("full", "broken"))))

    return one_round


def starters_check(command: Command) -> Round:
    """Eight at once, one of which is killed."""

    def one_round(_: random.Random, folder: Path) -> Tally:
        return started_together(bench(command), bench(command).begin(folder))

    return one_round


_OF_A_COMMAND: dict[str, Callable[[Command], Round]] = {
    "ended at a call": ended_check,
    "killed": killed_check,
    "refused a write": refused_check,
    "started eight times": starters_check,
}


def counted(one_round: Callable[[random.Random, Path], dict[str, int]]) -> Round:
    """A round that gives its counts by name."""
    return lambda rng, folder: Tally(**one_round(rng, folder))


CHECKS: list[Check] = [
    Check("any file damaged, every reader", counted(damaged.one_round)),
    Check("run folder, kills and damage in any order", counted(machine.one_round)),
    *(Check(f"journal of {name} records, killed", journal_check(*how)) for name, how in SIZES.items()),
    *(Check(f"{command.name}, {what}", made(command)) for command in (*COMMANDS, ART) for what, made in _OF_A_COMMAND.items()),
]
