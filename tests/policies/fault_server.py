"""A chat-completions server on 127.0.0.1 that fails in the ways real ones do, and counts what reaches it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Act:
    """What the server does with one request."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    sent: int | None = None
    """Bytes of the body that are sent before the connection is closed; None for all, and it stays open."""
    stalled: bool = False
    """Send nothing more after those bytes, and keep the connection open."""
    reset: bool = False
    """Reset the connection instead."""
    silent: bool = False
    """Never answer."""
    delay_s: float = 0.0


Respond = Callable[[dict[str, Any]], Act]


def json_act(body: object, status: int = 200, **headers: str) -> Act:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Act(status, json.dumps(body).encode(), (("Content-Type", "application/json"), *named))


def error(status: int, message: str = "it failed", code: str | None = None, **headers: str) -> Act:
    return json_act({"error": {"message": message, "code": code}}, status, **headers)


def native(tool: str, arguments: object, call_id: str = "c1") -> dict[str, Any]:
    """A call; arguments that are a string are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": text}}


def completion(
    *calls: dict[str, Any], content: str | None = None, finish: str | None = "tool_calls", **choice: object
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": None, "tool_calls": list(calls) or None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None, **choice}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def good(*calls: dict[str, Any], content: str | None = None, finish: str | None = "tool_calls", **choice: object) -> Act:
    return json_act(completion(*calls, content=content, finish=finish, **choice))


HTML = Act(200, b"<html><body>Bad gateway</body></html>", (("Content-Type", "text/html"),))
NOT_JSON = Act(200, b'{"choices": [')
NO_CHOICES = json_act({"id": "x", "choices": [], "usage": None})
CUT = Act(200, json.dumps(completion(native("search", {"query": "x"}))).encode(), sent=40)
RESET = Act(reset=True)
SILENT = Act(silent=True)
STALLED = Act(200, CUT.body, sent=40, stalled=True)


def in_turn(*acts: Act) -> Respond:
    """The acts in order; the last one for ever."""
    left = list(acts)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def refused_url() -> str:
    """A URL at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/v1"


class FaultServer:
    """Serves while its block is open; `requests`, `headers` and `paths` hold what came in, in order."""

    def __init__(self, respond: Respond) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.open = 0
        """Connections that are open now."""
        self._respond = respond
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = json.loads(await reader.readexactly(int(fields.get("content-length", "0"))))
        self.headers.append(fields)
        self.paths.append(head[0].split(" ")[1])
        self.requests.append(body)
        act = self._respond(body)
        if act.silent:
            await reader.read()
            return False
        if act.reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()
            return False
        await asyncio.sleep(act.delay_s)
        writer.write(_head(act) + act.body[: act.sent])
        await writer.drain()
        if act.stalled:
            await reader.read()
        return act.sent is None


def _head(act: Act) -> bytes:
    lines: Sequence[str] = [f"{name}: {value}" for name, value in (*act.headers, ("Content-Length", str(len(act.body))))]
    return "\r\n".join([f"HTTP/1.1 {act.status} Said", *lines, "", ""]).encode()
