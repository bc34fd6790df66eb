"""A local server that speaks ART's serverless training protocol, so that the unmodified library trains against it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gradient_rl.embedded.faults import NO_FAULTS, Faults
from gradient_rl.embedded.model import ServedModel
from gradient_rl.embedded.protocol import RefusedError, error_answer
from gradient_rl.embedded.registry import Registry
from gradient_rl.embedded.service import Call, Endpoint, Service

if TYPE_CHECKING:
    from aiohttp import web

    type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 1 << 30
"""A job brings about 80 bytes for each token sampled, and its prompts again for each turn."""
CLOSE_TIMEOUT_S = 2.0
"""How long a request in progress may go on once the server stops."""


class EmbeddedServer:
    """Serves one model on 127.0.0.1, at a free port, for as long as the block runs.

    Args:
        model: what completes and learns.
        token: the key that a client must bring; None takes any that is not empty.
        faults: failures on demand.
        folder: an existing folder for `models.json`, by which a later server knows the model's name and steps.

    Raises:
        DataError: the folder's `models.json` is damaged or names a step that the model does not have.
    """

    def __init__(
        self, model: ServedModel, *, token: str | None = None, faults: Faults = NO_FAULTS, folder: Path | None = None
    ) -> None:
        self._registry = Registry(model, folder)
        self._token = token
        self._faults = faults
        self._port: int | None = None

    @property
    def base_url(self) -> str:
        """What `art.ServerlessBackend(base_url=...)` takes."""
        return f"http://{LOOPBACK}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        from aiohttp import web

        self._service = Service(self._registry, self._faults)
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._service.close()

    def _application(self) -> web.Application:
        from aiohttp import web

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[guard])
        for prefix in ("/v1", ""):
            for (method, path), endpoint in self._service.routes().items():
                application.router.add_route(method, prefix + path, partial(_respond, endpoint))
        return application

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        from aiohttp import web

        try:
            self._check_host(request.headers.get("Host", ""))
            self._check_key(request.headers.get("Authorization", ""))
            return await handler(request)
        except RefusedError as refusal:
            return web.json_response(error_answer(str(refusal)), status=refusal.status)
        except web.HTTPException as error:
            return web.json_response(error_answer(f"{request.method} {request.path}: {error.reason}"), status=error.status)

    def _check_host(self, host: str) -> None:
        """A web page that has its own name resolve to 127.0.0.1 sends that name."""
        if host not in (f"{LOOPBACK}:{self._port}", f"localhost:{self._port}"):
            raise RefusedError(403, f"the host {host[:80]!r} is not this server; use {self.base_url}")

    def _check_key(self, header: str) -> None:
        scheme, _, key = header.partition(" ")
        wanted = key if self._token is None else self._token
        known = hmac.compare_digest(key.encode("utf-8", "surrogateescape"), wanted.encode("utf-8", "surrogateescape"))
        if scheme.lower() != "bearer" or not key.strip() or not known or self._faults.refuse_key:
            raise RefusedError(401, "the key is missing or not accepted; send it as 'Authorization: Bearer KEY'")


async def _respond(endpoint: Endpoint, request: web.Request) -> web.Response:
    from aiohttp import web

    answer = await endpoint(Call(request.match_info, request.query, await request.read()))
    if answer.lost and request.transport:
        request.transport.close()
    if answer.body is None:
        return web.Response(status=answer.status)
    return web.json_response(answer.body, status=answer.status)


@contextmanager
def serving(
    model: ServedModel, *, token: str | None = None, faults: Faults = NO_FAULTS, folder: Path | None = None
) -> Generator[EmbeddedServer]:
    """Run a server in a thread with a loop of its own, for callers that have none.

    The arguments and errors are those of `EmbeddedServer`.
    """
    server = EmbeddedServer(model, token=token, faults=faults, folder=folder)
    started: Future[Any] = Future()
    stop = asyncio.Event()
    with ThreadPoolExecutor(1, "embedded-server") as thread:
        running: Future[Any] = thread.submit(asyncio.run, _serve(server, started, stop))
        try:
            wait((started, running), return_when=FIRST_COMPLETED)
            if running.done():
                running.result()
            yield server
        finally:
            wait((started, running), return_when=FIRST_COMPLETED)
            if not running.done():
                started.result().call_soon_threadsafe(stop.set)
            running.result()


async def _serve(server: EmbeddedServer, started: Future[asyncio.AbstractEventLoop], stop: asyncio.Event) -> None:
    async with server:
        started.set_result(asyncio.get_running_loop())
        await stop.wait()
