"""The chat policy: a language model behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from gradient_rl.errors import ServiceError
from gradient_rl.policies.base import Message, Reply, TransportError, json_object, wire_call
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.policies.faults import NO_CHOICES, NOT_JSON, Fault, connection_fault, status_fault, wait_s
from gradient_rl.policies.toolcalls import CallsRead, read_calls
from gradient_rl.schema.trajectory import ToolCall, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEEP_ALIVE_S = 4.0
"""How long an idle connection is kept. Common servers close theirs after 5 s; a request sent into that moment is lost."""

FIRST_ATTEMPTS = 2
"""Connections tried to a server that has never answered. More of them would only delay the news that none is there."""

_NOT_IN_BODY = {"timeout": "timeout", "extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json"}
"""Arguments of the client's `create` that are no fields of the request, by the option of `post` that does the same."""


class ChatPolicy:
    """Plays through an endpoint. It owns all retries: the client's own are switched off.

    Args:
        endpoint: where the model is.
        temperature: 0 is greedy.
        open_client: makes the client, at the first act and in its event loop; only `chat.completions.create` is called.
            Whoever made a client closes it. None: a client of the policy's own, which `aclose` closes.
        extra: further keyword arguments for every request; they win over the policy's own.
        sleep: waits between two attempts, in seconds.
        jitter: draws those waits. Not the episode's generator: a fault must not change what a policy samples later.
        clock: seconds since the epoch.
        name: under which its trajectories are saved; `chat:MODEL` if left out.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        temperature: float = 0.0,
        open_client: Callable[[], AsyncOpenAI] | None = None,
        extra: Mapping[str, Any] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        name: str | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._name = name or f"chat:{endpoint.model}"
        self._temperature = temperature
        self._open_client = open_client
        self._extra = dict(extra or {})
        self._sleep = sleep
        self._jitter = jitter or random.Random()
        self._clock = clock
        self._opened: tuple[asyncio.AbstractEventLoop, AsyncOpenAI] | None = None
        self._reached = open_client is not None  # whoever made the client knows the server

    @property
    def name(self) -> str:
        """See `Policy.name`."""
        return self._name

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """Ask the model what to do next.

        A conversation beyond the model's context is a reply whose `finish_reason` is `context_overflow`.

        Raises:
            TransportError: every attempt failed on the way.
            MissingKeyError: the endpoint refused the key.
            ServiceError: the endpoint refused the request, so asking again would not help; or no server was ever there.
        """
        request = self._request(messages, tools, rng)
        try:
            answer = await self._ask(request)
        except UnicodeEncodeError:
            # A reply may hold half a surrogate pair, which JSON can carry as an escape but UTF-8 cannot.
            answer = await self._ask({**request, "messages": _encodable(messages)})
        return answer if isinstance(answer, Reply) else self._reply(answer, tools)

    async def aclose(self) -> None:
        """Close the policy's own client; the next act opens another."""
        opened, self._opened = self._opened, None
        if opened and self._open_client is None:
            await opened[1].close()

    def _request(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": list(messages),
            "temperature": self._temperature,
            "max_completion_tokens": self._endpoint.max_completion_tokens,
            "seed": rng.getrandbits(31),
            "timeout": self._endpoint.timeout_s,
        }
        if tools:
            request["tools"] = list(tools)
        if self._endpoint.logprobs:
            request["logprobs"] = True
        return request | self._extra

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any] | Reply:
        """The answer as plain JSON, after as many attempts as it takes; a Reply where there is none to read."""
        endpoint, fault = self._endpoint, Fault("")
        for attempt in range(1, endpoint.attempts + 1):
            answer = await self._ask_once(request)
            self._reached |= not (isinstance(answer, Fault) and answer.unreached)
            if not isinstance(answer, Fault):
                return answer
            fault = answer
            if not self._reached and attempt == FIRST_ATTEMPTS:
                raise ServiceError(f"nothing answers at {endpoint.shown_url}: {fault.what}; start it, or check the address")
            if attempt < endpoint.attempts:
                await self._sleep(wait_s(fault, attempt, endpoint.max_wait_s, self._jitter, self._clock()))
        tries = f"{endpoint.attempts} attempt{'s' if endpoint.attempts > 1 else ''}"
        raise TransportError(f"{fault.what} after {tries} from {endpoint.shown_url}")

    async def _ask_once(self, request: dict[str, Any]) -> dict[str, Any] | Reply | Fault:
        from openai import APIConnectionError, APIStatusError

        endpoint, client = self._endpoint, self._client()
        try:
            async with asyncio.timeout(endpoint.timeout_s):
                if self._open_client is None:
                    answer = await _post(client, request)
                else:
                    answer = cast("object", await client.chat.completions.create(**request))
            return self._plain(answer)
        except UnicodeEncodeError:
            raise
        except (APIConnectionError, APIStatusError, TimeoutError) as error:
            failure = error
        except (ValueError, RecursionError):
            return NOT_JSON
        # Read outside the handlers, so that no error raised here carries the client's, whose text may hold the key.
        if isinstance(failure, APIStatusError):
            return status_fault(endpoint, failure.status_code, failure.response.headers, failure.body)
        return connection_fault(endpoint, failure)

    def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            client = self._open_client() if self._open_client else own_client(self._endpoint)
            retrying = getattr(client, "max_retries", 0)
            self._opened = loop, client.with_options(max_retries=0) if retrying else client
        return self._opened[1]

    def _plain(self, answer: object) -> dict[str, Any] | Fault:
        """The answer as plain JSON without empty fields, its first choice safe to write to a file."""
        if isinstance(answer, BaseModel):
            answer = answer.model_dump(mode="json", exclude_none=True, warnings=False)
        elif isinstance(answer, str):  # a body that the server did not call JSON; it may be
            answer = cast("object", json.loads(answer))
        if not isinstance(answer, dict):
            return NOT_JSON
        plain = cast("dict[str, Any]", _without_none(cast("object", answer)))
        choices = plain.get("choices")
        choice = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return NO_CHOICES
        safe = self._without_secrets(_finite(cast("dict[str, Any]", choice)))
        return {"choice": safe, "usage": plain.get("usage")}

    def _without_secrets(self, choice: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(choice, ensure_ascii=False)
        hide = self._endpoint.hide_in_reply
        return choice if hide(text) == text else cast("dict[str, Any]", _each_text(choice, hide))

    def _reply(self, answer: dict[str, Any], tools: Sequence[Message]) -> Reply:
        choice = answer["choice"]
        said = _object(choice.get("message"))
        content = said.get("content")
        content = content if isinstance(content, str) else None
        native = _objects(said.get("tool_calls"))
        read = read_calls(content, native, tools)
        finish = choice.get("finish_reason")
        return Reply(
            content=read.content,
            tool_calls=read.calls,
            malformed=read.malformed,
            finish_reason=finish if isinstance(finish, str) else "tool_calls" if read.calls else "stop",
            raw=choice,
            message=_message(content, native, read),
            usage=self._usage(_object(answer["usage"])),
        )

    def _usage(self, counted: dict[str, Any]) -> Usage:
        prompt, completion = (_count(counted.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        price = self._endpoint.price_per_million
        cost = price.cost_usd(prompt, completion) if price else 0.0
        return Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=cost)


def own_client(endpoint: Endpoint) -> AsyncOpenAI:
    """A client without retries and without a bound on connections, which is the runner's to set by its concurrency."""
    from httpx import Limits
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    limits = Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_S)
    http_client = DefaultAsyncHttpxClient(limits=limits, timeout=endpoint.timeout_s)
    return AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.key_sent, max_retries=0, http_client=http_client)


