"""Giving a company its customers, each with a contract and everything that happened under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.worlds.amounts import amount_of, drawn, first_of_next_month, money, working_day
from gradient_rl.worlds.company import person
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.entities import (
    AS_OF,
    FIRST_DAY,
    Account,
    AddedUnit,
    Amendment,
    Company,
    Contract,
    Credit,
    Damage,
    ExceptedUnit,
    Offered,
    Order,
    Person,
    Swap,
    Trouble,
    UnitHere,
)
from gradient_rl.worlds.naming import Register, plain
from gradient_rl.worlds.office import Office
from gradient_rl.worlds.trade import Amounts, CustomerKind, Incident, Term, Unit

_LAST_START = date(2024, 10, 31)
_LEGAL_FORMS = (" Ltd", " Limited", " Co-operative Society", " Holdings Ltd", " Partnership", " Group Ltd", " & Sons Ltd")
_MONTHS = (18, 24, 24, 30, 36, 36, 36, 48, 60)
_CREDITS = Amounts(low=Decimal(30), high=Decimal(900), step=Decimal(5))
_TERMS = (7, 10)
"""How many terms a contract settles, at least and at most."""
_SHARES = ("10", "12", "15", "18", "20", "25", "30", "35", "40", "45", "60")


@dataclass(frozen=True)
class Founder:
    """Makes customers of one company, one after the other."""

    company: Company
    office: Office
    difficulty: Difficulty
    register: Register
    heldout_share: float

    def accounts(self, rng: Random) -> Iterator[Account]:
        """Customers without end, namesakes beside each other and in the same split."""
        owed = 0.0
        while True:
            owed += self.heldout_share
            heldout = owed >= 1
            owed -= heldout
            kind = rng.choice(self.company.trade.customers)
            proper, town = self.register.proper(rng), rng.choice(self.office.names.towns)
            count = 2 if rng.random() < self._twin_rate() else 1
            names = [f"{proper} {ending}" for ending in rng.sample(kind.endings, count)]
            first = self._account(names[0], names[-1] if count > 1 else None, kind, town, heldout, rng)
            yield first
            if count > 1:
                near = town if rng.random() < 0.3 else rng.choice(self.office.names.towns)
                yield self._account(names[1], names[0], kind, near, heldout, rng, first)

    def _twin_rate(self) -> float:
        """Pairs among all founded names, so that the wanted share of the customers has a namesake."""
        share = self.difficulty.near_duplicates
        return share / (2 - share)

    def _account(
        self,
        name: str,
        twin: str | None,
        kind: CustomerKind,
        town: str,
        heldout: bool,
        rng: Random,
        elder: Account | None = None,
    ) -> Account:
        short = name if twin else name.rsplit(" ", 1)[0]
        domain = f"{plain(name)}.example"
        contacts = tuple(
            person(self.register.person(rng), title, "customer", domain, self.office, rng)
            for title in rng.sample(self.company.trade.contacts, 4)
        )
        manager = rng.choice(self.company.staff["sales"])
        fitter = rng.choice(self.company.staff["service"])
        units = self._units(kind, rng)
        contract = self._contract(contacts, manager, units, elder, rng)
        story = _Story(self, contract, contacts, manager, fitter, units, rng)
        deals = [deal for deal in self.company.deals if deal.heldout == heldout]
        deal = rng.choice(deals) if deals and rng.random() < 0.75 else None
        account = Account(
            number=self.register.number(rng),
            name=name,
            legal_name=name + rng.choice(_LEGAL_FORMS),
            short=short,
            called=self.register.nickname(kind.called, town, rng),
            town=town,
            twin=twin,
            contacts=contacts,
            manager=manager,
            fitter=fitter,
            units=units,
            contract=replace(contract, amendments=tuple(story.amendments())),
            troubles=tuple(story.troubles()),
            credits=(),
            order=story.order(),
            offers=tuple(story.offers()),
            added=story.added(),
            swap=story.swap(),
            damage=story.damage(),
            exception=story.exception(),
            deal=deal,
            label=rng.choice(sorted(deal.rates)) if deal else "",
            wrong_remarks=(),
            heldout=heldout,
        )
        account = replace(account, credits=tuple(story.credits(account.troubles)))
        return replace(account, wrong_remarks=tuple(story.remarks(account)))

    def _units(self, kind: CustomerKind, rng: Random) -> tuple[UnitHere, ...]:
        """Three to five units, at least three of one sort, each with a name and a place of its own."""
        fitting = self.company.trade.units_for(kind)
        sort = rng.choice(fitting)
        units: tuple[UnitHere, ...] = ()
        for unit in [sort, sort, sort, *rng.choices([sort, *fitting], k=rng.randint(0, 2))]:
            units = (*units, self.another_unit(units, unit, rng))
        return units

    def another_unit(self, others: tuple[UnitHere, ...], unit: Unit, rng: Random) -> UnitHere:
        """A unit that shares name, place, use and charge with none of the others at the customer's."""
        taken = {word for other in others for word in (other.name, other.place, other.use, other.charge)}
        name, place, use = (_free(words, taken, rng) for words in (unit.names, unit.places, unit.uses))
        charge = drawn(unit.charge, FactKind.MONEY, self.company.trade.currency, rng, taken)
        return UnitHere(unit, self.register.tag(unit.tag, rng), name, place, use, charge)

    def _contract(
        self, contacts: tuple[Person, ...], manager: Person, units: tuple[UnitHere, ...], elder: Account | None, rng: Random
    ) -> Contract:
        trade = self.company.trade
        signed_on = working_day(rng, FIRST_DAY, _LAST_START - timedelta(days=60))
        planned = working_day(rng, signed_on + timedelta(days=14), signed_on + timedelta(days=45))
        extra = rng.choice(trade.extras) if rng.random() < 0.85 else None
        return Contract(
            number=self.register.number(rng, f"{self.company.prefix}-", 4),
            title=rng.choice(trade.agreements),
            signed_on=signed_on,
            planned_start=planned,
            planned_by_mail=rng.random() < 0.4,
            accepted_on=working_day(rng, planned + timedelta(days=3), planned + timedelta(days=24)),
            months=rng.choice(_MONTHS),
            values=self._values(elder.contract.values if elder else {}, rng),
            amendments=(),
            share=rng.choice(_SHARES) if rng.random() < 0.7 else None,
            extra=extra,
            extra_price=drawn(extra.price, FactKind.MONEY, trade.currency, rng) if extra else "",
            excepts=rng.random() < 0.95,
            signer=self.company.staff["director"][0],
            customer_signer=contacts[0],
        )

    def _values(self, elder: Mapping[str, str], rng: Random) -> dict[str, str]:
        """Values of some terms; those that a namesake has too differ from its."""
        trade = self.company.trade
        firm = [term.key for term in trade.terms if not term.skippable]
        optional = [term.key for term in trade.terms if term.skippable]
        agreed = {*firm, *rng.sample(optional, max(0, min(len(optional) - 2, rng.randint(*_TERMS) - len(firm))))}
        values: dict[str, str] = {}
        for term in trade.terms:
            if term.key in agreed:
                taken = [*values.values(), elder.get(term.key, "")]
                values[term.key] = drawn(term.amounts, term.kind, trade.currency, rng, taken)
        return values


