"""Every command and every block of code in the documentation runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny

ROOT = Path(tiny.__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_BY_CI = ("make ", "python3.12 -m venv", "pip install")
"""Set-up commands: the gate runs them in a fresh clone, where they belong."""


def blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall(page.read_text("utf-8")) if found == language]


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "bash") for line in block.replace("\\\n", "").splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if line.strip() and not line.startswith(("#", *RUN_BY_CI))]


PYTHON_PAGES = [page for page in PAGES if page.exists() and blocks(page, "python")]
COMMANDS = sorted({command for page in PAGES if page.exists() for command in commands(page)})


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    code = "\n\n".join(blocks(page, "python"))
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documentation_runs(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_file_that_is_said_to_hold_a_promise_is_there() -> None:
    table, _, _ = (ROOT / "docs" / "reliability.md").read_text("utf-8").partition("\n## ")
    named = re.findall(r"`(tests/[^`]+)`", table)

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_link_to_a_section_leads_to_its_heading() -> None:
    wrong: list[str] = []
    for page in PAGES:
        for target, section in re.findall(r"\]\(([^)#:]*)#([^)=]+)\)", page.read_text("utf-8")):
            there = ((page.parent / target) if target else page).read_text("utf-8")
            headings = re.findall(r"^#+ (.*)$", there, re.MULTILINE)
            if section not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
                wrong.append(f"{page.name}: {target}#{section}")

    assert wrong == []


def test_the_weights_in_the_readme_are_those_of_the_code() -> None:
    from gradient_rl.rewards.profile import RewardProfile

    weights = RewardProfile().weights
    line = f"reward = {weights['correctness']:.2f} correctness + {weights['citation_quality']:.2f} citation quality + {weights['efficiency']:.2f} efficiency"

    assert line in (ROOT / "README.md").read_text("utf-8")
