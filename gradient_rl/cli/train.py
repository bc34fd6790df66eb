"""`gradient-train`: learn by reinforcement from the training tasks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.interrupt import ask_to_stop, stopping_on_interrupt
from gradient_rl.cli.remote import (
    EMBEDDED,
    OWN_DEADLINE_S,
    BaseUrlOption,
    KeyOption,
    PriceOption,
    command_to_resume,
    confirm,
    environment,
    needed_key,
    read_price,
)
from gradient_rl.cli.terminal import (
    INTERRUPTED,
    ArtifactsOption,
    DataOption,
    DebugOption,
    JsonOption,
    data_dir,
    finite,
    put_json,
    reported_errors,
    run_app,
    same_folders,
    say,
    stderr_console,
    stdout_console,
    warn,
)
from gradient_rl.errors import GradientError, HackingError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradient_rl.policies.base import Policy
    from gradient_rl.policies.catalog import Checkpoint, Entry
    from gradient_rl.policies.endpoint import Price
    from gradient_rl.schema.training import StepMetrics, Training
    from gradient_rl.schema.trajectory import Trajectory
    from gradient_rl.training.art import Service
    from gradient_rl.training.config import TrainingConfig
    from gradient_rl.training.learner import Learner, OnGradient
    from gradient_rl.training.loop import Budget, Listener, OnEpisode, OnStep, Plan

    type Opening = Callable[[Plan, Path], AbstractContextManager[Learner]]

ART = "art"
STOP_ON_HACKING, GO_ON = "--stop-on-hacking", "--no-stop-on-hacking"
SERVERLESS_URL = "https://api.training.wandb.ai/v1"
"""ART's own default; no environment variable changes it."""

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
    base_model: Annotated[str | None, typer.Option("--base-model", metavar="NAME", help="art: the model to adapt.")] = None,
    warm_start: Annotated[
        int | None, typer.Option("--warm-start", metavar="N", help="art: imitate N verified examples before the first step.")
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", metavar="serverless|embedded", help="art: the service, or a server on this machine.")
    ] = "serverless",
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", metavar="N", min=1, help="Stop at so many tokens.")] = None,
    max_usd: Annotated[
        float | None,
        typer.Option("--max-usd", metavar="X", min=0.0, callback=finite, help="Stop at this cost; needs --price-per-million."),
    ] = None,
    price_per_million: PriceOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the first paid call.")] = False,
    stop_on_hacking: Annotated[
        bool | None,
        typer.Option(f"{STOP_ON_HACKING}/{GO_ON}", help="End the run if reward rises and right answers do not."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the artifacts folder.")] = False,
    artifacts: ArtifactsOption = Path("artifacts"),
    data: DataOption = None,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log the metrics to Weights & Biases as well.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Train a policy on the training tasks, and see it get better: no key, no GPU, under a minute for the linear one.

    Writes train.metrics.jsonl (a line a step), train.trajectories.jsonl, checkpoints/ and, at the end, train.json and
    train.html (to read in a browser).
    Exit code 0: done; 1: episodes ended without a reward; 4: the budget is spent, or --stop-on-hacking ended it; 77: a
    key is missing or refused; 130: interrupted, --resume goes on.
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
            "base_model": base_model,
            "stop_on_hacking": stop_on_hacking,
            "warm_start": warm_start,
        }
        remote = Remote(backend, base_url, api_key_env, max_tokens, max_usd, price_per_million, yes)
        made = load_config(flags, config, embedded=backend == EMBEDDED)
        remote.refuse_unread(made.policy)
        _run(made, remote, data_dir(data), artifacts, dry_run, resume, wandb, as_json)


@dataclass(frozen=True)
class Remote:
    """The options that only a remote learner reads."""

    backend: str
    base_url: str | None
    api_key_env: str | None
    max_tokens: int | None
    max_usd: float | None
    price_per_million: str | None
    yes: bool

    def refuse_unread(self, policy: str) -> None:
        """Refuse options that a learner on this machine would silently leave unread.

        Raises:
            UsageError: one was given, and it is not `art` that learns.
        """
        given = {
            "--backend": self.backend != "serverless",
            "--base-url": self.base_url is not None,
            "--api-key-env": self.api_key_env is not None,
        }
        unread = next((option for option, there in given.items() if there), None)
        if policy != ART and unread:
            raise UsageError(f"{unread} is read with --policy {ART} alone; leave it out, or add --policy {ART}")


def _run(
    config: TrainingConfig,
    remote: Remote,
    data: Path,
    artifacts: Path,
    dry_run: bool,
    resume: bool,
    wandb: bool,
    as_json: bool,
) -> None:
    from gradient_rl.cli.warm import with_examples
    from gradient_rl.evaluation.run import GRACE_S, Stop
    from gradient_rl.report.html.write import write_training_report
    from gradient_rl.runs import hold_folder
    from gradient_rl.training.examples import save_examples
    from gradient_rl.training.loop import as_far_as_before, plan_training, prepare_folder
    from gradient_rl.training.loop import train as run_training

    opening = _opening(config, remote, dry_run)
    plan = plan_training(config, data, dry_run=dry_run, budget=_budget(remote))
    if resume and "max_steps" not in config.model_fields_set:
        plan = as_far_as_before(plan, artifacts)
    wandb_key = _tracking_key() if wandb else None
    if config.policy == ART and not dry_run:
        _tell_the_price(plan, remote)
    stop = Stop()
    with hold_folder(artifacts), stopping_on_interrupt(lambda: ask_to_stop(stop.request, GRACE_S)):
        plan = prepare_folder(with_examples(plan, data, artifacts, resume=resume), artifacts, resume=resume)
        if plan.moved:
            say(f"the earlier training run is kept in {plan.moved}")
        if plan.examples:
            save_examples(artifacts, plan.examples)
        with opening(plan, artifacts) as learner, _listening(plan, artifacts, wandb_key) as (steps, listener):
            try:
                training = run_training(plan, learner, artifacts, stop, listener)
            except HackingError as stopped:
                raise _stopped(stopped) from None
        if training is not None:
            write_training_report(artifacts, data)
    if training is None:
        raise _interrupted(steps)
    _print(training, steps, same_folders(artifacts, data), artifacts, as_json)
    _refuse_missing_rewards(training)


def _opening(config: TrainingConfig, remote: Remote, dry_run: bool) -> Opening:
    """How the learner is opened once the folder is ready. What the options ask of it is checked now."""
    from gradient_rl.policies.catalog import CATALOG

    entries = {entry.name: entry for entry in CATALOG}
    if dry_run and config.warm_start:
        raise UsageError("--warm-start does not go with --dry-run, which trains nothing; leave one of them out")
    if dry_run:
        return _opening_dry(entries, config.policy)
    if config.policy == "linear":
        return _open_linear
    if config.policy == ART:
        return _opening_art(config, remote)
    remedy = "add --dry-run to see what its episodes would be worth" if config.policy in entries else "name one of those"
    raise UsageError(f"--policy {config.policy} cannot learn; what learns is linear and {ART}; {remedy}")


def _opening_dry(entries: Mapping[str, Entry], policy: str) -> Opening:
    """A dry run of `art` has no model to ask, so the heuristic policy stands in; that of `linear` plays its first state."""
    if policy not in entries and policy != ART:
        raise UsageError(f"--policy {policy}: there is no such policy; --dry-run plays {', '.join(entries)}, {ART}")

    @contextmanager
    def open_dry(plan: Plan, artifacts: Path) -> Generator[Learner]:
        from gradient_rl.training.dry_run import DryRunLearner
        from gradient_rl.training.loop import PAYLOAD

        if policy == ART:
            say("a dry run has no model to ask, so the heuristic policy stands in for it")
        entry = entries.get(policy, entries["heuristic"])
        untrained = replace(entry, make=_untrained) if entry.name == "linear" else entry
        yield DryRunLearner(untrained, artifacts / PAYLOAD)

    return open_dry


def _untrained(temperature: float, _: Checkpoint | None) -> Policy:
    from gradient_rl.policies.linear import LinearPolicy, zero_weights

    return LinearPolicy(zero_weights(), temperature)


@contextmanager
def _open_linear(plan: Plan, artifacts: Path) -> Generator[Learner]:
    from gradient_rl.training.linear import LinearLearner
    from gradient_rl.training.loop import CHECKPOINTS

    yield LinearLearner(plan.config, artifacts / CHECKPOINTS)


def _opening_art(config: TrainingConfig, remote: Remote) -> Opening:
    from gradient_rl.policies.endpoint import Endpoint

    if remote.backend == EMBEDDED:
        return _opening_embedded(config, remote)
    if remote.backend != "serverless":
        raise UsageError(f"--backend {remote.backend}: there is no such backend; there are serverless, embedded")
    url = remote.base_url or SERVERLESS_URL
    Endpoint(url, "", "the model")  # refuses what is no URL
    key, price = needed_key(environment(), remote.api_key_env, url), read_price(remote.price_per_million)

    @contextmanager
    def open_art(plan: Plan, artifacts: Path) -> Generator[Learner]:
        from gradient_rl.policies.adapters import WANDB_KEY
        from gradient_rl.training.art import Service

        yield _art_learner(plan, artifacts, Service(url, key, _adapter_name(plan), price, remote.api_key_env or WANDB_KEY))

    return open_art


def _opening_embedded(config: TrainingConfig, remote: Remote) -> Opening:
    from gradient_rl.embedded.models import check_base_model

    if remote.base_url is not None:
        raise UsageError("--base-url does not go with --backend embedded, which starts its own server; leave one of them out")
    check_base_model(config.base_model)

    @contextmanager
    def open_embedded(plan: Plan, artifacts: Path) -> Generator[Learner]:
        from gradient_rl.embedded.models import served_model
        from gradient_rl.embedded.server import serving
        from gradient_rl.training.loop import CHECKPOINTS

        folder = artifacts / CHECKPOINTS / EMBEDDED
        folder.mkdir(parents=True, exist_ok=True)
        with serving(served_model(plan.config.base_model, folder), folder=folder) as server:
            price, name = read_price(remote.price_per_million), _adapter_name(plan)
            yield _art_learner(plan, artifacts, _embedded_service(server.base_url, name, price))

    return open_embedded


def _embedded_service(base_url: str, name: str, price: Price | None) -> Service:
    from gradient_rl.training.art import Service

    return Service(
        base_url,
        "local",
        name,
        price,
        reads_examples=True,
        jobs_outlive_us=False,
        job_deadline_s=OWN_DEADLINE_S,
        reply_timeout_s=OWN_DEADLINE_S,
    )


def _art_learner(plan: Plan, artifacts: Path, service: Service) -> Learner:
    from gradient_rl.training.art import ArtLearner
    from gradient_rl.training.loop import CHECKPOINTS

    return ArtLearner(plan.config, service, artifacts / CHECKPOINTS)


def _adapter_name(plan: Plan) -> str:
    return f"gradient-{plan.identity.label}"


def _budget(remote: Remote) -> Budget:
    from gradient_rl.training.loop import Budget

    if remote.max_usd is not None and remote.price_per_million is None:
        raise UsageError("--max-usd needs --price-per-million, for no price list travels with this project; add it")
    return Budget(remote.max_tokens, remote.max_usd)


def _tracking_key() -> str:
    from gradient_rl.training.tracking import needed_key as needed_tracking_key

    return needed_tracking_key(environment())


def _tell_the_price(plan: Plan, remote: Remote) -> None:
    """Print what a run would send and what of it is billed, before the first call, and ask on a terminal."""
    from gradient_rl.cli.warm import told
    from gradient_rl.training.estimate import estimate

    say(estimate(plan, read_price(remote.price_per_million)))
    told(plan, uploads=remote.backend != EMBEDDED)
    if remote.backend == EMBEDDED:
        say("It all happens on this machine; nothing is billed.")
        return
    say("Billed by the service: these tokens at its inference price, and its training. See https://wandb.ai/site/pricing")
    confirm(remote.yes)


@contextmanager
def _listening(plan: Plan, artifacts: Path, wandb_key: str | None) -> Generator[tuple[list[StepMetrics], Listener]]:
    """The steps as they end, and who listens: a live view on stderr if that is a terminal, Weights & Biases if asked for."""
    from gradient_rl.report.training import step_line
    from gradient_rl.training.loop import Listener

    steps: list[StepMetrics] = []
    listeners: list[OnStep] = [steps.append, partial(_warn, plan.config.stop_on_hacking)]
    with ExitStack() as stack:
        if plan.config.policy == ART and not sys.stderr.isatty():
            listeners.append(lambda metrics: say(step_line(metrics, plan.config.max_steps, steps)))
        if wandb_key is not None:
            from gradient_rl.training.tracking import tracked

            listeners.append(stack.enter_context(tracked(plan, artifacts, wandb_key)))
        live = stack.enter_context(_live(plan, steps, listeners)) if sys.stderr.isatty() else None

        def on_step(metrics: StepMetrics) -> None:
            for listen in listeners:
                listen(metrics)

        yield steps, Listener(on_step, *live) if live else Listener(on_step, gradient=_tell_a_tenth())


def _tell_a_tenth() -> OnGradient:
    """Tells of a warm start's gradient steps: a line for each tenth of them."""
    from gradient_rl.report.training import gradient_line

    started = time.perf_counter()

    def told(done: int, of: int) -> None:
        if done % max(1, of // 10) == 0 and done < of:
            say(gradient_line(done, of, time.perf_counter() - started))

    return told


def _warn(stops: bool, metrics: StepMetrics) -> None:
    """Say what the hacking watch warns of; where that ends the run, the error says it."""
    if metrics.watch and metrics.watch.warning and not stops:
        warn(metrics.watch.warning)


@contextmanager
def _live(plan: Plan, steps: list[StepMetrics], listeners: list[OnStep]) -> Generator[tuple[OnEpisode, OnGradient]]:
    """A view of the run on stderr, drawn anew a few times a second, and who is to be told so that it is up to date."""
    from rich.live import Live

    from gradient_rl.report.training import gradient_line, live_view

    started, count, warming = time.perf_counter(), 0, ""

    def seconds() -> float:
        return time.perf_counter() - started

    def view() -> RenderableType:
        return live_view(steps, plan.config.max_steps, count, plan.episodes_per_step, seconds(), warming)

    def on_step(_: StepMetrics) -> None:
        nonlocal count, warming
        count, warming = 0, ""

    def on_episode(trajectory: Trajectory) -> None:
        nonlocal count
        count += trajectory.split == "train"

    def on_gradient(done: int, of: int) -> None:
        nonlocal warming
        warming = gradient_line(done, of, seconds())

    listeners.append(on_step)
    with Live(get_renderable=view, console=stderr_console(), transient=True, refresh_per_second=4):
        yield on_episode, on_gradient


def _print(training: Training, steps: list[StepMetrics], same: str, artifacts: Path, as_json: bool) -> None:
    if as_json:
        from gradient_rl.runs import json_line

        put_json(json_line(training.model_dump(mode="json")).decode())
        return
    from gradient_rl.report.training import print_dry_run, print_training

    console = stdout_console()
    print_training(console, training, steps)
    if training.dry_run:
        print_dry_run(console, steps)
    console.print(f"\nSaved {artifacts / 'train.json'}, the metrics and the trajectories beside it.", soft_wrap=True)
    console.print(f"Next: open {artifacts / 'train.html'} to see how it learned; {_next(training, same)}", soft_wrap=True)


def _next(training: Training, same: str) -> str:
    if training.dry_run:
        return "train.payload.jsonl holds what would be sent; gradient-train trains the linear policy, with no key and no GPU."
    warm = f" --policy {training.policy}@warm" if training.warm else ""
    return f"then run gradient-eval --policy {training.policy}@0{warm} --policy {training.policy}@latest --samples 8{same}"


def _refuse_missing_rewards(training: Training) -> None:
    if training.excluded:
        raise GradientError(
            f"{training.excluded} of {training.episodes} episodes ended without a reward and taught nothing; "
            "train.trajectories.jsonl has the error of each"
        )


def _interrupted(steps: list[StepMetrics]) -> typer.Exit:
    from gradient_rl.report.terminal import count

    done = steps[-1].step if steps else 0
    warm = " after the warm start" if any(metrics.is_warm_start for metrics in steps) else ""
    saved = f"{count(done, 'step')}{warm} {'is' if done == 1 else 'are'} done and saved"
    say(f"interrupted; {saved}. Go on with: {command_to_resume('gradient-train')}")
    return typer.Exit(INTERRUPTED)


def _stopped(warning: HackingError) -> HackingError:
    """The warning with what is saved, and the command that goes on all the same."""
    command = command_to_resume("gradient-train", GO_ON, without=STOP_ON_HACKING)
    return HackingError(f"{warning}; every step is saved, and this goes on all the same: {command}")


def main() -> None:
    """Entry point of the console script."""
    run_app(app)
