"""A reward profile: which parts a reward has, what each weighs, and the total.

    total = sum of weight x value = 0.50 correctness + 0.30 citation_quality + 0.20 efficiency

A malformed trajectory and one without a submission earn 0; an infrastructure failure has no reward at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from pydantic import Field, model_validator

from gradient_rl.rewards.citations import citation_quality
from gradient_rl.rewards.correctness import correctness
from gradient_rl.rewards.efficiency import efficiency
from gradient_rl.rewards.submission import PartScore, Submission
from gradient_rl.schema.task import Reference
from gradient_rl.schema.trajectory import Reward, RewardPart, StopReason, Trajectory
from gradient_rl.schema.workspace import FrozenRecord

RewardFunction = Callable[[Submission], PartScore]

PARTS: Mapping[str, RewardFunction] = {
    "correctness": correctness,
    "citation_quality": citation_quality,
    "efficiency": efficiency,
}
"""Every part by its name. To add one, write a function and list it here; `docs/contributing.md` walks through it."""


class RewardProfile(FrozenRecord):
    """Weights and rules. A saved trajectory can be scored again under another profile without a rollout."""

    weights: dict[str, float] = Field(
        default_factory=lambda: {"correctness": 0.50, "citation_quality": 0.30, "efficiency": 0.20}
    )
    """By part, each in [0, 1], together 1."""
    require_opened: bool = True
    """Whether a fact counts only when a record that proves it was opened."""

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        total = sum(self.weights.values())
        if abs(total - 1.0) > 1e-9 or any(not 0.0 <= weight <= 1.0 for weight in self.weights.values()):
            raise ValueError(f"weights must lie in [0, 1] and add up to 1, and these add up to {total:g}")
        return self


def score(
    trajectory: Trajectory,
    reference: Reference,
    profile: RewardProfile,
    parts: Mapping[str, RewardFunction] = PARTS,
) -> Reward | None:
    """Score a trajectory; None for an infrastructure failure.

    Raises:
        KeyError: the profile weighs a part that `parts` does not have.
    """
    if trajectory.stop_reason.is_infrastructure:
        return None
    if trajectory.stop_reason is not StopReason.SUBMITTED:
        return _nothing_earned(trajectory.stop_reason, profile)
    submission = submission_of(trajectory, reference, profile)
    scored: list[RewardPart] = []
    for name, weight in profile.weights.items():
        value, reasons = parts[name](submission)
        scored.append(RewardPart(name=name, value=value, weight=weight, reasons=reasons))
    return Reward(parts=tuple(scored), total=total_of(scored))


def submission_of(trajectory: Trajectory, reference: Reference, profile: RewardProfile) -> Submission:
    """What the reward functions are given of a trajectory."""
    return Submission(
        answer=trajectory.answer or "",
        cited=frozenset(source.strip().lower() for source in trajectory.sources),
        opened=frozenset(record_id.lower() for record_id in trajectory.opened),
        calls=trajectory.calls,
        max_calls=trajectory.max_calls,
        reference=reference,
        require_opened=profile.require_opened,
    )


def total_of(parts: list[RewardPart]) -> float:
    """The weighted sum of the parts, held within [0, 1] against rounding."""
    return min(1.0, max(0.0, round(sum(part.weight * part.value for part in parts), 12)))


def _nothing_earned(reason: StopReason, profile: RewardProfile) -> Reward:
    why = (f"the episode ended without an answer: {reason}",)
    parts = tuple(RewardPart(name=n, value=0.0, weight=w, reasons=why) for n, w in profile.weights.items())
    return Reward(parts=parts, total=0.0)
