"""The training loop: what a run is, however often it was stopped or killed, and what it never does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks
from gradient_rl.errors import DataError, GuardError, NothingToReadError, UsageError
from gradient_rl.evaluation.records import KEY
from gradient_rl.evaluation.run import Stop
from gradient_rl.policies.base import Policy
from gradient_rl.schema.task import Split
from gradient_rl.schema.training import StepMetrics
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.learner import Learner
from gradient_rl.training.linear import LinearLearner
from gradient_rl.training.loop import (
    CHECKPOINTS,
    MANIFEST,
    METRICS,
    SUMMARY,
    TRAJECTORIES,
    Budget,
    Listener,
    best_step,
    plan_training,
    prepare_folder,
)
from tests import tiny
from tests.conftest import write_data
from tests.evaluation.playing import Empty, Right
from tests.tiny import NOTICE_TASK
from tests.training import crashing
from tests.training.learning import (
    TOKENS_A_REPLY,
    CountingLearner,
    FailingLearner,
    ShuffledLearner,
    StuckLearner,
    checkpoints_in,
    go,
    metrics_in,
    small,
    stopping_at,
    timeless_metrics,
    timeless_trajectories,
    trajectories_in,
    weights_in,
)

ROOT = Path(tiny.__file__).parent.parent
CONFIG = small(seed=1)
WAIT_S = 60


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing disturbed. Not to be written to."""
    folder = tmp_path_factory.mktemp("straight")
    assert go(folder, CONFIG)
    return folder


@pytest.fixture
def copied(straight: Path, tmp_path: Path) -> Path:
    return shutil.copytree(straight, tmp_path / "copied")


def keys_in(folder: Path) -> list[tuple[object, ...]]:
    return [tuple(getattr(trajectory, name) for name in KEY) for trajectory in trajectories_in(folder)]


def check_same(folder: Path, straight: Path) -> None:
    assert checkpoints_in(folder) == checkpoints_in(straight)
    assert timeless_metrics(folder) == timeless_metrics(straight)
    assert timeless_trajectories(folder) == timeless_trajectories(straight)
    assert len(set(keys_in(folder))) == len(keys_in(folder))


# What a run is


def test_a_run_has_a_line_of_metrics_a_step_and_every_episode(straight: Path) -> None:
    metrics = metrics_in(straight)

    assert [m.step for m in metrics] == [0, 1, 2, 3]
    assert [m.train.episodes if m.train else 0 for m in metrics] == [0, 18, 18, 18]
    assert [m.validation.episodes if m.validation else 0 for m in metrics] == [10, 0, 10, 10]
    assert [m.groups for m in metrics] == [0, 3, 3, 3]
    assert all(m.used + sum(m.dropped.values()) == m.groups for m in metrics)
    assert len(trajectories_in(straight)) == 3 * 18 + 3 * 10


def test_the_weights_move_in_the_steps_that_had_a_group_to_learn_from_and_in_no_other(straight: Path) -> None:
    moved = [weights_in(straight, step) != weights_in(straight, step - 1) for step in (1, 2, 3)]

    assert moved == [m.used > 0 for m in metrics_in(straight)[1:]]
    assert any(moved)


def test_validation_tasks_are_never_rolled_out_for_training(straight: Path) -> None:
    splits = {task.id: task.split for task in load_tasks(default_data_dir() / TRAIN_FILE).tasks}

    for trajectory in trajectories_in(straight):
        assert trajectory.split == splits[trajectory.task_id]
        # A greedy episode plays the state after its step, a rollout the state that the step began with.
        played = trajectory.step if trajectory.split == Split.VALIDATION else trajectory.step - 1
        assert trajectory.checkpoint == str(played)


def test_the_learner_is_handed_groups_of_training_tasks_only(tmp_path: Path) -> None:
    handed: list[Group] = []

    class Recording(LinearLearner):
        async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
            handed.extend(groups)
            return await super().update(step, groups)

    go(tmp_path, small(seed=1, max_steps=1), Recording)

    assert {t.split for group in handed for t in group.trajectories} == {Split.TRAIN}


def test_no_task_comes_twice_within_an_epoch(straight: Path) -> None:
    of_step = {(t.step, t.task_id) for t in trajectories_in(straight) if t.split == Split.TRAIN}

    assert len(of_step) == len({task_id for _, task_id in of_step}) == 9


