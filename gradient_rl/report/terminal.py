"""Trajectories as text for a terminal, from saved records only. Other people's text is printed as text, never as markup."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import SEARCH_TOOLS, SUBMIT_TOOL, RewardPart, Step, Trajectory

MIN_WIDTH_FOR_TWO = 96
"""Columns from which two trajectories stand side by side; below it they stand one above the other."""
_BAR = 10
_MAX_ANSWER_CHARS = 600
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    r"\u200b\u2028\u2029\u2060-\u2064\ufeff\U000e0000-\U000e007f"  # lines that are none, and what nobody sees
    r"\ud800-\udfff]"  # halves of characters, which no terminal and no file can take
)


def safe(text: str) -> str:
    """The text without control characters, ANSI sequences' escape, bidirectional overrides and unseen letters included."""
    return _CONTROL.sub("", text)


def safe_line(text: str) -> str:
    """The same on one line, so that no text can pretend to be the next one."""
    return " ".join(safe(text).split())


def safe_json(text: str) -> str:
    """JSON text that means the same, with what `safe` takes out written as escapes."""
    return _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)


def print_side_by_side(console: Console, task: Task, trajectories: Sequence[Trajectory], sentence: str) -> None:
    """Print a task, what each policy did with it, and what made the difference."""
    console.print(Text.assemble((f"{task.id}", "bold"), f"  {task.family.value}  as of {task.as_of}"))
    console.print(Text(safe(task.question), style="italic"))
    console.print()
    panels = [_panel(trajectory, task) for trajectory in trajectories]
    if console.width >= MIN_WIDTH_FOR_TWO:
        grid = Table.grid(expand=True, padding=(0, 1))
        for _ in panels:
            grid.add_column(ratio=1)
        grid.add_row(*panels)
        console.print(grid)
    else:
        console.print(Group(*panels))
    console.print(Text.assemble(("What made the difference  ", "bold"), safe(sentence)))
    console.print(Text.assemble(("The right answer  ", "bold"), safe(" ".join(fact.statement for fact in task.facts))))
    required = ", ".join(" or ".join(slot) for slot in task.required_sources)
    console.print(Text.assemble(("Required evidence  ", "bold"), required))


def _panel(trajectory: Trajectory, task: Task) -> Panel:
    total = f"reward {trajectory.reward.total:.2f}" if trajectory.reward else "no reward"
    body: list[RenderableType] = [_steps(trajectory, task), Text(), *_answer(trajectory, task), Text(), _parts(trajectory)]
    title = Text.assemble((trajectory.policy, "bold"), f"  {total}")
    return Panel(Group(*body), title=title, title_align="left")


def _steps(trajectory: Trajectory, task: Task) -> Table:
    required = {record_id for slot in task.required_sources for record_id in slot}
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="dim")
    table.add_column()
    for number, step in enumerate(trajectory.steps, start=1):
        table.add_row(str(number), _step(step, required))
    return table


def _step(step: Step, required: set[str]) -> Text:
    if step.tool == SUBMIT_TOOL:
        return Text(SUBMIT_TOOL)
    shown = _argument(step)
    line = Text.assemble(step.tool, " ", (safe(shown), "cyan"))
    if step.error:
        return line.append(f"\n  refused: {safe(step.error)}", style="red")
    if step.tool in SEARCH_TOOLS:
        return line.append("\n  ").append(_ids(step.ids, required) if step.ids else Text("nothing found", style="dim"))
    mark = " ✓ required" if set(step.ids) & required else ""
    return line.append(f"\n  {safe(_title_in(step.observation))}", style="dim").append(mark, style="green")


def _argument(step: Step) -> str:
    value = next(iter(step.arguments.values()), "")
    return value if isinstance(value, str) else json.dumps(value)


def _title_in(observation: str) -> str:
    match = re.search(r'"(?:title|subject)":("(?:[^"\\]|\\.)*")', observation)
    return str(json.loads(match[1])) if match else ""


def _ids(ids: Sequence[str], required: set[str]) -> Text:
    return Text(" ").join(Text(record_id, style="green" if record_id in required else "dim") for record_id in ids)


def _answer(trajectory: Trajectory, task: Task) -> list[RenderableType]:
    if trajectory.answer is None:
        return [Text(f"no answer: {trajectory.stop_reason}", style="red")]
    answer = safe(trajectory.answer)
    if len(answer) > _MAX_ANSWER_CHARS:
        answer = f"{answer[:_MAX_ANSWER_CHARS]} [{len(answer) - _MAX_ANSWER_CHARS} more characters]"
    coverage = coverage_of(trajectory, task)
    right = {record_id for slot in coverage.cited for record_id in slot}
    cited = Text(" ").join(
        Text(f"{safe(source)} ✓", style="green")
        if source in right
        else Text(f"{safe(source)} ○", style="yellow")
        if source in task.neutral_sources
        else Text(f"{safe(source)} ✗", style="red")
        for source in trajectory.sources
    )
    slots = len(coverage.slots)
    reached = f"of {slots} required: found {len(coverage.found)}, read {len(coverage.read)}, cited {len(coverage.cited)}"
    return [
        Text.assemble(("answer  ", "bold"), answer),
        Text.assemble(("sources ", "bold"), cited if trajectory.sources else Text("none", style="red")),
        Text(reached, style="dim"),
    ]


def _parts(trajectory: Trajectory) -> RenderableType:
    if trajectory.reward is None:
        return Text(f"no reward: {safe(trajectory.error or '')}", style="red")
    table = Table.grid(padding=(0, 1))
    for part in trajectory.reward.parts:
        table.add_row(part.name, bar(part.value), f"{part.value:.2f} × {part.weight:.2f}")
    table.add_row(
        Text("total", style="bold"), bar(trajectory.reward.total), Text(f"{trajectory.reward.total:.2f}", style="bold")
    )
    reasons = [_reason(reason) for part in trajectory.reward.parts for reason in _losses(part)]
    return Group(table, *reasons)


def _losses(part: RewardPart) -> list[str]:
    return [] if part.value >= 1.0 else [r for r in part.reasons if not r.endswith(": stated") and r != "scaled by correctness"]


def _reason(reason: str) -> Text:
    return Text(f"- {safe(reason)}", style="dim")


def bar(value: float, cells: int = _BAR) -> Text:
    """A value in [0, 1] as a bar."""
    full = round(value * cells)
    return Text.assemble(("█" * full, "green"), ("░" * (cells - full), "dim"))


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 file`, `2 files`, `3 trajectories`."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
