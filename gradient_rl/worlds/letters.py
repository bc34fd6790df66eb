"""Mails that the story of a customer leaves."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.schema.workspace import Email
from gradient_rl.worlds.amounts import in_words, working_day, written, written_date
from gradient_rl.worlds.entities import AS_OF, Account, Amendment, Person, Trouble
from gradient_rl.worlds.writing import Scene, Writer

MONEY, DATE, PERCENT = FactKind.MONEY, FactKind.DATE, FactKind.PERCENT
_ACKNOWLEDGED = ("order", "exception", "swap", "trouble", "offer", "credit")
"""Mails to which somebody may answer with a line."""


@dataclass(frozen=True)
class Letters:
    """Writes the mails about one customer, in no particular order."""

    writer: Writer
    account: Account
    rng: Random

    def all(self) -> Iterator[Scene]:
        """Every mail of the story, some with a word of thanks in reply."""
        for scene in self._told():
            yield scene
            if scene.role.partition(":")[0] in _ACKNOWLEDGED and self.rng.random() < self.writer.difficulty.noise:
                yield from self._acknowledged(scene)

    def _acknowledged(self, scene: Scene) -> Iterator[Scene]:
        """A short reply by whoever got the mail."""
        mail, people = scene.record, {p.mailbox: p for p in (*self.account.contacts, *self.writer.company.people)}
        if isinstance(mail, Email) and mail.sender in people and mail.to[0] in people:
            sender, to = people[mail.to[0]], people[mail.sender]
            day = working_day(self.rng, mail.date, min(AS_OF, mail.date + timedelta(days=3)))
            thanks = self.writer.pick(self.writer.office.frames.thanks, self.rng, short=self.account.short)
            yield self._mail(f"thanks:{scene.role}", sender, to, day, "", thanks, answers=mail)

    def _told(self) -> Iterator[Scene]:
        for place, change in enumerate(self.account.contract.amendments):
            yield from self._change(place, change)
        for place, trouble in enumerate(self.account.troubles):
            yield from self._trouble(place, trouble)
        yield from self._start()
        yield from self._credit()
        yield from self._order()
        yield from self._offers()
        yield from self._price()
        yield from self._swap()
        yield from self._damage()
        yield from self._exception()
        yield from self._remarks()

    def _pick(self, phrases: tuple[str, ...], **slots: str) -> str:
        """A phrase with the names of this customer at hand."""
        account = self.account
        known = {"short": account.short, "contract": account.contract.number, "account": account.number}
        return self.writer.pick(phrases, self.rng, **known, **slots)

    def _colleague(self, *but: Person) -> Person:
        company = self.writer.company
        pool = [p for duty in ("sales", "service", "finance", "desk") for p in company.staff[duty] if p not in but]
        return self.rng.choice(pool)

    def _finance(self) -> Person:
        return self.rng.choice(self.writer.company.staff["finance"])

    def _mail(
        self, role: str, sender: Person, to: Person, day: date, subject: str, *paragraphs: str, known: date | None = None,
        cc: tuple[Person, ...] = (), answers: Email | None = None,
    ) -> Scene:  # fmt: skip
        mail = self.writer.mail(sender, to, day, subject, paragraphs, self.rng, cc=cc, answers=answers)
        return Scene(role, mail, ((role, known or day),))

    def _change(self, place: int, change: Amendment) -> Iterator[Scene]:
        words = self.writer.office.change
        topic, asked = change.term.topic, None
        if self.rng.random() < 0.6:
            yield (asked := self._request(place, change, topic))
        values = {
            "new": written(change.new, change.term.kind, self.rng),
            "old": written(change.old, change.term.kind, self.rng),
            "from": written_date(change.since, self.rng),
        }
        agreed = self._pick(change.term.changes, **values)
        if self.rng.random() < 0.7:
            agreed = f"{self._pick(words.anchors)} {agreed}"
        paragraphs = [agreed, self._pick(words.approvals, approver=change.approver.name)]
        if self.rng.random() < 0.3:
            paragraphs = [" ".join(paragraphs)]
        yield self._mail(
            f"change:{place}",
            change.agreed_by,
            change.asked_by,
            change.agreed_on,
            self._change_subject(topic),
            *paragraphs,
            cc=(change.approver,) if self.rng.random() < 0.4 else (),
            answers=asked.record if asked and isinstance(asked.record, Email) else None,
        )

    def _request(self, place: int, change: Amendment, topic: str) -> Scene:
        words = self.writer.office.change
        return self._mail(
            f"request:{place}",
            change.asked_by,
            self.account.manager,
            change.asked_on,
            self._change_subject(topic),
            self._pick(words.requests, topic=topic),
        )

    def _change_subject(self, topic: str) -> str:
        """A subject that says whom the change concerns."""
        subject = self._pick(self.writer.office.change.subjects, topic=topic)
        named = self.account.short in subject or self.account.contract.number in subject
        return subject if named else f"{self.account.short}: {subject[:1].lower()}{subject[1:]}"

    def _trouble(self, place: int, trouble: Trouble) -> Iterator[Scene]:
        frames, desk = self.writer.office.frames, self.rng.choice(self.writer.company.staff["desk"])
        unit = trouble.unit
        told = self._mail(
            f"trouble:{place}",
            trouble.reporter,
            desk if self.rng.random() < 0.6 else self.account.manager,
            trouble.reported_on,
            self._pick(frames.troubles, unit=unit.name),
            self._pick(
                trouble.incident.troubles, unit=unit.name, place=unit.place, when=_lately(trouble.reported_on, self.rng)
            ),
        )
        yield told
        if isinstance(told.record, Email) and self.rng.random() < self.writer.difficulty.noise * 0.4:
            passed_on = self.writer.forward(desk, trouble.fitter, trouble.reported_on, told.record, self.rng)
            yield Scene(f"forward:{place}", passed_on, ((f"trouble:{place}", trouble.reported_on),))
        report = self._pick(
            trouble.incident.reports,
            job=trouble.job,
            ref=unit.tag,
            cause=trouble.cause,
            remedy=trouble.remedy,
            place=unit.place,
            when=f"on {trouble.reported_on.day} {calendar.month_name[trouble.reported_on.month]}",
        )
        yield self._mail(
            f"report:{place}",
            trouble.fitter,
            self.account.manager,
            trouble.closed_on,
            self.writer.pick(frames.reports, self.rng, job=trouble.job, short=trouble.job),
            report,
            cc=tuple(self.writer.company.staff["quality"][:1]) if self.rng.random() < 0.4 else (),
        )

    def _start(self) -> Iterator[Scene]:
        words, contract = self.writer.office.start, self.account.contract
        if contract.planned_by_mail:
            text = self._pick(words.plans, planned=written_date(contract.planned_start, self.rng))
            day = working_day(self.rng, contract.signed_on, contract.planned_start - timedelta(days=4))
            subject = self._pick(self.writer.office.frames.remark_subjects, town=self.account.town)
            yield self._mail("plan", self.account.manager, self.account.fitter, day, subject, text)
        started = self._pick(
            words.real, contact=self.account.contacts[0].name, started=written_date(contract.accepted_on, self.rng)
        )
        yield self._mail(
            "start",
            self.account.fitter,
            self.account.manager,
            working_day(self.rng, contract.accepted_on, contract.accepted_on + timedelta(days=4)),
            self._pick(words.subjects),
            started,
            known=contract.accepted_on,
            cc=(self._finance(),),
        )

    def _credit(self) -> Iterator[Scene]:
        words = self.writer.office.credit
        for credit in self.account.credits:
            if credit.medium == "mail":
                text = self._pick(
                    words.mails,
                    credit=written(credit.amount, MONEY, self.rng),
                    reason=credit.reason,
                    approver=credit.approver.name,
                )
                about = next((t for t in self.account.troubles if credit.reason in t.incident.credit_reasons), None)
                to = about.reporter if about else self.account.contacts[0]
                subject = self._pick(words.subjects)
                yield self._mail("credit:mail", self.account.manager, to, credit.given_on, subject, text)

    def _order(self) -> Iterator[Scene]:
        order, extra = self.account.order, self.account.contract.extra
        if order and extra:
            count = in_words(order.count) if self.rng.random() < 0.5 else str(order.count)
            text = self._pick(extra.orders, n=count, place=order.place)
            subject = self._pick(self.writer.office.frames.orders)
            yield self._mail("order", order.by, self.account.manager, order.ordered_on, subject, text)

    def _offers(self) -> Iterator[Scene]:
        for place, offered in enumerate(self.account.offers):
            price = written(offered.price, MONEY, self.rng)
            text = self._pick(offered.offer.mails, price=price, unit=offered.unit.name, place=offered.unit.place)
            subject = self._pick(self.writer.office.frames.offers, unit=offered.unit.name)
            to = self.account.contacts[self.rng.randrange(2)]
            yield self._mail(f"offer:{place}", self.account.manager, to, offered.offered_on, subject, text)

    def _price(self) -> Iterator[Scene]:
        added, words = self.account.added, self.writer.office.price
        if added is None:
            return
        wrong, right = written(added.wrong, MONEY, self.rng), written(added.unit.charge, MONEY, self.rng)
        manager, other = self.account.manager, self._colleague(self.account.manager)
        text = self._pick(words.wrong, unit=added.unit.name, wrong=wrong)
        told = self._mail("price:wrong", manager, other, added.wrong_on, self._pick(words.subjects), text)
        yield told
        text = self._pick(words.right, unit=added.unit.name, right=right, order=added.order)
        writer = self._finance() if self.rng.random() < 0.5 else other
        answers = told.record if writer is other and isinstance(told.record, Email) else None
        subject = self._pick(words.subjects)
        yield self._mail("price:right", writer, manager, added.right_on, subject, text, cc=(other,), answers=answers)

    def _swap(self) -> Iterator[Scene]:
        swap, words = self.account.swap, self.writer.office.swap
        if swap:
            names = {"before": swap.before.name, "after": swap.after.name, "matter": swap.matter}
            text = self._pick(words.mails, **names, **{"from": written_date(swap.since, self.rng)})
            sender = self.account.contacts[self.rng.randrange(2)]
            yield self._mail("swap", sender, self.account.manager, swap.told_on, self._pick(words.subjects), text)

    def _damage(self) -> Iterator[Scene]:
        damage, words = self.account.damage, self.writer.office.repair
        if damage:
            cost = written(damage.cost, MONEY, self.rng)
            text = self._pick(words.mails, cost=cost, unit=damage.unit.name, place=damage.unit.place)
            yield self._mail("damage", self.account.fitter, self._finance(), damage.billed_on, self._pick(words.subjects), text)

    def _exception(self) -> Iterator[Scene]:
        excepted, words = self.account.exception, self.writer.office.exclusion
        if excepted:
            text = self._pick(words.mails, unit=excepted.unit.name)
            sender = self.account.contacts[1]
            yield self._mail("exception", sender, self.account.manager, excepted.told_on, self._pick(words.subjects), text)

    def _remarks(self) -> Iterator[Scene]:
        for place, (term, value, day) in enumerate(self.account.wrong_remarks):
            if place % 2:
                continue  # stands in minutes
            sender = self.account.manager if self.rng.random() < 0.5 else self._colleague()
            reader = self._colleague(sender)
            remark = self._pick(term.remarks, value=written(value, term.kind, self.rng))
            remark = f"{remark} {self.writer.pick(self.writer.office.frames.hedges, self.rng)}"
            paragraphs = [remark, *self.writer.chatter(sender, reader, self.rng.randint(0, 2), self.rng)]
            self.rng.shuffle(paragraphs)
            subject = self._pick(self.writer.office.frames.remark_subjects, town=self.account.town)
            yield self._mail(f"remark:{place}", sender, reader, day, subject, *paragraphs)


def _lately(day: date, rng: Random) -> str:
    """How a mail of this day speaks of something that happened just before."""
    back = rng.randint(1, 3)
    weekday = calendar.day_name[(day - timedelta(days=back)).weekday()]
    return rng.choice(
        ("this morning", "last night", "yesterday", f"on {weekday}", f"on {weekday} evening", f"on {weekday} night")
    )


def latest_day(account: Account) -> date:
    """The last day on which anything of the story happens."""
    days = [account.contract.accepted_on, *(credit.given_on for credit in account.credits)]
    days += [trouble.closed_on for trouble in account.troubles]
    days += [change.agreed_on for change in account.contract.amendments]
    return min(max(days), AS_OF)
