"""The pictures of the README, made anew: `make pictures`. They need chromium; the tests say how it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console

from gradient_rl.environment.workspace import default_data_dir
from gradient_rl.evaluation.demo import play_demo
from gradient_rl.report.terminal import print_side_by_side
from tests.browser.conftest import CHROMIUM, QUIET

PICTURES = Path(__file__).parent.parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 1240, 1560
MOST_BYTES = 300_000


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = "from gradient_rl.cli.evaluate import main; main()"
        subprocess.run([sys.executable, "-c", code, "--artifacts", folder], check=True, stdout=subprocess.DEVNULL)
        photograph(Path(folder) / "eval.html", PICTURES / "report.png")
    (PICTURES / "demo.svg").write_text(demo(), "utf-8")
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")


def photograph(page: Path, picture: Path) -> None:
    """The top of a page, down to the task that gained most."""
    if CHROMIUM is None:
        sys.exit("chromium is not installed; apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.get_by_role("columnheader", name="change").get_by_role("button").dblclick()
        tab.locator("#table tbody a").first.click()
        tab.evaluate("scrollTo(0, 0)")
        tab.screenshot(path=picture)
        browser.close()
    if picture.stat().st_size > MOST_BYTES:
        sys.exit(f"{picture} is larger than {MOST_BYTES / 1000:.0f} kB; make it smaller")


def demo() -> str:
    """What `gradient-demo` prints, as it stands in a terminal of 118 columns; the fonts are the reader's own."""
    console = Console(record=True, width=118, file=StringIO(), force_terminal=True, color_system="truecolor", highlight=False)
    played = play_demo(default_data_dir(), None, 0)
    print_side_by_side(console, played.task, played.trajectories, played.sentence)
    svg = console.export_svg(title="gradient-demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
