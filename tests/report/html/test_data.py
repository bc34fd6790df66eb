from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from gradient_rl.report.html.data import Material, data_of, page_of
from gradient_rl.report.html.room import fitting, is_lost, is_slim
from gradient_rl.report.html.saved import Played
from gradient_rl.report.html.views import TaskView
from gradient_rl.schema.task import Task
from gradient_rl.schema.training import StepMetrics
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.browser import pages
from tests.tiny import tiny_workspace


def material(trajectories: Sequence[Trajectory], tasks: Sequence[Task], **more: object) -> Material:
    played: list[Played] = [(each.policy, each) for each in trajectories]
    return Material("Trajectories", played, {task.id: task for task in tasks}, tiny_workspace(), **more)


def six() -> Material:
    tasks, trajectories = pages.six()
    return material(trajectories, tasks)


def test_saved_rewards_are_compared_task_by_task() -> None:
    page = page_of(six())
    only = page.whiskers.rows[0].comparison

    assert page.policies == ("weak", "strong")
    assert (only.better, only.same, only.worse, only.n_tasks) == (4, 1, 1, 6)
    assert only.difference == pytest.approx(0.5)
    assert page.tone == "doubt"


def test_the_interval_lies_on_a_scale_around_zero() -> None:
    row = page_of(six()).whiskers.rows[0]

    assert row.low is not None
    assert row.middle is not None
    assert row.high is not None
    assert row.low < 200 < row.middle < row.high
    assert row.middle - row.low == pytest.approx(row.high - row.middle, abs=0.2)


def test_one_task_is_not_compared_and_opens_with_the_sentence() -> None:
    about = pages.task(1)
    page = page_of(material([pages.wrong(about), pages.right(about)], [about], sentence="weak never opened mail-1"))

    assert page.whiskers.rows == ()
    assert page.lead == "weak never opened mail-1"
    assert page.tone == ""


def test_a_learned_policy_against_what_it_was_leads() -> None:
    tasks = [pages.task(number) for number in range(1, 9)]
    names = ("weak", "linear@0", "linear@9")
    played = [(name, (pages.right if name == "linear@9" else pages.wrong)(task)) for task in tasks for name in names]
    page = page_of(Material("Evaluation", played, {}, None))

    assert [(row.comparison.baseline, row.comparison.candidate) for row in page.whiskers.rows] == [
        ("weak", "linear@0"),
        ("weak", "linear@9"),
        ("linear@0", "linear@9"),
    ]
    assert page.pair == ("linear@0", "linear@9")
    assert page.lead == "linear@9 is better than linear@0."
    assert page.tone == "better"


def test_what_was_found_read_and_cited_is_told_by_slot() -> None:
    about = pages.task(1)
    [task] = page_of(material([pages.wrong(about), pages.right(about)], [about])).tasks
    weak, strong = (task.runs[name].episodes[0] for name in ("weak", "strong"))

    assert (weak.found, weak.read, weak.cited) == ((0,), (), ())
    assert (strong.found, strong.read, strong.cited) == ((0,), (0,), (0,))


def test_only_lost_points_have_their_reasons() -> None:
    about = pages.task(1)
    reasons = ["task-01-f1: stated", "mail-1 is not cited"]
    half, whole = (
        pages.right(about, reward=pages.scored(0.5, 1, reasons)),
        pages.right(about, policy="whole", reward=pages.scored(1, 1, reasons)),
    )
    [task] = page_of(material([half, whole], [about])).tasks

    assert [part.lost for part in task.runs["strong"].episodes[0].parts] == [
        ("mail-1 is not cited",),
        (),
        ("mail-1 is not cited",),
    ]
    assert [part.lost for part in task.runs["whole"].episodes[0].parts] == [(), (), ()]


def test_the_records_of_the_page_are_those_that_were_seen_cited_or_are_required() -> None:
    about = pages.task(1)
    page = page_of(material([pages.wrong(about)], [about]))

    assert set(page.records) == {"mail-1", "doc-4"}
    assert page.records["mail-1"].lines == (
        ("from", "Anna Berg <anna.berg@firm.example>"),
        ("to", "Tom Reilly <tom.reilly@firm.example>"),
    )
    assert page.records["doc-4"].lines == (("author", "Tom Reilly"), ("status", "final"))


def test_the_text_of_an_opened_record_is_repeated_only_where_the_record_is_not_there() -> None:
    about = pages.task(1)
    held = page_of(material([pages.right(about)], [about])).tasks[0]
    missing = page_of(Material("Trajectories", [("strong", pages.right(about))], {}, None)).tasks[0]

    assert [step.text for step in held.runs["strong"].episodes[0].steps] == [pages.HITS, None, None]
    assert [step.text for step in missing.runs["strong"].episodes[0].steps] == [pages.HITS, "{}", None]


def test_another_version_of_the_records_is_said() -> None:
    page = page_of(Material("Trajectories", [("strong", pages.right(pages.task(1)))], {}, None))

    assert page.records == {}
    assert "another version of the records (digest none)" in page.notices[0]


def test_an_episode_without_a_reward_is_no_zero() -> None:
    about = pages.task(1)
    failed = pages.right(about, reward=None, stop_reason=StopReason.TRANSPORT_ERROR, error="503")
    [task] = page_of(material([pages.wrong(about), failed], [about])).tasks

    assert task.runs["strong"].reward is None
    assert task.difference("weak", "strong") is None
    assert task.runs["strong"].right is False


