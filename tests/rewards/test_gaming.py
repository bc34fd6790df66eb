"""Answers that try to have it both ways earn nothing; honest answers that look a little like them keep what they earned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradient_rl.rewards.facts import MAX_ANSWER_CHARS
from gradient_rl.schema.task import Fact
from tests.rewards.answers import fact, states

NOTICE = fact("duration", "60 days", ["30 days"])
RENT = fact("money", "EUR 1140", ["EUR 1410"])
POST = fact("name", "Nuala Quilligan", ["Barry Shinnors"])
FAULT = fact("text", "capillary tube")
ROOMS = [{"record": "r1", "value": room, "covered": room != "CR-131"} for room in ("CR-114", "CR-118", "CR-131")]
LEFT_OUT = fact("name", "CR-131", ["CR-088", "CR-114", "CR-118"], derivation={"operation": "exclude", "inputs": ROOMS})
VERSIONS = [
    {"record": "r1", "value": "EUR 245", "from": "2024-01-01"},
    {"record": "r1", "value": "EUR 290", "from": "2025-01-01"},
]
THEN = fact("money", "EUR 245", ["EUR 290"], derivation={"operation": "in_force", "on": "2024-07-01", "inputs": VERSIONS})
DEPOSIT = fact("absent", None, ["EUR 3900"], asked_kind="money", about=["deposit"])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (NOTICE, "30 days, but possibly 60 days."),
        (NOTICE, "The notice is 30 days, although some say 60 days."),
        (NOTICE, "It is 30 days, although 60 days was discussed."),
        (NOTICE, "Not only 30 days but 60 days."),
        (RENT, "EUR 1410 is the rent, but EUR 1140 was typed."),
        (POST, "Barry Shinnors, but Nuala Quilligan may."),
        (NOTICE, "Either 60 days or 30 days before."),
        (NOTICE, "It is 60 days, or 30 days as signed."),
        (NOTICE, "60 days, or 30 days until further notice."),
        (NOTICE, "The answer is 30 days until further notice. (60 days.)"),
        (NOTICE, "60 days before the end, 30 days before the end."),
        (RENT, "EUR 1140 / 1410 before tax."),
        (NOTICE, "It is 60 days or, formerly, 30 days."),
        (RENT, "EUR 1140, and not long ago EUR 1410."),
        (POST, "Nuala Quilligan, not to forget Barry Shinnors."),
        (LEFT_OUT, "CR-131; formerly CR-114; formerly CR-118; formerly CR-088"),
        (THEN, "Formerly EUR 245, formerly EUR 290."),
        (THEN, "EUR 245 and EUR 290."),
        (LEFT_OUT, "CR-114, CR-118 and CR-131."),
        (NOTICE, "Neither 60 days nor 30 days."),
        (NOTICE, "60 days is false."),
        (NOTICE, "It is false that the notice is 60 days."),
        (NOTICE, "60 days does not hold."),
        (NOTICE, "60 days has been rejected."),
        (NOTICE, "The notice is 60 days? No."),
        (LEFT_OUT, "CR-131 is covered like all the others; nothing is left out."),
        (FAULT, "Capillary tube, compressor, fan motor, thermostat, door gasket, condenser, relay, controller board, sensor."),
        (LEFT_OUT, "CR-131, CR-101, CR-102, CR-103, CR-104, CR-105, CR-106."),
        (POST, "nuala quilligan, anna xu, bo li, ed ray, jo kay, al bee, cy dee"),
        (NOTICE, "60 days, a year, a week, a day, an hour, a month, a minute"),
        (fact("date", "2028-06-13"), "13 June 2028 or 14 June 2028."),
        (POST, "nuala quilligan. anna xu. bo li. ed ray. jo kay. al bee. cy dee"),
        (POST, "nuala quilligan\nanna xu\nbo li\ned ray\njo kay\nal bee\ncy dee"),
        (FAULT, "Capillary tube. Compressor! Fan motor. A thermostat. Door gasket.\nCondenser. Relay."),
        (DEPOSIT, "The deposit is 3,900 and no record."),
        (DEPOSIT, "The unknown deposit is three thousand nine hundred."),
        (DEPOSIT, "I cannot say: 3.9k."),
        (DEPOSIT, "It was not only recorded but signed."),
    ],
)
def test_having_it_both_ways_earns_nothing(asked: Fact, answer: str) -> None:
    assert not states(answer, asked)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (NOTICE, "It was 30 days before the amendment; now it is 60 days."),
        (NOTICE, "60 days. It was 30 days before."),
        (NOTICE, "30 days until 1 April 2025, 60 days since."),
        (NOTICE, "The mail of March mentions 30 days, but the signed contract says 60 days."),
        (NOTICE, "60 days, formerly 30 days, originally 45 days."),
        (NOTICE, "60 days, given in writing or by registered post."),
        (POST, "Nuala Quilligan, who took over from Barry Shinnors on 6 January 2025, has to give it."),
        (THEN, "EUR 245; the EUR 290 of 2025 does not apply yet."),
        (THEN, "EUR 245 a month; the increase to EUR 290 only took effect on 1 January 2025."),
        (THEN, "It was EUR 245. EUR 290 only from January 2025."),
        (LEFT_OUT, "CR-131 is not on the board; CR-114 and CR-118 are watched."),
        (LEFT_OUT, "The procedure covers CR-114 and CR-118, and CR-131 is left out."),
        (fact("duration", "12 hours", ["2 hours"]), "It has to be replaced within 12 hours."),
        (fact("number", "17", ["12"]), "Seventeen, not the 12 mentioned in September."),
        (
            POST,
            "It is her. Yes. She signs. She is new. Ask her first. Nuala Quilligan. The post has been hers since 6 January 2025.",
        ),
        (DEPOSIT, "FV-2347 contains no deposit clause; the customer record has none either."),
        (DEPOSIT, "There is no such figure."),
        (NOTICE, "FV-2291 has no fixed end, and notice is 60 days."),
        (DEPOSIT, "The records of account 20757 do not mention a deposit."),
        (DEPOSIT, "Neither the agreement of 14 March 2022 nor clause 3.4 says anything; no deposit is recorded."),
        (FAULT, "Bertha, tag ULF-0386, lost its charge through a capillary tube that had rubbed on a clip and cracked."),
    ],
)
def test_an_honest_answer_that_names_more_keeps_its_credit(asked: Fact, answer: str) -> None:
    assert states(answer, asked)


@pytest.mark.parametrize(
    "answer", ["B, " * 200, "B/" * 600, "43;" * 5000, "1," * 50_000, "€1" + "9" * 1_000_000, "not " * 4000]
)
@pytest.mark.parametrize(
    "asked", [fact("text", "B thing", aliases=["B"]), fact("number", "7"), RENT, DEPOSIT], ids=lambda f: f.kind
)
def test_a_degenerate_answer_is_read_to_an_end(asked: Fact, answer: str) -> None:
    """Reading was once cubic in the number of values; the longest of these then took minutes each."""
    assert not states(answer, asked)


def test_characters_beyond_the_bound_are_not_read() -> None:
    assert not states("x" * MAX_ANSWER_CHARS + " 60 days", NOTICE)


FRAGMENTS = st.sampled_from(
    ["1", "12,5", "1.000.000", "pound", "sterling", "eur", "€", "$", "k", "m", "days", "and a half", "½", "31", "february", "may",
     "2025", "'25", "/", "-", "%", "per cent", "working", "hours", "not", "or", "until", "twenty", "hundred", "first", "of", "(", ")"]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=14).map(" ".join))
def test_no_answer_breaks_the_reader(answer: str) -> None:
    for asked in (
        NOTICE,
        RENT,
        POST,
        FAULT,
        LEFT_OUT,
        THEN,
        DEPOSIT,
        fact("date", "2025-03-03"),
        fact("percent", "8"),
        fact("number", "7"),
    ):
        states(answer, asked)
