"""What the records of forty customers say, against what happened at them."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache

import pytest

from gradient_rl.rewards.values import key_of, mentions_of, plain_text
from gradient_rl.schema.workspace import Record
from gradient_rl.worlds.amounts import amount_of
from gradient_rl.worlds.entities import AS_OF, Account
from gradient_rl.worlds.trade import TRADES
from tests.worlds.founding import accounts_of, scenes_of, trade_of, writer_for

TRADE = "construction"
ACCOUNTS = range(40)
WEEKDAY = re.compile(r"\b(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday),? (\d{1,2} [A-Z][a-z]+ \d{4})")


@lru_cache(None)
def left(trade: str, place: int) -> tuple[Account, dict[str, Record]]:
    account = accounts_of(trade)[place]
    return account, {scene.role: scene.record for scene in scenes_of(account, writer_for(trade))}


def has(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("place", ACCOUNTS)
def test_the_contract_gives_every_agreed_term(place: int) -> None:
    account, records = left(TRADE, place)
    body = plain_text(records["contract"].body)
    values = {
        term.key: (account.contract.values[term.key], term.kind)
        for term in trade_of(TRADE).terms
        if term.key in account.contract.values
    }

    assert [
        key for key, (value, kind) in values.items() if key_of(value, kind) not in {m.key for m in mentions_of(body, kind)}
    ] == []


@pytest.mark.parametrize("place", ACCOUNTS)
def test_the_contract_gives_no_value_for_a_term_that_was_not_agreed(place: int) -> None:
    account, records = left(TRADE, place)
    lines = [plain_text(line) for line in records["contract"].body.splitlines()]
    said = [
        (term.key, line)
        for term in account.absent_terms(trade_of(TRADE))
        for line in lines
        if any(has(line, word) for word in term.absent_words) and mentions_of(line, term.kind)
    ]

    assert said == []


@pytest.mark.parametrize("place", ACCOUNTS)
def test_the_contract_has_every_unit_and_a_sum_that_adds_up(place: int) -> None:
    account, records = left(TRADE, place)
    rows = [line.strip("| ").split(" | ") for line in records["contract"].body.splitlines() if line.startswith("| ")][1:]
    amounts = [Decimal(re.sub(r"[^\d.]", "", row[-1])) for row in rows]

    assert [(row[0], row[1]) for row in rows[:-1]] == [(unit.tag, unit.name) for unit in account.units]
    assert amounts[:-1] == [amount_of(unit.charge) for unit in account.units]
    assert sum(amounts[:-1]) == amounts[-1]


@pytest.mark.parametrize("place", ACCOUNTS)
def test_the_customer_record_leads_to_contract_jobs_and_units_but_tells_no_tag(place: int) -> None:
    account, records = left(TRADE, place)
    record = records["record"]

    assert record.title == f"{account.number} {account.name}, {account.town}"
    for words in (account.contract.number, *(t.job for t in account.troubles), *(u.name for u in account.units)):
        assert words in record.body
    assert [unit.tag for unit in account.units if unit.tag in record.body] == []


@pytest.mark.parametrize("place", ACCOUNTS)
def test_a_report_gives_job_cause_and_remedy_and_the_first_mail_neither(place: int) -> None:
    account, records = left(TRADE, place)
    for number, trouble in enumerate(account.troubles):
        report, told = records[f"report:{number}"], records[f"trouble:{number}"]
        assert trouble.job in report.title + report.body
        assert has(report.body, trouble.cause)
        assert has(report.body, trouble.remedy)
        assert trouble.cause not in told.body
        assert trouble.job not in told.title + told.body


@pytest.mark.parametrize("place", ACCOUNTS)
def test_minutes_of_a_review_suspect_something_and_do_not_know_the_cause(place: int) -> None:
    account, records = left(TRADE, place)
    for number, trouble in enumerate(account.troubles):
        if trouble.reviewed_on:
            body = records[f"review:{number}"].body
            assert has(body, trouble.suspected)
            assert not has(body, trouble.cause)


@pytest.mark.parametrize("trade", TRADES)
def test_weekdays_are_those_of_their_days_and_nothing_is_dated_after_the_last_one(trade: str) -> None:
    records = [record for place in ACCOUNTS for record in left(trade, place)[1].values()]
    days = [(name, datetime.strptime(day, "%d %B %Y")) for r in records for name, day in WEEKDAY.findall(r.title + r.body)]

    assert len(days) > 20
    assert [(name, day) for name, day in days if f"{day:%A}" != name] == []
    assert max(record.date for record in records) <= AS_OF == date(2025, 6, 30)


@pytest.mark.parametrize("trade", TRADES)
def test_no_slot_is_left_open_in_a_record(trade: str) -> None:
    records = [record for place in ACCOUNTS for record in left(trade, place)[1].values()]

    assert [r.id for r in records if re.search(r"[{}\[\]]", r.title + r.body)] == []
