"""The artifacts folder when processes are killed: what was acknowledged is there, once, at any moment."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gradient_rl
from gradient_rl.runs import Journal, hold_folder, read_journal
from tests import crashing

PROGRAM = Path(crashing.__file__)
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(gradient_rl.__file__).parent.parent)}
WAIT_S = 60


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def kill_after_the_first_record(path: Path, size: int, longest_s: float, rng: random.Random) -> set[int]:
    """Let a process append, kill it at a random moment, and return what it has acknowledged."""
    with start("append_until_killed", path, size) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(rng.uniform(0, longest_s))
        child.kill()
        acknowledged, errors = child.communicate(timeout=WAIT_S)
    assert not errors
    return {int(n) for n in (first + acknowledged).split("\n")[:-1]}


def sweep(folder: Path, rounds: int, size: int, longest_s: float, rounds_a_file: int) -> tuple[int, int]:
    """Kill and reopen, round after round, and check; returns (records acknowledged, torn tails)."""
    rng, total, torn = random.Random(size), 0, 0
    for begin in range(0, rounds, rounds_a_file):
        path = folder / f"run-{begin}.jsonl"
        acknowledged: set[int] = set()
        for _ in range(min(rounds_a_file, rounds - begin)):
            acknowledged |= kill_after_the_first_record(path, size, longest_s, rng)
        with Journal(path, key=["n"]) as journal:
            assert {(n,) for n in acknowledged} <= journal.keys
            torn += journal.torn
        records = [(record["n"], record["body"]) for _, record in read_journal(path)]
        assert [n for n, _ in records] == list(range(len(records)))
        assert all(text == crashing.body(n, size) for n, text in records if isinstance(n, int))
        total += len(acknowledged)
        path.unlink()
    return total, torn


SIZES = pytest.mark.parametrize(
    ("size", "longest_s", "rounds_a_file"),
    [(1_000, 0.03, 30), (100_000, 0.06, 10), (4_000_000, 0.15, 3)],
    ids=["1KB", "100KB", "4MB"],
)


@SIZES
def test_no_acknowledged_record_is_lost_or_doubled_by_a_kill(
    tmp_path: Path, size: int, longest_s: float, rounds_a_file: int
) -> None:
    total, _ = sweep(tmp_path, 10, size, longest_s, rounds_a_file)
    assert total >= 10


@pytest.mark.slow
@SIZES
def test_no_acknowledged_record_is_lost_or_doubled_by_300_kills(
    tmp_path: Path, size: int, longest_s: float, rounds_a_file: int
) -> None:
    total, torn = sweep(tmp_path, 300, size, longest_s, rounds_a_file)
    sys.stdout.write(f"{size} bytes: 300 kills, {total} records acknowledged, {torn} torn tails\n")
    assert total >= 300


@pytest.mark.parametrize(("program", "at_least"), [("sweep_journal", 300), ("sweep_archive", 150)])
def test_an_end_at_any_system_call_and_again_at_any_of_the_repair_loses_nothing(
    tmp_path: Path, program: str, at_least: int
) -> None:
    output, errors = start(program, tmp_path).communicate(timeout=WAIT_S)
    assert not errors
    assert int(output) >= at_least


def test_the_file_size_limit_ends_in_a_clear_error_and_whole_files(tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_bytes(b"old")
    child = start("meet_the_file_size_limit", tmp_path, 10_000)
    acknowledged, errors = child.communicate(timeout=WAIT_S)
    assert child.returncode == 74
    whole, journal = errors.splitlines()
    assert whole.startswith(f"{tmp_path}/eval.json cannot be written: File too large; raise the file size limit")
    assert journal.startswith(f"{tmp_path}/eval.jsonl cannot be written: File too large; raise the file size")
    assert (tmp_path / "eval.json").read_bytes() == b"old"
    assert {p.name for p in tmp_path.iterdir()} == {"eval.json", "eval.jsonl"}
    assert [r["n"] for _, r in read_journal(tmp_path / "eval.jsonl")] == [int(n) for n in acknowledged.split()]


def test_of_eight_starters_one_runs_and_the_others_say_who_holds_the_folder(tmp_path: Path) -> None:
    starters = [start("hold_until_told", tmp_path) for _ in range(8)]
    deadline = time.monotonic() + WAIT_S
    while sum(starter.poll() is None for starter in starters) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    (holder,) = [starter for starter in starters if starter.poll() is None]
    for starter in starters:
        if starter is not holder:
            output, errors = starter.communicate(timeout=WAIT_S)
            assert (starter.returncode, output) == (75, "")
            assert re.search(rf"is in use by (process {holder.pid}|another process); wait until", errors)
    with start("hold_until_told", tmp_path) as late:
        assert f"in use by process {holder.pid};" in late.communicate(timeout=WAIT_S)[1]
    assert holder.communicate("", timeout=WAIT_S)[0] == "held\n"
    assert holder.returncode == 0


def test_killing_the_holder_frees_the_folder(tmp_path: Path) -> None:
    with start("hold_until_told", tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    assert (tmp_path / ".lock.pid").exists()
    with hold_folder(tmp_path):
        pass
