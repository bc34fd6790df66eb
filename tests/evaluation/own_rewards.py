"""Rewards as a user might write them: three with a hole that is often published, some broken, one that is sound."""

from __future__ import annotations

import itertools
import random

from gradient_rl.rewards.efficiency import call_economy
from gradient_rl.rewards.profile import RewardProfile, total_of
from gradient_rl.rewards.submission import PartScore, Submission
from gradient_rl.schema.trajectory import RewardPart

NUMBERED = itertools.count()


def efficiency(submission: Submission) -> PartScore:
    """The economy of calls, without a look at the answer."""
    return PartScore(call_economy(submission.calls, submission.reference.reference_calls, submission.max_calls))


def citation_quality(submission: Submission) -> PartScore:
    """The share of the required records that are cited."""
    slots = [{i.lower() for i in slot} for slot in submission.reference.required_sources]
    return PartScore(sum(bool(slot & submission.cited) for slot in slots) / len(slots))


def correctness(submission: Submission) -> PartScore:
    """The share of the values that stand somewhere in the answer; an absence is named by the words for it."""
    facts = submission.reference.facts
    names = [[fact.value or "not on record", *fact.aliases, *fact.about] for fact in facts]
    answer = submission.answer.lower()
    return PartScore(sum(any(name.lower() in answer for name in each) for each in names) / len(facts))


def whole(submission: Submission) -> PartScore:
    """All three holes in one function."""
    parts = {"correctness": correctness, "citation_quality": citation_quality, "efficiency": efficiency}
    weights = RewardProfile().weights
    scored = [RewardPart(name=name, value=part(submission).value, weight=weights[name]) for name, part in parts.items()]
    return PartScore(total_of(scored))


def brevity(submission: Submission) -> PartScore:
    """Correctness times 1 up to 100 words, falling to 0 at 200."""
    words = len(submission.answer.split())
    return PartScore(submission.correctness * min(1.0, max(0.0, (200 - words) / 100)))


def length(submission: Submission) -> PartScore:
    """A word of an answer for a hundredth."""
    return PartScore(min(1.0, len(submission.answer.split()) / 100))


def diligence(submission: Submission) -> PartScore:
    """An opened record for a tenth."""
    return PartScore(min(1.0, len(submission.opened) / 10))


def reading(submission: Submission) -> PartScore:
    """The share of the required records that were opened."""
    slots = [{i.lower() for i in slot} for slot in submission.reference.required_sources]
    return PartScore(sum(bool(slot & submission.opened) for slot in slots) / len(slots))


def by_chance(submission: Submission) -> PartScore:
    """Correctness, a little blurred."""
    return PartScore(submission.correctness * random.uniform(0.5, 1.0))


def fading(submission: Submission) -> PartScore:
    """Correctness for the first hundred submissions, half of it afterwards."""
    return PartScore(submission.correctness * (1.0 if next(NUMBERED) < 100 else 0.5))


def strict(submission: Submission) -> PartScore:
    """Correctness, but never more than nine tenths."""
    return PartScore(0.9 * submission.correctness)


def doubled(submission: Submission) -> PartScore:
    """Correctness on a scale to two."""
    return PartScore(2 * submission.correctness)


def infinite(submission: Submission) -> PartScore:
    """Not a number where nothing is cited."""
    return PartScore(submission.correctness if submission.cited else float("nan"))


def dividing(submission: Submission) -> PartScore:
    """Correctness by citation, which fails without any."""
    return PartScore(min(1.0, submission.correctness / len(submission.cited)))


def bare(submission: Submission) -> float:
    """A number without reasons."""
    return submission.correctness


NOT_A_FUNCTION = 7
