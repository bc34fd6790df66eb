"""Policies that behave as a test needs, and a small held-out world to play in."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

from gradient_rl.policies import catalog
from gradient_rl.policies.base import Message, Policy, Reply, TransportError, observations_in, one_call
from gradient_rl.policies.catalog import CATALOG, Checkpoint, Entry
from gradient_rl.schema.task import Split, Task
from tests.conftest import write_data
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK


def heldout_tasks(count: int) -> list[Task]:
    """The same two questions under so many ids."""
    kinds = [NOTICE_TASK, DEPOSIT_TASK]
    return [kinds[n % 2].model_copy(update={"id": f"held-{n:02}", "split": Split.HELDOUT}) for n in range(count)]


def heldout_world(folder: Path, count: int = 8) -> Path:
    """A data folder with so many held-out tasks, a training task and a validation task."""
    validation = NOTICE_TASK.model_copy(update={"id": "tiny-9", "split": Split.VALIDATION})
    return write_data(folder, tasks=(NOTICE_TASK, validation, *heldout_tasks(count)))


class Right:
    """Finds, reads and cites the amendment, and answers with its value: 1.0 on the notice task."""

    def __init__(self, name: str = "right") -> None:
        self.name = name

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        match len(observations_in(messages)):
            case 0:
                return one_call(messages, "search", query="bakery contract notice")
            case 1:
                return one_call(messages, "open_email", id="mail-1")
            case _:
                return one_call(messages, "submit_answer", answer="60 days", sources=["mail-1"])


class Empty:
    """Submits nothing, at once: 0."""

    def __init__(self, name: str = "empty") -> None:
        self.name = name

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        return one_call(messages, "submit_answer", answer="", sources=[])


class Guessing(Right):
    """Right or empty, by a coin of the episode."""

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if len(messages) == 2 and rng.random() < 0.5:
            return await Empty().act(messages, tools, rng)
        return await super().act(messages, tools, rng)


class Unreachable(Right):
    """An endpoint that fails until a file is there."""

    def __init__(self, repaired: Path) -> None:
        super().__init__("unreachable")
        self._repaired = repaired

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        if not self._repaired.exists():
            raise TransportError("503 from the endpoint")
        return await super().act(messages, tools, rng)


class Slow(Empty):
    """Takes its time for each episode."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name)
        self._seconds = seconds

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        await asyncio.sleep(self._seconds)
        return await super().act(messages, tools, rng)


def saved_steps(folder: Path) -> list[Checkpoint]:
    files = (folder / "learned").glob("*.json")
    return [Checkpoint(file.stem, file) for file in sorted(files, key=lambda file: int(file.stem))]


def save_step(folder: Path, step: int, skill: str) -> None:
    (folder / "learned").mkdir(parents=True, exist_ok=True)
    (folder / "learned" / f"{step}.json").write_text(json.dumps({"skill": skill}))


def load_step(_: float, checkpoint: Checkpoint | None) -> Policy:
    assert checkpoint is not None
    assert checkpoint.path is not None
    skilled = json.loads(checkpoint.path.read_text())["skill"] == "right"
    return Right("learned") if skilled else Empty("learned")


LEARNED = Entry("learned", load_step, learned=True, saved=saved_steps)
ELSEWHERE = Entry("elsewhere", lambda _, __: Right("elsewhere"), learned=True, saved=lambda _: [Checkpoint("3")], remote=True)


def fakes(folder: Path) -> tuple[Entry, ...]:
    """The real policies and the ones above."""
    return (
        *CATALOG,
        LEARNED,
        ELSEWHERE,
        Entry("right", lambda _, __: Right()),
        Entry("empty", lambda _, __: Empty()),
        Entry("guessing", lambda _, __: Guessing("guessing")),
        Entry("slow", lambda _, __: Slow("slow", 0.2)),
        Entry("stuck", lambda _, __: Slow("stuck", 3600)),
        Entry("unreachable", lambda _, __: Unreachable(folder / "repaired")),
    )


def run_command() -> None:
    """`gradient-eval` with the policies above in its catalog; the commands bind it when they are imported."""
    catalog.CATALOG = fakes(Path.cwd())
    from gradient_rl.cli.evaluate import main

    main()
