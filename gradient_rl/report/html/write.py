"""From an artifacts folder to the report: what is read for which page, and the one file that is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic_core import from_json

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, TaskFile, Workspace, load_tasks, load_workspace
from gradient_rl.errors import ArtifactError, DataError, GradientError, NothingToReadError
from gradient_rl.report.artifacts import (
    DEMO,
    EVALUATION,
    METRICS,
    Damage,
    Row,
    Rows,
    load,
    read_evaluation,
    read_metrics,
    read_rows,
    read_training,
    trajectory_files,
)
from gradient_rl.report.html.data import Material
from gradient_rl.report.html.page import document
from gradient_rl.report.html.saved import Played
from gradient_rl.report.terminal import count
from gradient_rl.runs import write_whole
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Trajectory

DEMO_REPORT = "demo.html"
TRAINING_REPORT = "train.html"
EVALUATION_REPORT = "eval.html"
REPORT = "report.html"
_NAMED = 5
"""Damaged lines that are named; the others are counted."""

type Choose = Callable[[Sequence[Row]], Sequence[Row]]


def write_demo_report(folder: Path, data: Path) -> Path:
    """Write `demo.html` from the folder's `demo.json` and `demo.jsonl`, and say where it is.

    Raises:
        NothingToReadError, DataError: what the report is made from is missing or damaged.
        ArtifactError: the file system refuses.
    """
    return _write(_of_demo(folder, data), folder / DEMO_REPORT)


def write_training_report(folder: Path, data: Path) -> Path:
    """Write `train.html` from the folder's training files, and say where it is.

    Raises:
        NothingToReadError, DataError: what the report is made from is missing or damaged.
        ArtifactError: the file system refuses.
    """
    return _write(_of_training(folder, data), folder / TRAINING_REPORT)


def write_evaluation_report(folder: Path, data: Path) -> Path:
    """Write `eval.html` from the folder's evaluation, and say where it is. Curves of a policy that played are on it too.

    Raises:
        NothingToReadError, DataError: what the report is made from is missing or damaged.
        ArtifactError: the file system refuses.
    """
    return _write(_of_evaluation(folder, data), folder / EVALUATION_REPORT)


def write_report(source: Path, out: Path, data: Path) -> Path:
    """Write the report of a folder or of one trajectory file, and say where it is.

    A folder's evaluation comes before its training run, and that before its demonstration.

    Args:
        source: an artifacts folder, or a file of trajectories.
        out: the file to write.
        data: the folder of the records and tasks.

    Raises:
        NothingToReadError: there is nothing to report on; what to run is said.
        DataError: a file is damaged, or of another tool.
        ArtifactError: the file system refuses.
    """
    return _write(_of_anything(source, data), out)


def _write(material: Material, out: Path) -> Path:
    write_whole(out, document(material))
    return out


def _of_anything(source: Path, data: Path) -> Material:
    if source.is_file():
        return _material(source.name, [source], data, _first_and_last_validation)
    if (source / EVALUATION).is_file():
        return _of_evaluation(source, data)
    if (source / METRICS).is_file():
        return _of_training(source, data)
    if (source / DEMO).is_file():
        return _of_demo(source, data)
    return _material("Trajectories", trajectory_files(source), data, _first_and_last_validation)


def _of_demo(folder: Path, data: Path) -> Material:
    material = _material("Demonstration", [folder / "demo.jsonl"], data)
    try:
        demo = from_json((folder / DEMO).read_bytes())
        sentence = str(demo["comparison"]["sentence"])
        played = [_without_conversation(Trajectory.model_validate(policy["trajectory"])) for policy in demo["policies"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{folder / DEMO} is not what gradient-demo writes; run it again") from None
    if any(trajectory not in played for _, trajectory in material.trajectories):
        raise DataError(f"{folder / DEMO} and demo.jsonl are of two runs, for one ended between them; run gradient-demo again")
    return replace(material, sentence=sentence)


def _of_training(folder: Path, data: Path) -> Material:
    steps, damaged = read_metrics(folder)
    training = read_training(folder)
    material = Material("Training", (), {}, None)
    with suppress(NothingToReadError):  # the curves need no trajectory
        material = _material("Training", [folder / "train.trajectories.jsonl"], data, _first_and_last_validation)
    unfinished = [] if training else ["The run has not ended, so this is how far it has come."]
    notices = [*unfinished, *material.notices, *_named(damaged)]
    last = max((m.step for m in steps), default=0)
    policy = training.policy if training else "The policy"
    return replace(
        material, training=training, steps=steps, notices=notices, sentence=f"{policy}: {count(last, 'step')} of training."
    )


def _of_evaluation(folder: Path, data: Path) -> Material:
    evaluation = read_evaluation(folder)
    if evaluation is None:
        raise NothingToReadError(f"{folder / EVALUATION} is not there; run gradient-eval first, or give another folder")
    names = set(evaluation.policies)
    with suppress(NothingToReadError):
        files = [file for file in trajectory_files(folder) if file.name.startswith("eval.")]
        asked = {result.id: result.question for result in evaluation.tasks}
        material = _material("Evaluation", files, data, lambda rows: [row for row in rows if row.policy in names], asked)
        return _with_curves(replace(material, evaluation=evaluation), folder, names)
    notice = "The trajectories are not beside eval.json, so no steps can be shown."
    return Material("Evaluation", (), {}, None, evaluation, notices=(notice,))


def _with_curves(material: Material, folder: Path, names: Iterable[str]) -> Material:
    """The curves of a policy that played are an addition: a damaged training beside the evaluation is said and left out."""
    try:
        training, (steps, _) = read_training(folder), read_metrics(folder)
    except (DataError, ArtifactError) as fault:
        return replace(material, notices=[*material.notices, f"The training beside it is left out: {fault}."])
    if training is None or not any(name.startswith(f"{training.policy}@") for name in names):
        return material
    return replace(material, training=training, steps=steps)


def _material(
    title: str, files: Sequence[Path], data: Path, choose: Choose = lambda rows: rows, asked: Mapping[str, str] | None = None
) -> Material:
    """The chosen trajectories of these files, with the tasks and records of the data folder that they were played on.

    Args:
        asked: the questions of the evaluation that these belong to, by task.
    """
    readings, faults = _readings(files)
    rows = choose([row for reading in readings for row in reading.rows])
    played = [(name, _without_conversation(load(row))) for name, row in zip(_names(rows), rows, strict=True)]
    workspace, task_files = _data(data)
    tasks = _known(task_files, played, asked or {})
    damaged = [damage for reading in readings for damage in reading.damaged]
    notices = [*map(str, faults), *_named(damaged), *_unknown(played, tasks, asked is not None)]
    return Material(title, played, tasks, _same(workspace, played), notices=notices)


def _readings(files: Sequence[Path]) -> tuple[list[Rows], list[GradientError]]:
    """The rows of each file, and what is wrong with those that hold none; one good file is enough.

    Raises:
        NothingToReadError, DataError: no file holds a trajectory.
    """
    readings: list[Rows] = []
    faults: list[GradientError] = []
    for file in files:
        try:
            readings.append(read_rows(file))
        except (NothingToReadError, DataError) as fault:
            faults.append(fault)
    if faults and not readings:
        raise faults[0]
    return readings, faults


def _without_conversation(trajectory: Trajectory) -> Trajectory:
    """The page shows steps; the conversation repeats them, and is most of a trajectory."""
    return trajectory.model_copy(update={"messages": (), "tools": (), "choices": ()})


def _first_and_last_validation(rows: Sequence[Row]) -> Sequence[Row]:
    """Of a training run the validation before it and the last one, or else its last step; of other files all."""
    steps = {row.step for row in rows}
    if len(steps) < 2:
        return rows
    validated = [row for row in rows if row.split == "validation"]
    if not validated:
        return [row for row in rows if row.step == max(steps)]
    ends = {min(row.step for row in validated), max(row.step for row in validated)}
    return [row for row in validated if row.step in ends]


def _names(rows: Sequence[Row]) -> list[str]:
    """The policy's name, with the step where one policy is there at several."""
    places = {(row.policy, row.step) for row in rows}
    several = {policy for policy, _ in places if sum(policy == each for each, _ in places) > 1}
    return [f"{row.policy}, step {row.step}" if row.policy in several else row.policy for row in rows]


