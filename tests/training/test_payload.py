"""What ART is sent, against what the unmodified library really makes of the same groups."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gradient_rl.embedded.model import ArtGroup
from gradient_rl.embedded.protocol import TrainingRequest, read_groups, why_untrainable
from gradient_rl.embedded.server import EmbeddedServer, serving
from gradient_rl.errors import DataError
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_group
from gradient_rl.schema.trajectory import Group, Reward, RewardPart, StopReason, Trajectory
from gradient_rl.training.payload import PayloadSize, art_choice, art_group, art_trajectory, payload_size, to_art
from tests.embedded.bandit import Bandit
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "notice"}'}}
TOOL = {"type": "function", "function": {"parameters": {"type": "object"}, "name": "search", "description": "Search."}}
QUESTION = {"role": "user", "content": "How much notice?"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "{}"}
SAID = {"role": "assistant", "content": "60 days"}
CONVERSATION = (QUESTION, CALLED, FOUND, SAID)


def reward(total: float = 0.5) -> Reward:
    return Reward(parts=(RewardPart(name="correctness", value=total, weight=1.0),), total=total)


def raw(message: Mapping[str, Any], *logprobs: float, **more: object) -> dict[str, Any]:
    content = [{"token": "t", "bytes": [116], "logprob": logprob, "top_logprobs": []} for logprob in logprobs]
    kept = {name: value for name, value in message.items() if value is not None}
    fields = {"finish_reason": "stop", "index": 0, "message": kept, "logprobs": {"content": content}}
    return {**fields, "token_ids": list(range(len(logprobs))), "prompt_token_ids": [7, 8, 9], **more}


def played(*choices: dict[str, Any], **more: Any) -> Trajectory:  # noqa: ANN401
    fields: dict[str, Any] = {"messages": CONVERSATION, "tools": (TOOL,), "reward": reward(), "choices": choices}
    return trajectory(**{**fields, **more})


def group(*trajectories: Trajectory) -> Group:
    return Group(task_id="tiny-1", trajectories=trajectories)


BOTH = (raw(CALLED, -0.5, -1, finish_reason="tool_calls"), raw(SAID, -0.25))
HARD_TO_SEND = (
    played(*BOTH),
    played(BOTH[0], {}, reward=reward(0.0)),
    played(raw({**CALLED, "content": "Let me look.", "reasoning_content": "hm"}, -2.0, stop_reason=None), BOTH[1]),
    played(raw(CALLED, -1.0, token_ids=[1, 2]), raw({"role": "assistant"}, -3.0)),
    played({}, raw({**SAID, "refusal": None, "annotations": []}, -3.0, index=2, art_moe_routing=[1])),
    played(messages=(QUESTION, {"role": "assistant", "content": "caf\u00e9 \ud83d"}), tools=()),
    played(reward=None, stop_reason=StopReason.TRANSPORT_ERROR, error="no answer"),
)
"""With and without calls, text, tokens and a reward; extra fields; half a surrogate pair; replies cut out of step."""


@pytest.fixture
def scripted(tiny_setting: Setting) -> Group:
    jobs = [Job(task=NOTICE_TASK, policy=WeakPolicy(), sample=i, seed=1) for i in range(4)]
    return asyncio.run(run_group(jobs, tiny_setting))


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for name, value in (("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("TQDM_DISABLE", "1"), ("WANDB_DISABLE_WEAVE", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


class Keeper(Bandit):
    """Learns nothing and keeps the groups that it was sent."""

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        self.groups = groups
        self.logits[step + 1] = self.logits[step]
        yield {"loss": 0.0}


def test_a_trajectory_is_sent_with_its_trainable_replies_as_choices() -> None:
    token = {"token": "t", "bytes": [116], "logprob": -0.25, "top_logprobs": []}
    message = {"content": "60 days", "refusal": None, "role": "assistant", "annotations": None, "audio": None}
    sent = art_trajectory(played({}, BOTH[1]))
    assert sent["messages_and_choices"] == [
        QUESTION,
        CALLED,
        FOUND,
        {
            "finish_reason": "stop",
            "index": 0,
            "logprobs": {"content": [token], "refusal": None},
            "message": {**message, "function_call": None, "tool_calls": None},
            "token_ids": [0],
            "prompt_token_ids": [7, 8, 9],
        },
    ]
    assert sent["tools"] == [TOOL]
    assert sent["reward"] == 0.5


def test_metrics_are_numbers_and_metadata_says_where_it_came_from() -> None:
    sent = art_trajectory(played(sample=3, policy="chat:m"))
    assert sent["metrics"] == {
        "calls": 3,
        "errors": 0,
        "opened": 1,
        "malformed": False,
        "submitted": True,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "correctness": 0.5,
    }
    texts = {"task_id": "tiny-1", "family": "superseded", "split": "train", "policy": "chat:m", "stop_reason": "submitted"}
    assert sent["metadata"] == {**texts, "step": 0, "sample": 3, "attempt": 0, "seed": 0}


def test_a_trajectory_without_a_reward_is_left_out_of_its_group() -> None:
    failed = played(reward=None, stop_reason=StopReason.TRANSPORT_ERROR)
    assert [t["metadata"]["sample"] for t in art_group(group(failed, played(sample=1)))["trajectories"]] == [1]
    assert art_group(group(failed)) == {"metadata": {"scenario_id": "tiny-1"}}


def test_a_reward_of_nothing_is_left_out_as_the_library_does() -> None:
    assert "reward" not in art_trajectory(played(reward=reward(0.0)))


@pytest.mark.parametrize(
    "broken",
    [
        {},
        raw(SAID),
        raw(SAID, -1.0, token_ids=[1, 2]),
        raw(SAID, -1.0, token_ids=None),
        raw(SAID, -1.0, logprobs=None),
        raw(SAID, -1.0, finish_reason="abort"),
        raw({**CALLED, "tool_calls": [{"id": "c1"}]}, -1.0),
    ],
)
def test_a_reply_without_a_logprob_for_each_token_is_context(broken: dict[str, Any]) -> None:
    assert art_choice(broken) is None
    assert art_trajectory(played({}, broken))["messages_and_choices"] == list(CONVERSATION)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_named_and_not_sent(value: float) -> None:
    with pytest.raises(DataError, match=rf"task tiny-1, sample 0: messages_and_choices\[3\].logprobs.*logprob is {value}"):
        art_trajectory(played({}, raw(SAID, value)))
    bad = reward().model_copy(update={"total": value})
    with pytest.raises(DataError, match=f"sample 0: reward is {value}"):
        art_group(group(played().model_copy(update={"reward": bad})))


def test_what_is_not_json_is_named() -> None:
    with pytest.raises(DataError, match="sample 0 cannot be sent: Object of type set"):
        art_trajectory(played(messages=({"role": "user", "content": {1}},)))


def test_choices_out_of_step_with_the_replies_are_refused() -> None:
    with pytest.raises(DataError, match="has 1 choices for 2 assistant messages"):
        art_trajectory(played(BOTH[0]))


def test_the_library_makes_the_same_of_scripted_and_sampled_groups(scripted: Group, no_key: None) -> None:
    groups = [scripted, group(*HARD_TO_SEND), group()]
    assert len(art_group(scripted)["trajectories"]) == 4
    assert [json.dumps(made.model_dump(mode="json")) for made in to_art(groups)] == [json.dumps(art_group(g)) for g in groups]


def test_a_choice_is_what_the_client_itself_would_post(no_key: None) -> None:
    import art
    from openai.types.chat.chat_completion import Choice

    choice = Choice.model_validate(BOTH[0])
    [made] = art.Trajectory(messages_and_choices=[choice]).model_dump(mode="json")["messages_and_choices"]
    assert made == art_choice(BOTH[0])


def test_training_posts_these_very_groups(tmp_path: Path, no_key: None) -> None:
    groups, served = [group(*HARD_TO_SEND)], Keeper()

    async def train(server: EmbeddedServer) -> None:
        import art

        backend = art.ServerlessBackend(api_key="local", base_url=server.base_url)
        model = art.TrainableModel(name="m", run_name="run", project="tests", base_model="m", base_path=str(tmp_path))
        try:
            await model.register(backend)
            await backend.train(model, to_art(groups))
        finally:
            await model._reset_inference_runtime()
            await backend.close()

    with serving(served) as server:
        asyncio.run(train(server))
    ours = read_groups(TrainingRequest(model_id="m", trajectory_groups=[art_group(g) for g in groups]))
    assert json.dumps(served.groups) == json.dumps(ours)
    assert why_untrainable(ours) is None


def test_the_size_counts_tokens_that_the_server_told() -> None:
    groups = [group(played(*BOTH), played(reward=None, stop_reason=StopReason.TRANSPORT_ERROR))]
    size = len(json.dumps([art_group(g) for g in groups], separators=(",", ":"), ensure_ascii=False).encode())
    assert payload_size(groups) == PayloadSize(1, 1, 1, sampled_tokens=3, prompt_tokens=6, estimated=False, bytes=size)


def test_the_size_is_estimated_where_nobody_counted() -> None:
    said = {"role": "assistant", "content": "x" * 41}
    size = payload_size([group(played(messages=({"role": "user", "content": "y" * 80}, said), tools=()))])
    assert (size.trainable, size.sampled_tokens, size.prompt_tokens, size.estimated) == (0, 10, 20, True)
