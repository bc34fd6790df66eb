from __future__ import annotations

import pytest

from gradient_rl.environment.episode import Episode, Limits
from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import Workspace
from gradient_rl.schema.trajectory import StopReason, ToolCall, Usage
from tests.tiny import NOTICE_TASK

SEARCH = ToolCall(tool="search", arguments={"query": "notice"})
SUBMIT = ToolCall(tool="submit_answer", arguments={"answer": "60 days", "sources": ["mail-1"]})


@pytest.fixture
def make_episode(tiny: Workspace, tiny_index: BM25Index):  # noqa: ANN201 - a local factory
    def make(**limits: int) -> Episode:
        return Episode(NOTICE_TASK.for_policy(), tiny, tiny_index, Limits.model_validate(limits), clock=lambda: 0.0)

    return make


def test_a_submission_ends_the_episode(make_episode) -> None:
    episode = make_episode()
    episode.call(SUBMIT)

    assert episode.stop_reason is StopReason.SUBMITTED
    assert (episode.answer, episode.sources) == ("60 days", ("mail-1",))


def test_the_last_allowed_call_ends_the_episode(make_episode) -> None:
    episode = make_episode(max_calls=2)
    episode.call(SEARCH)
    assert episode.stop_reason is None
    episode.call(SEARCH)

    assert episode.stop_reason is StopReason.CALL_LIMIT


def test_a_submission_with_the_last_allowed_call_counts(make_episode) -> None:
    episode = make_episode(max_calls=1)
    episode.call(SUBMIT)

    assert episode.stop_reason is StopReason.SUBMITTED


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(tool="delete_everything", arguments={}),
        ToolCall(tool="search", arguments={"q": "notice"}),
        ToolCall(tool="submit_answer", arguments={"answer": "60 days"}),
    ],
)
def test_a_malformed_call_ends_the_episode_by_default(make_episode, call: ToolCall) -> None:
    episode = make_episode()
    observation = episode.call(call)

    assert episode.stop_reason is StopReason.MALFORMED
    assert observation.error is not None
    assert episode.steps == []


def test_an_allowed_malformed_reply_is_told_what_was_wrong(make_episode) -> None:
    episode = make_episode(max_malformed=1)
    observation = episode.call(ToolCall(tool="find", arguments={}))

    assert episode.stop_reason is None
    assert "there is no tool 'find'; the tools are search, search_email" in observation.text


def test_tokens_are_counted_before_anything_else(make_episode) -> None:
    episode = make_episode(max_tokens=100)
    episode.spend(Usage(prompt_tokens=90, completion_tokens=10))
    assert episode.stop_reason is None
    episode.spend(Usage(completion_tokens=1))

    assert episode.stop_reason is StopReason.TOKEN_LIMIT


def test_a_long_observation_is_cut_and_says_so(make_episode) -> None:
    episode = make_episode(max_observation_chars=200)
    observation = episode.call(SEARCH)

    assert len(observation.text) < 250
    assert observation.text.endswith("more characters]")
    assert episode.steps[0].observation == observation.text


def test_a_finished_episode_takes_no_more_calls(make_episode) -> None:
    episode = make_episode()
    episode.call(SUBMIT)

    with pytest.raises(RuntimeError, match="the episode of 'tiny-1' is over: submitted"):
        episode.call(SEARCH)


def test_an_id_shown_in_one_episode_is_not_shown_in_the_next(make_episode) -> None:
    first, second = make_episode(), make_episode()
    first.call(SEARCH)
    opening = ToolCall(tool="open_email", arguments={"id": "mail-1"})

    assert first.call(opening).error is None
    assert "no search has shown 'mail-1'" in (second.call(opening).error or "")
