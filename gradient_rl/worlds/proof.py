"""Proof of rewordings: the tasks are validated on the reworded workspace, and what breaks one is taken back.

A task whose reference no longer finds its records is given a new one first: its queries used words that are gone. A rewording
is taken back only for what it adds: a fault that a task had before is not held against it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import workspace_of
from gradient_rl.evaluation.evidence import Evidence
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.evaluation.validate import question_finds_all, task_problems
from gradient_rl.schema.task import Split, Task
from gradient_rl.schema.trajectory import OPENING_TOOLS
from gradient_rl.schema.workspace import Record
from gradient_rl.worlds.drafts import Draft
from gradient_rl.worlds.references import Librarian, plan_reference

_FINDS_ALL = "the question alone finds everything"
_NAMED = re.compile(r"'([A-Za-z0-9._-]{1,80})'")
_REASONS = (
    ("question already", "the question states its answer"),
    (_FINDS_ALL, "the question alone would find everything"),
    ("also states", "it states another record's fact"),
    ("beside", "it gives a value where none should be"),
    ("does not state", "it no longer states a fact"),
    ("does not stand in", "it no longer states a fact"),
    ("rival", "a rival stands nowhere else"),
)


@dataclass(frozen=True)
class Proven:
    """Rewordings that leave every task as sound as it was."""

    texts: Mapping[str, str]
    """By id of the record or task."""
    records: tuple[Record, ...]
    """All records, in their order, with these texts."""
    tasks: tuple[Task, ...]
    """All tasks, in their order, with these texts, and with new references where they were needed."""
    refused: Mapping[str, str]
    """Why a rewording was taken back, by id."""


class Proof:
    """Judges rewordings of records and questions together.

    Args:
        records: as they stand now.
        tasks: all that there are about them.
    """

    def __init__(self, records: Sequence[Record], tasks: Sequence[Task]) -> None:
        self._records, self._tasks = records, tasks
        self._by_id = {task.id: task for task in tasks}
        self._before: dict[str, frozenset[str]] = {}

    def of(self, texts: Mapping[str, str], told: Callable[[int], None] = lambda left: None) -> Proven:
        """A large part of the rewordings that breaks no task.

        In each round every broken task has its most suspicious rewording taken back.

        Args:
            texts: new bodies and questions, by id of the record or task.
            told: of how many tasks are broken, after each round.
        """
        kept, refused = dict(texts), dict[str, str]()
        planned = {task.id: task for task in self._tasks}
        unsure = self._tasks
        while unsure:
            ground = self._ground(kept)
            sound = {task.id: self._sound(planned[task.id], ground, kept) for task in unsure}
            planned |= {name: task for name, task in sound.items() if task}
            broken = [task for task in unsure if sound[task.id] is None]
            told(len(broken))
            for task in broken:
                problems = self._new_problems(_asked(task, kept), ground)
                refused[self._culprit(task, problems, kept)] = _reason(problems)
            kept = {name: text for name, text in kept.items() if name not in refused}
            # What was taken back may matter to any task, which is looked at once the broken ones are mended.
            unsure = broken or (self._tasks if len(unsure) < len(self._tasks) else ())
        return Proven(kept, tuple(self._reworded(kept)), tuple(planned[task.id] for task in self._tasks), refused)

    def _reworded(self, texts: Mapping[str, str]) -> list[Record]:
        return [r.model_copy(update={"body": texts[r.id]}) if r.id in texts else r for r in self._records]

    def _ground(self, texts: Mapping[str, str]) -> _Ground:
        return _Ground(self._reworded(texts))

    def _new_problems(self, task: Task, ground: _Ground) -> list[str]:
        found = ground.problems(task)
        if found and task.id not in self._before:
            self._before[task.id] = frozenset(self._ground_before.problems(self._by_id[task.id]))
        return [problem for problem in found if problem not in self._before[task.id]]

    @cached_property
    def _ground_before(self) -> _Ground:
        return _Ground(self._records)

    def _sound(self, task: Task, ground: _Ground, texts: dict[str, str]) -> Task | None:
        """The task as it stands with these texts, by its reference, its first one or a new one; None if they break it."""
        first = self._by_id[task.id]
        for known in (task.reference, first.reference) if task.reference != first.reference else (first.reference,):
            asked = _asked(first, texts).model_copy(update={"reference": known})
            if not self._new_problems(asked, ground):
                return asked
        planned = ground.planned_anew(_asked(first, texts))
        return planned if planned and not self._new_problems(planned, ground) else None

    def _culprit(self, task: Task, problems: Sequence[str], texts: dict[str, str]) -> str:
        """The most suspicious rewording; where none is, one found by halving that breaks the task when added to some others."""
        suspicion = _suspicion(task, problems)
        suspects = sorted(suspicion.keys() & texts.keys(), key=lambda name: (-suspicion[name], name))
        if suspects:
            return suspects[0]
        order = sorted(texts)
        sound, broken = 0, len(order)
        while broken - sound > 1:
            middle = (sound + broken) // 2
            some = {name: texts[name] for name in order[:middle]}
            if self._sound(task, self._ground(some), some):
                sound = middle
            else:
                broken = middle
        return order[broken - 1]


class _Ground:
    """A workspace with all that tasks are judged by."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._workspace = workspace_of(records)
        self._index = BM25Index(self._workspace)
        self._evidence = Evidence(self._workspace)
        self._replayer = Replayer(self._workspace, self._index)
        self._librarian: Librarian | None = None

    def problems(self, task: Task) -> list[str]:
        """What the validator says of a task, and whether its question alone finds everything."""
        found = task_problems(task, self._workspace, self._evidence, self._replayer)
        return [*found, _FINDS_ALL] if question_finds_all(task, self._index) else found

    def planned_anew(self, task: Task) -> Task | None:
        """The task with a new reference that opens the same records; None where no search finds them."""
        submitted = task.reference[-1].arguments.get("answer")
        if not isinstance(submitted, str):
            return None
        self._librarian = self._librarian or Librarian(self._workspace, self._index)
        calls = plan_reference(_draft(task, submitted), self._librarian)
        if calls is None:
            return None
        planned = task.model_copy(update={"reference": calls})
        while needless := self._replayer.needless_calls(planned):
            left = (*planned.reference[: needless[0]], *planned.reference[needless[0] + 1 :])
            planned = planned.model_copy(update={"reference": left})
        return planned


def _draft(task: Task, answer: str) -> Draft:
    opened = (str(call.arguments.get("id")) for call in task.reference if call.tool in OPENING_TOOLS)
    required = {record_id for slot in task.required_sources for record_id in slot}
    return Draft(
        family=task.family,
        question=task.question,
        facts=task.facts,
        answer=answer,
        required=task.required_sources,
        heldout=task.split is Split.HELDOUT,
        guides=tuple(record_id for record_id in opened if record_id not in required),
    )


def _asked(task: Task, texts: Mapping[str, str]) -> Task:
    return task.model_copy(update={"question": texts[task.id]}) if task.id in texts else task


def _suspicion(task: Task, problems: Sequence[str]) -> Counter[str]:
    """How likely each rewording is at fault: the question and the records that the task cites, most of all those named."""
    cited = {record_id for slot in task.required_sources for record_id in slot} | set(task.neutral_sources)
    named = {name for problem in problems for name in _NAMED.findall(problem)}
    return Counter([task.id, task.id, *cited, *named, *named, *named])


def _reason(problems: Sequence[str]) -> str:
    return next((reason for sign, reason in _REASONS if any(sign in p for p in problems)), "a reference no longer works")
