"""The linear softmax policy behind the server: exact log-probabilities, and the policy gradient as the plain learner does it.

There is no tokenizer. A token of a reply is one of its decisions: its id is the row of the candidate that was taken, and its
text that number in decimal digits. A token of the prompt is a whole message: its id is the number of bytes of what the policy
reads of it (role, content, tool calls) as compact UTF-8 JSON, so that `usage.prompt_tokens` counts messages.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from gradient_rl.embedded.jobs import JobError
from gradient_rl.embedded.model import ArtGroup, Completion, Message, Transcript
from gradient_rl.embedded.protocol import turns_in
from gradient_rl.errors import DataError, UsageError
from gradient_rl.policies.catalog import linear_checkpoints
from gradient_rl.policies.features import Kind
from gradient_rl.policies.gradient import Adam, Batch, Sample, Terms, read_state, state_of
from gradient_rl.policies.linear import (
    MAX_CITED,
    MAX_SAID,
    Weights,
    checkpoint_path,
    decisions_behind,
    log_softmax,
    reply_to,
    zero_weights,
)
from gradient_rl.policies.view import Row
from gradient_rl.rewards.advantages import MIN_SPREAD, Estimator, advantages, spread
from gradient_rl.runs import json_line, write_whole

MAX_TOKENS = 1 + MAX_SAID + MAX_CITED
"""The longest reply: to submit, what to say, what to cite."""
LEARNING_RATE_SCALE = 1e4
"""Adam's learning rate for each unit of the client's. ART's default, 5e-6, is meant for a LoRA adapter; here it gives 0.05."""
DEFAULT_LEARNING_RATE = 5e-6
GRADIENT_STEPS = 4
CLIP = 0.2
ENTROPY_BONUS = 0.01


@dataclass(frozen=True)
class _State:
    """What training goes on from; its arrays are never changed."""

    weights: dict[Kind, Row]
    adam: Adam


@dataclass(frozen=True)
class _Settings:
    """What of ART's `experimental_config` means something to this model."""

    learning_rate: float
    estimator: Estimator
    clip: float
    kl_coefficient: float
    kl_step: int


