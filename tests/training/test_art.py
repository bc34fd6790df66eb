"""The ART learner, through the unmodified library: what it trains, and what it does when the service or the process fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from gradient_rl.embedded.faults import NO_FAULTS, Faults
from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.server import EmbeddedServer, serving
from gradient_rl.errors import ArtifactError, GuardError, MissingKeyError, ServiceError
from gradient_rl.evaluation.run import Stop
from gradient_rl.policies import chat
from gradient_rl.policies.adapters import Access, read_art_state, remote_entries
from gradient_rl.policies.catalog import find_player
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.schema.trajectory import Group
from gradient_rl.training.art import ArtLearner, _LostError, _told
from gradient_rl.training.loop import Budget, Listener
from tests.training.art_runs import Bench, Crash, jobs_sent_to, tiny_training_data

if TYPE_CHECKING:
    from aiohttp import web

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls")

TEACHING = 2
"""A seed with which the untrained policy earns something in every step."""
IDLE_IN_STEP_2 = 0
"""A seed with which all groups of step 2 are alike, and not those of steps 1, 3 and 4."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_training_data(tmp_path_factory.mktemp("world") / "data")


@pytest.fixture
def bench(data: Path, tmp_path: Path) -> Bench:
    return Bench(data, tmp_path / "artifacts", seed=TEACHING)


def served(faults: Faults = NO_FAULTS, token: str | None = None) -> AbstractContextManager[EmbeddedServer]:
    return serving(LinearModel(None), faults=faults, token=token)


def step_of(server: EmbeddedServer) -> int:
    return server._registry.latest()


def noted(bench: Bench) -> dict[int, int]:
    """The service's step by the run's."""
    paths = sorted(bench.checkpoints.glob("art-*.json"))
    return {state.step: state.server_step for state in map(read_art_state, paths)}


def crashing_in(method: str, at: int) -> type[ArtLearner]:
    """A learner whose process ends once this method of a step is through."""

    class Crashing(ArtLearner):
        pass

    original: Callable[..., Any] = getattr(ArtLearner, method)

    async def call(self: ArtLearner, step: int, *rest: object) -> object:
        result = await original(self, step, *rest)
        if step == at:
            raise Crash
        return result

    setattr(Crashing, method, call)
    return Crashing


# A run from its start to its end


def test_two_steps_train_and_note_their_adapters(bench: Bench, local_only: list[str]) -> None:
    with served() as server:
        training = bench.train(server)
        sent, steps = jobs_sent_to(server), step_of(server)

    assert training is not None
    assert (training.policy, training.steps, training.latest, training.excluded) == ("art", 2, "2", 0)
    assert (sent, steps, noted(bench)) == (2, 2, {0: 0, 1: 1, 2: 2})
    assert [m["learner"].get("sent_groups") for m in bench.metrics] == [None, 1.0, 2.0]
    assert bench.metrics[1]["learner"]["loss/learning_rate"] == pytest.approx(5e-6)
    assert {(t["policy"], t["model"], t["checkpoint"]) for t in bench.trajectories if t["split"] == "train"} == {
        ("art", "OpenPipe/Qwen3-14B-Instruct", "0"),
        ("art", "OpenPipe/Qwen3-14B-Instruct", "1"),
    }
    assert local_only == []


def test_a_key_for_the_tracker_in_the_environment_starts_no_tracker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, local_only: list[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "canary-0123456789abcdef")
    bench.max_steps = 1
    with served() as server:
        assert bench.train(server)

    assert local_only == []


def test_a_step_without_spread_sends_no_job_and_the_next_one_goes_on(bench: Bench) -> None:
    bench.seed, bench.max_steps = IDLE_IN_STEP_2, 3
    with served() as server:
        bench.train(server)
        sent = jobs_sent_to(server)

    assert sent == 2
    assert [m["used"] for m in bench.metrics] == [0, 1, 0, 2]
    assert bench.metrics[2]["learner"] == {"sent_groups": 0.0}
    assert noted(bench) == {0: 0, 1: 1, 2: 1, 3: 2}


