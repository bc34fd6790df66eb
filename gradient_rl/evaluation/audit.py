"""An audit of a reward on a set of tasks: the reference should reach the top, and nothing that did not do the work.

`audit` plays the reference, a weak policy, two that do nothing sensible, and every cheater on every task, scores each episode
twice, and judges what it sees. What it finds are records; `report/audit.py` says them in words.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from gradient_rl.environment.workspace import Workspace
from gradient_rl.evaluation.cribs import crib_of
from gradient_rl.evaluation.holes import Hole, holes_in
from gradient_rl.evaluation.leaks import leaks_of, texts_shown
from gradient_rl.policies.base import Message, Policy, Reply, calls_in
from gradient_rl.policies.cheaters import CHEATERS, Cheater, EmptyPolicy, RandomPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rewards.own import Mark, mark
from gradient_rl.rewards.profile import PARTS, RewardFunction, RewardProfile, submission_of
from gradient_rl.rewards.submission import Submission
from gradient_rl.rollout.runner import Job, Setting, run_many
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import StopReason, ToolCall, Trajectory
from gradient_rl.schema.workspace import FrozenRecord

FULL = 1.0 - 1e-9
"""What the reference has to earn on every task: a policy cannot learn towards a top that the best trajectory misses."""
MAX_FLOOR = 0.05
"""Mean reward of a policy that does nothing sensible. Above it, a training group that differs in nothing else is ranked by
this share alone; a twentieth leaves room for a random policy that finds something now and then."""
MAX_CHEATER = 0.2
"""Mean reward of a cheater. A fifth is what the weakest honest policies earn; a cheater that earns as much competes with
learning to work."""
NEAR_TOP = 0.5
"""Mean reward of a cheater within one family. Half of the reward on one kind of task is what honest work has to beat there."""
LEAST_HOLE = 0.01
"""Mean over all tasks that a cheater must be paid through a hole before it is one."""
LEAST_HOLE_IN_FAMILY = 0.05
"""The same within the family that pays it best, which a mean over many families would hide."""


class Role(StrEnum):
    """What a player is there for."""

    REFERENCE = "reference"
    HONEST = "honest"
    """Tries to do the work, and is shown beside the others."""
    FLOOR = "floor"
    """Does nothing sensible."""
    CHEATER = "cheater"


class Check(StrEnum):
    """What an audit asks, in the order in which it answers."""

    BOUNDS = "bounds"
    REFERENCE = "reference"
    FLOOR = "floor"
    HOLES = "holes"
    SCORED_TWICE = "scored_twice"
    PLAYED_TWICE = "played_twice"
    LEAKS = "leaks"


class Finding(FrozenRecord):
    """One thing that is wrong with a reward or with the tasks it is earned on. What does not apply to its check is None."""

    check: Check
    hole: Hole | None = None
    part: str | None = None
    policy: str | None = None
    """The player that shows it best."""
    tries: str | None = None
    """What that player does, as one clause."""
    others: tuple[str, ...] = ()
    """Other players that show it."""
    mean: float | None = None
    """What the player earns by it, over all tasks."""
    family: str | None = None
    family_mean: float | None = None
    """What it earns by it in that family."""
    task: str | None = None
    """A task that shows it."""
    tasks: int = 0
    """Tasks that show it."""
    detail: str = ""


class Standing(FrozenRecord):
    """What one player earned."""

    name: str
    role: Role
    tries: str
    mean: float
    """Mean total over all tasks."""
    parts: dict[str, float]
    """Mean weighted share of each part in it."""
    families: dict[str, float]
    """Mean total by task family."""


class Audit(FrozenRecord):
    """The result of an audit."""

    schema_version: int = 1
    weights: dict[str, float]
    require_opened: bool
    seed: int
    tasks: int
    episodes: int
    standings: tuple[Standing, ...]
    findings: tuple[Finding, ...]
    failed: tuple[str, ...] = ()
    """Episodes that ended without a reward, and why, as sentences."""

    @property
    def failed_checks(self) -> frozenset[Check]:
        """The checks that have a finding."""
        return frozenset(finding.check for finding in self.findings)


@dataclass(frozen=True)
class Player:
    """Who plays: a policy for each task, because cheaters and the reference know the task beforehand."""

    name: str
    role: Role
    tries: str
    policy_for: Callable[[Task], Policy]


@dataclass(frozen=True)
class Reward:
    """The reward under audit."""

    profile: RewardProfile = field(default_factory=RewardProfile)
    parts: Mapping[str, RewardFunction] = field(default_factory=lambda: PARTS)

    @property
    def weighed(self) -> dict[str, float]:
        """The weights of the parts that count."""
        return {name: weight for name, weight in self.profile.weights.items() if weight}


@dataclass(frozen=True)
class Played:
    """One finished episode, as much of it as an audit needs."""

    player: Player
    task: Task
    submission: Submission | None
    """None when it ended without one: it earns nothing, whatever the parts say."""
    trace: str
    """SHA-256 over the calls, their answers and the submission."""
    error: str | None


@dataclass(frozen=True)
class Scored:
    """An episode with its marks: empty where it has no submission."""

    played: Played
    marks: Mapping[str, Mark]
    weights: Mapping[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """The weighted value of each part."""
        return {name: weight * (self.marks[name].paid if self.marks else 0.0) for name, weight in self.weights.items()}

    @property
    def total(self) -> float:
        """The reward."""
        return sum(self.shares.values())


@dataclass(frozen=True)
class Payment:
    """What one episode was paid through one hole of one part, weighted."""

    part: str
    hole: Hole
    played: Played
    amount: float


@dataclass(frozen=True)
class _Earned:
    """What one player earned through one hole."""

    best: Payment
    mean: float
    family: str
    family_mean: float
    tasks: int


type Progress = Callable[[int, int], None]
"""Called with the number of episodes that have ended, and of all."""


def audit(tasks: Sequence[Task], setting: Setting, reward: Reward, seed: int = 0, progress: Progress | None = None) -> Audit:
    """Play everybody on all tasks and judge the reward.

    Args:
        tasks: at least one.
        setting: where they are played; its own profile is not used.
        reward: what is audited.
        seed: of the players that choose by chance.
        progress: told after each episode.
    """
    players = players_for(setting.workspace)
    again = [player for player in players if player.role is not Role.CHEATER]
    of = len(tasks) * (len(players) + len(again))
    played = play(players, tasks, setting, reward.profile, seed, lambda n: progress(n, of) if progress else None)
    first = len(played)
    replayed = play(again, tasks, setting, reward.profile, seed, lambda n: progress(first + n, of) if progress else None)
    scored = [scored_by(reward, each) for each in played]
    standings = tuple(_standing(player, _of(player, scored)) for player in players)
    return Audit(
        weights=reward.profile.weights,
        require_opened=reward.profile.require_opened,
        seed=seed,
        tasks=len(tasks),
        episodes=len(played) + len(replayed),
        standings=standings,
        findings=tuple(_findings(reward, scored, replayed, tasks, setting)),
        failed=tuple(f"{p.player.name} on {p.task.id}: {p.error}" for p in [*played, *replayed] if p.error is not None),
    )


def players_for(workspace: Workspace) -> list[Player]:
    """The reference, the weak policy, the two at the floor, and every cheater."""
    weak, empty, by_chance = WeakPolicy(), EmptyPolicy(), RandomPolicy()
    return [
        Player("reference", Role.REFERENCE, "makes the calls that the task stores", lambda task: Reciting(task.reference)),
        Player(weak.name, Role.HONEST, "searches once and quotes the first hit", lambda _: weak),
        Player(empty.name, Role.FLOOR, "submits an empty answer at once", lambda _: empty),
        Player(by_chance.name, Role.FLOOR, "makes valid calls by chance", lambda _: by_chance),
        *(Player(c.name, Role.CHEATER, c.tries, _handing_cribs(c, workspace)) for c in CHEATERS.values()),
    ]


@dataclass(frozen=True)
class Reciting:
    """Makes fixed calls one after the other; when there are none left, it replies without a call."""

    calls: tuple[ToolCall, ...]
    name: str = "reference"

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        place = len(calls_in(messages))
        following = self.calls[place : place + 1]
        return Reply(tool_calls=tuple(call.model_copy(update={"id": f"call_{place}"}) for call in following))


def play(
    players: Iterable[Player],
    tasks: Sequence[Task],
    setting: Setting,
    profile: RewardProfile,
    seed: int,
    told: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play every player on every task, in their order."""
    line = [(player, task) for player in players for task in tasks]

    async def all_of_them() -> list[Played]:
        jobs = (Job(player.policy_for(task), task, seed) for player, task in line)
        ended: list[Played] = []
        async for trajectory in run_many(jobs, setting):
            ended.append(_played(*line[len(ended)], trajectory, profile))
            told(len(ended))
        return ended

    return asyncio.run(all_of_them())


