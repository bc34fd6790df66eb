"""The page's drawings as numbers: whiskers of comparisons, curves of a training run, behaviours on a scale of shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from gradient_rl.report.evaluation import evidence_sentence, verdict_sentence
from gradient_rl.report.html.palette import SERIES
from gradient_rl.schema.evaluation import BehaviourResult, ComparisonResult, Metric, PolicyResult
from gradient_rl.schema.training import Played, StepMetrics, place_name

WIDTH, HEIGHT = 380, 180
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 24
SCALE_WIDTH = 400
"""Of a whisker's drawing, zero in its middle."""
_MARGIN = 12
_MOST_DOTS = 20
"""Points of a line beyond which its dots show only under the pointer."""
_MOST_POINTS = 200
"""Points of a line beyond which it has no dots at all."""

type Series = Sequence[tuple[int | float, float]]
"""Values by step."""
type Number = Callable[[StepMetrics], float | None]


@dataclass(frozen=True)
class Whisker:
    """A comparison and where its interval lies on a scale around zero, in units of the drawing."""

    comparison: ComparisonResult
    sentence: str
    evidence: str
    low: float | None
    middle: float | None
    high: float | None
    blind_low: float | None
    """Between these two lie the differences that so many tasks cannot detect."""
    blind_high: float | None


