"""The policy gradient of the linear policy: the clipped objective, its exact gradient, and Adam.

With the advantage A of its episode, and the ratio rho = exp(log p_w(d) - log p_old(d)), a decision d counts

    min(rho A, clip(rho, 1 - c, 1 + c) A) + b * entropy(p_w)

and the objective is the mean over all decisions of the batch, so that no episode is scaled by its own length. Sources: PPO,
Schulman et al. 2017 (arXiv 1707.06347), equation 7; one mean over all decisions, Yu et al. 2025 (DAPO, arXiv 2503.14476),
equation 8; Adam, Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradient_rl.errors import DataError
from gradient_rl.policies.features import FEATURES, Kind
from gradient_rl.policies.linear import Decision, Weights, from_names, named, read_checkpoint, zero_weights
from gradient_rl.policies.view import Row

SCHEMA_VERSION = 1


class Sample(NamedTuple):
    """A decision to learn from."""

    decision: Decision
    logprob: float
    """Natural logarithm of its probability when it was taken."""
    advantage: float


@dataclass(frozen=True)
class Terms:
    """What an objective measured; means over the decisions."""

    objective: float
    entropy: float
    """Nats."""
    ratio: float
    clipped: float
    """Share of the decisions whose gradient the clipping stopped."""
    kl: float
    """Estimate of KL(old || new): the mean of (rho - 1) - log rho, Schulman's k3."""


@dataclass
class Adam:
    """The optimiser and its state."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.99
    """The paper's 0.999 would remember the gradients of a hundred batches ago."""
    epsilon: float = 1e-8
    decay: float = 0.0
    """Share of each weight that a step takes away, times the learning rate (decoupled: Loshchilov and Hutter 2019)."""
    steps: int = 0
    mean: dict[Kind, Row] = field(default_factory=zero_weights)
    square: dict[Kind, Row] = field(default_factory=zero_weights)

    def ascend(self, weights: Weights, gradient: Weights) -> dict[Kind, Row]:
        """The weights after one step up the gradient."""
        self.steps += 1
        kept = 1.0 - self.learning_rate * self.decay
        return {kind: kept * weights[kind] + self._change(kind, gradient[kind]) for kind in Kind}

    def _change(self, kind: Kind, gradient: Row) -> Row:
        self.mean[kind] = self.beta1 * self.mean[kind] + (1.0 - self.beta1) * gradient
        self.square[kind] = self.beta2 * self.square[kind] + (1.0 - self.beta2) * gradient**2
        mean = self.mean[kind] / (1.0 - self.beta1**self.steps)
        square = self.square[kind] / (1.0 - self.beta2**self.steps)
        return self.learning_rate * mean / (np.sqrt(square) + self.epsilon)


class Batch:
    """Samples side by side, by kind of decision, so that a gradient takes a few array operations.

    Args:
        samples: at least one.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        by_kind: dict[Kind, list[Sample]] = defaultdict(list)
        for sample in samples:
            by_kind[sample.decision.kind].append(sample)
        self._blocks = {kind: _Block(found) for kind, found in by_kind.items()}
        self.size = sum(len(found) for found in by_kind.values())

    def objective(self, weights: Weights, clip: float, entropy_bonus: float) -> tuple[Terms, dict[Kind, Row]]:
        """The objective's terms, and its gradient.

        Args:
            weights: where they are taken.
            clip: c, how far a ratio may move from 1 before the objective goes flat.
            entropy_bonus: b, per nat.
        """
        gradient = {kind: np.zeros(len(names)) for kind, names in FEATURES.items()}
        totals = np.zeros(len(fields(Terms)))
        for kind, block in self._blocks.items():
            block_totals, gradient[kind] = block.objective(weights[kind], clip, entropy_bonus)
            totals += block_totals
        mean = totals / self.size
        return Terms(*(float(value) for value in mean)), {kind: total / self.size for kind, total in gradient.items()}


class _Block:
    """Decisions of one kind, their candidates one below the other."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        counts = np.array([len(sample.decision.features) for sample in samples])
        self._features = np.concatenate([sample.decision.features for sample in samples])
        self._starts = np.cumsum(counts) - counts
        self._owner = np.repeat(np.arange(len(samples)), counts)
        self._chosen = self._starts + np.array([sample.decision.chosen for sample in samples])
        self._old = np.array([sample.logprob for sample in samples])
        self._advantage = np.array([sample.advantage for sample in samples])

    def objective(self, weights: Row, clip: float, entropy_bonus: float) -> tuple[Row, Row]:
        """Sums over the decisions: of each of the terms, and of the gradient."""
        logp, advantage = self._log_probabilities(weights), self._advantage
        p = np.exp(logp)
        log_ratio = logp[self._chosen] - self._old
        ratio = np.exp(log_ratio)
        clipped = np.where(advantage > 0, ratio > 1.0 + clip, ratio < 1.0 - clip) & (advantage != 0)
        entropy = -np.add.reduceat(p * logp, self._starts)
        pull = np.where(clipped, 0.0, advantage * ratio)
        push = -entropy_bonus * p * (logp + entropy[self._owner]) - pull[self._owner] * p
        np.add.at(push, self._chosen, pull)
        value = np.minimum(ratio * advantage, np.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage) + entropy_bonus * entropy
        terms = np.array([value.sum(), entropy.sum(), ratio.sum(), clipped.sum(), (ratio - 1.0 - log_ratio).sum()])
        return terms, push @ self._features

    def _log_probabilities(self, weights: Row) -> Row:
        """Of every candidate among those of its own decision."""
        logits = self._features @ weights
        logits -= np.maximum.reduceat(logits, self._starts)[self._owner]
        return logits - np.log(np.add.reduceat(np.exp(logits), self._starts))[self._owner]


def state_of(step: int, weights: Weights, adam: Adam) -> dict[str, Any]:
    """The content of a checkpoint file, which `read_state` reads back to the last bit."""
    optimiser = {name: value if isinstance(value, int | float) else named(value) for name, value in asdict(adam).items()}
    return {"schema_version": SCHEMA_VERSION, "step": step, "weights": named(weights), "optimiser": optimiser}


def read_state(path: Path) -> tuple[dict[Kind, Row], Adam]:
    """Read a checkpoint: the weights, and the optimiser as it was.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it is damaged, or was made with other features.
    """
    state = read_checkpoint(path)
    try:
        saved = state["optimiser"]
        rates = {name: float(saved[name]) for name in ("learning_rate", "beta1", "beta2", "epsilon", "decay")}
        adam = Adam(**rates, steps=int(saved["steps"]), mean=from_names(saved["mean"]), square=from_names(saved["square"]))
        return from_names(state["weights"]), adam
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a checkpoint of this version: {error}; train again") from None
