"""Holes: what a reward part pays for that is not the work. Found by changing a paid submission and asking the part again.

A part is a function of a submission, so a cause can be tested instead of guessed: where it pays as much for a submission
with the wrong citations as for one without them, the wrong citations cost nothing, whoever made them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from gradient_rl.rewards.absence import affirms_absence
from gradient_rl.rewards.facts import mentions_of_value
from gradient_rl.rewards.own import mark
from gradient_rl.rewards.profile import RewardFunction
from gradient_rl.rewards.submission import Submission
from gradient_rl.rewards.values import plain_text
from gradient_rl.schema.task import Fact

SAYS_NOTHING = "x"
"""An answer that states nothing, and yet is a word: parts may refuse one without."""
ROUNDING = 1e-9
"""Two values of a part that differ by less are the same."""


class Hole(StrEnum):
    """A kind of behaviour that earns without the work."""

    UNGATED = "ungated"
    """Pays for having ended, whatever was answered, cited or opened."""
    RECALL_ONLY = "recall_only"
    """Pays citations that prove something, and takes nothing for those that do not."""
    UNREAD = "unread"
    """Pays the citation of a record that was not opened."""
    SUBSTRING = "substring"
    """Pays a right value wherever it stands, beside wrong ones or taken back too."""
    GUESS = "guess"
    """Pays a right value that no opened record proves."""
    WORDS = "words"
    """Pays an answer in which no required fact stands: its length, its style, the question's words."""
    BUSY = "busy"
    """Pays calls, whatever they found."""


def holes_in(part: RewardFunction, submission: Submission) -> dict[Hole, float]:
    """What the part pays this submission through each hole, in units of the part; empty where it pays for work alone."""
    paid = mark(part, submission).paid
    if paid <= ROUNDING:
        return {}
    amounts = [*_ungated(part, submission), *_by_citations(part, submission, paid)]
    amounts += [*_by_answer(part, submission, paid), *_by_calls(part, submission, paid)]
    return {hole: amount for hole, amount in amounts if amount > ROUNDING}


type _Amounts = Iterator[tuple[Hole, float]]


def _ungated(part: RewardFunction, submission: Submission) -> _Amounts:
    nothing = replace(submission, answer="", cited=frozenset(), opened=frozenset())
    yield Hole.UNGATED, mark(part, nothing).paid


def _by_citations(part: RewardFunction, submission: Submission, paid: float) -> _Amounts:
    reference = submission.reference
    required = frozenset(i.lower() for slot in reference.required_sources for i in slot)
    neutral = frozenset(i.lower() for i in reference.neutral_sources)
    earned = paid - mark(part, replace(submission, cited=frozenset())).paid
    wrong = submission.cited - required - neutral
    without = mark(part, replace(submission, cited=submission.cited - wrong)).paid
    if wrong and without <= paid + ROUNDING:
        yield Hole.RECALL_ONLY, earned
    unread = (submission.cited & required) - submission.opened
    if unread:
        yield Hole.UNREAD, paid - mark(part, replace(submission, cited=submission.cited - unread)).paid


def _by_answer(part: RewardFunction, submission: Submission, paid: float) -> _Amounts:
    """What the answer earned, if it is paid for its shape, or no fact in it is both stated and proven when read strictly."""
    earned = paid - mark(part, replace(submission, answer=SAYS_NOTHING)).paid
    if earned <= ROUNDING:
        return
    if mark(part, replace(submission, answer=_of_the_same_shape(submission.answer))).paid >= paid - ROUNDING:
        yield Hole.WORDS, earned
    elif replace(submission, require_opened=True).correctness:
        return
    elif replace(submission, require_opened=False).correctness:
        yield Hole.GUESS, earned
    elif _mentions_a_fact(submission):
        yield Hole.SUBSTRING, earned
    else:
        yield Hole.WORDS, earned


def _by_calls(part: RewardFunction, submission: Submission, paid: float) -> _Amounts:
    reference = submission.reference
    useful = frozenset(i.lower() for slot in (*reference.required_sources, reference.neutral_sources) for i in slot)
    useful |= frozenset(source.lower() for fact in reference.facts for source in fact.sources)
    calls = min(submission.calls, reference.reference_calls)
    modest = replace(submission, opened=submission.opened & useful, calls=calls)
    yield Hole.BUSY, paid - mark(part, modest).paid


def _of_the_same_shape(answer: str) -> str:
    """As many words, each as long, that say nothing."""
    return re.sub(r"\S", "x", answer)


def _mentions_a_fact(submission: Submission) -> bool:
    text = plain_text(submission.answer)
    return any(_mentioned(text, fact) for fact in submission.reference.facts)


def _mentioned(text: str, fact: Fact) -> bool:
    if fact.value is None:
        return affirms_absence(text)
    return any(mentions_of_value(text, value, fact.kind) for value in (fact.value, *fact.aliases))
