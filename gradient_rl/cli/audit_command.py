"""`gradient-inspect audit`: whether a reward pays for the work, and for nothing else."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.terminal import (
    DataOption,
    DebugOption,
    JsonOption,
    SeedOption,
    data_dir,
    put_json,
    reported_errors,
    stderr_console,
    stdout_console,
)
from gradient_rl.errors import GateError, GradientError

if TYPE_CHECKING:
    from gradient_rl.evaluation.audit import Audit, Progress, Reward

_NEXT_SOUND = "Next: gradient-train learns from this reward; gradient-eval --rescore holds saved episodes against it."
_NEXT_HOLES = "Next: mend what is named above, then run this command again; docs/reliability.md has each kind of hole."


def audit(
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="FILE.json|NAME=VALUE,...", help="Reward weights and rules to audit."),
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", metavar="[NAME=]MODULE:FUNCTION", help="A reward part of your own; may be repeated."),
    ] = None,
    data: DataOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Audit a reward on a data folder: play the reference, cheaters, and who does nothing, and say where it has a hole.

    A --reward function takes the place of the part that has its name, and another name is a part that --profile weighs; alone
    it is the whole reward. It is imported from the working folder, and run.
    Exit code 0: no hole was found; 1: episodes failed on the way; 3: there are findings.
    """
    with reported_errors(debug):
        from gradient_rl.report.audit import print_audit, result_object

        folder = data_dir(data)
        found = _audited(folder, _reward(profile, reward or []), seed)
        if as_json:
            from gradient_rl.runs import json_line

            put_json(json_line(result_object(found, str(folder), _paths(reward or []))).decode())
        else:
            print_audit(stdout_console(), found, _NEXT_HOLES if found.findings else _NEXT_SOUND)
        _judge(found)


def _reward(profile: str | None, specs: Sequence[str]) -> Reward:
    from gradient_rl.evaluation.audit import Reward
    from gradient_rl.evaluation.rescore import parse_profile
    from gradient_rl.rewards.own import load_parts, profile_of, refuse_unweighed
    from gradient_rl.rewards.profile import PARTS

    here = str(Path.cwd())
    if specs and here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: a user's module lies where the command is run
    own = load_parts(specs)
    parts = {**PARTS, **own}
    chosen = parse_profile(profile, parts) if profile else profile_of(own)
    refuse_unweighed(own, chosen)
    return Reward(chosen, parts)


def _audited(folder: Path, reward: Reward, seed: int) -> Audit:
    from gradient_rl.environment.workspace import load_workspace
    from gradient_rl.evaluation.audit import audit as judge
    from gradient_rl.evaluation.rescore import task_files
    from gradient_rl.rollout.runner import setting_for

    setting = setting_for(load_workspace(folder))
    tasks = [task for file in reversed(task_files(folder)) for task in file.tasks]
    with _progress() as told:
        return judge(tasks, setting, reward, seed, told)


def _judge(found: Audit) -> None:
    from gradient_rl.report.terminal import count

    if found.failed:
        failed = count(len(found.failed), "episode")
        raise GradientError(f"{failed} failed on the way and had no reward, the first {found.failed[0]}")
    if found.findings:
        checks = ", ".join(sorted(found.failed_checks))
        raise GateError(f"the reward has {count(len(found.findings), 'finding')} ({checks})")


def _paths(specs: Sequence[str]) -> dict[str, str]:
    from gradient_rl.rewards.own import name_and_path

    return dict(name_and_path(spec) for spec in specs)


@contextmanager
def _progress() -> Generator[Progress | None]:
    """A bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=stderr_console(), transient=True) as bar:
        task = bar.add_task("")
        yield lambda ended, of: bar.update(task, completed=ended, total=of)
