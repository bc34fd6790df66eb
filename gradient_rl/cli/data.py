"""`gradient-data`: make a data folder, look at it and check whether it is fit to train and measure on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.remote import BaseUrlOption, KeyOption
from gradient_rl.cli.terminal import (
    DataOption,
    DebugOption,
    JsonOption,
    SeedOption,
    data_dir,
    put,
    put_json,
    reported_errors,
    run_app,
    stderr_console,
    stdout_console,
)
from gradient_rl.errors import DataError, NothingToReadError, UsageError

if TYPE_CHECKING:
    from gradient_rl.evaluation.validate import ValidationReport
    from gradient_rl.schema.task import Family
    from gradient_rl.worlds.paraphrase import ParaphraseReport, Plan, Writer

    type Told = Callable[[str, int, int], None]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

FolderArgument = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="Data folder; the packaged workspace if left out.", show_default=False)
]

TradeOption = Annotated[str, typer.Option("--trade", metavar="T", help="Name of a trade, or a TOML file that describes one.")]


@app.callback()
def data() -> None:
    """Make a data folder, look at it and check whether it is fit to train and measure on."""


@app.command()
def generate(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the data folder is to stand.")],
    trade: TradeOption = "logistics",
    records: Annotated[int, typer.Option("--records", metavar="N", min=200, help="Records of the workspace.")] = 1000,
    count: Annotated[int, typer.Option("--tasks", metavar="M", min=0, help="Training tasks, validation included.")] = 200,
    heldout: Annotated[int, typer.Option("--heldout", metavar="K", min=0, help="Held-out tasks.")] = 200,
    seed: SeedOption = 0,
    distractors: Annotated[
        int, typer.Option("--distractors", metavar="N", min=0, max=10, help="Mails per customer that get a term wrong.")
    ] = 1,
    hops: Annotated[
        float, typer.Option("--hops", metavar="X", min=0, max=1, help="Share of questions that only describe the customer.")
    ] = 0.25,
    near_duplicates: Annotated[
        float, typer.Option("--near-duplicates", metavar="X", min=0, max=1, help="Share of customers with a namesake.")
    ] = 0.6,
    superseded: Annotated[
        float, typer.Option("--superseded", metavar="X", min=0, max=1, help="Share of contracts and rules changed later.")
    ] = 0.85,
    paraphrase: Annotated[
        float, typer.Option("--paraphrase", metavar="X", min=0, max=1, help="Share of questions in other words than records.")
    ] = 0.4,
    noise: Annotated[
        float, typer.Option("--noise", metavar="X", min=0, max=1, help="Share of mails with small talk and slips.")
    ] = 0.5,
    families: Annotated[
        str | None, typer.Option("--families", metavar="A,B", help="Families of the tasks; all of them if left out.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier generation in DIR.")] = False,
    writer: Annotated[
        str | None, typer.Option("--writer", metavar="chat:MODEL", help="Then let a model word the mails anew; see paraphrase.")
    ] = None,
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make a workspace of a trade, with tasks that are true by construction: the same bytes for the same seed.

    DIR is written whole or not at all. Exit code 2: DIR is taken, or so few records do not hold so many tasks;
    66: no such trade; 74: DIR cannot be written; 130: interrupted, and nothing is left behind.
    """
    with reported_errors(debug):
        from gradient_rl.worlds.difficulty import Difficulty
        from gradient_rl.worlds.folder import whole_folder
        from gradient_rl.worlds.generate import Recipe
        from gradient_rl.worlds.generate import generate as write_world
        from gradient_rl.worlds.paraphrase import Plan
        from gradient_rl.worlds.trade import load_trade

        knobs = Difficulty(
            distractors=distractors,
            hops=hops,
            near_duplicates=near_duplicates,
            superseded=superseded,
            paraphrase=paraphrase,
            noise=noise,
        )
        chosen = load_trade(trade)
        model = _writer(writer, base_url, api_key_env) if writer else None
        recipe = Recipe(
            trade=chosen.key,
            records=records,
            tasks=count,
            heldout=heldout,
            seed=seed,
            difficulty=knobs,
            families=_families(families),
        )
        with whole_folder(out, overwrite) as folder, _progress() as told:
            report = write_world(recipe, chosen, folder, told)
        reworded = _reword(out, model, Plan()) if model else None
        if as_json:
            paraphrased = reworded.model_dump(mode="json") if reworded else None
            content = {**report.model_dump(mode="json"), "folder": str(out), "paraphrased": paraphrased}
            put_json(json.dumps(content, ensure_ascii=False))
            return
        from gradient_rl.report.worlds import print_paraphrases, print_world

        if reworded:
            print_paraphrases(stdout_console(), reworded)
        print_world(stdout_console(), report, out)


