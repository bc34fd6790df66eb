"""A run of an evaluation: what is to be played, playing it, and going on where an earlier process stopped.

Every trajectory is on the disk before it counts. A run that was interrupted or killed is resumed from its files: an episode
with a reward is not played again, and one that is missing, damaged or without a reward is.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product, takewhile
from pathlib import Path

import gradient_rl
from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, TaskFile, load_tasks, load_workspace
from gradient_rl.errors import DataError, NothingToReadError, UsageError
from gradient_rl.evaluation.lineup import DEFAULT_BASELINE, Lineup, line_up
from gradient_rl.evaluation.metrics import Outcome, measure
from gradient_rl.evaluation.records import KEY, OnDamage, attempts_made, read_trajectories, write_trajectories
from gradient_rl.policies.base import Closable
from gradient_rl.policies.catalog import CATALOG, Entry, Player, player_name
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for, versions
from gradient_rl.runs import Journal, RunIdentity, archive_earlier_run, raise_damage, refuse_changed, write_whole
from gradient_rl.schema.evaluation import EvaluationHead
from gradient_rl.schema.task import Split, Task
from gradient_rl.schema.trajectory import Trajectory

MANIFEST = "eval.run.json"
CHECKPOINTS = "checkpoints"
"""Folder of what learned policies have saved, under the artifacts folder."""
FILES = ("eval.json", "eval.md", "eval.html", "eval.*.jsonl")
GRACE_S = 10.0
"""How long episodes in flight may go on after the first request to stop."""
DEADLINE_S = 900.0
"""Seconds that an episode may take; one that takes longer failed on the way and has no reward."""

type Listen = Callable[[str, Outcome], None]
"""Called with a player's name and what its episode measured, once the trajectory is on the disk."""


@dataclass(frozen=True)
class Request:
    """What an evaluation was asked to do."""

    policies: tuple[str, ...] = ()
    """Specs; empty for the heuristic policy and the learned checkpoints that are there."""
    baseline: str = DEFAULT_BASELINE
    split: Split = Split.HELDOUT
    task_ids: tuple[str, ...] = ()
    """Empty for every task of the split."""
    samples: int = 1
    temperature: float = 0.0
    concurrency: int = 8
    seed: int = 0
    endpoint: str = ""
    """Where remote policies were said to be, without secrets; empty where nothing was said."""
    profile: RewardProfile = field(default_factory=RewardProfile)
    one_by_one: bool = False
    """Whether each player ends before the next begins: a server on this machine has no bad hour, and one state at a time."""


@dataclass(frozen=True)
class Plan:
    """What will be played: the request with everything found, loaded and checked."""

    request: Request
    lineup: Lineup
    tasks: tuple[Task, ...]
    setting: Setting
    identity: RunIdentity
    stem: str = "eval"
    """What the names of its trajectory files begin with."""

    @property
    def episodes(self) -> int:
        """How many episodes the whole run has."""
        return len(self.lineup.players) * len(self.tasks) * self.request.samples

    def head(self, seconds: float) -> EvaluationHead:
        """The part of `eval.json` that is known before anything is played, but for the seconds it took."""
        return EvaluationHead(
            run_id=self.identity.run_id,
            split=self.request.split.value,
            samples=self.request.samples,
            temperature=self.request.temperature,
            seed=self.request.seed,
            baseline=self.lineup.baseline,
            digests=self.setting.digests,
            weights=self.request.profile.weights,
            require_opened=self.request.profile.require_opened,
            versions=versions(),
            started_at=self.identity.started_at.isoformat(timespec="seconds"),
            seconds=seconds,
        )


@dataclass(frozen=True)
class Played:
    """What a process knows when it has played."""

    outcomes: Mapping[str, Sequence[Outcome]]
    """Of the whole run, by player, the baseline first."""
    left: int
    """Episodes that were still to be played when it was asked to stop."""


