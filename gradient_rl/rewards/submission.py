"""A submission: what a reward function is given of a finished episode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gradient_rl.rewards.facts import FactJudgement, judge_facts
from gradient_rl.schema.task import Fact, Reference


class PartScore(NamedTuple):
    """The value of one reward part in [0, 1], and why, a sentence for each point gained or lost."""

    value: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submission:
    """An answer with its citations, what was opened before it, and the reference it is held against."""

    answer: str
    cited: frozenset[str]
    """Distinct cited ids in lower case."""
    opened: frozenset[str]
    """Ids of the records that were opened, in lower case."""
    calls: int
    max_calls: int
    reference: Reference
    require_opened: bool = True
    """Whether a fact counts only when a record that proves it was opened."""

    @cached_property
    def judged(self) -> tuple[FactJudgement, ...]:
        """Every required fact, judged by the answer and by what was opened."""
        judgements = zip(self.reference.facts, judge_facts(self.answer, self.reference), strict=True)
        return tuple(self._supported(fact, judgement) for fact, judgement in judgements)

    @cached_property
    def correctness(self) -> float:
        """Required facts that are stated and supported, over required facts."""
        return sum(judgement.stated for judgement in self.judged) / len(self.judged)

    def _supported(self, fact: Fact, judgement: FactJudgement) -> FactJudgement:
        if not judgement.stated or not self.require_opened:
            return judgement
        unread = self._unread(fact)
        if not unread:
            return judgement
        reason = f"{fact.value or 'absence'} is stated, but {unread} was not opened: a guess earns nothing"
        return FactJudgement(fact.id, stated=False, reason=reason)

    def _unread(self, fact: Fact) -> str:
        """The evidence that is missing: any one source of a stated fact is enough, a derived fact needs all."""
        if fact.derivation is None:
            return "" if any(s.lower() in self.opened for s in fact.sources) else " or ".join(fact.sources)
        slots = [self._slot_of(source) for source in fact.sources]
        return next((" or ".join(slot) for slot in slots if not any(s.lower() in self.opened for s in slot)), "")

    def _slot_of(self, source: str) -> tuple[str, ...]:
        return next((slot for slot in self.reference.required_sources if source in slot), (source,))
