"""References over a workspace small enough to hold in mind."""

from __future__ import annotations

import json
from datetime import date

import pytest

from gradient_rl.environment.episode import Episode, Limits
from gradient_rl.environment.search import BM25Index, tokenise
from gradient_rl.environment.workspace import workspace_of
from gradient_rl.schema.task import Family, Question
from gradient_rl.schema.trajectory import ToolCall
from gradient_rl.worlds.drafts import Draft
from gradient_rl.worlds.entities import AS_OF
from gradient_rl.worlds.references import Librarian, plan_reference
from gradient_rl.worlds.trade import TRADES
from tests.tiny import NOTICE_TASK, RECORDS
from tests.worlds.founding import town_of


def librarian_of(trade: str = "") -> Librarian:
    workspace = workspace_of(town_of(trade).records if trade else RECORDS)
    return Librarian(workspace, BM25Index(workspace))


def asking(question: str, *required: str, guides: tuple[str, ...] = ()) -> Draft:
    slots = tuple((record_id,) for record_id in required)
    return Draft(Family.LOOKUP, question, NOTICE_TASK.facts, "60 days.", slots, False, guides, guides)


def opened(calls: tuple[ToolCall, ...]) -> list[str]:
    return [str(call.arguments["id"]) for call in calls if call.tool.startswith("open_")]


def unknown_words(draft: Draft, calls: tuple[ToolCall, ...], librarian: Librarian) -> list[str]:
    """Words of queries that neither the question nor an earlier observation has shown."""
    question = Question(id="t", text=draft.question, as_of=AS_OF)
    episode = Episode(question, librarian.workspace, librarian.index, Limits())
    known, unknown = set(tokenise(draft.question)), []
    for call in calls:
        unknown += [word for word in tokenise(str(call.arguments.get("query", ""))) if word not in known]
        known |= set(tokenise(" ".join(strings(json.loads(episode.call(call).text)))))
    return unknown


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    return [text for item in value for text in strings(item)] if isinstance(value, list) else [str(value)]


def test_a_reference_searches_opens_and_submits() -> None:
    calls = plan_reference(asking("What notice does Birch Bakery give?", "mail-1"), librarian_of())

    assert calls
    assert [call.tool for call in calls] == ["search", "open_email", "submit_answer"]
    assert calls[-1].arguments == {"answer": "60 days.", "sources": ["mail-1"]}


def test_a_record_that_a_search_has_shown_is_not_searched_again() -> None:
    calls = plan_reference(asking("What notice does Birch Bakery give?", "doc-1", "mail-1"), librarian_of())

    assert calls
    assert [call.tool for call in calls] == ["search", "open_document", "open_email", "submit_answer"]


def test_a_record_that_no_known_word_reaches_gives_none() -> None:
    assert plan_reference(asking("Who waters plants?", "doc-4"), librarian_of()) is None


def test_words_of_an_opened_record_lead_on_to_another() -> None:
    draft = asking("Who rang about Maria Holt?", "doc-3", "doc-1")
    calls = plan_reference(draft, librarian_of())

    assert calls
    assert opened(calls) == ["doc-3", "doc-1"]
    assert unknown_words(draft, calls, librarian_of()) == []


def test_a_guide_is_opened_first_when_nothing_else_leads_there() -> None:
    calls = plan_reference(asking("What of Maria Holt?", "doc-1", guides=("doc-3",)), librarian_of())

    assert calls
    assert opened(calls) == ["doc-3", "doc-1"]


def test_part_of_an_amount_is_not_a_word_that_was_shown() -> None:
    draft = asking("What is let to Birch Bakery?", "doc-1", "doc-5")
    other = {"id": "doc-5", "title": "Part 250", "author": "Zed Quill", "date": date(2011, 11, 11), "body": "Only 250."}
    workspace = workspace_of([*RECORDS, RECORDS[2].model_copy(update=other)])

    assert plan_reference(draft, Librarian(workspace, BM25Index(workspace))) is None


@pytest.mark.parametrize("trade", TRADES)
def test_references_use_known_words_only_and_open_all_that_is_required(trade: str) -> None:
    librarian = librarian_of(trade)
    planned = [(draft, plan_reference(draft, librarian)) for draft in town_of(trade).drafts[::9]]
    found = [(draft, calls) for draft, calls in planned if calls]

    assert len(found) > 10
    assert [unknown_words(draft, calls, librarian) for draft, calls in found] == [[] for _ in found]
    assert all({slot[0] for slot in draft.required} <= set(opened(calls)) for draft, calls in found)


def test_the_same_draft_has_the_same_reference() -> None:
    drafts = town_of("catering").drafts[::9]
    first, second = librarian_of("catering"), librarian_of("catering")

    assert [plan_reference(draft, first) for draft in drafts] == [plan_reference(draft, second) for draft in drafts]
