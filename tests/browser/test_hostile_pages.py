"""Pages that the commands themselves write of hostile data, opened in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.cli.running import run
from tests.untrusted.hostile import FORBIDDEN, hostile_data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    data = ["--data", str(hostile_data(folder / "data")), "--artifacts", str(folder)]
    small = ["--max-steps", "1", "--group-size", "2", "--tasks-per-step", "2"]
    commands = (("demo", "--task", "t-4"), ("evaluate",), ("train", *small))
    assert [run(*command, *data, cwd=folder).returncode for command in commands] == [0, 0, 0]
    return folder


def fired(page: Page) -> list[object]:
    """What has run, and what stands there that could."""
    there = page.locator("svg[onload], img, iframe, a[href^=javascript], a[href^=http], style:not(head style)").count()
    return [page.evaluate("window.fired"), there, set(page.content()) & FORBIDDEN]


@pytest.mark.parametrize("name", ["demo", "eval", "train"])
def test_a_page_of_hostile_data_fires_nothing(visit: Open, written: Path, name: str) -> None:
    page = visit(written / f"{name}.html", "#task=t-4")
    for summary in page.locator("summary:visible").all():
        summary.click()
    page.wait_for_timeout(100)

    expect(page.locator("body")).to_contain_text("{{7*7}}" if name != "train" else "reward")
    assert fired(page) == [None, 0, set()]
