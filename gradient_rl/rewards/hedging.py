"""Hedging: an answer that names several candidates and leaves the choice to the reader commits to none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradient_rl.rewards.values import Mention

MAX_ITEMS = 6
"""Short items in a row that a sentence may list around a value, and short sentences or lines that an answer may have."""
_ITEM_WORDS = 3
_EITHER_WAY = re.compile(r"\W*(?:\bor\b|/|\band/or\b)(?:[\s,]+(?!but\b|not\b|now\b)[a-z'-]+){0,3}?[\s,]*")
_SENTENCE = re.compile(r"[.!?](?:\s|$)|\n")
_BETWEEN_ITEMS = re.compile(r"[,;/]|\b(?:or|and)\b")


def joined_by_or(text: str, first: Mention, second: Mention) -> bool:
    """Whether two mentions are alternatives: `30 or 60 days`, `60 days or, formerly, 30 days`, `1140 / 1410`."""
    earlier, later = sorted((first, second), key=lambda mention: mention.start)
    return bool(_EITHER_WAY.fullmatch(text[earlier.end : later.start]))


def alternative_to(text: str, asserted: Sequence[Mention], others: Sequence[Mention]) -> Mention | None:
    """A mention of another value that an answer offers as an alternative to an asserted one; None if it offers none."""
    own = {mention.key for mention in asserted}
    for other in others:
        if other.key not in own and any(joined_by_or(text, other, mention) for mention in asserted):
            return other
    return None


def enumerates(text: str, mention: Mention) -> bool:
    """Whether a mention stands in a list of more than `MAX_ITEMS` short items."""
    start = max((match.end() for match in _SENTENCE.finditer(text, 0, mention.start)), default=0)
    end = next((match.start() for match in _SENTENCE.finditer(text, mention.end)), len(text))
    items = [item for item in _BETWEEN_ITEMS.split(text[start:end]) if item.strip()]
    return sum(len(item.split()) <= _ITEM_WORDS for item in items) > MAX_ITEMS


def strings_fragments(answer: str) -> bool:
    """Whether an answer has more than `MAX_ITEMS` sentences or lines of few words: a list without commas."""
    return sum(0 < len(part.split()) <= _ITEM_WORDS for part in _SENTENCE.split(answer)) > MAX_ITEMS
