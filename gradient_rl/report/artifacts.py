"""What an artifacts folder holds: the trajectories of every file under short ids, the evaluation, the training metrics.

Two ways to read trajectories: `read_trajectories` gives all of them as records, `read_rows` what a table and its filters
need, in the time and memory that tens of thousands allow; `load` then gives the record of one row.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from gradient_rl.errors import ArtifactError, DataError, NothingToReadError, UsageError
from gradient_rl.evaluation.records import KEY
from gradient_rl.evaluation.records import read_trajectories as read_records
from gradient_rl.policies.catalog import player_name
from gradient_rl.runs import read_journal
from gradient_rl.schema.evaluation import Evaluation
from gradient_rl.schema.jsonl import fault_in, read_json
from gradient_rl.schema.training import StepMetrics, Training
from gradient_rl.schema.trajectory import SCHEMA_VERSION, Digests, Reward, StopReason, Trajectory

EVALUATION = "eval.json"
DEMO = "demo.json"
TRAINING = "train.json"
METRICS = "train.metrics.jsonl"
EXPECTED = (
    "expected is what gradient-demo, gradient-eval and gradient-train write: a trajectory a line, "
    "a JSON object with schema_version, task_id, policy, messages, steps and stop_reason"
)
ANOTHER_FOLDER = "give another folder with --artifacts"
"""What to do where nothing is to be read, by those commands that have the option."""
_SHOWN_IDS = 6
_NO_NUMBERS = (b"NaN", b"Infinity")
"""What the fast reader takes for numbers."""
_TORN = "ends without a newline, so it may be cut: a run that still writes it, or one that was killed"


@dataclass(frozen=True)
class Damage:
    """A line that is no trajectory, and why."""

    file: Path
    line: int
    problem: str

    def __str__(self) -> str:
        """The damage as one line."""
        return f"{self.file} line {self.line} {self.problem}"


@dataclass(frozen=True)
class Placed:
    """A trajectory and where it stands."""

    trajectory: Trajectory
    file: Path
    line: int
    id: str
    """Short, and the only one of its kind in the reading: `eval.heuristic/heldout-03/0`."""

    @property
    def policy(self) -> str:
        """`NAME` or `NAME@CHECKPOINT`."""
        return player_name(self.trajectory.policy, self.trajectory.checkpoint)


@dataclass(frozen=True)
class Reading:
    """The trajectories of a folder or file, in the order of its files and lines."""

    trajectories: tuple[Placed, ...]
    damaged: tuple[Damage, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """What a table and its filters need of a trajectory, and where the whole of it stands."""

    id: str
    file: Path
    line: int
    offset: int
    """Of the line in its file, in bytes."""
    policy: str
    """`NAME` or `NAME@CHECKPOINT`."""
    split: str
    step: int
    task_id: str
    family: str
    sample: int
    attempt: int
    stop_reason: str
    reward: float | None
    """None for an infrastructure failure."""
    parts: tuple[tuple[str, float], ...]
    calls: int
    behaviours: tuple[str, ...]
    question: str
    workspace: str
    """Digest of the records that it was played on."""


@dataclass(frozen=True)
class Rows:
    """The rows of a folder or file, in the order of its files and lines."""

    rows: tuple[Row, ...]
    damaged: tuple[Damage, ...]
    files: tuple[Path, ...]


def trajectory_files(path: Path, otherwise: str = ANOTHER_FOLDER) -> tuple[Path, ...]:
    """The trajectory files of an artifacts folder by name, or the file itself. Chats of `export` are none.

    Args:
        path: the folder or the file.
        otherwise: what else to do where there is nothing to read.

    Raises:
        NothingToReadError: the path is not there, or the folder holds no such file; what to run is said.
        ArtifactError: the file system refuses.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise NothingToReadError(f"{path} is not there; run gradient-demo first, or {otherwise}")
    named = sorted(file for file in path.glob("*.jsonl") if file.name != METRICS and file.is_file())
    found = tuple(file for file in named if not _holds_chats(file))
    if not found:
        raise NothingToReadError(
            f"{path} holds no trajectories yet; run gradient-demo, gradient-eval or gradient-train first, or {otherwise}"
        )
    return found


