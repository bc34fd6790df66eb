"""Gradient trains tool-using research agents with reinforcement learning and shows, honestly, whether they got better.

The names below are the public ones. They are loaded when they are first used, so that `import gradient_rl` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradient_rl.environment.episode import Episode, Limits
    from gradient_rl.environment.tools import TOOLS, Tool
    from gradient_rl.environment.workspace import Workspace, load_tasks, load_workspace
    from gradient_rl.errors import GradientError
    from gradient_rl.policies.base import Policy, Reply
    from gradient_rl.policies.heuristic import HeuristicPolicy
    from gradient_rl.policies.weak import WeakPolicy
    from gradient_rl.rewards.profile import RewardProfile, score
    from gradient_rl.rollout.runner import Job, Setting, run_episode, run_group, run_many, setting_for
    from gradient_rl.schema.task import Fact, Question, Reference, Task
    from gradient_rl.schema.trajectory import Group, Observation, Reward, Step, ToolCall, Trajectory
    from gradient_rl.schema.workspace import Document, Email

__version__ = "0.1.0"

_HOMES = {
    "environment.episode": ("Episode", "Limits"),
    "environment.tools": ("TOOLS", "Tool"),
    "environment.workspace": ("Workspace", "load_tasks", "load_workspace"),
    "errors": ("GradientError",),
    "policies.base": ("Policy", "Reply"),
    "policies.heuristic": ("HeuristicPolicy",),
    "policies.weak": ("WeakPolicy",),
    "rewards.profile": ("RewardProfile", "score"),
    "rollout.runner": ("Job", "Setting", "run_episode", "run_group", "run_many", "setting_for"),
    "schema.task": ("Fact", "Question", "Reference", "Task"),
    "schema.trajectory": ("Group", "Observation", "Reward", "Step", "ToolCall", "Trajectory"),
    "schema.workspace": ("Document", "Email"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "TOOLS",
    "Document",
    "Email",
    "Episode",
    "Fact",
    "GradientError",
    "Group",
    "HeuristicPolicy",
    "Job",
    "Limits",
    "Observation",
    "Policy",
    "Question",
    "Reference",
    "Reply",
    "Reward",
    "RewardProfile",
    "Setting",
    "Step",
    "Task",
    "Tool",
    "ToolCall",
    "Trajectory",
    "WeakPolicy",
    "Workspace",
    "load_tasks",
    "load_workspace",
    "run_episode",
    "run_group",
    "run_many",
    "score",
    "setting_for",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
