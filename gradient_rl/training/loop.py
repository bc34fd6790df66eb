"""The training loop, one for all learners: sample tasks, roll out groups, score, learn, validate, save, go on.

Everything durable is written in one order, so that a run killed anywhere goes on as if it had not been: trajectories as their
groups end, then the learner's checkpoint, and last the step's line of metrics, whose presence says that the step is done.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from math import fsum
from pathlib import Path
from typing import NamedTuple

import gradient_rl
from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.errors import ArtifactError, GuardError, HackingError, NothingToReadError, UsageError
from gradient_rl.evaluation.metrics import supported_of
from gradient_rl.evaluation.run import CHECKPOINTS, Stop
from gradient_rl.evaluation.watch import watch
from gradient_rl.policies.base import Policy
from gradient_rl.rewards.advantages import spread
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for, versions
from gradient_rl.runs import (
    RunIdentity,
    archive_earlier_run,
    digest,
    json_line,
    refuse_changed,
    write_whole,
)
from gradient_rl.schema.task import Split, Task
from gradient_rl.schema.training import WARM, Played, StepMetrics, TaskScore, Training, Watched
from gradient_rl.schema.trajectory import Group, Trajectory, Usage
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.groups import sort_groups, tasks_of_step
from gradient_rl.training.learner import Learner, OnGradient, WarmLearner
from gradient_rl.training.ledger import METRICS, TRAJECTORIES, Ledger

MANIFEST = "train.run.json"
SUMMARY = "train.json"
PAYLOAD = "train.payload.jsonl"
REPORT = "train.html"
FILES = (SUMMARY, REPORT, TRAJECTORIES, METRICS, PAYLOAD, CHECKPOINTS)
_MAY_CHANGE = frozenset({"max_steps", "concurrency", "keep_checkpoints", "stop_on_hacking"})
"""Fields that a resumed run may have anew: they decide how far and how fast it goes, and not what a step is."""

type OnStep = Callable[[StepMetrics], None]
type OnEpisode = Callable[[Trajectory], None]


@dataclass(frozen=True)
class Listener:
    """Who is told of a run's progress.

    Of an episode when it has ended, of a step when it is on the disk, of a warm start's gradient steps.
    """

    step: OnStep = lambda metrics: None
    episode: OnEpisode = lambda trajectory: None
    gradient: OnGradient = lambda done, of: None


@dataclass(frozen=True)
class Budget:
    """What a run may spend before no further episode begins; None is no limit. What is in flight still ends."""

    max_tokens: int | None = None
    """Prompt and completion tokens of all episodes, those before a resume among them."""
    max_usd: float | None = None

    def refuse(self, tokens: int, cost_usd: float) -> str | None:
        """Which limit is met, as a sentence; None while there is something left."""
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"--max-tokens {self.max_tokens} is spent: {tokens} tokens so far"
        if self.max_usd is not None and cost_usd >= self.max_usd:
            return f"--max-usd {self.max_usd:g} is spent: {cost_usd:.2f} USD so far"
        return None


@dataclass(frozen=True)
class Plan:
    """What will be done: the configuration with everything loaded and checked."""

    config: TrainingConfig
    dry_run: bool
    train: tuple[Task, ...]
    validation: tuple[Task, ...]
    setting: Setting
    identity: RunIdentity
    budget: Budget = Budget()
    moved: Path | None = None
    """Where an earlier run's files went when this one began."""
    examples: tuple[Trajectory, ...] = ()
    """What the warm start imitates; empty without one."""

    @property
    def episodes_per_step(self) -> int:
        """Rollouts of one step."""
        return self.config.tasks_per_step * self.config.group_size


class Place(NamedTuple):
    """A step, or the warm start, which comes between step 0 and step 1."""

    step: int
    warm: bool = False


def places(plan: Plan) -> list[Place]:
    """What a run does, in its order."""
    first = [Place(0), Place(0, warm=True)] if plan.examples else [Place(0)]
    return [*first, *(Place(step) for step in range(1, plan.config.max_steps + 1))]


