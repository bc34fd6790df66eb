"""Paraphrasing a data folder: a language model words e-mails and notes anew, and a rewording stays if every fact still holds.

Every answer is noted in `paraphrases.jsonl` as it comes, so that a run which was interrupted, or is repeated, asks for nothing
twice. The data files are replaced at the end, each at one stroke.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from gradient_rl.environment.workspace import DOCUMENTS_FILE, EMAILS_FILE, HELDOUT_FILE, TRAIN_FILE, load_workspace
from gradient_rl.errors import NothingToReadError, ServiceError, UsageError
from gradient_rl.policies.adapters import CHAT, Access, chat_policy
from gradient_rl.policies.base import Policy, TransportError
from gradient_rl.policies.endpoint import Price
from gradient_rl.runs import Journal, digest, hold_folder, read_journal, write_whole
from gradient_rl.schema.jsonl import read_records, to_line
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Usage
from gradient_rl.schema.workspace import Email, FrozenRecord, Record, RecordKind
from gradient_rl.worlds.generate import PARAPHRASES_FILE
from gradient_rl.worlds.proof import Proof, Proven
from gradient_rl.worlds.rewording import Language, Original, cleaned, fault_in_rewording, messages_for

MAX_FAILURES = 10
"""Requests in a row that may fail before the run gives up."""
_KEY = ("id", "original", "model")
_TEMPERATURE = 1.0
_MAX_COMPLETION_TOKENS = 4096


class Writer(Policy, Protocol):
    """A model that words texts; a chat policy that is offered no tools."""

    async def aclose(self) -> None:
        """Close what it holds, in the event loop it was used in; the next act opens it again."""
        ...


@dataclass(frozen=True)
class Plan:
    """How much is reworded.

    Raises:
        UsageError: a number is out of its range.
    """

    share: float = 1.0
    """Of the texts that may be reworded; those that a task cites come first."""
    questions: bool = False
    """Whether the questions of the tasks are reworded too. Whether one still asks for the same thing cannot be checked."""
    concurrency: int = 8
    """Requests under way at a time."""
    max_requests: int | None = None
    """Answers to ask for in this run; what remains is left for another one."""

    def __post_init__(self) -> None:
        for name, value, holds in (
            ("share", self.share, 0.0 <= self.share <= 1.0),
            ("concurrency", self.concurrency, self.concurrency > 0),
            ("max_requests", self.max_requests, self.max_requests is None or self.max_requests >= 0),
        ):
            if not holds:
                raise UsageError(f"{name} of the paraphrasing is {value}; it must be {_RANGES[name]}")


_RANGES = {"share": "from 0 to 1", "concurrency": "above 0", "max_requests": "0 or more"}


class ParaphraseReport(FrozenRecord):
    """What came of it."""

    schema_version: int = 1
    model: str
    texts: int
    """Texts that were to be reworded."""
    earlier: int
    """Of these, texts that an earlier run had reworded already."""
    asked: int
    """Answers that were asked for in this run."""
    reused: int
    """Answers that an earlier run had noted."""
    failed: int
    """Requests without an answer; another run asks again."""
    unasked: int
    """Texts beyond the limit of requests."""
    kept: int
    refused: dict[str, int]
    """Rewordings that were refused, by reason; there the original stays."""
    references: int
    """Tasks whose reference searches with other words now."""
    usage: Usage
    """Tokens of this run's answers, and their price if it is known."""


def writer_for(
    spec: str,
    base_url: str | None,
    api_key_env: str | None,
    variables: Mapping[str, str] | None = None,
    price_per_million: Price | None = None,
) -> Writer:
    """The writer of `--writer chat:MODEL --base-url URL [--api-key-env NAME]`.

    Args:
        variables: where the key is looked for; the environment if left out.

    Raises:
        UsageError: it names no model, or there is no address.
        MissingKeyError: the address needs a key, and there is none.
    """
    model = spec.removeprefix(CHAT)
    if not spec.startswith(CHAT) or not model:
        raise UsageError(f"--writer {spec} names no model; write {CHAT}MODEL, as in {CHAT}gpt-4.1-mini")
    access = Access(base_url, os.environ if variables is None else variables, api_key_env, price_per_million)
    return chat_policy(access, model, _TEMPERATURE, _MAX_COMPLETION_TOKENS, option="--writer")


