"""The learner that learns nothing: it says what the ART learner would have sent, and writes it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradient_rl.policies.base import Policy
from gradient_rl.policies.catalog import Entry
from gradient_rl.runs import Journal
from gradient_rl.schema.trajectory import Group
from gradient_rl.training.payload import art_group, payload_size


class DryRunLearner:
    """Plays with a policy that has no state, and keeps each step's groups as the JSON that would be posted."""

    model = None

    def __init__(self, entry: Entry, payload: Path) -> None:
        self._entry = entry
        self._payload = payload

    @property
    def name(self) -> str:
        """See `Learner.name`."""
        return self._entry.name

    def policy(self, temperature: float) -> Policy:
        """See `Learner.policy`."""
        return self._entry.make(temperature, None)

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        """Measure what would be sent; `payload` holds it, a line a step."""
        size = payload_size(groups)
        with Journal(self._payload, ("step",)) as journal:
            if (step,) not in journal.keys:  # a run that was killed after this line had been written
                journal.append({"step": step, "trajectory_groups": [art_group(group) for group in groups]})
        return {
            "payload_groups": float(size.groups),
            "payload_trajectories": float(size.trajectories),
            "payload_trainable": float(size.trainable),
            "payload_sampled_tokens": float(size.sampled_tokens),
            "payload_prompt_tokens": float(size.prompt_tokens),
            "payload_tokens_estimated": float(size.estimated),
            "payload_bytes": float(size.bytes),
        }

    async def checkpoint(self, step: int) -> None:
        """See `Learner.checkpoint`: there is nothing to save."""

    async def restore(self, step: int) -> None:
        """See `Learner.restore`: there is nothing to go back to."""

    async def retain(self, steps: Sequence[int]) -> None:
        """See `Learner.retain`: there is nothing to forget."""

    def learned(self) -> Mapping[str, float]:
        """See `Learner.learned`: nothing."""
        return {}

    async def close(self) -> None:
        """See `Learner.close`."""
