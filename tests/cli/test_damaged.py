"""Damaged files: whatever a file holds, every command that reads it ends with one sentence, and nothing else is touched."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradient_rl.schema.training import Training
from tests import tiny
from tests.torture import damaged
from tests.torture.damaged import Command, Ran, check, run, state

ROOT = Path(tiny.__file__).parent.parent
ARTIFACTS = ("--artifacts", "artifacts")
DATA = ("--data", "data")


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A folder with data and artifacts, not to be written to; in memory where there is one, for an fsync costs nothing there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield damaged.make(Path(folder) / "made")


@pytest.fixture
def folder(made: Path) -> Iterator[Path]:
    copy = made.with_name("copy")
    yield shutil.copytree(made, copy)
    shutil.rmtree(copy)


def held(command: Command, folder: Path, name: str) -> Ran:
    """Run a command on a folder in which a file was damaged, and hold it to the law."""
    before = state(folder)
    ran = run(command, folder)
    check(command, name, before, state(folder), ran)
    return ran


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@settings(max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_whatever_a_file_holds_a_command_says_one_sentence_and_loses_nothing(made: Path, seed: int) -> None:
    damaged.one_case(random.Random(seed), made, made.with_name("drawn"))


@pytest.mark.parametrize("name", list(damaged.READERS))
def test_a_folder_in_a_files_place_is_told_by_the_files_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()

    assert held(damaged.READERS[name][-1], folder, name).code in (0, 2, 65, 66, 74)


# An evaluation that is resumed


def test_a_damaged_line_costs_the_page_and_never_the_result(folder: Path) -> None:
    trajectories = folder / "artifacts/eval.weak.jsonl"
    first, *rest = lines(trajectories)
    trajectories.write_bytes(b"".join([json.dumps({**json.loads(first), "choices": -0.5}).encode() + b"\n", *rest]))
    ran = run(damaged.EVAL_RESUME, folder)

    assert ran.code == 0, ran.err
    assert "warning: eval.html was not made: artifacts/eval.weak.jsonl line 1 is not a trajectory" in ran.err
    assert not (folder / "artifacts/eval.html").exists()
    assert "eval.html" not in ran.out


# A training that is resumed


def test_a_lost_line_of_the_metrics_is_told_where_it_is_missing(folder: Path) -> None:
    metrics = folder / "artifacts/train.metrics.jsonl"
    metrics.write_bytes(b"".join(lines(metrics)[:2] + lines(metrics)[3:]))
    ran = held(damaged.TRAIN_RESUME, folder, "artifacts/train.metrics.jsonl")

    assert ran.code == 65
    assert ran.err.startswith("error: artifacts/train.metrics.jsonl tells of step 3 of run ")
    assert "where step 2 of " in ran.err


def test_lost_last_lines_of_the_metrics_are_made_again_from_the_episodes_that_are_there(folder: Path) -> None:
    metrics, trajectories = folder / "artifacts/train.metrics.jsonl", folder / "artifacts/train.trajectories.jsonl"
    whole, episodes = lines(metrics), trajectories.read_bytes()
    metrics.write_bytes(b"".join(whole[:2]))
    ran = run(Command("train", ("--config", "config.toml", "--resume", *ARTIFACTS, *DATA)), folder)

    assert (ran.code, ran.err) == (0, "")
    assert trajectories.read_bytes() == episodes
    timeless = [{**json.loads(line), "seconds": {}} for line in lines(metrics)]
    assert timeless == [{**json.loads(line), "seconds": {}} for line in whole]


def test_a_training_whose_checkpoint_is_damaged_is_left_as_it_was(folder: Path) -> None:
    (folder / "artifacts/checkpoints/linear-000003.json").write_bytes(b"{")
    before = state(folder)

    assert run(damaged.TRAIN_RESUME, folder).code == 65
    assert state(folder) == before
    Training.model_validate_json((folder / "artifacts/train.json").read_bytes())


def test_what_cannot_be_removed_is_named_and_the_rest_is_left(folder: Path) -> None:
    (folder / "artifacts/train.json").unlink()
    (folder / "artifacts/train.json").mkdir()
    before = state(folder)
    ran = run(damaged.TRAIN_RESUME, folder)

    assert (ran.code, ran.err) == (74, "error: artifacts/train.json cannot be used: Is a directory; check that path\n")
    assert state(folder) == before


# What a damaged file is called


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (b"[" * 100_000, "its brackets are nested too deeply"),
        (b"1" * 400, "a number has 400 digits"),
        (b"1e400", "the number 1e400 is too large"),
        (b"NaN", "NaN is no JSON"),
        (b'"\xff"', "is not UTF-8"),
        (b"null", "is None, and must be a finite number"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said_in_plain_words(folder: Path, weight: bytes, said: str) -> None:
    name = "artifacts/checkpoints/linear-000003.json"
    path = folder / name
    path.write_bytes(
        path.read_bytes().replace(b'"move.bias":0.0', b'"move.bias":' + weight, 1).replace(b":0.0", b":" + weight, 1)
    )
    ran = held(Command("eval", ("--policy", "linear@latest", *ARTIFACTS, *DATA)), folder, name)

    assert ran.code == 65
    assert said in ran.err


def test_an_evaluation_does_not_fail_because_the_training_beside_it_is_damaged(folder: Path) -> None:
    (folder / "artifacts/train.json").write_bytes(b"{}")
    ran = held(damaged.EVAL_ANEW, folder, "artifacts/train.json")

    assert ran.code == 0
    assert "The training beside it is left out" in (folder / "artifacts/eval.html").read_text("utf-8")
    warned = held(damaged.REPORT, folder, "artifacts/train.json")
    assert warned.code == 0
    assert warned.err.startswith("warning: artifacts/train.json line 1 is not what gradient-train writes")


def test_rescoring_a_damaged_file_says_that_one_side_alone_has_a_reward(folder: Path) -> None:
    weak = folder / "artifacts/eval.weak.jsonl"
    weak.write_bytes(b"".join(line for line in lines(weak) if b'"task_id":"held-01"' not in line))
    ran = run(damaged.RESCORE, folder)

    assert ran.code == 0
    assert "1 task left out, for which only one side has a reward" in " ".join(ran.out.split())


def test_a_number_that_is_none_in_a_trajectory_is_a_damaged_line_to_every_reader(folder: Path) -> None:
    name = "artifacts/eval.weak.jsonl"
    path = folder / name
    path.write_bytes(path.read_bytes().replace(b'"choices":[]', b'"choices":[{"logprobs":[NaN]}]', 1))

    for command in (Command("inspect", ("list", "--json", "--artifacts", name)), damaged.RESCORE, damaged.EVAL_RESUME):
        assert "warning: artifacts/eval.weak.jsonl line 1 is damaged: NaN is no JSON" in held(command, folder, name).err


# Options and words


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command("eval", ("--temperature", "inf", *ARTIFACTS, *DATA)), "inf is no finite number"),
        (Command("eval", ("--temperature", "nan", *ARTIFACTS, *DATA)), "Invalid value for '--temperature'"),
        (Command("eval", ("--tasks", "", *ARTIFACTS, *DATA)), "--tasks '' names no task"),
        (Command("eval", ("--tasks", " , ", *ARTIFACTS, *DATA)), "--tasks ' , ' names no task"),
        (Command("train", ("--learning-rate", "nan", *ARTIFACTS, *DATA)), "input should be a finite number"),
        (Command("train", ("--max-usd", "inf", "--price-per-million", "1", *ARTIFACTS, *DATA)), "inf is no finite number"),
    ],
    ids=str,
)
def test_an_option_that_says_nothing_is_a_usage_error_and_nothing_is_written(folder: Path, command: Command, said: str) -> None:
    before = state(folder)
    ran = run(command, folder)

    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert state(folder) == before


def test_one_of_a_thing_is_told_as_one(folder: Path) -> None:
    heldout = folder / "data/tasks/heldout.jsonl"
    heldout.write_bytes(lines(heldout)[0])
    small = Command("train", ("--max-steps", "1", "--tasks-per-step", "1", "--group-size", "2", "--artifacts", "new", *DATA))
    once = Command("eval", ("--artifacts", "new", "--policy", "weak", *DATA))

    assert "  1 step, " in run(small, folder).out.splitlines()[0]
    assert run(once, folder).out.startswith("1 held-out task, 1 sample each, seed 0, 1 episode\n")


@pytest.mark.parametrize("command", ["demo", "train", "evaluate", "inspect", "data"])
def test_a_full_device_for_the_help_is_an_io_error(command: str) -> None:
    code = f"{sys.executable} -c 'from gradient_rl.cli.{command} import main; main()' --help > /dev/full"
    ran = subprocess.run(["bash", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 74
    assert ran.stderr == "error: the output cannot be written: No space left on device; give it room, or another place\n"