def plan_training(config: TrainingConfig, data: Path, *, dry_run: bool = False, budget: Budget | None = None) -> Plan:
    """Load and check everything before anything is played or written. The held-out tasks are not read.

    Raises:
        UsageError: there are fewer training tasks than a step takes.
        NothingToReadError, DataError: the data folder lacks what is needed, or is damaged.
    """
    file = load_tasks(data / TRAIN_FILE)
    by_split = {split: tuple(t for t in file.tasks if t.split is split) for split in (Split.TRAIN, Split.VALIDATION)}
    tasks_of_step(by_split[Split.TRAIN], 1, config.tasks_per_step, config.seed)
    setting = setting_for(load_workspace(data), config.limits, config.reward, file.digest)
    fields = {
        "gradient_rl": gradient_rl.__version__,
        "dry_run": dry_run,
        **{f"config.{name}": _plain(value) for name, value in _fixed(config).items()},
        "workspace": setting.digests.workspace,
        "tasks": file.digest,
    }
    identity = RunIdentity(fields, datetime.now(UTC), {"max_steps": config.max_steps})
    setting = replace(setting, run_id=identity.run_id, deadline_s=config.episode_deadline_s)
    return Plan(config, dry_run, by_split[Split.TRAIN], by_split[Split.VALIDATION], setting, identity, budget or Budget())


def as_far_as_before(plan: Plan, folder: Path) -> Plan:
    """The plan with as many steps as the run in the folder was to have; unchanged where there is none."""
    manifest = folder / MANIFEST
    max_steps = RunIdentity.load(manifest).notes.get("max_steps") if manifest.exists() else None
    config = plan.config.model_copy(update={"max_steps": max_steps}) if isinstance(max_steps, int) else plan.config
    return replace(plan, config=config)


def prepare_folder(plan: Plan, folder: Path, *, resume: bool) -> Plan:
    """Move an earlier run's files to `runs/`, or take that run up. The caller holds the folder.

    Raises:
        NothingToReadError: there is no run to resume.
        UsageError: the run to resume was another one; the field that differs is named.
        ArtifactError: the file system refuses.
    """
    manifest = folder / MANIFEST
    if not resume:
        moved = archive_earlier_run(folder, MANIFEST, FILES)
        plan.identity.save(manifest)
        return replace(plan, moved=moved)
    if not manifest.exists():
        raise NothingToReadError(f"{folder} holds no training run to resume; leave --resume out, or give another --artifacts")
    earlier = RunIdentity.load(manifest)
    refuse_changed(earlier, plan.identity)
    return replace(plan, identity=replace(earlier, notes={"max_steps": plan.config.max_steps}))


def train(plan: Plan, learner: Learner, folder: Path, stop: Stop, listener: Listener | None = None) -> Training | None:
    """Run what is left of the steps, and write `train.json`; None if it was asked to stop before the last.

    Args:
        plan: as `prepare_folder` gave it.
        learner: at any state; it is set to the run's.
        folder: the artifacts folder, held by the caller.
        stop: ends the run early; what was played by then is on the disk.
        listener: told of each episode and step; first of the steps that an earlier process did.

    Raises:
        GuardError: the budget is spent.
        HackingError: the hacking watch warns, and the configuration says to stop then.
        UsageError: the plan has examples, and the learner cannot imitate.
        GradientError: the learner, its service or the file system failed.
    """
    if plan.examples and not isinstance(learner, WarmLearner):
        raise UsageError(f"--warm-start: {learner.name} has no warm start; leave it out, or train --policy art")
    started = time.perf_counter()
    with closing(Ledger(folder, plan.identity.run_id, warm=bool(plan.examples))) as ledger:
        _refuse_fewer_steps(plan, ledger.steps)
        run = _Run(plan, learner, ledger, stop, folder, listener or Listener())
        if not asyncio.run(run.go()):
            return None
        summary = _summary(run, time.perf_counter() - started)
    write_whole(folder / SUMMARY, json_line(summary.model_dump(mode="json")))
    return summary


def _refuse_fewer_steps(plan: Plan, done: Sequence[StepMetrics]) -> None:
    """A run ends with a validation, so it cannot end before or at a step that was done without one."""
    if not done:
        return
    last = done[-1]
    unvalidated = last.step == plan.config.max_steps and plan.validation and last.validation is None
    if last.step > plan.config.max_steps or unvalidated:
        raise UsageError(f"--max-steps {plan.config.max_steps}: {last.step} steps are done already; give a higher number")


