"""`gradient-eval --attack`: what instructions planted in records do to each policy."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gradient_rl.cli.evaluate import interrupted, progress
from gradient_rl.cli.interrupt import ask_to_stop, stopping_on_interrupt
from gradient_rl.cli.terminal import ARTIFACTS, put_json, stdout_console, warn
from gradient_rl.errors import GradientError, UsageError

if TYPE_CHECKING:
    from gradient_rl.evaluation.attack import AttackPlan
    from gradient_rl.evaluation.run import Request
    from gradient_rl.policies.catalog import Entry
    from gradient_rl.schema.attack import AttackEvaluation


def refuse_gates(fail_under: Sequence[str]) -> None:
    """Refuse floors, which are about an evaluation without attack.

    Raises:
        UsageError: there is one.
    """
    if fail_under:
        raise UsageError(f"--fail-under {fail_under[0]} does not go with --attack; hold the gate in a run without --attack")


def refuse_without_attack(styles: Sequence[str], aims: Sequence[str]) -> None:
    """Refuse what says how to attack where nothing is attacked.

    Raises:
        UsageError: there is such an option.
    """
    for option, given in (("--attack-style", styles), ("--attack-aim", aims)):
        if given:
            raise UsageError(f"{option} {given[0]} is read only with --attack; add it, or leave the option out")


def run_attack(
    request: Request,
    catalog: Sequence[Entry],
    data: Path,
    artifacts: Path,
    chosen: tuple[Sequence[str], Sequence[str]],
    resume: bool,
    as_json: bool,
) -> None:
    """Play both halves, save what came of them, and print it.

    Args:
        chosen: names of the styles and of the aims; none for all.

    Raises:
        GradientError: episodes ended without a reward, or whatever kept the run from its end.
    """
    from gradient_rl.evaluation.attack import plan_attack
    from gradient_rl.schema.attack import Aim, Style

    styles, aims = _members("--attack-style", chosen[0], Style), _members("--attack-aim", chosen[1], Aim)
    plan = plan_attack(request, data, artifacts, catalog, styles, aims)
    evaluation = _play(plan, artifacts, resume)
    _print(evaluation, plan, artifacts, as_json)
    _refuse_missing_rewards(evaluation)


def _members[T: StrEnum](option: str, names: Sequence[str], kind: type[T]) -> tuple[T, ...]:
    known = {member.value: member for member in kind}
    for name in names:
        if name not in known:
            raise UsageError(f"{option}: there is no '{name}'; there are {', '.join(known)}")
    return tuple(known[name] for name in names) or tuple(kind)


def _play(plan: AttackPlan, artifacts: Path, resume: bool) -> AttackEvaluation:
    from gradient_rl.evaluation.attack import UNDER, attack_evaluation_of, play_attack, prepare_attack, save_attack
    from gradient_rl.evaluation.run import GRACE_S, Stop
    from gradient_rl.runs import hold_folder

    started, stop = time.perf_counter(), Stop()
    names = [player.name for player in plan.clean.lineup.players]
    with hold_folder(artifacts), stopping_on_interrupt(lambda: ask_to_stop(stop.request, GRACE_S)):
        plan = prepare_attack(plan, artifacts, resume=resume)
        with progress(plan.episodes, [*names, *(name + UNDER for name in names)]) as listen:
            clean, attacked = play_attack(plan, artifacts, stop, listen, lambda fault: warn(str(fault)))
        left = clean.left + attacked.left
        if left:
            raise interrupted(plan.episodes - left, plan.episodes)
        head = plan.clean.head(time.perf_counter() - started)
        evaluation = attack_evaluation_of(head, plan.clean.tasks, plan.planted, clean.outcomes, attacked.outcomes)
        save_attack(artifacts, evaluation)
    return evaluation


def _print(evaluation: AttackEvaluation, plan: AttackPlan, artifacts: Path, as_json: bool) -> None:
    if as_json:
        from gradient_rl.runs import json_line

        put_json(json_line(evaluation.model_dump(mode="json")).decode())
        return
    from gradient_rl.report.attack import print_attack

    console = stdout_console()
    print_attack(console, evaluation)
    saved = f"Saved {artifacts / 'attack.json'} and the trajectories beside it."
    console.print(f"\n{saved}\n{_next(evaluation, plan, artifacts)}", soft_wrap=True)


def _next(evaluation: AttackEvaluation, plan: AttackPlan, artifacts: Path) -> str:
    from gradient_rl.evaluation.attack import PLANTED

    place = "" if artifacts == ARTIFACTS else f" --artifacts {shlex.quote(str(artifacts))}"
    for player in plan.attacked.lineup.players:
        for task in evaluation.tasks:
            if task.policies[player.name].success:
                shown = f"{PLANTED}.{player.slug}/{task.id}"
                return f"Next: gradient-inspect show {shown}/0{place} shows an episode whose task was hit."
    return "Next: no instruction was obeyed; --samples 4 --temperature 1, or another --seed, tries more of them."


def _refuse_missing_rewards(evaluation: AttackEvaluation) -> None:
    excluded = sum(policy.excluded for policy in evaluation.policies.values())
    if excluded:
        played = sum(policy.n_episodes for policy in evaluation.policies.values())
        raise GradientError(f"{excluded} of {played} episodes ended without a reward; --resume plays them again")
