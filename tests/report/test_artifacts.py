from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradient_rl.errors import DataError, NothingToReadError, UsageError
from gradient_rl.report.artifacts import (
    Damage,
    damaged_lines,
    demo_task,
    find,
    find_row,
    load,
    read_evaluation,
    read_metrics,
    read_rows,
    read_training,
    read_trajectories,
    trajectory_files,
)
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.training import StepMetrics
from gradient_rl.schema.trajectory import StopReason
from tests.saving import reward, save
from tests.trajectories import trajectory


def ids_of(folder: Path) -> list[str]:
    return [placed.id for placed in read_trajectories(folder).trajectories]


def test_an_id_is_the_file_the_task_and_the_sample(tmp_path: Path) -> None:
    save(tmp_path / "eval.made.jsonl", trajectory(sample=3), trajectory(sample=3, attempt=1))

    assert ids_of(tmp_path) == ["eval.made/tiny-1/3", "eval.made/tiny-1/3.1"]


def test_an_id_names_the_policy_where_the_file_does_not(tmp_path: Path) -> None:
    save(tmp_path / "demo.jsonl", trajectory(policy="weak"), trajectory(policy="linear", checkpoint="4"))

    assert ids_of(tmp_path) == ["demo/weak/tiny-1/0", "demo/linear@4/tiny-1/0"]


def test_the_file_of_a_checkpoint_says_which_it_is(tmp_path: Path) -> None:
    save(tmp_path / "eval.linear-4.jsonl", trajectory(policy="linear", checkpoint="4"))

    assert ids_of(tmp_path) == ["eval.linear-4/tiny-1/0"]


def test_an_id_of_training_names_the_step(tmp_path: Path) -> None:
    save(tmp_path / "train.trajectories.jsonl", trajectory(step=4, sample=2))

    assert ids_of(tmp_path) == ["train/step-4/tiny-1/2"]


def test_episodes_of_two_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    save(tmp_path / "eval.made.jsonl", trajectory(run_id="a"), trajectory(run_id="b"))

    assert ids_of(tmp_path) == ["eval.made/tiny-1/0", "eval.made/tiny-1/0~2"]


def test_rows_and_records_agree(tmp_path: Path) -> None:
    save(tmp_path / "demo.jsonl", trajectory(), trajectory(sample=1), trajectory(), damaged=["{}", "half"])
    save(tmp_path / "eval.made.jsonl", trajectory(reward=reward(0.0)))
    rows, reading = read_rows(tmp_path), read_trajectories(tmp_path)

    assert [row.id for row in rows.rows] == [placed.id for placed in reading.trajectories]
    assert [load(row) for row in rows.rows] == [placed.trajectory for placed in reading.trajectories]
    assert [d.line for d in rows.damaged] == sorted(d.line for d in reading.damaged) == [3, 4, 5]


def test_a_row_has_what_a_table_needs(tmp_path: Path) -> None:
    save(tmp_path / "demo.jsonl", trajectory(checkpoint="2", reward=reward(0.5), behaviours=("no_citation",)))
    (row,) = read_rows(tmp_path).rows

    assert (row.policy, row.family, row.calls, row.stop_reason) == ("made@2", "superseded", 3, "submitted")
    assert (row.reward, row.behaviours) == (0.75, ("no_citation",))
    assert row.parts == (("correctness", 0.5), ("citation_quality", 1.0), ("efficiency", 1.0))


def test_an_infrastructure_failure_has_a_row_without_a_reward(tmp_path: Path) -> None:
    save(tmp_path / "demo.jsonl", trajectory(answer=None, stop_reason=StopReason.TRANSPORT_ERROR))

    assert read_rows(tmp_path).rows[0].reward is None


@pytest.mark.parametrize("read", [read_rows, read_trajectories])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is damaged: Expecting property name enclosed in double quotes: line 2 column 1 (char 2)"),
        ("[1]", "is not a trajectory: Input should be"),
        ('{"schema_version":2}', "is not a trajectory: field 'schema_version': Input should be 1 (got 2)"),
    ],
)
def test_a_damaged_line_is_named_and_the_rest_is_read(tmp_path: Path, read, line: str, problem: str) -> None:
    file = save(tmp_path / "demo.jsonl", trajectory(), damaged=[line])
    reading = read(tmp_path)
    (damage,) = reading.damaged

    assert (damage.file, damage.line) == (file, 2)
    if read is read_rows:
        assert damage.problem.startswith(problem)
    assert len(reading.rows if read is read_rows else reading.trajectories) == 1


@pytest.mark.parametrize("read", [read_rows, read_trajectories])
def test_a_torn_last_line_is_named(tmp_path: Path, read) -> None:
    file = save(tmp_path / "demo.jsonl", trajectory())
    with file.open("a", encoding="utf-8") as opened:
        opened.write(to_line(trajectory(sample=1))[:200])

    (damage,) = read(tmp_path).damaged

    assert str(damage).startswith(f"{file} line 2 ends without a newline, so it may be cut")


