from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import pytest

from gradient_rl.schema.workspace import Document, Record
from gradient_rl.worlds.sentences import MAX_SENTENCE_SHARE, mask, masked_shares, sentences_of


def documents(*bodies: str) -> Iterable[Record]:
    for number, body in enumerate(bodies, 1):
        yield Document(
            id=f"doc-{number}", kind="policy", title="T", author="A", date=date(2025, 1, 2), status="final", body=body
        )  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "masked"),
    [
        ("Anna Berg owes EUR 1,220.50 on 20 January.", "N owes N # on # N"),
        ("The oven is at Mill Lane", "N oven is at N"),
        ("Élan Foods rang Łukasz at 10:30.", "N rang N at #"),
        ("ring OV-7 before noon!", "ring N before noon"),
    ],
)
def test_names_and_numbers_are_masked(sentence: str, masked: str) -> None:
    assert mask(sentence) == masked


@pytest.mark.parametrize("line", ["Anna", "Anna Berg, Birch Bakery", "12.", "Dear Anna,"])
def test_a_line_without_a_plain_word_is_no_sentence(line: str) -> None:
    assert mask(line) == ""


def test_bodies_are_cut_at_full_stops_and_at_ends_of_lines() -> None:
    assert list(sentences_of("It broke. Who knows why? We fixed it!\nthanks\n\nAnna")) == [
        "It broke.", "Who knows why?", "We fixed it!", "thanks", "Anna",
    ]  # fmt: skip


def test_amounts_and_addresses_are_not_cut() -> None:
    assert list(sentences_of("It costs 1.50 at a.berg@firm.example now.")) == ["It costs 1.50 at a.berg@firm.example now."]


def test_table_rows_are_left_out_and_quote_marks_stripped() -> None:
    assert list(sentences_of('| Unit | Site |\n> | OV-7 | Mill Lane |\n> "it is late"\n- new tyres')) == [
        "it is late",
        "new tyres",
    ]


def test_shares_are_of_all_sentences_and_the_largest_comes_first() -> None:
    assert masked_shares(documents("Anna rang twice.\nthe oven hums", "Tom rang twice.", "Maria Holt rang twice.")) == [
        ("N rang twice", 0.75),
        ("the oven hums", 0.25),
    ]


def test_records_without_a_sentence_have_no_shares() -> None:
    assert masked_shares(documents("Anna")) == []


def test_the_packaged_records_keep_the_law(data_dir) -> None:
    from gradient_rl.environment.workspace import load_workspace

    assert masked_shares(load_workspace(data_dir).records.values())[0][1] <= MAX_SENTENCE_SHARE