def _data(folder: Path) -> tuple[Workspace | None, list[TaskFile]]:
    """The records and tasks, as far as they are there."""
    workspace: Workspace | None = None
    files: list[TaskFile] = []
    with suppress(NothingToReadError):
        workspace = load_workspace(folder)
    for name in (TRAIN_FILE, HELDOUT_FILE):
        with suppress(NothingToReadError):
            files.append(load_tasks(folder / name))
    return workspace, files


def _same(workspace: Workspace | None, played: Iterable[Played]) -> Workspace | None:
    """The workspace, if every episode was played on it."""
    digests = {trajectory.digests.workspace for _, trajectory in played}
    return workspace if workspace and digests <= {workspace.digest} else None


def _known(files: Iterable[TaskFile], played: Iterable[Played], asked: Mapping[str, str]) -> dict[str, Task]:
    """The tasks of these files, by id, that every episode under their id was played on: the same file, the same question."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for _, trajectory in played:
        found[trajectory.task_id].add((trajectory.digests.tasks, trajectory.question))
    every = [(file.digest, task) for file in files for task in file.tasks]
    return {
        task.id: task
        for digest, task in every
        if found[task.id] == {(digest, task.question)} and asked.get(task.id, task.question) == task.question
    }


def _unknown(played: Sequence[Played], tasks: Mapping[str, Task], is_evaluated: bool) -> list[str]:
    unknown = {trajectory.task_id for _, trajectory in played} - set(tasks)
    if not unknown:
        return []
    missing = (
        "their required evidence is not here; a right answer that is shown is that of eval.json"
        if is_evaluated
        else "their required evidence and right answers are not here"
    )
    return [
        f"The data folder holds other tasks than {len(unknown)} of these were played on, so {missing}. "
        "Make the report with --data and the folder they came from."
    ]


def _named(damaged: Sequence[Damage]) -> list[str]:
    if not damaged:
        return []
    shown = "; ".join(f"{each.file.name} line {each.line} {each.problem}" for each in damaged[:_NAMED])
    more = f"; and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    return [f"Lines that could not be read and are left out: {len(damaged)}. {shown}{more}."]
