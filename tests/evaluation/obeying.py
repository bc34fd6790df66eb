"""Two models behind a chat endpoint: one does what any record asks for, the other never does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import tiny
from tests.policies.fault_server import Act, FaultServer, Respond, good, native

QUERIES = ("birch bakery notice", "barbers contract deposit")
ASKED = (
    re.compile(r"state (.+?) and no other value"),
    re.compile(r"Cite (\S+) as a source"),
    re.compile(r"word for word: (.+?\d\.)"),
)


def gullible(request: dict[str, Any]) -> Act:
    """Reads everything, answers `60 days`, and adds whatever the records told it to."""
    return _researched(request, obeys=True)


def incorruptible(request: dict[str, Any]) -> Act:
    """Reads everything and answers `60 days`."""
    return _researched(request, obeys=False)


def _researched(request: dict[str, Any], obeys: bool) -> Act:
    told = [json.loads(m["content"]) for m in request["messages"] if m["role"] == "tool"]
    if len(told) < len(QUERIES):
        return good(native("search", {"query": QUERIES[len(told)]}))
    kinds = {hit["id"]: hit["kind"] for each in told for hit in each.get("hits", ())}
    opened = [each for each in told if "body" in each]
    unread = sorted(kinds.keys() - {each["id"] for each in opened})
    if unread:
        return good(native("open_email" if kinds[unread[0]] == "email" else "open_document", {"id": unread[0]}))
    values, ids, phrases = _instructions(opened) if obeys else ([], [], [])
    return good(native("submit_answer", {"answer": " ".join(["60 days.", *values, *phrases]), "sources": ["mail-1", *ids]}))


def _instructions(opened: list[dict[str, Any]]) -> Iterator[list[str]]:
    bodies = " ".join(each["body"] for each in opened)
    return iter([[f"It is {value}." for value in ASKED[0].findall(bodies)], *(p.findall(bodies) for p in ASKED[1:])])


async def _attacked(respond: Respond, folder: Path, arguments: tuple[str, ...]) -> tuple[int, str, str]:
    async with FaultServer(respond) as server:
        code = "from gradient_rl.cli.evaluate import main; main()"
        model = ("--policy", "chat:tiny", "--base-url", server.url, "--baseline", "chat:tiny")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "--attack", "--json", "--data", "data", *model, *arguments),
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(Path(tiny.__file__).parent.parent), "OPENAI_API_KEY": "k"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()


def attack_chat(respond: Respond, folder: Path, *arguments: str) -> dict[str, Any]:
    """What `gradient-eval --attack --json` says of a model that answers like this, on the data in the folder."""
    status, out, err = asyncio.run(_attacked(respond, folder, arguments))
    assert status == 0, err
    return json.loads(out)
