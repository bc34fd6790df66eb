"""The list of an artifacts folder's trajectories: filters that compose, the table, and the names that policies go by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gradient_rl.errors import UsageError
from gradient_rl.policies.catalog import LATEST
from gradient_rl.report.artifacts import Damage, Row
from gradient_rl.report.terminal import count, safe
from gradient_rl.rewards.behaviours import Behaviour
from gradient_rl.schema.trajectory import StopReason

SCHEMA_VERSION = 1
"""Of every object that `--json` prints."""
_MIN_QUESTION = 24
_GAP = "  "


@dataclass(frozen=True)
class Filters:
    """Which trajectories are wanted. Within a field any value will do, and every field has to fit."""

    policies: tuple[str, ...] = ()
    """`NAME` for all its checkpoints, `NAME@CHECKPOINT`, or `NAME@latest`."""
    tasks: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    behaviours: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    failed: bool = False
    """Only those that do not state every required fact, or have no reward."""
    malformed: bool = False
    below: float | None = None
    """Only those with a reward below it; one without a reward is not below anything."""

    def select(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """The rows that fit, in their order.

        Raises:
            UsageError: a value is not to be found in any row, or does not exist; what exists is listed.
        """
        known = tuple(rows)
        self._refuse_unknown(known)
        if self.below is not None and math.isnan(self.below):
            raise UsageError("--below nan is no number that a reward could be below; give one such as 0.5")
        players = {player for name in self.policies for player in players_named(known, name)}
        tests = self._tests(players)
        return tuple(row for row in known if all(test(row) for test in tests))

    def _tests(self, players: set[str]) -> list[Callable[[Row], bool]]:
        below = self.below
        tests: list[tuple[bool, Callable[[Row], bool]]] = [
            (bool(self.policies), lambda row: row.policy in players),
            (bool(self.tasks), lambda row: row.task_id in self.tasks),
            (bool(self.families), lambda row: row.family in self.families),
            (bool(self.behaviours), lambda row: any(b in row.behaviours for b in self.behaviours)),
            (bool(self.stops), lambda row: row.stop_reason in self.stops),
            (self.failed, has_failed),
            (self.malformed, lambda row: row.stop_reason == StopReason.MALFORMED),
            (below is not None, lambda row: row.reward is not None and below is not None and row.reward < below),
        ]
        return [test for wanted, test in tests if wanted]

    def _refuse_unknown(self, rows: Sequence[Row]) -> None:
        there = (
            ("--task", self.tasks, sorted({row.task_id for row in rows})),
            ("--family", self.families, sorted({row.family for row in rows})),
            ("--behaviour", self.behaviours, list(Behaviour)),
            ("--stop", self.stops, list(StopReason)),
        )
        for option, wanted, known in there:
            for value in wanted:
                if value not in known:
                    raise UsageError(f"{option} {value} is not known here; there are {', '.join(known)}")


def has_failed(row: Row) -> bool:
    """Whether an episode did not state every required fact, or has no reward."""
    return row.reward is None or dict(row.parts).get("correctness", row.reward) < 1.0


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows by task, then policy, a checkpoint after those before it, then sample."""
    return tuple(sorted(rows, key=_place))


def players_named(rows: Iterable[Row], name: str) -> list[str]:
    """The policies that a name means: itself, its latest checkpoint, or all its checkpoints.

    Raises:
        UsageError: there is none of that name.
    """
    known = list(dict.fromkeys(row.policy for row in rows))
    stem, _, label = name.partition("@")
    if name in known:
        return [name]
    own = [player for player in known if player.partition("@")[0] == stem]
    numbered = [player for player in own if player.partition("@")[2].isdecimal()]
    if label == LATEST and numbered:
        return [max(numbered, key=lambda player: int(player.partition("@")[2]))]
    if own and not label:
        return own
    raise UsageError(f"there is no policy '{name}' here; there are {', '.join(known)}")


def table(rows: Sequence[Row], width: int, more: str) -> tuple[list[str], bool]:
    """The rows as lines of text, and whether a question had to be shortened.

    Args:
        width: columns of a line.
        more: what stands where a question was cut.
    """
    head = ("id", "family", "reward", "calls", "ended", "question")
    cells = [(r.id, r.family, _number(r.reward), str(r.calls), r.stop_reason, safe(r.question)) for r in rows]
    widths = [max(len(line[i]) for line in (head, *cells)) for i in range(len(head) - 1)]
    room = max(_MIN_QUESTION, width - sum(widths) - len(_GAP) * len(widths))
    lines = [_line(line, widths, room, more) for line in (head, *cells)]
    return lines, any(len(line[-1]) > room for line in cells)


def summary(shown: Sequence[Row], all_rows: Sequence[Row]) -> str:
    """How many there are, and what they earned."""
    rewards = [row.reward for row in shown if row.reward is not None]
    all_of_them = count(len(all_rows), "trajectory", "trajectories")
    counted = all_of_them if len(shown) == len(all_rows) else f"{len(shown)} of {all_of_them}"
    mean = f", mean reward {sum(rewards) / len(rewards):.3f}" if rewards else ""
    missing = len(shown) - len(rewards)
    return counted + mean + (f", {missing} without a reward" if missing else "")


def row_object(row: Row) -> dict[str, object]:
    """A row as plain data."""
    return {
        "id": row.id,
        "file": str(row.file),
        "line": row.line,
        "policy": row.policy,
        "split": row.split,
        "step": row.step,
        "task_id": row.task_id,
        "family": row.family,
        "sample": row.sample,
        "attempt": row.attempt,
        "stop_reason": row.stop_reason,
        "reward": row.reward,
        "parts": dict(row.parts),
        "calls": row.calls,
        "behaviours": list(row.behaviours),
        "question": row.question,
    }


def damage_objects(damaged: Iterable[Damage]) -> list[dict[str, object]]:
    """Damaged lines as plain data."""
    return [{"file": str(d.file), "line": d.line, "problem": d.problem} for d in damaged]


def _place(row: Row) -> tuple[object, ...]:
    name, _, label = row.policy.partition("@")
    number = int(label) if label.isdecimal() else -1
    return (row.task_id, name, number, label, row.step, row.sample, row.attempt, row.id)


def _line(cells: Sequence[str], widths: Sequence[int], room: int, more: str) -> str:
    padded = [
        f"{cell:>{width}}" if i in (2, 3) else f"{cell:<{width}}"
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    question = cells[-1] if len(cells[-1]) <= room else cells[-1][: room - len(more)] + more
    return _GAP.join([*padded, question.replace("\n", " ")])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
