"""An episode: one question being worked on, live. It runs tool calls, keeps scope and limits, and says when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from pydantic import Field

from gradient_rl.environment.search import SearchIndex
from gradient_rl.environment.tools import TOOLS, Desk, Tool, checked_arguments, tool_named, tool_schemas
from gradient_rl.environment.workspace import Workspace
from gradient_rl.schema.task import Question
from gradient_rl.schema.trajectory import Observation, Step, StopReason, ToolCall, Usage
from gradient_rl.schema.workspace import FrozenRecord


class Limits(FrozenRecord):
    """How far an episode may go."""

    max_calls: int = Field(default=15, ge=1)
    """Tool calls, the submission among them."""
    max_malformed: int = Field(default=0, ge=0)
    """Malformed replies that are answered with what was wrong; one more ends the episode."""
    max_observation_chars: int = Field(default=12000, ge=200)
    """Characters of one observation; a longer text is cut, and says so."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of the whole episode; None is no limit."""


class Episode:
    """One question, one workspace, and everything that happens until an answer is submitted or a limit is met.

    The limits are checked in this order, once for each reply and then for each of its calls in turn:

    1. `spend`: the tokens of the reply have been used, so they count even if the reply is then malformed (token_limit);
    2. `call`, `malformed`: a reply without a fitting tool call is malformed, and beyond `max_malformed` ends the episode;
    3. `call`: the call runs and is counted, and its observation is cut to `max_observation_chars`;
    4. a submission ends the episode (submitted), even with the last call that was allowed;
    5. otherwise the last allowed call ends it (call_limit).

    Calls that follow the one that ended the episode, in the same reply, are neither run nor counted.
    """

    def __init__(
        self,
        question: Question,
        workspace: Workspace,
        index: SearchIndex,
        limits: Limits,
        tools: tuple[Tool, ...] = TOOLS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.question = question
        self.limits = limits
        self.steps: list[Step] = []
        self.usage = Usage()
        self.malformed_replies = 0
        self.stop_reason: StopReason | None = None
        self._desk = Desk(workspace=workspace, index=index)
        self._tools = tools
        self._clock = clock

    @property
    def tools(self) -> tuple[dict[str, object], ...]:
        """The tools as the policy is shown them, in OpenAI's form."""
        return tool_schemas(self._tools)

    @property
    def answer(self) -> str | None:
        """The submitted answer, or None."""
        return self._desk.answer

    @property
    def sources(self) -> tuple[str, ...]:
        """The submitted sources, as they were given."""
        return self._desk.sources

    def call(self, call: ToolCall) -> Observation:
        """Run one tool call.

        Raises:
            RuntimeError: the episode is over.
        """
        self._refuse_when_over()
        tool = tool_named(call.tool, self._tools)
        if tool is None:
            names = ", ".join(t.__name__ for t in self._tools)
            return self.malformed(f"there is no tool '{call.tool}'; the tools are {names}")
        try:
            arguments = checked_arguments(tool, call.arguments)
        except ValueError as error:
            return self.malformed(str(error))
        started = self._clock()
        observation = self._cut(tool(self._desk, **arguments))
        self._record(call, observation, self._clock() - started)
        return observation

    def malformed(self, reason: str) -> Observation:
        """Note a reply that cannot be acted on, and tell the policy why.

        Raises:
            RuntimeError: the episode is over.
        """
        self._refuse_when_over()
        self.malformed_replies += 1
        if self.malformed_replies > self.limits.max_malformed:
            self.stop_reason = StopReason.MALFORMED
        return Observation(text=f"malformed reply: {reason}", error=reason)

    def spend(self, usage: Usage) -> None:
        """Count the tokens of a reply, and stop when they are used up."""
        self.usage = self.usage + usage
        if self.limits.max_tokens is not None and self.usage.tokens > self.limits.max_tokens:
            self.stop(StopReason.TOKEN_LIMIT)

    def stop(self, reason: StopReason) -> None:
        """End the episode from outside; the first reason stays."""
        if self.stop_reason is None:
            self.stop_reason = reason

    def _record(self, call: ToolCall, observation: Observation, seconds: float) -> None:
        self.steps.append(
            Step(
                tool=call.tool,
                arguments=call.arguments,
                observation=observation.text,
                ids=observation.ids,
                error=observation.error,
                seconds=seconds,
            )
        )
        if self._desk.answer is not None:
            self.stop_reason = StopReason.SUBMITTED
        elif len(self.steps) >= self.limits.max_calls:
            self.stop_reason = StopReason.CALL_LIMIT

    def _cut(self, observation: Observation) -> Observation:
        allowed = self.limits.max_observation_chars
        if len(observation.text) <= allowed:
            return observation
        left_out = len(observation.text) - allowed
        return observation.model_copy(update={"text": f"{observation.text[:allowed]} [cut: {left_out} more characters]"})

    def _refuse_when_over(self) -> None:
        if self.stop_reason is not None:
            raise RuntimeError(f"the episode of '{self.question.id}' is over: {self.stop_reason}")
