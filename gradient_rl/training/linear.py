"""The learner of the linear policy: a clipped policy gradient in numpy, one JSON file a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from gradient_rl.errors import DataError
from gradient_rl.policies.catalog import linear_checkpoints
from gradient_rl.policies.features import Kind
from gradient_rl.policies.gradient import Adam, Sample, Terms, objective_and_gradient
from gradient_rl.policies.linear import (
    LinearPolicy,
    checkpoint_path,
    decisions_behind,
    from_names,
    named,
    read_checkpoint,
    zero_weights,
)
from gradient_rl.policies.view import Row
from gradient_rl.rewards.advantages import Estimator, advantages
from gradient_rl.runs import json_line, write_whole
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.config import TrainingConfig

SCHEMA_VERSION = 1
SHOWN_WEIGHTS = 10


class LinearLearner:
    """See the module. Its state is the weights and the optimiser's moments; both are in a checkpoint, to the last bit."""

    name = LinearPolicy.name
    model = None

    def __init__(self, config: TrainingConfig, checkpoints: Path) -> None:
        self._config = config
        self._folder = checkpoints
        self._weights = zero_weights()
        self._adam = Adam(config.learning_rate)

    def policy(self, temperature: float) -> LinearPolicy:
        """See `Learner.policy`."""
        return LinearPolicy(self._weights, temperature)

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        """See `Learner.update`."""
        samples = [sample for group in groups for sample in samples_of(group, self._config.estimator)]
        if not samples:
            return {}
        before, gradient = after, _ = self._objective(samples)
        for _ in range(self._config.update_epochs):
            self._weights = self._adam.ascend(self._weights, gradient)
            after, gradient = self._objective(samples)
        return {"decisions": float(len(samples)), "entropy": before.entropy, "kl": after.kl, "clipped": after.clipped}

    def _objective(self, samples: Sequence[Sample]) -> tuple[Terms, dict[Kind, Row]]:
        return objective_and_gradient(samples, self._weights, self._config.clip_ratio, self._config.entropy_bonus)

    async def checkpoint(self, step: int) -> str:
        """See `Learner.checkpoint`."""
        adam = {name: value if isinstance(value, int | float) else named(value) for name, value in asdict(self._adam).items()}
        state = {"schema_version": SCHEMA_VERSION, "step": step, "weights": named(self._weights), "optimiser": adam}
        self._folder.mkdir(exist_ok=True)
        write_whole(checkpoint_path(self._folder, step), json_line(state))
        return str(step)

    async def restore(self, step: int) -> None:
        """See `Learner.restore`."""
        self._weights, self._adam = load_state(checkpoint_path(self._folder, step))

    async def retain(self, steps: Sequence[int]) -> None:
        """See `Learner.retain`."""
        for saved in linear_checkpoints(self._folder):
            if saved.path and int(saved.label) not in steps:
                saved.path.unlink(missing_ok=True)

    def learned(self) -> Mapping[str, float]:
        """See `Learner.learned`."""
        by_size = sorted(named(self._weights).items(), key=lambda item: -abs(item[1]))
        return dict(by_size[:SHOWN_WEIGHTS])

    async def close(self) -> None:
        """See `Learner.close`."""


def samples_of(group: Group, estimator: Estimator) -> Iterator[Sample]:
    """Every decision of a group's episodes with its advantage; episodes without a reward have none."""
    for trajectory, advantage in zip(group.trajectories, advantages(group.rewards, estimator), strict=True):
        if advantage is not None:
            yield from _samples(trajectory, advantage)


def _samples(trajectory: Trajectory, advantage: float) -> Iterator[Sample]:
    replies = [place for place, message in enumerate(trajectory.messages) if message["role"] == "assistant"]
    for place, choice in zip(replies, trajectory.choices, strict=True):
        decisions = decisions_behind(trajectory.messages[:place], choice["decisions"])
        for decision, logprob in zip(decisions, choice["logprobs"], strict=True):
            yield Sample(decision, logprob, advantage)


def load_state(path: Path) -> tuple[dict[Kind, Row], Adam]:
    """Read a checkpoint: the weights, and the optimiser as it was.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it is damaged, or was made with other features.
    """
    state = read_checkpoint(path)
    try:
        saved = state["optimiser"]
        rates = {name: float(saved[name]) for name in ("learning_rate", "beta1", "beta2", "epsilon")}
        adam = Adam(**rates, steps=int(saved["steps"]), mean=from_names(saved["mean"]), square=from_names(saved["square"]))
        return from_names(state["weights"]), adam
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a checkpoint of this version: {error}; train again") from None
