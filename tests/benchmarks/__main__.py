"""Speed and memory, measured: `make bench`. Each line is a figure beside what it is compared with; nothing is asserted.

Whole commands are run several times in a process of their own, and the fastest is printed; what runs inside this process is
repeated until it has taken a second.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from gradient_rl.environment.search import BM25Index, LuceneBM25, searchable_text, tokenise
from gradient_rl.environment.tools import EVERYTHING
from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.policies.base import Policy
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for
from gradient_rl.schema.task import Task

RUNS = 5
BIN = Path(sys.executable).parent


def main() -> None:
    workspace = load_workspace(default_data_dir())
    tasks = load_tasks(default_data_dir() / TRAIN_FILE).tasks
    setting = setting_for(workspace)
    for measure in (commands(), searching(setting, tasks), rollouts(setting, tasks)):
        for line in measure:
            print(line, flush=True)


def commands() -> Iterator[str]:
    """Whole commands: seconds and peak memory, beside an interpreter that only imports typer."""
    floor, _ = fastest([sys.executable, "-c", "import typer"])
    yield f"{'python -c import typer':<44}{floor:8.3f} s"
    for command in sorted(path.name for path in BIN.glob("gradient-*")):
        yield command_line([command, "--help"], floor)
    yield command_line(["gradient-demo"], floor)
    if (BIN / "gradient-eval").exists():
        yield command_line(["gradient-eval"], floor)


def command_line(command: list[str], floor: float) -> str:
    seconds, peak_mb = fastest([str(BIN / command[0]), *command[1:]])
    return f"{' '.join(command):<44}{seconds:8.3f} s{seconds / floor:8.1f} x{peak_mb:8.0f} MB at its peak"


def fastest(command: list[str]) -> tuple[float, float]:
    """Seconds of the fastest of several runs, and the peak memory of any in MB."""
    best, peak_mb = float("inf"), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            started = time.perf_counter()
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            best = min(best, time.perf_counter() - started)
            peak_mb = max(peak_mb, usage.ru_maxrss / 1024)
            if status:
                raise SystemExit(f"{' '.join(command)} failed with status {status}")
    return best, peak_mb


def searching(setting: Setting, tasks: tuple[Task, ...]) -> Iterator[str]:
    """One search with its snippets, beside rank-bm25 scoring the whole query anew."""
    index, questions = setting.index, cycle(task.question for task in tasks)
    records = sorted(setting.workspace.records.values(), key=lambda record: record.id)
    plain = LuceneBM25([tokenise(searchable_text(record)) for record in records])

    def search() -> None:
        question = next(questions)
        for record_id in index.rank(question, EVERYTHING, 5):
            index.snippet(record_id, question)

    ours = each(search)
    ranking = each(lambda: index.rank(next(questions), EVERYTHING, 5))
    theirs = each(lambda: plain.get_scores(tokenise(next(questions))))
    built = each(lambda: BM25Index(setting.workspace))
    yield f"{'search and five snippets':<44}{ours * 1000:8.3f} ms"
    yield f"{'ranking alone':<44}{ranking * 1000:8.3f} ms{theirs / ranking:8.1f} x as fast as rank-bm25's get_scores"
    yield f"{'building the index':<44}{built * 1000:8.1f} ms"


def rollouts(setting: Setting, tasks: tuple[Task, ...]) -> Iterator[str]:
    """Episodes a second on one core, and the memory of this process."""
    for policy in (WeakPolicy(), HeuristicPolicy()):
        seconds = each(lambda policy=policy: asyncio.run(play_all(policy, setting, tasks)))
        yield f"{f'{policy.name} episodes':<44}{len(tasks) / seconds:8.0f} a second"
    yield f"{'peak memory of this process':<44}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MB"


async def play_all(policy: Policy, setting: Setting, tasks: tuple[Task, ...]) -> int:
    return len([t async for t in run_many((Job(policy, task, seed=0) for task in tasks), setting)])


def each(run: Callable[[], object]) -> float:
    """Seconds of one call, once warm, as the mean over about a second."""
    run()
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 1.0:
        run()
        count += 1
    return (time.perf_counter() - started) / count


if __name__ == "__main__":
    main()
