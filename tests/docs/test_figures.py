"""Figures of the scripted policies in the documentation are those that the command beside them gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import worlds
from tests.cli.running import run

DECISIONS = Path(worlds.__file__).parent.parent / "docs" / "decisions.md"


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_the_table_of_the_scripted_policies_is_right(split: str, tmp_path: Path) -> None:
    evaluation = json.loads(run("evaluate", "--split", split, "--json", cwd=tmp_path).stdout)
    weak, strong = (evaluation["policies"][name]["metrics"] for name in ("weak", "heuristic"))
    compared = evaluation["comparisons"][0]
    tasks = compared["n_tasks"]
    difference = f"{compared['difference']:+.3f} [{compared['low']:+.3f}, {compared['high']:+.3f}], {compared['verdict']}"
    right = f"{weak['pass@1']['mean'] * tasks:.0f} and {strong['pass@1']['mean'] * tasks:.0f} of {tasks}"

    row = f"| {split} | {weak['reward']['mean']:.3f} | {strong['reward']['mean']:.3f} | {difference} | {right} |"
    assert row in DECISIONS.read_text("utf-8")
