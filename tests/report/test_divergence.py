from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from gradient_rl.errors import UsageError
from gradient_rl.report.artifacts import Rows, read_rows
from gradient_rl.report.divergence import (
    align,
    aligned_objects,
    counted,
    difference_object,
    differences,
    first_divergence,
    named_pair,
    of_samples,
    preferred,
    side_by_side,
    task_table,
)
from gradient_rl.schema.trajectory import Step, StopReason
from tests.saving import reward, save, scored
from tests.tiny import NOTICE_TASK
from tests.trajectories import opening, searching, trajectory

SEARCH, SECOND = searching("notice", "mail-1"), searching("bakery", "doc-1")
MAIL, DOC = opening("mail-1"), opening("doc-1")


def submitting(answer: str) -> Step:
    return Step(tool="submit_answer", arguments={"answer": answer, "sources": []}, observation="{}")


def text_of(*parts: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_equal_steps_do_not_part() -> None:
    aligned = align((SEARCH, MAIL), (SEARCH, MAIL))

    assert [pair.kind for pair in aligned] == ["same", "same"]
    assert first_divergence(aligned) is None


def test_the_first_different_call_is_the_divergence() -> None:
    aligned = align((SEARCH, MAIL), (SEARCH, DOC))

    assert [pair.kind for pair in aligned] == ["same", "differs"]
    assert first_divergence(aligned) == 1


def test_a_step_that_only_one_made_stands_alone_and_the_rest_stays_aligned() -> None:
    aligned = align((SEARCH, MAIL), (SEARCH, SECOND, DOC, MAIL))

    assert [pair.kind for pair in aligned] == ["same", "only second", "only second", "same"]
    assert (aligned[1].first, aligned[1].second) == (None, SECOND)


def test_the_same_call_with_another_answer_is_told_apart() -> None:
    other = SEARCH.model_copy(update={"observation": '{"hits":[]}'})

    assert align((SEARCH,), (other,))[0].kind == "other answer"


def test_submissions_stand_beside_each_other_however_many_calls_went_before() -> None:
    aligned = align((SEARCH, submitting("30 days")), (SEARCH, SECOND, DOC, submitting("60 days")))

    assert [pair.kind for pair in aligned] == ["same", "only second", "only second", "differs"]
    assert align((submitting("x"),), (submitting("x"),))[0].kind == "same"


def test_a_submission_stands_beside_no_other_call() -> None:
    aligned = align((submitting("30 days"),), (SEARCH,))

    assert [(pair.first, pair.second) for pair in aligned] == [(None, SEARCH), (submitting("30 days"), None)]


def test_aligned_steps_as_plain_data() -> None:
    (only,) = aligned_objects(align((), (MAIL,)))

    assert (only["kind"], only["a"]) == ("only second", None)


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    save(
        tmp_path / "eval.weak.jsonl",
        trajectory(policy="weak", reward=reward(0.0)),
        trajectory(policy="weak", task_id="tiny-2", reward=reward()),
        trajectory(policy="weak", task_id="tiny-3", reward=reward()),
        trajectory(policy="weak", task_id="alone-1", reward=reward()),
    )
    save(
        tmp_path / "eval.strong.jsonl",
        trajectory(policy="strong", sample=1, reward=reward(0.0)),
        trajectory(policy="strong", sample=0, answer=None, stop_reason=StopReason.TRANSPORT_ERROR),
        trajectory(policy="strong", sample=0, attempt=1, reward=reward()),
        trajectory(policy="strong", task_id="tiny-2", reward=reward(0.0)),
        trajectory(policy="strong", task_id="tiny-3", answer=None, stop_reason=StopReason.TRANSPORT_ERROR),
    )
    return read_rows(tmp_path)


def test_tasks_are_ordered_by_what_the_second_gained(rows: Rows) -> None:
    found = differences(rows.rows, "weak", "strong")

    assert [(each.task_id, each.difference) for each in found] == [("tiny-1", 0.25), ("tiny-2", -0.5), ("tiny-3", None)]
    assert counted(found) == "3 tasks in common: 1 better, 0 the same, 1 worse, 1 without a reward on one side"


def test_the_same_sample_of_both_is_compared_and_the_last_attempt_counts(rows: Rows) -> None:
    found = differences(rows.rows, "weak", "strong")[0]

    assert (found.first.id, found.second.id) == ("eval.weak/tiny-1/0", "eval.strong/tiny-1/0.1")
    assert difference_object(found)["b"] == {"id": "eval.strong/tiny-1/0.1", "sample": 0, "reward": 1.0, "mean": 0.75}


@pytest.fixture
def sampled(tmp_path: Path) -> Rows:
    """Samples of one task, of which the two policies differ most in the third."""
    for policy, rewards in (("weak", (1.0, 0.5, 0.0, 0.5)), ("strong", (0.5, 0.5, 1.0, 0.5))):
        episodes = [trajectory(policy=policy, sample=sample, reward=reward(value)) for sample, value in enumerate(rewards)]
        save(tmp_path / f"eval.{policy}.jsonl", *episodes)
    return read_rows(tmp_path)


def test_of_several_samples_the_one_that_differs_most_is_compared(sampled: Rows) -> None:
    (found,) = differences(sampled.rows, "weak", "strong")

    assert (found.first.id, found.second.id) == ("eval.weak/tiny-1/2", "eval.strong/tiny-1/2")
    assert found.difference == pytest.approx(0.0625)
    assert difference_object(found)["samples"] == 4


def test_it_is_said_which_sample_is_shown_and_how_to_see_the_others(sampled: Rows) -> None:
    (found,) = differences(sampled.rows, "weak", "strong")

    assert of_samples(found) == (
        "This is sample 2, one of 4, whose rewards differ most; the means are 0.750 and 0.812 (+0.062). "
        "The others: gradient-inspect diff with eval.weak/tiny-1/0 eval.strong/tiny-1/0; eval.weak/tiny-1/1 "
        "eval.strong/tiny-1/1; eval.weak/tiny-1/3 eval.strong/tiny-1/3."
    )


def test_a_task_that_was_played_once_needs_no_such_sentence(rows: Rows) -> None:
    assert of_samples(differences(rows.rows, "weak", "strong")[0]) == ""


@pytest.fixture
def evaluated(tmp_path: Path) -> Rows:
    """An evaluation of two policies beside a demonstration on another task."""
    for policy in ("weak", "strong"):
        save(tmp_path / f"eval.{policy}.jsonl", trajectory(policy=policy, reward=reward()))
    save(tmp_path / "demo.jsonl", *(trajectory(policy=policy, task_id="demo-1") for policy in ("weak", "strong", "linear")))
    return read_rows(tmp_path)


def test_an_evaluation_is_compared_alone_and_that_is_said(evaluated: Rows) -> None:
    compared, left_out = preferred(evaluated, "weak", "strong")

    assert [row.file.name for row in compared] == ["eval.strong.jsonl", "eval.weak.jsonl"]
    assert left_out == "only the evaluation is compared, without demo.jsonl; --artifacts FILE reads one file alone"


@pytest.mark.parametrize(("second", "task"), [("linear", None), ("strong", "demo-1")])
def test_what_no_evaluation_played_is_compared_where_it_was_played(evaluated: Rows, second: str, task: str | None) -> None:
    assert preferred(evaluated, "weak", second, task) == (evaluated.rows, "")


def test_policies_without_a_common_task_are_refused(rows: Rows) -> None:
    alone = [row for row in rows.rows if row.task_id == "alone-1" or row.policy == "strong"]

    with pytest.raises(UsageError, match="weak and strong have no task in common here"):
        differences(alone, "weak", "strong")


def test_two_names_or_two_ids_are_compared(rows: Rows) -> None:
    assert named_pair(rows, "weak", "strong") == ("weak", "strong")
    pair = named_pair(rows, "weak/tiny-2", "strong/tiny-2")
    assert [row if isinstance(row, str) else row.id for row in pair] == ["eval.weak/tiny-2/0", "eval.strong/tiny-2/0"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("weak", "eval.strong/tiny-2", "'weak' is a policy and 'eval.strong/tiny-2' is none"),
        ("weak/tiny-1", "strong/tiny-2", "give two of the same task"),
        ("weak/tiny-1", "nobody", "there is no trajectory 'nobody'"),
    ],
)
def test_what_cannot_be_compared_is_refused(rows: Rows, first: str, second: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        named_pair(rows, first, second)


def test_a_policy_with_several_checkpoints_has_to_be_named_with_one(tmp_path: Path) -> None:
    save(tmp_path / "demo.jsonl", trajectory(policy="linear", checkpoint="0"), trajectory(policy="linear", checkpoint="7"))
    rows = read_rows(tmp_path)

    assert named_pair(rows, "linear@0", "linear@latest") == ("linear@0", "linear@7")
    with pytest.raises(UsageError, match="'linear' has several checkpoints here; name one of linear@0, linear@7"):
        named_pair(rows, "linear", "linear@7")


def test_the_table_shows_the_whole_question(rows: Rows) -> None:
    shown = text_of(task_table(differences(rows.rows, "weak", "strong"), "weak", "strong"))

    assert "tiny-1  superseded  0.500   0.750  +0.250  How much notice?" in shown


@pytest.mark.parametrize("width", [60, 140])
def test_two_trajectories_stand_aligned_with_the_divergence_marked(width: int) -> None:
    weak = scored(policy="weak", answer="30 days", steps=(SEARCH, DOC))
    strong = scored(policy="strong", steps=(SEARCH, MAIL))
    shown = text_of(*side_by_side(("a/1", "b/1"), (weak, strong), NOTICE_TASK, width), width=width)

    assert shown.count("<- first") == 1
    assert "They part at row 2." in shown
    assert "mail-1 (required)" in shown
    assert "strong earns" in shown


def test_the_same_policy_twice_is_told_apart() -> None:
    pair = scored(answer="30 days"), scored()
    shown = text_of(*side_by_side(("a/1", "b/1"), pair, NOTICE_TASK, 120))

    assert "made (B) earns" in shown
    assert "B - A  +0.70: correctness +0.50" in shown


def test_equal_trajectories_do_the_same_throughout() -> None:
    assert "They do the same throughout." in text_of(*side_by_side(("a", "b"), (scored(), scored()), None, 120))
