from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gradient_rl.environment.episode import Limits
from gradient_rl.environment.workspace import Workspace
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.report.conversation import asked_on, choice_faults, conversation_faults
from gradient_rl.report.laws import faults_in
from gradient_rl.report.library import Library
from gradient_rl.rollout.runner import Job, run_episode, setting_for
from gradient_rl.schema.jsonl import parse_line, to_line
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.saving import scored
from tests.tiny import NOTICE_TASK

UNKNOWN = Library(Path("nowhere"), {}, {}, {}, "")
GOOD = scored()
USER, CALL, ANSWER, *REST = GOOD.messages


def faults(trajectory: Trajectory) -> list[str]:
    return list(conversation_faults(trajectory))


def saying(*messages: dict[str, Any]) -> Trajectory:
    return GOOD.model_copy(update={"messages": messages})


def call(tool: object, arguments: object, number: int = 0) -> dict[str, Any]:
    return {"id": f"n{number}", "type": "function", "function": {"name": tool, "arguments": arguments}}


def native(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"content": "I look.", "tool_calls": list(calls)}


def played(tiny: Workspace, *replies: dict[str, Any], limits: Limits | None = None) -> Trajectory:
    """An episode of the chat policy that was saved and read, with a server that gives these messages in turn."""
    waiting = iter(replies)

    async def create(**request: object) -> dict[str, Any]:
        return {"choices": [{"message": {"role": "assistant", **next(waiting)}, "finish_reason": "stop"}]}

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    endpoint = Endpoint(base_url="http://127.0.0.1:9/v1", api_key="", model="m", attempts=1)
    policy = ChatPolicy(endpoint, open_client=lambda: cast("Any", client))
    made = asyncio.run(run_episode(Job(policy, NOTICE_TASK, seed=0), setting_for(tiny, limits or Limits(max_malformed=2))))
    return parse_line(to_line(made), Trajectory, "here")


SEARCH = call("search", '{"query":  "bakery notice"}')
OPEN = call("open_email", '{"id": "mail-1"}', 1)
SUBMIT = call("submit_answer", '{"answer": "60 days", "sources": ["mail-1"]}', 2)


def written(made: dict[str, Any]) -> str:
    name, arguments = made["function"]["name"], json.loads(made["function"]["arguments"])
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.mark.parametrize(
    ("replies", "calls"),
    [
        ([native(SEARCH), native(OPEN), native(SUBMIT)], 3),
        ([native(SEARCH, OPEN, SUBMIT)], 3),
        ([native(SEARCH, SUBMIT, OPEN)], 2),
        ([{"content": f"Think. {written(SEARCH)}"}, {"content": written(OPEN) + written(SUBMIT)}], 3),
        ([{"content": "Nothing."}, native(SEARCH), native(call("search", "{]")), native(SUBMIT)], 2),
        ([native(call("find", "{}"), SEARCH, call("search", '{"words": 1}', 3), OPEN), native(SUBMIT)], 3),
        ([{"content": "One."}, {"content": "Two."}, {"content": "Three."}], 0),
        ([native(OPEN), native(SEARCH), native(call("submit_answer", '{"answer": "x", "sources": "y"}')), native(SUBMIT)], 3),
    ],
    ids=["native", "several", "after the end", "in text", "malformed", "unrunnable", "given up", "refused"],
)
def test_an_episode_as_it_is_recorded_has_no_fault(tiny: Workspace, replies: list[dict[str, Any]], calls: int) -> None:
    episode = played(tiny, *replies)

    assert len(episode.steps) == calls
    assert list(faults_in(episode, UNKNOWN)) == []


def test_an_episode_that_a_server_left_has_no_fault(tiny: Workspace) -> None:
    episode = played(tiny, native(SEARCH, OPEN), {"role": None, "tool_calls": 3}, limits=Limits(max_calls=2))

    assert (episode.stop_reason, len(episode.steps)) == (StopReason.CALL_LIMIT, 2)
    assert list(faults_in(episode, UNKNOWN)) == []


