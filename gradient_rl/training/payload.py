"""What OpenPipe ART is sent for groups: the JSON of its trajectory groups, built without the library, and its objects.

The shapes are those of openpipe-art 0.5.23: `TrajectoryGroup.model_dump(mode="json")`, which leaves defaults out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradient_rl.errors import DataError
from gradient_rl.schema.trajectory import Group, StopReason, Trajectory

if TYPE_CHECKING:
    import art

CHARS_PER_TOKEN = 4
"""What a token is taken to be where nobody counted."""
_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
"""What the library lets through of a tool's function, in its order."""
_NEVER_POSTED = "art_moe_routing"
"""A field of a Choice that the library keeps to itself."""


class _Wire(BaseModel):
    """A part of OpenAI's Choice, its fields in the order in which the client writes them, further ones behind."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Candidate(_Wire):
    token: str
    bytes: list[int] | None = None
    logprob: float


class _Token(_Candidate):
    top_logprobs: list[_Candidate] = Field(default_factory=list[_Candidate])


class _Logprobs(_Wire):
    content: list[_Token] = Field(min_length=1)
    refusal: list[_Token] | None = None


class _Function(_Wire):
    arguments: str
    name: str


class _Call(_Wire):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _Message(_Wire):
    content: str | None = None
    refusal: str | None = None
    role: Literal["assistant"] = "assistant"
    annotations: list[Any] | None = Field(default=None, max_length=0)
    audio: None = None
    function_call: None = None
    tool_calls: list[_Call] | None = None


class _Choice(_Wire):
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]
    index: int = 0
    logprobs: _Logprobs
    message: _Message
    token_ids: list[int]

    @model_validator(mode="after")
    def _one_logprob_a_token(self) -> Self:
        if len(self.token_ids) != len(self.logprobs.content):
            raise ValueError(f"{len(self.token_ids)} token ids, {len(self.logprobs.content)} logprobs")
        return self


@dataclass(frozen=True)
class PayloadSize:
    """How much a training job sends; trajectories without a reward are not sent and not counted."""

    groups: int
    trajectories: int
    trainable: int
    """Trajectories with at least one trainable Choice."""
    sampled_tokens: int
    prompt_tokens: int
    """Summed over turns, since each turn brings its whole prompt."""
    estimated: bool
    """Whether some tokens were guessed from the length of the text."""
    bytes: int
    """Of the groups as compact JSON in UTF-8."""


def art_group(group: Group) -> dict[str, Any]:
    """Give the JSON that the library posts for a group; a trajectory without a reward is left out.

    A group that has none left is without `trajectories`.

    Raises:
        DataError: as `art_trajectory`.
    """
    trajectories = [art_trajectory(trajectory) for trajectory in _sent(group)]
    return _filled({"trajectories": trajectories, "metadata": {"scenario_id": group.task_id}})


def art_trajectory(t: Trajectory) -> dict[str, Any]:
    """Give the JSON that the library posts for a trajectory.

    A reply becomes a Choice, which is trained on, where the server gave a token id and a log-probability for each of its
    tokens; any other reply is context. A missing reward is sent as 0, which the library leaves out.

    Raises:
        DataError: a number is NaN or infinite, a value is not JSON, or choices and assistant messages differ in number.
    """
    payload = {
        "messages_and_choices": [art_choice(raw) or message for message, raw in _turns(t)],
        "tools": [_tool(tool) for tool in t.tools],
        "reward": float(t.reward.total) if t.reward else 0.0,
        "metrics": _metrics(t),
        "metadata": _metadata(t),
    }
    return _plain(_filled(payload), _where(t))


def art_choice(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read a server's reply as the JSON of an `openai` Choice with `token_ids`; None where it cannot be trained on."""
    try:
        return _Choice.model_validate(raw).model_dump(exclude={_NEVER_POSTED})
    except ValidationError:
        return None


def to_art(groups: Sequence[Group]) -> list[art.TrajectoryGroup]:
    """Build the library's own groups, which it posts as `art_group` gives them.

    Raises:
        DataError: as `art_trajectory`.
    """
    import art

    plain = [art_group(group) for group in groups]
    return [
        art.TrajectoryGroup([_as_trajectory(t) for t in group.get("trajectories", ())], metadata=group["metadata"])
        for group in plain
    ]


def transcript(t: Trajectory) -> dict[str, Any]:
    """Give an example to imitate: the conversation in OpenAI's chat form and the tools, as the library would upload it.

    Raises:
        DataError: a value is not JSON, or a number is NaN or infinite.
    """
    return _plain({"messages": list(t.messages), "tools": [_tool(tool) for tool in t.tools]}, _where(t))


def is_trainable(group: Group) -> bool:
    """Whether any reply of an episode with a reward can be trained on."""
    return any(art_choice(raw) for trajectory in group.trajectories if trajectory.reward for raw in trajectory.choices)