@dataclass
class _Run:
    plan: Plan
    learner: Learner
    ledger: Ledger
    stop: Stop
    folder: Path
    listener: Listener
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    spent: Usage = field(default_factory=Usage)

    async def go(self) -> bool:
        """Do every step that is left; whether all are done."""
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                with self.stop.watching(timeout):
                    return await self._steps()
        except TimeoutError:
            if not timeout.expired():
                raise
            return False
        finally:
            await self.learner.close()

    async def _steps(self) -> bool:
        self.spent = self.ledger.spent
        for done in self.ledger.steps:
            self.listener.step(done)
        if self.ledger.steps:
            await self._restore(self.ledger.steps[-1])
        self._go_on()
        if self.ledger.steps:
            await self.learner.retain(self._worth_keeping())  # the earlier process may have ended before it, or kept more
            self._stop_on_hacking()
        for place in places(self.plan)[len(self.ledger.steps) :]:
            metrics = None if self.stop.requested else await self._do(place)
            if metrics is None:
                return False
            self.ledger.end_step(metrics)
            await self.learner.retain(self._worth_keeping())
            self.listener.step(metrics)
            self._stop_on_hacking()
        return True

    def _stop_on_hacking(self) -> None:
        """Refuse to go on after a validation that was warned of, be it this process's or an earlier one's."""
        last = next((m for m in reversed(self.ledger.steps) if m.watch), None)
        if self.plan.config.stop_on_hacking and last and last.watch and last.watch.warning:
            raise HackingError(last.watch.warning)

    def _go_on(self) -> None:
        """Note how far the run goes now. Nothing is changed before all that an earlier process left has been read."""
        if len(self.ledger.steps) < len(places(self.plan)):
            (self.folder / SUMMARY).unlink(missing_ok=True)
        self.plan.identity.save(self.folder / MANIFEST)

    async def _restore(self, last: StepMetrics) -> None:
        if last.is_warm_start:
            await self._imitator().restore_warm()
        else:
            await self.learner.restore(last.step)

    async def _do(self, place: Place) -> StepMetrics | None:
        if place.warm:
            return await self._warm_start()
        return await (self._step(place.step) if place.step else self._before())

    async def _before(self) -> StepMetrics | None:
        """Step 0: the state before training, validated."""
        label = await self.learner.checkpoint(0)
        return await self._validated(StepMetrics(run_id=self.plan.identity.run_id, step=0, checkpoint=label))

    async def _warm_start(self) -> StepMetrics | None:
        """Between step 0 and step 1: the examples are imitated, and the state after it is validated."""
        learner, began = self._imitator(), time.perf_counter()
        learned = await learner.warm_start(self.plan.examples, self.listener.gradient)
        label = await learner.checkpoint_warm()
        self.seconds["warm_start"] += time.perf_counter() - began
        run_id = self.plan.identity.run_id
        return await self._validated(StepMetrics(run_id=run_id, step=0, learner=dict(learned), checkpoint=label))

    def _imitator(self) -> WarmLearner:
        if not isinstance(self.learner, WarmLearner):
            raise TypeError(f"{self.learner.name} has no warm start")
        return self.learner

    async def _step(self, step: int) -> StepMetrics | None:
        config = self.plan.config
        tasks = tasks_of_step(self.plan.train, step, config.tasks_per_step, config.seed)
        label = WARM if step == 1 and self.plan.examples else str(step - 1)
        groups = await self._rollout(step, label, tasks, config.group_size, self.learner.policy(config.temperature))
        if groups is None:
            return None
        used, dropped = sort_groups(groups)
        began = time.perf_counter()
        learned = await self.learner.update(step, used)
        label = await self.learner.checkpoint(step)
        self.seconds["update"] += time.perf_counter() - began
        return await self._validated(
            StepMetrics(
                run_id=self.plan.identity.run_id,
                step=step,
                train=played([t for group in groups for t in group.trajectories]),
                spread=fsum(spread(group.rewards) for group in groups) / len(groups),
                groups=len(groups),
                used=len(used),
                dropped=dict(dropped),
                learner=dict(learned),
                checkpoint=label,
            )
        )

    async def _validated(self, metrics: StepMetrics) -> StepMetrics | None:
        """The metrics with the validation, where one is due, and the seconds of the step."""
        step, config = metrics.step, self.plan.config
        validation = watched = None
        if self.plan.validation and (step % config.validate_every == 0 or step == config.max_steps):
            label, policy = WARM if metrics.is_warm_start else str(step), self.learner.policy(0.0)
            groups = await self._rollout(step, label, self.plan.validation, config.validation_samples, policy)
            if groups is None:
                return None
            validation, watched = self._watched(metrics.at, groups)
        seconds = {phase: round(value, 4) for phase, value in self.seconds.items()}
        self.seconds.clear()
        return metrics.model_copy(update={"validation": validation, "watch": watched, "seconds": seconds})

    def _watched(self, at: float, groups: Sequence[Group]) -> tuple[Played, Watched]:
        """What a validation measured, and what the hacking watch makes of it."""
        found = played([t for group in groups for t in group.trajectories])
        scores = _scores(groups, self.plan.validation)
        earlier = [(m.at, m.watch) for m in self.ledger.steps if m.watch]
        watched = watch(earlier, at, scores, found.excluded / found.episodes, self.learner.name)
        supported = fsum(score.supported for score in scores.values()) / len(scores) if scores else None
        return found.model_copy(update={"supported": supported}), watched

    async def _rollout(self, step: int, label: str, tasks: Sequence[Task], samples: int, policy: Policy) -> list[Group] | None:
        """Groups of the tasks, those of an earlier process among them; None if the run is to stop.

        Args:
            label: of the state that plays.
        """
        split, began = tasks[0].split, time.perf_counter()
        earlier = self.ledger.played(step, split, label)
        there: dict[str, dict[int, Trajectory]] = {task.id: {} for task in tasks}
        for (task_id, sample), trajectory in earlier.items():
            if trajectory.reward and task_id in there:
                there[task_id][sample] = trajectory
        jobs = [
            self._job(step, label, t, s, policy, earlier.get((t.id, s)))
            for t in tasks
            for s in range(samples)
            if s not in there[t.id]
        ]
        scoring = self.seconds["score"]
        await self._play(jobs, there, samples)
        scoring = self.seconds["score"] - scoring
        self.seconds["validate" if split is Split.VALIDATION else "rollout"] += time.perf_counter() - began - scoring
        if any(len(group) < samples for group in there.values()):
            return None
        ordered = {task_id: [group[s] for s in range(samples)] for task_id, group in there.items()}
        return [Group(task_id=task_id, trajectories=tuple(group)) for task_id, group in ordered.items()]

    def _job(self, step: int, label: str, task: Task, sample: int, policy: Policy, earlier: Trajectory | None) -> Job:
        attempt = earlier.attempt + 1 if earlier else 0
        return Job(policy, task, self.plan.config.seed, step, sample, attempt, self.learner.model, label)

    async def _play(self, jobs: Iterable[Job], there: dict[str, dict[int, Trajectory]], samples: int) -> None:
        """Play the jobs, and write each group when it is whole; what cost something, or is over at a stop, at once."""
        waiting = takewhile(lambda _: not self.stop.requested and self._overspent() is None, jobs)
        unwritten: dict[str, list[Trajectory]] = defaultdict(list)
        try:
            async with aclosing(run_many(waiting, self._timed_setting(), self.plan.config.concurrency)) as playing:
                async for trajectory in playing:
                    there[trajectory.task_id][trajectory.sample] = trajectory
                    self.spent += trajectory.usage
                    unwritten[trajectory.task_id].append(trajectory)
                    self.listener.episode(trajectory)
                    if trajectory.usage.tokens or len(there[trajectory.task_id]) == samples:
                        self.ledger.add(unwritten.pop(trajectory.task_id))
        except ArtifactError:
            unwritten.clear()  # the journal is closed; another write to it would fail as well, and hide why
            raise
        finally:
            self.ledger.add([trajectory for group in unwritten.values() for trajectory in group])
        if (met := self._overspent()) and any(len(group) < samples for group in there.values()):
            raise GuardError(f"{met}; what was played is saved, and --resume with a higher limit goes on")

    def _timed_setting(self) -> Setting:
        def add(seconds: float) -> None:
            self.seconds["score"] += seconds

        return replace(self.plan.setting, on_scored=add)

    def _overspent(self) -> str | None:
        return self.plan.budget.refuse(self.spent.tokens, self.spent.cost_usd)

    def _worth_keeping(self) -> list[int]:
        steps = [metrics.step for metrics in self.ledger.steps]
        best = best_step(self.ledger.steps)
        return [0, *([] if best is None else [best]), *steps[-self.plan.config.keep_checkpoints :]]  # and the warm start


