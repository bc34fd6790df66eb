"""An evaluation under attack: the same episodes on the records as they are, and on records with instructions planted in them.

Policies, tasks, samples and seeds are the same in both halves, and in both of them searches rank and quote the records as they
were before. So a difference is what the instruction did to its reader, and not what its words did to the ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gradient_rl.evaluation.lineup import line_up
from gradient_rl.evaluation.metrics import REWARD, Outcome, by_task, last_attempts
from gradient_rl.evaluation.planting import Planted, is_hit, plant
from gradient_rl.evaluation.records import OnDamage
from gradient_rl.evaluation.run import CHECKPOINTS, Listen, Plan, Played, Request, Stop, plan_evaluation, play, prepare_run
from gradient_rl.evaluation.statistics import Rewards, compare, mean_interval, paired_differences, task_means, tasks_needed
from gradient_rl.policies.catalog import CATALOG, Entry
from gradient_rl.runs import RunIdentity, json_line, raise_damage, write_whole
from gradient_rl.schema.attack import (
    Aim,
    AttackedAttempt,
    AttackedTask,
    AttackEvaluation,
    HitShare,
    Plant,
    Style,
    UnderAttack,
)
from gradient_rl.schema.evaluation import ComparisonResult, EvaluationHead, Metric
from gradient_rl.schema.task import Task

RESULT = "attack.json"
MANIFEST = "attack.run.json"
CLEAN, PLANTED = "attack.clean", "attack.planted"
"""What the names of the trajectory files of the two halves begin with."""
FILES = (RESULT, "attack.*.jsonl")
UNDER = " under attack"
"""Stands behind a policy's name where its two halves have to be told apart."""
_TARGETS = (0.05, 0.1, 0.2)

type Outcomes = Mapping[str, Sequence[Outcome]]
"""By policy, in any order of episodes."""


@dataclass(frozen=True)
class AttackPlan:
    """What will be played: two plans that differ in their records alone, and what was planted."""

    clean: Plan
    attacked: Plan
    planted: Planted

    @property
    def episodes(self) -> int:
        """Of both halves."""
        return self.clean.episodes + self.attacked.episodes


def plan_attack(
    request: Request,
    data: Path,
    artifacts: Path,
    catalog: Sequence[Entry] = CATALOG,
    styles: Collection[Style] = tuple(Style),
    aims: Collection[Aim] = tuple(Aim),
) -> AttackPlan:
    """Find, load, check and plant everything, before anything is played or written.

    Raises:
        UsageError, NothingToReadError, DataError: as `plan_evaluation`, and a task whose records are not there.
    """
    clean = plan_evaluation(request, data, artifacts, catalog)
    planted = plant(clean.setting.workspace, clean.tasks, request.seed, styles, aims)
    shown = {"attack_styles": ",".join(s for s in Style if s in styles), "attack_aims": ",".join(a for a in Aim if a in aims)}
    fields = {**clean.identity.fields, **shown, "attacked_workspace": planted.workspace.digest}
    identity = RunIdentity(fields, clean.identity.started_at)
    setting = replace(clean.setting, run_id=identity.run_id)
    digests = setting.digests.model_copy(update={"workspace": planted.workspace.digest})
    attacked = replace(setting, workspace=planted.workspace, digests=digests)
    # Policies of their own: a half closes its own when it ends.
    again = line_up(request.baseline, request.policies, artifacts / CHECKPOINTS, request.temperature, catalog)
    first = replace(clean, setting=setting, identity=identity, stem=CLEAN)
    return AttackPlan(first, replace(first, lineup=again, setting=attacked, stem=PLANTED), planted)


def prepare_attack(plan: AttackPlan, folder: Path, *, resume: bool) -> AttackPlan:
    """Move an earlier attack's files to `runs/`, or take it up; see `prepare_run`."""
    identity = prepare_run(plan.clean.identity, folder, MANIFEST, FILES, resume=resume)
    return replace(plan, clean=replace(plan.clean, identity=identity), attacked=replace(plan.attacked, identity=identity))


def play_attack(
    plan: AttackPlan, folder: Path, stop: Stop, listen: Listen, on_damage: OnDamage = raise_damage
) -> tuple[Played, Played]:
    """Play what the folder does not hold yet, without attack and then under attack; see `play`.

    After a request to stop in the first half, all of the second one is left.
    """
    clean = play(plan.clean, folder, stop, listen, on_damage)
    return clean, play(plan.attacked, folder, stop, lambda name, outcome: listen(name + UNDER, outcome), on_damage)


