from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from gradient_rl.cli.inspect import app
from tests.cli.running import run

if TYPE_CHECKING:
    from click.testing import Result

MINE = """
from gradient_rl.rewards.submission import PartScore


def economy(submission):
    return PartScore(1 - submission.calls / submission.max_calls)
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def audit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_a_sound_reward_exits_with_0_and_says_what_to_run_next(tiny_data: Path) -> None:
    ran = audit("--data", tiny_data)

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "ok    There is room: the reference earns 1 on every task.\n" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Next: gradient-train learns from this reward")


def test_a_function_in_the_working_folder_is_audited_and_its_hole_named(tmp_path: Path, tiny_data: Path) -> None:
    """As the console script runs it: Python itself puts no working folder on the path then."""
    (tmp_path / "my_rewards.py").write_text(MINE, "utf-8")
    options = ("--profile", "correctness=0.5,citation_quality=0.3,economy=0.2", "--reward", "my_rewards:economy")
    ran = run("inspect", "audit", *options, "--data", tiny_data, cwd=tmp_path, PYTHONSAFEPATH="1")

    assert ran.returncode == 3
    assert "Part economy (weight 0.20) is ungated: it pays for having ended, whatever was answered; empty" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Next: mend what is named above")
    assert ran.stderr == "error: the reward has 4 findings (floor, holes, reference)\n"


def test_as_json_there_is_one_object_also_when_there_are_findings(tiny_data: Path) -> None:
    ran = audit("--data", tiny_data, "--profile", "require_opened=false", "--json")
    made = json.loads(ran.stdout)

    assert ran.exit_code == 3
    assert (made["schema_version"], made["tasks"], made["require_opened"]) == (1, 2, False)
    assert {(finding["hole"], finding["part"]) for finding in made["findings"]} == {
        ("guess", "correctness"),
        ("guess", "efficiency"),
    }
    assert [check["name"] for check in made["checks"] if not check["passed"]] == ["holes"]
    assert {standing["name"] for standing in made["standings"]} >= {"reference", "weak", "empty", "random", "cite-all"}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_part_that_speaks_in_control_codes_is_heard_without_them(tmp_path: Path, tiny_data: Path, as_json: bool) -> None:
    said = "\x9b31m \x9d52;c;ZXZpbA==\x9c \u202e"
    (tmp_path / "hostile_rewards.py").write_text(f"def part(submission):\n    raise ValueError({said!r})\n", "utf-8")
    ran = audit("--data", tiny_data, "--reward", "hostile_rewards:part", *["--json"] * as_json)

    assert ran.exit_code == 3
    assert not {"\x9b", "\x9c", "\x9d", "\u202e"} & set(ran.output)
    assert not as_json or said in json.loads(ran.stdout)["findings"][0]["detail"]


def test_a_profile_is_read_from_a_file_as_gradient_eval_reads_it(tmp_path: Path, tiny_data: Path) -> None:
    (tmp_path / "profile.json").write_text('{"require_opened": false}', "utf-8")

    assert audit("--data", tiny_data, "--profile", "profile.json").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "brevity=1"), "there is no reward part 'brevity'; the parts are correctness, citation_quality, efficiency"),
        (("--reward", "tests.evaluation.own_rewards:brevity", "--profile", "correctness=1"), "the profile gives 'brevity' no weight"),
        (("--reward", "brevity"), "is not of the form [NAME=]MODULE:FUNCTION"),
    ],
)  # fmt: skip
def test_a_reward_that_cannot_be_read_is_a_usage_error(tiny_data: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = audit("--data", tiny_data, *arguments)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_a_folder_without_records_or_tasks_is_nothing_to_read(tmp_path: Path, tiny_data: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("train", "heldout"):
        (tiny_data / f"tasks/{name}.jsonl").unlink()

    assert [audit("--data", folder).exit_code for folder in (tmp_path / "empty", tiny_data)] == [66, 66]


def test_a_damaged_task_is_bad_data(tiny_data: Path) -> None:
    (tiny_data / "tasks/train.jsonl").write_text("{", "utf-8")

    assert audit("--data", tiny_data).exit_code == 65
