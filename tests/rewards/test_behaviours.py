from __future__ import annotations

import pytest

from gradient_rl.rewards.behaviours import Behaviour, behaviours_of
from gradient_rl.schema.trajectory import Step, StopReason, Trajectory
from tests.trajectories import opening, searching, trajectory

REFUSED = Step(tool="open_email", arguments={"id": "mail-9"}, observation="{}", error="there is no record 'mail-9'")


@pytest.mark.parametrize(
    ("played", "behaviour"),
    [
        (trajectory(steps=[searching("Notice", "a"), searching("notice", "a")]), Behaviour.REPEATED_QUERY),
        (trajectory(steps=[opening("mail-1"), opening("mail-1")]), Behaviour.REPEATED_OPEN),
        (trajectory(steps=[searching("xylophone")]), Behaviour.EMPTY_SEARCH),
        (trajectory(steps=[REFUSED]), Behaviour.REFUSED_OPEN),
        (trajectory(opened=()), Behaviour.ANSWERED_WITHOUT_READING),
        (trajectory(sources=("doc-9",)), Behaviour.UNOPENED_CITATION),
        (trajectory(sources=()), Behaviour.NO_CITATION),
        (trajectory(None, stop_reason=StopReason.CALL_LIMIT), Behaviour.STOPPED_AT_LIMIT),
        (trajectory(None, stop_reason=StopReason.MALFORMED), Behaviour.MALFORMED),
    ],
)
def test_a_behaviour_is_named(played: Trajectory, behaviour: Behaviour) -> None:
    assert behaviour in behaviours_of(played)


def test_a_clean_trajectory_shows_none() -> None:
    assert behaviours_of(trajectory()) == ()


def test_citing_in_capitals_is_not_citing_unopened() -> None:
    assert behaviours_of(trajectory(sources=("MAIL-1",))) == ()
