"""`gradient-eval` against an endpoint that fails: what is asked again, what counts, and what the command says."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gradient_rl.cli.evaluate import app
from gradient_rl.runs import read_journal
from tests.conftest import write_data
from tests.policies.fault_server import Act, Respond, error, good, native, refused_url
from tests.tiny import DEPOSIT_TASK
from tests.untrusted.hostile import serving

TASKS = [f"t-{number}" for number in range(1, 5)]
RIGHT = native("submit_answer", {"answer": "No deposit is on record.", "sources": ["doc-2"]})
OPEN = native("open_document", {"id": "doc-2"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four held-out tasks, whose questions begin with their ids."""
    monkeypatch.chdir(tmp_path)
    fields = {name: DEPOSIT_TASK.model_copy(update={"id": name, "question": f"{name}: What deposit?"}) for name in TASKS}
    write_data(tmp_path / "data", tasks=fields.values())
    return tmp_path


def evaluate(url: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["--policy", "chat:m", "--base-url", url, "--data", "data", *more])


def asked_of(request: dict[str, Any]) -> str:
    """The task that a request is about."""
    found = re.search(r"t-\d", json.dumps(request["messages"]))
    assert found
    return found[0]


def failing(task_id: str, fault: Act) -> Respond:
    """Right on every task, but for one that fails for ever."""

    def respond(request: dict[str, Any]) -> Act:
        if asked_of(request) == task_id:
            return fault
        opened = any(message["role"] == "assistant" for message in request["messages"])
        return good(RIGHT if opened else OPEN)

    return respond


def episodes(folder: Path) -> dict[str, dict[str, Any]]:
    return {record["task_id"]: record for _, record in read_journal(folder / "artifacts/eval.chat-m.jsonl")}


def test_an_outage_is_counted_has_no_reward_and_ends_in_1_without_a_verdict(folder: Path) -> None:
    with serving(failing("t-2", error(503, Retry_After="0"))) as server:
        said = evaluate(server.url)
        requests = Counter(map(asked_of, server.requests))

    assert said.exit_code == 1
    assert said.stderr == (
        f"error: 1 of 8 episodes ended without a reward, the first with 'HTTP 503 after 5 attempts from {server.url}'; "
        "--resume plays them again\n"
    )
    assert "no verdict: 1 of the candidate's 4 episodes are without a reward, more than 5%" in " ".join(said.stdout.split())
    assert requests == {"t-1": 2, "t-2": 5, "t-3": 2, "t-4": 2}
    assert (episodes(folder)["t-2"]["stop_reason"], episodes(folder)["t-2"]["reward"]) == ("transport_error", None)
    figures = json.loads((folder / "artifacts/eval.json").read_bytes())["policies"]["chat:m"]
    assert (figures["n_tasks"], figures["excluded"]) == (3, 1)
    assert figures["metrics"]["reward"]["mean"] == pytest.approx(episodes(folder)["t-1"]["reward"]["total"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (good(OPEN, finish="content_filter"), "content_filter"),
        (error(400, "This model's maximum context length is 4096 tokens"), "context_overflow"),
        (good(content="I think", finish="length"), "malformed"),
        (good(finish="stop"), "malformed"),
    ],
)
def test_what_the_policy_does_itself_counts_as_0_and_is_no_outage(folder: Path, fault: Act, reason: str) -> None:
    with serving(failing("t-2", fault)) as server:
        said = evaluate(server.url)

    assert said.exit_code == 0, said.output
    assert episodes(folder)["t-2"]["stop_reason"] == reason
    assert episodes(folder)["t-2"]["reward"]["total"] == 0.0
    figures = json.loads((folder / "artifacts/eval.json").read_bytes())["policies"]["chat:m"]
    earned = [each["reward"]["total"] for each in episodes(folder).values()]
    assert (figures["n_tasks"], figures["excluded"]) == (4, 0)
    assert figures["metrics"]["reward"]["mean"] == pytest.approx(sum(earned) / 4)


@pytest.mark.parametrize(("fault", "code"), [(error(401), 77), (error(403), 77), (error(429, "no credits left"), 69)])
def test_a_refusal_of_everything_ends_the_run_after_one_request(folder: Path, fault: Act, code: int) -> None:
    with serving(lambda _: fault) as server:
        said = evaluate(server.url, "--concurrency", "1")

    assert said.exit_code == code
    assert len(server.requests) == 1
    assert not (folder / "artifacts/eval.json").exists()


def test_an_address_where_nothing_listens_is_told_at_once_and_leaves_no_result(folder: Path) -> None:
    url = refused_url()
    said = evaluate(url, "--concurrency", "1")

    assert said.exit_code == 69
    assert said.stderr == (
        f"error: nothing answers at {url}: a failed connection (ConnectError); start it, or check the address\n"
    )
    assert not (folder / "artifacts/eval.json").exists()
    assert not (folder / "artifacts/eval.chat-m.jsonl").exists() or episodes(folder) == {}
