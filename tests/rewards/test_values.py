from __future__ import annotations

import pytest

from gradient_rl.rewards.values import key_of, mentions_of, plain_text, same_value
from gradient_rl.schema.task import FactKind


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Sixty days’ notice – now", "60 days' notice - now"),
        ("twelve thousand five hundred euros", "12500 euros"),
        ("one hundred and twenty", "120"),
        ("twenty-one or thirty", "21 or 30"),
        ("two and a half hours", "2.5 hours"),
        ("12½ %", "12.5 %"),
        ("half an hour", "0.5 hour"),
        ("the third of March", "the 3 of march"),
        ("June the twenty-first", "june 21"),
        ("a dozen, half a dozen", "12, 6"),
        ("Café Océane", "cafe oceane"),
        ("fourteen and one more", "14 and one more"),
        ("one of them", "one of them"),
    ],
)
def test_a_text_is_made_plain(written: str, plain: str) -> None:
    assert plain_text(written) == plain


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("money", "$12,500", "USD 12500"),
        ("money", "12.5k USD", "USD 12500"),
        ("money", "€12.500,00", "EUR 12500"),
        ("money", "12 500 euro", "EUR 12500"),
        ("money", "EUR 12,500.-", "EUR 12500"),
        ("money", "1.2 million euros", "EUR 1200000"),
        ("money", "nine hundred and forty pounds", "GBP 940"),
        ("money", "GBP 940.50", "GBP 940.5"),
        ("money", "45 cents", "EUR 0.45"),
        ("money", "€1.250", "EUR 1250"),
        ("date", "3 March 2025", "2025-03-03"),
        ("date", "the 3rd of March, 2025", "2025-03-03"),
        ("date", "March 3, 2025", "2025-03-03"),
        ("date", "03/03/2025", "2025-03-03"),
        ("date", "3.3.25", "2025-03-03"),
        ("date", "12/31/2024", "2024-12-31"),
        ("date", "3-Mar-2025", "2025-03-03"),
        ("percent", "12.5 per cent", "12.5"),
        ("percent", "twelve and a half percent", "12.5"),
        ("percent", "2,5 %", "2.5"),
        ("duration", "sixty days", "60 days"),
        ("duration", "60-day", "60 days"),
        ("duration", "two weeks", "14 days"),
        ("duration", "a year and a half", "18 months"),
        ("duration", "1 year and 6 months", "18 months"),
        ("duration", "90 mins", "1.5 hours"),
        ("duration", "2 hours 30 minutes", "150 minutes"),
        ("duration", "48 hours", "2 days"),
        ("duration", "ten working days", "10 business days"),
        ("number", "fourteen units", "14"),
        ("number", "1,204 cases", "1204"),
    ],
)
def test_two_ways_of_writing_say_the_same(kind: str, written: str, value: str) -> None:
    found = {mention.key for mention in mentions_of(plain_text(written), FactKind(kind))}

    assert found == {key_of(value, FactKind(kind))}


@pytest.mark.parametrize(
    ("kind", "text", "keys"),
    [
        ("duration", "30, 45 or 60 days", {"43200", "64800", "86400"}),
        ("duration", "30 to 60 days", {"43200", "86400"}),
        ("money", "€400, 500 and 600", {"400", "500", "600"}),
        ("money", "400-500 euros", {"400", "500"}),
        ("date", "1, 8 and 15 March 2025", {"01", "08", "15"}),
    ],
)
def test_values_in_a_list_share_their_unit(kind: str, text: str, keys: set[str]) -> None:
    assert {mention.key[-1] for mention in mentions_of(plain_text(text), FactKind(kind))} == keys


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("number", "FV-2291"),
        ("number", "60 days"),
        ("number", "3 March 2025"),
        ("number", "EUR 14"),
        ("money", "1,250 units"),
        ("date", "31 February"),
        ("percent", "12.5 points"),
        ("duration", "60 dayrooms"),
    ],
)
def test_what_is_no_value_of_the_kind_is_not_read(kind: str, text: str) -> None:
    assert mentions_of(plain_text(text), FactKind(kind)) == []


def test_months_do_not_convert_into_days() -> None:
    assert key_of("1 month", FactKind.DURATION) != key_of("30 days", FactKind.DURATION)


def test_working_days_are_not_calendar_days() -> None:
    assert key_of("10 working days", FactKind.DURATION) != key_of("10 days", FactKind.DURATION)


def test_a_date_without_its_year_fits_any_year() -> None:
    (mention,) = mentions_of("3 march", FactKind.DATE)

    assert same_value(mention.key, key_of("2025-03-03", FactKind.DATE))


def test_a_year_and_a_clause_number_are_weak_numbers() -> None:
    mentions = mentions_of("clause 7 of 2025 names 14 units", FactKind.NUMBER)

    assert [(mention.key[0], mention.weak) for mention in mentions] == [("7", True), ("2025", True), ("14", False)]


def test_a_value_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="'soon' cannot be read as one value of kind date"):
        key_of("soon", FactKind.DATE)


def test_names_have_no_reader() -> None:
    with pytest.raises(ValueError, match="have no reader"):
        mentions_of("ruth adeyemi", FactKind.NAME)
