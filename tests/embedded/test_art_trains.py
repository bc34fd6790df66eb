"""The linear policy learns through the unmodified openpipe-art: real episodes, its client, its groups, its training jobs."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from gradient_rl.embedded.linear import LinearModel
from gradient_rl.environment.workspace import load_tasks, load_workspace
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import Endpoint
from gradient_rl.policies.linear import named
from gradient_rl.rollout.runner import Setting, setting_for
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.groups import sort_groups
from gradient_rl.training.linear import LinearLearner
from tests.embedded.episodes import AS_SERVED, as_art, group_by, groups_of
from tests.embedded.library import play

if TYPE_CHECKING:
    import art

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls")

TAUGHT_STEPS = 12
SEED_OF_THE_CHOICE = 1
"""Not the one that the tests play with, so that no episode that spoke for a task is counted as its start."""


@pytest.fixture(scope="module")
def setting(data_dir: Path) -> Setting:
    return setting_for(load_workspace(data_dir))


@pytest.fixture(scope="module")
def tasks(data_dir: Path, setting: Setting) -> list[Task]:
    """The four training tasks on which the untrained policy earns most: elsewhere its groups are mostly all wrong."""
    loaded = [task for task in load_tasks(data_dir / "tasks" / "train.jsonl").tasks if task.split == "train"]
    groups = groups_of(loaded, setting, size=16, seed=SEED_OF_THE_CHOICE)
    earned = {group.task_id: fmean(rewards_of(group)) for group in groups}
    return sorted(loaded, key=lambda task: -earned[task.id])[:4]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, setting: Setting, tasks: list[Task]) -> Path:
    """States of a model that was taught without the library until it earns something in nearly every group."""
    folder = tmp_path_factory.mktemp("taught")
    model = LinearModel(folder)
    for step in range(TAUGHT_STEPS):
        weights = model.weights(step)
        groups = groups_of(tasks, setting, 8, step, SEED_OF_THE_CHOICE, weights)
        list(model.train([as_art(group) for group in groups], {}, step=step))
    return folder


@pytest.fixture
def folder(taught: Path, tmp_path: Path) -> Path:
    return shutil.copytree(taught, tmp_path / "states")


def chat_policy(model: art.TrainableModel[Any, Any]) -> ChatPolicy:
    """The policy as it would play through any endpoint, with the library's own client."""
    endpoint = Endpoint(str(model.inference_base_url), str(model.inference_api_key), model.get_inference_name(), logprobs=True)
    return ChatPolicy(endpoint, temperature=1.0, open_client=model.openai_client)


def sent(group: Group, rewards: Sequence[float]) -> art.TrajectoryGroup:
    import art

    made = [art.Trajectory(messages_and_choices=entries(t), reward=r) for t, r in zip(group.trajectories, rewards, strict=True)]
    return art.TrajectoryGroup(made)


def entries(trajectory: Trajectory) -> list[Any]:
    from openai.types.chat.chat_completion import Choice

    left = iter(trajectory.choices)
    return [Choice.model_validate(next(left)) if m["role"] == "assistant" else m for m in trajectory.messages]


def rewards_of(group: Group) -> list[float]:
    return [reward for reward in group.rewards if reward is not None]


class Run:
    """Steps of rolling out and training, and what they left."""

    def __init__(self, setting: Setting, tasks: Sequence[Task], size: int = 8, shuffled: bool = False, seed: int = 0) -> None:
        self.setting, self.tasks, self.size, self.shuffled, self.seed = setting, tasks, size, shuffled, seed
        self.steps: list[list[Group]] = []
        self.metrics: list[Mapping[str, float]] = []
        self.rng = random.Random(seed)

    async def steps_of(self, backend: art.ServerlessBackend, model: art.TrainableModel[Any, Any], count: int) -> None:
        for step in range(count):
            policy = chat_policy(model)
            groups = [await group_by(policy, task, self.setting, self.size, step, self.seed) for task in self.tasks]
            self.steps.append(groups)
            result = await backend.train(model, [sent(group, self.paid(group)) for group in groups])
            self.metrics.append(result.metrics)

    def paid(self, group: Group) -> list[float]:
        """Shuffled, the rewards of a group say nothing of the episodes they stand at."""
        rewards = rewards_of(group)
        return self.rng.sample(rewards, len(rewards)) if self.shuffled else rewards

    @property
    def means(self) -> list[float]:
        return [fmean(reward for group in groups for reward in rewards_of(group)) for groups in self.steps]


