"""What training on generated tasks is worth on the hand-written held-out ones: the linear policy, five seeds, paired by task.

python -m tests.benchmarks.transfer GENERATED [GENERATED ...]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from math import fsum
from pathlib import Path

from gradient_rl.environment.workspace import HELDOUT_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.evaluation.statistics import mean_interval
from gradient_rl.policies.base import Policy
from gradient_rl.policies.catalog import find_player
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, run_many, setting_for
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.loop import CHECKPOINTS
from tests.training.learning import go

SEEDS = range(5)
SAMPLES = 8

type Means = Mapping[str, float]
"""Mean reward by task."""


def main() -> None:
    folders = {"the packaged tasks": default_data_dir(), **{name: Path(name) for name in sys.argv[1:]}}
    means = {name: by_task([played(learned(data, seed)) for seed in SEEDS]) for name, data in folders.items()}
    means |= {policy.name: played(policy) for policy in (WeakPolicy(1.0), HeuristicPolicy(1.0))}
    for name, rewards in means.items():
        print(f"{name:<40}{shown(list(rewards.values()))}")
    base = means["the packaged tasks"]
    for name in sys.argv[1:]:
        print(f"{name} against the packaged tasks: {shown([means[name][task] - base[task] for task in base])}")


def shown(values: list[float]) -> str:
    interval = mean_interval(values)
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}], {interval.n_tasks} tasks"


def learned(data: Path, seed: int) -> Policy:
    """The policy of the last step, at the sampling temperature of an evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        assert go(Path(folder), TrainingConfig(seed=seed), data=data) is not None
        return find_player("linear@latest", Path(folder) / CHECKPOINTS, temperature=1.0).policy


def played(policy: Policy) -> Means:
    """Mean reward of each held-out task of the package, over SAMPLES episodes."""
    return asyncio.run(play(policy))


async def play(policy: Policy) -> Means:
    workspace = load_workspace(default_data_dir())
    tasks = load_tasks(default_data_dir() / HELDOUT_FILE).tasks
    jobs = [Job(policy, task, seed=0, sample=sample) for task in tasks for sample in range(SAMPLES)]
    rewards: dict[str, list[float]] = defaultdict(list)
    async for trajectory in run_many(jobs, setting_for(workspace)):
        rewards[trajectory.task_id].append(trajectory.reward.total if trajectory.reward else 0.0)
    return {task: fsum(values) / len(values) for task, values in rewards.items()}


def by_task(runs: list[Means]) -> Means:
    """The mean over the seeds, task by task."""
    return {task: fsum(run[task] for run in runs) / len(runs) for task in runs[0]}


if __name__ == "__main__":
    main()
