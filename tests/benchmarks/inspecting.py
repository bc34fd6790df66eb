"""`gradient-inspect` on as many trajectories as a long training leaves: seconds and memory, beside what parsing alone takes."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic_core import from_json

from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.rollout.runner import Job, run_episode, setting_for
from gradient_rl.runs import json_line
from tests.benchmarks.measuring import Cost, line, whole

COMMAND = [sys.executable, "-c", "from gradient_rl.cli.inspect import main; main()"]
TRAJECTORIES = 10_000
BYTES = 32_000
"""Of one trajectory, at least."""


def inspecting(*, in_full: bool) -> Iterator[str]:
    """The list and one of its trajectories; in full, the filters, the export and the validation of all as well."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = _many(folder / "artifacts")
        size = file.stat().st_size / 1e6
        yield line(f"{TRAJECTORIES} trajectories, {size:.0f} MB, parsed alone", f"{_parsed(file):8.3f} s")
        for arguments in _COMMANDS if in_full else _COMMANDS[:2]:
            yield _told(arguments, min(whole([*COMMAND, *arguments], folder) for _ in range(3 if len(arguments) < 3 else 1)))


_COMMANDS = (
    ["list"],
    ["show", "/train-01/77"],
    ["list", "--failed", "--json"],
    ["diff", "heuristic", "heuristic"],
    ["export", "--format", "hf", "--out", "chats.jsonl"],
    ["validate"],
)


def _told(arguments: list[str], cost: Cost) -> str:
    return line(f"gradient-inspect {' '.join(arguments)}"[:43], f"{cost.seconds:8.3f} s{cost.peak_mb:8.0f} MB at its peak")


def _many(folder: Path) -> Path:
    """One real episode over and over, as so many samples of its task, filled up to the size of a language model's."""
    folder.mkdir()
    data = default_data_dir()
    tasks = load_tasks(data / TRAIN_FILE)
    job = Job(HeuristicPolicy(), tasks.tasks[0], seed=0)
    setting = setting_for(load_workspace(data), tasks_digest=tasks.digest)
    record = asyncio.run(run_episode(job, setting)).model_dump(mode="json")
    replies = sum(message["role"] == "assistant" for message in record["messages"])
    record["choices"] = [{"filling": "x" * max(0, BYTES - len(json.dumps(record)))}, *[{}] * (replies - 1)]
    file = folder / "eval.heuristic.jsonl"
    with file.open("wb") as out:
        for sample in range(TRAJECTORIES):
            out.write(json_line(record | {"sample": sample}))
    return file


def _parsed(file: Path) -> float:
    started = time.perf_counter()
    with file.open("rb") as lines:
        for text in lines:
            from_json(text)
    return time.perf_counter() - started
