"""Data folders as text for a terminal: what was generated, the card, and what the knobs move."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradient_rl.report.terminal import count, safe
from gradient_rl.schema.task import Family
from gradient_rl.worlds.sentences import MAX_SENTENCE_SHARE

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from gradient_rl.worlds.card import Card, Measures, Power
    from gradient_rl.worlds.generate import WorldReport
    from gradient_rl.worlds.knobs import KnobReport, Moved
    from gradient_rl.worlds.paraphrase import ParaphraseReport

MEASURES: Mapping[str, str] = {
    "keyword_recall": "keyword recall",
    "typical_rank": "typical rank",
    "reference_calls": "reference calls",
    "rival_share": "facts with a rival",
    "words_to_read": "words to read",
}
"""What the measures of difficulty are called."""
_SHARES = ("keyword_recall", "rival_share")


def print_world(console: Console, report: WorldReport, folder: Path) -> None:
    """Print what was generated, what became of the drafts, and what to run next."""
    where = shlex.quote(str(folder))
    _say(console, f"{report.company}, {report.recipe.trade}, seed {report.recipe.seed}: {report.customers} customers")
    _say(console, f"{sum(report.records.values()):,} records: {_listed(report.records)}")
    _say(console, f"{count(sum(report.tasks.values()), 'task')}: {_listed(report.tasks)}")
    _say(console, f"families: {_listed(report.families)}")
    _print_reasons(console, f"{sum(report.dropped.values())} of {report.drafts} drafts dropped", report.dropped)
    _print_reasons(console, f"repairs: {sum(report.repaired.values()) or 'none'}", report.repaired)
    _say(console, _judged(report))
    then = f", then gradient-train --policy linear --data {where}" if report.tasks.get("train") else ""
    _say(console, f"Next: gradient-data card {where}{then}")


def print_paraphrases(console: Console, report: ParaphraseReport) -> None:
    """Print how many texts a model has worded anew, and why others stay as they were."""
    _say(console, f"{report.model} worded {report.kept + report.earlier:,} of {report.texts:,} texts anew")
    _print_reasons(console, f"{sum(report.refused.values()) or 'no'} rewordings refused", report.refused)
    asked = f"{report.asked:,} answers asked for, {report.reused:,} taken from earlier runs, {report.usage.tokens:,} tokens"
    _say(console, asked)
    if report.failed or report.unasked:
        _say(
            console, f"{report.failed + report.unasked:,} texts were not answered; the same command asks again", style="yellow"
        )


def print_card(console: Console, card: Card) -> None:
    """Print everything that was measured of a data folder."""
    _say(console, card.folder, style="bold")
    _print_origin(console, card.world)
    _print_counts(console, card)
    if card.difficulty:
        _print_difficulty(console, card, card.difficulty)
        _print_earned(console, card)
        _print_power(console, card.power)
    law = "within" if card.repetition.share <= MAX_SENTENCE_SHARE else "above"
    said = f"{card.repetition.share:.1%} of all sentences, {law} {MAX_SENTENCE_SHARE:.0%}: {card.repetition.sentence}"
    _say(console, f"most frequent sentence, names and numbers masked: {said}")


def print_knobs(console: Console, report: KnobReport) -> None:
    """Print what each knob was to move, and whether it did."""
    worlds = f"worlds of {report.records:,} records and {count(report.tasks, 'task')}"
    _say(console, f"{report.trade}: {worlds}, {count(report.seeds, 'seed')} at each value", style="bold")
    head = ("knob", "from", "to", "is to move", "measured at low", "at high", "difference, 95% interval", "moved")
    rows = [_knob_row(moved) for moved in report.knobs]
    console.print(_table("", head, rows, left=(0, 3, 7)))
    console.print("clearly: the whole interval over the seeds lies on the stated side of 0; more --seeds make it narrower")


def _print_origin(console: Console, world: WorldReport | None) -> None:
    if world is None:
        return
    recipe = world.recipe
    asked = f"{recipe.records:,} records, {recipe.tasks} tasks, {recipe.heldout} held-out, seed {recipe.seed}"
    if len(recipe.families) < len(Family):
        asked += f", families {', '.join(recipe.families)}"
    knobs = ", ".join(f"{name} {value:g}" for name, value in recipe.difficulty)
    _say(console, f"generated: {world.company}, trade {recipe.trade}, {asked}, generator {world.generator_version}")
    _say(console, f"knobs: {knobs}")
    _say(console, _judged(world))


def _print_counts(console: Console, card: Card) -> None:
    records, tasks = card.records, card.tasks
    _say(console, f"{records.total:,} records: {_listed(records.kinds)}")
    _say(console, f"{records.words:.0f} words a record, {records.threads:,} threads of e-mails")
    if records.measured < records.total:
        said = f"all that follows is measured among {records.measured:,} records: a sample, and those that tasks cite"
        _say(console, f"{said}; in the whole folder searches find less", style="yellow")
    _say(console, f"{count(tasks.total, 'task')}: {_listed(tasks.splits)}")
    for what, counts in (
        ("families", tasks.families),
        ("kinds of fact", tasks.fact_kinds),
        ("hops", {f"with {hops}": number for hops, number in tasks.hops.items()}),
        ("required records", {f"with {slots}": number for slots, number in tasks.slots.items()}),
    ):
        if counts:
            _say(console, f"{what}: {_listed(counts)}")


def _print_difficulty(console: Console, card: Card, measures: Measures) -> None:
    rows = [(MEASURES[name], _measure(name, value)) for name, value in measures]
    for figures in card.keywords:
        found = f"{figures.share:.0%}, of single-source ones {figures.single_share:.0%}"
        rows.append((f"question alone finds all, {figures.split}", found))
    console.print()
    console.print(_table("difficulty", ("measure", "value"), rows))


def _print_earned(console: Console, card: Card) -> None:
    policies = list(card.earned)
    first = card.earned[policies[0]]
    rows = [("overall", *(_reward(card.earned[name].overall) for name in policies))]
    rows += [(split, *(_reward(card.earned[name].splits[split]) for name in policies)) for split in first.splits]
    rows += [(family, *(_reward(card.earned[name].families[family]) for name in policies)) for family in first.families]
    console.print()
    console.print(_table("mean reward", ("tasks", *policies), rows))
    if card.short_references:
        short = ", ".join(card.short_references[:5])
        said = f"the reference earns less than 1 on {count(len(card.short_references), 'task')}: {short}"
        _say(console, f"{said}; gradient-data validate says why", style="red")


def _print_power(console: Console, power: Power) -> None:
    if power.detectable is None:
        _say(console, f"{count(power.tasks, 'held-out task')}: too few to say what they can detect")
        return
    _say(console, f"{power.tasks} held-out tasks of this spread detect a difference of {power.detectable:.3f} 4 times in 5")
    needed = [f"{target} takes {_many(number)} tasks" for target, number in power.needed.items()]
    _say(console, f"to detect {', '.join(needed)}")


def _print_reasons(console: Console, total: str, reasons: Mapping[str, int]) -> None:
    _say(console, f"{total}{':' if reasons else ''}")
    for reason, number in reasons.items():
        _say(console, f"  {number:>5}  {reason}")


def _judged(report: WorldReport) -> str:
    total = sum(report.records.values())
    if report.judged_records < total:
        sample = f"second statements of a fact looked for in a sample of {report.judged_records:,}"
        return f"tasks judged: searches over all {total:,} records, {sample}"
    return "tasks judged among all records"


def _knob_row(moved: Moved) -> tuple[str, ...]:
    between = f"{moved.measured_high - moved.measured_low:+.3f}"
    ends = f" [{moved.interval[0]:+.3f}, {moved.interval[1]:+.3f}]" if moved.interval else ""
    return (
        moved.knob,
        f"{moved.low:g}",
        f"{moved.high:g}",
        f"{MEASURES[moved.measure]} {moved.direction}",
        _measure(moved.measure, moved.measured_low),
        _measure(moved.measure, moved.measured_high),
        f"{between}{ends}",
        "clearly" if moved.clear else "yes" if moved.moved else "no",
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, padding=(0, 1))
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place in left else "right")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    return table


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(safe(text), style=style), soft_wrap=True)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def _measure(name: str, value: float) -> str:
    return f"{value:.1%}" if name in _SHARES else f"{value:.1f}"


def _reward(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _many(number: int | None) -> str:
    return "over 100,000" if number is None else f"{number:,}"
