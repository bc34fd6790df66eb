"""One trajectory as text, whole: what was asked, each step, what was required, and the reward with what was lost and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.policies.catalog import player_name
from gradient_rl.report.conversation import asked_on
from gradient_rl.report.library import Background
from gradient_rl.report.terminal import safe
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import OPENING_TOOLS, SEARCH_TOOLS, SUBMIT_TOOL, RewardPart, Step, Trajectory

if TYPE_CHECKING:
    from rich.console import RenderableType

_STATED = "stated"


@dataclass(frozen=True)
class SlotReached:
    """A required slot, and how far the episode came with it."""

    any_of: tuple[str, ...]
    """Records of which any one fills it."""
    found: int | None
    """Number of the step that first showed one, from 1; None: never."""
    read: int | None
    """Number of the step that first opened one."""
    cited: bool
    """Whether one that was opened is cited."""


@dataclass(frozen=True)
class FactTold:
    """A required fact, and whether the answer states it."""

    id: str
    statement: str
    """Empty where the task is not known."""
    stated: bool
    reason: str


@dataclass(frozen=True)
class Loss:
    """What a part of the reward cost, and why."""

    part: RewardPart
    lost: float
    """Weight times what the value lacks of 1."""
    reasons: tuple[str, ...]


def slots_reached(trajectory: Trajectory, task: Task) -> tuple[SlotReached, ...]:
    """Each required slot of the task: when it was found and read, and whether it is cited."""
    coverage = coverage_of(trajectory, task)
    return tuple(
        SlotReached(
            slot,
            _first_step(trajectory.steps, slot, opened=False),
            _first_step(trajectory.steps, slot, opened=True),
            slot in coverage.cited,
        )
        for slot in coverage.slots
    )


def facts_told(trajectory: Trajectory, task: Task | None) -> tuple[FactTold, ...]:
    """Each required fact and what the saved reward says of it; the facts of a task without a reward are not judged."""
    parts = trajectory.reward.parts if trajectory.reward else ()
    reasons = [reason for part in parts if part.name == "correctness" for reason in part.reasons]
    saved = {name: told for name, colon, told in (reason.partition(": ") for reason in reasons) if colon}
    if task is None:
        return tuple(FactTold(name, "", told == _STATED, told) for name, told in saved.items())
    unjudged = "no answer was submitted" if trajectory.answer is None else "it was not judged"
    return tuple(
        FactTold(fact.id, fact.statement, saved.get(fact.id) == _STATED, saved.get(fact.id, unjudged)) for fact in task.facts
    )


def losses(trajectory: Trajectory) -> tuple[Loss, ...]:
    """Each part of the reward, what it lost, and the reasons for that."""
    parts = trajectory.reward.parts if trajectory.reward else ()
    return tuple(Loss(part, part.weight * (1.0 - part.value), _why_lost(part)) for part in parts)


def shown(name: str, where: str, trajectory: Trajectory, background: Background) -> Iterator[RenderableType]:
    """The whole of a trajectory, top to bottom, for a console.

    Args:
        name: its id.
        where: file and line.
        trajectory: the record.
        background: its task and the titles of records, where they are known.
    """
    yield Text(safe(name), style="bold")
    yield Text(safe(_facts_of_run(where, trajectory)), style="dim")
    for note in background.notes:
        yield Text(safe(f"note: {note}"), style="yellow")
    day = asked_on(trajectory)
    yield _heading(f"Question, asked on {safe(day)}" if day else "Question")
    yield _body(trajectory.question)
    yield _heading("Steps")
    yield from _steps(trajectory, background.task)
    yield _heading("Answer")
    yield from _answer(trajectory, background.task)
    yield from _required(trajectory, background)
    yield from _facts(trajectory, background.task)
    yield from _reward(trajectory)


def as_object(name: str, file: str, line: int, trajectory: Trajectory, background: Background) -> dict[str, object]:
    """The whole of a trajectory as plain data."""
    task = background.task
    slots = [
        {"any_of": list(s.any_of), "found_at": s.found, "read_at": s.read, "cited": s.cited}
        for s in (slots_reached(trajectory, task) if task else ())
    ]
    facts = [
        {"id": f.id, "statement": f.statement, "stated": f.stated, "reason": f.reason} for f in facts_told(trajectory, task)
    ]
    lost = [
        {
            "part": each.part.name,
            "value": each.part.value,
            "weight": each.part.weight,
            "lost": each.lost,
            "reasons": list(each.reasons),
        }
        for each in losses(trajectory)
    ]
    return {
        "id": name,
        "file": file,
        "line": line,
        "notes": list(background.notes),
        "asked_on": asked_on(trajectory),
        "required": slots if task else None,
        "facts": facts,
        "lost": lost,
        "trajectory": trajectory.model_dump(mode="json"),
    }


def argument_text(step: Step) -> str:
    """A step's arguments as `name: value`, an only one as its value alone."""
    values = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in step.arguments.items()
    }
    return next(iter(values.values())) if len(values) == 1 else "; ".join(f"{name}: {value}" for name, value in values.items())


