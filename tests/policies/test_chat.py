from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gradient_rl.environment.tools import TOOLS, tool_schemas
from gradient_rl.errors import MissingKeyError, ServiceError, UsageError
from gradient_rl.policies.base import Message, Reply, TransportError
from gradient_rl.policies.chat import ChatPolicy, own_client
from gradient_rl.policies.endpoint import Endpoint, Price
from gradient_rl.policies.faults import Fault, connection_fault, retry_after_s
from gradient_rl.rollout.runner import Job, Setting, run_episode, run_many
from gradient_rl.schema.jsonl import parse_line, to_line
from gradient_rl.schema.trajectory import StopReason, Trajectory, Usage
from tests.policies.fault_server import (
    CUT,
    HTML,
    NO_CHOICES,
    NOT_JSON,
    RESET,
    SILENT,
    STALLED,
    Act,
    FaultServer,
    Respond,
    completion,
    error,
    good,
    in_turn,
    json_act,
    native,
    refused_url,
)
from tests.tiny import NOTICE_TASK

CANARY = "sk-canary-0123456789abcdef"
MESSAGES: list[Message] = [{"role": "user", "content": "How much notice?"}]
SCHEMAS = list(tool_schemas(TOOLS))
NOW = 1_800_000_000.0
IN_7_S = "Fri, 15 Jan 2027 08:00:07 GMT"
SEARCH = native("search", {"query": "bakery notice"})
OPEN = native("open_email", {"id": "mail-1"})
SUBMIT = native("submit_answer", {"answer": "60 days", "sources": ["mail-1"]})
FOUND = good(SEARCH)


class Highest(random.Random):
    """Draws the upper bound, so that a wait can be written down."""

    def uniform(self, a: float, b: float) -> float:
        return b


@dataclass
class Outcome:
    reply: Reply = field(default_factory=Reply)
    error: Exception | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        return str(self.error)


def endpoint_at(url: str, **fields: object) -> Endpoint:
    return Endpoint(**{"base_url": url, "api_key": CANARY, "model": "tiny", "timeout_s": 5.0, **fields})


def ask(*acts: Act, extra: dict[str, Any] | None = None, messages: list[Message] = MESSAGES, **fields: object) -> Outcome:
    """One act against a server that plays these acts."""

    async def play() -> Outcome:
        async with FaultServer(in_turn(*acts)) as server:
            outcome = await act_at(server.url, extra, messages, **fields)
            outcome.requests = server.requests
            return outcome

    return asyncio.run(play())


async def act_at(
    url: str, extra: dict[str, Any] | None = None, messages: list[Message] = MESSAGES, **fields: object
) -> Outcome:
    outcome = Outcome()

    async def note(wait_s: float) -> None:
        outcome.waits.append(wait_s)

    endpoint = endpoint_at(url, **fields)
    policy = ChatPolicy(endpoint, 0.5, extra=extra, sleep=note, jitter=Highest(), clock=lambda: NOW)
    try:
        outcome.reply = await policy.act(messages, SCHEMAS, random.Random(3))
    except (TransportError, ServiceError, MissingKeyError) as failure:
        outcome.error = failure
    finally:
        await policy.aclose()
    assert CANARY not in f"{outcome.error!r} {outcome.reply!r} {endpoint!r}"
    assert outcome.error is None or (outcome.error.__cause__, outcome.error.__context__) == (None, None)
    return outcome


# --- what may pass is asked again

PASSING = {
    "429": (error(429), "HTTP 429"),
    "408": (error(408), "HTTP 408"),
    "409": (error(409), "HTTP 409"),
    "500": (error(500), "HTTP 500"),
    "502 with html": (Act(502, b"<html>bad gateway</html>"), "HTTP 502"),
    "503": (error(503), "HTTP 503"),
    "a body cut short": (CUT, "a failed connection (RemoteProtocolError)"),
    "a reset": (RESET, "a failed connection (ReadError)"),
    "html": (HTML, "HTTP 200 with a body that is not JSON"),
    "half an object": (NOT_JSON, "HTTP 200 with a body that is not JSON"),
    "deep nesting": (Act(200, b"[" * 200_000), "HTTP 200 with a body that is not JSON"),
    "a list": (json_act([1]), "HTTP 200 with a body that is not JSON"),
    "no choices": (NO_CHOICES, "HTTP 200 without choices"),
    "an error under 200": (json_act({"error": {"message": "overloaded"}}), "HTTP 200 without choices"),
    "choices that are text": (json_act({"choices": ["x"]}), "HTTP 200 without choices"),
}


