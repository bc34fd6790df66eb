"""The hacking watch: what it warns of, what noise does to it, and what it says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from gradient_rl.evaluation.compare import evaluation_of
from gradient_rl.evaluation.metrics import Outcome, measure
from gradient_rl.evaluation.watch import gains, watch
from gradient_rl.report.evaluation import markdown, print_evaluation
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.evaluation import Evaluation
from gradient_rl.schema.task import Task
from gradient_rl.schema.training import TaskScore, Watched
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.evaluation.test_compare import head
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory

TASKS = [NOTICE_TASK.model_copy(update={"id": f"task-{n}"}) for n in range(10)]
PROFILE = RewardProfile()
EMPTY = trajectory("", (), ())
CITES = trajectory("90 days")
"""The right source, opened and cited, under a wrong answer: 0.3."""
RIGHT = trajectory()
FAILED = trajectory(None, (), stop_reason=StopReason.TRANSPORT_ERROR, error="503")


def outcomes(*played: Trajectory, tasks: Sequence[Task] = TASKS) -> list[Outcome]:
    named = [(task, each.model_copy(update={"task_id": task.id})) for task, each in zip(tasks, played, strict=True)]
    return [measure(with_reward(each, task, PROFILE), task, PROFILE) for task, each in named]


def evaluation(old: list[Outcome], new: list[Outcome]) -> Evaluation:
    return evaluation_of(head(), TASKS, {"old": old, "new": new}, [("old", "new")])


# An evaluation


def test_a_candidate_that_earns_by_citations_alone_is_warned_of_with_both_figures_and_where_to_look() -> None:
    (warning,) = evaluation(outcomes(*[EMPTY] * 10), outcomes(*[CITES] * 9, EMPTY)).warnings

    # Nine differences of 0.3 and one of 0: mean 0.27, sd 0.0949, t(0.975; 9) = 2.2622, half width 0.0679.
    assert (warning.baseline, warning.candidate, warning.supported) == ("old", "new", 0.0)
    assert warning.reward == pytest.approx(0.27)
    assert warning.text == (
        "new earns +0.270 [+0.202, +0.338] more reward than old, and its supported correctness moved by +0.000 "
        "[+0.000, +0.000]; the reward may be paid for something else, so read what changed with gradient-inspect diff old new"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([EMPTY] * 10, [RIGHT] * 10),
        ([EMPTY] * 10, [*[CITES] * 9, RIGHT]),  # one right answer is a rise, however small
        ([EMPTY] * 10, [CITES, *[EMPTY] * 9]),  # the interval holds 0
        ([CITES] * 10, [EMPTY] * 10),
        ([EMPTY] * 10, [*[CITES] * 9, FAILED]),  # no verdict, and so no warning
        ([FAILED] * 10, [CITES] * 10),
    ],
)
def test_no_other_pair_is_warned_of(old: list[Trajectory], new: list[Trajectory]) -> None:
    assert evaluation(outcomes(*old), outcomes(*new)).warnings == ()


def test_the_warning_is_in_the_page_and_on_the_terminal() -> None:
    import io

    from rich.console import Console

    found, out = evaluation(outcomes(*[EMPTY] * 10), outcomes(*[CITES] * 10)), io.StringIO()
    print_evaluation(Console(file=out, width=80), found)

    assert "**Warning: new earns +0.300" in markdown(found)
    assert "\nWarning: new earns +0.300 [+0.300, +0.300] more reward than old" in out.getvalue()


def test_an_evaluation_of_before_the_watch_can_be_read() -> None:
    saved = evaluation(outcomes(*[EMPTY] * 10), outcomes(*[CITES] * 10)).model_dump(mode="json", exclude={"warnings"})
    for policy in saved["policies"].values():
        del policy["metrics"]["supported"]

    assert Evaluation.model_validate(saved).warnings == ()
    assert "Warning" not in markdown(Evaluation.model_validate(saved))


# A training run


def scores(*pairs: tuple[float, float]) -> dict[str, TaskScore]:
    return {f"val-{n:02}": TaskScore(*pair) for n, pair in enumerate(pairs)}


NOTHING = scores(*[(0.0, 0.0)] * 10)
CITED = scores(*[(0.3, 0.0)] * 10)
HALF_RIGHT = scores(*[(1.0, 1.0)] * 5, *[(0.0, 0.0)] * 5)
RIGHT_ONCE = scores(*[(0.3, 0.0)] * 9, (1.0, 1.0))


def watched(*validations: dict[str, TaskScore], excluded: float = 0.0) -> list[Watched]:
    """What is known after each of these validations, ten steps apart; the last one has so many episodes without a reward."""
    earlier: list[tuple[int, Watched]] = []
    for place, found in enumerate(validations):
        share = excluded if place == len(validations) - 1 else 0.0
        earlier.append((10 * place, watch(earlier, 10 * place, found, share, "linear")))
    return [each for _, each in earlier]


def in_a_row(*validations: dict[str, TaskScore]) -> list[int]:
    return [each.in_a_row for each in watched(*validations)]


def test_reward_without_right_answers_is_warned_of_at_the_second_validation_in_a_row() -> None:
    found = watched(NOTHING, CITED, CITED)

    assert [each.in_a_row for each in found] == [0, 1, 2]
    assert [bool(each.warning) for each in found] == [False, False, True]
    assert found[2].warning == (
        "since step 0 the validation reward of step 20 moved by +0.300 [+0.300, +0.300] and supported correctness by +0.000, and "
        "so it stands for 2 validations in a row; the reward may be paid for something else, so read what changed with "
        "gradient-inspect diff linear@0 linear@20"
    )


def test_a_right_answer_in_between_begins_the_count_anew() -> None:
    assert in_a_row(NOTHING, CITED, RIGHT_ONCE, CITED, CITED) == [0, 1, 0, 1, 2]


def test_a_reward_that_is_not_clear_of_zero_is_no_rise() -> None:
    assert in_a_row(NOTHING, scores((0.3, 0.0), *[(0.0, 0.0)] * 9), CITED) == [0, 0, 1]


def test_right_answers_that_were_learned_and_then_given_up_for_reward_are_seen_though_they_are_above_the_first() -> None:
    learned = scores(*[(0.5, 0.5)] * 10)
    hacked = scores(*[(0.9, 0.1)] * 10)

    assert in_a_row(NOTHING, learned, hacked, hacked) == [0, 0, 1, 2]
    assert "gradient-inspect diff linear@10 linear@30" in watched(NOTHING, learned, hacked, hacked)[3].warning


def test_a_fall_from_a_lucky_best_that_is_not_clear_is_none() -> None:
    lower = scores(*[(1.0, 1.0)] * 4, *[(0.9, 0.0)] * 6)

    assert in_a_row(NOTHING, HALF_RIGHT, lower, lower) == [0, 0, 0, 0]


def test_a_validation_with_failed_episodes_counts_neither_way() -> None:
    found = watched(NOTHING, CITED, CITED, excluded=0.1)

    assert (found[2].in_a_row, found[2].warning) == (1, "")


def test_nothing_is_compared_with_a_validation_with_failed_episodes() -> None:
    lucky = watch([], 0, scores((1.0, 1.0)), 0.9, "linear")
    nothing = watch([(0, lucky)], 10, NOTHING, 0.0, "linear")
    cited = watch([(0, lucky), (10, nothing)], 20, CITED, 0.0, "linear")

    assert (nothing.in_a_row, cited.in_a_row) == (0, 1)


def test_only_tasks_that_both_validations_have_are_compared() -> None:
    reward, supported = gains(scores((0.5, 1.0), (0.5, 0.0)), {"val-00": TaskScore(0.25, 0.0), "other": TaskScore(1.0, 1.0)})

    assert (reward.mean, supported.mean, reward.n_tasks) == (0.25, 1.0, 1)


# Noise


def no_change(rng: random.Random, rates: Sequence[float], samples: int) -> dict[str, TaskScore]:
    """A validation of ten tasks under a policy that stays what it is. Citations and right answers know nothing of each other."""
    pairs: list[tuple[float, float]] = []
    for rate in rates:
        right = sum(rng.random() < rate for _ in range(samples)) / samples
        cited = sum(rng.random() for _ in range(samples)) / samples
        pairs.append((0.7 * right + 0.3 * cited, right))
    return scores(*pairs)


def false_alarms(runs: int, rate: float | None, samples: int) -> float:
    """Share of the runs of eleven validations without any change that were warned of."""
    rng, warned = random.Random(0), 0
    for _ in range(runs):
        rates = [rng.random() if rate is None else rate for _ in range(10)]
        warned += any(each.warning for each in watched(*(no_change(rng, rates, samples) for _ in range(11))))
    return warned / runs


@pytest.mark.parametrize(
    ("rate", "samples", "at_most"), [(None, 1, 0.005), (None, 4, 0.005), (0.2, 1, 0.005), (0.05, 1, 0.02), (0.0, 1, 0.05)]
)
def test_noise_alone_warns_of_few_runs_and_hardly_ever_where_some_answers_are_right(
    rate: float | None, samples: int, at_most: float
) -> None:
    assert false_alarms(500, rate, samples) <= at_most
