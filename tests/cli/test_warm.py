"""Where the examples of a warm start come from."""

from pathlib import Path

import pytest

from gradient_rl.cli.warm import examples_for
from gradient_rl.training.config import load_config
from gradient_rl.training.loop import Plan, plan_training

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_training(load_config({"policy": "art", "warm_start": 90}), DATA)


def test_few_tasks_are_worded_anew_and_another_world_gives_the_rest(plan) -> None:
    examples = examples_for(plan, DATA, 90, seed=0)
    own = [example for example in examples if example.digests.workspace == plan.setting.digests.workspace]

    assert (len(examples), len(own)) == (90, 2 * len(plan.train))
    assert {example.task_id for example in own} == {task.id for task in plan.train}
    assert min(example.reward.total for example in examples) >= 0.8


def test_no_other_world_is_made_where_there_are_tasks_enough(plan) -> None:
    examples = examples_for(plan, DATA, 30, seed=0)

    assert {example.digests.workspace for example in examples} == {plan.setting.digests.workspace}
    assert len({example.task_id for example in examples}) == 30
