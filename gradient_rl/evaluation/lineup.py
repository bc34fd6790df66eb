"""A line-up: which policies an evaluation plays, and which of them are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradient_rl.errors import UsageError
from gradient_rl.policies.catalog import CATALOG, LATEST, Entry, Player, find_player, learned_here, player_name

DEFAULT_BASELINE = "weak"
DEFAULT_CANDIDATE = "heuristic"

type Pair = tuple[str, str]
"""Names of a baseline and of the candidate that is held against it."""


@dataclass(frozen=True)
class Lineup:
    """The players, the baseline first, and the pairs that are compared."""

    players: tuple[Player, ...]
    candidates: tuple[str, ...]
    """Names of the policies that were asked for, without the baseline; the baseline alone if there are none."""
    pairs: tuple[Pair, ...]
    """Every player against the baseline, then every latest checkpoint against its base and its warm start."""

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return self.players[0].name

    @property
    def by_spec(self) -> dict[str, str]:
        """Names of the players by what they may be called: their name, and `NAME@latest` for the latest checkpoint."""
        latest = {player_name(player.policy.name, LATEST): player.name for player in self.players if player.bases}
        return {player.name: player.name for player in self.players} | latest


def line_up(
    baseline: str,
    policies: Sequence[str],
    checkpoints: Path,
    temperature: float = 0.0,
    catalog: Sequence[Entry] = CATALOG,
) -> Lineup:
    """Find the players by their specs; the latest checkpoint of a learned policy brings its base and its warm start along.

    Without policies these are the heuristic one and the latest checkpoints that are saved here. Remote
    policies play only when they are named.

    Raises:
        UsageError: there is no such policy or checkpoint, or two players would write to the same file.
    """
    specs = list(policies) or [DEFAULT_CANDIDATE, *learned_here(checkpoints, catalog)]
    named = [find_player(spec, checkpoints, temperature, catalog) for spec in (baseline, *specs)]
    bases = [find_player(base, checkpoints, temperature, catalog) for player in named for base in player.bases]
    players = {player.name: player for player in (*named, *bases)}
    _refuse_shared_files(list(players.values()))
    first = named[0].name
    against_baseline = [(first, name) for name in players if name != first]
    against_base = [(base, player.name) for player in players.values() for base in player.bases]
    candidates = dict.fromkeys(player.name for player in named[1:] if player.name != first)
    return Lineup(
        players=tuple(players.values()),
        candidates=tuple(candidates) or (first,),
        pairs=tuple(dict.fromkeys([*against_baseline, *against_base])),
    )


def _refuse_shared_files(players: Sequence[Player]) -> None:
    by_slug: dict[str, str] = {}
    for player in players:
        other = by_slug.setdefault(player.slug, player.name)
        if other != player.name:
            raise UsageError(
                f"'{other}' and '{player.name}' would both write to eval.{player.slug}.jsonl; evaluate them one after the other"
            )
