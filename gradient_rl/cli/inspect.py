"""`gradient-inspect`: read what an artifacts folder holds, and see how the behaviour changed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.audit_command import audit
from gradient_rl.cli.report_command import report
from gradient_rl.cli.terminal import (
    ARTIFACTS,
    PIPED_WIDTH,
    DataOption,
    DebugOption,
    JsonOption,
    PathOption,
    data_dir,
    put,
    put_json,
    reported_errors,
    run_app,
    same_folders,
    stdout_console,
    warn,
    warn_of,
)
from gradient_rl.errors import DataError, NothingToReadError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradient_rl.report.artifacts import Row, Rows
    from gradient_rl.report.divergence import TaskDifference
    from gradient_rl.report.inspect import Filters
    from gradient_rl.report.laws import Verdict
    from gradient_rl.schema.task import Task
    from gradient_rl.schema.trajectory import Trajectory

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

PolicyFilter = Annotated[
    list[str] | None, typer.Option("--policy", metavar="NAME", help="NAME, NAME@CHECKPOINT or NAME@latest; may be repeated.")
]
TaskFilter = Annotated[list[str] | None, typer.Option("--task", metavar="ID", help="Only these tasks; may be repeated.")]
FamilyFilter = Annotated[list[str] | None, typer.Option("--family", metavar="NAME", help="Task family; may be repeated.")]
FailedFilter = Annotated[bool, typer.Option("--failed", help="Only those that miss a required fact or have no reward.")]
MalformedFilter = Annotated[bool, typer.Option("--malformed", help="Only those that ended with a malformed reply.")]
BehaviourFilter = Annotated[
    list[str] | None, typer.Option("--behaviour", metavar="NAME", help="Only those that show it; may be repeated.")
]
StopFilter = Annotated[list[str] | None, typer.Option("--stop", metavar="REASON", help="How it ended; may be repeated.")]
BelowFilter = Annotated[float | None, typer.Option("--below", metavar="X", help="Only those with a reward below X.")]


app.command()(report)
app.command()(audit)


@app.callback()
def inspect() -> None:
    """Read trajectories: list them, show one whole, compare two policies, plot a training, write a report, export, validate."""


@app.command("list")
def list_(
    policy: PolicyFilter = None,
    task: TaskFilter = None,
    family: FamilyFilter = None,
    failed: FailedFilter = False,
    malformed: MalformedFilter = False,
    behaviour: BehaviourFilter = None,
    stop: StopFilter = None,
    below: BelowFilter = None,
    artifacts: PathOption = ARTIFACTS,
    data: DataOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the trajectories, a line each. Filters compose: every one that is given has to fit."""
    with reported_errors(debug):
        from gradient_rl.report.inspect import SCHEMA_VERSION, damage_objects, ordered, row_object

        filters = _filters(policy, task, family, failed, malformed, behaviour, stop, below)
        rows = _read(artifacts)
        chosen = ordered(filters.select(rows.rows))
        if as_json:
            _object(
                schema_version=SCHEMA_VERSION,
                files=[str(file) for file in rows.files],
                total=len(rows.rows),
                trajectories=[row_object(row) for row in chosen],
                damaged=damage_objects(rows.damaged),
            )
            return
        _list(rows, chosen, same_folders(artifacts, data))
        _note_other_workspaces(chosen, data_dir(data))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="As list gives it, or a part of it that no other has.")],
    artifacts: PathOption = ARTIFACTS,
    data: DataOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show one trajectory whole: the question, each step, what was required, and the reward with what was lost and why."""
    with reported_errors(debug):
        from gradient_rl.report.artifacts import find_row, load
        from gradient_rl.report.inspect import SCHEMA_VERSION
        from gradient_rl.report.library import read_library
        from gradient_rl.report.show import as_object, shown

        row = find_row(_read(artifacts), name)
        trajectory = load(row)
        background = read_library(data_dir(data)).background(trajectory)
        if as_json:
            _object(schema_version=SCHEMA_VERSION, **as_object(row.id, str(row.file), row.line, trajectory, background))
            return
        _print(shown(row.id, f"{row.file} line {row.line}", trajectory, background))
        same = same_folders(artifacts, data)
        others = f"gradient-inspect list --task {row.task_id}{same}"
        put(f"\nNext: {others} shows who else worked on it, diff A B two of them aligned.")


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A policy (NAME or NAME@CHECKPOINT), or a trajectory's id.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What it is compared with: the change is B minus A.")],
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="With two policies: align them on this task.")
    ] = None,
    artifacts: PathOption = ARTIFACTS,
    data: DataOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare two policies task by task, or on one task step by step with the first divergence marked."""
    with reported_errors(debug):
        from gradient_rl.report.divergence import differences, named_pair, preferred

        rows = _read(artifacts)
        a, b = named_pair(rows, first, second)
        if not isinstance(a, str) and not isinstance(b, str):
            if task is not None and task != a.task_id:
                raise UsageError(f"--task {task}: both trajectories are of task '{a.task_id}'; leave --task out")
            _align(a, b, artifacts, data, as_json)
            return
        compared, left_out = preferred(rows, str(a), str(b), task)
        if left_out:
            warn(left_out)
        found = differences(compared, str(a), str(b))
        if task is None:
            _differences(found, str(a), str(b), as_json, same_folders(artifacts, data))
            return
        chosen = next((each for each in found if each.task_id == task), None)
        if chosen is None:
            known = ", ".join(sorted(each.task_id for each in found))
            raise UsageError(f"--task {task} was not played by both; they have in common {known}")
        _align(chosen.first, chosen.second, artifacts, data, as_json, chosen)


