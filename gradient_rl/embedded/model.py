"""The seam between the server and the model behind it: whoever completes chats and learns from groups and examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self

from pydantic import Field, FiniteFloat, model_validator

from gradient_rl.schema.workspace import FrozenRecord

type Message = dict[str, Any]
"""One message, or one tool schema, in OpenAI's chat form."""
type ArtGroup = Mapping[str, Any]
"""One `art.TrajectoryGroup` as JSON; `reward` and `messages_and_choices` are there in every trajectory."""
type Transcript = Mapping[str, Any]
"""An example to learn from: `messages` in OpenAI's chat form, at least one of them an assistant's, and `tools`."""


class Completion(FrozenRecord):
    """One sampled assistant message, down to its tokens.

    Raises:
        ValidationError: `token_ids`, `logprobs` and `tokens` differ in length, or a log-probability is not finite.
    """

    message: Message
    """In OpenAI's form, `role` included."""
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...] = Field(min_length=1)
    logprobs: tuple[FiniteFloat, ...]
    """Natural logarithms, one for each token that was sampled."""
    tokens: tuple[str, ...]
    """The text of each token."""
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]

    @model_validator(mode="after")
    def _one_of_each_a_token(self) -> Self:
        if not len(self.token_ids) == len(self.logprobs) == len(self.tokens):
            raise ValueError(f"{len(self.token_ids)} token ids, {len(self.logprobs)} logprobs, {len(self.tokens)} texts")
        return self


class ServedModel(Protocol):
    """A model that can be served and trained. It keeps its own weights, one state for each step.

    The server calls `complete` from `concurrency` threads and `train` and `finetune` from another, at the same time,
    and `steps` and `forget` from one more: a state, once made, is never changed.
    """

    @property
    def concurrency(self) -> int:
        """Completions that it takes at once, at least 1."""
        ...

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
        """Sample the next assistant message; equal arguments give equal completions, as far as the machine's arithmetic allows.

        Args:
            messages: the conversation so far.
            tools: the tool schemas that the request brought.
            step: the state to sample from, one of `steps()`.
            temperature: at least 0; 0 is the likeliest message.
            max_tokens: at least 1.
            seed: the only source of chance.

        Raises:
            GradientError: the conversation is one that the model cannot go on with; the client gets status 400.
        """
        ...

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        """Make the state `step + 1` from the state `step`, and yield the metrics of each gradient step.

        The new state exists once the last metrics are taken, and not at all when the iteration is given up
        before. Any exception fails the job, and its text is what the client is told.

        Args:
            groups: at least one trainable Choice in each (`protocol.choices_in`).
            config: what ART calls `experimental_config`; None where the client left a value to the server.
            step: one of `steps()`.
        """
        ...

    def finetune(
        self, transcripts: Sequence[Transcript], config: Mapping[str, Any], *, step: int
    ) -> Iterable[Mapping[str, float]]:
        """Make the state `step + 1` from the state `step` by imitation, as `train` makes it from rewards.

        What the assistants of the transcripts said is learned; all else is context.

        Args:
            transcripts: at least one.
            config: what ART calls an SFT config: `batch_size`, `learning_rate`; None where the client left it open.
            step: one of `steps()`.
        """
        ...

    def steps(self) -> Sequence[int]:
        """The states that exist, in order; 0, the base, always does."""
        ...

    def forget(self, steps: Sequence[int]) -> None:
        """Drop the states of these steps; each exists and none is the base."""
        ...

    def close(self) -> None:
        """Give up the completions that are being sampled, and take no more. No job runs."""
        ...
