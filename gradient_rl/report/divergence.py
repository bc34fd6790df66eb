"""Two policies on the same task: where their rewards differ, and two trajectories aligned step by step.

Steps are aligned by what was called: the longest runs of equal calls stand side by side, and between them the calls that
replaced each other do. The first pair that is not the same call with the same answer is the divergence.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from gradient_rl.errors import UsageError
from gradient_rl.evaluation.difference import what_made_the_difference
from gradient_rl.policies.catalog import player_name
from gradient_rl.report.artifacts import Row, Rows, find_row
from gradient_rl.report.inspect import players_named
from gradient_rl.report.show import argument_text, sum_of_parts
from gradient_rl.report.terminal import MIN_WIDTH_FOR_TWO, count, safe
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import SUBMIT_TOOL, Step, Trajectory

if TYPE_CHECKING:
    from rich.console import RenderableType

_TIE = 1e-9
_NAMED_PAIRS = 3


@dataclass(frozen=True)
class TaskDifference:
    """One task under two policies, and the trajectories that are compared on it."""

    task_id: str
    family: str
    question: str
    first: Row
    """Of the samples that both played, the one whose rewards differ most."""
    second: Row
    reward_first: float | None
    """Mean over the samples with a reward."""
    reward_second: float | None
    pairs: tuple[tuple[Row, Row], ...]
    """Every sample that both played; the shown one alone where they have none in common."""

    @property
    def difference(self) -> float | None:
        """Second minus first."""
        if self.reward_first is None or self.reward_second is None:
            return None
        return self.reward_second - self.reward_first


@dataclass(frozen=True)
class Aligned:
    """A step of each side, or of one alone."""

    first: Step | None
    second: Step | None
    kind: Literal["same", "other answer", "differs", "only first", "only second"]


def named_pair(rows: Rows, first: str, second: str) -> tuple[Row, Row] | tuple[str, str]:
    """What `diff A B` compares: two trajectories by id, or the names of two policies.

    Raises:
        UsageError: a text is neither, the two are not of a kind, or the trajectories are of different tasks.
    """
    names = [_policy(rows.rows, text) for text in (first, second)]
    if names[0] and names[1]:
        return names[0], names[1]
    if names[0] or names[1]:
        named = first if names[0] else second
        other = second if names[0] else first
        known = ", ".join(dict.fromkeys(row.policy for row in rows.rows))
        raise UsageError(f"'{named}' is a policy and '{other}' is none; give two policies ({known}) or two ids")
    pair = find_row(rows, first), find_row(rows, second)
    if pair[0].task_id != pair[1].task_id:
        raise UsageError(
            f"{pair[0].id} is of task '{pair[0].task_id}' and {pair[1].id} of '{pair[1].task_id}'; give two of the same task"
        )
    return pair


def preferred(rows: Rows, first: str, second: str, task: str | None = None) -> tuple[tuple[Row, ...], str]:
    """The rows to compare two policies on, and what is left out, as a sentence; empty if nothing is.

    An evaluation plays each policy on the same tasks as often as the other, so its files alone are taken where both played
    in them, the wanted task if one is given. What else lies in the folder would shift the means.
    """
    evaluated = tuple(row for row in rows.rows if row.file.name.startswith("eval."))
    ours, theirs = ({row.task_id for row in evaluated if row.policy == policy} for policy in (first, second))
    common = ours & theirs
    other = [row for row in rows.rows if row.policy in (first, second) and not row.file.name.startswith("eval.")]
    if not common or (task is not None and task not in common):
        return rows.rows, ""
    files = ", ".join(dict.fromkeys(row.file.name for row in other))
    return (
        evaluated,
        f"only the evaluation is compared, without {files}; --artifacts FILE reads one file alone" if other else "",
    )


def differences(rows: Iterable[Row], first: str, second: str) -> tuple[TaskDifference, ...]:
    """The tasks that both policies played, the largest gain of the second first; those that cannot be told come last.

    Raises:
        UsageError: they have no task in common.
    """
    known = tuple(rows)
    ours, theirs = _by_task(known, first), _by_task(known, second)
    common = [_difference(ours[task_id], theirs[task_id]) for task_id in ours if task_id in theirs]
    if not common:
        raise UsageError(f"{first} and {second} have no task in common here; play both with gradient-eval --policy")
    return tuple(sorted(common, key=lambda d: (d.difference is None, -(d.difference or 0.0), d.task_id)))


def align(first: Sequence[Step], second: Sequence[Step]) -> tuple[Aligned, ...]:
    """Two lists of steps, side by side; a submission that ends them stands beside no other call."""
    ends = [steps[-1] if steps and steps[-1].tool == SUBMIT_TOOL else None for steps in (first, second)]
    ours, theirs = (steps[: len(steps) - (end is not None)] for steps, end in zip((first, second), ends, strict=True))
    keys = [_key(step) for step in ours], [_key(step) for step in theirs]
    found: list[Aligned] = []
    for tag, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        pairs = zip(ours[a:b], theirs[c:d], strict=True) if tag == "equal" else zip_longest(ours[a:b], theirs[c:d])
        found += [Aligned(one, other, _kind(one, other, same_call=tag == "equal")) for one, other in pairs]
    one, other = ends
    same = one is not None and other is not None and _key(one) == _key(other)
    return (*found, *([Aligned(one, other, _kind(one, other, same_call=same))] if one or other else []))


def first_divergence(aligned: Sequence[Aligned]) -> int | None:
    """Index of the first pair that is not the same; None where all are."""
    return next((i for i, pair in enumerate(aligned) if pair.kind != "same"), None)


def task_table(found: Sequence[TaskDifference], first: str, second: str) -> RenderableType:
    """The tasks by difference."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title, right in (
        ("task", False),
        ("family", False),
        (first, True),
        (second, True),
        ("change", True),
        ("question", False),
    ):
        table.add_column(Text(safe(title)), justify="right" if right else "left", overflow="fold")
    for each in found:
        cells = (each.task_id, each.family, _number(each.reward_first), _number(each.reward_second), _signed(each.difference))
        table.add_row(*(Text(safe(cell), style=_style(each.difference)) for cell in cells), Text(safe(each.question)))
    return table