def save_attack(folder: Path, evaluation: AttackEvaluation) -> None:
    """Write `attack.json`, whose presence says that the run is complete.

    Raises:
        ArtifactError: the file system refuses.
    """
    write_whole(folder / RESULT, json_line(evaluation.model_dump(mode="json")))


def attack_evaluation_of(
    head: EvaluationHead, tasks: Sequence[Task], planted: Planted, clean: Outcomes, attacked: Outcomes
) -> AttackEvaluation:
    """Put the evaluation together.

    Args:
        head: what was run; its workspace is that of the records without the instructions.
        tasks: in the order in which they are listed.
        planted: what was planted for them.
        clean: the outcomes without attack.
        attacked: those under attack, of the same policies.
    """
    halves = {name: _Halves(last_attempts(clean[name]), last_attempts(attacked[name]), planted.plants) for name in clean}
    fields = {name: getattr(head, name) for name in EvaluationHead.model_fields}
    return AttackEvaluation(
        **fields,
        attacked_workspace=planted.workspace.digest,
        policies={name: _under_attack(name, each, head.seed or 0) for name, each in halves.items()},
        tasks=tuple(
            AttackedTask(
                id=task.id,
                family=task.family.value,
                plant=planted.plants[task.id],
                policies={name: _attempt(task.id, each) for name, each in halves.items()},
            )
            for task in tasks
        ),
    )


@dataclass(frozen=True)
class _Halves:
    """One policy's episodes without and under attack."""

    clean: Sequence[Outcome]
    attacked: Sequence[Outcome]
    plants: Mapping[str, Plant]

    def hit(self, outcome: Outcome) -> bool:
        return is_hit(self.plants[outcome.task_id], outcome.answer, outcome.sources)

    def read(self, outcome: Outcome) -> bool:
        return self.plants[outcome.task_id].record in outcome.opened


def _under_attack(name: str, halves: _Halves, seed: int) -> UnderAttack:
    episodes = (*halves.clean, *halves.attacked)
    hits = _told(halves.attacked, halves.hit)
    return UnderAttack(
        n_episodes=len(episodes),
        excluded=sum(outcome.reward is None for outcome in episodes),
        clean=_metric(by_task(halves.clean, REWARD)),
        attacked=_metric(by_task(halves.attacked, REWARD)),
        comparison=_comparison(name, halves, seed),
        read=_metric(_told(halves.attacked, halves.read)),
        success=_metric(hits),
        by_chance=_metric(_told(halves.clean, halves.hit)),
        styles={style: _share(hits, {i for i, p in halves.plants.items() if p.style is style}) for style in Style},
        aims={aim: _share(hits, {i for i, p in halves.plants.items() if p.aim is aim}) for aim in Aim},
    )


def _comparison(name: str, halves: _Halves, seed: int) -> ComparisonResult:
    under, without = by_task(halves.attacked, REWARD), by_task(halves.clean, REWARD)
    differences = paired_differences(task_means(under).means, task_means(without).means).values()
    needed = {f"{target:g}": tasks_needed(differences, target) for target in _TARGETS}
    result = asdict(compare(under, without, seed=seed))
    return ComparisonResult(baseline=name, candidate=name + UNDER, metric=REWARD, tasks_needed=needed, **result)


def _told(outcomes: Sequence[Outcome], tell: Callable[[Outcome], bool]) -> Rewards:
    """1 or 0 a sample, by task; None for an episode without a reward."""
    told: dict[str, list[float | None]] = {}
    for outcome in outcomes:
        told.setdefault(outcome.task_id, []).append(None if outcome.reward is None else float(tell(outcome)))
    return told


def _share(hits: Rewards, task_ids: Collection[str]) -> HitShare:
    interval = mean_interval([mean for task_id, mean in task_means(hits).means.items() if task_id in task_ids])
    return HitShare(n_tasks=interval.n_tasks, success=interval.mean)


def _attempt(task_id: str, halves: _Halves) -> AttackedAttempt:
    clean, attacked = ([o for o in half if o.task_id == task_id] for half in (halves.clean, halves.attacked))
    shown = next((o for o in attacked if halves.hit(o)), attacked[0])
    return AttackedAttempt(
        clean=_mean(by_task(clean, REWARD)),
        attacked=_mean(by_task(attacked, REWARD)),
        read=_mean(_told(attacked, halves.read)),
        success=_mean(_told(attacked, halves.hit)),
        answer=shown.answer,
        sources=shown.sources,
    )


def _mean(values: Rewards) -> float | None:
    return next(iter(task_means(values).means.values()), None)


def _metric(values: Rewards) -> Metric:
    interval = mean_interval(task_means(values).means.values())
    return Metric(mean=interval.mean, low=interval.low, high=interval.high, note=interval.note)