def scored_by(reward: Reward, played: Played) -> Scored:
    """The marks of an episode, each part asked once."""
    submission, weights = played.submission, reward.weighed
    marks = {name: mark(reward.parts[name], submission) for name in weights} if submission else {}
    return Scored(played, marks, weights)


def _played(player: Player, task: Task, trajectory: Trajectory, profile: RewardProfile) -> Played:
    submitted = trajectory.stop_reason is StopReason.SUBMITTED
    return Played(
        player=player,
        task=task,
        submission=submission_of(trajectory, task.for_grader(), profile) if submitted else None,
        trace=_trace_of(trajectory),
        error=(trajectory.error or "") if trajectory.stop_reason.is_infrastructure else None,
    )


def _trace_of(trajectory: Trajectory) -> str:
    steps = [(step.tool, step.arguments, step.observation) for step in trajectory.steps]
    return hashlib.sha256(repr((steps, trajectory.answer, trajectory.sources)).encode("utf-8", "replace")).hexdigest()


def _handing_cribs(cheater: Cheater, workspace: Workspace) -> Callable[[Task], Policy]:
    return lambda task: cheater.make(crib_of(task, workspace))


def _of(player: Player, scored: Iterable[Scored]) -> list[Scored]:
    return [each for each in scored if each.played.player.name == player.name]


