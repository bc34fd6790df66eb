"""`gradient-eval`: did it get better? Policies on held-out tasks, compared task by task."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gradient_rl.cli.interrupt import ask_to_stop, stopping_on_interrupt
from gradient_rl.cli.remote import EMBEDDED, BaseUrlOption, KeyOption, PriceOption, command_to_resume, find_access
from gradient_rl.cli.terminal import (
    INTERRUPTED,
    ArtifactsOption,
    DataOption,
    DebugOption,
    JsonOption,
    SeedOption,
    data_dir,
    finite,
    put_json,
    reported_errors,
    run_app,
    say,
    stderr_console,
    stdout_console,
    warn,
)
from gradient_rl.errors import DataError, GateError, GradientError, UsageError

if TYPE_CHECKING:
    from gradient_rl.evaluation.lineup import Lineup
    from gradient_rl.evaluation.metrics import Outcome
    from gradient_rl.evaluation.run import Listen, Plan, Request
    from gradient_rl.policies.adapters import Access
    from gradient_rl.policies.catalog import Entry
    from gradient_rl.schema.evaluation import Evaluation
    from gradient_rl.schema.task import Split

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_BETTER_WHEN_SMALLER = ("malformed", "calls")
_SPEC = "NAME or NAME@CHECKPOINT"

ENOUGH = 16
"""Samples of a task beyond which more tell little; docs/evaluation.md has the table."""


class Gate(NamedTuple):
    """What `--fail-under` asks of some policies."""

    policies: tuple[str, ...]
    metric: str
    at_least: float


@app.command()
def evaluate(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="With --rescore: trajectory files.", show_default=False)
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="SPEC",
            help=f"{_SPEC}; repeat for several. If left out: heuristic, and learned checkpoints that are there.",
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", metavar="SPEC", help="Compared with; weak if left out.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="heldout|train|validation", help="Which tasks.")] = "heldout",
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="ID,...", help="Only these tasks of the split.")] = None,
    samples: Annotated[int, typer.Option("--samples", metavar="K", min=1, help="Episodes of each task.")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="T", min=0.0, callback=finite, help="0 is greedy.")
    ] = 0.0,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Episodes at a time.")] = 8,
    seed: SeedOption = 0,
    artifacts: ArtifactsOption = Path("artifacts"),
    data: DataOption = None,
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    price_per_million: PriceOption = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option("--fail-under", metavar="[POLICY:]METRIC=X", help="Exit with 3 if a metric is below X; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the artifacts folder.")] = False,
    rescore: Annotated[bool, typer.Option("--rescore", help="Score the FILEs again instead of playing.")] = False,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="FILE.json|NAME=VALUE,...", help="Reward weights and rules to score by."),
    ] = None,
    attack: Annotated[
        bool, typer.Option("--attack", help="Play with and without instructions planted in records: are they obeyed?")
    ] = False,
    attack_style: Annotated[
        list[str] | None, typer.Option("--attack-style", metavar="STYLE", help="Plant only these styles; may be repeated.")
    ] = None,
    attack_aim: Annotated[
        list[str] | None, typer.Option("--attack-aim", metavar="AIM", help="Plant only these aims; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Tell whether one policy is better than another: paired, on tasks that none was trained on.

    Writes eval.<policy>.jsonl (a trajectory a line, as each ends), eval.md, eval.html (to read in a browser) and eval.json
    to the artifacts folder; with --attack, attack.json and attack.*.jsonl instead.
    Exit code 0: done; 1: episodes ended without a reward; 3: --fail-under was not met; 130: interrupted.
    """
    with reported_errors(debug):
        if rescore:
            _refuse_with_rescore(context)
            _rescore(files or [], data_dir(data), profile, baseline, as_json)
            return
        if files:
            raise UsageError(f"{files[0]} is read only with --rescore; add it, or leave the file out")
        from gradient_rl.cli.attack import refuse_gates, refuse_without_attack, run_attack
        from gradient_rl.evaluation.lineup import DEFAULT_BASELINE
        from gradient_rl.evaluation.rescore import parse_profile
        from gradient_rl.evaluation.run import Request
        from gradient_rl.rewards.profile import RewardProfile

        request = Request(
            policies=tuple(policy or ()),
            baseline=baseline or DEFAULT_BASELINE,
            split=_split(split),
            task_ids=_task_ids(tasks),
            samples=samples,
            temperature=temperature,
            concurrency=concurrency,
            seed=seed,
            endpoint=_shown(base_url),
            profile=parse_profile(profile) if profile else RewardProfile(),
        )
        specs = [*(policy or ()), baseline or ""]
        with _server_for(specs, artifacts, base_url) as url:
            own = url != base_url
            request = replace(request, one_by_one=own)
            catalog = _catalog(find_access(url, api_key_env, price_per_million, own=own), specs)
            if attack:
                refuse_gates(fail_under or [])
                run_attack(request, catalog, data_dir(data), artifacts, (attack_style or [], attack_aim or []), resume, as_json)
                return
            refuse_without_attack(attack_style or [], attack_aim or [])
            _run(request, catalog, data_dir(data), artifacts, fail_under or [], resume, as_json)


