"""Small training runs, and learners that behave as a test needs. Not a test module."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from gradient_rl.environment.workspace import default_data_dir
from gradient_rl.evaluation.run import Stop
from gradient_rl.policies.base import Message, Reply, TransportError
from gradient_rl.policies.linear import LinearPolicy
from gradient_rl.runs import hold_folder, read_journal
from gradient_rl.schema.training import StepMetrics, Training
from gradient_rl.schema.trajectory import Group, Trajectory, Usage
from gradient_rl.training import linear
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.learner import Learner
from gradient_rl.training.linear import LinearLearner
from gradient_rl.training.loop import (
    CHECKPOINTS,
    METRICS,
    TRAJECTORIES,
    Budget,
    Listener,
    plan_training,
    prepare_folder,
    train,
)

SMALL: Mapping[str, Any] = {"max_steps": 3, "tasks_per_step": 3, "group_size": 6, "validate_every": 2, "concurrency": 4}
TOKENS_A_REPLY = 100
FAILS = 0.3

type Make = Callable[[TrainingConfig, Path], Learner]


def small(**changes: object) -> TrainingConfig:
    return TrainingConfig.model_validate({**SMALL, **changes})


def go(
    folder: Path,
    config: TrainingConfig,
    make: Make = LinearLearner,
    *,
    data: Path | None = None,
    resume: bool = False,
    stop: Stop | None = None,
    listener: Listener | None = None,
    budget: Budget | None = None,
) -> Training | None:
    """Train as the command does."""
    plan = plan_training(config, data or default_data_dir(), budget=budget)
    with hold_folder(folder):
        plan = prepare_folder(plan, folder, resume=resume)
        return train(plan, make(config, folder / CHECKPOINTS), folder, stop or Stop(), listener)


def stopping_at(episode: int) -> tuple[Stop, Listener]:
    """A request to stop that comes with the n-th episode of the process."""
    stop, seen = Stop(), []

    def on_episode(trajectory: Trajectory) -> None:
        seen.append(trajectory)
        if len(seen) == episode:
            stop.request()

    return stop, Listener(episode=on_episode)


def metrics_in(folder: Path) -> list[StepMetrics]:
    return [StepMetrics.model_validate(record) for _, record in read_journal(folder / METRICS)]


def timeless_metrics(folder: Path) -> list[StepMetrics]:
    return [metrics.model_copy(update={"seconds": {}}) for metrics in metrics_in(folder)]


def trajectories_in(folder: Path) -> list[Trajectory]:
    return [Trajectory.model_validate(record) for _, record in read_journal(folder / TRAJECTORIES)]


def timeless_trajectories(folder: Path) -> list[Trajectory]:
    """In an order that does not depend on which episode ended first."""
    without = [
        t.model_copy(
            update={"started_at": "", "seconds": 0.0, "steps": tuple(s.model_copy(update={"seconds": 0.0}) for s in t.steps)}
        )
        for t in trajectories_in(folder)
    ]
    return sorted(without, key=lambda t: (t.step, t.split, t.task_id, t.sample, t.attempt))


def checkpoints_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / CHECKPOINTS).iterdir())}


def weights_in(folder: Path, step: int) -> dict[str, float]:
    return json.loads((folder / CHECKPOINTS / f"linear-{step:06}.json").read_bytes())["weights"]


class Failing(LinearPolicy):
    """Its endpoint fails at the first message of some episodes, always the same ones; greedy play never fails."""

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if self._temperature and len(messages) == 2 and copy(rng).random() < FAILS:
            raise TransportError("503 from the endpoint")
        return await super().act(messages, tools, rng)


class Counting(LinearPolicy):
    """Each reply uses a hundred tokens."""

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        reply = await super().act(messages, tools, rng)
        return reply.model_copy(update={"usage": Usage(prompt_tokens=TOKENS_A_REPLY - 10, completion_tokens=10)})


class Stuck(LinearPolicy):
    """Never answers the first message of some episodes, always the same ones; greedy play is never stuck."""

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if self._temperature and len(messages) == 2 and copy(rng).random() < FAILS:
            await asyncio.sleep(3600)
        return await super().act(messages, tools, rng)


class StuckLearner(LinearLearner):
    def policy(self, temperature: float) -> LinearPolicy:
        return Stuck(self._weights, temperature)


class FailingLearner(LinearLearner):
    def policy(self, temperature: float) -> LinearPolicy:
        return Failing(self._weights, temperature)


class CountingLearner(LinearLearner):
    def policy(self, temperature: float) -> LinearPolicy:
        return Counting(self._weights, temperature)


class ShuffledLearner(LinearLearner):
    """Learns from rewards that were dealt anew within each group, so that they say nothing about the episodes."""

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        rng = random.Random(step)
        return await super().update(step, [_shuffled(group, rng) for group in groups])


def _shuffled(group: Group, rng: random.Random) -> Group:
    rewards = [trajectory.reward for trajectory in group.trajectories]
    rng.shuffle(rewards)
    dealt = zip(group.trajectories, rewards, strict=True)
    return group.model_copy(update={"trajectories": tuple(t.model_copy(update={"reward": r}) for t, r in dealt)})


def run_command(kind: str) -> None:
    """`gradient-train` whose linear policy is one of those above."""
    linear.LinearPolicy = {"Failing": Failing, "Counting": Counting, "Stuck": Stuck}[kind]  # type: ignore[misc]
    from gradient_rl.cli.train import main

    sys.argv[0] = "gradient-train"
    main()
