from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.report.artifacts import Row, read_rows
from gradient_rl.report.inspect import Filters, ordered, players_named, row_object, summary, table
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.saving import reward, save
from tests.trajectories import trajectory

EPISODES = (
    trajectory(policy="weak", reward=reward(0.0, 0.0, 0.0), behaviours=("no_citation",)),
    trajectory(policy="linear", checkpoint="0", task_id="tiny-2", family="lookup", reward=reward(0.0)),
    trajectory(policy="linear", checkpoint="10", reward=reward(), behaviours=("repeated_query",)),
    trajectory(policy="linear", checkpoint="9", answer=None, stop_reason=StopReason.MALFORMED, reward=reward(0.0, 0.0, 0.0)),
    trajectory(policy="heuristic", answer=None, stop_reason=StopReason.TRANSPORT_ERROR),
)


@pytest.fixture
def rows(tmp_path: Path) -> tuple[Row, ...]:
    return read_rows(save(tmp_path / "demo.jsonl", *EPISODES)).rows


def policies(rows: tuple[Row, ...]) -> list[str]:
    return [row.policy for row in rows]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), ["weak", "linear@0", "linear@10", "linear@9", "heuristic"]),
        (Filters(policies=("linear",)), ["linear@0", "linear@10", "linear@9"]),
        (Filters(policies=("linear@latest", "weak")), ["weak", "linear@10"]),
        (Filters(tasks=("tiny-2",)), ["linear@0"]),
        (Filters(families=("lookup",)), ["linear@0"]),
        (Filters(behaviours=("no_citation", "repeated_query")), ["weak", "linear@10"]),
        (Filters(stops=("transport_error",)), ["heuristic"]),
        (Filters(failed=True), ["weak", "linear@0", "linear@9", "heuristic"]),
        (Filters(malformed=True), ["linear@9"]),
        (Filters(below=0.5), ["weak", "linear@9"]),
        (Filters(below=0.0), []),
        (Filters(policies=("linear",), failed=True, below=0.6), ["linear@0", "linear@9"]),
    ],
)
def test_filters_compose(rows: tuple[Row, ...], filters: Filters, expected: list[str]) -> None:
    assert policies(filters.select(rows)) == expected


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (Filters(policies=("strong",)), "there is no policy 'strong' here; there are weak, linear@0"),
        (Filters(policies=("linear@3",)), "there is no policy 'linear@3' here"),
        (Filters(tasks=("tiny-9",)), "--task tiny-9 is not known here; there are tiny-1, tiny-2"),
        (Filters(families=("maths",)), "--family maths is not known here; there are lookup, superseded"),
        (Filters(behaviours=("lazy",)), "--behaviour lazy is not known here; there are repeated_query"),
        (Filters(stops=("bored",)), "--stop bored is not known here; there are submitted, call_limit"),
    ],
)
def test_a_value_that_does_not_exist_is_refused(rows: tuple[Row, ...], filters: Filters, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        filters.select(rows)


def test_the_latest_checkpoint_is_the_highest_number(rows: tuple[Row, ...]) -> None:
    assert players_named(rows, "linear@latest") == ["linear@10"]


def test_a_table_has_a_line_for_each_row(rows: tuple[Row, ...]) -> None:
    lines, cut = table(rows, 120, "…")

    assert lines[0].split() == ["id", "family", "reward", "calls", "ended", "question"]
    assert lines[1] == "demo/weak/tiny-1/0       superseded   0.000      3  submitted        How much notice?"
    assert lines[5].split()[:5] == ["demo/heuristic/tiny-1/0", "superseded", "-", "2", "transport_error"]
    assert not cut


def long_question(text: str, folder: Path) -> tuple[Row, ...]:
    asked: Trajectory = trajectory(question=text)
    return read_rows(save(folder / "demo.jsonl", asked)).rows


def test_a_long_question_is_shortened_and_that_is_said(tmp_path: Path) -> None:
    lines, cut = table(long_question("word " * 40, tmp_path), 90, "…")

    assert cut
    assert lines[1].endswith(" word word w…")
    assert len(lines[1]) == 90


def test_control_codes_and_newlines_of_a_question_stay_out_of_the_table(tmp_path: Path) -> None:
    lines, _ = table(long_question("\x1b[31mred\nnext [bold]", tmp_path), 120, "…")

    assert lines[1].endswith("[31mred next [bold]")


def test_the_summary_counts_what_is_shown(rows: tuple[Row, ...]) -> None:
    assert summary(rows[:2], rows) == "2 of 5 trajectories, mean reward 0.250"
    assert summary(rows, rows) == "5 trajectories, mean reward 0.375, 1 without a reward"


def test_a_row_as_plain_data(rows: tuple[Row, ...]) -> None:
    shown = row_object(rows[2])

    assert shown["id"] == "demo/linear@10/tiny-1/0"
    assert shown["parts"] == {"correctness": 1.0, "citation_quality": 1.0, "efficiency": 1.0}


def test_a_bound_that_is_no_number_is_refused(rows: tuple[Row, ...]) -> None:
    with pytest.raises(UsageError, match="--below nan is no number that a reward could be below"):
        Filters(below=float("nan")).select(rows)


def test_rows_are_ordered_by_task_then_policy_then_sample(tmp_path: Path) -> None:
    second, first = trajectory(policy="weak", sample=10), trajectory(policy="weak", sample=9)
    rows = read_rows(save(tmp_path / "demo.jsonl", second, first, *reversed(EPISODES))).rows

    assert [(row.task_id, row.policy, row.sample) for row in ordered(rows)] == [
        ("tiny-1", "heuristic", 0),
        ("tiny-1", "linear@9", 0),
        ("tiny-1", "linear@10", 0),
        ("tiny-1", "weak", 0),
        ("tiny-1", "weak", 9),
        ("tiny-1", "weak", 10),
        ("tiny-2", "linear@0", 0),
    ]


def test_one_trajectory_is_one(rows: tuple[Row, ...]) -> None:
    assert summary(rows[:1], rows[:1]) == "1 trajectory, mean reward 0.000"
    assert summary((), rows[:1]) == "0 of 1 trajectory"
