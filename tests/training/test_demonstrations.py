"""Demonstrations are worth imitating: different from each other, and each earns its reward."""

from collections import Counter
from pathlib import Path

import pytest

from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.rollout.runner import Setting, setting_for
from gradient_rl.schema.task import Split, Task
from gradient_rl.schema.trajectory import Trajectory
from gradient_rl.training.demonstrations import demonstrations

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [task for task in load_tasks(DATA / TRAIN_FILE).tasks if task.split is Split.TRAIN]


@pytest.fixture(scope="module")
def setting() -> Setting:
    return setting_for(load_workspace(DATA))


@pytest.fixture(scope="module")
def made(tasks, setting) -> tuple[Trajectory, ...]:
    return demonstrations(tasks, setting, 120, seed=0)


def test_there_are_as_many_as_were_asked_for(made) -> None:
    assert len(made) == 120


def test_each_earns_its_reward(made) -> None:
    assert min(trajectory.reward.total for trajectory in made) >= 0.8
    assert Counter(trajectory.reward.total >= 1.0 - 1e-9 for trajectory in made)[True] > 100


def test_no_two_are_alike(made) -> None:
    calls = [(trajectory.task_id, str([(step.tool, step.arguments) for step in trajectory.steps])) for trajectory in made]

    assert len(set(calls)) == len(calls)


def test_every_task_is_among_them(made, tasks) -> None:
    assert {trajectory.task_id for trajectory in made} == {task.id for task in tasks}


def test_the_same_seed_gives_the_same_and_another_seed_others(tasks, setting, made) -> None:
    again, other = (demonstrations(tasks, setting, 120, seed=seed) for seed in (0, 1))

    assert [t.messages for t in again] == [t.messages for t in made] != [t.messages for t in other]


def test_none_are_made_of_no_tasks(setting) -> None:
    assert demonstrations([], setting, 10, seed=0) == ()