def payload_size(groups: Sequence[Group]) -> PayloadSize:
    """Measure what `to_art` makes of these groups.

    Raises:
        DataError: as `art_trajectory`.
    """
    sent = [trajectory for group in groups for trajectory in _sent(group)]
    plain = [art_group(group) for group in groups]
    tokens = [turn for trajectory in sent for turn in _tokens(trajectory)]
    return PayloadSize(
        groups=len(groups),
        trajectories=len(sent),
        trainable=sum(any(map(_is_choice, t["messages_and_choices"])) for g in plain for t in g.get("trajectories", ())),
        sampled_tokens=sum(turn.sampled for turn in tokens),
        prompt_tokens=sum(turn.prompt for turn in tokens),
        estimated=any(turn.estimated for turn in tokens),
        bytes=len(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()),
    )


@dataclass(frozen=True)
class _Tokens:
    sampled: int
    prompt: int
    estimated: bool


def _tokens(t: Trajectory) -> Iterator[_Tokens]:
    """The tokens of each assistant turn, counted where the server told their ids."""
    before = len(json.dumps(t.tools, default=str)) if t.tools else 0
    for message, raw in _turns(t):
        if message.get("role") == "assistant":
            sampled, prompt = _ids(raw, "token_ids"), _ids(raw, "prompt_token_ids")
            yield _Tokens(
                len(_said(message)) // CHARS_PER_TOKEN if sampled is None else sampled,
                before // CHARS_PER_TOKEN if prompt is None else prompt,
                estimated=sampled is None or prompt is None,
            )
        before += len(_said(message))


def _ids(raw: Mapping[str, Any], name: str) -> int | None:
    ids = raw.get(name)
    return len(cast("list[object]", ids)) if isinstance(ids, list) else None


def _said(message: Mapping[str, Any]) -> str:
    """The text that a message costs tokens for: its content, and its calls with their arguments."""
    content, calls = message.get("content"), cast("list[dict[str, Any]]", message.get("tool_calls") or [])
    functions = [cast("dict[str, object]", call.get("function") or {}) for call in calls]
    return "".join([str(content or ""), *(f"{f.get('name', '')}{f.get('arguments', '')}" for f in functions)])


def _sent(group: Group) -> list[Trajectory]:
    return [trajectory for trajectory in group.trajectories if trajectory.reward is not None]


def _turns(t: Trajectory) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Each message with the server's reply that it was made from; an empty one where there is none."""
    replies = sum(message.get("role") == "assistant" for message in t.messages)
    if t.choices and len(t.choices) != replies:
        raise DataError(f"{_where(t)} has {len(t.choices)} choices for {replies} assistant messages; roll it out again")
    raw, nothing = iter(t.choices), dict[str, Any]()
    return [(m, next(raw, nothing) if m.get("role") == "assistant" else nothing) for m in t.messages]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = cast("dict[str, Any]", tool["function"])
    return {"function": {name: function[name] for name in _FUNCTION_FIELDS if name in function}, "type": "function"}


def _metrics(t: Trajectory) -> dict[str, float | int | bool]:
    parts = {part.name: float(part.value) for part in t.reward.parts} if t.reward else {}
    return {
        "calls": t.calls,
        "errors": sum(step.error is not None for step in t.steps),
        "opened": len(t.opened),
        "malformed": t.stop_reason is StopReason.MALFORMED,
        "submitted": t.stop_reason is StopReason.SUBMITTED,
        "prompt_tokens": t.usage.prompt_tokens,
        "completion_tokens": t.usage.completion_tokens,
        **parts,
    }


def _metadata(t: Trajectory) -> dict[str, str | int]:
    texts = {
        "run_id": t.run_id,
        "task_id": t.task_id,
        "family": t.family,
        "split": t.split,
        "policy": t.policy,
        "model": t.model,
        "checkpoint": t.checkpoint,
        "stop_reason": t.stop_reason.value,
    }
    numbers = {"step": t.step, "sample": t.sample, "attempt": t.attempt, "seed": t.seed}
    return {name: text for name, text in texts.items() if text} | numbers


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the empty fields and the reward of 0, which are the library's defaults."""
    return {name: value for name, value in fields.items() if value}


def _plain(payload: dict[str, Any], where: str) -> dict[str, Any]:
    """A copy of nothing but JSON; half a surrogate pair, which UTF-8 cannot hold, becomes a question mark."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise DataError(f"{where} cannot be sent: {error}; keep to JSON in messages and tools") from None
    except ValueError:
        path, value = next(_not_finite(payload, ""), ("a value", "not JSON"))
        raise DataError(f"{where}: {path} is {value}; only finite numbers can be trained on") from None
    return json.loads(text.encode("utf-8", "replace"))


def _not_finite(value: object, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            yield from _not_finite(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[object]", value)):
            yield from _not_finite(item, f"{path}[{index}]")


def _where(t: Trajectory) -> str:
    return f"task {t.task_id}, sample {t.sample}"


def _is_choice(entry: Mapping[str, Any]) -> bool:
    return "finish_reason" in entry and "message" in entry


def _as_trajectory(plain: Mapping[str, Any]) -> art.Trajectory:
    import art
    from openai.types.chat.chat_completion import Choice

    entries = [Choice.model_validate(e) if _is_choice(e) else e for e in plain.get("messages_and_choices", ())]
    return art.Trajectory.model_validate({**plain, "messages_and_choices": entries})
