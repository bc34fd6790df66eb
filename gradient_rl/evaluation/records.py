"""The records of an evaluation: one journal of trajectories a policy, and reading them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from gradient_rl.errors import DataError
from gradient_rl.runs import Journal, raise_damage, read_journal
from gradient_rl.schema.jsonl import fault_in
from gradient_rl.schema.trajectory import Trajectory

KEY = ("run_id", "policy", "checkpoint", "step", "split", "task_id", "sample", "attempt")
"""What makes a trajectory the only one of its kind."""

type OnDamage = Callable[[DataError], None]


def read_trajectories(path: Path, on_damage: OnDamage = raise_damage) -> Iterator[tuple[int, Trajectory]]:
    """Yield (line number, trajectory) for each good line; a torn tail is no line.

    Args:
        path: a file of one trajectory a line.
        on_damage: called for each line that is damaged, of another schema version, or a repetition.

    Raises:
        NothingToReadError: the file is not there.
        DataError: a line is damaged, and `on_damage` raises.
        ArtifactError: the file system refuses.
    """
    seen: dict[tuple[object, ...], int] = {}
    for number, record in read_journal(path, on_damage):
        try:
            trajectory = Trajectory.model_validate(record)
        except ValidationError as error:
            on_damage(DataError(f"{path} line {number} is not a trajectory: {fault_in(error)}"))
            continue
        first = seen.setdefault(tuple(getattr(trajectory, name) for name in KEY), number)
        if first != number:
            on_damage(DataError(f"{path} line {number} repeats the episode of line {first}"))
            continue
        yield number, trajectory


def write_trajectories(journal: Journal, *trajectories: Trajectory) -> None:
    """Append trajectories; they are on the disk when this returns.

    Raises:
        DataError: one is there already.
        ArtifactError: the file system refuses.
    """
    journal.append(*(trajectory.model_dump(mode="json") for trajectory in trajectories))


def attempts_made(journal: Journal) -> dict[tuple[str, int], int]:
    """By task and sample, how often the journal's episodes were begun, whether they can be read or not."""
    place = {name: number for number, name in enumerate(KEY)}
    made: dict[tuple[str, int], int] = {}
    for key in journal.keys:
        task_id, sample, attempt = (key[place[name]] for name in ("task_id", "sample", "attempt"))
        if isinstance(task_id, str) and isinstance(sample, int) and isinstance(attempt, int):
            made[task_id, sample] = max(made.get((task_id, sample), 0), attempt + 1)
    return made
