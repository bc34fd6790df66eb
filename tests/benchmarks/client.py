"""Episodes through an endpoint, in a process of its own: `python -m tests.benchmarks.client URL MODEL AT_A_TIME EPISODES`.

Prints as JSON what it cost. The first episode, in which libraries are imported, is not counted.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for
from gradient_rl.schema.task import Split, Task
from tests.benchmarks.spawn import MB

EARLY = 200
"""Episodes after which memory is looked at for the first time."""


@dataclass
class Outcome:
    """What was measured; moments by the clock of `time.monotonic`."""

    turns: int = 0
    failed: int = 0
    """Episodes that ended without a reward."""
    cpu_s: float = 0.0
    """Processor time of this process: policy, HTTP client, tools, scoring, everything."""
    began: float = 0.0
    queue_empty: float = 0.0
    """When the last episode was begun."""
    ended: float = 0.0
    early_mb: float = 0.0
    late_mb: float = 0.0


def validation_tasks() -> list[Task]:
    """The validation tasks of the packaged data."""
    return [task for task in load_tasks(default_data_dir() / TRAIN_FILE).tasks if task.split is Split.VALIDATION]


async def play(endpoint: Endpoint, at_a_time: int, episodes: int) -> Outcome:
    """Play the tasks in turn until there are enough episodes, and keep none."""
    setting, policy = setting_for(load_workspace(default_data_dir())), ChatPolicy(endpoint)
    try:
        await _measured(policy, setting, 1, 1)
        return await _measured(policy, setting, at_a_time, episodes)
    finally:
        await policy.aclose()


async def _measured(policy: ChatPolicy, setting: Setting, at_a_time: int, episodes: int) -> Outcome:
    outcome = Outcome(began=time.monotonic(), cpu_s=-time.process_time())

    def queue() -> Iterator[Job]:
        for number, task in enumerate(islice(cycle(validation_tasks()), episodes)):
            outcome.queue_empty = time.monotonic()
            yield Job(policy, task, seed=0, sample=number)

    over = 0
    async for trajectory in run_many(queue(), setting, at_a_time):
        over += 1
        outcome.turns += sum(message["role"] == "assistant" for message in trajectory.messages)
        outcome.failed += trajectory.reward is None
        if over == EARLY:
            outcome.early_mb = memory_mb()
    outcome.ended, outcome.late_mb = time.monotonic(), memory_mb()
    outcome.cpu_s += time.process_time()
    return outcome


def memory_mb() -> float:
    """Resident memory of this process; where there is no /proc, its peak so far."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmRSS:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB


if __name__ == "__main__":
    url, model, at_a_time, episodes = sys.argv[1:]
    outcome = asyncio.run(play(Endpoint(url, "local", model), int(at_a_time), int(episodes)))
    print(json.dumps(asdict(outcome)))
