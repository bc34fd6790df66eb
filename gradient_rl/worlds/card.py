"""The card of a data folder: what is in it, how hard it is, what simple policies earn on it and what it can measure."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from random import Random
from statistics import geometric_mean

from pydantic import ValidationError

from gradient_rl.environment.search import SearchIndex
from gradient_rl.environment.tools import EVERYTHING
from gradient_rl.environment.workspace import (
    DOCUMENTS_FILE,
    EMAILS_FILE,
    HELDOUT_FILE,
    TRAIN_FILE,
    Workspace,
    load_tasks,
    workspace_of,
)
from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.evaluation.statistics import detectable_difference, paired_differences, tasks_needed
from gradient_rl.evaluation.validate import MIN_HITS, keyword_figures
from gradient_rl.policies.base import Policy
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for
from gradient_rl.schema.jsonl import parse_line
from gradient_rl.schema.task import Fact, Split, Task
from gradient_rl.schema.workspace import Document, Email, FrozenRecord, Record
from gradient_rl.worlds.generate import WORLD_FILE, Progress, WorldReport, untold
from gradient_rl.worlds.sentences import masked_shares

MAX_MEASURED = 10_000
"""Records that are measured, beside those that tasks cite; of a larger folder a sample is taken."""
TARGETS = (0.02, 0.05, 0.10)
"""Differences in reward for which the card says how many tasks detect them."""
REFERENCE = "reference"


class RecordFigures(FrozenRecord):
    """All records of a folder."""

    total: int
    kinds: dict[str, int]
    words: float
    """Mean words of a body."""
    threads: int
    """Threads of e-mails."""
    measured: int
    """Records among which all that follows was measured; fewer than `total` if a sample was taken."""


class TaskFigures(FrozenRecord):
    """All tasks of a folder, counted."""

    total: int
    splits: dict[str, int]
    families: dict[str, int]
    hops: dict[str, int]
    slots: dict[str, int]
    """Tasks by the number of records that they need."""
    fact_kinds: dict[str, int]


class KeywordShare(FrozenRecord):
    """How many tasks of a split the question alone answers."""

    split: str
    tasks: int
    share: float
    """Share of the tasks whose question, as one query, finds all required records."""
    single_share: float
    """The same among tasks with one required record."""


class Measures(FrozenRecord):
    """Difficulty as measured. Lower recall, and higher figures of everything else, are harder."""

    keyword_recall: float
    """Mean share of a task's slots that the top max(3, slots) hits of its question fill."""
    typical_rank: float
    """Geometric mean of the ranks of the required records, with the question as query."""
    reference_calls: float
    """Mean calls of the reference."""
    rival_share: float
    """Share of facts that have a rival."""
    words_to_read: float
    """Mean words of a task's required records together."""


class Earned(FrozenRecord):
    """Mean rewards of one policy; None where no episode has a reward."""

    overall: float | None
    splits: dict[str, float | None]
    families: dict[str, float | None]


class Power(FrozenRecord):
    """What the held-out tasks can tell apart, from the spread of heuristic minus weak on them."""

    tasks: int
    detectable: float | None
    """Smallest difference in reward that is found 4 times in 5; None for fewer than two tasks."""
    needed: dict[str, int | None]
    """Tasks that detect a difference, by the difference; None if more than 100,000."""


class Repetition(FrozenRecord):
    """The sentence that stands most often in the records, names and numbers masked."""

    sentence: str
    share: float


class Card(FrozenRecord):
    """Everything that `gradient-data card` shows."""

    schema_version: int = 1
    folder: str
    records: RecordFigures
    tasks: TaskFigures
    keywords: tuple[KeywordShare, ...]
    difficulty: Measures | None
    """None without tasks."""
    earned: dict[str, Earned]
    """By policy: weak, heuristic, reference."""
    short_references: tuple[str, ...]
    """Ids of the tasks whose reference earns less than 1."""
    power: Power
    repetition: Repetition
    world: WorldReport | None
    """How the folder was generated; None if it was not."""


