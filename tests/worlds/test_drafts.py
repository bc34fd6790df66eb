"""Drafted questions, with answers that are worked out by hand from what happened at a customer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from random import Random

import pytest

from gradient_rl.evaluation.evidence import question_gives
from gradient_rl.schema.task import Fact, FactKind, Family, Operation
from gradient_rl.schema.workspace import Document, DocumentStatus, RecordKind
from gradient_rl.worlds.account_drafts import AccountDrafts
from gradient_rl.worlds.drafts import Draft, Filed
from gradient_rl.worlds.entities import Account
from gradient_rl.worlds.house_drafts import policy_drafts, work_drafts
from gradient_rl.worlds.office import load_office
from gradient_rl.worlds.trade import TRADES
from tests.worlds.founding import DIFFICULTY, accounts_of, company_of, scenes_of, town_of, writer_for

ROLES = ("contract", "record", "plan", "start", "order", "swap", "damage", "exception", "price:wrong", "price:right")
ROLES += (
    "credit:mail",
    "credit:minutes",
    *(f"{what}:{n}" for what in ("change", "report", "review", "offer") for n in range(3)),
)


def whole(trade: str = "catering") -> Account:
    """A customer at which everything happened that can happen."""
    return next(
        account
        for account in accounts_of(trade)
        if all(
            (account.added, account.swap, account.damage, account.exception, account.order, account.offers, account.troubles)
        )
        and len(account.credits) == 3
        and account.contract.amendments
    )


def named(account: Account) -> Filed:
    """Records whose ids are their roles; the customer record tells what every unit is for."""
    told = " ".join(unit.use for unit in account.units)
    return Filed({role: paper(role.replace(":", "-"), told) for role in (*ROLES, "deal")})


def paper(name: str, body: str = "") -> Document:
    return Document(
        id=name,
        kind=RecordKind.POLICY,
        title=name,
        author="A B",
        date=date(2024, 5, 2),
        status=DocumentStatus.ACTIVE,
        body=body,
    )


def drafts_on(account: Account, namesake: Account | None = None) -> list[Draft]:
    pair = (namesake, named(namesake)) if namesake else None
    drafts = AccountDrafts(company_of("catering"), load_office(), account, named(account), pair, DIFFICULTY, Random(3))
    return list(drafts.all())


def drafted(account: Account, family: Family, operation: Operation | None, *sources: str) -> Draft:
    """The only draft that follows in this way from these records."""
    [draft] = [
        draft
        for draft in drafts_on(account)
        if draft.family is family
        and draft.facts[0].sources == sources
        and (draft.facts[0].derivation.operation if draft.facts[0].derivation else None) is operation
    ]
    return draft


def only(draft: Draft) -> Fact:
    [fact] = draft.facts
    return fact


@pytest.mark.parametrize("trade", TRADES)
def test_every_family_is_drafted_of_every_trade(trade: str) -> None:
    assert {draft.family for draft in town_of(trade).drafts} == set(Family)


@pytest.mark.parametrize("trade", TRADES)
def test_facts_have_their_records_in_slots_and_questions_do_not_give_their_answers(trade: str) -> None:
    for draft in town_of(trade).drafts:
        slots = {record_id for slot in draft.required for record_id in slot}
        assert all(set(fact.sources) <= slots for fact in draft.facts)
        assert [fact.value for fact in draft.facts if question_gives(draft.question, fact)] == []


def test_a_lookup_asks_for_a_term_that_was_never_changed() -> None:
    account = whole()
    key = account.contract.amendments[0].term.key
    kept = {k: v for k, v in account.contract.values.items() if k != key}
    found = [only(d) for d in drafts_on(account) if d.family is Family.LOOKUP and only(d).sources == ("contract",)]

    *terms, charge = found
    assert len(terms) == 3
    assert all(fact.value in kept.values() for fact in terms)
    assert charge.value in [unit.charge for unit in account.units]


def test_a_lookup_of_a_customer_with_a_namesake_has_its_value_as_rival() -> None:
    account = whole()
    other = {key: f"{value}0" for key, value in account.contract.values.items()}
    namesake = replace(account, contract=replace(account.contract, values=other))
    found = [only(d) for d in drafts_on(account, namesake) if d.family is Family.LOOKUP and only(d).sources == ("contract",)]
    found = [fact for fact in found if fact.value in account.contract.values.values()]

    assert len(found) == 3
    assert all(f"{fact.value}0" in fact.rivals for fact in found)


def test_a_lookup_asks_for_the_price_of_an_offer() -> None:
    account = whole()
    offered = replace(account.offers[0], price="EUR 812")
    draft = drafted(replace(account, offers=(offered,)), Family.LOOKUP, None, "offer-0")

    assert only(draft).value == "EUR 812"
    assert draft.answer.startswith(f"{account.name} was offered {offered.offer.item} for ")


def test_a_changed_term_holds_anew_today_and_as_before_on_an_earlier_day() -> None:
    account = whole()
    change = replace(account.contract.amendments[0], since=date(2025, 2, 1))
    account = replace(account, contract=replace(account.contract, amendments=(change,), accepted_on=date(2024, 5, 6)))
    now = only(drafted(account, Family.SUPERSEDED, Operation.LATEST, "contract", "change-0"))
    then = only(drafted(account, Family.IN_FORCE_ON_DATE, Operation.IN_FORCE, "contract", "change-0"))

    assert (now.value, now.rivals[0]) == (change.new, change.old)
    assert (then.value, then.rivals[0]) == (change.old, change.new)
    assert then.derivation
    assert then.derivation.on
    assert date(2024, 5, 7) <= then.derivation.on < date(2025, 2, 1)


def test_the_person_who_took_over_is_the_one_today() -> None:
    account = whole()
    assert account.swap
    fact = only(drafted(account, Family.SUPERSEDED, Operation.LATEST, "record", "swap"))

    assert (fact.value, fact.rivals) == (account.swap.after.name, (account.swap.before.name,))


def test_cause_and_remedy_of_a_job_that_nobody_reviewed_are_two_hops_away() -> None:
    trouble = replace(whole().troubles[0], reviewed_on=None)
    account = replace(whole(), troubles=(trouble,))
    found = [d for d in drafts_on(account) if d.family is Family.TWO_HOPS and only(d).sources == ("report-0",)]

    assert [only(draft).value for draft in found] == [trouble.cause, trouble.remedy]
    assert {draft.required for draft in found} == {(("record",), ("report-0",))}


def test_the_rate_of_a_supplier_is_that_of_its_new_list() -> None:
    deal = next(deal for deal in company_of("catering").deals if deal.raised)
    label = sorted(deal.rates)[0]
    account = replace(whole(), deal=replace(deal, rates={label: "EUR 7"}, raised={label: "EUR 9"}), label=label)
    fact = only(drafted(account, Family.TWO_HOPS, None, "deal"))

    assert (fact.value, fact.rivals) == ("EUR 9", ("EUR 7",))


def test_three_records_lead_from_the_use_of_a_unit_to_its_repair() -> None:
    account = replace(whole(), troubles=whole().troubles[:1])
    trouble = account.troubles[0]
    draft = next(d for d in drafts_on(account) if d.family is Family.THREE_HOPS and len(d.facts) == 3)

    assert [fact.value for fact in draft.facts] == [trouble.unit.name, trouble.unit.tag, trouble.remedy]
    assert draft.required == (("record",), ("contract",), ("report-0",))
    assert trouble.unit.use in draft.question


def test_a_cause_is_asked_for_together_with_the_credit_that_was_given_for_it() -> None:
    trouble = replace(whole().troubles[0], reviewed_on=None)
    credit = replace(whole().credits[0], amount="EUR 75", reason=trouble.incident.credit_reasons[0], medium="mail")
    draft = next(
        d
        for d in drafts_on(replace(whole(), troubles=(trouble,), credits=(credit,)))
        if d.family is Family.THREE_HOPS and len(d.facts) == 2
    )

    assert [fact.value for fact in draft.facts] == [trouble.cause, "EUR 75"]


def test_more_of_an_extra_costs_its_price_for_each() -> None:
    account = whole()
    assert account.order
    account = replace(
        account, order=replace(account.order, count=7), contract=replace(account.contract, extra_price="EUR 12.50")
    )

    assert only(drafted(account, Family.MAIL_WITH_DOCUMENT, Operation.PRODUCT, "order", "contract")).value == "EUR 87.50"


def test_a_contract_ends_its_months_after_the_day_on_which_it_really_began() -> None:
    account = whole()
    account = replace(account, contract=replace(account.contract, accepted_on=date(2024, 8, 30), months=18))
    fact = only(drafted(account, Family.MAIL_WITH_DOCUMENT, Operation.SHIFT_DATE, "start", "contract"))

    assert (fact.kind, fact.value) == (FactKind.DATE, "2026-02-28")


def test_the_customer_bears_its_share_of_the_damage() -> None:
    account = whole()
    assert account.damage
    account = replace(account, damage=replace(account.damage, cost="EUR 1234"), contract=replace(account.contract, share="15"))
    fact = only(drafted(account, Family.MAIL_WITH_DOCUMENT, Operation.PERCENT_OF, "contract", "damage"))

    assert (fact.value, fact.rivals) == ("EUR 185.10", ("EUR 1234",))


def test_credits_in_three_kinds_of_record_are_added_up() -> None:
    amounts = zip(whole().credits, ("EUR 100", "EUR 250.50", "EUR 30"), ("mail", "minutes", "notes"), strict=True)
    account = replace(whole(), credits=tuple(replace(c, amount=amount, medium=medium) for c, amount, medium in amounts))
    draft = drafted(account, Family.AGGREGATION, Operation.SUM, "credit-mail", "credit-minutes", "record")

    assert only(draft).value == "EUR 380.50"
    assert draft.required[0] == ("record",)


def test_a_signed_price_beats_one_that_was_never_agreed() -> None:
    account = whole()
    assert account.added
    unit = replace(account.added.unit, charge="EUR 410")
    account = replace(account, added=replace(account.added, unit=unit, wrong="EUR 440", order="OF-1234"))
    draft = drafted(account, Family.CONFLICTING_SOURCES, Operation.LATEST, "price-wrong", "price-right")

    assert (only(draft).value, only(draft).rivals) == ("EUR 410", ("EUR 440",))
    assert draft.answer.endswith("by the signed order OF-1234.")


def test_the_signed_sheet_beats_the_plan() -> None:
    account = whole()
    contract = replace(account.contract, planned_start=date(2024, 8, 12), accepted_on=date(2024, 8, 30))
    fact = only(drafted(replace(account, contract=contract), Family.CONFLICTING_SOURCES, Operation.LATEST, "plan", "start"))

    assert (fact.value, fact.rivals) == ("2024-08-30", ("2024-08-12",))


def test_the_report_beats_what_was_suspected() -> None:
    trouble = replace(whole().troubles[0], reviewed_on=whole().troubles[0].reported_on)
    account = replace(whole(), troubles=(trouble,))
    fact = only(drafted(account, Family.CONFLICTING_SOURCES, Operation.LATEST, "review-0", "report-0"))

    assert (fact.value, fact.rivals) == (trouble.cause, (trouble.suspected,))


def test_the_unit_that_was_taken_out_is_the_exception_among_those_of_its_sort() -> None:
    account = whole()
    assert account.exception
    out = account.exception.unit
    fact = only(drafted(account, Family.EXCEPTIONS, Operation.EXCLUDE, "contract", "exception"))

    assert (fact.value, fact.aliases) == (out.name, (out.tag,))
    assert set(fact.rivals) == {unit.name for unit in account.units if unit.unit is out.unit} - {out.name}


def test_what_the_contract_leaves_out_is_not_on_record() -> None:
    account = whole()
    absent = {term.absent_words for term in account.absent_terms(company_of("catering").trade)}
    found = [only(draft) for draft in drafts_on(account) if draft.family is Family.NOT_ON_RECORD]

    assert len(found) == 2
    assert {fact.about for fact in found} <= absent
    assert {(fact.kind, fact.value) for fact in found} == {(FactKind.ABSENT, None)}


def test_a_policy_is_asked_about_today_and_on_a_day_of_its_first_version() -> None:
    history = next(h for h in company_of("catering").policies if len(h.versions) == 2)
    rule = history.policy.rules[0]
    old, new = (replace(v, values={**v.values, rule.key: n}) for v, n in zip(history.versions, ("3", "4"), strict=True))
    same = {r.key: new.values[r.key] for r in history.policy.rules[1:]}
    history = replace(history, versions=(replace(old, values={rule.key: "3", **same}), new), memo=None)
    filed = Filed({"version:0": paper("p-1"), "version:1": paper("p-2")})
    then, now = policy_drafts(history, filed, Random(1))

    assert (only(then).value, only(now).value) == ("3", "4")
    assert (only(then).sources, now.required) == (("p-1", "p-2"), (("p-1",), ("p-2",)))


def test_a_policy_of_one_version_is_not_asked_about() -> None:
    history = company_of("catering").policies[0]

    assert list(policy_drafts(replace(history, versions=history.versions[:1]), Filed({}), Random(1))) == []


def test_three_pieces_of_a_project_cost_what_was_paid_for_them() -> None:
    work = company_of("catering").works[0]
    pieces = tuple((f"piece {n}", "EUR 50", f"EUR {10**n}") for n in range(4))
    filed = Filed({"planning": paper("plan"), **{f"bill:{n}": paper(f"bill-{n}") for n in range(4)}})
    drafts = list(work_drafts(replace(work, pieces=pieces), filed, load_office(), "EUR", Random(1)))

    for draft in drafts:
        bills = [slot[0] for slot in draft.required]
        assert only(draft).value == f"EUR {sum(10 ** int(bill[-1]) for bill in bills)}"
        assert all(f"piece {bill[-1]}" in draft.question for bill in bills)


def test_every_draft_finds_the_records_that_it_needs() -> None:
    account = whole("software")
    writer = writer_for("software")
    filed = Filed({scene.role: scene.record for scene in scenes_of(account, writer)})
    drafts = AccountDrafts(company_of("software"), writer.office, account, filed, None, DIFFICULTY, Random(1)).all()

    assert {d.family for d in drafts} >= set(Family) - {Family.TWO_HOPS, Family.THREE_HOPS}