def _shown(base_url: str | None) -> str:
    from gradient_rl.policies.endpoint import Endpoint

    return Endpoint(base_url, "", "the model").shown_url if base_url else ""


@contextmanager
def _server_for(specs: Sequence[str], artifacts: Path, base_url: str | None) -> Generator[str | None]:
    """The base URL of remote policies: that of a server of our own where the adapter was trained by one."""
    from gradient_rl.evaluation.run import CHECKPOINTS

    folder = artifacts / CHECKPOINTS / EMBEDDED
    if base_url is not None or not folder.is_dir() or not any(spec.partition("@")[0] == "art" for spec in specs):
        yield base_url
        return
    from gradient_rl.embedded.models import served_model
    from gradient_rl.embedded.server import serving
    from gradient_rl.runs import hold_folder

    with hold_folder(artifacts):
        pass  # a model beside a training in the same folder would only take its cores, before the folder is refused
    with serving(served_model(_base_model(folder.parent), folder), folder=folder) as server:
        yield server.base_url


def _base_model(checkpoints: Path) -> str:
    """The base model of the adapters that are noted in a folder; the default where none is."""
    from gradient_rl.policies.adapters import art_checkpoints, read_art_state
    from gradient_rl.schema.training import BASE_MODEL

    noted = next((checkpoint.path for checkpoint in art_checkpoints(checkpoints) if checkpoint.path), None)
    return read_art_state(noted).base_model if noted else BASE_MODEL


def _catalog(access: Access, specs: Sequence[str]) -> tuple[Entry, ...]:
    from gradient_rl.policies.adapters import remote_entries
    from gradient_rl.policies.catalog import CATALOG

    return (*CATALOG, *remote_entries(access, specs))


def _run(
    request: Request,
    catalog: Sequence[Entry],
    data: Path,
    artifacts: Path,
    fail_under: Sequence[str],
    resume: bool,
    as_json: bool,
) -> None:
    from gradient_rl.evaluation.metrics import metric_names
    from gradient_rl.evaluation.run import plan_evaluation

    plan = plan_evaluation(request, data, artifacts, catalog)
    gates = [_gate(text, plan.lineup, metric_names(request.profile, request.samples)) for text in fail_under]
    evaluation = _play(plan, data, artifacts, resume)
    _print(evaluation, as_json, _next_after_run(evaluation, artifacts))
    _refuse_missing_rewards(evaluation)
    _hold_gates(gates, evaluation)