def played(trajectories: Sequence[Trajectory]) -> Played:
    """What episodes measured together."""
    scored = [(trajectory, trajectory.reward) for trajectory in trajectories if trajectory.reward]
    count = len(scored) or 1
    values: dict[str, list[float]] = defaultdict(list)
    for _, reward in scored:
        for part in reward.parts:
            values[part.name].append(part.value)
    return Played(
        episodes=len(trajectories),
        excluded=len(trajectories) - len(scored),
        reward=fsum(reward.total for _, reward in scored) / count if scored else None,
        parts={name: fsum(found) / len(found) for name, found in values.items()},
        malformed=sum("malformed" in trajectory.behaviours for trajectory, _ in scored) / count,
        calls=sum(trajectory.calls for trajectory, _ in scored) / count,
        opened=sum(len(trajectory.opened) for trajectory, _ in scored) / count,
        cited=sum(len(set(trajectory.sources)) for trajectory, _ in scored) / count,
        tools={tool: calls / count for tool, calls in sorted(_calls_by_tool(t for t, _ in scored).items())},
        tokens=sum(trajectory.usage.tokens for trajectory in trajectories),
        cost_usd=fsum(trajectory.usage.cost_usd for trajectory in trajectories),
    )


def _scores(groups: Iterable[Group], tasks: Iterable[Task]) -> dict[str, TaskScore]:
    """Reward and supported correctness by task, without the tasks that have no reward."""
    by_id, scores = {task.id: task for task in tasks}, dict[str, TaskScore]()
    for group in groups:
        found = [(t.reward.total, supported_of(t, by_id[group.task_id])) for t in group.trajectories if t.reward]
        if found:
            scores[group.task_id] = TaskScore(*(fsum(column) / len(found) for column in zip(*found, strict=True)))
    return scores


