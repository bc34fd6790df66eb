"""The judge of drafted tasks: the validator of hand-written data, with what it rejects repaired or dropped, and counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import Workspace
from gradient_rl.evaluation.evidence import Evidence
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.evaluation.validate import question_finds_all, task_problems
from gradient_rl.schema.task import Fact, Split, Task
from gradient_rl.worlds.drafts import Draft
from gradient_rl.worlds.entities import AS_OF
from gradient_rl.worlds.references import Librarian, plan_reference

MAX_KEYWORD_SHARE = 0.12
"""Share of the tasks of a family whose question alone may find everything; the validator allows 0.15 of all tasks."""
_STATED_ELSEWHERE = re.compile(r"'([A-Za-z0-9._-]+)' also states ")
_NEEDLESS_CALL = re.compile(r"call (\d+) of the reference, .* could be dropped without loss")
_REASONS = (
    ("rival", "a rival stands nowhere else"),
    ("could be dropped", "a call of the reference is needless"),
    ("no later query depends", "a record does not lead anywhere"),
    ("does not state", "a source does not state its fact"),
    ("also states", "another record states the fact"),
    ("beside", "a value stands where none should be"),
    ("question already", "the question states its answer"),
    ("does not stand in", "an input stands nowhere"),
    ("earns", "the reference earns less than 1"),
    ("nothing has shown", "the reference uses a word that nothing has shown"),
)


@dataclass
class Judge:
    """Turns drafts into tasks that the validator accepts."""

    workspace: Workspace
    near: Workspace
    """The records among which a second statement of a fact is looked for: all, or a sample of a large workspace."""
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Drafts that became no task, by reason."""
    repaired: Counter[str] = field(default_factory=Counter[str])
    """What was mended in drafts that became tasks."""

    def __post_init__(self) -> None:
        self._index = BM25Index(self.workspace)
        self._evidence = Evidence(self.near)
        self._replayer = Replayer(self.workspace, self._index)
        self._librarian = Librarian(self.workspace, self._index)

    def task(self, draft: Draft, task_id: str, split: Split, keywords_allowed: bool) -> Task | None:
        """The task of a draft under an id; None if it is dropped.

        Args:
            keywords_allowed: whether the question alone may find everything that is needed.
        """
        calls = plan_reference(draft, self._librarian)
        if calls is None:
            return self._drop("no search with known words finds a record")
        task = _task(draft, task_id, split, calls)
        if not keywords_allowed and question_finds_all(task, self._index):
            return self._drop("the question alone finds everything")
        repairs: list[str] = []
        for _ in range(4):
            problems = task_problems(task, self.workspace, self._evidence, self._replayer)
            if not problems:
                self.repaired.update(repairs)
                return task
            mended = _mended(task, problems[0])
            if mended is None:
                return self._drop(_reason(problems[0]))
            repair, task = mended
            repairs.append(repair)
        return self._drop("four repairs were not enough")

    def finds_all(self, task: Task) -> bool:
        """Whether the question as one query finds everything that is needed."""
        return question_finds_all(task, self._index)

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1


def _mended(task: Task, problem: str) -> tuple[str, Task] | None:
    """What was repaired, and the task without its problem; None where that cannot be repaired."""
    required = {record_id for slot in task.required_sources for record_id in slot}
    if (found := _STATED_ELSEWHERE.search(problem)) and found[1] not in required:
        neutral = (*task.neutral_sources, found[1])
        return "a record that repeats the fact is neutral", task.model_copy(update={"neutral_sources": neutral})
    if found := _NEEDLESS_CALL.search(problem):
        place = int(found[1]) - 1
        calls = (*task.reference[:place], *task.reference[place + 1 :])
        return "a needless call is left out", task.model_copy(update={"reference": calls})
    if "rival" in problem and "stands in no other record" in problem:
        facts = tuple(_without_rival(fact, problem) for fact in task.facts)
        return "a rival that stands nowhere is left out", task.model_copy(update={"facts": facts})
    return None


def _without_rival(fact: Fact, problem: str) -> Fact:
    if f"fact '{fact.id}'" not in problem:
        return fact
    return fact.model_copy(update={"rivals": tuple(rival for rival in fact.rivals if f"rival '{rival}'" not in problem)})


def _task(draft: Draft, task_id: str, split: Split, calls: Sequence[object]) -> Task:
    facts = [fact.model_copy(update={"id": f"{task_id}-f{place}"}) for place, fact in enumerate(draft.facts, 1)]
    return Task(
        id=task_id,
        split=split,
        family=draft.family,
        question=draft.question,
        as_of=AS_OF,
        hops=draft.hops,
        facts=tuple(facts),
        required_sources=draft.required,
        neutral_sources=tuple(dict.fromkeys(_neutral(draft))),
        reference=tuple(calls),  # pyright: ignore[reportArgumentType]
    )


def _neutral(draft: Draft) -> Iterator[str]:
    required = {record_id for slot in draft.required for record_id in slot}
    yield from (record_id for record_id in draft.neutral if record_id not in required)


def _reason(problem: str) -> str:
    return next((reason for sign, reason in _REASONS if sign in problem), problem)
