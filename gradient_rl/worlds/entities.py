"""What a generated world consists of, before anybody has written a line about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from gradient_rl.worlds.trade import Extra, Incident, Offer, Policy, Project, Rule, Supply, Term, Trade, Unit

FIRST_DAY = date(2024, 1, 8)
AS_OF = date(2025, 6, 30)
"""The day on which all questions are asked; nothing is written after it."""


@dataclass(frozen=True)
class Person:
    """Somebody who writes mails, at the company or at a customer."""

    name: str
    title: str
    duty: str
    """One of `trade.DUTIES`, or `customer` or `supplier`."""
    address: str
    voice: int
    """Place in the list of voices."""
    approves_up_to: Decimal = Decimal(0)

    @property
    def first(self) -> str:
        """The first name."""
        return self.name.split()[0]

    @property
    def mailbox(self) -> str:
        """As it stands in the head of a mail."""
        return f"{self.name} <{self.address}>"


@dataclass(frozen=True)
class Version:
    """One version of a policy, with what it said on the day it came out."""

    number: str
    since: date
    values: Mapping[str, str]


@dataclass(frozen=True)
class Memo:
    """A mail that changes one number of a policy between two versions."""

    rule: Rule
    old: str
    new: str
    written_on: date
    since: date


@dataclass(frozen=True)
class PolicyHistory:
    """A policy with all its versions, oldest first."""

    policy: Policy
    owner: Person
    approver: Person
    versions: tuple[Version, ...]
    memo: Memo | None
    heldout: bool


@dataclass(frozen=True)
class Deal:
    """What is bought from one supplier, at rates by category."""

    supply: Supply
    supplier: str
    number: str
    contact: Person
    signed_on: date
    rates: Mapping[str, str]
    """By label, as agreed at first."""
    raised: Mapping[str, str]
    """By label, from the new list, which leaves one rate alone; empty if there is none."""
    raised_on: date | None
    announced_on: date | None
    heldout: bool


@dataclass(frozen=True)
class Work:
    """A project of the company: pieces with what they were to cost and what they did cost."""

    project: Project
    name: str
    leader: Person
    planned_on: date
    pieces: tuple[tuple[str, str, str], ...]
    """(item, planned, paid) as plain money values."""
    paid_on: tuple[date, ...]
    heldout: bool


@dataclass(frozen=True)
class Company:
    """The company of a world: its people, policies, suppliers and projects."""

    trade: Trade
    name: str
    short: str
    town: str
    domain: str
    prefix: str
    """Letters before contract numbers."""
    staff: Mapping[str, tuple[Person, ...]]
    """By duty."""
    policies: tuple[PolicyHistory, ...]
    deals: tuple[Deal, ...]
    works: tuple[Work, ...]

    @property
    def people(self) -> tuple[Person, ...]:
        """Everybody who works there."""
        return tuple(person for group in self.staff.values() for person in group)


@dataclass(frozen=True)
class UnitHere:
    """A unit at a customer's."""

    unit: Unit
    tag: str
    name: str
    place: str
    use: str
    charge: str
    """A month, as a plain money value."""

    @property
    def described(self) -> str:
        """As somebody calls it who does not know its name."""
        return f"the {self.unit.noun} in {self.place}"


@dataclass(frozen=True)
class Amendment:
    """A change of one term, agreed by mail."""

    term: Term
    old: str
    new: str
    asked_on: date
    agreed_on: date
    since: date
    asked_by: Person
    agreed_by: Person
    approver: Person


@dataclass(frozen=True)
class Contract:
    """What was signed with a customer."""

    number: str
    title: str
    signed_on: date
    planned_start: date
    planned_by_mail: bool
    """Whether the planned start stands in a mail; otherwise in minutes."""
    accepted_on: date
    months: int
    values: Mapping[str, str]
    """By key of the term, as signed; a term that is not here was not agreed."""
    amendments: tuple[Amendment, ...]
    share: str | None
    """Per cent of the cost of damage that the customer bears."""
    extra: Extra | None
    extra_price: str
    excepts: bool
    """Whether it allows for units to be left out of the visits."""
    signer: Person
    customer_signer: Person


@dataclass(frozen=True)
class Trouble:
    """Something that went wrong, from the customer's mail to the report."""

    incident: Incident
    unit: UnitHere
    job: str
    reported_on: date
    reviewed_on: date | None
    closed_on: date
    suspected: str
    cause: str
    remedy: str
    reporter: Person
    fitter: Person


@dataclass(frozen=True)
class Credit:
    """Money taken off a customer's bill, and where that was written down."""

    amount: str
    reason: str
    given_on: date
    approver: Person
    medium: str
    """`mail`, `minutes` or `notes`."""


@dataclass(frozen=True)
class Order:
    """More of an extra."""

    count: int
    ordered_on: date
    place: str
    by: Person


@dataclass(frozen=True)
class Offered:
    """An offer at a price."""

    offer: Offer
    unit: UnitHere
    price: str
    offered_on: date


@dataclass(frozen=True)
class AddedUnit:
    """A unit that came later, by an order form; somebody passed on a price that was never agreed."""

    unit: UnitHere
    order: str
    wrong: str
    wrong_on: date
    right_on: date


@dataclass(frozen=True)
class Swap:
    """Somebody else took a matter over at the customer's."""

    matter: str
    before: Person
    after: Person
    told_on: date
    since: date


@dataclass(frozen=True)
class Damage:
    """Damage by the customer's own people, made good at a cost that the contract shares."""

    unit: UnitHere
    done_on: date
    billed_on: date
    cost: str


@dataclass(frozen=True)
class ExceptedUnit:
    """A unit that the customer took out of the visits."""

    unit: UnitHere
    told_on: date


@dataclass(frozen=True)
class Account:
    """A customer with everything that happened to it."""

    number: str
    name: str
    legal_name: str
    short: str
    called: str
    town: str
    twin: str | None
    """Name of the customer with almost the same name."""
    contacts: tuple[Person, ...]
    manager: Person
    fitter: Person
    units: tuple[UnitHere, ...]
    contract: Contract
    troubles: tuple[Trouble, ...]
    credits: tuple[Credit, ...]
    order: Order | None
    offers: tuple[Offered, ...]
    added: AddedUnit | None
    swap: Swap | None
    damage: Damage | None
    exception: ExceptedUnit | None
    deal: Deal | None
    label: str
    """The category of the deal into which this customer's work falls."""
    wrong_remarks: tuple[tuple[Term, str, date], ...]
    """(term, wrong value, day) of mentions in passing."""
    heldout: bool
    """Whether its tasks are held-out ones."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """What it is called in records beside its name."""
        return tuple(dict.fromkeys(name for name in (self.number, self.contract.number, self.short) if name != self.name))

    def absent_terms(self, trade: Trade) -> list[Term]:
        """Terms that its contract leaves out."""
        return [term for term in trade.terms if term.key not in self.contract.values]
