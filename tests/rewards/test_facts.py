from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradient_rl.rewards.facts import MAX_ANSWER_WORDS, judge_facts
from tests.rewards.answers import fact, reference, states

BLIND = [
    json.loads(line)
    for name in ("blind_phrasings.jsonl", "blind_phrasings_2.jsonl")
    for line in (Path(__file__).parent / name).read_text("utf-8").splitlines()
]
"""Written by two readers who knew the rules and had not seen the matcher."""

ACCEPTED = [
    ("money", "EUR 12500", "They pay €12,500 a year."),
    ("money", "EUR 12500", "12.5k EUR"),
    ("money", "EUR 12500", "It comes to twelve thousand five hundred euros."),
    ("money", "EUR 12500", "EUR 12.500,00 excl. VAT"),
    ("money", "EUR 12500", "12 500 € in all"),
    ("money", "USD 18", "eighteen dollars each"),
    ("money", "USD 18", "US$18.00 per logger"),
    ("money", "GBP 940.50", "The balance is £940.50."),
    ("money", "EUR 0.45", "45 cent a kilometre? No: 45 cents."),
    ("money", "EUR 1200000", "about €1.2m"),
    ("date", "2025-03-03", "On Monday 3 March 2025."),
    ("date", "2025-03-03", "3rd of March"),
    ("date", "2025-03-03", "It took effect on 03/03/2025."),
    ("date", "2025-03-03", "March 3rd, 2025"),
    ("date", "2025-03-03", "2025-03-03T10:00"),
    ("date", "2025-03-03", "the third of March 2025"),
    ("date", "2025-03-03", "It runs until 3 March 2025."),
    ("date", "2025-06-21", "the twenty-first of June 2025"),
    ("number", "14", "There are fourteen of them."),
    ("number", "14", "14 units at 2 sites"),
    ("number", "14", "In 2025 there were 14."),
    ("number", "12", "a dozen"),
    ("number", "1204", "1,204 cases"),
    ("number", "1", "Only one."),
    ("percent", "12.5", "12.5%"),
    ("percent", "12.5", "twelve and a half per cent"),
    ("percent", "12.5", "a rate of 12½ %"),
    ("percent", "8", "eight percent off"),
    ("duration", "60 days", "sixty days' notice"),
    ("duration", "60 days", "a 60-day notice period"),
    ("duration", "60 days", "60 calendar days"),
    ("duration", "4 hours", "within four hrs"),
    ("duration", "4 hours", "240 minutes"),
    ("duration", "18 months", "a year and a half"),
    ("duration", "24 months", "two years"),
    ("duration", "14 days", "a fortnight, that is two weeks"),
    ("duration", "10 business days", "ten working days"),
    ("duration", "1 month", "a month"),
    ("name", "Ruth Adeyemi", "Ruth Adeyemi signed."),
    ("name", "Ruth Adeyemi", "It was Ms Adeyemi."),
    ("name", "Ruth Adeyemi", "R. Adeyemi"),
    ("name", "Ruth Adeyemi", "ruth adeyemi's team"),
    ("name", "Mercer Bionics BV", "Mercer Bionics"),
    ("name", "St Brigid's Hospice", "Saint Brigid’s Hospice in Ennis"),
    ("name", "Océane Traiteur", "Oceane Traiteur, Lille"),
    ("name", "Tully & Sons", "Tully and Sons"),
    ("text", "a cracked capillary tube", "The capillary tube was found: a cracked capillary tube."),
    ("text", "cracked capillary tube", "cracked capillary tubes"),
    ("text", "blast chillers", "the blast chiller"),
    ("text", "damaged door seal", "It was the damaged door-seal."),
]

REJECTED = [
    ("money", "EUR 12500", "€1,250"),
    ("money", "EUR 12500", "12,500 pounds"),
    ("money", "EUR 12500", "12,500 units"),
    ("money", "EUR 12500", "€125,000"),
    ("money", "GBP 940.50", "£940.05"),
    ("date", "2025-03-03", "3 May 2025"),
    ("date", "2025-03-03", "3 March 2024"),
    ("date", "2025-03-03", "March 2025"),
    ("date", "2025-03-03", "13 March 2025"),
    ("number", "14", "140"),
    ("number", "14", "FV-14 and 14 days"),
    ("number", "14", "14%"),
    ("percent", "12.5", "12%"),
    ("percent", "12.5", "€12.5"),
    ("percent", "8", "18%"),
    ("duration", "60 days", "60 hours"),
    ("duration", "60 days", "two months"),
    ("duration", "60 days", "160 days"),
    ("duration", "10 business days", "10 days"),
    ("duration", "4 hours", "4 working hours"),
    ("name", "Ruth Adeyemi", "Ruth signed."),
    ("name", "Ruth Adeyemi", "Colm Prendergast"),
    ("name", "St Brigid's Hospice", "St Brigid's Hospital Group"),
    ("name", "Harrow Lane Dairy", "Harrow Lane Farms"),
    ("name", "Mercer Bionics", "Mercer Biologics"),
    ("text", "cracked capillary tube", "a cracked gasket"),
    ("text", "blast chillers", "the chiller"),
    ("money", "EUR 12500", ""),
    ("duration", "60 days", "I do not know."),
]


@pytest.mark.parametrize(("kind", "value", "answer"), ACCEPTED)
def test_a_value_is_recognised_as_people_write_it(kind: str, value: str, answer: str) -> None:
    assert states(answer, fact(kind, value))