class Stop:
    """A request to stop: no further episode begins, and those in flight have `grace_s` to end."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.requested = False
        self._grace_s = grace_s
        self._limit: Callable[[], object] | None = None

    def request(self) -> None:
        """Stop. A signal handler may call this."""
        self.requested = True
        if self._limit:
            self._limit()

    @contextmanager
    def watching(self, timeout: asyncio.Timeout) -> Generator[None]:
        """Let the timeout run out `grace_s` after the request."""
        loop = asyncio.get_running_loop()

        def reschedule() -> None:
            # The last episode may have ended, and the timeout with it, before the loop came to this.
            if self._limit is not None:
                timeout.reschedule(loop.time() + self._grace_s)

        self._limit = lambda: loop.call_soon_threadsafe(reschedule)
        try:
            yield
        finally:
            self._limit = None


def plan_evaluation(request: Request, data: Path, artifacts: Path, catalog: Sequence[Entry] = CATALOG) -> Plan:
    """Find, load and check everything that a request names, before anything is played or written.

    Args:
        request: what to do.
        data: folder of the workspace and its tasks.
        artifacts: folder whose `checkpoints/` holds what learned policies have saved.
        catalog: the policies that there are.

    Raises:
        UsageError: a policy, checkpoint or task does not exist.
        NothingToReadError, DataError: the data folder lacks what is needed, or is damaged.
    """
    lineup = line_up(request.baseline, request.policies, artifacts / CHECKPOINTS, request.temperature, catalog)
    file = load_tasks(data / (HELDOUT_FILE if request.split is Split.HELDOUT else TRAIN_FILE))
    tasks = choose_tasks(file, request.split, request.task_ids)
    setting = setting_for(load_workspace(data), profile=request.profile, tasks_digest=file.digest)
    identity = _identity_of(request, lineup, tasks, setting)
    return Plan(request, lineup, tasks, replace(setting, run_id=identity.run_id, deadline_s=DEADLINE_S), identity)


def choose_tasks(file: TaskFile, split: Split, ids: Sequence[str]) -> tuple[Task, ...]:
    """The tasks of a split, or those of these ids among them, in the order of the file.

    Raises:
        UsageError: an id is not there; the nearest are named.
        NothingToReadError: the split is empty.
    """
    known = {task.id: task for task in file.tasks if task.split is split}
    if not known:
        raise NothingToReadError(f"{file.path} holds no {split} task; choose another --split")
    for task_id in ids:
        if task_id not in known:
            near = difflib.get_close_matches(task_id, known, n=3, cutoff=0.0)
            raise UsageError(f"there is no {split} task '{task_id}'; the nearest ids are {', '.join(near)}")
    return tuple(task for task in known.values() if not ids or task.id in ids)


def prepare_folder(plan: Plan, folder: Path, *, resume: bool) -> Plan:
    """As `prepare_run`, for the files of an evaluation. Gives the plan, with the time at which its run began."""
    return replace(plan, identity=prepare_run(plan.identity, folder, MANIFEST, FILES, resume=resume))


def prepare_run(identity: RunIdentity, folder: Path, manifest_name: str, files: Sequence[str], *, resume: bool) -> RunIdentity:
    """Move an earlier run's files to `runs/`, or take that run up. The caller holds the folder.

    Gives the identity, with the time at which the run began.

    Raises:
        NothingToReadError: there is no run to resume.
        UsageError: the run to resume was another one; the field that differs is named.
        ArtifactError: the file system refuses.
    """
    manifest = folder / manifest_name
    if not resume:
        archive_earlier_run(folder, manifest_name, files)
        identity.save(manifest)
        return identity
    if not manifest.exists():
        raise NothingToReadError(f"{folder} holds no evaluation to resume; leave --resume out, or give another --artifacts")
    earlier = RunIdentity.load(manifest)
    refuse_changed(earlier, identity)
    return earlier


def play(plan: Plan, folder: Path, stop: Stop, listen: Listen, on_damage: OnDamage = raise_damage) -> Played:
    """Play what the folder does not hold yet.

    Args:
        plan: as `prepare_folder` gave it.
        folder: the artifacts folder, held by the caller.
        stop: ends the run early; what was played by then is on the disk.
        listen: called for each episode; first for those with a reward from an earlier process.
        on_damage: called for each line of an earlier process that cannot be read; its episode is played again.

    Raises:
        ArtifactError: the file system refuses.
    """
    with ExitStack() as stack:
        books = [stack.enter_context(closing(Book(plan, player, folder, on_damage))) for player in plan.lineup.players]
        by_name = {book.player.name: book for book in books}
        for name, book in by_name.items():
            for outcome in book.rewarded:
                listen(name, outcome)

        def take(trajectory: Trajectory) -> None:
            nonlocal left
            left -= 1
            name = player_name(trajectory.policy, trajectory.checkpoint)
            listen(name, by_name[name].add(trajectory))

        # Otherwise all players work on a task before any goes to the next: an endpoint's bad hour falls on each of them.
        turns = [[book] for book in books] if plan.request.one_by_one else [books]
        rounds = [_jobs(plan, playing) for playing in turns]
        left = sum(len(jobs) for jobs in rounds)
        asyncio.run(_play(rounds, plan, stop, take))
    return Played({name: book.outcomes for name, book in by_name.items()}, left)


class Book:
    """One player's journal, and what its episodes have measured."""

    def __init__(self, plan: Plan, player: Player, folder: Path, on_damage: OnDamage) -> None:
        self.player = player
        self.outcomes: list[Outcome] = []
        self._plan = plan
        self._tasks = {task.id: task for task in plan.tasks}
        path = folder / f"{plan.stem}.{player.slug}.jsonl"
        if path.exists():
            self.outcomes += [self._measured(trajectory) for trajectory in self._readable(path, on_damage)]
        self._done = {(outcome.task_id, outcome.sample) for outcome in self.rewarded}
        # Damaged lines have been told already; the journal only has to know which keys are taken.
        self._journal = Journal(path, KEY, on_damage=lambda _: None)
        self._attempts = attempts_made(self._journal)
        if self._journal.torn:
            on_damage(DataError(f"{path}.torn keeps torn lines, which were never counted as played: {self._journal.torn}"))

    @property
    def rewarded(self) -> list[Outcome]:
        """The outcomes with a reward."""
        return [outcome for outcome in self.outcomes if outcome.reward is not None]

    def job(self, task: Task, sample: int) -> Job | None:
        """The episode that is still to be played; None when it has a reward."""
        if (task.id, sample) in self._done:
            return None
        checkpoint = self.player.checkpoint.label if self.player.checkpoint else None
        attempt = self._attempts.get((task.id, sample), 0)
        return Job(self.player.policy, task, self._plan.request.seed, 0, sample, attempt, checkpoint=checkpoint)

    def add(self, trajectory: Trajectory) -> Outcome:
        """Write a trajectory and measure it."""
        write_trajectories(self._journal, trajectory)
        self.outcomes.append(self._measured(trajectory))
        return self.outcomes[-1]

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _readable(self, path: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
        for number, trajectory in read_trajectories(path, on_damage):
            of_this_run = trajectory.run_id == self._plan.identity.run_id and trajectory.task_id in self._tasks
            if of_this_run and player_name(trajectory.policy, trajectory.checkpoint) == self.player.name:
                yield trajectory
            else:
                on_damage(DataError(f"{path} line {number} belongs to another run and is left out"))

    def _measured(self, trajectory: Trajectory) -> Outcome:
        return measure(trajectory, self._tasks[trajectory.task_id], self._plan.request.profile)


def save_evaluation(folder: Path, readable: str, content: bytes) -> None:
    """Write `eval.md` and then `eval.json`, whose presence says that the run is complete.

    Raises:
        ArtifactError: the file system refuses.
    """
    write_whole(folder / "eval.md", readable.encode("utf-8", "backslashreplace"))
    write_whole(folder / "eval.json", content)


def _jobs(plan: Plan, books: Sequence[Book]) -> list[Job]:
    places = product(plan.tasks, range(plan.request.samples), books)
    return [job for task, sample, book in places if (job := book.job(task, sample))]


async def _play(rounds: Iterable[Iterable[Job]], plan: Plan, stop: Stop, take: Callable[[Trajectory], None]) -> None:
    timeout = asyncio.timeout(None)
    try:
        async with timeout:
            with stop.watching(timeout):
                for jobs in rounds:
                    waiting = takewhile(lambda _: not stop.requested, jobs)
                    async for trajectory in run_many(waiting, plan.setting, plan.request.concurrency):
                        take(trajectory)
    except TimeoutError:
        if not timeout.expired():
            raise
    finally:
        for player in plan.lineup.players:
            if isinstance(player.policy, Closable):
                await player.policy.aclose()


def _identity_of(request: Request, lineup: Lineup, tasks: Sequence[Task], setting: Setting) -> RunIdentity:
    checkpoints = [player.checkpoint.digest for player in lineup.players if player.checkpoint]
    fields = {
        "gradient_rl": gradient_rl.__version__,
        "policies": ",".join(player.name for player in lineup.players),
        "checkpoints": ",".join(checkpoints),
        "baseline": lineup.baseline,
        "split": request.split.value,
        "task_ids": ",".join(task.id for task in tasks) if request.task_ids else "all",
        "samples": request.samples,
        "temperature": request.temperature,
        "seed": request.seed,
        "endpoint": request.endpoint,
        "config": setting.digests.config,
        "workspace": setting.digests.workspace,
        "tasks": setting.digests.tasks,
    }
    return RunIdentity(fields, datetime.now(UTC))