class LinearModel:
    """See the module, and `ServedModel`.

    Of a job's config it reads `learning_rate` (see `LEARNING_RATE_SCALE`), `scale_rewards` (False: advantages are not divided
    by the deviation of the group), `epsilon` (how far a probability ratio may move from 1, both ways; 0.2 if not given),
    `kl_penalty_coef`, `kl_penalty_reference_step` and `kl_penalty_step_lag`. The objective is PPO's clipped one whatever
    `loss_fn` says, with an entropy bonus, in `GRADIENT_STEPS` steps of Adam. The other settings are for language models and
    change nothing. What is to be trained on is sampled at temperature 1: a reply's log-probabilities are those at the
    temperature it was drawn at (at 0, those at 1), and training scores it at 1.

    It completes one chat at a time, and it cannot be fine-tuned on examples.

    Args:
        folder: where the state of each step is kept as `linear-000003.json`, for a later process to go on from; None keeps
            them in memory.

    Raises:
        DataError: a file in the folder is damaged, or was made with other features.
        ArtifactError: the file system refuses.
    """

    concurrency = 1

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = Lock()
        self._states: Mapping[int, _State] = dict(_saved(folder)) if folder else {}
        if 0 not in self._states:
            self._keep(0, _State(zero_weights(), Adam(DEFAULT_LEARNING_RATE * LEARNING_RATE_SCALE)))

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        *,
        step: int,
        temperature: float,
        max_tokens: int,
        seed: int,
    ) -> Completion:
        """See `ServedModel.complete`. The tools are those of the environment, whatever the request brought."""
        if max_tokens < MAX_TOKENS:
            raise UsageError(f"max_tokens is {max_tokens}, and a reply takes up to {MAX_TOKENS}; allow that many")
        weights = self.weights(step)
        with _refusing_other_conversations():
            said = _plain(messages)
            reply = reply_to(said, weights, temperature, random.Random(seed))
        decisions: list[int] = reply.raw["decisions"]
        return Completion(
            message=reply.as_message(),
            prompt_token_ids=tuple(len(json_line(message)) - 1 for message in said),
            token_ids=tuple(decisions),
            logprobs=tuple(reply.raw["logprobs"]),
            tokens=tuple(map(str, decisions)),
            finish_reason="tool_calls",
        )

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterator[Mapping[str, float]]:
        """See `ServedModel.train`. Groups whose rewards are alike teach nothing; if all are, the new state equals the old.

        Raises:
            JobError: a Choice was not sampled from this model, or a setting of the config is impossible.
        """
        settings = _settings(config, step)
        samples = [sample for at, group in enumerate(groups) for sample in _samples(group, settings.estimator, f"group {at}")]
        samples, kl_to_reference = self._penalised(samples, settings)
        weights, adam = self._states[step].weights, _copied(self._states[step].adam, settings.learning_rate)
        batch = Batch(samples)
        for _ in range(GRADIENT_STEPS if samples else 0):
            terms, gradient = batch.objective(weights, settings.clip, ENTROPY_BONUS)
            weights = adam.ascend(weights, gradient)
            yield {**_metrics(terms, gradient, settings), **kl_to_reference}
        self._keep(step + 1, _State(weights, adam))

    def finetune(
        self, transcripts: Sequence[Transcript], config: Mapping[str, Any], *, step: int
    ) -> Iterator[Mapping[str, float]]:
        """See `ServedModel.finetune`.

        Raises:
            JobError: always.
        """
        raise JobError("the linear policy has no warm start: what it takes in is an action's features, and no text")

    def weights(self, step: int) -> Weights:
        """The weights of a step, one of `steps()`; not to be changed."""
        return self._states[step].weights

    def steps(self) -> Sequence[int]:
        """See `ServedModel.steps`."""
        return sorted(self._states)

    def forget(self, steps: Sequence[int]) -> None:
        """See `ServedModel.forget`."""
        with self._lock:
            self._states = {step: state for step, state in self._states.items() if step not in steps}
            for path in [checkpoint_path(self._folder, step) for step in steps] if self._folder else ():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """See `ServedModel.close`: a completion takes no time."""

    def _keep(self, step: int, state: _State) -> None:
        with self._lock:
            if self._folder:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(checkpoint_path(self._folder, step), json_line(state_of(step, state.weights, state.adam)))
            self._states = {**self._states, step: state}

    def _penalised(self, samples: list[Sample], settings: _Settings) -> tuple[list[Sample], Mapping[str, float]]:
        """ART's penalty: each decision's advantage less what its log-ratio to the reference exceeds the mean by."""
        if not settings.kl_coefficient or not samples:
            return samples, {}
        if settings.kl_step not in self._states:
            raise JobError(f"the KL reference is step {settings.kl_step}, and there are {self.steps()}")
        reference = self.weights(settings.kl_step)
        excess = [sample.logprob - _logprob(sample, reference) for sample in samples]
        mean = float(np.mean(excess))
        worth = [s.advantage + settings.kl_coefficient * (mean - kl) for s, kl in zip(samples, excess, strict=True)]
        penalised = [sample._replace(advantage=advantage) for sample, advantage in zip(samples, worth, strict=True)]
        return penalised, {"kl_policy_ref": mean}


class _Function(BaseModel):
    name: str
    arguments: str


class _Call(BaseModel):
    function: _Function


class _Part(BaseModel):
    text: str = ""


class _Said(BaseModel):
    """One message as any client may write it; what else it holds is of no use here."""

    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None

    def plain(self) -> Message:
        """As the linear policy reads it: the content a text, the calls a list."""
        content = "".join(part.text for part in self.content) if isinstance(self.content, list) else self.content
        calls = [call.model_dump() for call in self.tool_calls or ()]
        return {"role": self.role, "content": content or "", "tool_calls": calls}


_CONVERSATION = TypeAdapter(list[_Said])


