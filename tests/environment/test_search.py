from __future__ import annotations

import math

import pytest
from rank_bm25 import BM25Okapi

from gradient_rl.environment.search import (
    SNIPPET_WORDS,
    BM25Index,
    searchable_text,
    tokenise,
)
from gradient_rl.environment.tools import DOCUMENTS, EMAILS, EVERYTHING
from gradient_rl.environment.workspace import Workspace, workspace_of
from tests.lucene import LuceneBM25
from tests.tiny import RECORDS


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Océane's units", ["ocean", "unit"]),
        ("FV-2291", ["fv-2291", "fv", "2291"]),
        ("€12,500.50", ["12500.50", "12500"]),
        ("12,500.00 and 12,500", ["12500", "and", "12500"]),
        ("2025-03-03", ["2025-03-03", "2025", "03", "03"]),
        ("co-operative", ["co-operative", "co", "oper"]),
        ("PSW-40 x2", ["psw-40", "psw", "40", "x2"]),
        ("", []),
        ("!!! …", []),
    ],
)
def test_a_text_is_cut_into_terms(text: str, terms: list[str]) -> None:
    assert tokenise(text) == terms


def test_an_amount_is_found_however_its_thousands_are_written(tiny_index: BM25Index) -> None:
    assert tiny_index.rank("1250", EVERYTHING, 5) == tiny_index.rank("1,250.00", EVERYTHING, 5) == ["doc-1"]


def index_of(*bodies: str) -> BM25Index:
    return BM25Index(workspace_of(RECORDS[1].model_copy(update={"id": f"m-{i}", "body": b}) for i, b in enumerate(bodies)))


def test_rarity_is_lucenes_idf() -> None:
    index = index_of("oven", "oven chair", "soup", "oven")

    assert index.rarity("oven") == pytest.approx(math.log(1 + (4 - 3 + 0.5) / (3 + 0.5)))
    assert index.rarity("violin") > index.rarity("soup")


def test_a_word_in_half_of_all_records_still_counts() -> None:
    index = index_of("oven", "oven", "soup", "chair")

    assert BM25Okapi([["oven"], ["oven"], ["soup"], ["chair"]]).idf["oven"] == 0
    assert index.rank("oven", EVERYTHING, 5) == ["m-0", "m-1"]


def test_scores_equal_those_of_rank_bm25_for_the_whole_query(tiny: Workspace, tiny_index: BM25Index) -> None:
    query = "notice contract bakery days"
    records = sorted(RECORDS, key=lambda record: record.id)
    scores = LuceneBM25([tokenise(searchable_text(record)) for record in records]).get_scores(tokenise(query))
    best = sorted(zip([-score for score in scores], [record.id for record in records], strict=True))

    assert tiny_index.rank(query, EVERYTHING, 9) == [record_id for score, record_id in best if score < 0]


def test_equal_scores_come_in_the_order_of_their_ids() -> None:
    copies = [RECORDS[1].model_copy(update={"id": record_id}) for record_id in ("mail-9", "mail-3", "mail-5")]

    assert BM25Index(workspace_of(copies)).rank("leek", EVERYTHING, 5) == ["mail-3", "mail-5", "mail-9"]


def test_each_tool_sees_its_own_kinds(tiny_index: BM25Index) -> None:
    assert tiny_index.rank("notice", EMAILS, 5) == ["mail-1"]
    assert set(tiny_index.rank("notice", DOCUMENTS, 5)) == {"doc-1", "doc-2"}


def test_a_query_without_a_known_word_finds_nothing(tiny_index: BM25Index) -> None:
    assert tiny_index.rank("xylophone", EVERYTHING, 5) == []


def test_people_and_dates_are_searchable(tiny_index: BM25Index) -> None:
    assert tiny_index.rank("2025-02-10", EVERYTHING, 1) == ["mail-2"]


def test_a_snippet_surrounds_the_best_match(tiny_index: BM25Index) -> None:
    assert "60 days instead of 30" in tiny_index.snippet("mail-1", "notice days")


def test_a_long_record_is_cut_around_its_match() -> None:
    body = " ".join(["filler"] * 200 + ["treasure", "island"] + ["filler"] * 200)
    index = BM25Index(workspace_of([RECORDS[1].model_copy(update={"body": body})]))
    snippet = index.snippet("mail-2", "treasure")

    assert "treasure island" in snippet
    assert snippet.startswith("… ")
    assert snippet.endswith(" …")
    assert len(snippet.split()) == SNIPPET_WORDS + 2
