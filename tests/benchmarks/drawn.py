"""Ten records drawn at random from worlds of all trades, to be read.

python -m tests.benchmarks.drawn [SEED]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

from gradient_rl.environment.workspace import load_workspace
from gradient_rl.schema.workspace import Email, Record
from gradient_rl.worlds.generate import Recipe, generate
from gradient_rl.worlds.trade import TRADES, load_trade


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    pool = [(name, record) for name in TRADES for record in records_of(name, seed)]
    for name, record in Random(seed).sample(pool, 10):
        print(f"--- {name}, {record.id}, {record.date}: {record.title}\n{head(record)}\n\n{record.body}\n")


def records_of(name: str, seed: int) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        generate(Recipe(trade=name, records=400, tasks=40, heldout=40, seed=seed), load_trade(name), Path(folder))
        return list(load_workspace(Path(folder)).records.values())


def head(record: Record) -> str:
    return f"{record.sender} to {', '.join(record.to)}" if isinstance(record, Email) else f"{record.kind}, by {record.author}"


if __name__ == "__main__":
    main()
