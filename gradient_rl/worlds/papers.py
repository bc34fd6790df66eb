"""Documents that the story of a customer leaves: the contract, the customer record, minutes."""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.schema.workspace import DocumentStatus, RecordKind
from gradient_rl.worlds.amounts import amount_of, money, working_day, written, written_date
from gradient_rl.worlds.entities import AS_OF, Account, Credit, Person, Trouble, UnitHere
from gradient_rl.worlds.letters import latest_day
from gradient_rl.worlds.trade import Item
from gradient_rl.worlds.writing import Scene, Writer

_NUMBERINGS = ("{n}. {heading}", "{n}. {HEADING}", "{n} {heading}", "Clause {n}: {heading}", "§ {n} {heading}")
_BY_NAME = 0.4
"""Share of contracts that call the customer by its name, and not `the Customer`."""
_Section = tuple[str, list[str]]


@dataclass(frozen=True)
class Papers:
    """Writes the documents about one customer."""

    writer: Writer
    account: Account
    rng: Random

    def all(self) -> Iterator[Scene]:
        """Contract, customer record and minutes."""
        yield self._contract()
        for place, trouble in enumerate(self.account.troubles):
            if trouble.reviewed_on:
                yield self._review(place, trouble)
        yield from self._rounds()
        yield self._record()

    def _pick(self, phrases: Sequence[str], **slots: str) -> str:
        return self.writer.pick(phrases, self.rng, **slots)

    # The contract.

    def _contract(self) -> Scene:
        account, contract, frames = self.account, self.account.contract, self.writer.office.frames
        we = self._pick(self.writer.company.trade.we)
        they = account.short if self.rng.random() < _BY_NAME else self._pick(self.writer.company.trade.they)
        day = f"{contract.signed_on.day} {calendar.month_name[contract.signed_on.month]} {contract.signed_on.year}"
        recital = self._pick(
            frames.recitals,
            contract=contract.number,
            date=day,
            account=account.number,
            town=self.writer.company.town,
            they_town=account.town,
            we_name=self.writer.company.name,
            they_name=account.legal_name,
            we_role=we,
            they_role=they,
        )
        signature = self._pick(
            frames.signatures,
            town=self.writer.company.town,
            date=day,
            signer=contract.signer.name,
            they_signer=contract.customer_signer.name,
        )
        body = "\n\n".join([recital, *self._numbered(self._sections(we, they)), self._schedule(), signature])
        title = f"{contract.title} {contract.number}" + (f", {account.name}" if self.rng.random() < 0.5 else "")
        document = self.writer.document(
            RecordKind.CONTRACT, title, self.writer.company.staff["legal"][0], contract.signed_on, DocumentStatus.SIGNED, body
        )
        return Scene("contract", document, (("contract", contract.signed_on),))

    def _sections(self, we: str, they: str) -> list[_Section]:
        """Terms and whatever else a contract has, in an order of its own, each with a filler or two."""
        office, contract, trade = self.writer.office, self.account.contract, self.writer.company.trade
        roles = {"we": we, "they": they}
        fillers = self.rng.sample([*trade.clauses, *office.frames.clauses], 14)
        begin = self._pick(
            office.start.clauses, months=written(f"{contract.months} months", FactKind.DURATION, self.rng), **roles
        )
        middle: list[_Section] = []
        for term in trade.terms:
            if term.key in contract.values:
                value = written(contract.values[term.key], term.kind, self.rng, formal=True)
                middle.append((term.heading, [self._pick(term.clauses, value=value, **roles)]))
        for section in self.rng.sample(middle, min(len(middle), 4)):
            section[1].insert(self.rng.randint(0, 1), self._pick([fillers.pop()], **roles))
        if contract.extra:
            price = written(contract.extra_price, FactKind.MONEY, self.rng, formal=True)
            heading = f"Further {contract.extra.many}"
            middle.append((heading, [self._pick(contract.extra.clauses, price=price, **roles)]))
        if contract.share:
            share = written(contract.share, FactKind.PERCENT, self.rng, formal=True)
            middle.append((office.repair.heading, [self._pick(office.repair.clauses, percent=share, **roles)]))
        if contract.excepts:
            middle.append((self._pick(office.exclusion.headings), [self._pick(office.exclusion.clauses, **roles)]))
        self.rng.shuffle(middle)
        general = [self._pick([filler], **roles) for filler in fillers[: self.rng.randint(4, 8)]]
        half = len(general) // 2
        headings = self.rng.sample(office.frames.general_headings, 2)
        last = [(headings[0], general[:half]), (headings[1], general[half:])]
        return [(self._pick(office.frames.term_headings), [begin]), *middle, *last]

    def _numbered(self, sections: Sequence[_Section]) -> Iterator[str]:
        style, spaced = self.rng.choice(_NUMBERINGS), self.rng.random() < 0.5
        for number, (heading, clauses) in enumerate(sections, 1):
            first = style.format(n=number, heading=heading, HEADING=heading.upper())
            lines = [f"{number}.{i} {clause}" for i, clause in enumerate(clauses, 1)]
            yield ("\n\n" if spaced else "\n").join([first, *lines])

    def _schedule(self) -> str:
        units = self.account.units
        total = money(self.writer.company.trade.currency, sum((amount_of(unit.charge) for unit in units), Decimal(0)))
        head = self.rng.choice(("| No. | Called | What | Monthly charge |", "| Item | Name | Kind | Per month |"))
        rows = [
            f"| {u.tag} | {u.name} | {u.unit.noun} | {written(u.charge, FactKind.MONEY, self.rng, formal=True)} |"
            for u in units
        ]
        foot = f"| Total | | | {written(total, FactKind.MONEY, self.rng, formal=True)} |"
        return "\n".join([self._pick(self.writer.office.frames.schedule_headings), "", head, *rows, foot])

    # Minutes.

    def _review(self, place: int, trouble: Trouble) -> Scene:
        frames = self.writer.office.frames
        day = trouble.reviewed_on or trouble.closed_on
        people = self._people(trouble.fitter, self.account.manager)
        when = f"on {trouble.reported_on.day} {calendar.month_name[trouble.reported_on.month]}"
        matter = self._pick(
            trouble.incident.reviews, unit=trouble.unit.name, suspected=trouble.suspected, when=when, place=trouble.unit.place
        )
        title = self._pick(frames.review_titles, job=trouble.job, short=self.account.short)
        body = self._minutes(people, [(self._pick(frames.matter_headings), [matter])], 2)
        document = self.writer.document(
            RecordKind.MEETING_NOTES, title, self.rng.choice(people), day, DocumentStatus.FINAL, body
        )
        return Scene(f"review:{place}", document, ((f"review:{place}", day),))

    def _rounds(self) -> Iterator[Scene]:
        """Minutes in which this customer comes up."""
        contract = self.account.contract
        if not contract.planned_by_mail:
            day = working_day(self.rng, contract.signed_on, contract.planned_start - timedelta(days=4))
            planned = written_date(contract.planned_start, self.rng)
            text = self._pick(self.writer.office.start.plans, short=self.account.short, planned=planned)
            yield self._round("plan", day, text)
        for credit in self.account.credits:
            if credit.medium == "minutes":
                yield self._round("credit:minutes", credit.given_on, self._credit(credit))
        for place, (term, value, day) in enumerate(self.account.wrong_remarks):
            if place % 2:
                remark = self._pick(term.remarks, short=self.account.short, value=written(value, term.kind, self.rng))
                hedge = self._pick(self.writer.office.frames.hedges)
                yield self._round(f"remark:{place}", day, f"{remark} {hedge}")

    def _round(self, role: str, day: date, matter: str) -> Scene:
        people = self._people(self.account.manager)
        title = self._pick(self.writer.office.frames.weekly_titles, date=written_date(day, self.rng))
        body = self._minutes(people, [(self._heading(), [matter])], self.rng.randint(3, 5))
        document = self.writer.document(
            RecordKind.MEETING_NOTES, title, self.rng.choice(people), day, DocumentStatus.FINAL, body
        )
        return Scene(role, document, ((role, day),))

    def _heading(self) -> str:
        return self._pick(self.writer.office.frames.customer_headings, short=self.account.short)

    def _credit(self, credit: Credit) -> str:
        return self._pick(
            self.writer.office.credit.minutes,
            short=self.account.short,
            account=self.account.number,
            credit=written(credit.amount, FactKind.MONEY, self.rng),
            reason=credit.reason,
            approver=credit.approver.name,
        )

    def _people(self, *present: Person) -> list[Person]:
        others = [person for person in self.writer.company.people if person not in present]
        return [*dict.fromkeys(present), *self.rng.sample(others, self.rng.randint(1, 3))]

    def _minutes(self, people: Sequence[Person], matters: list[_Section], fillers: int) -> str:
        return minutes(self.writer, people, matters, fillers, self.rng)

    # The customer record.

    def _record(self) -> Scene:
        account, frames = self.account, self.writer.office.frames
        notes = self._notes(9)
        cut = self.rng.randint(1, 4)
        history, remarks = notes[:cut], notes[cut : cut + self.rng.randint(3, 5)]
        blocks = [self._people_block(), self._units_block(), self._history_block(history), self._remarks_block(remarks)]
        if self.rng.random() < 0.5:
            self.rng.shuffle(blocks)
        contract = account.contract
        first = [
            self._pick(
                frames.contract_notes,
                contract=contract.number,
                title=contract.title,
                date=written_date(contract.signed_on, self.rng),
            )
        ]
        if account.called:
            first.append(self._pick(frames.called_notes, called=account.called))
        if account.twin:
            first.append(self._pick(frames.twin_notes, twin=account.twin, account=account.number))
        self.rng.shuffle(first)
        body = "\n\n".join([" ".join(first), *blocks])
        day = working_day(self.rng, latest_day(account), AS_OF)
        document = self.writer.document(
            RecordKind.CUSTOMER_RECORD,
            f"{account.number} {account.name}, {account.town}",
            account.manager,
            day,
            DocumentStatus.ACTIVE,
            body,
        )
        return Scene("record", document, tuple((f"job {t.job}", t.reported_on) for t in account.troubles))

    def _people_block(self) -> str:
        frames, account = self.writer.office.frames, self.account
        lines = [self._pick(frames.people_notes, contact=p.name, title=p.title) for p in account.contacts[:3]]
        return "\n".join([self._pick(frames.people_headings), *lines])

    def _units_block(self) -> str:
        """What stands at the customer's, by name; the tags stand in the contract."""
        units = list(self.account.units)
        special = self.rng.choice(units)
        rows = [f"| {unit.name} | {unit.unit.noun} | {unit.place} |" for unit in units]
        head = self.rng.choice(("| Name | Kind | Where |", "| Called | What | Stands |"))
        uses = [self._use(unit) for unit in units if unit is not special]
        self.rng.shuffle(uses)
        lines = [self._use(special), *uses[: self.rng.randint(1, 2)]]
        return "\n".join([self._pick(self.writer.office.frames.things_headings), head, *rows, *lines])

    def _use(self, unit: UnitHere) -> str:
        return self._pick(self.writer.office.frames.use_notes, unit=unit.name, use=unit.use)

    def _history_block(self, notes: Sequence[str]) -> str:
        frames, account = self.writer.office.frames, self.account
        lines: list[tuple[date, str]] = []
        for change in account.contract.amendments:
            text = self._pick(
                self.writer.office.change.notes,
                topic=change.term.topic,
                approver=change.approver.first,
                contract=account.contract.number,
            )
            lines.append((change.agreed_on, text))
        for credit in account.credits:
            if credit.medium == "notes":
                amount = written(credit.amount, FactKind.MONEY, self.rng)
                text = self._pick(
                    self.writer.office.credit.notes, credit=amount, reason=credit.reason, approver=credit.approver.first
                )
                lines.append((credit.given_on, text))
        lines += [(self._some_day(), note) for note in notes]
        if self.rng.random() < 0.5:
            lines = [(day, f"{day.day} {calendar.month_abbr[day.month]} {day.year}: {text}") for day, text in lines]
        lines += [(trouble.reported_on, self._job(trouble)) for trouble in account.troubles]
        if account.swap:
            names = {"before": account.swap.before.name, "matter": account.swap.matter}
            day = account.contract.accepted_on
            note = self._pick(self.writer.office.swap.notes, **names)
            lines.append((day, f"{day.day} {calendar.month_abbr[day.month]} {day.year}: {note}"))
        texts = [f"{text[:1].upper()}{text[1:]}" for _, text in sorted(lines, key=lambda line: line[0])]
        return "\n".join([self._pick(frames.history_headings), *texts])

    def _some_day(self) -> date:
        return working_day(self.rng, self.account.contract.accepted_on, latest_day(self.account))

    def _job(self, trouble: Trouble) -> str:
        when = f"{trouble.reported_on.day} {calendar.month_name[trouble.reported_on.month]} {trouble.reported_on.year}"
        return self._pick(self.writer.office.frames.job_notes, job=trouble.job, when=when, unit=trouble.unit.name)

    def _notes(self, count: int) -> list[str]:
        """So many lines about nothing, each of another phrase."""
        pool = self.rng.sample([*self.writer.company.trade.notes, *self.writer.office.notes], count)
        contacts = [contact.name for contact in self.account.contacts[:3]]
        return [self._pick([note], contact=self.rng.choice(contacts), town=self.account.town) for note in pool]

    def _remarks_block(self, notes: Sequence[str]) -> str:
        account = self.account
        lines = list(notes)
        if account.deal:
            category = f"{account.deal.supply.category} {account.label}"
            lines.append(self._pick(account.deal.supply.lines, category=category, supplier=account.deal.supplier))
        self.rng.shuffle(lines)
        return "\n".join([self._pick(self.writer.office.frames.remarks_headings), *dict.fromkeys(lines)])


