"""The HTML report: what it adds to a command, and how large it is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gradient_rl.environment.workspace import default_data_dir
from gradient_rl.report.html.write import write_demo_report, write_evaluation_report, write_training_report
from tests.benchmarks.measuring import each, line

type Write = Callable[[Path, Path], Path]
RUNS: tuple[tuple[str, tuple[str, ...], Write], ...] = (
    ("demo", (), write_demo_report),
    ("evaluate", (), write_evaluation_report),
    ("train", ("--max-steps", "6"), write_training_report),
)


def reporting() -> Iterator[str]:
    """Each command's report, from its files to the page on the disk."""
    with tempfile.TemporaryDirectory() as name:
        for command, options, write in RUNS:
            code = f"from gradient_rl.cli.{command} import main; main()"
            subprocess.run([sys.executable, "-c", code, *options], cwd=name, check=True, stdout=subprocess.DEVNULL)
            yield _told(Path(name) / "artifacts", write)


def _told(folder: Path, write: Write) -> str:
    data = default_data_dir()
    page = write(folder, data)
    return line(page.name, f"{each(lambda: write(folder, data)) * 1000:8.0f} ms{page.stat().st_size / 1e6:8.2f} MB")
