"""A training run as text for a terminal, from its saved metrics only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gradient_rl.report.terminal import count, safe
from gradient_rl.schema.training import Played, StepMetrics, Training, place_name
from gradient_rl.training.groups import told

CURVE_WIDTH = 40
SHOWN_STEPS = 12
_BLOCKS = "▁▂▃▄▅▆▇█"
_PART_TITLES = {"correctness": "correct", "citation_quality": "citation F1", "efficiency": "efficient"}


def curve(values: Sequence[float], width: int = CURVE_WIDTH) -> str:
    """Values as a line of blocks, from 0 to their maximum; more values than `width` are averaged into it."""
    if not values:
        return ""
    bins = min(width, len(values))
    edges = [round(i * len(values) / bins) for i in range(bins + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    top = max(means) or 1.0
    return "".join(_BLOCKS[min(7, int(8 * max(0.0, mean) / top))] for mean in means)


def step_table(steps: Sequence[StepMetrics]) -> Table:
    """A row a step: its reward and parts, the groups that taught something, calls, the validation, seconds."""
    parts = list(dict.fromkeys(name for m in steps for p in (m.train, m.validation) if p for name in p.parts))
    titles = [
        "step",
        "reward",
        *(_PART_TITLES.get(name, safe(name)) for name in parts),
        "groups used",
        "calls",
        "validation",
        "s",
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, justify="right")
    for metrics in steps:
        train = metrics.train
        shown = [_number(train.reward if train else None)]
        shown += [_number(train.parts.get(name) if train else None) for name in parts]
        used = f"{metrics.used}/{metrics.groups}" if metrics.groups else ""
        calls = f"{train.calls:.1f}" if train else ""
        validation = _number(metrics.validation.reward if metrics.validation else None)
        table.add_row(place_name(metrics.at), *shown, used, calls, validation, f"{sum(metrics.seconds.values()):.1f}")
    return table


def step_line(metrics: StepMetrics, max_steps: int, steps: Sequence[StepMetrics] = ()) -> str:
    """A step as one line, for a log.

    Args:
        steps: all that are done, the time of which tells when the run will end; none: nothing is said of it.
    """
    reward = f"reward {_number(metrics.train.reward)}, " if metrics.train else ""
    validation = f"validation {_number(metrics.validation.reward)}, " if metrics.validation else ""
    groups = f"{metrics.used} of {metrics.groups} groups used, " if metrics.groups else ""
    place = "warm start" if metrics.is_warm_start else f"step {metrics.step} of {max_steps}"
    taken = f"{sum(metrics.seconds.values()):.0f} s" + (f" ({time_told(steps, max_steps)})" if steps else "")
    return f"{place}: {reward}{validation}{groups}{taken}"


def time_told(steps: Sequence[StepMetrics], max_steps: int, seconds: float | None = None) -> str:
    """Elapsed time, seconds a step, and about how much is left: `12 min so far, 41 s a step, about 9 min left`.

    A step's time is the mean over the training steps that are done; before the first of them only what has passed is told.

    Args:
        steps: all that are done.
        max_steps: the last step.
        seconds: what has passed; None: what the steps took, in whichever process.
    """
    passed = sum(_seconds(metrics) for metrics in steps) if seconds is None else seconds
    trained = [_seconds(metrics) for metrics in steps if metrics.step]
    if not trained:
        return f"{_duration(passed)} so far"
    each, left = sum(trained) / len(trained), max_steps - steps[-1].step
    rest = f", about {_duration(each * left)} left" if left else ""
    return f"{_duration(passed)} so far, {each:.3g} s a step{rest}"


def _seconds(metrics: StepMetrics) -> float:
    return sum(metrics.seconds.values())


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def gradient_line(done: int, of: int, seconds: float) -> str:
    """How far a warm start is: `warm start: 15 of 75 gradient steps, about 9 min left`."""
    return f"warm start: {done} of {of} gradient steps, about {_duration(seconds / done * (of - done))} left"


def live_view(
    steps: Sequence[StepMetrics], max_steps: int, episodes: int, per_step: int, seconds: float, warming: str = ""
) -> RenderableType:
    """What is shown while it trains: the curve of the reward, the newest steps, how far the present one is."""
    rewards = rewards_of(steps)
    head = Text.assemble(("reward ", "bold"), curve(rewards), f" {rewards[-1]:.3f}" if rewards else " no step yet")
    done = steps[-1].step if steps else 0
    place = f"step {min(done + 1, max_steps)} of {max_steps}, {episodes} of {per_step} episodes"
    foot = f"{warming or place}, {time_told(steps, max_steps, seconds)}"
    return Group(head, step_table(steps[-SHOWN_STEPS:]), Text(foot, style="dim"))


def rewards_of(steps: Sequence[StepMetrics]) -> list[float]:
    """Mean training reward of each step that has one."""
    return [m.train.reward for m in steps if m.train and m.train.reward is not None and isfinite(m.train.reward)]


def print_training(console: Console, training: Training, steps: Sequence[StepMetrics]) -> None:
    """Print the curve, the validated steps, what was learned, and before against after."""
    rewards = rewards_of(steps)
    console.print(
        Text.assemble(
            (safe(training.policy), "bold"), f"  {count(training.steps, 'step')}, {count(training.episodes, 'episode')}"
        )
    )
    if rewards:
        console.print(f"training reward {curve(rewards)} {rewards[0]:.3f} to {rewards[-1]:.3f}")
    console.print(step_table([m for m in steps if m.validation or m.step == training.steps]))
    if training.steps:
        console.print(f"\n{safe(_groups_in_words(steps))}.")
    if training.learned:
        shown = ", ".join(f"{safe(name)} {weight:+.2f}" for name, weight in training.learned.items())
        console.print(f"Largest weights: {shown}.")
    if training.before and training.after and not training.dry_run:
        console.print(_before_and_after(training.before, training.warm, training.after))


def print_dry_run(console: Console, steps: Sequence[StepMetrics]) -> None:
    """Print what would have been sent for training, and how much of it could be trained on."""
    total = {name: sum(m.learner.get(name, 0.0) for m in steps) for name in _PAYLOAD}
    about = "about " if any(m.learner.get("payload_tokens_estimated") for m in steps) else ""
    groups, trajectories, trainable, sampled, prompt, size = (int(value) for value in total.values())
    console.print(
        f"\nDry run: nothing was trained, nothing was sent. ART would get {count(groups, 'group')} with "
        f"{count(trajectories, 'trajectory', 'trajectories')}: "
        f"{about}{sampled:,} sampled and {prompt:,} prompt tokens, {size / 1e6:.2f} MB of JSON. {trainable} of them hold "
        "token ids and can be trained on" + ("." if trainable else ": only a language model's replies have them."),
        soft_wrap=True,
    )


_PAYLOAD = (
    "payload_groups",
    "payload_trajectories",
    "payload_trainable",
    "payload_sampled_tokens",
    "payload_prompt_tokens",
    "payload_bytes",
)


def _before_and_after(before: Played, warm: Played | None, after: Played) -> Table:
    shown = {"before": before, **({"warm start": warm} if warm else {}), "after": after}
    table = Table(title=count(after.episodes, "validation episode"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for title in ("", *shown):
        table.add_column(title, justify="right" if title else "left")
    figures = [_figures(played) for played in shown.values()]
    for name in figures[-1]:
        if name in figures[0]:
            table.add_row(name, *(_number(each.get(name)) for each in figures))
    return table


def _figures(played: Played) -> dict[str, float | None]:
    parts = {_PART_TITLES.get(name, safe(name)): value for name, value in played.parts.items()}
    supported = {} if played.supported is None else {"supported": played.supported}
    work = {"calls": played.calls, "records opened": played.opened, "records cited": played.cited}
    return {"reward": played.reward, **parts, **supported, **work}


def _groups_in_words(steps: Sequence[StepMetrics]) -> str:
    dropped: Counter[str] = Counter()
    for metrics in steps:
        dropped.update(metrics.dropped)
    return told(sum(metrics.used for metrics in steps), dropped)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
