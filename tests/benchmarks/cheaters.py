"""What cheaters earn on the packaged tasks, beside those who do not cheat: `python -m tests.benchmarks.cheaters`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.evaluation.cribs import crib_of
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.policies.base import Policy
from gradient_rl.policies.cheaters import CHEATERS, Crib, EmptyPolicy, RandomPolicy, Scheme, Schemer
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_many, setting_for
from gradient_rl.schema.task import Task

FIRST_TWO = Scheme(lambda seen, crib: seen.question, lambda seen, crib: seen.hits[:2], opens=2)
NO_CRIB = Crib("", (), (), (), ())

HONEST: Mapping[str, tuple[str, Callable[[], Policy]]] = {
    "weak": ("searches once and quotes the first hit", WeakPolicy),
    "heuristic": ("searches with several words, follows leads", HeuristicPolicy),
    "first-two": ("echoes the question; opens and cites two hits", lambda: Schemer("first-two", FIRST_TWO, NO_CRIB)),
    "empty": ("submits an empty answer at once", EmptyPolicy),
    "random": ("makes valid calls by chance", RandomPolicy),
}
TITLES = "| policy | what it does | mean | best family |\n|---|---|---|---|"


class Earned(NamedTuple):
    """Mean rewards of a policy."""

    name: str
    does: str
    mean: float
    """Over all tasks, one episode each."""
    families: Mapping[str, float]

    def row(self) -> str:
        """The row of the table."""
        family, best = max(self.families.items(), key=lambda item: item[1])
        return f"| {self.name} | {self.does} | {self.mean:.3f} | {f'`{family}` {best:.3f}' if best else '0'} |"


def main() -> None:
    print(TITLES)
    for row in (reference(), *honest(), *cheating()):
        print(row.row(), flush=True)


@lru_cache(1)
def packaged() -> tuple[Setting, tuple[Task, ...]]:
    """The packaged workspace, and its 70 tasks."""
    folder = default_data_dir()
    tasks = [task for name in (TRAIN_FILE, HELDOUT_FILE) for task in load_tasks(folder / name).tasks]
    return setting_for(load_workspace(folder)), tuple(tasks)


@lru_cache(1)
def reference() -> Earned:
    setting, tasks = packaged()
    replayer = Replayer(setting.workspace, setting.index)
    totals = [(task.family.value, replayer.play(task, task.reference).total) for task in tasks]
    return earned("reference", "makes the calls of the task's own reference", totals)


@lru_cache(1)
def honest() -> tuple[Earned, ...]:
    return tuple(played(name, does, lambda task, make=make: make()) for name, (does, make) in HONEST.items())


@lru_cache(1)
def cheating() -> tuple[Earned, ...]:
    return tuple(cheated())


def cheated() -> Iterator[Earned]:
    workspace = packaged()[0].workspace
    for cheater in CHEATERS.values():
        yield played(cheater.name, cheater.tries, lambda task, make=cheater.make: make(crib_of(task, workspace)))


def played(name: str, does: str, make: Callable[[Task], Policy]) -> Earned:
    setting, tasks = packaged()

    async def play() -> list[tuple[str, float]]:
        jobs = (Job(make(task), task, seed=0) for task in tasks)
        return [(t.family, t.reward.total) async for t in run_many(jobs, setting) if t.reward is not None]

    totals = asyncio.run(play())
    assert len(totals) == len(tasks)
    return earned(name, does, totals)


def earned(name: str, does: str, totals: list[tuple[str, float]]) -> Earned:
    families: dict[str, list[float]] = defaultdict(list)
    for family, total in totals:
        families[family].append(total)
    return Earned(name, does, fmean(total for _, total in totals), {family: fmean(of) for family, of in families.items()})


if __name__ == "__main__":
    main()
