"""Efficiency: correctness times how economically the tool calls were used."""

from __future__ import annotations

from gradient_rl.rewards.submission import PartScore, Submission


def call_economy(calls: int, reference_calls: int, max_calls: int) -> float:
    """1 up to the reference's number of calls, then falling linearly to 0 at the limit."""
    if calls <= reference_calls:
        return 1.0
    if calls >= max_calls:
        return 0.0
    return (max_calls - calls) / (max_calls - reference_calls)


def efficiency(submission: Submission) -> PartScore:
    """Correctness times call economy: calls count as economical only where the task was done."""
    reference_calls = submission.reference.reference_calls
    economy = call_economy(submission.calls, reference_calls, submission.max_calls)
    reasons = () if economy == 1.0 else (f"{submission.calls} calls where {reference_calls} suffice",)
    if submission.correctness < 1.0:
        reasons += ("scaled by correctness",)
    return PartScore(submission.correctness * economy, reasons)