def _calls_by_tool(trajectories: Iterable[Trajectory]) -> Counter[str]:
    return Counter(step.tool for trajectory in trajectories for step in trajectory.steps)


def best_step(steps: Iterable[StepMetrics]) -> int | None:
    """The step with the highest validation reward, the earliest of equals; None without a validation.

    The warm start counts as step 0, whose states are both kept.
    """
    rewards = [(m.validation.reward, -m.step) for m in steps if m.validation and m.validation.reward is not None]
    return -max(rewards)[1] if rewards else None


def _summary(run: _Run, seconds: float) -> Training:
    plan, steps = run.plan, run.ledger.steps
    all_played = [p for metrics in steps for p in (metrics.train, metrics.validation) if p]
    validated = [metrics.validation for metrics in steps if metrics.validation]
    warmed = [metrics.validation for metrics in steps if metrics.is_warm_start]
    return Training(
        run_id=plan.identity.run_id,
        policy=run.learner.name,
        dry_run=plan.dry_run,
        config=plan.config.model_dump(mode="json"),
        config_digest=digest(plan.config.model_dump(mode="json")),
        digests=plan.setting.digests,
        versions=versions(),
        started_at=plan.identity.started_at.isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        steps=steps[-1].step,
        episodes=sum(p.episodes for p in all_played),
        excluded=sum(p.excluded for p in all_played),
        before=validated[0] if validated else None,
        after=validated[-1] if validated else None,
        warm=warmed[0] if warmed else None,
        best_step=best_step(steps),
        latest=steps[-1].checkpoint,
        warnings=tuple(metrics.watch.warning for metrics in steps if metrics.watch and metrics.watch.warning),
        learned=dict(run.learner.learned()),
    )


def _fixed(config: TrainingConfig) -> dict[str, object]:
    return {name: value for name, value in config.model_dump(mode="json").items() if name not in _MAY_CHANGE}


def _plain(value: object) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool | None) else json_line(value).decode().strip()
