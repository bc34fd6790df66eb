"""The chat policy against an endpoint of a few slots: how full it keeps them, and what a turn costs this side of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from statistics import fmean

from gradient_rl.environment.workspace import default_data_dir, load_workspace
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.rollout.runner import Job, Setting, run_episode, setting_for
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import ToolCall
from tests.benchmarks.client import EARLY, Outcome, validation_tasks
from tests.benchmarks.measuring import line
from tests.benchmarks.slots import Held, Script, SlotServer, response_with

SLOTS = 16
CALL_S = 0.05
TURNS = 6
FULL = 0.95
TRIED = (16, 20, 24, 32)
"""Episodes at a time."""
QUEUES = (64, 512)
MANY = 2000
QUICK_CALL_S = 0.005
"""For the memory of many episodes, which has nothing to do with how long a call takes."""


def chat() -> Iterator[str]:
    """Occupancy, processor time and memory. The endpoint is in this process, what is measured in another."""
    script = asyncio.run(scripted())
    yield f"chat: an endpoint of {SLOTS} slots and {CALL_S * 1000:.0f} ms a call in another process, episodes of {TURNS} turns"
    yield f"  (both want a processor of their own; here are {os.cpu_count()}, and {os.getloadavg()[0]:.1f} were in use in the last minute)"
    occupancy = dict.fromkeys(TRIED, 0.0)
    for at_a_time in TRIED:
        measured = asyncio.run(measure(script, at_a_time, 128))
        occupancy[at_a_time] = measured.occupancy
        yield line(f"  128 episodes, {at_a_time} at a time", measured.told())
    used = next((n for n in TRIED if occupancy[n] >= FULL), max(TRIED, key=lambda n: occupancy[n]))
    for episodes in QUEUES:
        measured = asyncio.run(measure(script, used, episodes))
        yield line(f"  {episodes} episodes, {used} at a time", measured.told())
    yield f"  (occupied: slot-seconds in use / ({SLOTS} x the time from the first request to the start of the last queued episode);"
    yield "  ms a turn: processor time of the client's whole process, with tools and scoring)"
    many = asyncio.run(measure(script, used, MANY, QUICK_CALL_S)).outcome
    yield line(f"  memory after {EARLY} and {MANY} episodes", f"{many.early_mb:8.1f} MB{many.late_mb:8.1f} MB")


class Measured:
    """One run of the client, seen from both sides."""

    def __init__(self, outcome: Outcome, server: SlotServer) -> None:
        self.outcome = outcome
        held = [h for h in server.held if h.since >= outcome.began]
        self.occupancy = occupied(held, min(h.since for h in held), outcome.queue_empty)
        self.call_s = fmean(h.until - h.since for h in held)
        self.request_bytes = fmean(server.sizes)

    def told(self) -> str:
        """The figures to print."""
        outcome = self.outcome
        return (
            f"{100 * self.occupancy:8.1f} % occupied{1000 * outcome.cpu_s / outcome.turns:8.2f} ms a turn"
            f"   ({self.call_s * 1000:.1f} ms a call, {self.request_bytes / 1000:.0f} kB a request)"
        )


async def measure(script: Script, at_a_time: int, episodes: int, call_s: float = CALL_S) -> Measured:
    """Serve a client that plays so many episodes."""
    async with SlotServer(script, SLOTS, call_s) as server:
        outcome = await client(server.url, "tiny", at_a_time, episodes)
    return Measured(outcome, server)


async def client(url: str, model: str, at_a_time: int, episodes: int) -> Outcome:
    """Run the client in a process of its own.

    Raises:
        SystemExit: it failed, or an episode did.
    """
    command = [sys.executable, "-m", "tests.benchmarks.client", url, model, str(at_a_time), str(episodes)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode or (outcome := Outcome(**json.loads(out))).failed:
        raise SystemExit(f"{' '.join(command)}: it ended with status {process.returncode}, or episodes failed")
    return outcome


def occupied(held: list[Held], since: float, until: float) -> float:
    """Share of the slots' time between two moments in which a request had them."""
    used = sum(max(0.0, min(h.until, until) - max(h.since, since)) for h in held)
    return used / (SLOTS * (until - since))


async def scripted() -> Script:
    """What the heuristic policy does on the validation tasks, cut to so many turns of which the last submits."""
    setting = setting_for(load_workspace(default_data_dir()))
    return dict([await _scripted(task, setting) for task in validation_tasks()])


async def _scripted(task: Task, setting: Setting) -> tuple[str, list[bytes]]:
    trajectory = await run_episode(Job(HeuristicPolicy(), task, seed=0), setting)
    steps = [*trajectory.steps[: TURNS - 1], trajectory.steps[-1]]
    calls = [ToolCall(tool=s.tool, arguments=s.arguments, id=f"call_{n}") for n, s in enumerate(steps)]
    return str(trajectory.messages[1]["content"]), [response_with(call, 1000 + 700 * n) for n, call in enumerate(calls)]
