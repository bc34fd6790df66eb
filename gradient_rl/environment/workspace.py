"""A workspace: the e-mails and documents of one company, loaded and checked once, and the tasks about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.schema.jsonl import parse_line, read_lines, to_line
from gradient_rl.schema.task import Task
from gradient_rl.schema.workspace import Document, Email, Record

EMAILS_FILE = "emails.jsonl"
DOCUMENTS_FILE = "documents.jsonl"
TRAIN_FILE = "tasks/train.jsonl"
HELDOUT_FILE = "tasks/heldout.jsonl"


@dataclass(frozen=True)
class Workspace:
    """All records by id, in file order, e-mails first."""

    records: Mapping[str, Record]
    digest: str
    """SHA-256 over the records in the order of their ids, in hex: the same records, the same digest."""

    @property
    def emails(self) -> list[Email]:
        """The e-mails."""
        return [record for record in self.records.values() if isinstance(record, Email)]

    @property
    def documents(self) -> list[Document]:
        """The documents."""
        return [record for record in self.records.values() if isinstance(record, Document)]


@dataclass(frozen=True)
class TaskFile:
    """The tasks of one file, with the line each stands on."""

    path: Path
    tasks: tuple[Task, ...]
    lines: Mapping[str, int]
    digest: str
    """SHA-256 over the tasks in the order of their ids, in hex."""


def default_data_dir() -> Path:
    """The data that travels with the package: inside it when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "data"
    return inside if inside.is_dir() else package.parent / "data"


def load_workspace(directory: Path) -> Workspace:
    """Load `emails.jsonl` and `documents.jsonl` of a data folder.

    Raises:
        NothingToReadError: the folder or one of the files is missing, or both are empty.
        DataError: a line is damaged, or two records have the same id.
    """
    records: dict[str, Record] = {}
    seen_at: dict[str, str] = {}
    for name, model in ((EMAILS_FILE, Email), (DOCUMENTS_FILE, Document)):
        for number, line in read_lines(directory / name):
            where = f"{directory / name} line {number}"
            record = parse_line(line, model, where)
            _refuse_second(record.id, where, seen_at)
            records[record.id] = record
    if not records:
        raise NothingToReadError(f"{directory} holds no records; {EMAILS_FILE} and {DOCUMENTS_FILE} are both empty")
    return Workspace(records=records, digest=_digest_of(records.values()))


def workspace_of(records: Iterable[Record]) -> Workspace:
    """Make a workspace from records that are already in memory.

    Raises:
        DataError: two records have the same id.
    """
    by_id: dict[str, Record] = {}
    for record in records:
        if record.id in by_id:
            raise DataError(f"two records have the id '{record.id}'")
        by_id[record.id] = record
    return Workspace(records=by_id, digest=_digest_of(by_id.values()))


def load_tasks(path: Path) -> TaskFile:
    """Load a file of tasks.

    Raises:
        NothingToReadError: the file is missing or holds no task.
        DataError: a line is damaged, or two tasks have the same id.
    """
    tasks: list[Task] = []
    seen_at: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in read_lines(path):
        task = parse_line(line, Task, f"{path} line {number}")
        _refuse_second(task.id, f"{path} line {number}", seen_at)
        tasks.append(task)
        lines[task.id] = number
    if not tasks:
        raise NothingToReadError(f"{path} holds no tasks")
    return TaskFile(path=path, tasks=tuple(tasks), lines=lines, digest=_digest_of(tasks))


def _refuse_second(record_id: str, where: str, seen_at: dict[str, str]) -> None:
    if record_id in seen_at:
        raise DataError(f"{where}: id '{record_id}' is already used at {seen_at[record_id]}; ids must be unique")
    seen_at[record_id] = where


def _digest_of(records: Iterable[Record] | Iterable[Task]) -> str:
    digest = hashlib.sha256()
    for record in sorted(records, key=lambda r: r.id):
        digest.update(to_line(record).encode())
    return digest.hexdigest()
