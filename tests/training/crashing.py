"""A training run that ends at a system call of its own, for one call after another. Started in a process of its own."""

from __future__ import annotations

import shutil
import sys
from itertools import count
from pathlib import Path

from gradient_rl.schema.task import Split
from gradient_rl.training.loop import MANIFEST
from tests.conftest import write_data
from tests.crashing import in_child
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK
from tests.training.learning import checkpoints_in, go, small, timeless_metrics

CONFIG = small(max_steps=2, tasks_per_step=2, group_size=4, concurrency=3)
DATA = "data"


def train_here(folder: Path) -> None:
    """Begin the run, or go on with it."""
    go(folder / "artifacts", CONFIG, data=folder.parent / DATA, resume=(folder / "artifacts" / MANIFEST).exists())


def sweep(root: Path, stride: int) -> int:
    """End a run at every `stride`-th call, go on, and compare; returns the crashes survived."""
    splits = ((NOTICE_TASK, Split.TRAIN), (DEPOSIT_TASK, Split.TRAIN), (NOTICE_TASK, Split.VALIDATION))
    tasks = [task.model_copy(update={"id": f"tiny-{n}", "split": split}) for n, (task, split) in enumerate(splits)]
    write_data(root / DATA, tasks=tasks)
    straight = root / "straight"
    straight.mkdir()
    train_here(straight)
    moments = enumerate(("before", "half", "after"), start=1)
    return sum(_ended_at_every_call(root, straight, moment, first, stride) for first, moment in moments)


def _ended_at_every_call(root: Path, straight: Path, moment: str, first: int, stride: int) -> int:
    for crashes, nth in enumerate(count(first, stride)):
        folder = root / "run"
        folder.mkdir()
        through = in_child(train_here, folder, nth, moment)
        train_here(folder)
        for read in (checkpoints_in, timeless_metrics):
            assert read(folder / "artifacts") == read(straight / "artifacts"), (nth, moment)
        shutil.rmtree(folder)
        if through:
            return crashes
    raise AssertionError


if __name__ == "__main__":
    sys.stdout.write(f"{sweep(Path(sys.argv[1]), int(sys.argv[2]))}\n")
