"""Citation quality: F1 of the cited records against the required slots, as long as most of what is cited is right."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradient_rl.rewards.submission import PartScore, Submission

MIN_PRECISION = 0.5
"""Precision below which citations earn nothing: citing all hits of one search would earn more than choosing among them."""
_SAYS_SOMETHING = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class CitationCounts:
    """What precision and recall are made of."""

    right: tuple[str, ...]
    """Cited, opened, and in a slot."""
    wrong: tuple[str, ...]
    """Cited without having been opened, or neither required nor neutral."""
    unfilled: tuple[tuple[str, ...], ...]
    """Slots of which nothing was cited."""
    slots: int

    @property
    def precision(self) -> float:
        """Cited ids that fill a slot, over cited ids that are not neutral; 0 when there are none."""
        judged = len(self.right) + len(self.wrong)
        return len(self.right) / judged if judged else 0.0

    @property
    def recall(self) -> float:
        """Slots filled, over slots."""
        return (self.slots - len(self.unfilled)) / self.slots

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 when both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def count_citations(submission: Submission) -> CitationCounts:
    """Sort the cited ids into right and wrong. A neutral record that was opened is neither."""
    slots = [frozenset(i.lower() for i in slot) for slot in submission.reference.required_sources]
    required = frozenset[str]().union(*slots)
    neutral = frozenset(i.lower() for i in submission.reference.neutral_sources) - required
    right = submission.cited & submission.opened & required
    wrong = submission.cited - right - (neutral & submission.opened)
    unfilled = tuple(tuple(sorted(slot)) for slot in slots if not slot & right)
    return CitationCounts(tuple(sorted(right)), tuple(sorted(wrong)), unfilled, len(slots))


def says_something(answer: str) -> bool:
    """Whether an answer has a letter or a digit, and so something to cite for."""
    return _SAYS_SOMETHING.search(answer) is not None


def citation_quality(submission: Submission) -> PartScore:
    """F1 of precision and recall over opened records; 0 where most are wrong, and for an empty answer, which proves nothing."""
    if not says_something(submission.answer):
        return PartScore(0.0, ("an empty answer has nothing to cite for",))
    counts = count_citations(submission)
    reasons = [f"{cited} is cited without having been opened" for cited in counts.wrong if cited not in submission.opened]
    reasons += [f"{cited} is cited and proves nothing" for cited in counts.wrong if cited in submission.opened]
    reasons += [f"{' or '.join(slot)} is not cited" for slot in counts.unfilled]
    if counts.wrong and counts.precision < MIN_PRECISION:
        reasons.append(f"{len(counts.wrong)} wrong citations beside {len(counts.right)} right: a list proves nothing")
        return PartScore(0.0, tuple(reasons))
    return PartScore(counts.f1, tuple(reasons))
