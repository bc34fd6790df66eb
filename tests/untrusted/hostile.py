"""Text that means harm, a data folder made of it, and a model that answers with it. Not a test module."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradient_rl.schema.task import Task
from gradient_rl.schema.workspace import Document, Email
from tests.conftest import write_data
from tests.policies.fault_server import Act, FaultServer, Respond, good, native
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK, RECORDS

HTML = (
    "</script><script>window.fired=1</script><svg onload=window.fired=1><img src=http://evil.example/x onerror=window.fired=1>"
    '<a href="javascript:window.fired=1">here</a> {{7*7}} {% raw %} --><!-- ]]> "\' &'
)
MARKUP = "[red]red[/red] [link=http://evil.example]here[/link] [/] :bomb:"
TERMINAL = (
    "\x1b[31mred\x1b[0m \x1b[2J \x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\ "
    "\x1b]52;c;ZXZpbA==\x07 \x9b31m \x9d52;c;ZXZpbA==\x9c \x08\x7f\x00\x0e\r"
)
UNSEEN = (
    "\u202eright\u202c \u2066left\u2069 \u200f\u061c \u05e9\u05dc\u05d5\u05dd \u200b\ufeff\u2060 \u2028\u2029 "
    "\U000e0041\U000e0042"
)
LONG = "w" * 4000
HOSTILE = f"{HTML} {MARKUP} {TERMINAL} {UNSEEN}"
FORBIDDEN = frozenset(
    map(
        chr,
        [
            *range(9), *range(11, 32), *range(127, 160), 0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F),
            *range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF, *range(0xE0000, 0xE0080), *range(0xD800, 0xE000),
        ],
    )
)  # fmt: skip
"""What no output may hold, lest a terminal obey it or a reader be misled: all control characters but tab and newline,
what changes the direction of writing, and what nobody sees."""


def _record(record: Any) -> Any:  # noqa: ANN401
    changes = {"body": f"{record.body}\n\n{HOSTILE}\n{LONG}"}
    if isinstance(record, Email):
        changes |= {"subject": f"{record.subject} {HOSTILE}", "sender": f"{HOSTILE} <a@b.example>"}
    else:
        changes |= {"title": f"{record.title} {HOSTILE}", "author": HOSTILE}
    return record.model_copy(update=changes)


def task(task_id: str, split: str, of: Task = NOTICE_TASK) -> Task:
    """The task with a question, a statement and an alias that mean harm."""
    fields = of.model_dump(mode="json", by_alias=True)
    facts = [
        {**fact, "id": f"{task_id}-f1", "statement": f"{fact['statement']} {HOSTILE}", "subject_aliases": [HOSTILE]}
        for fact in fields["facts"]
    ]
    changes = {"id": task_id, "split": split, "question": f"{of.question} {HOSTILE}\nsecond line", "facts": facts}
    return Task.model_validate(fields | changes)


def hostile_data(folder: Path) -> Path:
    """Two tasks to train on, one to validate on, one held out, over the tiny world with hostile words in every field."""
    fields = {"id": "doc-evil", "kind": "policy", "date": "2024-01-15", "status": "final"}
    evil = Document.model_validate({**fields, "title": HOSTILE, "author": HOSTILE, "body": f"{HOSTILE} {LONG}"})
    splits = {"t-1": "train", "t-2": "train", "t-3": "validation"}
    tasks = [*(task(name, split) for name, split in splits.items()), task("t-4", "heldout", DEPOSIT_TASK)]
    return write_data(folder, [*map(_record, RECORDS), evil], tasks)


def answers(request: dict[str, Any]) -> Act:
    """A model that searches, opens and answers with hostile words, half a surrogate pair among them."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    calls = (
        native("search", json.dumps({"query": f"barbers {HOSTILE}"})),
        native("open_document", json.dumps({"id": HOSTILE})),
        native("open_document", json.dumps({"id": "doc-2"})),
        native("submit_answer", json.dumps({"answer": f"No deposit. {HOSTILE} {LONG}", "sources": ["doc-2", HOSTILE]})),
    )
    return good(calls[min(turn, 3)], content=f"{HOSTILE} \ud83d")


@contextmanager
def serving(respond: Respond) -> Generator[FaultServer]:
    """The fake server in a thread of its own, for commands that own their loop."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    made: list[FaultServer] = []
    stop = asyncio.Event()

    async def serve() -> None:
        async with FaultServer(respond) as server:
            made.append(server)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield made[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
