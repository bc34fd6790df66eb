"""The six tools. A tool is a typed function; its docstring is what the model reads, and its schema is made from it.

To add a tool, write a function here whose first parameter is the `Desk` and list it in `TOOLS`; `docs/contributing.md`
walks through one.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, create_model

from gradient_rl.environment.search import SearchIndex
from gradient_rl.environment.workspace import Workspace
from gradient_rl.schema.trajectory import Observation
from gradient_rl.schema.workspace import Email, Record, RecordKind

MAX_HITS = 5
EVERYTHING = frozenset(RecordKind)
EMAILS = frozenset({RecordKind.EMAIL})
DOCUMENTS = EVERYTHING - EMAILS


@dataclass
class Desk:
    """What the tools of one episode work on, and what has happened on it."""

    workspace: Workspace
    index: SearchIndex
    shown: set[str] = field(default_factory=set[str])
    """Ids that an observation has shown. Only these may be opened: an id that was guessed, or remembered from another
    episode, was not found."""
    answer: str | None = None
    """The submitted answer; None until there is one."""
    sources: tuple[str, ...] = ()


Tool = Callable[..., Observation]

Words = Annotated[str, StringConstraints(max_length=2000)]


def search(desk: Desk, query: Words) -> Observation:
    """Search all e-mails and documents by keywords.

    Returns up to 5 hits, best first, each with its id, kind, title, date, people and a matching snippet.

    Args:
        query: Words, names, numbers or dates to look for.
    """
    return _search(desk, query, EVERYTHING)


def search_email(desk: Desk, query: Words) -> Observation:
    """Search e-mails only, by keywords.

    Returns up to 5 hits, best first, each with its id, subject, date, people and a matching snippet.

    Args:
        query: Words, names, numbers or dates to look for.
    """
    return _search(desk, query, EMAILS)


def search_documents(desk: Desk, query: Words) -> Observation:
    """Search documents only (contracts, policies, meeting notes, customer records), by keywords.

    Returns up to 5 hits, best first, each with its id, kind, title, date, people and a matching snippet.

    Args:
        query: Words, names, numbers or dates to look for.
    """
    return _search(desk, query, DOCUMENTS)


def open_email(desk: Desk, id: str) -> Observation:  # noqa: A002 - the parameter's name is the tool's interface
    """Read one e-mail in full.

    Args:
        id: The id of an e-mail that a search has shown.
    """
    return _open(desk, id, wants_email=True)


def open_document(desk: Desk, id: str) -> Observation:  # noqa: A002 - the parameter's name is the tool's interface
    """Read one document in full.

    Args:
        id: The id of a document that a search has shown.
    """
    return _open(desk, id, wants_email=False)


def submit_answer(desk: Desk, answer: str, sources: list[str]) -> Observation:
    """Submit the final answer and end the task.

    If the records do not hold the answer, say so and cite the record that would have held it.

    Args:
        answer: The answer in one to three plain sentences.
        sources: The ids of the records that prove the answer, and no others. Only records you opened count.
    """
    desk.answer = answer
    desk.sources = tuple(sources)
    return Observation(text='{"submitted":true}')


TOOLS: tuple[Tool, ...] = (search, search_email, search_documents, open_email, open_document, submit_answer)


@cache
def tool_named(name: str, tools: tuple[Tool, ...] = TOOLS) -> Tool | None:
    """The tool of this name, or None."""
    return next((tool for tool in tools if tool.__name__ == name), None)


@cache
def tool_schemas(tools: tuple[Tool, ...] = TOOLS) -> tuple[dict[str, Any], ...]:
    """The tools as OpenAI function schemas, made from signatures and docstrings."""
    return tuple(_schema_of(tool) for tool in tools)


def checked_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, if they fit the tool's schema exactly.

    Raises:
        ValueError: an argument is missing, unknown or of another type; the message names it.
    """
    try:
        checked = _arguments_of(tool).model_validate(arguments, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{tool.__name__}: argument '{where}': {first['msg']}") from None
    return {name: getattr(checked, name) for name in type(checked).model_fields}


@cache
def _arguments_of(tool: Tool) -> type[BaseModel]:
    hints = get_type_hints(tool, include_extras=True)
    parameters = list(inspect.signature(tool).parameters.values())[1:]
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in parameters
    }
    return create_model(f"{tool.__name__}_arguments", __config__=ConfigDict(extra="forbid"), **fields)


def _schema_of(tool: Tool) -> dict[str, Any]:
    described, _, argument_lines = inspect.cleandoc(tool.__doc__ or "").partition("\nArgs:\n")
    descriptions = dict(re.findall(r"^ +(\w+): (.+)$", argument_lines, flags=re.MULTILINE))
    made = _arguments_of(tool).model_json_schema()
    properties = {
        name: {**{k: v for k, v in schema.items() if k != "title"}, "description": descriptions[name]}
        for name, schema in made["properties"].items()
    }
    parameters = {
        "type": "object",
        "properties": properties,
        "required": made.get("required", []),
        "additionalProperties": False,
    }
    description = " ".join(described.split())
    return {
        "type": "function",
        "function": {"name": tool.__name__, "description": description, "parameters": parameters},
    }


def _search(desk: Desk, query: str, kinds: Collection[RecordKind]) -> Observation:
    ids = tuple(desk.index.rank(query, kinds, MAX_HITS))
    if not ids:
        asked = query if len(query) <= 80 else query[:77] + "..."
        return Observation(text=_compact({"hits": [], "note": f"no record matches '{asked}'; try other words"}))
    desk.shown.update(ids)
    return Observation(text=_compact({"hits": [_hit(desk, record_id, query) for record_id in ids]}), ids=ids)


def _hit(desk: Desk, record_id: str, query: str) -> dict[str, Any]:
    record = desk.workspace.records[record_id]
    return {
        "id": record_id,
        "kind": record.kind.value,
        "title": record.title,
        "date": record.date.isoformat(),
        "people": list(dict.fromkeys(record.people)),
        "snippet": desk.index.snippet(record_id, query),
    }


def _open(desk: Desk, record_id: str, wants_email: bool) -> Observation:
    record = desk.workspace.records.get(record_id)
    if record is None:
        return _refusal(f"there is no record '{record_id}'{_nearest(record_id, desk.shown)}")
    if isinstance(record, Email) != wants_email:
        right, what = ("open_document", "a document") if wants_email else ("open_email", "an e-mail")
        return _refusal(f"'{record_id}' is {what}: use {right}")
    if record_id not in desk.shown:
        return _refusal(f"no search has shown '{record_id}' in this episode{_nearest(record_id, desk.shown)}")
    return Observation(text=_compact(_whole(record)), ids=(record_id,))


def _whole(record: Record) -> dict[str, Any]:
    fields = record.model_dump(mode="json")
    return {"id": record.id, "kind": record.kind.value, **{k: v for k, v in fields.items() if v}}


def _nearest(wanted: str, shown: Collection[str]) -> str:
    if not shown:
        return "; search first, then open an id from the hits"
    near = difflib.get_close_matches(wanted, sorted(shown), n=3, cutoff=0.0)
    return f"; the nearest of those shown are {', '.join(near)}"


def _refusal(reason: str) -> Observation:
    return Observation(text=_compact({"error": reason}), error=reason)


def _compact(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
