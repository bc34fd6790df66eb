"""Trajectories as chat examples: messages with tools, one JSON object a line, for fine-tuning APIs and for `datasets`.

`openai` is what fine-tuning APIs take: `messages`, which end with the last reply, and `tools`. `hf` has the same
conversation with flat columns beside it, and every line has the same columns with values of the same types and no null,
because a reader of JSON lines guesses the types from the first ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import cast

from gradient_rl.report.artifacts import Row
from gradient_rl.rewards.profile import PARTS
from gradient_rl.schema.trajectory import Trajectory


class Format(StrEnum):
    """Who reads it."""

    OPENAI = "openai"
    HF = "hf"


_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")
"""Of a message, that fine-tuning APIs know; what else a server sent along is left out."""


def examples(
    chosen: Iterable[tuple[Row, Trajectory]], form: Format, leave_out: list[str] | None = None
) -> Iterator[dict[str, object]]:
    """One example for each trajectory that has a reward and a reply.

    Args:
        chosen: the trajectories with their rows.
        form: who reads it.
        leave_out: is given the ids of those that make no example.
    """
    for row, trajectory in chosen:
        messages = _up_to_last_reply(trajectory.messages)
        if trajectory.reward is None or not messages:
            if leave_out is not None:
                leave_out.append(row.id)
        elif form is Format.OPENAI:
            yield {"messages": [_known_keys(message) for message in messages], "tools": list(trajectory.tools)}
        else:
            yield _flat(row, trajectory, messages)


def _up_to_last_reply(messages: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The conversation without what follows its last reply, which nothing could be learned from."""
    last = max((i for i, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
    return list(messages[: last + 1])


def _known_keys(message: Mapping[str, object]) -> dict[str, object]:
    return {key: message[key] for key in _KEYS if key in message}


def _flat(row: Row, trajectory: Trajectory, messages: Iterable[Mapping[str, object]]) -> dict[str, object]:
    reward = trajectory.reward
    values = {part.name: part.value for part in reward.parts} if reward else {}
    return {
        "messages": [_uniform(message) for message in messages],
        "tools": json.dumps(trajectory.tools, ensure_ascii=False),
        "id": row.id,
        "task_id": trajectory.task_id,
        "family": trajectory.family,
        "split": trajectory.split,
        "policy": trajectory.policy,
        "checkpoint": trajectory.checkpoint or "",
        "model": trajectory.model or "",
        "run_id": trajectory.run_id,
        "step": trajectory.step,
        "sample": trajectory.sample,
        "seed": trajectory.seed,
        "stop_reason": trajectory.stop_reason.value,
        "calls": trajectory.calls,
        "reward": float(reward.total) if reward else 0.0,
        **{name: float(values.get(name, 0.0)) for name in PARTS},
        "behaviours": " ".join(trajectory.behaviours),
        "question": trajectory.question,
        "answer": trajectory.answer or "",
        "sources": " ".join(trajectory.sources),
        "workspace": trajectory.digests.workspace,
    }


def _uniform(message: Mapping[str, object]) -> dict[str, object]:
    calls = cast("Sequence[Mapping[str, object]]", message.get("tool_calls") or ())
    return {
        "role": str(message.get("role", "")),
        "content": _as_text(message.get("content")),
        "tool_calls": [_uniform_call(call) for call in calls],
        "tool_call_id": _as_text(message.get("tool_call_id")),
    }


def _uniform_call(call: Mapping[str, object]) -> dict[str, object]:
    function = cast("Mapping[str, object]", call.get("function") or {})
    named = {"name": _as_text(function.get("name")), "arguments": _as_text(function.get("arguments"))}
    return {"id": _as_text(call.get("id")), "type": "function", "function": named}


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
