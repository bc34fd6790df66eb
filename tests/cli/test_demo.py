from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gradient_rl.schema.jsonl import read_records
from gradient_rl.schema.trajectory import Trajectory
from tests.cli.running import run


def without_times(text: str) -> object:
    def cleaned(value: object) -> object:
        if isinstance(value, dict):
            return {k: cleaned(v) for k, v in value.items() if k not in ("seconds", "started_at")}
        return [cleaned(v) for v in value] if isinstance(value, list) else value

    return cleaned(json.loads(text))


def test_the_demo_runs_in_an_empty_folder_and_saves_what_it_shows(tmp_path: Path) -> None:
    ran = run("demo", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert "What made the difference" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Next: ")
    saved = json.loads((tmp_path / "artifacts" / "demo.json").read_text("utf-8"))
    assert saved["schema_version"] == 1
    assert set(saved["task"]) >= {"id", "question"}
    assert [policy["name"] for policy in saved["policies"]] == ["weak", "heuristic"]
    assert set(saved["policies"][0]["reward"]) == {"total", "correctness", "citation_quality", "efficiency"}
    assert saved["comparison"]["sentence"]
    assert len(read_records(tmp_path / "artifacts" / "demo.jsonl", Trajectory)) == 2


def test_the_chosen_task_shows_a_difference(tmp_path: Path) -> None:
    shown = json.loads(run("demo", "--json", cwd=tmp_path).stdout)
    weak, strong = (policy["reward"]["total"] for policy in shown["policies"])

    assert shown["task"]["split"] == "train"
    assert strong > weak


def test_the_json_on_stdout_is_the_file(tmp_path: Path) -> None:
    ran = run("demo", "--json", cwd=tmp_path)

    assert json.loads(ran.stdout) == json.loads((tmp_path / "artifacts" / "demo.json").read_text("utf-8"))


def test_the_same_seed_gives_the_same_demo_but_for_times(tmp_path: Path) -> None:
    first, second = (run("demo", "--json", "--seed", "5", cwd=tmp_path).stdout for _ in range(2))

    assert without_times(first) == without_times(second)


def test_an_unknown_task_names_the_nearest_ids(tmp_path: Path, tiny_data: Path) -> None:
    ran = run("demo", "--task", "tiny-11", "--data", tiny_data, cwd=tmp_path)

    assert ran.returncode == 2
    assert ran.stderr == "error: there is no task 'tiny-11'; the nearest ids are tiny-1, tiny-2\n"
    assert not (tmp_path / "artifacts").exists()


def test_damaged_data_is_named_with_file_and_line(tmp_path: Path, tiny_data: Path) -> None:
    with (tiny_data / "emails.jsonl").open("a", encoding="utf-8") as file:
        file.write("{oops\n")
    ran = run("demo", "--data", tiny_data, cwd=tmp_path)

    assert ran.returncode == 65
    assert "emails.jsonl line 3: not valid JSON" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_data_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    ran = run("demo", "--data", tmp_path / "nowhere", cwd=tmp_path)

    assert ran.returncode == 2
    assert "nowhere is not a folder" in ran.stderr


def test_an_empty_data_folder_is_nothing_to_read(tmp_path: Path) -> None:
    ran = run("demo", "--data", tmp_path, cwd=tmp_path)

    assert ran.returncode == 66
    assert "emails.jsonl is not there" in ran.stderr


def test_an_artifacts_folder_that_cannot_be_made_is_an_io_error(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file, not a folder")
    ran = run("demo", cwd=tmp_path)

    assert ran.returncode == 74
    assert "artifacts cannot be prepared" in ran.stderr
    assert "--artifacts" in ran.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    ran = run("demo", "--task", "none", "--debug", cwd=tmp_path)

    assert ran.returncode == 2
    assert "Traceback" in ran.stderr


def test_a_fault_of_the_program_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "import gradient_rl.evaluation.demo as demo\n"
        "demo.play_demo = lambda *_: 1 / 0\n"
        "from gradient_rl.cli.demo import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert ran.stderr == "error: ZeroDivisionError: division by zero; this is a fault of the program, --debug shows where\n"


def test_output_into_a_closed_pipe_says_nothing(tmp_path: Path) -> None:
    code = "from gradient_rl.cli.demo import main; main()"
    command = f"{sys.executable} -c '{code}' | head -1"
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.stderr == ""


def in_a_terminal(tmp_path: Path, columns: int) -> str:
    """What the demo prints in a terminal of this width."""
    master, slave = pty.openpty()
    code = "from gradient_rl.cli.demo import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"},
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    os.close(master)
    return shown.decode("utf-8")


@pytest.mark.parametrize("columns", [40, 60, 95])
def test_a_narrow_terminal_shows_one_policy_above_the_other(tmp_path: Path, columns: int) -> None:
    assert not any("weak" in line and "heuristic  reward" in line for line in in_a_terminal(tmp_path, columns).splitlines())


def test_a_wide_terminal_shows_them_side_by_side_in_colour(tmp_path: Path) -> None:
    shown = in_a_terminal(tmp_path, 140)

    assert any("weak" in line and "heuristic" in line and "reward" in line for line in shown.splitlines())
    assert "\x1b[" in shown


@pytest.mark.parametrize("arguments", ["", "--json"])
def test_a_full_device_for_the_output_is_an_io_error(tmp_path: Path, arguments: str) -> None:
    command = f"{sys.executable} -c 'from gradient_rl.cli.demo import main; main()' {arguments} > /dev/full"
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 74
    assert ran.stderr.startswith("error: the output cannot be written: No space left on device")


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -c 'from gradient_rl.cli.demo import main; main()' | true"
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
