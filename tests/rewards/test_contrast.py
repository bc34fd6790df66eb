from __future__ import annotations

import pytest

from gradient_rl.rewards.contrast import AFTERWARDS, CHANGED, FORMER, NEGATIONS
from tests.rewards.answers import fact, states

NOTICE = fact("duration", "60 days", ["30 days"])


@pytest.mark.parametrize("cue", NEGATIONS)
def test_a_denied_rival_is_excused(cue: str) -> None:
    assert states(f"60 days, {cue} 30 days.", NOTICE)


@pytest.mark.parametrize("cue", NEGATIONS)
def test_a_denied_value_is_not_stated(cue: str) -> None:
    assert not states(f"It is 45 days, {cue} 60 days.", NOTICE)


@pytest.mark.parametrize("cue", FORMER)
def test_a_former_rival_is_excused(cue: str) -> None:
    assert states(f"60 days ({cue} 30 days).", NOTICE)


@pytest.mark.parametrize("cue", FORMER)
def test_a_former_value_is_not_stated(cue: str) -> None:
    assert not states(f"It was {cue} 60 days.", NOTICE)


@pytest.mark.parametrize("cue", AFTERWARDS)
def test_a_rival_that_holds_no_more_is_excused(cue: str) -> None:
    assert states(f"30 days is {cue} the amendment. Now it is 60 days.", NOTICE)


@pytest.mark.parametrize("cue", CHANGED)
def test_a_rival_that_was_changed_is_excused(cue: str) -> None:
    assert states(f"The 30 days in clause 6.2 of K-100 were {cue}. It is 60 days.", NOTICE)


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("30 days was replaced by 60 days.", True),
        ("60 days was replaced by 30 days.", False),
        ("60 days replaced 30 days.", True),
        ("30 days replaced 60 days.", False),
        ("It was extended from 30 to 60 days.", True),
        ("It was cut from 60 to 30 days.", False),
        ("It went up from 30 days to 60 days.", True),
        ("30 days until the March amendment made it 60 days.", True),
        ("Until March it was 30 days, now it is 60 days.", True),
        ("It was 30 days, but the amendment says 60 days.", True),
        ("It was 60 days, but the amendment says 30 days.", False),
        ("Dermot said 30 days; however, the contract has 60 days.", True),
        ("Not 30 or 45 days but 60 days.", True),
        ("Not 60 days but 30 days.", False),
        ("No longer 30 days: it is 60 days.", True),
        ("The original 30 days no longer apply; 60 days now.", True),
        ("Not only 30 days, also 60 days.", False),
        ("30 days. 60 days.", False),
        ("60 days until further notice.", True),
        ("It is 60 days. Formerly it was something else.", True),
        ("It is 60 days (it was 30 days as signed).", True),
        ("Ruth's mail changed clause 8.1 of FV-2339 from 30 to 60 days.", True),
        ("There are 60 days left.", True),
    ],
)
def test_contrast_is_read_in_the_right_direction(answer: str, stated: bool) -> None:
    assert states(answer, NOTICE) is stated


@pytest.mark.parametrize("answer", ["It runs until 3 March 2025.", "Before 3 March 2025.", "Due by 3 March 2025, not later."])
def test_until_a_date_states_the_date(answer: str) -> None:
    assert states(answer, fact("date", "2025-03-03"))


def test_a_successor_is_not_mixed_up_with_the_predecessor() -> None:
    lead = fact("name", "Tomasz Wilk", ["Orla Keane"])

    assert states("Tomasz Wilk, who succeeded Orla Keane.", lead)
    assert states("Orla Keane was followed by Tomasz Wilk.", lead)
    assert states("Tomasz Wilk has held the post since March, succeeding Orla Keane.", lead)
    assert states("The post passed from Orla Keane to Tomasz Wilk.", lead)
    assert states("Tomasz Wilk (Orla Keane left on 28 February 2025).", lead)
    assert not states("Orla Keane, who succeeded Tomasz Wilk.", lead)


@pytest.mark.parametrize(
    "answer",
    ["EUR 565. EUR 525 is wrong.", "EUR 565. EUR 525 is not the right price.", "€565; the €525 in the system is wrong."],
)
def test_a_wrong_amount_may_be_called_wrong(answer: str) -> None:
    assert states(answer, fact("money", "EUR 565", ["EUR 525"]))


ROOMS = [{"record": "r1", "value": room, "covered": room != "CR-131"} for room in ("CR-114", "CR-118", "CR-131")]
LEFT_OUT = fact("name", "CR-131", ["CR-114", "CR-118"], derivation={"operation": "exclude", "inputs": ROOMS})


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("The promise does not hold for CR-131.", True),
        ("The desk no longer rings anybody about CR-131.", True),
        ("CR-131 is not covered.", True),
        ("Every room is covered except CR-131.", True),
        ("It is CR-131, not CR-114.", True),
        ("The promise does not hold for CR-114.", False),
        ("The waiver does not cover CR-114 or CR-131.", False),
        ("It is not CR-131.", False),
    ],
)
def test_what_is_not_covered_is_asserted_by_saying_so(answer: str, stated: bool) -> None:
    assert states(answer, LEFT_OUT) is stated
