"""The demonstration: the weak and the heuristic policy on one task, what each earned, and why."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, TaskFile, load_tasks, load_workspace
from gradient_rl.errors import NothingToReadError, UsageError
from gradient_rl.evaluation.difference import what_made_the_difference
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_episode, setting_for
from gradient_rl.runs import json_line, write_whole
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.task import Split, Task
from gradient_rl.schema.trajectory import Trajectory

DEMO_SCHEMA_VERSION = 1
_GOOD = 0.8
"""Reward of the strong policy from which a task is worth showing."""
_LEAD = 0.4
"""Lead over the weak policy from which it shows the difference well."""


@dataclass(frozen=True)
class Demo:
    """One task and the trajectories of both policies on it, the weak one first."""

    task: Task
    trajectories: tuple[Trajectory, Trajectory]
    seed: int

    @property
    def sentence(self) -> str:
        """What made the difference."""
        return what_made_the_difference(*self.trajectories, self.task)

    def to_json(self) -> bytes:
        """The content of `demo.json`."""
        return json_line(
            {
                "schema_version": DEMO_SCHEMA_VERSION,
                "task": {
                    "id": self.task.id,
                    "split": self.task.split.value,
                    "family": self.task.family.value,
                    "question": self.task.question,
                    "as_of": self.task.as_of.isoformat(),
                },
                "seed": self.seed,
                "policies": [_policy_entry(trajectory) for trajectory in self.trajectories],
                "comparison": self._comparison(),
            }
        )

    def _comparison(self) -> dict[str, object]:
        weak, strong = (_reward_entry(trajectory) for trajectory in self.trajectories)
        differences = {name: round(strong[name] - weak[name], 12) for name in weak} if weak and strong else {}
        return {
            "baseline": self.trajectories[0].policy,
            "candidate": self.trajectories[1].policy,
            "differences": differences,
            "sentence": self.sentence,
        }


def play_demo(directory: Path, task_id: str | None, seed: int) -> Demo:
    """Play both policies on a task, or on the first training task that shows the difference well.

    Raises:
        UsageError: there is no task of this id; the nearest ids are named.
        NothingToReadError, DataError: the data folder lacks what is needed, or is damaged.
    """
    workspace = load_workspace(directory)
    files = [load_tasks(directory / name) for name in (TRAIN_FILE, HELDOUT_FILE) if (directory / name).exists()]
    if not files:
        raise NothingToReadError(f"{directory} holds neither {TRAIN_FILE} nor {HELDOUT_FILE}; there is no question to ask")
    if task_id is None:
        setting = setting_for(workspace, tasks_digest=files[0].digest)
        return asyncio.run(_first_telling(files[0].tasks, setting, seed))
    file, task = find_task(task_id, files)
    return asyncio.run(_play(task, setting_for(workspace, tasks_digest=file.digest), seed))


def save_demo(demo: Demo, folder: Path) -> None:
    """Write `demo.jsonl` and then `demo.json`, each as a whole. The caller holds the folder.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    write_whole(folder / "demo.jsonl", "".join(to_line(t) for t in demo.trajectories).encode())
    write_whole(folder / "demo.json", demo.to_json())


def find_task(task_id: str, files: Iterable[TaskFile]) -> tuple[TaskFile, Task]:
    """The task of this id and the file it stands in.

    Raises:
        UsageError: there is none; the nearest ids are named.
    """
    known: list[str] = []
    for file in files:
        for task in file.tasks:
            if task.id == task_id:
                return file, task
            known.append(task.id)
    near = difflib.get_close_matches(task_id, known, n=3, cutoff=0.0)
    raise UsageError(f"there is no task '{task_id}'; the nearest ids are {', '.join(near)}")


async def _first_telling(tasks: Iterable[Task], setting: Setting, seed: int) -> Demo:
    """The first training task that shows the difference well; the best of all if none does."""
    played: list[Demo] = []
    for task in tasks:
        if task.split is not Split.TRAIN:
            continue
        demo = await _play(task, setting, seed)
        played.append(demo)
        weak, strong = (trajectory.reward.total if trajectory.reward else 0.0 for trajectory in demo.trajectories)
        if strong >= _GOOD and strong - weak >= _LEAD:
            return demo
    if not played:
        raise NothingToReadError("there is no training task to show; name one with --task")
    return max(played, key=_lead)


def _lead(demo: Demo) -> float:
    weak, strong = (trajectory.reward.total if trajectory.reward else 0.0 for trajectory in demo.trajectories)
    return strong - weak


async def _play(task: Task, setting: Setting, seed: int) -> Demo:
    weak = await run_episode(Job(WeakPolicy(), task, seed), setting)
    strong = await run_episode(Job(HeuristicPolicy(), task, seed), setting)
    return Demo(task, (weak, strong), seed)


def _policy_entry(trajectory: Trajectory) -> dict[str, object]:
    return {
        "name": trajectory.policy,
        "reward": _reward_entry(trajectory) or None,
        "trajectory": trajectory.model_dump(mode="json"),
    }


def _reward_entry(trajectory: Trajectory) -> dict[str, float]:
    reward = trajectory.reward
    return {"total": reward.total, **{part.name: part.value for part in reward.parts}} if reward else {}
