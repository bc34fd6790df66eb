"""From outcomes to the content of `eval.json`, with figures calculated by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from gradient_rl.evaluation.compare import comparison_of, evaluation_of
from gradient_rl.evaluation.metrics import Outcome, measure
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.runs import json_line
from gradient_rl.schema.evaluation import Evaluation, EvaluationHead
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Digests, StopReason, Trajectory
from tests.evaluation.playing import heldout_tasks
from tests.trajectories import trajectory

TASKS = [task for task in heldout_tasks(24) if task.family.value == "superseded"]
PROFILE = RewardProfile()
RIGHT = trajectory()
EMPTY = trajectory("", (), ())
FAILED = trajectory(None, (), stop_reason=StopReason.TRANSPORT_ERROR, error="503")


def head(**more: object) -> EvaluationHead:
    fields = {"run_id": "c0ffee", "split": "heldout", "samples": 1, "temperature": 0.0, "seed": 0, "baseline": "old"}
    fields |= {"digests": Digests(), "weights": PROFILE.weights, "require_opened": True, "versions": {"python": "3.12"}}
    return EvaluationHead.model_validate({**fields, **more})


def outcomes(*played: Trajectory, tasks: Sequence[Task] = TASKS, sample: int = 0) -> list[Outcome]:
    pairs = zip(tasks, played, strict=False)
    named = [(task, each.model_copy(update={"task_id": task.id, "sample": sample})) for task, each in pairs]
    return [measure(with_reward(each, task, PROFILE), task, PROFILE) for task, each in named]


def evaluation(old: list[Outcome], new: list[Outcome], **more: object) -> Evaluation:
    return evaluation_of(head(**more), TASKS, {"old": old, "new": new}, [("old", "new")])


def test_six_tasks_gained_of_twelve_are_a_winner() -> None:
    found = comparison_of(
        {"old": outcomes(*[EMPTY] * 12), "new": outcomes(*[RIGHT] * 6, *[EMPTY] * 6)}, ("old", "new"), "reward"
    )

    # Six differences of 1 and six of 0: mean 1/2, sd sqrt(3/11) = 0.5222, t(0.975; 11) = 2.2010, half width 0.3318;
    # of 2^6 sign patterns only all plus and all minus are as far from 0.
    assert (found.better, found.same, found.worse, found.difference) == (6, 6, 0, 0.5)
    assert found.low == pytest.approx(0.1682, abs=1e-4)
    assert found.high == pytest.approx(0.8318, abs=1e-4)
    assert found.p_value == 2 / 64
    assert found.verdict == "better"


def test_a_comparison_names_its_sides_and_its_metric() -> None:
    found = comparison_of({"old": outcomes(RIGHT, EMPTY), "new": outcomes(RIGHT, RIGHT)}, ("old", "new"), "calls")

    assert (found.baseline, found.candidate, found.metric) == ("old", "new", "calls")
    assert found.difference == 0.5  # the same on the first task; 2 calls against 3 on the second


def test_samples_are_averaged_before_policies_are_compared() -> None:
    new = [*outcomes(RIGHT), *outcomes(EMPTY, sample=1)]
    found = comparison_of({"old": outcomes(EMPTY), "new": new}, ("old", "new"), "reward")

    assert (found.n_tasks, found.difference) == (1, 0.5)


def test_the_tasks_that_would_tell_more_are_those_of_the_spread_that_was_seen() -> None:
    found = comparison_of(
        {"old": outcomes(*[EMPTY] * 12), "new": outcomes(*[RIGHT] * 6, *[EMPTY] * 6)}, ("old", "new"), "reward"
    )

    # About ((t(0.975) + t(0.8)) sd / target)^2 = ((1.96 + 0.84) x 0.5222 / 0.2)^2 = 53.5, and a little more for t.
    assert list(found.tasks_needed) == ["0.05", "0.1", "0.2"]
    assert found.tasks_needed["0.2"] == pytest.approx(55, abs=1)


def test_one_failure_in_twelve_gives_no_verdict() -> None:
    found = evaluation(outcomes(*[EMPTY] * 12), outcomes(*[RIGHT] * 11, FAILED)).comparisons[0]

    assert found.verdict is None
    assert (found.n_tasks, found.unpaired) == (11, 1)
    assert found.note == "no verdict: 1 of the candidate's 12 episodes are without a reward, more than 5%"


def test_the_baseline_stands_first_and_every_task_is_listed_with_both_answers() -> None:
    found = evaluation(outcomes(*[EMPTY] * 12), outcomes(*[RIGHT] * 12))
    first = found.tasks[0]

    assert list(found.policies) == ["old", "new"]
    assert [task.id for task in found.tasks] == [task.id for task in TASKS]
    assert (first.policies["old"].answer, first.policies["new"].answer) == ("", "60 days")
    assert (first.policies["old"].reward, first.policies["new"].reward) == (0.0, 1.0)
    assert first.expected == "Since 1 April 2025 K-100 asks for 60 days notice."


def test_a_task_shows_the_answer_of_the_first_sample_that_has_a_reward() -> None:
    new = [*outcomes(FAILED), *outcomes(RIGHT, sample=1)]
    shown = evaluation(outcomes(EMPTY), new, samples=2).tasks[0].policies["new"]

    assert (shown.answer, shown.rewards, shown.reward) == ("60 days", (None, 1.0), 1.0)


def test_a_task_that_only_failed_shows_that() -> None:
    shown = evaluation(outcomes(EMPTY), outcomes(FAILED)).tasks[0].policies["new"]

    assert (shown.answer, shown.rewards, shown.reward) == (None, (None,), None)
    assert (shown.stop_reason, shown.error) == ("transport_error", "503")


def test_the_order_in_which_episodes_ended_changes_nothing() -> None:
    old, new = outcomes(*[EMPTY] * 12), [*outcomes(*[RIGHT, EMPTY] * 6), *outcomes(*[EMPTY] * 12, sample=1)]
    shuffled = random.Random(0).sample(new, len(new))

    assert evaluation(old, shuffled, samples=2) == evaluation(old, new, samples=2)


def test_an_evaluation_survives_its_file() -> None:
    found = evaluation(outcomes(*[EMPTY] * 12), outcomes(*[RIGHT] * 11, FAILED))
    line = json_line(found.model_dump(mode="json"))

    assert Evaluation.model_validate_json(line) == found


def test_the_file_has_the_fields_that_readers_rely_on() -> None:
    written = json.loads(json_line(evaluation(outcomes(EMPTY), outcomes(RIGHT)).model_dump(mode="json")))

    assert written["schema_version"] == 1
    assert set(written) >= {"run_id", "split", "samples", "digests", "policies", "comparisons"}
    assert set(written["policies"]["new"]) == {"n_tasks", "n_episodes", "excluded", "metrics", "families", "behaviours"}
    assert set(written["policies"]["new"]["metrics"]["reward"]) >= {"mean", "low", "high"}
    assert set(written["comparisons"][0]) >= {
        *("baseline", "candidate", "metric", "difference", "low", "high", "p_value"),
        *("better", "same", "worse", "detectable_difference", "verdict"),
    }
