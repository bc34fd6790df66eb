from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import run

FILES = ("documents.jsonl", "emails.jsonl", "tasks/heldout.jsonl", "tasks/train.jsonl", "world.json")
SIZE = ("--records", "300", "--tasks", "20", "--heldout", "20")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `first` and `again` are of one seed, and `other` of another."""
    folder = tmp_path_factory.mktemp("worlds")
    for name, seed, hashing in (("first", "0", "1"), ("again", "0", "2"), ("other", "1", "1")):
        ran = run("data", "generate", *SIZE, "--seed", seed, "--out", name, cwd=folder, PYTHONHASHSEED=hashing)
        assert ran.returncode == 0, ran.stderr
        (folder / f"{name}.txt").write_text(ran.stdout)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_packaged_data_has_no_findings(tmp_path: Path) -> None:
    ran = run("data", "validate", cwd=tmp_path)

    assert ran.returncode == 0, ran.stdout
    assert "118 records; tasks: 40 train, 10 validation, 20 heldout; 0 findings" in ran.stdout


def test_findings_are_printed_and_counted(tmp_path: Path, tiny_data: Path) -> None:
    file = tiny_data / "documents.jsonl"
    file.write_text(file.read_text("utf-8").replace("90 days", "60 days").replace("K-200", "K-100"), "utf-8")
    ran = run("data", "validate", tiny_data, cwd=tmp_path)

    assert ran.returncode == 65
    assert "tasks/train.jsonl line 1: tiny-1: fact 'tiny-1-f1': 'doc-2' also states '60 days'" in ran.stdout
    assert ran.stderr.startswith(f"error: {tiny_data} has ")


def test_findings_as_json(tmp_path: Path, tiny_data: Path) -> None:
    ran = run("data", "validate", tiny_data, "--json", cwd=tmp_path)
    shown = json.loads(ran.stdout)

    assert shown["schema_version"] == 1
    assert shown["records"] == 6
    assert {finding["id"] for finding in shown["findings"]} == {"heldout"}


def test_tasks_are_listed(tmp_path: Path, tiny_data: Path) -> None:
    ran = run("data", "tasks", "--data", tiny_data, cwd=tmp_path)

    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["tiny-1", "tiny-2"]


def test_tasks_as_json(tmp_path: Path, tiny_data: Path) -> None:
    shown = json.loads(run("data", "tasks", "--data", tiny_data, "--json", cwd=tmp_path).stdout)

    assert [task["split"] for task in shown["tasks"]] == ["train", "heldout"]


def test_a_folder_with_only_training_tasks_lists_those(tmp_path: Path, tiny_data: Path) -> None:
    (tiny_data / "tasks" / "heldout.jsonl").unlink()
    ran = run("data", "tasks", "--data", tiny_data, cwd=tmp_path)

    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["tiny-1"]


def test_a_folder_without_tasks_is_nothing_to_read(tmp_path: Path, tiny_data: Path) -> None:
    for name in ("train", "heldout"):
        (tiny_data / "tasks" / f"{name}.jsonl").unlink()
    ran = run("data", "tasks", "--data", tiny_data, cwd=tmp_path)

    assert ran.returncode == 66
    assert "holds neither tasks/train.jsonl nor tasks/heldout.jsonl" in ran.stderr


def test_a_seed_gives_the_same_bytes_and_another_seed_others(worlds: Path) -> None:
    first, again, other = (content(worlds / name) for name in ("first", "again", "other"))

    assert tuple(sorted(first)) == FILES
    assert first == again
    assert all(first[name] != other[name] for name in FILES)


def test_a_generated_folder_has_no_findings(worlds: Path) -> None:
    ran = run("data", "validate", worlds / "first", cwd=worlds)

    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.startswith("300 records; tasks: 18 train, 2 validation, 20 heldout; 0 findings")


def test_what_was_made_is_told_and_what_to_run_next(worlds: Path) -> None:
    lines = (worlds / "first.txt").read_text().splitlines()

    assert "40 tasks: 18 train, 2 validation, 20 heldout" in lines
    assert "tasks judged among all records" in lines
    assert any("drafts dropped" in line for line in lines)
    assert lines[-1] == "Next: gradient-data card first, then gradient-train --policy linear --data first"


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    ran = run("data", "generate", *SIZE, "--out", "out", "--overwrite", cwd=tmp_path)

    assert ran.returncode == 2
    assert "is not empty and holds no earlier generation" in ran.stderr
    assert content(tmp_path) == {"out/thesis.txt": b"years of work"}


def test_an_earlier_generation_is_replaced_with_overwrite_only(worlds: Path) -> None:
    before = content(worlds / "again")
    refused = run("data", "generate", *SIZE, "--out", "again", cwd=worlds)
    assert refused.returncode == 2
    assert "add --overwrite to replace it" in refused.stderr

    ran = run("data", "generate", *SIZE, "--out", "again", "--overwrite", "--json", cwd=worlds)
    shown = json.loads(ran.stdout)
    assert (shown["schema_version"], shown["folder"], shown["recipe"]["trade"]) == (1, "again", "logistics")
    assert content(worlds / "again") == before


def test_an_interrupted_generation_leaves_nothing_behind(tmp_path: Path) -> None:
    code = "from gradient_rl.cli.data import main; main()"
    command = [sys.executable, "-c", code, "generate", "--records", "100000", "--out", str(tmp_path / "far" / "world")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not list(tmp_path.rglob("emails.jsonl")) and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (130, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--trade", "piracy"), 66, "error: 'piracy' is neither a trade (catering, construction, "),
        (("--trade", "office.toml"), 66, "error: 'office.toml' is neither a trade (catering, "),
        (("--records", "200", "--tasks", "900"), 2, "error: 200 records hold "),
        (("--records", "20"), 2, "Usage: "),
        (("--hops", "2"), 2, "Usage: "),
        (("--families", "lookup,looking"), 2, "error: --families: there is no family 'looking'; the families are lookup, "),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    ran = run("data", "generate", *arguments, "--out", "out", cwd=tmp_path)

    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_the_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    code = "from gradient_rl.cli.data import main; main()"
    command = [sys.executable, "-c", code, "generate", "--records", "200", "--tasks", "0", "--heldout", "0", "--out", "out"]
    ran = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal, text=True, check=True, timeout=60)
    os.close(terminal)
    shown = os.read(screen, 65536).decode()
    os.close(screen)

    assert "records" in shown
    assert "%" not in ran.stdout


def test_the_defaults_of_the_flags_are_those_of_the_knobs() -> None:
    import inspect

    from gradient_rl.cli.data import generate
    from gradient_rl.worlds.difficulty import Difficulty

    flags = inspect.signature(generate).parameters
    assert {knob: flags[knob].default for knob in Difficulty.model_fields} == dict(Difficulty())


def test_the_card_of_the_packaged_data_is_printed(tmp_path: Path) -> None:
    ran = run("data", "card", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert "118 records: 12 contract, 18 customer_record, 62 email, 13 meeting_notes, 13 policy" in ran.stdout
    assert "20 held-out tasks of this spread detect a difference of " in ran.stdout


def test_the_card_of_a_generated_folder_tells_its_recipe(worlds: Path) -> None:
    shown = run("data", "card", "first", cwd=worlds).stdout

    assert "trade logistics, 300 records, 20 tasks, 20 held-out, seed 0" in shown
    assert "knobs: distractors 1, hops 0.25, near_duplicates 0.6, superseded 0.85, paraphrase 0.4, noise 0.5" in shown


def test_the_card_as_json(tmp_path: Path, tiny_data: Path) -> None:
    shown = json.loads(run("data", "card", tiny_data, "--json", cwd=tmp_path).stdout)

    assert (shown["schema_version"], shown["records"]["total"], shown["world"]) == (1, 6, None)
    assert shown["earned"]["reference"]["overall"] == 1.0


def test_text_from_a_folder_cannot_steer_the_terminal(tmp_path: Path, tiny_data: Path) -> None:
    file = tiny_data / "emails.jsonl"
    file.write_text(file.read_text("utf-8").replace("Anyone for", "\\u001b[31many [bold]one for"), "utf-8")
    file.write_text("\n".join([line for line in file.read_text("utf-8").splitlines() if "any" in line]) + "\n", "utf-8")
    (tiny_data / "tasks" / "train.jsonl").unlink()
    (tiny_data / "documents.jsonl").write_text("", "utf-8")
    (tiny_data / "tasks" / "heldout.jsonl").unlink()
    ran = run("data", "card", tiny_data, cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout
    assert "[bold]" in ran.stdout


@pytest.mark.slow
def test_the_knobs_are_measured(tmp_path: Path) -> None:
    arguments = ("--records", "200", "--tasks", "10", "--seeds", "1", "--json")
    shown = json.loads(run("data", "knobs", *arguments, cwd=tmp_path).stdout)

    assert shown["schema_version"] == 1
    assert [moved["knob"] for moved in shown["knobs"]] == [
        "distractors", "hops", "near_duplicates", "superseded", "paraphrase", "noise",
    ]  # fmt: skip
