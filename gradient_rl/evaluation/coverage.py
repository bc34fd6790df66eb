"""Coverage: how far an episode came on the way to the required records. Found, read, cited: three shares explain a score."""

from __future__ import annotations

from dataclasses import dataclass

from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Trajectory

Slot = tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The slots of a task that a trajectory found in a search, opened, and cited."""

    slots: tuple[Slot, ...]
    found: tuple[Slot, ...]
    read: tuple[Slot, ...]
    cited: tuple[Slot, ...]

    @property
    def shares(self) -> tuple[float, float, float]:
        """Found, read and cited slots over all slots."""
        total = len(self.slots)
        return len(self.found) / total, len(self.read) / total, len(self.cited) / total


def coverage_of(trajectory: Trajectory, task: Task) -> Coverage:
    """Which required slots a trajectory found, read and cited. A citation counts only for a record that was opened."""
    shown = {record_id.lower() for step in trajectory.steps for record_id in step.ids}
    opened = {record_id.lower() for record_id in trajectory.opened}
    cited = {source.strip().lower() for source in trajectory.sources} & opened
    slots = task.required_sources

    def touched(ids: set[str]) -> tuple[Slot, ...]:
        return tuple(slot for slot in slots if any(record_id.lower() in ids for record_id in slot))

    return Coverage(slots=slots, found=touched(shown), read=touched(opened), cited=touched(cited))
