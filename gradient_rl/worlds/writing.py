"""How a mail is put together: a greeting and an end in the writer's voice, small talk, quoting, slips of the keyboard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from random import Random

from gradient_rl.schema.workspace import Document, DocumentStatus, Email, Record, RecordKind
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.entities import Company, Person
from gradient_rl.worlds.grammar import expand
from gradient_rl.worlds.office import Office, Voice

_STARTERS = frozenset(
    "a about after again all also and another any anyway as at because before both but by cause every everything fitted for "
    "found from got had has have he her here his how if in is it just last left less like looks lost my never new next no "
    "nobody not nothing now of off on once one only or our out part please put ran right she short since so some somebody "
    "still sorry swapped thanks that the their them then there they this those took turns two until up was we well went "
    "what when where which while who why will with word would yes yesterday you your".split()
)
_SENTENCE_START = re.compile(r"(?:(?<=^)|(?<=[.!?] )|(?<=\n))([A-Z][a-z]*)('[a-z]+)?(?=[ ,])", re.MULTILINE)
_CONTRACTION = re.compile(r"\b([A-Za-z]+)'(t|s|m|ll|ve|re|d)\b")
_CONTRACTED = frozenset(
    (
        "don can won didn isn wasn couldn wouldn doesn hasn haven shouldn aren it that there he she what who i you we they let"
    ).split()
)
_VALUE = re.compile(
    r"[\d€£$%]|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|"
    r"seventy|eighty|ninety|hundred|thousand)\b",
    re.IGNORECASE,
)
_LONG_WORD = re.compile(r"\b[a-z]{6,}\b")


class Numbering:
    """Ids of records in an order that tells nothing: shuffled, the same for the same count and seed."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        self._left: dict[str, list[int]] = {}

    def next(self, prefix: str) -> str:
        """The next id of a kind: `email-00417`.

        Raises:
            IndexError: more ids of a kind were asked for than there are.
        """
        if prefix not in self._left:
            numbers = list(range(1, self._count + 1))
            Random(f"{prefix}/{self._seed}").shuffle(numbers)
            self._left[prefix] = numbers
        return f"{prefix}-{self._left[prefix].pop():0{len(str(self._count))}d}"


@dataclass(frozen=True)
class Scene:
    """A record with what it is to its world."""

    role: str
    """What it is for its customer or policy: `contract`, `report:0`."""
    record: Record
    tells: tuple[tuple[str, date], ...] = ()
    """What the record tells, and since when that could be known."""