@dataclass(frozen=True)
class _Story:
    """What happens under one contract."""

    founder: Founder
    contract: Contract
    contacts: tuple[Person, ...]
    manager: Person
    fitter: Person
    units: tuple[UnitHere, ...]
    rng: Random

    @property
    def _currency(self) -> str:
        return self.founder.company.trade.currency

    def _day(self, after: date, before: date = AS_OF, least: int = 10) -> date:
        return working_day(self.rng, min(after + timedelta(days=least), before), before)

    def _approver(self, amount: Decimal = Decimal(0)) -> Person:
        """Somebody of the company whose signature is good for the amount."""
        heads = [*self.founder.company.staff["finance"][:1], *self.founder.company.staff["director"]]
        return self.rng.choice([head for head in heads if head.approves_up_to >= amount])

    def amendments(self) -> Iterator[Amendment]:
        share = self.founder.difficulty.superseded
        count = (self.rng.random() < share) + (self.rng.random() < share * 0.5)
        terms = [term for term in self.founder.company.trade.terms if term.key in self.contract.values]
        for term in self.rng.sample(terms, count):
            asked = self._day(self.contract.accepted_on, AS_OF - timedelta(days=75), 30)
            agreed = working_day(self.rng, asked + timedelta(days=1), asked + timedelta(days=12))
            old = self.contract.values[term.key]
            new = drawn(term.amounts, term.kind, self._currency, self.rng, [old, *self.contract.values.values()])
            if new != old:
                yield Amendment(
                    term=term,
                    old=old,
                    new=new,
                    asked_on=asked,
                    agreed_on=agreed,
                    since=first_of_next_month(agreed),
                    asked_by=self.rng.choice(self.contacts[:2]),
                    agreed_by=self.manager,
                    approver=self._approver(),
                )

    def troubles(self) -> Iterator[Trouble]:
        chances = (0.95, 0.5, 0.15)
        incidents = self.rng.sample(self.founder.company.trade.incidents, len(chances))
        months: set[tuple[int, int]] = set()
        for incident, chance in zip(incidents, chances, strict=True):
            day = self._day(self.contract.accepted_on, AS_OF - timedelta(days=30), 5)
            if self.rng.random() < chance and (day.year, day.month) not in months:
                months.add((day.year, day.month))
                yield self._trouble(incident, day)

    def _trouble(self, incident: Incident, day: date) -> Trouble:
        rng, service = self.rng, self.founder.company.staff["service"]
        place = rng.randrange(len(incident.causes))
        reviewed = working_day(rng, day + timedelta(days=2), day + timedelta(days=9)) if rng.random() < 0.55 else None
        closed_after = reviewed or day
        return Trouble(
            incident=incident,
            unit=rng.choice(self.units),
            job=self.founder.register.number(rng, f"{self.founder.company.prefix[0]}{day:%y}-", 4),
            reported_on=day,
            reviewed_on=reviewed,
            closed_on=working_day(rng, closed_after + timedelta(days=1), closed_after + timedelta(days=12)),
            suspected=rng.choice(incident.suspected),
            cause=incident.causes[place],
            remedy=incident.remedies[place % len(incident.remedies)],
            reporter=rng.choice(self.contacts[:3]),
            fitter=self.fitter if rng.random() < 0.6 else rng.choice(service),
        )

    def credits(self, troubles: tuple[Trouble, ...]) -> Iterator[Credit]:
        """Three credits in three kinds of record, or one by mail, or none; each for a trouble of its own."""
        media = ("mail", "minutes", "notes") if self.rng.random() < 0.7 else self.rng.choice((("mail",), ()))
        taken: list[str] = []
        for medium, (reasons, after) in zip(media, self._reasons(troubles), strict=False):
            amount = drawn(_CREDITS, FactKind.MONEY, self._currency, self.rng, taken)
            taken.append(amount)
            given = self._day(after, AS_OF, 1)
            yield Credit(amount, self.rng.choice(reasons), given, self._approver(amount_of(amount)), medium)

    def _reasons(self, troubles: tuple[Trouble, ...]) -> list[tuple[tuple[str, ...], date]]:
        """Reasons for a credit and the day after which it may be given: the troubles on file, then others that are not."""
        known = [(trouble.incident.credit_reasons, trouble.closed_on) for trouble in troubles]
        kinds = [trouble.incident for trouble in troubles]
        others = [incident for incident in self.founder.company.trade.incidents if incident not in kinds]
        self.rng.shuffle(others)
        return [*known, *((incident.credit_reasons, self.contract.accepted_on + timedelta(days=15)) for incident in others)]

    def order(self) -> Order | None:
        if self.contract.extra is None or self.rng.random() > 0.8:
            return None
        day = self._day(self.contract.accepted_on, AS_OF - timedelta(days=20), 30)
        return Order(self.rng.randint(2, 14), day, self.rng.choice(self.units).place, self.contacts[1])

    def offers(self) -> Iterator[Offered]:
        for offer in self.rng.sample(self.founder.company.trade.offers, self.rng.choice((0, 1, 1, 2))):
            price = drawn(offer.price, FactKind.MONEY, self._currency, self.rng)
            yield Offered(offer, self.rng.choice(self.units), price, self._day(self.contract.accepted_on, least=15))

    def added(self) -> AddedUnit | None:
        if self.rng.random() > 0.75:
            return None
        charges = [unit.charge for unit in self.units]
        unit = self.founder.another_unit(self.units, self.units[0].unit, self.rng)
        wrong = drawn(unit.unit.charge, FactKind.MONEY, self._currency, self.rng, [unit.charge, *charges])
        wrong_on = self._day(self.contract.accepted_on, AS_OF - timedelta(days=60), 20)
        right_on = working_day(self.rng, wrong_on + timedelta(days=4), wrong_on + timedelta(days=45))
        order = self.founder.register.number(self.rng, "OF-", 4)
        return AddedUnit(unit, order, wrong, wrong_on, right_on) if wrong != unit.charge else None

    def swap(self) -> Swap | None:
        if self.rng.random() > 0.7:
            return None
        told = self._day(self.contract.accepted_on, AS_OF - timedelta(days=45), 30)
        matter = self.rng.choice(self.founder.office.swap.matters)
        return Swap(matter, self.contacts[2], self.contacts[3], told, first_of_next_month(told))

    def damage(self) -> Damage | None:
        if self.contract.share is None or self.rng.random() > 0.85:
            return None
        done = self._day(self.contract.accepted_on, AS_OF - timedelta(days=40), 15)
        done = done.replace(day=min(done.day, 18))
        billed = working_day(self.rng, done + timedelta(days=2), done.replace(day=28))
        return Damage(
            self.rng.choice(self.units), done, billed, money(self._currency, Decimal(self.rng.randrange(400, 6000, 20)))
        )

    def exception(self) -> ExceptedUnit | None:
        if not self.contract.excepts or self.rng.random() > 0.9:
            return None
        same = [unit for unit in self.units if unit.unit is self.units[0].unit]
        return ExceptedUnit(self.rng.choice(same), self._day(self.contract.accepted_on, AS_OF - timedelta(days=20)))

    def remarks(self, account: Account) -> Iterator[tuple[Term, str, date]]:
        """Values that somebody mentions in passing and gets wrong."""
        changed = {change.term.key for change in account.contract.amendments}
        terms = [t for t in self.founder.company.trade.terms if t.key in self.contract.values and t.key not in changed]
        true = {*self.contract.values.values(), *(change.new for change in account.contract.amendments)}
        for _ in range(self.founder.difficulty.distractors):
            term = self.rng.choice(terms)
            value = drawn(term.amounts, term.kind, self._currency, self.rng, true)
            if value not in true:
                yield term, value, self._day(self.contract.accepted_on, AS_OF - timedelta(days=5), 20)


def _free(words: tuple[str, ...], taken: set[str], rng: Random) -> str:
    free = [word for word in words if word not in taken]
    return rng.choice(free or words)
