"""Everything that the commands print or write for people, made from data, answers and arguments that mean harm."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from gradient_rl.cli.data import app as data
from gradient_rl.cli.demo import app as demo
from gradient_rl.cli.evaluate import app as evaluate
from gradient_rl.cli.inspect import app as inspect
from gradient_rl.cli.train import app as train
from tests.cli.running import run
from tests.untrusted.hostile import FORBIDDEN, HOSTILE, answers, hostile_data, serving

if TYPE_CHECKING:
    from typer import Typer

Played = tuple[Path, dict[str, Result]]

APPS: dict[str, Typer] = {"data": data, "demo": demo, "evaluate": evaluate, "inspect": inspect, "train": train}
SMALL = ["--max-steps", "1", "--group-size", "2", "--tasks-per-step", "2"]
PLAYING = {
    "demo": ["demo", "--task", "t-4"],
    "demo as json": ["demo", "--task", "t-4", "--json", "--artifacts", "json"],
    "train": ["train", *SMALL],
    "train as json": ["train", *SMALL, "--json", "--artifacts", "json"],
    "a dry run": ["train", *SMALL, "--dry-run", "--artifacts", "dry"],
}
READING = {
    "validate": ["data", "validate", "data"],
    "tasks": ["data", "tasks", "--data", "data"],
    "card": ["data", "card", "data"],
    "list": ["inspect", "list"],
    "show": ["inspect", "show", "eval.chat-evil/t-4/0"],
    "show of a demonstration": ["inspect", "show", "demo/weak/t-4/0"],
    "diff": ["inspect", "diff", "weak", "chat:evil"],
    "diff of a task": ["inspect", "diff", "weak", "chat:evil", "--task", "t-4"],
    "curves": ["inspect", "curves"],
    "inspect validate": ["inspect", "validate"],
    "audit": ["inspect", "audit", "--data", "data"],
    "openai export": ["inspect", "export", "--format", "openai"],
    "hf export": ["inspect", "export", "--format", "hf"],
    "report": ["inspect", "report"],
    "rescore": ["evaluate", "--rescore", "artifacts/eval.weak.jsonl", "artifacts/eval.chat-evil.jsonl", "--data", "data"],
}


def invoke(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(APPS[command], list(arguments))


def clean(text: str) -> bool:
    return not FORBIDDEN & set(text)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A folder in which every command has played the hostile data, and what each of them said."""
    folder, before = tmp_path_factory.mktemp("hostile"), Path.cwd()
    os.chdir(folder)
    hostile_data(Path("data"))
    try:
        said = {name: invoke(*arguments, "--data", "data") for name, arguments in PLAYING.items()}
        with serving(answers) as server:
            everyone = ["--policy", "heuristic", "--policy", "chat:evil", "--base-url", server.url, "--data", "data"]
            said["eval"] = invoke("evaluate", *everyone)
            said["attack"] = invoke("evaluate", *everyone, "--attack", "--artifacts", "attack")
            said["eval as json"] = invoke("evaluate", *everyone, "--json", "--artifacts", "json")
    finally:
        os.chdir(before)
    return folder, said