def read_trajectories(path: Path) -> Reading:
    """Read all trajectories of an artifacts folder or of one file; damaged lines are collected.

    Raises:
        NothingToReadError: there is no trajectory file.
        DataError: no line of any file is a trajectory; what was expected is said.
        ArtifactError: the file system refuses.
    """
    files, ids = trajectory_files(path), Ids()
    placed: list[Placed] = []
    damaged: list[Damage] = []
    for file in files:
        faults: list[DataError] = []
        found = [
            Placed(t, file, line, ids.give(file, t.policy, t.checkpoint, t.step, t.task_id, t.sample, t.attempt))
            for line, t in read_records(file, faults.append)
        ]
        damages = [damage_of(file, fault) for fault in faults] + torn_end(file)
        placed += found
        damaged += damages if found else foreign(file, damages)
    refuse_nothing(path, placed, damaged)
    return Reading(tuple(placed), tuple(damaged), files)


def read_rows(path: Path) -> Rows:
    """Read the rows of an artifacts folder or of one file; damaged lines are collected.

    Raises:
        NothingToReadError: there is no trajectory file.
        DataError: no line of any file is a trajectory; what was expected is said.
        ArtifactError: the file system refuses.
    """
    files, ids = trajectory_files(path), Ids()
    rows: list[Row] = []
    damaged: list[Damage] = []
    for file in files:
        damages: list[Damage] = []
        found = list(_rows_of(file, ids, damages))
        rows += found
        damaged += damages if found else foreign(file, damages)
    refuse_nothing(path, rows, damaged)
    return Rows(tuple(rows), tuple(damaged), files)


def damaged_lines(path: Path) -> tuple[Damage, ...]:
    """The lines of an artifacts folder or of one file that cannot be read, those of a training's metrics and summary included.

    Raises:
        ArtifactError: the file system refuses.
    """
    damaged: list[Damage] = []
    with suppress(NothingToReadError):  # a training's metrics may be all there is
        for file in trajectory_files(path):
            damages: list[Damage] = []
            found = sum(1 for _ in _rows_of(file, Ids(), damages))
            damaged += damages if found else foreign(file, damages)
    return (*damaged, *(_damaged_training(path) if path.is_dir() else ()))


def _damaged_training(folder: Path) -> Iterator[Damage]:
    yield from read_metrics(folder)[1]
    try:
        read_training(folder)
    except DataError as fault:
        yield damage_of(folder / TRAINING, fault)


def load(row: Row) -> Trajectory:
    """Read the whole trajectory of a row.

    Raises:
        DataError: it is damaged where the row did not look.
        ArtifactError: the file system refuses.
    """
    try:
        with row.file.open("rb") as file:
            file.seek(row.offset)
            return _parsed(file.readline(), Trajectory)
    except OSError as error:
        raise ArtifactError(f"{row.file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{row.file} line {row.line} {_not_a_trajectory(error)}") from None


def find(reading: Reading, text: str) -> Placed:
    """Find a trajectory by its id, or by a start, an end or a piece of it that no other id has.

    Raises:
        UsageError: none fits, or several do; what exists is listed.
    """
    by_id = {placed.id: placed for placed in reading.trajectories}
    return by_id[find_id(by_id, text)]


def find_row(rows: Rows, text: str) -> Row:
    """Find a row as `find` finds a trajectory.

    Raises:
        UsageError: none fits, or several do; what exists is listed.
    """
    by_id = {row.id: row for row in rows.rows}
    return by_id[find_id(by_id, text)]


def find_id(ids: Iterable[str], text: str) -> str:
    """The one id that is the text, or else starts or ends with it, or else contains it.

    Raises:
        UsageError: none fits, or several do; what exists is listed.
    """
    known = list(ids)
    if text in known:
        return text
    ends = [each for each in known if each.startswith(text) or each.endswith(text)]
    fitting = ends or [each for each in known if text in each]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"'{text}' fits {len(fitting)} trajectories ({_some(fitting)}); write more of the id")
    near = difflib.get_close_matches(text, known, n=3, cutoff=0.5) or known
    raise UsageError(f"there is no trajectory '{text}'; there are {_some(near)}, and gradient-inspect list shows all")


