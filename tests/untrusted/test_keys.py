"""A key, wherever it stands, is in nothing that is printed or written, whatever the server says back."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradient_rl.cli.remote import command_to_resume, environment
from gradient_rl.errors import DataError
from gradient_rl.policies.endpoint import Endpoint
from tests.policies.fault_server import Act, FaultServer, error, good, native
from tests.training.art_runs import tiny_training_data
from tests.untrusted.hostile import serving
from tests.untrusted.test_outputs import invoke

KEY = "c4a7a7y0c4a7a7y0c4a7a7y0c4a7a7y0c4a7a7y0"
PASSWORD = "canary-password-98765"
QUERY = "canary-in-the-query-43210"
SECRETS = (KEY, PASSWORD, QUERY, base64.b64encode(f"user:{PASSWORD}".encode()).decode())


def found_in(text: str | bytes) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return [secret for secret in SECRETS if secret.encode() in content]


def files_with_a_secret(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and found_in(path.read_bytes())]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tiny_training_data(tmp_path / "data")
    return tmp_path


class Echo:
    """A server that gives back every header and the address of what it was asked."""

    server: FaultServer

    def __init__(self, **how: Any) -> None:  # noqa: ANN401
        self._how = how

    @property
    def said(self) -> str:
        return f"{self.server.headers[-1]} {self.server.paths[-1]}"

    def __call__(self, request: dict[str, Any]) -> Act:
        if "status" in self._how:
            return error(self._how["status"], f"{self._how.get('say', '')} {self.said}", X_Echo=self.said)
        submitted = native("submit_answer", {"answer": self.said, "sources": [self.said]})
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        return good(native("search", {"query": self.said}) if turn == 0 else submitted, content=self.said)


@pytest.fixture
def echo(request: pytest.FixtureRequest) -> Iterator[Echo]:
    made = Echo(**request.param)
    with serving(made) as server:
        made.server = server
        yield made


REPLIES = [{}, {"status": 401}, {"status": 404}, {"status": 400}, {"status": 429, "say": "you have no credits"}]
PLACES = ("environment", "file", "url")


@pytest.mark.parametrize("echo", REPLIES, indirect=True, ids=lambda how: str(how.get("status", "a reply")))
@pytest.mark.parametrize("place", PLACES)
def test_an_evaluation_keeps_the_key_to_itself(folder: Path, echo: Echo, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = echo.server.url
    if place == "environment":
        monkeypatch.setenv("MY_KEY", KEY)
    elif place == "file":
        (folder / ".env").write_text(f"MY_KEY={KEY}\n")
    else:
        url = f"{url.replace('//', f'//user:{PASSWORD}@')}?key={QUERY}"
    named = ["--api-key-env", "MY_KEY"] if place != "url" else []
    said = invoke("evaluate", "--policy", "chat:m", "--base-url", url, *named, "--data", "data", "--debug")
    shown = [
        invoke("inspect", "show", "eval.chat-m"),
        invoke("inspect", "report"),
        invoke("inspect", "export", "--format", "hf"),
    ]

    assert found_in(echo.said), "the server has seen no secret, so this shows nothing"
    assert said.exit_code in (0, 69, 77)
    assert [found_in(each.output) for each in (said, *shown)] == [[]] * 4
    assert files_with_a_secret(folder) == ([".env"] if place == "file" else [])


@pytest.mark.parametrize("echo", [{"status": 400}], indirect=True, ids=[""])
def test_a_rewording_keeps_the_key_to_itself(folder: Path, echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    options = ["--writer", "chat:m", "--base-url", echo.server.url, "--api-key-env", "MY_KEY", "--debug"]
    said = invoke("data", "paraphrase", "data", *options)

    assert found_in(echo.said)
    assert said.exit_code == 69
    assert found_in(said.output) == []
    assert files_with_a_secret(folder) == []


SMALL = ["--policy", "art", "--max-steps", "1", "--tasks-per-step", "2", "--group-size", "2", "--data", "data", "--debug"]


def train(folder: Path, *arguments: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for the libraries that it loads look at the environment."""
    return subprocess.run(
        [sys.executable, "-c", f"{code}\nfrom gradient_rl.cli.train import main; main()", *SMALL, *arguments],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "WANDB_MODE": "offline", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_a_training_on_this_machine_that_is_tracked_leaves_the_key_nowhere(folder: Path) -> None:
    said = train(folder, "--backend", "embedded", "--wandb", WANDB_API_KEY=KEY, OPENAI_API_KEY=KEY)

    assert said.returncode == 0, said.stderr
    assert list(folder.glob("artifacts/wandb/offline-run-*/*.wandb"))
    assert found_in(said.stdout + said.stderr) == []
    assert files_with_a_secret(folder) == []


PLANTED = """
import atexit, os, dotenv.main
dotenv.main.find_dotenv = lambda *_, **__: "elsewhere/.env"
atexit.register(lambda: print("planted" if "PLANTED" in os.environ else "clean"))
"""
"""What ART does at its import: it looks for a file in the folders above its own, not above the working folder."""


@pytest.mark.parametrize("echo", [{"status": 400}], indirect=True, ids=[""])
def test_a_training_at_an_address_with_secrets_leaves_them_nowhere_and_reads_no_other_folders_file(
    folder: Path, echo: Echo
) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/.env").write_text("PLANTED=1\n")
    url = f"{echo.server.url.replace('//', f'//user:{PASSWORD}@')}?key={QUERY}"
    options = ["--base-url", url, "--api-key-env", "MY_KEY", "--wandb"]
    said = train(folder, *options, code=PLANTED, MY_KEY=KEY, WANDB_API_KEY=KEY)

    assert said.returncode == 69, said.stderr
    assert echo.server.requests
    assert list(folder.glob("artifacts/wandb/offline-run-*/*.wandb"))
    assert found_in(said.stdout + said.stderr) == []
    assert files_with_a_secret(folder) == []
    assert said.stdout == "clean\n"


@pytest.mark.parametrize("host", ["host.example", "[::1"])
def test_an_address_is_quoted_without_its_secrets(folder: Path, host: str) -> None:
    url = f"https://user:{PASSWORD}@{host}/v1?key={QUERY}"
    said = [
        invoke("train", *SMALL, "--base-url", url),
        invoke("evaluate", "--policy", "chat:m", "--base-url", url, "--debug"),
        invoke("data", "paraphrase", "data", "--writer", "chat:m", "--base-url", url, "--debug"),
    ]

    assert [each.exit_code in (2, 77) for each in said] == [True] * 3
    assert [found_in(each.output) for each in said] == [[]] * 3


def test_the_command_that_goes_on_has_no_secret_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://user:{PASSWORD}@127.0.0.1:8000/v1?key={QUERY}"
    monkeypatch.setattr(sys, "argv", ["x", "--base-url", url, f"--base-url={url}", "--seed", "2"])
    command = command_to_resume("gradient-eval")

    assert found_in(command) == []
    assert command.endswith(" --seed 2 --resume")
    assert command.startswith("gradient-eval --base-url 'http://***:***@127.0.0.1:8000/v1?key=***' ")


def test_user_and_password_are_hidden_as_they_are_sent(folder: Path) -> None:
    endpoint = Endpoint(f"http://user:{PASSWORD}@host/v1", "", "m")

    assert endpoint.hide(f"Authorization: Basic {SECRETS[3]}") == "Authorization: Basic ***"


# Where keys are looked for


def test_the_env_file_of_the_working_folder_is_read_and_none_above_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = folder / "below"
    below.mkdir()
    (folder / ".env").write_text("ABOVE=1\n")
    (below / ".env").write_text("HERE=1\n")
    monkeypatch.chdir(below)

    assert environment()["HERE"] == "1"
    assert "ABOVE" not in environment()
    assert "HERE" not in os.environ


def test_the_real_environment_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("MY_KEY=file\n")
    monkeypatch.setenv("MY_KEY", "real")

    assert environment()["MY_KEY"] == "real"


def test_an_env_file_that_is_no_text_is_told_without_its_content(folder: Path) -> None:
    (folder / ".env").write_bytes(f"MY_KEY={KEY}\xe9\n".encode("latin-1"))

    with pytest.raises(DataError, match=r"^\./\.env is not UTF-8 text: byte 47 cannot be read; save it as UTF-8$"):
        environment()
