"""The unmodified openpipe-art trains against the server, and nothing of it leaves this machine."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from gradient_rl.embedded.faults import Faults
from tests.embedded.bandit import END, QUERIES, Bandit
from tests.embedded.calling import QUESTION
from tests.embedded.library import play, trained_model

if TYPE_CHECKING:
    import art

GOOD = f'{{"query": "{QUERIES[0]}"}}'


pytestmark = pytest.mark.usefixtures("local_only")


async def rollout(model: art.TrainableModel[Any, Any], name: str | None = None, seed: int | None = None) -> art.Trajectory:
    import art

    more: dict[str, Any] = {} if seed is None else {"seed": seed}
    answer = await model.openai_client().chat.completions.create(
        model=name or model.get_inference_name(), messages=QUESTION, logprobs=True, **more
    )  # fmt: skip
    [choice] = answer.choices
    arguments = choice.message.tool_calls[0].function.arguments
    return art.Trajectory(messages_and_choices=[*QUESTION, choice], reward=float(arguments == GOOD))


async def group_of(model: art.TrainableModel[Any, Any], size: int = 8, first_seed: int = 0) -> art.TrajectoryGroup:
    import art

    return await art.trajectory_group([rollout(model, seed=first_seed + i) for i in range(size)])


async def tokens(model: art.TrainableModel[Any, Any], step: int) -> list[int]:
    """The replies of one step to ten seeds."""
    made = [await rollout(model, model.get_inference_name(step=step), seed) for seed in range(10)]
    return [trajectory.messages_and_choices[-1].model_extra["token_ids"][0] for trajectory in made]


def test_a_completion_reaches_the_library_with_its_tokens(tmp_path: Path) -> None:
    async def body(_: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> Any:  # noqa: ANN401
        return (await rollout(model)).messages_and_choices[-1]

    choice = play(tmp_path, body)

    assert choice.model_extra["prompt_token_ids"] == [0]
    assert choice.model_extra["token_ids"][1] == END
    assert [round(token.logprob, 4) for token in choice.logprobs.content] == [-1.6094, 0.0]
    assert choice.message.tool_calls[0].function.name == "search"


def test_one_training_step_at_the_librarys_own_pace(tmp_path: Path, local_only: list[str]) -> None:
    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> tuple[Any, ...]:
        before = await model.get_step()
        result = await backend.train(model, [await group_of(model)], learning_rate=2.0)
        return before, result, await model.get_step()

    before, result, after = play(tmp_path, body)

    assert (before, result.step, after) == (0, 1, 1)
    assert result.artifact_name == "local/tests/run:step1"
    assert result.metrics["loss/learning_rate"] == 2.0
    assert result.metrics["data/step_num_trajectories"] == 8.0
    assert local_only == []


@pytest.mark.usefixtures("quick_polls")
def test_a_pinned_step_answers_as_it_did_before_training(tmp_path: Path) -> None:
    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> tuple[list[int], ...]:
        before = await tokens(model, 0)
        for job in range(3):
            await backend.train(model, [await group_of(model, 16, 16 * job)], learning_rate=8.0)
        return before, await tokens(model, 0), await tokens(model, 3)

    before, pinned, latest = play(tmp_path, body)

    assert pinned == before
    assert latest.count(0) > before.count(0)


@pytest.mark.usefixtures("quick_polls")
def test_deleted_checkpoints_are_gone_and_the_latest_and_the_base_stay(tmp_path: Path) -> None:
    served = Bandit()

    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> int:
        for _ in range(3):
            await backend.train(model, [await group_of(model)])
        await model.delete_checkpoints()
        return await model.get_step()

    assert play(tmp_path, body, served) == 3
    assert served.steps() == [0, 3]


@pytest.mark.usefixtures("quick_polls")
def test_registering_again_goes_on_where_training_stopped(tmp_path: Path) -> None:
    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> tuple[Any, ...]:
        await backend.train(model, [await group_of(model)])
        again = trained_model(tmp_path)
        await again.register(backend)
        return model.id, again.id, await again.get_step()

    first, second, step = play(tmp_path, body)

    assert first == second
    assert step == 1


@pytest.mark.usefixtures("quick_polls")
def test_a_failed_job_is_a_runtime_error_and_makes_no_step(tmp_path: Path) -> None:
    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> int:
        with pytest.raises(RuntimeError, match="Training job failed: job 1 was made to fail"):
            await backend.train(model, [await group_of(model)])
        return await model.get_step()

    assert play(tmp_path, body, faults=Faults(fail_jobs=frozenset({1}))) == 0


@pytest.mark.usefixtures("quick_polls")
def test_replies_taken_down_as_plain_messages_cannot_be_trained_on(tmp_path: Path) -> None:
    import art

    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> None:
        plain = art.Trajectory(messages_and_choices=[*QUESTION, {"role": "assistant", "content": "60 days"}], reward=1.0)
        with pytest.raises(RuntimeError, match="group 0 has nothing to train on"):
            await backend.train(model, [art.TrajectoryGroup([plain])])

    play(tmp_path, body)


@pytest.mark.usefixtures("quick_polls")
def test_a_lost_answer_is_an_error_of_the_connection_and_the_step_is_made(tmp_path: Path) -> None:
    import openai

    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> int:
        with pytest.raises(openai.APIConnectionError):
            await backend.train(model, [await group_of(model)])
        while await model.get_step() == 0:
            await asyncio.sleep(0.01)
        return await model.get_step()

    assert play(tmp_path, body, faults=Faults(lose_training_answer=frozenset({1}))) == 1


@pytest.mark.usefixtures("quick_polls")
def test_events_that_never_end_keep_the_library_waiting(tmp_path: Path) -> None:
    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.train(model, [await group_of(model)]), 0.3)
        return await model.get_step()

    assert play(tmp_path, body, faults=Faults(stall_events=frozenset({1}))) == 1


def test_a_refused_key_is_an_authentication_error(tmp_path: Path) -> None:
    import openai

    async def body(_: art.ServerlessBackend, __: art.TrainableModel[Any, Any]) -> None:
        raise AssertionError("the model was registered")

    with pytest.raises(openai.AuthenticationError, match="the key is missing or not accepted"):
        play(tmp_path, body, faults=Faults(refuse_key=True))


def test_a_completion_that_fails_once_is_asked_for_again(tmp_path: Path) -> None:
    async def body(_: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> int:
        return len((await rollout(model)).messages_and_choices)

    assert play(tmp_path, body, faults=Faults(completion_status={1: 500})) == 2


def test_a_deleted_model_is_unknown(tmp_path: Path) -> None:
    import openai

    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> None:
        await backend.delete(model)
        with pytest.raises(openai.NotFoundError):
            await rollout(model)

    play(tmp_path, body)


def rewards_of_ten_jobs(folder: Path, shuffled: bool) -> list[float]:
    """Mean reward before each of ten steps; when shuffled, rewards say nothing of the replies they stand at."""
    rng = random.Random(0)

    async def body(backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any]) -> list[float]:
        means = []
        for job in range(10):
            group = await group_of(model, 16, first_seed=16 * job)
            rewards = [trajectory.reward for trajectory in group]
            means.append(fmean(rewards))
            for trajectory, reward in zip(group, rng.sample(rewards, 16) if shuffled else rewards, strict=True):
                trajectory.reward = reward
            await backend.train(model, [group], learning_rate=4.0)
        return means

    return play(folder, body)


@pytest.mark.usefixtures("quick_polls")
def test_reward_rises_over_ten_jobs_and_not_when_rewards_are_shuffled(tmp_path: Path) -> None:
    honest, shuffled = (rewards_of_ten_jobs(tmp_path, shuffled) for shuffled in (False, True))

    assert honest[0] == shuffled[0] < 0.4
    assert fmean(honest[-3:]) > 0.9
    assert fmean(shuffled[-3:]) < 0.5


def test_another_machine_cannot_be_reached(local_only: list[str]) -> None:
    with pytest.raises(OSError, match="a test reached for example.org"):
        socket.create_connection(("example.org", 443))

    assert local_only == ["example.org"]