def test_an_earlier_run_is_moved_to_runs_whole(copied: Path, straight: Path) -> None:
    before = {p.relative_to(copied): p.read_bytes() for p in copied.rglob("*") if p.is_file() and p.name != ".lock"}
    plan = plan_training(small(seed=2), default_data_dir())
    prepare_folder(plan, copied, resume=False)
    (home,) = (copied / "runs").iterdir()

    assert {p.relative_to(home): p.read_bytes() for p in home.rglob("*") if p.is_file()} == before
    assert {p.name for p in copied.iterdir()} <= {"runs", MANIFEST, ".lock"}


def test_more_tasks_a_step_than_there_are_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--tasks-per-step is 41, and there are 40 training tasks"):
        go(tmp_path / "artifacts", small(tasks_per_step=41))
    assert not (tmp_path / "artifacts").exists()


# Stopping and going on


def test_a_run_stopped_in_the_middle_of_steps_and_resumed_is_the_run_that_was_not(tmp_path: Path, straight: Path) -> None:
    for number, episode in enumerate((4, 15, 25, 24)):  # in the first validation, two rollouts, and a later validation
        stop, listener = stopping_at(episode)
        assert go(tmp_path, CONFIG, resume=number > 0, stop=stop, listener=listener) is None
        assert not (tmp_path / SUMMARY).exists()
    steps: list[StepMetrics] = []
    training = go(tmp_path, CONFIG, resume=True, listener=Listener(step=steps.append))

    check_same(tmp_path, straight)
    assert training is not None
    assert training.episodes == 84
    assert steps == metrics_in(tmp_path)


def test_episodes_that_do_not_end_within_the_grace_are_given_up_and_the_others_saved(tmp_path: Path) -> None:
    stop, seen = Stop(grace_s=0.1), []

    def on_episode(trajectory: Trajectory) -> None:
        seen.append(trajectory)
        if trajectory.split == Split.TRAIN:
            stop.request()

    assert go(tmp_path, CONFIG, StuckLearner, stop=stop, listener=Listener(episode=on_episode)) is None
    assert len(trajectories_in(tmp_path)) == len(seen) > 10


def command(folder: Path, *arguments: str) -> list[str]:
    lines = [f"{name} = {json.dumps(value)}" for name, value in CONFIG.model_dump().items() if isinstance(value, int | float)]
    (folder / "run.toml").write_text("\n".join(lines))
    code = "from gradient_rl.cli.train import main; main()"
    return [sys.executable, "-c", code, "--config", "run.toml", *arguments]


