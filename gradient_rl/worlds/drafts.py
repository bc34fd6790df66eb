"""A draft: a question that follows from a world, with the facts that answer it, true by construction and not yet judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random

from gradient_rl.schema.task import Derivation, DerivationInput, Fact, FactKind, Family, Operation
from gradient_rl.schema.workspace import Record
from gradient_rl.worlds.amounts import written
from gradient_rl.worlds.grammar import expand


@dataclass(frozen=True)
class Filed:
    """The records that something left, by what they are to it."""

    records: Mapping[str, Record]

    def has(self, *roles: str) -> bool:
        """Whether all of these records were written."""
        return all(role in self.records for role in roles)

    def id(self, role: str) -> str:
        """The id of a record."""
        return self.records[role].id


@dataclass(frozen=True)
class Draft:
    """A task without its reference calls."""

    family: Family
    question: str
    facts: tuple[Fact, ...]
    answer: str
    required: tuple[tuple[str, ...], ...]
    """Slots, in the order in which they are best opened."""
    heldout: bool
    neutral: tuple[str, ...] = ()
    guides: tuple[str, ...] = ()
    """Records that may have to be opened on the way: they say who is meant."""
    hops: int = 1


def fact_of(
    subject: Sequence[str], statement: str, kind: FactKind, value: str | None, sources: Sequence[str], *,
    rivals: Sequence[str] = (), derivation: Derivation | None = None, aliases: Sequence[str] = (),
    asked_kind: FactKind | None = None, about: Sequence[str] = (),
) -> Fact:  # fmt: skip
    """A fact under a provisional id.

    Args:
        subject: its name in the records, and then its other names.
        rivals: wrong values; one that is the value itself is left out.
    """
    return Fact(
        id="f",
        subject=subject[0],
        subject_aliases=tuple(subject[1:]),
        statement=statement,
        kind=kind,
        value=value,
        aliases=tuple(aliases),
        rivals=tuple(dict.fromkeys(rival for rival in rivals if rival != value)),
        sources=tuple(dict.fromkeys(sources)),
        derivation=derivation,
        asked_kind=asked_kind,
        about=tuple(about),
    )


def derived(operation: Operation, *inputs: DerivationInput, on: date | None = None) -> Derivation:
    """Why a fact follows from its inputs."""
    return Derivation(operation=operation, inputs=inputs, on=on)


def input_of(record: str, value: str | None, since: date | None = None, covered: bool | None = None) -> DerivationInput:
    """A value that a derivation starts from, and the record in which it stands."""
    return DerivationInput.model_validate({"record": record, "value": value, "from": since, "covered": covered})


def asked(phrases: Sequence[str], rng: Random, **slots: str) -> str:
    """A question: one text of one of the phrases."""
    return expand(rng.choice(phrases), slots, rng)


def answered(phrase: str, kind: FactKind, value: str, rng: Random, **slots: str) -> str:
    """An answer that states a value as somebody writes it."""
    return expand(phrase, {"value": written(value, kind, rng), **slots}, rng)
