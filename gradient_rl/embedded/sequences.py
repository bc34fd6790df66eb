"""What a training job makes of conversations: sequences of tokens, and which of them are learned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from gradient_rl.embedded.jobs import JobError
from gradient_rl.embedded.model import ArtGroup
from gradient_rl.embedded.protocol import choices_in
from gradient_rl.rewards.advantages import MIN_SPREAD, Estimator, advantages, spread


@dataclass
class Sequence_:  # noqa: N801 - `Sequence` is taken by the standard library
    """Tokens that are read once, and the places among them that were sampled."""

    tokens: list[int]
    advantage: float = 0.0
    places: list[int] = field(default_factory=list[int])
    """Indices of the tokens that the model chose; all others are context."""
    logprobs: list[float] = field(default_factory=list[float])
    """Log-probability of each when it was sampled; empty where nothing was sampled."""
    penalty: list[float] = field(default_factory=list[float])
    """Taken from the advantage of each; empty is none."""

    def add(self, prompt: Sequence[int], sampled: Sequence[int], logprobs: Sequence[float]) -> None:
        """Append a turn whose prompt begins with all that is here."""
        self.tokens.extend(prompt[len(self.tokens) :])
        self.places.extend(range(len(self.tokens), len(self.tokens) + len(sampled)))
        self.tokens.extend(sampled)
        self.logprobs.extend(logprobs)


def penalise(sequences: Sequence[Sequence_], references: Sequence[Sequence[float]], coefficient: float) -> float:
    """Penalise tokens for what they have drifted from a reference, more than the batch has on the whole.

    Args:
        sequences: their `penalty` is set.
        references: log-probabilities of the same tokens under the reference.
        coefficient: reward units a nat.

    Returns:
        The mean log-ratio of all sampled tokens: an estimate of the divergence from the reference, which may be negative.
    """
    drifts = [[a - b for a, b in zip(s.logprobs, r, strict=True)] for s, r in zip(sequences, references, strict=True)]
    mean = fsum(fsum(drift) for drift in drifts) / sum(len(drift) for drift in drifts)
    for sequence, drift in zip(sequences, drifts, strict=True):
        sequence.penalty = [coefficient * (each - mean) for each in drift]
    return mean


def sequences_in(groups: Sequence[ArtGroup], estimator: Estimator) -> list[Sequence_]:
    """The sequences of groups whose rewards differ.

    The turns of an episode are one sequence as long as each prompt begins with all tokens of the turn before; where it does
    not, because a reply was written back in other tokens than it was sampled in, a new one begins.

    Raises:
        JobError: a Choice does not say which tokens its prompt had.
    """
    return [sequence for at, group in enumerate(groups) for sequence in _of_group(group, estimator, f"group {at}")]


def _of_group(group: ArtGroup, estimator: Estimator, where: str) -> Iterator[Sequence_]:
    trajectories: list[Mapping[str, Any]] = group["trajectories"]
    rewards = [float(trajectory["reward"]) for trajectory in trajectories]
    if spread(rewards) < MIN_SPREAD:
        return
    for at, (trajectory, advantage) in enumerate(zip(trajectories, advantages(rewards, estimator), strict=True)):
        yield from _of_trajectory(trajectory, advantage or 0.0, f"{where}, trajectory {at}")


def _of_trajectory(trajectory: Mapping[str, Any], advantage: float, where: str) -> Iterator[Sequence_]:
    current: Sequence_ | None = None
    for turn, choice in enumerate(choices_in(trajectory)):
        prompt: object = choice.get("prompt_token_ids")
        if not isinstance(prompt, list) or not prompt:
            raise JobError(f"{where}, Choice {turn} has no prompt_token_ids; send Choices as they were sampled")
        if current is None or prompt[: len(current.tokens)] != current.tokens:
            if current is not None:
                yield current
            current = Sequence_([], advantage)
        current.add(prompt, choice["token_ids"], [token["logprob"] for token in choice["logprobs"]["content"]])  # pyright: ignore[reportUnknownArgumentType]
    if current is not None:
        yield current
