from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from gradient_rl.worlds.phrases import phrases

BILLS = TypeAdapter(Annotated[tuple[str, ...], phrases(2, "short", "sum")])


def test_phrases_with_all_that_they_need_are_read() -> None:
    assert BILLS.validate_python(["{Sum} is due", "{short} owes {sum}"]) == ("{Sum} is due", "{short} owes {sum}")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (["{sum} is due"], "1 phrases; at least 2 are needed"),
        (["{sum} is due", "[{sum}|nothing] is due"], "'{sum}' may be missing in: [{sum}|nothing] is due"),
        (["{sum} is due", "{sum} for {whom}"], "unknown slot ['whom'] (allowed: ['short', 'sum']) in: {sum} for {whom}"),
        (["{sum} is due", "[{sum} is due"], "'[' is not closed in: [{sum} is due"),
        (["{sum} is due", "{sum} is due"], "a phrase stands twice: {sum} is due"),
    ],
)
def test_a_faulty_list_of_phrases_is_refused(given: list[str], fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        BILLS.validate_python(given)

    assert error.value.errors()[0]["msg"] == f"Value error, {fault}"
