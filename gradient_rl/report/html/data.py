"""Everything that the page shows, as one frozen value: made from saved records by pure functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradient_rl.environment.workspace import Workspace
from gradient_rl.evaluation.metrics import REWARD
from gradient_rl.report.evaluation import headline
from gradient_rl.report.html.charts import Behaviour, Chart, Whisker, Whiskers, behaviours, charts, whiskers
from gradient_rl.report.html.room import Pairs, Texts, fitting, is_lost, is_slim
from gradient_rl.report.html.saved import Played, evaluation_of_saved
from gradient_rl.report.html.views import MOST_SAMPLES, RecordView, TaskView, attempt_view, record_view, run_view, task_view
from gradient_rl.schema.evaluation import ComparisonResult, Evaluation, TaskResult
from gradient_rl.schema.task import Task
from gradient_rl.schema.training import StepMetrics, Training
from gradient_rl.schema.trajectory import Trajectory

MOST_BYTES = 10_000_000
"""Of the file; above it the page keeps the regressions and a sample of the rest."""
_MOST_STEPS = 1000
"""Steps of a training run that the curves show."""


@dataclass(frozen=True)
class Material:
    """The saved records that a page is made from."""

    title: str
    trajectories: Sequence[Played]
    tasks: Mapping[str, Task]
    workspace: Workspace | None
    evaluation: Evaluation | None = None
    """None: the trajectories are compared by the rewards that they were saved with."""
    training: Training | None = None
    steps: Sequence[StepMetrics] = ()
    sentence: str = ""
    """What the page opens with where nothing is compared."""
    notices: Sequence[str] = ()
    """What a reader should know of what is missing."""


@dataclass(frozen=True)
class Page:
    """What the page shows."""

    title: str
    headline: str
    lead: str
    tone: str
    """`better`, `worse`, `doubt`, or empty where nothing is compared."""
    evidence: str
    policies: tuple[str, ...]
    pair: tuple[str, str]
    """The two policies that are side by side at first."""
    evaluation: Evaluation
    whiskers: Whiskers
    charts: tuple[Chart, ...]
    behaviours: tuple[Behaviour, ...]
    tasks: tuple[TaskView, ...]
    records: Mapping[str, RecordView]
    notices: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """What the hacking watch warns of, in the evaluation and in the newest step of training that it warned of."""
    training: Training | None = None
    empty: str = ""
    """What to run, where there is no task."""


def page_of(material: Material, most_bytes: int = MOST_BYTES) -> Page:
    """Put a page together.

    Args:
        material: the saved records.
        most_bytes: of all that is there for a task: its row, its data and its records; above it tasks are left out.
    """
    played = _last_attempts(material.trajectories)
    evaluation = _base_first(material.evaluation or evaluation_of_saved(played, material.tasks))
    policies = tuple(evaluation.policies)
    main = _main_comparison(evaluation)
    pair = (main.baseline, main.candidate) if main else _first_two(policies)
    shown = whiskers(c for c in evaluation.comparisons if c.metric == REWARD)
    row = next((row for row in shown.rows if row.comparison == main), None)
    every = _tasks(material, played, evaluation)
    records = _records(every, material.workspace)
    pairs = [(c.baseline, c.candidate) for c in evaluation.comparisons] or [pair]
    tasks = fitting(every, pairs, most_bytes, records)
    needed = {record_id for task in tasks for record_id in task.ids}
    steps = _thinned(material.steps)
    return Page(
        title=material.title,
        headline=_headline(evaluation, every),
        lead=row.sentence if row else material.sentence or _alone(policies),
        tone=_tone(row),
        evidence=row.evidence if row else "",
        policies=policies,
        pair=pair,
        evaluation=evaluation,
        whiskers=shown,
        charts=charts(steps),
        behaviours=behaviours(list(evaluation.policies.items()), *pair),
        tasks=tasks,
        records={record_id: record for record_id, record in records.items() if record_id in needed},
        notices=(
            *material.notices,
            *_foreign(material),
            *_asked_otherwise(material, played),
            *_left_out(every, tasks, pairs),
            *_samples_left_out(tasks),
            *_steps_left_out(material.steps, steps),
        ),
        warnings=(*(warning.text for warning in evaluation.warnings), *_warned(material.steps)),
        training=material.training,
        empty="" if every else "There is no task in these files. Run gradient-eval, and open its eval.html.",
    )


def data_of(page: Page) -> dict[str, object]:
    """What the page's script reads, as plain JSON without control characters; an observation is there once."""
    texts = Texts()
    tasks = [texts.plain(task) for task in page.tasks]
    return {
        "policies": texts.plain(page.policies),
        "pair": texts.plain(page.pair),
        "tasks": tasks,
        "texts": texts.all,
        "records": {record_id: texts.plain(record) for record_id, record in page.records.items()},
    }