@dataclass(frozen=True)
class Writer:
    """Puts phrases together for one company."""

    company: Company
    office: Office
    difficulty: Difficulty
    numbering: Numbering

    def pick(self, phrases: Sequence[str], rng: Random, **slots: str) -> str:
        """One text of one of the phrases."""
        return expand(rng.choice(phrases), slots, rng)

    def mail(
        self,
        sender: Person,
        to: Person,
        day: date,
        subject: str,
        paragraphs: Sequence[str],
        rng: Random,
        *,
        cc: Sequence[Person] = (),
        answers: Email | None = None,
    ) -> Email:
        """A mail of some paragraphs, as this sender would write it.

        Args:
            answers: the mail to which it is the reply.
        """
        ident = self.numbering.next("email")
        sent_at = _moment(day, rng)
        if answers is not None and sent_at <= answers.sent_at:
            sent_at = answers.sent_at + timedelta(minutes=rng.randint(12, 190))
        return Email(
            id=ident,
            thread_id=answers.thread_id if answers else ident.replace("email", "thread"),
            sent_at=sent_at,
            sender=sender.mailbox,
            to=(to.mailbox,),
            cc=tuple(dict.fromkeys(other.mailbox for other in cc if other not in (sender, to))),
            subject=f"RE: {answers.subject.removeprefix('RE: ')}" if answers else subject,
            body=self._body(sender, to, list(paragraphs), answers, rng),
        )

    def forward(self, sender: Person, to: Person, day: date, original: Email, rng: Random) -> Email:
        """A mail that passes another one on."""
        ident = self.numbering.next("email")
        head = f"From: {original.sender}\nSubject: {original.subject}"
        quoted = "\n".join(f"> {line}".rstrip() for line in original.body.splitlines())
        above = self.pick(self.office.frames.forwards, rng, to=to.first)
        sent_at = max(_moment(day, rng), original.sent_at + timedelta(minutes=rng.randint(9, 200)))
        return Email(
            id=ident,
            thread_id=original.thread_id,
            sent_at=sent_at,
            sender=sender.mailbox,
            to=(to.mailbox,),
            subject=f"FW: {original.subject}",
            body=f"{above}\n\n{sender.first}\n\n{head}\n\n{quoted}",
        )

    def document(self, kind: RecordKind, title: str, author: Person, day: date, status: DocumentStatus, body: str) -> Document:
        """A document; its id counts with the other documents."""
        ident = self.numbering.next("doc")
        return Document(id=ident, kind=kind, title=title, author=author.name, date=day, status=status, body=body)

    def chatter(self, writer: Person, reader: Person, count: int, rng: Random) -> list[str]:
        """Paragraphs about nothing: what goes on at the company, or at any office if the writer belongs to another."""
        at_home = writer.duty in self.company.staff
        pool = (*self.company.trade.chatter, *self.office.chatter) if at_home else self.office.chatter
        others = [person.first for person in self.company.people] if at_home else list(self.office.names.given)
        others = [name for name in others if name not in (writer.first, reader.first)]
        towns = self.office.names.towns
        return [
            self.pick([phrase], rng, colleague=rng.choice(others), town=rng.choice(towns)) for phrase in rng.sample(pool, count)
        ]

    def _body(self, sender: Person, to: Person, paragraphs: list[str], answers: Email | None, rng: Random) -> str:
        voice = self.office.voices[sender.voice]
        before, after = self._talk(voice, sender, to, rng)
        quoted = [_quotation(answers, rng)] if answers is not None and rng.random() < self.difficulty.noise + 0.2 else []
        greeting = self.pick(voice.greetings, rng, to=to.first)
        closing = self.pick(voice.closings, rng, me=sender.first, full=sender.name, title=sender.title)
        signature = [f"{sender.name}, {sender.title}"] if voice.signed and sender.name not in closing else []
        parts = [part for part in [*before, *filter(None, quoted), *paragraphs, *after] if part]
        text = "\n\n".join([greeting, *parts, closing, *signature])
        return lowered(text) if voice.lower else text

    def _talk(self, voice: Voice, sender: Person, to: Person, rng: Random) -> tuple[list[str], list[str]]:
        """What stands before and after the matter."""
        noise = self.difficulty.noise
        before = [self.pick(voice.openers, rng, to=to.first, town=rng.choice(self.office.names.towns))]
        after = self.chatter(sender, to, sum(rng.random() < noise * chance for chance in (1.4, 0.7)), rng)
        if voice.typos and rng.random() < noise + 0.2:
            before, after = [slipped(text, rng) for text in before], [slipped(text, rng) for text in after]
        return before if rng.random() < noise * 0.8 else [], after


def capital(text: str) -> str:
    """A text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def lowered(text: str) -> str:
    """A text as somebody types it who does not care for capitals and apostrophes; names and values stay as they are."""
    text = _SENTENCE_START.sub(lambda m: m[0].lower() if m[1].lower() in (_CONTRACTED if m[2] else _STARTERS) else m[0], text)
    return _CONTRACTION.sub(lambda m: m[1] + m[2] if m[1].lower() in _CONTRACTED else m[0], text)


def slipped(text: str, rng: Random) -> str:
    """A text with two letters of one long word changed round."""
    words = list(_LONG_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    place = word.start() + rng.randrange(1, len(word[0]) - 2)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _quotation(original: Email, rng: Random) -> str:
    """A sentence or two of the mail that is answered, without its values."""
    sentences = re.split(r"(?<=[.?!])\s+", " ".join(original.body.split("\n\n")[1:-1]))
    harmless = [s for s in sentences if not _VALUE.search(s) and 4 <= len(s.split()) <= 40]
    if not harmless:
        return ""
    start = rng.randrange(len(harmless))
    return "> " + " ".join(harmless[start : start + rng.randint(1, 2)]).replace("\n", " ")


def _moment(day: date, rng: Random) -> datetime:
    """A time of the working day, in the zone of Dublin and London."""
    moment = datetime.combine(day, time(rng.randint(7, 18), rng.randrange(60)))
    return moment.replace(tzinfo=timezone(timedelta(hours=1 if _is_summer(day) else 0)))


def _is_summer(day: date) -> bool:
    return _last_sunday(day.year, 3) <= day < _last_sunday(day.year, 10)


def _last_sunday(year: int, month: int) -> date:
    last = date(year, month, 31)
    return last - timedelta(days=(last.weekday() + 1) % 7)
