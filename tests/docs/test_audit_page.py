"""What the page on audits shows is what the command beside it says."""

from __future__ import annotations

from pathlib import Path

from gradient_rl.evaluation.holes import Hole
from tests.cli.running import run
from tests.docs.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "reliability.md"


def test_the_findings_on_the_page_are_those_of_its_command(tmp_path: Path) -> None:
    (code,) = [block for block in blocks(PAGE, "python") if "def thrift" in block]
    (command,) = [block for block in blocks(PAGE, "sh") if "my_rewards:thrift" in block]
    (findings,) = [block for block in blocks(PAGE, "text") if block.startswith("Part efficiency")]
    (tmp_path / "my_rewards.py").write_text(code, "utf-8")
    ran = run("inspect", *command.split()[1:], cwd=tmp_path)

    assert ran.returncode == 3
    assert [line for line in findings.splitlines() if f"      - {line}\n" not in ran.stdout] == []


def test_the_page_has_a_row_for_every_kind_of_hole() -> None:
    page = PAGE.read_text("utf-8")

    assert [hole for hole in Hole if f"\n| `{hole}` |" not in page] == []
