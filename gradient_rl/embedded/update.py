"""The gradient steps of a language model: the policy gradient with ART's own loss, and maximum likelihood on examples.

The loss of a batch is the mean over its sampled tokens, so a sequence is run by itself and its share added up: nothing is
padded, and logits are computed for sampled tokens alone, which here is a token in ten.
"""

# pyright: basic, reportMissingImports=false
# torch is in the extra `lm`.

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradient_rl.embedded.sequences import Sequence_

if TYPE_CHECKING:
    import torch

MAX_GRADIENT_NORM = 1.0
BETAS = (0.9, 0.99)
_GAP = "loss/logprob_gap"


@dataclass(frozen=True)
class Settings:
    """Of one policy-gradient job."""

    learning_rate: float
    loss: Mapping[str, Any]
    """What of ART's loss may be set: `ppo`, `epsilon`, `epsilon_high`."""
    kl_coefficient: float = 0.0
    """What a nat of drift from the reference costs, in the unit of the advantages; see `sequences.penalise`."""
    updates: int = 1
    """Optimizer steps; each takes an equal share of the sequences."""


class Scorer:
    """Log-probabilities of chosen tokens under the present weights.

    Args:
        model: a causal language model of transformers, adapters in place.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def logits(self, sequence: Sequence_) -> torch.Tensor:
        """The logits that each sampled token was drawn from: sampled tokens x vocabulary, in float32."""
        import torch

        device = self._model.device
        ids = torch.tensor([sequence.tokens[: sequence.places[-1]]], device=device)
        before = torch.tensor(sequence.places, device=device) - 1
        hidden = self._model.model(input_ids=ids, use_cache=False).last_hidden_state[0]
        return self._model.lm_head(hidden[before]).float()

    def score(self, sequence: Sequence_) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of each sampled token, and the entropy of what it was drawn from."""
        import torch

        logprobs = torch.log_softmax(self.logits(sequence), -1)
        chosen = torch.tensor([sequence.tokens[place] for place in sequence.places], device=logprobs.device)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, chosen[:, None])[:, 0], entropy