def _play(plan: Plan, data: Path, artifacts: Path, resume: bool) -> Evaluation:
    from gradient_rl.evaluation.compare import evaluation_of
    from gradient_rl.evaluation.run import GRACE_S, Stop, play, prepare_folder, save_evaluation
    from gradient_rl.report.evaluation import markdown
    from gradient_rl.report.html.write import write_evaluation_report
    from gradient_rl.runs import hold_folder, json_line

    started, stop = time.perf_counter(), Stop()
    with hold_folder(artifacts), stopping_on_interrupt(lambda: ask_to_stop(stop.request, GRACE_S)):
        plan = prepare_folder(plan, artifacts, resume=resume)
        with progress(plan.episodes, [player.name for player in plan.lineup.players]) as listen:
            played = play(plan, artifacts, stop, listen, _warn)
        if played.left:
            raise interrupted(plan.episodes - played.left, plan.episodes)
        head = plan.head(time.perf_counter() - started)
        evaluation = evaluation_of(head, plan.tasks, played.outcomes, plan.lineup.pairs)
        save_evaluation(artifacts, markdown(evaluation), json_line(evaluation.model_dump(mode="json")))
        try:
            write_evaluation_report(artifacts, data)
        except DataError as error:  # a damaged line costs the page, and never the result, which is saved
            (artifacts / "eval.html").unlink(missing_ok=True)
            warn(f"eval.html was not made: {error}")
    return evaluation


def _rescore(files: Sequence[Path], data: Path, profile: str | None, baseline: str | None, as_json: bool) -> None:
    from gradient_rl.evaluation.rescore import parse_profile, rescore
    from gradient_rl.rewards.profile import RewardProfile

    if not files:
        raise UsageError("--rescore needs at least one FILE of trajectories, such as artifacts/eval.weak.jsonl")
    faults: list[GradientError] = []

    def note(fault: GradientError) -> None:
        _warn(fault)
        faults.append(fault)

    evaluation = rescore(files, data, parse_profile(profile) if profile else RewardProfile(), baseline, note)
    _print(evaluation, as_json, "Next: --rescore with another --profile, such as correctness=0.7,citation_quality=0.3.")
    damaged = sum(isinstance(fault, DataError) for fault in faults)
    if damaged:
        raise DataError(f"lines that could not be scored and were left out, named above: {damaged}")


_READ_BY_RESCORE = {"files", "rescore", "profile", "baseline", "data", "as_json", "debug"}


def _refuse_with_rescore(context: typer.Context) -> None:
    """Refuse options that a rescoring would silently leave unread."""
    given = [p for p in context.command.params if str(context.get_parameter_source(p.name or "")).endswith("COMMANDLINE")]
    unread = [p.opts[0] for p in given if p.name not in _READ_BY_RESCORE]
    if unread:
        raise UsageError(f"{unread[0]} does not go with --rescore, which plays nothing; leave one of them out")


def _gate(text: str, lineup: Lineup, metrics: Sequence[str]) -> Gate:
    """Read `[POLICY:]METRIC=X`; without a policy it holds for every candidate."""
    left, _, number = text.rpartition("=")
    policy, _, metric = left.rpartition(":")
    try:
        at_least = float(number)
    except ValueError:
        at_least = math.nan
    if not math.isfinite(at_least):
        raise UsageError(f"--fail-under {text}: '{number}' is no number; write [POLICY:]METRIC=X, as in reward=0.5")
    if metric in _BETTER_WHEN_SMALLER:
        raise UsageError(f"--fail-under {text}: a smaller {metric} is better, so a floor says nothing; name another metric")
    if metric not in metrics:
        raise UsageError(f"--fail-under {text}: there is no metric '{metric}'; the metrics are {', '.join(metrics)}")
    known = lineup.by_spec
    if policy and policy not in known:
        raise UsageError(f"--fail-under {text}: policy '{policy}' does not play; those that do are {', '.join(known)}")
    return Gate((known[policy],) if policy else lineup.candidates, metric, at_least)