def test_a_checkpoint_is_played_at_the_services_step_that_it_stands_for(bench: Bench) -> None:
    bench.seed, bench.max_steps = IDLE_IN_STEP_2, 3
    with served() as server:
        bench.train(server)
        [entry] = remote_entries(Access(server.base_url), ())
        models = [find_player(f"art@{step}", bench.checkpoints, catalog=[entry]).policy._endpoint.model for step in range(4)]

    assert [model.rpartition(":")[2] for model in models] == ["step0", "step1", "step1", "step2"]


def test_a_step_is_rolled_out_with_the_adapter_of_the_step_before(bench: Bench) -> None:
    played: list[str] = []

    class Noting(ArtLearner):
        def policy(self, temperature: float) -> ChatPolicy:
            policy = super().policy(temperature)
            played.append(policy._endpoint.model.rpartition(":")[2])
            return policy

    bench.make = Noting
    with served() as server:
        bench.train(server)

    assert played == ["step0", "step0", "step1", "step2"]  # the first and the last validate


def test_old_adapters_are_forgotten_here_and_at_the_service(bench: Bench) -> None:
    bench.max_steps = 6
    with served() as server:
        bench.train(server)
        steps = server._registry.model.steps()

    kept = noted(bench)
    assert set(kept) == {0, 4, 5, 6}
    assert set(steps) == set(kept.values())


# Going on


def test_a_run_that_was_stopped_between_steps_goes_on_from_the_services_step(bench: Bench) -> None:
    with served() as server:
        stop = Stop()
        stopped = bench.train(server, stop=stop, listener=Listener(step=lambda m: stop.request() if m.step == 1 else None))
        done = [m["step"] for m in bench.metrics]
        resumed = bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert stopped is None
    assert done == [0, 1]
    assert resumed is not None
    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})


def test_a_run_that_was_stopped_within_a_step_plays_no_episode_twice(bench: Bench) -> None:
    with served() as server:
        whole = Bench(bench.data, bench.folder.with_name("whole"), seed=TEACHING)
        stop = Stop()

        def on_episode(trajectory: Any) -> None:  # noqa: ANN401
            if trajectory.step == 2:  # eight of nine have begun, and only those end
                stop.request()

        assert bench.train(server, stop=stop, listener=Listener(episode=on_episode)) is None
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)
    with served() as server:
        whole.train(server)

    assert sent == 2
    assert ([t["attempt"] for t in bench.trajectories], bench.rewards) == ([0] * len(whole.trajectories), whole.rewards)


def test_something_else_that_trained_the_adapter_is_told(bench: Bench) -> None:
    with served() as server:
        bench.train(server)
        other = Bench(bench.data, bench.folder.with_name("other"), seed=TEACHING)
        other.max_steps = 1
        other.train(server)
        bench.max_steps = 3
        with pytest.raises(ServiceError, match="the service has step 3 of 'run', and this run's last is 2: something else"):
            bench.train(server, resume=True)


# The process ends at the worst moment


def test_a_crash_before_the_job_was_sent_sends_it_after_the_deadline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import art

    async def crash(*_: object, **__: object) -> None:
        raise Crash

    bench.job_deadline_s = 0.5
    with served() as server:
        with monkeypatch.context() as patched:
            patched.setattr(art.ServerlessBackend, "train", crash)
            with pytest.raises(Crash):
                bench.train(server)
        assert bench.marker.exists()
        assert jobs_sent_to(server) == 0
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})


def test_after_a_crash_no_job_of_a_server_that_ended_too_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import art

    async def crash(*_: object, **__: object) -> None:
        raise Crash

    bench.job_deadline_s, bench.jobs_outlive_us = 3600.0, False
    with served() as server:
        with monkeypatch.context() as patched:
            patched.setattr(art.ServerlessBackend, "train", crash)
            with pytest.raises(Crash):
                bench.train(server)
        assert bench.train(server, resume=True)
        assert jobs_sent_to(server) == 2


def test_a_lost_answer_is_made_good_by_reading_the_step_back(bench: Bench) -> None:
    with served(Faults(lose_training_answer=frozenset({1}))) as server:
        bench.train(server)
        sent = jobs_sent_to(server)

    assert sent == 2
    assert bench.metrics[1]["learner"] == {"sent_groups": 1.0, "recovered": 1.0}
    assert noted(bench) == {0: 0, 1: 1, 2: 2}