@pytest.mark.parametrize(("fault", "_named"), PASSING.values(), ids=PASSING)
def test_a_fault_that_passes_costs_one_more_request(fault: Act, _named: str) -> None:
    outcome = ask(fault, FOUND)

    assert [call.tool for call in outcome.reply.tool_calls] == ["search"]
    assert len(outcome.requests) == 2
    assert outcome.waits == [1.0]


@pytest.mark.parametrize(("fault", "named"), PASSING.values(), ids=PASSING)
def test_a_fault_that_stays_is_a_transport_error_after_all_attempts(fault: Act, named: str) -> None:
    outcome = ask(fault)

    assert isinstance(outcome.error, TransportError)
    assert outcome.text.startswith(f"{named} after 5 attempts from http://127.0.0.1:")
    assert len(outcome.requests) == 5
    assert outcome.waits == [1.0, 2.0, 4.0, 8.0]


def test_all_attempts_send_the_same_request() -> None:
    first, second = ask(error(500), FOUND).requests

    assert first == second


def test_a_server_that_never_answers_times_out() -> None:
    outcome = ask(SILENT, timeout_s=0.1, attempts=2)

    assert outcome.text.startswith("no reply within 0.1 s after 2 attempts from http://127.0.0.1:")
    assert len(outcome.requests) == 2


def test_a_body_that_stops_coming_times_out() -> None:
    outcome = ask(STALLED, FOUND, timeout_s=0.3)

    assert outcome.reply.tool_calls
    assert len(outcome.requests) == 2


def test_a_server_that_takes_too_long_to_connect_may_be_there() -> None:
    from httpx import ConnectTimeout, Request
    from openai import APITimeoutError

    failure = APITimeoutError(Request("POST", "http://host/v1"))
    failure.__cause__ = ConnectTimeout("")

    assert connection_fault(endpoint_at("http://host/v1"), failure) == Fault("no reply within 5 s", unreached=False)


def test_a_reply_that_comes_too_late_is_asked_for_again() -> None:
    outcome = ask(Act(200, FOUND.body, delay_s=1.0), FOUND, timeout_s=0.3)

    assert outcome.reply.tool_calls
    assert len(outcome.requests) == 2


def test_a_server_that_was_never_there_is_told_after_a_second_look() -> None:
    outcome = asyncio.run(act_at(refused_url()))

    assert isinstance(outcome.error, ServiceError)
    assert outcome.text.startswith("nothing answers at http://127.0.0.1:")
    assert outcome.text.endswith("/v1: a failed connection (ConnectError); start it, or check the address")
    assert outcome.waits == [1.0]


def test_a_server_that_goes_away_after_an_answer_is_waited_for() -> None:
    async def play() -> tuple[str, list[float]]:
        waits: list[float] = []

        async def note(wait_s: float) -> None:
            waits.append(wait_s)

        async with FaultServer(in_turn(FOUND)) as server:
            policy = ChatPolicy(endpoint_at(server.url), sleep=note, jitter=Highest())
            await policy.act(MESSAGES, SCHEMAS, random.Random(3))
            await policy.aclose()
        with pytest.raises(TransportError) as caught:
            await policy.act(MESSAGES, SCHEMAS, random.Random(3))
        await policy.aclose()
        return str(caught.value), waits

    said, waits = asyncio.run(play())

    assert said.startswith("a failed connection (ConnectError) after 5 attempts from http://127.0.0.1:")
    assert waits == [1.0, 2.0, 4.0, 8.0]


# --- waits


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("0", 0.0),
        (IN_7_S, 7.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("86400", 60.0),
        ("Sat, 16 Jan 2027 08:00:00 GMT", 60.0),
        ("soon", 1.0),
        ("-5", 1.0),
        ("nan", 1.0),
        ("Fri, 99 Foo 2027", 1.0),
        ("", 1.0),
    ],
)
def test_retry_after_is_honoured_within_bounds_and_ignored_when_malformed(header: str, wait_s: float) -> None:
    outcome = ask(error(429, Retry_After=header), FOUND)

    assert outcome.waits == [wait_s]
    assert len(outcome.requests) == 2


