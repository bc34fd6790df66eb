from __future__ import annotations

import json
from pathlib import Path

from gradient_rl.report.artifacts import Row, load, read_rows
from gradient_rl.report.export import Format, examples
from gradient_rl.schema.trajectory import StopReason, Trajectory
from tests.saving import reward, save
from tests.trajectories import trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "submit_answer", "arguments": '{"answer": "60 days"}'}}
MESSAGES = (
    {"role": "system", "content": "You are."},
    {"role": "user", "content": "How much notice?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "reasoning": "hm"},
    {"role": "tool", "tool_call_id": "c1", "content": "{}"},
)
TOOLS = ({"type": "function", "function": {"name": "submit_answer", "parameters": {"type": "object"}}},)


def chat(**more: object) -> Trajectory:
    return trajectory(**{"messages": MESSAGES, "tools": TOOLS, "reward": reward()} | more)


def rows_of(folder: Path, *episodes: Trajectory) -> list[tuple[Row, Trajectory]]:
    return [(row, load(row)) for row in read_rows(save(folder / "demo.jsonl", *episodes)).rows]


def shape(value: object) -> object:
    """The types of a value all the way down; a list by those of its elements."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value][:1]
    return type(value).__name__


def test_a_fine_tuning_example_ends_with_the_last_reply(tmp_path: Path) -> None:
    (example,) = examples(rows_of(tmp_path, chat()), Format.OPENAI)

    assert list(example) == ["messages", "tools"]
    assert example["tools"] == list(TOOLS)
    assert example["messages"] == [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "How much notice?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ]


def test_episodes_without_a_reward_or_a_reply_are_left_out_by_name(tmp_path: Path) -> None:
    failed = chat(sample=1, answer=None, stop_reason=StopReason.TRANSPORT_ERROR, reward=None)
    silent = chat(sample=2, messages=MESSAGES[:2])
    left_out: list[str] = []
    made = list(examples(rows_of(tmp_path, chat(), failed, silent), Format.OPENAI, left_out))

    assert len(made) == 1
    assert left_out == ["demo/made/tiny-1/1", "demo/made/tiny-1/2"]


def test_flat_lines_have_the_same_columns_and_types_and_no_null(tmp_path: Path) -> None:
    bare = chat(answer=None, sources=(), reward=reward(0, 0, 0), stop_reason=StopReason.CALL_LIMIT, sample=1)
    full = chat(checkpoint="4", model="m", behaviours=("no_citation",), reward=reward(0.5))
    first, second = examples(rows_of(tmp_path, bare, full), Format.HF)

    assert shape(first) == shape(second)
    assert "null" not in json.dumps(first)
    assert {key for message in first["messages"] for key in message} == {"role", "content", "tool_calls", "tool_call_id"}


def test_flat_columns_say_what_was_played_and_earned(tmp_path: Path) -> None:
    (example,) = examples(rows_of(tmp_path, chat(checkpoint="4", reward=reward(0.5))), Format.HF)

    assert example["id"] == "demo/made@4/tiny-1/0"
    assert (example["policy"], example["checkpoint"], example["reward"]) == ("made", "4", 0.75)
    assert (example["correctness"], example["citation_quality"], example["efficiency"]) == (0.5, 1.0, 1.0)
    assert json.loads(str(example["tools"])) == list(TOOLS)


def test_content_in_parts_stays_readable_in_a_flat_line(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "hello"}]
    (example,) = examples(rows_of(tmp_path, chat(messages=({"role": "assistant", "content": parts},))), Format.HF)

    assert example["messages"] == [
        {"role": "assistant", "content": json.dumps(parts), "tool_calls": [], "tool_call_id": ""},
    ]
