"""Correctness: the share of required facts that the answer states and the opened records support."""

from __future__ import annotations

from gradient_rl.rewards.submission import PartScore, Submission


def correctness(submission: Submission) -> PartScore:
    """Required facts stated and supported, over required facts."""
    reasons = tuple(f"{j.fact_id}: {j.reason}" for j in submission.judged)
    return PartScore(submission.correctness, reasons)
