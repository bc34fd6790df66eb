"""Records that stay in their files: a workspace of any size, a few of its records in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, override

from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.workspace import Document, Email, Record

_IN_MEMORY = 4096


class Shelf(Mapping[str, Record]):
    """Writes records to two files, e-mails and documents, and reads one back when it is asked for."""

    def __init__(self, emails: Path, documents: Path) -> None:
        self._files: dict[type[Record], BinaryIO] = {Email: emails.open("w+b"), Document: documents.open("w+b")}
        self._places: dict[str, tuple[type[Record], int]] = {}
        self._read = lru_cache(_IN_MEMORY)(self._read_line)

    def add(self, record: Record) -> None:
        """Append a record to its file."""
        file = self._files[type(record)]
        self._places[record.id] = (type(record), file.seek(0, 2))
        file.write(to_line(record).encode())

    def close(self) -> None:
        """Close the files; nothing can be read afterwards."""
        for file in self._files.values():
            file.close()

    def _read_line(self, record_id: str) -> Record:
        model, place = self._places[record_id]
        file = self._files[model]
        file.seek(place)
        return model.model_validate_json(file.readline())

    @override
    def __getitem__(self, record_id: str) -> Record:
        return self._read(record_id)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @override
    def __len__(self) -> int:
        return len(self._places)
