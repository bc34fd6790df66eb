"""The commands that write, each on a tiny data folder, and what must hold of their folder at any moment. Not a test module."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from gradient_rl.evaluation.records import read_trajectories
from gradient_rl.policies.adapters import read_art_state
from gradient_rl.policies.gradient import read_state
from gradient_rl.runs import RunIdentity, canonical_json, read_journal
from gradient_rl.schema.evaluation import Evaluation
from gradient_rl.schema.task import Split
from gradient_rl.schema.training import StepMetrics, Submission, Training
from tests.conftest import write_data
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK
from tests.torture.child import ARTIFACTS, NONE, Ending, Fault, digest, play

DATA = "data"
OF_THE_MOMENT = frozenset({"started_at", "seconds"})
OF_AN_ADAPTER = OF_THE_MOMENT | {"model", "inference_name", "run_name", "base_url", "id", "name", "learner"}
"""An adapter is named by the time at which its run began, and its server's port is any free one. What the service measured
of a job is gone when the process ended between the job and its record; what the job made is compared."""
MAY_GO = ("train.json", "checkpoints/*")
"""Whole files that a later moment of the same run removes."""


@dataclass(frozen=True)
class Command:
    """One command, as it is tortured."""

    name: str
    module: str
    arguments: tuple[str, ...]
    manifest: str | None = None
    """Of a command with --resume, the file that says that a run has begun."""
    after: str | None = None
    """The command whose artifacts this one reads."""
    ignored: frozenset[str] = OF_THE_MOMENT
    exact: tuple[str, ...] = ()
    """Files that must be the same to the byte."""
    earlier: tuple[str, ...] = ("--seed", "1")
    """What the run was given besides that lies in the folder when it begins; empty where there is none."""

    def given(self, *more: str) -> list[str]:
        """The command line."""
        said = [*self.arguments, *more]
        return [argument.replace("DATA", f"../{DATA}") for argument in said]


_TRAIN = ("--data", "DATA", "--max-steps", "2", "--tasks-per-step", "2", "--group-size", "3")
_ART = ("--policy", "art", "--backend", "embedded", "--learning-rate", "5e-6", *_TRAIN)
_EXPORT = ("export", "--format", "openai", "--out", "artifacts/chats.jsonl")
COMMANDS = (
    Command("demo", "demo", ("--data", "DATA")),
    Command("eval", "evaluate", ("--data", "DATA", "--samples", "2"), "eval.run.json"),
    Command("train", "train", _TRAIN, "train.run.json"),
    Command("dry run", "train", ("--dry-run", "--policy", "weak", *_TRAIN), "train.run.json"),
    Command("report", "inspect", ("report", "--data", "DATA"), after="eval", exact=("report.html",), earlier=()),
    Command("export", "inspect", _EXPORT, after="eval", exact=("chats.jsonl",), earlier=("--policy", "weak")),
)
ART = Command("art", "train", _ART, "train.run.json", ignored=OF_AN_ADAPTER, earlier=())
BY_NAME = {command.name: command for command in (*COMMANDS, ART)}


def write_tiny_data(root: Path) -> None:
    """Four training tasks, one to validate on, four held out, in the tiny workspace."""
    splits = (Split.TRAIN, Split.TRAIN, Split.TRAIN, Split.TRAIN, Split.VALIDATION, *[Split.HELDOUT] * 4)
    kinds = (NOTICE_TASK, DEPOSIT_TASK)
    tasks = [kinds[n % 2].model_copy(update={"id": f"tiny-{n}", "split": split}) for n, split in enumerate(splits)]
    write_data(root / DATA, tasks=tasks)


class Bench:
    """A command with a folder to begin from, and what a run that nothing disturbed leaves there."""

    def __init__(self, root: Path, command: Command) -> None:
        self.command = command
        self.root = root
        if not (root / DATA).exists():
            write_tiny_data(root)
        self._start = root / f"start-{command.name}"
        self._prepare()
        straight = root / f"straight-{command.name}"
        shutil.copytree(self._start, straight)
        ended = play(command.module, command.given(), straight)
        assert ended.code == 0, ended.errors
        ended.preload()
        self.straight = straight
        self.calls = ended.calls
        self.told = max(1, len(ended.records) + ended.whole)
        """Lines that a run logs at the least."""
        self.results = results(straight / ARTIFACTS, command)
        self.sizes = sorted(
            path.stat().st_size for path in (straight / ARTIFACTS).rglob("*") if path.is_file() and path.stat().st_size
        )

    @cached_property
    def earlier(self) -> Mapping[str, str]:
        """Digests of the files that were there before it began, by place."""
        return {str(path.relative_to(self._start)): digest(path) for path in files_under(self._start / ARTIFACTS)}

    @cached_property
    def identity(self) -> Mapping[str, object]:
        """What a run of this bench is."""
        assert self.command.manifest
        return RunIdentity.load(self.straight / ARTIFACTS / self.command.manifest).fields

    def _prepare(self) -> None:
        """An earlier run of another seed, and a pid file that a killed one left."""
        self._start.mkdir()
        command = self.command
        if command.after:
            made = play(BY_NAME[command.after].module, BY_NAME[command.after].given(), self._start)
            assert made.code == 0, made.errors
        if command.earlier:
            made = play(command.module, command.given(*command.earlier), self._start)
            assert made.code == 0, made.errors
        (self._start / ARTIFACTS).mkdir(exist_ok=True)
        if "report.html" in command.exact:
            (self._start / ARTIFACTS / "report.html").write_text("<!doctype html>old</html>\n")
        if not command.after:
            (self._start / ARTIFACTS / ".lock.pid").write_text("1")

    def begin(self, folder: Path) -> Path:
        """A working folder with what was there before, in this one, which is emptied."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / DATA).symlink_to(self.root / DATA)
        return shutil.copytree(self._start, folder / "run")

    def has_begun(self, folder: Path) -> bool:
        """Whether the folder holds the run, so that it is to be resumed."""
        manifest = folder / ARTIFACTS / (self.command.manifest or "")
        return bool(self.command.manifest) and manifest.exists() and RunIdentity.load(manifest).fields == self.identity

    def play(self, folder: Path, fault: Fault = NONE) -> Ending:
        """Begin the command, or go on with it."""
        return play(self.command.module, self.given(folder), folder, fault)

    def given(self, folder: Path) -> list[str]:
        """The command line that begins it, or goes on with it."""
        return self.command.given(*(["--resume"] if self.command.manifest and self.has_begun(folder) else []))


