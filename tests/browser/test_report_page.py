"""The report as people use it: in a browser, with a mouse, a keyboard, a telephone, a screen reader, a printer."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from gradient_rl.report.html.data import Material
from gradient_rl.report.html.page import document
from gradient_rl.report.html.palette import DARK, LIGHT
from tests.browser import pages
from tests.browser.conftest import Open

ALL = [f"task-{number:02}" for number in range(1, 7)]
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


def listed(page: Page) -> list[str]:
    return page.locator("#table tbody tr:visible a").all_inner_texts()


def opened(page: Page) -> str:
    return page.locator("#detail .bar-top strong").inner_text()


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_it_opens_with_the_verdict_and_the_paired_comparison(visit: Open, six: Path) -> None:
    page = visit(six)

    assert page.locator("h1").inner_text().startswith("strong against weak: inconclusive, because ")
    assert page.locator(".whisker .badge").inner_text() == "◆ inconclusive"
    assert page.locator(".whisker .big").inner_text() == "+0.500"
    assert "6 tasks, 1 sample each: 4 better, 1 the same, 1 worse." in page.locator(".whisker p").inner_text()


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("all", ALL),
        ("failing", ["task-05", "task-06"]),
        ("regressed", ["task-05"]),
        ("improved", ALL[:4]),
        ("malformed", ["task-06"]),
    ],
)
def test_a_kind_shows_its_tasks_and_says_how_many(visit: Open, six: Path, kind: str, rows: list[str]) -> None:
    page = visit(six)
    button = page.locator(f"[data-kind={kind}]")
    button.click()

    assert listed(page) == rows
    assert button.get_attribute("aria-pressed") == "true"
    assert button.inner_text().split() == [kind, str(len(rows))]
    expect(page.locator("#count")).to_have_text(f"{len(rows)} of 6 tasks")


def test_filters_compose_and_are_cleared_together(visit: Open, six: Path) -> None:
    page = visit(six)
    page.locator("#behaviour").select_option("repeated_query")
    page.locator("#family").select_option("superseded")
    found = listed(page)
    page.get_by_label("Text in id").fill("FORTNIGHT")
    by_answer = listed(page)
    page.get_by_label("Text in id").fill("nowhere")
    none = page.locator("#nothing").inner_text()
    page.get_by_role("button", name="Clear the filters").click()

    assert found == ["task-01", "task-03", "task-04", "task-05", "task-06"]
    assert by_answer == ["task-05"]
    assert none.startswith("No task fits.")
    assert listed(page) == ALL
    assert page.locator("#family").input_value() == ""


def test_a_column_sorts_up_and_down_and_says_so(visit: Open, six: Path) -> None:
    page = visit(six)
    header = page.get_by_role("columnheader", name="change")
    header.get_by_role("button").click()
    up = listed(page), header.get_attribute("aria-sort")
    header.get_by_role("button").click()

    assert up == (["task-05", "task-06", *ALL[:4]], "ascending")
    assert (listed(page), header.get_attribute("aria-sort")) == ([*ALL[:4], "task-06", "task-05"], "descending")
    page.get_by_role("columnheader", name="family").get_by_role("button").click()
    assert listed(page)[0] == "task-02"
    assert header.get_attribute("aria-sort") == "none"


def test_two_policies_stand_side_by_side_aligned_by_step(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    rows = page.locator("#detail .row")

    assert page.locator("#detail .side header strong").all_inner_texts() == ["weak", "strong"]
    assert rows.count() == 3
    assert "same" in (rows.nth(0).get_attribute("class") or "")
    assert page.locator("#detail .row.first .mark-first").inner_text() == "first divergence"
    assert "doc-4" in rows.nth(1).locator(".cell").nth(0).inner_text()
    assert "✓ mail-1" in rows.nth(1).locator(".cell").nth(1).inner_text()
    assert page.locator("#detail .side .big").all_inner_texts() == ["0.00", "1.00"]
    assert "the answer does not state 60 days" in page.locator("#detail .side").nth(0).locator(".parts").inner_text()
    assert [
        cell.locator("span:not(.vh)").evaluate_all("spans => spans.map(e => e.firstChild.textContent)")
        for cell in page.locator("#detail .ticks").all()
    ] == [["✓ found", "✗ read", "✗ cited"], ["✓ found", "✓ read", "✓ cited"]]


def test_the_same_call_with_another_answer_is_a_divergence(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1)
    steps = [pages.searched("notice bakery", "mail-1"), pages.submitted("60 days", "mail-1")]
    page = visit(pages.report(tmp_path, [about], [pages.wrong(about), pages.right(about, steps=steps)]))

    assert "first" in (page.locator("#detail .row").nth(0).get_attribute("class") or "")
    assert page.locator("#detail .row").nth(0).locator(".call").count() == 2


def test_equal_episodes_have_no_divergence(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1)
    page = visit(pages.report(tmp_path, [about], [pages.right(about, policy="weak"), pages.right(about)]))

    assert page.locator("#detail .mark-first").count() == 0
    assert page.locator("#detail .row.same").count() == 3


def test_what_a_search_saw_can_be_unfolded(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    page.locator("#detail .cell details summary").first.click()

    assert "notice is 60 days" in page.locator("#detail .hits").first.inner_text()


def test_another_pair_changes_the_table_and_the_task(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-05")
    page.locator("#a").select_option("strong")
    page.locator("#b").select_option("weak")

    assert page.locator("#detail .side header strong").all_inner_texts() == ["strong", "weak"]
    assert page.locator("#table tbody tr", has_text="task-05").locator("td.change").inner_text() == "▲ +1.00"
    assert page.url.endswith("#task=task-05&a=strong&b=weak")


def test_an_id_opens_its_record_and_escape_returns(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    chip = page.locator("#detail .row button.chip", has_text="mail-1").first
    chip.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Birch Bakery amendment")

    expect(dialog).to_be_visible()
    assert "notice under K-100 is 60 days" in dialog.inner_text()
    assert "Tom Reilly <tom.reilly@firm.example>" in dialog.inner_text()
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(chip).to_be_focused()
    assert opened(page) == "task-01"


def test_the_keys_step_through_what_is_filtered(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    page.locator("[data-kind=failing]").click()
    seen = []
    for key in ("n", "n", "p", "n", "p"):
        page.keyboard.press(key)
        seen.append(opened(page))

    assert seen == ["task-05", "task-06", "task-05", "task-06", "task-05"]
    expect(page.locator("#place")).to_have_text("1 of 2")


@pytest.mark.parametrize(
    ("key", "at", "said"), [("n", "task-06", "task-06 is the last of 6"), ("p", "task-01", "task-01 is the first of 6")]
)
def test_a_key_at_the_end_says_that_it_is_the_end(visit: Open, six: Path, key: str, at: str, said: str) -> None:
    page = visit(six, f"#task={at}")
    for _ in range(2):
        page.keyboard.press(key)
        expect(page.locator("#said[aria-live]")).to_have_text(said)

    assert opened(page) == at
    expect(page.locator("#place")).to_have_text(said)


def test_a_slash_goes_to_the_text_and_keys_are_letters_there(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    page.keyboard.press("/")
    page.keyboard.type("n baker")

    assert page.get_by_label("Text in id").input_value() == "n baker"
    assert opened(page) == "task-01"


def test_a_link_leads_to_one_task_and_two_policies(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-03&a=strong&b=weak")

    assert opened(page) == "task-03"
    assert (page.locator("#a").input_value(), page.locator("#b").input_value()) == ("strong", "weak")
    expect(page.locator("#detail-title")).to_be_focused()
    expect(page.locator("#detail-title")).to_be_in_viewport()
    page.evaluate("location.hash = 'task=task-02'")
    expect(page.locator("#detail .bar-top strong")).to_have_text("task-02")


@pytest.mark.parametrize(
    ("fragment", "task", "missed"),
    [
        ("#task=zzz", "task-01", "On this page there is no task zzz."),
        ("#task=task-03&a=nobody", "task-03", "On this page there is no policy nobody."),
        ("#task=zzz&a=weak&b=none", "task-01", "On this page there is no task zzz and no policy none."),
        ("#%E0%A4%A", "task-01", ""),
        ("#__proto__=1&task=__proto__", "task-01", "On this page there is no task __proto__."),
    ],
)
def test_a_link_to_what_is_not_there_opens_the_page_and_says_so(
    visit: Open, six: Path, fragment: str, task: str, missed: str
) -> None:
    page = visit(six, fragment)

    assert opened(page) == task
    expect(page.locator("#missed")).to_have_text(missed)
    expect(page.locator("#missed")).to_be_visible(visible=bool(missed))
    assert not missed or page.locator("#missed").evaluate("e => e.getBoundingClientRect().top < innerHeight")
    page.evaluate("location.hash = 'task=task-02'")
    expect(page.locator("#missed")).to_be_hidden()
    assert opened(page) == "task-02"


def test_it_opens_on_the_first_task_whichever_moved_most(visit: Open, tmp_path: Path) -> None:
    tasks = [pages.task(number) for number in (1, 2, 3)]
    played = (
        [pages.right(t, policy="weak") for t in tasks]
        + [pages.right(t) for t in tasks[:2]]
        + [pages.wrong(tasks[2], policy="strong")]
    )
    page = visit(pages.report(tmp_path, tasks, played))

    assert opened(page) == "task-01"
    expect(page.locator("#place")).to_have_text("1 of 3")


@pytest.mark.parametrize(
    ("text", "rows"),
    [("DOC-4", ["task-01", "task-02", "task-03", "task-04", "task-05", "task-06"]), ("mail-1", ALL), ("mail-9", ["task-06"])],
)
def test_the_text_finds_records_that_are_required_or_cited(visit: Open, tmp_path: Path, text: str, rows: list[str]) -> None:
    tasks, trajectories = pages.six()
    cited = trajectories[-2].model_copy(update={"sources": ("mail-9", "doc-4")})
    page = visit(pages.report(tmp_path, tasks, [*trajectories[:-2], cited, trajectories[-1]]))
    page.get_by_label("Text in id").fill(text)

    assert listed(page) == rows


def test_one_policy_is_compared_with_nothing(visit: Open, tmp_path: Path) -> None:
    tasks = [pages.task(1), pages.task(2)]
    page = visit(pages.report(tmp_path, tasks, map(pages.right, tasks)))

    expect(page.locator(".pair")).to_be_hidden()
    assert page.locator("[data-kind]").evaluate_all("all => all.map(e => e.dataset.kind)") == ["all", "failing", "malformed"]
    expect(page.get_by_text("next task")).to_be_visible()


def test_a_row_opens_its_task(visit: Open, six: Path) -> None:
    page = visit(six)
    page.locator("#table tbody tr", has_text="task-04").click()

    assert opened(page) == "task-04"
    expect(page.locator("#detail-title")).to_be_in_viewport()
    assert page.url.endswith("#task=task-04&a=weak&b=strong")


def test_it_is_dark_where_the_system_is_and_can_be_switched(visit: Open, six: Path) -> None:
    page = visit(six, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="light colours").click()

    assert dark == rgb(DARK["ground"])
    assert page.evaluate(ground) == rgb(LIGHT["ground"])
    page.reload()
    assert page.evaluate(ground) == rgb(LIGHT["ground"])


CONTRAST = """element => {
  const parse = colour => { const found = colour.match(/[\\d.]+/g).map(Number); return found.length < 4 ? [...found, 1] : found; };
  const over = (top, below, by) => below.map((value, place) => top[place] * by + value * (1 - by));
  const light = colour => colour.slice(0, 3).map(value => value / 255)
    .map(value => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4)
    .reduce((sum, value, place) => sum + value * [.2126, .7152, .0722][place], 0);
  const chain = [];
  for (let each = element; each; each = each.parentElement) chain.push(each);
  let ground = [255, 255, 255];
  for (const each of chain.reverse()) { const [r, g, b, a] = parse(getComputedStyle(each).backgroundColor); ground = over([r, g, b], ground, a); }
  const opacity = chain.reduce((all, each) => all * getComputedStyle(each).opacity, 1);
  const [first, second] = [over(parse(getComputedStyle(element).color), ground, opacity), ground].map(light).sort((a, b) => b - a);
  return (first + .05) / (second + .05);
}"""


def poor(page: Page, control: Locator) -> list[tuple[str, str, float]]:
    """What of a control has less than 4.5 : 1 at rest, under the mouse, and in focus."""
    found: list[tuple[str, str, float]] = []
    page.mouse.move(0, 0)
    for state, act in (("rest", lambda: None), ("hover", control.hover), ("both", control.focus)):
        act()
        ratios = [(each.inner_text(), each.evaluate(CONTRAST)) for each in (control, *control.locator("span:not(.vh)").all())]
        found += [(state, text, round(ratio, 2)) for text, ratio in ratios if ratio < 4.5]
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_control_can_be_read_at_rest_under_the_mouse_and_in_focus(visit: Open, six: Path, scheme: str) -> None:
    page = visit(six, "#task=task-02", color_scheme=scheme)
    rest = "#theme, #a, #family, nav a, #next, #table th button, #detail .known .chip, #detail .side .chip, summary"
    controls = page.locator(":is(.kinds button, " + rest + "):visible").all()

    assert [fault for control in controls for fault in poor(page, control)] == []


def test_a_hostile_record_answer_and_policy_fire_nothing(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1, question=pages.HOSTILE)
    steps = [
        pages.searched(pages.HOSTILE, "doc-evil"),
        pages.opening("doc-evil"),
        pages.submitted(pages.HOSTILE, pages.HOSTILE),
    ]
    steps[0] = steps[0].model_copy(update={"observation": pages.HOSTILE})
    evil = pages.right(about, policy=pages.HOSTILE, answer=pages.HOSTILE, sources=(pages.HOSTILE, "doc-evil"), steps=steps)
    page = visit(
        pages.report(
            tmp_path,
            [about, pages.task(2)],
            [pages.wrong(about), evil, pages.wrong(pages.task(2)), pages.right(pages.task(2), policy=pages.HOSTILE)],
        ),
        "#task=task-01",
    )
    page.locator("#detail details summary").last.click()
    page.locator("#detail .row button.chip", has_text="doc-evil").first.click()
    page.wait_for_timeout(100)

    expect(page.get_by_role("dialog")).to_contain_text("{{ 7*7 }}")
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate("window.fired") is None
    assert page.locator("svg[onload], img, iframe, a[href^=javascript], style:not(head style)").count() == 0
    assert not set(page.content()) & set("\x1b\u202e\u202c")


def test_a_telephone_shows_it_without_scrolling_sideways(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01", width=360)
    columns = page.evaluate(
        "new Set([...document.querySelectorAll('#detail .side')].map(e => e.getBoundingClientRect().left)).size"
    )

    assert page.evaluate(OVERFLOW) <= 0
    assert columns == 1
    page.locator("#detail button.chip").first.click()
    assert page.evaluate(OVERFLOW) <= 0


FOUR = ("weak", "heuristic", "linear@0", "linear@9")


@pytest.fixture
def four(tmp_path: Path) -> Path:
    question = (
        "Which of the two spare freezers did the baker lend to the customer in March, and on what date was it collected again?"
    )
    tasks = [pages.task(number, question=question) for number in range(1, 9)]
    return pages.report(tmp_path, tasks, [pages.right(t, policy=name) for t in tasks for name in FOUR])


def test_a_question_beside_four_policies_is_whole(visit: Open, four: Path) -> None:
    page = visit(four, width=800)
    question = page.locator("#table .question").first

    assert question.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert question.evaluate("e => e.clientWidth") > 180
    assert page.locator("#list").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert page.evaluate(OVERFLOW) <= 0


def test_a_telephone_shows_the_whole_names_of_the_pair(visit: Open, four: Path) -> None:
    page = visit(four, width=360)
    room = page.locator("#a").evaluate(
        """e => { const pen = document.createElement("canvas").getContext("2d"), style = getComputedStyle(e);
        pen.font = `${style.fontSize} ${style.fontFamily}`; return e.clientWidth - parseFloat(style.paddingLeft) - 24 - pen.measureText("linear@0").width; }"""
    )

    assert room > 0


def test_steps_that_are_left_out_are_said_where_they_would_be(visit: Open, tmp_path: Path) -> None:
    task = pages.task(1)
    material = Material("Evaluation", [("weak", pages.wrong(task)), ("strong", pages.right(task))], {task.id: task}, None)
    (tmp_path / "small.html").write_bytes(document(material, 10))
    page = visit(tmp_path / "small.html")

    expect(page.locator("#detail .side").first).to_contain_text("Its steps are left out, to keep this page small.")
    expect(page.locator("#detail .side").first).to_contain_text("doc-4")
    expect(page.locator("#detail .side").first).to_contain_text("30 days")


def test_without_javascript_the_result_the_table_and_a_word_about_it_are_there(visit: Open, six: Path) -> None:
    page = visit(six, java_script_enabled=False)

    expect(page.locator("h1")).to_contain_text("strong against weak")
    assert listed(page) == ALL
    assert "Without JavaScript" in (page.locator("noscript").text_content() or "")
    expect(page.locator("#filters")).to_be_hidden()


def test_on_paper_there_are_no_controls_and_the_whole_table(visit: Open, six: Path) -> None:
    page = visit(six, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")

    expect(page.locator("#filters")).to_be_hidden()
    page.set_viewport_size({"width": 760, "height": 1000})
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate("getComputedStyle(document.querySelector('#list')).maxHeight") == "none"
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--surface')") == LIGHT["surface"]


def test_every_control_has_a_name_and_every_heading_its_level(visit: Open, six: Path) -> None:
    page = visit(six, "#task=task-01")
    names = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, [role=region], [role=img]')].filter(e => e.checkVisibility())
        .map(e => (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent).trim())"""
    )
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].filter(e => e.checkVisibility()).map(e => +e.tagName[1])"
    )

    assert all(names)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("main, header.top, footer, nav").count() == 4
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_no_task_says_what_to_run(visit: Open, tmp_path: Path) -> None:
    (tmp_path / "empty.html").write_bytes(document(Material("Trajectories", (), {}, None)))
    page = visit(tmp_path / "empty.html")

    expect(page.locator("#tasks")).to_contain_text("Run gradient-eval")
    assert page.evaluate(OVERFLOW) <= 0