def counted(found: Sequence[TaskDifference]) -> str:
    """How many tasks went which way."""
    known = [each.difference for each in found if each.difference is not None]
    better, worse = sum(d > _TIE for d in known), sum(d < -_TIE for d in known)
    untold = len(found) - len(known)
    rest = f", {untold} without a reward on one side" if untold else ""
    tasks = count(len(found), "task")
    return f"{tasks} in common: {better} better, {len(known) - better - worse} the same, {worse} worse{rest}"


def side_by_side(
    names: tuple[str, str], pair: tuple[Trajectory, Trajectory], task: Task | None, width: int
) -> Iterator[RenderableType]:
    """Two trajectories of one task, aligned, the first divergence marked.

    Args:
        names: their ids.
        pair: the trajectories.
        task: where it is known.
        width: columns of the console; below 96 the two stand one above the other.
    """
    aligned = align(pair[0].steps, pair[1].steps)
    split = first_divergence(aligned)
    required = {i for slot in task.required_sources for i in slot} if task else set[str]()
    yield Text(safe(f"{pair[0].task_id}, {pair[0].family}"), style="bold")
    yield Text(safe(pair[0].question), style="italic")
    yield Text(f"\nA  {safe(_titled(names[0], pair[0]))}\nB  {safe(_titled(names[1], pair[1]))}\n")
    yield _aligned_table(aligned, split, required, two=width >= MIN_WIDTH_FOR_TWO)
    yield Text("\nThey do the same throughout." if split is None else f"\nThey part at row {split + 1}.", style="bold")
    yield Text(safe(parts_compared(*pair)))
    if task:
        yield Text(safe(cause(pair, task)))


def parts_compared(first: Trajectory, second: Trajectory) -> str:
    """The reward of each as a sum, and the difference part by part."""
    lines = [f"A  {sum_of_parts(first)}", f"B  {sum_of_parts(second)}"]
    if first.reward and second.reward:
        weighted = {part.name: part.weight * part.value for part in first.reward.parts}
        changes = [f"{p.name} {p.weight * p.value - weighted.get(p.name, 0.0):+.2f}" for p in second.reward.parts]
        lines.append(f"B - A  {second.reward.total - first.reward.total:+.2f}: {', '.join(changes)}")
    return "\n".join(lines)


def cause(pair: tuple[Trajectory, Trajectory], task: Task) -> str:
    """What made the difference, with checkpoints or samples told apart."""
    names = [player_name(each.policy, each.checkpoint) for each in pair]
    if names[0] == names[1]:
        names = [f"{name} ({side})" for name, side in zip(names, "AB", strict=True)]
    first, second = (each.model_copy(update={"policy": name}) for each, name in zip(pair, names, strict=True))
    return what_made_the_difference(first, second, task)


def aligned_objects(aligned: Sequence[Aligned]) -> list[dict[str, object]]:
    """The aligned steps as plain data."""
    sides = ((each, each.first, each.second) for each in aligned)
    return [{"kind": each.kind, "a": _step_object(first), "b": _step_object(second)} for each, first, second in sides]


def difference_object(each: TaskDifference) -> dict[str, object]:
    """A task's difference as plain data."""
    return {
        "task_id": each.task_id,
        "family": each.family,
        "question": each.question,
        "a": _side_object(each.first, each.reward_first),
        "b": _side_object(each.second, each.reward_second),
        "samples": len(each.pairs),
        "difference": each.difference,
    }


