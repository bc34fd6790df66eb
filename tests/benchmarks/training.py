"""`gradient-train` with the linear policy: episodes a second, seconds by phase, memory, and the whole default run."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradient_rl.training.loop import METRICS
from tests.benchmarks.measuring import line, whole

COMMAND = [sys.executable, "-c", "from gradient_rl.cli.train import main; main()"]
STEPS = 5


def training(*, in_full: bool) -> Iterator[str]:
    """Some steps of the default configuration, the first of which pays for warming up; in full, the default run as well."""
    yield from _some_steps()
    if in_full:
        yield from _default_run()


def _some_steps() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The last step is validated whatever the interval, and so is the state before training; neither is counted.
        (folder / "bench.toml").write_text(f"max_steps = {STEPS}\nvalidate_every = 1000000\n")
        cost = whole([*COMMAND, "--config", "bench.toml"], folder)
        steps = _steps(folder)
    seconds = _by_phase(steps)
    episodes = sum(step["train"]["episodes"] for step in steps if step["train"])
    learning = seconds["rollout"] + seconds["update"]
    yield line(f"training: {episodes} episodes in {STEPS} steps", f"{episodes / learning:8.0f} a second, update among it")
    for phase in ("rollout", "update"):
        what = "rollout, scoring, journal" if phase == "rollout" else "update, checkpoint"
        yield line(f"  {what}", f"{seconds[phase] / STEPS:8.3f} s a step{100 * seconds[phase] / learning:6.0f} %")
    yield line("  the command as a whole", f"{cost.seconds:8.3f} s{cost.peak_mb:8.0f} MB at its peak")


def _default_run() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        cost = whole(COMMAND, Path(name))
        steps = _steps(Path(name))
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in sorted(_by_phase(steps).items()))
    yield line(f"gradient-train, {len(steps) - 1} steps", f"{cost.seconds:8.1f} s{cost.peak_mb:8.0f} MB at its peak; {phases}")


def _steps(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "artifacts" / METRICS).read_text("utf-8").splitlines()]


def _by_phase(steps: list[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for step in steps:
        total.update(step["seconds"])
    return total
