"""Advantages: what each reward is worth within its group. Pure mathematics on one group's rewards.

A group is G samples of one task. Its own mean is the baseline, so no value network is needed: an episode is as good as it is
better than its siblings. Sources: GRPO, Shao et al. 2024 (arXiv 2402.03300), section 4.1.2, outcome supervision; without the
division, Liu et al. 2025 (arXiv 2503.20783); leave-one-out, Kool et al. 2019 and Ahmadian et al. 2024 (arXiv 2402.14740).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import fsum, isfinite, sqrt

EPSILON = 1e-6
"""Added to the deviation before dividing by it, in units of reward."""
MIN_SPREAD = 1e-6
"""Largest minus smallest reward below which a group teaches nothing. Rewards are sums of rounded products, so equal episodes
may differ in their last digits."""


class Estimator(StrEnum):
    """How advantages are computed from the rewards of a group."""

    GROUP_STD = "group_std"
    GROUP_MEAN = "group_mean"
    LEAVE_ONE_OUT = "leave_one_out"


type Rewards = Sequence[float | None]
"""Shape (G,); None for an infrastructure failure, which is no reward."""


def advantages(rewards_G: Rewards, estimator: Estimator = Estimator.GROUP_STD) -> list[float | None]:  # noqa: N803 - axis suffix
    """Advantages of one group by the estimator of that name; None where there is no reward.

    A group without spread has advantages of 0. Shapes: (G,) to (G,).

    Raises:
        ValueError: there is no sample, or a reward is not finite.
    """
    rewards_N = _rewarded(rewards_G)  # noqa: N806
    if spread(rewards_N) < MIN_SPREAD:
        return [None if reward is None else 0.0 for reward in rewards_G]
    worth = iter(_ESTIMATE[estimator](rewards_N))
    return [None if reward is None else next(worth) for reward in rewards_G]


def spread(rewards_G: Rewards) -> float:  # noqa: N803
    """Largest minus smallest reward; 0 where fewer than two samples have one.

    Raises:
        ValueError: a reward is not finite.
    """
    there = [reward for reward in rewards_G if reward is not None]
    if not all(isfinite(reward) for reward in there):
        raise ValueError(f"rewards must be finite: {there}")
    return max(there) - min(there) if len(there) > 1 else 0.0


def divided_by_deviation(rewards_N: Sequence[float]) -> list[float]:  # noqa: N803
    r"""A_i = (r_i - mean(r)) / (std(r) + 1e-6), with the deviation of the group itself (divided by N)."""
    centred_N = less_the_mean(rewards_N)  # noqa: N806
    deviation = sqrt(fsum(value * value for value in centred_N) / len(centred_N))
    return [value / (deviation + EPSILON) for value in centred_N]


def less_the_mean(rewards_N: Sequence[float]) -> list[float]:  # noqa: N803
    """A_i = r_i - mean(r): a hard group with one success counts for no more than its rewards differ."""
    mean = fsum(rewards_N) / len(rewards_N)
    return [reward - mean for reward in rewards_N]


def leave_one_out(rewards_N: Sequence[float]) -> list[float]:  # noqa: N803
    """A_i = r_i - mean of the others, an unbiased baseline; equal to N / (N - 1) times `less_the_mean`."""
    scale = len(rewards_N) / (len(rewards_N) - 1)
    return [scale * value for value in less_the_mean(rewards_N)]


_ESTIMATE = {
    Estimator.GROUP_STD: divided_by_deviation,
    Estimator.GROUP_MEAN: less_the_mean,
    Estimator.LEAVE_ONE_OUT: leave_one_out,
}


def _rewarded(rewards_G: Rewards) -> list[float]:  # noqa: N803
    if not rewards_G:
        raise ValueError("a group has at least one sample")
    return [reward for reward in rewards_G if reward is not None]
