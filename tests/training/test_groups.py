from __future__ import annotations

from collections import Counter

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Group, Reward, RewardPart, StopReason
from gradient_rl.training.groups import ALL_ALIKE, ALL_RIGHT, ALL_WRONG, TOO_FEW, sort_groups, tasks_of_step, told
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory

TASKS = [NOTICE_TASK.model_copy(update={"id": f"t{number}"}) for number in range(10)]


def ids(step: int, count: int = 3, seed: int = 0, tasks: list[Task] = TASKS) -> list[str]:
    return [task.id for task in tasks_of_step(tasks, step, count, seed)]


def epoch(number: int, seed: int = 0) -> list[str]:
    """The tasks of three steps of three, in their order; the epochs are counted from 0."""
    return [task for step in (1, 2, 3) for task in ids(3 * number + step, seed=seed)]


# -- which tasks


def test_no_task_comes_twice_within_an_epoch() -> None:
    for number in range(20):
        assert len(set(epoch(number))) == 9


def test_each_epoch_has_an_order_of_its_own() -> None:
    assert len({tuple(epoch(number)) for number in range(20)}) == 20


def test_each_seed_has_an_order_of_its_own() -> None:
    assert len({tuple(epoch(0, seed)) for seed in range(20)}) == 20


def test_a_step_has_the_same_tasks_whenever_it_is_asked_for() -> None:
    straight = [ids(step) for step in range(1, 13)]

    assert [ids(step) for step in reversed(range(1, 13))] == straight[::-1]


def test_the_tasks_left_over_wait_for_another_epoch() -> None:
    seen = Counter(task for number in range(20) for task in epoch(number))

    assert len(seen) == 10
    assert sum(seen.values()) == 180


def test_a_step_of_all_tasks_is_an_epoch() -> None:
    assert sorted(ids(1, count=10)) == sorted(ids(2, count=10)) == sorted(task.id for task in TASKS)


def test_the_tasks_that_it_was_given_keep_their_order() -> None:
    ids(1)

    assert [task.id for task in TASKS] == [f"t{number}" for number in range(10)]


def test_more_tasks_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(UsageError, match="--tasks-per-step is 11, and there are 10 training tasks; give at most 10"):
        ids(1, count=11)


# -- which groups


def reward(total: float, correctness: float | None = None) -> Reward:
    parts = () if correctness is None else (RewardPart(name="correctness", value=correctness, weight=0.5),)
    return Reward(parts=parts, total=total)


def group(*rewards: Reward | None) -> Group:
    played = [
        trajectory(reward=each, stop_reason=StopReason.SUBMITTED if each else StopReason.TRANSPORT_ERROR) for each in rewards
    ]
    return Group(task_id="tiny-1", trajectories=tuple(played))


def test_a_group_whose_rewards_differ_is_used() -> None:
    differing = group(reward(0.2, 0.0), None, reward(0.9, 1.0))

    assert sort_groups([differing]).used == (differing,)
    assert sort_groups([differing]).dropped == {}


@pytest.mark.parametrize(
    ("rewards", "reason"),
    [
        ((reward(0.9, 1.0), reward(0.9, 1.0)), ALL_RIGHT),
        ((reward(0.2, 0.0), reward(0.2, 0.0)), ALL_WRONG),
        ((reward(0.5, 0.5), reward(0.5, 0.5)), ALL_ALIKE),
        ((reward(0.5, 0.0), reward(0.5, 1.0)), ALL_ALIKE),
        ((reward(0.5), reward(0.5)), ALL_ALIKE),
        ((reward(0.9, 1.0), None), TOO_FEW),
        ((None, None), TOO_FEW),
        ((), TOO_FEW),
    ],
)
def test_a_group_without_spread_is_dropped_for_a_reason(rewards, reason: str) -> None:
    assert sort_groups([group(*rewards)]).dropped == {reason: 1}


def test_rounding_is_no_difference() -> None:
    assert sort_groups([group(reward(0.1 + 0.2, 1.0), reward(0.3, 1.0))]).dropped == {ALL_RIGHT: 1}


def in_words(groups: list[Group]) -> str:
    used, dropped = sort_groups(groups)
    return told(len(used), dropped)


def test_dropped_groups_are_told_in_words() -> None:
    right, wrong = group(reward(0.9, 1.0), reward(0.9, 1.0)), group(reward(0.0, 0.0), reward(0.0, 0.0))
    differing = group(reward(0.2), reward(0.4))

    assert in_words([wrong, right, differing, right]) == "3 of 4 groups taught nothing: 2 all right, 1 all wrong"
    assert in_words([differing, differing]) == "all 2 groups differed within"


def test_reasons_come_in_the_same_order_whatever_the_groups_order() -> None:
    wrong, few = group(reward(0.0, 0.0), reward(0.0, 0.0)), group(None)

    assert list(sort_groups([few, wrong]).dropped) == list(sort_groups([wrong, few]).dropped) == [ALL_WRONG, TOO_FEW]


def test_counts_from_a_saved_step_are_told_the_same_way() -> None:
    assert told(7, {ALL_RIGHT: 5}) == "5 of 12 groups taught nothing: 5 all right"
