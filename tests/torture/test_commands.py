"""Every command that writes, ended, killed, refused and started eight times over: nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny
from tests.torture.commands import COMMANDS

ROOT = Path(tiny.__file__).parent.parent
POINTS = 12
"""Calls at which a command ends or fails; `python -m tests.torture` goes through all of them."""
WAIT_S = 600


NAMES = [command.name for command in COMMANDS]

type Told = dict[str, dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """By command and promise, what a short torture tried. A process of its own forks the commands."""
    made = [sys.executable, "-m", "tests.torture.sweep", str(tmp_path_factory.mktemp("torture")), str(POINTS), *NAMES]
    environment = {**os.environ, "NO_COLOR": "1"}
    ran = subprocess.run(made, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_that_is_ended_killed_refused_or_started_eight_times_loses_nothing(tortured: Told, name: str) -> None:
    done = tortured[name]

    assert "found" not in done, done["found"]
    assert done["calls"]["faults"] >= POINTS - 2
    assert [promise for promise, tally in done.items() if not tally["faults"]] == []
    assert sum(tally["acknowledged"] for tally in done.values()) >= POINTS
