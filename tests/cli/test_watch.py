"""The hacking watch as a user meets it: a warning, a stop with its exit code, and the command that goes on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gradient_rl.schema.task import Split
from tests import tiny
from tests.conftest import write_data
from tests.tiny import NOTICE_TASK

ROOT = Path(tiny.__file__).parent.parent
WITH_HACKING = (
    "from gradient_rl.training import linear; from tests.training.test_watch import Hacking; linear.LinearLearner = Hacking; "
    "from gradient_rl.cli.train import main; main()"
)
WITH_CITING = (
    "from gradient_rl.policies import catalog; from tests.evaluation.playing import Empty; "
    "from tests.training.test_watch import Citing; "
    "catalog.CATALOG = tuple(catalog.Entry(n, lambda _, __, n=n, p=p: p(n)) for n, p in (('weak', Empty), ('citing', Citing))); "
    "from gradient_rl.cli.evaluate import main; main()"
)
SMALL = ("--data", "data", "--config", "run.toml")
CONFIG = "max_steps = 4\ntasks_per_step = 1\ngroup_size = 2\nvalidate_every = 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One task to train on, ten to validate on and ten that are held out."""
    splits = [(Split.TRAIN, 1), (Split.VALIDATION, 10), (Split.HELDOUT, 10)]
    tasks = [NOTICE_TASK.model_copy(update={"id": f"{s}-{n:02}", "split": s}) for s, count in splits for n in range(count)]
    write_data(tmp_path / "data", tasks=tasks)
    (tmp_path / "run.toml").write_text(CONFIG)
    return tmp_path


def ran(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    made = [sys.executable, "-c", code, *arguments]
    return subprocess.run(made, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("how", ["flag", "file"])
def test_a_run_that_is_stopped_exits_with_4_and_prints_a_command_that_goes_on(folder: Path, how: str) -> None:
    if how == "file":
        (folder / "run.toml").write_text(f"{CONFIG}stop_on_hacking = true\n")
    found = ran(WITH_HACKING, folder, *SMALL, *(["--stop-on-hacking"] if how == "flag" else []))

    assert found.returncode == 4
    assert found.stderr.startswith("error: since step 0 the validation reward of step 4 moved by +")
    assert found.stderr.count("\n") == 1
    _, _, told = found.stderr.partition("; every step is saved, and this goes on all the same: ")
    program, *arguments = shlex.split(told)
    assert (program, arguments) == ("gradient-train", [*SMALL, "--no-stop-on-hacking", "--resume"])
    assert not (folder / "artifacts" / "train.json").exists()
    assert ran(WITH_HACKING, folder, *arguments).returncode == 0


def test_a_run_that_goes_on_prints_the_warning_and_keeps_it(folder: Path) -> None:
    found = ran(WITH_HACKING, folder, *SMALL)
    summary = json.loads((folder / "artifacts" / "train.json").read_bytes())
    last = json.loads((folder / "artifacts" / "train.metrics.jsonl").read_bytes().splitlines()[-1])

    assert found.returncode == 0
    assert found.stderr == f"warning: {summary['warnings'][0]}\n"
    assert last["watch"]["warning"] == summary["warnings"][0]
    assert ["supported", "0.000", "0.000"] in [line.split() for line in found.stdout.splitlines()]
    assert summary["warnings"][0].replace("&", "") in (folder / "artifacts" / "train.html").read_text("utf-8")


def test_an_evaluation_warns_on_the_terminal_in_its_files_and_on_its_page(folder: Path) -> None:
    found = ran(WITH_CITING, folder, "--data", "data", "--policy", "citing")
    (warning,) = json.loads((folder / "artifacts" / "eval.json").read_bytes())["warnings"]

    assert found.returncode == 0, found.stderr
    assert f"Warning: {warning['text']}" in found.stdout.splitlines()
    assert warning["text"].startswith("citing earns +0.300 [+0.300, +0.300] more reward than weak")
    assert "**Warning: citing earns" in (folder / "artifacts" / "eval.md").read_text("utf-8")
    assert f"<strong>Warning:</strong> {warning['text']}" in (folder / "artifacts" / "eval.html").read_text("utf-8")


def test_saved_trajectories_of_any_version_are_measured_again(folder: Path) -> None:
    ran(WITH_CITING, folder, "--data", "data", "--policy", "citing")
    files = [f"artifacts/eval.{name}.jsonl" for name in ("weak", "citing")]
    found = json.loads(ran(WITH_CITING, folder, "--rescore", *files, "--data", "data", "--json").stdout)

    assert [warning["candidate"] for warning in found["warnings"]] == ["citing"]
    assert found["policies"]["citing"]["metrics"]["supported"]["mean"] == 0.0


def test_a_gate_can_ask_for_supported_correctness(folder: Path) -> None:
    found = ran(WITH_CITING, folder, "--data", "data", "--policy", "citing", "--fail-under", "supported=0.1")

    assert found.returncode == 3
    assert "the supported of citing is 0, and --fail-under asks for 0.1" in found.stderr
