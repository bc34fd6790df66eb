from __future__ import annotations

import ast
import asyncio
import json
import random
from pathlib import Path

import numpy as np
import pytest

import gradient_rl.policies
from gradient_rl.environment.episode import Limits
from gradient_rl.environment.prompt import opening_messages
from gradient_rl.environment.workspace import Workspace
from gradient_rl.errors import DataError, NothingToReadError, UsageError
from gradient_rl.policies.base import Reply
from gradient_rl.policies.catalog import Checkpoint, find_player, learned_here, linear_checkpoints
from gradient_rl.policies.features import FEATURES, Kind
from gradient_rl.policies.linear import (
    LinearPolicy,
    checkpoint_path,
    decisions_behind,
    from_names,
    log_softmax,
    named,
    read_checkpoint,
    reply_to,
    zero_weights,
)
from gradient_rl.policies.view import Row, View
from gradient_rl.rollout.runner import Job, Setting, run_episode, setting_for
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

SAMPLES = range(8)


def some_weights(seed: int = 0) -> dict[Kind, Row]:
    """One weight a feature, each drawn by the feature's name and so different from all others."""
    return {
        kind: np.array([random.Random(f"{seed}/{kind}.{name}").gauss(0.0, 1.0) for name in names])
        for kind, names in FEATURES.items()
    }


def play(
    setting: Setting, weights=None, temperature: float = 1.0, sample: int = 0, seed: int = 3, task: Task = NOTICE_TASK
) -> Trajectory:
    policy = LinearPolicy(weights or some_weights(), temperature)
    return asyncio.run(run_episode(Job(policy, task, seed=seed, sample=sample), setting))


def replies(played: Trajectory) -> list[tuple[list[dict], dict]]:
    """Each conversation that was replied to, with the reply as it was saved."""
    places = [place for place, message in enumerate(played.messages) if message["role"] == "assistant"]
    return [(list(played.messages[:place]), raw) for place, raw in zip(places, played.choices, strict=True)]


@pytest.fixture(scope="module")
def group(tiny_setting: Setting) -> list[Trajectory]:
    tasks = (NOTICE_TASK, DEPOSIT_TASK)
    return [play(tiny_setting, sample=sample, task=task) for task in tasks for sample in SAMPLES]


@pytest.fixture
def opening() -> list[dict]:
    return opening_messages(NOTICE_TASK.for_policy(), Limits())


# -- replies and the decisions behind them


def test_every_kind_of_decision_comes_up(group: list[Trajectory]) -> None:
    made = {d.kind for t in group for messages, raw in replies(t) for d in decisions_behind(messages, raw["decisions"])}

    assert made == set(Kind)


def test_log_probabilities_are_those_of_the_decisions_scored_again(group: list[Trajectory]) -> None:
    weights = some_weights()
    for messages, raw in [reply for played in group for reply in replies(played)]:
        again = [log_softmax(d.features @ weights[d.kind])[d.chosen] for d in decisions_behind(messages, raw["decisions"])]
        assert again == pytest.approx(raw["logprobs"], abs=1e-12)


def test_at_another_temperature_they_are_those_it_sampled_from(opening: list[dict]) -> None:
    weights = some_weights()
    raw = reply_to(opening, weights, 0.5, random.Random(1)).raw
    again = [log_softmax(d.features @ weights[d.kind] / 0.5)[d.chosen] for d in decisions_behind(opening, raw["decisions"])]

    assert again == pytest.approx(raw["logprobs"], abs=1e-12)


def test_probabilities_over_the_candidates_add_up_to_one(group: list[Trajectory]) -> None:
    weights = some_weights()
    for messages, raw in [reply for played in group for reply in replies(played)]:
        for kind, features, _ in decisions_behind(messages, raw["decisions"]):
            assert features.shape[1] == len(FEATURES[kind])
            assert np.exp(log_softmax(features @ weights[kind])).sum() == pytest.approx(1.0, abs=1e-12)


