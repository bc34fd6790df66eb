"""Search: BM25 over the records of a workspace, and the snippet that shows why a record was found.

Ranking follows Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), as `rank-bm25`
implements it, with the inverse document frequency of Lucene, ln(1 + (N - n + 0.5) / (n + 0.5)): it is never negative, so
that a word which stands in half of all records still counts for something and never for more than a rarer one.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

import numpy as np
import Stemmer
from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingTypeStubs] - untyped package

from gradient_rl.environment.workspace import Workspace
from gradient_rl.schema.workspace import Email, Record, RecordKind

SNIPPET_WORDS = 32
_SNIPPET_TERMS = 6
_CACHED_TERMS = 4096

# A word, an identifier, an amount or a date: letters and digits, joined by single marks (FV-2291, 12,500.50, 2025-03-03).
_TOKEN = re.compile(r"[^\W_]+(?:[-./,:'_@][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WORD = re.compile(r"\S+")


class _StemsWords(Protocol):
    def stemWord(self, word: str) -> str:  # noqa: N802 - the package's own name
        ...


class SearchIndex(Protocol):
    """What a search engine has to offer. Bring your own for a workspace that does not fit this one."""

    def rank(self, query: str, kinds: Collection[RecordKind], limit: int) -> list[str]:
        """Ids of the best records of these kinds: score above 0, best first, equal scores in the order of their ids."""
        ...

    def snippet(self, record_id: str, query: str) -> str:
        """The part of a record's text that matches the query best, at most `SNIPPET_WORDS` words."""
        ...


class LuceneBM25(BM25Okapi):
    """BM25Okapi with Lucene's inverse document frequency."""

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        self.idf = {term: math.log(1 + (self.corpus_size - count + 0.5) / (count + 0.5)) for term, count in nd.items()}


class BM25Index:
    """A `SearchIndex` in memory, with a term's scores kept once they have been asked for."""

    def __init__(self, workspace: Workspace) -> None:
        records = sorted(workspace.records.values(), key=lambda record: record.id)
        self._ids = [record.id for record in records]
        self._kinds = [record.kind for record in records]
        self._texts = {record.id: _WORD.findall(record.body) for record in records}
        self._bm25 = LuceneBM25([tokenise(searchable_text(record)) for record in records])
        self._idf: dict[str, float] = cast("Any", self._bm25).idf
        self._scores_of_term = lru_cache(_CACHED_TERMS)(self._score_term)
        self._places_in = lru_cache(_CACHED_TERMS)(self._read_places)

    def rank(self, query: str, kinds: Collection[RecordKind], limit: int) -> list[str]:
        """See `SearchIndex.rank`."""
        terms = [term for term in tokenise(query) if term in self._idf]
        if not terms:
            return []
        scores: np.ndarray[Any, np.dtype[np.float64]] = np.sum([self._scores_of_term(term) for term in terms], axis=0)
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        found: list[str] = []
        for position in order:
            if len(found) == limit or scores[position] <= 0:
                break
            if self._kinds[position] in kinds:
                found.append(self._ids[position])
        return found

    def snippet(self, record_id: str, query: str) -> str:
        """See `SearchIndex.snippet`."""
        words = self._texts[record_id]
        if len(words) <= SNIPPET_WORDS:
            return " ".join(words)
        places = self._places_in(record_id)
        found: dict[int, set[str]] = defaultdict(set)
        for term in self._telling_terms(places.keys() & set(tokenise(query))):
            for place in places[term]:
                found[place].add(term)
        start = _best_window(sorted(found.items()), self._idf)
        start = max(0, min(start - SNIPPET_WORDS // 4, len(words) - SNIPPET_WORDS))
        shown = " ".join(words[start : start + SNIPPET_WORDS])
        return f"{'… ' if start else ''}{shown}{' …' if start + SNIPPET_WORDS < len(words) else ''}"

    def _score_term(self, term: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.asarray(cast("Any", self._bm25).get_scores([term]), dtype=np.float64)

    def _telling_terms(self, terms: Collection[str]) -> list[str]:
        """The rarest of these terms, the first in the alphabet among equals: common words would drown them."""
        return sorted(terms, key=lambda term: (-self._idf[term], term))[:_SNIPPET_TERMS]

    def _read_places(self, record_id: str) -> dict[str, list[int]]:
        """Where in a record's words each term stands."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._texts[record_id]):
            for term in set(tokenise(word)):
                places[term].append(place)
        return places


def searchable_text(record: Record) -> str:
    """What a record can be found by: title, date, people and body."""
    people = (record.sender, *record.to, *record.cc) if isinstance(record, Email) else record.people
    return "\n".join((record.title, record.date.isoformat(), *people, record.body))


def tokenise(text: str) -> list[str]:
    """Terms of a text: accents folded, case dropped, plain words stemmed, compounds kept whole and in parts.

    `Océane's FV-2291 costs €12,500.50` gives `ocean`, `fv-2291`, `fv`, `2291`, `cost`, `12500.50`, `12500`.
    """
    terms: list[str] = []
    for token in _TOKEN.findall(fold(text)):
        terms.extend(_terms_of(token))
    return terms


def fold(text: str) -> str:
    """Lower case without accents, typographic apostrophes made plain."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text.replace("’", "'"))
        text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return text.lower()


@lru_cache(65536)
def _terms_of(token: str) -> tuple[str, ...]:
    token = token.removesuffix("'s")
    if token.isalpha():
        return (_stemmer().stemWord(token),)
    if _NUMBER.fullmatch(token):
        return _amount_terms(token.replace(",", ""))
    parts = _PART.findall(token)
    if len(parts) == 1:
        return (token,)
    return (token, *(_stemmer().stemWord(part) if part.isalpha() else part for part in parts))


def _amount_terms(amount: str) -> tuple[str, ...]:
    whole, _, cents = amount.partition(".")
    return (amount, whole) if cents.strip("0") else (whole,)


@lru_cache(1)
def _stemmer() -> _StemsWords:
    return cast("_StemsWords", Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType] - untyped package


def _best_window(matches: Sequence[tuple[int, set[str]]], weights: Mapping[str, float]) -> int:
    """First word of the stretch whose distinct matching terms weigh most; the earliest of equals."""
    best, best_start = -1.0, 0
    for index, (start, _) in enumerate(matches):
        inside: set[str] = set()
        for place, terms in matches[index:]:
            if place >= start + SNIPPET_WORDS * 3 // 4:
                break
            inside |= terms
        weight = sum(weights[term] for term in sorted(inside))
        if weight > best + 1e-12:
            best, best_start = weight, start
    return best_start
