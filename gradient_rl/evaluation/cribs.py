"""Cribs: what a cheater is told of a task beforehand, so that it can do its worst."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from gradient_rl.environment.workspace import Workspace
from gradient_rl.policies.cheaters import NOT_ON_RECORD, Crib
from gradient_rl.rewards.values import mentions_of, plain_text
from gradient_rl.schema.task import Fact, FactKind, Task
from gradient_rl.schema.trajectory import SUBMIT_TOOL

_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+(?: [A-ZÀ-ÖØ-Þ][\w'’-]+)+")


def crib_of(task: Task, workspace: Workspace) -> Crib:
    """What there is to know about a task: its answer and sources, its rivals, and all values and ids of the workspace."""
    submitted = [call.arguments for call in task.reference if call.tool == SUBMIT_TOOL]
    submission = submitted[-1] if submitted else {}
    sources = submission.get("sources")
    return Crib(
        answer=str(submission.get("answer", "")),
        sources=tuple(str(source) for source in sources) if isinstance(sources, list) else (),
        both=tuple(text for fact in task.facts if fact.rivals for text in (fact.value or NOT_ON_RECORD, fact.rivals[0])),
        values=_distinct(value for fact in task.facts for value in _values(fact, workspace)),
        ids=tuple(workspace.records),
    )


def _kind(fact: Fact) -> FactKind:
    return fact.asked_kind or FactKind.TEXT if fact.kind is FactKind.ABSENT else fact.kind


def _values(fact: Fact, workspace: Workspace) -> Iterator[str]:
    """Values of a fact's kind on record. Phrases cannot be read out of a text: the value and its rivals, and all titles."""
    kind, records = _kind(fact), workspace.records.values()
    if kind is FactKind.TEXT:
        yield from filter(None, (fact.value, *fact.rivals))
        yield from (record.title for record in records)
    else:
        yield from _values_in(tuple(record.body for record in records), kind)


@lru_cache(32)
def _values_in(bodies: tuple[str, ...], kind: FactKind) -> tuple[str, ...]:
    """Values of a kind in texts, each once, as a text has it."""
    if kind is FactKind.NAME:
        return _distinct(match[0] for body in bodies for match in _NAME.finditer(body))
    texts = (plain_text(body) for body in bodies)
    found = {m.key: text[m.start : m.end].strip() for text in texts for m in mentions_of(text, kind) if not m.weak}
    return _distinct(found.values())


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