def test_retry_after_counts_with_a_503_too() -> None:
    assert ask(error(503, Retry_After="2"), FOUND).waits == [2.0]


def test_the_backoff_is_bounded() -> None:
    assert ask(error(500), max_wait_s=3.0).waits == [1.0, 2.0, 3.0, 3.0]


def test_a_date_without_a_zone_is_utc() -> None:
    assert retry_after_s("Fri, 15 Jan 2027 08:00:07 -0000", NOW) == 7.0


def test_the_backoff_does_not_draw_from_the_episode() -> None:
    rng = random.Random(3)
    rng.getrandbits(31)

    async def state_after(*acts: Act) -> object:
        async with FaultServer(in_turn(*acts)) as server:
            policy, used = ChatPolicy(endpoint_at(server.url, max_wait_s=0.01)), random.Random(3)
            await policy.act(MESSAGES, SCHEMAS, used)
            await policy.aclose()
            return used.getstate()

    assert asyncio.run(state_after(error(500), error(500), FOUND)) == rng.getstate()


# --- what does not pass ends the run


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_at_once_without_the_key(status: int) -> None:
    outcome = ask(error(status, f"Incorrect API key provided: {CANARY}"))

    assert isinstance(outcome.error, MissingKeyError)
    assert f"/v1 refused the API key (HTTP {status})" in outcome.text
    assert outcome.text.startswith("http://127.0.0.1:")
    assert len(outcome.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        error(429, "You exceeded your current quota, please check your plan", "insufficient_quota"),
        error(429, "You have run out of credits."),
    ],
)
def test_exhausted_credits_are_not_retried(fault: Act) -> None:
    outcome = ask(fault)

    assert isinstance(outcome.error, ServiceError)
    assert "HTTP 429: You " in outcome.text
    assert outcome.text.endswith("; add credits")
    assert len(outcome.requests) == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (error(404, f"no model 'tiny'\nfor key {CANARY}"), "HTTP 404: no model 'tiny' for key ***; check the address"),
        (error(400, "'tools' is\x1b[31m not known"), "HTTP 400: 'tools' is [31m not known; check"),
        (json_act({"detail": "Not Found"}, 404), "HTTP 404: Not Found; check"),
        (Act(404, b"<html>lost</html>"), "HTTP 404; check"),
        (Act(405, b"use POST"), "HTTP 405: use POST; check"),
        (error(402, "x" * 1000), f"HTTP 402: {'x' * 200}; check"),
    ],
)
def test_a_refused_request_is_told_at_once_in_one_line(fault: Act, said: str) -> None:
    outcome = ask(fault)

    assert isinstance(outcome.error, ServiceError)
    assert said in outcome.text
    assert len(outcome.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        error(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
        error(400, "too long", "context_length_exceeded"),
        error(400, "the request exceeds the available context size, try increasing it"),
    ],
)
def test_a_context_overflow_is_a_reply(fault: Act) -> None:
    outcome = ask(fault)

    assert outcome.reply == Reply(finish_reason="context_overflow")
    assert len(outcome.requests) == 1


# --- secrets


def test_what_the_url_carries_is_hidden() -> None:
    endpoint = Endpoint(f"https://user:p%40ss-word-long@host/v1/{CANARY}?key=abcdefghijklmnop#part", CANARY, "tiny")

    assert endpoint.shown_url == "https://host/v1/***"
    assert endpoint.hide("p@ss-word-long p%40ss-word-long abcdefghijklmnop") == "*** *** ***"
    assert CANARY not in repr(endpoint)
    assert "abcdefghijklmnop" not in repr(endpoint)


def test_a_key_in_the_url_is_not_told() -> None:
    async def play() -> Outcome:
        async with FaultServer(in_turn(error(404, f"nothing at /v1?key={CANARY}"))) as server:
            url = server.url.replace("http://", f"http://user:{CANARY}@") + f"?key={CANARY}"
            return await act_at(url, api_key="")

    assert isinstance(asyncio.run(play()).error, ServiceError)


