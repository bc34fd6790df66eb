"""The warm start as the command line knows it: where its examples come from."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gradient_rl.cli.terminal import say
from gradient_rl.errors import DataError

if TYPE_CHECKING:
    from gradient_rl.schema.trajectory import Trajectory
    from gradient_rl.training.loop import Plan


WORDINGS = 2
"""Examples of each of the folder's own tasks, on the mean, before another world is asked for its own."""
TRADE = "logistics"
WORLD_RECORDS = 600
WORLD_TASKS = 200
WORLD_SEED = 900_000
"""Added to the run's seed, so that no world that somebody evaluates on is likely to be met here."""


def examples_for(plan: Plan, data: Path, count: int, seed: int) -> tuple[Trajectory, ...]:
    """Verified trajectories to be imitated: of the folder's training tasks, and where they are few, of a generated world.

    Args:
        plan: holds the training tasks and the setting, both of the data folder.
        data: the data folder.
        count: at least 1.
        seed: of whatever is drawn.

    Raises:
        DataError: there is nothing to imitate.
    """
    from gradient_rl.training.demonstrations import demonstrations

    made = demonstrations(plan.train, plan.setting, min(count, WORDINGS * len(plan.train)), seed)
    if len(made) < count:
        made += _from_another_world(plan, count - len(made), seed)
    if not made:
        raise DataError(f"{data}: no training task has an episode that earns its reward, so there is nothing to imitate")
    return tuple(random.Random(seed).sample(made, len(made)))


def _from_another_world(plan: Plan, count: int, seed: int) -> tuple[Trajectory, ...]:
    """Demonstrations in a world that is made for them and thrown away: its tasks are of another company."""
    from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks, load_workspace
    from gradient_rl.rollout.runner import setting_for
    from gradient_rl.schema.task import Split
    from gradient_rl.training.demonstrations import demonstrations
    from gradient_rl.worlds.generate import Recipe, generate
    from gradient_rl.worlds.trade import load_trade

    recipe = Recipe(trade=TRADE, records=WORLD_RECORDS, tasks=WORLD_TASKS, heldout=0, seed=WORLD_SEED + seed)
    with TemporaryDirectory(prefix="gradient-") as folder:
        generate(recipe, load_trade(TRADE), Path(folder))
        file = load_tasks(Path(folder) / TRAIN_FILE)
        tasks = [task for task in file.tasks if task.split is Split.TRAIN]
        setting = setting_for(load_workspace(Path(folder)), plan.config.limits, plan.config.reward, file.digest)
    return demonstrations(tasks, setting, count, seed)


def with_examples(plan: Plan, data: Path, artifacts: Path, *, resume: bool) -> Plan:
    """The plan with the examples of its warm start: those that the run to be resumed has saved, or new ones.

    Raises:
        DataError: the saved ones are damaged, or there is nothing to imitate.
    """
    from gradient_rl.training.examples import saved_examples

    count = plan.config.warm_start
    saved = saved_examples(artifacts) if resume and count else ()
    return replace(plan, examples=saved or (examples_for(plan, data, count, plan.config.seed) if count else ()))


def told(plan: Plan, *, uploads: bool) -> None:
    """Say on stderr what the warm start is given, before anything is sent."""
    if not plan.config.warm_start:
        return
    where = "; they are uploaded to Weights & Biases as an artifact" if uploads else ""
    say(f"Before the first step the model imitates up to {plan.config.warm_start:,} verified examples{where}.")
