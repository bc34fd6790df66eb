"""`gradient-train`: learn by reinforcement from the training tasks."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.interrupt import ask_to_stop, stopping_on_interrupt
from gradient_rl.cli.terminal import (
    INTERRUPTED,
    ArtifactsOption,
    DataOption,
    DebugOption,
    JsonOption,
    data_dir,
    reported_errors,
    stdout_console,
)
from gradient_rl.errors import GradientError, UsageError

if TYPE_CHECKING:
    from gradient_rl.schema.training import StepMetrics, Training
    from gradient_rl.training.config import TrainingConfig
    from gradient_rl.training.learner import Learner
    from gradient_rl.training.loop import Listener, Plan

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def train(
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="What learns: linear (the default) or art. With --dry-run, any policy."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Everything but the update: say what would be sent.")] = False,
    max_steps: Annotated[int | None, typer.Option("--max-steps", metavar="N", help="Training steps.")] = None,
    tasks_per_step: Annotated[int | None, typer.Option("--tasks-per-step", metavar="T", help="Groups in a step.")] = None,
    group_size: Annotated[int | None, typer.Option("--group-size", metavar="G", help="Episodes of a task in a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", metavar="X", help="Of Adam.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of every random choice.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE.toml", help="Any parameter; flags override it. docs/training.md.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the artifacts folder.")] = False,
    artifacts: ArtifactsOption = Path("artifacts"),
    data: DataOption = None,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log the metrics to Weights & Biases as well.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Train a policy on the training tasks, and see it get better: no key, no GPU, under a minute for the linear one.

    Writes train.metrics.jsonl (a line a step), train.trajectories.jsonl, checkpoints/ and, at the end, train.json.
    Exit code 0: done; 1: episodes ended without a reward; 130: interrupted, --resume goes on.
    """
    with reported_errors(debug):
        from gradient_rl.training.config import load_config

        flags = {
            "policy": policy,
            "max_steps": max_steps,
            "tasks_per_step": tasks_per_step,
            "group_size": group_size,
            "learning_rate": learning_rate,
            "seed": seed,
        }
        _run(load_config(flags, config), data_dir(data), artifacts, dry_run, resume, wandb, as_json)


def _run(config: TrainingConfig, data: Path, artifacts: Path, dry_run: bool, resume: bool, wandb: bool, as_json: bool) -> None:
    from gradient_rl.evaluation.run import GRACE_S, Stop
    from gradient_rl.runs import hold_folder
    from gradient_rl.training.loop import plan_training, prepare_folder
    from gradient_rl.training.loop import train as run_training

    plan = plan_training(config, data, dry_run=dry_run)
    learner = _learner(config, artifacts, dry_run)
    stop = Stop()
    with hold_folder(artifacts), stopping_on_interrupt(lambda: ask_to_stop(stop.request, GRACE_S)):
        plan = prepare_folder(plan, artifacts, resume=resume)
        with _progress(plan, wandb) as (steps, listener):
            training = run_training(plan, learner, artifacts, stop, listener)
    if training is None:
        raise _interrupted(steps)
    _print(training, steps, artifacts, as_json)
    _refuse_missing_rewards(training)


def _learner(config: TrainingConfig, artifacts: Path, dry_run: bool) -> Learner:
    from gradient_rl.policies.catalog import CATALOG
    from gradient_rl.training.dry_run import DryRunLearner
    from gradient_rl.training.linear import LinearLearner
    from gradient_rl.training.loop import CHECKPOINTS, PAYLOAD

    entries = {entry.name: entry for entry in CATALOG}
    if dry_run:
        if config.policy not in entries:
            raise UsageError(f"--policy {config.policy}: there is no such policy; --dry-run plays {', '.join(entries)}")
        return DryRunLearner(entries[config.policy], artifacts / PAYLOAD)
    if config.policy == LinearLearner.name:
        return LinearLearner(config, artifacts / CHECKPOINTS)
    remedy = "add --dry-run to see what its episodes would be worth" if config.policy in entries else "name one of those"
    raise UsageError(f"--policy {config.policy} cannot learn; what learns is {LinearLearner.name}; {remedy}")


@contextmanager
def _progress(plan: Plan, wandb: bool) -> Generator[tuple[list[StepMetrics], Listener]]:
    """The steps as they end, and who listens: a live view on stderr if that is a terminal, Weights & Biases if asked for."""
    from gradient_rl.training.loop import Listener

    steps: list[StepMetrics] = []
    if not sys.stderr.isatty():
        yield steps, Listener(step=steps.append)
        return
    from rich.console import Console
    from rich.live import Live

    from gradient_rl.report.training import live_view

    started, count = time.perf_counter(), 0

    def view() -> object:
        return live_view(steps, plan.config.max_steps, count, plan.episodes_per_step, time.perf_counter() - started)

    with Live(get_renderable=view, console=Console(stderr=True), transient=True, refresh_per_second=4):

        def on_step(metrics: StepMetrics) -> None:
            nonlocal count
            count = 0
            steps.append(metrics)

        def on_episode(_: object) -> None:
            nonlocal count
            count += 1

        yield steps, Listener(step=on_step, episode=on_episode)


def _print(training: Training, steps: list[StepMetrics], artifacts: Path, as_json: bool) -> None:
    if as_json:
        from gradient_rl.runs import json_line

        typer.echo(json_line(training.model_dump(mode="json")).decode(), nl=False)
        return
    from gradient_rl.report.training import print_dry_run, print_training

    console = stdout_console()
    print_training(console, training, steps)
    if training.dry_run:
        print_dry_run(console, steps)
    console.print(f"\nSaved {artifacts / 'train.json'}, the metrics and the trajectories beside it.", soft_wrap=True)
    console.print(f"Next: {_next(training, artifacts)}", soft_wrap=True)


def _next(training: Training, artifacts: Path) -> str:
    if training.dry_run:
        return "gradient-train trains the linear policy, with no key and no GPU."
    place = "" if artifacts == Path("artifacts") else f" --artifacts {shlex.quote(str(artifacts))}"
    return f"gradient-eval --policy {training.policy}@0 --policy {training.policy}@latest --samples 8 --temperature 1{place}"


def _refuse_missing_rewards(training: Training) -> None:
    if training.excluded:
        raise GradientError(
            f"{training.excluded} of {training.episodes} episodes ended without a reward and taught nothing; "
            "train.trajectories.jsonl has the error of each"
        )


def _interrupted(steps: list[StepMetrics]) -> typer.Exit:
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    command = shlex.join(["gradient-train", *arguments, "--resume"])
    done = steps[-1].step if steps else 0
    print(f"interrupted; {done} steps are done and saved. Go on with: {command}", file=sys.stderr)
    return typer.Exit(INTERRUPTED)


def main() -> None:
    """Entry point of the console script."""
    app()
