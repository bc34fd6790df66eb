"""What a conversation has shown so far, measured against its question: the ground that a learned policy decides on.

Everything here is read from the messages, which are all that a language model would be shown. Overlaps are shares of the
question's stems; a stem that most of the shown records contain weighs little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gradient_rl.policies.base import Message, calls_in, observations_in, question_in
from gradient_rl.policies.reading import (
    Asked,
    asked_kind,
    content_words,
    day_asked_about,
    facets_of,
    identifiers_in,
    names_in,
    sentences_of,
    stems_of,
    values_in,
)

type Row = np.ndarray[Any, np.dtype[np.float64]]
"""Numbers of shape (n,) or (n, m)."""

MAX_LEADS = 3
_PAST = re.compile(r"\b(?:was|were|until|previous\w*|former\w*|old|draft|propos\w*|plan\w*|forecast|estimate\w*|would)\b", re.I)
_NEGATION = re.compile(r"\b(?:not|no|nothing|never|none|neither|nor)\b|n't\b", re.I)
SHARE = 4.0
"""What the weights of a question's stems add up to: an overlap of 1 is a quarter of the question."""


@dataclass(frozen=True)
class Asking:
    """A question, read once."""

    text: str
    stems: tuple[str, ...]
    names: Row
    """1 for a stem that is written with a capital or a digit, else 0; shape (stems,)."""
    kinds: tuple[Asked, ...]
    """The kind of value that each part of the question asks for."""
    day: str
    """The day it asks about, ISO; `9999` for today."""
    words: tuple[str, ...]
    """Its words that carry meaning, in order."""
    word_stems: tuple[frozenset[str], ...]
    """The stems of each of the words."""


@dataclass(frozen=True)
class Page:
    """An opened record, read against a question. Arrays have one row a sentence."""

    sentences: tuple[str, ...]
    bits: Row
    """Whether each of the question's stems stands in the sentence; shape (sentences, stems)."""
    headed: Row
    """The same with the heading of the table that the sentence is a row of."""
    static: Row
    """Properties that do not depend on what else was read; see `_static`."""
    kinds: tuple[frozenset[Asked], ...]
    """The asked kinds of which a sentence gives a value that the question did not."""
    title_bits: Row
    whole_bits: Row
    leads: tuple[tuple[str, bool, int], ...]
    """Identifiers and names with whether it is an identifier, and the sentence it stands in."""
    identifiers: frozenset[str]
    texts: frozenset[str]
    """The leads' texts."""


@dataclass
class Hit:
    """A search hit: what the searches showed of a record."""

    record_id: str
    kind: str
    date: str
    title_bits: Row
    bits: Row
    text: str
    has_value: bool
    found_by: list[tuple[int, int]]
    """Number of each search that found it, from 1, with its rank there, from 1."""


@lru_cache(1024)
def asking(question: str) -> Asking:
    """Read a question."""
    words = content_words(question)
    stems = tuple(sorted(stems_of(question)))
    marked = frozenset[str]().union(*(stems_of(word) for word in words if word[0].isupper() or word[0].isdigit()))
    names = np.array([stem in marked for stem in stems], dtype=float)
    kinds = tuple(asked_kind(facet) for facet in facets_of(question))
    return Asking(question, stems, names, kinds, day_asked_about(question) or "9999", words, tuple(stems_of(w) for w in words))


@lru_cache(8192)
def page_of(question: str, title: str, body: str) -> Page:
    """Read a record against a question."""
    asked, parts = asking(question), sentences_of(body)
    bits = np.array([_bits(asked, part.stems) for part in parts], dtype=float).reshape(len(parts), len(asked.stems))
    kinds = tuple(_kinds_given(asked, part.text) for part in parts)
    leads = [
        (lead, is_identifier, place)
        for place, part in enumerate(parts)
        for is_identifier, found in ((True, identifiers_in(part.text)), (False, names_in(part.text)))
        for lead in found
        if lead not in question
    ]
    return Page(
        sentences=tuple(part.text for part in parts),
        bits=bits,
        headed=_headed(bits, [_is_row(part.text) for part in parts]),
        static=_static(asked, [part.text for part in parts], kinds),
        kinds=kinds,
        title_bits=_bits(asked, stems_of(title)),
        whole_bits=_bits(asked, stems_of(f"{title}\n{body}")),
        leads=tuple(leads),
        identifiers=frozenset(identifiers_in(f"{title}\n{body}")),
        texts=frozenset(lead for lead, _, _ in leads),
    )


STATIC = ("value", "text_asked", "past", "negation", "short", "row", "heading")


def _static(asked: Asking, sentences: Sequence[str], kinds: Sequence[frozenset[Asked]]) -> Row:
    """The properties named in `STATIC`, one row a sentence."""
    rows_before = [False, *(_is_row(text) for text in sentences)]
    text_asked = Asked.TEXT in asked.kinds
    rows = [
        (
            bool(given),
            text_asked,
            bool(_PAST.search(text)),
            bool(_NEGATION.search(text)),
            len(text.split()) < 4,
            _is_row(text),
            _is_row(text) and not rows_before[place],
        )
        for place, (text, given) in enumerate(zip(sentences, kinds, strict=True))
    ]
    return np.array(rows, dtype=float).reshape(len(rows), len(STATIC))


def _is_row(text: str) -> bool:
    return text.startswith("|")


