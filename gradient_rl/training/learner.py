"""A learner: what turns groups of scored trajectories into a better policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from gradient_rl.policies.base import Policy
from gradient_rl.schema.trajectory import Group, Trajectory


class Learner(Protocol):
    """The one interface between the loop and whatever learns. Its state is that of a step: 0 before training."""

    @property
    def name(self) -> str:
        """Name of the policy that learns."""
        ...

    @property
    def model(self) -> str | None:
        """Name of the model behind it, if there is one."""
        ...

    def policy(self, temperature: float) -> Policy:
        """The policy at the present state; 0 is greedy."""
        ...

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        """Learn from groups whose rewards differ, and become the state of `step`.

        Args:
            step: the step that the groups were rolled out in.
            groups: perhaps none, and then nothing is learned.

        Returns:
            What was measured, by name: loss terms, entropy.

        Raises:
            GradientError: the learner or its service failed; no state was saved.
        """
        ...

    async def checkpoint(self, step: int) -> str | None:
        """Make the present state durable, and give its label; None for a learner that keeps no states."""
        ...

    async def restore(self, step: int) -> None:
        """Go back to the state that was saved for a step.

        Raises:
            NothingToReadError: there is none.
            DataError: it is damaged.
        """
        ...

    async def retain(self, steps: Sequence[int]) -> None:
        """Forget every saved state but those of these steps."""
        ...

    def learned(self) -> Mapping[str, float]:
        """The largest weights by name; empty where weights have no names."""
        ...

    async def close(self) -> None:
        """Let go of clients and servers."""
        ...


type OnGradient = Callable[[int, int], None]
"""Told how many gradient steps of a warm start are done, and of how many."""


@runtime_checkable
class WarmLearner(Learner, Protocol):
    """A learner that can first imitate examples. The state after that has the label `warm`, and `retain` always keeps it."""

    async def warm_start(self, trajectories: Sequence[Trajectory], told: OnGradient) -> Mapping[str, float]:
        """Learn to say what was said in these, from the state of step 0.

        Args:
            trajectories: at least one.
            told: of each gradient step, where the service tells of them.

        Returns:
            What was measured, by name.

        Raises:
            GradientError: the learner or its service failed; no state was saved.
        """
        ...

    async def checkpoint_warm(self) -> str:
        """Make the present state durable as the one after the warm start, and give its label."""
        ...

    async def restore_warm(self) -> None:
        """Go back to the state after the warm start; the errors are those of `restore`."""
        ...
