"""Leaks: a solution that stands in what every agent is shown before its first call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradient_rl.environment.episode import Limits
from gradient_rl.environment.prompt import opening_messages
from gradient_rl.environment.tools import Tool, tool_schemas
from gradient_rl.evaluation.evidence import question_gives
from gradient_rl.schema.task import Fact, FactKind, Task

LEAST_TELLING_NUMBER = 1000
"""Below it a bare number in a prompt or a schema is no leak: every prompt names its limits, such as 15 calls and 5 hits."""
QUESTION = "the question"
PROMPT = "the system prompt"


@dataclass(frozen=True)
class Leak:
    """A piece of a solution, and the text in which it stands."""

    what: str
    where: str


def texts_shown(task: Task, limits: Limits, tools: tuple[Tool, ...]) -> dict[str, str]:
    """All that an agent is shown before its first call, by where it stands."""
    system, user = (str(message["content"]) for message in opening_messages(task.for_policy(), limits))
    schemas = {f"the schema of {tool.__name__}": _words_of(schema) for tool, schema in _schemas(tools)}
    return {QUESTION: user, PROMPT: system, **schemas}


def leaks_of(task: Task, shown: Mapping[str, str]) -> Iterator[Leak]:
    """Values of the task's facts, and ids of its required records, that stand in the texts."""
    whole = "\n".join(shown.values())
    for record_id in dict.fromkeys(i for slot in task.required_sources for i in slot):
        if _has_id(whole, record_id):
            yield from (Leak(f"the id '{record_id}'", where) for where, text in shown.items() if _has_id(text, record_id))
    for fact in task.facts:
        for where, text in shown.items():
            if (where == QUESTION or _is_telling(fact)) and question_gives(text, fact):
                yield Leak(f"'{fact.value}'", where)


def _schemas(tools: tuple[Tool, ...]) -> Iterator[tuple[Tool, dict[str, object]]]:
    return zip(tools, tool_schemas(tools), strict=True)


def _words_of(schema: Mapping[str, object]) -> str:
    """Its names and descriptions as words: an underscore would hide a value from a reader of words."""
    return json.dumps(schema, ensure_ascii=False).replace('"', " ")


def _has_id(text: str, record_id: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(record_id)}(?![\w-])", text, re.IGNORECASE) is not None


def _is_telling(fact: Fact) -> bool:
    if fact.kind is not FactKind.NUMBER:
        return True
    try:
        return abs(float(fact.value or "")) >= LEAST_TELLING_NUMBER
    except ValueError:
        return True
