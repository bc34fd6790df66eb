"""Recomputing derived facts: a sum, a count, what was in force on a day, who is not covered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from dateutil.relativedelta import relativedelta

from gradient_rl.rewards.values import key_of, plain_text
from gradient_rl.schema.task import Derivation, DerivationInput, Fact, FactKind, Operation


class Quantity(NamedTuple):
    """An amount in a unit: a currency, `minutes`, `months`, `%`, or nothing for a bare number."""

    unit: str
    amount: Decimal


def fault_in(fact: Fact) -> str | None:
    """Why a fact does not follow from its inputs; None when it does, or when it is not derived."""
    derivation = fact.derivation
    if derivation is None or derivation.operation is Operation.ABSENCE:
        return None
    try:
        derived = derive(derivation, fact.kind)
    except ValueError as error:
        return f"{derivation.operation} cannot be computed: {error}"
    if normal(derived, fact.kind) != normal(fact.value or "", fact.kind):
        return f"{derivation.operation} of its inputs gives {derived}, not {fact.value}"
    return None


def derive(derivation: Derivation, kind: FactKind) -> str:
    """The value that follows from the inputs, in the plain form of a fact's value.

    Raises:
        ValueError: an input cannot be read, or the operation does not fit the inputs.
    """
    return _OPERATIONS[derivation.operation](derivation, kind)


def normal(value: str, kind: FactKind) -> tuple[str, ...]:
    """A form in which two equal values are equal, whatever their wording."""
    return (plain_text(value),) if kind in (FactKind.NAME, FactKind.TEXT) else key_of(value, kind)


def kind_of_input(value: str, wanted: FactKind) -> FactKind:
    """The kind as which an input can be read, the fact's own kind first.

    Raises:
        ValueError: it cannot be read at all.
    """
    if wanted in (FactKind.NAME, FactKind.TEXT):
        return wanted
    for kind in (wanted, FactKind.MONEY, FactKind.PERCENT, FactKind.DURATION, FactKind.DATE, FactKind.NUMBER):
        if kind is FactKind.PERCENT and kind is not wanted and not re.search(r"%|per ?cent", value):
            continue
        try:
            key_of(value, kind)
        except ValueError:
            continue
        return kind
    raise ValueError(f"input '{value}' is not a value of any kind")


def _quantity(value: str | None, wanted: FactKind) -> Quantity:
    if value is None:
        raise ValueError("an input has no value")
    kind = kind_of_input(value, wanted)
    key = key_of(value, kind)
    unit = {FactKind.PERCENT: "%", FactKind.NUMBER: ""}.get(kind, key[0])
    if kind is FactKind.DATE:
        raise ValueError(f"'{value}' is a date, not a quantity")
    return Quantity(unit, Decimal(key[-1]))


def _quantities(derivation: Derivation, kind: FactKind) -> list[Quantity]:
    return [_quantity(given.value, kind) for given in derivation.inputs]


def _written(unit: str, amount: Decimal) -> str:
    number = f"{amount.normalize():f}"
    if unit.isupper():
        return f"{unit} {number}"
    return f"{number} {unit}".strip().removesuffix(" %")


def _alike(quantities: Sequence[Quantity]) -> str:
    units = {quantity.unit for quantity in quantities}
    if len(units) != 1:
        raise ValueError(f"the inputs have different units: {', '.join(sorted(units))}")
    return units.pop()


def _sum(derivation: Derivation, kind: FactKind) -> str:
    quantities = _quantities(derivation, kind)
    return _written(_alike(quantities), sum((q.amount for q in quantities), Decimal(0)))


def _difference(derivation: Derivation, kind: FactKind) -> str:
    first, *rest = _quantities(derivation, kind)
    return _written(_alike([first, *rest]), first.amount - sum((q.amount for q in rest), Decimal(0)))


def _product(derivation: Derivation, kind: FactKind) -> str:
    """The product of the inputs; a duration counts in its own unit, `EUR 64` a day times `6 days`, unless one is asked for."""
    units: list[str] = []
    result = Decimal(1)
    for given in derivation.inputs:
        unit, amount = _quantity(given.value, kind)
        if unit in ("minutes", "months") and kind is not FactKind.DURATION:
            unit, amount = "", Decimal(plain_text(given.value or "").split()[0])
        units += [unit] if unit not in ("", "%") else []
        result *= amount / 100 if unit == "%" else amount
    return _written("".join(units[:1]), result.quantize(Decimal("0.01")) if kind is FactKind.MONEY else result)


def _count(derivation: Derivation, kind: FactKind) -> str:
    return str(len(derivation.inputs))


def _extreme(pick: Callable[[list[Quantity]], Quantity]) -> Callable[[Derivation, FactKind], str]:
    def compute(derivation: Derivation, kind: FactKind) -> str:
        quantities = _quantities(derivation, kind)
        _alike(quantities)
        return _written(*pick(quantities))

    return compute


def _percent_of(derivation: Derivation, kind: FactKind) -> str:
    first, second = _quantities(derivation, kind)
    if first.unit == "%":
        return _written(second.unit, (first.amount / 100 * second.amount).quantize(Decimal("0.01")))
    return _written("%", (first.amount / second.amount * 100).quantize(Decimal("0.1")))


def _date_of(given: DerivationInput) -> date:
    year, month, day = key_of(given.value or "", FactKind.DATE)
    return date(int(year), int(month), int(day))


def _shift_date(derivation: Derivation, kind: FactKind) -> str:
    day = _date_of(derivation.inputs[0])
    for given in derivation.inputs[1:]:
        unit, amount = _quantity(given.value, FactKind.DURATION)
        if unit.startswith("working"):
            day = _working_days_later(day, int(amount))
        else:
            day += relativedelta(months=int(amount)) if unit == "months" else timedelta(minutes=int(amount))
    return day.isoformat()


def _working_days_later(day: date, count: int) -> date:
    while count:
        day += timedelta(days=1)
        count -= day.weekday() < 5
    return day


def _days_between(derivation: Derivation, kind: FactKind) -> str:
    first, second = (_date_of(given) for given in derivation.inputs)
    return f"{abs((second - first).days)} days"


def _in_force(derivation: Derivation, kind: FactKind) -> str:
    if derivation.on is None:
        raise ValueError("in_force needs the day it asks about ('on')")
    started = [given for given in derivation.inputs if _since(given) <= derivation.on]
    if not started:
        raise ValueError(f"nothing was in force on {derivation.on}")
    return max(started, key=_since).value or ""


def _latest(derivation: Derivation, kind: FactKind) -> str:
    return max(derivation.inputs, key=_since).value or ""


def _since(given: DerivationInput) -> date:
    if given.since is None:
        raise ValueError(f"the input from '{given.record}' needs the day from which it applied ('from')")
    return given.since


def _exclude(derivation: Derivation, kind: FactKind) -> str:
    left = [given.value or "" for given in derivation.inputs if given.covered is False]
    if len(left) != 1:
        raise ValueError(f"exactly one input must have covered = false, and {len(left)} have")
    return left[0]


_OPERATIONS: Mapping[Operation, Callable[[Derivation, FactKind], str]] = {
    Operation.SUM: _sum,
    Operation.DIFFERENCE: _difference,
    Operation.PRODUCT: _product,
    Operation.COUNT: _count,
    Operation.MAXIMUM: _extreme(lambda quantities: max(quantities, key=lambda q: q.amount)),
    Operation.MINIMUM: _extreme(lambda quantities: min(quantities, key=lambda q: q.amount)),
    Operation.PERCENT_OF: _percent_of,
    Operation.SHIFT_DATE: _shift_date,
    Operation.DAYS_BETWEEN: _days_between,
    Operation.IN_FORCE: _in_force,
    Operation.LATEST: _latest,
    Operation.EXCLUDE: _exclude,
}
