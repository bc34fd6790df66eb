"""The linear policy behind the server samples as it does by itself, and learns what the plain learner would."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gradient_rl.embedded.jobs import JobError
from gradient_rl.embedded.linear import MAX_TOKENS, LinearModel
from gradient_rl.embedded.model import Completion, Message
from gradient_rl.embedded.server import serving
from gradient_rl.environment.prompt import opening_messages
from gradient_rl.errors import DataError, UsageError
from gradient_rl.policies.catalog import find_player
from gradient_rl.policies.gradient import read_state
from gradient_rl.policies.linear import decisions_behind, log_softmax, named, reply_to
from gradient_rl.rewards.advantages import Estimator
from gradient_rl.rollout.runner import Setting
from gradient_rl.schema.trajectory import Group
from gradient_rl.training.groups import sort_groups
from gradient_rl.training.linear import LinearLearner
from tests.embedded.calling import complete, failure, register, train
from tests.embedded.episodes import AS_SERVED, as_art, groups_of
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

ART_DEFAULTS = {"learning_rate": 5e-6, "scale_rewards": True, "epsilon": None, "kl_penalty_coef": 0.0, "loss_fn": "cispo"}


@pytest.fixture(scope="module")
def played(tiny_setting: Setting) -> list[Group]:
    groups = groups_of([NOTICE_TASK, DEPOSIT_TASK], tiny_setting, size=24)
    assert len(sort_groups(groups).used) == 2
    return groups


@pytest.fixture
def sent(played: Sequence[Group]) -> list[dict[str, Any]]:
    return copy.deepcopy([as_art(group) for group in played])


def sample(
    model: LinearModel, messages: Sequence[Message] = (), step: int = 0, seed: int = 0, max_tokens: int = 64
) -> Completion:
    asked = messages or opening_messages(NOTICE_TASK.for_policy(), Setting.__dataclass_fields__["limits"].default_factory())
    return model.complete(asked, [], step=step, temperature=1.0, max_tokens=max_tokens, seed=seed)


def learn(
    model: LinearModel, groups: Sequence[Mapping[str, Any]], step: int = 0, **config: object
) -> list[Mapping[str, float]]:
    return list(model.train(groups, {**ART_DEFAULTS, **config}, step=step))


def weights_in(folder: Path, step: int) -> dict[str, float]:
    return named(read_state(folder / f"linear-{step:06}.json")[0])


def saved_in(folder: Path, step: int) -> bytes:
    return (folder / f"linear-{step:06}.json").read_bytes()


def longest(sent: Sequence[Mapping[str, Any]]) -> tuple[list[Any], Mapping[str, Any]]:
    """The conversation before a submission, and the submission."""
    entries = max((t["messages_and_choices"] for t in sent[0]["trajectories"]), key=len)
    place = max(i for i, entry in enumerate(entries) if "finish_reason" in entry)
    return [entry.get("message", entry) for entry in entries[:place]], entries[place]


# --- sampling


def test_a_reply_is_the_plain_policys_with_a_token_for_each_decision(sent: Sequence[Mapping[str, Any]]) -> None:
    messages, _ = longest(sent)
    model = LinearModel(None)
    completion = sample(model, messages, seed=5)
    reply = reply_to(messages, model.weights(0), 1.0, random.Random(5))

    assert completion.message == reply.as_message()
    assert list(completion.token_ids) == reply.raw["decisions"]
    assert completion.tokens == tuple(str(decision) for decision in reply.raw["decisions"])
    assert completion.prompt_token_ids[:1] == (
        len(json.dumps(messages[0]["content"]).encode()) + len('{"role":"system","content":,"tool_calls":[]}'),
    )


def test_the_log_probabilities_are_those_of_the_weights(sent: Sequence[Mapping[str, Any]]) -> None:
    messages, _ = longest(sent)
    model = LinearModel(None)
    learn(model, sent)
    completion = sample(model, messages, step=1)
    weights = model.weights(1)
    again = [
        float(log_softmax(d.features @ weights[d.kind])[d.chosen]) for d in decisions_behind(messages, completion.token_ids)
    ]

    assert completion.logprobs == pytest.approx(again, abs=1e-12)


def test_a_seed_decides_and_a_trained_model_still_answers_for_its_base(sent: Sequence[Mapping[str, Any]]) -> None:
    model = LinearModel(None)
    before = [sample(model, seed=seed) for seed in range(5)]
    learn(model, sent)

    assert [sample(model, seed=seed) for seed in range(5)] == before
    assert [sample(model, step=1, seed=seed).logprobs for seed in range(5)] != [completion.logprobs for completion in before]


def test_a_conversation_reads_the_same_however_its_client_wrote_it(sent: Sequence[Mapping[str, Any]]) -> None:
    messages, _ = longest(sent)
    strict = [{name: value for name, value in message.items() if value is not None} for message in messages]
    loose = [
        {"tool_calls": None, "audio": None, **m, "content": [{"type": "text", "text": m.get("content") or ""}]} for m in strict
    ]

    assert sample(LinearModel(None), strict) == sample(LinearModel(None), messages)
    assert sample(LinearModel(None), loose) == sample(LinearModel(None), messages)


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([{"role": "system", "content": "x"}], "the conversation asks nothing"),
        ([{"content": "x"}], "message 0.role: Field required"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}], "message 1.tool_calls.0"),
        (
            [
                {"role": "user", "content": "Who?"},
                {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": '{"query": "x"}'}}]},
                {"role": "tool", "content": '{"hits": [{"url": "x"}]}'},
            ],
            "a tool answered something that no tool of this environment does: KeyError",
        ),
    ],
)  # fmt: skip
def test_another_conversation_is_refused(messages: list[Message], told: str) -> None:
    with pytest.raises(DataError, match=told):
        sample(LinearModel(None), messages)


def test_a_reply_is_not_cut_short() -> None:
    with pytest.raises(UsageError, match="max_tokens is 7, and a reply takes up to 8; allow that many"):
        sample(LinearModel(None), max_tokens=MAX_TOKENS - 1)


# --- training


@pytest.mark.parametrize(("scale_rewards", "estimator"), [(True, Estimator.GROUP_STD), (False, Estimator.GROUP_MEAN)])
def test_a_job_moves_the_weights_as_the_plain_learner_does(
    played: list[Group], sent: Sequence[Mapping[str, Any]], tmp_path: Path, scale_rewards: bool, estimator: Estimator
) -> None:
    learner = LinearLearner(AS_SERVED.model_copy(update={"estimator": estimator}), tmp_path / "plain")
    model = LinearModel(tmp_path / "served")
    for step in range(2):
        asyncio.run(learner.update(step + 1, sort_groups(played).used))
        metrics = learn(model, sent, step, scale_rewards=scale_rewards)
    asyncio.run(learner.checkpoint(2))

    assert len(metrics) == 4
    assert weights_in(tmp_path / "served", 2) == pytest.approx(weights_in(tmp_path / "plain", 2), abs=1e-12)
    assert max(abs(weight) for weight in weights_in(tmp_path / "plain", 2).values()) > 0.1


def test_the_metrics_bear_the_names_that_art_knows(sent: Sequence[Mapping[str, Any]]) -> None:
    first, *_, last = learn(LinearModel(None), sent)

    assert set(first) == {"loss", "entropy", "kl_div", "grad_norm", "learning_rate", "loss/clipped"}
    assert first["learning_rate"] == 5e-6
    assert first["kl_div"] == pytest.approx(0.0, abs=1e-12)
    assert last["kl_div"] > 0.0
    assert last["loss"] < first["loss"]
    assert first["grad_norm"] > 0.0


def test_a_learning_rate_of_zero_changes_nothing(sent: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    model = LinearModel(tmp_path)
    learn(model, sent, learning_rate=0.0)

    assert weights_in(tmp_path, 1) == weights_in(tmp_path, 0)


def test_groups_of_equal_rewards_make_a_step_that_changes_nothing(sent: list[dict[str, Any]], tmp_path: Path) -> None:
    for trajectory in sent[0]["trajectories"]:
        trajectory["reward"] = 0.5
    model = LinearModel(tmp_path)

    assert learn(model, sent[:1]) == []
    assert model.steps() == [0, 1]
    assert weights_in(tmp_path, 1) == weights_in(tmp_path, 0)


def test_the_penalty_holds_the_policy_near_its_reference(sent: Sequence[Mapping[str, Any]]) -> None:
    free, held = LinearModel(None), LinearModel(None)
    for model in (free, held):
        learn(model, sent)
    at_base = learn(held, sent, 0, kl_penalty_coef=1.0)[0]["kl_policy_ref"]
    learn(free, sent, 1)
    learn(held, sent, 1, kl_penalty_coef=5.0, kl_penalty_reference_step=1)

    assert at_base == pytest.approx(0.0, abs=1e-12)
    assert named(free.weights(2)) != named(held.weights(2))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"learning_rate": "fast"}, "learning_rate is 'fast'; it must be a number from 0 to 1"),
        ({"kl_penalty_coef": 0.1, "kl_penalty_reference_step": 9}, r"the KL reference is step 9, and there are \[0\]"),
    ],
)
def test_an_impossible_setting_fails_the_job(
    sent: Sequence[Mapping[str, Any]], config: Mapping[str, object], told: str
) -> None:
    with pytest.raises(JobError, match=told):
        learn(LinearModel(None), sent, **config)


def with_token_ids(sent: list[dict[str, Any]], change: Callable[[list[Any]], list[Any]]) -> list[dict[str, Any]]:
    """The groups with the first Choice of one trajectory changed, a log-probability for each of its tokens."""
    choice = next(e for e in sent[1]["trajectories"][2]["messages_and_choices"] if "finish_reason" in e)
    choice["token_ids"] = change(choice["token_ids"])
    choice["logprobs"]["content"] = [{"token": "x", "logprob": -0.5} for _ in choice["token_ids"]]
    return sent


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda ids: [99, *ids[1:]], "decision 1 is 99, and there are 2 candidates for 'move'"),
        (lambda ids: ids[:-1], "candidates for"),
        (lambda ids: [*ids, 0], "decisions, and the reply takes"),
        (lambda ids: ["0", *ids[1:]], "the token id '0' is not a whole number"),
    ],
)
def test_decisions_that_do_not_fit_fail_the_job(
    sent: list[dict[str, Any]], change: Callable[..., list[Any]], told: str
) -> None:
    model = LinearModel(None)
    with serving(model) as server:
        told_by_server = failure(server, train(server, register(server), with_token_ids(sent, change)))

    assert told_by_server.startswith("group 1, trajectory 2, Choice 0: ")
    assert told in told_by_server
    assert told_by_server.endswith("; send Choices as this model sampled them")
    assert model.steps() == [0]


def test_a_job_that_is_given_up_makes_no_step(sent: Sequence[Mapping[str, Any]]) -> None:
    model = LinearModel(None)
    job = iter(model.train(sent, ART_DEFAULTS, step=0))
    next(job)
    job.close()

    assert model.steps() == [0]


# --- what stays


def test_a_later_process_goes_on_as_if_it_had_been_the_same(sent: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    straight, first = LinearModel(tmp_path / "straight"), LinearModel(tmp_path / "restarted")
    learn(straight, sent)
    learn(first, sent)
    later = LinearModel(tmp_path / "restarted")
    learn(straight, sent, 1)
    learn(later, sent, 1)

    assert later.steps() == [0, 1, 2]
    assert sample(later, step=1) == sample(first, step=1)
    assert saved_in(tmp_path / "straight", 2) == saved_in(tmp_path / "restarted", 2)


def test_forgotten_steps_are_gone_from_the_disk_too(sent: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    model = LinearModel(tmp_path)
    for step in range(3):
        learn(model, sent, step)
    model.forget([1, 2])

    assert model.steps() == LinearModel(tmp_path).steps() == [0, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linear-000000.json", "linear-000003.json"]


def test_the_catalog_plays_what_the_server_learned(sent: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    learn(LinearModel(tmp_path), sent)

    assert find_player("linear@latest", tmp_path).name == "linear@1"
    assert find_player("linear@0", tmp_path).name == "linear@0"


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "linear-000001.json").write_text("{")

    with pytest.raises(DataError, match="linear-000001.json is not a checkpoint of this version"):
        LinearModel(tmp_path)


def test_a_restarted_server_serves_the_step_it_had_reached(sent: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    asked = [{"role": "user", "content": "How much notice?"}]
    with serving(LinearModel(tmp_path), folder=tmp_path) as server:
        register(server)
        learn(LinearModel(tmp_path), sent)
    with serving(LinearModel(tmp_path), folder=tmp_path) as server:
        answer = complete(server, messages=asked, seed=1).body

    assert answer["system_fingerprint"] == "step1"
    assert answer["prompt_token_ids"] == [len('{"role":"user","content":"How much notice?","tool_calls":[]}')]