class Ids:
    """Gives each trajectory a short id that no other one of the reading has."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def give(self, file: Path, policy: str, checkpoint: str | None, step: int, task_id: str, sample: int, attempt: int) -> str:
        """An id of the file's name, what the name does not say, task and sample: `train/step-4/train-03/2`.

        A trajectory that differs from an earlier one in the run alone gets `~2` and so on, in the order of the reading.
        """
        stem = file.name.removesuffix(".jsonl")
        if stem.startswith("train"):
            parts = [stem.removesuffix(".trajectories"), f"step-{step}"]
        else:
            player = player_name(policy, checkpoint)
            parts = [stem] if stem.endswith(f".{_slug(player)}") else [stem, player]
        name = "/".join([*parts, task_id, f"{sample}.{attempt}" if attempt else f"{sample}"])
        count = self._given[name] = self._given.get(name, 0) + 1
        return name if count == 1 else f"{name}~{count}"


def read_evaluation(folder: Path) -> Evaluation | None:
    """The evaluation in a folder; None where there is none.

    Raises:
        DataError: `eval.json` is damaged, or of another tool or version.
        ArtifactError: the file system refuses.
    """
    return _read_whole(folder / EVALUATION, Evaluation, "gradient-eval")


def read_training(folder: Path) -> Training | None:
    """The summary of the complete training run in a folder; None where there is none.

    Raises:
        DataError: `train.json` is damaged, or of another tool or version.
        ArtifactError: the file system refuses.
    """
    return _read_whole(folder / TRAINING, Training, "gradient-train")


def read_metrics(folder: Path) -> tuple[tuple[StepMetrics, ...], tuple[Damage, ...]]:
    """The training metrics in a folder, by step, and the lines that are none; both empty where there is no training.

    Raises:
        ArtifactError: the file system refuses.
    """
    file = folder / METRICS if folder.is_dir() else folder
    if not file.is_file():
        return (), ()
    steps: list[StepMetrics] = []
    faults: list[DataError] = []
    damaged: list[Damage] = []
    for number, record in read_journal(file, faults.append):
        try:
            steps.append(StepMetrics.model_validate(record))
        except ValidationError as error:
            damaged.append(Damage(file, number, f"is no training step: {fault_in(error)}"))
    return tuple(sorted(steps, key=lambda m: m.at)), (*damaged, *(damage_of(file, f) for f in faults))


def demo_task(folder: Path) -> str | None:
    """Id of the task that the demonstration in a folder showed; None where there is none.

    Raises:
        DataError: `demo.json` is damaged.
    """
    try:
        record = from_json((folder / DEMO).read_bytes())
        return str(record["task"]["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{folder / DEMO} is not what gradient-demo writes; run it again") from None


class _Head(BaseModel):
    """The fields of a trajectory that a row is made of. The long ones are passed over and never become objects."""

    model_config = ConfigDict(allow_inf_nan=False)

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str = ""
    step: int = 0
    split: str
    task_id: str
    family: str
    sample: int = 0
    attempt: int = 0
    policy: str
    checkpoint: str | None = None
    digests: Digests
    question: str
    steps: list[object]
    stop_reason: StopReason
    reward: Reward | None = None
    behaviours: tuple[str, ...] = ()


def _rows_of(file: Path, ids: Ids, damaged: list[Damage]) -> Iterator[Row]:
    seen: dict[tuple[object, ...], int] = {}
    for number, offset, line in _lines(file):
        if not line.endswith(b"\n"):
            damaged.append(Damage(file, number, _TORN))
            continue
        try:
            head = _parsed(line, _Head)
        except ValueError as error:
            damaged.append(Damage(file, number, _not_a_trajectory(error)))
            continue
        first = seen.setdefault(tuple(cast("object", getattr(head, name)) for name in KEY), number)
        if first == number:
            yield _row(head, file, number, offset, ids)
        else:
            damaged.append(Damage(file, number, f"repeats the episode of line {first}"))


def _lines(file: Path) -> Iterator[tuple[int, int, bytes]]:
    """(line number, offset, line) of each line that is not blank."""
    try:
        with file.open("rb") as opened:
            offset = 0
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield number, offset, line
                offset += len(line)
    except OSError as error:
        raise ArtifactError(f"{file} cannot be read: {error.strerror or error}; check that path") from error


def _parsed[Model: BaseModel](line: bytes, model: type[Model]) -> Model:
    """Read a line. Where the fast reader does not read what `read_json` does, or might read more, that has the word.

    Raises:
        ValueError: it is no JSON, or does not fit.
    """
    if not any(word in line for word in _NO_NUMBERS):
        try:
            return model.model_validate_json(line)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                raise
    return model.model_validate(read_json(line))


def _row(head: _Head, file: Path, line: int, offset: int, ids: Ids) -> Row:
    return Row(
        id=ids.give(file, head.policy, head.checkpoint, head.step, head.task_id, head.sample, head.attempt),
        file=file,
        line=line,
        offset=offset,
        policy=player_name(head.policy, head.checkpoint),
        split=head.split,
        step=head.step,
        task_id=head.task_id,
        family=head.family,
        sample=head.sample,
        attempt=head.attempt,
        stop_reason=head.stop_reason.value,
        reward=head.reward.total if head.reward else None,
        parts=tuple((part.name, part.value) for part in head.reward.parts) if head.reward else (),
        calls=len(head.steps),
        behaviours=head.behaviours,
        question=head.question,
        workspace=head.digests.workspace,
    )


def _read_whole[Model: BaseModel](path: Path, model: type[Model], writer: str) -> Model | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}; check that path") from error
    except ValidationError as error:
        raise DataError(f"{path} is not what {writer} writes: {fault_in(error)}; run {writer} again") from None


def torn_end(file: Path) -> list[Damage]:
    """The damage of a file that does not end with a newline; none otherwise."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2) or opened.seek(-1, 2) < 0 or opened.read(1) == b"\n":
            return []
        opened.seek(0)
        return [Damage(file, sum(1 for _ in opened), _TORN)]