def run_steps(folder: Path, run: Run, count: int, served: LinearModel | None = None) -> Run:
    play(folder, lambda backend, model: run.steps_of(backend, model, count), served or LinearModel(None))
    return run


def test_two_steps_of_real_episodes_teach_what_the_plain_learner_would_learn(
    setting: Setting, tasks: list[Task], folder: Path, local_only: list[str]
) -> None:
    served, learner = LinearModel(folder), LinearLearner(AS_SERVED, folder)
    asyncio.run(learner.restore(TAUGHT_STEPS))
    run = run_steps(folder, Run(setting, tasks), 2, served)
    used = [sort_groups([as_played(group) for group in groups]).used for groups in run.steps]
    for step, groups in enumerate(used, start=1):
        asyncio.run(learner.update(step, groups))

    assert all(used)
    assert served.steps()[-1] == TAUGHT_STEPS + 2
    assert named(served.weights(TAUGHT_STEPS + 2)) == pytest.approx(named(learner._weights), abs=1e-12)
    assert named(served.weights(TAUGHT_STEPS + 2)) != named(served.weights(TAUGHT_STEPS))
    assert local_only == []


def test_the_metrics_of_a_step_have_the_librarys_names(setting: Setting, tasks: list[Task], folder: Path) -> None:
    [metrics] = run_steps(folder, Run(setting, tasks), 1, LinearModel(folder)).metrics

    names = {f"loss/{name}" for name in ("train", "entropy", "kl_div", "grad_norm", "learning_rate", "clipped")}
    assert metrics.keys() >= names
    assert metrics["loss/learning_rate"] == pytest.approx(5e-6)
    assert metrics["data/step_num_trajectories"] == 32.0


def test_nothing_of_a_reply_is_lost_on_the_way(setting: Setting, tasks: list[Task], tmp_path: Path) -> None:
    run = run_steps(tmp_path, Run(setting, tasks[:1], size=2), 1)

    for trajectory in run.steps[0][0].trajectories:
        calls = [call["id"] for m in trajectory.messages for call in m.get("tool_calls", ())]
        answered = [m["tool_call_id"] for m in trajectory.messages if m["role"] == "tool"]
        assert calls == answered == [f"call_{2 + 2 * turn}" for turn in range(len(calls))]
        for turn, choice in enumerate(trajectory.choices):
            assert [token["token"] for token in choice["logprobs"]["content"]] == [str(i) for i in choice["token_ids"]]
            assert len(choice["prompt_token_ids"]) == 2 + 2 * turn
        assert trajectory.usage.completion_tokens == sum(len(choice["token_ids"]) for choice in trajectory.choices)


def as_played(group: Group) -> Group:
    """The episodes as the plain policy would have left them."""
    return group.model_copy(update={"trajectories": tuple(map(_as_played, group.trajectories))})


def _as_played(trajectory: Trajectory) -> Trajectory:
    choices = [
        {"decisions": c["token_ids"], "logprobs": [token["logprob"] for token in c["logprobs"]["content"]]}
        for c in trajectory.choices
    ]
    return trajectory.model_copy(update={"choices": tuple(choices)})


@pytest.mark.slow
def test_reward_rises_over_twenty_steps(setting: Setting, tasks: list[Task], tmp_path: Path) -> None:
    means = run_steps(tmp_path, Run(setting, tasks), 20).means

    assert fmean(means[-3:]) - fmean(means[:3]) > 0.08, means


@pytest.mark.slow
def test_reward_does_not_rise_when_rewards_are_shuffled_within_their_groups(
    setting: Setting, tasks: list[Task], tmp_path: Path
) -> None:
    means = run_steps(tmp_path, Run(setting, tasks, shuffled=True), 20).means

    assert fmean(means[-3:]) - fmean(means[:3]) < 0.05, means
