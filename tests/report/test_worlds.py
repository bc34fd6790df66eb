from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gradient_rl.report.worlds import print_card, print_knobs, print_world
from gradient_rl.worlds.card import card_of
from gradient_rl.worlds.generate import Recipe, WorldReport
from gradient_rl.worlds.knobs import KnobReport, Moved

WORLD = WorldReport(
    recipe=Recipe(trade="logistics", records=50_000, tasks=20, heldout=10, seed=7),
    company="Moor Line Ltd",
    customers=900,
    records={"email": 49_000, "policy": 1_000},
    tasks={"train": 18, "validation": 2, "heldout": 10},
    families={"lookup": 30},
    drafts=34,
    dropped={"a rival stands nowhere else": 3, "the question states its answer": 1},
    repaired={},
    judged_records=4_100,
)


def moved(measure: str, low: float, high: float, interval: tuple[float, float] | None, clear: bool) -> Moved:
    return Moved(
        knob="hops", low=0, high=0.9, measure=measure, direction="up", measured_low=low, measured_high=high,
        interval=interval, moved=high > low, clear=clear,
    )  # fmt: skip


def console() -> Console:
    return Console(file=io.StringIO(), width=110, highlight=False, markup=False)


def shown(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def test_what_was_generated_is_told_with_reasons_and_the_sample() -> None:
    print_world(on := console(), WORLD, Path("my worlds/moor"))

    assert shown(on).splitlines() == [
        "Moor Line Ltd, logistics, seed 7: 900 customers",
        "50,000 records: 49,000 email, 1,000 policy",
        "30 tasks: 18 train, 2 validation, 10 heldout",
        "families: 30 lookup",
        "4 of 34 drafts dropped:",
        "      3  a rival stands nowhere else",
        "      1  the question states its answer",
        "repairs: none",
        "tasks judged: searches over all 50,000 records, second statements of a fact looked for in a sample of 4,100",
        "Next: gradient-data card 'my worlds/moor', then gradient-train --policy linear --data 'my worlds/moor'",
    ]


def test_a_card_of_a_sample_says_so(tiny_data: Path) -> None:
    card = card_of(tiny_data)
    print_card(on := console(), card.model_copy(update={"records": card.records.model_copy(update={"total": 20_000})}))

    assert "measured among 6 records: a sample, and those that tasks cite" in shown(on)


def test_a_reference_that_earns_less_is_pointed_out(tiny_data: Path) -> None:
    print_card(on := console(), card_of(tiny_data).model_copy(update={"short_references": ("tiny-1",)}))

    assert "the reference earns less than 1 on 1 task: tiny-1; gradient-data validate says why" in shown(on)


def test_every_knob_has_a_row_with_its_verdict() -> None:
    rows = (
        moved("typical_rank", 30.0, 90.0, (40.0, 80.0), clear=True),
        moved("keyword_recall", 0.25, 0.26, (-0.03, 0.05), clear=False),
        moved("reference_calls", 5.0, 5.0, None, clear=False),
    )
    print_knobs(on := console(), KnobReport(trade="software", records=600, tasks=60, seeds=2, knobs=rows))
    lines = [" ".join(line.split()) for line in shown(on).splitlines()]

    assert "software: worlds of 600 records and 60 tasks, 2 seeds at each value" in lines
    assert "hops 0 0.9 typical rank up 30.0 90.0 +60.000 [+40.000, +80.000] clearly" in lines
    assert "hops 0 0.9 keyword recall up 25.0% 26.0% +0.010 [-0.030, +0.050] yes" in lines
    assert "hops 0 0.9 reference calls up 5.0 5.0 +0.000 no" in lines
