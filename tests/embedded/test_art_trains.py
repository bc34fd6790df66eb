"""The linear policy learns through the unmodified openpipe-art: real episodes, its client, its groups, its training jobs."""

from __future__ import annotations

import asyncio
import random
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
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.groups import sort_groups
from gradient_rl.training.linear import LinearLearner
from tests.embedded.episodes import group_by
from tests.embedded.library import play

if TYPE_CHECKING:
    import art

pytestmark = pytest.mark.usefixtures("local_only", "quick_polls")


@pytest.fixture(scope="module")
def setting(data_dir: Path) -> Setting:
    return setting_for(load_workspace(data_dir))


@pytest.fixture(scope="module")
def tasks(data_dir: Path) -> list[Task]:
    return [task for task in load_tasks(data_dir / "tasks" / "train.jsonl").tasks if task.split == "train"][:4]


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


def test_two_steps_of_real_episodes(setting: Setting, tasks: list[Task], tmp_path: Path, local_only: list[str]) -> None:
    served = LinearModel(None)
    run = run_steps(tmp_path, Run(setting, tasks[:2], size=6), 2, served)

    assert served.steps() == [0, 1, 2]
    assert named(served._states[2].weights) != named(served._states[1].weights)
    for metrics in run.metrics:
        assert metrics.keys() >= {f"loss/{name}" for name in ("train", "entropy", "kl_div", "grad_norm", "learning_rate")}
        assert metrics["data/step_num_trajectories"] == 12.0
        assert metrics["loss/learning_rate"] == pytest.approx(5e-6)
    assert local_only == []


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


def test_what_is_learned_through_the_library_is_what_the_plain_learner_learns(
    setting: Setting, tasks: list[Task], tmp_path: Path
) -> None:
    served, learner = LinearModel(None), LinearLearner(TrainingConfig(), tmp_path)
    run = run_steps(tmp_path, Run(setting, tasks[:2], size=8), 1, served)
    used = sort_groups(
        [Group(task_id=g.task_id, trajectories=tuple(map(as_played, g.trajectories))) for g in run.steps[0]]
    ).used
    asyncio.run(learner.update(1, used))

    assert used
    assert named(served._states[1].weights) == pytest.approx(named(learner._weights), abs=1e-12)


def as_played(trajectory: Trajectory) -> Trajectory:
    """The episode as the plain policy would have left it."""
    choices = [
        {"decisions": c["token_ids"], "logprobs": [token["logprob"] for token in c["logprobs"]["content"]]}
        for c in trajectory.choices
    ]
    return trajectory.model_copy(update={"choices": tuple(choices)})


@pytest.mark.slow
def test_reward_rises_over_twenty_steps_and_not_when_rewards_are_shuffled(
    setting: Setting, tasks: list[Task], tmp_path: Path
) -> None:
    honest = run_steps(tmp_path / "honest", Run(setting, tasks), 20).means
    shuffled = run_steps(tmp_path / "shuffled", Run(setting, tasks, shuffled=True), 20).means

    print(honest, shuffled)
    assert fmean(honest[-3:]) - fmean(honest[:3]) > 0.1
    assert fmean(shuffled[-3:]) - fmean(shuffled[:3]) < 0.05
