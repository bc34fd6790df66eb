"""Small worlds that many tests look at: companies, their customers, the records they leave, the questions drafted on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from random import Random

from gradient_rl.schema.workspace import Record
from gradient_rl.worlds.account import Founder
from gradient_rl.worlds.account_drafts import AccountDrafts
from gradient_rl.worlds.company import found_company
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.drafts import Draft, Filed
from gradient_rl.worlds.entities import Account, Company
from gradient_rl.worlds.house import House
from gradient_rl.worlds.house_drafts import policy_drafts, work_drafts
from gradient_rl.worlds.letters import Letters
from gradient_rl.worlds.naming import Register
from gradient_rl.worlds.office import load_office
from gradient_rl.worlds.papers import Papers
from gradient_rl.worlds.trade import Trade, load_trade
from gradient_rl.worlds.writing import Numbering, Scene, Writer

DIFFICULTY = Difficulty()


@lru_cache(None)
def trade_of(name: str) -> Trade:
    return load_trade(name)


@lru_cache(None)
def founder_of(trade: str) -> Founder:
    register = Register(load_office().names)
    company = found_company(trade_of(trade), load_office(), DIFFICULTY, 300, register, Random(5))
    return Founder(company, load_office(), DIFFICULTY, register, 0.5)


def company_of(trade: str) -> Company:
    return founder_of(trade).company


@lru_cache(None)
def accounts_of(trade: str) -> tuple[Account, ...]:
    """The first 200 customers."""
    return tuple(islice(founder_of(trade).accounts(Random(6)), 200))


def writer_for(trade: str, records: int = 5000) -> Writer:
    return Writer(company_of(trade), load_office(), DIFFICULTY, Numbering(records, 7))


def scenes_of(account: Account, writer: Writer) -> list[Scene]:
    rng = Random(account.number)
    return [*Papers(writer, account, rng).all(), *Letters(writer, account, rng).all()]


@dataclass(frozen=True)
class Asked:
    """A customer with its records and the drafts about it."""

    account: Account
    filed: Filed
    drafts: tuple[Draft, ...]


@dataclass(frozen=True)
class Town:
    """A company with ten customers: all records, and all drafts."""

    company: Company
    records: tuple[Record, ...]
    customers: tuple[Asked, ...]
    policies: tuple[Draft, ...]
    works: tuple[Draft, ...]

    @property
    def drafts(self) -> list[Draft]:
        return [*self.policies, *self.works, *(draft for asked in self.customers for draft in asked.drafts)]


@lru_cache(None)
def town_of(trade: str) -> Town:
    writer, rng = writer_for(trade, 700), Random(8)
    company, house, records = writer.company, House(writer, rng), []
    deals = {deal.number: filed(list(house.deal(deal)), records) for deal in company.deals}
    policies = [d for h in company.policies for d in policy_drafts(h, filed(list(house.policy(h)), records), rng)]
    works = [
        draft
        for work in company.works
        for draft in work_drafts(work, filed(list(house.work(work)), records), writer.office, company.trade.currency, rng)
    ]
    customers: list[Asked] = []
    for account in accounts_of(trade)[:10]:
        left = filed(scenes_of(account, writer), records)
        if account.deal:
            deal = deals[account.deal.number].records
            left = Filed({**left.records, "deal": deal.get("letter", deal["agreement"])})
        drafts = AccountDrafts(company, writer.office, account, left, None, DIFFICULTY, rng).all()
        customers.append(Asked(account, left, tuple(drafts)))
    return Town(company, tuple(records), tuple(customers), tuple(policies), tuple(works))


def filed(scenes: Sequence[Scene], records: list[Record]) -> Filed:
    records += [scene.record for scene in scenes]
    return Filed({scene.role: scene.record for scene in scenes})
