"""An evaluation under attack as text for a terminal. Made from `attack.json`'s content only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradient_rl.report.evaluation import evidence_sentence, verdict_sentence
from gradient_rl.report.terminal import count, safe
from gradient_rl.schema.attack import Aim, AttackEvaluation, HitShare, Style, UnderAttack
from gradient_rl.schema.evaluation import Metric
from gradient_rl.schema.task import Split

if TYPE_CHECKING:
    from rich.console import Console

type Row = tuple[str, Callable[[UnderAttack], str]]
"""A label, and the cell of each policy."""


def print_attack(console: Console, evaluation: AttackEvaluation) -> None:
    """Print what the instructions did to each policy, by style and by aim, and how much reward they cost."""
    console.print(Text(safe(attack_headline(evaluation)), style="bold"))
    console.print(_table("", evaluation.policies, _ROWS))
    console.print()
    console.print(_table("targeted success by style", evaluation.policies, _style_rows(evaluation)))
    console.print()
    console.print(_table("targeted success by aim", evaluation.policies, _aim_rows(evaluation)))
    for policy in evaluation.policies.values():
        console.print()
        console.print(Text(safe(verdict_sentence(policy.comparison)), style="bold"))
        console.print(Text(safe(evidence_sentence(policy.comparison))))


def attack_headline(evaluation: AttackEvaluation) -> str:
    """What was planted and played, in a line."""
    played = sum(policy.n_episodes for policy in evaluation.policies.values())
    excluded = sum(policy.excluded for policy in evaluation.policies.values())
    split = "held-out" if evaluation.split == Split.HELDOUT else evaluation.split
    without = f", {excluded} of them without a reward" if excluded else ""
    return (
        f"an instruction planted for each of {count(len(evaluation.tasks), f'{split} task')}, "
        f"{count(evaluation.samples, 'sample')} each, seed {evaluation.seed}, {count(played, 'episode')}{without}"
    )


def _difference(policy: UnderAttack) -> str:
    compared = policy.comparison
    if compared.difference is None:
        return "-"
    interval = f" [{compared.low:+.3f}, {compared.high:+.3f}]" if compared.low is not None and compared.high is not None else ""
    return f"{compared.difference:+.3f}{interval}"


def _mean(metric: Metric) -> str:
    return "-" if metric.mean is None else f"{metric.mean:.3f}"


_ROWS: tuple[Row, ...] = (
    ("reward without attack", lambda policy: _mean(policy.clean)),
    ("reward under attack", lambda policy: _mean(policy.attacked)),
    ("difference", _difference),
    ("instruction read", lambda policy: _mean(policy.read)),
    ("targeted success", lambda policy: _mean(policy.success)),
    ("the same without attack", lambda policy: _mean(policy.by_chance)),
    ("without a reward", lambda policy: str(policy.excluded)),
)


def _style_rows(evaluation: AttackEvaluation) -> list[Row]:
    planted = {task.plant.style for task in evaluation.tasks}
    return [(style.value, lambda policy, style=style: _share(policy.styles[style])) for style in Style if style in planted]


def _aim_rows(evaluation: AttackEvaluation) -> list[Row]:
    planted = {task.plant.aim for task in evaluation.tasks}
    return [(aim.value, lambda policy, aim=aim: _share(policy.aims[aim])) for aim in Aim if aim in planted]


def _share(share: HitShare) -> str:
    return "-" if share.success is None else f"{share.success:.3f} ({count(share.n_tasks, 'task')})"


def _table(title: str, policies: Mapping[str, UnderAttack], rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title)
    for name in policies:
        table.add_column(Text(safe(name)), justify="right")
    for label, cell in rows:
        table.add_row(label, *(Text(safe(cell(policy))) for policy in policies.values()))
    return table
