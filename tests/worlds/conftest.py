from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradient_rl.worlds.generate import Recipe, WorldReport, generate
from gradient_rl.worlds.trade import TRADES
from tests.worlds.founding import trade_of


@dataclass(frozen=True)
class Made:
    """A generated folder."""

    folder: Path
    report: WorldReport


def recipe(trade: str, **changes: int) -> Recipe:
    given = {"records": 300, "tasks": 20, "heldout": 20, "seed": 7} | changes
    return Recipe.model_validate({"trade": trade, **given})


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Made]:
    """A small world of every trade."""
    root = tmp_path_factory.mktemp("worlds")
    return {trade: Made(root / trade, generate(recipe(trade), trade_of(trade), root / trade)) for trade in TRADES}
