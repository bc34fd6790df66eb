"""Comparing policies: from the outcomes of their episodes to the content of `eval.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from gradient_rl.evaluation.lineup import Pair
from gradient_rl.evaluation.metrics import REWARD, SUPPORTED, Outcome, by_task, last_attempts, policy_result
from gradient_rl.evaluation.statistics import compare, paired_differences, task_means, tasks_needed
from gradient_rl.evaluation.watch import warning_of
from gradient_rl.schema.evaluation import Attempt, ComparisonResult, Evaluation, EvaluationHead, HackingWarning, TaskResult
from gradient_rl.schema.task import Task

TARGETS = (0.05, 0.1, 0.2)
"""Differences for which a comparison says how many tasks would be needed."""


def evaluation_of(
    head: EvaluationHead,
    tasks: Iterable[Task],
    outcomes: Mapping[str, Sequence[Outcome]],
    pairs: Sequence[Pair],
    metrics: Sequence[str] = (REWARD,),
) -> Evaluation:
    """Put an evaluation together.

    Args:
        head: what was run, on what.
        tasks: the tasks in the order in which they are listed.
        outcomes: by policy, the baseline first, in any order of episodes.
        pairs: which policies to compare.
        metrics: what to compare them on; the verdict is meant for the first.
    """
    last = {name: last_attempts(played) for name, played in outcomes.items()}
    fields = {name: getattr(head, name) for name in EvaluationHead.model_fields}
    seed = head.seed or 0
    return Evaluation(
        **fields,
        policies={name: policy_result(played, head.samples) for name, played in last.items()},
        comparisons=tuple(comparison_of(last, pair, metric, seed) for metric in metrics for pair in pairs),
        tasks=tuple(_task_result(task, last) for task in tasks),
        warnings=tuple(hacking_warnings(last, pairs, seed)),
    )


def comparison_of(outcomes: Mapping[str, Sequence[Outcome]], pair: Pair, metric: str, seed: int = 0) -> ComparisonResult:
    """Compare a candidate with a baseline, task by task."""
    theirs, ours = (by_task(outcomes[name], metric) for name in pair)
    result = asdict(compare(ours, theirs, seed=seed))
    differences = paired_differences(task_means(ours).means, task_means(theirs).means).values()
    needed = {f"{target:g}": tasks_needed(differences, target) for target in TARGETS}
    return ComparisonResult(baseline=pair[0], candidate=pair[1], metric=metric, tasks_needed=needed, **result)


def hacking_warnings(
    outcomes: Mapping[str, Sequence[Outcome]], pairs: Iterable[Pair], seed: int = 0
) -> Iterator[HackingWarning]:
    """What the hacking watch warns of, by pair."""
    for pair in pairs:
        reward, supported = (comparison_of(outcomes, pair, metric, seed) for metric in (REWARD, SUPPORTED))
        if warning := warning_of(reward, supported):
            yield warning


def _task_result(task: Task, outcomes: Mapping[str, Sequence[Outcome]]) -> TaskResult:
    played = {name: [o for o in each if o.task_id == task.id] for name, each in outcomes.items()}
    return TaskResult(
        id=task.id,
        family=task.family.value,
        question=task.question,
        expected=" ".join(fact.statement for fact in task.facts),
        policies={name: _attempt(samples) for name, samples in played.items() if samples},
    )


def _attempt(samples: Sequence[Outcome]) -> Attempt:
    shown = next((outcome for outcome in samples if outcome.reward is not None), samples[0])
    rewards = tuple(outcome.reward for outcome in samples)
    return Attempt(
        rewards=rewards,
        reward=task_means({shown.task_id: rewards}).means.get(shown.task_id),
        answer=shown.answer,
        sources=shown.sources,
        stop_reason=shown.stop_reason.value,
        error=next((outcome.error for outcome in samples if outcome.error), None),
    )