def test_a_key_that_the_server_echoes_is_hidden_in_the_reply() -> None:
    reply = ask(good(native("search", {"query": f"key {CANARY}"}), content=f"I have {CANARY}.")).reply

    assert reply.content == "I have ***."
    assert reply.tool_calls[0].arguments == {"query": "key ***"}


def test_a_placeholder_for_a_key_blacks_out_no_words() -> None:
    reply = ask(good(SEARCH, content="There is none in the context."), api_key="none").reply

    assert reply.content == "There is none in the context."
    assert Endpoint("http://host/v1", "x", "tiny").hide("exact x") == "exact ***"


@pytest.mark.parametrize("key", [f"{CANARY}\n", "clé-secrète-longue", "a b"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(MissingKeyError, match="the API key for http://host/v1 holds") as caught:
        Endpoint("http://host/v1", key, "tiny")
    assert key.strip() not in str(caught.value)


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host/v1", "http://", "http://[::1/v1", "http://a b/v1"])
def test_a_base_url_is_an_http_url(url: str) -> None:
    with pytest.raises(UsageError, match="the base URL of 'tiny' is no http URL"):
        Endpoint(url, CANARY, "tiny")


@pytest.mark.parametrize("name", ["timeout_s", "attempts", "max_wait_s", "max_completion_tokens"])
def test_numbers_are_above_zero(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} of the endpoint http://host/v1 is 0; it must be above 0"):
        endpoint_at("http://host/v1", **{name: 0})


# --- what is asked


def test_the_request_says_what_the_endpoint_is_told() -> None:
    (request,) = ask(FOUND, max_completion_tokens=77, logprobs=True, extra={"top_p": 0.9, "extra_body": {"top_k": 5}}).requests

    assert request == {
        "model": "tiny",
        "messages": MESSAGES,
        "tools": SCHEMAS,
        "temperature": 0.5,
        "max_completion_tokens": 77,
        "logprobs": True,
        "seed": random.Random(3).getrandbits(31),
        "top_p": 0.9,
        "top_k": 5,
    }


def test_extra_headers_and_query_go_beside_the_body() -> None:
    async def play() -> tuple[dict[str, Any], dict[str, str], str]:
        async with FaultServer(in_turn(FOUND)) as server:
            await act_at(server.url, {"extra_headers": {"X-Team": "us"}, "extra_query": {"version": "2"}})
            return server.requests[0], server.headers[0], server.paths[0]

    request, headers, path = asyncio.run(play())

    assert headers["x-team"] == "us"
    assert headers["authorization"] == f"Bearer {CANARY}"
    assert path == "/v1/chat/completions?version=2"
    assert not any(name.startswith("extra") or name == "timeout" for name in request)


def test_a_server_without_a_key_is_asked_all_the_same() -> None:
    assert ask(FOUND, api_key="").reply.tool_calls


def test_half_a_surrogate_pair_in_the_conversation_is_replaced() -> None:
    outcome = ask(FOUND, messages=[{"role": "user", "content": "a\ud800b"}])

    assert outcome.requests[0]["messages"] == [{"role": "user", "content": "a?b"}]


# --- what is answered


def test_a_native_call_goes_back_as_the_server_gave_it() -> None:
    written = '{ "query":"bakery",\n "x": 1.50 }'
    reply = ask(good(native("search", written), content="Let me see.")).reply

    assert reply.as_message() == {"role": "assistant", "content": "Let me see.", "tool_calls": [native("search", written)]}
    assert reply.tool_calls[0].arguments == {"query": "bakery", "x": 1.5}


def test_null_is_left_out_of_what_is_kept_but_for_the_arguments_of_a_call() -> None:
    call = {"id": "c1", "type": "function", "index": None, "function": {"name": "search", "arguments": {"query": None}}}
    reply = ask(good(call, content=None)).reply

    assert reply.raw["message"] == {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"query": None}}}],
    }
    assert reply.tool_calls[0].arguments == {"query": None}


