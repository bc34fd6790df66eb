"""The features of a learned policy's decisions: one matrix a decision, one row a candidate, one named column a feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradient_rl.policies.view import MAX_LEADS, SHARE, STATIC, Hit, Row, View

MAX_SAYABLE = 16
"""Sentences that stand for choice. Of the hundred that were read, most are about something else."""
SEARCH_TOOLS = ("search", "search_email", "search_documents")
MOVES = ("search", "open", "submit")


class Kind(StrEnum):
    """The kinds of decisions, each with features of its own."""

    MOVE = "move"
    SEARCH = "search"
    OPEN = "open"
    SAY = "say"
    CITE = "cite"


FEATURES: Mapping[Kind, Mapping[str, str]] = {
    Kind.MOVE: {
        "search": "searching, rather than opening or submitting",
        "search_again": "searching, times the searches made so far, in threes",
        "search_barren": "searching, times the searches that showed nothing new",
        "search_fit": "searching, times the fit of the best sentence read",
        "open": "opening",
        "open_again": "opening, times the records opened so far, in threes",
        "open_promise": "opening, times the overlap of the best unread hit",
        "open_value": "opening, where an unread hit shows a value of the asked kind",
        "open_fit": "opening, times the fit of the best sentence read",
        "submit_fit": "submitting, times the fit of the best sentence read",
        "submit_early": "submitting before anything was opened",
        "submit_late": "submitting with two calls left or fewer",
    },
    Kind.SEARCH: {
        "email": "among e-mails only",
        "documents": "among documents only",
        "fresh_tool": "with a tool not used so far",
        "question": "all words of the question",
        "names": "its names and numbers",
        "plain": "its other words",
        "missing": "its words that no opened record holds",
        "lead": "an identifier or name that was read",
        "lead_missing": "a lead with the missing words",
        "lead_names": "a lead with the names",
        "fit": "overlap of the sentence that gave the lead",
        "words": "number of words, in fives, at most 2",
    },
    Kind.OPEN: {
        "title": "overlap of the title",
        "text": "overlap of title, people and snippets",
        "names": "the same, of names and numbers alone",
        "rank": "one over its best rank in a search",
        "often": "share of the searches that found it",
        "newest_search": "the last search found it",
        "value": "its snippet shows a value of the asked kind",
        "lead": "it names a lead",
        "email": "it is an e-mail",
        "recent": "how recent it is among what was shown, 0 to 1",
        "late": "it was written after the day asked about",
        "uncovered": "overlap in words that no opened record holds",
    },
    Kind.SAY: {
        "fit": "overlap of the sentence, with its table's heading",
        "names": "overlap in names and numbers",
        "near": "overlap with the three sentences before and two after",
        "value": "it gives a value of the asked kind that the question does not",
        "text_asked": "the question asks for no kind of value",
        "past": "words of the past or of plans: was, until, draft",
        "negation": "words such as not, never, none",
        "short": "fewer than four words",
        "row": "a row of a table",
        "heading": "the first row of a table",
        "value_fit": "fit, where it gives such a value",
        "recent": "how recent its record is, 0 to 1",
        "late": "its record was written after the day asked about",
        "email": "it stands in an e-mail",
        "linked": "its record shares an identifier with another opened one",
        "new_words": "overlap in words not yet said",
        "new_value": "it gives a kind of value not yet given",
        "same_record": "its record was quoted already",
        "absent": "saying `not on record`",
        "absent_fit": "saying so, times the best overlap of a sentence",
        "stop": "saying no more",
        "stop_said": "stopping, times the sentences said, in twos",
        "stop_unanswered": "stopping, times the asked kinds without a value",
    },
    Kind.CITE: {
        "said": "it was quoted",
        "first_said": "it was quoted first",
        "record": "overlap of the whole record",
        "title": "overlap of its title",
        "names": "overlap in names and numbers",
        "best": "overlap of its best sentence",
        "value_fit": "the same, of sentences with a value of the asked kind",
        "linked": "it shares an identifier with what was quoted",
        "led": "it gave the lead that found what was quoted",
        "recent": "how recent it is, 0 to 1",
        "late": "it was written after the day asked about",
        "email": "it is an e-mail",
        "absent_title": "overlap of its title, where `not on record` was said",
        "stop": "citing no more",
        "stop_cited": "stopping, times the records cited, in twos",
        "stop_said": "stopping, times the quoted records not yet cited",
    },
}
"""By kind of decision, each column's name and what it measures. Overlaps are with the question, see `view.py`."""


