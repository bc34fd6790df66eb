"""Records of the company itself: policies and memos, agreements with suppliers, projects, mails about nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.schema.workspace import DocumentStatus, RecordKind
from gradient_rl.worlds.amounts import working_day, written, written_date
from gradient_rl.worlds.entities import AS_OF, FIRST_DAY, Company, Deal, Memo, PolicyHistory, Version, Work
from gradient_rl.worlds.papers import minutes
from gradient_rl.worlds.writing import Scene, Writer, capital


@dataclass(frozen=True)
class House:
    """Writes what belongs to no customer."""

    writer: Writer
    rng: Random

    @property
    def company(self) -> Company:
        """The company that writes."""
        return self.writer.company

    def policy(self, history: PolicyHistory) -> Iterator[Scene]:
        """The versions of a policy, and the memo that changed it."""
        earlier = f"version {int(history.versions[0].number) - 1}"
        sections = self.rng.sample(history.policy.sections, len(history.policy.sections))
        for place, version in enumerate(history.versions):
            last = place == len(history.versions) - 1
            status = DocumentStatus.ACTIVE if last else DocumentStatus.SUPERSEDED
            title = f"{history.policy.title}, version {version.number}"
            body = self._policy_text(history, version, earlier, [section.heading for section in sections])
            document = self.writer.document(RecordKind.POLICY, title, history.owner, version.since, status, body)
            yield Scene(f"version:{place}", document, ((title, version.since),))
            earlier = f"version {version.number}"
        if history.memo:
            yield self._memo(history, history.memo)

    def deal(self, deal: Deal) -> Iterator[Scene]:
        """The agreement with a supplier, and the letter with its new list."""
        frames = self.writer.office.frames
        stores = self.rng.choice(self.company.staff["stores"])
        title = self._pick(frames.supply_titles, number=deal.number)
        texts = self.rng.sample(deal.supply.terms, min(6, len(deal.supply.terms)))
        parties = f"{deal.supplier} / {self.company.name}. {deal.supply.what[:1].upper()}{deal.supply.what[1:]}."
        body = "\n\n".join(
            [
                parties,
                *(self._pick([text]) for text in texts[:3]),
                _table(deal, deal.rates, self.rng),
                *map(self._one, texts[3:]),
            ]
        )
        document = self.writer.document(RecordKind.CONTRACT, title, stores, deal.signed_on, DocumentStatus.SIGNED, body)
        yield Scene("agreement", document, ((deal.number, deal.signed_on),))
        if deal.raised_on and deal.announced_on:
            text = self._pick(deal.supply.letters, **{"from": written_date(deal.raised_on, self.rng)})
            subject = self._pick(frames.letter_subjects, number=deal.number)
            mail = self.writer.mail(
                deal.contact, stores, deal.announced_on, subject, [text, _table(deal, deal.raised, self.rng)], self.rng
            )
            yield Scene("letter", mail, ((f"{deal.number} raised", deal.announced_on),))

    def work(self, work: Work) -> Iterator[Scene]:
        """Minutes that plan a project, and a mail for each bill."""
        frames, currency = self.writer.office.frames, FactKind.MONEY
        phrases = cycle(self.rng.sample(work.project.plans, len(work.project.plans)))
        plans = [(capital(item), [self._plan(next(phrases), item, planned)]) for item, planned, _ in work.pieces]
        people = [work.leader, *self.rng.sample([p for p in self.company.people if p is not work.leader], 3)]
        title = capital(self._pick(frames.project_titles, project=work.name))
        body = minutes(self.writer, people, plans, 1, self.rng)
        document = self.writer.document(
            RecordKind.MEETING_NOTES, title, work.leader, work.planned_on, DocumentStatus.FINAL, body
        )
        yield Scene("planning", document, ((f"{work.name} planned", work.planned_on),))
        for place, ((item, _, paid), day) in enumerate(zip(work.pieces, work.paid_on, strict=True)):
            subject = capital(self._pick(frames.project_subjects, project=work.name, item=item))
            text = self._pick(work.project.mails, item=item, cost=written(paid, currency, self.rng))
            finance = self.rng.choice(self.company.staff["finance"])
            mail = self.writer.mail(work.leader, finance, day, subject, [text], self.rng)
            yield Scene(f"bill:{place}", mail, ((f"{item} paid", day),))

    def _plan(self, phrase: str, item: str, planned: str) -> str:
        return self._pick([phrase], item=item, planned=written(planned, FactKind.MONEY, self.rng))

    def nothing(self) -> Scene:
        """A mail or minutes about nothing that anybody asks for."""
        day = working_day(self.rng, FIRST_DAY, AS_OF)
        people = self.rng.sample(self.company.people, self.rng.randint(4, 5))
        if self.rng.random() < 0.15:
            title = self._pick(self.writer.office.frames.weekly_titles, date=written_date(day, self.rng))
            body = minutes(self.writer, people, [], 5, self.rng)
            document = self.writer.document(RecordKind.MEETING_NOTES, title, people[0], day, DocumentStatus.FINAL, body)
            return Scene("nothing", document)
        pool = self.company.trade.chatter_mails if self.rng.random() < 0.5 else self.writer.office.chatter_mails
        chosen = self.rng.choice(pool)
        names = {
            "colleague": people[2].first,
            "other": people[3].first,
            "town": self.rng.choice(self.writer.office.names.towns),
        }
        text = self._pick(chosen.bodies, **names)
        mail = self.writer.mail(people[0], people[1], day, chosen.subject, text.split("\n\n"), self.rng)
        return Scene("nothing", mail)

    def _pick(self, phrases: Sequence[str], **slots: str) -> str:
        return self.writer.pick(phrases, self.rng, **slots)

    def _one(self, phrase: str) -> str:
        return self._pick([phrase])

    def _policy_text(self, history: PolicyHistory, version: Version, earlier: str, order: Sequence[str]) -> str:
        frames, policy = self.writer.office.frames, history.policy
        head = self._pick(
            frames.versions,
            version=version.number,
            owner=f"the {history.owner.title}",
            approver=history.approver.name,
            **{"from": written_date(version.since, self.rng)},
        )
        texts = {section.heading: self._pick(section.texts) for section in policy.sections}
        parts: list[tuple[str, str]] = [(heading, texts[heading]) for heading in order[:6]]
        for place, rule in enumerate(policy.rules):
            value = written(version.values[rule.key], rule.kind, self.rng, formal=True)
            parts.insert(1 + place * 2, (rule.heading, self._pick(rule.lines, value=value)))
        numbered = [f"{number}. {heading}\n\n{text}" for number, (heading, text) in enumerate(parts, 1)]
        first = f"{policy.code}. {head} {self._pick(frames.replaced, earlier=earlier)}"
        return "\n\n".join([first, self._pick(policy.purposes), *numbered])

    def _memo(self, history: PolicyHistory, memo: Memo) -> Scene:
        text = self._pick(
            memo.rule.changes,
            old=written(memo.old, memo.rule.kind, self.rng),
            new=written(memo.new, memo.rule.kind, self.rng),
            **{"from": written_date(memo.since, self.rng)},
        )
        subject = self._pick(self.writer.office.frames.memo_subjects, policy=history.policy.title)
        to = self.rng.choice([person for person in self.company.staff["service"] if person is not history.owner])
        cc = self.rng.sample(self.company.people, 4)
        mail = self.writer.mail(history.owner, to, memo.written_on, subject, [text], self.rng, cc=cc)
        return Scene("memo", mail, ((f"{history.policy.title} memo", memo.written_on),))


def _table(deal: Deal, rates: Mapping[str, str], rng: Random) -> str:
    category = deal.supply.category
    head = f"| {category[:1].upper()}{category[1:]} | {rng.choice(('Rate', 'Price'))} {deal.supply.per} |"
    rows = [f"| {category} {label} | {written(rate, FactKind.MONEY, rng, formal=True)} |" for label, rate in rates.items()]
    return "\n".join([head, *rows])