def damage_of(file: Path, fault: DataError) -> Damage:
    """The place and the problem that a reader's message names."""
    problem = str(fault).removeprefix(f"{file} ")
    match = re.match(r"line (\d+) (.*)", problem, re.DOTALL)
    return Damage(file, int(match[1]), match[2]) if match else Damage(file, 1, problem)


def foreign(file: Path, damaged: Sequence[Damage]) -> list[Damage]:
    """One damage for a file in which no line is a trajectory."""
    if not damaged:
        return []
    first = damaged[0]
    return [Damage(file, first.line, f"{first.problem}; no line of the file is a trajectory: {EXPECTED}")]


def refuse_nothing(path: Path, found: object, damaged: Sequence[Damage], otherwise: str = ANOTHER_FOLDER) -> None:
    """Refuse a reading that found nothing.

    Raises:
        NothingToReadError: there is nothing at all; what to run is said.
        DataError: there is something else; what was expected is said.
    """
    if found:
        return
    if damaged:
        raise DataError(str(damaged[0]))
    raise NothingToReadError(
        f"{path} holds no trajectory yet; run gradient-demo, gradient-eval or gradient-train first, or {otherwise}"
    )


def _holds_chats(file: Path) -> bool:
    """Whether the first line is an example of `export`, which is written from trajectories and is none."""
    try:
        with file.open("rb") as opened:
            first = opened.readline()
        example = read_json(first) if first.startswith(b'{"messages":') else None
    except OSError as error:
        raise ArtifactError(f"{file} cannot be read: {error.strerror or error}; check that path") from error
    except ValueError:
        return False
    return isinstance(example, dict) and "tools" in example and "steps" not in example


def _not_a_trajectory(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"is not a trajectory: {fault_in(error)}"
    return f"is damaged: {error}"


def _slug(player: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", player)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_SHOWN_IDS]) + (", ..." if len(ids) > _SHOWN_IDS else "")
