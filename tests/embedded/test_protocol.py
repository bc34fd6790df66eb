from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gradient_rl.embedded.model import Completion
from gradient_rl.embedded.protocol import (
    ChatRequest,
    FinetuningRequest,
    InferenceName,
    PageQuery,
    RefusedError,
    Registration,
    TrainingRequest,
    chat_answer,
    choices_in,
    count_sequences,
    page_of,
    read_body,
    read_groups,
    read_inference_name,
    read_request,
    read_transcripts,
    turns_in,
    why_untrainable,
)
from tests.embedded.calling import NAMES, QUESTION, choice, group

ENTRIES = [{"id": "a"}, {"id": "b"}, {"id": "c"}]


def completion(**more: object) -> Completion:
    fields = {
        "message": {"role": "assistant", "content": "hi"},
        "prompt_token_ids": (7, 8, 9),
        "token_ids": (1, 2),
        "logprobs": (-0.5, -0.25),
        "tokens": ("h", "i"),
        "finish_reason": "stop",
    }
    return Completion.model_validate({**fields, **more})


def groups_of(*groups: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(read_groups(TrainingRequest(model_id="m", trajectory_groups=list(groups))))


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"reward": NaN}', "NaN is not JSON"),
        (b'{"reward": -Infinity}', "-Infinity is not JSON"),
        (b"", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[]", "the body is a JSON list; send an object"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(RefusedError, match=told) as refused:
        read_body(raw)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        (Registration, {**NAMES, "name": "a/b"}, "field 'name': .* (got \"a/b\")"),
        (Registration, {"project": "p", "name": "n"}, "field 'base_model': Field required"),
        (ChatRequest, {"model": "m", "messages": []}, "field 'messages'"),
        (ChatRequest, {"model": "m", "messages": QUESTION, "n": 2}, "field 'n'"),
        (ChatRequest, {"model": "m", "messages": QUESTION, "stream": True}, "field 'stream'"),
        (ChatRequest, {"model": "m", "messages": QUESTION, "temperature": -1}, "field 'temperature'"),
        (ChatRequest, {"model": "m", "messages": QUESTION, "max_tokens": "9"}, "field 'max_tokens'"),
        (TrainingRequest, {"model_id": "m", "trajectory_groups": [3]}, "field 'trajectory_groups.0'"),
        (FinetuningRequest, {"model_id": "m", "trajectories": []}, "field 'trajectories'"),
        (FinetuningRequest, {"model_id": "m", "trajectories": [3]}, "field 'trajectories.0'"),
        (PageQuery, {"limit": "0"}, "field 'limit'"),
        (PageQuery, {"order": "up"}, "field 'order'"),
    ],
)
def test_a_field_that_does_not_fit_is_named(kind: type[Any], fields: dict[str, Any], told: str) -> None:
    with pytest.raises(RefusedError, match=told.replace("(got", r"\(got").replace('b")', r'b"\)')):
        read_request(kind, fields)


ASSISTANT = {"role": "assistant", "content": "60 days"}


@pytest.mark.parametrize(
    ("trajectory", "told"),
    [
        ({}, "trajectory 1: 'messages' is not a list of objects"),
        ({"messages": [3]}, "trajectory 1: 'messages' is not a list of objects"),
        ({"messages": QUESTION}, "trajectory 1: no message is an assistant's, so there is nothing to learn from it"),
        ({"messages": [ASSISTANT], "tools": {}}, None),
        ({"messages": [ASSISTANT], "tools": ["search"]}, "trajectory 1: 'tools' is not a list of objects"),
    ],
)
def test_an_example_that_teaches_nothing_is_named(trajectory: dict[str, Any], told: str | None) -> None:
    request = FinetuningRequest(model_id="m", trajectories=[{"messages": [ASSISTANT]}, trajectory])
    if told is None:
        assert [transcript["tools"] for transcript in read_transcripts(request)] == [[], []]
        return
    with pytest.raises(RefusedError) as refused:
        read_transcripts(request)

    assert (refused.value.status, str(refused.value)) == (400, told)


def test_the_newer_name_of_the_token_limit_wins() -> None:
    request = ChatRequest(model="m", messages=QUESTION, max_tokens=10, max_completion_tokens=20)

    assert request.token_limit == 20


def test_a_missing_reward_is_nothing() -> None:
    [read] = groups_of(group((0, 1.0), (1, 0.0)))

    assert [trajectory["reward"] for trajectory in read["trajectories"]] == [1.0, 0.0]


@pytest.mark.parametrize("reward", [float("inf"), float("nan"), True, "1", None])
def test_a_reward_that_is_no_finite_number_is_refused(reward: object) -> None:
    with pytest.raises(RefusedError, match="group 1, trajectory 0: the reward '.*' is not a finite number"):
        groups_of(group((0, 1.0)), {"trajectories": [{"reward": reward}]})


@pytest.mark.parametrize(
    "trajectories",
    [
        3,
        [3],
        [{"messages_and_choices": 3}],
        [{"additional_histories": [3]}],
        [{"additional_histories": [{"messages_and_choices": 3}]}],
    ],
)
def test_a_group_of_another_shape_is_refused(trajectories: object) -> None:
    with pytest.raises(RefusedError, match="group 0.* is not "):
        groups_of({"trajectories": trajectories})