def sum_of_parts(trajectory: Trajectory) -> str:
    """The reward as the sum of its parts, in one line."""
    if trajectory.reward is None:
        return f"no reward, because the infrastructure failed: {trajectory.error or trajectory.stop_reason}"
    terms = " + ".join(f"{part.weight:.2f} x {part.value:.2f} {part.name}" for part in trajectory.reward.parts)
    return f"{trajectory.reward.total:.2f} = {terms}"


def _facts_of_run(where: str, t: Trajectory) -> str:
    parts = [
        where,
        f"policy {player_name(t.policy, t.checkpoint)}" + (f" ({t.model})" if t.model else ""),
        f"task {t.task_id}, {t.family}, {t.split}",
        f"training step {t.step}" if t.step else "",
        f"sample {t.sample}, seed {t.seed}",
        f"{t.stop_reason} after {t.calls} of {t.max_calls} calls",
        f"{t.usage.tokens} tokens, USD {t.usage.cost_usd:.4f}" if t.usage.tokens else "",
        f"behaviours: {', '.join(t.behaviours)}" if t.behaviours else "",
    ]
    return "; ".join(part for part in parts if part)


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _body(text: str, indent: int = 2, style: str = "") -> Padding:
    return Padding(Text(safe(text), style=style), (0, 0, 0, indent), expand=False)


def _steps(trajectory: Trajectory, task: Task | None) -> Iterator[RenderableType]:
    required = _required_ids(task)
    said, rest = said_before(trajectory)
    for number, step in enumerate(trajectory.steps, start=1):
        yield from (_body(text, style="italic") for text in said[number - 1])
        arguments = "" if step.tool == SUBMIT_TOOL else argument_text(step)
        yield _body(f"{number:>2}  {step.tool}  {arguments}".rstrip(), style="cyan")
        yield from _observation(step, required)
    yield from (_body(text, style="italic") for text in rest)
    if not trajectory.steps and not rest:
        yield _body("none was made")


def said_before(trajectory: Trajectory) -> tuple[list[list[str]], list[str]]:
    """What was said before each step's call, malformed replies included, and what was said after the last."""
    said: list[list[str]] = [[] for _ in trajectory.steps]
    pending: list[str] = []
    done = 0
    calls: dict[str, str] = {}
    for message in _replies(trajectory.messages):
        content = _content(message)
        if message.get("role") == "assistant":
            calls = _calls_in(message)
            pending += [f"says: {content}"] if content else []
        elif done < len(said) and content == trajectory.steps[done].observation:
            said[done], pending, done = pending, [], done + 1
        else:
            call = calls.get(str(message.get("tool_call_id")), "")
            pending += [f"calls: {call}"] if call else []
            pending.append(f"is told: {content}")
    return said, pending


