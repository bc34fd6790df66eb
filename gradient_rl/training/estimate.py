"""What a training run would send, estimated before it begins by playing some of its tasks with the heuristic policy."""

from __future__ import annotations

import asyncio

from gradient_rl.policies.endpoint import Price
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.rollout.runner import Job, run_group
from gradient_rl.training.loop import Plan
from gradient_rl.training.payload import payload_size

SAMPLED_TASKS = 8


def estimate(plan: Plan, price: Price | None) -> str:
    """The plan in words: steps, groups, episodes, and about how many tokens, with their cost where a price is known."""
    config = plan.config
    rollouts = config.max_steps * plan.episodes_per_step
    validations = 1 + bool(config.warm_start) + -(-config.max_steps // config.validate_every)
    episodes = rollouts + validations * len(plan.validation) * config.validation_samples
    prompt, sampled = (int(tokens * episodes) for tokens in _tokens_of_an_episode(plan))
    cost = f", about {price.cost_usd(prompt, sampled):,.2f} USD for them" if price else ""
    steps = f"{config.max_steps} step{'s' * (config.max_steps != 1)}"
    groups = f"{config.tasks_per_step} group{'s' * (config.tasks_per_step != 1)}"
    return (
        f"{config.base_model}: {steps} of {groups} of {config.group_size}; with the "
        f"validations {episodes:,} episodes. If they are as long as the heuristic policy's: about {prompt:,} prompt and "
        f"{sampled:,} completion tokens{cost}."
    )


def _tokens_of_an_episode(plan: Plan) -> tuple[float, float]:
    """Mean prompt and completion tokens, taking four characters for one."""
    groups = [
        asyncio.run(run_group([Job(HeuristicPolicy(), task, plan.config.seed)], plan.setting))
        for task in plan.train[:SAMPLED_TASKS]
    ]
    size = payload_size(groups)
    return size.prompt_tokens / size.trajectories, size.sampled_tokens / size.trajectories
