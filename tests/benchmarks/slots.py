"""A chat endpoint on 127.0.0.1 that answers scripted episodes: some requests at a time, each for a fixed while, in turn.

It is as lean as can be, so that what is measured is the client: one protocol object a connection, replies made beforehand, and
of a request only the question and the number of replies so far are looked at.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from gradient_rl.policies.base import wire_call
from gradient_rl.schema.trajectory import ToolCall

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_QUESTION = re.compile(rb'"Today is (?:[^"\\]|\\.)*"')
_HEAD_END = b"\r\n\r\n"

type Script = Mapping[str, Sequence[bytes]]
"""By the user's message, the responses of the episode's turns."""


class Held(NamedTuple):
    """When a request had a slot, by the clock of `time.monotonic`, which all processes of a machine share."""

    since: float
    until: float


class SlotServer:
    """Serves while its block is open.

    Args:
        script: what it answers.
        slots: requests that it works on at a time; others wait, first come, first served.
        call_s: how long it works on one.
    """

    def __init__(self, script: Script, slots: int, call_s: float) -> None:
        self.held: list[Held] = []
        """Every request that was answered."""
        self.sizes: list[int] = []
        """Bytes of every request's body."""
        self._script = script
        self._free = slots
        self._call_s = call_s
        self._waiting: deque[tuple[asyncio.Transport, bytes]] = deque()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()
        await self._server.wait_closed()

    def take(self, connection: asyncio.Transport, body: bytes) -> None:
        """Answer a request when a slot is free."""
        self.sizes.append(len(body))
        question = _QUESTION.search(body)
        assert question, "the request is of no scripted episode"
        self._waiting.append((connection, self._script[json.loads(question[0])][body.count(b'"assistant"')]))
        self._fill()

    def _fill(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._loop.call_later(self._call_s, self._end, time.monotonic(), *self._waiting.popleft())

    def _end(self, since: float, connection: asyncio.Transport, response: bytes) -> None:
        connection.write(response)
        self.held.append(Held(since, time.monotonic()))
        self._free += 1
        self._fill()


class _Connection(asyncio.Protocol):
    def __init__(self, server: SlotServer) -> None:
        self._server = server
        self._parts = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts += data
        start = self._parts.find(_HEAD_END) + len(_HEAD_END)
        length = _LENGTH.search(self._parts)
        if start >= len(_HEAD_END) and length and len(self._parts) >= start + int(length[1]):
            body, self._parts = bytes(self._parts[start:]), bytearray()
            self._server.take(self._transport, body)


def response_with(call: ToolCall, prompt_tokens: int) -> bytes:
    """A whole HTTP response that holds one tool call."""
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [wire_call(call)]}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 40, "total_tokens": prompt_tokens + 40}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [choice],
        "usage": usage,
    }
    body = json.dumps(answer).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
