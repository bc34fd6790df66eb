"""The learner of the linear policy: a clipped policy gradient in numpy, one JSON file a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gradient_rl.policies.catalog import linear_checkpoints
from gradient_rl.policies.features import Kind
from gradient_rl.policies.gradient import Adam, Batch, Sample, Terms, read_state, state_of
from gradient_rl.policies.linear import Decision, LinearPolicy, checkpoint_path, decisions_behind, named, zero_weights
from gradient_rl.policies.view import Row
from gradient_rl.rewards.advantages import advantages
from gradient_rl.runs import json_line, write_whole
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.config import TrainingConfig

SHOWN_WEIGHTS = 10
_BEYOND = {Kind.SAY: ("citation_quality",), Kind.CITE: ("correctness", "efficiency")}
"""Parts of the reward that a kind of decision cannot move. Every other kind works for the whole reward."""


class LinearLearner:
    """See the module. Its state is the weights and the optimiser's moments; both are in a checkpoint, to the last bit."""

    name = LinearPolicy.name
    model = None

    def __init__(self, config: TrainingConfig, checkpoints: Path) -> None:
        self._config = config
        self._folder = checkpoints
        self._weights = zero_weights()
        self._adam = Adam(config.learning_rate, decay=config.weight_decay)

    def policy(self, temperature: float) -> LinearPolicy:
        """See `Learner.policy`."""
        return LinearPolicy(self._weights, temperature)

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        """See `Learner.update`."""
        batch = Batch(sample for group in groups for sample in samples_of(group, self._config))
        if not batch.size:
            return {}
        before, gradient = after, _ = self._objective(batch)
        for _ in range(self._config.update_epochs):
            self._weights = self._adam.ascend(self._weights, gradient)
            after, gradient = self._objective(batch)
        return {"decisions": float(batch.size), "entropy": before.entropy, "kl": after.kl, "clipped": after.clipped}

    def _objective(self, batch: Batch) -> tuple[Terms, dict[Kind, Row]]:
        return batch.objective(self._weights, self._config.clip_ratio, self._config.entropy_bonus)

    async def checkpoint(self, step: int) -> str:
        """See `Learner.checkpoint`."""
        self._folder.mkdir(exist_ok=True)
        write_whole(checkpoint_path(self._folder, step), json_line(state_of(step, self._weights, self._adam)))
        return str(step)

    async def restore(self, step: int) -> None:
        """See `Learner.restore`."""
        self._weights, self._adam = read_state(checkpoint_path(self._folder, step))

    async def retain(self, steps: Sequence[int]) -> None:
        """See `Learner.retain`."""
        for saved in linear_checkpoints(self._folder):
            if saved.path and int(saved.label) not in steps:
                saved.path.unlink(missing_ok=True)

    def learned(self) -> Mapping[str, float]:
        """See `Learner.learned`."""
        moved = [(name, weight) for name, weight in named(self._weights).items() if weight]
        return dict(sorted(moved, key=lambda item: -abs(item[1]))[:SHOWN_WEIGHTS])

    async def close(self) -> None:
        """See `Learner.close`."""


def samples_of(group: Group, config: TrainingConfig) -> Iterator[Sample]:
    """Every decision of a group's episodes with its advantage; episodes without a reward have none."""
    of_kind = {kind: advantages(_credit(group, kind, config), config.estimator) for kind in Kind}
    for place, trajectory in enumerate(group.trajectories):
        for decision, logprob in _decisions(trajectory) if trajectory.reward else ():
            advantage = of_kind[decision.kind][place]
            if advantage is not None:
                yield Sample(decision, logprob, advantage)


def _credit(group: Group, kind: Kind, config: TrainingConfig) -> list[float | None]:
    """The reward that a kind of decision answers for: with `credit_by_part` what it can move of it, else all of it."""
    beyond = _BEYOND.get(kind) if config.credit_by_part else None
    if beyond is None:
        return list(group.rewards)
    return [
        sum(part.value * part.weight for part in t.reward.parts if part.name not in beyond) if t.reward else None
        for t in group.trajectories
    ]


def _decisions(trajectory: Trajectory) -> Iterator[tuple[Decision, float]]:
    replies = [place for place, message in enumerate(trajectory.messages) if message["role"] == "assistant"]
    for place, choice in zip(replies, trajectory.choices, strict=True):
        decisions = decisions_behind(trajectory.messages[:place], choice["decisions"])
        yield from zip(decisions, choice["logprobs"], strict=True)