def _headed(bits: Row, is_row: Sequence[bool]) -> Row:
    """Bits of sentences, those of a table's rows with its heading row and the line before it."""
    headed = bits.copy()
    heading = np.zeros(bits.shape[1])
    for place, row in enumerate(is_row):
        if not row:
            continue
        if place == 0 or not is_row[place - 1]:
            heading = np.maximum(bits[place - 1], bits[place]) if place else bits[place]
        headed[place] = np.maximum(bits[place], heading)
    return headed


def _kinds_given(asked: Asking, text: str) -> frozenset[Asked]:
    return frozenset(kind for kind in asked.kinds if any(value not in asked.text for value in values_in(text, kind)))


@lru_cache(16384)
def _hit_read(question: str, title: str, people: str, snippet: str) -> tuple[Row, Row, bool]:
    asked = asking(question)
    text = f"{title} {people} {snippet}"
    return _bits(asked, stems_of(title)), _bits(asked, stems_of(text)), bool(_kinds_given(asked, snippet))


def _bits(asked: Asking, stems: frozenset[str]) -> Row:
    return np.array([stem in stems for stem in asked.stems], dtype=float)


class View:
    """What the messages have shown, in the order in which it was shown."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.asked = asking(question_in(messages))
        self.calls = 0
        self.searches: list[tuple[str, str]] = []
        self.barren = 0
        """Searches that showed nothing new."""
        self.hits: dict[str, Hit] = {}
        self.opened: dict[str, Mapping[str, Any]] = {}
        for (tool, arguments), observation in zip(calls_in(messages), observations_in(messages), strict=False):
            self.calls += 1
            if tool.startswith("search"):
                self._take_search(tool, str(arguments.get("query", "")), observation)
            elif "body" in observation:
                self.opened[observation["id"]] = observation

    @cached_property
    def pages(self) -> dict[str, Page]:
        """The opened records, read."""
        return {i: page_of(self.asked.text, _title(r), str(r["body"])) for i, r in self.opened.items()}

    @cached_property
    def weights(self) -> Row:
        """Weight of each of the question's stems, adding up to `SHARE`; shape (stems,)."""
        counts = np.sum([hit.bits for hit in self.hits.values()], axis=0) if self.hits else np.zeros(len(self.asked.stems))
        raw = 1.0 / (1.0 + counts)
        return raw * (SHARE / (raw.sum() or 1.0))

    @cached_property
    def name_weights(self) -> Row:
        """The same for the stems of names and numbers alone; all 0 where the question has none."""
        raw = self.weights * self.asked.names
        return raw * (SHARE / (raw.sum() or 1.0))

    @cached_property
    def unread(self) -> list[Hit]:
        """Hits that were not opened."""
        return [hit for record_id, hit in self.hits.items() if record_id not in self.opened]

    @cached_property
    def covered(self) -> Row:
        """Whether each stem stands in an opened record; shape (stems,)."""
        if not self.pages:
            return np.zeros(len(self.asked.stems))
        return np.max([page.whole_bits for page in self.pages.values()], axis=0)

    @cached_property
    def leads(self) -> list[tuple[str, bool, float]]:
        """Leads from the opened records that no query has used: with whether it is an identifier, and its sentence's fit."""
        fits: dict[str, tuple[bool, float]] = {}
        for page in self.pages.values():
            overlaps = (page.bits @ self.weights).tolist()
            for lead, is_identifier, place in page.leads:
                known = fits.get(lead)
                if known is None or overlaps[place] > known[1]:
                    fits[lead] = (is_identifier, overlaps[place])
        used = " ".join(query for _, query in self.searches)
        unused = [(lead, *fit) for lead, fit in fits.items() if lead not in used]
        return sorted(unused, key=lambda lead: (-lead[2] - 0.4 * lead[1], lead[0]))

    @cached_property
    def recency(self) -> dict[str, float]:
        """By shown record: 0 for the oldest of those written by the day asked about, 1 for the newest, -1 for a later one."""
        days = {i: hit.date for i, hit in self.hits.items()}
        in_time = sorted({day for day in days.values() if day <= self.asked.day})
        last = max(1, len(in_time) - 1)
        return {i: -1.0 if day > self.asked.day else in_time.index(day) / last for i, day in days.items()}

    def _take_search(self, tool: str, query: str, observation: Mapping[str, Any]) -> None:
        self.searches.append((tool, query))
        hits = observation.get("hits", ())
        self.barren += all(hit["id"] in self.hits for hit in hits)
        for rank, hit in enumerate(hits, start=1):
            read = _hit_read(self.asked.text, hit["title"], " ".join(hit["people"]), hit["snippet"])
            self._take_hit(hit, read, (len(self.searches), rank))

    def _take_hit(self, hit: Mapping[str, Any], read: tuple[Row, Row, bool], found: tuple[int, int]) -> None:
        title_bits, bits, has_value = read
        known = self.hits.get(hit["id"])
        if known is None:
            text = f"{hit['title']} {' '.join(hit['people'])} {hit['snippet']}"
            self.hits[hit["id"]] = Hit(hit["id"], hit["kind"], hit["date"], title_bits, bits, text, has_value, [found])
            return
        known.bits = np.maximum(known.bits, bits)
        known.text += " " + hit["snippet"]
        known.has_value = known.has_value or has_value
        known.found_by.append(found)


def _title(record: Mapping[str, Any]) -> str:
    return str(record.get("title") or record.get("subject", ""))
