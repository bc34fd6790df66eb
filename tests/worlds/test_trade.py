"""Trade files: what is wrong with one is said in a sentence, and nothing is wrong with those that travel with the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from random import Random

import pytest

from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.worlds.grammar import expand
from gradient_rl.worlds.trade import TRADES, Term, load_trade
from tests.worlds.founding import trade_of

FOLDER = files("gradient_rl.worlds") / "trades"
CATERING = (FOLDER / "catering.toml").read_text(encoding="utf-8")
SLOTS = {"we": "the Seller", "they": "the Buyer", "value": "VALUE", "old": "OLD", "new": "NEW", "from": "FROM"}
SLOTS |= {"contract": "CONTRACT", "short": "SHORT"}


def fault_in(text: str, folder: Path) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        load_trade(str(path))
    said = str(error.value)
    assert said.startswith(f"{path}")
    assert "\n" not in said
    return said.removeprefix(f"{path}")


def changed(pattern: str, new: str) -> str:
    text, count = re.subn(pattern, new, CATERING, count=1, flags=re.MULTILINE | re.DOTALL)
    assert count == 1
    return text


def texts_of(phrases: tuple[str, ...]) -> Iterator[str]:
    """Up to a dozen texts of each phrase."""
    for phrase in phrases:
        yield from {expand(phrase, SLOTS, Random(seed)) for seed in range(12)}


def has_word(text: str, words: tuple[str, ...]) -> bool:
    return any(re.search(rf"\b{re.escape(word)}", text, re.IGNORECASE) for word in words)


def test_a_trade_in_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(CATERING, encoding="utf-8")

    assert load_trade(str(path)) == trade_of("catering")


def test_an_unknown_trade_is_told_which_there_are() -> None:
    with pytest.raises(NothingToReadError) as error:
        load_trade("fishing")

    assert str(error.value) == (
        "'fishing' is neither a trade (catering, construction, insurance, logistics, medical_devices, software) "
        "nor a TOML file that exists"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match=r"'.*none\.toml' is neither a trade .* nor a TOML file that exists"):
        load_trade(str(tmp_path / "none.toml"))


def test_a_file_that_is_not_toml_is_named_with_the_place(tmp_path: Path) -> None:
    assert fault_in("key = catering\n", tmp_path).startswith(" is not TOML: Invalid value (at line 1")


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'title = "caf\xe9"')

    with pytest.raises(DataError, match="is not TOML: 'utf-8' codec"):
        load_trade(str(tmp_path / "mine.toml"))


def test_a_clause_without_its_value_is_shown(tmp_path: Path) -> None:
    text = changed(r'^clauses = \[\s*"[^"]*\{value\}[^"]*"', 'clauses = ["Nothing is said."')

    assert fault_in(text, tmp_path) == ": terms.0.clauses: '{value}' may be missing in: Nothing is said."


def test_a_slot_that_nobody_fills_is_shown(tmp_path: Path) -> None:
    text = changed(r"^causes = \[", 'causes = ["the {thing}", ')

    assert fault_in(text, tmp_path) == ": incidents.0.causes: unknown slot ['thing'] (allowed: []) in: the {thing}"


def test_too_few_phrases_are_counted(tmp_path: Path) -> None:
    text = changed(r"^contacts = \[.*?\]", 'contacts = ["Bursar"]')

    assert fault_in(text, tmp_path) == ": contacts: 1 phrases; at least 8 are needed"


def test_a_phrase_that_stands_twice_is_shown(tmp_path: Path) -> None:
    text = changed(r"^we = \[", 'we = ["the Caterer", ')

    assert fault_in(text, tmp_path) == ": we: a phrase stands twice: the Caterer"


def test_brackets_that_do_not_fit_are_shown(tmp_path: Path) -> None:
    text = changed(r"^we = \[", 'we = ["[the Cook", ')

    assert fault_in(text, tmp_path) == ": we: '[' is not closed in: [the Cook"


def test_a_missing_field_is_named_with_its_place(tmp_path: Path) -> None:
    text = changed(r'^currency = "[^"]*"$', "")

    assert fault_in(text, tmp_path) == ": currency: Field required"


def test_a_field_that_nobody_knows_is_named(tmp_path: Path) -> None:
    assert fault_in(f'colour = "red"\n{CATERING}', tmp_path) == ": colour: Extra inputs are not permitted"


def test_a_duty_without_people_is_refused(tmp_path: Path) -> None:
    text = changed(r"^legal = \[.*?\]", "legal = []")

    assert fault_in(text, tmp_path).startswith(": staff needs exactly the duties ['director', 'finance', 'legal'")


def test_amounts_are_a_list_or_a_range(tmp_path: Path) -> None:
    text = changed(r"^charge = \{.*?\}", 'charge = { values = ["EUR 40", "EUR 50"] }')

    assert fault_in(text, tmp_path) == ": units.0.charge: give either values (at least 5) or low, high and step"


@pytest.mark.parametrize("name", TRADES)
def test_every_trade_is_read(name: str) -> None:
    assert load_trade(name).key == name


def test_every_file_of_the_folder_is_a_trade() -> None:
    assert sorted(file.name for file in FOLDER.iterdir() if file.name.endswith(".toml")) == [f"{t}.toml" for t in TRADES]


@pytest.mark.parametrize("name", TRADES)
def test_no_two_incidents_share_a_cause_or_a_remedy(name: str) -> None:
    incidents = trade_of(name).incidents
    said = [words for incident in incidents for words in (*incident.causes, *incident.remedies)]

    assert len(set(said)) == len(said)


@pytest.mark.parametrize("name", TRADES)
def test_what_is_suspected_is_never_a_cause(name: str) -> None:
    incidents = trade_of(name).incidents

    assert not {s for i in incidents for s in i.suspected} & {c for i in incidents for c in i.causes}


@pytest.mark.parametrize("name", TRADES)
def test_no_two_kinds_of_customer_are_called_the_same(name: str) -> None:
    called = [words for kind in trade_of(name).customers for words in kind.called]

    assert len(set(called)) == len(called)


@pytest.mark.parametrize("name", TRADES)
def test_every_sentence_about_a_term_has_a_word_by_which_its_absence_is_known(name: str) -> None:
    silent = [
        (term.key, text)
        for term in trade_of(name).terms
        for text in texts_of((*term.clauses, *term.changes))
        if not has_word(text, term.absent_words)
    ]

    assert silent == []


@pytest.mark.parametrize("name", TRADES)
def test_no_clause_has_the_words_of_another_term_of_its_kind(name: str) -> None:
    terms = trade_of(name).terms

    def confused(term: Term) -> list[str]:
        others = [other for other in terms if other.kind is term.kind and other is not term]
        return [text for other in others for text in texts_of(other.clauses) if has_word(text, term.absent_words)]

    assert [(term.key, confused(term)) for term in terms if confused(term)] == []


@pytest.mark.parametrize("name", TRADES)
def test_a_clause_has_no_number_beside_its_value(name: str) -> None:
    trade = trade_of(name)
    clauses = [c for thing in (*trade.terms, *trade.extras) for c in thing.clauses] + [*trade.clauses]

    assert [clause for clause in clauses if re.search(r"\d", clause)] == []


@pytest.mark.parametrize("name", TRADES)
def test_whoever_is_asked_about_takes_no_possessive(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")

    assert re.findall(r"\{[Ww]ho\}\[?['’]s.{0,20}", text) == []


@pytest.mark.parametrize(
    ("pattern", "new", "said"),
    [
        (r'^tag = "[^"]*"', 'tag = "CR"', "units.0.tag: String should match pattern"),
        (r'^currency = "EUR"', 'currency = "DOUBLOON"', "currency: Input should be 'EUR', 'GBP' or 'USD'"),
        (r'^key = "catering"', 'key = "../x"', "key: String should match pattern"),
        (r'^kind = "duration"', 'kind = "money"', "is no money"),
        (r'^kind = "duration"', 'kind = "absent"', "it must be one of money, duration, percent, number"),
        (r"low = (\d+), high = \d+", r"low = \1, high = 1", "give no range"),
    ],
)
def test_values_that_nothing_can_be_made_of_are_refused(pattern: str, new: str, said: str, tmp_path: Path) -> None:
    assert said in fault_in(changed(pattern, new), tmp_path)


def test_what_is_suspected_may_not_be_the_cause(tmp_path: Path) -> None:
    cause = trade_of("catering").incidents[0].causes[0]
    said = fault_in(changed(r"^suspected = \[", f'suspected = ["{cause}", '), tmp_path)

    assert f"'{cause}' is suspected and a cause; what is suspected has to be wrong" in said