def test_choices_of_additional_histories_count_and_plain_messages_do_not() -> None:
    plain = {"role": "assistant", "content": "context only"}
    trajectory = {"messages_and_choices": [plain, choice(0)], "additional_histories": [{"messages_and_choices": [choice(3)]}]}

    assert [found["token_ids"][0] for found in choices_in(trajectory)] == [0, 3]


def test_a_trajectory_without_a_choice_is_no_sequence() -> None:
    [read] = groups_of({"trajectories": [{"reward": 1.0}, *group((0, 0.0))["trajectories"]]})

    assert count_sequences([read]) == 1
    assert why_untrainable([read]) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"token_ids": None}, "group 0, trajectory 0: a Choice has no token_ids; take it from model.openai_client()"),
        ({"token_ids": [1, 2, 3]}, "group 0, trajectory 0: a Choice has 3 token_ids and 2 logprobs; do not edit it"),
        ({"logprobs": None}, "group 0, trajectory 0: a Choice has no logprobs; ask for logprobs=True"),
    ],
)
def test_a_choice_needs_a_logprob_for_each_token(changes: dict[str, object], told: str) -> None:
    assert why_untrainable(groups_of({"trajectories": [{"messages_and_choices": [{**choice(0), **changes}]}]})) == told


@pytest.mark.parametrize(
    ("trajectories", "told"),
    [
        ([], "no trajectory of it holds a Choice"),
        ([{"messages_and_choices": QUESTION}], "no trajectory of it holds a Choice"),
        ([{"exchanges": {"chat_completions": [{}]}}], "its exchanges were captured"),
    ],
)
def test_a_group_without_a_choice_cannot_be_trained_on(trajectories: list[Any], told: str) -> None:
    reason = why_untrainable(groups_of(group((0, 1.0)), {"trajectories": trajectories}))

    assert reason is not None
    assert reason.startswith(f"group 1 has nothing to train on: {told}")


def test_no_groups_cannot_be_trained_on() -> None:
    assert why_untrainable([]) == "there are no groups; send at least one"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("wandb-artifact:///us/tests/run", InferenceName("us", "tests", "run", None)),
        ("wandb-artifact:///us/tests/run:step12", InferenceName("us", "tests", "run", 12)),
    ],
)
def test_an_inference_name_may_pin_a_step(text: str, name: InferenceName) -> None:
    assert read_inference_name(text) == name


@pytest.mark.parametrize(
    "text", ["gpt-4o", "wandb-artifact:///us/run", "wandb-artifact:///a/b/c:latest", "wandb-artifact:///a/b/c:step٣"]
)
def test_another_model_name_is_not_found(text: str) -> None:
    with pytest.raises(RefusedError, match="name one as wandb-artifact") as refused:
        read_inference_name(text)

    assert refused.value.status == 404


def test_a_completion_is_told_token_by_token() -> None:
    request = ChatRequest(model="m", messages=QUESTION, logprobs=True, return_token_ids=True)
    answer = chat_answer(request, completion(), number=3, created=9, step=2)

    assert answer["prompt_token_ids"] == [7, 8, 9]
    assert answer["choices"][0]["token_ids"] == [1, 2]
    assert [(token["token"], token["logprob"]) for token in answer["choices"][0]["logprobs"]["content"]] == [
        ("h", -0.5),
        ("i", -0.25),
    ]
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert (answer["id"], answer["created"], answer["system_fingerprint"]) == ("chatcmpl-3", 9, "step2")


def test_tokens_come_only_when_asked_for() -> None:
    answer = chat_answer(ChatRequest(model="m", messages=QUESTION), completion(), number=1, created=0, step=0)

    assert "prompt_token_ids" not in answer
    assert "token_ids" not in answer["choices"][0]
    assert answer["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    "changes", [{"logprobs": (-0.5,)}, {"tokens": ("h",)}, {"token_ids": ()}, {"logprobs": (0.0, float("-inf"))}]
)
def test_a_completion_has_one_finite_logprob_a_token(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        completion(**changes)


@pytest.mark.parametrize(
    ("query", "ids", "more"),
    [
        (PageQuery(), ["a", "b", "c"], False),
        (PageQuery(limit=2), ["a", "b"], True),
        (PageQuery(limit=2, after="a"), ["b", "c"], False),
        (PageQuery(after="c"), [], False),
    ],
)
def test_a_list_comes_in_pages(query: PageQuery, ids: list[str], more: bool) -> None:
    assert page_of(ENTRIES, query) == {"data": [{"id": found} for found in ids], "has_more": more}


def test_a_page_after_nothing_is_refused() -> None:
    with pytest.raises(RefusedError, match="after='z' is the id of no entry"):
        page_of(ENTRIES, PageQuery(after="z"))


def test_a_turn_is_a_choice_behind_what_was_said_before_it_in_its_own_history() -> None:
    asked, told = {"role": "user", "content": "How much?"}, {"role": "tool", "content": "{}"}
    first, second, other = ({"finish_reason": "stop", "message": {"role": "assistant", "content": c}} for c in "abc")
    trajectory = {
        "messages_and_choices": [asked, first, told, second],
        "additional_histories": [{"messages_and_choices": [told, other]}],
    }

    assert list(turns_in(trajectory)) == [([asked], first), ([asked, first["message"], told], second), ([told], other)]
