"""Metrics of made-up trajectories, every expected value by hand."""

from __future__ import annotations

import pytest

from gradient_rl.evaluation.metrics import (
    Outcome,
    by_task,
    last_attempts,
    measure,
    measured,
    metric_names,
    policy_result,
    supported_of,
)
from gradient_rl.rewards.profile import RewardProfile, submission_of
from gradient_rl.rewards.supported import supported_correctness
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.task import Derivation
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.tiny import NOTICE_TASK
from tests.trajectories import opening, searching, trajectory

PROFILE = RewardProfile()


def outcome(played: Trajectory, **more: object) -> Outcome:
    task = NOTICE_TASK.model_copy(update={"id": more.get("task_id", "tiny-1")})
    scored = with_reward(played.model_copy(update=more), task, PROFILE)
    return measure(scored, task, PROFILE)


RIGHT = trajectory()
WRONG = trajectory("90 days", ("doc-2",), ("doc-2",))
FAILED = trajectory(None, (), stop_reason=StopReason.TRANSPORT_ERROR, error="503")
MALFORMED = trajectory(None, (), (), stop_reason=StopReason.MALFORMED)


def values(played: Trajectory) -> dict[str, float]:
    found = outcome(played).values
    assert found is not None
    return dict(found)


def test_a_right_answer_with_its_source_measures_one_throughout() -> None:
    assert values(RIGHT) == {
        "reward": 1.0,
        "correctness": 1.0,
        "citation_f1": 1.0,
        "efficiency": 1.0,
        "citation_precision": 1.0,
        "citation_recall": 1.0,
        "found": 1.0,
        "read": 1.0,
        "cited": 1.0,
        "supported": 1.0,
        "calls": 3.0,
        "malformed": 0.0,
    }


def test_one_wrong_citation_of_two_halves_the_precision_alone() -> None:
    found = values(trajectory(sources=("mail-1", "doc-2"), opened=("mail-1", "doc-2")))

    assert (found["citation_precision"], found["citation_recall"]) == (0.5, 1.0)
    assert found["citation_f1"] == pytest.approx(2 / 3)


def test_a_record_may_be_found_and_not_read_or_read_and_not_cited() -> None:
    seen = values(trajectory("?", (), steps=[searching("a", "mail-1")]))
    read = values(trajectory("?", (), steps=[searching("a", "mail-1"), opening("mail-1")]))

    assert (seen["found"], seen["read"], seen["cited"]) == (1.0, 0.0, 0.0)
    assert (read["found"], read["read"], read["cited"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "sources", "opened", "supported"),
    [
        ("60 days", ("mail-1",), ("mail-1",), 1.0),
        ("60 days", (" MAIL-1 ", "doc-2"), ("mail-1", "doc-2"), 1.0),  # a citation too many takes nothing away
        ("60 days", (), ("mail-1",), 0.0),  # read and not cited
        ("60 days", ("mail-1",), (), 0.0),  # cited and not read
        ("60 days", ("doc-1",), ("mail-1", "doc-1"), 0.0),  # something else cited
        ("90 days", ("mail-1",), ("mail-1",), 0.0),  # cited under a wrong answer
    ],
)
def test_a_right_answer_is_supported_when_its_evidence_was_opened_and_cited(
    answer: str, sources: tuple[str, ...], opened: tuple[str, ...], supported: float
) -> None:
    assert values(trajectory(answer, sources, opened))["supported"] == supported


def test_a_derived_fact_is_supported_when_all_its_records_are_cited_and_each_fact_counts_for_itself() -> None:
    stated = NOTICE_TASK.facts[0]
    derived = stated.model_copy(
        update={
            "id": "tiny-1-f2",
            "value": "90 days",
            "rivals": (),
            "sources": ("mail-1", "doc-2"),
            "derivation": Derivation.model_validate(
                {"operation": "sum", "inputs": [{"record": "mail-1"}, {"record": "doc-2"}]}
            ),
        }
    )
    facts = (stated.model_copy(update={"rivals": ()}), derived)
    task = NOTICE_TASK.model_copy(update={"facts": facts, "required_sources": (("mail-1",), ("doc-2",))})
    half, whole = (
        trajectory("60 days and 90 days", cited, ("mail-1", "doc-2")) for cited in (("mail-1",), ("mail-1", "doc-2"))
    )

    assert [supported_of(each, task) for each in (half, whole)] == [0.5, 1.0]


def test_an_answer_without_evidence_is_not_supported_under_a_profile_that_does_not_ask_for_it() -> None:
    profile = RewardProfile(require_opened=False)
    found = measure(with_reward(trajectory(opened=()), NOTICE_TASK, profile), NOTICE_TASK, profile)

    assert found.values is not None
    assert (found.values["correctness"], found.values["supported"]) == (1.0, 0.0)
    assert supported_correctness(submission_of(trajectory(opened=()), NOTICE_TASK.for_grader(), profile)) == 0.0


@pytest.mark.parametrize("answer", [" ", "-", "..."])
def test_an_answer_without_a_word_cites_for_nothing_in_every_citation_metric(answer: str) -> None:
    found = values(trajectory(answer))

    assert (found["citation_f1"], found["citation_precision"], found["citation_recall"]) == (0.0, 0.0, 0.0)


def test_a_malformed_trajectory_is_counted_and_earns_nothing() -> None:
    found = values(MALFORMED)

    assert (found["malformed"], found["reward"], found["calls"]) == (1.0, 0.0, 1.0)
    assert outcome(MALFORMED).passed is False