def _hold_gates(gates: Sequence[Gate], evaluation: Evaluation) -> None:
    missed: list[str] = []
    for gate in gates:
        for name in gate.policies:
            found = evaluation.policies[name].metrics.get(gate.metric)
            value = found.mean if found else None
            if value is None or value < gate.at_least:
                shown = "unknown" if value is None else f"{value:.4g}"
                missed.append(f"the {gate.metric} of {name} is {shown}, and --fail-under asks for {gate.at_least:g}")
    if missed:
        raise GateError("; ".join(missed))


def _refuse_missing_rewards(evaluation: Evaluation) -> None:
    from gradient_rl.report.terminal import safe

    excluded = sum(policy.excluded for policy in evaluation.policies.values())
    if excluded:
        played = sum(policy.n_episodes for policy in evaluation.policies.values())
        errors = (attempt.error for task in evaluation.tasks for attempt in task.policies.values() if attempt.error)
        raise GradientError(
            f"{excluded} of {played} episodes ended without a reward, the first with '{safe(next(errors, ''))}'; "
            "--resume plays them again"
        )


def interrupted(saved: int, episodes: int) -> typer.Exit:
    """Say how much is saved and which command goes on, and give the exit for it."""
    command = command_to_resume("gradient-eval")
    say(f"interrupted; {saved} of {episodes} episodes are saved. Go on with: {command}")
    return typer.Exit(INTERRUPTED)


@contextmanager
def progress(episodes: int, names: Sequence[str]) -> Generator[Listen]:
    """A bar with the running reward of each policy on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda name, outcome: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from gradient_rl.report.terminal import safe

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    rewards: dict[str, tuple[float, int]] = dict.fromkeys(names, (0.0, 0))
    with Progress(*columns, console=stderr_console(), transient=True) as bar:
        task = bar.add_task("", total=episodes)

        def listen(name: str, outcome: Outcome) -> None:
            if outcome.reward is not None:
                total, count = rewards[name]
                rewards[name] = (total + outcome.reward, count + 1)
            running = "  ".join(f"{each} {total / count:.2f}" for each, (total, count) in rewards.items() if count)
            bar.update(task, advance=1, description=safe(running))

        yield listen


def _print(evaluation: Evaluation, as_json: bool, following: str) -> None:
    if as_json:
        from gradient_rl.runs import json_line

        put_json(json_line(evaluation.model_dump(mode="json")).decode())
        return
    from gradient_rl.report.evaluation import print_evaluation

    console = stdout_console()
    print_evaluation(console, evaluation)
    console.print(f"\n{following}", soft_wrap=True)


def _next_after_run(evaluation: Evaluation, artifacts: Path) -> str:
    saved = f"Saved {artifacts / 'eval.json'}, {artifacts / 'eval.md'} and the trajectories beside them.\n"
    page = artifacts / "eval.html"
    if any(policy.excluded for policy in evaluation.policies.values()):
        then = "gradient-eval --resume, with the same options, plays the episodes without a reward again"
    elif any(comparison.verdict == "inconclusive" for comparison in evaluation.comparisons) and evaluation.samples < ENOUGH:
        more = max(4, 2 * evaluation.samples)
        then = f"gradient-eval --samples {more} --temperature 1 tells smaller differences apart"
    else:
        then = "the tasks that moved most are those to read first"
    if not page.exists():  # a damaged line stood in its way, and has been named
        return f"{saved}Next: {then}."
    return f"{saved}Next: open {page} to see what changed, step by step; {then}."


def _split(text: str) -> Split:
    from gradient_rl.schema.task import Split

    if text not in list(Split):
        raise UsageError(f"there is no split '{text}'; the splits are heldout, train, validation")
    return Split(text)


def _task_ids(text: str | None) -> tuple[str, ...]:
    ids = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and not ids:
        raise UsageError(f"--tasks '{text}' names no task; give ids with commas between them, or leave --tasks out")
    return ids


def _warn(fault: GradientError) -> None:
    warn(str(fault))


def main() -> None:
    """Entry point of the console script."""
    run_app(app)
