"""An audit in words: a line for each check, a table of what everybody earned, and a sentence for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradient_rl.evaluation.audit import MAX_CHEATER, MAX_FLOOR, NEAR_TOP, Audit, Check, Finding, Role, Standing
from gradient_rl.evaluation.holes import Hole
from gradient_rl.report.terminal import count, safe

if TYPE_CHECKING:
    from rich.console import Console

_PASSED = {
    Check.BOUNDS: "Every part is a finite value in [0, 1] on every submission.",
    Check.REFERENCE: "There is room: the reference earns 1 on every task.",
    Check.FLOOR: f"The floor is near 0: who does nothing sensible earns at most {MAX_FLOOR:g}.",
    Check.HOLES: "Nothing else is near the top: no cheater is paid through a hole, "
    f"earns {MAX_CHEATER:g}, or {NEAR_TOP:g} on a family.",
    Check.SCORED_TWICE: "It is deterministic: every episode that was scored twice got the same values.",
    Check.PLAYED_TWICE: "Episodes repeat: the same seed played twice gave the same calls and answers.",
    Check.LEAKS: "No solution leaks: no value and no required id stands in a question, the system prompt or a tool's schema.",
}
_FAILED = {
    Check.BOUNDS: "A part raises, or leaves [0, 1].",
    Check.REFERENCE: "There is no room: the reference misses 1, so that nobody can learn to reach it.",
    Check.FLOOR: "The floor is too high: who does nothing sensible is paid for it.",
    Check.HOLES: "There is a hole: somebody is paid who did not do the work.",
    Check.SCORED_TWICE: "It is not deterministic: an episode that was scored twice got different values.",
    Check.PLAYED_TWICE: "Episodes do not repeat: the same seed played twice gave different ones.",
    Check.LEAKS: "A solution leaks: it stands where every agent reads it before its first call.",
}
_PAYS = {
    Hole.UNGATED: "is ungated: it pays for having ended, whatever was answered",
    Hole.RECALL_ONLY: "counts recall only: a citation that proves nothing costs nothing",
    Hole.UNREAD: "pays citations of records that were never opened",
    Hole.SUBSTRING: "looks for substrings: it pays a right value that stands beside wrong ones or is taken back",
    Hole.GUESS: "pays guesses: a right value counts though no record that proves it was opened",
    Hole.WORDS: "pays words: answers in which no required fact stands",
    Hole.BUSY: "pays for being busy: calls count whatever they found",
}
_REMEDY = {
    Hole.UNGATED: "multiply it by submission.correctness",
    Hole.RECALL_ONLY: "divide by what was cited too, as the F1 of rewards/citations.py does",
    Hole.UNREAD: "count only ids that are in submission.opened",
    Hole.SUBSTRING: "judge facts by submission.judged, which reads rivals, denials and lists",
    Hole.GUESS: "keep require_opened true, or judge facts by submission.judged",
    Hole.WORDS: "multiply it by submission.correctness",
    Hole.BUSY: "count only records of the reference, or multiply it by submission.correctness",
}

_NAMED = 3
"""Others that a sentence names, before it counts them."""


def sentence(finding: Finding, weights: dict[str, float]) -> str:
    """A finding as one sentence: what, where, the figures, and what to do."""
    part = f"Part {finding.part} (weight {weights.get(finding.part or '', 0.0):.2f})"
    on = f"on {count(finding.tasks, 'task')}, such as {finding.task}"
    what = finding.detail
    match finding.check:
        case Check.BOUNDS:
            return f"{part} {what} for {finding.policy} {on}; make it return a finite value in [0, 1] for every submission."
        case Check.REFERENCE if finding.part is None:
            return f"The reference of {on.removeprefix('on ')}, is at fault: {what}; end it with submit_answer."
        case Check.REFERENCE:
            return (
                f"{part} gives the reference less than 1 {on}, where it is {finding.mean:.2f}; mend the part or the reference."
            )
        case Check.HOLES if finding.hole is not None:
            return f"{part} {_PAYS[finding.hole]}; {_earner(finding)} through it{_others(finding)}; {_REMEDY[finding.hole]}."
        case Check.HOLES | Check.FLOOR:
            return (
                f"Player {_earner(finding)}, most of it from {finding.part}; let right answers weigh more, or gate that part."
            )
        case Check.SCORED_TWICE:
            return f"{part} gives one submission of {finding.policy} {what}, {on}; take chance, clocks and memory out of it."
        case Check.PLAYED_TWICE:
            return f"The episodes of {finding.policy} differ {on}; let tools and search depend on their arguments alone."
        case Check.LEAKS:
            return f"Task {finding.task} ({finding.family}) gives away {what}; word that text so that it has to be found."


def result_object(audit: Audit, data: str, parts: dict[str, str]) -> dict[str, object]:
    """The audit as one JSON object.

    Args:
        audit: its result.
        data: the folder of the tasks.
        parts: parts of the user's own by their names, as MODULE:FUNCTION.
    """
    failed = audit.failed_checks
    return {
        "schema_version": audit.schema_version,
        "data": data,
        "tasks": audit.tasks,
        "episodes": audit.episodes,
        "seed": audit.seed,
        "weights": audit.weights,
        "require_opened": audit.require_opened,
        "own_parts": parts,
        "checks": [{"name": check, "passed": check not in failed, "said": _said(check, failed)} for check in Check],
        "standings": [standing.model_dump(mode="json") for standing in audit.standings],
        "findings": [{**f.model_dump(mode="json"), "said": sentence(f, audit.weights)} for f in audit.findings],
        "failed": list(audit.failed),
    }


def print_audit(console: Console, audit: Audit, following: str) -> None:
    """Print the table, the checks with their findings, and what to run next."""
    rule = "" if audit.require_opened else ", require_opened off"
    weights = " + ".join(f"{weight:.2f} {name}" for name, weight in audit.weights.items() if weight)
    _say(
        console, f"{weights}{rule}: {count(audit.tasks, 'task')}, {count(audit.episodes, 'episode')}, seed {audit.seed}", "bold"
    )
    console.print(_table(audit.standings))
    console.print()
    for check in Check:
        _say_check(console, audit, check)
    _say(console, f"\n{following}")


def _say_check(console: Console, audit: Audit, check: Check) -> None:
    failed = check in audit.failed_checks
    _say(console, f"{'FAIL' if failed else 'ok  '}  {_said(check, audit.failed_checks)}", "bold red" if failed else "")
    for line in _findings_of(audit, check):
        _say(console, f"      - {line}")


def _findings_of(audit: Audit, check: Check) -> Iterator[str]:
    return (sentence(finding, audit.weights) for finding in audit.findings if finding.check is check)


def _said(check: Check, failed: frozenset[Check]) -> str:
    return (_FAILED if check in failed else _PASSED)[check]


def _earner(finding: Finding) -> str:
    family = (finding.family or "").replace("_", " ")
    who = f"{finding.policy} ({finding.tries})" if finding.tries else f"{finding.policy}"
    return f"{who} earns {finding.mean:.3f} over all tasks and {finding.family_mean:.3f} on {family}"


def _others(finding: Finding) -> str:
    named = ", ".join(finding.others[:_NAMED])
    rest = len(finding.others) - _NAMED
    return f", as do {named}{f' and {rest} more' if rest > 0 else ''}" if named else ""


def _table(standings: tuple[Standing, ...]) -> Table:
    parts = list(standings[0].parts)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("who plays", no_wrap=True)
    for name in ("reward", *parts):
        table.add_column(Text(safe(name.replace("_", " "))), justify="right")
    table.add_column("best family", no_wrap=True)
    for standing in standings:
        shares = [f"{standing.parts[name]:.3f}" for name in parts]
        cells = [standing.name, f"{standing.mean:.3f}", *shares, _best(standing)]
        table.add_row(*(Text(safe(cell)) for cell in cells), style="dim" if standing.role is Role.HONEST else "")
    return table


def _best(standing: Standing) -> str:
    family = max(standing.families, key=lambda name: standing.families[name])
    return f"{standing.families[family]:.3f} {family.replace('_', ' ')}" if standing.families[family] else "-"


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(safe(text), style=style), soft_wrap=True)
