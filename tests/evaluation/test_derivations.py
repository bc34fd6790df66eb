from __future__ import annotations

import pytest

from gradient_rl.evaluation.derivations import derive, normal
from gradient_rl.schema.task import Derivation, FactKind


@pytest.mark.parametrize(
    ("operation", "kind", "inputs", "more", "value"),
    [
        ("sum", "money", ["EUR 210", "EUR 640", "EUR 385"], {}, "EUR 1235"),
        ("sum", "duration", ["6 months", "1 year"], {}, "18 months"),
        ("difference", "money", ["EUR 1,250.50", "EUR 400"], {}, "EUR 850.5"),
        ("product", "money", ["EUR 9.75", "7"], {}, "EUR 68.25"),
        ("product", "money", ["EUR 1200", "12.5%"], {}, "EUR 150"),
        ("product", "money", ["EUR 64", "six days"], {}, "EUR 384"),
        ("product", "duration", ["2 hours", "3"], {}, "6 hours"),
        ("count", "number", ["cold room", "freezer"], {}, "2"),
        ("maximum", "money", ["EUR 90", "EUR 110"], {}, "EUR 110"),
        ("minimum", "duration", ["48 hours", "1 day"], {}, "24 hours"),
        ("percent_of", "percent", ["EUR 30", "EUR 240"], {}, "12.5"),
        ("percent_of", "money", ["8%", "EUR 250"], {}, "EUR 20"),
        ("shift_date", "date", ["2025-01-31", "1 month"], {}, "2025-02-28"),
        ("shift_date", "date", ["2025-03-07", "2 working days"], {}, "2025-03-11"),
        ("shift_date", "date", ["2025-03-03", "60 days"], {}, "2025-05-02"),
        ("days_between", "duration", ["2025-03-03", "2025-05-02"], {}, "60 days"),
    ],
)
def test_a_derived_value_is_what_one_calculates_by_hand(
    operation: str, kind: str, inputs: list[str], more: dict[str, object], value: str
) -> None:
    given = [{"record": "r", "value": i} for i in inputs]
    derivation = Derivation.model_validate({"operation": operation, "inputs": given, **more})

    assert normal(derive(derivation, FactKind(kind)), FactKind(kind)) == normal(value, FactKind(kind))


VERSIONS = [
    {"record": "a", "value": "EUR 90", "from": "2024-02-12"},
    {"record": "b", "value": "EUR 110", "from": "2025-02-03"},
]


@pytest.mark.parametrize(("day", "value"), [("2024-02-12", "EUR 90"), ("2025-02-02", "EUR 90"), ("2025-02-03", "EUR 110")])
def test_in_force_is_the_last_version_that_had_begun(day: str, value: str) -> None:
    derivation = Derivation.model_validate({"operation": "in_force", "inputs": VERSIONS, "on": day})

    assert derive(derivation, FactKind.MONEY) == value


def test_the_latest_input_wins() -> None:
    derivation = Derivation.model_validate({"operation": "latest", "inputs": VERSIONS[::-1]})

    assert derive(derivation, FactKind.MONEY) == "EUR 110"


def test_the_one_that_is_not_covered_is_excluded() -> None:
    rooms = [{"record": "a", "value": name, "covered": name != "CR-3"} for name in ("CR-1", "CR-2", "CR-3")]
    derivation = Derivation.model_validate({"operation": "exclude", "inputs": rooms})

    assert derive(derivation, FactKind.NAME) == "CR-3"
