"""Damaged files: one file of a real artifacts or data folder is damaged, and every command that reads it is run.

Whatever the damage is, a command ends in bounded time with a documented exit code; when that is not 0 it says one sentence
that names the file; it shows no traceback; and nothing that was written before is changed or lost.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from gradient_rl.cli import data, demo, evaluate, inspect, train
from gradient_rl.schema.task import Split
from tests.conftest import write_data
from tests.evaluation.playing import heldout_tasks
from tests.tiny import NOTICE_TASK
from tests.torture.damages import DAMAGES

if TYPE_CHECKING:
    import typer

MOST_SECONDS = 20.0
"""A command on these small folders takes a tenth of a second."""
CODES = frozenset({0, 2, 65, 66, 74})
"""Of a command that met a damaged file; 1 as well, where an episode ended without a reward."""
CONFIG = 'policy = "linear"\nmax_steps = 3\ntasks_per_step = 2\ngroup_size = 2\nseed = 1\nvalidate_every = 2\n[reward]\nrequire_opened = true\n'
PROFILE = '{"weights":{"correctness":0.5,"citation_quality":0.3,"efficiency":0.2},"require_opened":true}\n'
APPS: Mapping[str, typer.Typer] = {
    "demo": demo.app,
    "train": train.app,
    "eval": evaluate.app,
    "inspect": inspect.app,
    "data": data.app,
}
_PLAYERS = ("--policy", "heuristic", "--policy", "linear@latest", "--samples", "2")
_A, _D = ("--artifacts", "artifacts"), ("--data", "data")


@dataclass(frozen=True)
class Command:
    """A command line, and which files it may replace when it succeeds."""

    app: str
    arguments: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    appends: bool = False
    """Whether it opens journals, and so moves a torn tail aside."""

    def __str__(self) -> str:
        return " ".join([f"gradient-{self.app}", *self.arguments])


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float
    fault: str = ""
    """The traceback of what escaped from it."""


READS_TRAJECTORIES = (
    Command("inspect", ("list", *_A, *_D)),
    Command("inspect", ("list", "--json", *_A)),
    Command("inspect", ("show", "eval.heuristic/held-01/0", *_A, *_D)),
    Command("inspect", ("show", "train/step-1/tiny-1/0", "--json", *_A, *_D)),
    Command("inspect", ("diff", "weak", "heuristic", *_A, *_D)),
    Command("inspect", ("diff", "weak", "heuristic", "--task", "held-01", *_A, *_D)),
    Command("inspect", ("diff", "linear@0", "linear@latest", "--json", *_A, *_D)),
    Command("inspect", ("report", *_A, *_D), replaces=("artifacts/report.html",)),
    Command("inspect", ("report", "--json", "--out", "page.html", *_A, *_D)),
    Command("inspect", ("export", "--format", "openai", *_A)),
    Command("inspect", ("export", "--format", "hf", "--out", "flat.jsonl", *_A)),
    Command("inspect", ("validate", "artifacts", *_D)),
    Command("inspect", ("validate", "artifacts", "--json", *_D)),
)
CURVES = Command("inspect", ("curves", *_A))
CURVES_JSON = Command("inspect", ("curves", "--json", *_A))
RESCORE = Command(
    "eval", ("--rescore", "artifacts/eval.weak.jsonl", "artifacts/eval.heuristic.jsonl", "--profile", "profile.json", *_D)
)
EVAL_FILES = ("artifacts/eval.json", "artifacts/eval.md", "artifacts/eval.html")
EVAL_RESUME = Command("eval", (*_PLAYERS, "--profile", "profile.json", "--resume", *_A, *_D), EVAL_FILES, appends=True)
EVAL_ANEW = Command("eval", (*_PLAYERS, "--profile", "profile.json", *_A, *_D), EVAL_FILES)
TRAIN_FILES = ("artifacts/train.json", "artifacts/train.html", "artifacts/train.run.json")
KEPT = tuple(f"artifacts/checkpoints/linear-{step:06}.json" for step in (1, 2))
"""Checkpoints that a run may delete when it goes on, as its configuration says."""
TRAIN_RESUME = Command(
    "train", ("--config", "config.toml", "--max-steps", "4", "--resume", *_A, *_D), (*TRAIN_FILES, *KEPT), appends=True
)
TRAIN_ANEW = Command("train", ("--config", "config.toml", *_A, *_D), TRAIN_FILES)
DEMO_FILES = ("artifacts/demo.json", "artifacts/demo.jsonl", "artifacts/demo.html")
DEMO = Command("demo", (*_A, *_D), DEMO_FILES)
CHECKS_DATA = (Command("data", ("validate", "data")), Command("data", ("validate", "data", "--json")))
TASKS = Command("data", ("tasks", *_D))
REPORT = READS_TRAJECTORIES[7]
VALIDATE = READS_TRAJECTORIES[11]

READERS: Mapping[str, tuple[Command, ...]] = {
    "artifacts/eval.weak.jsonl": (*READS_TRAJECTORIES, RESCORE, EVAL_RESUME, EVAL_ANEW),
    "artifacts/eval.heuristic.jsonl": (*READS_TRAJECTORIES, RESCORE, EVAL_RESUME),
    "artifacts/eval.linear-3.jsonl": (*READS_TRAJECTORIES, EVAL_RESUME),
    "artifacts/eval.json": (REPORT, VALIDATE, EVAL_RESUME, EVAL_ANEW),
    "artifacts/eval.run.json": (EVAL_RESUME, EVAL_ANEW),
    "artifacts/demo.jsonl": (*READS_TRAJECTORIES, DEMO),
    "artifacts/demo.json": (REPORT, VALIDATE, DEMO),
    "artifacts/train.json": (REPORT, VALIDATE, CURVES, TRAIN_RESUME, TRAIN_ANEW, EVAL_RESUME),
    "artifacts/train.run.json": (TRAIN_RESUME, TRAIN_ANEW),
    "artifacts/train.metrics.jsonl": (CURVES, CURVES_JSON, REPORT, VALIDATE, TRAIN_RESUME, EVAL_RESUME),
    "artifacts/train.trajectories.jsonl": (*READS_TRAJECTORIES, TRAIN_RESUME),
    "artifacts/checkpoints/linear-000000.json": (EVAL_RESUME, EVAL_ANEW),
    "artifacts/checkpoints/linear-000003.json": (TRAIN_RESUME, TRAIN_RESUME, EVAL_RESUME, EVAL_ANEW),
    "data/emails.jsonl": (*CHECKS_DATA, DEMO, EVAL_ANEW, TRAIN_ANEW, REPORT, VALIDATE, READS_TRAJECTORIES[2]),
    "data/documents.jsonl": (*CHECKS_DATA, DEMO, EVAL_RESUME, TRAIN_RESUME, READS_TRAJECTORIES[0]),
    "data/tasks/train.jsonl": (*CHECKS_DATA, TASKS, DEMO, TRAIN_ANEW, TRAIN_RESUME, REPORT, VALIDATE, RESCORE),
    "data/tasks/heldout.jsonl": (*CHECKS_DATA, TASKS, EVAL_ANEW, EVAL_RESUME, RESCORE, VALIDATE, READS_TRAJECTORIES[2]),
    "config.toml": (TRAIN_ANEW, TRAIN_RESUME),
    "profile.json": (RESCORE, EVAL_ANEW, EVAL_RESUME),
}
"""By file, the commands that read it."""


class BrokenLawError(AssertionError):
    """A command that met a damaged file did what it must not."""


def make(folder: Path) -> Path:
    """A folder with data, and with the artifacts of a training, an evaluation and a demonstration."""
    training = [NOTICE_TASK.model_copy(update={"id": f"tiny-{n}"}) for n in range(1, 4)]
    validation = NOTICE_TASK.model_copy(update={"id": "tiny-9", "split": Split.VALIDATION})
    write_data(folder / "data", tasks=(*training, validation, *heldout_tasks(3)))
    (folder / "config.toml").write_text(CONFIG)
    (folder / "profile.json").write_text(PROFILE)
    for command in (TRAIN_ANEW, EVAL_ANEW, DEMO):
        ran = run(command, folder)
        assert ran.code == 0, (str(command), ran)
    return folder


def run(command: Command, folder: Path) -> Ran:
    """Run a command in this process, from within the folder."""
    here, began = Path.cwd(), time.perf_counter()
    os.chdir(folder)
    try:
        with bounded():
            result = CliRunner().invoke(APPS[command.app], list(command.arguments), prog_name=f"gradient-{command.app}")
    finally:
        os.chdir(here)
    escaped = result.exception if not isinstance(result.exception, SystemExit) else None
    fault = "".join(traceback.format_exception(escaped)) if escaped else ""
    return Ran(result.exit_code, result.stdout, result.stderr, time.perf_counter() - began, fault)


@contextmanager
def bounded() -> Generator[None]:
    """End what takes too long."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise BrokenLawError(f"it takes over {MOST_SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def damage(rng: random.Random, path: Path) -> str:
    """Damage a file, and say how."""
    if rng.random() < 0.1:
        return damage_place(rng, path)
    chosen = rng.choice(DAMAGES)
    path.write_bytes(chosen(rng, path.read_bytes()))
    return chosen.__name__


def damage_place(rng: random.Random, path: Path) -> str:
    """Put something else in the file's place."""
    path.unlink()
    match rng.choice(("missing", "folder", "loop", "dangling")):
        case "folder":
            path.mkdir()
            return "a folder in its place"
        case "loop":
            path.symlink_to(path.name)
            return "a link to itself"
        case "dangling":
            path.symlink_to("nowhere")
            return "a link to nothing"
        case _:
            return "missing"


def state(folder: Path) -> dict[str, bytes | str]:
    """What is under a folder: bytes of files, and what else there is. Locks are no content."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_dir():
            found[name] = "folder"
        elif not path.name.startswith(".lock"):
            found[name] = path.read_bytes()
    return found


def check(command: Command, name: str, before: Mapping[str, bytes | str], after: Mapping[str, bytes | str], ran: Ran) -> None:
    """Hold a command to the law.

    Args:
        name: the damaged file.
        before, after: what the folder held.

    Raises:
        BrokenLawError: the law is broken; what happened is said.
    """
    for problem in (*_said_wrong(name, ran), *_lost(command, name, before, after, ran.code)):
        raise BrokenLawError(f"{command}\n  {problem}\n  exit code {ran.code}\n{ran.err}\n{ran.out[-600:]}\n{ran.fault}")


def _said_wrong(name: str, ran: Ran) -> Generator[str]:
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    if ran.fault or "Traceback" in ran.err + ran.out or "fault of the program" in ran.err:
        yield "a fault of the program showed"
    unrewarded = ran.code == 1 and "without a reward" in ran.err
    if ran.code not in CODES and not unrewarded:
        yield "the exit code is not documented for this"
    if (ran.code != 0) != (len(errors) == 1):
        yield f"{len(errors)} errors are told"
    if strange := [line for line in ran.err.splitlines() if not line.startswith(("error: ", "warning: ", "the earlier "))]:
        yield f"a line on stderr is neither error nor warning: {strange[0]!r}"
    if "  " in "".join(errors) or len("".join(errors)) > 1200:
        yield "the error is not one plain sentence"
    if ran.code != 0 and not unrewarded and not _names(name, ran):
        yield f"{name} is not named"


def _names(name: str, ran: Ran) -> bool:
    """Whether the file is named; a run that is resumed as another one is told the field instead."""
    told = ran.err + ran.out
    return Path(name).name in told or "--resume: " in told or _folder_is_empty(name, told)


def _folder_is_empty(name: str, told: str) -> bool:
    """What is wholly gone cannot be named; then the folder is, or what to run."""
    return any(
        words in told
        for words in (
            "there is no",
            "there are",
            "holds no",
            "was not played",
            "has no checkpoint",
            " fits ",
            "finding",
            "not in",
        )
    )


def _lost(
    command: Command, damaged: str, before: Mapping[str, bytes | str], after: Mapping[str, bytes | str], code: int
) -> Generator[str]:
    kept_away = Counter((Path(name).name, content) for name, content in after.items() if "/runs/" in name)
    for name, content in before.items():
        if after.get(name) == content or str(content).startswith("link to ") or kept_away[Path(name).name, content]:
            continue
        if name in command.replaces and (code in (0, 1, 3) or damaged in command.replaces):
            continue
        if command.appends and _only_grew(name, content, after):
            continue
        yield f"{name} was changed or lost"


def _only_grew(name: str, before: bytes | str, after: Mapping[str, bytes | str]) -> bool:
    """Whether a journal holds all its complete lines still, and its torn tail, if there was one, stands in NAME.torn."""
    now, torn = after.get(name), after.get(f"{name}.torn", b"")
    if not (name.endswith(".jsonl") and isinstance(before, bytes) and isinstance(now, bytes) and isinstance(torn, bytes)):
        return False
    end = before.rfind(b"\n") + 1
    return now.startswith(before[:end]) and (end == len(before) or torn.endswith(before[end:] + b"\n"))


def one_case(rng: random.Random, made: Path, copy: Path, every: bool = False) -> Counter[str]:
    """Damage one file of a copy, run one or every command that reads it, and hold each to the law.

    Args:
        made: what `make` gave.
        copy: a folder to work in; it is replaced.
        every: whether all commands run, each on a fresh copy.

    Raises:
        BrokenLawError: the law is broken.
    """
    name = rng.choice(list(READERS))
    commands = READERS[name] if every else (rng.choice(READERS[name]),)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    how = damage(rng, copy / name)
    counts: Counter[str] = Counter({"faults injected": 1})
    spare = copy.with_name(f"{copy.name}-damaged")
    if len(commands) > 1:
        shutil.rmtree(spare, ignore_errors=True)
        shutil.copytree(copy, spare, symlinks=True)
    for number, command in enumerate(commands):
        if number:
            shutil.rmtree(copy)
            shutil.copytree(spare, copy, symlinks=True)
        before = state(copy)
        try:
            ran = run(command, copy)
            check(command, name, before, state(copy), ran)
        except BrokenLawError as broken:
            raise BrokenLawError(f"{name}, {how}: {broken}") from None
        counts["rounds"] += 1
        counts[f"exit {ran.code}"] += 1
    return counts


@cache
def _made() -> Path:
    home = TemporaryDirectory(prefix="torture-damaged-")
    atexit.register(home.cleanup)
    return make(Path(home.name) / "made")


def one_round(rng: random.Random, folder: Path) -> dict[str, int]:
    """A round for the torture: one file damaged, every command that reads it run.

    Args:
        rng: decides on the file and the damage.
        folder: an empty one to work in.
    """
    counts = one_case(rng, _made(), folder / "copy", every=True)
    return {"rounds": counts["rounds"], "faults": counts["faults injected"]}
