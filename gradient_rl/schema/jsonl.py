"""Reading JSON-lines files into records, with errors that name the file, the line and the value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import NoReturn, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from gradient_rl.errors import DataError, NothingToReadError

_MOST_DIGITS = 308
"""Of a whole number: more is more than any float holds."""


def read_records[Model: BaseModel](path: Path, model: type[Model]) -> list[Model]:
    """Read a file of one record a line.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it cannot be read, or a line is not a record of this kind.
    """
    return [parse_line(line, model, f"{path} line {number}") for number, line in read_lines(path)]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) for every line that is not blank.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it is not UTF-8 text, or the file system refuses to read it.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise NothingToReadError(f"{path} is not there; check the path, or give another folder with --data") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start} cannot be read") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check that path") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def parse_line[Model: BaseModel](line: str, model: type[Model], where: str) -> Model:
    """Parse one line.

    Args:
        where: file and line, the start of every error message.

    Raises:
        DataError: the line is not JSON, or does not fit the schema.
    """
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        raise DataError(f"{where}: {_first_fault(line, error)}") from None


def read_json(data: bytes) -> object:
    """Read one JSON value, a lone surrogate's escape included, and refuse what only Python takes for JSON.

    Raises:
        ValueError: it is no JSON, or a number in it is no finite one or too long; what is wrong is said in plain words.
    """
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_no_number, parse_int=_whole, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def write_records(path: Path, records: Iterable[BaseModel]) -> None:
    """Write one record a line; the caller answers for durability."""
    path.write_text("".join(to_line(record) for record in records), encoding="utf-8")


def to_line(record: BaseModel) -> str:
    """A record as one line of JSON, its newline included. A lone surrogate becomes its JSON escape."""
    try:
        return record.model_dump_json(by_alias=True) + "\n"
    except PydanticSerializationError:
        fields = record.model_dump(mode="json", by_alias=True)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "backslashreplace").decode() + "\n"


def fault_in(error: ValidationError) -> str:
    """The first field that does not fit, why, and what stands there."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if not field:
        return first["msg"]
    got = "" if first["type"] == "missing" else f" (got {first['input']!r:.60})"
    return f"field '{field}': {first['msg']}{got}"


def _first_fault(line: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not valid JSON ({first['msg'].removeprefix('Invalid JSON: ')})"
    field = ".".join(str(part) for part in first["loc"]) or "record"
    shown = json.dumps(first["input"], ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    message = first["msg"].removeprefix("Value error, ")
    return f"{_id_of(line)}field '{field}': {message} (got {shown})"


def _id_of(line: str) -> str:
    value = json.loads(line)
    record_id = cast("dict[str, object]", value).get("id") if isinstance(value, dict) else None
    return f"'{record_id}', " if isinstance(record_id, str) else ""
