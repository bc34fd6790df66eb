"""Reports with known content: tasks, episodes and records made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gradient_rl.environment.workspace import HELDOUT_FILE, load_tasks, load_workspace
from gradient_rl.report.html.write import write_report
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Digests, Reward, RewardPart, Step, StopReason, Trajectory
from gradient_rl.schema.workspace import Document
from tests.conftest import write_data
from tests.tiny import NOTICE_TASK, RECORDS
from tests.trajectories import opening, trajectory

HITS = '{"hits":[{"id":"mail-1","kind":"email","title":"Birch Bakery amendment","date":"2025-03-03","people":[],"snippet":"notice is 60 days"}]}'
HOSTILE = (
    "</script><script>window.fired=1</script><svg onload=window.fired=1><img src=x onerror=window.fired=1> "
    "javascript:window.fired=1 {{ 7*7 }} {% raw %} ${window.fired=1} \u202eright to left\u202c \x1b[31mred\x1b[0m "
    '<a href="javascript:window.fired=1">here</a> --><!-- <style>*{display:none}</style> "\' & \u2028 \u2029 ]]>'
)
HOSTILE_RECORD = Document(
    id="doc-evil", kind="policy", title=HOSTILE, author=HOSTILE, date="2024-01-15", status="final", body=HOSTILE
)


def task(
    number: int, family: str = "superseded", question: str = "How much notice does the bakery contract ask for now?"
) -> Task:
    fact = NOTICE_TASK.facts[0].model_copy(update={"id": f"task-{number:02}-f1"})
    changes = {"id": f"task-{number:02}", "split": "heldout", "family": family, "question": question, "facts": (fact,)}
    return Task.model_validate(NOTICE_TASK.model_dump() | changes)


def scored(correctness: float, citations: float, reasons: Iterable[str] = ()) -> Reward:
    values = {"correctness": (correctness, 0.5), "citation_quality": (citations, 0.3), "efficiency": (correctness, 0.2)}
    parts = tuple(RewardPart(name=n, value=v, weight=w, reasons=tuple(reasons)) for n, (v, w) in values.items())
    return Reward(parts=parts, total=round(sum(part.value * part.weight for part in parts), 6))


def searched(query: str, *ids: str) -> Step:
    return Step(tool="search", arguments={"query": query}, observation=HITS, ids=ids)


def submitted(answer: str, *sources: str) -> Step:
    return Step(tool="submit_answer", arguments={"answer": answer, "sources": list(sources)}, observation="{}")


def wrong(about: Task, **more: object) -> Trajectory:
    """Searches, opens what proves nothing, and is wrong: 0."""
    steps = [searched("notice bakery", "mail-1", "doc-4"), opening("doc-4"), submitted("30 days", "doc-4")]
    fields = {
        "reward": scored(0, 0, ["the answer does not state 60 days"]),
        "behaviours": ("repeated_query",),
        "policy": "weak",
    }
    return played(about, **{"answer": "30 days", "sources": ("doc-4",), "steps": steps, **fields, **more})


def right(about: Task, **more: object) -> Trajectory:
    """Searches the same, opens the mail, and is right: 1."""
    steps = [searched("notice bakery", "mail-1", "doc-4"), opening("mail-1"), submitted("60 days", "mail-1")]
    return played(about, **{"steps": steps, "reward": scored(1, 1), "policy": "strong", **more})


def unreadable(about: Task, **more: object) -> Trajectory:
    fields = {"answer": None, "sources": (), "steps": [], "behaviours": ("malformed",), "reward": scored(0, 0)}
    return played(about, **{"stop_reason": StopReason.MALFORMED, **fields, **more})


def played(about: Task, **more: object) -> Trajectory:
    fields = {"task_id": about.id, "family": about.family.value, "question": about.question, "split": "heldout"}
    return trajectory(**{**fields, **more})


def six() -> tuple[list[Task], list[Trajectory]]:
    """Tasks 1 to 4 improve, 5 regresses, 6 is malformed under strong; 2 is a lookup."""
    tasks = [task(1), task(2, "lookup", "Who is the baker?"), *map(task, (3, 4, 5, 6))]
    better = [each for about in tasks[:4] for each in (wrong(about), right(about))]
    worse = [right(tasks[4], policy="weak"), wrong(tasks[4], policy="strong", answer="a fortnight")]
    return tasks, [*better, *worse, wrong(tasks[5]), unreadable(tasks[5], policy="strong")]


def report(folder: Path, tasks: Sequence[Task], trajectories: Iterable[Trajectory], workspace: str | None = None) -> Path:
    """The report of these episodes, with the records of the tiny world and a hostile one.

    Args:
        folder: an empty one.
        tasks: of the data folder.
        trajectories: they get the digests of the data folder.
        workspace: another digest of the records.
    """
    data = write_data(folder / "data", (*RECORDS, HOSTILE_RECORD), tasks)
    digests = Digests(workspace=workspace or load_workspace(data).digest, tasks=load_tasks(data / HELDOUT_FILE).digest)
    lines = [to_line(each.model_copy(update={"digests": digests})) for each in trajectories]
    (folder / "episodes.jsonl").write_text("".join(lines), "utf-8")
    return write_report(folder / "episodes.jsonl", folder / "report.html", data)
