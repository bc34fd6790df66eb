from __future__ import annotations

import math

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.rewards.correctness import correctness
from gradient_rl.rewards.own import load_parts, mark, profile_of, refuse_unweighed
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rewards.submission import PartScore, Submission
from tests.evaluation import own_rewards
from tests.tiny import NOTICE_TASK

OWN = "tests.evaluation.own_rewards"
SUBMISSION = Submission("60 days", frozenset(), frozenset({"mail-1"}), 3, 15, NOTICE_TASK.for_grader())


def test_a_part_is_found_by_its_module_and_function() -> None:
    assert load_parts([f"{OWN}:brevity"]) == {"brevity": own_rewards.brevity}


def test_a_part_may_be_called_otherwise() -> None:
    assert load_parts([f"efficiency={OWN}:brevity"]) == {"efficiency": own_rewards.brevity}


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["brevity"], "--reward brevity is not of the form [NAME=]MODULE:FUNCTION, as in my_rewards:brevity"),
        ([f"{OWN}:absent"], f"--reward {OWN}:absent: {OWN} has no function 'absent'"),
        ([f"{OWN}:NOT_A_FUNCTION"], f"--reward {OWN}:NOT_A_FUNCTION: {OWN} has no function 'NOT_A_FUNCTION'"),
        ([f"{OWN}:brevity", f"{OWN}:brevity"], f"--reward {OWN}:brevity: two parts are called 'brevity'; write NAME={OWN}:brevity to call this one otherwise"),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_found_is_named(specs: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_parts(specs)

    assert str(caught.value) == message


def test_a_module_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="importing my_rewards fails with ModuleNotFoundError.*name it without .py"):
        load_parts(["my_rewards:brevity"])


def test_a_function_with_a_packaged_name_leaves_the_weights_as_they_are() -> None:
    assert profile_of({"efficiency": own_rewards.efficiency}) == RewardProfile()


def test_a_single_new_function_is_the_whole_reward() -> None:
    assert profile_of({"whole": own_rewards.whole}).weights == {"whole": 1.0}


def test_several_new_functions_need_a_profile() -> None:
    with pytest.raises(UsageError, match="nothing says what 'whole' weighs; add --profile"):
        profile_of({"whole": own_rewards.whole, "brevity": own_rewards.brevity})


def test_a_part_without_a_weight_is_refused() -> None:
    with pytest.raises(UsageError, match="gives 'brevity' no weight; add brevity=WEIGHT"):
        refuse_unweighed({"brevity": own_rewards.brevity}, RewardProfile(weights={"correctness": 1.0, "brevity": 0.0}))


def test_a_mark_is_what_the_part_returned() -> None:
    assert mark(correctness, SUBMISSION).value == 1.0
    assert mark(own_rewards.doubled, SUBMISSION).value == 2.0


@pytest.mark.parametrize(
    ("value", "fits", "paid"),
    [
        (0.0, True, 0.0),
        (1.0, True, 1.0),
        (1.01, False, 1.0),
        (-0.5, False, 0.0),
        (math.inf, False, 1.0),
        (math.nan, False, 0.0),
    ],
)
def test_a_mark_outside_of_0_to_1_does_not_fit_and_is_paid_within_it(value: float, fits: bool, paid: float) -> None:
    found = mark(lambda _: PartScore(value), SUBMISSION)

    assert (found.fits, found.paid) == (fits, paid)


def test_what_a_part_raises_is_its_fault_and_pays_nothing() -> None:
    found = mark(own_rewards.dividing, SUBMISSION)

    assert found.fault == "raised ZeroDivisionError: float division by zero"
    assert (found.fits, found.paid) == (False, 0.0)


def test_a_number_without_reasons_is_a_fault_as_it_would_be_in_training() -> None:
    assert mark(own_rewards.bare, SUBMISSION).fault == "raised TypeError: cannot unpack non-iterable float object"  # pyright: ignore[reportArgumentType]
