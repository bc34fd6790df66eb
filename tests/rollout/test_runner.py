from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gradient_rl.errors import MissingKeyError, ServiceError
from gradient_rl.policies.base import Message, Reply, TransportError
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, child_seed, run_episode, run_group, run_many
from gradient_rl.schema.jsonl import parse_line, to_line
from gradient_rl.schema.trajectory import StopReason, ToolCall, Trajectory, Usage
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

TIMES = {"started_at", "seconds"}


class Playing:
    """A policy that plays fixed replies, or raises."""

    name = "playing"

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def calls(*made: tuple[str, dict[str, object]]) -> Reply:
    return Reply.model_validate({"tool_calls": [{"id": f"c{n}", "tool": t, "arguments": a} for n, (t, a) in enumerate(made)]})


def play(setting: Setting, *replies: Reply | Exception) -> Trajectory:
    return asyncio.run(run_episode(Job(Playing(*replies), NOTICE_TASK, seed=0), setting))


SEARCH = ("search", {"query": "bakery notice"})
OPEN = ("open_email", {"id": "mail-1"})
SUBMIT = ("submit_answer", {"answer": "60 days", "sources": ["mail-1"]})


def without_times(trajectory: Trajectory) -> str:
    fields = trajectory.model_dump(mode="json", exclude=TIMES)
    for step in fields["steps"]:
        del step["seconds"]
    return json.dumps(fields)


def test_an_episode_becomes_a_scored_trajectory(tiny_setting: Setting) -> None:
    played = play(tiny_setting, calls(SEARCH), calls(OPEN), calls(SUBMIT))

    assert played.stop_reason is StopReason.SUBMITTED
    assert played.calls == 3
    assert played.reward is not None
    assert played.reward.total == 1.0


def test_the_seconds_of_scoring_are_told(tiny_setting: Setting) -> None:
    told: list[float] = []
    played = play(replace(tiny_setting, on_scored=told.append), calls(SEARCH), calls(OPEN), calls(SUBMIT))

    assert played.reward is not None
    assert len(told) == 1
    assert 0 < told[0] < 60


def test_several_calls_in_one_reply_run_in_order_and_each_counts(tiny_setting: Setting) -> None:
    played = play(tiny_setting, calls(SEARCH, OPEN, SUBMIT, SEARCH))

    assert [step.tool for step in played.steps] == ["search", "open_email", "submit_answer"]
    assert [m["role"] for m in played.messages] == ["system", "user", "assistant", "tool", "tool", "tool"]


def test_a_reply_without_a_call_is_malformed(tiny_setting: Setting) -> None:
    played = play(tiny_setting, Reply(content="It is 60 days."))

    assert played.stop_reason is StopReason.MALFORMED
    assert played.reward is not None
    assert played.reward.total == 0.0


@pytest.mark.parametrize(
    ("failure", "reason", "error"),
    [
        (TransportError("503 from the endpoint"), StopReason.TRANSPORT_ERROR, "503 from the endpoint"),
        (ZeroDivisionError("division by zero"), StopReason.ENVIRONMENT_ERROR, "ZeroDivisionError: division by zero"),
    ],
)
def test_an_infrastructure_failure_is_recorded_and_has_no_reward(
    tiny_setting: Setting, failure: Exception, reason: StopReason, error: str
) -> None:
    played = play(tiny_setting, calls(SEARCH), failure)

    assert (played.stop_reason, played.error, played.reward) == (reason, error, None)
    assert played.calls == 1


@pytest.mark.parametrize("finish", ["content_filter", "context_overflow"])
def test_a_filtered_reply_is_the_policys_doing(tiny_setting: Setting, finish: str) -> None:
    played = play(tiny_setting, Reply(content=None, finish_reason=finish))

    assert played.stop_reason == finish
    assert played.reward is not None


def test_usage_is_added_up(tiny_setting: Setting) -> None:
    reply = calls(SEARCH).model_copy(update={"usage": Usage(prompt_tokens=10, completion_tokens=2)})
    played = play(tiny_setting, reply, reply, calls(SUBMIT))

    assert played.usage == Usage(prompt_tokens=20, completion_tokens=4)


def test_cancellation_is_not_swallowed(tiny_setting: Setting) -> None:
    class Waiting(Playing):
        async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError

    async def cancel() -> None:
        running = asyncio.create_task(run_episode(Job(Waiting(), NOTICE_TASK, seed=0), tiny_setting))
        await asyncio.sleep(0)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())


@pytest.mark.parametrize("policy", [WeakPolicy(1.0), HeuristicPolicy(1.0)], ids=["weak", "heuristic"])
def test_the_same_seed_gives_the_same_bytes_but_for_times(tiny_setting: Setting, policy: WeakPolicy) -> None:
    async def twice() -> list[Trajectory]:
        return [await run_episode(Job(policy, NOTICE_TASK, seed=7), tiny_setting) for _ in range(2)]

    first, second = asyncio.run(twice())

    assert without_times(first) == without_times(second)


def test_a_trajectory_survives_its_line(tiny_setting: Setting) -> None:
    played = play(tiny_setting, calls(SEARCH), calls(OPEN), calls(SUBMIT))

    assert parse_line(to_line(played), Trajectory, "file line 1") == played


