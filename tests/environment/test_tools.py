from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.tools import (
    TOOLS,
    Desk,
    checked_arguments,
    open_document,
    open_email,
    search,
    search_documents,
    submit_answer,
    tool_named,
    tool_schemas,
)
from gradient_rl.environment.workspace import Workspace

GOLDEN = Path(__file__).parent / "tool_schemas.json"


@pytest.fixture
def desk(tiny: Workspace, tiny_index: BM25Index) -> Desk:
    return Desk(tiny, tiny_index)


def test_the_schemas_are_those_of_the_golden_file() -> None:
    """A change here is a change of what models read. Rewrite the file on purpose, and say so in the changelog."""
    assert list(tool_schemas()) == json.loads(GOLDEN.read_text("utf-8"))


def test_there_are_six_tools() -> None:
    names = [tool.__name__ for tool in TOOLS]

    assert names == ["search", "search_email", "search_documents", "open_email", "open_document", "submit_answer"]


def test_a_hit_shows_id_kind_title_date_people_and_snippet(desk: Desk) -> None:
    hit = json.loads(search(desk, "bakery amendment").text)["hits"][0]

    assert hit["id"] == "mail-1"
    assert hit["kind"] == "email"
    assert hit["title"] == "Birch Bakery amendment"
    assert hit["date"] == "2025-03-03"
    assert hit["people"] == ["Anna Berg", "Tom Reilly"]
    assert "60 days" in hit["snippet"]


def test_a_search_without_hits_says_so(desk: Desk) -> None:
    observation = search(desk, "xylophone")

    assert json.loads(observation.text) == {"hits": [], "note": "no record matches 'xylophone'; try other words"}
    assert observation.ids == ()


def test_a_record_that_a_search_has_shown_can_be_opened(desk: Desk) -> None:
    search_documents(desk, "K-200")
    opened = json.loads(open_document(desk, "doc-2").text)

    assert opened["title"] == "Contract K-200, Birch Barbers"
    assert opened["status"] == "signed"
    assert "90 days" in opened["body"]


def test_a_record_that_no_search_has_shown_cannot_be_opened(desk: Desk) -> None:
    observation = open_document(desk, "doc-4")

    assert observation.error == "no search has shown 'doc-4' in this episode; search first, then open an id from the hits"
    assert observation.ids == ()


def test_an_unknown_id_names_the_nearest_shown_ones(desk: Desk) -> None:
    search_documents(desk, "K-200")
    observation = open_document(desk, "doc-22")

    assert observation.error is not None
    assert observation.error.startswith("there is no record 'doc-22'; the nearest of those shown are doc-2")


def test_an_email_is_not_opened_as_a_document(desk: Desk) -> None:
    search(desk, "amendment")

    assert open_document(desk, "mail-1").error == "'mail-1' is an e-mail: use open_email"


def test_a_document_is_not_opened_as_an_email(desk: Desk) -> None:
    search(desk, "K-100")

    assert open_email(desk, "doc-1").error == "'doc-1' is a document: use open_document"


def test_a_submission_is_kept_as_it_was_given(desk: Desk) -> None:
    submit_answer(desk, "60 days", ["MAIL-1", "mail-1"])

    assert (desk.answer, desk.sources) == ("60 days", ("MAIL-1", "mail-1"))


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("search", {}, "argument 'query': Field required"),
        ("search", {"query": 7}, "argument 'query': Input should be a valid string"),
        ("search", {"query": "a", "limit": 5}, "argument 'limit': Extra inputs are not permitted"),
        ("search", {"query": "a" * 2001}, "argument 'query': String should have at most 2000 characters"),
        ("submit_answer", {"answer": "a", "sources": "doc-1"}, "argument 'sources': Input should be a valid list"),
        ("submit_answer", {"answer": "a", "sources": [1]}, "argument 'sources.0': Input should be a valid string"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tool: str, arguments: dict[str, object], problem: str) -> None:
    found = tool_named(tool)
    assert found is not None

    with pytest.raises(ValueError, match=problem.replace("(", r"\(")):
        checked_arguments(found, arguments)
