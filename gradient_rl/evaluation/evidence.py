"""Evidence: where in the records a value stands, and about what."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from gradient_rl.environment.workspace import Workspace
from gradient_rl.rewards.facts import READ_KINDS, mentions_of_value
from gradient_rl.rewards.values import key_of, mentions_of, plain_text
from gradient_rl.schema.task import Fact, FactKind
from gradient_rl.schema.workspace import Record

_WORD = re.compile(r"[a-z0-9]+")
_LEGAL_FORM = re.compile(r",? (?:ltd|limited|bv|b\.v|ab|gmbh|inc|sa|s\.a|nv|n\.v|plc|co|company)\.?$")
_CHANGING = frozenset({"and", "st", "saint", "the", "a", "an"})
"""Words that a form of a name may write otherwise or leave out."""


@dataclass(frozen=True)
class Passages:
    """A record cut into paragraphs and table rows, in plain text."""

    record: Record

    @cached_property
    def title(self) -> str:
        """The title or subject line."""
        return plain_text(self.record.title)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Paragraphs, and each row of a table by itself."""
        return tuple(plain_text(part) for part in _parts_of(self.record.body))

    @cached_property
    def text(self) -> str:
        """Everything, in plain text."""
        return "\n".join((self.title, *self.parts))


class Evidence:
    """Looks values and subjects up in all records of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._passages = {record_id: Passages(record) for record_id, record in workspace.records.items()}

    def has_value(self, record_id: str, value: str, kind: FactKind, aliases: Iterable[str] = ()) -> bool:
        """Whether a record mentions a value at all, in its title or in one passage."""
        passages = self._passages[record_id]
        return any(_states(part, value, kind, aliases) for part in (passages.title, *passages.parts))

    def states(self, record_id: str, fact: Fact) -> bool:
        """Whether a record states a fact: value and subject in one passage, or the subject in the title above it."""
        passages = self._passages[record_id]
        titled = _names(passages.title, fact)
        parts = (passages.title, *passages.parts)
        return any((titled or _names(part, fact)) and _states_fact(part, fact) for part in parts)

    def other_statements(self, fact: Fact, allowed: Iterable[str]) -> list[str]:
        """Ids of records, other than the allowed ones, in which one passage names the subject and the value."""
        return [
            record_id
            for record_id, passages in self._naming(fact)
            if record_id not in set(allowed) and any(_names(part, fact) and _states_fact(part, fact) for part in passages.parts)
        ]

    def values_where_none_should_be(self, fact: Fact, allowed: Iterable[str]) -> list[tuple[str, str]]:
        """For an absent fact: (record id, passage) wherever a value of the asked kind stands beside subject and topic.

        Names and phrases cannot be recognised as such; for them every passage about the topic counts, outside the allowed
        records.
        """
        kind = fact.asked_kind or FactKind.TEXT
        found: list[tuple[str, str]] = []
        for record_id, passages in self._naming(fact):
            titled = _names(passages.title, fact)
            for part in passages.parts:
                if not (titled or _names(part, fact)) or not _on_topic(part, fact):
                    continue
                if _gives_value(part, kind) if kind in READ_KINDS else record_id not in set(allowed):
                    found.append((record_id, part))
        return found

    def stands_elsewhere(self, value: str, kind: FactKind, fact: Fact, but: Collection[str]) -> bool:
        """Whether a record, other than the ones excepted, mentions a value; those that name the subject are read first."""
        naming = [record_id for record_id, _ in self._naming(fact)]
        word = None if kind in READ_KINDS else _telling_word(value)
        return any(
            record_id not in but
            and (word is None or word in self._passages[record_id].text)
            and self.has_value(record_id, value, kind)
            for record_id in (*naming, *self._passages)
        )

    def _naming(self, fact: Fact) -> list[tuple[str, Passages]]:
        """Records in which a name of the subject may stand: cheap to find, and none is missed."""
        words = {_telling_word(name) for name in (fact.subject, *fact.subject_aliases)}
        return [(i, passages) for i, passages in self._passages.items() if any(word in passages.text for word in words)]


def _telling_word(name: str) -> str:
    """Letters that stand in every form of a name or phrase: of the longest word after the first, which may be cut short.

    What a plural changes at its end is left out.
    """
    words = _WORD.findall(_LEGAL_FORM.sub("", plain_text(name)))
    word = max([word for word in words[1:] if word not in _CHANGING] or words or [""], key=len)
    return word.removesuffix("ies").removesuffix("s") if word.isalpha() and len(word) > 3 else word


def question_gives(question: str, fact: Fact) -> bool:
    """Whether a question already states the value that it asks for."""
    return fact.value is not None and _states_fact(plain_text(question), fact)


def _gives_value(part: str, kind: FactKind) -> bool:
    return any(not mention.weak for mention in mentions_of(part, kind))


def _parts_of(body: str) -> Iterable[str]:
    for paragraph in re.split(r"\n\s*\n", body):
        lines = [line.lstrip("> ").strip() for line in paragraph.splitlines()]
        yield " ".join(line for line in lines if not line.startswith("|"))
        yield from (line for line in lines if line.startswith("|"))


def _names(part: str, fact: Fact) -> bool:
    return any(mentions_of_value(part, name, FactKind.NAME) for name in (fact.subject, *fact.subject_aliases))


def _on_topic(part: str, fact: Fact) -> bool:
    return any(mentions_of_value(part, word, FactKind.TEXT) for word in fact.about)


def _states_fact(part: str, fact: Fact) -> bool:
    return _states(part, fact.value or "", fact.kind, fact.aliases)


def _states(part: str, value: str, kind: FactKind, aliases: Iterable[str]) -> bool:
    if any(not mention.weak or kind is not FactKind.NUMBER for mention in mentions_of_value(part, value, kind)):
        return True
    return any(_states_alias(part, alias, kind) for alias in aliases)


def _states_alias(part: str, alias: str, kind: FactKind) -> bool:
    try:
        readable = kind in READ_KINDS and bool(key_of(alias, kind))
    except ValueError:
        readable = False
    return bool(mentions_of_value(part, alias, kind if readable or kind is FactKind.NAME else FactKind.TEXT))
