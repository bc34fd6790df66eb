"""Replaying reference trajectories: what they earn, whether every call is needed, and whether each word could be known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gradient_rl.environment.episode import Episode, Limits
from gradient_rl.environment.search import SearchIndex, tokenise
from gradient_rl.environment.workspace import Workspace
from gradient_rl.rewards.profile import RewardProfile, score
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import (
    OPENING_TOOLS,
    SEARCH_TOOLS,
    Digests,
    Reward,
    StopReason,
    ToolCall,
    Trajectory,
)


@dataclass(frozen=True)
class Replay:
    """What came of a list of calls."""

    reward: Reward | None
    stop_reason: StopReason | None
    unknown_words: tuple[str, ...]
    """Words of a query that stood neither in the question nor in an earlier observation."""
    errors: tuple[str, ...]
    """Errors that the calls met, in order."""

    @property
    def total(self) -> float:
        """The total reward; 0 where there is none."""
        return self.reward.total if self.reward else 0.0


class Replayer:
    """Plays fixed calls on one workspace."""

    def __init__(self, workspace: Workspace, index: SearchIndex) -> None:
        self._workspace = workspace
        self._index = index
        self._limits = Limits()
        self._profile = RewardProfile()

    @property
    def max_calls(self) -> int:
        """The call limit of the episodes."""
        return self._limits.max_calls

    def play(self, task: Task, calls: Sequence[ToolCall]) -> Replay:
        """Play the calls until the episode is over."""
        episode = Episode(task.for_policy(), self._workspace, self._index, self._limits)
        known = set(tokenise(f"{task.question} {task.as_of}"))
        unknown: list[str] = []
        for call in calls:
            if episode.stop_reason is not None:
                break
            if call.tool in SEARCH_TOOLS:
                unknown += [word for word in tokenise(str(call.arguments.get("query", ""))) if word not in known]
            known.update(_words_shown(episode.call(call).text))
        errors = tuple(step.error for step in episode.steps if step.error)
        return Replay(self._reward(task, episode), episode.stop_reason, tuple(unknown), errors)

    def needless_calls(self, task: Task) -> list[int]:
        """Places of calls that could be dropped: the reward stays whole and no later word or id becomes a guess."""
        needless: list[int] = []
        for place in range(len(task.reference)):
            replay = self.play(task, [*task.reference[:place], *task.reference[place + 1 :]])
            if replay.total >= 1.0 and not replay.unknown_words:
                needless.append(place)
        return needless

    def is_lead(self, task: Task, slot: Sequence[str]) -> bool:
        """Whether a later query of the reference uses words that only the opened records of this slot have shown."""
        kept = [call for call in task.reference if not (call.tool in OPENING_TOOLS and str(call.arguments.get("id")) in slot)]
        return bool(self.play(task, kept).unknown_words)

    def _reward(self, task: Task, episode: Episode) -> Reward | None:
        trajectory = Trajectory(
            split=task.split,
            task_id=task.id,
            family=task.family,
            policy="reference",
            seed=0,
            digests=Digests(),
            question=task.question,
            messages=(),
            tools=(),
            steps=tuple(episode.steps),
            answer=episode.answer,
            sources=episode.sources,
            stop_reason=episode.stop_reason or StopReason.CALL_LIMIT,
            max_calls=self._limits.max_calls,
        )
        return score(trajectory, task.for_grader(), self._profile)


def _words_shown(observation: str) -> set[str]:
    """The terms of every text inside an observation."""
    try:
        value = json.loads(observation)
    except ValueError:
        return set(tokenise(observation))
    return {term for text in _texts_in(value) for term in tokenise(text)}


def _texts_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts_in(item)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [text for item in value for text in _texts_in(item)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return []