async def paraphrase(
    folder: Path, writer: Writer, plan: Plan | None = None, progress: Callable[[str, int, int], None] | None = None
) -> ParaphraseReport:
    """Reword the e-mails of a data folder and the meeting notes that its tasks cite, and the questions if the plan says so.

    Closes the writer.

    Args:
        progress: told of what is under way, how much is done and of how much.

    Raises:
        NothingToReadError, DataError: the folder or one of its files is missing or damaged.
        MissingKeyError, ServiceError: the endpoint refuses, or answers nothing; what it has answered is noted.
        FolderInUseError: another run works on the folder.
        ArtifactError: the file system refuses.
    """
    if not folder.is_dir():
        raise NothingToReadError(f"{folder} is not there; generate it first, or check the path")
    told = progress or _tell_nobody
    plan = plan or Plan()
    with hold_folder(folder):
        data = _Data.read(folder)
        originals = _chosen(data, plan)
        notes = _Notes.read(folder / PARAPHRASES_FILE, writer.name)
        asking = _Asking(writer, plan, notes, told)
        waiting = [original for original in originals if not notes.has(original)]
        try:
            with Journal(folder / PARAPHRASES_FILE, _KEY) as journal:
                await asking.all(waiting, journal)
        finally:
            await writer.aclose()
        return _finished(data, originals, asking, told)


@dataclass(frozen=True)
class _Data:
    """The files of a data folder."""

    folder: Path
    records: Sequence[Record]
    tasks: Mapping[str, Sequence[Task]]
    """By name of the file."""

    @classmethod
    def read(cls, folder: Path) -> _Data:
        names = [name for name in (TRAIN_FILE, HELDOUT_FILE) if (folder / name).exists()]
        tasks = {name: read_records(folder / name, Task) for name in names}
        return cls(folder, tuple(load_workspace(folder).records.values()), tasks)

    @property
    def all_tasks(self) -> list[Task]:
        return [task for tasks in self.tasks.values() for task in tasks]

    def write(self, proven: Proven) -> None:
        """Replace the files whose content changed."""
        tasks = {task.id: task for task in proven.tasks}
        _replace(self.folder / EMAILS_FILE, _emails(self.records), _emails(proven.records))
        _replace(self.folder / DOCUMENTS_FILE, _documents(self.records), _documents(proven.records))
        for name, old in self.tasks.items():
            _replace(self.folder / name, old, [tasks[task.id] for task in old])


