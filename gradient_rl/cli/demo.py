"""`gradient-demo`: a weak and a strong research policy work on the same question, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.cli.terminal import (
    ArtifactsOption,
    DataOption,
    DebugOption,
    JsonOption,
    SeedOption,
    data_dir,
    put_json,
    reported_errors,
    run_app,
    stdout_console,
)

if TYPE_CHECKING:
    from gradient_rl.evaluation.demo import Demo

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Task to work on; one that shows the difference if left out.")
    ] = None,
    artifacts: ArtifactsOption = Path("artifacts"),
    data: DataOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Watch a weak and a strong research policy work on the same question.

    Every call, what was read, the answer, its citations and each part of the reward are shown, and saved to
    demo.json, demo.jsonl and demo.html in the artifacts folder.
    """
    with reported_errors(debug):
        from gradient_rl.evaluation.demo import play_demo, save_demo
        from gradient_rl.report.html.write import write_demo_report
        from gradient_rl.runs import hold_folder

        folder = data_dir(data)
        played = play_demo(folder, task, seed)
        with hold_folder(artifacts):
            save_demo(played, artifacts)
            page = write_demo_report(artifacts, folder)
        if as_json:
            put_json(played.to_json().decode())
        else:
            _show(played, artifacts, page)


def _show(played: Demo, artifacts: Path, page: Path) -> None:
    from gradient_rl.report.terminal import print_side_by_side

    console = stdout_console()
    print_side_by_side(console, played.task, played.trajectories, played.sentence)
    console.print(f"\nSaved {artifacts / 'demo.json'} and {artifacts / 'demo.jsonl'}.")
    console.print(
        f"Next: open {page} to read it in a browser; gradient-eval compares both on the held-out tasks; "
        "gradient-demo --task ID shows another question.",
        soft_wrap=True,
    )


def main() -> None:
    """Entry point of the console script."""
    run_app(app)
