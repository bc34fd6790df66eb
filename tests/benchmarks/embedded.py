"""The embedded server of ART's protocol with the linear model: completions a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle

from gradient_rl.embedded.linear import MAX_TOKENS, LinearModel
from gradient_rl.embedded.server import serving
from gradient_rl.environment.workspace import default_data_dir, load_workspace
from gradient_rl.policies.linear import LinearPolicy
from gradient_rl.rollout.runner import Job, run_many, setting_for
from gradient_rl.schema.trajectory import Trajectory
from tests.benchmarks.chat import client
from tests.benchmarks.client import validation_tasks
from tests.benchmarks.measuring import each, line
from tests.embedded.calling import LATEST, register

EPISODES = 400
AT_A_TIME = 16


def embedded() -> Iterator[str]:
    """The server in a thread of this process, the client in another process; and the model without a server."""
    model = LinearModel(None)
    with serving(model) as server:
        register(server)
        began = time.process_time()
        outcome = asyncio.run(client(server.base_url, LATEST, AT_A_TIME, EPISODES))
        ours = time.process_time() - began
    seconds = outcome.ended - outcome.began
    yield line(
        f"embedded server, {AT_A_TIME} chat episodes at a time",
        f"{outcome.turns / seconds:8.0f} completions a second{1000 * ours / outcome.turns:8.2f} ms of the server's processor each",
    )
    yield line("  the model without a server", f"{1 / each(_completing(model)):8.0f} completions a second")


def _completing(model: LinearModel) -> Callable[[], object]:
    """Completes the conversations of the untrained policy's episodes in turn."""
    setting, policy = setting_for(load_workspace(default_data_dir())), LinearPolicy(model.weights(0), 1.0)

    async def played() -> list[Trajectory]:
        return [t async for t in run_many([Job(policy, task, seed=0) for task in validation_tasks()], setting)]

    conversations = cycle(
        list(t.messages[:place])
        for t in asyncio.run(played())
        for place, message in enumerate(t.messages)
        if message["role"] == "assistant"
    )
    seeds = count()
    return lambda: model.complete(next(conversations), (), step=0, temperature=1.0, max_tokens=MAX_TOKENS, seed=next(seeds))
