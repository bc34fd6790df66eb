"""Groups of a step: which tasks they are of, which of them can teach anything, and in words why the others cannot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gradient_rl.errors import UsageError
from gradient_rl.rewards.advantages import MIN_SPREAD, spread
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Group

ALL_RIGHT = "all right"
ALL_WRONG = "all wrong"
ALL_ALIKE = "all alike"
TOO_FEW = "too few with a reward"


class Sorted(NamedTuple):
    """The groups of a step, sorted by whether they teach anything."""

    used: tuple[Group, ...]
    dropped: Mapping[str, int]
    """Number of the others by reason."""


def tasks_of_step(tasks: Sequence[Task], step: int, count: int, seed: int) -> list[Task]:
    """The tasks of a step, counted from 1. No task comes twice within an epoch, and each epoch has an order of its own.

    An epoch ends with its last full step: the tasks left over, fewer than `count`, wait for the next one.

    Raises:
        UsageError: there are fewer tasks than one step takes.
    """
    per_epoch = len(tasks) // count
    if not per_epoch:
        raise UsageError(f"--tasks-per-step is {count}, and there are {len(tasks)} training tasks; give at most {len(tasks)}")
    epoch, place = divmod(step - 1, per_epoch)
    order = list(tasks)
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order[place * count : (place + 1) * count]


def sort_groups(groups: Sequence[Group]) -> Sorted:
    """Keep the groups whose rewards differ: where all are alike, every advantage is 0."""
    used = [group for group in groups if spread(group.rewards) >= MIN_SPREAD]
    reasons = Counter(_reason(group) for group in groups if spread(group.rewards) < MIN_SPREAD)
    return Sorted(tuple(used), dict(sorted(reasons.items())))


def told(used: int, dropped: Mapping[str, int]) -> str:
    """Say how many groups taught nothing, and why: `7 of 12 groups taught nothing: 5 all right, 2 all wrong`."""
    lost = sum(dropped.values())
    if not lost:
        return f"all {used} groups differed within" if used != 1 else "the one group differed within"
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    return f"{lost} of {used + lost} group{'s' * (used + lost != 1)} taught nothing: {reasons}"


def _reason(group: Group) -> str:
    rewards = [trajectory.reward for trajectory in group.trajectories if trajectory.reward]
    if len(rewards) < 2:
        return TOO_FEW
    correct = {part.value for reward in rewards for part in reward.parts if part.name == "correctness"}
    if correct == {1.0}:
        return ALL_RIGHT
    return ALL_WRONG if correct == {0.0} else ALL_ALIKE
