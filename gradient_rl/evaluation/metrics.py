"""Metrics: what one episode measures, and what a policy's episodes measure together, whole, by family, by behaviour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.evaluation.statistics import Interval, Rewards, mean_interval, pass_hat_k, task_means
from gradient_rl.rewards.behaviours import Behaviour
from gradient_rl.rewards.citations import count_citations, says_something
from gradient_rl.rewards.profile import RewardProfile, submission_of
from gradient_rl.rewards.supported import supported_correctness
from gradient_rl.schema.evaluation import BehaviourResult, Measured, Metric, PolicyResult
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Reward, StopReason, Trajectory

REWARD = "reward"
SAVED_REWARD = "reward_as_saved"
"""The reward that a trajectory had before it was scored again."""
SUPPORTED = "supported"
"""Supported correctness: right, and the evidence opened and cited."""
PASS_AT_1 = "pass@1"
_SHARES = ("found", "read", "cited")
_OTHERS = ("citation_precision", "citation_recall", *_SHARES, SUPPORTED, "calls", "malformed")
_PART_METRICS = {"citation_quality": "citation_f1"}
"""Parts of a reward that are better known by another name."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an evaluation keeps of one episode."""

    task_id: str
    family: str
    step: int
    sample: int
    attempt: int
    values: Mapping[str, float] | None
    """By metric; None for an infrastructure failure."""
    passed: bool | None
    """Whether every required fact was stated and supported; None for an infrastructure failure."""
    behaviours: tuple[str, ...]
    answer: str | None
    sources: tuple[str, ...]
    stop_reason: StopReason
    error: str | None
    opened: frozenset[str] = frozenset()
    """Ids of the records that were opened."""

    @property
    def reward(self) -> float | None:
        """The total reward, if it has one."""
        return self.values[REWARD] if self.values else None


def measure(trajectory: Trajectory, task: Task, profile: RewardProfile, saved: Reward | None = None) -> Outcome:
    """Measure a trajectory that was scored by this profile.

    Args:
        trajectory: with its reward.
        task: the task that it worked on.
        profile: what its reward was computed with.
        saved: its earlier reward, when it was scored again.
    """
    reward = trajectory.reward
    return Outcome(
        task_id=trajectory.task_id,
        family=trajectory.family,
        step=trajectory.step,
        sample=trajectory.sample,
        attempt=trajectory.attempt,
        values=_values(trajectory, reward, task, saved) if reward else None,
        passed=_passed(trajectory, task, profile) if reward else None,
        behaviours=trajectory.behaviours,
        answer=trajectory.answer,
        sources=trajectory.sources,
        stop_reason=trajectory.stop_reason,
        error=trajectory.error,
        opened=trajectory.opened,
    )


