"""`gradient-train --policy art` and `gradient-eval --policy art@...` as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from gradient_rl.cli.evaluate import app as evaluate
from gradient_rl.cli.train import app as train
from gradient_rl.embedded.faults import Faults
from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.server import EmbeddedServer, serving
from gradient_rl.policies.adapters import art_path
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.runs import read_journal
from gradient_rl.schema.training import ArtState
from gradient_rl.training.config import TrainingConfig
from tests.cli.running import run
from tests.training.art_runs import Crash, jobs_sent_to, tiny_training_data

if TYPE_CHECKING:
    from aiohttp import web

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls")

CANARY = "canary-0123456789abcdef"
NAMED_KEY = ("--api-key-env", "WANDB_API_KEY")
"""A server on this machine is shown a key only if it is named."""
SMALL = ("--policy", "art", "--tasks-per-step", "3", "--group-size", "3", "--seed", "2", "--learning-rate", "5e-6")


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Arguments of a small run in the current folder, which holds nothing else."""
    return [*SMALL, "--data", str(tiny_training_data(tmp_path / "data"))]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    original = EmbeddedServer._guarded

    async def counted(self: EmbeddedServer, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401
        made.append(f"{request.method} {request.path}")
        return await original(self, request, handler)

    monkeypatch.setattr(EmbeddedServer, "_guarded", counted)
    return made


def gradient_train(*arguments: str) -> Result:
    return CliRunner().invoke(train, arguments)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [record for _, record in read_journal(folder / "artifacts" / "train.metrics.jsonl")]


def rewards(folder: Path) -> list[float]:
    return [m["train"]["reward"] for m in metrics(folder) if m["train"]]


def files_of(folder: Path) -> dict[str, bytes]:
    found = [path for path in (folder / "artifacts").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_the_embedded_server_trains_as_a_command_and_the_adapters_are_evaluated_without_it(
    small: list[str], tmp_path: Path
) -> None:
    trained = run("train", *small, "--backend", "embedded", "--max-steps", "2", cwd=tmp_path, WANDB_API_KEY=CANARY)

    assert trained.returncode == 0, trained.stderr
    lines = trained.stderr.splitlines()
    assert lines[1] == "It all happens on this machine; nothing is billed."
    assert [line.partition(":")[0] for line in lines[2:]] == ["step 0 of 2", "step 1 of 2", "step 2 of 2"]
    assert trained.stderr.startswith("OpenPipe/Qwen3-14B-Instruct: 2 steps of 3 groups of 3; with the validations 20 episodes.")
    assert "then run gradient-eval --policy art@0 --policy art@latest --samples 8" in trained.stdout
    names = {f"artifacts/{name}" for name in ("train.json", "train.metrics.jsonl", "train.trajectories.jsonl")}
    names |= {f"artifacts/checkpoints/art-{step:06}.json" for step in range(3)}
    assert names <= set(files_of(tmp_path))
    assert [m["learner"].get("sent_groups") for m in metrics(tmp_path)] == [None, 1.0, 2.0]
    first, second = rewards(tmp_path)
    assert second > first

    options = ["--split", "validation", "--data", small[-1], "--json"]
    played = run("evaluate", "--policy", "art@0", "--policy", "art@latest", *options, cwd=tmp_path, WANDB_API_KEY=CANARY)
    assert played.returncode == 0, played.stderr
    assert {"art@0", "art@2"} <= set(json.loads(played.stdout)["policies"])
    assert not [name for name, content in files_of(tmp_path).items() if CANARY.encode() in content]
    assert CANARY not in trained.stdout + trained.stderr + played.stdout + played.stderr


def test_an_adapter_is_evaluated_by_the_server_of_a_url_and_every_client_is_closed(
    small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = ChatPolicy.aclose

    async def counted(self: ChatPolicy) -> None:
        closed.append(self.name)
        await close(self)

    monkeypatch.setattr(ChatPolicy, "aclose", counted)
    with serving(LinearModel(None)) as server:
        url = ["--base-url", server.base_url]
        assert gradient_train(*small, *url, "--max-steps", "1").exit_code == 0
        options = ["--split", "train", "--data", small[-1], "--json"]
        played = CliRunner().invoke(evaluate, ["--policy", "art@latest", "--baseline", "art@0", *options])

    assert played.exit_code == 0, played.output
    assert set(json.loads(played.stdout)["policies"]) == {"art@0", "art@1"}
    assert closed == ["art", "art"]


@pytest.mark.slow
def test_the_command_raises_the_reward_over_twenty_steps(small: list[str], tmp_path: Path) -> None:
    result = gradient_train(*small, "--group-size", "8", "--backend", "embedded", "--max-steps", "20")

    means = rewards(tmp_path)
    assert result.exit_code == 0, result.output
    assert (len(means), fmean(means[-4:]) - fmean(means[:4]) > 0.3) == (20, True), means


def test_a_run_on_the_embedded_server_goes_on(small: list[str], tmp_path: Path) -> None:
    assert gradient_train(*small, "--backend", "embedded", "--max-steps", "1").exit_code == 0
    assert gradient_train(*small, "--backend", "embedded", "--max-steps", "2", "--resume").exit_code == 0

    models = json.loads((tmp_path / "artifacts/checkpoints/embedded/models.json").read_bytes())
    assert models["models"][0]["checkpoints"] == [0, 1, 2]
    assert [m["step"] for m in metrics(tmp_path)] == [0, 1, 2]


def test_a_server_of_our_own_is_given_longer_than_an_episode_for_a_reply(
    small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, check = set[float](), Endpoint.__post_init__

    def noted(endpoint: Endpoint) -> None:
        asked.add(endpoint.timeout_s)
        check(endpoint)

    monkeypatch.setattr(Endpoint, "__post_init__", noted)
    assert gradient_train(*small, "--backend", "embedded", "--max-steps", "1").exit_code == 0
    assert CliRunner().invoke(evaluate, ["--policy", "art@latest", "--baseline", "art@0", *small[-2:]]).exit_code == 0

    assert min(asked) > TrainingConfig().episode_deadline_s


def test_a_base_model_that_cannot_be_served_leaves_the_earlier_run_where_it_is(small: list[str], tmp_path: Path) -> None:
    assert gradient_train(*small, "--backend", "embedded", "--max-steps", "1").exit_code == 0
    before = files_of(tmp_path)
    refused = gradient_train(*small, "--backend", "embedded", "--max-steps", "1", "--base-model", str(tmp_path / "nothing"))

    assert refused.exit_code in (2, 66), refused.output
    assert files_of(tmp_path) == before


def test_no_job_of_an_embedded_server_that_ended_is_waited_for(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import art

    async def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(art.ServerlessBackend, "train", crash)
        with pytest.raises(Crash):
            gradient_train(*small, "--backend", "embedded", "--max-steps", "1")
    resumed = gradient_train(*small, "--backend", "embedded", "--max-steps", "1", "--resume")

    assert resumed.exit_code == 0, resumed.output


# Keys


def test_without_a_key_nothing_is_written_and_the_message_says_where_to_get_one(small: list[str], tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    result = gradient_train(*small, "--max-steps", "1")

    assert result.exit_code == 77
    assert result.stderr == (
        "error: training needs a Weights & Biases key and WANDB_API_KEY is not set: get one at https://wandb.ai/authorize, "
        "then put the line WANDB_API_KEY=... into ./.env or export it; gradient-train without --policy art needs no key\n"
    )
    assert set(tmp_path.iterdir()) == before


def test_a_key_in_the_env_file_is_used_and_leaves_no_trace(small: list[str], tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"WANDB_API_KEY={CANARY}\n")
    with serving(LinearModel(None), token=CANARY, faults=Faults(fail_jobs=frozenset({2}))) as server:
        failed = gradient_train(*small, "--base-url", server.base_url, "--max-steps", "2", *NAMED_KEY, "--debug")
        resumed = gradient_train(*small, "--base-url", server.base_url, "--max-steps", "2", *NAMED_KEY, "--resume")

    assert (failed.exit_code, resumed.exit_code) == (69, 0)
    assert "Training job failed: job 2 was made to fail" in failed.stderr
    assert CANARY not in failed.output + resumed.output
    assert "WANDB_API_KEY" not in os.environ
    assert not [name for name, content in files_of(tmp_path).items() if CANARY.encode() in content]


def test_a_refused_key_ends_the_command_after_one_request(
    small: list[str], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)
    with serving(LinearModel(None), token="another") as server:
        result = gradient_train(*small, "--base-url", server.base_url, "--api-key-env", "MY_KEY", "--max-steps", "1", "--debug")

    assert result.exit_code == 77
    assert "refused the key (HTTP 401); put a valid one into MY_KEY, in the environment or in ./.env" in result.stderr
    assert CANARY not in result.output
    assert asked == ["POST /v1/preview/models"]


def adapter_at(base_url: str) -> None:
    """A checkpoint as a run on that service leaves it."""
    names = {"inference_name": "m", "base_model": "b", "run_name": "r", "base_url": base_url}
    state = ArtState(step=0, server_step=0, max_completion_tokens=64, **names)
    path = art_path(Path("artifacts/checkpoints"), 0)
    path.parent.mkdir(parents=True)
    path.write_text(state.model_dump_json())


def test_an_adapter_of_the_service_is_not_played_without_a_key(tmp_path: Path, local_only: list[str]) -> None:
    adapter_at("https://api.training.wandb.ai/v1")
    played = CliRunner().invoke(evaluate, ["--policy", "art@0", "--split", "validation"])

    assert played.exit_code == 77
    assert played.stderr.startswith("error: 'm' needs a key: set WANDB_API_KEY in the environment or in ./.env")
    assert {path.name for path in (tmp_path / "artifacts").iterdir()} == {"checkpoints"}
    assert local_only == []


def test_a_refused_key_ends_an_evaluation_after_one_request(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    with serving(LinearModel(None), token="another") as server:
        adapter_at(server.base_url)
        options = ["--policy", "art@0", "--baseline", "art@0", "--split", "validation", "--concurrency", "1", *NAMED_KEY]
        played = CliRunner().invoke(evaluate, options)

    assert played.exit_code == 77
    assert asked == ["POST /v1/chat/completions"]
    assert CANARY not in played.output


# Money


def test_the_plan_is_told_before_the_first_call(small: list[str]) -> None:
    result = gradient_train(*small, "--base-url", "http://127.0.0.1:9/v1", "--price-per-million", "1:4", "--max-steps", "2")

    assert result.exit_code == 69
    plan, billed, error = result.stderr.splitlines()
    assert plan.startswith("OpenPipe/Qwen3-14B-Instruct: 2 steps of 3 groups of 3; with the validations 20 episodes.")
    assert plan.endswith("USD for them.")
    assert billed.startswith("Billed by the service: these tokens at its inference price, and its training.")
    assert error == (
        "error: the training service at http://127.0.0.1:9/v1 cannot be reached: check the address and the network"
    )


def test_a_spent_budget_exits_with_4_and_resume_with_a_higher_one_goes_on(small: list[str], tmp_path: Path) -> None:
    with serving(LinearModel(None)) as server:
        arguments = [*small, "--base-url", server.base_url, "--max-steps", "2"]
        spent = gradient_train(*arguments, "--max-tokens", "60")
        resumed = gradient_train(*arguments, "--max-tokens", "100000", "--resume")

    assert (spent.exit_code, resumed.exit_code) == (4, 0), resumed.output
    assert "error: --max-tokens 60 is spent" in spent.stderr
    assert [m["step"] for m in metrics(tmp_path)] == [0, 1, 2]


def test_a_limit_in_usd_counts_by_the_price_that_was_given(small: list[str]) -> None:
    with serving(LinearModel(None)) as server:
        arguments = [*small, "--base-url", server.base_url, "--max-steps", "2", "--max-usd", "0.01"]
        spent = gradient_train(*arguments, "--price-per-million", "100:400")
        unpriced = gradient_train(*arguments)

    assert (spent.exit_code, unpriced.exit_code) == (4, 2), spent.output
    assert "error: --max-usd 0.01 is spent: 0.0" in spent.stderr
    assert "error: --max-usd needs --price-per-million" in unpriced.stderr


@pytest.mark.parametrize(("answer", "asked_anything"), [("n", False), ("y", True)])
def test_a_terminal_is_asked_before_anything_is_sent(
    small: list[str], tmp_path: Path, asked: list[str], answer: str, asked_anything: bool
) -> None:
    with serving(LinearModel(None), faults=Faults(refuse_key=True)) as server:
        code, shown = on_a_terminal(f"{answer}\n", *small, "--base-url", server.base_url, "--max-steps", "1", cwd=tmp_path)

    assert "Billed by the service" in shown
    assert shown.index("Billed") < shown.index("Go on? [y/N]")
    assert (code, bool(asked)) == ((77, True) if asked_anything else (0, False))
    assert (tmp_path / "artifacts").exists() == asked_anything


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from gradient_rl.cli.train import main; main()", *arguments]


def on_a_terminal(typed: str, *arguments: str, cwd: Path) -> tuple[int, str]:
    """Exit code and what a terminal showed."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(command(*arguments), cwd=cwd, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
            os.close(theirs)
            shown = until("Go on?", ours)
            os.write(ours, typed.encode())
            shown += until(None, ours)
            process.communicate(timeout=60)
            return process.returncode, shown
    finally:
        os.close(ours)


def until(text: str | None, fd: int) -> str:
    shown = ""
    while text is None or text not in shown:
        try:
            read = os.read(fd, 4096)
        except OSError:  # how Linux says that nobody holds the other end any more
            read = b""
        if not read:
            break
        shown += read.decode()
    return shown


# Ctrl-C


class Slow(LinearModel):
    """Calls back when the first completion of step 2, or the first job, begins, and takes its time for it."""

    def __init__(self, on: str, act: Callable[[], None]) -> None:
        super().__init__(None)
        self.on, self.act, self.acted = on, act, False

    def complete(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        if named["step"] == 1:
            self._slowly("completion")
        return super().complete(*arguments, **named)

    def train(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        self._slowly("job")
        return super().train(*arguments, **named)

    def _slowly(self, what: str) -> None:
        if self.on == what and not self.acted:
            self.acted = True
            self.act()
            time.sleep(0.5)


@pytest.mark.parametrize("moment", ["completion", "job"])
def test_ctrl_c_ends_with_130_and_a_command_that_goes_on(small: list[str], tmp_path: Path, moment: str) -> None:
    running: list[subprocess.Popen[str]] = []
    with serving(Slow(moment, lambda: running[0].send_signal(signal.SIGINT))) as server:
        arguments = [*small, "--base-url", server.base_url, "--max-steps", "3"]
        with subprocess.Popen(command(*arguments), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            running.append(process)
            _, stderr = process.communicate(timeout=60)
        done = len(metrics(tmp_path))
        told = stderr.rpartition("Go on with: ")[2].strip()
        resumed = gradient_train(*shlex.split(told)[1:])
        sent = jobs_sent_to(server)

    assert process.returncode == 130, stderr
    assert told.startswith("gradient-train --policy art")
    assert done == 2
    assert resumed.exit_code == 0, resumed.output
    assert ([m["step"] for m in metrics(tmp_path)], sent) == ([0, 1, 2, 3], 3)