def _plain(messages: Sequence[Message]) -> list[Message]:
    plain = [said.plain() for said in _CONVERSATION.validate_python(messages)]
    if not any(message["role"] == "user" for message in plain):
        raise DataError("the conversation asks nothing: it has no message of the role 'user'")
    return plain


@contextmanager
def _refusing_other_conversations() -> Generator[None]:
    """Name as such a conversation whose messages or tool answers are not those of this environment."""
    try:
        yield
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise DataError(f"message {where}: {fault['msg']}; send the conversation in OpenAI's chat form") from None
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(f"a tool answered something that no tool of this environment does: {error!r}") from None


def _settings(config: Mapping[str, Any], step: int) -> _Settings:
    given = {name: value for name, value in config.items() if value is not None}
    lag, reference = given.get("kl_penalty_step_lag"), given.get("kl_penalty_reference_step", 0)
    return _Settings(
        learning_rate=_number(given, "learning_rate", DEFAULT_LEARNING_RATE, 0.0, 1.0),
        estimator=Estimator.GROUP_STD if given.get("scale_rewards", True) else Estimator.GROUP_MEAN,
        clip=_number(given, "epsilon", CLIP, 0.0, 10.0),
        kl_coefficient=_number(given, "kl_penalty_coef", 0.0, 0.0, 100.0),
        kl_step=max(0, step - lag) if lag else reference,
    )


def _number(given: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value: object = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise JobError(f"{name} is {value!r}; it must be a number from {least:g} to {most:g}")
    return float(value)


def _samples(group: ArtGroup, estimator: Estimator, where: str) -> Iterator[Sample]:
    trajectories: list[Mapping[str, Any]] = group["trajectories"]
    rewards = [float(trajectory["reward"]) for trajectory in trajectories]
    taught = spread(rewards) >= MIN_SPREAD
    for at, (trajectory, advantage) in enumerate(zip(trajectories, advantages(rewards, estimator), strict=True)):
        for turn, (said, choice) in enumerate(turns_in(trajectory)):
            made = _samples_of(said, choice, advantage or 0.0, f"{where}, trajectory {at}, Choice {turn}")
            yield from made if taught else ()


def _samples_of(said: Sequence[Message], choice: Mapping[str, Any], advantage: float, where: str) -> list[Sample]:
    token_ids, logprobs = choice["token_ids"], [token["logprob"] for token in choice["logprobs"]["content"]]
    try:
        _check_numbers(token_ids)
        with _refusing_other_conversations():
            decisions = decisions_behind(_plain(said), token_ids)
    except (ValueError, DataError) as error:
        raise JobError(f"{where}: {error}; send Choices as this model sampled them") from None
    return [Sample(decision, logprob, advantage) for decision, logprob in zip(decisions, logprobs, strict=True)]


def _check_numbers(token_ids: Sequence[object]) -> None:
    if strange := [token_id for token_id in token_ids if type(token_id) is not int]:
        raise ValueError(f"the token id {strange[0]!r} is not a whole number")


def _logprob(sample: Sample, weights: Weights) -> float:
    kind, features, chosen = sample.decision
    return float(log_softmax(features @ weights[kind])[chosen])


def _copied(adam: Adam, learning_rate: float) -> Adam:
    """Ready to be changed; the arrays themselves never are."""
    return replace(adam, learning_rate=learning_rate * LEARNING_RATE_SCALE, mean=dict(adam.mean), square=dict(adam.square))


def _metrics(terms: Terms, gradient: Weights, settings: _Settings) -> dict[str, float]:
    """By the names that ART's client knows; what it does not know, under a section of its own."""
    return {
        "loss": -terms.objective,
        "entropy": terms.entropy,
        "kl_div": terms.kl,
        "grad_norm": float(np.sqrt(sum(float(row @ row) for row in gradient.values()))),
        "learning_rate": settings.learning_rate,
        "loss/clipped": terms.clipped,
    }


def _saved(folder: Path) -> Iterator[tuple[int, _State]]:
    for checkpoint in linear_checkpoints(folder):
        if checkpoint.path:
            yield int(checkpoint.label), _State(*read_state(checkpoint.path))
