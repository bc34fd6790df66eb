"""Values of facts: drawing them, and writing them as people do."""

from __future__ import annotations

import calendar
from collections.abc import Collection
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.worlds.trade import Amounts

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_HOLIDAYS = {(1, 1), (12, 24), (12, 25), (12, 26)}
_SIGNS = {"EUR": "€", "GBP": "£", "USD": "$"}


def drawn(amounts: Amounts, kind: FactKind, currency: str, rng: Random, taken: Collection[str] = ()) -> str:
    """A value in the plain form of its kind, other than those taken (as long as there is another)."""
    value = _draw(amounts, kind, currency, rng)
    for _ in range(20):
        if value not in taken:
            break
        value = _draw(amounts, kind, currency, rng)
    return value


def _draw(amounts: Amounts, kind: FactKind, currency: str, rng: Random) -> str:
    if amounts.values:
        return rng.choice(amounts.values)
    low, high, step = amounts.low or Decimal(0), amounts.high or Decimal(0), amounts.step or Decimal(1)
    amount = low + step * rng.randint(0, int((high - low) / step))
    return money(currency, amount) if kind is FactKind.MONEY else f"{amount.normalize():f}"


def money(currency: str, amount: Decimal) -> str:
    """An amount in a fact's plain form: whole, or with two decimals."""
    return f"{currency} {amount:.0f}" if amount == amount.to_integral_value() else f"{currency} {amount:.2f}"


def amount_of(value: str) -> Decimal:
    """The amount of a plain money value."""
    return Decimal(value.split()[1])


def written(value: str, kind: FactKind, rng: Random, formal: bool = False) -> str:
    """A plain value as somebody writes it: `EUR 1250` as `EUR 1,250`, `€1,250` or `EUR 1,250.00`."""
    if kind is FactKind.MONEY:
        return _written_money(value, rng, formal)
    if kind is FactKind.PERCENT:
        return f"{value}%" if formal or rng.random() < 0.7 else f"{value} per cent"
    if kind is FactKind.DATE:
        return written_date(date.fromisoformat(value), rng)
    number, _, rest = value.partition(" ")
    if number.isdigit() and rng.random() < 0.25:
        return f"{in_words(int(number))} {rest}".strip()
    return value


def _written_money(value: str, rng: Random, formal: bool) -> str:
    currency, amount = value.split()
    grouped = f"{Decimal(amount):,.2f}" if "." in amount or (formal and rng.random() < 0.3) else f"{Decimal(amount):,.0f}"
    if formal or rng.random() < 0.6:
        return f"{currency} {grouped}"
    return f"{_SIGNS.get(currency, currency + ' ')}{grouped}"


def in_words(number: int) -> str:
    """A number below 100 in words; a larger one in digits."""
    if number < 20:
        return _UNITS[number]
    if number >= 100:
        return str(number)
    tens, units = divmod(number, 10)
    return _TENS[tens] + (f"-{_UNITS[units]}" if units else "")


def written_date(day: date, rng: Random) -> str:
    """A day with its year, sometimes with its weekday."""
    text = f"{day.day} {calendar.month_name[day.month]} {day.year}"
    return f"{calendar.day_name[day.weekday()]} {text}" if rng.random() < 0.2 else text


def month_of(day: date) -> str:
    """`March 2025`."""
    return f"{calendar.month_name[day.month]} {day.year}"


def working_day(rng: Random, first: date, last: date) -> date:
    """A day from Monday to Friday, and not at Christmas, between two days, both included where they are such days."""
    day = first + timedelta(days=rng.randint(0, max(0, (last - first).days)))
    while _is_free(day):
        day += timedelta(days=1)
    return day if day <= last else _last_working_day(last)


def _last_working_day(day: date) -> date:
    while _is_free(day):
        day -= timedelta(days=1)
    return day


def _is_free(day: date) -> bool:
    return day.weekday() > 4 or (day.month, day.day) in _HOLIDAYS


def after_months(day: date, months: int) -> date:
    """The same day some months later, or the last one of a shorter month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def first_of_next_month(day: date) -> date:
    """The first day of the month after."""
    return after_months(day.replace(day=1), 1)
