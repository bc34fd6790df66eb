"""The records of a workspace: e-mails and documents."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

RecordId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,80}$")]


class FrozenRecord(BaseModel):
    """Base of everything that is written to a file: immutable, with finite numbers, and no field that the schema lacks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RecordKind(StrEnum):
    """What a record is: an e-mail, or one of the four kinds of document."""

    EMAIL = "email"
    CONTRACT = "contract"
    POLICY = "policy"
    MEETING_NOTES = "meeting_notes"
    CUSTOMER_RECORD = "customer_record"


class DocumentStatus(StrEnum):
    """What the company's filing says of a document; people do not always keep it up to date."""

    DRAFT = "draft"
    FINAL = "final"
    SIGNED = "signed"
    ACTIVE = "active"
    CLOSED = "closed"
    SUPERSEDED = "superseded"


class Email(FrozenRecord):
    """One e-mail as it was sent."""

    id: RecordId
    thread_id: RecordId
    """Shared by a mail and the replies to it."""
    sent_at: AwareDatetime
    sender: str
    """`Name <address>`."""
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    subject: str
    body: str

    @property
    def kind(self) -> RecordKind:
        """Always `email`."""
        return RecordKind.EMAIL

    @property
    def title(self) -> str:
        """The subject line."""
        return self.subject

    @property
    def date(self) -> date:
        """The day it was sent, in the sender's own zone."""
        return self.sent_at.date()

    @property
    def people(self) -> tuple[str, ...]:
        """Sender, receivers and copied readers, by name where the address has one."""
        return tuple(_name_of(address) for address in (self.sender, *self.to, *self.cc))


class Document(FrozenRecord):
    """One document of the company's files."""

    id: RecordId
    kind: RecordKind
    title: str
    author: str
    date: date
    """The day it was written or took effect, as the document itself says."""
    status: DocumentStatus
    body: str

    @property
    def people(self) -> tuple[str, ...]:
        """The author."""
        return (self.author,)


Record = Email | Document


def _name_of(address: str) -> str:
    name, _, rest = address.partition("<")
    return name.strip() or rest.rstrip(">").strip()