@dataclass
class _Notes:
    """What the model has answered, in this run and in earlier ones."""

    model: str
    answers: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """By id and digest of the original."""
    written: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Ids and digests of all rewordings, from whichever model: a text that is one of them is not reworded again."""

    @classmethod
    def read(cls, path: Path, model: str) -> _Notes:
        notes = cls(model)
        for _, note in read_journal(path) if path.exists() else ():
            record_id, before, text = str(note.get("id")), str(note.get("original")), str(note.get("text"))
            if (after := digest(cleaned(text))) != before:
                notes.written.add((record_id, after))
            if note.get("model") == model:
                notes.answers[record_id, before] = text
        return notes

    def is_reworded(self, original: Original) -> bool:
        """Whether the text is a rewording of an earlier run."""
        return (original.id, original.digest) in self.written

    def has(self, original: Original) -> bool:
        """Whether nothing need be asked."""
        return self.is_reworded(original) or (original.id, original.digest) in self.answers


class _Asking:
    """Asks for rewordings, several at a time, and notes each answer before the next is asked for."""

    def __init__(self, writer: Writer, plan: Plan, notes: _Notes, told: Callable[[str, int, int], None]) -> None:
        self.notes = notes
        self.asked = self.failed = self.unasked = 0
        self.usage = Usage()
        self._writer, self._plan, self._told = writer, plan, told
        self._failed_in_a_row = 0

    async def all(self, waiting: Sequence[Original], journal: Journal) -> None:
        """Ask for each, as far as the limit goes."""
        limit = len(waiting) if self._plan.max_requests is None else self._plan.max_requests
        self.unasked = max(0, len(waiting) - limit)
        left = iter(waiting[:limit])
        of = len(waiting) - self.unasked
        workers = [asyncio.create_task(self._work(left, of, journal)) for _ in range(min(self._plan.concurrency, of))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, left: Iterator[Original], of: int, journal: Journal) -> None:
        for original in left:
            self.asked += 1
            text = await self._ask(original)
            if text is not None:
                note = {"id": original.id, "original": original.digest, "model": self._writer.name, "text": text}
                journal.append(note)
                self.notes.answers[original.id, original.digest] = text
            self._told("texts reworded", self.asked, of)

    async def _ask(self, original: Original) -> str | None:
        """The answer, empty where it was cut short; None where none came."""
        try:
            reply = await self._writer.act(messages_for(original), (), Random(original.digest))
        except TransportError as error:
            self.failed += 1
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= MAX_FAILURES:
                raise ServiceError(f"{MAX_FAILURES} requests in a row failed, the last with {error}; try again later") from None
            return None
        self._failed_in_a_row = 0
        self.usage += reply.usage
        return (reply.content or "") if reply.finish_reason == "stop" else ""


def _chosen(data: _Data, plan: Plan) -> list[Original]:
    """The texts that are to be reworded, those that a task cites first; the same for every run, and more for a larger share."""
    cited = {record_id for task in data.all_tasks for record_id in _cited(task)}
    texts = [Original(record.id, record.body) for record in data.records if _is_prose(record, record.id in cited)]
    texts.sort(key=lambda text: (text.id not in cited, hashlib.sha256(text.id.encode()).digest()))
    chosen = texts[: math.ceil(len(texts) * plan.share)]
    questions = [Original(task.id, task.question, is_question=True) for task in data.all_tasks]
    return [*chosen, *(questions if plan.questions else ())]


def _cited(task: Task) -> Iterator[str]:
    yield from (record_id for slot in task.required_sources for record_id in slot)
    yield from task.neutral_sources


def _is_prose(record: Record, cited: bool) -> bool:
    """Whether a record is an e-mail, or notes that matter. Contracts, policies and customer files are worded on purpose."""
    if any(line.lstrip().startswith("|") for line in record.body.split("\n")):
        return False
    return isinstance(record, Email) or (cited and record.kind is RecordKind.MEETING_NOTES)


def _finished(
    data: _Data, originals: Sequence[Original], asking: _Asking, told: Callable[[str, int, int], None]
) -> ParaphraseReport:
    """Check the answers, prove what is left, and write it."""
    notes, refused = asking.notes, Counter[str]()
    language = Language(data.records)
    texts: dict[str, str] = {}
    fresh = [text for text in originals if not notes.is_reworded(text)]
    answered = [text for text in fresh if (text.id, text.digest) in notes.answers]
    for original in answered:
        text = cleaned(notes.answers[original.id, original.digest])
        fault = fault_in_rewording(original.text, text, language)
        if fault:
            refused[fault] += 1
        else:
            texts[original.id] = text
    tasks = data.all_tasks
    proven = Proof(data.records, tasks).of(texts, lambda broken: told("tasks that hold", len(tasks) - broken, len(tasks)))
    data.write(proven)
    refused.update(proven.refused.values())
    return ParaphraseReport(
        model=asking.notes.model,
        texts=len(originals),
        earlier=len(originals) - len(fresh),
        asked=asking.asked,
        reused=len(answered) - (asking.asked - asking.failed),
        failed=asking.failed,
        unasked=asking.unasked,
        kept=len(proven.texts),
        refused=dict(refused.most_common()),
        references=sum(old.reference != new.reference for old, new in zip(tasks, proven.tasks, strict=True)),
        usage=asking.usage,
    )


def _tell_nobody(what: str, done: int, of: int) -> None:
    pass


def _emails(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if isinstance(record, Email)]


def _documents(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if not isinstance(record, Email)]


def _replace(path: Path, old: Sequence[FrozenRecord], new: Sequence[FrozenRecord]) -> None:
    if list(old) != list(new):
        write_whole(path, "".join(to_line(record) for record in new).encode())