def kill_when(folder: Path, path: Path, lines: int) -> None:
    """Train in a process of its own until a file has so many lines, and kill it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command(folder), cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + WAIT_S
    while (path.read_bytes().count(b"\n") if path.exists() else 0) < lines and time.monotonic() < deadline:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    assert child.wait(timeout=WAIT_S) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("file", "lines"), [(TRAJECTORIES, 3), (TRAJECTORIES, 20), (TRAJECTORIES, 50), (f"{CHECKPOINTS}/linear-000002.json", 1)]
)
def test_a_run_killed_at_any_moment_and_resumed_ends_with_the_same_weights(
    tmp_path: Path, straight: Path, file: str, lines: int
) -> None:
    kill_when(tmp_path, tmp_path / "artifacts" / file, lines)
    assert not (tmp_path / "artifacts" / SUMMARY).exists()
    go(tmp_path / "artifacts", CONFIG, resume=True)

    check_same(tmp_path / "artifacts", straight)


def sweep(folder: Path, stride: int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, str(crashing.__file__), str(folder), str(stride)]
    ran = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_a_run_that_ends_at_a_write_of_its_own_and_is_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    assert sweep(tmp_path, 7) >= 10


@pytest.mark.slow
def test_a_run_that_ends_at_any_write_of_its_own_and_is_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    assert sweep(tmp_path, 1) >= 100


def test_more_steps_go_on_where_the_run_ended(tmp_path: Path, straight: Path) -> None:
    go(tmp_path, CONFIG.model_copy(update={"max_steps": 2}))
    training = go(tmp_path, CONFIG, resume=True)

    check_same(tmp_path, straight)
    assert training is not None
    assert training.steps == 3


def test_a_run_that_goes_on_has_no_summary_until_it_ends(tmp_path: Path) -> None:
    go(tmp_path, CONFIG.model_copy(update={"max_steps": 2}))
    stop, listener = stopping_at(1)
    go(tmp_path, CONFIG, resume=True, stop=stop, listener=listener)

    assert not (tmp_path / "train.json").exists()


@pytest.mark.parametrize("max_steps", [1, 2])
def test_a_run_cannot_end_before_what_is_done_or_without_a_validation(tmp_path: Path, max_steps: int) -> None:
    config = CONFIG.model_copy(update={"max_steps": 3, "validate_every": 5})
    done: list[int] = []
    stop = Stop()
    listener = Listener(step=lambda metrics: (done.append(metrics.step), stop.request() if metrics.step == 2 else None)[0])
    go(tmp_path, config, stop=stop, listener=listener)

    with pytest.raises(UsageError, match=f"--max-steps {max_steps}: 2 steps are done already; give a higher number"):
        go(tmp_path, config.model_copy(update={"max_steps": max_steps}), resume=True)
    assert done == [0, 1, 2]


def test_a_complete_run_resumed_plays_nothing_and_writes_the_same_summary(copied: Path, straight: Path) -> None:
    training = go(copied, CONFIG, resume=True)

    check_same(copied, straight)
    assert training is not None
    assert training.learned == go(copied, CONFIG, resume=True).learned  # type: ignore[union-attr]
    assert training.learned


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 2}, "--resume: config.seed was 1 when the run began and is 2 now"),
        ({"learning_rate": 0.01}, "--resume: config.learning_rate was 0.08 when the run began and is 0.01 now"),
        ({"group_size": 4}, "--resume: config.group_size was 6 when the run began and is 4 now"),
        ({"limits": {"max_calls": 3}}, "--resume: config.limits was "),
    ],
)
def test_a_run_whose_configuration_changed_is_refused_by_the_field(
    straight: Path, changes: Mapping[str, object], words: str
) -> None:
    plan = plan_training(small(**{"seed": 1, **changes}), default_data_dir())

    with pytest.raises(UsageError) as refused:
        prepare_folder(plan, straight, resume=True)
    assert str(refused.value).startswith(words)


def test_a_run_whose_data_changed_is_refused_by_the_field(straight: Path, tmp_path: Path) -> None:
    data = shutil.copytree(default_data_dir(), tmp_path / "data", ignore=shutil.ignore_patterns("heldout*"))
    tasks = (data / TRAIN_FILE).read_text("utf-8").splitlines(keepends=True)
    (data / TRAIN_FILE).write_text("".join(tasks[1:]), "utf-8")

    with pytest.raises(UsageError, match="--resume: tasks was "):
        prepare_folder(plan_training(CONFIG, data), straight, resume=True)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="holds no training run to resume"):
        go(tmp_path, CONFIG, resume=True)


def test_a_run_whose_newest_checkpoint_is_gone_or_damaged_is_not_resumed(copied: Path) -> None:
    newest = copied / CHECKPOINTS / "linear-000003.json"
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(DataError, match=r"linear-000003\.json is not a checkpoint"):
        go(copied, CONFIG, resume=True)
    newest.unlink()
    with pytest.raises(NothingToReadError, match=r"linear-000003\.json is not there"):
        go(copied, CONFIG, resume=True)


@pytest.mark.parametrize(("file", "field"), [(METRICS, "step"), (TRAJECTORIES, "question")])
def test_a_line_that_is_no_record_of_a_run_is_named(copied: Path, file: str, field: str) -> None:
    first, *others = (copied / file).read_text("utf-8").splitlines(keepends=True)
    (copied / file).write_text(json.dumps({**json.loads(first), field: None}) + "\n" + "".join(others), "utf-8")

    with pytest.raises(DataError, match=rf"{file} line 1"):
        go(copied, CONFIG, resume=True)


# What is kept


class Scheduled:
    """Right in the states of these steps, empty in all others; writes down which states it was told to keep."""

    name, model = "scheduled", None

    def __init__(self, right: frozenset[int]) -> None:
        self.kept: list[list[int]] = []
        self._right = right
        self._step = 0

    def policy(self, temperature: float) -> Policy:
        return Right(self.name) if self._step in self._right else Empty(self.name)

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        self._step = step
        return {}

    async def checkpoint(self, step: int) -> str:
        return str(step)

    async def restore(self, step: int) -> None:
        self._step = step

    async def retain(self, steps: Sequence[int]) -> None:
        self.kept.append(sorted(set(steps)))

    def learned(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None: ...


def tiny_data(folder: Path) -> Path:
    validation = NOTICE_TASK.model_copy(update={"id": "tiny-9", "split": Split.VALIDATION})
    return write_data(folder, tasks=(NOTICE_TASK, validation))


def test_the_base_the_best_and_the_newest_states_are_kept(tmp_path: Path) -> None:
    learner = Scheduled(frozenset({2, 4}))
    config = small(max_steps=6, tasks_per_step=1, group_size=2, validate_every=1, keep_checkpoints=2)
    training = go(tmp_path, config, lambda _, __: learner, data=tiny_data(tmp_path / "data"))

    assert learner.kept == [[0], [0, 1], [0, 1, 2], [0, 2, 3], [0, 2, 3, 4], [0, 2, 4, 5], [0, 2, 5, 6]]
    assert training is not None
    assert (training.best_step, training.latest) == (2, "6")


def test_the_files_of_other_states_are_removed(tmp_path: Path) -> None:
    go(tmp_path, small(seed=1, keep_checkpoints=1, group_size=2))
    best = best_step(metrics_in(tmp_path))

    assert set(checkpoints_in(tmp_path)) == {f"linear-{step:06}.json" for step in (0, best, 3)}


def test_fewer_checkpoints_are_kept_from_a_resume_on(copied: Path) -> None:
    go(copied, CONFIG.model_copy(update={"keep_checkpoints": 1}), resume=True)
    best = best_step(metrics_in(copied))

    assert set(checkpoints_in(copied)) == {f"linear-{step:06}.json" for step in (0, best, 3)}


# Failures


def test_an_episode_whose_endpoint_failed_is_counted_and_is_no_reward(tmp_path: Path) -> None:
    training = go(tmp_path, small(seed=1, max_steps=2), FailingLearner)
    failed = [t for t in trajectories_in(tmp_path) if t.error]
    metrics = metrics_in(tmp_path)[1:]

    assert training is not None
    assert 0 < training.excluded == len(failed) < 36
    assert [m.train.excluded for m in metrics if m.train] == [sum(t.step == step for t in failed) for step in (1, 2)]
    assert {(t.reward, t.stop_reason.value, t.error) for t in failed} == {(None, "transport_error", "503 from the endpoint")}


def test_episodes_that_failed_in_the_step_that_was_stopped_are_played_again_by_a_resume(tmp_path: Path, straight: Path) -> None:
    stop, listener = stopping_at(22)
    assert go(tmp_path, CONFIG, FailingLearner, stop=stop, listener=listener) is None
    failed = [t for t in trajectories_in(tmp_path) if t.error]
    training = go(tmp_path, CONFIG, resume=True)  # the endpoint has been repaired

    assert failed
    assert training is not None
    assert training.excluded == 0
    assert checkpoints_in(tmp_path) == checkpoints_in(straight)
    again = [(t.step, t.task_id, t.sample) for t in trajectories_in(tmp_path) if t.attempt == 1]
    assert sorted(again) == sorted((t.step, t.task_id, t.sample) for t in failed)


def test_an_episode_without_a_reward_leaves_its_group(straight: Path) -> None:
    group = taught(straight)
    first, *others = group.trajectories
    failed = group.model_copy(update={"trajectories": (first.model_copy(update={"reward": None, "choices": ()}), *others)})
    without = group.model_copy(update={"trajectories": tuple(others)})

    assert updated(LinearLearner, failed) == updated(LinearLearner, without)
    assert updated(LinearLearner, failed) != updated(LinearLearner, group)


def taught(folder: Path) -> Group:
    """A group of three whose rewards differ, from the tasks that somebody got right."""
    episodes = [t for t in trajectories_in(folder) if t.split == Split.TRAIN and t.reward]
    best = max(episodes, key=lambda t: t.reward.total if t.reward else 0.0)
    there = sorted((t for t in episodes if (t.step, t.task_id) == (best.step, best.task_id)), key=lambda t: t.sample)
    low = [t for t in there if t.reward and best.reward and t.reward.total < best.reward.total]
    return Group(task_id=best.task_id, trajectories=(*low[:2], best))


def updated(make: type[LinearLearner], group: Group) -> Mapping[str, float]:
    learner = make(CONFIG, Path("none"))
    asyncio.run(learner.update(1, [group]))
    return learner.learned()


# The budget


def test_no_episode_begins_once_the_tokens_are_spent_and_a_higher_limit_goes_on(tmp_path: Path, straight: Path) -> None:
    config = CONFIG.model_copy(update={"concurrency": 1})
    with pytest.raises(GuardError, match="--max-tokens 6000 is spent: .* --resume with a higher limit goes on"):
        go(tmp_path, config, CountingLearner, budget=Budget(6000))
    tokens = [t.usage.tokens for t in trajectories_in(tmp_path)]
    assert sum(tokens[:-1]) < 6000 <= sum(tokens)
    assert not (tmp_path / SUMMARY).exists()

    with pytest.raises(GuardError, match="--max-tokens 6000 is spent"):  # what an earlier process spent counts
        go(tmp_path, config, CountingLearner, budget=Budget(6000), resume=True)
    assert len(trajectories_in(tmp_path)) == len(tokens)

    training = go(tmp_path, config, CountingLearner, budget=Budget(10**6), resume=True)
    assert training is not None
    assert checkpoints_in(tmp_path) == checkpoints_in(straight)
    spent = [p.tokens for m in metrics_in(tmp_path) for p in (m.train, m.validation) if p]
    assert sum(spent) == sum(t.usage.tokens for t in trajectories_in(tmp_path))
    assert sum(spent) % TOKENS_A_REPLY == 0


def test_an_episode_that_failed_and_was_played_again_still_costs_what_it_did(copied: Path) -> None:
    path = copied / TRAJECTORIES
    failed = {**json.loads(path.read_bytes().splitlines()[0]), "attempt": 7, "usage": {"prompt_tokens": 500}}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(failed) + "\n")
    config = CONFIG.model_copy(update={"max_steps": 4})

    with pytest.raises(GuardError, match="--max-tokens 500 is spent: 500 tokens so far"):
        go(copied, config, resume=True, budget=Budget(500))


@pytest.mark.parametrize(
    ("budget", "tokens", "usd", "told"),
    [
        (Budget(), 10**9, 1e9, None),
        (Budget(100), 99, 0.0, None),
        (Budget(100), 100, 0.0, "--max-tokens 100 is spent: 100 tokens so far"),
        (Budget(None, 2.5), 10, 2.49, None),
        (Budget(None, 2.5), 10, 2.5, "--max-usd 2.5 is spent: 2.50 USD so far"),
    ],
)
def test_a_budget_says_which_limit_is_met(budget: Budget, tokens: int, usd: float, told: str | None) -> None:
    assert budget.refuse(tokens, usd) == told


# That it is the rewards that teach


def test_rewards_dealt_anew_within_a_group_change_the_update(straight: Path) -> None:
    group = taught(straight)

    assert updated(ShuffledLearner, group) != updated(LinearLearner, group)


LONG = small(max_steps=30, tasks_per_step=12, group_size=10, validate_every=30)


def gained(folder: Path, make: type[LinearLearner], seed: int) -> float:
    training = go(folder, LONG.model_copy(update={"seed": seed}), make)
    assert training is not None
    assert training.before is not None
    assert training.after is not None
    return (training.after.reward or 0.0) - (training.before.reward or 0.0)


@pytest.mark.slow
def test_validation_reward_rises_with_honest_rewards_and_not_with_shuffled_ones(tmp_path: Path) -> None:
    honest = gained(tmp_path / "honest", LinearLearner, 0)
    shuffled = gained(tmp_path / "shuffled", ShuffledLearner, 0)

    assert honest > 0.1
    assert shuffled < honest / 2


def test_a_learner_is_what_the_loop_expects() -> None:
    def accepts(_: Learner) -> None: ...

    accepts(LinearLearner(TrainingConfig(), Path("none")))
    accepts(Scheduled(frozenset()))
