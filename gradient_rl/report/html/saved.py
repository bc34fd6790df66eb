"""The evaluation that saved trajectories amount to, by the rewards that they were saved with: nothing is scored again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gradient_rl.evaluation.compare import evaluation_of
from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.evaluation.lineup import DEFAULT_BASELINE
from gradient_rl.evaluation.metrics import REWARD, SUPPORTED, Outcome, supported_of
from gradient_rl.evaluation.rescore import pairs_among
from gradient_rl.schema.evaluation import Evaluation, EvaluationHead
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Digests, StopReason, Trajectory

_METRIC_NAMES = {"citation_quality": "citation_f1"}
_SHARES = ("found", "read", "cited")

type Played = tuple[str, Trajectory]
"""The name under which a policy is compared, and an episode of it."""


def evaluation_of_saved(played: Sequence[Played], tasks: Mapping[str, Task]) -> Evaluation:
    """Compare every policy with the first, or with `weak` where it plays, and a learned one with what it was before.

    With one task there is nothing to compare.

    Args:
        played: episodes, the last attempt of each sample.
        tasks: by id, as far as they are known; of the others it is not measured what was found, read, cited and supported.
    """
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for name, trajectory in played:
        outcomes[name].append(_outcome(trajectory, tasks.get(trajectory.task_id)))
    first = DEFAULT_BASELINE if DEFAULT_BASELINE in outcomes else next(iter(outcomes), "")
    ordered = {name: outcomes[name] for name in sorted(outcomes, key=lambda name: name != first)}
    several = len({t.task_id for _, t in played}) > 1
    return evaluation_of(_head(played, first), (), ordered, pairs_among(list(ordered), first) if several else ())


def _outcome(trajectory: Trajectory, task: Task | None) -> Outcome:
    return Outcome(
        task_id=trajectory.task_id,
        family=trajectory.family,
        step=0,  # a name holds the step where two differ in it
        sample=trajectory.sample,
        attempt=trajectory.attempt,
        values=_values(trajectory, task),
        passed=_passed(trajectory),
        behaviours=trajectory.behaviours,
        answer=trajectory.answer,
        sources=trajectory.sources,
        stop_reason=trajectory.stop_reason,
        error=trajectory.error,
    )


def _values(trajectory: Trajectory, task: Task | None) -> dict[str, float] | None:
    if trajectory.reward is None:
        return None
    parts = {_METRIC_NAMES.get(part.name, part.name): part.value for part in trajectory.reward.parts}
    shares: dict[str, float] = {}
    if task:
        shares = dict(zip(_SHARES, coverage_of(trajectory, task).shares, strict=True))
        shares[SUPPORTED] = supported_of(trajectory, task)
    malformed = float(trajectory.stop_reason is StopReason.MALFORMED)
    return {REWARD: trajectory.reward.total, **parts, **shares, "calls": float(trajectory.calls), "malformed": malformed}


def _passed(trajectory: Trajectory) -> bool | None:
    if trajectory.reward is None:
        return None
    correct = {part.name: part.value for part in trajectory.reward.parts}.get("correctness", trajectory.reward.total)
    return trajectory.stop_reason is StopReason.SUBMITTED and correct == 1.0


def _head(played: Sequence[Played], baseline: str) -> EvaluationHead:
    trajectories = [trajectory for _, trajectory in played]
    samples = Counter((name, trajectory.task_id) for name, trajectory in played)
    rewards = (trajectory.reward for trajectory in trajectories if trajectory.reward)
    return EvaluationHead(
        run_id=_common(t.run_id for t in trajectories),
        split=" and ".join(sorted({t.split for t in trajectories})),
        samples=max(samples.values(), default=1),
        temperature=None,
        seed=None,
        baseline=baseline,
        digests=Digests(**{n: _common(getattr(t.digests, n) for t in trajectories) for n in Digests.model_fields}),
        weights={part.name: part.weight for part in next(rewards).parts} if any(t.reward for t in trajectories) else {},
        require_opened=True,
        versions=trajectories[0].versions if trajectories else {},
        started_at=min((t.started_at for t in trajectories), default=""),
    )


def _common(values: Iterable[str]) -> str:
    """The value that all share; empty when they do not."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""
