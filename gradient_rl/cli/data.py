"""`gradient-data`: look at a data folder and check whether it is fit to train and measure on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.terminal import DataOption, DebugOption, JsonOption, data_dir, reported_errors, stdout_console
from gradient_rl.errors import DataError, NothingToReadError

if TYPE_CHECKING:
    from gradient_rl.evaluation.validate import ValidationReport

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

FolderArgument = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="Data folder; the packaged workspace if left out.", show_default=False)
]


@app.callback()
def data() -> None:
    """Look at a data folder and check whether it is fit to train and measure on."""


@app.command()
def validate(folder: FolderArgument = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Check records, tasks, evidence, references and splits; every finding names file, line, id and value.

    Exit code 0: no findings; 65: there are some.
    """
    with reported_errors(debug):
        from gradient_rl.evaluation.validate import validate_data

        directory = data_dir(folder)
        report = validate_data(directory)
        typer.echo(json.dumps(_as_object(report), ensure_ascii=False)) if as_json else _print(report)
        if report.findings:
            raise DataError(f"{directory} has {len(report.findings)} findings")


@app.command()
def tasks(data: DataOption = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the tasks: id, split, family, required records and question."""
    with reported_errors(debug):
        from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks

        directory = data_dir(data)
        files = [directory / name for name in (TRAIN_FILE, HELDOUT_FILE) if (directory / name).exists()]
        if not files:
            raise NothingToReadError(f"{directory} holds neither {TRAIN_FILE} nor {HELDOUT_FILE}")
        found = [task for file in files for task in load_tasks(file).tasks]
        if as_json:
            rows = [{"id": t.id, "split": t.split, "family": t.family, "question": t.question} for t in found]
            typer.echo(json.dumps({"schema_version": 1, "tasks": rows}, ensure_ascii=False))
            return
        for task in found:
            typer.echo(f"{task.id:<12}{task.split:<12}{task.family:<20}{len(task.required_sources)}  {task.question}")


def _print(report: ValidationReport) -> None:
    from rich.text import Text

    from gradient_rl.report.terminal import safe

    console = stdout_console()
    for finding in report.findings:
        console.print(Text(safe(str(finding))), soft_wrap=True)
    counts = ", ".join(f"{count} {split}" for split, count in report.tasks.items())
    console.print(f"{report.records} records; tasks: {counts}; {len(report.findings)} findings")
    for figures in report.keywords:
        console.print(
            f"{figures.split}: the question alone finds all required records in {len(figures.found)} of {figures.tasks} tasks "
            f"({figures.share:.0%}), and in {len(figures.single_found)} of {figures.single} single-source ones "
            f"({figures.single_share:.0%})",
            soft_wrap=True,
        )


def _as_object(report: ValidationReport) -> dict[str, object]:
    return {
        "schema_version": 1,
        "records": report.records,
        "tasks": dict(report.tasks),
        "findings": [
            {"file": str(f.place.file), "line": f.place.line, "id": f.id, "problem": f.problem} for f in report.findings
        ],
        "keywords": [
            {
                "split": figures.split,
                "tasks": figures.tasks,
                "found": list(figures.found),
                "share": figures.share,
                "single_source_tasks": figures.single,
                "single_source_found": list(figures.single_found),
                "single_source_share": figures.single_share,
            }
            for figures in report.keywords
        ],
    }


def main() -> None:
    """Entry point of the console script."""
    app()