_PLACES = {kind: {name: place for place, name in enumerate(names)} for kind, names in FEATURES.items()}


class Query(NamedTuple):
    """A search that could be made."""

    tool: str
    words: str
    source: str
    fit: float = 0.0


def table(kind: Kind, rows: int, columns: Mapping[str, Row | float]) -> Row:
    """The feature matrix of a decision, shape (rows, features of the kind); a column that is not given is 0."""
    made = np.zeros((rows, len(FEATURES[kind])))
    place = _PLACES[kind]
    for name, column in columns.items():
        made[:, place[name]] = column
    return made


# -- what to do next


def possible_moves(view: View) -> list[str]:
    """What may be done next: there must be something to open, and something new to look for."""
    question = " ".join(view.asked.words)
    fresh = bool(question) and any((tool, question) not in view.searches for tool in SEARCH_TOOLS)
    moves = ["search"] if fresh or view.leads or possible_queries(view) else []
    return [*moves, *(["open"] if view.unread else []), "submit"]


def move_features(view: View, moves: Sequence[str], max_calls: int) -> Row:
    """Features of `possible_moves`."""
    x = {move: np.array([m == move for m in moves], dtype=float) for move in MOVES}
    fit = best_fit(view)
    left = max_calls - view.calls
    promise = max((float(hit.bits @ view.weights) for hit in view.unread), default=0.0)
    columns = {
        "search": x["search"],
        "search_again": x["search"] * len(view.searches) / 3,
        "search_barren": x["search"] * view.barren,
        "search_fit": x["search"] * fit,
        "open": x["open"],
        "open_again": x["open"] * len(view.opened) / 3,
        "open_promise": x["open"] * promise,
        "open_value": x["open"] * any(hit.has_value for hit in view.unread),
        "open_fit": x["open"] * fit,
        "submit_fit": x["submit"] * fit,
        "submit_early": x["submit"] * (not view.opened),
        "submit_late": x["submit"] * (left <= 2),
    }
    return table(Kind.MOVE, len(moves), columns)


def best_fit(view: View) -> float:
    """Fit of the best sentence that was read, with half of it only for one without a value of an asked kind."""
    fits = [(page.bits @ view.weights) * (0.5 + 0.5 * page.static[:, 0]) for page in view.pages.values() if page.sentences]
    return max((float(fit.max()) for fit in fits), default=0.0)


# -- what to search for


def possible_queries(view: View) -> list[Query]:
    """Every search that was not made yet: words of the question and leads that were read, with each of the three tools."""
    words = view.asked.words
    named = [word for word in words if word[0].isupper() or word[0].isdigit()]
    plain = [word for word in words if word not in named]
    seen = {stem for stem, there in zip(view.asked.stems, view.covered, strict=True) if there}
    missing = [word for word, stems in zip(words, view.asked.word_stems, strict=True) if not stems <= seen]
    texts = [("question", words, 0.0), ("names", named, 0.0), ("plain", plain, 0.0)]
    texts += [("missing", missing, 0.0)] if view.opened else []
    for lead, _, fit in view.leads[:MAX_LEADS]:
        texts += [("lead", (lead,), fit), ("lead_missing", (lead, *missing), fit), ("lead_names", (lead, *named), fit)]
    # Of texts that are the same, the first source counts, at the place of the last.
    distinct = {" ".join(parts): (source, fit) for source, parts, fit in reversed(texts) if parts}
    made = set(view.searches)
    return [
        Query(tool, text, source, fit)
        for text, (source, fit) in reversed(distinct.items())
        for tool in SEARCH_TOOLS
        if (tool, text) not in made
    ]


def query_features(view: View, queries: Sequence[Query]) -> Row:
    """Features of `possible_queries`."""
    used = {tool for tool, _ in view.searches}
    sources = {query.source for query in queries}
    columns: dict[str, Row | float] = {
        source: np.array([q.source == source for q in queries], dtype=float) for source in sources
    }
    columns |= {
        "email": np.array([q.tool == "search_email" for q in queries], dtype=float),
        "documents": np.array([q.tool == "search_documents" for q in queries], dtype=float),
        "fresh_tool": np.array([q.tool not in used for q in queries], dtype=float),
        "fit": np.array([q.fit for q in queries]),
        "words": np.array([min(2.0, q.words.count(" ") / 5) for q in queries]),
    }
    return table(Kind.SEARCH, len(queries), columns)


