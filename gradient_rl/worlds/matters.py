"""What can happen under any contract, and how people write about it: changes, starts, prices, credits, exceptions, repairs.

The words of every office stand in `office.toml`; a trade may bring its own for what it calls otherwise.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict

from gradient_rl.worlds.phrases import Phrases, phrases


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Entry):
    """Mails around a change of a term."""

    subjects: Annotated[Phrases, phrases(8, "topic contract short")]
    requests: Annotated[Phrases, phrases(12, "short contract", "topic")]
    """Paragraphs of a customer that asks for the change."""
    anchors: Annotated[Phrases, phrases(6, "short contract")]
    """First sentences of the mail that agrees a change: what it is about."""
    approvals: Annotated[Phrases, phrases(10, "", "approver")]
    """Sentences that say who agreed to it."""
    notes: Annotated[Phrases, phrases(10, "approver contract", "topic")]
    """Lines of a customer record that a change was agreed, without saying which."""


class Start(_Entry):
    """When a contract begins, and so when it ends."""

    plans: Annotated[Phrases, phrases(8, "short", "planned")]
    """Sentences that say when the start is planned."""
    real: Annotated[Phrases, phrases(10, "contact short", "started contract")]
    """Paragraphs of a mail that reports the start, with the acceptance sheet signed."""
    subjects: Annotated[Phrases, phrases(6, "short contract")]
    clauses: Annotated[Phrases, phrases(6, "we they", "months")]
    """Clauses by which the contract runs for {months} from the day on which the acceptance sheet is signed."""
    asks: Annotated[Phrases, phrases(6, "", "who")]
    """On what day the contract runs out."""
    asks_begin: Annotated[Phrases, phrases(6, "", "who")]
    """On what day it really began; says that it was not the planned one."""


class Price(_Entry):
    """One charge that two records give differently."""

    subjects: Annotated[Phrases, phrases(8, "short contract")]
    wrong: Annotated[Phrases, phrases(10, "short contract", "unit wrong")]
    """Paragraphs of a handover or a forecast with a price that was never agreed; may not say that it is wrong."""
    right: Annotated[Phrases, phrases(12, "short contract", "unit right order")]
    """Paragraphs that give the price on the signed order {order}."""
    asks: Annotated[Phrases, phrases(8, "", "who thing")]
    """What is really to be charged a month; says that two figures are about."""


class Credit(_Entry):
    """Money taken off a bill."""

    subjects: Annotated[Phrases, phrases(6, "", "short")]
    mails: Annotated[Phrases, phrases(12, "approver", "credit reason")]
    minutes: Annotated[Phrases, phrases(10, "approver account", "short credit reason")]
    notes: Annotated[Phrases, phrases(10, "approver", "credit reason")]
    asks: Annotated[Phrases, phrases(8, "", "who")]
    """How much has been taken off in all since the contract began."""


class Exclusion(_Entry):
    """The one unit that the service visits leave out."""

    headings: Annotated[Phrases, phrases(1)] = ("Care", "Upkeep", "Service", "Regular visits", "Scope of visits")
    """Of the clause."""
    clauses: Annotated[Phrases, phrases(6, "we they")]
    """Clauses by which the units of the schedule are looked after, save those that are left out in writing."""
    mails: Annotated[Phrases, phrases(10, "short contract", "unit")]
    """Paragraphs that leave {unit} out."""
    subjects: Annotated[Phrases, phrases(6, "short contract")]
    asks: Annotated[Phrases, phrases(8, "", "who plural")]


class Repair(_Entry):
    """A repair whose cost the contract shares."""

    heading: str = "Damage"
    """Of the clause."""
    clauses: Annotated[Phrases, phrases(6, "we they", "percent")]
    """{they} bears {percent} of the cost of damage by its own people."""
    mails: Annotated[Phrases, phrases(10, "short place", "cost unit")]
    """Paragraphs that give the whole cost of such damage to {unit}."""
    subjects: Annotated[Phrases, phrases(6, "short")]
    asks: Annotated[Phrases, phrases(8, "when", "who thing")]
    """What part of the bill was theirs."""


class Swap(_Entry):
    """Another person takes over a matter at the customer's."""

    matters: Annotated[Phrases, phrases(6)]
    """Noun phrases: `the bills`, `deliveries on Saturdays`."""
    subjects: Annotated[Phrases, phrases(6, "short")]
    mails: Annotated[Phrases, phrases(12, "short", "before after matter from")]
    notes: Annotated[Phrases, phrases(8, "", "before matter")]
    """Lines of the customer record from before the change."""
    asks: Annotated[Phrases, phrases(8, "", "who matter")]
    """Who looks after it today."""