def _left_out(every: Sequence[TaskView], kept: Sequence[TaskView], pairs: Pairs) -> tuple[str, ...]:
    slim = sum(map(is_slim, kept))
    if len(every) == len(kept) and not slim:
        return ()
    lost = [sum(is_lost(task, pairs) for task in tasks) for tasks in (every, kept)]
    all_lost = "every one" if lost[0] == lost[1] else f"{lost[1]:,} of the {lost[0]:,}"
    sample = ", and an even sample of the rest" if len(kept) > lost[1] else ""
    steps = f" Of {slim:,} of them the answers and rewards are here, without the steps." if slim else ""
    return (
        f"{len(kept):,} of {len(every):,} tasks are on this page, to keep it small: {all_lost} on which a candidate lost "
        f"against its baseline{sample}.{steps} The verdict and the figures above the tasks are those "
        "of all.",
    )


def _asked_otherwise(material: Material, played: Iterable[Played]) -> tuple[str, ...]:
    """A word on the tasks of an evaluation whose episodes are on another question: they are of another world."""
    if material.evaluation is None:
        return ()
    other = _strangers(material.evaluation, played)
    said = (
        f"{len(other)} of these tasks were played with another question than eval.json asks, so the right answers there "
        "are not shown; run gradient-eval again in a folder of its own."
    )
    return (said,) if other else ()


def _strangers(evaluation: Evaluation, played: Iterable[Played]) -> set[str]:
    """Tasks of the evaluation of which an episode was played with another question."""
    asked = {result.id: result.question for result in evaluation.tasks}
    return {t.task_id for _, t in played if asked.get(t.task_id, t.question) != t.question}


