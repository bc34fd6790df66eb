"""The ledger of a training run: its two journals, and what an earlier process left in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from gradient_rl.errors import DataError
from gradient_rl.evaluation.records import KEY, write_trajectories
from gradient_rl.runs import Journal, read_journal
from gradient_rl.schema.jsonl import fault_in
from gradient_rl.schema.task import Split
from gradient_rl.schema.training import WARM, StepMetrics, place_name
from gradient_rl.schema.trajectory import Trajectory, Usage
from gradient_rl.schema.workspace import FrozenRecord

TRAJECTORIES = "train.trajectories.jsonl"
METRICS = "train.metrics.jsonl"
METRICS_KEY = ("run_id", "step", "checkpoint")


class Ledger:
    """The run's two journals, and what they held when they were opened; `warm` says whether it has a warm start."""

    def __init__(self, folder: Path, run_id: str, *, warm: bool) -> None:
        self._metrics = Journal(folder / METRICS, METRICS_KEY, _refuse_damage)
        self._trajectories = Journal(folder / TRAJECTORIES, KEY, _refuse_damage)
        self.steps = list(_steps_in(folder / METRICS, run_id, warm=warm))
        """Metrics of the steps that are done, in order."""
        self.spent = Usage()
        """What the episodes that are there have cost, also those that were played again."""
        self._left: list[Trajectory] = []
        for trajectory in _records(folder / TRAJECTORIES, Trajectory):
            self._know(trajectory, run_id)

    def played(self, step: int, split: Split, label: str) -> dict[tuple[str, int], Trajectory]:
        """By task and sample, the last attempts of a step that was begun and not done, under the state of this label."""
        found = [t for t in self._left if (t.step, t.split, t.checkpoint) == (step, split, label)]
        return {(t.task_id, t.sample): t for t in sorted(found, key=lambda t: t.attempt)}

    def add(self, trajectories: Sequence[Trajectory]) -> None:
        """Write episodes; they are on the disk when this returns."""
        if trajectories:
            write_trajectories(self._trajectories, *trajectories)

    def end_step(self, metrics: StepMetrics) -> None:
        """Write that a step is done."""
        self._metrics.append(metrics.model_dump(mode="json"))
        self.steps.append(metrics)

    def close(self) -> None:
        """Close both files."""
        self._metrics.close()
        self._trajectories.close()

    def _know(self, trajectory: Trajectory, run_id: str) -> None:
        """Take an earlier process's episode in; of those of steps that are done nothing but the cost is needed any more."""
        if trajectory.run_id == run_id:
            self.spent += trajectory.usage
            warm = trajectory.step == 0 and trajectory.checkpoint == WARM
            if not any((done.step, done.is_warm_start) == (trajectory.step, warm) for done in self.steps):
                self._left.append(trajectory)


def _steps_in(path: Path, run_id: str, *, warm: bool) -> Iterator[StepMetrics]:
    for number, metrics in enumerate(_records(path, StepMetrics)):
        at = (0, 0.5, *range(1, number))[number] if warm else number
        if (metrics.run_id, metrics.at) != (run_id, at):
            found, wanted = f"step {place_name(metrics.at)} of run '{metrics.run_id}'", f"step {place_name(at)} of '{run_id}'"
            _refuse_damage(DataError(f"{path} tells of {found} where {wanted} belongs, so a line was lost or moved"))
        yield metrics


def _records[R: FrozenRecord](path: Path, kind: type[R]) -> Iterator[R]:
    for number, record in read_journal(path):
        try:
            yield kind.model_validate(record)
        except ValidationError as error:
            _refuse_damage(DataError(f"{path} line {number} is damaged: {fault_in(error)}"))


def _refuse_damage(fault: DataError) -> NoReturn:
    """Stop at a damaged line: what was learned from it cannot be told."""
    raise DataError(f"{fault}; restore the file, or begin a new run without --resume (the earlier one is kept under runs/)")