def test_a_reply_that_a_tools_fault_left_unanswered_may_have_made_steps() -> None:
    both = {**CALL, "tool_calls": [*CALL["tool_calls"], call("broken", "{}")]}
    left = saying(USER, both).model_copy(update={"steps": GOOD.steps[:1], "stop_reason": StopReason.ENVIRONMENT_ERROR})

    assert faults(left) == []
    assert faults(left.model_copy(update={"steps": GOOD.steps[1:2]})) == ["step 1 is not in its conversation"]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ((), "its conversation holds no message of the user"),
        ((CALL, USER), "its conversation holds no message of the user"),
        (
            ({**USER, "content": "Today is 2025-06-30.\n\nWho?"}, CALL, ANSWER, *REST),
            "its conversation asks 'Who?', and its question is 'How much notice does the bakery contract ask for now?'",
        ),
        ((USER, CALL, {**ANSWER, "content": "{}!"}, *REST), "step 1 has another observation than its conversation"),
        ((USER, CALL, {**ANSWER, "content": None}, *REST), "step 1 has another observation than its conversation"),
        (
            (USER, CALL, {**ANSWER, "tool_call_id": "c9"}, *REST),
            "step 1 is answered in its conversation under the id 'c9', not 'c0'",
        ),
        (
            (USER, {**CALL, "tool_calls": [call("search", '{"query": "x"}')]}, ANSWER, *REST),
            """step 1 is search {'query': 'notice'}, and its conversation has search {"query": "x"}""",
        ),
        (
            (USER, {"role": "assistant", "content": "no"}, ANSWER, *REST),
            "step 1 has no call in its conversation, where a message of the role 'tool' stands",
        ),
        (
            (USER, {**CALL, "tool_calls": 7}, ANSWER, *REST),
            "step 1 has no call in its conversation, where a message of the role 'tool' stands",
        ),
        (
            (USER, {**CALL, "tool_calls": [7]}, ANSWER, *REST),
            "step 1 is search {'query': 'notice'}, and its conversation has None None",
        ),
        (
            (USER, *REST),
            """step 1 is search {'query': 'notice'}, and its conversation has open_email {"id": "mail-1"}""",
        ),
        ((USER, CALL, ANSWER, *REST[:2]), "step 3 is not in its conversation"),
        ((*GOOD.messages, CALL, ANSWER), 'step 4 is missing, and its conversation has search {"query": "notice"}'),
        (
            (*GOOD.messages, {"role": "user", "content": "Go on."}),
            "step 4 has no call in its conversation, where a message of the role 'user' stands",
        ),
    ],
)
def test_a_conversation_that_tells_something_else_is_told(messages: tuple[dict[str, Any], ...], fault: str) -> None:
    assert faults(saying(*messages)) == [fault]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"content": "I guess."}, "reply 1 says 'I guess.' in its conversation, and the server gave 'I look.'"),
        ({"tool_calls": []}, None),
        ({"tool_calls": [call("open_email", "{}")]}, "reply 1 makes other calls in its conversation than the server gave"),
        ({"content": "", "tool_calls": []}, "reply 1 says '' in its conversation, and the server gave 'I look.'"),
    ],
)
def test_a_reply_that_the_server_did_not_give_is_told(tiny: Workspace, fields: dict[str, Any], fault: str | None) -> None:
    episode = played(tiny, native(SEARCH), native(SUBMIT))
    system, user, reply, *rest = episode.messages
    edited = episode.model_copy(update={"messages": (system, user, {**reply, **fields}, *rest)})

    assert list(choice_faults(episode)) == []
    assert list(choice_faults(edited)) == ([fault] if fault else [])


def test_arguments_that_are_nested_too_deep_are_other_arguments() -> None:
    deep = saying(USER, {**CALL, "tool_calls": [call("search", "[" * 100_000)]}, ANSWER, *REST)

    assert faults(deep)[0].startswith("step 1 is search {'query': 'notice'}, and its conversation has search [[[")


def test_the_day_is_the_one_that_the_policy_was_told() -> None:
    assert asked_on(GOOD) == "2025-06-30"
    assert asked_on(saying({"role": "user", "content": "Who?"})) is None
