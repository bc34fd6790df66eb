"""Demonstrations: episodes that earn their reward, for a model to imitate before it learns by trial.

They are the references of tasks, their queries varied so that a model learns to choose words and not to repeat one wording, and
what the heuristic policy gets right by itself. Each is played in the environment and kept only if it earns what it should.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

from gradient_rl.policies.base import Message, Policy, Reply
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.rollout.runner import Job, Setting, run_episode
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import SEARCH_TOOLS, ToolCall, Trajectory

NAME = "demonstration"
FULL_REWARD = 1.0 - 1e-9
HEURISTIC_REWARD = 0.8
"""What an episode of the heuristic policy must earn to be worth imitating."""
MAX_ROUNDS = 12
"""How often the tasks are gone through in search of another wording."""


class Replayed:
    """Plays fixed calls, one a turn.

    Args:
        calls: the last of them a submission.
    """

    name = NAME

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        turn = sum(message["role"] == "assistant" for message in messages)
        return Reply(tool_calls=(self._calls[turn],))


def demonstrations(tasks: Sequence[Task], setting: Setting, count: int, seed: int) -> tuple[Trajectory, ...]:
    """Up to `count` different episodes that earn their reward, in a drawn order; fewer where the tasks hold no more wordings.

    Every task's own reference comes first, then each in other words, then what the heuristic policy solves, which takes more
    calls to the same end, then references in yet other words.

    Args:
        tasks: never held-out ones.
        setting: the workspace of these tasks.
        count: at least 0.
        seed: of the wording and the order.
    """
    kept = list(_distinct(_played(tasks, setting, seed), count))
    random.Random(seed).shuffle(kept)
    return tuple(kept)


def _distinct(played: Iterator[Trajectory], count: int) -> Iterator[Trajectory]:
    seen: set[tuple[str, str]] = set()
    for trajectory in played:
        if len(seen) >= count:
            return
        key = (trajectory.task_id, "\n".join(f"{step.tool} {step.arguments}" for step in trajectory.steps))
        if key not in seen:
            seen.add(key)
            yield trajectory


def _played(tasks: Sequence[Task], setting: Setting, seed: int) -> Iterator[Trajectory]:
    rng = random.Random(seed)
    order = list(tasks)
    rng.shuffle(order)
    for task in order:
        yield from _kept(Replayed(task.reference), task, setting, FULL_REWARD)
    yield from _in_other_words(order, setting, rng)
    for task in order:
        yield from _kept(HeuristicPolicy(0.0), task, setting, HEURISTIC_REWARD)
    for _ in range(MAX_ROUNDS - 1):
        yield from _in_other_words(order, setting, rng)


def _in_other_words(tasks: Sequence[Task], setting: Setting, rng: random.Random) -> Iterator[Trajectory]:
    for task in tasks:
        calls = [_reworded(call, rng) for call in task.reference]
        yield from _kept(Replayed(calls), task, setting, FULL_REWARD)


def _kept(policy: Policy, task: Task, setting: Setting, least: float) -> Iterator[Trajectory]:
    played = asyncio.run(run_episode(Job(policy, task, seed=0), setting))
    if played.reward and played.reward.total >= least and not any(step.error for step in played.steps):
        yield played


def _reworded(call: ToolCall, rng: random.Random) -> ToolCall:
    """A search in the same words in another order, perhaps one less; any other call as it is."""
    words = str(call.arguments.get("query", "")).split()
    if call.tool not in SEARCH_TOOLS or len(words) < 2:
        return call
    rng.shuffle(words)
    kept = words[: len(words) - (len(words) > 2 and rng.random() < 0.5)]
    return call.model_copy(update={"arguments": {"query": " ".join(kept)}})
