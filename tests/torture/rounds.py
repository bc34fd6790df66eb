"""One round of each promise: a command meets a fault, its folder is looked at, and it goes on. Not a test module."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.torture.child import ARTIFACTS, CRASH, MOMENTS, WAIT_S, Ending, Fault, Process
from tests.torture.commands import Bench, Tally, check, check_at_the_end, check_torn, hold, torn_tails

STARTERS = 8
LONGEST_S = 0.01
"""Seconds within which a kill comes after a line of the log, about as long as two records take."""
IN_USE = re.compile(r"artifacts(/\S+)? is (in use|just being written) by (process \d+|another process); wait until it ends")
SENTENCE = re.compile(r"error: (\S+) (cannot be \w+( for a new run)?|is in use by|is just being written by)[^\n]*\n")

type Round = Callable[[random.Random, Path], Tally]
"""Does something once, in an empty folder, and says what it tried; raises `Found` for what does not hold."""


def ended_at(bench: Bench, folder: Path, faults: list[Fault]) -> Tally:
    """The command ends at a call, is taken up again and perhaps ends once more, and in the end has lost nothing."""
    tally, endings = Tally(rounds=1), list[Ending]()
    for fault in faults:
        ending = bench.play(folder, fault)
        hold("wrong_codes", ending.code in (0, CRASH), (fault, ending.code, ending.errors))
        tally += _looked_at(bench, folder, endings, ending, was_met=ending.code == CRASH)
    return tally + _gone_on(bench, folder, endings)


def killed(bench: Bench, folder: Path, rng: random.Random, times: int) -> Tally:
    """The command is killed at random moments of its work, some times over, and goes on."""
    tally, endings = Tally(rounds=1), list[Ending]()
    for _ in range(times):
        process = Process(bench.command.module, bench.given(folder), folder)
        ending = process.kill_after(rng.randrange(bench.told), rng.uniform(0, LONGEST_S))
        hold("wrong_codes", ending.code in (0, -signal.SIGKILL), (ending.code, ending.errors))
        tally += _looked_at(bench, folder, endings, ending, was_met=ending.code != 0)
    return tally + _gone_on(bench, folder, endings)


def refused(bench: Bench, folder: Path, fault: Fault) -> Tally:
    """The file system refuses: the message names the path, the exit code is 74, and the command can be taken up again."""
    endings = list[Ending]()
    ending = bench.play(folder, fault)
    tally = Tally(rounds=1) + _looked_at(bench, folder, endings, ending, was_met=ending.code != 0)
    hold("wrong_codes", ending.code in (0, 74), (fault, ending.code, ending.errors))
    if ending.code:
        told = SENTENCE.search(ending.errors)
        hold("broken", told and told[1].startswith(ARTIFACTS), (fault, ending.errors))
        left = [path.name for path in (folder / ARTIFACTS).rglob(".*.tmp")]
        hold("broken", not left or fault.kind == "broken", f"left over: {left}")
    return tally + _gone_on(bench, folder, endings)


def without_output(bench: Bench, folder: Path) -> Tally:
    """Stdout takes nothing: the exit code is 74, and the files are all there."""
    ending = bench.play(folder, Fault(output="/dev/full"))
    hold("wrong_codes", ending.code == 74, (ending.code, ending.errors))
    hold("broken", "error: the output cannot be written: No space left on device" in ending.errors, ending.errors)
    endings = list[Ending]()
    tally = Tally(rounds=1) + _looked_at(bench, folder, endings, ending, was_met=True)
    check_at_the_end(bench, folder)
    return tally


def in_short_writes(bench: Bench, folder: Path) -> Tally:
    """No write takes all that it is given, and nothing else comes of it."""
    ending = bench.play(folder, Fault("short"))
    hold("wrong_codes", ending.code == 0, (ending.code, ending.errors))
    endings = list[Ending]()
    tally = Tally(rounds=1) + _looked_at(bench, folder, endings, ending, was_met=True)
    check_at_the_end(bench, folder)
    return tally


def started_together(bench: Bench, folder: Path) -> Tally:
    """Of eight starters one runs; it is killed as it begins to write, and the next one goes on."""
    given, wait = bench.given(folder), Fault("wait")
    starters = [Process(bench.command.module, given, folder, wait, name=f"{number}-") for number in range(STARTERS)]
    ended = _all_but_one(starters)
    holders = [starter.kill() for starter in starters if starter not in ended]
    hold("broken", [holder.waiting for holder in holders] == [True], f"{len(holders)} of {STARTERS} run, and not one")
    for other in ended.values():
        told = [line for line in other.errors.splitlines() if line.startswith("error: ")]
        hold("wrong_codes", other.code == 75, (other.code, other.errors))
        hold("broken", len(told) == 1 and re.search(IN_USE, told[0]), other.errors)
    endings = list[Ending]()
    tally = Tally(rounds=1, faults=STARTERS - 1) + _looked_at(bench, folder, endings, holders[0], was_met=True)
    return tally + _gone_on(bench, folder, endings)


def _all_but_one(starters: list[Process]) -> dict[Process, Ending]:
    """Wait until no more than one is left, and give the others' ends."""
    ended: dict[Process, Ending] = {}
    deadline = time.monotonic() + WAIT_S / 2
    while len(ended) < len(starters) - 1 and time.monotonic() < deadline:
        for starter in starters:
            if starter not in ended and (code := starter.poll()) is not None:
                ended[starter] = starter.ending(code)
        time.sleep(0.002)
    return ended


def _looked_at(bench: Bench, folder: Path, endings: list[Ending], ending: Ending, *, was_met: bool) -> Tally:
    endings.append(ending)
    check(bench, folder, endings)
    return Tally(faults=int(was_met), acknowledged=len(ending.records) + ending.whole)


def _gone_on(bench: Bench, folder: Path, endings: list[Ending]) -> Tally:
    tails = torn_tails(folder) if bench.command.manifest and bench.has_begun(folder) else {}
    ending = bench.play(folder)
    hold("wrong_codes", ending.code == 0, (ending.code, ending.errors))
    tally = _looked_at(bench, folder, endings, ending, was_met=False)
    check_torn(folder, tails)
    check_at_the_end(bench, folder)
    return tally


# Every call


def points(bench: Bench, stride: int = 1) -> list[Fault]:
    """Every `stride`-th of the faults that there are: each call's failures, and an end before, half-way through and after it."""
    kinds = (*MOMENTS, "full", "broken")
    every = [Fault(kind, nth) for nth in range(1, bench.calls + 1) for kind in kinds]
    return every[::stride]


def spread(faults: list[Fault], count: int) -> list[Fault]:
    """So many of them, evenly, and every kind among them."""
    return [faults[int(number * len(faults) / count)] for number in range(count)] if count < len(faults) else faults


def at(bench: Bench, folder: Path, fault: Fault, again: Fault | None = None) -> Tally:
    """One fault of those of `points`; where it ends the process, perhaps another one in the process that goes on."""
    if fault.kind in MOMENTS:
        return ended_at(bench, folder, [fault, *([again] if again else [])])
    return refused(bench, folder, fault)


def shuffled_points(bench: Bench, rng: random.Random) -> Iterator[Fault]:
    """All of them in some order, then again."""
    while True:
        every = points(bench)
        rng.shuffle(every)
        yield from every