# -- what to open


def hit_features(view: View, hits: Sequence[Hit]) -> Row:
    """Features of the unread hits."""
    bits = np.array([hit.bits for hit in hits])
    leads = [lead for lead, _, _ in view.leads[:6]]
    recency = np.array([view.recency[hit.record_id] for hit in hits])
    searches = len(view.searches)
    columns: dict[str, Row | float] = {
        "title": np.array([hit.title_bits for hit in hits]) @ view.weights,
        "text": bits @ view.weights,
        "names": bits @ view.name_weights,
        "rank": np.array([1.0 / min(rank for _, rank in hit.found_by) for hit in hits]),
        "often": np.array([len(hit.found_by) / searches for hit in hits]),
        "newest_search": np.array([hit.found_by[-1][0] == searches for hit in hits], dtype=float),
        "value": np.array([hit.has_value for hit in hits], dtype=float),
        "lead": np.array([any(lead in hit.text for lead in leads) for hit in hits], dtype=float),
        "recent": np.maximum(recency, 0.0),
        "late": (recency < 0).astype(float),
        "uncovered": bits @ (view.weights * (1.0 - view.covered)),
    }
    columns["email"] = np.array([hit.kind == "email" for hit in hits], dtype=float)
    return table(Kind.OPEN, len(hits), columns)


# -- what to say


class Desk:
    """The sentences of all opened records side by side, for the decisions on what to say and what to cite."""

    def __init__(self, view: View) -> None:
        self.view = view
        pages = {i: page for i, page in view.pages.items() if page.sentences}
        self.records = [i for i, page in pages.items() for _ in page.sentences]
        self.sentences = [text for page in pages.values() for text in page.sentences]
        self.kinds = [kinds for page in pages.values() for kinds in page.kinds]
        width = len(view.asked.stems)
        self.bits = np.concatenate([page.bits for page in pages.values()]) if pages else np.zeros((0, width))
        self.fit = self.bits @ view.weights
        self._static = _sentence_columns(view, pages, self.bits, self.fit) if pages else {}
        counts = np.array([len(page.sentences) for page in pages.values()])
        starts = np.cumsum(counts) - counts
        value_fit = self.fit * self._static.get("value", 0.0)
        self._best_fit = dict(zip(pages, np.maximum.reduceat(self.fit, starts), strict=True)) if pages else {}
        self._best_value = dict(zip(pages, np.maximum.reduceat(value_fit, starts), strict=True)) if pages else {}

    @cached_property
    def shortlist(self) -> list[int]:
        """Places of the sentences that may be said: those that share most with the question, in reading order."""
        if not self.sentences:
            return []
        promise = self._static["fit"] + self._static["near"] + self._static["value_fit"]
        return sorted(int(place) for place in np.argsort(-promise, kind="stable")[:MAX_SAYABLE])

    def say_features(self, said: Sequence[int], open_to_say: Sequence[int], may_stop: bool, may_deny: bool) -> Row:
        """Features of: the sentences `open_to_say`, then `not on record` if it may be said, then stopping if it may be done."""
        chosen = list(open_to_say)
        rows = len(chosen) + may_deny + may_stop
        covered = self.bits[list(said)].max(axis=0) if said else np.zeros(len(self.view.asked.stems))
        answered = {kind for place in said for kind in self.kinds[place]}
        told = {self.records[place] for place in said}
        columns = {name: _padded(column[chosen], rows) for name, column in self._static.items()}
        columns["new_words"] = _padded(self.bits[chosen] @ (self.view.weights * (1.0 - covered)), rows)
        columns["new_value"] = _padded([bool(self.kinds[i] - answered) for i in chosen], rows)
        columns["same_record"] = _padded([self.records[i] in told for i in chosen], rows)
        if may_deny:
            columns |= self._one(rows, len(chosen), absent=1.0, absent_fit=_top(self.fit))
        if may_stop:
            left = len(set(self.view.asked.kinds) - answered)
            columns |= self._one(rows, rows - 1, stop=1.0, stop_said=len(said) / 2, stop_unanswered=float(left))
        return table(Kind.SAY, rows, columns)

    def cite_features(self, said: Sequence[int], denied: bool, cited: Sequence[str], open_to_cite: Sequence[str]) -> Row:
        """Features of: the opened records that could be cited, then stopping."""
        view, ids = self.view, list(open_to_cite)
        rows = len(ids) + 1
        told = [self.records[place] for place in said]
        whole = np.array([view.pages[i].whole_bits for i in ids]).reshape(len(ids), len(view.asked.stems))
        title = np.array([view.pages[i].title_bits for i in ids]).reshape(len(ids), len(view.asked.stems))
        recency = np.array([view.recency[i] for i in ids])
        linked = frozenset[str]().union(*(view.pages[i].identifiers for i in told))
        led = self._led_to(told)
        columns: dict[str, Row | float] = {
            "said": _padded([i in told for i in ids], rows),
            "first_said": _padded([told[:1] == [i] for i in ids], rows),
            "record": _padded(whole @ view.weights, rows),
            "title": _padded(title @ view.weights, rows),
            "names": _padded(whole @ view.name_weights, rows),
            "best": _padded([self._best_fit.get(i, 0.0) for i in ids], rows),
            "value_fit": _padded([self._best_value.get(i, 0.0) for i in ids], rows),
            "email": _padded([view.hits[i].kind == "email" for i in ids], rows),
            "linked": _padded([i not in told and bool(linked & view.pages[i].identifiers) for i in ids], rows),
            "led": _padded([i in led for i in ids], rows),
            "recent": _padded(np.maximum(recency, 0.0), rows),
            "late": _padded((recency < 0).astype(float), rows),
        }
        columns["absent_title"] = columns["title"] * denied
        unsaid = len(set(told) - set(cited))
        columns |= self._one(rows, rows - 1, stop=1.0, stop_cited=len(cited) / 2, stop_said=float(unsaid))
        return table(Kind.CITE, rows, columns)

    def _one(self, rows: int, place: int, **values: float) -> dict[str, Row]:
        columns = {name: np.zeros(rows) for name in values}
        for name, value in values.items():
            columns[name][place] = value
        return columns

    def _led_to(self, told: Sequence[str]) -> set[str]:
        """Records that gave an identifier or name to the query that first found a record of the answer."""
        numbers = {self.view.hits[i].found_by[0][0] for i in told}
        queries = " ".join(self.view.searches[number - 1][1] for number in numbers if number > 1)
        if not queries:
            return set()
        return {i for i, page in self.view.pages.items() if i not in told and any(lead in queries for lead in page.texts)}


