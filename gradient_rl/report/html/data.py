"""Everything that the page shows, as one frozen value: made from saved records by pure functions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from gradient_rl.environment.workspace import Workspace
from gradient_rl.evaluation.metrics import REWARD
from gradient_rl.report.evaluation import headline
from gradient_rl.report.html.charts import Behaviour, Chart, Whisker, Whiskers, behaviours, charts, whiskers
from gradient_rl.report.html.saved import Played, evaluation_of_saved
from gradient_rl.report.html.views import MOST_SAMPLES, RecordView, TaskView, attempt_view, record_view, run_view, task_view
from gradient_rl.report.terminal import safe
from gradient_rl.schema.evaluation import ComparisonResult, Evaluation, TaskResult
from gradient_rl.schema.task import Task
from gradient_rl.schema.training import StepMetrics, Training
from gradient_rl.schema.trajectory import Trajectory

MOST_BYTES = 10_000_000
"""Of the tasks' data; beyond it the page keeps the regressions and a sample of the rest."""
_TIE = 1e-9
_GOLDEN = 0.6180339887498949


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
    training: Training | None = None
    empty: str = ""
    """What to run, where there is no task."""


def page_of(material: Material, most_bytes: int = MOST_BYTES) -> Page:
    """Put a page together.

    Args:
        material: the saved records.
        most_bytes: of the tasks' data, above which tasks are left out.
    """
    played = _last_attempts(material.trajectories)
    evaluation = material.evaluation or evaluation_of_saved(played, material.tasks)
    policies = tuple(evaluation.policies)
    main = _main_comparison(evaluation)
    pair = (main.baseline, main.candidate) if main else _first_two(policies)
    shown = whiskers(c for c in evaluation.comparisons if c.metric == REWARD)
    row = next((row for row in shown.rows if row.comparison == main), None)
    every = _tasks(material, played, evaluation)
    tasks = fitting(every, [(c.baseline, c.candidate) for c in evaluation.comparisons] or [pair], most_bytes)
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
        charts=charts(material.steps),
        behaviours=behaviours(list(evaluation.policies.items()), *pair),
        tasks=tasks,
        records=_records(tasks, material.workspace),
        notices=(*material.notices, *_foreign(material), *_left_out(every, tasks), *_samples_left_out(tasks)),
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


@dataclass
class Texts:
    """Observations by number."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def all(self) -> list[str]:
        """The observations in the order of their numbers."""
        return list(self.numbers)

    def plain(self, value: object) -> object:
        """A view as plain JSON, its observations as numbers."""
        if isinstance(value, str):
            return safe(value)
        if isinstance(value, int | float | None):
            return value
        if isinstance(value, Mapping):
            return {safe(name): self.plain(each) for name, each in cast("Mapping[str, object]", value).items()}
        if isinstance(value, tuple):
            return [self.plain(each) for each in cast("tuple[object, ...]", value)]
        return {name: self._field(name, each) for name, each in vars(value).items()}

    def _field(self, name: str, value: object) -> object:
        if name == "text" and isinstance(value, str):
            return self.numbers.setdefault(safe(value), len(self.numbers))
        return self.plain(value)


def fitting(tasks: Sequence[TaskView], pairs: Sequence[tuple[str, str]], most_bytes: int) -> tuple[TaskView, ...]:
    """The tasks that fit: all on which a candidate lost against its baseline, then an even sample, in their order."""
    texts, used = Texts(), 0
    kept: set[int] = set()
    lost = [i for i, task in enumerate(tasks) if any((task.difference(*pair) or 0.0) < -_TIE for pair in pairs)]
    rest = sorted(set(range(len(tasks))) - set(lost), key=lambda i: i * _GOLDEN % 1)
    for place in (*lost, *rest):
        before = len(texts.numbers)
        used += len(json.dumps(texts.plain(tasks[place])))
        used += sum(len(text) for text in texts.all[before:])
        if used > most_bytes and len(kept) >= len(lost):
            break
        kept.add(place)
    return tuple(task for i, task in enumerate(tasks) if i in kept)


def _left_out(every: Sequence[TaskView], kept: Sequence[TaskView]) -> tuple[str, ...]:
    if len(every) == len(kept):
        return ()
    return (
        f"{len(kept):,} of {len(every):,} tasks are on this page, to keep it small: every one on which a candidate lost "
        "against its baseline, and an even sample of the rest. The verdict and the figures above the tasks are those of all.",
    )


def _samples_left_out(tasks: Iterable[TaskView]) -> tuple[str, ...]:
    if all(run.samples <= MOST_SAMPLES for task in tasks for run in task.runs.values()):
        return ()
    return (
        f"Of each task the first {MOST_SAMPLES} samples under each policy are on this page; the rewards are means over all.",
    )


def _tasks(material: Material, played: Iterable[Played], evaluation: Evaluation) -> list[TaskView]:
    """In the order of the evaluation, or else of their ids."""
    by_task: dict[str, dict[str, list[Trajectory]]] = defaultdict(lambda: defaultdict(list))
    for name, trajectory in played:
        by_task[trajectory.task_id][name].append(trajectory)
    listed = {result.id: result for result in evaluation.tasks}
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
    episodes = sum(policy.n_episodes for policy in evaluation.policies.values())
    splits = f"{evaluation.split} " if evaluation.split else ""
    return f"{_counted(len(tasks), f'{splits}task')}, {_counted(episodes, 'episode')}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
