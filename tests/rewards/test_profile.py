from __future__ import annotations

import pytest
from pydantic import ValidationError

from gradient_rl.rewards.profile import RewardProfile, score
from gradient_rl.rewards.submission import PartScore, Submission
from gradient_rl.schema.trajectory import Reward, StopReason, Trajectory
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory

PROFILE = RewardProfile()


def scored(played: Trajectory, profile: RewardProfile = PROFILE) -> Reward:
    reward = score(played, NOTICE_TASK.for_grader(), profile)
    assert reward is not None
    return reward


def test_the_reference_behaviour_earns_one() -> None:
    assert scored(trajectory()).total == 1.0


def test_the_total_is_the_weighted_sum_of_the_parts() -> None:
    reward = scored(trajectory(sources=("mail-1", "doc-2"), opened=("mail-1", "doc-2")))

    assert reward.value("citation_quality") == pytest.approx(2 / 3)
    assert reward.value("efficiency") == pytest.approx(11 / 12)
    assert reward.total == pytest.approx(0.5 + 0.3 * 2 / 3 + 0.2 * 11 / 12, abs=1e-9)


@pytest.mark.parametrize(
    "reason",
    [
        StopReason.MALFORMED,
        StopReason.CALL_LIMIT,
        StopReason.TOKEN_LIMIT,
        StopReason.CONTENT_FILTER,
        StopReason.CONTEXT_OVERFLOW,
    ],
)
def test_an_episode_that_the_policy_ended_without_an_answer_earns_nothing(reason: StopReason) -> None:
    assert scored(trajectory(answer=None, stop_reason=reason)).total == 0.0


def test_a_malformed_episode_earns_nothing_whatever_it_holds() -> None:
    assert scored(trajectory(stop_reason=StopReason.MALFORMED)).total == 0.0


@pytest.mark.parametrize("reason", [StopReason.TRANSPORT_ERROR, StopReason.ENVIRONMENT_ERROR])
def test_an_infrastructure_failure_has_no_reward(reason: StopReason) -> None:
    assert score(trajectory(stop_reason=reason), NOTICE_TASK.for_grader(), PROFILE) is None


def test_order_and_case_of_sources_do_not_matter() -> None:
    first = trajectory(sources=("mail-1", "doc-1"), opened=("mail-1", "doc-1"))
    second = trajectory(sources=(" DOC-1", "Mail-1"), opened=("mail-1", "doc-1"))

    assert scored(first) == scored(second)


def test_weights_can_be_changed() -> None:
    only_correctness = RewardProfile(weights={"correctness": 1.0})

    assert [part.name for part in scored(trajectory(), only_correctness).parts] == ["correctness"]


@pytest.mark.parametrize("weights", [{"correctness": 0.9}, {"correctness": 1.5, "efficiency": -0.5}])
def test_weights_that_do_not_add_up_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="weights must lie in"):
        RewardProfile(weights=weights)


def test_a_part_of_ones_own_can_be_weighed_in() -> None:
    def brevity(submission: Submission) -> PartScore:
        return PartScore(1.0 if len(submission.answer.split()) <= 5 else 0.0)

    from gradient_rl.rewards.profile import PARTS

    profile = RewardProfile(weights={"correctness": 0.5, "brevity": 0.5})
    reward = score(trajectory("It is sixty days, as agreed."), NOTICE_TASK.for_grader(), profile, {**PARTS, "brevity": brevity})

    assert reward is not None
    assert reward.total == 0.5
