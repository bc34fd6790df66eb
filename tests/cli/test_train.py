"""`gradient-train` as a user runs it: what it prints and writes, its exit codes, Ctrl-C, and where a key goes: nowhere."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gradient_rl.runs import hold_folder, read_journal
from gradient_rl.schema.training import StepMetrics, Training
from tests import tiny
from tests.cli.running import run

ROOT = Path(tiny.__file__).parent.parent
CANARY = "c4a7a7y0c4a7a7y0c4a7a7y0c4a7a7y0c4a7a7y0"
SMALL = ("--max-steps", "2", "--tasks-per-step", "3", "--group-size", "6", "--seed", "1")
DRY = ("--dry-run", "--policy", "heuristic", "--max-steps", "1", "--tasks-per-step", "2", "--group-size", "2")
WAIT_S = 60


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder in which a small run was made. Not to be written to."""
    folder = tmp_path_factory.mktemp("newcomer")
    return folder, run("train", *SMALL, cwd=folder, PYTHONPATH=str(ROOT))


def train(folder: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("train", *arguments, cwd=folder, **environment)


def with_policy(kind: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with a linear policy of `learning`: one that fails, or one that uses tokens."""
    code = f"from tests.training.learning import run_command; run_command('{kind}')"
    made = [sys.executable, "-c", code, *arguments]
    return subprocess.run(made, cwd=folder, capture_output=True, text=True, check=False, timeout=WAIT_S)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What a run prints and writes


def test_a_newcomer_sees_the_reward_the_validation_and_what_to_do_next(
    newcomer: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, ran = newcomer
    lines = ran.stdout.splitlines()

    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert lines[0] == "linear  2 steps, 56 episodes"
    assert lines[1].startswith("training reward ")
    assert [line.split()[0] for line in lines[3:5]] == ["0", "2"]
    assert "10 validation episodes" in [line.strip() for line in lines]
    assert lines[-2] == "Saved artifacts/train.json, the metrics and the trajectories beside it."
    assert (
        lines[-1]
        == "Next: open artifacts/train.html to see how it learned; then run gradient-eval --policy linear@0 --policy linear@latest --samples 8"
    )
    assert {name for name in files(folder / "artifacts") if not name.startswith(".")} == {
        *("train.json", "train.html", "train.run.json", "train.metrics.jsonl", "train.trajectories.jsonl"),
        *(f"checkpoints/linear-{step:06}.json" for step in range(3)),
    }


def test_another_folder_is_named_in_what_comes_next_and_json_is_the_file(tmp_path: Path) -> None:
    ran = train(tmp_path, *SMALL, "--json", "--artifacts", "my runs")
    found = Training.model_validate_json(ran.stdout)

    assert ran.stdout == (tmp_path / "my runs" / "train.json").read_text("utf-8")
    assert ran.stdout.count("\n") == 1
    assert set(json.loads(ran.stdout)) == set(Training.model_fields)
    assert (found.schema_version, found.policy, found.dry_run, found.steps, found.episodes) == (1, "linear", False, 2, 56)
    assert (found.config["seed"], found.latest, found.excluded) == (1, "2", 0)
    told = train(tmp_path, *SMALL, "--resume", "--artifacts", "my runs")
    assert told.stdout.splitlines()[-1].endswith("--samples 8 --artifacts 'my runs'")


def test_flags_override_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("max_steps = 1\ntasks_per_step = 2\ngroup_size = 3\nvalidation_samples = 2\n")
    found = json.loads(train(tmp_path, "--config", "run.toml", "--group-size", "2", "--json").stdout)

    assert [found["config"][name] for name in ("max_steps", "tasks_per_step", "group_size")] == [1, 2, 2]
    assert found["episodes"] == 4 + 2 * 20


def test_an_earlier_run_is_kept_under_runs(newcomer: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    artifacts = shutil.copytree(newcomer[0] / "artifacts", tmp_path / "artifacts")
    before = {name: data for name, data in files(artifacts).items() if not name.startswith(".")}
    assert train(tmp_path, *DRY).returncode == 0
    (home,) = (artifacts / "runs").iterdir()

    assert files(home) == before
    assert not (artifacts / "checkpoints").exists()


# Bad input


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--policy", "strong"], 2, "--policy strong cannot learn; what learns is linear and art"),
        (["--policy", "heuristic"], 2, "--policy heuristic cannot learn; what learns is linear and art; add --dry-run"),
        (["--policy", "strong", "--dry-run"], 2, "--policy strong: there is no such policy; --dry-run plays weak, heuristic"),
        (["--group-size", "1"], 2, "--group-size is 1, and it must fit: input should be greater than or equal to 2"),
        (["--tasks-per-step", "41"], 2, "--tasks-per-step is 41, and there are 40 training tasks; give at most 40"),
        (["--config", "bad.toml"], 2, "--config bad.toml: clip_ratio is 2.0, and it must fit: input should be less than 1"),
        (["--config", "none.toml"], 66, "--config none.toml is not there; check the path"),
        (["--resume"], 66, "artifacts holds no training run to resume; leave --resume out, or give another --artifacts"),
        (["--policy", "art"], 77, "WANDB_API_KEY is not set: get one at https://wandb.ai/authorize, then put the line"),
        (["--policy", "art", "--backend", "cloud"], 2, "--backend cloud: there is no such backend; there are serverless"),
        (["--wandb"], 77, "--wandb needs WANDB_API_KEY: get a key at https://wandb.ai/authorize"),
        (["--max-usd", "5"], 2, "--max-usd needs --price-per-million"),
        (["--data", "nowhere"], 2, "--data nowhere is not a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_its_exit_code_and_touches_nothing(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "bad.toml").write_text("clip_ratio = 2.0\n")
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "train.json").write_text("earlier")
    ran = train(tmp_path, *arguments)

    assert ran.returncode == code, ran.stderr
    assert ran.stderr.startswith("error: ")
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""
    assert files(tmp_path / "artifacts").keys() <= {"train.json", ".lock"}


def test_a_folder_that_another_run_holds_is_left_alone(tmp_path: Path) -> None:
    with hold_folder(tmp_path / "artifacts"):
        ran = train(tmp_path, *SMALL)

    assert ran.returncode == 75
    assert f"artifacts is in use by process {os.getpid()}; wait until it ends" in ran.stderr


def test_a_resumed_run_that_was_another_is_refused_by_the_field(
    newcomer: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    ran = train(newcomer[0], *SMALL, "--resume", "--seed", "2")

    assert ran.returncode == 2
    assert "--resume: config.seed was 1 when the run began and is 2 now" in ran.stderr


# Failures and stopping


def test_episodes_without_a_reward_fail_the_command_after_it_has_learned(tmp_path: Path) -> None:
    ran = with_policy("Failing", tmp_path, *SMALL)
    excluded = json.loads((tmp_path / "artifacts" / "train.json").read_bytes())["excluded"]

    assert ran.returncode == 1
    assert f"error: {excluded} of 56 episodes ended without a reward and taught nothing" in ran.stderr
    assert ran.stdout.startswith("linear  2 steps")


def test_a_spent_budget_ends_it_and_a_higher_limit_goes_on(tmp_path: Path) -> None:
    ran = with_policy("Counting", tmp_path, *SMALL, "--max-tokens", "6000")

    assert ran.returncode == 4
    assert "--max-tokens 6000 is spent: " in ran.stderr
    assert "--resume with a higher limit goes on" in ran.stderr
    assert not (tmp_path / "artifacts" / "train.json").exists()
    assert with_policy("Counting", tmp_path, *SMALL, "--max-tokens", "9000000", "--resume").returncode == 0


def test_a_full_disk_ends_it_with_the_reason(tmp_path: Path) -> None:
    code = "from gradient_rl.cli.train import main; main()"
    made = f"ulimit -f 700; exec {sys.executable} -c '{code}' {shlex.join(SMALL)}"
    ran = subprocess.run(["bash", "-c", made], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WAIT_S)

    assert ran.returncode == 74
    assert "train.trajectories.jsonl cannot be written: File too large; raise the file size limit" in ran.stderr
    assert not (tmp_path / "artifacts" / "train.json").exists()


def test_ctrl_c_saves_what_was_played_and_prints_a_command_that_goes_on(tmp_path: Path) -> None:
    code = "from gradient_rl.cli.train import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code, *SMALL], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "artifacts" / "train.trajectories.jsonl", 12)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT_S)
    told = errors.splitlines()[-1]

    assert child.returncode == 130
    assert "stopping: episodes in flight have 10 s to end; press Ctrl-C again to stop at once" in errors
    assert told.startswith("interrupted; ")
    assert "steps are done and saved. Go on with: gradient-train " in told
    assert not (tmp_path / "artifacts" / "train.json").exists()
    program, *arguments = shlex.split(told.partition("Go on with: ")[2])
    assert (program, arguments) == ("gradient-train", [*SMALL, "--resume"])
    assert train(tmp_path, *arguments).returncode == 0
    assert json.loads((tmp_path / "artifacts" / "train.json").read_bytes())["episodes"] == 56


def test_the_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    code = "from tests.training.learning import run_command; run_command('Stuck')"
    child = subprocess.Popen([sys.executable, "-c", code, *SMALL], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "artifacts" / "train.metrics.jsonl", 1)
    time.sleep(0.5)  # by then all that is in flight is stuck
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT_S)

    assert child.returncode == 130
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors


def test_a_terminal_sees_the_run_while_it_goes_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    code = "from gradient_rl.cli.train import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code, *SMALL], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # what a pseudo-terminal says when nobody writes to it any more
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    out, _ = child.communicate(timeout=WAIT_S)

    assert child.returncode == 0
    assert b" of 18 episodes, " in shown
    assert out.startswith(b"linear  2 steps")


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while (path.read_bytes().count(b"\n") if path.exists() else 0) < lines and time.monotonic() < deadline:
        time.sleep(0.001)


# Dry runs


def test_a_dry_run_says_what_would_be_sent_and_writes_it_down(tmp_path: Path) -> None:
    code = "import sys\nfrom gradient_rl.cli.train import main\ntry:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    made = [sys.executable, "-c", code, *DRY]
    ran = subprocess.run(made, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WAIT_S)
    (step,) = [record for _, record in read_journal(tmp_path / "artifacts" / "train.payload.jsonl")]
    metrics = [StepMetrics.model_validate(r) for _, r in read_journal(tmp_path / "artifacts" / "train.metrics.jsonl")]

    assert ran.returncode == 0, ran.stderr
    assert not {"art", "openai", "wandb", "litellm", "torch"} & set(ran.stderr.split())
    assert isinstance(step["trajectory_groups"], list)
    assert len(step["trajectory_groups"]) == metrics[1].used == metrics[1].learner["payload_groups"]
    assert f"ART would get {metrics[1].used} groups with {2 * metrics[1].used} trajectories: " in " ".join(ran.stdout.split())
    assert "Dry run: nothing was trained, nothing was sent." in ran.stdout
    assert (
        ran.stdout.splitlines()[-1]
        == "Next: open artifacts/train.html to see how it learned; train.payload.jsonl holds what would be sent; gradient-train trains the linear policy, with no key and no GPU."
    )
    assert not (tmp_path / "artifacts" / "checkpoints").exists()


@pytest.mark.parametrize(("policy", "plays"), [("linear", "linear"), ("art", "heuristic")])
def test_a_dry_run_of_a_policy_that_learns_needs_no_key_and_no_checkpoint(tmp_path: Path, policy: str, plays: str) -> None:
    ran = train(tmp_path, "--dry-run", *DRY[3:], "--policy", policy)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{plays}  1 step, ")


# Weights & Biases, and where a key goes


def test_an_offline_run_needs_no_key_and_is_logged_under_the_artifacts(tmp_path: Path) -> None:
    ran = train(tmp_path, *SMALL, "--wandb", WANDB_MODE="offline", HOME=str(tmp_path))
    (log,) = (tmp_path / "artifacts" / "wandb").glob("offline-run-*/*.wandb")

    assert ran.returncode == 0, ran.stderr
    assert b"validation/reward" in log.read_bytes()
    assert {name.partition("/")[0] for name in files(tmp_path)} <= {"artifacts", ".cache"}


@pytest.mark.parametrize(
    ("place", "arguments"), [("file", (*SMALL, "--wandb")), ("environment", ("--max-steps", "1", "--group-size", "2"))]
)
def test_a_key_is_in_no_output_and_no_file(tmp_path: Path, place: str, arguments: tuple[str, ...]) -> None:
    key = {"WANDB_API_KEY": CANARY} if place == "environment" else {}
    if place == "file":
        (tmp_path / ".env").write_text(f"WANDB_API_KEY={CANARY}\n")
    ran = train(tmp_path, *arguments, WANDB_MODE="offline", HOME=str(tmp_path), **key)

    assert ran.returncode == 0, ran.stderr
    assert CANARY not in ran.stdout + ran.stderr
    assert [name for name, data in files(tmp_path).items() if CANARY.encode() in data] == ([".env"] if place == "file" else [])


def test_a_key_of_the_wrong_form_is_refused_without_being_shown(tmp_path: Path) -> None:
    ran = train(tmp_path, *SMALL, "--wandb", WANDB_API_KEY=CANARY[:20])

    assert ran.returncode == 77
    assert ran.stderr.startswith("error: WANDB_API_KEY is refused: ")
    assert CANARY[:20] not in ran.stderr


@pytest.mark.slow
def test_a_service_that_cannot_be_reached_is_told_without_the_key(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"WANDB_API_KEY={CANARY}\n")
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        ran = train(tmp_path, "--policy", "art", "--base-url", url, "--max-steps", "1", "--yes")

    assert ran.returncode == 69
    assert f"the training service at {url} cannot be reached" in ran.stderr
    assert CANARY not in ran.stdout + ran.stderr
    assert [name for name, data in files(tmp_path).items() if CANARY.encode() in data] == [".env"]


SHORT = ("--tasks-per-step", "2", "--group-size", "2")


def test_a_resumed_run_goes_as_far_as_it_was_to_go(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--max-steps", "1")
    resumed = train(tmp_path, *SHORT, "--resume", "--json")

    assert json.loads(resumed.stdout)["steps"] == 1


def test_it_says_where_an_earlier_run_went(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--max-steps", "1")
    dry = train(tmp_path, *SHORT, "--max-steps", "1", "--dry-run", "--policy", "weak")

    [kept] = (tmp_path / "artifacts" / "runs").iterdir()
    assert dry.stderr == f"the earlier training run is kept in artifacts/runs/{kept.name}\n"
    assert (kept / "checkpoints" / "linear-000001.json").exists()


@pytest.mark.parametrize("option", [("--base-url", "http://127.0.0.1:9/v1"), ("--backend", "embedded"), ("--api-key-env", "X")])
def test_an_option_that_the_linear_policy_would_not_read_is_refused(tmp_path: Path, option: tuple[str, str]) -> None:
    ran = train(tmp_path, *option)

    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {option[0]} is read with --policy art alone; ")
    assert not (tmp_path / "artifacts").exists()
