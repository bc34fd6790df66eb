"""Does the conversation of a saved trajectory tell what its steps tell? Every call, every answer, and the question asked.

The runner answers the calls of a reply in their order, and stops at the one that ends the episode. A call that could not be
run is answered with what was wrong with it and is no step, and so is a reply without a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from gradient_rl.policies.base import json_object
from gradient_rl.schema.trajectory import Step, StopReason, Trajectory

type _Message = Mapping[str, object]

MALFORMED = "malformed reply: "
"""What the answer to a reply or call that could not be run starts with."""
_DATE = re.compile(r"Today is (\d{4}-\d{2}-\d{2})\.\n\n")
_SHOWN = 60


def asked_on(trajectory: Trajectory) -> str | None:
    """The day that the policy was told, ISO 8601; None where it was told none."""
    opening = _opening(trajectory.messages)
    match = _DATE.match(_text(opening)) if opening else None
    return match[1] if match else None


def conversation_faults(t: Trajectory) -> Iterator[str]:
    """What the conversation tells otherwise than the steps and the question, a sentence each; of the steps the first alone."""
    opening = _opening(t.messages)
    if opening is None:
        yield "its conversation holds no message of the user"
        return
    asked = _text(opening)
    if asked != t.question and not asked.endswith(f"\n\n{t.question}"):
        told = asked.partition("\n\n")[2] or asked
        yield f"its conversation asks '{told:.{_SHOWN}}', and its question is '{t.question:.{_SHOWN}}'"
    fault = _first_fault(t)
    if fault:
        yield fault


def choice_faults(t: Trajectory) -> Iterator[str]:
    """Where a reply in the conversation is not the one that the server gave; calls that stood in its text are left aside."""
    replies = [message for message in t.messages if message.get("role") == "assistant"]
    for number, (reply, choice) in enumerate(zip(replies, t.choices, strict=False), start=1):
        given = _object(choice.get("message"))
        calls, native = calls_of(reply), calls_of(given)
        written, said = _text(given), _text(reply)
        if (calls and native and said != written) or (not calls and not said.startswith(written)):
            yield f"reply {number} says '{said:.{_SHOWN}}' in its conversation, and the server gave '{written:.{_SHOWN}}'"
        if calls and native and [_name(call) for call in calls] != [_name(call) for call in native]:
            yield f"reply {number} makes other calls in its conversation than the server gave"


def _name(call: _Message) -> object:
    return _function(call).get("name")


def _first_fault(t: Trajectory) -> str | None:
    done = 0
    calls: list[_Message] = []
    for message in _after_opening(t.messages):
        if message.get("role") == "assistant":
            calls = calls_of(message)
            continue
        call = calls.pop(0) if calls and message.get("role") == "tool" else None
        fault = _fault_in(call, message, t.steps[done] if done < len(t.steps) else None)
        if not fault:
            done += 1
        elif not _text(message).startswith(MALFORMED):
            return f"step {done + 1} {fault}"
    return _rest_fault(t, calls, done)


def _rest_fault(t: Trajectory, calls: Sequence[_Message], done: int) -> str | None:
    """The steps that the conversation does not answer; a fault of a tool ends an episode before its reply is answered."""
    rest = t.steps[done:]
    if t.stop_reason is StopReason.ENVIRONMENT_ERROR:
        rest = [step for step, call in zip(rest, calls, strict=False) if not _is_call(call, step)] + list(rest[len(calls) :])
    return f"step {done + 1} is not in its conversation" if rest else None


def _fault_in(call: _Message | None, answer: _Message, step: Step | None) -> str:
    """How a step differs from a call and its answer; empty if it does not."""
    if call is None:
        return f"has no call in its conversation, where a message of the role {answer.get('role')!r} stands"
    if step is None or not _is_call(call, step):
        own = f"{step.tool} {step.arguments}" if step else "missing"
        told = f"{_function(call).get('name')} {_function(call).get('arguments')}"
        return f"is {own:.{_SHOWN}}, and its conversation has {told:.{_SHOWN}}"
    if answer.get("tool_call_id") != call.get("id"):
        return f"is answered in its conversation under the id {answer.get('tool_call_id')!r}, not {call.get('id')!r}"
    return "" if _text(answer) == step.observation else "has another observation than its conversation"


def _is_call(call: _Message, step: Step) -> bool:
    function = _function(call)
    arguments = function.get("arguments")
    return function.get("name") == step.tool and isinstance(arguments, str) and read_object(arguments) == step.arguments


def read_object(text: str) -> _Message:
    """A text read as a JSON object; empty where it is none, or one that is nested too deep to be read."""
    try:
        return json_object(text)
    except RecursionError:
        return {}


def calls_of(message: _Message) -> list[_Message]:
    """The tool calls of a message; what is no object counts as an empty one."""
    calls = message.get("tool_calls")
    return [_object(call) for call in cast("list[object]", calls)] if isinstance(calls, list) else []


def _function(call: _Message) -> _Message:
    return _object(call.get("function"))


def _object(value: object) -> _Message:
    return cast("_Message", value) if isinstance(value, dict) else {}


def _opening(messages: Sequence[_Message]) -> _Message | None:
    first = next((message for message in messages if message.get("role") != "system"), None)
    return first if first and first.get("role") == "user" else None


def _after_opening(messages: Sequence[_Message]) -> Sequence[_Message]:
    first = next((i for i, message in enumerate(messages) if message.get("role") == "user"), len(messages))
    return messages[first + 1 :]


def _text(message: _Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
