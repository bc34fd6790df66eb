"""The policy gradient of the linear policy: the clipped objective, its exact gradient, and Adam.

With the advantage A of its episode, and the ratio rho = exp(log p_w(d) - log p_old(d)), a decision d counts

    min(rho A, clip(rho, 1 - c, 1 + c) A) + b * entropy(p_w)

and the objective is the mean over all decisions of the batch, so that no episode is scaled by its own length. Sources: PPO,
Schulman et al. 2017 (arXiv 1707.06347), equation 7; no length in the normalisation, Liu et al. 2025 (arXiv 2503.20783); Adam,
Kingma and Ba 2015 (arXiv 1412.6980), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gradient_rl.policies.features import FEATURES, Kind
from gradient_rl.policies.linear import Decision, Weights, log_softmax, zero_weights
from gradient_rl.policies.view import Row


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
    epsilon: float = 1e-8
    steps: int = 0
    mean: dict[Kind, Row] = field(default_factory=zero_weights)
    square: dict[Kind, Row] = field(default_factory=zero_weights)

    def ascend(self, weights: Weights, gradient: Weights) -> dict[Kind, Row]:
        """The weights after one step up the gradient."""
        self.steps += 1
        return {kind: weights[kind] + self._change(kind, gradient[kind]) for kind in Kind}

    def _change(self, kind: Kind, gradient: Row) -> Row:
        self.mean[kind] = self.beta1 * self.mean[kind] + (1.0 - self.beta1) * gradient
        self.square[kind] = self.beta2 * self.square[kind] + (1.0 - self.beta2) * gradient**2
        mean = self.mean[kind] / (1.0 - self.beta1**self.steps)
        square = self.square[kind] / (1.0 - self.beta2**self.steps)
        return self.learning_rate * mean / (np.sqrt(square) + self.epsilon)


def objective_and_gradient(
    samples: Sequence[Sample], weights: Weights, clip: float, entropy_bonus: float
) -> tuple[Terms, dict[Kind, Row]]:
    """Of the objective above, the mean over the samples.

    Args:
        samples: at least one.
        weights: where it is taken.
        clip: c, how far a ratio may move from 1 before the objective goes flat.
        entropy_bonus: b, per nat.
    """
    gradient = {kind: np.zeros(len(names)) for kind, names in FEATURES.items()}
    rows = np.array([_one(sample, weights, clip, entropy_bonus, gradient) for sample in samples])
    mean = rows.mean(axis=0)
    terms = Terms(*(float(value) for value in mean))
    return terms, {kind: total / len(samples) for kind, total in gradient.items()}


def _one(
    sample: Sample, weights: Weights, clip: float, entropy_bonus: float, gradient: Mapping[Kind, Row]
) -> tuple[float, float, float, float, float]:
    """Add one decision's gradient, unscaled; its objective, entropy, ratio, whether it was clipped, and divergence."""
    (kind, features, chosen), old, advantage = sample
    logp = log_softmax(features @ weights[kind])
    p = np.exp(logp)
    ratio = float(np.exp(logp[chosen] - old))
    clipped = (advantage > 0 and ratio > 1.0 + clip) or (advantage < 0 and ratio < 1.0 - clip)
    entropy = -float(p @ logp)
    push = -entropy_bonus * p * (logp + entropy)
    if not clipped and advantage:
        push -= advantage * ratio * p
        push[chosen] += advantage * ratio
    gradient[kind][:] += push @ features
    bounded = min(max(ratio, 1.0 - clip), 1.0 + clip)
    value = min(ratio * advantage, bounded * advantage) + entropy_bonus * entropy
    return value, entropy, ratio, float(clipped), ratio - 1.0 - float(logp[chosen] - old)
