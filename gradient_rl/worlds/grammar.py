"""Phrases with choices: `[Thanks|Many thanks] for {thing}` is one of two sentences, with a word of the world in it.

A choice may be empty (`[really |]good`) and may hold further choices. `{name}` is replaced by the slot of that name, `{Name}`
by the same with its first letter in upper case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from random import Random

_PIECE = re.compile(r"[\[\]|]|\{\w+\}|[^\[\]|{}]+|[{}]")
_BROKEN = re.compile(r" +([,.;:!?](?:\s|$))")
_SPACES = re.compile(r"(?<=\S)  +(?=\S)")

Sequence_ = tuple["Part", ...]
Part = str | tuple[Sequence_, ...]
"""A text, a slot in braces, or the alternatives of a choice."""


class GrammarError(ValueError):
    """A phrase whose brackets or braces do not fit."""


def expand(phrase: str, slots: Mapping[str, str], rng: Random) -> str:
    """One of the texts that a phrase stands for.

    Raises:
        KeyError: the phrase has a slot that is not given.
    """
    text = "".join(_drawn(_parsed(phrase), slots, rng))
    return _BROKEN.sub(r"\1", _SPACES.sub(" ", text)).strip()


def slots_of(phrase: str) -> frozenset[str]:
    """Names of the slots of a phrase, in lower case.

    Raises:
        GrammarError: brackets or braces do not fit.
    """
    return frozenset(_slots_in(_parsed(phrase)))


def always_has(phrase: str, slot: str) -> bool:
    """Whether each text of a phrase has the slot, whatever is chosen."""
    return _always(_parsed(phrase), slot)


def count_texts(phrase: str) -> int:
    """How many texts a phrase stands for, slots aside."""
    return _count(_parsed(phrase))


@lru_cache(None)
def _parsed(phrase: str) -> Sequence_:
    pieces = _PIECE.findall(phrase)
    sequence, place = _read_sequence(pieces, 0, phrase)
    if place < len(pieces):
        raise GrammarError(f"'{pieces[place]}' stands alone in: {phrase}")
    return sequence


def _read_sequence(pieces: list[str], place: int, phrase: str, inside: bool = False) -> tuple[Sequence_, int]:
    parts: list[Part] = []
    while place < len(pieces) and pieces[place] not in (("]", "|") if inside else ("]",)):
        piece = pieces[place]
        if piece == "[":
            choice, place = _read_choice(pieces, place + 1, phrase)
            parts.append(choice)
            continue
        if piece in "{}|":
            raise GrammarError(f"'{piece}' stands alone in: {phrase}")
        parts.append(piece)
        place += 1
    return tuple(parts), place


def _read_choice(pieces: list[str], place: int, phrase: str) -> tuple[tuple[Sequence_, ...], int]:
    alternatives: list[Sequence_] = []
    while True:
        sequence, place = _read_sequence(pieces, place, phrase, inside=True)
        alternatives.append(sequence)
        if place >= len(pieces):
            raise GrammarError(f"'[' is not closed in: {phrase}")
        place += 1
        if pieces[place - 1] == "]":
            return tuple(alternatives), place


def _drawn(sequence: Sequence_, slots: Mapping[str, str], rng: Random) -> Iterator[str]:
    for part in sequence:
        if isinstance(part, tuple):
            yield from _drawn(part[rng.randrange(len(part))], slots, rng)
        elif part[0] == "{":
            yield _filled(part[1:-1], slots)
        else:
            yield part


def _filled(name: str, slots: Mapping[str, str]) -> str:
    value = slots[name.lower()]
    return value[:1].upper() + value[1:] if name[0].isupper() else value


def _slots_in(sequence: Sequence_) -> Iterator[str]:
    for part in sequence:
        if isinstance(part, tuple):
            for alternative in part:
                yield from _slots_in(alternative)
        elif part[0] == "{":
            yield part[1:-1].lower()


def _always(sequence: Sequence_, slot: str) -> bool:
    return any(
        all(_always(alternative, slot) for alternative in part)
        if isinstance(part, tuple)
        else part[0] == "{" and part[1:-1].lower() == slot
        for part in sequence
    )


def _count(sequence: Sequence_) -> int:
    return prod(sum(_count(alternative) for alternative in part) for part in sequence if isinstance(part, tuple))