def _sentence_columns(view: View, pages: Mapping[str, object], bits: Row, fit: Row) -> dict[str, Row]:
    shown = [view.pages[i] for i in pages]
    static = np.concatenate([page.static for page in shown])
    counts = [len(page.sentences) for page in shown]
    others = {i: frozenset[str]().union(*(p.identifiers for j, p in view.pages.items() if j != i)) for i in pages}

    def spread(values: Sequence[float] | Row) -> Row:
        return np.repeat(np.asarray(values, dtype=float), counts)

    rarity = np.log((len(fit) + 1) / (bits.sum(axis=0) + 0.5))
    rarity *= SHARE / (rarity.sum() or 1.0)
    recency = spread([view.recency[i] for i in pages])
    columns = {name: static[:, place] for place, name in enumerate(STATIC)}
    headed = np.concatenate([page.headed for page in shown]) @ rarity
    return columns | {
        "fit": headed,
        "near": _near(bits, counts) @ rarity,
        "names": bits @ view.name_weights,
        "value_fit": headed * columns["value"],
        "recent": np.maximum(recency, 0.0),
        "late": (recency < 0).astype(float),
        "email": spread([view.hits[i].kind == "email" for i in pages]),
        "linked": spread([bool(view.pages[i].identifiers & others[i]) for i in pages]),
    }


def _near(bits: Row, counts: Sequence[int]) -> Row:
    """Bits of each sentence together with its three neighbours before and two after in the record."""
    record = np.repeat(np.arange(len(counts)), counts)
    near = bits.copy()
    for step in (1, 2, 3):
        same = (record[step:] == record[:-step])[:, None]
        near[step:] = np.maximum(near[step:], bits[:-step] * same)
        if step < 3:
            near[:-step] = np.maximum(near[:-step], bits[step:] * same)
    return near


def _padded(values: Sequence[float] | Sequence[bool] | Row, rows: int) -> Row:
    column = np.zeros(rows)
    column[: len(values)] = values
    return column


def _top(fits: Row) -> float:
    return float(fits.max()) if len(fits) else 0.0
