"""Episodes that the linear policy plays, and their groups in the form in which ART sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gradient_rl.policies.base import Policy
from gradient_rl.policies.linear import LinearPolicy, Weights, zero_weights
from gradient_rl.rollout.runner import Job, Setting, run_group
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.config import TrainingConfig


async def group_by(policy: Policy, task: Task, setting: Setting, size: int, step: int = 0, seed: int = 0) -> Group:
    jobs = [Job(policy, task, seed, step=step, sample=sample) for sample in range(size)]
    return await run_group(jobs, setting, concurrency=8)


def groups_of(
    tasks: Sequence[Task], setting: Setting, size: int, step: int = 0, seed: int = 0, weights: Weights | None = None
) -> list[Group]:
    """Groups of the plain policy; without weights, of the untrained one."""
    policy = LinearPolicy(weights or zero_weights(), temperature=1.0)
    return [asyncio.run(group_by(policy, task, setting, size, step, seed)) for task in tasks]


def as_art(group: Group) -> dict[str, Any]:
    """A group of the plain policy's episodes as if the server had sampled them."""
    made = [{"messages_and_choices": said(t), "reward": t.reward.total} for t in group.trajectories if t.reward]
    return {"trajectories": made}


def said(trajectory: Trajectory) -> list[dict[str, Any]]:
    left = iter(trajectory.choices)
    return [_choice(m, **next(left)) if m["role"] == "assistant" else m for m in trajectory.messages]


def _choice(message: dict[str, Any], decisions: Sequence[int], logprobs: Sequence[float]) -> dict[str, Any]:
    content = [{"token": str(d), "logprob": logprob} for d, logprob in zip(decisions, logprobs, strict=True)]
    more = {"refusal": None, "annotations": None, "function_call": None}
    return {
        "finish_reason": "tool_calls",
        "message": {**message, **more},
        "token_ids": list(decisions),
        "logprobs": {"content": content},
    }


AS_SERVED = TrainingConfig(
    learning_rate=0.05, update_epochs=4, clip_ratio=0.2, entropy_bonus=0.01, weight_decay=0.0, credit_by_part=False
)
"""The plain learner's settings that the served model has built in. It is sent total rewards, and so knows no parts."""