@pytest.mark.parametrize("headers", [(), (("Content-Type", "text/plain"),)])
def test_json_is_read_whatever_the_server_calls_it(headers: tuple[tuple[str, str], ...]) -> None:
    assert ask(Act(200, json.dumps(completion(SEARCH)).encode(), headers)).reply.tool_calls[0].tool == "search"


def test_two_calls_come_in_order() -> None:
    reply = ask(good(native("search", {"query": "a"}, "c1"), native("search", {"query": "b"}, "c2"))).reply

    assert [(call.id, call.arguments["query"]) for call in reply.tool_calls] == [("c1", "a"), ("c2", "b")]


def test_an_unknown_tool_is_left_to_the_episode() -> None:
    assert ask(good(native("browse", {"url": "x"}))).reply.tool_calls[0].tool == "browse"


def test_null_content_without_a_call_is_malformed() -> None:
    reply = ask(good(finish="stop")).reply

    assert (reply.content, reply.tool_calls, reply.finish_reason) == (None, (), "stop")
    assert reply.malformed
    assert reply.as_message() == {"role": "assistant", "content": ""}


def test_a_call_that_cannot_be_read_goes_back_as_text() -> None:
    reply = ask(good(native("search", "}query["), content="Look:")).reply

    assert reply.malformed
    assert "tool_calls" not in reply.as_message()
    assert reply.as_message()["content"].startswith("Look:\n")
    assert "}query[" in reply.as_message()["content"]


@pytest.mark.parametrize("finish", ["length", "content_filter", "stop", "tool_calls"])
def test_the_finish_reason_is_passed_on(finish: str) -> None:
    assert ask(good(SEARCH, finish=finish)).reply.finish_reason == finish


def test_a_missing_finish_reason_follows_from_the_calls() -> None:
    assert ask(good(SEARCH, finish=None)).reply.finish_reason == "tool_calls"
    assert ask(good(content="Well.", finish=None)).reply.finish_reason == "stop"


def test_usage_is_priced() -> None:
    assert ask(FOUND, price_per_million=Price(2.0, 10.0)).reply.usage == Usage(
        prompt_tokens=100, completion_tokens=20, cost_usd=0.0004
    )


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "many"}, {"prompt_tokens": -3}])
def test_missing_usage_is_zero(usage: object) -> None:
    assert ask(json_act(completion(SEARCH) | {"usage": usage}), price_per_million=Price(1.0, 1.0)).reply.usage == Usage()


def token(logprob: float) -> dict[str, Any]:
    return {"token": "a", "bytes": [97], "logprob": logprob, "top_logprobs": []}


def test_the_choice_is_kept_with_token_ids_and_logprobs_and_without_empty_fields() -> None:
    ids = {"token_ids": [5, 6], "prompt_token_ids": [1, 2, 3]}
    raw = ask(good(SEARCH, logprobs={"content": [token(-0.25)], "refusal": None}, **ids)).reply.raw

    assert raw == {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "tool_calls": [SEARCH]},
        "logprobs": {"content": [token(-0.25)]},
        **ids,
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_logprobs_that_json_cannot_hold_are_dropped(number: float) -> None:
    raw = ask(good(SEARCH, logprobs={"content": [token(number)]}, score=number)).reply.raw

    assert "logprobs" not in raw
    assert raw.get("score") is None
    json.dumps(raw, allow_nan=False)


# --- clients


def test_a_client_that_is_handed_in_is_used_without_its_own_retries_and_not_closed() -> None:
    async def play() -> tuple[int, bool, int]:
        async with FaultServer(in_turn(error(500))) as server:
            endpoint = endpoint_at(server.url, attempts=2, max_wait_s=0.01)
            client = own_client(endpoint)
            client.max_retries = 2
            opened: list[object] = []
            policy = ChatPolicy(endpoint, open_client=lambda: opened.append(client) or client)
            with pytest.raises(TransportError):
                await policy.act(MESSAGES, SCHEMAS, random.Random(0))
            await policy.aclose()
            closed = client.is_closed()
            await client.close()
            assert [(r["messages"], r["tools"]) for r in server.requests] == [(MESSAGES, SCHEMAS)] * 2
            return len(server.requests), closed, len(opened)

    assert asyncio.run(play()) == (2, False, 1)