def _replies(messages: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The conversation from the first reply on."""
    first = next((i for i, message in enumerate(messages) if message.get("role") == "assistant"), len(messages))
    return list(messages[first:])


def _content(message: Mapping[str, object]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)


def _calls_in(message: Mapping[str, object]) -> dict[str, str]:
    calls: dict[str, str] = {}
    for call in cast("Sequence[Mapping[str, object]]", message.get("tool_calls") or ()):
        function = cast("Mapping[str, object]", call.get("function") or {})
        calls[str(call.get("id"))] = f"{function.get('name')} {function.get('arguments')}"
    return calls


def _observation(step: Step, required: set[str]) -> Iterator[RenderableType]:
    if step.error is not None:
        yield _body(f"refused: {step.error}", 6, "red")
        return
    if step.tool == SUBMIT_TOOL:
        return
    record = _json_object(step.observation)
    if step.tool in SEARCH_TOOLS and isinstance(record.get("hits"), list):
        yield from _hits(cast("list[Mapping[str, object]]", record["hits"]), required)
    elif record:
        yield from _opened(record, required)
    else:
        yield _body(step.observation, 6)


def _hits(hits: Sequence[Mapping[str, object]], required: set[str]) -> Iterator[RenderableType]:
    if not hits:
        yield _body("nothing found", 6, "dim")
    for hit in hits:
        mark, style = ("  (required)", "green") if hit.get("id") in required else ("", "")
        fields = [str(hit[name]) for name in ("id", "kind", "date") if hit.get(name)]
        yield _body(f"{'  '.join(fields)}  {hit.get('title') or hit.get('subject') or ''}{mark}", 6, style)
        known = ("id", "kind", "date", "title", "subject")
        yield from (_body(_field(name, value), 10, "dim") for name, value in hit.items() if name not in known)


def _opened(record: Mapping[str, object], required: set[str]) -> Iterator[RenderableType]:
    if record.get("id") in required:
        yield _body("(required)", 6, "green")
    for name, value in record.items():
        if name != "body":
            yield _body(_field(name, value), 6, "dim")
    if record.get("body"):
        yield _body(str(record["body"]), 6)


def _field(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"{name}: {', '.join(map(str, cast('list[object]', value)))}"
    return f"{name}: {value}"


def _json_object(text: str) -> dict[str, object]:
    try:
        value: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _answer(trajectory: Trajectory, task: Task | None) -> Iterator[RenderableType]:
    if trajectory.answer is None:
        yield _body(f"none: {trajectory.stop_reason}{': ' + trajectory.error if trajectory.error else ''}", style="red")
        return
    yield _body(trajectory.answer)
    opened = {record_id.lower() for record_id in trajectory.opened}
    for source in trajectory.sources:
        yield _body(f"cites {source}{_what_it_proves(source.strip().lower(), opened, task)}")
    if not trajectory.sources:
        yield _body("cites nothing", style="red")
    if task:
        yield _body(f"right: {' '.join(fact.statement for fact in task.facts)}", style="green")


def _what_it_proves(source: str, opened: set[str], task: Task | None) -> str:
    if source not in opened:
        return " (was not opened)"
    if task is None:
        return ""
    if source in {record_id.lower() for record_id in _required_ids(task)}:
        return " (required)"
    return " (neutral)" if source in {i.lower() for i in task.neutral_sources} else " (proves nothing)"


def _required(trajectory: Trajectory, background: Background) -> Iterator[RenderableType]:
    if background.task is None:
        return
    yield _heading("Required records")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("", "found", "read", "cited", ""):
        table.add_column(title, overflow="fold")
    for slot in slots_reached(trajectory, background.task):
        titles = " or ".join(background.titles[i] for i in slot.any_of if i in background.titles)
        cells = (" or ".join(slot.any_of), _at(slot.found), _at(slot.read), "yes" if slot.cited else "no", titles)
        table.add_row(*(Text(safe(cell), style="red" if cell in ("never", "no") else "") for cell in cells))
    yield Padding(table, (0, 0, 0, 2), expand=False)


def _facts(trajectory: Trajectory, task: Task | None) -> Iterator[RenderableType]:
    facts = facts_told(trajectory, task)
    if facts:
        yield _heading("Required facts")
    for fact in facts:
        verdict, style = ("stated", "green") if fact.stated else ("not stated", "red")
        yield _body(f"{verdict}: {fact.id}{': ' + fact.statement if fact.statement else ''}", style=style)
        if not fact.stated:
            yield _body(fact.reason, 4)


def _reward(trajectory: Trajectory) -> Iterator[RenderableType]:
    yield _heading("Reward")
    yield _body(sum_of_parts(trajectory))
    for loss in losses(trajectory):
        if loss.lost > 0:
            yield _body(f"{loss.part.name} lost {loss.lost:.2f} of {loss.part.weight:.2f}", style="red")
            yield from (_body(f"- {reason}", 4) for reason in loss.reasons)


def _why_lost(part: RewardPart) -> tuple[str, ...]:
    if part.value >= 1.0:
        return ()
    return tuple(reason for reason in part.reasons if not reason.endswith(f": {_STATED}"))


def _first_step(steps: Sequence[Step], slot: Sequence[str], *, opened: bool) -> int | None:
    wanted = {record_id.lower() for record_id in slot}
    for number, step in enumerate(steps, start=1):
        fits = step.tool in OPENING_TOOLS and step.error is None if opened else True
        if fits and wanted & {record_id.lower() for record_id in step.ids}:
            return number
    return None


def _required_ids(task: Task | None) -> set[str]:
    return {record_id for slot in task.required_sources for record_id in slot} if task else set()


def _at(step: int | None) -> str:
    return "never" if step is None else f"step {step}"
