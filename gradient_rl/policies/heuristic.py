"""The heuristic policy: a research strategy on words alone, written by hand.

It searches with the question, opens the hit that shares most with it, follows what it read (contract numbers, names) with
further searches, and answers each part of the question with the value of the kind that was asked for, from the sentence that
fits best. A newer record wins over an older one, unless the question is about a past day. It cites what it used. It knows
nothing of the workspace, of tasks or of rewards.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import fsum
from typing import Any, NamedTuple

from gradient_rl.policies.base import Message, Reply, calls_in, observations_in, one_call, question_in
from gradient_rl.policies.reading import (
    Asked,
    Sentence,
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

MAX_SEARCHES = 3
OPENED_AFTER = (0, 1, 3, 4)
"""How many records may be open after so many searches: leads are followed before everything else is read."""
_ENOUGH = 0.62
"""Fit of the best sentence from which the search may end."""
_FITS = 0.30
"""Fit below which a sentence is not taken for an answer at all."""
_AMENDS = 0.45
"""Share of the best fit from which the value of a newer record about the same contract or ticket is preferred."""
_SUPPORTS = 0.6
"""Share of the best record's fit from which another opened record is cited as well."""
_TOTAL_WORDS = frozenset("total altogether overall combined sum adding all".split())
_MAX_QUOTED_WORDS = 45


class Candidate(NamedTuple):
    """A value that may be the answer, and how well its sentence and record fit the question."""

    fit: float
    date: str
    record_id: str
    value: str
    sentence: str


class Notes:
    """What the conversation has shown so far."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.question = question_in(messages)
        self.queries: list[str] = []
        self.hits: dict[str, dict[str, Any]] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        self.found_by: dict[str, int] = {}
        """Number of the search that first showed a record."""
        for (tool, arguments), observation in zip(calls_in(messages), observations_in(messages), strict=False):
            if tool.startswith("search"):
                self._take_hits(str(arguments.get("query", "")), observation)
            elif "body" in observation:
                self.opened[observation["id"]] = observation

    @cached_property
    def weights(self) -> dict[str, float]:
        """The question's stems; a stem that most hits share tells little."""
        asked = stems_of(self.question)
        counts = Counter(stem for hit in self.hits.values() for stem in asked & stems_of(_hit_text(hit)))
        return {stem: 1.0 / (1.0 + counts[stem]) for stem in sorted(asked)}

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights, never 0."""
        return fsum(self.weights.values()) or 1.0

    @cached_property
    def leads(self) -> list[str]:
        """Identifiers and names from the opened records, those of the sentences that fit the question first."""
        scored: dict[str, float] = {}
        for record in self.opened.values():
            for stems, leads in _sentences_with_leads(_record_text(record)):
                fit = self.overlap(stems)
                for lead, bonus in leads:
                    scored[lead] = max(scored.get(lead, 0.0), fit + bonus)
        unasked = [lead for lead in scored if lead not in self.question]
        return sorted(unasked, key=lambda lead: (-scored[lead], lead))

    def candidates(self, facet: str) -> list[Candidate]:
        """See `candidates_in`; computed once."""
        if facet not in self._candidates:
            self._candidates[facet] = candidates_in(self, facet)
        return self._candidates[facet]

    def overlap(self, stems: frozenset[str]) -> float:
        """Share of the question's weight that these stems cover, in [0, 1]."""
        return _share(self.weights, stems) / self.total_weight

    def whole_fit(self, record: dict[str, Any]) -> float:
        """How much of the question a record as a whole covers."""
        return self.overlap(stems_of(_record_text(record)))

    def _take_hits(self, query: str, observation: dict[str, Any]) -> None:
        self.queries.append(query)
        for hit in observation.get("hits", ()):
            self.hits.setdefault(hit["id"], hit)
            self.found_by.setdefault(hit["id"], len(self.queries))


