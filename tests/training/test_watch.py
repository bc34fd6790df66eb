"""The hacking watch in a training run: who is stopped, who never is, and what a resumed run decides."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gradient_rl.errors import HackingError
from gradient_rl.policies.base import Message, Policy, Reply, observations_in, one_call
from gradient_rl.runs import json_line
from gradient_rl.schema.task import Split
from gradient_rl.schema.training import StepMetrics
from gradient_rl.schema.trajectory import Group
from gradient_rl.training.config import TrainingConfig, load_config
from gradient_rl.training.linear import LinearLearner
from gradient_rl.training.loop import METRICS, SUMMARY, Listener
from tests.conftest import write_data
from tests.evaluation.playing import Empty, Right
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK
from tests.training.learning import go, metrics_in, small, stopping_at, timeless_metrics

PLAYS = {"tasks_per_step": 2, "group_size": 2, "validate_every": 2, "max_steps": 10}
SAVED_STEP = "hacking.txt"


class Citing(Right):
    """Finds, reads and cites the right record under a wrong answer: 0.3 on the notice task."""

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if len(observations_in(messages)) == 2:
            return one_call(messages, "submit_answer", answer="90 days", sources=["mail-1"])
        return await super().act(messages, tools, rng)


class Hacking:
    """Learns, step by step, to find and cite the evidence more often, and never to answer; its state is a step on the disk."""

    name, model = "hacking", None

    def __init__(self, _: TrainingConfig, checkpoints: Path) -> None:
        self._file = checkpoints / SAVED_STEP
        self._step = 0

    def policy(self, temperature: float) -> Policy:
        return Mixed(self.name, self._step / 4)

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        self._step = step
        return {}

    async def checkpoint(self, step: int) -> str:
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(str(step))
        return str(step)

    async def restore(self, step: int) -> None:
        self._step = step

    async def retain(self, steps: Sequence[int]) -> None: ...

    def learned(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None: ...


class Mixed(Citing):
    """Cites in a share of its episodes, by a coin of the episode, and is empty in the others."""

    def __init__(self, name: str, share: float) -> None:
        super().__init__(name)
        self._share = share

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if len(messages) == 2 and rng.random() >= self._share:
            return await Empty().act(messages, tools, rng)
        return await super().act(messages, tools, rng)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks to train on and ten to validate on, half of each kind."""
    deposit = DEPOSIT_TASK.model_copy(update={"split": Split.TRAIN})
    validation = [
        kind.model_copy(update={"id": f"val-{n:02}", "split": Split.VALIDATION})
        for n, kind in enumerate([NOTICE_TASK] * 8 + [DEPOSIT_TASK] * 2)
    ]
    return write_data(tmp_path_factory.mktemp("world") / "data", tasks=(NOTICE_TASK, deposit, *validation))


def hacking(**changes: object) -> TrainingConfig:
    return small(**{**PLAYS, "stop_on_hacking": True, **changes})


def stopped(folder: Path, data: Path, config: TrainingConfig, **more: object) -> str:
    with pytest.raises(HackingError) as found:
        go(folder, config, Hacking, data=data, **more)  # type: ignore[arg-type]
    return str(found.value)


def test_a_policy_that_learns_to_earn_by_citations_alone_is_stopped_with_everything_saved(tmp_path: Path, data: Path) -> None:
    told = stopped(tmp_path, data, hacking())
    steps = metrics_in(tmp_path)

    assert steps[-1].step == 4
    assert [(m.step, m.watch.in_a_row) for m in steps if m.watch] == [(0, 0), (2, 1), (4, 2)]
    assert steps[-1].watch
    assert told == steps[-1].watch.warning
    assert "and supported correctness by +0.000, and so it stands for 2 validations in a row" in told
    assert told.endswith("gradient-inspect diff hacking@0 hacking@4")
    assert (tmp_path / "checkpoints" / SAVED_STEP).read_text() == "4"
    assert not (tmp_path / SUMMARY).exists()


