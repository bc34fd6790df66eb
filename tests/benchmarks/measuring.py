"""What every benchmark measures with: whole commands in a process of their own, calls within this one, and lines to print."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SPAWN = Path(__file__).with_name("spawn.py")
WIDTH = 44
"""Columns of what is measured, before its figures."""


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    peak_mb: float


def line(what: str, figures: str) -> str:
    """One line to print."""
    return f"{what:<{WIDTH}}{figures}"


def whole(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in a folder, and see what it took.

    Raises:
        SystemExit: it failed.
    """
    out = subprocess.run([sys.executable, str(SPAWN), *command], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
    cost = json.loads(out)
    if cost["status"]:
        raise SystemExit(f"{' '.join(command)} failed with status {cost['status']}")
    return Cost(cost["seconds"], cost["peak_mb"])


def fastest(command: Sequence[str], runs: int = 5) -> Cost:
    """Seconds of the fastest of several runs, and the highest peak memory of any."""
    with tempfile.TemporaryDirectory() as folder:
        costs = [whole(command, Path(folder)) for _ in range(runs)]
    return Cost(min(cost.seconds for cost in costs), max(cost.peak_mb for cost in costs))


def each(run: Callable[[], object]) -> float:
    """Seconds of one call, once warm, as the mean over about a second."""
    run()
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 1.0:
        run()
        count += 1
    return (time.perf_counter() - started) / count
