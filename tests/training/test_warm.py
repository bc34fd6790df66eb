"""The warm start in the loop and through the unmodified library: its place, its state, and what happens when it is interrupted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradient_rl.embedded.faults import Faults
from gradient_rl.embedded.server import EmbeddedServer, serving
from gradient_rl.errors import DataError, ServiceError, UsageError
from gradient_rl.evaluation.run import Stop
from gradient_rl.policies.adapters import art_checkpoints, read_art_state
from gradient_rl.policies.features import Kind
from gradient_rl.runs import hold_folder
from gradient_rl.schema.training import Training
from gradient_rl.schema.trajectory import Trajectory
from gradient_rl.training import imitation
from gradient_rl.training.art import ArtLearner, Service
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.demonstrations import demonstrations
from gradient_rl.training.examples import save_examples, saved_examples
from gradient_rl.training.linear import LinearLearner
from gradient_rl.training.loop import CHECKPOINTS, Listener, Plan, plan_training, prepare_folder, train
from tests.training.art_runs import RUN_NAME, Bench, Crash, Pupil, jobs_sent_to, tiny_training_data

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls", "quick_events")


@pytest.fixture
def quick_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitation, "EVENTS_S", 0.01)


class WarmBench(Bench):
    """Trains with the examples that a command would bring."""

    inline = True

    @property
    def config(self) -> TrainingConfig:
        return super().config.model_copy(update={"warm_start": 4, "warm_start_learning_rate": 0.25, "warm_start_batch": 2})

    def planned(self) -> Plan:
        plan = plan_training(self.config, self.data, budget=self.budget)
        return replace(plan, examples=demonstrations(plan.train, plan.setting, 4, plan.config.seed))

    def train(
        self, server: EmbeddedServer, resume: bool = False, stop: Stop | None = None, listener: Listener | None = None
    ) -> Training | None:
        with hold_folder(self.folder):
            plan = prepare_folder(self.planned(), self.folder, resume=resume)
            service = Service(
                server.base_url, self.key, RUN_NAME, poll_s=0.02, job_deadline_s=self.job_deadline_s, reads_examples=self.inline
            )
            learner = self.make(plan.config, service, self.folder / CHECKPOINTS)
            return train(plan, learner, self.folder, stop or Stop(), listener)

    @property
    def places(self) -> list[tuple[int, str]]:
        return [(metrics["step"], metrics["checkpoint"]) for metrics in self.metrics]

    @property
    def noted(self) -> dict[str, int]:
        return {c.label: read_art_state(c.path).server_step for c in art_checkpoints(self.checkpoints) if c.path}


WHOLE = [(0, "0"), (0, "warm"), (1, "1"), (2, "2")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_training_data(tmp_path_factory.mktemp("world") / "data")


@pytest.fixture
def bench(data: Path, tmp_path: Path) -> WarmBench:
    return WarmBench(data, tmp_path / "artifacts", seed=2)


def timeless(bench: WarmBench) -> list[dict[str, Any]]:
    """The metrics without seconds, and without what the learner measured, which is unknown of a step that was found."""
    return [{name: value for name, value in m.items() if name not in ("seconds", "learner", "run_id")} for m in bench.metrics]


def played(bench: WarmBench) -> set[tuple[int, str, str]]:
    return {(t["step"], t["split"], t["checkpoint"]) for t in bench.trajectories}


def test_the_warm_start_lies_between_the_base_and_the_first_step(bench: WarmBench) -> None:
    pupil = Pupil()
    with serving(pupil) as server:
        training = bench.train(server)

    assert bench.places == WHOLE
    assert bench.noted == {"0": 0, "warm": 1, "1": 2, "2": 3}
    assert played(bench) == {
        (0, "validation", "0"), (0, "validation", "warm"), (1, "train", "warm"), (2, "train", "1"), (2, "validation", "2"),
    }  # fmt: skip
    warm = bench.metrics[1]
    assert warm["learner"] == {"examples": 4.0, "loss": 2.0, "last_loss": 1.0, "batch": 2.0}
    assert set(warm["seconds"]) == {"warm_start", "score", "validate"}
    assert training is not None
    figures = [played and played.model_dump() for played in (training.before, training.warm, training.after)]
    assert figures == [bench.metrics[place]["validation"] for place in (0, 1, 3)]
    moved = pupil.weights(1)[Kind.MOVE] - pupil.weights(0)[Kind.MOVE]
    assert (moved[0], moved[1:].any()) == (0.25, False)


def test_the_model_is_sent_the_conversations_and_the_tools(bench: WarmBench) -> None:
    pupil = Pupil()
    with serving(pupil) as server:
        bench.train(server)
    examples = bench.planned().examples

    assert [list(transcript["messages"]) for transcript in pupil.taught[0]] == [list(t.messages) for t in examples]
    assert [tool["function"]["name"] for tool in pupil.taught[0][0]["tools"]] == [
        tool["function"]["name"] for tool in examples[0].tools
    ]


def test_the_state_of_the_warm_start_is_kept_to_the_end(bench: WarmBench) -> None:
    bench.max_steps = 5
    with serving(Pupil()) as server:
        bench.train(server)
        steps = list(server._registry.model.steps())

    assert {"0", "warm", "5"} <= set(bench.noted)
    assert "1" not in bench.noted
    assert {0, 1} <= set(steps)


# Interrupted


def crashing_in(method: str, at: object = None) -> type[ArtLearner]:
    """A learner whose process ends once this method is through; of a step, if one is given."""

    class Crashing(ArtLearner):
        pass

    original: Callable[..., Any] = getattr(ArtLearner, method)

    async def call(self: ArtLearner, *arguments: Any) -> object:  # noqa: ANN401
        result = await original(self, *arguments)
        if at is None or arguments[0] == at:
            raise Crash
        return result

    setattr(Crashing, method, call)
    return Crashing


@pytest.mark.parametrize(
    ("method", "at", "done"),
    [
        ("checkpoint", 0, []),
        ("warm_start", None, WHOLE[:1]),
        ("checkpoint_warm", None, WHOLE[:1]),
        ("update", 1, WHOLE[:2]),
        ("checkpoint", 1, WHOLE[:2]),
        ("update", 2, WHOLE[:3]),
    ],
)
def test_a_run_that_died_anywhere_ends_as_one_that_did_not(
    bench: WarmBench, tmp_path: Path, method: str, at: object, done: list[tuple[int, str]]
) -> None:
    whole = WarmBench(bench.data, tmp_path / "whole", seed=2)
    with serving(Pupil()) as server:
        whole.train(server)
    pupil = Pupil()
    with serving(pupil) as server:
        bench.make = crashing_in(method, at)
        with pytest.raises(Crash):
            bench.train(server)
        assert bench.places == done if done else not bench.metrics
        bench.make = ArtLearner
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (timeless(bench), bench.noted) == (timeless(whole), whole.noted)
    assert (sent, len(pupil.taught)) == (3, 1)


def test_a_run_stopped_while_the_warm_start_is_validated_goes_on_there(bench: WarmBench) -> None:
    stop = Stop()

    def on_episode(trajectory: Trajectory) -> None:
        if trajectory.checkpoint == "warm":
            stop.request()

    pupil = Pupil()
    with serving(pupil) as server:
        bench.train(server, stop=stop, listener=Listener(episode=on_episode))
        bench.train(server, resume=True)

    assert (bench.places, len(pupil.taught)) == (WHOLE, 1)


def test_ctrl_c_during_the_warm_start_loses_nothing_that_the_service_did(bench: WarmBench) -> None:
    pupil, stop = Pupil(), Stop(grace_s=0.0)
    pupil.on_lesson = stop.request
    with serving(pupil) as server:
        assert bench.train(server, stop=stop) is None
        assert bench.train(server, resume=True)

    assert (bench.places, len(pupil.taught)) == (WHOLE, 1)
    assert bench.metrics[1]["learner"] == {"recovered": 1.0}


@pytest.mark.parametrize("faults", [Faults(lose_training_answer=frozenset({1})), Faults(stall_events=frozenset({1}))])
def test_a_warm_start_of_which_nothing_was_heard_is_found_and_not_sent_again(bench: WarmBench, faults: Faults) -> None:
    bench.job_deadline_s = 1.0
    pupil = Pupil()
    with serving(pupil, faults=faults) as server:
        bench.train(server)

    assert (bench.places, len(pupil.taught)) == (WHOLE, 1)
    assert bench.metrics[1]["learner"] == {"examples": 4.0, "recovered": 1.0}


def test_a_warm_start_that_failed_is_told_and_made_when_the_run_goes_on(bench: WarmBench) -> None:
    with serving(Pupil(), faults=Faults(fail_jobs=frozenset({1}))) as server:
        with pytest.raises(ServiceError, match="Warm start failed: job 1 was made to fail"):
            bench.train(server)
        assert not bench.marker.exists()
        assert bench.train(server, resume=True)

    assert bench.places == WHOLE


def test_a_lost_line_of_the_warm_start_is_refused(bench: WarmBench) -> None:
    with serving(Pupil()) as server:
        bench.train(server)
        lines = (bench.folder / "train.metrics.jsonl").read_bytes().splitlines(keepends=True)
        (bench.folder / "train.metrics.jsonl").write_bytes(b"".join([lines[0], *lines[2:]]))
        bench.max_steps = 3
        with pytest.raises(DataError, match=r"tells of step 1 of run '.*' where step warm of '.*' belongs"):
            bench.train(server, resume=True)


def test_a_learner_that_cannot_imitate_is_refused(bench: WarmBench) -> None:
    with pytest.raises(UsageError, match="--warm-start: linear has no warm start"):
        train(bench.planned(), LinearLearner(bench.config, bench.checkpoints), bench.folder, Stop())


# On the service


def test_the_service_gets_the_examples_by_the_librarys_own_upload(bench: WarmBench, monkeypatch: pytest.MonkeyPatch) -> None:
    import art

    seen: list[tuple[list[Any], Any, Any]] = []

    async def upload(self: Any, model: Any, trajectories: Any, *rest: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        config, dev, *_ = rest
        given = list(trajectories)
        seen.append(([t.messages() for t in given], config, dev))
        body = {"model_id": model.id, "trajectories": [{"messages": t.messages()} for t in given], "config": {}}
        async for metrics in _job(self._client, body | {"config": {"learning_rate": config.learning_rate, "batch_size": 1}}):
            yield metrics

    async def _job(client: Any, body: dict[str, Any]) -> AsyncIterator[Any]:  # noqa: ANN401
        from art.serverless.client import SFTTrainingJob

        job = await client.post("/preview/sft-training-jobs", cast_to=SFTTrainingJob, body=body)
        async for metrics in imitation._gradient_steps(client, job.id):
            yield metrics

    monkeypatch.setattr(art.ServerlessBackend, "_train_sft", upload)
    bench.inline = False
    with serving(Pupil()) as server:
        bench.train(server)
    [(messages, config, dev)] = seen

    assert bench.places == WHOLE
    assert [[m["role"] for m in said] for said in messages] == [
        [m["role"] for m in t.messages] for t in bench.planned().examples
    ]
    assert (config.learning_rate, config.batch_size, dev["metric_logging"]) == (0.25, 2, {"enabled": False})


# The examples themselves


def test_examples_are_saved_and_read_back(bench: WarmBench, tmp_path: Path) -> None:
    examples = bench.planned().examples
    save_examples(tmp_path, examples)

    assert saved_examples(tmp_path) == examples
    assert saved_examples(tmp_path / "elsewhere") == ()


def test_a_damaged_example_is_named_by_its_line(bench: WarmBench, tmp_path: Path) -> None:
    save_examples(tmp_path, bench.planned().examples[:2])
    path = tmp_path / "checkpoints/warm.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + json.dumps({"run_id": 3}).encode())

    with pytest.raises(DataError, match=r"warm.jsonl line 2 is damaged"):
        saved_examples(tmp_path)