@dataclass
class _Records:
    """Counts over all records of a folder, and those that are measured."""

    kinds: Counter[str] = field(default_factory=Counter[str])
    words: int = 0
    threads: set[str] = field(default_factory=set[str])
    kept: list[Record] = field(default_factory=list[Record])

    def add(self, record: Record, keep: bool) -> None:
        self.kinds[record.kind.value] += 1
        self.words += len(record.body.split())
        if isinstance(record, Email):
            self.threads.add(record.thread_id)
        if keep:
            self.kept.append(record)

    def figures(self) -> RecordFigures:
        total = self.kinds.total()
        return RecordFigures(
            total=total,
            kinds=dict(sorted(self.kinds.items())),
            words=self.words / total,
            threads=len(self.threads),
            measured=len(self.kept),
        )


def card_of(directory: Path, told: Progress = untold, most: int = MAX_MEASURED) -> Card:
    """Measure a data folder.

    Args:
        told: hears of what is under way.
        most: records that are measured, beside those that tasks cite.

    Raises:
        NothingToReadError: there are no records.
        DataError: a line is damaged.
    """
    tasks = _all_tasks(directory)
    records = _read(directory, {record_id for task in tasks for record_id in cited_by(task)}, most, told)
    setting = setting_for(workspace_of(records.kept))
    rewards = _rewards(tasks, setting, told)
    shares = masked_shares(records.kept)
    figures = [keyword_figures(split, tasks, setting.index) for split in (Split.TRAIN, Split.HELDOUT)]
    return Card(
        folder=str(directory),
        records=records.figures(),
        tasks=_counted(tasks),
        keywords=tuple(
            KeywordShare(split=f.split, tasks=f.tasks, share=f.share, single_share=f.single_share) for f in figures if f.tasks
        ),
        difficulty=measures_of(tasks, setting.index, setting.workspace) if tasks else None,
        earned={policy: _earned(tasks, earned) for policy, earned in rewards.items()},
        short_references=tuple(task.id for task in tasks if (rewards[REFERENCE][task.id] or 0.0) < 1.0),
        power=_power(tasks, rewards),
        repetition=Repetition(sentence=shares[0][0], share=shares[0][1]) if shares else Repetition(sentence="", share=0.0),
        world=read_world(directory),
    )


def read_world(directory: Path) -> WorldReport | None:
    """How a folder was generated; None if it was not.

    Raises:
        DataError: its `world.json` is not one.
    """
    path = directory / WORLD_FILE
    try:
        return WorldReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise DataError(f"{path} does not describe a generated world: {where or 'it is not JSON'}; delete it") from None


def measures_of(tasks: Sequence[Task], index: SearchIndex, workspace: Workspace) -> Measures:
    """Measure how hard tasks are.

    Args:
        tasks: at least one.
        workspace: what the index holds; a required record without a word of the question counts as the last of its records.
    """
    ranks = [_slot_ranks(task, index, len(workspace.records)) for task in tasks]
    words = [len(workspace.records[slot[0]].body.split()) for task in tasks for slot in task.required_sources]
    facts = [fact for task in tasks for fact in task.facts]
    return Measures(
        keyword_recall=fsum(map(_recall, ranks)) / len(ranks),
        typical_rank=geometric_mean(rank for slots in ranks for rank in slots),
        reference_calls=sum(len(task.reference) for task in tasks) / len(tasks),
        rival_share=sum(bool(fact.rivals) for fact in facts) / len(facts),
        words_to_read=sum(words) / len(tasks),
    )


def _recall(ranks: Sequence[int]) -> float:
    """The share of slots that the top max(3, slots) hits fill."""
    return sum(rank <= max(MIN_HITS, len(ranks)) for rank in ranks) / len(ranks)


def cited_by(task: Task) -> Iterator[str]:
    """Ids of the records that a task needs, allows or derives its facts from."""
    yield from (record_id for slot in task.required_sources for record_id in slot)
    yield from task.neutral_sources
    yield from (record_id for fact in task.facts for record_id in _cited_by_fact(fact))


def _cited_by_fact(fact: Fact) -> Iterator[str]:
    yield from fact.sources
    yield from (given.record for given in (fact.derivation.inputs if fact.derivation else ()))