@app.command()
def paraphrase(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A generated data folder.", show_default=False)],
    writer: Annotated[str, typer.Option("--writer", metavar="chat:MODEL", help="The model that words texts anew.")],
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    share: Annotated[float, typer.Option("--share", metavar="X", min=0, max=1, help="Share of the texts.")] = 1.0,
    questions: Annotated[bool, typer.Option("--questions", help="Word the questions of the tasks anew as well.")] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Requests under way at a time.")] = 8,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", metavar="N", min=0, help="Texts to ask for in this run.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let a model word the mails of a data folder anew, and keep what leaves every fact, task and reference valid.

    What the model answers is noted in DIR/paraphrases.jsonl as it comes: the same command after an interruption asks for the
    rest. Exit code 69: the endpoint failed; 77: the key is missing or refused.
    """
    with reported_errors(debug):
        from gradient_rl.report.worlds import print_paraphrases
        from gradient_rl.worlds.paraphrase import Plan

        plan = Plan(share=share, questions=questions, concurrency=concurrency, max_requests=max_requests)
        report = _reword(folder, _writer(writer, base_url, api_key_env), plan)
        put_json(report.model_dump_json()) if as_json else print_paraphrases(stdout_console(), report)


def _families(names: str | None) -> tuple[Family, ...]:
    """The families that are named, in their own order; all of them for None.

    Raises:
        UsageError: there is no such family.
    """
    from gradient_rl.schema.task import Family

    asked = [family.value for family in Family] if names is None else [name.strip() for name in names.split(",")]
    if strange := [name for name in asked if name not in set(Family)]:
        raise UsageError(f"--families: there is no family '{strange[0]}'; the families are {', '.join(Family)}")
    return tuple(family for family in Family if family.value in asked)


def _writer(spec: str, base_url: str | None, api_key_env: str | None) -> Writer:
    from gradient_rl.cli.remote import environment
    from gradient_rl.worlds.paraphrase import writer_for

    return writer_for(spec, base_url, api_key_env, environment())


def _reword(folder: Path, writer: Writer, plan: Plan) -> ParaphraseReport:
    import asyncio

    from gradient_rl.worlds.paraphrase import paraphrase as reword

    with _progress() as told:
        return asyncio.run(reword(folder, writer, plan, told))


@app.command()
def card(folder: FolderArgument = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Measure a data folder: counts, difficulty, what simple policies earn, and what the held-out tasks can detect."""
    with reported_errors(debug):
        from gradient_rl.report.worlds import print_card
        from gradient_rl.worlds.card import card_of

        with _progress() as told:
            measured = card_of(data_dir(folder), told)
        put_json(measured.model_dump_json()) if as_json else print_card(stdout_console(), measured)


@app.command()
def knobs(
    trade: TradeOption = "logistics",
    records: Annotated[int, typer.Option("--records", metavar="N", min=200, help="Records of each world.")] = 600,
    count: Annotated[int, typer.Option("--tasks", metavar="M", min=1, help="Tasks of each world.")] = 60,
    seeds: Annotated[int, typer.Option("--seeds", metavar="S", min=1, help="Worlds at each value of a knob.")] = 2,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure what each difficulty knob of `generate` moves, in small worlds with the knob at a low and at a high value."""
    with reported_errors(debug):
        from gradient_rl.report.worlds import print_knobs
        from gradient_rl.worlds.knobs import measure_knobs
        from gradient_rl.worlds.trade import load_trade

        with _progress() as told:
            report = measure_knobs(load_trade(trade), records, count, seeds, told)
        put_json(report.model_dump_json()) if as_json else print_knobs(stdout_console(), report)


@app.command()
def validate(folder: FolderArgument = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Check records, tasks, evidence, references and splits; every finding names file, line, id and value.

    Exit code 0: no findings; 65: there are some.
    """
    with reported_errors(debug):
        from gradient_rl.evaluation.validate import validate_data
        from gradient_rl.report.terminal import count

        directory = data_dir(folder)
        report = validate_data(directory)
        put_json(json.dumps(_as_object(report), ensure_ascii=False)) if as_json else _print(report)
        if report.findings:
            raise DataError(f"{directory} has {count(len(report.findings), 'finding')}")


@app.command()
def tasks(data: DataOption = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the tasks: id, split, family, required records and question."""
    with reported_errors(debug):
        from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks
        from gradient_rl.report.terminal import safe_line

        directory = data_dir(data)
        files = [directory / name for name in (TRAIN_FILE, HELDOUT_FILE) if (directory / name).exists()]
        if not files:
            raise NothingToReadError(f"{directory} holds neither {TRAIN_FILE} nor {HELDOUT_FILE}")
        found = [task for file in files for task in load_tasks(file).tasks]
        if as_json:
            rows = [{"id": t.id, "split": t.split, "family": t.family, "question": t.question} for t in found]
            put_json(json.dumps({"schema_version": 1, "tasks": rows}, ensure_ascii=False))
            return
        for task in found:
            put(f"{task.id:<12}{task.split:<12}{task.family:<20}{len(task.required_sources)}  {safe_line(task.question)}")


@contextmanager
def _progress() -> Generator[Told]:
    """A bar on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.progress import Progress

    with Progress(console=stderr_console(), transient=True) as bar:
        task = bar.add_task("")
        yield lambda what, done, of: bar.update(task, description=what, completed=done, total=of)


def _print(report: ValidationReport) -> None:
    from gradient_rl.report.terminal import count

    console = stdout_console()
    for finding in report.findings:
        put(str(finding))
    counts = ", ".join(f"{number} {split}" for split, number in report.tasks.items())
    console.print(f"{count(report.records, 'record')}; tasks: {counts}; {count(len(report.findings), 'finding')}")
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
    run_app(app)
