"""What the page shows of tasks, episodes and records: plain frozen values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.schema.evaluation import Attempt
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import OPENING_TOOLS, SUBMIT_TOOL, RewardPart, Step, StopReason, Trajectory
from gradient_rl.schema.workspace import Email, Record

_RIGHT = 1.0 - 1e-9
MOST_SAMPLES = 64
"""Episodes of one policy on one task that a page holds."""
_CUT = " more characters]"
"""How an observation ends that the episode's limit has cut."""


@dataclass(frozen=True)
class StepView:
    """One tool call and what came of it."""

    tool: str
    arguments: Mapping[str, str]
    ids: tuple[str, ...]
    """Records that the observation showed."""
    error: str | None
    text: str | None
    """What was observed; None where it is the text of a record that the page holds."""


@dataclass(frozen=True)
class PartView:
    """One part of a reward."""

    name: str
    value: float
    weight: float
    lost: tuple[str, ...]
    """The reason for each lost point."""


@dataclass(frozen=True)
class EpisodeView:
    """One episode."""

    sample: int
    total: float | None
    """None for an infrastructure failure."""
    parts: tuple[PartView, ...]
    stop: str
    error: str | None
    answer: str | None
    sources: tuple[str, ...]
    behaviours: tuple[str, ...]
    max_calls: int
    found: tuple[int, ...]
    """Places of the required slots that a search showed, that were opened, and that were cited."""
    read: tuple[int, ...]
    cited: tuple[int, ...]
    steps: tuple[StepView, ...]


@dataclass(frozen=True)
class RunView:
    """What one policy did on one task."""

    reward: float | None
    """Mean over its samples."""
    right: bool
    """Whether every sample stated and supported every required fact."""
    malformed: bool
    answer: str | None
    """That of the first sample with a reward; for a task whose trajectories are not there."""
    episodes: tuple[EpisodeView, ...]
    """The first samples."""
    samples: int = 0
    """Episodes that were played, those that are not here among them."""
    sources: tuple[str, ...] = ()
    """Cited with that answer, where no episode is here."""


@dataclass(frozen=True)
class TaskView:
    """One task and what each policy did on it."""

    id: str
    family: str
    question: str
    as_of: str
    expected: str
    """The required facts, as sentences; empty where the task is not known."""
    required: tuple[tuple[str, ...], ...]
    """Slots: any one id of a slot fills it."""
    neutral: tuple[str, ...]
    runs: Mapping[str, RunView] = field(default_factory=dict[str, RunView])

    def difference(self, baseline: str, candidate: str) -> float | None:
        """The candidate's reward minus the baseline's; None where one has none."""
        first, second = self.runs.get(baseline), self.runs.get(candidate)
        if first is None or second is None or first.reward is None or second.reward is None:
            return None
        return second.reward - first.reward

    @property
    def behaviours(self) -> tuple[str, ...]:
        """Everything that any policy did here."""
        return tuple(dict.fromkeys(name for run in self.runs.values() for e in run.episodes for name in e.behaviours))

    @property
    def ids(self) -> set[str]:
        """Records that were seen or cited here, or are required."""
        needed = {i for slot in self.required for i in slot}
        for run in self.runs.values():
            for episode in run.episodes:
                needed.update(episode.sources, *(step.ids for step in episode.steps))
        return needed


@dataclass(frozen=True)
class RecordView:
    """One record of the workspace."""

    kind: str
    title: str
    date: str
    lines: tuple[tuple[str, str], ...]
    """From, to, author, status: what stands above the text."""
    body: str


def task_view(task: Task | None, first: Trajectory, runs: Mapping[str, RunView]) -> TaskView:
    """A task as its reference and its trajectories tell of it.

    Args:
        task: None where the data folder does not hold it.
        first: any trajectory of it.
        runs: by policy.
    """
    return TaskView(
        id=first.task_id,
        family=first.family,
        question=first.question,
        as_of=task.as_of.isoformat() if task else "",
        expected=" ".join(fact.statement for fact in task.facts) if task else "",
        required=task.required_sources if task else (),
        neutral=task.neutral_sources if task else (),
        runs=runs,
    )