def _slot_ranks(task: Task, index: SearchIndex, records: int) -> list[int]:
    """For each slot, the rank of its best record; 1 is the first hit."""
    ranks = {record_id: rank for rank, record_id in enumerate(index.rank(task.question, EVERYTHING, records), 1)}
    return [min(ranks.get(record_id, records) for record_id in slot) for slot in task.required_sources]


def _all_tasks(directory: Path) -> list[Task]:
    files = [directory / name for name in (TRAIN_FILE, HELDOUT_FILE)]
    return [task for file in files if file.exists() and file.stat().st_size for task in load_tasks(file).tasks]


def _read(directory: Path, cited: Collection[str], most: int, told: Progress) -> _Records:
    """Read all records one by one; keep those that are cited and a sample of the others."""
    files = ((EMAILS_FILE, Email), (DOCUMENTS_FILE, Document))
    total = sum(1 for name, _ in files for _ in _lines(directory / name))
    chosen = range(total) if total <= most else set(Random(0).sample(range(total), most))
    read, place = _Records(), 0
    for name, model in files:
        for number, line in _lines(directory / name):
            record = parse_line(line, model, f"{directory / name} line {number}")
            read.add(record, keep=place in chosen or record.id in cited)
            place += 1
            told("records", place, total)
    if not place:
        raise NothingToReadError(f"{directory} holds no records; {EMAILS_FILE} and {DOCUMENTS_FILE} are both empty")
    return read


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, without holding the file in memory."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except FileNotFoundError:
        raise NothingToReadError(f"{path} is not there; give a folder that holds it") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start} cannot be read") from None


def _counted(tasks: Sequence[Task]) -> TaskFigures:
    return TaskFigures(
        total=len(tasks),
        splits={split.value: sum(task.split is split for task in tasks) for split in Split},
        families=_counts(task.family.value for task in tasks),
        hops=_counts(str(task.hops) for task in tasks),
        slots=_counts(str(len(task.required_sources)) for task in tasks),
        fact_kinds=_counts(fact.kind.value for task in tasks for fact in task.facts),
    )


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


type _Rewards = Mapping[str, float | None]
"""By task; None for an episode that failed on the way."""


def _rewards(tasks: Sequence[Task], setting: Setting, told: Progress) -> dict[str, _Rewards]:
    policies = (WeakPolicy(), HeuristicPolicy())
    played: dict[str, _Rewards] = {policy.name: asyncio.run(_play(policy, tasks, setting, told)) for policy in policies}
    replayer = Replayer(setting.workspace, setting.index)
    return {**played, REFERENCE: {task.id: replayer.play(task, task.reference).total for task in tasks}}


async def _play(policy: Policy, tasks: Sequence[Task], setting: Setting, told: Progress) -> _Rewards:
    rewards: dict[str, float | None] = {}
    async for trajectory in run_many([Job(policy, task, seed=0) for task in tasks], setting):
        rewards[trajectory.task_id] = trajectory.reward.total if trajectory.reward else None
        told(policy.name, len(rewards), len(tasks))
    return rewards


def _earned(tasks: Sequence[Task], rewards: _Rewards) -> Earned:
    splits, families = (list(dict.fromkeys(marks)) for marks in ((t.split for t in tasks), (t.family for t in tasks)))
    return Earned(
        overall=_mean(rewards[task.id] for task in tasks),
        splits={split.value: _mean(rewards[task.id] for task in tasks if task.split is split) for split in splits},
        families={f.value: _mean(rewards[task.id] for task in tasks if task.family is f) for f in sorted(families)},
    )


def _mean(rewards: Iterable[float | None]) -> float | None:
    known = [reward for reward in rewards if reward is not None]
    return fsum(known) / len(known) if known else None


def _power(tasks: Sequence[Task], rewards: Mapping[str, _Rewards]) -> Power:
    heldout = [task.id for task in tasks if task.split is Split.HELDOUT]
    weak, heuristic = (
        {task_id: reward for task_id in heldout if (reward := rewards[name][task_id]) is not None}
        for name in (WeakPolicy.name, HeuristicPolicy.name)
    )
    differences = list(paired_differences(heuristic, weak).values())
    return Power(
        tasks=len(differences),
        detectable=detectable_difference(differences),
        needed={f"{target:.2f}": tasks_needed(differences, target) for target in TARGETS},
    )
