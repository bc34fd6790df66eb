from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gradient_rl.environment.workspace import workspace_of
from gradient_rl.schema.task import FactKind, Family, Split, Task
from gradient_rl.schema.workspace import Email, Record
from gradient_rl.worlds.drafts import Draft
from gradient_rl.worlds.judging import Judge
from tests.worlds.founding import town_of

RECORDS = town_of("insurance").records


def judge_of(records: Sequence[Record]) -> Judge:
    workspace = workspace_of(records)
    return Judge(workspace, workspace)


def judged(judge: Judge, draft: Draft, keywords_allowed: bool = True) -> Task | None:
    return judge.task(draft, "train-001", Split.TRAIN, keywords_allowed)


@pytest.fixture(scope="module")
def draft() -> Draft:
    """The first question about a price that becomes a task without a repair."""
    judge = judge_of(RECORDS)
    for draft in town_of("insurance").drafts:
        [first, *_] = draft.facts
        if draft.family is Family.LOOKUP and first.kind is FactKind.MONEY and judged(judge, draft) and not judge.repaired:
            return draft
        judge.repaired.clear()
    raise AssertionError("no draft became a task")


def test_a_sound_draft_becomes_a_task_with_its_reference(draft: Draft) -> None:
    judge = judge_of(RECORDS)
    task = judged(judge, draft)

    assert task
    assert (task.question, task.required_sources, task.facts[0].id) == (draft.question, draft.required, "train-001-f1")
    assert task.reference[-1].arguments == {"answer": draft.answer, "sources": [draft.required[0][0]]}
    assert (judge.dropped, judge.repaired) == ({}, {})


def test_a_rival_that_stands_nowhere_is_left_out(draft: Draft) -> None:
    judge = judge_of(RECORDS)
    rivals = ("EUR 987654321", *draft.facts[0].rivals)
    task = judged(judge, replace(draft, facts=(draft.facts[0].model_copy(update={"rivals": rivals}),)))

    assert task
    assert task.facts[0].rivals == draft.facts[0].rivals
    assert judge.repaired == {"a rival that stands nowhere is left out": 1}


def test_a_question_that_finds_everything_by_itself_is_dropped_and_counted(draft: Draft) -> None:
    judge = judge_of(RECORDS)
    wanted = next(record for record in RECORDS if record.id == draft.required[0][0])
    easy = replace(draft, question=f"{draft.question} {wanted.title} {wanted.body[:300]}?")

    assert judged(judge, easy, keywords_allowed=False) is None
    assert judge.dropped == {"the question alone finds everything": 1}


def test_a_second_record_that_says_the_same_is_neutral(draft: Draft) -> None:
    fact, mail = draft.facts[0], next(record for record in RECORDS if isinstance(record, Email))
    planted = mail.model_copy(
        update={"id": "planted", "subject": "again", "body": f"Between us, {fact.subject}: {fact.value}."}
    )
    judge = judge_of([*RECORDS, planted])
    task = judged(judge, draft)

    assert task
    assert task.neutral_sources == (*draft.neutral, "planted")
    assert judge.repaired == {"a record that repeats the fact is neutral": 1}


def test_a_fact_that_its_source_does_not_state_is_dropped_and_counted(draft: Draft) -> None:
    judge = judge_of(RECORDS)
    wrong = draft.facts[0].model_copy(update={"value": "EUR 987654321"})

    assert judged(judge, replace(draft, facts=(wrong,))) is None
    assert judge.dropped == {"a source does not state its fact": 1}


def test_a_record_that_nothing_leads_to_is_dropped_and_counted(draft: Draft) -> None:
    judge = judge_of(RECORDS)

    assert judged(judge, replace(draft, question="Who waters ferns?", guides=())) is None
    assert judge.dropped == {"no search with known words finds a record": 1}
