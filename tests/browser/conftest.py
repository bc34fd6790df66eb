"""A real browser, and a page that fails its test when it prints, breaks, or asks for anything outside its file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import pages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)

type Open = Callable[..., Page]


@pytest.fixture(scope="package")  # not longer: while it is open, no other test of this process may run an event loop
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        assert "GRADIENT_NEEDS_BROWSER" not in os.environ, "chromium is missing where the gate runs; install it"
        pytest.skip("chromium is not installed; apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open a file in a fresh context; afterwards nothing was printed, nothing broke, and nothing else was asked for."""
    faults: list[str] = []
    contexts = []

    def visited(path: Path, fragment: str = "", width: int = 1280, **options: object) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(3000)
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        address = path.as_uri()
        page.on("request", lambda request: request.url.startswith(address) or faults.append(f"request: {request.url}"))
        context.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
        page.goto(address + fragment)
        return page

    yield visited
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="package")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.report(tmp_path_factory.mktemp("six"), *pages.six())