def test_a_line_with_half_a_character_is_read_where_it_is_only_kept(tmp_path: Path) -> None:
    file = save(tmp_path / "demo.jsonl", trajectory(messages=({"role": "user", "content": "HALF"},)))
    file.write_text(file.read_text("utf-8").replace("HALF", "\\ud83d"), "utf-8")
    (row,) = read_rows(tmp_path).rows

    assert load(row).messages[0]["content"] == "\ud83d"


def test_a_file_of_another_tool_is_one_damage_that_says_what_was_expected(tmp_path: Path) -> None:
    save(tmp_path / "eval.made.jsonl", trajectory())
    save(tmp_path / "other.jsonl", damaged=['{"messages":[]}'] * 50)
    (damage,) = read_rows(tmp_path).damaged

    assert damage.file.name == "other.jsonl"
    assert "expected is what gradient-demo, gradient-eval and gradient-train write" in damage.problem


@pytest.mark.parametrize("read", [read_rows, read_trajectories])
def test_a_folder_in_which_nothing_is_a_trajectory_is_refused(tmp_path: Path, read) -> None:
    save(tmp_path / "other.jsonl", damaged=['{"messages":[]}'])

    with pytest.raises(DataError, match="no line of the file is a trajectory: expected is"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_without_artifacts_it_is_said_what_to_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(NothingToReadError, match="run gradient-demo"):
        trajectory_files(tmp_path / name)


def test_an_empty_file_holds_no_trajectory_yet(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="holds no trajectory yet"):
        read_rows(save(tmp_path / "demo.jsonl"))


def test_the_training_metrics_are_no_trajectory_file(tmp_path: Path) -> None:
    file = save(tmp_path / "demo.jsonl", trajectory())
    save(tmp_path / "train.metrics.jsonl", damaged=["{}"])

    assert trajectory_files(tmp_path) == (file,)


@pytest.mark.parametrize("text", ["eval.a/tiny-1/0", "eval.a", "a/tiny-1/0", ".a/tiny"])
def test_a_trajectory_is_found_by_a_piece_of_its_id(tmp_path: Path, text: str) -> None:
    save(tmp_path / "eval.a.jsonl", trajectory(policy="a"))
    save(tmp_path / "eval.b.jsonl", trajectory(policy="b"))

    assert find(read_trajectories(tmp_path), text).policy == "a"
    assert find_row(read_rows(tmp_path), text).policy == "a"


def test_a_piece_that_fits_several_ids_lists_them(tmp_path: Path) -> None:
    save(tmp_path / "eval.a.jsonl", trajectory(policy="a"), trajectory(policy="a", sample=1))

    with pytest.raises(UsageError, match=r"'eval' fits 2 trajectories \(eval.a/tiny-1/0, eval.a/tiny-1/1\)"):
        find_row(read_rows(tmp_path), "eval")


def test_an_unknown_id_names_the_nearest(tmp_path: Path) -> None:
    save(tmp_path / "eval.a.jsonl", trajectory(policy="a"))

    with pytest.raises(UsageError, match=r"there is no trajectory 'eval.a/tiny-7/0'; there are eval.a/tiny-1/0"):
        find_row(read_rows(tmp_path), "eval.a/tiny-7/0")


def test_summaries_that_are_not_there_are_none(tmp_path: Path) -> None:
    assert (read_evaluation(tmp_path), read_training(tmp_path), demo_task(tmp_path)) == (None, None, None)
    assert read_metrics(tmp_path) == ((), ())


def test_a_damaged_summary_names_its_writer(tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_text("{}")

    with pytest.raises(DataError, match="eval.json is not what gradient-eval writes: field 'run_id': Field required"):
        read_evaluation(tmp_path)


def test_the_demonstrated_task_is_known(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(json.dumps({"task": {"id": "train-01"}}))

    assert demo_task(tmp_path) == "train-01"


def test_damaged_metrics_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    file = tmp_path / "train.metrics.jsonl"
    steps = [StepMetrics(run_id="r", step=step) for step in (1, 0)]
    file.write_text("".join(map(to_line, steps)) + "{}\n")
    found, damaged = read_metrics(tmp_path)

    assert [m.step for m in found] == [0, 1]
    assert damaged[0] == Damage(file, 3, "is no training step: field 'run_id': Field required")


def test_chats_that_were_exported_into_the_folder_are_passed_over(tmp_path: Path) -> None:
    save(tmp_path / "chats.jsonl", damaged=['{"messages":[],"tools":[]}', "{}"])
    save(tmp_path / "demo.jsonl", trajectory())

    assert [file.name for file in trajectory_files(tmp_path)] == ["demo.jsonl"]
    assert read_rows(tmp_path).damaged == ()


def test_damaged_lines_of_all_files_are_gathered(tmp_path: Path) -> None:
    assert damaged_lines(tmp_path) == ()
    save(tmp_path / "train.metrics.jsonl", damaged=["{}"])
    save(tmp_path / "demo.jsonl", trajectory(), damaged=["{}", "no"])
    save(tmp_path / "other.jsonl", damaged=["{}", "{}"])
    found = [(damage.file.name, damage.line) for damage in damaged_lines(tmp_path)]

    assert found == [("demo.jsonl", 2), ("demo.jsonl", 3), ("other.jsonl", 1), ("train.metrics.jsonl", 1)]
