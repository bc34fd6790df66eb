"""What people in every office write, whatever the trade: names, voices, agreements by mail, credits, minutes, small talk."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gradient_rl.worlds.matters import Change, Credit, Exclusion, Price, Repair, Start, Swap
from gradient_rl.worlds.phrases import Phrases, phrases
from gradient_rl.worlds.trade import ChatterMail, Item, Trade


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Names(_Entry):
    """Where names of people, places and customers come from."""

    given: Annotated[Phrases, phrases(120)]
    abroad: Annotated[Phrases, phrases(10)]
    """Those of the given names whose bearers may write as somebody does whose first language is another."""
    surnames: Annotated[Phrases, phrases(200)]
    towns: Annotated[Phrases, phrases(100)]
    streets: Annotated[Phrases, phrases(40)]
    proper: Annotated[Phrases, phrases(60)]
    """First words of the name of a place or a firm: `Harrow`."""
    places: Annotated[Phrases, phrases(30)]
    """Second words: `Lane`."""


class Voice(_Entry):
    """How one kind of person writes a mail."""

    key: str
    greetings: Annotated[Phrases, phrases(3, "to")]
    openers: Annotated[Phrases, phrases(6, "to town")]
    """First sentences that say nothing of the matter."""
    closings: Annotated[Phrases, phrases(3, "me full title")]
    """Last lines, with `\\n` between them."""
    lower: bool = False
    """Begins sentences in lower case and leaves apostrophes out."""
    typos: bool = False
    signed: bool = False
    """Adds name and title below."""


class Frames(_Entry):
    """The stock of forms: openings and ends of contracts, minutes, policies, records, replies."""

    recitals: Annotated[Phrases, phrases(6, "contract date account town they_town we_role they_role", "we_name they_name")]
    signatures: Annotated[Phrases, phrases(6, "town date", "signer they_signer")]
    term_headings: Annotated[Phrases, phrases(4)]
    general_headings: Annotated[Phrases, phrases(8)]
    schedule_headings: Annotated[Phrases, phrases(4)]
    clauses: Annotated[Phrases, phrases(40, "we they")]
    """Clauses of any contract, without amounts."""
    present: Annotated[Phrases, phrases(8, "", "people")]
    absent: Annotated[Phrases, phrases(6, "", "people")]
    closings: Annotated[Phrases, phrases(20, "person")]
    """Last lines of minutes."""
    actions: Annotated[Phrases, phrases(25, "person")]
    review_titles: Annotated[Phrases, phrases(6, "short", "job")]
    weekly_titles: Annotated[Phrases, phrases(8, "", "date")]
    reports: Annotated[Phrases, phrases(8, "short", "job")]
    """Subjects of reports on a job."""
    troubles: Annotated[Phrases, phrases(10, "unit")]
    """Subjects of a customer's mail that something is wrong."""
    offers: Annotated[Phrases, phrases(8, "unit", "short")]
    orders: Annotated[Phrases, phrases(6, "short contract")]
    contract_notes: Annotated[Phrases, phrases(8, "title date", "contract")]
    """Lines of a customer record that name the contract."""
    people_headings: Annotated[Phrases, phrases(4)]
    things_headings: Annotated[Phrases, phrases(4)]
    history_headings: Annotated[Phrases, phrases(4)]
    remarks_headings: Annotated[Phrases, phrases(4)]
    matter_headings: Annotated[Phrases, phrases(8)]
    """Headings over what a review is about."""
    customer_headings: Annotated[Phrases, phrases(6, "short")]
    """Headings over what minutes say of one customer."""
    action_headings: Annotated[Phrases, phrases(4)]
    hedges: Annotated[Phrases, phrases(8)]
    """Sentences after a remark in passing: it is from memory."""
    remark_subjects: Annotated[Phrases, phrases(10, "short town")]
    job_notes: Annotated[Phrases, phrases(12, "unit", "job when")]
    """Lines of a customer record that point to a job."""
    people_notes: Annotated[Phrases, phrases(10, "title", "contact")]
    called_notes: Annotated[Phrases, phrases(8, "", "called")]
    """Lines that say how colleagues call the customer."""
    twin_notes: Annotated[Phrases, phrases(8, "account", "twin")]
    """Lines that warn of a customer with almost the same name."""
    use_notes: Annotated[Phrases, phrases(8, "", "unit use")]
    """Lines that say what a unit is for."""
    versions: Annotated[Phrases, phrases(6, "approver", "version from owner")]
    replaced: Annotated[Phrases, phrases(6, "", "earlier")]
    """Sentences of a policy that say which version it replaces."""
    memo_subjects: Annotated[Phrases, phrases(6, "", "policy")]
    supply_titles: Annotated[Phrases, phrases(3, "", "number")]
    letter_subjects: Annotated[Phrases, phrases(5, "", "number")]
    thanks: Annotated[Phrases, phrases(20, "short")]
    """Short answers to a mail, without any matter."""
    forwards: Annotated[Phrases, phrases(12, "to")]
    """What is written above a forwarded mail."""
    project_subjects: Annotated[Phrases, phrases(6, "project item")]
    project_titles: Annotated[Phrases, phrases(4, "", "project")]
    project_asks: Annotated[Phrases, phrases(6, "project", "items")]
    """What the items really cost together."""
    charge_asks: Annotated[Phrases, phrases(6, "", "who thing")]
    """What a unit of the schedule costs a month."""
    kept_asks: Annotated[Phrases, phrases(4, "", "supplier category")]
    """Which rate of a supplier the new list left alone."""
    serial_asks: Annotated[Phrases, phrases(6, "", "who use")]
    """Which unit is the one for {use}, which number the contract gives it, and what was done to it."""
    matters: Annotated[Phrases, phrases(5, "", "matter")]
    """Second sentences of a question, which name the matter as the records do."""
    also_credited: Annotated[Phrases, phrases(4)]
    """Second questions: how much was taken off the bill for it."""
    disputes: Annotated[Phrases, phrases(4)]
    """First sentences of a question: people do not agree about the cause."""
    absence_answers: Annotated[Phrases, phrases(4, "", "who topic")]


class Office(_Entry):
    """All shared phrases, from `office.toml`."""

    names: Names
    voices: tuple[Voice, ...] = Field(min_length=8)
    change: Change
    start: Start
    price: Price
    credit: Credit
    exclusion: Exclusion
    repair: Repair
    swap: Swap
    frames: Frames
    chatter: Annotated[Phrases, phrases(60, "colleague town")]
    chatter_mails: tuple[ChatterMail, ...] = Field(min_length=40)
    notes: Annotated[Phrases, phrases(40, "contact town")]
    items: tuple[Item, ...] = Field(min_length=30)


def office_of(trade: Trade) -> Office:
    """The shared phrases, with those that the trade writes otherwise."""
    own = {"start": trade.start, "exclusion": trade.exclusion, "repair": trade.repair}
    return load_office().model_copy(update={name: section for name, section in own.items() if section})


@lru_cache(1)
def load_office() -> Office:
    """The phrases that travel with the package."""
    return Office.model_validate(tomllib.loads((files("gradient_rl.worlds") / "office.toml").read_text(encoding="utf-8")))