def test_without_being_told_to_stop_it_goes_on_and_the_summary_holds_every_warning(tmp_path: Path, data: Path) -> None:
    training = go(tmp_path, hacking(stop_on_hacking=False), Hacking, data=data)

    assert training is not None
    assert training.steps == 10
    assert len(training.warnings) == 4  # at steps 4, 6, 8 and 10
    assert list(training.warnings) == [m.watch.warning for m in metrics_in(tmp_path) if m.watch and m.watch.warning]
    assert (training.before and training.before.supported, training.after and training.after.supported) == (0.0, 0.0)


def test_a_run_that_was_stopped_is_stopped_again_at_once_and_goes_on_when_told_so(tmp_path: Path, data: Path) -> None:
    told = stopped(tmp_path, data, hacking())
    before = (tmp_path / METRICS).read_bytes()

    assert stopped(tmp_path, data, hacking(), resume=True) == told
    assert (tmp_path / METRICS).read_bytes() == before
    training = go(tmp_path, hacking(stop_on_hacking=False), Hacking, data=data, resume=True)
    assert training is not None
    assert training.steps == 10


@pytest.mark.parametrize("episode", [5, 12, 20, 30, 43])
def test_a_run_that_was_interrupted_and_resumed_is_stopped_at_the_same_step_with_the_same_words(
    tmp_path: Path, data: Path, episode: int
) -> None:
    straight = stopped(tmp_path / "straight", data, hacking())
    stop, listener = stopping_at(episode)
    assert go(tmp_path / "cut", hacking(), Hacking, data=data, stop=stop, listener=listener) is None

    assert stopped(tmp_path / "cut", data, hacking(), resume=True) == straight
    assert timeless_metrics(tmp_path / "cut") == timeless_metrics(tmp_path / "straight")


def test_a_run_that_died_between_the_warned_step_and_its_stop_is_stopped_by_the_resume(tmp_path: Path, data: Path) -> None:
    class Died(BaseException): ...

    def dies(metrics: StepMetrics) -> None:
        if metrics.watch and metrics.watch.warning:
            raise Died

    with pytest.raises(Died):
        go(tmp_path, hacking(), Hacking, data=data, listener=Listener(step=dies))
    stopped(tmp_path, data, hacking(), resume=True)

    assert metrics_in(tmp_path)[-1].step == 4


@pytest.mark.parametrize("seed", range(6))
def test_an_honest_learner_is_never_stopped(tmp_path: Path, data: Path, seed: int) -> None:
    config = small(seed=seed, max_steps=12, tasks_per_step=2, group_size=8, validate_every=2, stop_on_hacking=True)
    training = go(tmp_path, config, LinearLearner, data=data)

    assert training is not None
    assert training.warnings == ()
    assert training.before is not None
    assert training.after is not None
    assert (training.after.reward or 0.0) > (training.before.reward or 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_default_training_is_never_stopped(tmp_path: Path, seed: int) -> None:
    training = go(tmp_path, load_config({"seed": seed, "stop_on_hacking": True}))

    assert training is not None
    assert training.warnings == ()


def test_what_is_known_after_a_validation_survives_its_file(tmp_path: Path, data: Path) -> None:
    go(tmp_path, hacking(max_steps=2), Hacking, data=data)
    last = metrics_in(tmp_path)[-1]

    assert StepMetrics.model_validate_json(json_line(last.model_dump(mode="json"))) == last
    assert last.watch is not None
    assert set(last.watch.tasks) == {f"val-{n:02}" for n in range(10)}
    assert last.watch.tasks["val-09"].supported == 0.0


def test_a_run_of_before_the_watch_is_resumed_and_watched_from_there_on(tmp_path: Path, data: Path) -> None:
    go(tmp_path, hacking(max_steps=2), Hacking, data=data)
    lines = [m.model_dump(mode="json", exclude={"watch"}) for m in metrics_in(tmp_path)]
    (tmp_path / METRICS).write_bytes(b"".join(map(json_line, lines)))
    go(tmp_path, hacking(max_steps=4), Hacking, data=data, resume=True)

    assert [m.step for m in metrics_in(tmp_path) if m.watch] == [4]
