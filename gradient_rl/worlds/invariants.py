"""What must hold in every world; each fault is a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from gradient_rl.schema.workspace import RecordKind
from gradient_rl.worlds.amounts import after_months, amount_of
from gradient_rl.worlds.entities import AS_OF, Account, AddedUnit, Amendment, Company, Credit, Damage, Swap, Trouble
from gradient_rl.worlds.writing import Scene

_ROW = re.compile(r"^\|(?P<first>[^|]*)\|.*?(?P<amount>\d[\d,]*(?:\.\d+)?) \|$", re.MULTILINE)


def faults_in_company(company: Company) -> list[str]:
    """Versions follow each other, memos follow versions, prices rise after they were announced, bills follow plans."""
    return [*_policy_faults(company), *_deal_faults(company), *_work_faults(company), *_people_faults(company)]


def faults_in_account(account: Account) -> list[str]:
    """Everything under a contract comes after it, and nobody did what they may not do."""
    contract = account.contract
    faults = [
        *_order_faults("contract", contract.signed_on, contract.planned_start, contract.accepted_on, AS_OF),
        *_order_faults("term", AS_OF, after_months(contract.accepted_on, contract.months)),
        *(fault for change in contract.amendments for fault in _amendment_faults(account, change)),
        *(fault for trouble in account.troubles for fault in _trouble_faults(account, trouble)),
        *(fault for credit in account.credits for fault in _credit_faults(account, credit)),
        *(_damage_faults(account, account.damage) if account.damage else ()),
        *(_added_faults(account, account.added) if account.added else ()),
        *(_swap_faults(account, account.swap) if account.swap else ()),
        *_unit_faults(account),
        *_remark_faults(account),
    ]
    return [f"customer {account.number} {account.name}: {fault}" for fault in faults]


def faults_in_scenes(scenes: Sequence[Scene]) -> list[str]:
    """Nobody writes of a thing before it could be known, nothing is written after the last day, and tables add up."""
    faults: list[str] = []
    for scene in scenes:
        record = scene.record
        faults += [
            f"{record.id} of {record.date} tells of '{what}' of {known}" for what, known in scene.tells if record.date < known
        ]
        if record.date > AS_OF:
            faults.append(f"{record.id} is dated {record.date}, after {AS_OF}")
        if record.kind is RecordKind.CONTRACT and scene.role == "contract":
            faults += [f"{record.id}: {fault}" for fault in _table_faults(record.body)]
    return faults


def _order_faults(what: str, *days: object) -> Iterator[str]:
    if list(days) != sorted(days):  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
        yield f"{what}: the days {', '.join(map(str, days))} are not in order"


def _amendment_faults(account: Account, change: Amendment) -> Iterator[str]:
    contract = account.contract
    yield from _order_faults(
        f"change of {change.term.key}", contract.accepted_on, change.asked_on, change.agreed_on, change.since, AS_OF
    )
    if contract.values.get(change.term.key) != change.old or change.old == change.new:
        yield f"change of {change.term.key} from {change.old} to {change.new}, which the contract does not have so"
    if change.approver.duty not in ("director", "finance"):
        yield f"change of {change.term.key} approved by {change.approver.title}"
    if [other.term.key for other in contract.amendments].count(change.term.key) > 1:
        yield f"{change.term.key} is changed twice"


def _trouble_faults(account: Account, trouble: Trouble) -> Iterator[str]:
    days = [
        account.contract.accepted_on,
        trouble.reported_on,
        trouble.reviewed_on or trouble.reported_on,
        trouble.closed_on,
        AS_OF,
    ]
    yield from _order_faults(f"job {trouble.job}", *days)
    if trouble.unit not in account.units:
        yield f"job {trouble.job} is about {trouble.unit.tag}, which is somebody else's"
    if trouble.suspected == trouble.cause:
        yield f"job {trouble.job}: what was suspected is the cause"
    if [other.job for other in account.troubles].count(trouble.job) > 1:
        yield f"two jobs are numbered {trouble.job}"


def _credit_faults(account: Account, credit: Credit) -> Iterator[str]:
    if credit.approver.approves_up_to < amount_of(credit.amount):
        allowed = credit.approver.approves_up_to
        yield f"a credit of {credit.amount} approved by {credit.approver.title}, who may approve {allowed}"
    for trouble in account.troubles:
        if len([other for other in account.credits if other.reason in trouble.incident.credit_reasons]) > 1:
            yield f"two credits are for job {trouble.job}"
    causes = [t.closed_on for t in account.troubles if credit.reason in t.incident.credit_reasons]
    yield from _order_faults("credit", min(causes, default=account.contract.accepted_on), credit.given_on, AS_OF)


def _damage_faults(account: Account, damage: Damage) -> Iterator[str]:
    yield from _order_faults("damage", account.contract.accepted_on, damage.done_on, damage.billed_on, AS_OF)
    if account.contract.share is None or damage.unit not in account.units:
        yield "a repair is shared that no contract shares"


def _added_faults(account: Account, added: AddedUnit) -> Iterator[str]:
    yield from _order_faults("added unit", account.contract.accepted_on, added.wrong_on, added.right_on, AS_OF)
    if added.unit in account.units or added.wrong == added.unit.charge:
        yield "the added unit stands in the contract, or its two prices are one"


def _swap_faults(account: Account, swap: Swap) -> Iterator[str]:
    yield from _order_faults("swap", account.contract.accepted_on, swap.told_on, swap.since, AS_OF)
    if swap.before == swap.after:
        yield f"{swap.before.name} takes over from {swap.after.name}"


def _unit_faults(account: Account) -> Iterator[str]:
    units = [*account.units, *([account.added.unit] if account.added else [])]
    for what, words in (
        ("tag", [unit.tag for unit in units]),
        ("name", [unit.name for unit in units]),
        ("description", [unit.described for unit in units]),
        ("use", [unit.use for unit in units]),
    ):
        if len(set(words)) < len(words):
            yield f"two units have one {what}: {words}"
    excepted = account.exception
    if excepted and (excepted.unit not in account.units or not account.contract.excepts):
        yield f"{excepted.unit.tag} is left out of visits that it never had"
    if account.order and account.contract.extra is None:
        yield "more is ordered of something that the contract does not price"


def _remark_faults(account: Account) -> Iterator[str]:
    true = {*account.contract.values.values(), *(change.new for change in account.contract.amendments)}
    for term, value, day in account.wrong_remarks:
        if value in true:
            yield f"a remark of {day} about {term.key} is meant to be wrong and is right: {value}"


def _policy_faults(company: Company) -> Iterator[str]:
    for history in company.policies:
        days = [version.since for version in history.versions]
        memo = history.memo
        yield from _order_faults(history.policy.title, *days, *([memo.written_on, memo.since] if memo else []), AS_OF)
        if memo and history.versions[-1].values[memo.rule.key] != memo.old:
            yield f"{history.policy.title}: the memo changes {memo.old}, which no version says"
        if history.owner.duty != history.policy.owner:
            yield f"{history.policy.title} is owned by {history.owner.title}"


def _deal_faults(company: Company) -> Iterator[str]:
    for deal in company.deals:
        if deal.announced_on and deal.raised_on:
            yield from _order_faults(deal.number, deal.signed_on, deal.announced_on, deal.raised_on, AS_OF)
        if bool(deal.raised) != bool(deal.raised_on) or (deal.raised and deal.raised.keys() != deal.rates.keys()):
            yield f"{deal.number} has a new list without a day, or one that leaves something out"
        kept = [label for label, rate in deal.raised.items() if rate == deal.rates.get(label)]
        if deal.raised and len(kept) != 1:
            yield f"{deal.number}: the new list leaves {kept} alone, and should leave one"


def _work_faults(company: Company) -> Iterator[str]:
    for work in company.works:
        yield from (fault for day in work.paid_on for fault in _order_faults(work.name, work.planned_on, day, AS_OF))


def _people_faults(company: Company) -> Iterator[str]:
    addresses = [person.address for person in company.people]
    if len(set(addresses)) < len(addresses):
        yield "two people have one address"


def _table_faults(body: str) -> Iterator[str]:
    amounts = {row["first"].strip(): Decimal(row["amount"].replace(",", "")) for row in _ROW.finditer(body)}
    total = amounts.pop("Total", None)
    if total is None or total != sum(amounts.values()):
        yield f"the schedule adds up to {sum(amounts.values())}, and says {total}"