class Optimizer:
    """AdamW over adapter weights, with a copy of them in float32, and the norm of the gradient held to `MAX_GRADIENT_NORM`.

    Args:
        parameters: by name, in whatever precision the model computes; changed in place.
        state: of an earlier step: its weights as `weight.NAME`, and what `moments` gave.
    """

    def __init__(self, parameters: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> None:
        import torch

        self._parameters = dict(parameters)
        state = state or {}
        self._exact = {
            name: torch.nn.Parameter(
                state.get(f"weight.{name}", parameter.detach()).to(parameter.device, torch.float32, copy=True)
            )
            for name, parameter in self._parameters.items()
        }
        self._adam = torch.optim.AdamW(self._exact.values(), betas=BETAS, weight_decay=0.0)
        for name, exact in self._exact.items():
            if f"mean.{name}" in state:
                self._adam.state[exact] = {
                    "step": state["step"].clone(),
                    "exp_avg": state[f"mean.{name}"].to(exact.device, copy=True),
                    "exp_avg_sq": state[f"square.{name}"].to(exact.device, copy=True),
                }

    def step(self, learning_rate: float) -> float:
        """Follow the gradient that the parameters hold, clear it, and give its norm before it was held down."""
        import torch

        for name, exact in self._exact.items():
            gradient = self._parameters[name].grad
            exact.grad = None if gradient is None else gradient.float()
            self._parameters[name].grad = None
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        norm = float(torch.nn.utils.clip_grad_norm_(self._exact.values(), MAX_GRADIENT_NORM))
        self._adam.step()
        with torch.no_grad():
            for name, exact in self._exact.items():
                self._parameters[name].copy_(exact)
        return norm

    def weights(self) -> dict[str, torch.Tensor]:
        """The exact weights by name."""
        return {name: exact.detach().clone() for name, exact in self._exact.items()}

    def moments(self) -> dict[str, torch.Tensor]:
        """What a later process needs beside the weights to go on: Adam's moments, and how often it has stepped."""
        import torch

        made: dict[str, torch.Tensor] = {}
        for name, exact in self._exact.items():
            if moments := self._adam.state.get(exact):
                made["step"] = torch.as_tensor(moments["step"]).float().reshape(())
                made[f"mean.{name}"], made[f"square.{name}"] = moments["exp_avg"].clone(), moments["exp_avg_sq"].clone()
        return made


def improve(
    scorer: Scorer,
    optimizer: Optimizer,
    sequences: Sequence[Sequence_],
    settings: Settings,
    rng: random.Random,
) -> Iterator[dict[str, float]]:
    """Take the optimizer steps of one job, and yield what each measured.

    Args:
        scorer: of the model that learns.
        optimizer: of its adapter.
        sequences: at least one, each with something sampled.
        settings: see there.
        rng: deals the sequences to the steps.
    """
    order = list(range(len(sequences)))
    rng.shuffle(order)
    updates = min(settings.updates, len(order))
    gap: float | None = None
    for update in range(updates):
        chosen = order[update::updates]
        terms = _accumulate(scorer, [sequences[i] for i in chosen], settings)
        # Behind the first update the weights are others, and the gap is to tell of everything else.
        gap = terms[_GAP] = terms[_GAP] if gap is None else gap
        terms["grad_norm"] = optimizer.step(settings.learning_rate)
        yield {**terms, "learning_rate": settings.learning_rate}


def _accumulate(scorer: Scorer, sequences: Sequence[Sequence_], settings: Settings) -> dict[str, float]:
    """Add up the gradient of the mean loss over all sampled tokens, and give the means of what was measured."""
    tokens = sum(len(sequence.places) for sequence in sequences)
    sums: dict[str, float] = {}
    for sequence in sequences:
        logprobs, entropy = scorer.score(sequence)
        loss, terms = policy_loss(sequence, logprobs, settings)
        (loss / tokens).backward()
        terms["entropy"] = float(entropy.detach().sum())
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value
    return {name: value / tokens for name, value in sums.items()}


def policy_loss(sequence: Sequence_, logprobs: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, dict[str, float]]:
    """ART's loss (`art.loss.loss_fn`) of one sequence, and measures of it, all summed over its sampled tokens.

    Args:
        sequence: brings the log-probabilities at sampling, and the advantage of its episode.
        logprobs: of its sampled tokens, under the weights that learn.
        settings: see there.
    """
    import torch
    from art.loss import AlignedLossInputs, loss_fn

    old = torch.tensor(sequence.logprobs, device=logprobs.device)
    ones = torch.ones_like(old)
    inputs = AlignedLossInputs(
        assistant_mask=ones,
        old_logprobs=old,
        advantages=ones * sequence.advantage - torch.tensor(sequence.penalty or 0.0, device=logprobs.device),
        weights=ones,
        group_ids=ones,
    )
    made = loss_fn(inputs, logprobs, None, None, settings.loss, reduction="sum")  # pyright: ignore[reportArgumentType]
    gap = (logprobs.detach() - old).abs()
    terms = {
        "loss": float(made.policy_loss.detach()),
        "kl_div": float((old - logprobs.detach()).sum()),
        _GAP: float(gap.sum()),
        "loss/ratio": float((logprobs.detach() - old).exp().sum()),
        "loss/clipped": float(made.offpolicy_diagnostics.clipped_count) if made.offpolicy_diagnostics else 0.0,
    }
    return made.policy_loss, terms


def imitate(
    scorer: Scorer,
    optimizer: Optimizer,
    sequences: Sequence[Sequence_],
    learning_rate: float,
    batch: int,
    rng: random.Random,
) -> Iterator[dict[str, float]]:
    """One pass of maximum likelihood over examples, and what each step measured.

    The learning rate rises over the first tenth of the steps and falls to a tenth of its height along a cosine.
    """
    order = list(range(len(sequences)))
    rng.shuffle(order)
    starts = range(0, len(order), batch)
    for number, start in enumerate(starts):
        chosen = [sequences[i] for i in order[start : start + batch]]
        rate = learning_rate * _schedule(number, len(starts))
        tokens = sum(len(sequence.places) for sequence in chosen)
        total = 0.0
        for sequence in chosen:
            logprobs, _ = scorer.score(sequence)
            loss = -logprobs.sum() / tokens
            loss.backward()
            total += float(loss.detach())
        yield {"loss": total, "grad_norm": optimizer.step(rate), "learning_rate": rate}


def _schedule(step: int, steps: int) -> float:
    """From 0 to 1 over a tenth of the steps, then down to 0.1."""
    import math

    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