async def _post(client: AsyncOpenAI, request: Mapping[str, Any]) -> object:
    """What `chat.completions.create` would send, and the answer as plain JSON.

    That method walks through every part of a request and of its answer by its type, which nothing here looks at: it takes
    40% of the processor time of a turn.
    """
    from openai import RequestOptions

    body = {name: value for name, value in request.items() if name not in _NOT_IN_BODY}
    options = RequestOptions(**{_NOT_IN_BODY[name]: value for name, value in request.items() if name in _NOT_IN_BODY})
    return await client.post("/chat/completions", cast_to=object, body=body, options=options)


def _message(content: str | None, native: Sequence[dict[str, Any]], read: CallsRead) -> Message | None:
    """The assistant message as it goes back; None where the calls stood in the text and are written out as calls."""
    if read.malformed is not None:
        # A message with calls must be followed by their results, and an unreadable call has none: it goes back as text.
        spelled = [json.dumps(call, ensure_ascii=False) for call in native]
        return {"role": "assistant", "content": "\n".join(filter(None, [content, *spelled]))}
    if len(native) != len(read.calls):
        return None
    calls = [_as_given(given, call) for given, call in zip(native, read.calls, strict=True)]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _as_given(given: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """The call in OpenAI's form, with the very arguments that the model wrote if they are a JSON object."""
    wire = wire_call(call)
    written = _object(given.get("function")).get("arguments")
    if isinstance(written, str) and json_object(written) == call.arguments and written.strip():
        wire["function"]["arguments"] = written
    return wire


def _finite(choice: dict[str, Any]) -> dict[str, Any]:
    """The choice without NaN and infinity, which JSON cannot hold; log-probabilities with a hole are of no use."""
    try:
        json.dumps(choice, allow_nan=False)
    except ValueError:
        text = json.dumps({name: value for name, value in choice.items() if name != "logprobs"})
        return json.loads(text, parse_constant=lambda _: None)
    return choice


def _without_none(value: object) -> object:
    """The value without empty fields, but for those of a call's arguments, in which null is what the model wrote."""
    if isinstance(value, list):
        return [_without_none(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value).items()
        return {name: item if name == "arguments" else _without_none(item) for name, item in fields if item is not None}
    return value


def _each_text(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {change(name): _each_text(item, change) for name, item in cast("dict[str, object]", value).items()}
    return value


def _encodable(messages: Sequence[Message]) -> list[Message]:
    return json.loads(json.dumps(list(messages), ensure_ascii=False).encode("utf-8", "replace"))


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [_object(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