def _side_object(row: Row, mean: float | None) -> dict[str, object]:
    return {"id": row.id, "sample": row.sample, "reward": row.reward, "mean": mean}


def of_samples(each: TaskDifference) -> str:
    """Which sample of how many is shown, what the means are, and the ids of the others; empty where there is one alone."""
    if len(each.pairs) < 2:
        return ""
    others = [pair for pair in each.pairs if pair[0] is not each.first]
    named = "; ".join(f"{a.id} {b.id}" for a, b in others[:_NAMED_PAIRS])
    more = f"; and {len(others) - _NAMED_PAIRS} more" if len(others) > _NAMED_PAIRS else ""
    return (
        f"This is sample {each.first.sample}, one of {len(each.pairs)}, whose rewards differ most; the means are "
        f"{_number(each.reward_first)} and {_number(each.reward_second)} ({_signed(each.difference)}). "
        f"The others: gradient-inspect diff with {named}{more}."
    )


def _policy(rows: Sequence[Row], text: str) -> str | None:
    """The one policy that a text names; None if it names none.

    Raises:
        UsageError: it names several checkpoints.
    """
    try:
        found = players_named(rows, text)
    except UsageError:
        return None
    if len(found) > 1:
        raise UsageError(f"'{text}' has several checkpoints here; name one of {', '.join(found)}, or {text}@latest")
    return found[0]


def _by_task(rows: Iterable[Row], policy: str) -> dict[str, list[Row]]:
    """A policy's rows by task, the last attempt of each sample."""
    last: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row.policy == policy:
            place = (row.task_id, row.file, row.step, row.sample)
            last[place] = max(last.get(place, row), row, key=lambda each: each.attempt)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in last.values():
        found[row.task_id].append(row)
    return found


def _difference(ours: Sequence[Row], theirs: Sequence[Row]) -> TaskDifference:
    places = sorted({row.sample for row in ours} & {row.sample for row in theirs})
    samples = [{row.sample: row for row in reversed(rows)} for rows in (ours, theirs)]
    pairs = tuple((samples[0][place], samples[1][place]) for place in places) or ((ours[0], theirs[0]),)
    first, second = max(pairs, key=_gap)
    return TaskDifference(first.task_id, first.family, first.question, first, second, _mean(ours), _mean(theirs), pairs)


def _gap(pair: tuple[Row, Row]) -> float:
    first, second = pair[0].reward, pair[1].reward
    return -1.0 if first is None or second is None else abs(second - first)


def _mean(rows: Sequence[Row]) -> float | None:
    rewards = [row.reward for row in rows if row.reward is not None]
    return sum(rewards) / len(rewards) if rewards else None


def _key(step: Step) -> str:
    return f"{step.tool} {json.dumps(step.arguments, sort_keys=True)}"


def _kind(
    first: Step | None, second: Step | None, *, same_call: bool
) -> Literal["same", "other answer", "differs", "only first", "only second"]:
    if first is None:
        return "only second"
    if second is None:
        return "only first"
    if not same_call:
        return "differs"
    answers = [(step.observation, step.ids, step.error) for step in (first, second)]
    return "same" if answers[0] == answers[1] else "other answer"


def _aligned_table(aligned: Sequence[Aligned], split: int | None, required: set[str], *, two: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=two)
    table.add_column("", justify="right")
    for title in ("A", "B") if two else ("",):
        table.add_column(title, ratio=1, overflow="fold")
    table.add_column("")
    for number, pair in enumerate(aligned):
        sides = [_side(pair.first, required), _side(pair.second, required)]
        cells = sides if two else [Text("\n").join([Text("A ") + sides[0], Text("B ") + sides[1]])]
        mark = "<- first divergence" if number == split else "" if pair.kind == "same" else pair.kind
        table.add_row(str(number + 1), *cells, Text(mark, style="yellow"))
    return table


def _side(step: Step | None, required: set[str]) -> Text:
    if step is None:
        return Text("-", style="dim")
    line = Text.assemble((step.tool, "cyan"), " ", safe(argument_text(step)))
    if step.error:
        return line.append(f"\n  refused: {safe(step.error)}", style="red")
    if step.tool != SUBMIT_TOOL:
        ids = [f"{i} (required)" if i in required else i for i in step.ids]
        line.append(f"\n  {safe(', '.join(ids) or 'nothing found')}", style="dim")
    return line


def _titled(name: str, t: Trajectory) -> str:
    reward = "no reward" if t.reward is None else f"reward {t.reward.total:.2f}"
    return f"{name}  {player_name(t.policy, t.checkpoint)}  {reward}, {t.stop_reason} after {t.calls} calls"


def _step_object(step: Step | None) -> dict[str, object] | None:
    return step.model_dump(mode="json") if step else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _style(difference: float | None) -> str:
    if difference is None or abs(difference) <= _TIE:
        return ""
    return "green" if difference > 0 else "red"
