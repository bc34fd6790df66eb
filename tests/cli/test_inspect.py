from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from gradient_rl.cli.inspect import app
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.training import Played, StepMetrics
from gradient_rl.schema.trajectory import StopReason
from tests.cli.running import run
from tests.saving import reward, save, scored
from tests.trajectories import trajectory

if TYPE_CHECKING:
    from click.testing import Result

RIGHT = scored(policy="strong")
WRONG = scored(policy="weak", answer="30 days", opened=("doc-1",), sources=("doc-1",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to run in, with the artifacts of two policies on one task."""
    save(tmp_path / "artifacts/eval.weak.jsonl", WRONG)
    save(tmp_path / "artifacts/eval.strong.jsonl", RIGHT)
    return tmp_path


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def inspect(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_list_has_a_line_a_trajectory_and_says_what_is_next(folder: Path, tiny_data: Path) -> None:
    ran = inspect("list", "--data", tiny_data)
    lines = ran.stdout.splitlines()

    assert ran.exit_code == 0
    assert [line.split()[0] for line in lines[:3]] == ["id", "eval.strong/tiny-1/0", "eval.weak/tiny-1/0"]
    assert "2 trajectories, mean reward 0.500." in ran.stdout
    assert lines[-1] == f"Next: gradient-inspect show ID --data {tiny_data}"
    assert ran.stderr.endswith("holds: 2 of 2 trajectories\n")
    assert "warning: played on another version of the workspace than" in ran.stderr


def test_filters_compose_on_the_command_line(folder: Path) -> None:
    ran = inspect("list", "--failed", "--below", "0.5", "--stop", "submitted", "--family", "superseded", "--json")
    shown = json.loads(ran.stdout)

    assert (shown["schema_version"], shown["total"]) == (1, 2)
    assert [row["id"] for row in shown["trajectories"]] == ["eval.weak/tiny-1/0"]


def test_a_filter_that_nothing_fits_says_so(folder: Path) -> None:
    ran = inspect("list", "--malformed")

    assert ran.exit_code == 0
    assert ran.stdout.endswith("0 of 2 trajectories. No trajectory fits; leave a filter out.\n")


def test_an_unknown_value_is_a_usage_error(folder: Path) -> None:
    ran = inspect("list", "--family", "maths")

    assert ran.exit_code == 2
    assert ran.stderr == "error: --family maths is not known here; there are superseded\n"


@pytest.mark.parametrize("command", [["list"], ["show", "x"], ["diff", "a", "b"], ["export", "--format", "hf"]])
def test_without_artifacts_it_is_said_what_to_run(tmp_path: Path, command: list[str]) -> None:
    ran = inspect(*command)

    assert ran.exit_code == 66
    assert ran.stderr == "error: artifacts is not there; run gradient-demo first, or give another folder with --artifacts\n"


def test_validate_advises_no_option_that_it_does_not_have(tmp_path: Path) -> None:
    ran = inspect("validate")

    assert ran.exit_code == 66
    assert ran.stderr == "error: artifacts is not there; run gradient-demo first, or name another file or folder\n"


def test_damaged_lines_are_counted_and_named_and_the_rest_is_shown(folder: Path) -> None:
    file = save(folder / "artifacts/demo.jsonl", RIGHT, damaged=["{\x1b[31m", *["no"] * 24])
    ran = inspect("list")

    assert ran.exit_code == 0
    assert "3 trajectories" in ran.stdout
    assert f"warning: {file.relative_to(folder)} line 2 is damaged" in ran.stderr
    assert "warning: 25 damaged lines left out, 5 of them not named here; gradient-inspect validate names all" in ran.stderr
    assert "\x1b" not in ran.stderr


def test_a_file_of_another_tool_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    ran = inspect("list", "--artifacts", save(tmp_path / "chat.jsonl", damaged=['{"messages": []}']))

    assert ran.exit_code == 65
    assert "expected is what gradient-demo, gradient-eval and gradient-train write" in ran.stderr


def test_a_trajectory_is_shown_whole(folder: Path, tiny_data: Path) -> None:
    ran = inspect("show", "weak", "--data", tiny_data)

    assert ran.exit_code == 0
    assert "note: it was played on another version of the workspace" in ran.stdout
    assert "mail-1  never  never  no" in ran.stdout
    assert "correctness lost 0.50 of 0.50" in ran.stdout


def test_a_trajectory_whose_task_is_unknown_is_still_shown(folder: Path) -> None:
    ran = inspect("show", "weak")

    assert ran.exit_code == 0
    assert "note: task 'tiny-1' is not in" in ran.stdout.replace("\n", " ")
    assert "cites doc-1" in ran.stdout


def test_a_trajectory_as_json(folder: Path, tiny_data: Path) -> None:
    shown = json.loads(inspect("show", "strong", "--data", tiny_data, "--json").stdout)

    assert shown["schema_version"] == 1
    assert shown["required"] == [{"any_of": ["mail-1"], "found_at": 1, "read_at": 2, "cited": True}]
    assert shown["trajectory"]["policy"] == "strong"


def test_two_policies_are_compared_task_by_task(folder: Path) -> None:
    ran = inspect("diff", "weak", "strong")

    assert "tiny-1  superseded  0.000   1.000  +1.000" in ran.stdout
    assert ran.stdout.endswith("Next: gradient-inspect diff weak strong --task tiny-1\n")


def test_the_next_command_reads_the_same_folders(folder: Path, tiny_data: Path) -> None:
    elsewhere = folder / "my runs"
    (folder / "artifacts").rename(elsewhere)
    same = ["--artifacts", elsewhere, "--data", tiny_data]

    for command in (["list"], ["show", "strong"], ["diff", "weak", "strong"], ["diff", "weak", "strong", "--task", "tiny-1"]):
        said = inspect(*command, *same).stdout
        assert f"--artifacts '{elsewhere}' --data {tiny_data}" in said[said.index("Next: ") :]


def test_on_one_task_they_are_aligned(folder: Path, tiny_data: Path) -> None:
    ran = inspect("diff", "weak", "strong", "--task", "tiny-1", "--data", tiny_data)

    assert ran.exit_code == 0
    assert "<- first divergence" in ran.stdout
    assert "strong earns 1.00 more: weak never found mail-1, which strong needed for the answer." in ran.stdout


def sample_twice(folder: Path) -> None:
    save(folder / "artifacts/eval.weak.jsonl", WRONG, RIGHT.model_copy(update={"policy": "weak", "sample": 1}))
    save(folder / "artifacts/eval.strong.jsonl", RIGHT, RIGHT.model_copy(update={"sample": 1}))
    save(folder / "artifacts/demo.jsonl", *(RIGHT.model_copy(update={"policy": p, "sample": 7}) for p in ("weak", "strong")))


def test_of_several_samples_it_is_said_which_is_aligned(folder: Path) -> None:
    sample_twice(folder)
    ran = inspect("diff", "weak", "strong", "--task", "tiny-1")

    assert "This is sample 0, one of 2, whose rewards differ most; the means are 0.500 and 1.000 (+0.500)." in ran.stdout
    assert ran.stderr.startswith("warning: only the evaluation is compared, without demo.jsonl")


def test_the_sample_and_the_means_as_json(folder: Path) -> None:
    sample_twice(folder)
    shown = json.loads(inspect("diff", "weak", "strong", "--task", "tiny-1", "--json").stdout)

    assert (shown["a"]["sample"], shown["mean"]["samples"], shown["mean"]["difference"]) == (0, 2, 0.5)
    assert shown["mean"]["a"] == {"id": "eval.weak/tiny-1/0", "sample": 0, "reward": 0.0, "mean": 0.5}


def test_two_ids_are_aligned_as_json(folder: Path) -> None:
    shown = json.loads(inspect("diff", "eval.weak/", "eval.strong/", "--json").stdout)

    assert (shown["schema_version"], shown["first_divergence"]) == (1, 0)
    assert [step["kind"] for step in shown["steps"]] == ["other answer", "differs", "differs"]


def test_the_differences_as_json(folder: Path) -> None:
    shown = json.loads(inspect("diff", "weak", "strong", "--json").stdout)

    assert [task["difference"] for task in shown["tasks"]] == [1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["weak", "strong", "--task", "x"], "--task x was not played by both; they have in common tiny-1"),
        (["eval.weak/", "eval.strong/", "--task", "x"], "--task x: both trajectories are of task 'tiny-1'; leave --task out"),
    ],
)
def test_a_task_that_does_not_fit_the_comparison_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    ran = inspect("diff", *arguments)

    assert (ran.exit_code, ran.stderr) == (2, f"error: {message}\n")


def train(folder: Path) -> None:
    figures = {"excluded": 0, "parts": {}, "malformed": 0, "calls": 1, "opened": 1, "cited": 1, "tokens": 0, "cost_usd": 0}
    steps = [
        StepMetrics(run_id="r", step=s, train=Played.model_validate({"episodes": 1, "reward": s / 4} | figures)) for s in (1, 2)
    ]
    (folder / "artifacts").mkdir(exist_ok=True)
    (folder / "artifacts/train.metrics.jsonl").write_text("".join(map(to_line, steps)))


def test_a_training_is_plotted(tmp_path: Path) -> None:
    train(tmp_path)
    ran = inspect("curves")

    assert ran.exit_code == 0
    assert "training reward  ▅█  0.250 to 0.500" in ran.stdout


def test_a_terminal_without_blocks_is_given_ascii(tmp_path: Path) -> None:
    train(tmp_path)
    ran = run("inspect", "curves", cwd=tmp_path, PYTHONIOENCODING="ascii")

    assert "training reward  =#  0.250 to 0.500" in ran.stdout
    assert ran.stdout.isascii()


def test_curves_as_json(tmp_path: Path) -> None:
    train(tmp_path)
    shown = json.loads(inspect("curves", "--json").stdout)

    assert shown["series"][0] == {"name": "training reward", "steps": [1, 2], "values": [0.25, 0.5]}


def test_without_a_training_there_are_no_curves(folder: Path) -> None:
    ran = inspect("curves")

    assert ran.exit_code == 66
    assert "artifacts holds no train.metrics.jsonl; run gradient-train first" in ran.stderr


def chats(folder: Path) -> None:
    messages = ({"role": "user", "content": "How much?"}, {"role": "assistant", "content": "60 days"})
    failed = trajectory(sample=2, answer=None, stop_reason=StopReason.TRANSPORT_ERROR)
    episodes = [trajectory(sample=sample, messages=messages, reward=reward(sample)) for sample in (0, 1)]
    save(folder / "artifacts/demo.jsonl", *episodes, failed)


def test_filtered_chats_go_to_stdout_a_line_each(tmp_path: Path) -> None:
    chats(tmp_path)
    ran = inspect("export", "--format", "openai", "--failed")

    assert [list(json.loads(line)) for line in ran.stdout.splitlines()] == [["messages", "tools"]]
    assert ran.stderr == "warning: left out, because they have no reward or no reply: 1 of 2 trajectories\n"


def test_chats_go_to_a_file_at_one_stroke(tmp_path: Path) -> None:
    chats(tmp_path)
    ran = inspect("export", "--format", "hf", "--out", "chats.jsonl")

    assert ran.stdout == "Wrote 2 examples to chats.jsonl.\n"
    assert [json.loads(line)["reward"] for line in (tmp_path / "chats.jsonl").read_text("utf-8").splitlines()] == [0.5, 1.0]
    assert [path.name for path in tmp_path.glob(".*tmp")] == []


@pytest.mark.parametrize("other", ["artifacts/demo.jsonl", "link.jsonl"])
def test_an_export_over_what_it_is_made_from_is_refused(tmp_path: Path, other: str) -> None:
    chats(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "artifacts/demo.jsonl")
    before = (tmp_path / "artifacts/demo.jsonl").read_bytes()
    ran = inspect("export", "--format", "hf", "--out", other)

    assert (ran.exit_code, "which the trajectories are read from; give another name" in ran.stderr) == (2, True)
    assert (tmp_path / "artifacts/demo.jsonl").read_bytes() == before


@pytest.mark.parametrize("form", ["openai", "hf"])
def test_an_export_into_the_folder_is_no_damage_of_it(tmp_path: Path, form: str) -> None:
    chats(tmp_path)
    inspect("export", "--format", form, "--out", "artifacts/chats.jsonl")
    ran = inspect("list")

    assert "3 trajectories" in ran.stdout
    assert "damaged" not in ran.stderr


@pytest.mark.parametrize("more", [["--out", "none.jsonl"], [], ["--json"]])
@pytest.mark.parametrize(
    ("filters", "why"),
    [(["--malformed"], "no trajectory fits"), (["--stop", "transport_error"], "none of those chosen has a reward and a reply")],
)
def test_an_export_of_nothing_is_refused_and_writes_nothing(
    tmp_path: Path, more: list[str], filters: list[str], why: str
) -> None:
    chats(tmp_path)
    ran = inspect("export", "--format", "hf", *more, *filters)

    assert (ran.exit_code, ran.stdout) == (66, "")
    assert f"error: artifacts makes no example: {why}" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifacts"]


def test_what_is_damaged_where_a_list_does_not_look_is_named_when_it_is_read(tmp_path: Path) -> None:
    chats(tmp_path)
    file = tmp_path / "artifacts/demo.jsonl"
    file.write_text(file.read_text("utf-8").replace('"max_calls":15', '"max_calls":0', 1), "utf-8")
    exported, shown = inspect("export", "--format", "hf", "--below", "2"), inspect("show", "tiny-1/0")
    problem = "artifacts/demo.jsonl line 1 is not a trajectory: field 'max_calls': Input should be greater than or equal to 1"

    assert (exported.exit_code, len(exported.stdout.splitlines())) == (0, 1)
    assert exported.stderr.startswith(f"warning: {problem}")
    assert (shown.exit_code, shown.stderr.startswith(f"error: {problem}")) == (65, True)


def test_an_export_as_json(tmp_path: Path) -> None:
    chats(tmp_path)
    inline = json.loads(inspect("export", "--format", "openai", "--json").stdout)
    filed = json.loads(inspect("export", "--format", "openai", "--json", "--out", "c.jsonl").stdout)

    assert (len(inline["examples"]), inline["left_out"]) == (2, ["demo/made/tiny-1/2"])
    assert (filed["schema_version"], filed["written"], filed["out"]) == (1, 2, "c.jsonl")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--format", "csv"], 2, "error: --format csv is not known; there are openai, hf\n"),
        (
            ["--format", "hf", "--out", "no/where.jsonl"],
            74,
            "error: no/where.jsonl cannot be written: No such file or directory",
        ),
    ],
)
def test_an_export_that_cannot_be_is_refused(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    chats(tmp_path)
    ran = inspect("export", *arguments)

    assert ran.exit_code == code
    assert message in ran.stderr


def test_valid_artifacts_have_no_findings(folder: Path) -> None:
    ran = inspect("validate")

    assert ran.exit_code == 0
    assert ran.stdout.startswith("2 files, 2 trajectories; 0 findings; 0 rewards computed again, 2 not, because")


def test_findings_name_file_and_line(folder: Path) -> None:
    file = save(folder / "artifacts/demo.jsonl", RIGHT, RIGHT.model_copy(update={"sample": 1, "max_calls": 2}), damaged=["{}"])
    ran = inspect("validate", file)

    assert ran.exit_code == 65
    assert f"{file} line 2 tiny-1: it made 3 calls under a limit of 2" in ran.stdout
    assert f"{file} line 3 is not a trajectory: field 'split': Field required" in ran.stdout
    assert ran.stderr == f"error: {file} has 2 findings\n"


def test_findings_as_json(folder: Path) -> None:
    save(folder / "artifacts/demo.jsonl", RIGHT.model_copy(update={"max_calls": 2}))
    ran = inspect("validate", "--json")

    assert ran.exit_code == 65
    assert json.loads(ran.stdout)["findings"] == [
        {"file": "artifacts/demo.jsonl", "line": 1, "problem": "tiny-1: it made 3 calls under a limit of 2"}
    ]


def test_what_the_commands_themselves_save_is_valid(tmp_path: Path) -> None:
    assert run("demo", cwd=tmp_path).returncode == 0
    ran = inspect("validate")

    assert ran.exit_code == 0
    assert ran.stdout == "1 file, 2 trajectories; 0 findings; 2 rewards computed again\n"


def test_a_record_that_a_terminal_would_obey_is_printed_as_text(folder: Path) -> None:
    save(folder / "artifacts/eval.weak.jsonl", WRONG.model_copy(update={"answer": "\x1b]0;owned\x07 [red]x[/red] \ud83d"}))
    ran = run("inspect", "show", "weak", cwd=folder, PYTHONIOENCODING="ascii")

    assert ran.returncode == 0
    assert "]0;owned [red]x[/red]" in ran.stdout
    assert "\x1b" not in ran.stdout


@pytest.mark.parametrize("command", ["list", "show", "diff", "curves", "export", "validate"])
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    ran = inspect(command, "--help")

    assert ran.exit_code == 0
    assert "--json" in ran.stdout
