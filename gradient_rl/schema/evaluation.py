"""An evaluation: what was measured of each policy, and how the policies compare. The content of `eval.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gradient_rl.schema.trajectory import Digests
from gradient_rl.schema.workspace import FrozenRecord

EVALUATION_SCHEMA_VERSION = 1


class Metric(FrozenRecord):
    """A mean over tasks with its 95% interval; None where the tasks cannot give one."""

    mean: float | None
    low: float | None
    high: float | None
    note: str = ""
    """Why a number is missing or the interval has no width."""


class Measured(FrozenRecord):
    """Some episodes, averaged: samples within a task first, then the tasks."""

    n_tasks: int
    """Tasks with a reward: what the means are taken over."""
    n_episodes: int
    """Episodes that were played, those without a reward among them."""
    excluded: int
    """Episodes without a reward: failures of the infrastructure."""
    metrics: dict[str, Metric]


class BehaviourResult(FrozenRecord):
    """How often a policy did a named thing, and what it earned where it did."""

    episodes: int
    share: float
    """Of the episodes with a reward."""
    reward: float | None
    """Mean over the episodes that showed it; None when none did."""


class PolicyResult(Measured):
    """What was measured of one policy."""

    families: dict[str, Measured]
    behaviours: dict[str, BehaviourResult]


class ComparisonResult(FrozenRecord):
    """A candidate against a baseline on one metric, task by task."""

    baseline: str
    candidate: str
    metric: str
    n_tasks: int
    """Tasks that have a reward under both."""
    unpaired: int
    """Tasks left out, because one of them has no reward there."""
    difference: float | None
    """Mean of candidate minus baseline."""
    low: float | None
    high: float | None
    p_value: float | None
    better: int
    same: int
    worse: int
    detectable_difference: float | None
    verdict: Literal["better", "worse", "inconclusive"] | None
    """None when over 5% of a policy's episodes are without a reward."""
    note: str
    """Why there is no winner or no verdict."""
    tasks_needed: dict[str, int | None]
    """By difference in the metric: tasks of this spread, at as many samples, that would detect it."""


class HackingWarning(FrozenRecord):
    """A candidate whose reward rose clear of zero while its supported correctness did not rise."""

    baseline: str
    candidate: str
    reward: float
    """Paired difference in reward."""
    supported: float
    """Paired difference in supported correctness."""
    text: str
    """The warning as a sentence, with both figures and what to look at."""


class Attempt(FrozenRecord):
    """What one policy did on one task."""

    rewards: tuple[float | None, ...]
    """One a sample; None for an infrastructure failure."""
    reward: float | None
    """Their mean."""
    answer: str | None
    """That of the first sample with a reward."""
    sources: tuple[str, ...]
    stop_reason: str
    error: str | None
    """What failed, for the first infrastructure failure."""


class TaskResult(FrozenRecord):
    """One task and what each policy did on it."""

    id: str
    family: str
    question: str
    expected: str
    """The required facts, as sentences."""
    policies: dict[str, Attempt]


class EvaluationHead(FrozenRecord):
    """What was run, on what."""

    schema_version: Literal[1] = EVALUATION_SCHEMA_VERSION
    run_id: str
    """The same inputs, the same id; empty for saved trajectories of several runs."""
    rescored: bool = False
    """Whether saved trajectories were scored again, without a rollout."""
    split: str
    samples: int
    """Of each task, under each policy."""
    temperature: float | None
    seed: int | None
    """None for saved trajectories."""
    baseline: str
    digests: Digests
    weights: dict[str, float]
    """Of the reward's parts."""
    require_opened: bool
    versions: dict[str, str]
    started_at: str = ""
    """ISO 8601, UTC: when the run began, also of one that was resumed."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Of the process that finished it."""


class Evaluation(EvaluationHead):
    """The whole of it. Nothing but `started_at` and `seconds` depends on when or in how many pieces it ran."""

    policies: dict[str, PolicyResult]
    """The baseline first."""
    comparisons: tuple[ComparisonResult, ...]
    tasks: tuple[TaskResult, ...]
    warnings: tuple[HackingWarning, ...] = ()
    """What the hacking watch warns of; empty also where an earlier version wrote the file."""
