"""Behaviours: named things that a trajectory did, for explaining a score. They earn and cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from gradient_rl.schema.trajectory import OPENING_TOOLS, SEARCH_TOOLS, StopReason, Trajectory


class Behaviour(StrEnum):
    """What a trajectory may have done."""

    REPEATED_QUERY = "repeated_query"
    REPEATED_OPEN = "repeated_open"
    EMPTY_SEARCH = "empty_search"
    REFUSED_OPEN = "refused_open"
    ANSWERED_WITHOUT_READING = "answered_without_reading"
    UNOPENED_CITATION = "unopened_citation"
    NO_CITATION = "no_citation"
    STOPPED_AT_LIMIT = "stopped_at_limit"
    MALFORMED = "malformed"


def behaviours_of(trajectory: Trajectory) -> tuple[Behaviour, ...]:
    """The behaviours that a trajectory shows, in the order of their definition."""
    return tuple(behaviour for behaviour, shown in _TESTS.items() if shown(trajectory))


def _repeats(trajectory: Trajectory, tools: frozenset[str]) -> bool:
    asked = [(s.tool, str(sorted(s.arguments.items())).lower()) for s in trajectory.steps if s.tool in tools]
    return len(asked) > len(set(asked))


def _submitted(trajectory: Trajectory) -> bool:
    return trajectory.stop_reason is StopReason.SUBMITTED


def _cites_unopened(trajectory: Trajectory) -> bool:
    opened = {record_id.lower() for record_id in trajectory.opened}
    return any(source.strip().lower() not in opened for source in trajectory.sources)


_TESTS: Mapping[Behaviour, Callable[[Trajectory], bool]] = {
    Behaviour.REPEATED_QUERY: lambda t: _repeats(t, SEARCH_TOOLS),
    Behaviour.REPEATED_OPEN: lambda t: _repeats(t, OPENING_TOOLS),
    Behaviour.EMPTY_SEARCH: lambda t: any(s.tool in SEARCH_TOOLS and not s.ids for s in t.steps),
    Behaviour.REFUSED_OPEN: lambda t: any(s.tool in OPENING_TOOLS and s.error is not None for s in t.steps),
    Behaviour.ANSWERED_WITHOUT_READING: lambda t: _submitted(t) and not t.opened,
    Behaviour.UNOPENED_CITATION: _cites_unopened,
    Behaviour.NO_CITATION: lambda t: _submitted(t) and not t.sources,
    Behaviour.STOPPED_AT_LIMIT: lambda t: t.stop_reason in (StopReason.CALL_LIMIT, StopReason.TOKEN_LIMIT),
    Behaviour.MALFORMED: lambda t: t.stop_reason is StopReason.MALFORMED,
}