def test_a_crash_while_the_job_ran_sends_it_no_second_time(bench: Bench) -> None:
    bench.make = crashing_in("_train", 1)
    with served() as server:
        with pytest.raises(Crash):
            bench.train(server)
        bench.make = ArtLearner
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})
    assert bench.metrics[1]["learner"] == {"recovered": 1.0}


@pytest.mark.parametrize("step", [1, 2])
def test_a_crash_between_checkpoint_and_metrics_trains_the_step_once(bench: Bench, step: int) -> None:
    bench.make = crashing_in("checkpoint", step)
    with served() as server:
        with pytest.raises(Crash):
            bench.train(server)
        assert [m["step"] for m in bench.metrics] == list(range(step))
        bench.make = ArtLearner
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})


def test_a_crash_before_the_first_line_begins_anew(bench: Bench) -> None:
    bench.make = crashing_in("checkpoint", 0)
    with served() as server:
        with pytest.raises(Crash):
            bench.train(server)
        bench.make = ArtLearner
        assert bench.train(server, resume=True)
        assert jobs_sent_to(server) == 2


# The job fails


def test_a_failed_job_is_told_and_its_step_is_trained_when_the_run_goes_on(bench: Bench) -> None:
    with served(Faults(fail_jobs=frozenset({2}))) as server:
        with pytest.raises(
            ServiceError, match=r"training service at http://127.0.0.1:\d+/v1: Training job failed: job 2 was made"
        ):
            bench.train(server)
        assert not bench.marker.exists()
        assert [m["step"] for m in bench.metrics] == [0, 1]
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (3, {0: 0, 1: 1, 2: 2})


class FullDisk(LinearModel):
    def train(self, *_: object, **__: object) -> NoReturn:
        raise ArtifactError("models.json cannot be written: No space left on device; free some space")


@pytest.mark.parametrize(("outlives", "kind"), [(False, ArtifactError), (True, ServiceError)])
def test_a_full_disk_of_our_own_server_is_ours(bench: Bench, outlives: bool, kind: type[Exception]) -> None:
    bench.jobs_outlive_us = outlives
    with serving(FullDisk(None)) as server, pytest.raises(kind, match="models.json cannot be written") as caught:
        bench.train(server)

    assert isinstance(caught.value, kind)
    assert bench.marker.exists() is not outlives


def test_a_step_that_was_saved_before_the_disk_was_full_is_found(bench: Bench, tmp_path: Path) -> None:
    class FullBehind(LinearModel):
        def train(self, groups: Any, config: Any, *, step: int) -> Any:  # noqa: ANN401 - as the model has it
            yield from super().train(groups, config, step=step)
            raise ArtifactError("models.json cannot be written: No space left on device; free some space")

    bench.jobs_outlive_us = False
    with serving(FullBehind(tmp_path)) as server, pytest.raises(ArtifactError):
        bench.train(server)
    with serving(LinearModel(tmp_path)) as server:
        assert bench.train(server, resume=True)

    assert noted(bench) == {0: 0, 1: 1, 2: 2}


def test_a_job_whose_end_never_comes_but_whose_step_does_counts_as_done(bench: Bench) -> None:
    bench.job_deadline_s = 0.5
    with served(Faults(stall_events=frozenset({1}))) as server:
        bench.train(server)
        sent = jobs_sent_to(server)

    assert sent == 2
    assert bench.metrics[1]["learner"]["recovered"] == 1.0


class Slow(LinearModel):
    """Its jobs take this many seconds, or end when the server is stopped."""

    job_s = 3600.0
    on_job: Callable[[], None] = staticmethod(lambda: None)

    def train(self, groups: Sequence[Any], config: Mapping[str, Any], *, step: int) -> Iterator[Mapping[str, float]]:
        self.on_job()
        until = time.monotonic() + self.job_s
        while time.monotonic() < until:
            time.sleep(0.02)
            yield {}
        yield from super().train(groups, config, step=step)