def _thinned(steps: Sequence[StepMetrics]) -> Sequence[StepMetrics]:
    """The steps themselves, or of very many an even part with the last one."""
    every = -(-len(steps) // _MOST_STEPS)
    return steps if every <= 1 else [*steps[:-1:every], steps[-1]]


def _warned(steps: Iterable[StepMetrics]) -> list[str]:
    """What the hacking watch warned of last, while it trained."""
    return [metrics.watch.warning for metrics in steps if metrics.watch and metrics.watch.warning][-1:]


def _steps_left_out(every: Sequence[StepMetrics], kept: Sequence[StepMetrics]) -> tuple[str, ...]:
    if len(every) == len(kept):
        return ()
    return (f"The curves show {len(kept):,} of {len(every):,} steps, evenly spread; train.metrics.jsonl holds all.",)


def _samples_left_out(tasks: Iterable[TaskView]) -> tuple[str, ...]:
    if all(run.samples <= MOST_SAMPLES for task in tasks for run in task.runs.values()):
        return ()
    return (
        f"Of each task the first {MOST_SAMPLES} samples under each policy are on this page; the rewards are means over all.",
    )


def _tasks(material: Material, played: Iterable[Played], evaluation: Evaluation) -> list[TaskView]:
    """In the order of the evaluation, or else of their ids."""
    played = list(played)
    strangers = _strangers(material.evaluation, played) if material.evaluation else set[str]()
    by_task: dict[str, dict[str, list[Trajectory]]] = defaultdict(lambda: defaultdict(list))
    for name, trajectory in played:
        by_task[trajectory.task_id][name].append(trajectory)
    listed = {r.id: r.model_copy(update={"expected": ""}) if r.id in strangers else r for r in evaluation.tasks}
    order = dict.fromkeys([*listed, *sorted(by_task, key=_natural)])
    return [_task(material, by_task.get(task_id, {}), listed.get(task_id), task_id) for task_id in order]


def _task(material: Material, played: Mapping[str, list[Trajectory]], result: TaskResult | None, task_id: str) -> TaskView:
    task, held = material.tasks.get(task_id), material.workspace is not None
    runs = {name: run_view(found, task, texts_are_held=held) for name, found in played.items() if found}
    if result is None:
        return task_view(task, next(t for found in played.values() for t in found), runs)
    kept = {name: attempt_view(attempt) for name, attempt in result.policies.items()}
    return TaskView(
        id=result.id,
        family=result.family,
        question=result.question,
        as_of=task.as_of.isoformat() if task else "",
        expected=result.expected,
        required=task.required_sources if task else (),
        neutral=task.neutral_sources if task else (),
        runs={name: runs.get(name) or kept[name] for name in dict.fromkeys([*kept, *runs]) if name in kept or name in runs},
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Orders `task-9` before `task-10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]


def _last_attempts(played: Iterable[Played]) -> list[Played]:
    last: dict[tuple[str, str, int], Played] = {}
    for name, trajectory in sorted(played, key=lambda each: each[1].attempt):
        last[name, trajectory.task_id, trajectory.sample] = (name, trajectory)
    kept = {id(trajectory) for _, trajectory in last.values()}
    return [each for each in played if id(each[1]) in kept]


def _records(tasks: Iterable[TaskView], workspace: Workspace | None) -> dict[str, RecordView]:
    if workspace is None:
        return {}
    needed = {record_id for task in tasks for record_id in task.ids}
    return {i: record_view(record) for i, record in workspace.records.items() if i in needed}


def _foreign(material: Material) -> tuple[str, ...]:
    if material.workspace is not None or not material.trajectories:
        return ()
    digest = material.trajectories[0][1].digests.workspace[:12] or "none"
    return (
        f"These episodes were played on another version of the records (digest {digest}) than the data folder holds, so "
        "the records' texts are not here. What the tools answered is.",
    )


def _base_first(evaluation: Evaluation) -> Evaluation:
    """Every policy behind what it is compared with, so that tables read like the comparisons."""
    bases: dict[str, list[str]] = defaultdict(list)
    for each in evaluation.comparisons:
        bases[each.candidate].append(each.baseline)
    order = dict.fromkeys(name for policy in evaluation.policies for name in (*bases[policy], policy))
    policies = {name: evaluation.policies[name] for name in order if name in evaluation.policies}
    return evaluation.model_copy(update={"policies": policies})


def _main_comparison(evaluation: Evaluation) -> ComparisonResult | None:
    """The comparison that the page opens with: of a learned policy with what it was before, or else the first."""
    shown = [c for c in evaluation.comparisons if c.metric == REWARD]
    learned = (c for c in shown if "@" in c.candidate and c.candidate.split("@")[0] == c.baseline.split("@")[0])
    return next(learned, shown[0] if shown else None)


def _first_two(policies: Sequence[str]) -> tuple[str, str]:
    first = policies[0] if policies else ""
    return first, policies[1] if len(policies) > 1 else first


def _alone(policies: Sequence[str]) -> str:
    return f"{policies[0]} alone: there is nothing to compare it with." if policies else "Nothing was played."


def _tone(row: Whisker | None) -> str:
    verdict = row.comparison.verdict if row else None
    return verdict if verdict in ("better", "worse") else "doubt" if row else ""


def _headline(evaluation: Evaluation, tasks: Sequence[TaskView]) -> str:
    if evaluation.tasks:
        return headline(evaluation)
    split = evaluation.split.replace("heldout", "held-out")
    episodes = sum(policy.n_episodes for policy in evaluation.policies.values())
    return f"{_counted(len(tasks), f'{split} task'.strip())}, {_counted(episodes, 'episode')}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