def last_attempts(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The last attempt at each sample, in the order of task, step and sample."""
    by_sample: dict[tuple[str, int, int], Outcome] = {}
    for outcome in sorted(outcomes, key=lambda o: (o.task_id, o.step, o.sample, o.attempt)):
        by_sample[outcome.task_id, outcome.step, outcome.sample] = outcome
    return list(by_sample.values())


def metric_names(profile: RewardProfile, samples: int) -> list[str]:
    """The metrics that an evaluation under this profile computes, in the order in which they are shown."""
    parts = [_PART_METRICS.get(part, part) for part in profile.weights]
    return [REWARD, *parts, *_OTHERS, PASS_AT_1, *([pass_hat(samples)] if samples > 1 else [])]


def pass_hat(samples: int) -> str:
    """Name of the metric that all of so many samples are right."""
    return f"pass^{samples}"


def by_task(outcomes: Sequence[Outcome], metric: str) -> Rewards:
    """One value a sample, by task; None for an episode without a reward."""
    values: dict[str, list[float | None]] = defaultdict(list)
    for outcome in outcomes:
        values[outcome.task_id].append(outcome.values.get(metric) if outcome.values else None)
    return values


def policy_result(outcomes: Sequence[Outcome], samples: int) -> PolicyResult:
    """Everything that is measured of one policy."""
    families: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        families[outcome.family].append(outcome)
    whole = measured(outcomes, samples)
    return PolicyResult(
        n_tasks=whole.n_tasks,
        n_episodes=whole.n_episodes,
        excluded=whole.excluded,
        metrics=whole.metrics,
        families={family: measured(families[family], samples) for family in sorted(families)},
        behaviours={behaviour.value: _behaviour_result(outcomes, behaviour) for behaviour in Behaviour},
    )


def measured(outcomes: Sequence[Outcome], samples: int) -> Measured:
    """Each metric over these episodes: averaged within a task, then over the tasks, with an interval."""
    scored = [outcome.values for outcome in outcomes if outcome.values]
    names = dict.fromkeys(name for values in scored for name in values)
    metrics = {name: _metric(mean_interval(task_means(by_task(outcomes, name)).means.values())) for name in names}
    if scored:
        passes: dict[str, list[bool | None]] = defaultdict(list)
        for outcome in outcomes:
            passes[outcome.task_id].append(outcome.passed)
        metrics |= {PASS_AT_1: _metric(pass_hat_k(passes, 1))}
        metrics |= {pass_hat(samples): _metric(pass_hat_k(passes, samples))} if samples > 1 else {}
    return Measured(
        n_tasks=len({outcome.task_id for outcome in outcomes if outcome.values}),
        n_episodes=len(outcomes),
        excluded=len(outcomes) - len(scored),
        metrics=metrics or {REWARD: _metric(mean_interval(()))},
    )


def _values(trajectory: Trajectory, reward: Reward, task: Task, saved: Reward | None) -> dict[str, float]:
    before = {SAVED_REWARD: saved.total} if saved else {}
    parts = {_PART_METRICS.get(part.name, part.name): part.value for part in reward.parts}
    found, read, cited = coverage_of(trajectory, task).shares
    precision, recall = _precision_and_recall(trajectory, task)
    supported = supported_of(trajectory, task)
    others = (precision, recall, found, read, cited, supported, float(trajectory.calls), _is_malformed(trajectory))
    return {REWARD: reward.total, **before, **parts, **dict(zip(_OTHERS, others, strict=True))}


def supported_of(trajectory: Trajectory, task: Task) -> float:
    """Supported correctness of an episode; 0 for one that ended without an answer."""
    if trajectory.stop_reason is not StopReason.SUBMITTED:
        return 0.0
    return supported_correctness(submission_of(trajectory, task.for_grader(), RewardProfile()))


def _precision_and_recall(trajectory: Trajectory, task: Task) -> tuple[float, float]:
    """Of the citations; an answer without a word cites for nothing, as in the reward."""
    if not says_something(trajectory.answer or ""):
        return 0.0, 0.0
    counts = count_citations(submission_of(trajectory, task.for_grader(), RewardProfile()))
    return counts.precision, counts.recall


def _is_malformed(trajectory: Trajectory) -> float:
    return float(trajectory.stop_reason is StopReason.MALFORMED)


def _passed(trajectory: Trajectory, task: Task, profile: RewardProfile) -> bool:
    """From the submission itself, because a profile may leave correctness out."""
    if trajectory.stop_reason is not StopReason.SUBMITTED:
        return False
    return submission_of(trajectory, task.for_grader(), profile).correctness == 1.0


def _behaviour_result(outcomes: Sequence[Outcome], behaviour: Behaviour) -> BehaviourResult:
    scored = [outcome for outcome in outcomes if outcome.reward is not None]
    earned = [outcome.reward or 0.0 for outcome in scored if behaviour in outcome.behaviours]
    return BehaviourResult(
        episodes=len(earned),
        share=len(earned) / len(scored) if scored else 0.0,
        reward=fsum(earned) / len(earned) if earned else None,
    )


def _metric(interval: Interval) -> Metric:
    return Metric(mean=interval.mean, low=interval.low, high=interval.high, note=interval.note)
