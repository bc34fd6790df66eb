"""The catalog: where a policy is found by its name, `NAME` or `NAME@CHECKPOINT`.

To make a policy available to the commands, add an `Entry` for it to `CATALOG`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradient_rl.errors import UsageError
from gradient_rl.policies.base import Policy
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.schema.training import WARM

if TYPE_CHECKING:
    from gradient_rl.policies.linear import LinearPolicy

LINEAR = "linear"
LATEST = "latest"
BASE = "0"
"""Label of a learned policy before its first training step."""
_MAX_SLUG = 80


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of a learned policy."""

    label: str
    """The training step, `0` before training; or `warm`, after the warm start."""
    path: Path | None = None
    """The file or folder that holds it; None when it lies elsewhere."""

    @property
    def digest(self) -> str:
        """SHA-256 of its content, in hex; empty when it lies elsewhere."""
        if self.path is None:
            return ""
        files = sorted(p for p in self.path.rglob("*") if p.is_file()) if self.path.is_dir() else [self.path]
        content = hashlib.sha256()
        for file in files:
            content.update(file.relative_to(self.path.parent).as_posix().encode() + b"\0")
            content.update(hashlib.sha256(file.read_bytes()).digest())
        return content.hexdigest()


def no_checkpoints(_: Path) -> Sequence[Checkpoint]:
    """Find none, for a policy that has learned nothing."""
    return ()


@dataclass(frozen=True)
class Entry:
    """A policy that can be named."""

    name: str
    """Also the `name` of the policies that `make` gives."""
    make: Callable[[float, Checkpoint | None], Policy]
    """From a temperature and, for a learned policy, a checkpoint."""
    learned: bool = False
    """Whether it has checkpoints."""
    saved: Callable[[Path], Sequence[Checkpoint]] = no_checkpoints
    """Its checkpoints in a folder, in the order of their steps."""
    remote: bool = False
    """Whether it needs a network or costs money; such a policy plays only when it is named."""


def saved_states(folder: Path, policy: str) -> Sequence[Checkpoint]:
    """The states that a learned policy saved as `POLICY-STEP.json`, by step; `POLICY-warm.json` comes behind step 0."""
    found = [
        (re.fullmatch(rf"{policy}-([0-9]{{6,}}|{WARM})\.json", path.name), path) for path in folder.glob(f"{policy}-*.json")
    ]
    labels = [(match[1] if match[1] == WARM else str(int(match[1])), path) for match, path in found if match]
    return [Checkpoint(label, path) for label, path in sorted(labels, key=lambda item: _order(item[0]))]


def _order(label: str) -> float:
    return 0.5 if label == WARM else int(label)


def linear_checkpoints(folder: Path) -> Sequence[Checkpoint]:
    """The saved states of the linear policy, by step."""
    return saved_states(folder, LINEAR)


def _linear(temperature: float, checkpoint: Checkpoint | None) -> LinearPolicy:
    from gradient_rl.policies.linear import LinearPolicy, from_names, read_checkpoint

    if checkpoint is None or checkpoint.path is None:
        raise UsageError(f"policy '{LINEAR}' is played from a checkpoint; run gradient-train first")
    return LinearPolicy(from_names(read_checkpoint(checkpoint.path)["weights"]), temperature)


CATALOG: tuple[Entry, ...] = (
    Entry("weak", lambda temperature, _: WeakPolicy(temperature)),
    Entry("heuristic", lambda temperature, _: HeuristicPolicy(temperature)),
    Entry(LINEAR, _linear, learned=True, saved=linear_checkpoints),
)


@dataclass(frozen=True)
class Player:
    """A policy ready to play, and the checkpoint it was made from."""

    policy: Policy
    checkpoint: Checkpoint | None = None
    bases: tuple[str, ...] = ()
    """For the latest checkpoint of a learned policy: the specs of its states before training and after a warm start."""

    @property
    def name(self) -> str:
        """`NAME`, or `NAME@CHECKPOINT` with the step resolved."""
        return player_name(self.policy.name, self.checkpoint.label if self.checkpoint else None)

    @property
    def slug(self) -> str:
        """The name as a part of a file name."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.name)[:_MAX_SLUG]


def player_name(policy: str, checkpoint: str | None) -> str:
    """The name of a policy at a checkpoint."""
    return policy if checkpoint is None else f"{policy}@{checkpoint}"


def find_player(spec: str, checkpoints: Path, temperature: float = 0.0, catalog: Sequence[Entry] = CATALOG) -> Player:
    """Find a policy by its spec. A learned one without a checkpoint is taken at its latest.

    Args:
        spec: `NAME`, `NAME@CHECKPOINT` or `NAME@latest`.
        checkpoints: the folder of saved checkpoints.
        temperature: 0 is greedy.
        catalog: what there is.

    Raises:
        UsageError: there is no such policy or checkpoint; what exists is listed.
    """
    known = {entry.name: entry for entry in catalog}
    name, at, label = (spec, "", "") if spec in known else spec.strip().partition("@")
    entry = known.get(name)
    if entry is None:
        raise UsageError(f"there is no policy '{name}'; the policies are {', '.join(known)}, chat:MODEL")
    if entry.learned:
        checkpoint, bases = _find_checkpoint(entry, label or LATEST, checkpoints)
        return Player(entry.make(temperature, checkpoint), checkpoint, bases)
    if at:
        raise UsageError(f"policy '{name}' has no checkpoints, so there is no '{spec}'; write '{name}'")
    return Player(entry.make(temperature, None))


def learned_here(checkpoints: Path, catalog: Sequence[Entry] = CATALOG) -> list[str]:
    """Specs of the learned policies that have a checkpoint in this folder and play without a network."""
    return [f"{e.name}@{LATEST}" for e in catalog if e.learned and not e.remote and e.saved(checkpoints)]


def _find_checkpoint(entry: Entry, label: str, folder: Path) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint, and the specs of what it began from if it is the latest of a training run."""
    saved = {checkpoint.label: checkpoint for checkpoint in entry.saved(folder)}
    if not saved:
        raise UsageError(f"policy '{entry.name}' has no checkpoint in {folder}; train it first, or give another --artifacts")
    newest = next(reversed(saved))
    chosen = saved.get(newest if label == LATEST else label)
    if chosen is None:
        known = ", ".join([*saved, LATEST])
        raise UsageError(f"policy '{entry.name}' has no checkpoint '{label}' in {folder}; there are {known}")
    begun_from = [each for each in (BASE, WARM) if each in saved and each != newest] if chosen.label == newest else []
    return chosen, tuple(player_name(entry.name, each) for each in begun_from if BASE in saved)
