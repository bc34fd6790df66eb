from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradient_rl.worlds.grammar import GrammarError, always_has, count_texts, expand, slots_of

Spelled = tuple[str, tuple[str, ...]]
"""A phrase and all texts that it stands for."""


def texts(phrase: str, **slots: str) -> set[str]:
    return {expand(phrase, slots, Random(seed)) for seed in range(60)}


def sequence(parts: list[Spelled]) -> Spelled:
    spelled = ("",)
    for _, added in parts:
        spelled = tuple(text + more for text in spelled for more in added)
    return "".join(phrase for phrase, _ in parts), spelled


def choice(parts: list[Spelled]) -> Spelled:
    return f"[{'|'.join(phrase for phrase, _ in parts)}]", tuple(text for _, found in parts for text in found)


LEAVES = st.text("abc", min_size=1, max_size=3).map(lambda text: (text, (text,))) | st.just(("{who}", ("XY",)))
PHRASES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(sequence)
        | st.lists(inner | st.just(("", ("",))), min_size=1, max_size=3).map(choice)
    ),
    max_leaves=6,
)


@given(PHRASES, st.integers())
def test_every_text_of_a_phrase_is_one_that_its_choices_spell(spelled: Spelled, seed: int) -> None:
    phrase, allowed = spelled

    assert expand(phrase, {"who": "XY"}, Random(seed)) in allowed


@given(PHRASES)
def test_as_many_texts_are_counted_as_the_choices_spell(spelled: Spelled) -> None:
    phrase, allowed = spelled

    assert count_texts(phrase) == len(allowed)


@given(PHRASES)
def test_a_slot_is_always_there_when_all_texts_have_it(spelled: Spelled) -> None:
    phrase, allowed = spelled

    assert always_has(phrase, "who") == all("XY" in text for text in allowed)


@given(PHRASES, st.integers())
def test_the_same_state_of_the_generator_gives_the_same_text(spelled: Spelled, seed: int) -> None:
    first, second = (expand(spelled[0], {"who": "XY"}, Random(seed)) for _ in range(2))

    assert first == second


def test_each_alternative_of_a_choice_comes_up() -> None:
    assert texts("[Thanks|Many thanks] for it") == {"Thanks for it", "Many thanks for it"}


def test_choices_stand_inside_choices() -> None:
    assert texts("a[b[c|d]|e]") == {"abc", "abd", "ae"}


def test_an_empty_alternative_leaves_a_single_space() -> None:
    assert texts("a [really |]good day") == {"a really good day", "a good day"}
    assert texts("a [really|] good day") == {"a really good day", "a good day"}


def test_no_space_is_left_before_a_full_stop_or_at_an_end() -> None:
    assert texts("[Well |]it runs [again|] .") == {"Well it runs again.", "Well it runs.", "it runs again.", "it runs."}
    assert texts(" it runs [again|]") == {"it runs again", "it runs"}


def test_a_number_keeps_the_space_before_its_decimal_point() -> None:
    assert texts("costs .5 more") == {"costs .5 more"}


def test_a_slot_begins_with_a_capital_where_its_name_does() -> None:
    assert texts("{Thing} and {thing}", thing="the old oven") == {"The old oven and the old oven"}


def test_a_slot_may_hold_brackets_that_choose_nothing() -> None:
    assert texts("see {it}", it="[a|b]") == {"see [a|b]"}


def test_a_missing_slot_is_named() -> None:
    with pytest.raises(KeyError, match="thing"):
        expand("Thanks for {thing}", {}, Random(1))


def test_slots_are_found_in_every_alternative() -> None:
    assert slots_of("{Who} [pays {sum}|owes [{sum}|{more}]]") == {"who", "sum", "more"}


@pytest.mark.parametrize(
    ("phrase", "fault"),
    [
        ("[a|b", "'[' is not closed in: [a|b"),
        ("[a|[b]", "'[' is not closed in: [a|[b]"),
        ("a]b", "']' stands alone in: a]b"),
        ("a|b", "'|' stands alone in: a|b"),
        ("{who", "'{' stands alone in: {who"),
        ("who}", "'}' stands alone in: who}"),
        ("{two words}", "'{' stands alone in: {two words}"),
    ],
)
def test_brackets_that_do_not_fit_are_shown_in_their_phrase(phrase: str, fault: str) -> None:
    with pytest.raises(GrammarError) as error:
        slots_of(phrase)

    assert str(error.value) == fault


@pytest.mark.parametrize(
    ("phrase", "count"), [("plain", 1), ("[a|b]", 2), ("[a|b] [c|d|]", 6), ("[a[b|c]|d]", 3), ("{who} [a|a]", 2)]
)
def test_the_texts_of_a_phrase_are_counted(phrase: str, count: int) -> None:
    assert count_texts(phrase) == count


def test_a_slot_that_one_alternative_lacks_is_not_always_there() -> None:
    assert always_has("[for {who}|to {Who}]", "who")
    assert not always_has("[for {who}|]", "who")