def run_view(trajectories: Sequence[Trajectory], task: Task | None, *, texts_are_held: bool) -> RunView:
    """The samples of one policy on one task, in their order.

    Args:
        trajectories: at least one.
        task: None where it is not known.
        texts_are_held: whether the page holds the records that were opened, so that they need not be repeated.
    """
    episodes = tuple(_episode(t, task, texts_are_held) for t in sorted(trajectories, key=lambda t: t.sample))
    totals = [episode.total for episode in episodes if episode.total is not None]
    return RunView(
        reward=fsum(totals) / len(totals) if totals else None,
        right=all(_is_right(episode) for episode in episodes),
        malformed=any(episode.stop == StopReason.MALFORMED for episode in episodes),
        answer=next((e.answer for e in episodes if e.total is not None), None),
        episodes=episodes[:MOST_SAMPLES],
        samples=len(episodes),
    )


def attempt_view(attempt: Attempt) -> RunView:
    """What an evaluation kept of one policy on one task, where its trajectories are not there."""
    return RunView(
        reward=attempt.reward,
        right=attempt.reward is not None and attempt.reward >= _RIGHT,
        malformed=attempt.stop_reason == StopReason.MALFORMED,
        answer=attempt.answer if attempt.answer is not None else None,
        episodes=(),
        sources=attempt.sources,
    )


def record_view(record: Record) -> RecordView:
    """A record as it is shown in its window."""
    if isinstance(record, Email):
        named = (("from", record.sender), ("to", ", ".join(record.to)), ("copy", ", ".join(record.cc)))
        sent = record.sent_at.isoformat(sep=" ", timespec="minutes")
        return RecordView("e-mail", record.subject, sent, _lines(named), record.body)
    named = (("author", record.author), ("status", record.status.value))
    title, kind = record.title, record.kind.value.replace("_", " ")
    return RecordView(kind, title, record.date.isoformat(), _lines(named), record.body)


def _lines(named: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in named if value)


def _episode(trajectory: Trajectory, task: Task | None, texts_are_held: bool) -> EpisodeView:
    found, read, cited = _reached(trajectory, task)
    return EpisodeView(
        sample=trajectory.sample,
        total=trajectory.reward.total if trajectory.reward else None,
        parts=tuple(_part(part) for part in trajectory.reward.parts) if trajectory.reward else (),
        stop=trajectory.stop_reason.value,
        error=trajectory.error if trajectory.error else None,
        answer=trajectory.answer if trajectory.answer is not None else None,
        sources=tuple(source for source in trajectory.sources),
        behaviours=tuple(name for name in trajectory.behaviours),
        max_calls=trajectory.max_calls,
        found=found,
        read=read,
        cited=cited,
        steps=tuple(_step(step, texts_are_held) for step in trajectory.steps),
    )


def _reached(trajectory: Trajectory, task: Task | None) -> tuple[tuple[int, ...], ...]:
    if task is None:
        return (), (), ()
    reached = coverage_of(trajectory, task)
    slots = enumerate(reached.slots)
    places = [(number, slot in reached.found, slot in reached.read, slot in reached.cited) for number, slot in slots]
    return tuple(tuple(place[0] for place in places if place[stage]) for stage in (1, 2, 3))


def _step(step: Step, texts_are_held: bool) -> StepView:
    whole = texts_are_held and step.tool in OPENING_TOOLS and not step.observation.endswith(_CUT)
    repeated = step.tool == SUBMIT_TOOL or whole
    return StepView(
        tool=step.tool,
        arguments={name: _plain(value) for name, value in step.arguments.items()},
        ids=step.ids,
        error=step.error if step.error else None,
        text=None if repeated or step.error else step.observation,
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _part(part: RewardPart) -> PartView:
    lost = () if part.value >= 1.0 else tuple(r for r in part.reasons if not r.endswith(": stated"))
    return PartView(part.name, part.value, part.weight, lost)


def _is_right(episode: EpisodeView) -> bool:
    """By correctness, or by the whole reward under a profile without it."""
    if episode.total is None:
        return False
    values = [part.value for part in episode.parts if part.name == "correctness"] or [episode.total]
    return values[0] >= _RIGHT
