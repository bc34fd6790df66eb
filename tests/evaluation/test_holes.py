from __future__ import annotations

from dataclasses import replace

import pytest

from gradient_rl.evaluation.holes import Hole, holes_in
from gradient_rl.rewards.profile import PARTS, RewardFunction
from gradient_rl.rewards.submission import PartScore, Submission
from tests.evaluation import own_rewards as own
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

RIGHT = Submission("60 days.", frozenset({"mail-1"}), frozenset({"mail-1"}), 3, 15, NOTICE_TASK.for_grader())
SILENT = replace(RIGHT, answer="", cited=frozenset(), opened=frozenset(), calls=1)
EVERYTHING = frozenset({"mail-1", "mail-2", "doc-2", "doc-3"})


@pytest.mark.parametrize("part", [*PARTS.values(), own.brevity, own.strict])
@pytest.mark.parametrize(
    "submission",
    [
        RIGHT,
        SILENT,
        replace(RIGHT, answer="Which notice is it?"),
        replace(RIGHT, cited=EVERYTHING),
        replace(RIGHT, opened=frozenset()),
        replace(RIGHT, answer="60 days or 30 days."),
        replace(RIGHT, calls=15, opened=EVERYTHING),
    ],
)
def test_a_sound_part_has_no_hole(part: RewardFunction, submission: Submission) -> None:
    assert holes_in(part, submission) == {}


@pytest.mark.parametrize(
    ("part", "submission", "holes"),
    [
        (own.efficiency, SILENT, {Hole.UNGATED: 1.0}),
        (own.citation_quality, replace(RIGHT, cited=EVERYTHING), {Hole.RECALL_ONLY: 1.0}),
        (own.citation_quality, replace(RIGHT, opened=frozenset()), {Hole.UNREAD: 1.0}),
        (own.correctness, replace(RIGHT, answer="60 days or 30 days."), {Hole.SUBSTRING: 1.0}),
        (own.correctness, replace(RIGHT, answer="It is not 60 days."), {Hole.SUBSTRING: 1.0}),
        (own.correctness, replace(RIGHT, opened=frozenset()), {Hole.GUESS: 1.0}),
        (own.length, replace(RIGHT, answer="well " * 100), {Hole.WORDS: 0.99}),
        (own.diligence, replace(RIGHT, opened=EVERYTHING), {Hole.BUSY: pytest.approx(0.3)}),
        (lambda s: PartScore(s.calls / 15), replace(RIGHT, calls=12), {Hole.UNGATED: 0.8, Hole.BUSY: pytest.approx(0.6)}),
    ],
)
def test_a_hole_is_told_by_what_changes_nothing(part: RewardFunction, submission: Submission, holes: dict[Hole, float]) -> None:
    assert holes_in(part, submission) == holes


def test_three_holes_in_one_function_are_told_apart() -> None:
    submission = replace(RIGHT, answer="60 days or 30 days.", cited=EVERYTHING)

    assert holes_in(own.whole, submission) == {
        Hole.UNGATED: pytest.approx(0.2),
        Hole.RECALL_ONLY: pytest.approx(0.3),
        Hole.SUBSTRING: pytest.approx(0.5),
    }


def test_an_absence_affirmed_beside_a_value_counts_as_a_substring() -> None:
    reference = DEPOSIT_TASK.for_grader()
    both = replace(RIGHT, reference=reference, answer="No deposit is on record, it is EUR 400.", opened=frozenset({"doc-2"}))

    assert holes_in(own.correctness, both) == {Hole.SUBSTRING: 1.0}


def test_right_answers_are_paid_for_words_only_if_any_words_would_do() -> None:
    assert holes_in(own.correctness, RIGHT) == {}
    assert holes_in(own.length, RIGHT) == {Hole.WORDS: pytest.approx(0.01)}


def test_the_right_evidence_under_a_wrong_answer_is_no_hole() -> None:
    wrong = replace(RIGHT, answer="30 days.")

    assert holes_in(PARTS["citation_quality"], wrong) == {}
    assert holes_in(own.reading, replace(wrong, opened=EVERYTHING)) == {}