def test_an_infrastructure_failure_has_no_values_and_is_neither_passed_nor_failed() -> None:
    found = outcome(FAILED)

    assert (found.values, found.passed, found.reward, found.error) == (None, None, None, "503")


def test_an_answer_passes_when_every_fact_is_stated_whatever_it_cites() -> None:
    assert outcome(trajectory(sources=("doc-2",), opened=("mail-1", "doc-2"))).passed is True
    assert outcome(WRONG).passed is False


def test_an_answer_passes_under_a_profile_that_leaves_correctness_out() -> None:
    profile = RewardProfile(weights={"citation_quality": 1.0})
    found = measure(with_reward(RIGHT, NOTICE_TASK, profile), NOTICE_TASK, profile)

    assert found.passed is True
    assert found.values is not None
    assert "correctness" not in found.values


def test_samples_are_averaged_within_a_task_before_tasks_are_averaged() -> None:
    played = [outcome(RIGHT), outcome(WRONG, sample=1), outcome(RIGHT, task_id="other")]
    found = measured(played, 2)

    assert found.metrics["correctness"].mean == 0.75  # (1/2 + 1) / 2, and not 2/3
    assert (found.n_tasks, found.n_episodes, found.excluded) == (2, 3, 0)


def test_a_mean_has_the_t_interval_of_the_task_means() -> None:
    found = measured([outcome(RIGHT), outcome(WRONG, task_id="other")], 1).metrics["correctness"]

    # mean 0.5, sd 0.7071, t(0.975; 1) = 12.7062, half width 12.7062 x 0.7071 / 1.4142 = 6.3531
    assert found.mean == 0.5
    assert found.low == pytest.approx(-5.8531, abs=1e-4)
    assert found.high == pytest.approx(6.8531, abs=1e-4)


def test_failures_of_the_infrastructure_leave_the_means_and_are_counted_beside_them() -> None:
    found = measured([outcome(RIGHT), outcome(FAILED, sample=1), outcome(FAILED, task_id="other")], 2)

    assert found.metrics["reward"].mean == 1.0
    assert (found.n_tasks, found.n_episodes, found.excluded) == (1, 3, 2)


def test_when_nothing_has_a_reward_there_is_no_mean_and_it_says_so() -> None:
    found = policy_result([outcome(FAILED)], 1)

    assert (found.n_tasks, found.n_episodes, found.excluded) == (0, 1, 1)
    assert found.metrics["reward"].mean is None
    assert found.metrics["reward"].note == "no task is left to average"
    assert found.behaviours["no_citation"].share == 0.0


def test_pass_at_1_and_pass_hat_k_count_right_samples() -> None:
    played = [outcome(RIGHT), outcome(WRONG, sample=1), *(outcome(RIGHT, task_id="other", sample=n) for n in range(2))]
    found = measured(played, 2).metrics

    assert found["pass@1"].mean == 0.75
    assert found["pass^2"].mean == 0.5  # the first task has no two right samples, the second has


def test_one_sample_has_no_pass_hat_k() -> None:
    assert "pass^1" not in measured([outcome(RIGHT)], 1).metrics


@pytest.mark.parametrize("samples", [1, 3])
def test_the_names_of_the_metrics_are_those_that_are_measured(samples: int) -> None:
    assert metric_names(PROFILE, samples) == list(measured([outcome(RIGHT)], samples).metrics)


def test_families_are_measured_on_their_own() -> None:
    found = policy_result([outcome(RIGHT), outcome(WRONG, task_id="other", family="lookup")], 1).families

    assert list(found) == ["lookup", "superseded"]
    assert (found["lookup"].metrics["correctness"].mean, found["superseded"].metrics["correctness"].mean) == (0.0, 1.0)
    assert found["lookup"].n_tasks == 1


def test_behaviours_are_counted_with_what_they_earned() -> None:
    repeated = trajectory(steps=[searching("a", "mail-1"), searching("a", "mail-1"), *RIGHT.steps[1:]])
    found = policy_result([outcome(RIGHT), outcome(repeated, task_id="other")], 1).behaviours["repeated_query"]

    # 4 calls where 3 suffice: efficiency 11/12, total 0.8 + 0.2 x 11/12
    assert (found.episodes, found.share) == (1, 0.5)
    assert found.reward == pytest.approx(0.8 + 0.2 * 11 / 12)


def test_a_behaviour_that_nobody_showed_earns_no_figure() -> None:
    found = policy_result([outcome(RIGHT)], 1).behaviours["malformed"]

    assert (found.episodes, found.share, found.reward) == (0, 0.0, None)


def test_only_the_last_attempt_at_a_sample_counts_in_whatever_order_they_come() -> None:
    again = outcome(RIGHT, attempt=1)

    assert last_attempts([again, outcome(FAILED)]) == last_attempts([outcome(FAILED), again]) == [again]


def test_episodes_are_put_in_the_order_of_task_and_sample() -> None:
    played = [outcome(RIGHT, task_id=task, sample=sample) for task, sample in (("b", 0), ("a", 1), ("a", 0))]

    assert [(o.task_id, o.sample) for o in last_attempts(played)] == [("a", 0), ("a", 1), ("b", 0)]


def test_the_samples_of_a_task_stand_together() -> None:
    played = [outcome(RIGHT), outcome(FAILED, sample=1), outcome(WRONG, task_id="other")]

    assert by_task(played, "correctness") == {"tiny-1": [1.0, None], "other": [0.0]}