def test_a_job_without_an_end_is_given_up_at_the_deadline(bench: Bench) -> None:
    bench.job_deadline_s = 0.3
    with serving(Slow(None)) as server:
        with pytest.raises(
            ServiceError, match="did not end the job in time; the job may still run, and --resume looks for its step"
        ):
            bench.train(server)
        assert bench.marker.exists()
        assert jobs_sent_to(server) == 1


def test_a_job_that_goes_on_when_the_run_was_stopped_is_found_when_it_is_resumed(bench: Bench) -> None:
    model, stop = Slow(None), Stop(grace_s=0.1)
    model.job_s, model.on_job = 0.6, stop.request
    with serving(model) as server:
        assert bench.train(server, stop=stop) is None
        assert bench.marker.exists()
        assert [m["step"] for m in bench.metrics] == [0]
        model.on_job = lambda: None
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})
    assert bench.metrics[1]["learner"] == {"recovered": 1.0}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Method and path of every request to a server of this test."""
    made: list[str] = []
    original = EmbeddedServer._guarded

    async def counted(self: EmbeddedServer, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401
        made.append(f"{request.method} {request.path}")
        return await original(self, request, handler)

    monkeypatch.setattr(EmbeddedServer, "_guarded", counted)
    return made


def answering(monkeypatch: pytest.MonkeyPatch, method: str, ending: str, answer: Callable[[], Any]) -> None:
    """Let the server give this answer to requests of a kind."""
    original = EmbeddedServer._guarded

    async def guarded(self: EmbeddedServer, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401
        if request.method == method and request.path.endswith(ending):
            return answer()
        return await original(self, request, handler)

    monkeypatch.setattr(EmbeddedServer, "_guarded", guarded)


def status(code: int) -> Callable[[], Any]:
    def answer() -> Any:  # noqa: ANN401
        from aiohttp import web

        return web.json_response({"error": {"message": "made to fail"}}, status=code)

    return answer


@pytest.mark.parametrize("code", [401, 404])
def test_a_job_whose_events_are_refused_may_still_run(bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with served() as server:
        with monkeypatch.context() as patched:
            answering(patched, "GET", "/events", status(code))
            answering(patched, "GET", "/checkpoints", status(code))
            with pytest.raises((ServiceError, MissingKeyError)):
                bench.train(server)
        assert bench.marker.exists()
        assert bench.train(server, resume=True)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})


@pytest.mark.parametrize("code", [400, 401, 429])
def test_a_job_that_was_refused_is_sent_again_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    bench.job_deadline_s = 3600.0
    with served() as server:
        with monkeypatch.context() as patched:
            answering(patched, "POST", "/training-jobs", status(code))
            with pytest.raises((ServiceError, MissingKeyError)):
                bench.train(server)
        assert not bench.marker.exists()
        assert bench.train(server, resume=True)
        assert jobs_sent_to(server) == 2


def test_a_job_that_began_behind_a_broken_gateway_is_not_sent_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    original = EmbeddedServer._guarded

    async def gateway(self: EmbeddedServer, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401
        answer = await original(self, request, handler)
        return status(502)() if request.path.endswith("/training-jobs") else answer

    monkeypatch.setattr(EmbeddedServer, "_guarded", gateway)
    with served() as server:
        assert bench.train(server)
        sent = jobs_sent_to(server)

    assert (sent, noted(bench)) == (2, {0: 0, 1: 1, 2: 2})


@pytest.mark.parametrize(("method", "kind"), [("GET", _LostError), ("POST", ServiceError)])
def test_only_a_job_that_was_never_posted_is_known_not_to_run(method: str, kind: type[ServiceError]) -> None:
    import httpx
    from openai import APIConnectionError

    url = "http://127.0.0.1:9/v1"
    unreachable = APIConnectionError(request=httpx.Request(method, url))
    unreachable.__cause__ = httpx.ConnectError("refused")
    with pytest.raises(ServiceError) as raised, _told(Endpoint(url, "", "m"), "KEY"):
        raise unreachable

    assert type(raised.value) is kind


def html() -> Any:  # noqa: ANN401
    from aiohttp import web

    return web.Response(text="<html>welcome</html>", content_type="text/html")


@pytest.mark.parametrize("ending", ["/models", "/training-jobs"])
def test_a_page_instead_of_an_answer_is_a_fault_of_the_service(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    bench.job_deadline_s = 0.3
    answering(monkeypatch, "POST", ending, html)
    with served() as server, pytest.raises(ServiceError, match="the training service at .* cannot be read"):
        bench.train(server)


def test_a_page_instead_of_events_is_made_good_by_reading_the_step_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "GET", "/events", html)
    with served() as server:
        assert bench.train(server)
        assert (jobs_sent_to(server), step_of(server)) == (2, 2)


# Keys


def test_a_refused_key_stops_the_run_after_one_request(bench: Bench, asked: list[str]) -> None:
    bench.key = "canary-0123456789abcdef"
    with served(token="another") as server, pytest.raises(MissingKeyError, match=r"refused the key \(HTTP 401\)") as raised:
        bench.train(server)

    assert asked == ["POST /v1/preview/models"]
    assert "canary" not in f"{raised.value}"


def test_no_file_holds_the_key_even_after_a_failure(bench: Bench) -> None:
    bench.key = "canary-0123456789abcdef"
    with served(Faults(fail_jobs=frozenset({2})), token=bench.key) as server, pytest.raises(ServiceError):
        bench.train(server)

    files = [path for path in bench.folder.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path for path in files if b"canary" in path.read_bytes()]


# Completions that fail, and money


def test_a_broken_completion_is_asked_for_again_by_the_policy_alone(
    bench: Bench, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "wait_s", lambda *_: 0.0)
    bench.max_steps = 1
    with served(Faults(completion_status={1: 500, 2: 502})) as server:
        training = bench.train(server)

    assert training is not None
    assert training.excluded == 0
    replies = sum(len(t["choices"]) for t in bench.trajectories)
    assert asked.count("POST /v1/chat/completions") == replies + 2


def test_an_episode_that_keeps_failing_has_no_reward_and_is_not_sent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "wait_s", lambda *_: 0.0)
    bench.max_steps = 1
    with served(Faults(completion_status=dict.fromkeys(range(5, 40), 503))) as server:
        training = bench.train(server)

    assert training is not None
    assert training.excluded > 0
    failed = [t for t in bench.trajectories if t["stop_reason"] == "transport_error"]
    assert len(failed) == training.excluded
    assert all(t["reward"] is None and "HTTP 503" in t["error"] for t in failed)


def test_a_budget_of_tokens_is_overshot_by_what_is_in_flight_at_most(bench: Bench) -> None:
    bench.budget, bench.max_steps = Budget(max_tokens=60), 50
    with served() as server, pytest.raises(GuardError, match="--max-tokens 60 is spent"):
        bench.train(server)

    tokens = [t["usage"]["prompt_tokens"] + t["usage"]["completion_tokens"] for t in bench.trajectories]
    assert 60 <= sum(tokens) < 60 + 8 * max(tokens)


# What it is all for


class Shuffled(ArtLearner):
    """Is told rewards that say nothing of the episodes they stand at."""

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        import random

        rng = random.Random(step)
        return await super().update(step, [self._mixed(group, rng) for group in groups])

    def _mixed(self, group: Group, rng: Any) -> Group:  # noqa: ANN401
        rewards = rng.sample([t.reward for t in group.trajectories], len(group.trajectories))
        mixed = [t.model_copy(update={"reward": r}) for t, r in zip(group.trajectories, rewards, strict=True)]
        return group.model_copy(update={"trajectories": tuple(mixed)})


def rise(bench: Bench) -> float:
    with served() as server:
        bench.train(server)
    return sum(bench.rewards[-4:]) / 4 - sum(bench.rewards[:4]) / 4


def test_reward_rises_over_twenty_steps(bench: Bench) -> None:
    bench.max_steps, bench.group_size = 20, 8

    assert rise(bench) > 0.3, bench.rewards


def test_reward_does_not_rise_when_rewards_are_shuffled_within_their_groups(bench: Bench) -> None:
    bench.max_steps, bench.group_size, bench.make = 20, 8, Shuffled

    assert rise(bench) < 0.15, bench.rewards