def test_the_last_attempt_counts() -> None:
    about = pages.task(1)
    failed = pages.right(about, reward=None, stop_reason=StopReason.TRANSPORT_ERROR, error="503")
    [task] = page_of(material([failed, pages.right(about, attempt=1)], [about])).tasks

    assert [episode.total for episode in task.runs["strong"].episodes] == [1.0]


def test_tasks_are_in_the_order_in_which_people_count() -> None:
    tasks = [pages.task(number) for number in (110, 9, 20)]

    assert [task.id for task in page_of(material([pages.right(t) for t in tasks], tasks)).tasks] == [
        "task-09",
        "task-20",
        "task-110",
    ]


def views(count: int) -> tuple[TaskView, ...]:
    """Every tenth one regresses."""
    tasks = [pages.task(number) for number in range(1, count + 1)]
    made = [
        each
        for number, task in enumerate(tasks, start=1)
        for each in (
            (pages.right(task, policy="weak"), pages.wrong(task, policy="strong"))
            if number % 10 == 0
            else (pages.wrong(task), pages.right(task))
        )
    ]
    return page_of(material(made, tasks)).tasks


PAIRS = [("weak", "strong")]


def test_what_fits_is_left_whole() -> None:
    tasks = views(20)

    assert fitting(tasks, PAIRS, 10_000_000) == tasks


def test_a_page_that_grows_too_large_keeps_the_regressions_and_an_even_sample() -> None:
    kept = [int(task.id[5:]) for task in fitting(views(100), PAIRS, 70_000)]

    assert set(range(10, 101, 10)) <= set(kept)
    assert 12 < len(kept) < 60
    assert kept == sorted(kept)
    others = [number for number in kept if number % 10]
    assert abs(sum(number <= 50 for number in others) - len(others) / 2) <= 2


def test_regressions_that_are_too_many_are_kept_without_their_steps_beside_a_sample() -> None:
    every = views(300)
    kept = fitting(every, PAIRS, 70_000)
    lost = [task for task in kept if is_lost(task, PAIRS)]

    assert [int(task.id[5:]) for task in lost] == list(range(10, 301, 10))
    assert 0 < sum(map(is_slim, lost)) < 30
    assert 0 < len(kept) - len(lost) < 20
    assert lost[0].runs["strong"].answer == "30 days"


def test_one_task_is_kept_whatever_its_size() -> None:
    assert [(task.id, is_slim(task)) for task in fitting(views(2), PAIRS, 10)] == [("task-01", True)]


def test_steps_that_are_left_out_are_said() -> None:
    tasks = [pages.task(number) for number in range(1, 31)]
    lost = [e for t in tasks for e in (pages.right(t, policy="weak"), pages.wrong(t, policy="strong"))]
    page = page_of(material(lost, tasks), most_bytes=70_000)

    assert len(page.tasks) == 30
    assert f"Of {sum(map(is_slim, page.tasks))} of them the answers and rewards are here, without the steps." in page.notices[0]


def test_a_very_long_run_has_its_curves_thinned_and_says_so() -> None:
    steps = [StepMetrics(run_id="r", step=n, spread=0.1) for n in range(2500)]
    page = page_of(Material("Training", (), {}, None, steps=steps))

    assert len(page.charts[0].lines[0].points) == 834
    assert page.charts[0].rows[-1] == ("2499", "0.100")
    assert "The curves show 834 of 2,500 steps" in page.notices[0]


def test_tables_have_a_base_before_what_was_trained_from_it() -> None:
    tasks = [pages.task(number) for number in range(1, 9)]
    played = [(name, pages.wrong(task)) for task in tasks for name in ("weak", "heuristic", "linear@9", "linear@0")]

    assert page_of(Material("Evaluation", played, {}, None)).policies == ("weak", "heuristic", "linear@0", "linear@9")


def test_a_split_is_named_in_words() -> None:
    assert page_of(six()).headline == "6 held-out tasks, 12 episodes"


def test_what_is_left_out_is_said_and_the_verdict_is_that_of_all() -> None:
    tasks = [pages.task(number) for number in range(1, 101)]
    page = page_of(material([e for t in tasks for e in (pages.wrong(t), pages.right(t))], tasks), most_bytes=70_000)

    assert f"{len(page.tasks)} of 100 tasks are on this page" in page.notices[0]
    assert page.whiskers.rows[0].comparison.n_tasks == 100


def test_of_very_many_samples_the_first_are_kept_and_the_mean_is_that_of_all() -> None:
    about = pages.task(1)
    page = page_of(
        material([(pages.right if n % 4 else pages.wrong)(about, policy="made", sample=n) for n in range(100)], [about])
    )
    run = page.tasks[0].runs["made"]

    assert (len(run.episodes), run.samples, run.reward) == (64, 100, 0.75)
    assert "first 64 samples" in page.notices[0]


def test_the_data_are_plain_json() -> None:
    data = data_of(page_of(six()))

    assert json.loads(json.dumps(data))["pair"] == ["weak", "strong"]
    assert data["tasks"][0]["runs"]["weak"]["episodes"][0]["steps"][0]["arguments"] == {"query": "notice bakery"}
