"""A task: a question a colleague might ask, and what a right answer must state and cite."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from gradient_rl.schema.trajectory import ToolCall
from gradient_rl.schema.workspace import FrozenRecord, RecordId


class Split(StrEnum):
    """Which part of the data a task belongs to. Validation tasks stand in the training file and are never trained on."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELDOUT = "heldout"


class Family(StrEnum):
    """What makes a task hard; `docs/data.md` describes each."""

    LOOKUP = "lookup"
    SUPERSEDED = "superseded"
    TWO_HOPS = "two_hops"
    THREE_HOPS = "three_hops"
    MAIL_WITH_DOCUMENT = "mail_with_document"
    AGGREGATION = "aggregation"
    IN_FORCE_ON_DATE = "in_force_on_date"
    CONFLICTING_SOURCES = "conflicting_sources"
    EXCEPTIONS = "exceptions"
    NOT_ON_RECORD = "not_on_record"


class FactKind(StrEnum):
    """How a value is written and compared; `rewards/facts.py` has one reader for each."""

    MONEY = "money"
    DATE = "date"
    NUMBER = "number"
    PERCENT = "percent"
    DURATION = "duration"
    NAME = "name"
    TEXT = "text"
    ABSENT = "absent"


class Operation(StrEnum):
    """How a derived value follows from its inputs; `evaluation/validate.py` recomputes each."""

    SUM = "sum"
    DIFFERENCE = "difference"
    PRODUCT = "product"
    COUNT = "count"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    PERCENT_OF = "percent_of"
    SHIFT_DATE = "shift_date"
    DAYS_BETWEEN = "days_between"
    IN_FORCE = "in_force"
    LATEST = "latest"
    EXCLUDE = "exclude"
    ABSENCE = "absence"


class DerivationInput(FrozenRecord):
    """One value that a derivation starts from, and the record in which it stands."""

    record: RecordId
    value: str | None = None
    """As it is written in a fact's `value`; None only for absence."""
    since: date | None = Field(default=None, alias="from")
    """The day from which the value applied (`in_force`, `latest`)."""
    covered: bool | None = None
    """Whether the rule covers it (`exclude`)."""


class Derivation(FrozenRecord):
    """Why a fact that no single record states is true."""

    operation: Operation
    inputs: tuple[DerivationInput, ...] = Field(min_length=1)
    on: date | None = None
    """The day asked about (`in_force`)."""


class Fact(FrozenRecord):
    """One thing that a right answer states."""

    id: RecordId
    subject: str
    """What the fact is about, as its records name it."""
    subject_aliases: tuple[str, ...] = ()
    """Other names of the subject in those records: short names, account and contract numbers."""
    statement: str
    """The fact as a sentence, for people."""
    kind: FactKind
    value: str | None
    """In the kind's plain form: `EUR 12500`, `2025-03-03`, `14`, `12.5`, `60 days`, a name or a phrase; None if absent."""
    aliases: tuple[str, ...] = ()
    """Other accepted wordings of the value."""
    rivals: tuple[str, ...] = ()
    """Superseded or distracting values of the same kind that really stand in other records."""
    sources: tuple[RecordId, ...] = Field(min_length=1)
    """For a stated fact, records that each state it; for a derived one, all the records it is derived from."""
    derivation: Derivation | None = None
    asked_kind: FactKind | None = None
    """For an absent fact: the kind of value that was asked for."""
    about: tuple[str, ...] = ()
    """For an absent fact: the words that would name the thing (`deposit`, `security payment`)."""

    @model_validator(mode="after")
    def _absence_is_whole(self) -> Self:
        absent = self.kind is FactKind.ABSENT
        if absent and (self.value is not None or self.asked_kind in (None, FactKind.ABSENT) or not self.about):
            raise ValueError(f"absent fact '{self.id}' needs value null, an asked_kind and at least one word in about")
        if not absent and not self.value:
            raise ValueError(f"fact '{self.id}' of kind {self.kind} needs a value")
        return self


class Question(FrozenRecord):
    """All that a policy may know of a task."""

    id: RecordId
    text: str
    as_of: date
    """The day on which it is asked."""


class Reference(FrozenRecord):
    """What a task holds back from the policy and gives to the grader."""

    task_id: RecordId
    facts: tuple[Fact, ...]
    required_sources: tuple[tuple[RecordId, ...], ...]
    neutral_sources: tuple[RecordId, ...]
    question_text: str
    """A value that the question itself states is not held against an answer that repeats it."""
    reference_calls: int
    """Tool calls of the reference trajectory, the submission among them."""


class Task(FrozenRecord):
    """A question with its reference: one line of a task file."""

    id: RecordId
    split: Split
    family: Family
    question: str = Field(min_length=1)
    as_of: date
    hops: int = Field(ge=1)
    """Records that have to be read one after the other because each leads to the next."""
    facts: tuple[Fact, ...] = Field(min_length=1)
    required_sources: tuple[tuple[RecordId, ...], ...] = Field(min_length=1)
    """Slots: any one id of a slot fills it, and every slot has to be filled."""
    neutral_sources: tuple[RecordId, ...] = ()
    """May be cited without gain or loss."""
    reference: tuple[ToolCall, ...] = Field(min_length=1)
    """The calls of a trajectory that earns 1.0."""

    @model_validator(mode="after")
    def _slots_are_filled(self) -> Self:
        if any(not slot for slot in self.required_sources):
            raise ValueError(f"task '{self.id}' has an empty slot in required_sources")
        return self

    def for_policy(self) -> Question:
        """The part that a policy is shown."""
        return Question(id=self.id, text=self.question, as_of=self.as_of)

    def for_grader(self) -> Reference:
        """The part that a reward is computed from."""
        return Reference(
            task_id=self.id,
            facts=self.facts,
            required_sources=self.required_sources,
            neutral_sources=self.neutral_sources,
            question_text=self.question,
            reference_calls=len(self.reference),
        )
