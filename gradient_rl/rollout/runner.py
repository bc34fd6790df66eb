"""The rollout runner: one episode, a group of them, or many at once, each ending as a scored trajectory."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from gradient_rl.environment.episode import Episode, Limits
from gradient_rl.environment.prompt import opening_messages
from gradient_rl.environment.search import BM25Index, SearchIndex
from gradient_rl.environment.tools import TOOLS, Tool
from gradient_rl.environment.workspace import Workspace
from gradient_rl.errors import MissingKeyError, ServiceError
from gradient_rl.policies.base import Message, Policy, Reply, TransportError
from gradient_rl.rewards.behaviours import behaviours_of
from gradient_rl.rewards.profile import RewardProfile, score
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Digests, Group, StopReason, Trajectory

MAX_ERROR_CHARS = 500

_STOPS = {"content_filter": StopReason.CONTENT_FILTER, "context_overflow": StopReason.CONTEXT_OVERFLOW}


@dataclass(frozen=True)
class Setting:
    """Where episodes take place: the workspace and its index, the limits, and the reward they are scored by."""

    workspace: Workspace
    index: SearchIndex
    limits: Limits = field(default_factory=Limits)
    profile: RewardProfile = field(default_factory=RewardProfile)
    tools: tuple[Tool, ...] = TOOLS
    digests: Digests = field(default_factory=Digests)
    run_id: str = ""
    deadline_s: float | None = None
    """Seconds that an episode may take; one that takes longer failed on the way and has no reward. None is no limit."""
    on_scored: Callable[[float], None] | None = None
    """Told after each episode how many seconds its scoring took."""


@dataclass(frozen=True)
class Job:
    """One episode to be played."""

    policy: Policy
    task: Task
    seed: int
    """The run's seed; the episode's own follows from it, the step, the task and the sample."""
    step: int = 0
    sample: int = 0
    attempt: int = 0
    model: str | None = None
    checkpoint: str | None = None


def setting_for(
    workspace: Workspace,
    limits: Limits | None = None,
    profile: RewardProfile | None = None,
    tasks_digest: str = "",
    run_id: str = "",
) -> Setting:
    """A setting with the default index and the digests filled in."""
    limits, profile = limits or Limits(), profile or RewardProfile()
    config = hashlib.sha256(f"{limits.model_dump_json()}{profile.model_dump_json()}".encode()).hexdigest()
    return Setting(
        workspace=workspace,
        index=BM25Index(workspace),
        limits=limits,
        profile=profile,
        digests=Digests(config=config, workspace=workspace.digest, tasks=tasks_digest),
        run_id=run_id,
    )


def child_seed(seed: int, step: int, task_id: str, sample: int) -> int:
    """The seed of one episode: the same on every machine, and unrelated to its neighbours'."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}/{task_id}/{sample}".encode()).digest()[:6])


async def run_episode(job: Job, setting: Setting) -> Trajectory:
    """Play one episode to its end and score it. Cancellation passes through; all but what follows becomes a trajectory.

    Raises:
        MissingKeyError, ServiceError: the policy's endpoint refuses every episode.
    """
    question = job.task.for_policy()
    episode = Episode(question, setting.workspace, setting.index, setting.limits, setting.tools)
    messages = opening_messages(question, setting.limits)
    seed = child_seed(job.seed, job.step, job.task.id, job.sample)
    started, started_at = time.perf_counter(), datetime.now(UTC).isoformat(timespec="milliseconds")
    choices: list[dict[str, Any]] = []
    error = await _play_in_time(setting.deadline_s, episode, _play(job.policy, episode, messages, choices, random.Random(seed)))
    trajectory = Trajectory(
        run_id=setting.run_id,
        step=job.step,
        split=job.task.split,
        task_id=job.task.id,
        family=job.task.family,
        sample=job.sample,
        attempt=job.attempt,
        policy=job.policy.name,
        model=job.model,
        checkpoint=job.checkpoint,
        seed=seed,
        digests=setting.digests,
        question=job.task.question,
        messages=tuple(messages),
        tools=episode.tools,
        choices=tuple(choices) if any(choices) else (),
        steps=tuple(episode.steps),
        answer=episode.answer,
        sources=episode.sources,
        stop_reason=episode.stop_reason or StopReason.ENVIRONMENT_ERROR,
        max_calls=setting.limits.max_calls,
        error=error,
        usage=episode.usage,
        started_at=started_at,
        seconds=time.perf_counter() - started,
        versions=versions(),
    )
    ended = time.perf_counter()
    scored = with_reward(trajectory, job.task, setting.profile)
    if setting.on_scored:
        setting.on_scored(time.perf_counter() - ended)
    return scored


