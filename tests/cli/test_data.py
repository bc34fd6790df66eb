from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import run


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
