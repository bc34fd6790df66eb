"""Search: BM25 over the records of a workspace, and the snippet that shows why a record was found.

Ranking follows Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the inverse
document frequency of Lucene, ln(1 + (N - n + 0.5) / (n + 0.5)): it is never negative, so that a word which stands in half of
all records still counts for something and never for more than a rarer one. The tests hold the scores against those of the
package rank-bm25, which keeps a dictionary for every record and so does not carry a workspace of 100,000.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, cast

import numpy as np
import Stemmer

from gradient_rl.environment.workspace import Workspace
from gradient_rl.schema.workspace import Email, Record, RecordKind

SNIPPET_WORDS = 32
_SNIPPET_TERMS = 6
_CACHED = 4096
K1, B = 1.5, 0.75
"""How soon a term's repetitions stop counting, and how much a long record is discounted."""
IntArray = np.ndarray[Any, np.dtype[np.uint32]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

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


class BM25Index:
    """A `SearchIndex` in memory: for each term, the records in which it stands and how often.

    The texts are read from the workspace when a snippet is made; they are not kept a second time.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._records = workspace.records
        self._ids = sorted(workspace.records)
        self._kinds: list[RecordKind] = []
        self._docs: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._rarities: dict[str, float] = {}
        lengths = [self._add(place, workspace.records[record_id]) for place, record_id in enumerate(self._ids)]
        self._lengths = np.asarray(lengths, dtype=np.float64)
        self._mean_length = sum(lengths) / max(1, len(lengths))
        self._weights_of = lru_cache(_CACHED)(self._weigh)
        self._words_of = lru_cache(_CACHED)(self._read_words)
        self._places_in = lru_cache(_CACHED)(self._read_places)

    def _add(self, place: int, record: Record) -> int:
        """Enter a record, and give its length in terms."""
        terms = tokenise(searchable_text(record))
        for term, count in Counter(terms).items():
            self._docs.setdefault(term, array("I")).append(place)
            self._counts.setdefault(term, array("I")).append(count)
        self._kinds.append(record.kind)
        return len(terms)

    def rarity(self, term: str) -> float:
        """Lucene's inverse document frequency of a term; the highest for one that stands nowhere."""
        if term not in self._docs:
            return math.log(2 * len(self._ids) + 2)
        if term not in self._rarities:
            found = len(self._docs[term])
            self._rarities[term] = math.log(1 + (len(self._ids) - found + 0.5) / (found + 0.5))
        return self._rarities[term]

    def rank(self, query: str, kinds: Collection[RecordKind], limit: int) -> list[str]:
        """See `SearchIndex.rank`."""
        weighed = [self._weights_of(term) for term in tokenise(query) if term in self._docs]
        if not weighed:
            return []
        docs, weights = (np.concatenate(arrays) for arrays in zip(*weighed, strict=True))
        scores = np.bincount(docs, weights)
        matching = np.flatnonzero(scores)
        best: list[int] = matching[np.argsort(-scores[matching], kind="stable")].tolist()
        return list(islice((self._ids[place] for place in best if self._kinds[place] in kinds), limit))

    def snippet(self, record_id: str, query: str) -> str:
        """See `SearchIndex.snippet`."""
        words = self._words_of(record_id)
        if len(words) <= SNIPPET_WORDS:
            return " ".join(words)
        places = self._places_in(record_id)
        found: dict[int, set[str]] = defaultdict(set)
        telling = self._telling_terms(places.keys() & set(tokenise(query)))
        for term in telling:
            for place in places[term]:
                found[place].add(term)
        start = _best_window(sorted(found.items()), telling)
        start = max(0, min(start - SNIPPET_WORDS // 4, len(words) - SNIPPET_WORDS))
        shown = " ".join(words[start : start + SNIPPET_WORDS])
        return f"{'… ' if start else ''}{shown}{' …' if start + SNIPPET_WORDS < len(words) else ''}"

    def _weigh(self, term: str) -> tuple[IntArray, FloatArray]:
        """The records of a term, and what it is worth in each."""
        docs = np.frombuffer(self._docs[term], dtype=np.uint32)
        counts = np.frombuffer(self._counts[term], dtype=np.uint32).astype(np.float64)
        norms = K1 * (1 - B + B * self._lengths[docs] / self._mean_length)
        return docs, self.rarity(term) * (counts * (K1 + 1) / (counts + norms))

    def _read_words(self, record_id: str) -> list[str]:
        return _WORD.findall(self._records[record_id].body)

    def _telling_terms(self, terms: Collection[str]) -> dict[str, float]:
        """The rarest of these terms with their rarity, equals by the alphabet: common words would drown them."""
        rarities = sorted((-self.rarity(term), term) for term in terms)
        return {term: -rarity for rarity, term in rarities[:_SNIPPET_TERMS]}

    def _read_places(self, record_id: str) -> dict[str, list[int]]:
        """Where in a record's words each term stands."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words_of(record_id)):
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