@dataclass(frozen=True)
class Whiskers:
    """All comparisons on one scale."""

    rows: tuple[Whisker, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Point:
    """A measured value of a step."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    colour: int
    points: tuple[Point, ...]

    @property
    def dots(self) -> str:
        """`shown`, `pointed` where they show only under the pointer, or empty where they are too many."""
        return "shown" if len(self.points) <= _MOST_DOTS else "pointed" if len(self.points) <= _MOST_POINTS else ""

    @property
    def path(self) -> str:
        """The points as SVG's polyline takes them."""
        return " ".join(f"{p.x:g},{p.y:g}" for p in self.points)


@dataclass(frozen=True)
class Block:
    """A rectangle of a chart of counts."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart of a training run, and the same numbers as a table."""

    title: str
    note: str
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]
    legend: tuple[tuple[str, int], ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    summary: str
    """First and last value of each line, for a reader who does not see it."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Share:
    """How often one policy did a thing."""

    policy: str
    colour: int
    percent: float
    earning: str
    """What the episodes that did it earned; empty where none did."""


@dataclass(frozen=True)
class Behaviour:
    """A behaviour and how often each policy showed it."""

    name: str
    meaning: str
    shares: tuple[Share, ...]
    change: float | None
    """Share under the candidate minus share under the baseline."""


@dataclass(frozen=True)
class Bar:
    """A mean with its interval on a scale from 0 to 100."""

    mean: float
    low: float | None
    high: float | None


def colour_of(place: int) -> int:
    """The colour of the policy or line at this place."""
    return place % SERIES


def whiskers(comparisons: Iterable[ComparisonResult]) -> Whiskers:
    """The comparisons on one scale, which reaches as far on both sides."""
    shown = list(comparisons)
    values = [v for c in shown for v in (c.low, c.difference, c.high, c.detectable_difference) if v is not None]
    step = _nice(max((abs(v) for v in values), default=0.0) / 2 or 0.05)
    most = step * max(1, ceil(max((abs(v) for v in values), default=0.0) / step - 1e-9))

    def place(value: float | None) -> float | None:
        half = SCALE_WIDTH / 2
        return None if value is None else round(half + value / most * (half - _MARGIN), 1)

    ticks = [k * step for k in range(-round(most / step), round(most / step) + 1)]
    return Whiskers(
        rows=tuple(_whisker(c, place) for c in shown),
        ticks=tuple((place(tick) or 0.0, f"{tick:+.3g}" if tick else "0") for tick in ticks),
    )


def bars(metrics: Sequence[Metric | None]) -> tuple[tuple[Bar | None, ...], str]:
    """Metrics as percent of a bar, their intervals cut to it, and the value at the bar's end."""
    values = [v for metric in metrics if metric for v in (metric.mean, metric.high) if v is not None]
    top = min(1.0, _nice(max(values, default=0.0) or 1.0))
    return tuple(_bar(metric, top) for metric in metrics), f"{top:g}"


def behaviours(policies: Sequence[tuple[str, PolicyResult]], baseline: str, candidate: str) -> tuple[Behaviour, ...]:
    """What was seen of any policy, the largest change between the two first."""
    names = dict.fromkeys(name for _, p in policies for name, result in p.behaviours.items() if result.episodes)
    rows = [_behaviour(name, policies, baseline, candidate) for name in names]
    return tuple(sorted(rows, key=lambda row: -abs(row.change or 0.0)))


def charts(steps: Sequence[StepMetrics]) -> tuple[Chart, ...]:
    """The curves of a training run; none for a chart without a value."""
    made = [
        _lines("Reward", "mean of an episode, 0 to 1", steps, [("training", _train("reward")), ("validation", _validated)]),
        _lines("Parts of the reward", "training episodes", steps, [(name, _part(name)) for name in _parts(steps)]),
        _lines("Spread within a group", "largest minus smallest reward", steps, [("spread", lambda m: m.spread)]),
        _groups(steps),
        _lines("Malformed", "share of the training episodes", steps, [("malformed", _train("malformed"))]),
        _lines("Tools", "calls of an episode", steps, _work(steps)),
    ]
    return tuple(chart for chart in made if chart is not None)


def _bar(metric: Metric | None, top: float) -> Bar | None:
    if metric is None or metric.mean is None:
        return None
    low, high = (None if value is None else _percent(value / top) for value in (metric.low, metric.high))
    return Bar(_percent(metric.mean / top), low, high)


def _whisker(comparison: ComparisonResult, place: Callable[[float | None], float | None]) -> Whisker:
    blind = comparison.detectable_difference
    return Whisker(
        comparison=comparison,
        sentence=verdict_sentence(comparison),
        evidence=evidence_sentence(comparison),
        low=place(comparison.low),
        middle=place(comparison.difference),
        high=place(comparison.high),
        blind_low=place(None if blind is None else -blind),
        blind_high=place(blind),
    )


def _behaviour(name: str, policies: Sequence[tuple[str, PolicyResult]], baseline: str, candidate: str) -> Behaviour:
    found = {policy: result.behaviours.get(name) for policy, result in policies}
    shares = {policy: each.share if each else 0.0 for policy, each in found.items()}
    rows = tuple(
        Share(policy, colour_of(place), _percent(shares[policy]), _earning(each))
        for place, (policy, each) in enumerate(found.items())
    )
    change = shares[candidate] - shares[baseline] if baseline in shares and candidate in shares else None
    return Behaviour(name.replace("_", " "), MEANINGS.get(name, ""), rows, change)


def _earning(result: BehaviourResult | None) -> str:
    return f"earning {result.reward:.2f}" if result and result.reward is not None else ""


MEANINGS = {
    "repeated_query": "the same search twice",
    "repeated_open": "the same record opened twice",
    "empty_search": "a search that found nothing",
    "refused_open": "a record opened that no search had shown",
    "answered_without_reading": "an answer before any record was opened",
    "unopened_citation": "a source cited that was never opened",
    "no_citation": "an answer without a source",
    "stopped_at_limit": "out of calls or tokens before an answer",
    "malformed": "a reply that could not be read as a call",
}
"""What each behaviour is, in words."""


def _lines(title: str, note: str, steps: Sequence[StepMetrics], wanted: Sequence[tuple[str, Number]]) -> Chart | None:
    series = [(name, values) for name, number in wanted if (values := _values(steps, number))]
    if not series:
        return None
    last = max(m.step for m in steps)
    top, y_ticks = _scale(max(v for _, values in series for _, v in values))
    lines = tuple(_line(name, place, values, last, top) for place, (name, values) in enumerate(series))
    return Chart(
        title=title,
        note=note,
        lines=lines,
        blocks=(),
        legend=tuple((line.name, line.colour) for line in lines) if len(lines) > 1 else (),
        x_ticks=_step_ticks(last),
        y_ticks=y_ticks,
        summary=f"{title} by step. " + " ".join(_told(name, values) for name, values in series),
        header=("step", *(line.name for line in lines)),
        rows=_rows(steps, series),
    )


def _values(steps: Iterable[StepMetrics], number: Number) -> Series:
    found = ((metrics.at, number(metrics)) for metrics in steps)
    return [(step, value) for step, value in found if value is not None and isfinite(value)]


def _line(name: str, place: int, values: Series, last: int, top: float) -> Line:
    shown = name.replace("_", " ")
    points = tuple(
        Point(_x(step, last), _y(value, top), f"step {place_name(step)}, {shown} {value:.3f}") for step, value in values
    )
    return Line(shown, colour_of(place + 1), points)


def _groups(steps: Sequence[StepMetrics]) -> Chart | None:
    shown = [m for m in steps if m.groups]
    if not shown:
        return None
    reasons = list(dict.fromkeys(reason for m in shown for reason in m.dropped))
    names = ["used", *(f"{reason}, taught nothing" for reason in reasons)]
    last = max(m.step for m in shown)
    top, y_ticks = _scale(max(m.groups for m in shown))
    counts = [(m.step, [m.used, *(m.dropped.get(reason, 0) for reason in reasons)]) for m in shown]
    blocks = [block for step, count in counts for block in _stack(step, count, names, last, top)]
    totals = [sum(count[place] for _, count in counts) for place in range(len(names))]
    return Chart(
        title="Groups",
        note="used for the update, or why not",
        lines=(),
        blocks=tuple(blocks),
        legend=tuple((name, colour_of(place + 1)) for place, name in enumerate(names)),
        x_ticks=_step_ticks(last, _band),
        y_ticks=y_ticks,
        summary="Groups by step. In all: " + ", ".join(f"{n} {name}" for n, name in zip(totals, names, strict=True)) + ".",
        header=("step", *names),
        rows=tuple((str(step), *map(str, count)) for step, count in counts),
    )


def _stack(step: int, counts: Sequence[int], names: Sequence[str], last: int, top: float) -> Iterable[Block]:
    width = 0.78 * (WIDTH - LEFT - RIGHT) / (last + 1)
    left = _band(step, last) - width / 2
    base = 0
    for place, (count, name) in enumerate(zip(counts, names, strict=True)):
        if count:
            y = _y(base + count, top)
            height = round(_y(base, top) - y, 1)
            yield Block(round(left, 1), y, round(width, 1), height, colour_of(place + 1), f"step {step}: {count} {name}")
        base += count


def _x(step: float, last: int) -> float:
    return round(LEFT + step / max(1, last) * (WIDTH - LEFT - RIGHT), 1)


def _band(step: int, last: int) -> float:
    """The middle of a step that is as wide as the others: a bar of the first or the last one stays inside the axes."""
    return round(LEFT + (step + 0.5) * (WIDTH - LEFT - RIGHT) / (last + 1), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 1)


def _scale(most: float) -> tuple[float, tuple[tuple[float, str], ...]]:
    """The top of the axis, and its ticks."""
    step = _nice(most / 3 or 0.1)
    count = max(1, ceil(most / step - 1e-9))
    top = step * count
    return top, tuple((_y(step * k, top), f"{step * k:.6g}") for k in range(count + 1))


def _step_ticks(last: int, place: Callable[[int, int], float] = _x) -> tuple[tuple[float, str], ...]:
    step = max(1, round(_nice(last / 4 or 1)))
    return tuple((place(at, last), str(at)) for at in range(0, last + 1, step))


def _nice(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten that is no smaller."""
    power = 10.0 ** floor(log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def _percent(value: float) -> float:
    return round(100 * min(1.0, max(0.0, value)), 1)


def _told(name: str, values: Series) -> str:
    return f"{name.replace('_', ' ')}: {values[0][1]:.3f} to {values[-1][1]:.3f}."


def _rows(steps: Sequence[StepMetrics], series: Sequence[tuple[str, Series]]) -> tuple[tuple[str, ...], ...]:
    columns = [dict(values) for _, values in series]
    shown = [m.at for m in steps if any(m.at in column for column in columns)]
    return tuple((place_name(s), *(f"{column[s]:.3f}" if s in column else "" for column in columns)) for s in shown)


def _parts(steps: Iterable[StepMetrics]) -> list[str]:
    return list(dict.fromkeys(name for m in steps if m.train for name in m.train.parts))


def _work(steps: Sequence[StepMetrics]) -> list[tuple[str, Number]]:
    """Calls by tool; for a run that did not record them, what it did record of an episode's work."""
    tools = list(dict.fromkeys(name for m in steps if m.train for name in m.train.tools))
    if tools:
        return [(name, _tool(name)) for name in tools]
    return [("calls", _train("calls")), ("records opened", _train("opened")), ("records cited", _train("cited"))]


def _train(name: str) -> Number:
    def number(metrics: StepMetrics) -> float | None:
        value: float | None = getattr(metrics.train, name) if metrics.train else None
        return value

    return number


def _validated(metrics: StepMetrics) -> float | None:
    return metrics.validation.reward if metrics.validation else None


def _part(name: str) -> Number:
    return lambda metrics: _of(metrics.train, lambda played: played.parts.get(name))


def _tool(name: str) -> Number:
    return lambda metrics: _of(metrics.train, lambda played: played.tools.get(name, 0.0))


def _of(played: Played | None, number: Callable[[Played], float | None]) -> float | None:
    return number(played) if played else None
