"""The library: what the data folder of today knows about a saved trajectory, and where the two do not belong together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.errors import NothingToReadError
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Trajectory

_SHOWN_HEX = 12


@dataclass(frozen=True)
class Background:
    """What is known about one trajectory."""

    task: Task | None
    """None where the data does not hold it, or holds another question under its id."""
    titles: Mapping[str, str]
    """Of the records by id; empty where the trajectory was played on others."""
    notes: tuple[str, ...]
    """What does not fit, in sentences."""


@dataclass(frozen=True)
class Library:
    """Tasks and records of a data folder, with their digests."""

    folder: Path
    tasks: Mapping[str, Task]
    digests: Mapping[str, str]
    """Of the task file that a task stands in, by its id."""
    titles: Mapping[str, str]
    workspace: str
    """Digest of the records; empty where there are none."""

    def holds(self, trajectory: Trajectory) -> bool:
        """Whether the trajectory was played on exactly the tasks of this folder."""
        return self.digests.get(trajectory.task_id) == trajectory.digests.tasks

    def background(self, trajectory: Trajectory) -> Background:
        """What is known about a trajectory, and what does not fit."""
        task = self.tasks.get(trajectory.task_id)
        same = bool(trajectory.digests.workspace) and trajectory.digests.workspace == self.workspace
        notes = [note for note in (self._of_task(task, trajectory), "" if same else self._of_records(trajectory)) if note]
        known = task if task and task.question == trajectory.question else None
        return Background(known, self.titles if same else {}, tuple(notes))

    def _of_task(self, task: Task | None, trajectory: Trajectory) -> str:
        missing = "so what was required cannot be shown; name the folder it was played on with --data"
        if task is None:
            return f"task '{trajectory.task_id}' is not in {self.folder}, {missing}"
        if task.question != trajectory.question:
            return f"task '{trajectory.task_id}' asks something else in {self.folder} now, {missing}"
        if not self.holds(trajectory):
            played, here = _short(trajectory.digests.tasks), _short(self.digests[task.id])
            return f"it was played on other tasks ({played}) than {self.folder} holds ({here}), which tell what was required"
        return ""

    def _of_records(self, trajectory: Trajectory) -> str:
        played, here = _short(trajectory.digests.workspace), _short(self.workspace)
        return (
            f"it was played on another version of the workspace ({played}) than {self.folder} holds ({here}); "
            "the texts of records are missing where the trajectory does not hold them"
        )


def read_library(folder: Path) -> Library:
    """Read the tasks and records of a data folder, as far as they are there.

    Raises:
        DataError: a file is damaged.
    """
    tasks: dict[str, Task] = {}
    digests: dict[str, str] = {}
    titles: dict[str, str] = {}
    workspace = ""
    for name in (TRAIN_FILE, HELDOUT_FILE):
        with suppress(NothingToReadError):
            file = load_tasks(folder / name)
            tasks |= {task.id: task for task in file.tasks}
            digests |= {task.id: file.digest for task in file.tasks}
    with suppress(NothingToReadError):
        found = load_workspace(folder)
        workspace = found.digest
        titles = {record_id: record.title for record_id, record in found.records.items()}
    return Library(folder, tasks, digests, titles, workspace)


def _short(digest: str) -> str:
    return digest[:_SHOWN_HEX] or "no digest"
