from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gradient_rl.rewards.values import key_of, mentions_of, plain_text
from gradient_rl.schema.task import FactKind
from gradient_rl.worlds.amounts import (
    after_months,
    amount_of,
    drawn,
    first_of_next_month,
    in_words,
    money,
    month_of,
    working_day,
    written,
)
from gradient_rl.worlds.trade import Amounts

MONEY, DATE, NUMBER = FactKind.MONEY, FactKind.DATE, FactKind.NUMBER
DAYS = st.dates(date(2023, 1, 1), date(2026, 12, 31))
UNITS = st.sampled_from(["minutes", "hours", "days", "business days", "weeks", "months", "years"])
CENTS = st.integers(1, 90_000_000).map(lambda cents: Decimal(cents) / 100)
VALUES = st.one_of(
    st.builds(money, st.sampled_from(["EUR", "GBP", "USD"]), CENTS).map(lambda value: (MONEY, value)),
    DAYS.map(lambda day: (DATE, day.isoformat())),
    st.integers(2, 9_999).map(lambda number: (NUMBER, str(number))),
    st.integers(1, 999).map(lambda tenths: (FactKind.PERCENT, f"{(Decimal(tenths) / 10).normalize():f}")),
    st.builds("{} {}".format, st.integers(2, 400), UNITS).map(lambda value: (FactKind.DURATION, value)),
)


@given(VALUES, st.booleans(), st.integers())
def test_a_value_is_read_back_however_it_is_written(value: tuple[FactKind, str], formal: bool, seed: int) -> None:
    kind, plain = value
    sentence = f"It was put at {written(plain, kind, Random(seed), formal)}, and that stands."

    assert {mention.key for mention in mentions_of(plain_text(sentence), kind)} == {key_of(plain, kind)}


def styles(value: str, kind: FactKind, formal: bool = False) -> set[str]:
    return {written(value, kind, Random(seed), formal) for seed in range(60)}


def test_money_is_written_in_three_ways() -> None:
    assert styles("EUR 1250", MONEY) == {"EUR 1,250", "€1,250"}
    assert styles("EUR 1250", MONEY, formal=True) == {"EUR 1,250", "EUR 1,250.00"}
    assert styles("GBP 940.50", MONEY) == {"GBP 940.50", "£940.50"}
    assert styles("CHF 40", MONEY) == {"CHF 40"}


def test_other_values_are_written_in_figures_and_in_words() -> None:
    assert styles("12.5", FactKind.PERCENT) == {"12.5%", "12.5 per cent"}
    assert styles("12.5", FactKind.PERCENT, formal=True) == {"12.5%"}
    assert styles("45 days", FactKind.DURATION) == {"45 days", "forty-five days"}
    assert styles("2025-03-03", DATE) == {"3 March 2025", "Monday 3 March 2025"}
    assert styles("14", NUMBER) == {"14", "fourteen"}


@pytest.mark.parametrize(("number", "words"), [(0, "zero"), (19, "nineteen"), (40, "forty"), (99, "ninety-nine"), (100, "100")])
def test_numbers_below_a_hundred_have_words(number: int, words: str) -> None:
    assert in_words(number) == words


def test_money_has_two_decimals_or_none() -> None:
    assert money("EUR", Decimal("40.00")) == "EUR 40"
    assert money("EUR", Decimal("40.5")) == "EUR 40.50"
    assert amount_of("EUR 40.50") == Decimal("40.5")


def test_values_are_drawn_from_low_to_high_in_steps() -> None:
    amounts = Amounts(low=Decimal("10"), high=Decimal("11"), step=Decimal("0.5"))
    seen = {drawn(amounts, MONEY, "EUR", Random(seed)) for seed in range(60)}

    assert seen == {"EUR 10", "EUR 10.50", "EUR 11"}
    assert drawn(Amounts(low=Decimal(100), high=Decimal(105), step=Decimal(10)), NUMBER, "EUR", Random(1)) == "100"


def test_a_value_that_is_taken_is_not_drawn_while_there_is_another() -> None:
    amounts = Amounts(values=("1", "2", "3", "4", "5"))

    assert {drawn(amounts, NUMBER, "EUR", Random(seed), ["1", "2", "4"]) for seed in range(60)} == {"3", "5"}
    assert drawn(amounts, NUMBER, "EUR", Random(1), "12345") in "12345"


def is_working(day: date) -> bool:
    return day.weekday() < 5 and (day.month, day.day) not in ((1, 1), (12, 24), (12, 25), (12, 26))


@given(DAYS, st.integers(0, 60), st.integers())
def test_work_is_done_from_monday_to_friday_within_the_days_given(first: date, days: int, seed: int) -> None:
    last = first + timedelta(days=days)
    assume(any(is_working(first + timedelta(days=day)) for day in range(days + 1)))

    day = working_day(Random(seed), first, last)

    assert is_working(day)
    assert first <= day <= last


def test_a_weekend_alone_gives_the_friday_before() -> None:
    assert working_day(Random(1), date(2025, 6, 28), date(2025, 6, 29)) == date(2025, 6, 27)


@pytest.mark.parametrize(
    ("day", "months", "later"),
    [
        (date(2025, 1, 31), 1, date(2025, 2, 28)),
        (date(2024, 1, 31), 1, date(2024, 2, 29)),
        (date(2024, 2, 29), 12, date(2025, 2, 28)),
        (date(2024, 8, 31), 18, date(2026, 2, 28)),
        (date(2024, 12, 15), 0, date(2024, 12, 15)),
        (date(2024, 11, 30), 36, date(2027, 11, 30)),
    ],
)
def test_months_later_is_the_same_day_or_the_last_of_a_shorter_month(day: date, months: int, later: date) -> None:
    assert after_months(day, months) == later


def test_the_month_after_december_is_january() -> None:
    assert first_of_next_month(date(2024, 12, 31)) == date(2025, 1, 1)
    assert month_of(date(2024, 12, 31)) == "December 2024"
