"""Failures on demand, so that what a trainer does about them can be shown and tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and when. Jobs and completions are numbered from 1, anew each time a server starts."""

    fail_jobs: frozenset[int] = frozenset()
    """Jobs that end as failed and train nothing."""
    lose_training_answer: frozenset[int] = frozenset()
    """Jobs that start, and whose answer the client never gets: the connection is closed."""
    stall_events: frozenset[int] = frozenset()
    """Jobs that train, and whose events never come to an end."""
    refuse_key: bool = False
    """Every key is refused with status 401."""
    completion_status: Mapping[int, int] = field(default_factory=dict[int, int])
    """HTTP status, 400 or above, by the number of the completion; a client's retry is a new completion."""


NO_FAULTS = Faults()