def test_one_task_is_shown_at_once_without_a_table(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1)
    page = visit(pages.report(tmp_path, [about], [pages.wrong(about), pages.right(about)]))

    page.keyboard.press("n")
    assert opened(page) == "task-01"
    expect(page.locator("#list")).to_be_hidden()
    expect(page.locator("#filters")).to_be_hidden()
    expect(page.get_by_text("next task")).to_be_hidden()
    expect(page.get_by_text("close a record")).to_be_visible()


def test_samples_are_chosen_one_by_one(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1)
    page = visit(pages.report(tmp_path, [about], [pages.wrong(about, sample=0), pages.right(about, policy="weak", sample=1)]))
    choice = page.get_by_label("Sample of weak")

    expect(page.locator("#detail .side .big")).to_have_text("0.00")
    choice.select_option("sample 2: 1.00")
    expect(page.locator("#detail .side .big")).to_have_text("1.00")
    expect(page.locator("#detail")).to_contain_text("mean of 2: 0.50")


def test_two_hundred_tasks_are_filtered_and_stepped_through(visit: Open, tmp_path: Path) -> None:
    tasks = [pages.task(number) for number in range(1, 201)]
    trajectories = [each for about in tasks for each in (pages.wrong(about), pages.right(about))]
    page = visit(pages.report(tmp_path, tasks, trajectories), "#task=task-200")

    expect(page.locator("#place")).to_have_text("200 of 200")
    page.get_by_label("Text in id").fill("task-19")
    assert page.locator("#table tbody tr:visible").count() == 11
    assert page.evaluate(OVERFLOW) <= 0


def test_records_of_another_version_are_said_to_be_missing(visit: Open, tmp_path: Path) -> None:
    about = pages.task(1)
    page = visit(pages.report(tmp_path, [about], [pages.right(about)], workspace="0123456789abcdef"))

    expect(page.locator(".notices")).to_contain_text("another version of the records (digest 0123456789ab)")
    assert page.locator("#detail span.chip", has_text="mail-1").count() > 0
    assert page.locator("#detail button.chip").count() == 0
    assert page.locator("#detail details").count() == 2


def test_the_default_evaluation_is_small_and_opens_at_once(visit: Open, tmp_path: Path) -> None:
    code = "from gradient_rl.cli.evaluate import main; main()"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    file = tmp_path / "artifacts" / "eval.html"
    took = "performance.getEntriesByType('navigation')[0].loadEventEnd"

    assert file.stat().st_size < 1_500_000
    assert min(visit(file).evaluate(took) for _ in range(3)) < 300
    assert visit(file, width=360).evaluate(OVERFLOW) <= 0