class HeuristicPolicy:
    """See the module. At a temperature above 0 it opens hits and takes leads in a noisier order."""

    name = "heuristic"

    def __init__(self, temperature: float = 0.0) -> None:
        self._noise = max(temperature, 0.0) * 0.3

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        notes = Notes(messages)
        if not notes.queries:
            return one_call(messages, "search", query=" ".join(content_words(notes.question)))
        step = self._open_next(notes, messages, rng)
        if step is None and not _covered(notes):
            step = self._search_next(notes, messages, rng)
        return step or _submit(notes, messages)

    def _open_next(self, notes: Notes, messages: Sequence[Message], rng: random.Random) -> Reply | None:
        """Open the unread hit that promises most, as far as the plan allows before the next search."""
        unread = [hit for record_id, hit in notes.hits.items() if record_id not in notes.opened]
        if not unread or len(notes.opened) >= OPENED_AFTER[len(notes.queries)]:
            return None
        leads, kinds = notes.leads[:6], {asked_kind(facet) for facet in facets_of(notes.question)}
        best = max(unread, key=lambda hit: _promise(notes, hit, leads, kinds) + self._noise * rng.random())
        return one_call(messages, "open_email" if best["kind"] == "email" else "open_document", id=best["id"])

    def _search_next(self, notes: Notes, messages: Sequence[Message], rng: random.Random) -> Reply | None:
        """Follow what was read last, with the words of the question that no open record has covered."""
        if len(notes.queries) >= MAX_SEARCHES:
            return None
        leads = [lead for lead in notes.leads if not any(lead in query for query in notes.queries)]
        covered = frozenset[str]().union(*(stems_of(_record_text(record)) for record in notes.opened.values()))
        missing = [word for word in content_words(notes.question) if not stems_of(word) <= covered]
        named = [word for word in content_words(notes.question) if word[0].isupper() or word[0].isdigit()][:4]
        words = [*leads[: 2 + round(self._noise * 3 * rng.random())], *named, *missing[:5]]
        query = " ".join(dict.fromkeys(words or list(content_words(notes.question))[:3]))
        read_mail = {record["kind"] == "email" for record in notes.opened.values()}
        tool = {(True,): "search_documents", (False,): "search_email"}.get(tuple(read_mail), "search")
        return one_call(messages, tool, query=query)


def _promise(notes: Notes, hit: dict[str, Any], leads: Sequence[str], kinds: set[Asked]) -> float:
    """How much a hit promises: what it shares with the question, a value of an asked kind, a lead that was read."""
    text = _hit_text(hit)
    newest_search = notes.found_by[hit["id"]] == len(notes.queries)
    has_value = any(_values_cached(str(hit["snippet"]), kind) for kind in kinds)
    named = any(lead in text for lead in leads)
    return notes.overlap(stems_of(text)) + 0.1 * newest_search + 0.1 * has_value + 0.15 * named


def candidates_in(notes: Notes, facet: str) -> list[Candidate]:
    """Every value of the kind that a facet asks for, in the opened records, with how well it fits."""
    found: list[Candidate] = []
    kind, weights, timely = asked_kind(facet), _facet_weights(notes, facet), _timeliness(notes)
    for record_id, record in notes.opened.items():
        base, day = 0.25 * notes.whole_fit(record) + timely[record_id], _day(record)
        for before, sentence, values in _sentences_with_values(str(record["body"]), kind):
            unasked = [value for value in values if value not in notes.question]
            if unasked:
                fit = base + 0.55 * _share(weights, sentence.stems) + 0.2 * notes.overlap(before)
                found += [Candidate(fit, day, record_id, value, sentence.text) for value in unasked]
    return found


def _facet_weights(notes: Notes, facet: str) -> dict[str, float]:
    """Weights of the question's stems that add up to 1; words of the question's other parts count half."""
    about = stems_of(facet)
    weights = {stem: weight if stem in about else weight / 2 for stem, weight in notes.weights.items()}
    total = sum(weights.values()) or 1.0
    return {stem: weight / total for stem, weight in weights.items()}


def _share(weights: dict[str, float], stems: frozenset[str]) -> float:
    shared = weights.keys() & stems
    return fsum(map(weights.__getitem__, shared)) if shared else 0.0  # exact, so that the order of a set does not matter


@lru_cache(4096)
def _sentences_with_values(body: str, kind: Asked) -> tuple[tuple[frozenset[str], Sentence, tuple[str, ...]], ...]:
    """The sentences that hold a value of a kind, each with the stems of the one before it and its values."""
    sentences = sentences_of(body)
    before = (frozenset[str](), *(sentence.stems for sentence in sentences))
    values = [(s.text,) if kind is Asked.TEXT else _values_cached(s.text, kind) for s in sentences]
    return tuple(row for row in zip(before, sentences, values, strict=False) if row[2])


@lru_cache(16384)
def _values_cached(text: str, kind: Asked) -> tuple[str, ...]:
    return tuple(values_in(text, kind))


def _timeliness(notes: Notes) -> dict[str, float]:
    """By opened record: a newer one wins among equals; about a past day, one that was not yet written cannot."""
    asked_day = day_asked_about(notes.question) or "9999"
    days = {record_id: _day(record) for record_id, record in notes.opened.items()}
    in_time = sorted(day for day in days.values() if day <= asked_day)
    step = 0.06 / max(1, len(in_time) - 1)
    return {i: -0.05 if day > asked_day else step * in_time.index(day) for i, day in days.items()}


def _covered(notes: Notes) -> bool:
    """Whether every part of the question has an answer that fits well, after a second search."""
    if len(notes.queries) < 2:
        return False
    bests = [max(notes.candidates(facet), default=None) for facet in facets_of(notes.question)]
    return all(best is not None and best.fit >= _ENOUGH for best in bests)


