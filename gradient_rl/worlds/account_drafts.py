"""Drafts about one customer: every question that its story answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import Fact, FactKind, Family, Operation
from gradient_rl.worlds.amounts import after_months, amount_of, money, month_of, written, written_date
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.drafts import Draft, Filed, answered, asked, derived, fact_of, input_of
from gradient_rl.worlds.entities import Account, Company, Trouble, UnitHere
from gradient_rl.worlds.grammar import expand
from gradient_rl.worlds.office import Office


@dataclass(frozen=True)
class AccountDrafts:
    """Drafts about one customer."""

    company: Company
    office: Office
    account: Account
    filed: Filed
    namesake: tuple[Account, Filed] | None
    difficulty: Difficulty
    rng: Random

    def all(self) -> Iterator[Draft]:
        """Every question that this customer's story answers."""
        builders: tuple[Callable[[], Iterator[Draft]], ...] = (
            self._terms,
            self._charge,
            self._offers,
            self._changes,
            self._swap,
            self._causes,
            self._deal,
            self._serial,
            self._cause_and_credit,
            self._order,
            self._end,
            self._share,
            self._credits,
            self._price,
            self._begin,
            self._disputed_cause,
            self._exception,
            self._absent,
        )
        for build in builders:
            yield from build()

    # What the builders have in common.

    @property
    def _subject(self) -> tuple[str, ...]:
        return (self.account.name, *self.account.aliases)

    def _draft(
        self, family: Family, phrases: Sequence[str], facts: Sequence[Fact], answer: str, roles: Sequence[str],
        hops: int = 1, matter_of: str = "", **slots: str,
    ) -> Draft:  # fmt: skip
        """A draft whose question names the customer, by its name or by what it is called.

        Args:
            matter_of: what the question is about, as the records call it.
        """
        described = bool(self.account.called) and self.rng.random() < self.difficulty.hops
        who = self.account.called if described else self.account.name
        question = asked(phrases, self.rng, who=who, **slots)
        if matter_of and matter_of.split()[-1] not in question and self.rng.random() >= self.difficulty.paraphrase:
            question = f"{question} {asked(self.office.frames.matters, self.rng, matter=matter_of)}"
        required = tuple((self.filed.id(role),) for role in roles)
        guides = () if "record" in roles else (self.filed.id("record"),)
        return Draft(family, question, tuple(facts), answer, required, self.account.heldout, guides, guides, hops + described)

    def _thing(self, unit: UnitHere) -> str:
        """A unit as the question names it."""
        return unit.name if self.rng.random() < 0.5 else unit.described

    def _wrong(self, key: str) -> list[str]:
        """Values of a term that somebody got wrong."""
        return [value for term, value, _ in self.account.wrong_remarks if term.key == key]

    def _others(self, key: str) -> list[str]:
        """The namesake's value of a term."""
        value = self.namesake[0].contract.values.get(key) if self.namesake else None
        return [value] if value else []

    # Lookup.

    def _terms(self) -> Iterator[Draft]:
        changed = {change.term.key for change in self.account.contract.amendments}
        contract = self.filed.id("contract")
        terms = [t for t in self.company.trade.terms if t.key in self.account.contract.values and t.key not in changed]
        for term in self.rng.sample(terms, min(3, len(terms))):
            value = self.account.contract.values[term.key]
            answer = answered(term.answer, term.kind, value, self.rng, who=self.account.name)
            rivals = [*self._wrong(term.key), *self._others(term.key)]
            fact = fact_of(self._subject, answer, term.kind, value, [contract], rivals=rivals)
            yield self._draft(Family.LOOKUP, term.asks_now, [fact], answer, ["contract"], matter_of=term.topic)

    def _charge(self) -> Iterator[Draft]:
        unit = self.rng.choice(self.account.units)
        amount = written(unit.charge, FactKind.MONEY, self.rng)
        answer = f"{self.account.name} pays {amount} a month for {unit.name} ({unit.tag})."
        fact = fact_of(self._subject, answer, FactKind.MONEY, unit.charge, [self.filed.id("contract")])
        yield self._draft(Family.LOOKUP, self.office.frames.charge_asks, [fact], answer, ["contract"], thing=unit.name)

    def _offers(self) -> Iterator[Draft]:
        for place, offered in enumerate(self.account.offers):
            price = written(offered.price, FactKind.MONEY, self.rng)
            answer = f"{self.account.name} was offered {offered.offer.item} for {price}."
            others = [other.price for other in self.account.offers]
            fact = fact_of(
                self._subject, answer, FactKind.MONEY, offered.price, [self.filed.id(f"offer:{place}")], rivals=others
            )
            thing = self._thing(offered.unit)
            yield self._draft(
                Family.LOOKUP, offered.offer.asks, [fact], answer, [f"offer:{place}"], matter_of=offered.offer.item, thing=thing
            )

    # Superseded, and in force on a day.

    def _changes(self) -> Iterator[Draft]:
        contract = self.filed.id("contract")
        for place, change in enumerate(self.account.contract.amendments):
            mail, term = self.filed.id(f"change:{place}"), change.term
            inputs = (
                input_of(contract, change.old, self.account.contract.signed_on),
                input_of(mail, change.new, change.since),
            )
            wrong = self._wrong(term.key)
            answer = answered(term.answer, term.kind, change.new, self.rng, who=self.account.name)
            fact = fact_of(
                self._subject, answer, term.kind, change.new, [contract, mail], rivals=[change.old, *wrong],
                derivation=derived(Operation.LATEST, *inputs),
            )  # fmt: skip
            roles = ["contract", f"change:{place}"]
            yield self._draft(Family.SUPERSEDED, term.asks_now, [fact], answer, roles, 2, matter_of=term.topic)
            day = self._day_between(self.account.contract.accepted_on, change.since)
            answer = answered(term.answer, term.kind, change.old, self.rng, who=self.account.name)
            fact = fact_of(
                self._subject, answer, term.kind, change.old, [contract, mail], rivals=[change.new, *wrong],
                derivation=derived(Operation.IN_FORCE, *inputs, on=day),
            )  # fmt: skip
            yield self._draft(
                Family.IN_FORCE_ON_DATE, term.asks_then, [fact], answer, roles, 2, matter_of=term.topic,
                date=written_date(day, self.rng),
            )  # fmt: skip

    def _day_between(self, first: date, last: date) -> date:
        return first + timedelta(days=self.rng.randint(1, max(1, (last - first).days - 3)))

    def _swap(self) -> Iterator[Draft]:
        swap = self.account.swap
        if swap:
            record, mail = self.filed.id("record"), self.filed.id("swap")
            answer = f"{swap.after.name} looks after {swap.matter} at {self.account.name}."
            inputs = (
                input_of(record, swap.before.name, self.account.contract.accepted_on),
                input_of(mail, swap.after.name, swap.since),
            )
            fact = fact_of(
                self._subject, answer, FactKind.NAME, swap.after.name, [record, mail], rivals=[swap.before.name],
                derivation=derived(Operation.LATEST, *inputs),
            )  # fmt: skip
            asks = self.office.swap.asks
            yield self._draft(Family.SUPERSEDED, asks, [fact], answer, ["record", "swap"], 2, matter=swap.matter)

    # Two hops and three.

    def _causes(self) -> Iterator[Draft]:
        for place, trouble in enumerate(self.account.troubles):
            if trouble.reviewed_on:
                continue
            slots = {"thing": self._thing(trouble.unit), "when": f"in {month_of(trouble.reported_on)}"}
            roles = ["record", f"report:{place}"]
            fact, answer = self._cause(place, trouble)
            yield self._draft(Family.TWO_HOPS, trouble.incident.asks_cause, [fact], answer, roles, 2, **slots)
            answer = f"Job {trouble.job} was put right with: {trouble.remedy}."
            fact = self._of_job(trouble, answer, trouble.remedy, place)
            yield self._draft(Family.TWO_HOPS, trouble.incident.asks_remedy, [fact], answer, roles, 2, **slots)

    def _cause(self, place: int, trouble: Trouble) -> tuple[Fact, str]:
        answer = f"The report on job {trouble.job} gives the cause: {trouble.cause}."
        return self._of_job(trouble, answer, trouble.cause, place), answer

    def _of_job(self, trouble: Trouble, statement: str, value: str, place: int) -> Fact:
        return fact_of((trouble.job,), statement, FactKind.TEXT, value, [self.filed.id(f"report:{place}")])

    def _deal(self) -> Iterator[Draft]:
        deal, label = self.account.deal, self.account.label
        if deal is None or not self.filed.has("deal"):
            return
        rates = deal.raised or deal.rates
        answer = (
            f"{deal.supplier} charges {written(rates[label], FactKind.MONEY, self.rng)} for {deal.supply.category} {label}."
        )
        rivals = [deal.rates[label]] if deal.raised else []
        fact = fact_of(
            (deal.number, deal.supplier), answer, FactKind.MONEY, rates[label], [self.filed.id("deal")], rivals=rivals
        )
        draft = self._draft(Family.TWO_HOPS, deal.supply.asks, [fact], answer, ["record", "deal"], 2, supplier=deal.supplier)
        neutral = [self.filed.id("old deal")] if self.filed.has("old deal") else []
        yield replace(draft, neutral=(*draft.neutral, *neutral))

    def _serial(self) -> Iterator[Draft]:
        contract, record = self.filed.id("contract"), self.filed.id("record")
        for place, trouble in enumerate(self.account.troubles):
            unit = trouble.unit
            shown = unit.use.lower() in self.filed.records["record"].body.lower()
            damaged = self.account.damage is not None and self.account.damage.unit is unit
            if not shown or damaged or sum(t.unit is unit for t in self.account.troubles) > 1:
                continue
            answer = f"It is {unit.name}, number {unit.tag} in the contract; what put it right: {trouble.remedy}."
            facts = (
                fact_of(self._subject, f"The one for {unit.use} is {unit.name}.", FactKind.NAME, unit.name, [record]),
                fact_of(self._subject, f"{unit.name} is number {unit.tag}.", FactKind.TEXT, unit.tag, [contract]),
                fact_of((unit.tag, trouble.job), f"Remedy: {trouble.remedy}.", FactKind.TEXT, trouble.remedy,
                      [self.filed.id(f"report:{place}")]),
            )  # fmt: skip
            roles = ["record", "contract", f"report:{place}"]
            yield self._draft(Family.THREE_HOPS, self.office.frames.serial_asks, facts, answer, roles, 3, use=unit.use)

    def _cause_and_credit(self) -> Iterator[Draft]:
        credit = next((credit for credit in self.account.credits if credit.medium == "mail"), None)
        if credit is None:
            return
        for place, trouble in enumerate(self.account.troubles):
            if credit.reason not in trouble.incident.credit_reasons or trouble.reviewed_on:
                continue
            cause, answer = self._cause(place, trouble)
            amount = written(credit.amount, FactKind.MONEY, self.rng)
            statement = f"{self.account.name} was credited {amount} for it."
            fact = fact_of(self._subject, statement, FactKind.MONEY, credit.amount, [self.filed.id("credit:mail")])
            slots = {"thing": self._thing(trouble.unit), "when": f"in {month_of(trouble.reported_on)}"}
            asks = [f"{ask} {self.rng.choice(self.office.frames.also_credited)}" for ask in trouble.incident.asks_cause]
            roles = ["record", f"report:{place}", "credit:mail"]
            yield self._draft(Family.THREE_HOPS, asks, [cause, fact], f"{answer} {statement}", roles, 3, **slots)

    # A mail joined with a document.

    def _order(self) -> Iterator[Draft]:
        order, contract = self.account.order, self.account.contract
        if order is None or contract.extra is None:
            return
        total = money(self.company.trade.currency, amount_of(contract.extra_price) * order.count)
        amount = written(total, FactKind.MONEY, self.rng)
        per = "in all" if contract.extra.per == "each" else contract.extra.per
        answer = f"The further {contract.extra.many} cost {self.account.name} {amount} {per}."
        inputs = (input_of(self.filed.id("order"), str(order.count)), input_of(self.filed.id("contract"), contract.extra_price))
        fact = fact_of(
            self._subject, answer, FactKind.MONEY, total, [given.record for given in inputs],
            derivation=derived(Operation.PRODUCT, *inputs),
        )  # fmt: skip
        yield self._draft(
            Family.MAIL_WITH_DOCUMENT,
            contract.extra.asks,
            [fact],
            answer,
            ["contract", "order"],
            2,
            matter_of=contract.extra.many,
        )

    def _end(self) -> Iterator[Draft]:
        contract = self.account.contract
        end = after_months(contract.accepted_on, contract.months)
        answer = f"The contract with {self.account.name} runs out on {written_date(end, self.rng)}."
        inputs = (
            input_of(self.filed.id("start"), contract.accepted_on.isoformat()),
            input_of(self.filed.id("contract"), f"{contract.months} months"),
        )
        fact = fact_of(
            self._subject, answer, FactKind.DATE, end.isoformat(), [given.record for given in inputs],
            derivation=derived(Operation.SHIFT_DATE, *inputs),
        )  # fmt: skip
        yield self._draft(Family.MAIL_WITH_DOCUMENT, self.office.start.asks, [fact], answer, ["contract", "start"], 2)

    def _share(self) -> Iterator[Draft]:
        damage, contract = self.account.damage, self.account.contract
        if damage is None or contract.share is None:
            return
        part = money(
            self.company.trade.currency, (amount_of(damage.cost) * Decimal(contract.share) / 100).quantize(Decimal("0.01"))
        )
        answer = f"{self.account.name} bears {written(part, FactKind.MONEY, self.rng)} of it."
        inputs = (input_of(self.filed.id("contract"), f"{contract.share}%"), input_of(self.filed.id("damage"), damage.cost))
        fact = fact_of(
            self._subject, answer, FactKind.MONEY, part, [given.record for given in inputs], rivals=[damage.cost],
            derivation=derived(Operation.PERCENT_OF, *inputs),
        )  # fmt: skip
        slots = {"thing": self._thing(damage.unit), "when": f"in {month_of(damage.done_on)}"}
        asks = self.office.repair.asks
        yield self._draft(Family.MAIL_WITH_DOCUMENT, asks, [fact], answer, ["contract", "damage"], 2, **slots)

    # Aggregation.

    def _credits(self) -> Iterator[Draft]:
        credits_ = self.account.credits
        if len(credits_) < 3:
            return
        total = money(self.company.trade.currency, sum((amount_of(c.amount) for c in credits_), Decimal(0)))
        answer = f"{self.account.name} has had {written(total, FactKind.MONEY, self.rng)} back in all."
        roles = [{"mail": "credit:mail", "minutes": "credit:minutes", "notes": "record"}[c.medium] for c in credits_]
        inputs = [input_of(self.filed.id(role), c.amount) for role, c in zip(roles, credits_, strict=True)]
        fact = fact_of(
            self._subject, answer, FactKind.MONEY, total, [given.record for given in inputs],
            derivation=derived(Operation.SUM, *inputs),
        )  # fmt: skip
        order = sorted(roles, key=lambda role: role != "record")
        yield self._draft(Family.AGGREGATION, self.office.credit.asks, [fact], answer, order, 3)

    # Conflicting sources.

    def _price(self) -> Iterator[Draft]:
        added = self.account.added
        if added is None:
            return
        wrong, right = self.filed.id("price:wrong"), self.filed.id("price:right")
        amount = written(added.unit.charge, FactKind.MONEY, self.rng)
        answer = (
            f"{added.unit.name} at {self.account.name} is to be charged at {amount} a month, by the signed order {added.order}."
        )
        inputs = (input_of(wrong, added.wrong, added.wrong_on), input_of(right, added.unit.charge, added.right_on))
        fact = fact_of(
            self._subject, answer, FactKind.MONEY, added.unit.charge, [wrong, right], rivals=[added.wrong],
            derivation=derived(Operation.LATEST, *inputs),
        )  # fmt: skip
        asks = self.office.price.asks
        roles = ["price:wrong", "price:right"]
        yield self._draft(Family.CONFLICTING_SOURCES, asks, [fact], answer, roles, 2, thing=added.unit.name)

    def _begin(self) -> Iterator[Draft]:
        contract = self.account.contract
        plan, start = self.filed.id("plan"), self.filed.id("start")
        answer = (
            f"{self.account.name} really began on {written_date(contract.accepted_on, self.rng)}, as the signed sheet says."
        )
        inputs = (
            input_of(plan, contract.planned_start.isoformat(), contract.signed_on),
            input_of(start, contract.accepted_on.isoformat(), contract.accepted_on),
        )
        fact = fact_of(
            self._subject, answer, FactKind.DATE, contract.accepted_on.isoformat(), [plan, start],
            rivals=[contract.planned_start.isoformat()], derivation=derived(Operation.LATEST, *inputs),
        )  # fmt: skip
        asks = self.office.start.asks_begin
        yield self._draft(Family.CONFLICTING_SOURCES, asks, [fact], answer, ["plan", "start"], 2)

    def _disputed_cause(self) -> Iterator[Draft]:
        for place, trouble in enumerate(self.account.troubles):
            if trouble.reviewed_on is None:
                continue
            review, report = self.filed.id(f"review:{place}"), self.filed.id(f"report:{place}")
            answer = f"The report on job {trouble.job} settles it: {trouble.cause}."
            inputs = (
                input_of(review, trouble.suspected, trouble.reviewed_on),
                input_of(report, trouble.cause, trouble.closed_on),
            )
            fact = fact_of(
                (trouble.job,), answer, FactKind.TEXT, trouble.cause, [review, report], rivals=[trouble.suspected],
                derivation=derived(Operation.LATEST, *inputs),
            )  # fmt: skip
            slots = {"thing": self._thing(trouble.unit), "when": f"in {month_of(trouble.reported_on)}"}
            asks = [f"{self.rng.choice(self.office.frames.disputes)} {ask}" for ask in trouble.incident.asks_cause]
            roles = [f"review:{place}", f"report:{place}"]
            yield self._draft(Family.CONFLICTING_SOURCES, asks, [fact], answer, roles, 2, **slots)

    # Exceptions, and what is not on record.

    def _exception(self) -> Iterator[Draft]:
        excepted = self.account.exception
        if excepted is None:
            return
        contract, mail, out = self.filed.id("contract"), self.filed.id("exception"), excepted.unit
        same = [unit for unit in self.account.units if unit.unit is out.unit]
        inputs = [input_of(contract, unit.name, covered=True) for unit in same if unit is not out]
        answer = f"At {self.account.name} the visits leave out {out.name} ({out.tag})."
        fact = fact_of(
            self._subject, answer, FactKind.NAME, out.name, [contract, mail], aliases=[out.tag],
            rivals=[unit.name for unit in same if unit is not out],
            derivation=derived(Operation.EXCLUDE, *inputs, input_of(mail, out.name, covered=False)),
        )  # fmt: skip
        asks, plural = self.office.exclusion.asks, out.unit.plural
        yield self._draft(Family.EXCEPTIONS, asks, [fact], answer, ["contract", "exception"], 2, plural=plural)

    def _absent(self) -> Iterator[Draft]:
        contract, record = self.filed.id("contract"), self.filed.id("record")
        terms = self.account.absent_terms(self.company.trade)
        for term in self.rng.sample(terms, min(2, len(terms))):
            answer = expand(
                self.rng.choice(self.office.frames.absence_answers), {"who": self.account.name, "topic": term.topic}, self.rng
            )
            fact = fact_of(
                self._subject, answer, FactKind.ABSENT, None, [contract, record], rivals=self._others(term.key)[:1],
                asked_kind=term.kind, about=term.absent_words,
                derivation=derived(Operation.ABSENCE, input_of(contract, None), input_of(record, None)),
            )  # fmt: skip
            yield self._draft(
                Family.NOT_ON_RECORD, term.asks_absent, [fact], answer, ["contract", "record"], 2, matter_of=term.topic
            )
