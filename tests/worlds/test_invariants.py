"""One thing is broken at a time in a world that is whole, and the fault says which."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from gradient_rl.worlds.entities import AS_OF, Account, Company, Deal, PolicyHistory
from gradient_rl.worlds.invariants import faults_in_account, faults_in_company, faults_in_scenes
from gradient_rl.worlds.trade import TRADES
from gradient_rl.worlds.writing import Scene
from tests.worlds.founding import accounts_of, company_of, scenes_of, writer_for

EARLY = date(2023, 1, 2)


@pytest.fixture(scope="module")
def account() -> Account:
    """A customer at which everything happened that can happen."""
    return next(
        a
        for a in accounts_of("catering")
        if all((a.added, a.swap, a.damage, a.exception, a.order, a.credits, a.wrong_remarks))
        and len(a.troubles) > 1
        and len(a.contract.amendments) > 1
        and len(a.credits) == 3
    )


@pytest.fixture(scope="module")
def company() -> Company:
    return company_of("catering")


@pytest.fixture(scope="module")
def scenes(account: Account) -> list[Scene]:
    return scenes_of(account, writer_for("catering"))


def said(account: Account) -> str:
    """The only fault of a customer, without the words that name the customer."""
    [fault] = {*faults_in_account(account)}
    who = f"customer {account.number} {account.name}: "
    assert fault.startswith(who)
    return fault.removeprefix(who)


def with_contract(account: Account, **changes: object) -> Account:
    return replace(account, contract=replace(account.contract, **changes))


def with_change(account: Account, **changes: object) -> Account:
    first, *others = account.contract.amendments
    return with_contract(account, amendments=(replace(first, **changes), *others))


def with_trouble(account: Account, **changes: object) -> Account:
    first, *others = account.troubles
    return replace(account, troubles=(replace(first, **changes), *others), credits=())


@pytest.mark.parametrize("trade", TRADES)
def test_two_hundred_customers_of_a_trade_have_no_fault(trade: str) -> None:
    accounts = accounts_of(trade)

    assert len(accounts) == 200
    assert [fault for account in accounts for fault in faults_in_account(account)] == []


@pytest.mark.parametrize("trade", TRADES)
def test_a_company_and_the_records_of_its_customers_have_no_fault(trade: str) -> None:
    writer = writer_for(trade)

    assert faults_in_company(company_of(trade)) == []
    assert [fault for account in accounts_of(trade)[:20] for fault in faults_in_scenes(scenes_of(account, writer))] == []


def test_a_contract_starts_after_it_is_signed(account: Account) -> None:
    broken = with_contract(account, planned_start=EARLY)

    assert said(broken).startswith(f"contract: the days {account.contract.signed_on}, 2023-01-02, ")


def test_a_change_is_agreed_after_it_is_asked_for(account: Account) -> None:
    change = account.contract.amendments[0]
    broken = with_change(account, agreed_on=change.asked_on - timedelta(days=1))

    assert said(broken).startswith(f"change of {change.term.key}: the days ")


def test_a_change_holds_before_the_last_day(account: Account) -> None:
    key = account.contract.amendments[0].term.key

    assert said(with_change(account, since=AS_OF + timedelta(days=1))).startswith(f"change of {key}: the days ")


def test_a_change_starts_from_what_the_contract_says(account: Account) -> None:
    change = account.contract.amendments[0]

    assert said(with_change(account, old="nothing")) == (
        f"change of {change.term.key} from nothing to {change.new}, which the contract does not have so"
    )


def test_a_change_changes_something(account: Account) -> None:
    change = account.contract.amendments[0]

    assert said(with_change(account, new=change.old)) == (
        f"change of {change.term.key} from {change.old} to {change.old}, which the contract does not have so"
    )


def test_a_change_is_approved_by_somebody_who_may(account: Account, company: Company) -> None:
    fitter = company.staff["service"][0]
    key = account.contract.amendments[0].term.key

    assert said(with_change(account, approver=fitter)) == f"change of {key} approved by {fitter.title}"


def test_a_term_is_changed_once(account: Account) -> None:
    change = account.contract.amendments[0]

    assert said(with_contract(account, amendments=(change, change))) == f"{change.term.key} is changed twice"


def test_a_job_is_closed_after_it_was_reported(account: Account) -> None:
    job = account.troubles[0].job

    assert said(with_trouble(account, closed_on=EARLY)).startswith(f"job {job}: the days ")


def test_a_job_is_reviewed_before_it_is_closed(account: Account) -> None:
    trouble = account.troubles[0]
    broken = with_trouble(account, reviewed_on=trouble.closed_on + timedelta(days=1))

    assert said(broken).startswith(f"job {trouble.job}: the days ")


def test_a_job_is_about_a_unit_of_the_customer(account: Account) -> None:
    other = accounts_of("catering")[-1].units[0]

    assert said(with_trouble(account, unit=other)) == (
        f"job {account.troubles[0].job} is about {other.tag}, which is somebody else's"
    )


def test_what_was_suspected_is_not_the_cause(account: Account) -> None:
    trouble = account.troubles[0]

    assert said(with_trouble(account, suspected=trouble.cause)) == f"job {trouble.job}: what was suspected is the cause"


def test_every_job_has_a_number_of_its_own(account: Account) -> None:
    job = account.troubles[1].job

    assert said(with_trouble(account, job=job)) == f"two jobs are numbered {job}"


def test_a_credit_is_approved_by_somebody_whose_signature_is_good_for_it(account: Account, company: Company) -> None:
    finance = replace(company.staff["finance"][0], approves_up_to=Decimal(20))
    first = replace(account.credits[0], approver=finance)

    assert said(replace(account, credits=(first,))) == (
        f"a credit of {first.amount} approved by {finance.title}, who may approve 20"
    )


def test_a_credit_is_given_after_the_trouble_that_it_is_for(account: Account) -> None:
    first = account.credits[0]
    closed = next(t.closed_on for t in account.troubles if first.reason in t.incident.credit_reasons)
    early = replace(first, given_on=closed - timedelta(days=1))

    assert said(replace(account, credits=(early,))).startswith(f"credit: the days {closed}, {early.given_on}, ")


def test_damage_is_billed_after_it_was_done(account: Account) -> None:
    assert account.damage
    broken = replace(account, damage=replace(account.damage, billed_on=EARLY))

    assert said(broken).startswith("damage: the days ")


def test_damage_is_shared_only_where_the_contract_shares_it(account: Account) -> None:
    assert said(with_contract(account, share=None)) == "a repair is shared that no contract shares"


def test_the_right_price_comes_after_the_wrong_one(account: Account) -> None:
    assert account.added
    broken = replace(account, added=replace(account.added, right_on=EARLY))

    assert said(broken).startswith("added unit: the days ")


def test_a_unit_that_came_later_does_not_stand_in_the_contract(account: Account) -> None:
    assert account.added
    broken = replace(account, added=replace(account.added, unit=account.units[0]))

    assert any(
        fault.endswith("the added unit stands in the contract, or its two prices are one")
        for fault in faults_in_account(broken)
    )


def test_the_two_prices_of_an_added_unit_differ(account: Account) -> None:
    assert account.added
    broken = replace(account, added=replace(account.added, wrong=account.added.unit.charge))

    assert said(broken) == "the added unit stands in the contract, or its two prices are one"


def test_somebody_takes_over_after_it_was_told(account: Account) -> None:
    assert account.swap
    broken = replace(account, swap=replace(account.swap, since=EARLY))

    assert said(broken).startswith("swap: the days ")


def test_nobody_takes_over_from_himself(account: Account) -> None:
    assert account.swap
    name = account.swap.before.name
    broken = replace(account, swap=replace(account.swap, after=account.swap.before))

    assert said(broken) == f"{name} takes over from {name}"


def test_today_lies_within_the_term(account: Account) -> None:
    assert said(with_contract(account, months=3)).startswith("term: the days 2025-06-30, ")


def test_two_credits_are_not_for_one_job(account: Account) -> None:
    credit = next(c for c in account.credits if any(c.reason in t.incident.credit_reasons for t in account.troubles))
    broken = replace(account, credits=(credit, replace(credit, amount="EUR 35")))

    assert said(broken).startswith("two credits are for job ")


@pytest.mark.parametrize("what", ["tag", "name", "use"])
def test_no_two_units_of_a_customer_share_a_tag_a_name_or_a_use(account: Account, what: str) -> None:
    first, second, *others = account.units
    second = replace(second, **{what: getattr(first, what)})
    units = (first, second, *others)
    broken = replace(account, units=units, troubles=(), credits=(), damage=None, exception=None, added=None)

    twice = [getattr(first, what), getattr(first, what), *(getattr(unit, what) for unit in others)]
    assert said(broken) == f"two units have one {what}: {twice}"


def test_only_a_contract_that_allows_it_leaves_a_unit_out(account: Account) -> None:
    assert account.exception

    assert said(with_contract(account, excepts=False)) == (
        f"{account.exception.unit.tag} is left out of visits that it never had"
    )


def test_more_is_ordered_only_of_what_the_contract_prices(account: Account) -> None:
    assert said(with_contract(account, extra=None)) == "more is ordered of something that the contract does not price"


def test_a_wrong_remark_is_wrong(account: Account) -> None:
    [(term, _, day), *_] = account.wrong_remarks
    true = account.contract.values[term.key]

    assert said(replace(account, wrong_remarks=((term, true, day),))) == (
        f"a remark of {day} about {term.key} is meant to be wrong and is right: {true}"
    )


def with_policy(company: Company, history: PolicyHistory) -> list[str]:
    return faults_in_company(replace(company, policies=(history,)))


def with_deal(company: Company, **changes: object) -> tuple[Deal, list[str]]:
    deal = replace(next(deal for deal in company.deals if deal.raised), **changes)
    return deal, faults_in_company(replace(company, deals=(deal,)))


def test_versions_of_a_policy_follow_each_other(company: Company) -> None:
    history = next(h for h in company.policies if len(h.versions) == 2)
    [fault] = with_policy(company, replace(history, versions=history.versions[::-1], memo=None))

    assert fault.startswith(f"{history.policy.title}: the days {history.versions[1].since}, {history.versions[0].since}, ")


def test_a_memo_changes_what_the_last_version_says(company: Company) -> None:
    history = next(h for h in company.policies if h.memo)
    assert history.memo
    broken = replace(history, memo=replace(history.memo, old="nothing"))

    assert with_policy(company, broken) == [f"{history.policy.title}: the memo changes nothing, which no version says"]


def test_a_memo_is_written_after_the_version_that_it_changes(company: Company) -> None:
    history = next(h for h in company.policies if h.memo)
    assert history.memo
    [fault] = with_policy(company, replace(history, memo=replace(history.memo, written_on=EARLY)))

    assert fault.startswith(f"{history.policy.title}: the days ")


def test_a_policy_is_owned_by_the_duty_that_its_trade_says(company: Company) -> None:
    history, other = company.policies[0], company.staff["desk"][0]

    assert with_policy(company, replace(history, owner=other)) == [f"{history.policy.title} is owned by {other.title}"]


def test_prices_rise_after_it_was_announced(company: Company) -> None:
    deal, [fault] = with_deal(company, raised_on=EARLY)

    assert fault.startswith(f"{deal.number}: the days {deal.signed_on}, {deal.announced_on}, 2023-01-02, ")


def test_a_new_list_has_a_day_and_leaves_nothing_out(company: Company) -> None:
    deal, faults = with_deal(company, raised_on=None)
    assert faults == [f"{deal.number} has a new list without a day, or one that leaves something out"]

    deal, faults = with_deal(company, raised={"only": "EUR 1"})
    assert faults[0] == f"{deal.number} has a new list without a day, or one that leaves something out"


def test_a_new_list_leaves_one_rate_alone(company: Company) -> None:
    deal = next(deal for deal in company.deals if deal.raised)
    [fault] = faults_in_company(replace(company, deals=(replace(deal, raised=deal.rates),)))

    assert fault == f"{deal.number}: the new list leaves {list(deal.rates)} alone, and should leave one"


def test_a_bill_is_paid_after_the_project_was_planned(company: Company) -> None:
    work = company.works[0]
    broken = replace(work, paid_on=(EARLY, *work.paid_on[1:]))
    [fault] = faults_in_company(replace(company, works=(broken,)))

    assert fault == f"{work.name}: the days {work.planned_on}, 2023-01-02, 2025-06-30 are not in order"


def test_every_person_has_an_address_of_his_own(company: Company) -> None:
    desk = company.staff["desk"]
    broken = replace(company, staff={**company.staff, "desk": (*desk, desk[0])})

    assert faults_in_company(broken) == ["two people have one address"]


def test_nobody_writes_of_a_thing_before_it_could_be_known(scenes: list[Scene]) -> None:
    scene = scenes[0]
    early = replace(scene, tells=(("the flood", scene.record.date + timedelta(days=1)),))

    assert faults_in_scenes([early, *scenes[1:]]) == [
        f"{scene.record.id} of {scene.record.date} tells of 'the flood' of {scene.record.date + timedelta(days=1)}"
    ]


def test_nothing_is_written_after_the_last_day(scenes: list[Scene]) -> None:
    late = scenes[0].record.model_copy(update={"date": date(2025, 7, 1)})

    assert faults_in_scenes([replace(scenes[0], record=late)]) == [f"{late.id} is dated 2025-07-01, after 2025-06-30"]


def test_the_schedule_of_a_contract_adds_up(scenes: list[Scene]) -> None:
    contract = next(scene for scene in scenes if scene.role == "contract")
    table = "| CR-1 | Bessie | oven | EUR 1,200.50 |\n| CR-2 | Max | oven | EUR 99.50 |\n| Total | | | EUR 1,301 |"
    wrong = contract.record.model_copy(update={"body": table})

    assert faults_in_scenes([replace(contract, record=wrong)]) == [
        f"{wrong.id}: the schedule adds up to 1300.00, and says 1301"
    ]