def with_reward(trajectory: Trajectory, task: Task, profile: RewardProfile) -> Trajectory:
    """The trajectory with its reward and behaviours computed anew."""
    reward = score(trajectory, task.for_grader(), profile)
    return trajectory.model_copy(update={"reward": reward, "behaviours": behaviours_of(trajectory)})


async def run_group(jobs: Iterable[Job], setting: Setting, concurrency: int = 1) -> Group:
    """Play the samples of one task and hold them together, in the order of their samples.

    Raises:
        ValueError: the jobs are of different tasks, or there are none.
    """
    trajectories = [trajectory async for trajectory in run_many(jobs, setting, concurrency)]
    task_ids = {trajectory.task_id for trajectory in trajectories}
    if len(task_ids) != 1:
        raise ValueError(f"a group is made of samples of one task, not of {sorted(task_ids)}")
    ordered = sorted(trajectories, key=lambda trajectory: trajectory.sample)
    return Group(task_id=task_ids.pop(), trajectories=tuple(ordered))


async def run_many(jobs: Iterable[Job], setting: Setting, concurrency: int = 1) -> AsyncGenerator[Trajectory]:
    """Play episodes, at most `concurrency` at a time, and yield each as it ends.

    With a concurrency of 1 they end in the order of the jobs.

    Raises:
        MissingKeyError, ServiceError: as `run_episode`, once the episodes that ended with that one have been yielded.
    """
    waiting = iter(jobs)
    running: set[asyncio.Task[Trajectory]] = set()
    try:
        while True:
            while len(running) < concurrency and (job := next(waiting, None)) is not None:
                running.add(asyncio.create_task(run_episode(job, setting)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for finished in sorted(done, key=_failed):
                yield finished.result()
    finally:
        for task in running:
            task.cancel()
        # Awaited, so that each closes its connection while the loop still runs and no error is left unread.
        await asyncio.gather(*running, return_exceptions=True)


def _failed(task: asyncio.Task[Trajectory]) -> bool:
    return task.cancelled() or task.exception() is not None


async def _play_in_time(deadline_s: float | None, episode: Episode, play: Awaitable[str | None]) -> str | None:
    """Await the play; its error, or that it did not end in time."""
    try:
        async with asyncio.timeout(deadline_s):
            return await play
    except TimeoutError:
        episode.stop(StopReason.TRANSPORT_ERROR)
        return f"no end within {deadline_s:g} s"


async def _play(
    policy: Policy, episode: Episode, messages: list[Message], choices: list[dict[str, Any]], rng: random.Random
) -> str | None:
    """Let the policy act until the episode is over; the error's text if the infrastructure failed."""
    try:
        while episode.stop_reason is None:
            reply = await policy.act(messages, episode.tools, rng)
            messages.append(reply.as_message())
            choices.append(reply.raw)
            messages.extend(take_reply(reply, episode))
    except TransportError as error:
        episode.stop(StopReason.TRANSPORT_ERROR)
        return f"{error}"[:MAX_ERROR_CHARS]
    except (MissingKeyError, ServiceError):
        raise
    except Exception as error:  # noqa: BLE001 - a fault in a policy or tool ends its episode, not the run, and is no reward
        episode.stop(StopReason.ENVIRONMENT_ERROR)
        return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
    return None


def take_reply(reply: Reply, episode: Episode) -> list[Message]:
    """Run the calls of a reply in order and return the messages that answer them."""
    episode.spend(reply.usage)
    if episode.stop_reason is None and reply.finish_reason in _STOPS:
        episode.stop(_STOPS[reply.finish_reason])
    if episode.stop_reason is not None:
        return []
    if not reply.tool_calls:
        observation = episode.malformed(reply.malformed or "it has no tool call; call one of the tools")
        return [{"role": "user", "content": observation.text}]
    answers: list[Message] = []
    for call in reply.tool_calls:
        if episode.stop_reason is not None:
            break
        answers.append({"role": "tool", "tool_call_id": call.id, "content": episode.call(call).text})
    return answers


@cache
def versions() -> dict[str, str]:
    """Versions of what a trajectory depends on."""
    packages = {name: version(name) for name in ("gradient-rl", "PyStemmer", "numpy")}
    return {"python": platform.python_version(), **packages}
