from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradient_rl.schema.workspace import Email
from gradient_rl.worlds.entities import Person
from gradient_rl.worlds.office import load_office
from gradient_rl.worlds.writing import Numbering, Writer, lowered, slipped
from tests.worlds.founding import writer_for

DAY = date(2025, 5, 6)


@pytest.fixture(scope="module")
def writer() -> Writer:
    return writer_for("logistics")


def speaking(writer: Writer, key: str) -> Person:
    """Somebody who writes in this voice."""
    place = [voice.key for voice in load_office().voices].index(key)
    return replace(writer.company.staff["sales"][0], voice=place)


def mails(writer: Writer, paragraph: str, count: int = 200, answers: Email | None = None, day: date = DAY) -> Iterator[Email]:
    """The same mail by everybody in turn."""
    people = writer.company.people
    for seed in range(count):
        sender, to = people[seed % len(people)], people[(seed + 1) % len(people)]
        yield writer.mail(sender, to, day, "bill", [paragraph], Random(seed), answers=answers)


@settings(max_examples=30)
@given(st.integers(200, 4000), st.integers(0, 1000))
def test_ids_are_unique_and_no_stride_leads_from_one_to_the_next(count: int, seed: int) -> None:
    numbering = Numbering(count, seed)
    numbers = [int(numbering.next("doc").removeprefix("doc-")) for _ in range(count)]

    assert sorted(numbers) == list(range(1, count + 1))
    assert len({(second - first) % count for first, second in pairwise(numbers)}) > count // 4


def test_ids_of_each_kind_are_counted_for_themselves() -> None:
    numbering = Numbering(300, 7)

    assert len({numbering.next("email") for _ in range(300)}) == len({numbering.next("doc") for _ in range(300)}) == 300


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("The van is late. It's the clutch, we think.", "the van is late. its the clutch, we think."),
        ("Don't pay EUR 1,250 before 3 March 2025.", "dont pay EUR 1,250 before 3 March 2025."),
        ("Marlowe rang. Thanks, Aoife", "Marlowe rang. thanks, Aoife"),
        ("Will's van. Kiln Lane's gate.", "Will's van. Kiln Lane's gate."),
        ("Hi,\n\nWe met.\n\nSean", "Hi,\n\nwe met.\n\nSean"),
    ],
)
def test_a_careless_typist_leaves_out_capitals_and_apostrophes_but_keeps_names(text: str, typed: str) -> None:
    assert lowered(text) == typed


def test_no_name_of_the_office_is_taken_for_the_first_word_of_a_sentence() -> None:
    names = load_office().names
    people = [*names.given, *names.surnames, *names.towns, *names.proper]

    assert [name for name in people if lowered(f"{name} rang. {name} , too") != f"{name} rang. {name} , too"] == []


@given(st.text("abcdefgh ABC0123456789.,€-\n", max_size=80), st.integers())
def test_a_slip_changes_round_two_small_letters_and_nothing_else(text: str, seed: int) -> None:
    slip = slipped(text, Random(seed))
    changed = [place for place, (old, new) in enumerate(zip(text, slip, strict=True)) if old != new]

    assert sorted(slip) == sorted(text)
    assert len(changed) in (0, 2)
    assert all("a" <= text[place] <= "z" for place in changed)


def test_a_slip_is_within_a_long_word() -> None:
    assert {slipped("Siobhan paid EUR 1200 promptly", Random(seed)) for seed in range(60)} == {
        f"Siobhan paid EUR 1200 {word}" for word in ("pormptly", "prmoptly", "propmtly", "promtply", "promplty")
    }
    assert slipped("Sean paid 1200", Random(1)) == "Sean paid 1200"


def test_a_paragraph_stands_in_the_mail_of_every_voice(writer: Writer) -> None:
    paragraph = "Kiln Lane pays EUR 1,250 from 3 March 2025."

    assert all(paragraph in mail.body for mail in mails(writer, paragraph))


def test_a_quotation_carries_no_value(writer: Writer) -> None:
    told = "Kiln Lane asked us again for another van. They offer EUR 40. It is 12% less. They start on 3 March."
    asked = next(mails(writer, told, 1))
    quoted = [line for mail in mails(writer, "Agreed.", answers=asked) for line in mail.body.splitlines() if line[:2] == "> "]

    assert any("Kiln Lane asked us again" in line for line in quoted)
    assert [line for line in quoted if re.search(r"[\d€£$%]", line)] == []


def test_a_reply_comes_after_what_it_answers_in_the_same_thread(writer: Writer) -> None:
    asked = next(mails(writer, "May we?", 1))
    replies = list(mails(writer, "You may.", answers=asked))

    assert all(reply.sent_at > asked.sent_at and reply.date == DAY for reply in replies)
    assert {(reply.thread_id, reply.subject) for reply in replies} == {(asked.thread_id, "RE: bill")}


def test_a_reply_to_a_reply_is_marked_once(writer: Writer) -> None:
    asked = next(mails(writer, "May we?", 1))
    reply = next(mails(writer, "You may.", 1, answers=asked))

    assert next(mails(writer, "Thanks.", 1, answers=reply)).subject == "RE: bill"


def test_a_mail_is_passed_on_whole_and_later(writer: Writer) -> None:
    original = next(mails(writer, "The gate is stuck.", 1))
    desk, fitter = writer.company.staff["desk"][0], writer.company.staff["service"][0]
    passed_on = [writer.forward(desk, fitter, DAY, original, Random(seed)) for seed in range(100)]

    assert all(mail.sent_at > original.sent_at and mail.subject == "FW: bill" for mail in passed_on)
    assert all("> The gate is stuck." in mail.body for mail in passed_on)


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        (date(2025, 1, 15), 0),
        (date(2025, 3, 29), 0),
        (date(2025, 3, 30), 1),
        (date(2025, 7, 15), 1),
        (date(2024, 10, 26), 1),
        (date(2024, 10, 27), 0),
    ],
)
def test_summer_time_lasts_from_the_last_sunday_of_march_to_that_of_october(writer: Writer, day: date, hours: int) -> None:
    assert next(mails(writer, "Noted.", 1, day=day)).sent_at.utcoffset() == timedelta(hours=hours)


def test_nobody_gets_a_copy_of_a_mail_to_or_from_himself(writer: Writer) -> None:
    sender, to, other = writer.company.staff["sales"][:3]
    mail = writer.mail(sender, to, DAY, "bill", ["Paid."], Random(1), cc=[to, other, sender, other])

    assert mail.cc == (other.mailbox,)


def test_a_careless_typist_keeps_the_names_in_the_head(writer: Writer) -> None:
    lower = next(voice.key for voice in load_office().voices if voice.lower)
    sender = speaking(writer, lower)
    mail = writer.mail(sender, writer.company.staff["desk"][0], DAY, "bill", ["The van is late."], Random(1))

    assert "the van is late." in mail.body
    assert mail.sender == f"{sender.name} <{sender.address}>"
