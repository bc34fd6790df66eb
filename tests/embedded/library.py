"""A model registered with the unmodified openpipe-art, against a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradient_rl.embedded.faults import NO_FAULTS, Faults
from gradient_rl.embedded.model import ServedModel
from gradient_rl.embedded.server import EmbeddedServer, serving
from tests.embedded.bandit import Bandit

if TYPE_CHECKING:
    import art


def trained_model(folder: Path) -> art.TrainableModel[Any, Any]:
    import art

    return art.TrainableModel(name="small", run_name="run", project="tests", base_model="small", base_path=str(folder))


type Play = Callable[["art.ServerlessBackend", "art.TrainableModel[Any, Any]"], Awaitable[Any]]


def play(folder: Path, body: Play, served: ServedModel | None = None, faults: Faults = NO_FAULTS) -> Any:  # noqa: ANN401
    """Run a body with a backend and a registered model, and close everything behind it."""

    async def run(server: EmbeddedServer) -> object:
        import art

        backend, model = art.ServerlessBackend(api_key="local", base_url=server.base_url), trained_model(folder)
        try:
            await model.register(backend)
            return await body(backend, model)
        finally:
            await model._reset_inference_runtime()
            await backend.close()

    with serving(served or Bandit(), faults=faults) as server:
        return asyncio.run(run(server))
