"""What a file of limited size holds: how much room each task takes in it, and which tasks are left whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import cast

from gradient_rl.report.html.views import RecordView, RunView, TaskView
from gradient_rl.report.terminal import safe

TIE = 1e-9
_GOLDEN = 0.6180339887498949
_FOR_LOST = 0.9
"""The share that the steps of the regressions may take where there is not enough; the sample has the rest."""
_ROW, _CELL = 180, 205
"""Bytes of a row of the table without its text, and of a policy's cell in it."""
_NUMBER = 8
"""Of a text's or a record's name, and its punctuation."""

type Pairs = Sequence[tuple[str, str]]
"""Names of a baseline and its candidate."""


def fitting(
    tasks: Sequence[TaskView], pairs: Pairs, most_bytes: int, records: Mapping[str, RecordView] | None = None
) -> tuple[TaskView, ...]:
    """The tasks that fit, in their order: all on which a candidate lost against its baseline, then an even sample.

    Where the lost ones alone are too many, some of them are without their steps. Only where even that is too much are
    lost ones left out. One task is always kept.

    Args:
        tasks: all of them.
        pairs: what is compared.
        most_bytes: of the rows, the data and the records together.
        records: by id, all that the tasks may need.
    """
    spread = sorted(range(len(tasks)), key=lambda place: place * _GOLDEN % 1)
    lost = [place for place in spread if is_lost(tasks[place], pairs)]
    room = Room(most_bytes, records or {})
    kept = {place: tasks[place] for place in lost if room.takes(tasks[place])}
    if len(kept) < len(lost):
        room = Room(most_bytes, records or {})
        kept = _in_little_room(tasks, lost, room)
    kept |= {place: tasks[place] for place in spread if place not in set(lost) and room.takes(tasks[place])}
    if tasks and not kept:
        kept = {0: slim(tasks[0])}
    return tuple(kept[place] for place in sorted(kept))


def is_lost(task: TaskView, pairs: Pairs) -> bool:
    """Whether any candidate earned less than its baseline here."""
    return any((task.difference(*pair) or 0.0) < -TIE for pair in pairs)


def slim(task: TaskView) -> TaskView:
    """The task without its episodes: its question, rewards, answers and the sources of these."""
    return replace(task, runs={name: _without_episodes(run) for name, run in task.runs.items()})


def _without_episodes(run: RunView) -> RunView:
    return replace(run, episodes=(), sources=next((e.sources for e in run.episodes if e.total is not None), run.sources))


def is_slim(task: TaskView) -> bool:
    """Whether steps that were played are left out."""
    return any(run.samples and not run.episodes for run in task.runs.values())


def _in_little_room(tasks: Sequence[TaskView], lost: Iterable[int], room: Room) -> dict[int, TaskView]:
    """The lost tasks without their steps, and with them as long as there is room."""
    kept = {place: view for place in lost if room.takes(view := slim(tasks[place]))}
    whole = [place for place in kept if room.takes(tasks[place], _FOR_LOST, instead=kept[place])]
    return kept | {place: tasks[place] for place in whole}


@dataclass
class Room:
    """What is left of a number of bytes; a text or a record that is there already takes nothing."""

    most: int
    records: Mapping[str, RecordView]
    used: int = 0
    held: set[str] = field(default_factory=set[str])
    """Texts, and ids of records."""

    def takes(self, task: TaskView, share: float = 1.0, instead: TaskView | None = None) -> bool:
        """Put the task in, if it fits into this share of the bytes.

        Args:
            task: with all that the page holds of it.
            share: of the bytes.
            instead: what is in already and goes out for it.
        """
        texts = Texts()
        size = _row(task) + _bytes(texts.plain(task)) - (_row(instead) + _bytes(Texts().plain(instead)) if instead else 0)
        new = {text: _bytes(text) for text in texts.all if text not in self.held}
        new |= {i: _bytes(Texts().plain(self.records[i])) for i in task.ids if i in self.records and i not in self.held}
        size += sum(new.values()) + _NUMBER * (len(new) + len(texts.all))
        if self.used + size > share * self.most:
            return False
        self.used += size
        self.held.update(new)
        return True


def _row(task: TaskView) -> int:
    text = safe(f"{task.id}{task.id}{task.id}{task.family}{task.question}")
    return _ROW + _CELL * len(task.runs) + len(escape(text).encode("utf-8", "backslashreplace"))


def _bytes(value: object) -> int:
    return len(script_json(value).encode("utf-8", "backslashreplace"))


def script_json(value: object) -> str:
    """JSON that may stand inside a script element: no `<`, `>`, `&`, and no line separator of JavaScript's alone."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


@dataclass
class Texts:
    """Observations by number."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def all(self) -> list[str]:
        """The observations in the order of their numbers."""
        return list(self.numbers)

    def plain(self, value: object) -> object:
        """A view as plain JSON, its observations as numbers."""
        if isinstance(value, str):
            return safe(value)
        if isinstance(value, int | float | None):
            return value
        if isinstance(value, Mapping):
            return {safe(name): self.plain(each) for name, each in cast("Mapping[str, object]", value).items()}
        if isinstance(value, tuple):
            return [self.plain(each) for each in cast("tuple[object, ...]", value)]
        return {name: self._field(name, each) for name, each in vars(value).items()}

    def _field(self, name: str, value: object) -> object:
        if name == "text" and isinstance(value, str):
            return self.numbers.setdefault(safe(value), len(self.numbers))
        return self.plain(value)
