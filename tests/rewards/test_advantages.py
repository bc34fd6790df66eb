from __future__ import annotations

from math import fsum, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradient_rl.rewards.advantages import EPSILON, MIN_SPREAD, Estimator, advantages, spread

EVERY = pytest.mark.parametrize("estimator", list(Estimator))

# Rewards are multiples of 0.001, as sums of rounded parts are, so a group either differs by 0.001 or not at all.
rewards = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
groups = st.lists(rewards, min_size=2, max_size=16)
differing = groups.filter(lambda group: len(set(group)) > 1)
estimators = st.sampled_from(list(Estimator))


def of(group, estimator: Estimator) -> list[float]:
    made = advantages(group, estimator)
    assert None not in made
    return [value for value in made if value is not None]


# The mean of 1, 0, 0.5, 0.5 is 0.5, and its deviation is the square root of (0.25 + 0.25) / 4.
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Estimator.GROUP_MEAN, [0.5, -0.5, 0.0, 0.0]),
        (Estimator.GROUP_STD, [0.5 / 0.353554390593, -0.5 / 0.353554390593, 0.0, 0.0]),
        (Estimator.LEAVE_ONE_OUT, [1 - 1 / 3, 0 - 2 / 3, 0.0, 0.0]),
    ],
)
def test_each_estimator_gives_what_a_hand_calculation_gives(estimator: Estimator, expected: list[float]) -> None:
    assert of([1.0, 0.0, 0.5, 0.5], estimator) == pytest.approx(expected, abs=1e-9)


def test_the_deviation_is_that_of_the_group_itself() -> None:
    assert of([1.0, 0.0], Estimator.GROUP_STD) == [0.5 / (0.5 + EPSILON), -0.5 / (0.5 + EPSILON)]


def test_group_std_is_what_is_meant_when_nothing_is_said() -> None:
    assert advantages([1.0, 0.0, 0.25]) == advantages([1.0, 0.0, 0.25], Estimator.GROUP_STD)


@EVERY
def test_a_sample_without_a_reward_has_no_advantage_and_counts_for_nothing(estimator: Estimator) -> None:
    first, second, third = advantages([1.0, 0.0, 0.25], estimator)

    assert advantages([1.0, None, 0.0, 0.25, None], estimator) == [first, None, second, third, None]


@EVERY
def test_a_single_reward_is_compared_with_nothing(estimator: Estimator) -> None:
    assert advantages([0.7], estimator) == [0.0]
    assert advantages([None, 0.7], estimator) == [None, 0.0]


@EVERY
def test_a_group_without_any_reward_has_no_advantage(estimator: Estimator) -> None:
    assert advantages([None, None], estimator) == [None, None]


@EVERY
def test_rewards_that_differ_by_rounding_alone_teach_nothing(estimator: Estimator) -> None:
    assert 0.1 + 0.2 != 0.3
    assert advantages([0.1 + 0.2, 0.3, 0.3], estimator) == [0.0, 0.0, 0.0]


def test_a_real_difference_teaches() -> None:
    assert of([0.3, 0.3 + 2 * MIN_SPREAD], Estimator.GROUP_MEAN) == pytest.approx([-MIN_SPREAD, MIN_SPREAD])


def test_the_spread_is_the_largest_less_the_smallest() -> None:
    assert spread([0.25, None, 1.0, 0.5]) == 0.75
    assert spread([]) == spread([None]) == spread([0.5]) == 0.0


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(ValueError, match="a group has at least one sample"):
        advantages([])


@EVERY
@pytest.mark.parametrize("reward", [nan, inf, -inf])
def test_a_reward_that_is_no_number_is_refused(estimator: Estimator, reward: float) -> None:
    with pytest.raises(ValueError, match="rewards must be finite"):
        advantages([0.0, None, reward], estimator)
    with pytest.raises(ValueError, match="rewards must be finite"):
        advantages([reward], estimator)


@given(groups, estimators)
def test_advantages_add_up_to_nothing(group, estimator) -> None:
    assert fsum(of(group, estimator)) == pytest.approx(0.0, abs=1e-9)


@given(groups, estimators)
def test_a_better_episode_is_never_worth_less(group, estimator) -> None:
    worth = [value for _, value in sorted(zip(group, of(group, estimator), strict=True))]

    assert worth == sorted(worth)


@given(differing, estimators)
def test_what_is_above_the_mean_is_worth_more_than_nothing(group, estimator) -> None:
    worth = of(group, estimator)

    assert worth[group.index(max(group))] > 0 > worth[group.index(min(group))]


@given(groups, estimators, rewards)
def test_adding_the_same_to_every_reward_changes_nothing(group, estimator, more) -> None:
    assert of([reward + more for reward in group], estimator) == pytest.approx(of(group, estimator), abs=1e-9)


@given(differing, st.floats(1.0, 100.0))
def test_the_scale_of_the_rewards_is_divided_out_but_for_epsilon(group, scale) -> None:
    """A deviation of at least 0.001 / 4, and an epsilon of 1e-6 beside it, move a value by at most 0.5%."""
    scaled = of([scale * reward for reward in group], Estimator.GROUP_STD)

    assert scaled == pytest.approx(of(group, Estimator.GROUP_STD), rel=0.005, abs=1e-9)


@given(groups, st.floats(1.0, 100.0))
def test_the_other_estimators_keep_the_scale(group, scale) -> None:
    for estimator in (Estimator.GROUP_MEAN, Estimator.LEAVE_ONE_OUT):
        expected = [scale * value for value in of(group, estimator)]
        assert of([scale * reward for reward in group], estimator) == pytest.approx(expected, abs=1e-9)


@given(groups)
def test_leave_one_out_is_the_reward_less_the_mean_of_the_others(group) -> None:
    others = [(fsum(group) - reward) / (len(group) - 1) for reward in group]
    expected = [reward - mean for reward, mean in zip(group, others, strict=True)]

    assert of(group, Estimator.LEAVE_ONE_OUT) == pytest.approx(expected, abs=1e-9)


@given(groups)
def test_leave_one_out_is_a_multiple_of_the_centred_reward(group) -> None:
    scale = len(group) / (len(group) - 1)
    expected = [scale * value for value in of(group, Estimator.GROUP_MEAN)]

    assert of(group, Estimator.LEAVE_ONE_OUT) == pytest.approx(expected, abs=1e-12)