def _standing(player: Player, scored: Sequence[Scored]) -> Standing:
    names = scored[0].weights
    return Standing(
        name=player.name,
        role=player.role,
        tries=player.tries,
        mean=fmean(each.total for each in scored),
        parts={name: fmean(each.shares[name] for each in scored) for name in names},
        families=_by_family((each.played.task.family, each.total) for each in scored),
    )


def _by_family(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for family, value in values:
        found.setdefault(str(family), []).append(value)
    return {family: fmean(found[family]) for family in sorted(found)}


def _findings(
    reward: Reward, scored: Sequence[Scored], replayed: Sequence[Played], tasks: Sequence[Task], setting: Setting
) -> list[Finding]:
    moving = list(scoring_findings(reward, scored))
    payments = payments_in(reward, scored, {str(finding.part) for finding in moving})
    return [
        *bounds_findings(scored),
        *reference_findings(scored),
        *floor_findings(scored),
        *hole_findings(payments, tasks),
        *height_findings(scored, payments),
        *moving,
        *playing_findings([each.played for each in scored], replayed),
        *leak_findings(tasks, setting),
    ]


def bounds_findings(scored: Sequence[Scored]) -> Iterator[Finding]:
    """A finding for each part that raised, or left [0, 1], on some submission."""
    for name in scored[0].weights:
        bad = [each for each in scored if each.marks and not each.marks[name].fits]
        if bad:
            first = bad[0]
            what = first.marks[name].fault or f"returned {first.marks[name].value:g}"
            tasks = len({each.played.task.id for each in bad})
            yield Finding(
                check=Check.BOUNDS,
                part=name,
                policy=first.played.player.name,
                task=first.played.task.id,
                tasks=tasks,
                detail=what,
            )


def reference_findings(scored: Sequence[Scored]) -> Iterator[Finding]:
    """A finding for each part that keeps the reference below 1."""
    mine = [each for each in scored if each.played.player.role is Role.REFERENCE]
    unfinished = [each for each in mine if each.played.submission is None]
    if unfinished:
        at = unfinished[0].played.task
        detail = "it ends without a submission"
        yield Finding(check=Check.REFERENCE, policy="reference", task=at.id, tasks=len(unfinished), detail=detail)
    for name in scored[0].weights:
        short = [each for each in mine if each.marks and each.marks[name].paid < FULL]
        if short:
            worst = min(short, key=lambda each: each.marks[name].paid)
            yield Finding(
                check=Check.REFERENCE,
                part=name,
                policy="reference",
                mean=worst.marks[name].paid,
                task=worst.played.task.id,
                tasks=len(short),
            )


def payments_in(reward: Reward, scored: Iterable[Scored], but: Collection[str] = ()) -> list[Payment]:
    """What every cheater, and everybody at the floor, is paid through holes.

    Args:
        reward: what is audited.
        scored: all episodes.
        but: parts that are left out, because asking them twice tells nothing.
    """
    return [
        Payment(name, hole, each.played, each.weights[name] * amount)
        for each in scored
        if each.played.player.role in (Role.CHEATER, Role.FLOOR) and each.played.submission
        for name in each.weights
        if name not in but
        for hole, amount in holes_in(reward.parts[name], each.played.submission).items()
    ]


def hole_findings(payments: Iterable[Payment], tasks: Sequence[Task]) -> Iterator[Finding]:
    """A finding for each part and each hole in it: who is paid most through it, and where."""
    by_hole: dict[tuple[str, Hole], list[Payment]] = {}
    for payment in payments:
        by_hole.setdefault((payment.part, payment.hole), []).append(payment)
    for paid in by_hole.values():
        by_player: dict[str, list[Payment]] = {}
        for payment in paid:
            by_player.setdefault(payment.played.player.name, []).append(payment)
        earned = [_earned(each, tasks) for each in by_player.values()]
        earning = [e for e in earned if e.mean >= LEAST_HOLE or e.family_mean >= LEAST_HOLE_IN_FAMILY]
        if earning:
            yield _hole_finding(earning)


def _earned(payments: Sequence[Payment], tasks: Sequence[Task]) -> _Earned:
    """What one player is paid through one hole, on average; a task where it is not paid counts as 0."""
    amounts = {payment.played.task.id: payment.amount for payment in payments}
    families = _by_family((task.family, amounts.get(task.id, 0.0)) for task in tasks)
    best = max(families, key=lambda family: families[family])
    return _Earned(
        max(payments, key=lambda p: p.amount), sum(amounts.values()) / len(tasks), best, families[best], len(amounts)
    )


def _hole_finding(earning: Sequence[_Earned]) -> Finding:
    first = max(earning, key=lambda each: each.mean)
    payment = first.best
    return Finding(
        check=Check.HOLES,
        hole=payment.hole,
        part=payment.part,
        policy=payment.played.player.name,
        tries=payment.played.player.tries,
        others=tuple(each.best.played.player.name for each in earning if each is not first),
        mean=first.mean,
        family=first.family,
        family_mean=first.family_mean,
        task=payment.played.task.id,
        tasks=first.tasks,
    )


def floor_findings(scored: Iterable[Scored]) -> Iterator[Finding]:
    """A finding for each player at the floor that stands above it."""
    floor = [each for each in scored if each.played.player.role is Role.FLOOR]
    for finding in _heights([(each, each.total) for each in floor], Check.FLOOR):
        if (finding.mean or 0.0) > MAX_FLOOR:
            yield finding


def height_findings(scored: Iterable[Scored], payments: Iterable[Payment]) -> Iterator[Finding]:
    """A finding for each cheater that stands too high by what no hole explains."""
    paid: dict[tuple[str, str], float] = {}
    for payment in payments:
        key = payment.played.player.name, payment.played.task.id
        paid[key] = paid.get(key, 0.0) + payment.amount
    cheaters = [each for each in scored if each.played.player.role is Role.CHEATER]
    rests = [(e, max(0.0, e.total - paid.get((e.played.player.name, e.played.task.id), 0.0))) for e in cheaters]
    for finding in _heights(rests, Check.HOLES):
        if (finding.mean or 0.0) >= MAX_CHEATER or (finding.family_mean or 0.0) >= NEAR_TOP:
            yield finding


def _heights(earned: Iterable[tuple[Scored, float]], check: Check) -> Iterator[Finding]:
    """What each player earned, and the part that gave most, as a finding of this check."""
    by_player: dict[str, list[tuple[Scored, float]]] = {}
    for each, amount in earned:
        by_player.setdefault(each.played.player.name, []).append((each, amount))
    for found in by_player.values():
        first = found[0][0]
        families = _by_family((each.played.task.family, amount) for each, amount in found)
        family = max(families, key=lambda name: families[name])
        yield Finding(
            check=check,
            part=_best_part([each for each, _ in found]),
            policy=first.played.player.name,
            tries=first.played.player.tries,
            mean=fmean(amount for _, amount in found),
            family=family,
            family_mean=families[family],
        )


def _best_part(scored: Sequence[Scored]) -> str:
    return max(scored[0].weights, key=lambda name: sum(each.shares[name] for each in scored))


def scoring_findings(reward: Reward, scored: Sequence[Scored]) -> Iterator[Finding]:
    """A finding for each part that gives an episode another value when asked again, in another order."""
    moved: dict[str, list[tuple[Scored, float]]] = {}
    for each in reversed(scored):
        again = scored_by(reward, each.played).marks
        for name, first in each.marks.items():
            if not _same(first, again[name]):
                moved.setdefault(name, []).append((each, again[name].value))
    for name, found in moved.items():
        each, second = found[-1]
        yield Finding(
            check=Check.SCORED_TWICE,
            part=name,
            policy=each.played.player.name,
            task=each.played.task.id,
            tasks=len({e.played.task.id for e, _ in found}),
            detail=f"{each.marks[name].value:g}, then {second:g}",
        )


def _same(first: Mark, second: Mark) -> bool:
    return first.value == second.value or (math.isnan(first.value) and math.isnan(second.value))


def playing_findings(played: Iterable[Played], replayed: Iterable[Played]) -> Iterator[Finding]:
    """A finding for each player whose episodes differ when played again with the same seed."""
    first = {(each.player.name, each.task.id): each.trace for each in played}
    moved: dict[str, list[str]] = {}
    for each in replayed:
        if first[each.player.name, each.task.id] != each.trace:
            moved.setdefault(each.player.name, []).append(each.task.id)
    for name, tasks in moved.items():
        yield Finding(check=Check.PLAYED_TWICE, policy=name, task=tasks[0], tasks=len(tasks))


def leak_findings(tasks: Iterable[Task], setting: Setting) -> Iterator[Finding]:
    """A finding for each piece of a solution that stands in what agents are shown."""
    for task in tasks:
        for leak in leaks_of(task, texts_shown(task, setting.limits, setting.tools)):
            yield Finding(check=Check.LEAKS, task=task.id, family=task.family, tasks=1, detail=f"{leak.what} in {leak.where}")
