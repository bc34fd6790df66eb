"""Training metrics as curves in a terminal: a plot of the rewards, and a line for every other figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from gradient_rl.report.terminal import safe
from gradient_rl.report.training import curve
from gradient_rl.schema.training import Played, StepMetrics

_HEIGHT = 10
_MAX_COLUMNS = 70
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = str.maketrans(_BLOCKS + "●○┤└─", "_.-:=+*#*o|+-")


@dataclass(frozen=True)
class Series:
    """One figure over the training steps that have it."""

    name: str
    steps: tuple[int | float, ...]
    """As `StepMetrics.at` gives them: the warm start lies at 0.5."""
    values: tuple[float, ...]


def series_of(metrics: Sequence[StepMetrics]) -> tuple[Series, ...]:
    """Every figure that some step has: rewards, parts, malformed share, calls, spread, groups used, the learner's own."""
    parts = dict.fromkeys(name for m in metrics for p in (m.train, m.validation) if p for name in p.parts)
    learner = dict.fromkeys(name for m in metrics for name in m.learner)
    readers: list[tuple[str, Callable[[StepMetrics], float | None]]] = [
        ("training reward", lambda m: m.train.reward if m.train else None),
        ("validation reward", lambda m: m.validation.reward if m.validation else None),
        *((f"training {name}", _part(name, lambda m: m.train)) for name in parts),
        *((f"validation {name}", _part(name, lambda m: m.validation)) for name in parts),
        ("malformed share", lambda m: m.train.malformed if m.train else None),
        ("calls", lambda m: m.train.calls if m.train else None),
        ("reward spread", lambda m: m.spread),
        ("groups used", lambda m: m.used / m.groups if m.groups else None),
        *((f"learner {name}", _learner(name)) for name in learner),
    ]
    found = [_series(name, metrics, read) for name, read in readers]
    return tuple(series for series in found if series.values)


def curves_text(metrics: Sequence[StepMetrics], *, unicode: bool) -> list[str]:
    """The plot and the lines of a training run.

    Args:
        metrics: one a step, in order.
        unicode: whether the terminal can show blocks; ASCII stands in for them otherwise.
    """
    series = series_of(metrics)
    named = {each.name: each for each in series}
    rewards = [named[name] for name in ("training reward", "validation reward") if name in named]
    lines = [*plot(rewards), "", *_rows(series)] if series else ["no step has been measured yet"]
    return lines if unicode else [line.translate(_ASCII) for line in lines]


def plot(series: Sequence[Series]) -> list[str]:
    """One or two series as dots over the steps, from 0 to the largest value; where both fall together the first is seen."""
    if not series:
        return []
    top = max(max(each.values) for each in series) or 1.0
    first, last = min(each.steps[0] for each in series), max(each.steps[-1] for each in series)
    columns = min(_MAX_COLUMNS, max(2, int(4 * (last - first)) + 1))
    grid = [[" "] * columns for _ in range(_HEIGHT)]
    for mark, each in reversed(list(zip("●○", series, strict=False))):
        for step, value in zip(each.steps, each.values, strict=True):
            column = round((step - first) / max(1, last - first) * (columns - 1))
            grid[_HEIGHT - 1 - round(max(0.0, value) / top * (_HEIGHT - 1))][column] = mark
    lines = [f"{top * (_HEIGHT - 1 - i) / (_HEIGHT - 1):6.3f} ┤{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    legend = "   ".join(f"{mark} {each.name}" for mark, each in zip("●○", series, strict=False))
    return [*lines, f"       └{'─' * columns}", f"        step {first:g} to {last:g}   {legend}"]


def series_object(each: Series) -> dict[str, object]:
    """A series as plain data."""
    return {"name": each.name, "steps": list(each.steps), "values": list(each.values)}


def _part(name: str, side: Callable[[StepMetrics], Played | None]) -> Callable[[StepMetrics], float | None]:
    def read(metrics: StepMetrics) -> float | None:
        played = side(metrics)
        return played.parts.get(name) if played else None

    return read


def _learner(name: str) -> Callable[[StepMetrics], float | None]:
    return lambda metrics: metrics.learner.get(name)


def _series(name: str, metrics: Sequence[StepMetrics], read: Callable[[StepMetrics], float | None]) -> Series:
    found = [(m.at, value) for m in metrics if (value := read(m)) is not None and isfinite(value)]
    return Series(name, tuple(step for step, _ in found), tuple(value for _, value in found))


def _rows(series: Sequence[Series]) -> list[str]:
    width = max(len(safe(each.name)) for each in series)
    lines = [(each, curve(each.values)) for each in series]
    blocks = max(len(drawn) for _, drawn in lines)
    return [f"{safe(each.name):<{width}}  {drawn:<{blocks}}  {_told(each)}" for each, drawn in lines]


def _told(each: Series) -> str:
    low, high = min(each.values), max(each.values)
    return f"{each.values[0]:.3f} to {each.values[-1]:.3f}  (lowest {low:.3f}, highest {high:.3f})"