def files_under(folder: Path) -> list[Path]:
    """Every file but those that only the present moment needs."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


# What must hold


@dataclass
class Tally:
    """What was tried, and what broke."""

    rounds: int = 0
    faults: int = 0
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    wrong_codes: int = 0
    broken: int = 0
    """What else did not hold."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def is_clean(self) -> bool:
        """Whether nothing broke."""
        return not (self.lost or self.twice or self.wrong_codes or self.broken)


class Found(AssertionError):  # noqa: N818 # not an error of the program that finds it
    """Something that does not hold, and what it counts as."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def hold(kind: str, holds: object, text: object) -> None:
    """Stop the round unless it holds.

    Args:
        kind: the field of `Tally` that it counts in.
    """
    if not holds:
        raise Found(kind, str(text))


def _page(path: Path) -> None:
    text = path.read_text().rstrip()
    assert text.lower().startswith("<!doctype html>"), text[:40]
    assert text.endswith("</html>"), text[-40:]


def _metrics(path: Path) -> None:
    for _, record in read_journal(path):
        StepMetrics.model_validate(record)


READERS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("*.run.json", RunIdentity.load),
    ("*.html", _page),
    ("eval.md", lambda path: path.read_text().splitlines()[0]),
    ("eval.json", lambda path: Evaluation.model_validate_json(path.read_bytes())),
    ("train.json", lambda path: Training.model_validate_json(path.read_bytes())),
    ("demo.json", lambda path: json.loads(path.read_bytes())["policies"]),
    ("models.json", lambda path: json.loads(path.read_bytes())["models"]),
    ("linear-*.json", read_state),
    ("art.submitting.json", lambda path: Submission.model_validate_json(path.read_bytes())),
    ("art-*.json", read_art_state),
    ("train.metrics.jsonl", _metrics),
    ("*.torn", Path.read_bytes),
    ("train.payload.jsonl", lambda path: list(read_journal(path))),
    ("chats.jsonl", lambda path: [json.loads(line)["messages"] for line in path.read_bytes().splitlines()]),
    ("*.jsonl", lambda path: list(read_trajectories(path))),
)
"""By name, how the product reads a file."""


def check(bench: Bench, folder: Path, endings: list[Ending]) -> None:
    """After a crash: every file is read, no record is lost or there twice, and whole files are the old or the new ones."""
    artifacts = folder / ARTIFACTS
    for path in files_under(artifacts):
        read = next((read for pattern, read in READERS if fnmatch(path.name, pattern)), None)
        hold("broken", read, f"{path.relative_to(folder)} is a file of no known kind")
        try:
            read(path)  # type: ignore[misc]
        except Exception as error:  # whatever it is, the file could not be read
            raise Found("broken", f"{path.relative_to(folder)} cannot be read: {type(error).__name__}: {error}") from error
    _check_records(folder, [record for ending in endings for record in ending.records])
    for ending in endings[-1:]:
        _check_whole(folder, ending)
    _check_earlier(bench, folder, endings)


def _check_records(folder: Path, acknowledged: list[tuple[str, list[object]]]) -> None:
    by_file: dict[str, list[str]] = {}
    for place, key in acknowledged:
        by_file.setdefault(place, []).append(json.dumps(key))
    for place, keys in by_file.items():
        there = Counter(json.dumps(key) for key in _keys(folder / place))
        lost = [key for key in keys if key not in there]
        hold("lost", not lost, f"{place}: {lost[:3]}, {len(lost)} of {len(keys)}")
        twice = [key for key, times in there.items() if times > 1]
        hold("twice", not twice, f"{place}: {twice[:3]}")


def _keys(path: Path) -> list[list[object]]:
    from gradient_rl.evaluation.records import KEY
    from gradient_rl.training.ledger import METRICS, METRICS_KEY
    from gradient_rl.training.loop import PAYLOAD

    names = {METRICS: METRICS_KEY, PAYLOAD: ("step",)}.get(path.name, KEY)
    return [[record[name] for name in names] for _, record in read_journal(path)] if path.exists() else []


def _check_whole(folder: Path, ending: Ending) -> None:
    for place, values in ending.begun.items():
        path = folder / place
        if path.exists():
            hold("broken", digest(path) in values, f"{place} holds neither what was put there nor what was to come")
        else:
            may_go = any(fnmatch(place.removeprefix(f"{ARTIFACTS}/"), pattern) for pattern in MAY_GO)
            hold("lost", may_go or len(values) == 1, f"{place} is gone")


def _check_earlier(bench: Bench, folder: Path, endings: list[Ending]) -> None:
    """What was there before is where it was, or under runs/, or replaced by what this command writes whole."""
    put = {place for ending in endings for place in ending.begun}
    for place, value in bench.earlier.items():
        name = place.removeprefix(f"{ARTIFACTS}/")
        found = [folder / place, *(folder / ARTIFACTS / "runs").glob(f"*/{name}")]
        kept = any(path.exists() and digest(path) == value for path in found)
        hold("lost", kept or (place in put and not bench.command.manifest), f"{place} of the earlier run")


def check_at_the_end(bench: Bench, folder: Path) -> None:
    """After the last start: the result is that of a run that nothing disturbed, and nothing is left over."""
    artifacts = folder / ARTIFACTS
    found = results(artifacts, bench.command)
    for name in sorted({*found, *bench.results}):
        hold("broken", found.get(name) == bench.results.get(name), f"{name} differs from that of a straight run")
    left = [path.name for path in artifacts.rglob(".*") if path.name not in (".lock", ".gitkeep")]
    hold("broken", not left, f"left over: {left}")


def check_torn(folder: Path, tails: Mapping[str, bytes]) -> None:
    """Torn tails that a crash left are kept beside their journals, a line each."""
    for place, tail in tails.items():
        torn = folder / f"{place}.torn"
        hold("lost", torn.exists() and tail in torn.read_bytes().splitlines(), f"the torn tail of {place}")


def torn_tails(folder: Path) -> dict[str, bytes]:
    """By journal, what stands after the last newline."""
    found = {
        str(path.relative_to(folder)): path.read_bytes().rpartition(b"\n")[2] for path in (folder / ARTIFACTS).glob("*.jsonl")
    }
    return {place: tail for place, tail in found.items() if tail}


def results(artifacts: Path, command: Command) -> dict[str, Any]:
    """What a run says, by file, without what is of the moment; lines in any order."""
    found: dict[str, Any] = {}
    for path in files_under(artifacts):
        name = str(path.relative_to(artifacts))
        if name in command.exact:
            found[name] = digest(path)
        elif name.startswith("runs/") or path.suffix not in (".json", ".jsonl") or path.name == "art.submitting.json":
            continue
        elif path.suffix == ".jsonl":
            lines = (_timeless(record, command.ignored) for _, record in read_journal(path))
            found[name] = sorted(canonical_json(line) for line in lines)
        else:
            found[name] = canonical_json(_timeless(json.loads(path.read_bytes()), command.ignored))
    return found


def _timeless(value: object, ignored: frozenset[str]) -> object:
    if isinstance(value, dict):
        return {name: _timeless(each, ignored) for name, each in value.items() if name not in ignored}
    return [_timeless(each, ignored) for each in value] if isinstance(value, list) else value
