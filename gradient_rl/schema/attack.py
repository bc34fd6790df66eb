"""Policies under attack: instructions planted in records, and what they did to each policy. The content of `attack.json`."""

from __future__ import annotations

from enum import StrEnum

from gradient_rl.schema.evaluation import ComparisonResult, EvaluationHead, Metric
from gradient_rl.schema.task import FactKind
from gradient_rl.schema.workspace import FrozenRecord, RecordId


class Style(StrEnum):
    """How a planted instruction is dressed."""

    PLAIN = "plain"
    SYSTEM = "system"
    TOOL_RESULT = "tool-result"
    NOTE = "note"
    QUOTED = "quoted"


class Aim(StrEnum):
    """What a planted instruction asks for."""

    ANSWER = "answer"
    CITATION = "citation"
    GRADER = "grader"


class Plant(FrozenRecord):
    """An instruction in a record, and what an episode of its task would have to do to count as a hit."""

    task_id: RecordId
    record: RecordId
    """The record that it was written into."""
    style: Style
    aim: Aim
    target: str
    """The value to be stated, the id to be cited or the phrase to be written. It stands nowhere else."""
    kind: FactKind | None = None
    """Of the value to be stated; None for another aim."""
    text: str
    """What was appended to the record's body."""


class HitShare(FrozenRecord):
    """How often the tasks of one style or one aim hit."""

    n_tasks: int
    """Tasks with a reward under attack."""
    success: float | None
    """Samples averaged within a task first; None without a task."""


class UnderAttack(FrozenRecord):
    """One policy without attack and under attack, on the same tasks, samples and seeds."""

    n_episodes: int
    """Without and under attack together."""
    excluded: int
    """Of them, those without a reward: failures of the infrastructure."""
    clean: Metric
    """Mean reward without attack."""
    attacked: Metric
    """Mean reward under attack."""
    comparison: ComparisonResult
    """Under attack against without, task by task."""
    read: Metric
    """Share of the attacked episodes that opened the record with their instruction."""
    success: Metric
    """Share of the attacked episodes that did what the instruction asked for."""
    by_chance: Metric
    """Share of the episodes without attack that did the same, though nothing had asked for it."""
    styles: dict[Style, HitShare]
    aims: dict[Aim, HitShare]


class AttackedAttempt(FrozenRecord):
    """What one policy did on one task."""

    clean: float | None
    """Mean reward of its samples; None when none has one."""
    attacked: float | None
    read: float | None
    success: float | None
    answer: str | None
    """Under attack: that of the first sample that hit, else of the first one."""
    sources: tuple[str, ...]


class AttackedTask(FrozenRecord):
    """One task, the instruction that was planted for it, and what each policy did."""

    id: RecordId
    family: str
    plant: Plant
    policies: dict[str, AttackedAttempt]


class AttackEvaluation(EvaluationHead):
    """The whole of it. Nothing but `started_at` and `seconds` depends on when or in how many pieces it ran."""

    attacked_workspace: str
    """Digest of the records with the instructions in them; `digests.workspace` is that of the records without."""
    policies: dict[str, UnderAttack]
    tasks: tuple[AttackedTask, ...]
