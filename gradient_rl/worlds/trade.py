"""A trade: what a company of this kind sells, measures, breaks and writes about, read from one TOML file."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.rewards.values import key_of
from gradient_rl.schema.task import FactKind
from gradient_rl.worlds.matters import Exclusion, Repair, Start
from gradient_rl.worlds.phrases import Phrases, Words, phrases

TRADES = ("catering", "construction", "insurance", "logistics", "medical_devices", "software")
"""The trades that travel with the package, each a file of this name beside this module."""


_KINDS = (FactKind.MONEY, FactKind.DURATION, FactKind.PERCENT, FactKind.NUMBER)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Amounts(_Entry):
    """Values that a thing may have: a list as facts write them, or a range in steps (money and numbers)."""

    values: tuple[str, ...] = ()
    low: Decimal | None = None
    high: Decimal | None = None
    step: Decimal | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ranged = None not in (self.low, self.high, self.step)
        if ranged == bool(self.values) or (self.values and len(self.values) < 5):
            raise ValueError("give either values (at least 5) or low, high and step")
        if ranged and not ((self.low or 0) < (self.high or 0) and (self.step or 0) > 0):
            raise ValueError(f"low {self.low}, high {self.high} and step {self.step} give no range")
        return self

    def fit(self, kind: FactKind) -> str | None:
        """Why these are no values of a kind; None when they are."""
        if kind not in _KINDS:
            return f"kind is {kind}; it must be one of {', '.join(_KINDS)}"
        if not self.values:
            return None if kind in (FactKind.MONEY, FactKind.NUMBER) else f"values of kind {kind} are listed, not ranged"
        return next((f"'{value}' is no {kind}" for value in self.values if not _is_value(value, kind)), None)


def _is_value(value: str, kind: FactKind) -> bool:
    try:
        return bool(key_of(value, kind))
    except ValueError:
        return False


class CompanyName(_Entry):
    """One of the names that the company of a world may have."""

    name: str
    short: Annotated[str, Field(pattern=r"[A-Za-z].*[A-Za-z]")]
    town: str


class CustomerKind(_Entry):
    """A kind of customer: how its name may end, and what people call it who do not use its name."""

    endings: Annotated[Phrases, phrases(3)]
    called: Annotated[Phrases, phrases(3)]
    """Without the place: `the yoghurt people`, `the creamery`."""
    units: tuple[str, ...] = ()
    """Nouns of the units that such a customer may have; all if left out."""


class Unit(_Entry):
    """A kind of thing that the company runs for a customer, under a tag and a name that people gave it."""

    noun: str
    plural: str
    tag: Annotated[str, Field(pattern=r"^[A-Z]{1,4}-d{2,5}$")]
    """Letters, a hyphen and one `d` for each digit: `CR-ddd`."""
    names: Annotated[Phrases, phrases(8)]
    uses: Annotated[Phrases, phrases(8)]
    """What it is for, after `the one for ...`: `wedding cakes`."""
    places: Annotated[Phrases, phrases(6)]
    """Where it stands at the customer's: `the north yard`."""
    charge: Amounts
    """Monthly charge."""


class Term(_Entry):
    """A term of a contract that can be agreed, changed, misremembered or left out."""

    key: str
    topic: str
    """What people call it in passing: `the notice period`."""
    kind: FactKind
    amounts: Amounts
    heading: str
    clauses: Annotated[Phrases, phrases(4, "we they", "value")]
    asks_now: Annotated[Phrases, phrases(4, "", "who")]
    """Questions about what holds today, in other words than the clauses."""
    asks_then: Annotated[Phrases, phrases(3, "", "who date")]
    """The same about a past day."""
    changes: Annotated[Phrases, phrases(4, "old contract short", "new from")]
    """Paragraphs of a mail that agrees a new value."""
    remarks: Annotated[Phrases, phrases(3, "short", "value")]
    """Sentences in which somebody mentions a value in passing, right or wrong."""
    answer: Annotated[str, Field(min_length=1)]
    """A plain sentence with {who} and {value}."""
    absent_words: Annotated[Phrases, phrases(1)]
    """Words one of which stands in every sentence about this term, and in none about another."""
    asks_absent: Annotated[Phrases, phrases(3, "", "who")]
    """Questions that sound as if the contract settled it."""
    skippable: bool = True
    """Whether a contract can do without it."""

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        return _fitting(self)


