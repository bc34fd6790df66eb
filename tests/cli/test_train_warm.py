"""`gradient-train --warm-start` as a user runs it, with a model that can imitate and is quick."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gradient_rl.cli.evaluate import app as evaluate
from gradient_rl.cli.train import app as train
from gradient_rl.embedded import models
from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.server import serving
from gradient_rl.runs import read_journal
from gradient_rl.training import imitation
from tests.training.art_runs import Pupil, tiny_training_data

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls")


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Arguments of a small run in the current folder, which holds nothing else."""
    sizes = ["--tasks-per-step", "3", "--group-size", "3", "--seed", "2", "--max-steps", "1"]
    return ["--policy", "art", *sizes, "--data", str(tiny_training_data(tmp_path / "data"))]


@pytest.fixture
def pupils(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the base model is called, a pupil is served."""
    monkeypatch.setattr(imitation, "EVENTS_S", 0.01)
    monkeypatch.setattr(models, "check_base_model", lambda _: None)
    monkeypatch.setattr(models, "served_model", lambda _, folder: Pupil(folder))


def gradient_train(*arguments: str) -> Result:
    return CliRunner().invoke(train, arguments)


def places(folder: Path) -> list[str]:
    return [record["checkpoint"] for _, record in read_journal(folder / "artifacts/train.metrics.jsonl")]


@pytest.mark.usefixtures("pupils")
def test_a_warm_started_run_is_evaluated_at_its_three_states(small: list[str], tmp_path: Path) -> None:
    trained = gradient_train(*small, "--backend", "embedded", "--base-model", "smollm2", "--warm-start", "3")
    evaluated = ["--policy", "art@latest", "--baseline", "art@0", "--split", "validation", "--data", small[-1], "--json"]
    played = CliRunner().invoke(evaluate, evaluated)

    assert trained.exit_code == 0, trained.output
    assert "Before the first step the model imitates up to 3 verified examples.\n" in trained.stderr
    assert [line.partition(":")[0] for line in trained.stderr.splitlines()[-3:]] == ["step 0 of 1", "warm start", "step 1 of 1"]
    assert "gradient-eval --policy art@0 --policy art@warm --policy art@latest" in trained.stdout
    assert places(tmp_path) == ["0", "warm", "1"]
    assert (tmp_path / "artifacts/checkpoints/art-warm.json").exists()
    assert (tmp_path / "artifacts/checkpoints/warm.jsonl").read_bytes().count(b"\n") == 3
    assert played.exit_code == 0, played.output
    compared = {(c["baseline"], c["candidate"]) for c in json.loads(played.stdout)["comparisons"]}
    assert compared == {("art@0", "art@warm"), ("art@0", "art@1"), ("art@warm", "art@1")}


@pytest.mark.usefixtures("pupils")
def test_a_resumed_run_imitates_the_examples_that_it_saved(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*small, "--backend", "embedded", "--warm-start", "3"]
    monkeypatch.setattr(models, "served_model", lambda _, folder: LinearModel(folder))
    refused = gradient_train(*arguments)
    pupil = Pupil(tmp_path / "artifacts/checkpoints/embedded")
    saved = tmp_path / "artifacts/checkpoints/warm.jsonl"
    saved.write_bytes(b"".join(saved.read_bytes().splitlines(keepends=True)[:2]))
    monkeypatch.setattr(models, "served_model", lambda *_: pupil)
    resumed = gradient_train(*arguments, "--resume")

    assert (refused.exit_code, resumed.exit_code) == (69, 0), resumed.output
    assert "Warm start failed: the linear policy has no warm start" in refused.stderr
    assert ([len(lesson) for lesson in pupil.taught], places(tmp_path)) == ([2], ["0", "warm", "1"])


def test_an_upload_is_told_before_anything_is_sent(small: list[str]) -> None:
    with serving(LinearModel(None), token="another") as server:
        options = ["--base-url", server.base_url, "--warm-start", "3"]
        result = gradient_train(*small, *options)

    told = "imitates up to 3 verified examples; they are uploaded to Weights & Biases as an artifact.\n"
    assert (result.exit_code, told in result.stderr) == (77, True), result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--policy", "linear"], "error: --warm-start: linear has no warm start; leave it out, or train --policy art"),
        (["--policy", "art", "--dry-run"], "error: --warm-start does not go with --dry-run, which trains nothing"),
    ],
)
def test_what_cannot_imitate_is_refused_before_anything_is_written(options: list[str], told: str, tmp_path: Path) -> None:
    result = gradient_train(*options, "--warm-start", "3")

    assert result.exit_code == 2
    assert result.stderr.startswith(told)
    assert not list(tmp_path.iterdir())
