"""The heuristic policy: a research strategy on words alone, written by hand.

It searches with the question, opens the hit that shares most with it, follows what it read (contract numbers, names) with
further searches, looks for something newer, and answers with the value of the kind that was asked for from the sentence that
fits best. A newer record wins over an older one, unless the question is about a past day. It cites what it used. It knows
nothing of the workspace, of tasks or of rewards.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gradient_rl.policies.base import Message, Reply, observations_in, one_call, question_in
from gradient_rl.policies.reading import (
    Asked,
    Sentence,
    asked_kind,
    content_words,
    day_asked_about,
    identifiers_in,
    names_in,
    sentences_of,
    stems_of,
    values_in,
)

MAX_OPENED = 4
MAX_SEARCHES = 4
_ENOUGH = 0.55
"""Share of the question's weight that the best sentence and its record must cover before the search may end."""
_FITS = 0.20
"""Share below which a sentence is not taken for an answer at all."""
_TOTAL_WORDS = frozenset("total altogether overall combined sum".split())
_MAX_QUOTED_WORDS = 45


class Candidate(NamedTuple):
    """A value that may be the answer, and how well its sentence and record fit the question."""

    fit: float
    date: str
    record_id: str
    value: str
    sentence: str


@dataclass
class Notes:
    """What the conversation has shown so far."""

    question: str
    observations: list[dict[str, Any]]
    calls: list[tuple[str, dict[str, Any]]]
    queries: list[str] = field(default_factory=list[str])
    hits: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    opened: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    found_by: dict[str, int] = field(default_factory=dict[str, int])
    """Number of the search that first showed a record."""

    def __post_init__(self) -> None:
        for (tool, arguments), observation in zip(self.calls, self.observations, strict=False):
            if tool.startswith("search"):
                self.queries.append(str(arguments.get("query", "")))
                for hit in observation.get("hits", ()):
                    self.hits.setdefault(hit["id"], hit)
                    self.found_by.setdefault(hit["id"], len(self.queries))
            elif "body" in observation:
                self.opened[observation["id"]] = observation

    @cached_property
    def asked(self) -> Asked:
        """The kind of value that is asked for."""
        return asked_kind(self.question)

    @cached_property
    def weights(self) -> dict[str, float]:
        """The question's stems; a stem that most hits share tells little."""
        texts = [stems_of(_hit_text(hit)) for hit in self.hits.values()]
        return {stem: 1.0 / (1.0 + sum(stem in text for text in texts)) ** 0.5 for stem in stems_of(self.question)}

    def overlap(self, stems: frozenset[str]) -> float:
        """Share of the question's weight that these stems cover, in [0, 1]."""
        total = sum(self.weights.values())
        return sum(weight for stem, weight in self.weights.items() if stem in stems) / total if total else 0.0


class HeuristicPolicy:
    """See the module. At a temperature above 0 it opens hits and takes leads in a noisier order."""

    name = "heuristic"

    def __init__(self, temperature: float = 0.0) -> None:
        self._noise = max(temperature, 0.0) * 0.3

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        notes = Notes(question_in(messages), observations_in(messages), _calls_in(messages))
        if not notes.queries:
            return one_call(messages, "search", query=" ".join(content_words(notes.question)))
        candidates = candidates_in(notes)
        best = max(candidates, default=None)
        covered = best is not None and best.fit >= _ENOUGH and len(notes.queries) > 1
        if not covered:
            step = self._open_next(notes, messages, rng) or self._search_next(notes, messages, rng)
            if step is not None:
                return step
        return _submit(notes, candidates, messages)

    def _open_next(self, notes: Notes, messages: Sequence[Message], rng: random.Random) -> Reply | None:
        """Open the unread hit that fits best: at most one or two for each search, so that leads are followed early."""
        if len(notes.opened) >= min(MAX_OPENED, len(notes.queries) + 1):
            return None
        leads = set(_leads(notes))
        unread = [hit for record_id, hit in notes.hits.items() if record_id not in notes.opened]
        if not unread:
            return None
        best = max(unread, key=lambda hit: self._promise(notes, hit, leads) + self._noise * rng.random())
        return one_call(messages, "open_email" if best["kind"] == "email" else "open_document", id=best["id"])

    def _promise(self, notes: Notes, hit: dict[str, Any], leads: set[str]) -> float:
        text = _hit_text(hit)
        newest_search = notes.found_by[hit["id"]] == len(notes.queries)
        has_value = bool(values_in(str(hit["snippet"]), notes.asked))
        named = any(lead in text for lead in leads)
        return notes.overlap(stems_of(text)) + 0.15 * newest_search + 0.1 * has_value + 0.1 * named

    def _search_next(self, notes: Notes, messages: Sequence[Message], rng: random.Random) -> Reply | None:
        """Follow a lead: what was read last, together with the words of the question that no open record has covered."""
        if len(notes.queries) >= MAX_SEARCHES:
            return None
        leads = [lead for lead in _leads(notes) if not any(lead in query for query in notes.queries)]
        covered = frozenset[str]().union(*(stems_of(_record_text(record)) for record in notes.opened.values()))
        missing = [word for word in content_words(notes.question) if not stems_of(word) <= covered]
        words = [*leads[: 2 + round(self._noise * 3 * rng.random())], *missing][:8]
        if not words:
            words = list(content_words(notes.question))[:3]
        query = " ".join(dict.fromkeys(words))
        if query in notes.queries:
            return None
        opened_kinds = {record["kind"] == "email" for record in notes.opened.values()}
        tool = {(True,): "search_documents", (False,): "search_email"}.get(tuple(opened_kinds), "search")
        return one_call(messages, tool, query=query)


