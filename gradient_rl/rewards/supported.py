"""Supported correctness: how much of an answer is right, opened and cited. It is watched, and pays nothing."""

from __future__ import annotations

from dataclasses import replace

from gradient_rl.rewards.submission import Submission


def supported_correctness(submission: Submission) -> float:
    """Required facts that the answer states and whose evidence was opened and cited, over required facts; in [0, 1].

    The evidence of a stated fact is any one of its sources, that of a derived fact all of them, as in `correctness`; but
    here a record counts only if it was cited as well, and whatever the profile says of `require_opened`.
    """
    return replace(submission, opened=submission.opened & submission.cited, require_opened=True).correctness
