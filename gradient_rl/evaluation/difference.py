"""What made the difference between two trajectories of one task, in one sentence."""

from __future__ import annotations

from gradient_rl.evaluation.coverage import Coverage, Slot, coverage_of
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Trajectory


def what_made_the_difference(first: Trajectory, second: Trajectory, task: Task) -> str:
    """Say why the better of two trajectories earned more, by the first stage at which the other fell behind."""
    totals = [t.reward.total if t.reward else 0.0 for t in (first, second)]
    if abs(totals[0] - totals[1]) < 1e-9:
        return f"{first.policy} and {second.policy} earn the same, {totals[0]:.2f}."
    better, worse = (second, first) if totals[1] > totals[0] else (first, second)
    return f"{better.policy} earns {abs(totals[1] - totals[0]):.2f} more: {_cause(better, worse, task)}."


def _cause(better: Trajectory, worse: Trajectory, task: Task) -> str:
    ours, theirs = coverage_of(better, task), coverage_of(worse, task)
    behind = _first_stage_behind(ours, theirs)
    more_right = _value(better, "correctness") > _value(worse, "correctness")
    if behind:
        stage, slot = behind
        lost = f"{worse.policy} {_STAGES[stage]} {' or '.join(slot)}"
        return f"{lost}, which {better.policy} {'needed for the answer' if more_right else 'cites as evidence'}"
    if more_right:
        return f"both read the evidence, and only {better.policy} states the right answer"
    if _value(better, "citation_quality") > _value(worse, "citation_quality"):
        return f"{worse.policy} cites records that prove nothing"
    return f"{worse.policy} needed {worse.calls} calls where {better.policy} made {better.calls}"


_STAGES = {"found": "never found", "read": "found but did not open", "cited": "read but did not cite"}


def _first_stage_behind(ours: Coverage, theirs: Coverage) -> tuple[str, Slot] | None:
    for slot in ours.cited:
        for stage, reached in (("found", theirs.found), ("read", theirs.read), ("cited", theirs.cited)):
            if slot not in reached:
                return stage, slot
    return None


def _value(trajectory: Trajectory, part: str) -> float:
    return trajectory.reward.value(part) if trajectory.reward else 0.0