def candidates_in(notes: Notes) -> list[Candidate]:
    """Every value of the asked kind in the opened records, with how well its sentence and its record fit."""
    found: list[Candidate] = []
    for record in notes.opened.values():
        whole = notes.overlap(stems_of(_record_text(record)))
        sentences = sentences_of(str(record["body"]))
        for place, sentence in enumerate(sentences):
            around = sentences[place - 1].stems if place else frozenset[str]()
            fit = 0.6 * notes.overlap(sentence.stems) + 0.1 * notes.overlap(around) + 0.3 * whole
            fit += _timeliness(record, notes)
            values = _answers_in(sentence, notes)
            found += [Candidate(fit, _day(record), record["id"], value, sentence.text) for value in values]
    return found


def _answers_in(sentence: Sentence, notes: Notes) -> list[str]:
    if notes.asked is Asked.TEXT:
        return [sentence.text]
    values = values_in(sentence.text, notes.asked)
    return [value for value in values if value not in notes.question]


def _timeliness(record: dict[str, Any], notes: Notes) -> float:
    """A newer record wins among equals; about a past day, one that was not yet written cannot."""
    asked_day = day_asked_about(notes.question)
    if asked_day and _day(record) > asked_day:
        return -0.15
    days = sorted(_day(other) for other in notes.opened.values() if not asked_day or _day(other) <= asked_day)
    return 0.08 * days.index(_day(record)) / max(1, len(days) - 1)


def _submit(notes: Notes, candidates: list[Candidate], messages: Sequence[Message]) -> Reply:
    fitting = [candidate for candidate in candidates if candidate.fit >= _FITS]
    if not fitting:
        closest = max(notes.opened.values(), key=lambda r: notes.overlap(stems_of(_record_text(r))), default=None)
        sources = [closest["id"]] if closest else []
        return one_call(messages, "submit_answer", answer="This is not on record.", sources=sources)
    best = max(fitting)
    if notes.asked is Asked.MONEY and _TOTAL_WORDS & set(notes.question.lower().replace("?", "").split()):
        return _submit_total(notes, fitting, messages)
    sources = [best.record_id, *_stepping_stones(notes, best)]
    return one_call(messages, "submit_answer", answer=_worded(best, notes), sources=sources)


def _submit_total(notes: Notes, fitting: list[Candidate], messages: Sequence[Message]) -> Reply:
    """Add the best value of each record: what a total over several records asks for."""
    by_record: dict[str, Candidate] = {}
    for candidate in sorted(fitting):
        by_record[candidate.record_id] = candidate
    amounts = [float("".join(c for c in candidate.value if c.isdigit() or c == ".") or 0) for candidate in by_record.values()]
    currency = next(iter(by_record.values())).value.strip("0123456789., k") or "EUR"
    answer = f"{currency} {sum(amounts):,.2f} in all."
    return one_call(messages, "submit_answer", answer=answer, sources=list(by_record))


def _worded(best: Candidate, notes: Notes) -> str:
    """The sentence itself where it is short and gives one value; else the value alone."""
    alone = len(values_in(best.sentence, notes.asked)) <= 1
    if alone and len(best.sentence.split()) <= _MAX_QUOTED_WORDS:
        return best.sentence
    return best.value if notes.asked is not Asked.TEXT else " ".join(best.sentence.split()[:_MAX_QUOTED_WORDS])


def _stepping_stones(notes: Notes, best: Candidate) -> list[str]:
    """Opened records whose leads found the record that answers: it was shown by a search that quotes them."""
    number = notes.found_by.get(best.record_id, 1)
    if number == 1:
        return []
    query = notes.queries[number - 1]
    earlier = [r for r in notes.opened.values() if r["id"] != best.record_id and notes.found_by.get(r["id"], 1) < number]
    return [r["id"] for r in earlier if any(lead in query for lead in identifiers_in(_record_text(r)))][:1]


def _leads(notes: Notes) -> list[str]:
    """Contract numbers and names from the opened records, from the sentences that fit the question first."""
    scored: dict[str, float] = {}
    for record in notes.opened.values():
        for sentence in sentences_of(_record_text(record)):
            fit = notes.overlap(sentence.stems)
            for lead in (*identifiers_in(sentence.text), *names_in(sentence.text)):
                if lead not in notes.question and "Fennelly Voss" not in lead:
                    scored[lead] = max(scored.get(lead, 0.0), fit + 0.1 * lead[-1].isdigit())
    return sorted(scored, key=lambda lead: (-scored[lead], lead))


def _calls_in(messages: Sequence[Message]) -> list[tuple[str, dict[str, Any]]]:
    calls = [call["function"] for m in messages for call in m.get("tool_calls", ())]
    return [(call["name"], json.loads(call["arguments"])) for call in calls]


def _hit_text(hit: dict[str, Any]) -> str:
    return f"{hit['title']} {' '.join(hit['people'])} {hit['snippet']}"


def _record_text(record: dict[str, Any]) -> str:
    return f"{record.get('title') or record.get('subject', '')}\n{record['body']}"


def _day(record: dict[str, Any]) -> str:
    return str(record.get("date") or record.get("sent_at", ""))[:10]
