"""An evaluation as text: verdict first, figures beside it, and other people's text as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradient_rl.report.evaluation import evidence_sentence, headline, markdown, print_evaluation, verdict_sentence
from gradient_rl.schema.evaluation import Attempt, ComparisonResult, Evaluation, Measured, Metric, PolicyResult, TaskResult

METRIC = Metric(mean=0.25, low=0.125, high=0.375)
MEASURED = Measured(n_tasks=2, n_episodes=2, excluded=0, metrics={"reward": METRIC})
COMPARISON = ComparisonResult(
    baseline="old",
    candidate="new",
    metric="reward",
    n_tasks=20,
    unpaired=0,
    difference=0.25,
    low=0.125,
    high=0.375,
    p_value=0.0123,
    better=12,
    same=6,
    worse=2,
    detectable_difference=0.2,
    verdict="better",
    note="",
    tasks_needed={"0.05": 310, "0.1": None},
)


def attempt(reward: float | None, answer: str | None = "an answer", **more: object) -> Attempt:
    fields = {
        "rewards": (reward,),
        "reward": reward,
        "answer": answer,
        "sources": ("doc-1",),
        "stop_reason": "submitted",
        "error": None,
    }
    return Attempt.model_validate({**fields, **more})


def task(task_id: str, old: Attempt, new: Attempt, question: str = "How much notice?") -> TaskResult:
    policies = {"old": old, "new": new}
    return TaskResult(id=task_id, family="two_hops", question=question, expected="60 days.", policies=policies)


def policy(**more: object) -> PolicyResult:
    fields = {**MEASURED.model_dump(), "families": {"two_hops": MEASURED.model_dump()}, "behaviours": {}}
    return PolicyResult.model_validate({**fields, **more})


def evaluation(**more: object) -> Evaluation:
    fields = {
        "run_id": "c0ffee",
        "split": "heldout",
        "samples": 1,
        "temperature": 0.0,
        "seed": 7,
        "baseline": "old",
        "digests": {"config": "a" * 64},
        "weights": {"correctness": 0.5, "citation_quality": 0.3, "efficiency": 0.2},
        "require_opened": True,
        "versions": {"python": "3.12"},
        "policies": {"old": policy(), "new": policy()},
        "comparisons": (COMPARISON,),
        "tasks": (task("held-1", attempt(0.0), attempt(1.0)), task("held-2", attempt(0.5), attempt(0.5))),
    }
    return Evaluation.model_validate({**fields, **more})


def printed(shown: Evaluation, width: int = 110) -> str:
    out = io.StringIO()
    print_evaluation(Console(file=out, width=width, highlight=False, markup=False, emoji=False), shown)
    return out.getvalue()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "new is better than old."),
        ({"verdict": "worse"}, "new is worse than old."),
        ({"metric": "reward_as_saved"}, "new is better than old on reward as saved."),
        ({"verdict": "inconclusive", "note": "it holds 0"}, "new against old: inconclusive, because it holds 0."),
        ({"verdict": None, "note": "no verdict: 2 failed"}, "new against old: no verdict: 2 failed."),
    ],
)
def test_a_verdict_is_a_sentence(changes: dict[str, object], sentence: str) -> None:
    assert verdict_sentence(COMPARISON.model_copy(update=changes)) == sentence


def test_the_evidence_is_always_given_whole() -> None:
    assert evidence_sentence(COMPARISON) == (
        "reward +0.250 [+0.125, +0.375]; sign-flip p 0.0123; 12 tasks better, 6 the same, 2 worse; "
        "20 tasks of this spread can detect 0.200."
    )


def test_what_is_missing_is_a_dash_and_what_was_left_out_is_said() -> None:
    missing = dict.fromkeys(("difference", "low", "high", "p_value", "detectable_difference"))
    bare = COMPARISON.model_copy(update={**missing, "unpaired": 3, "n_tasks": 0, "better": 0, "same": 0, "worse": 0})

    assert evidence_sentence(bare) == (
        "reward -; sign-flip p -; 0 tasks better, 0 the same, 0 worse; 3 tasks left out, for which only one side has a reward."
    )


def test_a_very_small_p_value_is_given_as_a_bound() -> None:
    assert "sign-flip p < 0.0001;" in evidence_sentence(COMPARISON.model_copy(update={"p_value": 0.00002}))


def test_a_note_on_a_winner_is_not_lost() -> None:
    noted = COMPARISON.model_copy(update={"note": "all 20 tasks have the same value"})

    assert evidence_sentence(noted).endswith("; all 20 tasks have the same value.")


def test_the_page_begins_with_the_verdict() -> None:
    assert markdown(evaluation()).startswith("# Evaluation\n\n**new is better than old.** reward +0.250")


def test_the_page_holds_the_figures_and_what_would_tell_more() -> None:
    page = markdown(evaluation())

    assert r"| reward | 0.250 \[0.125, 0.375\] | 0.250 \[0.125, 0.375\] |" in page
    assert "| two hops | 0.250 (2 tasks) | 0.250 (2 tasks) |" in page
    assert "| new against old | 310 | - |" in page
    assert "- reward: 0.5 correctness + 0.3 citation quality + 0.2 efficiency" in page


def test_the_tasks_that_moved_most_come_first_with_both_answers() -> None:
    moved = [task(f"held-{n}", attempt(0.5, "old words"), attempt(0.5 + gain, "new words")) for n, gain in enumerate(GAINS)]
    page = markdown(evaluation(tasks=moved))
    titles = [line for line in page.splitlines() if line.startswith("### ")]

    assert titles == [
        "### held-2: -0.500",
        "### held-4: +0.400",
        "### held-1: +0.300",
        "### held-5: -0.200",
        "### held-3: +0.100",
    ]
    assert "| answer | old words | new words |" in page


GAINS = (0.05, 0.3, -0.5, 0.1, 0.4, -0.2)


def test_a_task_without_a_reward_on_one_side_has_not_moved() -> None:
    page = markdown(evaluation(tasks=(task("held-1", attempt(None), attempt(1.0)),)))

    assert "None of them moved." in page


def test_an_episode_without_an_answer_says_why_and_a_long_answer_is_cut() -> None:
    cut = attempt(1.0, "x" * 700)
    page = markdown(evaluation(tasks=(task("held-1", attempt(0.0, None, stop_reason="call_limit"), cut),)))

    assert "no answer: call" in page
    assert f"{'x' * 600} (100 more characters)" in page


def test_behaviours_are_shown_when_someone_did_them() -> None:
    seen = {"repeated_query": {"episodes": 1, "share": 0.5, "reward": 0.25}}
    none = {"repeated_query": {"episodes": 0, "share": 0.0, "reward": None}}
    page = markdown(evaluation(policies={"old": policy(behaviours=seen), "new": policy(behaviours=none)}))

    assert "| repeated query | 50%, earning 0.250 | 0% |" in page
    assert "None was seen." in markdown(evaluation())


def test_a_family_that_a_policy_did_not_play_is_a_dash() -> None:
    page = markdown(evaluation(policies={"old": policy(), "new": policy(families={})}))

    assert "| two hops | 0.250 (2 tasks) | - |" in page


def test_one_policy_alone_has_a_page_too() -> None:
    page = markdown(evaluation(policies={"old": policy()}, comparisons=()))

    assert "there is nothing to compare it with" in page


def test_other_peoples_text_brings_no_markup_and_no_control_codes() -> None:
    hostile = "a|b\n# <script>alert(1)</script> [x](javascript:y) ![i](http://z) `q` \x1b[31m\u202e*bold*"
    page = markdown(evaluation(tasks=(task("held-1", attempt(0.0, hostile), attempt(1.0, hostile), question=hostile),)))

    assert "\x1b" not in page
    assert "\u202e" not in page
    assert r"a\|b \# \<script\>alert(1)\</script\> \[x\](javascript:y) \!\[i\](http://z) \`q\` \[31m\*bold\*" in page


def test_the_headline_counts_what_has_no_reward() -> None:
    assert headline(evaluation()) == "2 held-out tasks, 1 sample each, seed 7, 4 episodes"
    assert headline(evaluation(policies={"old": policy(excluded=1)})).endswith("1 of 2 episodes without a reward")
    assert "saved trajectories scored again" in headline(evaluation(rescored=True, seed=None))


def test_the_terminal_shows_metrics_families_and_the_verdict() -> None:
    shown = printed(evaluation()).splitlines()

    assert shown[0] == "2 held-out tasks, 1 sample each, seed 7, 4 episodes"
    assert any(line.split() == ["reward", "0.250", "[0.125,", "0.375]", "0.250", "[0.125,", "0.375]"] for line in shown)
    assert any(line.split() == ["two", "hops", "0.250", "(2", "tasks)", "0.250", "(2", "tasks)"] for line in shown)
    assert "new is better than old." in shown


@pytest.mark.parametrize("width", [30, 60, 200])
def test_a_terminal_of_any_width_shows_every_figure(width: int) -> None:
    assert "0.250" in printed(evaluation(), width)


def test_a_hostile_policy_name_reaches_the_terminal_as_plain_text() -> None:
    name = "chat@\x1b[31m[bold]x[/bold]"
    shown = printed(evaluation(policies={"old": policy(), name: policy()}))

    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown
