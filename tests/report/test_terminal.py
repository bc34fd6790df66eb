from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradient_rl.report.terminal import bar, print_side_by_side, safe
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.tiny import NOTICE_TASK
from tests.trajectories import searching, trajectory

HOSTILE = "\x1b[31mred\x1b[0m \x07bell \u202eright-to-left [bold]markup[/bold] \x9bcsi"


def shown(*played: Trajectory, width: int = 120) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None, markup=False, emoji=False)
    scored = [with_reward(t, NOTICE_TASK, RewardProfile()) for t in played]
    print_side_by_side(console, NOTICE_TASK, scored, "because")
    return out.getvalue()


def test_control_codes_and_overrides_are_stripped() -> None:
    assert safe(HOSTILE) == "[31mred[0m bell right-to-left [bold]markup[/bold] csi"


def test_hostile_text_reaches_the_terminal_as_text() -> None:
    text = shown(trajectory(HOSTILE, (HOSTILE,), steps=[searching(HOSTILE)]))

    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    assert "[bold]markup[/bold]" in text


def test_citations_are_marked_right_neutral_and_wrong() -> None:
    text = shown(trajectory(sources=("mail-1", "doc-1", "doc-4"), opened=("mail-1", "doc-1", "doc-4")))

    assert "mail-1 ✓" in text
    assert "doc-1 ○" in text
    assert "doc-4 ✗" in text


def test_lost_points_have_their_reason() -> None:
    assert "the answer also states 30 days, which is wrong" in shown(trajectory("60 days or 30 days."))


def test_an_episode_without_an_answer_says_why() -> None:
    assert "no answer: call_limit" in shown(trajectory(None, stop_reason=StopReason.CALL_LIMIT))


def test_an_infrastructure_failure_shows_its_error_and_no_reward() -> None:
    text = shown(trajectory(None, stop_reason=StopReason.TRANSPORT_ERROR, error="503"))

    assert "made  no reward" in text
    assert "no reward: 503" in text


def test_a_long_answer_says_how_much_was_left_out() -> None:
    assert "[400 more characters]" in " ".join(shown(trajectory("x" * 1000)).replace("│", " ").split())


@pytest.mark.parametrize(("value", "drawn"), [(0.0, "░░░░"), (0.5, "██░░"), (1.0, "████")])
def test_a_bar_is_as_full_as_its_value(value: float, drawn: str) -> None:
    assert bar(value, cells=4).plain == drawn
