from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradient_rl.cli.evaluate import app
from gradient_rl.environment.workspace import HELDOUT_FILE, load_tasks, load_workspace
from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.evaluation.demo import play_demo, save_demo
from gradient_rl.report.html.write import write_demo_report, write_evaluation_report, write_report, write_training_report
from gradient_rl.runs import json_line
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.training import StepMetrics
from gradient_rl.schema.trajectory import Digests, Trajectory
from tests.browser import pages
from tests.conftest import write_data
from tests.report.html.test_charts import STEPS
from tests.tiny import RECORDS


def data_in(file: Path) -> dict:
    return json.loads(re.findall(r'id="data">(.*?)</script>', file.read_text("utf-8"), re.DOTALL)[0])


def lead_in(file: Path) -> str:
    return re.findall(r"<h1[^>]*>(.*?)</h1>", file.read_text("utf-8"))[0]


def save(file: Path, data: Path, *trajectories: Trajectory) -> None:
    digests = Digests(workspace=load_workspace(data).digest, tasks=load_tasks(data / HELDOUT_FILE).digest)
    lines = "".join(to_line(each.model_copy(update={"digests": digests})) for each in trajectories)
    file.write_text(lines, "utf-8")


def trained(folder: Path, data: Path, steps: list[StepMetrics]) -> None:
    task = load_tasks(data / HELDOUT_FILE).tasks[0]
    (folder / "train.metrics.jsonl").write_bytes(b"".join(json_line(each.model_dump(mode="json")) for each in steps))
    played = [
        pages.wrong(task, policy="linear", checkpoint="0", split="validation", step=0),
        pages.wrong(task, policy="linear", checkpoint="1", split="train", step=1),
        pages.right(task, policy="linear", checkpoint="1", split="validation", step=1),
        pages.right(task, policy="linear", checkpoint="2", split="validation", step=2),
    ]
    save(folder / "train.trajectories.jsonl", data, *played)


def evaluate(folder: Path, data: Path) -> None:
    outcome = CliRunner().invoke(app, ["--data", str(data), "--artifacts", str(folder)])
    assert outcome.exit_code == 0, outcome.output


def test_the_demonstration_opens_with_what_made_the_difference(tmp_path: Path, tiny_data: Path) -> None:
    demo = play_demo(tiny_data, "tiny-1", 0)
    save_demo(demo, tmp_path)
    written = write_demo_report(tmp_path, tiny_data)

    assert written == tmp_path / "demo.html"
    assert lead_in(written) == demo.sentence
    assert [task["id"] for task in data_in(written)["tasks"]] == ["tiny-1"]
    assert set(data_in(written)["records"]) >= {"mail-1"}


def test_a_demonstration_whose_two_files_are_of_two_runs_gets_no_report(tmp_path: Path, tiny_data: Path) -> None:
    save_demo(play_demo(tiny_data, "tiny-1", 0), tmp_path)
    (tmp_path / "demo.jsonl").replace(tmp_path / "kept")
    save_demo(play_demo(tiny_data, "tiny-2", 0), tmp_path)
    (tmp_path / "kept").replace(tmp_path / "demo.jsonl")

    with pytest.raises(
        DataError, match=r"demo.json and demo.jsonl are of two runs, for one ended between them; run gradient-demo"
    ):
        write_demo_report(tmp_path, tiny_data)


def test_training_shows_the_validation_before_and_the_last_one(tmp_path: Path, tiny_data: Path) -> None:
    trained(tmp_path, tiny_data, STEPS)
    written = write_training_report(tmp_path, tiny_data)

    assert data_in(written)["policies"] == ["linear@0", "linear@2"]
    assert 'id="training"' in written.read_text("utf-8")
    assert "The run has not ended" in written.read_text("utf-8")


def test_curves_need_no_trajectory(tmp_path: Path, tiny_data: Path) -> None:
    (tmp_path / "train.metrics.jsonl").write_bytes(b"".join(json_line(each.model_dump(mode="json")) for each in STEPS))
    written = write_report(tmp_path, tmp_path / "report.html", tiny_data)

    assert 'id="training"' in written.read_text("utf-8")
    assert lead_in(written) == "The policy: 2 steps of training."


def test_a_file_that_holds_nothing_does_not_hide_the_others(tmp_path: Path, tiny_data: Path) -> None:
    task = load_tasks(tiny_data / HELDOUT_FILE).tasks[0]
    save(tmp_path / "good.jsonl", tiny_data, pages.right(task))
    (tmp_path / "empty.jsonl").write_text("", "utf-8")
    (tmp_path / "other.jsonl").write_text('{"messages": []}\n', "utf-8")
    written = write_report(tmp_path, tmp_path / "report.html", tiny_data)

    assert data_in(written)["policies"] == ["strong"]
    assert "other.jsonl line 1" in written.read_text("utf-8")


