"""A short torture of some commands, in a process of its own: `python -m tests.torture.sweep FOLDER POINTS NAME...`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tests.torture.child import Fault
from tests.torture.commands import BY_NAME, Bench, Command, Found, Tally
from tests.torture.rounds import at, in_short_writes, killed, points, refused, spread, started_together, without_output

KILLS = 3


def sweep(root: Path, command: Command, count: int) -> dict[str, Tally]:
    """What came of each promise.

    Args:
        count: at how many of its calls it ends or fails.

    Raises:
        Found: what did not hold first.
    """
    bench, folder = Bench(root, command), root / "round"
    chosen = spread(points(bench), count)
    return {
        "calls": sum((at(bench, bench.begin(folder), fault) for fault in chosen), Tally()),
        "kills": killed(bench, bench.begin(folder), random.Random(0), KILLS),
        "limit": refused(bench, bench.begin(folder), Fault(file_size_limit=bench.sizes[-1] // 2)),
        "output": without_output(bench, bench.begin(folder)),
        "short": in_short_writes(bench, bench.begin(folder)),
        "starters": started_together(bench, bench.begin(folder)),
    }


def told(root: Path, command: Command, count: int) -> dict[str, object]:
    """The same as plain numbers, or what did not hold under `found`."""
    try:
        return {promise: vars(tally) for promise, tally in sweep(root, command, count).items()}
    except Found as found:
        return {"found": str(found)}


if __name__ == "__main__":
    folder, given, *names = sys.argv[1:]
    sys.stdout.write(json.dumps({name: told(Path(folder), BY_NAME[name], int(given)) for name in names}) + "\n")
