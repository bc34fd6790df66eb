from __future__ import annotations

from pathlib import Path

from gradient_rl.environment.workspace import load_tasks, load_workspace
from gradient_rl.report.library import read_library
from gradient_rl.schema.trajectory import Digests, Trajectory
from tests.saving import scored
from tests.tiny import NOTICE_TASK


def played_here(data: Path, **digests: str) -> Trajectory:
    here = {"workspace": load_workspace(data).digest, "tasks": load_tasks(data / "tasks/train.jsonl").digest}
    return scored(digests=Digests(**here | digests))


def test_a_trajectory_of_this_data_has_its_task_and_titles(tiny_data: Path) -> None:
    known = read_library(tiny_data).background(played_here(tiny_data))

    assert known.task == NOTICE_TASK
    assert known.titles["mail-1"] == "Birch Bakery amendment"
    assert known.notes == ()


def test_another_version_of_the_workspace_is_said_and_its_titles_are_missing(tiny_data: Path) -> None:
    known = read_library(tiny_data).background(played_here(tiny_data, workspace="ab" * 32))

    assert known.task == NOTICE_TASK
    assert known.titles == {}
    assert known.notes[0].startswith("it was played on another version of the workspace (abababababab) than")


def test_other_tasks_are_said(tiny_data: Path) -> None:
    library = read_library(tiny_data)
    trajectory = played_here(tiny_data, tasks="ab" * 32)

    assert not library.holds(trajectory)
    assert library.background(trajectory).notes[0].startswith("it was played on other tasks (abababababab) than")


def test_a_task_that_asks_something_else_now_is_not_taken_for_it(tiny_data: Path) -> None:
    known = read_library(tiny_data).background(played_here(tiny_data).model_copy(update={"question": "Why?"}))

    assert known.task is None
    assert "asks something else in" in known.notes[0]


def test_a_task_that_is_not_there_is_said(tiny_data: Path) -> None:
    known = read_library(tiny_data).background(played_here(tiny_data).model_copy(update={"task_id": "gone-1"}))

    assert known.notes[0].startswith(f"task 'gone-1' is not in {tiny_data}, so what was required cannot be shown; name")


def test_an_empty_folder_knows_nothing(tmp_path: Path) -> None:
    known = read_library(tmp_path).background(scored())

    assert known.task is None
    assert len(known.notes) == 2