def _fitting[Valued: (Term, Rule)](entry: Valued) -> Valued:
    if fault := entry.amounts.fit(entry.kind):
        raise ValueError(f"{entry.key}: {fault}")
    return entry


class Extra(_Entry):
    """A thing of which a customer orders more, at a price that the contract gives for each."""

    key: str
    many: str
    price: Amounts
    per: str
    """`a month`, `a year` or `each`."""
    clauses: Annotated[Phrases, phrases(3, "we they", "price")]
    orders: Annotated[Phrases, phrases(4, "place contract short", "n")]
    """Paragraphs of a customer's mail that orders {n} more."""
    asks: Annotated[Phrases, phrases(3, "", "who")]
    """By how much the order raises what the customer pays."""


class Incident(_Entry):
    """Something that goes wrong at a customer's, is looked into and put right."""

    key: str
    troubles: Annotated[Phrases, phrases(4, "place when", "unit")]
    """Paragraphs of the customer's mail, written before the cause is known."""
    suspected: Annotated[Phrases, phrases(4)]
    """Noun phrases: what people first took for the cause."""
    causes: Annotated[Phrases, phrases(6)]
    """Noun phrases: what it really was."""
    remedies: Annotated[Phrases, phrases(6)]
    """Noun phrases: what was fitted, replaced or done; each follows from the cause in the same place of its list."""
    reports: Annotated[Phrases, phrases(5, "when place", "job ref cause remedy")]
    """Paragraphs of a report by the person who put it right; {ref} is the tag of the unit."""
    asks_cause: Annotated[Phrases, phrases(3, "when", "who thing")]
    """{thing} is how the question names the unit: `Bessie`, or `the cold room in the north yard`."""
    asks_remedy: Annotated[Phrases, phrases(3, "when", "who thing")]
    reviews: Annotated[Phrases, phrases(3, "when place", "unit suspected")]
    """Paragraphs of minutes that leave the cause open or name the suspected one."""
    credit_reasons: Annotated[Phrases, phrases(3)]
    """Noun phrases: what a credit was given for: `the four warm hours in May`, without a date or an amount."""

    @model_validator(mode="after")
    def _suspicions_are_wrong(self) -> Self:
        if both := set(self.suspected) & set(self.causes):
            raise ValueError(f"'{min(both)}' is suspected and a cause; what is suspected has to be wrong")
        return self


class Offer(_Entry):
    """A job or a thing offered to one customer at a price."""

    key: str
    item: str
    price: Amounts
    mails: Annotated[Phrases, phrases(4, "place", "price unit")]
    """Paragraphs of our offer."""
    asks: Annotated[Phrases, phrases(3, "", "who thing")]


class Rule(_Entry):
    """A number in a policy."""

    key: str
    kind: FactKind
    amounts: Amounts
    heading: str
    lines: Annotated[Phrases, phrases(3, "", "value")]
    asks_now: Annotated[Phrases, phrases(3)]
    asks_then: Annotated[Phrases, phrases(3, "", "date")]
    changes: Annotated[Phrases, phrases(3, "old", "new from")]
    """Paragraphs of a memo that changes it between two versions of the policy."""
    answer: Annotated[str, Field(min_length=1)]
    """A plain sentence with {value}."""

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        return _fitting(self)


class Section(_Entry):
    """A section of a policy that nobody asks about."""

    heading: str
    texts: Annotated[Phrases, phrases(2)]


class Policy(_Entry):
    """A policy of the company, which comes in versions."""

    title: str
    code: str
    owner: str
    """A duty of `staff`."""
    purposes: Annotated[Phrases, phrases(3)]
    rules: tuple[Rule, ...] = Field(min_length=3)
    sections: tuple[Section, ...] = Field(min_length=6)


class Supply(_Entry):
    """Something bought at rates by category; which category a customer's work falls into stands in the customer's record."""

    names: Annotated[Phrases, phrases(4)]
    what: str
    category: str
    """`lane`: a category is then called `lane D`."""
    labels: Annotated[Phrases, phrases(6)]
    rates: Amounts
    per: str
    terms: Annotated[Phrases, phrases(6)]
    """Paragraphs of the agreement with the supplier, without amounts."""
    lines: Annotated[Phrases, phrases(4, "supplier", "category")]
    """Sentences of a customer's record."""
    asks: Annotated[Phrases, phrases(4, "", "who supplier")]
    letters: Annotated[Phrases, phrases(3, "", "from")]
    """Paragraphs with which the supplier announces a new list."""