@pytest.mark.parametrize(("kind", "value", "answer"), REJECTED)
def test_another_value_is_not_taken_for_it(kind: str, value: str, answer: str) -> None:
    assert not states(answer, fact(kind, value))


@pytest.mark.parametrize("row", BLIND, ids=[f"{n}-{row['kind']}" for n, row in enumerate(BLIND, start=1)])
def test_a_phrasing_written_blind_is_judged_as_its_reader_would(row: dict[str, object]) -> None:
    more = {"asked_kind": row["asked_kind"], "about": ["it"]} if row["kind"] == "absent" else {}
    judged = fact(str(row["kind"]), row["value"], row["rivals"], aliases=row["aliases"], **more)  # type: ignore[arg-type]

    assert states(str(row["answer"]), judged, question=str(row["question"])) is row["stated"], row["why"]


def test_the_tables_hold_at_least_150_phrasings_a_third_of_them_blind() -> None:
    ours = len(ACCEPTED) + len(REJECTED)

    assert ours + len(BLIND) >= 150
    assert len(BLIND) >= (ours + len(BLIND)) / 3


@pytest.mark.parametrize(
    "answer",
    [
        "No deposit is recorded.",
        "The contract does not state a deposit.",
        "The records don't say how much the deposit was.",
        "It is not on record; the lease is silent on it.",
        "I could not find any deposit.",
        "The deposit isn't mentioned anywhere.",
        "There is no security payment in the contract.",
        "Unknown: nothing in the files mentions one.",
        "The amount was never documented.",
        "Neither the contract nor the customer record says anything about a deposit.",
        "Nothing about a deposit appears in the files.",
        "As to the deposit, nothing was ever laid down.",
    ],
)
def test_absence_is_understood_as_people_say_it(answer: str) -> None:
    assert states(answer, fact("absent", None, asked_kind="money", about=["deposit"]))


@pytest.mark.parametrize(
    "answer",
    [
        "The deposit is €400.",
        "No deposit was agreed, though €500 was mentioned.",
        "",
        "They paid a deposit.",
        "Yes.",
        "Neither Tully nor Harrow Lane paid it late.",
    ],
)
def test_absence_needs_a_claim_of_absence_and_no_value(answer: str) -> None:
    assert not states(answer, fact("absent", None, asked_kind="money", about=["deposit"]))


def test_a_claim_of_absence_voids_a_value() -> None:
    assert not states("The contract does not say, but it is 60 days.", fact("duration", "60 days"))


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("It is 60 days. The policy names no deputy.", True),
        ("It is 60 days. I found no later amendment.", True),
        ("It is 60 days. The records do not say.", False),
        ("No clause sets it out. Such terms usually run for 60 days.", False),
        ("60 days, though nothing in the files mentions it.", False),
    ],
)
def test_a_claim_of_absence_takes_back_what_it_is_about(answer: str, stated: bool) -> None:
    assert states(answer, fact("duration", "60 days")) is stated


def test_a_rival_beside_the_value_voids_it() -> None:
    assert not states("It is 30 or 60 days.", fact("duration", "60 days", ["30 days"]))


def test_a_rival_in_a_sentence_of_its_own_voids_it_and_a_value_that_is_no_rival_does_not() -> None:
    answer = "The notice is 60 days. The notice is 30 days."

    assert not states(answer, fact("duration", "60 days", ["30 days"]))
    assert states(answer, fact("duration", "60 days", ["90 days"]))


def test_a_list_of_candidates_earns_nothing() -> None:
    assert not states("30, 45, 60 or 90 days.", fact("duration", "60 days"))


def test_one_value_more_than_required_may_be_named() -> None:
    assert states("60 days, to be given within 2 weeks.", fact("duration", "60 days"))


def test_a_value_that_the_question_gives_is_not_held_against_the_answer() -> None:
    question = "Within 2 weeks or 3 weeks of 1 May: how much notice?"

    assert states("60 days; the 2 weeks and 3 weeks are for something else.", fact("duration", "60 days"), question=question)


def test_the_terms_of_a_sum_may_be_shown() -> None:
    derivation = {
        "operation": "sum",
        "inputs": [{"record": "r1", "value": v} for v in ("EUR 210", "EUR 640", "EUR 385")],
    }
    total = fact("money", "EUR 1235", ["EUR 640"], derivation=derivation)

    assert states("EUR 210, EUR 640 and EUR 385 make EUR 1,235.", total)


def test_a_list_of_names_earns_nothing() -> None:
    everybody = "Ruth Adeyemi, Colm Prendergast, Niall Duggan, Ilse Maes, Bríd Tuohy"

    assert not states(everybody, fact("name", "Ruth Adeyemi"))


def test_an_alias_is_as_good_as_the_value() -> None:
    assert states("the big shed", fact("name", "Unit 4 store", aliases=["the big shed"]))


def test_words_beyond_the_first_200_are_not_read() -> None:
    filler = "well " * MAX_ANSWER_WORDS

    assert not states(f"{filler} 60 days", fact("duration", "60 days"))


def test_what_held_once_answers_only_a_question_about_the_past() -> None:
    in_force = {
        "operation": "in_force",
        "on": "2024-07-01",
        "inputs": [{"record": "r1", "value": "EUR 95", "from": "2024-02-12"}],
    }
    answer = "It was previously €95."

    assert states(answer, fact("money", "EUR 95", derivation=in_force))
    assert not states(answer, fact("money", "EUR 95"))


def test_a_judgement_says_why() -> None:
    (judgement,) = judge_facts("It is 30 days.", reference(fact("duration", "60 days", ["30 days"])))

    assert judgement.reason == "the answer does not state it: 60 days"
