"""Speed and memory, measured: `make bench`. Each line is a figure beside what it is compared with; nothing is asserted.

`python -m tests.benchmarks SECTION...` measures these sections alone and in full: commands, search, rollouts, training (with the
whole default run), chat, embedded, inspect, report. Whole commands are run in a process of their own, mostly several times, and the fastest is
printed; what runs inside this process is repeated until it has taken a second.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path

from gradient_rl.environment.search import BM25Index, searchable_text, tokenise
from gradient_rl.environment.tools import EVERYTHING
from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.policies.base import Policy
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for
from gradient_rl.schema.task import Task
from tests.benchmarks.chat import chat
from tests.benchmarks.embedded import embedded
from tests.benchmarks.inspecting import inspecting
from tests.benchmarks.measuring import each, fastest, line
from tests.benchmarks.reporting import reporting
from tests.benchmarks.spawn import MB
from tests.benchmarks.training import training
from tests.lucene import LuceneBM25

BIN = Path(sys.executable).parent


def main() -> None:
    chosen = sys.argv[1:]
    if unknown := set(chosen) - set(SECTIONS):
        raise SystemExit(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    for name in chosen or SECTIONS:
        for told in SECTIONS[name](bool(chosen)):
            print(told, flush=True)


def setting_and_tasks() -> tuple[Setting, tuple[Task, ...]]:
    return setting_for(load_workspace(default_data_dir())), load_tasks(default_data_dir() / TRAIN_FILE).tasks


def commands() -> Iterator[str]:
    """Whole commands: seconds and peak memory, beside an interpreter that only imports typer."""
    floor, _ = fastest([sys.executable, "-c", "import typer"])
    yield line("python -c import typer", f"{floor:8.3f} s")
    for command in sorted(path.name for path in BIN.glob("gradient-*")):
        yield command_line([command, "--help"], floor)
    yield command_line(["gradient-demo"], floor)
    if (BIN / "gradient-eval").exists():
        yield command_line(["gradient-eval"], floor)


def command_line(command: list[str], floor: float) -> str:
    seconds, peak_mb = fastest([str(BIN / command[0]), *command[1:]])
    return line(" ".join(command), f"{seconds:8.3f} s{seconds / floor:8.1f} x{peak_mb:8.0f} MB at its peak")


def searching() -> Iterator[str]:
    """One search with its snippets, beside rank-bm25 scoring the whole query anew."""
    setting, tasks = setting_and_tasks()
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


def rollouts() -> Iterator[str]:
    """Episodes a second on one core, and the memory of this process."""
    setting, tasks = setting_and_tasks()
    for policy in (WeakPolicy(), HeuristicPolicy()):
        seconds = each(lambda policy=policy: asyncio.run(play_all(policy, setting, tasks)))
        yield f"{f'{policy.name} episodes':<44}{len(tasks) / seconds:8.0f} a second"
    yield f"{'peak memory of this process':<44}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB:8.0f} MB"


async def play_all(policy: Policy, setting: Setting, tasks: tuple[Task, ...]) -> int:
    return len([t async for t in run_many((Job(policy, task, seed=0) for task in tasks), setting)])


SECTIONS: Mapping[str, Callable[[bool], Iterator[str]]] = {
    "commands": lambda in_full: commands(),
    "search": lambda in_full: searching(),
    "rollouts": lambda in_full: rollouts(),
    "training": lambda in_full: training(in_full=in_full),
    "chat": lambda in_full: chat(),
    "embedded": lambda in_full: embedded(),
    "inspect": lambda in_full: inspecting(in_full=in_full),
    "report": lambda in_full: reporting(),
}

if __name__ == "__main__":
    main()