def test_an_evaluation_that_is_not_there_says_what_to_run(tmp_path: Path, tiny_data: Path) -> None:
    with pytest.raises(NothingToReadError, match="run gradient-eval first"):
        write_evaluation_report(tmp_path, tiny_data)


def test_a_folder_without_artifacts_says_what_to_run(tmp_path: Path, tiny_data: Path) -> None:
    with pytest.raises(NothingToReadError, match="run gradient-demo"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html", tiny_data)


def test_a_file_of_another_tool_says_what_was_expected_and_leaves_no_report(tmp_path: Path, tiny_data: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"messages": []}\n', "utf-8")

    with pytest.raises(DataError, match="expected is what gradient-demo"):
        write_report(tmp_path / "other.jsonl", tmp_path / "report.html", tiny_data)
    assert not (tmp_path / "report.html").exists()


def test_damaged_lines_are_counted_and_named_and_the_rest_is_shown(tmp_path: Path, tiny_data: Path) -> None:
    task = load_tasks(tiny_data / HELDOUT_FILE).tasks[0]
    save(tmp_path / "some.jsonl", tiny_data, pages.wrong(task), pages.right(task))
    with (tmp_path / "some.jsonl").open("a", encoding="utf-8") as file:
        file.write("{oops\n")
    written = write_report(tmp_path / "some.jsonl", tmp_path / "report.html", tiny_data)

    assert "left out: 1. some.jsonl line 3 is damaged" in written.read_text("utf-8")
    assert data_in(written)["policies"] == ["weak", "strong"]


def test_tasks_that_the_data_folder_does_not_hold_are_said(tmp_path: Path, tiny_data: Path) -> None:
    task = pages.task(1)
    (tmp_path / "some.jsonl").write_text(to_line(pages.right(task)), "utf-8")
    written = write_report(tmp_path / "some.jsonl", tmp_path / "report.html", tiny_data)

    assert "holds other tasks than 1 of these were played on" in written.read_text("utf-8")
    assert data_in(written)["tasks"][0]["required"] == []


def test_a_task_of_another_world_under_the_same_id_has_no_right_answer_and_is_said(tmp_path: Path) -> None:
    known, other = pages.task(1), pages.task(2)
    data = write_data(tmp_path / "data", RECORDS, [known, other])
    save(tmp_path / "some.jsonl", data, pages.right(known), pages.right(other, question="Who bakes on the moon?"))
    written = write_report(tmp_path / "some.jsonl", tmp_path / "report.html", data)
    shown = {task["id"]: task for task in data_in(written)["tasks"]}

    assert "holds other tasks than 1 of these were played on" in written.read_text("utf-8")
    assert "right answers are not here" in written.read_text("utf-8")
    assert shown[other.id]["expected"] == ""
    assert shown[other.id]["required"] == []
    assert shown[known.id]["expected"] != ""


def test_an_evaluation_of_another_world_shows_the_right_answers_that_it_has_and_says_whose(
    tmp_path: Path, tiny_data: Path
) -> None:
    evaluate(tmp_path, tiny_data)
    written = write_report(tmp_path, tmp_path / "report.html", write_data(tmp_path / "other", RECORDS, [pages.task(1)]))
    shown = data_in(written)["tasks"]

    assert all(task["expected"] and not task["required"] for task in shown)
    assert "required evidence is not here; a right answer that is shown is that of eval.json" in written.read_text("utf-8")


def test_an_episode_on_another_question_than_the_evaluation_asks_has_no_right_answer(tmp_path: Path, tiny_data: Path) -> None:
    evaluate(tmp_path, tiny_data)
    file = tmp_path / "eval.weak.jsonl"
    first, *rest = file.read_text("utf-8").splitlines()
    foreign = json.loads(first) | {"question": "Who bakes on the moon?"}
    file.write_text("\n".join([json.dumps(foreign), *rest, ""]), "utf-8")
    written = write_report(tmp_path, tmp_path / "report.html", tiny_data)
    shown = {task["id"]: task for task in data_in(written)["tasks"]}

    assert shown[foreign["task_id"]]["expected"] == ""
    assert shown[foreign["task_id"]]["required"] == []
    assert "1 of these tasks were played with another question than eval.json asks" in written.read_text("utf-8")


def test_a_lone_surrogate_in_an_answer_is_left_out(tmp_path: Path, tiny_data: Path) -> None:
    task = load_tasks(tiny_data / HELDOUT_FILE).tasks[0]
    (tmp_path / "some.jsonl").write_bytes(json_line(pages.right(task).model_dump(mode="json") | {"answer": "\ud800!"}))
    written = write_report(tmp_path / "some.jsonl", tmp_path / "report.html", tiny_data)

    assert data_in(written)["tasks"][0]["runs"]["strong"]["answer"] == "!"


def test_the_same_files_give_the_same_bytes(tmp_path: Path, tiny_data: Path) -> None:
    trained(tmp_path, tiny_data, STEPS)
    first, second = (write_report(tmp_path, tmp_path / f"{name}.html", tiny_data).read_bytes() for name in "ab")

    assert first == second
