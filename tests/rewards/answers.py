"""Short ways to write a fact and to ask whether an answer states it."""

from __future__ import annotations

from collections.abc import Sequence

from gradient_rl.rewards.facts import judge_facts
from gradient_rl.schema.task import Fact, Reference


def fact(kind: str, value: str | None, rivals: Sequence[str] = (), **more: object) -> Fact:
    fields = {"id": "f1", "subject": "it", "statement": "It is so.", "sources": ["r1"], **more}
    return Fact.model_validate({**fields, "kind": kind, "value": value, "rivals": tuple(rivals)})


def reference(*facts: Fact, question: str = "What is it?") -> Reference:
    return Reference(
        task_id="t",
        facts=facts,
        required_sources=(("r1",),),
        neutral_sources=(),
        question_text=question,
        reference_calls=3,
    )


def states(answer: str, *facts: Fact, question: str = "What is it?") -> bool:
    return all(judgement.stated for judgement in judge_facts(answer, reference(*facts, question=question)))