def test_decisions_survive_being_written_and_read(group: list[Trajectory]) -> None:
    for played in group:
        read = Trajectory.model_validate_json(played.model_dump_json())
        assert read.choices == played.choices
        for messages, raw in replies(read):
            assert [d.chosen for d in decisions_behind(messages, raw["decisions"])] == raw["decisions"]


def test_candidates_are_drawn_as_often_as_they_are_likely(opening: list[dict]) -> None:
    drawn = [reply_to(opening, some_weights(), 1.0, random.Random(seed)).raw for seed in range(400)]
    first = decisions_behind(opening, drawn[0]["decisions"])[0]
    expected = np.exp(log_softmax(first.features @ some_weights()[first.kind]))
    share = np.bincount([raw["decisions"][0] for raw in drawn], minlength=len(expected)) / len(drawn)

    assert share == pytest.approx(expected, abs=0.1)


def test_weights_of_zero_find_every_candidate_as_likely(opening: list[dict]) -> None:
    reply = reply_to(opening, zero_weights(), 1.0, random.Random(0))
    counts = [len(decision.features) for decision in decisions_behind(opening, reply.raw["decisions"])]

    assert reply.raw["logprobs"] == pytest.approx([-np.log(count) for count in counts])


@pytest.mark.parametrize("last", [-1, 9999])
def test_a_decision_for_a_candidate_that_is_not_there_is_refused(opening: list[dict], last: int) -> None:
    decisions = reply_to(opening, some_weights(), 1.0, random.Random(0)).raw["decisions"]
    with pytest.raises(ValueError, match=f"decision {len(decisions)} is {last}, and there are [0-9]+ candidates for"):
        decisions_behind(opening, [*decisions[:-1], last])


def test_fewer_decisions_than_the_reply_takes_are_refused(opening: list[dict]) -> None:
    decisions = reply_to(opening, some_weights(), 1.0, random.Random(0)).raw["decisions"]
    for count in range(len(decisions)):
        with pytest.raises(ValueError, match=f"decision {count + 1} is -1"):
            decisions_behind(opening, decisions[:count])


def test_more_decisions_than_the_reply_takes_are_refused(opening: list[dict]) -> None:
    decisions = reply_to(opening, some_weights(), 1.0, random.Random(0)).raw["decisions"]
    with pytest.raises(ValueError, match=f"there are {len(decisions) + 1} decisions, and the reply takes {len(decisions)}"):
        decisions_behind(opening, [*decisions, 0])


# -- chance


def test_the_same_seed_plays_the_same_episode(tiny_setting: Setting) -> None:
    one, two = (play(tiny_setting, sample=5) for _ in range(2))

    assert one.messages == two.messages
    assert one.choices == two.choices


def test_a_temperature_gives_a_group_spread(group: list[Trajectory]) -> None:
    assert len({str([step.arguments for step in t.steps]) for t in group[: len(SAMPLES)]}) > 1


def test_without_temperature_the_likeliest_candidate_is_taken(tiny_setting: Setting) -> None:
    weights = some_weights()
    for messages, raw in replies(play(tiny_setting, weights, temperature=0.0)):
        for kind, features, chosen in decisions_behind(messages, raw["decisions"]):
            logits = features @ weights[kind]
            assert logits[chosen] == logits.max()


def test_without_temperature_equals_are_drawn_from(opening: list[dict]) -> None:
    made = {str(reply_to(opening, zero_weights(), 0.0, random.Random(seed)).tool_calls) for seed in range(40)}

    assert len(made) > 2


def test_a_temperature_below_zero_is_none(opening: list[dict]) -> None:
    made = [
        asyncio.run(LinearPolicy(some_weights(), temperature).act(opening, (), random.Random(1))) for temperature in (-1.0, 0.0)
    ]

    assert made[0] == made[1]


# -- what it plays


def test_every_episode_ends_by_submitting_or_at_the_limit(group: list[Trajectory]) -> None:
    assert {t.stop_reason for t in group} <= {StopReason.SUBMITTED, StopReason.CALL_LIMIT}
    assert {step.error for t in group for step in t.steps} == {None}


