from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import run


def report(cwd: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("inspect", "report", *arguments, cwd=cwd)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    assert run("demo", cwd=tmp_path).returncode == 0
    return tmp_path


def test_the_report_of_a_folder_is_written_into_it_and_named(demo: Path) -> None:
    ran = report(demo)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "Saved artifacts/report.html (0.1 MB); open it in a browser.\n"
    assert (demo / "artifacts" / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_it_goes_where_out_says_and_json_says_where_it_is(demo: Path) -> None:
    ran = report(demo, "--artifacts", "artifacts/demo.jsonl", "--out", "here.html", "--json")

    size = (demo / "here.html").stat().st_size
    assert json.loads(ran.stdout) == {"schema_version": 1, "file": "here.html", "bytes": size, "damaged": 0}


def test_damaged_lines_are_named_on_stderr_and_counted(demo: Path) -> None:
    with (demo / "artifacts/demo.jsonl").open("a") as file:
        file.write("{}\nno\n")
    ran = report(demo, "--json")

    assert json.loads(ran.stdout)["damaged"] == 2
    assert "warning: artifacts/demo.jsonl line 3 is not a trajectory: field 'split'" in ran.stderr
    assert ran.stderr.endswith("warning: 2 damaged lines left out\n")


def test_no_artifacts_yet_says_what_to_run(tmp_path: Path) -> None:
    ran = report(tmp_path)

    assert ran.returncode == 66
    assert "run gradient-demo" in ran.stderr


def test_a_name_that_is_no_page_is_refused(demo: Path) -> None:
    ran = report(demo, "--out", "artifacts/demo.json")

    assert ran.returncode == 2
    assert "ends with .html" in ran.stderr


@pytest.mark.parametrize("command", ["demo", "evaluate", "train"])
def test_each_command_names_its_report_in_its_last_line(command: str, tmp_path: Path) -> None:
    name = {"demo": "demo.html", "evaluate": "eval.html", "train": "train.html"}[command]
    ran = run(
        command,
        *(["--max-steps", "1", "--tasks-per-step", "2", "--group-size", "2"] if command == "train" else []),
        cwd=tmp_path,
    )

    assert ran.returncode == 0, ran.stderr
    assert f"open artifacts/{name}" in ran.stdout.splitlines()[-1]
    assert (tmp_path / "artifacts" / name).stat().st_size < 1_500_000