def minutes(writer: Writer, people: Sequence[Person], matters: list[_Section], fillers: int, rng: Random) -> str:
    """The body of minutes: who was there, numbered points among points about nothing, who does what."""
    frames = writer.office.frames
    names = ", ".join(person.name for person in people)
    away = rng.choice([person for person in writer.company.people if person not in people])
    head = [writer.pick(frames.present, rng, people=names)]
    if rng.random() < 0.6:
        head.append(writer.pick(frames.absent, rng, people=away.name))
    points = matters + [_point(writer, item, rng) for item in _items(writer, fillers, rng)]
    rng.shuffle(points)
    numbered = [_numbered(place, heading, texts) for place, (heading, texts) in enumerate(points, 1)]
    actions = [writer.pick(frames.actions, rng, person=rng.choice(people).first) for _ in range(rng.randint(0, 3))]
    last = (
        ["\n".join([writer.pick(frames.action_headings, rng), *(f"- {a}" for a in dict.fromkeys(actions))])] if actions else []
    )
    closing = writer.pick(frames.closings, rng, person=rng.choice(people).first)
    return "\n\n".join([" ".join(head), *numbered, *last, closing])


def _items(writer: Writer, count: int, rng: Random) -> list[Item]:
    return rng.sample([*writer.company.trade.items, *writer.office.items], count)


def _point(writer: Writer, item: Item, rng: Random) -> _Section:
    first, second = rng.sample(writer.company.people, 2)
    return item.heading, [writer.pick(item.texts, rng, colleague=first.first, other=second.first)]


def _numbered(place: int, heading: str, texts: Sequence[str]) -> str:
    return f"{place}. {heading}\n\n{' '.join(texts)}" if heading else f"{place}. {' '.join(texts)}"