def test_it_cites_only_what_it_opened(group: list[Trajectory]) -> None:
    for played in group:
        assert played.opened.issuperset(played.sources)
        assert len(set(played.sources)) == len(played.sources)


def test_an_answer_quotes_an_opened_record_or_says_that_nothing_is_on_record(group: list[Trajectory]) -> None:
    for played in (t for t in group if t.answer and t.answer != "This is not on record."):
        shown = View(played.messages)
        sentences = [sentence for page in shown.pages.values() for sentence in page.sentences]
        assert any(played.answer.startswith(sentence) for sentence in sentences)


def test_an_observation_that_was_cut_breaks_nothing(tiny: Workspace) -> None:
    setting = setting_for(tiny, Limits(max_observation_chars=200))
    for sample in SAMPLES:
        played = play(setting, sample=sample)
        assert played.error is None
        assert replies(played)
        for messages, raw in replies(played):
            decisions_behind(messages, raw["decisions"])


def test_a_question_of_common_words_alone_is_still_answered() -> None:
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "Today is 2025-06-30.\n\nWhat is it?"}]
    reply = reply_to(messages, some_weights(), 1.0, random.Random(0))

    assert reply.tool_calls[0].tool == "submit_answer"
    assert reply.tool_calls[0].arguments == {"answer": "This is not on record.", "sources": []}


# -- what it knows


def twin_of(task: Task) -> Task:
    """A task that asks the same and holds something else to be true."""
    fact = task.facts[0].model_copy(update={"value": "90 days", "rivals": ("60 days",), "sources": ("doc-2",)})
    changes = {"facts": (fact,), "required_sources": (("doc-2",),), "family": "near_duplicate", "reference": ()}
    return task.model_copy(update=changes)


def test_tasks_with_the_same_messages_are_given_the_same_replies(tiny_setting: Setting) -> None:
    for sample in SAMPLES:
        one, two = (play(tiny_setting, sample=sample, task=task) for task in (NOTICE_TASK, twin_of(NOTICE_TASK)))
        assert one.messages == two.messages
        assert one.choices == two.choices


def test_messages_alone_decide_on_a_reply(group: list[Trajectory]) -> None:
    """Neither the tools it is shown nor anything that it replied to before changes a reply."""
    used, fresh = LinearPolicy(some_weights(), 1.0), LinearPolicy(some_weights(), 1.0)

    async def act(policy: LinearPolicy, messages: list[dict], tools: tuple) -> Reply:
        return await policy.act(messages, tools, random.Random(7))

    for messages, _ in replies(group[0]):
        copied = json.loads(json.dumps(messages))
        assert asyncio.run(act(used, messages, group[0].tools)) == asyncio.run(act(fresh, copied, ()))