def _submit(notes: Notes, messages: Sequence[Message]) -> Reply:
    bests: list[Candidate] = []
    for facet in facets_of(notes.question):
        fitting = [candidate for candidate in notes.candidates(facet) if candidate.fit >= _FITS]
        if fitting and asked_kind(facet) is Asked.MONEY and _TOTAL_WORDS & set(facet.lower().split()):
            return _submit_total(fitting, messages)
        bests += [_in_force(fitting, notes)] if fitting else []
    if not bests:
        closest = max(notes.opened.values(), key=notes.whole_fit, default=None)
        return one_call(messages, "submit_answer", answer="This is not on record.", sources=[closest["id"]] if closest else [])
    answer = " ".join(dict.fromkeys(_worded(best) for best in bests))
    return one_call(messages, "submit_answer", answer=answer, sources=_cited(notes, bests))


def _in_force(fitting: list[Candidate], notes: Notes) -> Candidate:
    """The best candidate, or the newest that amends it: a later record that names the same contract or ticket.

    A question about a past day is answered by what had been written by then.
    """
    asked_day = day_asked_about(notes.question) or "9999"
    in_time = [candidate for candidate in fitting if candidate.date <= asked_day] or fitting
    best = max(in_time)
    about = _identifiers(notes, best)
    amending = [c for c in in_time if c.date > best.date and c.fit >= _AMENDS * best.fit and about & _identifiers(notes, c)]
    return max(amending, key=lambda c: (c.date, c.fit), default=best)


def _identifiers(notes: Notes, candidate: Candidate) -> set[str]:
    return set(identifiers_in(_record_text(notes.opened[candidate.record_id])))


def _submit_total(fitting: list[Candidate], messages: Sequence[Message]) -> Reply:
    """Add the best value of each record: what a total over several records asks for."""
    by_record = {candidate.record_id: candidate for candidate in sorted(fitting)}
    amounts = [_amount(candidate.value) for candidate in by_record.values()]
    currency = next(iter(by_record.values())).value.strip("0123456789., k") or "EUR"
    answer = f"{currency} {sum(amounts):,.2f} in all."
    return one_call(messages, "submit_answer", answer=answer, sources=list(by_record))


def _amount(value: str) -> float:
    digits = "".join(c for c in value if c.isdigit() or c == ".").strip(".")
    return float(digits) if digits.count(".") <= 1 and digits else 0.0


def _worded(best: Candidate) -> str:
    """The sentence itself where it is short and gives one value; else the value alone."""
    words = best.sentence.split()
    if best.value == best.sentence:
        return " ".join(words[:_MAX_QUOTED_WORDS])
    others = [values_in(best.sentence, kind) for kind in Asked if best.value in values_in(best.sentence, kind)]
    alone = all(len(values) <= 1 for values in others)
    return best.sentence if alone and len(words) <= _MAX_QUOTED_WORDS else f"{best.value}."


def _cited(notes: Notes, bests: list[Candidate]) -> list[str]:
    """The records of the answer, the one whose lead found them, and the next best if it fits nearly as well."""
    cited = list(dict.fromkeys(best.record_id for best in bests))
    cited += [stone for best in bests for stone in _stepping_stone(notes, best) if stone not in cited]
    if len(cited) > 1:
        return cited
    fits = {record_id: 0.5 * notes.whole_fit(record) for record_id, record in notes.opened.items()}
    for facet in facets_of(notes.question):
        for candidate in notes.candidates(facet):
            fits[candidate.record_id] = max(fits[candidate.record_id], candidate.fit)
    next_best = max((record_id for record_id in fits if record_id not in cited), key=lambda r: fits[r], default=None)
    if next_best is not None and fits[next_best] >= _SUPPORTS * fits[cited[0]]:
        cited.append(next_best)
    return cited


def _stepping_stone(notes: Notes, best: Candidate) -> list[str]:
    """The opened record whose identifier was in the query that first showed the record of the answer."""
    number = notes.found_by.get(best.record_id, 1)
    if number == 1:
        return []
    query = notes.queries[number - 1]
    earlier = [r for r in notes.opened.values() if r["id"] != best.record_id and notes.found_by.get(r["id"], 1) < number]
    return [r["id"] for r in earlier if any(lead in query for lead in identifiers_in(_record_text(r)))][:1]


@lru_cache(4096)
def _sentences_with_leads(text: str) -> tuple[tuple[frozenset[str], tuple[tuple[str, float], ...]], ...]:
    """Stems and leads of the sentences that hold any; an identifier is a better lead than a name."""
    found: list[tuple[frozenset[str], tuple[tuple[str, float], ...]]] = []
    for sentence in sentences_of(text):
        leads = [(lead, 0.1) for lead in identifiers_in(sentence.text)] + [(lead, 0.0) for lead in names_in(sentence.text)]
        if leads:
            found.append((sentence.stems, tuple(leads)))
    return tuple(found)


def _hit_text(hit: dict[str, Any]) -> str:
    return f"{hit['title']} {' '.join(hit['people'])} {hit['snippet']}"


def _record_text(record: dict[str, Any]) -> str:
    return f"{record.get('title') or record.get('subject', '')}\n{record['body']}"


def _day(record: dict[str, Any]) -> str:
    return str(record.get("date") or record.get("sent_at", ""))[:10]
