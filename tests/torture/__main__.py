"""The long torture, for as many minutes as are given: `python -m tests.torture --minutes 30`. Exits with 1 if anything broke."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

from tests.torture.checks import CHECKS, Check
from tests.torture.commands import Found, Tally
from tests.torture.rounds import Round

COLUMNS = ("rounds", "faults", "acknowledged", "lost", "twice", "wrong_codes", "broken")


def torture(checks: Sequence[Check], root: Path, minutes: float, seed: int) -> dict[str, Tally]:
    """Round after round of each check in turn until the time is over; each has one round at the least.

    A round that finds something is told on stderr, and its folder is kept.
    """
    tallies: dict[str, Tally] = defaultdict(Tally)
    until, number = time.monotonic() + 60 * minutes, 0
    while not number or time.monotonic() < until:
        for name, one_round in checks:
            if number and time.monotonic() >= until:
                break
            folder = root / f"{name.replace(',', '').replace(' ', '-')}-{number}"
            folder.mkdir()
            tallies[name] += _one(name, one_round, random.Random(f"{seed} {name} {number}"), folder)
        number += 1
    return tallies


def _one(name: str, one_round: Round, rng: random.Random, folder: Path) -> Tally:
    try:
        tally = one_round(rng, folder)
    except Found as found:
        print(f"{name}: {found}; the folder is {folder}", file=sys.stderr, flush=True)
        return Tally(rounds=1, **{found.kind: 1})
    except (AssertionError, OSError) as error:
        print(f"{name}: {type(error).__name__}: {error}; the folder is {folder}", file=sys.stderr, flush=True)
        return Tally(rounds=1, broken=1)
    shutil.rmtree(folder)
    return tally


def table(tallies: dict[str, Tally]) -> str:
    """One line a promise, and their sum."""
    rows = {**tallies, "all": sum(tallies.values(), Tally())}
    width = max(map(len, rows))
    head = "promise".ljust(width) + "".join(f"  {column.replace('_', ' '):>12}" for column in COLUMNS)
    return "\n".join([head, *(name.ljust(width) + "".join(f"  {vars(t)[c]:>12}" for c in COLUMNS) for name, t in rows.items())])


def main() -> int:
    """Read the command line, torture, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--seed", type=int, default=None, help="of every choice; the time if left out")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="checks whose name begins with this; repeat for several"
    )
    given = parser.parse_args()
    chosen = [check for check in CHECKS if not given.only or check.name.startswith(tuple(given.only))]
    if not chosen:
        parser.error(f"no check has such a name; there are: {', '.join(check.name for check in CHECKS)}")
    seed = int(time.time()) if given.seed is None else given.seed
    root = Path(mkdtemp(prefix="torture-"))
    print(f"seed {seed}, in {root}", file=sys.stderr, flush=True)
    tallies = torture(chosen, root, given.minutes, seed)
    print(table(tallies))
    clean = all(tally.is_clean for tally in tallies.values())
    if clean:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
