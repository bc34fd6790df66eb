from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from gradient_rl.report.html.data import Material, Page, page_of
from gradient_rl.report.html.page import document, render, script_json
from tests.browser import pages
from tests.tiny import tiny_workspace


def page_with(question: str = "How much notice?", policy: str = "strong") -> Page:
    about = pages.task(1, question=question)
    played = [("weak", pages.wrong(about)), (policy, pages.right(about, policy=policy))]
    return page_of(Material("Evaluation", played, {about.id: about}, None))


def data_in(html: str) -> dict[str, object]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_json_in_a_script_holds_nothing_that_html_knows_and_reads_back() -> None:
    value = {"</script>": "<!-- & \u2028\u2029 -->"}

    assert not set(script_json(value)) & set("<>&\u2028\u2029")
    assert json.loads(script_json(value)) == value


def test_text_of_records_is_escaped_in_the_template_and_without_control_characters() -> None:
    html = render(page_with(pages.HOSTILE, policy=pages.HOSTILE))

    assert html.count("<script") == 2
    assert html.count("<style") == 1
    assert "<svg onload" not in html
    assert not set(html) & set("\x1b\u202e\u202c")
    assert data_in(html)["tasks"][0]["question"].startswith("</script><script>")


def test_the_policy_allows_the_pages_own_style_and_script_and_nothing_else() -> None:
    html = render(page_with())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    hashes = [
        f"sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}"
        for body in (
            *re.findall(r"<style>(.*?)</style>", html, re.DOTALL),
            *re.findall(r"<script>(.*?)</script>", html, re.DOTALL),
        )
    ]

    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert allowed.startswith("default-src 'none'; ")
    assert [f"'{each}'" in allowed for each in hashes] == [True, True]
    assert "unsafe" not in allowed


def test_nothing_outside_the_file_is_named() -> None:
    html = render(page_with())
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", html)) - {"http://www.w3.org/2000/svg"}

    assert addresses == set()
    assert re.findall(r"""(?:src|href|action)\s*=\s*["'](?!#)""", html) == []
    assert "style=" not in html


def test_the_script_never_writes_html() -> None:
    html = render(page_with())

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(|DOMParser", html)


@pytest.mark.parametrize("lost", [0.1, 0.5])
def test_a_file_is_smaller_than_its_limit_and_fills_it(lost: float) -> None:
    tasks = [pages.task(number, question=f"{number} < & > ü? " * 9) for number in range(1, 401)]
    ordered = (
        (t, (pages.right, pages.wrong) if number < lost * len(tasks) else (pages.wrong, pages.right))
        for number, t in enumerate(tasks)
    )
    played = [
        (name, make(t, policy=name)) for t, makes in ordered for name, make in zip(("weak", "strong"), makes, strict=True)
    ]
    material = Material("Evaluation", played, {t.id: t for t in tasks}, tiny_workspace())
    file = document(material, 600_000)
    kept = data_in(file.decode())["tasks"]

    assert 500_000 < len(file) < 600_000 < len(document(material))
    assert 400 * lost < len(kept) < 400
    assert {t.id for t in tasks[: int(400 * lost)]} <= {task["id"] for task in kept}
    assert "to keep it small: every one on which a candidate lost" in file.decode()


def test_an_observation_that_is_made_twice_is_there_once() -> None:
    data = data_in(render(page_with()))

    assert len(data["texts"]) == 2
    assert data["texts"][0] == pages.HITS