class Project(_Entry):
    """Something that the company does for itself and pays for piece by piece."""

    names: Annotated[Phrases, phrases(3)]
    items: Annotated[Phrases, phrases(6)]
    cost: Amounts
    mails: Annotated[Phrases, phrases(4, "", "item cost")]
    """Paragraphs that say what an item really cost."""
    plans: Annotated[Phrases, phrases(3, "", "item planned")]
    """Paragraphs of minutes that say what an item is expected to cost."""


class ChatterMail(_Entry):
    """A mail about nothing that anybody will ask for."""

    subject: str
    bodies: Annotated[Phrases, phrases(2, "colleague other town")]


class Item(_Entry):
    """A point of minutes that nobody asks about."""

    heading: str
    texts: Annotated[Phrases, phrases(1, "colleague other")]


class Trade(_Entry):
    """All that the generator knows of a trade."""

    key: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")]
    currency: Literal["EUR", "GBP", "USD"]
    companies: tuple[CompanyName, ...] = Field(min_length=4)
    agreements: Annotated[Phrases, phrases(3)]
    """Titles of contracts: `Haulage and Storage Agreement`."""
    we: Words
    """How a contract calls the company: `the Carrier`."""
    they: Words
    staff: dict[str, tuple[str, ...]]
    """Job titles by duty: director, finance, legal, sales, service, stores, quality, desk."""
    contacts: Annotated[Phrases, phrases(8)]
    """Job titles at customers."""
    customers: tuple[CustomerKind, ...] = Field(min_length=10)
    units: tuple[Unit, ...] = Field(min_length=5)
    terms: tuple[Term, ...] = Field(min_length=10)
    extras: tuple[Extra, ...] = Field(min_length=4)
    incidents: tuple[Incident, ...] = Field(min_length=8)
    offers: tuple[Offer, ...] = Field(min_length=8)
    policies: tuple[Policy, ...] = Field(min_length=4)
    supplies: tuple[Supply, ...] = Field(min_length=3)
    projects: tuple[Project, ...] = Field(min_length=4)
    chatter: Annotated[Phrases, phrases(50, "colleague town")]
    """Paragraphs that end or begin a mail about something else."""
    chatter_mails: tuple[ChatterMail, ...] = Field(min_length=20)
    notes: Annotated[Phrases, phrases(50, "contact town")]
    """Lines of customer records."""
    clauses: Annotated[Phrases, phrases(40, "we they")]
    """Clauses of contracts that nobody asks about, without amounts or durations."""
    items: tuple[Item, ...] = Field(min_length=30)
    start: Start | None = None
    """Instead of the office's words for the day on which a contract begins."""
    exclusion: Exclusion | None = None
    """Instead of the office's words for a unit that the regular visits leave out."""
    repair: Repair | None = None
    """Instead of the office's words for damage whose cost is shared."""

    @model_validator(mode="after")
    def _duties_are_filled(self) -> Self:
        missing = set(DUTIES) - {duty for duty, titles in self.staff.items() if titles}
        if missing or set(self.staff) - set(DUTIES):
            raise ValueError(f"staff needs exactly the duties {list(DUTIES)}")
        return self

    @model_validator(mode="after")
    def _units_exist(self) -> Self:
        nouns = [unit.noun for unit in self.units]
        for kind in self.customers:
            if unknown := [noun for noun in kind.units if noun not in nouns]:
                raise ValueError(f"customers: {kind.called[0]} have units {unknown}; there are {nouns}")
        return self

    def units_for(self, kind: CustomerKind) -> list[Unit]:
        """The units that a kind of customer may have."""
        return [unit for unit in self.units if not kind.units or unit.noun in kind.units]


DUTIES = ("director", "finance", "legal", "sales", "service", "stores", "quality", "desk")


def load_trade(name: str) -> Trade:
    """A trade by its name, or by the path of a TOML file.

    Raises:
        NothingToReadError: there is no such trade and no such file.
        DataError: the file does not describe a trade.
    """
    path = Path(name)
    if name in TRADES:
        return _read(files("gradient_rl.worlds") / "trades" / f"{name}.toml", f"{name}.toml")  # pyright: ignore[reportArgumentType]
    if path.suffix == ".toml" and path.is_file():
        return _read(path, str(path))
    raise NothingToReadError(f"'{name}' is neither a trade ({', '.join(TRADES)}) nor a TOML file that exists")


def _read(path: Path, where: str) -> Trade:
    try:
        return Trade.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{where} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise DataError(": ".join(filter(None, (where, place, said)))) from error