@pytest.fixture
def folder(played: Played, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(played[0])
    return played[0]


@pytest.mark.parametrize("name", [*PLAYING, "eval", "attack", "eval as json"])
def test_a_command_that_plays_hostile_text_prints_none_of_its_control_codes(played: Played, name: str) -> None:
    said = played[1][name]

    assert said.exit_code == 0, said.output
    assert clean(said.stdout)
    assert clean(said.stderr)
    assert "json" not in name or json.loads(said.stdout)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", READING)
def test_a_command_that_reads_hostile_text_prints_none_of_its_control_codes(folder: Path, name: str, as_json: bool) -> None:
    said = invoke(*READING[name], *["--json"] * as_json)

    assert said.exit_code in (0, 3, 65), said.output
    assert said.stdout
    assert clean(said.stdout)
    assert clean(said.stderr)
    assert not as_json or json.loads(said.stdout)


def test_what_is_printed_as_json_reads_back_as_it_was(folder: Path) -> None:
    tasks = json.loads(invoke("data", "tasks", "--data", "data", "--json").stdout)["tasks"]
    shown = json.loads(invoke("inspect", "show", "eval.chat-evil/t-4/0", "--json").stdout)

    assert HOSTILE in tasks[0]["question"]
    assert f"No deposit. {HOSTILE}" in shown["trajectory"]["answer"]


def test_markup_is_printed_as_it_was_written(folder: Path) -> None:
    shown = " ".join(invoke("inspect", "show", "eval.chat-evil/t-4/0").stdout.split())

    assert "[red]red[/red]" in shown
    assert ":bomb:" in shown


def test_a_question_of_two_lines_is_one_in_a_list(folder: Path) -> None:
    assert len(invoke("data", "tasks", "--data", "data").stdout.splitlines()) == 4


def test_a_folder_with_a_hostile_name_is_named_without_its_control_codes(folder: Path) -> None:
    said = invoke("demo", "--data", "data", "--task", "t-4", "--artifacts", "\x1b[31m\u202ehere")

    assert said.exit_code == 0, said.output
    assert clean(said.output)
    assert "Saved [31mhere/demo.json" in said.stdout


# What is written for people


class Tags(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.mark.parametrize("page", ["demo.html", "train.html", "eval.html"])
def test_a_page_of_hostile_text_holds_it_as_text(folder: Path, page: str) -> None:
    text = (folder / "artifacts" / page).read_text("utf-8")
    found = Tags(text)
    blocks = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    leading = [value or "" for name, value in found.attributes if name in ("src", "href", "action", "srcset", "data")]

    assert clean(text)
    assert found.tags.count("script") == 2
    assert found.tags.count("style") == 1
    assert not {"img", "iframe", "link", "base", "object", "embed"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
    assert [value for value in leading if not value.startswith("#")] == []
    assert ("http-equiv", "Content-Security-Policy") in found.attributes
    assert len(blocks) == 1
    assert "</script><script>window.fired=1" in json.dumps(json.loads(blocks[0]))


def test_the_markdown_of_an_evaluation_holds_it_as_text(folder: Path) -> None:
    text = (folder / "artifacts/eval.md").read_text("utf-8")

    assert clean(text)
    assert "\\<svg onload=window.fired=1\\>" in text
    assert re.findall(r"(?<!\\)<|(?<!\\)\]\(", text) == []


def test_no_file_is_named_by_other_peoples_text(folder: Path) -> None:
    names = [path.name for place in ("artifacts", "json", "dry") for path in (folder / place).rglob("*")]

    assert "eval.chat-evil.jsonl" in names
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name)] == []


# Errors that quote a value

QUOTING: dict[str, list[str]] = {
    "a task": ["demo", "--task", HOSTILE],
    "a policy": ["evaluate", "--policy", HOSTILE],
    "a model": ["evaluate", "--policy", "chat:" + HOSTILE],
    "a gate": ["evaluate", "--fail-under", "\x1b]0;x\x07=1"],
    "a split": ["evaluate", "--split", "\x1b[31m\u202e"],
    "a folder": ["evaluate", "--data", "\x1b[31m\u202e"],
    "a profile": ["evaluate", "--profile", "\x1b[31m=1"],
    "an artifacts folder": ["inspect", "list", "--artifacts", "\x1b[31m\u202e\nerror: none"],
    "an id": ["inspect", "show", "\x1b[31m\u202e"],
    "a format": ["inspect", "export", "--format", "\x9b31m"],
    "a page": ["inspect", "report", "--out", "\x9b31m"],
    "a trade": ["data", "generate", "--out", "x", "--trade", "\x1b[31m"],
    "a policy to train": ["train", "--policy", "\x1b[31m"],
    "a configuration": ["train", "--config", "\x1b[31m"],
}


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("name", QUOTING)
def test_an_error_that_quotes_a_value_is_one_line_without_its_control_codes(folder: Path, name: str, debug: bool) -> None:
    said = invoke(*QUOTING[name], *["--debug"] * debug)

    assert said.exit_code not in (0, 1), said.output
    assert clean(said.stderr)
    assert said.stderr.splitlines()[-1].startswith("error: ")
    assert debug or len(said.stderr.splitlines()) == 1
    assert not debug or "Traceback" in said.stderr


def test_an_option_that_is_none_is_quoted_without_its_control_codes(tmp_path: Path) -> None:
    said = run("data", "card", "--\x1b[31m\u202enone", cwd=tmp_path)

    assert said.returncode == 2
    assert clean(said.stderr)
    assert "No such option" in said.stderr


@pytest.mark.parametrize("damage", ["{HOSTILE", '{"id": "a", "x": "HOSTILE"}', '{"id": "HOSTILE"}'])
def test_a_damaged_line_is_named_without_its_control_codes(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (hostile_data(tmp_path / "data") / "emails.jsonl").open("a", encoding="utf-8") as file:
        file.write(damage.replace("HOSTILE", json.dumps(HOSTILE)[1:-1]) + "\n")
    said = [invoke("demo", "--data", "data"), invoke("data", "validate", "data"), invoke("data", "card", "data")]

    assert [each.exit_code for each in said] == [65, 65, 65]
    assert all(clean(each.output) for each in said)
    assert all("emails.jsonl line 3" in each.output for each in said)


# In a terminal

OWN = re.compile(r"\x1b\[[0-9;]*[mKABGH]|\x1b\[\?25[lh]|\r")
"""What Rich prints of its own: colours, moving the cursor, hiding it."""


def in_a_terminal(folder: Path, command: str, *arguments: str) -> str:
    master, slave = pty.openpty()
    code = f"from gradient_rl.cli.{command} import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    written = b"".join(iter(reading(master), b""))
    os.close(master)
    assert process.wait(60) in (0, 65), written
    return written.decode()


def reading(descriptor: int) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return os.read(descriptor, 65536)
        except OSError:  # what Linux says when the other side is closed
            return b""

    return read


def test_a_terminal_is_sent_the_codes_of_the_commands_alone(played: Played) -> None:
    new = ["--data", "data", "--artifacts", "tty"]
    with serving(answers) as server:
        shown = [
            in_a_terminal(played[0], "demo", *new, "--task", "t-4"),
            in_a_terminal(played[0], "train", *new, *SMALL),
            in_a_terminal(played[0], "evaluate", *new, "--policy", "chat:evil", "--base-url", server.url),
            in_a_terminal(played[0], "inspect", "show", "eval.chat-evil/t-4/0"),
        ]

    assert [("\x1b[" in each, FORBIDDEN & set(OWN.sub("", each))) for each in shown] == [(True, set())] * 4