def test_a_policy_can_play_in_one_loop_after_another() -> None:
    policies: list[ChatPolicy] = []

    async def play() -> Reply:
        async with FaultServer(in_turn(FOUND)) as server:
            policies.append(policies[0] if policies else ChatPolicy(endpoint_at(server.url)))
            policy = policies[0]
            policy._endpoint = endpoint_at(server.url)
            reply = await policy.act(MESSAGES, SCHEMAS, random.Random(0))
            await policy.aclose()
            return reply

    assert asyncio.run(play()) == asyncio.run(play())


def test_importing_the_policy_loads_no_client() -> None:
    code = "import sys, gradient_rl.policies.chat; print({'openai', 'httpx', 'aiohttp', 'numpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "set()\n"


# --- whole episodes


def research(request: dict[str, Any]) -> Act:
    """Search, open, submit, by what was answered so far."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    return good((SEARCH, OPEN, SUBMIT)[turn], token_ids=[turn])


def episodes(respond: Respond, setting: Setting, count: int = 1, concurrency: int = 1, **fields: object) -> list[Trajectory]:
    async def play() -> list[Trajectory]:
        async with FaultServer(respond) as server:
            policy = ChatPolicy(endpoint_at(server.url, max_wait_s=0.01, **fields))
            jobs = (Job(policy, NOTICE_TASK, seed=0, sample=n, model="tiny") for n in range(count))
            try:
                return [trajectory async for trajectory in run_many(jobs, setting, concurrency)]
            finally:
                await policy.aclose()

    return asyncio.run(play())


def test_an_episode_is_played_through_the_endpoint(tiny_setting: Setting) -> None:
    (played,) = episodes(research, tiny_setting)

    assert (played.policy, played.stop_reason) == ("chat:tiny", StopReason.SUBMITTED)
    assert played.reward is not None
    assert played.reward.total == 1.0
    assert [choice["token_ids"] for choice in played.choices] == [[0], [1], [2]]
    assert played.usage == Usage(prompt_tokens=300, completion_tokens=60)
    assert CANARY not in to_line(played)
    assert parse_line(to_line(played), Trajectory, "file line 1") == played


def test_many_episodes_share_the_endpoint(tiny_setting: Setting) -> None:
    played = episodes(research, tiny_setting, count=32, concurrency=16)

    assert sorted(t.sample for t in played) == list(range(32))
    assert {t.stop_reason for t in played} == {StopReason.SUBMITTED}


def test_an_outage_leaves_no_reward_and_no_key(tiny_setting: Setting) -> None:
    (played,) = episodes(in_turn(FOUND, error(503, CANARY)), tiny_setting, attempts=2)

    assert (played.stop_reason, played.reward) == (StopReason.TRANSPORT_ERROR, None)
    assert (played.error or "").startswith("HTTP 503 after 2 attempts from http://127.0.0.1:")
    assert len(played.choices) == 1
    assert CANARY not in to_line(played)


def test_an_overflow_leaves_an_empty_choice_for_its_message(tiny_setting: Setting) -> None:
    (played,) = episodes(in_turn(FOUND, error(400, code="context_length_exceeded")), tiny_setting)

    assert played.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert [bool(choice) for choice in played.choices] == [True, False]


@pytest.mark.parametrize(("status", "ends"), [(401, MissingKeyError), (404, ServiceError)])
def test_an_endpoint_that_refuses_everything_ends_the_run(tiny_setting: Setting, status: int, ends: type[Exception]) -> None:
    seen: list[int] = []

    def respond(_: dict[str, Any]) -> Act:
        seen.append(status)
        return error(status)

    with pytest.raises(ends):
        episodes(respond, tiny_setting, count=100, concurrency=4)
    assert len(seen) <= 4


def test_cancelling_in_mid_request_closes_the_connection(tiny_setting: Setting) -> None:
    async def play() -> int:
        async with FaultServer(in_turn(SILENT)) as server:
            policy = ChatPolicy(endpoint_at(server.url))
            running = asyncio.create_task(run_episode(Job(policy, NOTICE_TASK, seed=0), tiny_setting))
            await until(lambda: bool(server.requests))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await until(lambda: server.open == 0)
            await policy.aclose()
            return len(server.requests)

    assert asyncio.run(play()) == 1


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)