def imports_of(module: str) -> set[str]:
    """The policy modules that a policy module imports, and those that these import."""
    folder = Path(gradient_rl.policies.__file__).parent
    found: set[str] = set()
    waiting = [module]
    while waiting:
        for node in ast.walk(ast.parse((folder / f"{waiting.pop()}.py").read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            inside = {name.removeprefix("gradient_rl.policies.") for name in names if name.startswith("gradient_rl.policies.")}
            new = {name for name in inside if (folder / f"{name}.py").exists()} - found
            found |= new
            waiting += new
    return found


@pytest.mark.parametrize("module", ["view", "features", "linear"])
def test_it_never_imports_the_scripted_policies(module: str) -> None:
    imported = imports_of(module)

    assert "reading" in imported
    assert not imported & {"heuristic", "weak", "lenient", "catalog"}


# -- checkpoints


def save(folder: Path, *steps: int, weights=None) -> None:
    for step in steps:
        checkpoint_path(folder, step).write_text(json.dumps({"weights": named(weights or zero_weights())}), encoding="utf-8")


def test_weights_survive_being_named() -> None:
    weights = some_weights()
    again = from_names(json.loads(json.dumps(named(weights))))

    assert all(np.array_equal(again[kind], weights[kind]) for kind in Kind)
    assert list(named(weights)) == [f"{kind}.{name}" for kind, names in FEATURES.items() for name in names]


def test_no_two_features_of_a_kind_share_a_name() -> None:
    assert all(len(set(names)) == len(names) for names in FEATURES.values())
    assert set(FEATURES) == set(Kind)


def test_a_checkpoint_plays_with_its_weights(tmp_path: Path, opening: list[dict]) -> None:
    save(tmp_path, 40, weights=some_weights())
    policy = find_player("linear", tmp_path, temperature=1.0).policy

    reply = asyncio.run(policy.act(opening, (), random.Random(2)))

    assert reply == reply_to(opening, some_weights(), 1.0, random.Random(2))


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="linear-000003.json is not there; train again"):
        read_checkpoint(checkpoint_path(tmp_path, 3))


def without_the_first() -> dict[str, object]:
    return dict(list(named(zero_weights()).items())[1:])


FIRST = next(iter(named(zero_weights())))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a checkpoint of this version"),
        ('{"weights": {', "is not a checkpoint of this version"),
        ("[]", "is not a checkpoint of this version"),
        ("7", "is not a checkpoint of this version"),
        ("{}", "is not a checkpoint of this version: 'weights'"),
        ('{"weights": 7}', "is not a checkpoint of this version"),
        ('{"weights": null}', "is not a checkpoint of this version"),
        (json.dumps({"weights": without_the_first()}), f"the features do not match .* '{FIRST}'; train again"),
        (json.dumps({"weights": {**named(zero_weights()), "a.b": 1.0}}), "the features do not match .* 'a.b'; train again"),
        (json.dumps({"weights": {**named(zero_weights()), FIRST: "much"}}), f"the weight of '{FIRST}' is 'much'"),
        (json.dumps({"weights": {**named(zero_weights()), FIRST: None}}), f"the weight of '{FIRST}' is None"),
        (json.dumps({"weights": {**named(zero_weights()), FIRST: float("nan")}}), "NaN is no JSON"),
    ],
)
def test_a_damaged_checkpoint_is_named_with_what_is_wrong(tmp_path: Path, content: str, said: str) -> None:
    path = checkpoint_path(tmp_path, 1)
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=f"linear-000001.json .*{said}"):
        read_checkpoint(path)
    with pytest.raises(DataError):
        find_player("linear@1", tmp_path)


def test_a_checkpoint_that_is_no_text_is_named(tmp_path: Path) -> None:
    checkpoint_path(tmp_path, 1).write_bytes(b"\xff\xfe\x00")

    with pytest.raises(DataError, match="linear-000001.json is not a checkpoint"):
        read_checkpoint(checkpoint_path(tmp_path, 1))


def test_the_state_before_training_is_found_as_0(tmp_path: Path) -> None:
    save(tmp_path, 0, 10)
    player = find_player("linear@0", tmp_path)

    assert (player.name, player.bases) == ("linear@0", ())
    assert player.checkpoint == Checkpoint("0", checkpoint_path(tmp_path, 0))


def test_the_latest_is_the_highest_number_and_not_the_last_name(tmp_path: Path) -> None:
    save(tmp_path, 1_000_000, 999_999, 0, 20)
    player = find_player("linear@latest", tmp_path)

    assert [checkpoint.label for checkpoint in linear_checkpoints(tmp_path)] == ["0", "20", "999999", "1000000"]
    assert (player.name, player.bases) == ("linear@1000000", ("linear@0",))


def test_a_stray_file_is_no_checkpoint(tmp_path: Path) -> None:
    for name in ("linear-best.json", "linear-12.json", "linear-000012.json.part", "linear-000012.txt", "other-000012.json"):
        (tmp_path / name).write_text("{}")

    assert linear_checkpoints(tmp_path) == []
    assert learned_here(tmp_path) == []


def test_a_folder_of_checkpoints_makes_the_policy_playable(tmp_path: Path) -> None:
    save(tmp_path, 0)

    assert learned_here(tmp_path) == ["linear@latest"]


def test_without_a_checkpoint_it_is_told_to_train(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="policy 'linear' has no checkpoint in .*; train it first"):
            find_player("linear", folder)
