"""A policy: what decides on the next tool calls, from the conversation alone."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import Field, JsonValue

from gradient_rl.schema.trajectory import ToolCall, Usage
from gradient_rl.schema.workspace import FrozenRecord

Message = dict[str, Any]
"""One message of a conversation in OpenAI's chat form."""


class Reply(FrozenRecord):
    """What a policy answers to a conversation."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    malformed: str | None = None
    """Why no call could be read from the reply; None when there are calls."""
    finish_reason: str = "tool_calls"
    """As OpenAI's protocol names it: `tool_calls`, `stop`, `length`, `content_filter`."""
    raw: dict[str, Any] = Field(default_factory=dict)
    """The reply as the server gave it, for the trainers; empty for a scripted policy."""
    message: dict[str, Any] | None = None
    """The assistant message as it goes back into the conversation; None: made from the content and the calls."""
    usage: Usage = Usage()

    def as_message(self) -> Message:
        """The reply as an assistant message."""
        if self.message is not None:
            return dict(self.message)
        message: Message = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [wire_call(call) for call in self.tool_calls]
        return message


class Policy(Protocol):
    """Whoever plays. A policy sees messages and tool schemas; it never sees a task, its facts or its sources."""

    @property
    def name(self) -> str:
        """The name under which its trajectories are saved."""
        ...

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """Decide what to do next.

        Args:
            messages: the conversation so far, in OpenAI's chat form.
            tools: the tool schemas, in OpenAI's form.
            rng: the episode's own generator; the only source of chance a policy may use.

        Raises:
            TransportError: the endpoint failed for good; the episode then has no reward.
            MissingKeyError, ServiceError: no episode can be played, so the run ends.
        """
        ...


@runtime_checkable
class Closable(Protocol):
    """A policy that holds a client of its own."""

    async def aclose(self) -> None:
        """Close it, in the event loop it was used in."""
        ...


class TransportError(Exception):
    """A model endpoint did not answer; an infrastructure failure and never a reward."""


def one_call(messages: Sequence[Message], tool: str, **arguments: str | Sequence[str]) -> Reply:
    """A reply with a single tool call, its id made from its place in the conversation."""
    plain: dict[str, JsonValue] = {k: v if isinstance(v, str) else list(v) for k, v in arguments.items()}
    return Reply(tool_calls=(ToolCall(id=f"call_{len(messages)}", tool=tool, arguments=plain),))


def observations_in(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What the tools answered so far, as JSON objects; an answer that was cut short is an empty one."""
    return [json_object(str(message["content"])) for message in messages if message["role"] == "tool"]


def calls_in(messages: Sequence[Message]) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls made so far: the tool, and its arguments as a JSON object."""
    calls = [call["function"] for m in messages for call in m.get("tool_calls", ())]
    return [(call["name"], json_object(call["arguments"])) for call in calls]


def question_in(messages: Sequence[Message]) -> str:
    """The question as the user asked it, without the line that gives the date."""
    content = next(str(m["content"]) for m in messages if m["role"] == "user")
    return content.partition("\n\n")[2] or content


def wire_call(call: ToolCall) -> dict[str, Any]:
    """A tool call in OpenAI's form."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


@lru_cache(4096)
def json_object(text: str) -> dict[str, Any]:
    """A text read as a JSON object; empty where it is none. Not to be changed by the caller, who shares it."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