@app.command()
def curves(artifacts: PathOption = ARTIFACTS, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Plot a training run: its rewards, their parts, malformed replies, and what the learner measured."""
    with reported_errors(debug):
        from gradient_rl.report.artifacts import METRICS, read_metrics
        from gradient_rl.report.curves import curves_text, series_object, series_of
        from gradient_rl.report.inspect import SCHEMA_VERSION, damage_objects

        metrics, damaged = read_metrics(artifacts)
        warn_of(damaged)
        if not metrics and damaged:
            raise DataError(f"{artifacts} holds no training step that can be read; expected is {METRICS} of gradient-train")
        if not metrics:
            raise NothingToReadError(f"{artifacts} holds no {METRICS}; run gradient-train first, or give another --artifacts")
        if as_json:
            found = [series_object(each) for each in series_of(metrics)]
            _object(schema_version=SCHEMA_VERSION, series=found, damaged=damage_objects(damaged))
            return
        for line in curves_text(metrics, unicode=_shows("▁█●○┤└─")):
            put(line)
        label = f"{metrics[0].run_id}, steps {metrics[0].step} to {metrics[-1].step}"
        compare = f"gradient-inspect diff A@0 A@latest{same_folders(artifacts)}"
        put(f"\nRun {label}. Next: {compare} shows how the behaviour of policy A changed.")


@app.command()
def export(
    form: Annotated[str, typer.Option("--format", metavar="openai|hf", help="For fine-tuning APIs, or flat for datasets.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write; stdout if left out.")] = None,
    policy: PolicyFilter = None,
    task: TaskFilter = None,
    family: FamilyFilter = None,
    failed: FailedFilter = False,
    malformed: MalformedFilter = False,
    behaviour: BehaviourFilter = None,
    stop: StopFilter = None,
    below: BelowFilter = None,
    artifacts: PathOption = ARTIFACTS,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write trajectories as chat messages with tools, one JSON object a line.

    Episodes without a reward or without a reply are left out, and counted on stderr.
    """
    with reported_errors(debug):
        from gradient_rl.report.export import Format, examples
        from gradient_rl.report.inspect import SCHEMA_VERSION
        from gradient_rl.report.terminal import count

        if form not in list(Format):
            raise UsageError(f"--format {form} is not known; there are {', '.join(Format)}")
        filters = _filters(policy, task, family, failed, malformed, behaviour, stop, below)
        rows = _read(artifacts)
        _refuse_source(out, rows)
        chosen = filters.select(rows.rows)
        left_out: list[str] = []
        made = _refusing_none(examples(_loaded(chosen), Format(form), left_out), artifacts, chosen)
        if as_json and out is None:
            _object(schema_version=SCHEMA_VERSION, format=form, examples=list(made), left_out=left_out)
            return
        written = _write_lines(made, out)
        if left_out:
            of = count(len(chosen), "trajectory", "trajectories")
            warn(f"left out, because they have no reward or no reply: {len(left_out)} of {of}")
        if as_json:
            _object(schema_version=SCHEMA_VERSION, format=form, out=str(out), written=written, left_out=left_out)
        elif out is not None:
            put(f"Wrote {count(written, 'example')} to {out}.")


@app.command()
def validate(
    path: Annotated[
        Path, typer.Argument(metavar="[FILE|DIR]", help="Trajectory file or artifacts folder.", show_default="artifacts")
    ] = ARTIFACTS,
    data: DataOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check every line: its schema, the laws that every trajectory obeys, and its reward, computed again from its task.

    Exit code 0: no findings; 65: there are some.
    """
    with reported_errors(debug):
        from gradient_rl.report.inspect import SCHEMA_VERSION, damage_objects
        from gradient_rl.report.laws import validate_artifacts
        from gradient_rl.report.library import read_library
        from gradient_rl.report.terminal import count

        directory = data_dir(data)
        verdict = validate_artifacts(path, read_library(directory))
        if as_json:
            _object(
                schema_version=SCHEMA_VERSION,
                files=[str(file) for file in verdict.files],
                trajectories=verdict.trajectories,
                recomputed=verdict.recomputed,
                findings=damage_objects(verdict.findings),
            )
        else:
            _findings(verdict, directory)
        if verdict.findings:
            raise DataError(f"{path} has {count(len(verdict.findings), 'finding')}")


def _filters(
    policy: list[str] | None,
    task: list[str] | None,
    family: list[str] | None,
    failed: bool,
    malformed: bool,
    behaviour: list[str] | None,
    stop: list[str] | None,
    below: float | None,
) -> Filters:
    from gradient_rl.report.inspect import Filters

    lists = (tuple(each or ()) for each in (policy, task, family, behaviour, stop))
    policies, tasks, families, behaviours, stops = lists
    return Filters(policies, tasks, families, behaviours, stops, failed, malformed, below)


def _read(path: Path) -> Rows:
    """The rows of a folder or file; damaged lines are named on stderr."""
    from gradient_rl.report.artifacts import read_rows

    rows = read_rows(path)
    warn_of(rows.damaged)
    return rows


def _loaded(rows: Iterable[Row]) -> Iterator[tuple[Row, Trajectory]]:
    """The whole of each row; one that is damaged where the row did not look is named and left out."""
    from gradient_rl.report.artifacts import load

    for row in rows:
        try:
            yield row, load(row)
        except DataError as fault:
            warn(str(fault))


def _refuse_source(out: Path | None, rows: Rows) -> None:
    for file in rows.files:
        if out is not None and out.exists() and out.samefile(file):
            raise UsageError(f"--out {out} is {file}, which the trajectories are read from; give another name")


def _refusing_none(made: Iterable[dict[str, object]], source: Path, chosen: Sequence[Row]) -> Iterator[dict[str, object]]:
    """The examples.

    Raises:
        NothingToReadError: there is none; nothing has been written then.
    """
    empty = True
    for each in made:
        empty = False
        yield each
    if empty:
        why = "none of those chosen has a reward and a reply" if chosen else "no trajectory fits the filters"
        raise NothingToReadError(f"{source} makes no example: {why}; leave a filter out")


def _list(rows: Rows, chosen: tuple[Row, ...], same: str) -> None:
    from gradient_rl.report.inspect import summary, table

    if chosen:
        width = _width()
        lines, cut = table(chosen, width, "…" if _shows("…") else "...")
        put("\n".join(lines))
        cut_note = " Questions are shortened here; show has the whole." if cut else ""
    else:
        cut_note = " No trajectory fits; leave a filter out."
    following = f"\nNext: gradient-inspect show ID{same}" if chosen else ""
    put(f"\n{summary(chosen, rows.rows)}.{cut_note}{following}")


def _note_other_workspaces(chosen: Iterable[Row], folder: Path) -> None:
    from gradient_rl.report.library import read_library
    from gradient_rl.report.terminal import count

    here = read_library(folder).workspace
    rows = list(chosen)
    other = sum(row.workspace != here for row in rows)
    if other:
        of = count(len(rows), "trajectory", "trajectories")
        warn(f"played on another version of the workspace than {folder} holds: {other} of {of}")


def _differences(found: tuple[TaskDifference, ...], first: str, second: str, as_json: bool, same: str) -> None:
    from gradient_rl.report.divergence import counted, difference_object, task_table
    from gradient_rl.report.inspect import SCHEMA_VERSION

    if as_json:
        _object(schema_version=SCHEMA_VERSION, a=first, b=second, tasks=[difference_object(each) for each in found])
        return
    _print([task_table(found, first, second)])
    put(f"\n{counted(found)}.\nNext: gradient-inspect diff {first} {second} --task {found[0].task_id}{same}")


def _align(a: Row, b: Row, artifacts: Path, data: Path | None, as_json: bool, of: TaskDifference | None = None) -> None:
    from gradient_rl.report.artifacts import load
    from gradient_rl.report.divergence import (
        align,
        aligned_objects,
        difference_object,
        first_divergence,
        of_samples,
        side_by_side,
    )
    from gradient_rl.report.inspect import SCHEMA_VERSION, row_object
    from gradient_rl.report.library import read_library

    pair = load(a), load(b)
    library = read_library(data_dir(data))
    notes = list(dict.fromkeys(note for each in pair for note in library.background(each).notes))
    task: Task | None = library.background(pair[0]).task
    if as_json:
        aligned = align(pair[0].steps, pair[1].steps)
        steps, at = aligned_objects(aligned), first_divergence(aligned)
        mean = {"mean": difference_object(of)} if of else {}
        sides = {"a": row_object(a), "b": row_object(b)}
        _object(schema_version=SCHEMA_VERSION, **sides, **mean, notes=notes, steps=steps, first_divergence=at)
        return
    for note in notes:
        warn(note)
    console = stdout_console()
    _print(side_by_side((a.id, b.id), pair, task, console.width))
    samples = of_samples(of) if of else ""
    following = f"\nNext: gradient-inspect show {b.id}{same_folders(artifacts, data)}"
    put(f"\n{samples}{following}" if samples else following)


def _findings(verdict: Verdict, folder: Path) -> None:
    from gradient_rl.report.terminal import count

    for finding in verdict.findings:
        put(str(finding))
    other = verdict.trajectories - verdict.recomputed - verdict.unscored - verdict.unknown
    left = (
        (verdict.unknown, f"not, because {folder} does not hold the tasks that were played"),
        (verdict.unscored, "without one"),
        (other, "not, because their task, parts or weights are others"),
    )
    trajectories = count(verdict.trajectories, "trajectory", "trajectories")
    said = (
        f"{count(len(verdict.files), 'file')}, {trajectories}; {count(len(verdict.findings), 'finding')}",
        ", ".join([f"{count(verdict.recomputed, 'reward')} computed again", *(f"{n} {why}" for n, why in left if n)]),
    )
    put("; ".join(said))


def _write_lines(made: Iterable[dict[str, object]], out: Path | None) -> int:
    """Write one object a line, to a file at one stroke or to stdout as they come, and count them."""
    from gradient_rl.report.terminal import safe_json

    if out is None:
        count = sum(1 for line in _lines(made) if sys.stdout.write(safe_json(line.decode())))
        sys.stdout.flush()
        return count
    from gradient_rl.runs import write_whole

    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for line in _lines(made):
            count += 1
            yield line

    write_whole(out, counted())
    return count


def _lines(made: Iterable[dict[str, object]]) -> Iterator[bytes]:
    from gradient_rl.runs import json_line

    return (json_line(each) for each in made)


def _object(**fields: object) -> None:
    from gradient_rl.runs import json_line

    put_json(json_line(fields).decode())


def _print(parts: Iterable[RenderableType]) -> None:
    console = stdout_console()
    for part in parts:
        console.print(part)


def _width() -> int:
    return stdout_console().width if sys.stdout.isatty() else PIPED_WIDTH


def _shows(text: str) -> bool:
    """Whether stdout's encoding has these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def main() -> None:
    """Entry point of the console script."""
    run_app(app)
