"""`gradient-eval` as a user runs it: exit codes, files, what it prints, and what survives Ctrl-C and SIGKILL."""

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

from gradient_rl.environment.workspace import HELDOUT_FILE, default_data_dir
from gradient_rl.evaluation.records import read_trajectories
from gradient_rl.runs import hold_folder
from gradient_rl.schema.evaluation import Evaluation
from tests import tiny
from tests.cli.running import run
from tests.evaluation.playing import heldout_world, save_step

ROOT = Path(tiny.__file__).parent.parent
WITH_FAKES = "from tests.evaluation.playing import run_command; run_command()"
WAIT_S = 60
TIMES = {"started_at": "", "seconds": 0.0}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return heldout_world(tmp_path / "data", 12)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", WITH_FAKES, *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT), **more}


def evaluate(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command with the policies of `playing` in its catalog, on the data in this folder."""
    made = command("--data", folder / "data", *arguments)
    return subprocess.run(made, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=WAIT_S)


def started(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    made = command("--data", folder / "data", *arguments)
    return subprocess.Popen(made, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(folder: Path) -> Evaluation:
    return Evaluation.model_validate_json((folder / "artifacts" / "eval.json").read_bytes())


def without_times(folder: Path) -> Evaluation:
    return result(folder).model_copy(update=TIMES)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(path: Path, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while lines(path) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    assert lines(path) >= count


# What a run prints and writes


def test_a_run_prints_a_verdict_saves_its_files_and_says_what_comes_next(tmp_path: Path, data: Path) -> None:
    ran = evaluate(tmp_path, "--policy", "right", "--baseline", "empty")

    assert ran.returncode == 0, ran.stderr
    assert "right is better than empty." in ran.stdout.splitlines()
    assert ran.stdout.splitlines()[-1].startswith("Next: ")
    assert ran.stderr == ""
    assert {path.name for path in (tmp_path / "artifacts").glob("eval*")} == {
        *("eval.json", "eval.md", "eval.html", "eval.run.json", "eval.empty.jsonl", "eval.right.jsonl")
    }
    assert (tmp_path / "artifacts" / "eval.md").read_text("utf-8").startswith("# Evaluation\n\n**right is better than empty.**")


def test_the_file_says_what_was_measured(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty", "--samples", "2")
    found = result(tmp_path)

    assert (found.split, found.samples, found.baseline, list(found.policies)) == ("heldout", 2, "empty", ["empty", "right"])
    assert (found.policies["right"].n_tasks, found.policies["right"].n_episodes) == (12, 24)
    assert found.policies["right"].metrics["reward"].mean == 0.5  # six notice tasks right, six deposit tasks wrong
    assert (found.comparisons[0].better, found.comparisons[0].same, found.comparisons[0].verdict) == (6, 6, "better")
    assert found.digests.workspace
    assert found.digests.tasks


@pytest.mark.skipif(not (default_data_dir() / HELDOUT_FILE).exists(), reason="the held-out tasks are not there")
def test_the_default_run_compares_the_two_scripted_policies_on_all_held_out_tasks(tmp_path: Path) -> None:
    ran = run("evaluate", "--json", cwd=tmp_path)
    found = json.loads(ran.stdout)

    assert ran.returncode == 0, ran.stderr
    assert [(c["baseline"], c["candidate"], c["metric"]) for c in found["comparisons"]] == [("weak", "heuristic", "reward")]
    assert found["policies"]["weak"]["n_tasks"] == found["policies"]["heuristic"]["n_tasks"] == 20


def test_the_json_on_stdout_is_the_file(tmp_path: Path, data: Path) -> None:
    ran = evaluate(tmp_path, "--json")

    assert ran.stdout == (tmp_path / "artifacts" / "eval.json").read_text("utf-8")
    assert json.loads(ran.stdout)["schema_version"] == 1


def test_the_same_seed_gives_the_same_file_but_for_times(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "guessing", "--samples", "3", "--seed", "5")
    first = without_times(tmp_path)
    evaluate(tmp_path, "--policy", "guessing", "--samples", "3", "--seed", "5", "--concurrency", "2")

    assert without_times(tmp_path) == first
    assert len(list((tmp_path / "artifacts" / "runs").iterdir())) == 1


def test_chosen_tasks_of_another_split_are_played(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--split", "train", "--tasks", "tiny-1")

    assert [task.id for task in result(tmp_path).tasks] == ["tiny-1"]
    assert result(tmp_path).split == "train"


def test_learned_checkpoints_that_are_there_are_compared_with_their_base(tmp_path: Path, data: Path) -> None:
    for step, skill in ((0, "empty"), (40, "right")):
        save_step(tmp_path / "artifacts" / "checkpoints", step, skill)
    ran = evaluate(tmp_path)

    assert list(result(tmp_path).policies) == ["weak", "heuristic", "learned@40", "learned@0"]
    assert "learned@40 is better than learned@0." in ran.stdout
    assert (tmp_path / "artifacts" / "eval.learned-40.jsonl").exists()
    assert (tmp_path / "artifacts" / "checkpoints" / "learned" / "40.json").exists()


def test_an_earlier_run_is_kept_and_named_by_its_time_and_id(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty")
    first = (tmp_path / "artifacts" / "eval.json").read_bytes()
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty", "--seed", "1")
    (home,) = (tmp_path / "artifacts" / "runs").iterdir()

    assert (home / "eval.json").read_bytes() == first
    assert home.name.endswith(json.loads(first)["run_id"])


# Bad input


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--policy", "strong"], 2, "there is no policy 'strong'; the policies are weak, heuristic, linear"),
        (["--policy", "weak@3"], 2, "policy 'weak' has no checkpoints"),
        (["--policy", "learned@7"], 2, "policy 'learned' has no checkpoint in artifacts/checkpoints"),
        (["--baseline", "strong"], 2, "there is no policy 'strong'"),
        (["--split", "test"], 2, "there is no split 'test'; the splits are heldout, train, validation"),
        (["--tasks", "held-0"], 2, "there is no heldout task 'held-0'; the nearest ids are held-"),
        (["--fail-under", "reward"], 2, "'reward' is no number; write [POLICY:]METRIC=X"),
        (["--fail-under", "reward=nan"], 2, "'nan' is no number"),
        (["--fail-under", "style=1"], 2, "there is no metric 'style'; the metrics are reward, correctness"),
        (["--fail-under", "right:reward=1"], 2, "policy 'right' does not play; those that do are weak, heuristic"),
        (["--profile", "correctness=2"], 2, "weights must lie in [0, 1]"),
        (["--resume"], 66, "artifacts holds no evaluation to resume"),
        (["old.jsonl"], 2, "old.jsonl is read only with --rescore"),
        (["--rescore"], 2, "--rescore needs at least one FILE"),
        (["--rescore", "none.jsonl"], 66, "none.jsonl is not there"),
        (["--rescore", "x.jsonl", "--resume"], 2, "--resume does not go with --rescore"),
        (["--rescore", "x.jsonl", "--samples", "5"], 2, "--samples does not go with --rescore"),
        (["--rescore", "x.jsonl", "--artifacts", "a"], 2, "--artifacts does not go with --rescore"),
    ],
)
def test_bad_input_is_one_sentence_and_its_exit_code(
    tmp_path: Path, data: Path, arguments: list[str], code: int, words: str
) -> None:
    ran = evaluate(tmp_path, *arguments)

    assert ran.returncode == code
    assert ran.stderr.startswith("error: ")
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""
    assert not list(tmp_path.glob("artifacts/eval*"))


def test_debug_shows_the_traceback(tmp_path: Path, data: Path) -> None:
    assert "Traceback" in evaluate(tmp_path, "--policy", "strong", "--debug").stderr


def test_a_folder_that_another_run_holds_is_left_alone(tmp_path: Path, data: Path) -> None:
    with hold_folder(tmp_path / "artifacts"):
        ran = evaluate(tmp_path)

    assert ran.returncode == 75
    assert f"artifacts is in use by process {os.getpid()}; wait until it ends" in ran.stderr


def test_a_full_disk_ends_the_run_with_a_remedy_and_without_a_result(tmp_path: Path, data: Path) -> None:
    made = f"ulimit -f 40; exec {sys.executable} -c '{WITH_FAKES}' --data data"
    ran = subprocess.run(["bash", "-c", made], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)

    assert ran.returncode == 74
    assert "cannot be written: File too large; raise the file size limit (ulimit -f), then run it again" in ran.stderr
    assert not (tmp_path / "artifacts" / "eval.json").exists()
    evaluate(tmp_path, "--resume")
    assert result(tmp_path).policies["heuristic"].n_episodes == 12


def test_a_resumed_run_that_was_another_is_refused_by_the_field(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path)
    before = (tmp_path / "artifacts" / "eval.json").read_bytes()
    ran = evaluate(tmp_path, "--resume", "--seed", "3")

    assert ran.returncode == 2
    assert "--resume: seed was 0 when the run began and is 3 now" in ran.stderr
    assert (tmp_path / "artifacts" / "eval.json").read_bytes() == before


def test_output_into_a_closed_pipe_says_nothing(tmp_path: Path, data: Path) -> None:
    made = f"{sys.executable} -c '{WITH_FAKES}' --data data | head -1"
    ran = subprocess.run(["bash", "-c", made], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)

    assert ran.stderr == ""


# Gates and failures


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("reward=0.5", 0),
        ("reward=0.51", 3),
        ("right:reward=0.51", 3),
        ("empty:reward=0.1", 3),
        ("empty:reward=0", 0),
        ("pass@1=0.5", 0),
        ("citation_f1=0.9", 3),
    ],
)
def test_a_gate_holds_the_candidates_or_the_policy_that_it_names(tmp_path: Path, data: Path, gate: str, code: int) -> None:
    ran = evaluate(tmp_path, "--policy", "right", "--baseline", "empty", "--fail-under", gate)

    assert ran.returncode == code
    assert (tmp_path / "artifacts" / "eval.json").exists()
    assert ("and --fail-under asks for" in ran.stderr) == (code == 3)


def test_every_gate_that_is_not_met_is_named(tmp_path: Path, data: Path) -> None:
    gates = ["--fail-under", "reward=0.75", "--fail-under", "pass@1=0.9"]
    ran = evaluate(tmp_path, "--policy", "right", "--baseline", "empty", *gates)

    assert ran.stderr == (
        "error: the reward of right is 0.5, and --fail-under asks for 0.75; "
        "the pass@1 of right is 0.5, and --fail-under asks for 0.9\n"
    )


def test_a_gate_can_name_the_latest_checkpoint(tmp_path: Path, data: Path) -> None:
    save_step(tmp_path / "artifacts" / "checkpoints", 0, "empty")
    save_step(tmp_path / "artifacts" / "checkpoints", 40, "right")
    ran = evaluate(tmp_path, "--policy", "learned@latest", "--fail-under", "learned@latest:reward=0.9")

    assert ran.returncode == 3
    assert "the reward of learned@40 is 0.5" in ran.stderr


def test_episodes_without_a_reward_fail_the_run_and_are_played_again_by_resume(tmp_path: Path, data: Path) -> None:
    arguments = ["--policy", "unreachable", "--baseline", "empty"]
    ran = evaluate(tmp_path, *arguments)

    assert ran.returncode == 1
    assert ran.stderr == (
        "error: 12 of 24 episodes ended without a reward, the first with '503 from the endpoint'; --resume plays them again\n"
    )
    assert "no verdict: 12 of the candidate's 12 episodes are without a reward" in ran.stdout
    assert "gradient-eval --resume, with the same options" in ran.stdout
    (tmp_path / "repaired").touch()
    assert evaluate(tmp_path, *arguments, "--resume").returncode == 0
    assert result(tmp_path).policies["unreachable"].excluded == 0


# Stopping and going on


def test_a_killed_run_that_is_resumed_gives_the_same_file_as_one_that_was_not(tmp_path: Path, data: Path) -> None:
    straight = tmp_path / "straight"
    straight.mkdir()
    (straight / "data").symlink_to(data)
    arguments = ["--policy", "guessing", "--samples", "40", "--concurrency", "1"]
    child = started(tmp_path, *arguments)
    wait_for(tmp_path / "artifacts" / "eval.guessing.jsonl", 30)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=WAIT_S)
    kept = lines(tmp_path / "artifacts" / "eval.guessing.jsonl")
    resumed, whole = evaluate(tmp_path, *arguments, "--resume"), evaluate(straight, *arguments)

    assert 30 <= kept < 480
    assert (resumed.returncode, whole.returncode) == (0, 0)
    assert without_times(tmp_path) == without_times(straight)
    assert len(list(read_trajectories(tmp_path / "artifacts" / "eval.guessing.jsonl"))) == 480


def test_the_first_interrupt_lets_episodes_end_and_prints_how_to_go_on(tmp_path: Path, data: Path) -> None:
    arguments = ["--policy", "slow", "--baseline", "slow", "--concurrency", "4"]
    child = started(tmp_path, *arguments)
    wait_for(tmp_path / "artifacts" / "eval.slow.jsonl", 1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT_S)
    saved = lines(tmp_path / "artifacts" / "eval.slow.jsonl")

    assert child.returncode == 130
    assert 4 <= saved < 12
    assert f"interrupted; {saved} of 12 episodes are saved. Go on with: gradient-eval " in errors
    assert "--concurrency 4 --resume\n" in errors
    assert not (tmp_path / "artifacts" / "eval.json").exists()
    assert evaluate(tmp_path, *arguments, "--resume").returncode == 0
    assert lines(tmp_path / "artifacts" / "eval.slow.jsonl") == 12


def test_the_second_interrupt_ends_it_at_once(tmp_path: Path, data: Path) -> None:
    child = started(tmp_path, "--policy", "stuck", "--baseline", "empty")
    wait_for(tmp_path / "artifacts" / "eval.empty.jsonl", 1)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT_S)

    assert child.returncode == 130
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    assert "Go on with" not in errors


def test_a_damaged_line_is_named_on_resume_and_its_episode_played_again(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path)
    before, path = without_times(tmp_path), tmp_path / "artifacts" / "eval.heuristic.jsonl"
    written = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*written[:3], b"{oops\n", *written[4:]]))
    ran = evaluate(tmp_path, "--resume")

    assert ran.returncode == 0
    assert ran.stderr.startswith("warning: artifacts/eval.heuristic.jsonl line 4 is damaged")
    assert without_times(tmp_path) == before


# Scoring again


def test_saved_trajectories_are_scored_again_without_a_rollout_and_nothing_is_written(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty")
    before = {path: path.read_bytes() for path in (tmp_path / "artifacts").glob("eval*")}
    files = [Path("artifacts/eval.empty.jsonl"), Path("artifacts/eval.right.jsonl")]
    ran = evaluate(tmp_path, "--rescore", *files, "--profile", "efficiency=1")

    assert ran.returncode == 0, ran.stderr
    assert "right is better than empty." in ran.stdout
    assert "right is better than empty on reward as saved." in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Next: ")
    assert {path: path.read_bytes() for path in (tmp_path / "artifacts").glob("eval*")} == before


def test_scoring_again_prints_the_one_object(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty")
    ran = evaluate(tmp_path, "--rescore", "artifacts/eval.right.jsonl", "--json")

    assert json.loads(ran.stdout)["rescored"] is True
    assert json.loads(ran.stdout)["policies"]["right"]["metrics"]["reward_as_saved"]["mean"] == 0.5


def test_a_damaged_line_is_named_and_left_out_of_the_scoring(tmp_path: Path, data: Path) -> None:
    evaluate(tmp_path, "--policy", "right", "--baseline", "empty")
    with (tmp_path / "artifacts" / "eval.right.jsonl").open("ab") as file:
        file.write(b"{oops\n")
    ran = evaluate(tmp_path, "--rescore", "artifacts/eval.right.jsonl")

    assert ran.returncode == 65
    assert "warning: artifacts/eval.right.jsonl line 13 is damaged" in ran.stderr
    assert ran.stderr.endswith("error: lines that could not be scored and were left out, named above: 1\n")
    assert "12 held-out tasks" in ran.stdout


# The terminal


def test_a_terminal_shows_a_bar_with_the_running_reward(tmp_path: Path, data: Path) -> None:
    master, slave = pty.openpty()
    made = command("--data", data, "--policy", "slow", "--baseline", "empty", "--concurrency", "4")
    process = subprocess.Popen(
        made, cwd=tmp_path, env=environment(TERM="xterm-256color", COLUMNS="120"), stdout=subprocess.PIPE, stderr=slave
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
    os.close(master)
    output, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert b"24" in shown
    assert b"empty 0.00" in shown
    assert b"\x1b" not in output
