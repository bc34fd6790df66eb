"""Finding the calls of a reference: search with words that are known by then, open what is needed, submit.

The queries are chosen as somebody would who knows which record is wanted: of the words that have been shown so far, those that
stand in the record and in few others. The reference uses nothing else of that knowledge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from gradient_rl.environment.episode import Episode, Limits
from gradient_rl.environment.search import BM25Index, searchable_text, tokenise
from gradient_rl.environment.tools import DOCUMENTS, EMAILS, EVERYTHING, MAX_HITS
from gradient_rl.environment.workspace import Workspace
from gradient_rl.policies.reading import content_words
from gradient_rl.schema.task import Question
from gradient_rl.schema.trajectory import ToolCall
from gradient_rl.schema.workspace import Email, RecordKind
from gradient_rl.worlds.drafts import Draft
from gradient_rl.worlds.entities import AS_OF

if TYPE_CHECKING:
    from pydantic import JsonValue

_QUERY_WORDS = (3, 4, 6, 8)
_WORD = re.compile(r"[^\s\"{}\[\]|>:;,!?()]+")


class Librarian:
    """Knows what stands in each record, and how rare each term is."""

    def __init__(self, workspace: Workspace, index: BM25Index) -> None:
        self.workspace, self.index = workspace, index
        self.terms_of = lru_cache(4096)(self._terms_of)

    def _terms_of(self, record_id: str) -> frozenset[str]:
        return frozenset(tokenise(searchable_text(self.workspace.records[record_id])))


@dataclass
class _Session:
    """An episode as the reference plays it, with the words that it has shown."""

    librarian: Librarian
    episode: Episode
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    shown: set[str] = field(default_factory=set[str])
    words: dict[str, str] = field(default_factory=dict[str, str])
    """A surface form for each term, the one that was shown last."""

    def call(self, tool: str, **arguments: JsonValue) -> None:
        """Run a call and learn from what it shows."""
        call = ToolCall(tool=tool, arguments=arguments)
        observation = self.episode.call(call)
        self.calls.append(call)
        self.shown.update(observation.ids)
        self.learn(" ".join(_texts(observation.text)))

    def learn(self, text: str) -> None:
        """Note the words of a text; part of an amount such as `17,750` is not one."""
        shown = set(tokenise(text))
        for match in _WORD.finditer(text):
            surface = match[0].strip(".'-…*_")
            self.words.update((term, surface) for term in tokenise(surface) if term in shown)

    def reach(self, target: str) -> bool:
        """Search until the record is among the hits; nothing is searched when it has been shown already."""
        if target in self.shown:
            return True
        for query in self._queries(target):
            for tool, kinds in self._scopes(target):
                if target in self.librarian.index.rank(query, kinds, MAX_HITS):
                    self.call(tool, query=query)
                    return True
        return False

    def _scopes(self, target: str) -> tuple[tuple[str, frozenset[RecordKind]], ...]:
        if isinstance(self.librarian.workspace.records[target], Email):
            return ("search", EVERYTHING), ("search_email", EMAILS)
        return ("search", EVERYTHING), ("search_documents", DOCUMENTS)

    def _queries(self, target: str) -> Iterator[str]:
        """Queries for a record from known words, the rarest first, in the order in which they are usually written."""
        terms = [term for term in self.words if term in self.librarian.terms_of(target)]
        terms.sort(key=lambda term: (-self.librarian.index.rarity(term), term))
        surfaces = list(dict.fromkeys(self.words[term] for term in terms))
        surfaces = [s for s in surfaces if content_words(s) and all(term in self.words for term in tokenise(s))]
        for count in _QUERY_WORDS:
            if surfaces:
                yield " ".join(surfaces[:count])


def plan_reference(draft: Draft, librarian: Librarian) -> tuple[ToolCall, ...] | None:
    """Calls that open every required record and submit the answer; None if a record cannot be found in this way.

    The records are opened in the order of the draft; the customer record goes first when nothing else leads there.
    """
    required = [slot[0] for slot in draft.required]
    for order in (required, [*draft.guides, *required], required[::-1]):
        calls = _played(order, draft, librarian)
        if calls:
            return calls
    return None


def _played(order: Sequence[str], draft: Draft, librarian: Librarian) -> tuple[ToolCall, ...] | None:
    question = Question(id="draft", text=draft.question, as_of=AS_OF)
    session = _Session(librarian, Episode(question, librarian.workspace, librarian.index, Limits()))
    session.learn(draft.question)
    for record_id in order:
        if not session.reach(record_id):
            return None
        is_mail = isinstance(librarian.workspace.records[record_id], Email)
        session.call("open_email" if is_mail else "open_document", id=record_id)
    sources: list[JsonValue] = [slot[0] for slot in draft.required]
    submit = ToolCall(tool="submit_answer", arguments={"answer": draft.answer, "sources": sources})
    return (*session.calls, submit)


def _texts(observation: str) -> Iterator[str]:
    try:
        value: object = json.loads(observation)
    except ValueError:
        yield observation
        return
    yield from _strings(value)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(item)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(item)  # pyright: ignore[reportUnknownArgumentType]
