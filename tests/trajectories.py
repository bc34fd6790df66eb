"""Trajectories made in memory, for tests that need no rollout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from gradient_rl.schema.trajectory import Digests, Step, StopReason, Trajectory


def opening(record_id: str) -> Step:
    tool = "open_email" if record_id.startswith("mail") else "open_document"
    return Step(tool=tool, arguments={"id": record_id}, observation="{}", ids=(record_id,))


def searching(query: str, *ids: str) -> Step:
    return Step(tool="search", arguments={"query": query}, observation="{}", ids=ids)


def trajectory(
    answer: str | None = "60 days",
    sources: Iterable[str] = ("mail-1",),
    opened: Iterable[str] = ("mail-1",),
    steps: Iterable[Step] | None = None,
    stop_reason: StopReason = StopReason.SUBMITTED,
    **more: object,
) -> Trajectory:
    """One search, the openings, and the submission, unless steps are given."""
    made = [searching("notice", *opened), *(opening(record_id) for record_id in opened)]
    if answer is not None:
        made.append(Step(tool="submit_answer", arguments={"answer": answer, "sources": list(sources)}, observation="{}"))
    fields = {
        "split": "train",
        "task_id": "tiny-1",
        "family": "superseded",
        "policy": "made",
        "seed": 0,
        "digests": Digests(),
        "question": "How much notice?",
        "messages": (),
        "tools": (),
        "steps": tuple(steps if steps is not None else made),
        "answer": answer,
        "sources": tuple(sources),
        "stop_reason": stop_reason,
        "max_calls": 15,
    }
    return Trajectory.model_validate({**fields, **more})


def with_conversation(made: Trajectory) -> Trajectory:
    """The trajectory with the conversation that its question and steps come from, a call a reply."""
    messages: list[Mapping[str, object]] = [{"role": "user", "content": f"Today is 2025-06-30.\n\n{made.question}"}]
    for number, step in enumerate(made.steps):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": step.observation})
    return made.model_copy(update={"messages": tuple(messages)})
