"""How much records repeat themselves: the share of each sentence once its names, numbers and dates are masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from gradient_rl.schema.workspace import Record

MAX_SENTENCE_SHARE = 0.02
"""Largest share that one masked sentence may have among all sentences."""
_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+")
_MARKS = " \t>-*•#\"'“”‘’()"
_WORD = re.compile(r"[^\W\d_][\w'’&-]*")
_RUN = re.compile(r"\bN(?:\s+N)+\b")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_PLAIN_WORD = re.compile(r"(?!N\b)[^\W\d_]")


def masked_shares(records: Iterable[Record]) -> list[tuple[str, float]]:
    """Each masked sentence of the bodies with its share among all of them, the largest first.

    Digits become `#` and runs of capitalised words `N`. Table rows are left out, and so are lines without a plain word, such
    as a signature: nothing is left of them to compare.
    """
    counts = Counter(masked for record in records for sentence in sentences_of(record.body) if (masked := mask(sentence)))
    total = counts.total()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(sentence, count / total) for sentence, count in ranked]


def sentences_of(body: str) -> Iterator[str]:
    """The sentences of a body, cut at the ends of lines and after `.`, `!` and `?`, without quote and list marks."""
    for line in body.splitlines():
        if not line.lstrip(" >").startswith("|"):
            yield from filter(None, (sentence.strip(_MARKS) for sentence in _END.split(line)))


def mask(sentence: str) -> str:
    """The sentence with `N` for names and `#` for numbers, without a mark at its end; empty if no plain word is left."""
    masked = _NUMBER.sub("#", _RUN.sub("N", _WORD.sub(_without_name, sentence))).rstrip(" .!?,:;")
    return masked if _PLAIN_WORD.search(masked) else ""


def _without_name(word: re.Match[str]) -> str:
    return "N" if word[0][0].isupper() else word[0]
