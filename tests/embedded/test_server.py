from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

import pytest

from gradient_rl.embedded.faults import Faults
from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.model import ArtGroup, Completion, Message
from gradient_rl.embedded.server import EmbeddedServer, serving
from gradient_rl.errors import ArtifactError, DataError, UsageError
from tests.embedded.bandit import Bandit
from tests.embedded.calling import (
    KEY,
    LATEST,
    NAMES,
    call,
    complete,
    events_of,
    example,
    failure,
    finetune,
    group,
    outcome,
    register,
    steps_of,
    train,
)
from tests.test_house import HEAVY, loaded_by


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with serving(Bandit()) as running:
        yield running


class Unwilling(Bandit):
    """Neither answers nor learns."""

    def complete(self, messages: Sequence[Message], tools: Sequence[Message], **_: object) -> Completion:
        raise UsageError("a conversation must end with a question")

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        raise ZeroDivisionError("no variance")


class Telling(Bandit):
    """Tells given metrics, and makes no state."""

    def __init__(self, *metrics: float) -> None:
        super().__init__()
        self.metrics = metrics

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        yield from ({"loss": value} for value in self.metrics)


class Waiting(Bandit):
    """Trains only as far as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        self.begun.set()
        assert self.go_on.wait(5)
        yield from super().train(groups, config, step=step)


def test_a_model_is_registered_under_its_names(server: EmbeddedServer) -> None:
    first, second = (call(server, "POST", "/preview/models", NAMES) for _ in range(2))

    assert first == second
    assert first.body == {
        "id": first.body["id"], "entity": "us", "project": "tests", "name": "run", "base_model": "bandit", "run_id": "run",
    }  # fmt: skip


def test_a_model_without_an_entity_belongs_to_the_local_one(server: EmbeddedServer) -> None:
    assert call(server, "POST", "/preview/models", {**NAMES, "entity": None}).body["entity"] == "local"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"return_existing": False}, "us/tests/run exists; register it with return_existing"),
        ({"name": "other"}, "this server holds us/tests/run; delete that model, or start another server for us/tests/other"),
    ],
)
def test_a_second_registration_of_another_kind_is_a_conflict(
    server: EmbeddedServer, changes: dict[str, Any], told: str
) -> None:
    register(server)

    assert call(server, "POST", "/preview/models", {**NAMES, **changes}) == (409, {"error": {"message": told}})


def test_a_deleted_model_is_gone_with_its_checkpoints(server: EmbeddedServer) -> None:
    model_id = register(server)
    outcome(server, train(server, model_id))

    assert call(server, "DELETE", f"/preview/models/{model_id}") == (204, None)
    assert complete(server).status == 404
    assert steps_of(server, register(server)) == [0]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/preview/models/none", None),
        ("GET", "/preview/models/none/checkpoints", None),
        ("DELETE", "/preview/models/none/checkpoints", {"steps": [1]}),
        ("POST", "/preview/models/none/log", {}),
        ("POST", "/preview/training-jobs", {"model_id": "none", "trajectory_groups": []}),
        ("GET", "/preview/training-jobs/none/events", None),
        ("GET", "/nowhere", None),
    ],
)
def test_what_is_not_there_is_not_found(server: EmbeddedServer, method: str, path: str, body: object) -> None:
    status, answer = call(server, method, path, body)

    assert status == 404
    assert "no" in answer["error"]["message"].lower()


def test_trajectories_to_be_logged_are_taken(server: EmbeddedServer) -> None:
    body = {"trajectory_groups": [], "split": "val"}

    assert call(server, "POST", f"/preview/models/{register(server)}/log", body) == (200, {})


def test_examples_are_learned_as_the_next_step_in_the_form_of_any_job(server: EmbeddedServer) -> None:
    model_id = register(server)
    job_id = finetune(server, model_id, [example("deposit"), example("deposit")]).body["id"]

    events = outcome(server, job_id)
    assert [(event["type"], event["data"]) for event in events] == [
        ("training_started", {"num_sequences": 2}),
        ("gradient_step", {"calls": 1.0}),
        ("gradient_step", {"calls": 1.0}),
        ("training_ended", {}),
    ]
    assert steps_of(server, model_id) == [0, 1]


def test_examples_move_the_model_to_what_was_said_in_them() -> None:
    model = Bandit()
    with serving(model) as server:
        outcome(server, finetune(server, register(server), [example("deposit"), example("deposit")]).body["id"])

    assert model.logits == {0: [0.0] * 5, 1: [0.0, 1.0, 0.0, 0.0, 0.0]}


def test_examples_that_lie_at_wandb_are_not_fetched(server: EmbeddedServer) -> None:
    body = {"model_id": register(server), "training_data_url": "wandb-artifact:///us/tests/data:v0", "config": {}}
    status, answer = call(server, "POST", "/preview/sft-training-jobs", body)

    assert status == 501
    assert answer["error"]["message"] == "this server fetches no examples from W&B; send them with the job, as 'trajectories'"


def test_a_model_that_takes_no_examples_says_so(tmp_path: Path) -> None:
    with serving(LinearModel(tmp_path)) as server:
        told = failure(server, finetune(server, register(server), [example("deposit")]).body["id"])

    assert told == "the linear policy has no warm start: what it takes in is an action's features, and no text"


class Together(Bandit):
    """Answers only once it is asked three questions at a time."""

    concurrency = 3

    def __init__(self) -> None:
        super().__init__()
        self.met = threading.Barrier(3)

    def complete(self, messages: Sequence[Message], tools: Sequence[Message], **named: Any) -> Completion:  # noqa: ANN401
        self.met.wait(timeout=3)
        return super().complete(messages, tools, **named)


def test_a_model_is_asked_for_as_many_completions_at_once_as_it_takes() -> None:
    with serving(Together()) as server, ThreadPoolExecutor(3) as threads:
        register(server)
        statuses = [threads.submit(complete, server) for _ in range(3)]

        assert [status.result().status for status in statuses] == [200, 200, 200]


def test_the_path_may_do_without_its_version(server: EmbeddedServer) -> None:
    assert call(server, "POST", "/preview/models", NAMES, prefix="").body["id"] == register(server)


def test_a_job_tells_its_steps_and_leaves_a_checkpoint(server: EmbeddedServer) -> None:
    model_id = register(server)
    events = outcome(server, train(server, model_id, [group((0, 1.0), (1, 0.0)), group((2, 0.5))]))

    assert [event["type"] for event in events] == ["training_started", "gradient_step", "gradient_step", "training_ended"]
    assert [event["data"] for event in events] == [
        {"num_sequences": 3}, {"reward": 0.5, "learning_rate": 1.0}, {"reward": 0.5, "learning_rate": 1.0}, {},
    ]  # fmt: skip
    assert steps_of(server, model_id) == [0, 1]


def test_events_and_checkpoints_come_in_pages(server: EmbeddedServer) -> None:
    model_id = register(server)
    job_id = train(server, model_id)
    first, second, third = outcome(server, job_id)
    rest = call(server, "GET", f"/preview/training-jobs/{job_id}/events?after={first['id']}&limit=1").body
    newest = call(server, "GET", f"/preview/models/{model_id}/checkpoints?limit=1&order=desc").body

    assert rest == {"data": [second], "has_more": True}
    assert newest == {"data": [{"id": f"{model_id}-step1", "step": 1, "metrics": {}}], "has_more": True}
    assert steps_of(server, model_id, f"?after={model_id}-step1") == [0]
    assert third["type"] == "training_ended"


def test_jobs_wait_for_their_turn_and_build_on_each_other() -> None:
    model = Waiting()
    with serving(model) as server:
        model_id = register(server)
        first, second = train(server, model_id), train(server, model_id)
        assert model.begun.wait(5)
        waiting = events_of(server, second)
        busy = call(server, "DELETE", f"/preview/models/{model_id}")
        model.go_on.set()
        outcome(server, first)
        outcome(server, second)

    assert waiting == []
    assert busy.status == 409
    assert model.steps() == [0, 1, 2]


def test_chats_are_answered_while_a_job_runs() -> None:
    model = Waiting()
    with serving(model) as server:
        train(server, register(server))
        assert model.begun.wait(5)
        answered = complete(server)
        model.go_on.set()

    assert answered.body["system_fingerprint"] == "step0"


def test_a_stopped_server_gives_up_its_jobs() -> None:
    model = Waiting()
    with serving(model) as server:
        model_id = register(server)
        train(server, model_id)
        train(server, model_id)
        assert model.begun.wait(5)
        threading.Timer(0.1, model.go_on.set).start()

    assert model.steps() == [0]


def test_deleted_checkpoints_are_counted_and_the_base_stays(server: EmbeddedServer) -> None:
    model_id = register(server)
    for _ in range(2):
        outcome(server, train(server, model_id))
    answer = call(server, "DELETE", f"/preview/models/{model_id}/checkpoints", {"steps": [0, 1, 7]})

    assert answer == (200, {"deleted_count": 1, "not_found_steps": [0, 7]})
    assert steps_of(server, model_id) == [0, 2]


def test_a_chat_samples_the_latest_or_the_pinned_step(server: EmbeddedServer) -> None:
    outcome(server, train(server, register(server)))

    assert complete(server).body["system_fingerprint"] == "step1"
    assert complete(server, model=f"{LATEST}:step0").body["system_fingerprint"] == "step0"
    assert (
        complete(server, model=f"{LATEST}:step2").body["error"]["message"] == "run has no checkpoint of step 2; it has [0, 1]"
    )


def test_a_seed_decides_and_without_one_the_order_of_requests_does(server: EmbeddedServer) -> None:
    register(server)
    seeded = {complete(server, seed=7).body["choices"][0]["token_ids"][0] for _ in range(8)}
    unseeded = [complete(server).body["choices"][0]["token_ids"][0] for _ in range(8)]
    with serving(Bandit()) as again:
        register(again)
        for _ in range(8):
            complete(again, seed=7)
        repeated = [complete(again).body["choices"][0]["token_ids"][0] for _ in range(8)]

    assert len(seeded) == 1
    assert len(set(unseeded)) > 1
    assert repeated == unseeded


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic local"}])
def test_a_request_without_a_key_is_refused(server: EmbeddedServer, headers: dict[str, str]) -> None:
    assert call(server, "POST", "/preview/models", NAMES, headers=headers).status == 401


@pytest.mark.parametrize(("key", "status"), [("secret", 200), ("local", 401)])
def test_a_server_with_a_key_takes_no_other(key: str, status: int) -> None:
    with serving(Bandit(), token="secret") as server:
        assert call(server, "POST", "/preview/models", NAMES, headers={"Authorization": f"Bearer {key}"}).status == status


def test_another_host_is_refused(server: EmbeddedServer) -> None:
    assert call(server, "POST", "/preview/models", NAMES, headers={**KEY, "Host": "evil.example"}).status == 403


def test_a_body_of_two_megabytes_is_read(server: EmbeddedServer) -> None:
    groups = [{**group((0, 1.0)), "logs": ["x" * 2_000_000]}]

    assert outcome(server, train(server, register(server), groups))[-1]["type"] == "training_ended"


def test_nan_is_refused_and_a_wrong_method_too(server: EmbeddedServer) -> None:
    assert call(server, "POST", "/preview/models", b'{"project": NaN}').status == 400
    assert call(server, "PUT", "/preview/models", b"{}").status == 405


def test_a_job_that_cannot_train_says_why(server: EmbeddedServer) -> None:
    model_id = register(server)

    assert failure(server, train(server, model_id, [])) == "there are no groups; send at least one"
    assert failure(server, train(server, model_id, [{"trajectories": []}])).startswith("group 0 has nothing to train on")
    assert steps_of(server, model_id) == [0]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Unwilling(), "ZeroDivisionError: no variance"),
        (Telling(0.5, float("nan")), "the metric 'loss' is nan; training has diverged"),
        (Telling(0.5), "the model was trained from step 0 and has no step 1"),
    ],
)
def test_whatever_goes_wrong_in_training_ends_the_job(model: Bandit, told: str) -> None:
    with serving(model) as server:
        assert failure(server, train(server, register(server))) == told


def test_what_a_model_will_not_go_on_with_is_refused() -> None:
    with serving(Unwilling()) as server:
        register(server)

        assert complete(server) == (400, {"error": {"message": "a conversation must end with a question"}})


def test_chosen_jobs_fail() -> None:
    with serving(Bandit(), faults=Faults(fail_jobs=frozenset({1}))) as server:
        model_id = register(server)

        assert failure(server, train(server, model_id)) == "job 1 was made to fail"
        assert outcome(server, train(server, model_id))[-1]["type"] == "training_ended"


def test_a_job_whose_answer_is_lost_trains_all_the_same() -> None:
    with serving(Bandit(), faults=Faults(lose_training_answer=frozenset({1}))) as server:
        model_id = register(server)
        with pytest.raises(RemoteDisconnected):
            train(server, model_id)
        outcome(server, "job-1")

        assert steps_of(server, model_id) == [0, 1]


def test_the_events_of_a_stalled_job_never_end() -> None:
    with serving(Bandit(), faults=Faults(stall_events=frozenset({1}))) as server:
        model_id = register(server)
        stalled = train(server, model_id)
        outcome(server, train(server, model_id))

        assert [event["type"] for event in events_of(server, stalled)] == ["training_started", "gradient_step"]


def test_keys_and_chosen_completions_are_refused() -> None:
    with serving(Bandit(), faults=Faults(refuse_key=True)) as server:
        assert call(server, "POST", "/preview/models", NAMES).status == 401
    with serving(Bandit(), faults=Faults(completion_status={2: 503})) as server:
        register(server)
        assert [complete(server).status for _ in range(3)] == [200, 503, 200]


def test_a_server_that_starts_again_knows_its_model(tmp_path: Path) -> None:
    model = Bandit()
    with serving(model, folder=tmp_path) as server:
        model_id = register(server)
        outcome(server, train(server, model_id))
    saved = json.loads((tmp_path / "models.json").read_text())
    with serving(model, folder=tmp_path) as server:
        steps = steps_of(server, model_id)

    assert [(found["id"], found["name"], found["checkpoints"]) for found in saved["models"]] == [(model_id, "run", [0, 1])]
    assert steps == [0, 1]


def test_a_step_that_was_saved_before_the_process_ended_is_noted_by_the_next(tmp_path: Path) -> None:
    model = Bandit()
    with serving(model, folder=tmp_path) as server:
        before, _ = (tmp_path / "models.json").exists(), register(server)
    noted = (tmp_path / "models.json").read_bytes()
    with serving(model, folder=tmp_path) as server:
        outcome(server, train(server, register(server)))
    (tmp_path / "models.json").write_bytes(noted)
    with serving(model, folder=tmp_path):
        pass

    assert not before
    assert json.loads((tmp_path / "models.json").read_text())["models"][0]["checkpoints"] == [0, 1]


def test_the_folder_lets_go_of_a_step_before_the_model_does(tmp_path: Path) -> None:
    class Looking(Bandit):
        def forget(self, steps: Sequence[int]) -> None:
            seen.extend(json.loads((tmp_path / "models.json").read_text())["models"][0]["checkpoints"])
            super().forget(steps)

    seen: list[int] = []
    with serving(Looking(), folder=tmp_path) as server:
        model_id = register(server)
        outcome(server, train(server, model_id))
        call(server, "DELETE", f"/preview/models/{model_id}/checkpoints", {"steps": [1]})

    assert seen == [0]


def test_a_server_does_not_start_on_weights_that_are_not_there(tmp_path: Path) -> None:
    with serving(Bandit(), folder=tmp_path) as server:
        outcome(server, train(server, register(server)))

    with pytest.raises(DataError, match="names step 1, which the model does not have"):
        EmbeddedServer(Bandit(), folder=tmp_path)


def test_a_damaged_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("{")

    with pytest.raises(DataError, match="is damaged; move it away"), serving(Bandit(), folder=tmp_path):
        pass


def test_a_folder_that_cannot_be_written_fails_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    with serving(Bandit(), folder=folder) as server:
        model_id = register(server)
        (folder / "models.json").unlink()
        folder.rmdir()

        assert failure(server, train(server, model_id)).startswith(ArtifactError.__name__)


def test_an_error_of_the_caller_stops_the_server() -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), serving(Bandit()):
        raise KeyError

    assert threading.active_count() == before


def test_a_server_runs_in_the_callers_own_loop() -> None:
    async def twice() -> list[int]:
        ports = []
        for _ in range(2):
            async with EmbeddedServer(Bandit()) as server:
                ports.append((await asyncio.to_thread(complete, server)).status)
        return ports

    assert asyncio.run(twice()) == [404, 404]


def test_importing_the_server_loads_no_http_library() -> None:
    loaded = loaded_by("import gradient_rl.embedded.server")

    assert not loaded & (HEAVY | {"aiohttp", "httpx", "numpy"})


def test_a_connection_left_open_does_not_hold_up_the_stop() -> None:
    with serving(Bandit()) as server:
        url = urlsplit(server.base_url)
        connection = HTTPConnection(str(url.hostname), url.port)
        connection.request("GET", "/nowhere", headers=KEY)
        assert connection.getresponse().read()
        begun = time.monotonic()
    took_s = time.monotonic() - begun
    connection.close()

    assert took_s < 1.0


def learned(seed: int, shuffled: bool) -> list[float]:
    """The mean reward of ten jobs, one group of sixteen each; 1 is paid for the first of five replies."""
    rng = random.Random(seed)
    with serving(Bandit()) as server:
        model_id, means = register(server), []
        for job in range(10):
            drawn = [complete(server, seed=1000 * seed + 16 * job + i).body["choices"][0]["token_ids"][0] for i in range(16)]
            rewards = [float(token == 0) for token in drawn]
            means.append(fmean(rewards))
            paid = rng.sample(rewards, 16) if shuffled else rewards
            body = [group(*zip(drawn, paid, strict=True))]
            config = {"model_id": model_id, "trajectory_groups": body, "experimental_config": {"learning_rate": 4.0}}
            outcome(server, call(server, "POST", "/preview/training-jobs", config).body["id"])
    return means


def test_reward_rises_over_ten_jobs_and_not_when_rewards_are_shuffled() -> None:
    runs = [(learned(seed, shuffled=False), learned(seed, shuffled=True)) for seed in range(3)]

    assert min(fmean(honest[-3:]) for honest, _ in runs) > 0.9
    assert fmean(fmean(honest[:1]) for honest, _ in runs) < 0.4
    assert fmean(fmean(shuffled[-3:]) for _, shuffled in runs) < 0.5
