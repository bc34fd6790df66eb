"""Artifacts written by hand, for tests that read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Reward, RewardPart, Trajectory
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory, with_conversation


def save(file: Path, *trajectories: Trajectory, damaged: Iterable[str] = ()) -> Path:
    """The trajectories, a line each, and then the damaged lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [*map(to_line, trajectories), *(f"{line}\n" for line in damaged)]
    file.write_text("".join(lines), encoding="utf-8")
    return file


def reward(correctness: float = 1.0, citations: float = 1.0, efficiency: float = 1.0) -> Reward:
    values = {"correctness": (correctness, 0.5), "citation_quality": (citations, 0.3), "efficiency": (efficiency, 0.2)}
    parts = tuple(RewardPart(name=name, value=value, weight=weight) for name, (value, weight) in values.items())
    return Reward(parts=parts, total=round(sum(part.weight * part.value for part in parts), 12))


def scored(task: Task = NOTICE_TASK, **fields: object) -> Trajectory:
    """A trajectory on a task with the reward and the behaviours that it really earns."""
    given = {"task_id": task.id, "family": task.family.value, "question": task.question, "split": task.split.value}
    made = trajectory(**given | fields)
    return with_reward(made if "messages" in fields else with_conversation(made), task, RewardProfile())
