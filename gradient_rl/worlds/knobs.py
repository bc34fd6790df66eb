"""What each difficulty knob is to move, stated once, and the measuring of whether it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.evaluation.statistics import mean_interval
from gradient_rl.schema.workspace import FrozenRecord
from gradient_rl.worlds.card import Measures, measures_of
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.generate import Progress, Recipe, generate, untold
from gradient_rl.worlds.trade import Trade

type Measure = Literal["keyword_recall", "typical_rank", "reference_calls", "rival_share", "words_to_read"]
"""A field of `Measures`."""


@dataclass(frozen=True)
class Statement:
    """That a knob, raised from one value to another, moves a measure up or down."""

    knob: str
    low: float
    high: float
    measure: Measure
    up: bool
    """Whether the measure rises with the knob."""


STATEMENTS = (
    Statement("distractors", 0, 10, "typical_rank", up=True),
    Statement("hops", 0.0, 0.9, "typical_rank", up=True),
    Statement("near_duplicates", 0.0, 1.0, "typical_rank", up=True),
    Statement("superseded", 0.1, 1.0, "rival_share", up=True),
    Statement("paraphrase", 0.0, 1.0, "typical_rank", up=True),
    Statement("noise", 0.0, 1.0, "words_to_read", up=True),
)


class Moved(FrozenRecord):
    """How far a knob moved its measure, each world of the low value held against that of the high one of the same seed."""

    knob: str
    low: float
    high: float
    measure: str
    direction: Literal["up", "down"]
    """As stated."""
    measured_low: float
    """Mean over the seeds at the low value."""
    measured_high: float
    interval: tuple[float, float] | None
    """95% interval of the difference between high and low; None for a single seed."""
    moved: bool
    """Whether the means differ in the stated direction."""
    clear: bool
    """Whether the whole interval lies on that side of 0."""


class KnobReport(FrozenRecord):
    """What came of all knobs."""

    schema_version: int = 1
    trade: str
    records: int
    tasks: int
    seeds: int
    knobs: tuple[Moved, ...]


def measure_knobs(
    trade: Trade,
    records: int,
    tasks: int,
    seeds: int,
    told: Progress = untold,
    statements: Sequence[Statement] = STATEMENTS,
) -> KnobReport:
    """Generate small worlds with each knob at a low and at a high value, the others at their defaults, and measure them.

    Args:
        records: of each world.
        tasks: of each world, all in the training file.
        seeds: worlds at each value, of the seeds 0, 1, ...
        told: hears of the knob under way, and of the worlds that are made.

    Raises:
        UsageError: so few records do not hold so many tasks.
    """
    bench = _Bench(trade, records, tasks, seeds, told, worlds=len(statements) * 2 * seeds)
    moved = [held(it, bench.measured(it, it.low), bench.measured(it, it.high)) for it in statements]
    return KnobReport(trade=trade.key, records=records, tasks=tasks, seeds=seeds, knobs=tuple(moved))


@dataclass
class _Bench:
    """Makes worlds, one after the other, and measures them."""

    trade: Trade
    records: int
    tasks: int
    seeds: int
    told: Progress
    worlds: int
    """How many will be made."""
    made: int = 0

    def measured(self, statement: Statement, value: float) -> list[float]:
        """The statement's measure in a world of each seed with its knob at a value."""
        difficulty = Difficulty.model_validate({statement.knob: value})
        return [getattr(self._world(statement.knob, seed, difficulty), statement.measure) for seed in range(self.seeds)]

    def _world(self, knob: str, seed: int, difficulty: Difficulty) -> Measures:
        recipe = Recipe(
            trade=self.trade.key, records=self.records, tasks=self.tasks, heldout=0, seed=seed, difficulty=difficulty
        )
        with TemporaryDirectory(prefix="gradient-knobs-") as folder:
            generate(recipe, self.trade, Path(folder))
            workspace = load_workspace(Path(folder))
            tasks = load_tasks(Path(folder) / TRAIN_FILE).tasks
        self.made += 1
        self.told(knob, self.made, self.worlds)
        return measures_of(tasks, BM25Index(workspace), workspace)


def held(statement: Statement, low: Sequence[float], high: Sequence[float]) -> Moved:
    """The outcome of one statement from what was measured at the low and at the high value, in the order of the seeds."""
    difference = mean_interval([above - below for below, above in zip(low, high, strict=True)])
    sign = 1 if statement.up else -1
    ends = (difference.low, difference.high) if difference.low is not None and difference.high is not None else None
    return Moved(
        knob=statement.knob,
        low=statement.low,
        high=statement.high,
        measure=statement.measure,
        direction="up" if statement.up else "down",
        measured_low=fsum(low) / len(low),
        measured_high=fsum(high) / len(high),
        interval=ends,
        moved=sign * (difference.mean or 0.0) > 0,
        clear=ends is not None and min(sign * end for end in ends) > 0,
    )
