from __future__ import annotations

import pytest

from gradient_rl.evaluation.coverage import coverage_of
from gradient_rl.evaluation.difference import what_made_the_difference
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.trajectory import Trajectory
from tests.tiny import NOTICE_TASK
from tests.trajectories import searching, trajectory


def scored(played: Trajectory, policy: str) -> Trajectory:
    return with_reward(played.model_copy(update={"policy": policy}), NOTICE_TASK, RewardProfile())


GOOD = scored(trajectory(), "strong")


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (trajectory("?", (), ()), "weak never found mail-1, which strong needed for the answer"),
        (trajectory("?", (), (), steps=[searching("a", "mail-1")]), "weak found but did not open mail-1"),
        (trajectory("?", ()), "weak read but did not cite mail-1"),
        (trajectory("30 days"), "both read the evidence, and only strong states the right answer"),
        (trajectory(sources=("mail-1", "doc-9")), "weak cites records that prove nothing"),
        (trajectory(steps=[*trajectory().steps, *[searching("x")] * 4]), "weak needed 7 calls where strong made 3"),
    ],
)
def test_the_first_stage_that_fell_behind_is_named(other: Trajectory, cause: str) -> None:
    assert cause in what_made_the_difference(scored(other, "weak"), GOOD, NOTICE_TASK)


def test_equal_rewards_are_said_to_be_equal() -> None:
    sentence = what_made_the_difference(GOOD, scored(trajectory(), "other"), NOTICE_TASK)

    assert sentence == "strong and other earn the same, 1.00."


def test_coverage_counts_found_read_and_cited() -> None:
    played = trajectory("?", ("mail-1",), (), steps=[searching("a", "mail-1", "doc-1")])

    assert coverage_of(played, NOTICE_TASK).shares == (1.0, 0.0, 0.0)
    assert coverage_of(GOOD, NOTICE_TASK).shares == (1.0, 1.0, 1.0)
