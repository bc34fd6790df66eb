"""The warm start as the command line knows it: where its examples come from."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradient_rl.schema.trajectory import Trajectory
    from gradient_rl.training.loop import Plan


def examples_for(plan: Plan, data: Path, count: int, seed: int) -> tuple[Trajectory, ...]:
    """Verified trajectories of the training tasks, to be imitated.

    Args:
        plan: holds the training tasks and the setting, both of the data folder.
        data: the data folder.
        count: at least 1.
        seed: of whatever is drawn.

    Raises:
        DataError: there is nothing to imitate.
    """
    from gradient_rl.training.demonstrations import demonstrations

    return demonstrations(plan.train, plan.setting, count, seed)


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
    print(f"Before the first step the model imitates {plan.config.warm_start:,} verified examples{where}.", file=sys.stderr)