def test_a_trajectory_of_another_schema_version_is_refused_by_name(tiny_setting: Setting) -> None:
    from gradient_rl.errors import DataError

    line = to_line(play(tiny_setting, calls(SUBMIT))).replace('"schema_version":1', '"schema_version":0')

    with pytest.raises(DataError, match=r"old.jsonl line 3: field 'schema_version': Input should be 1 \(got 0\)"):
        parse_line(line, Trajectory, "old.jsonl line 3")


def test_a_group_is_ordered_by_sample(tiny_setting: Setting) -> None:
    jobs = [Job(WeakPolicy(1.0), NOTICE_TASK, seed=1, sample=n) for n in range(4)]
    group = asyncio.run(run_group(jobs, tiny_setting, concurrency=4))

    assert [t.sample for t in group.trajectories] == [0, 1, 2, 3]
    assert len(group.rewards) == 4


def test_a_group_is_of_one_task(tiny_setting: Setting) -> None:
    jobs = [Job(WeakPolicy(), task, seed=1) for task in (NOTICE_TASK, DEPOSIT_TASK)]

    with pytest.raises(ValueError, match="a group is made of samples of one task"):
        asyncio.run(run_group(jobs, tiny_setting))


def test_no_more_episodes_run_at_once_than_allowed(tiny_setting: Setting) -> None:
    running, most = 0, 0

    class Counting(Playing):
        async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
            nonlocal running, most
            running, most = running + 1, max(most, running + 1)
            await asyncio.sleep(0)
            running -= 1
            return calls(SUBMIT)

    async def play_all() -> int:
        jobs = (Job(Counting(), NOTICE_TASK, seed=n) for n in range(20))
        return len([trajectory async for trajectory in run_many(jobs, tiny_setting, concurrency=3)])

    assert asyncio.run(play_all()) == 20
    assert most == 3


def test_child_seeds_are_stable_and_differ_in_every_part() -> None:
    seeds = {child_seed(*parts) for parts in [(0, 0, "a", 0), (1, 0, "a", 0), (0, 1, "a", 0), (0, 0, "b", 0), (0, 0, "a", 1)]}

    assert len(seeds) == 5
    assert child_seed(0, 0, "tiny-1", 0) == 238745482307201


def test_a_tool_call_has_an_id_that_its_answer_names(tiny_setting: Setting) -> None:
    played = asyncio.run(run_episode(Job(WeakPolicy(), NOTICE_TASK, seed=0), tiny_setting))
    asked = [call["id"] for m in played.messages for call in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in played.messages if m["role"] == "tool"]

    assert asked == answered
    assert len(set(asked)) == len(asked)
    assert ToolCall(tool="x", arguments={}).id == ""


@pytest.mark.parametrize("refusal", [MissingKeyError("the key was refused"), ServiceError("no such model")])
def test_an_endpoint_that_refuses_every_episode_ends_the_run(tiny_setting: Setting, refusal: Exception) -> None:
    with pytest.raises(type(refusal), match=str(refusal)):
        play(tiny_setting, calls(SEARCH), refusal)


def test_episodes_that_ended_with_the_refused_one_are_yielded_first(tiny_setting: Setting) -> None:
    taken: list[int] = []

    async def play_both() -> None:
        policies = [Playing(ServiceError("no such model")), Playing(calls(SUBMIT))]
        jobs = [Job(policy, NOTICE_TASK, seed=0, sample=n) for n, policy in enumerate(policies)]
        async for trajectory in run_many(jobs, tiny_setting, concurrency=2):
            taken.append(trajectory.sample)  # noqa: PERF401 - what was taken before the error is what counts

    with pytest.raises(ServiceError):
        asyncio.run(play_both())
    assert taken == [1]


def test_an_episode_beyond_its_deadline_failed_on_the_way(tiny_setting: Setting) -> None:
    class Slow(Playing):
        async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
            await asyncio.sleep(0 if self._replies else 60)
            return self._replies.pop(0)

    setting = replace(tiny_setting, deadline_s=0.05)
    played = asyncio.run(run_episode(Job(Slow(calls(SEARCH)), NOTICE_TASK, seed=0), setting))

    assert (played.stop_reason, played.error) == (StopReason.TRANSPORT_ERROR, "no end within 0.05 s")
    assert (played.reward, played.calls) == (None, 1)


def test_a_timeout_of_the_policys_own_is_not_the_deadline(tiny_setting: Setting) -> None:
    played = play(replace(tiny_setting, deadline_s=60.0), TimeoutError("mine"))

    assert (played.stop_reason, played.error) == (StopReason.ENVIRONMENT_ERROR, "TimeoutError: mine")


def test_the_servers_choices_are_kept_for_each_message(tiny_setting: Setting) -> None:
    first = calls(SEARCH).model_copy(update={"raw": {"index": 0}})

    assert play(tiny_setting, first, calls(SUBMIT)).choices == ({"index": 0}, {})
    assert play(tiny_setting, calls(SUBMIT)).choices == ()
