"""`gradient-inspect report`: one HTML file that shows what changed, to read without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradient_rl.cli.terminal import (
    ARTIFACTS,
    DataOption,
    DebugOption,
    JsonOption,
    PathOption,
    data_dir,
    put,
    put_json,
    reported_errors,
    warn_of,
)
from gradient_rl.errors import UsageError

REPORT_SCHEMA_VERSION = 1


def report(
    artifacts: PathOption = ARTIFACTS,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where it is written; report.html in the folder if left out.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write one HTML file that shows what changed: verdict, curves, behaviours, every task step by step.

    It needs no server and reaches no network. A folder's evaluation is shown before its training run, and that before its
    demonstration. Damaged lines are left out, and named on stderr.
    """
    with reported_errors(debug):
        from gradient_rl.report.artifacts import damaged_lines
        from gradient_rl.report.html.write import REPORT, write_report
        from gradient_rl.runs import json_line

        place = out or (artifacts.parent if artifacts.is_file() else artifacts) / REPORT
        if place.suffix not in (".html", ".htm"):
            raise UsageError(f"--out {place} is not named like a page; give a name that ends with .html")
        written = write_report(artifacts, place, data_dir(data))
        size, damaged = written.stat().st_size, damaged_lines(artifacts)
        warn_of(damaged)
        if as_json:
            content = {"schema_version": REPORT_SCHEMA_VERSION, "file": str(written), "bytes": size, "damaged": len(damaged)}
            put_json(json_line(content).decode())
        else:
            put(f"Saved {written} ({size / 1e6:.1f} MB); open it in a browser.")
