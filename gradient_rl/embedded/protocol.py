"""ART's serverless protocol as pure functions: reading requests, building answers.

The shapes are those that the client of openpipe-art 0.5.23 sends and reads (`art/serverless/client.py`), and
OpenAI's for chat completions, with vLLM's `prompt_token_ids` and `token_ids`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gradient_rl.embedded.model import ArtGroup, Completion, Message, Transcript

DEFAULT_MAX_TOKENS = 2048
_INFERENCE_NAME = re.compile(r"wandb-artifact:///([^/:]+)/([^/:]+)/([^/:]+)(?::step([0-9]{1,9}))?")
_Name = Annotated[str, StringConstraints(pattern=r"^[^/:\s]{1,128}$")]


class RefusedError(Exception):
    """A request that is answered with an error status and a sentence that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Request(BaseModel):
    """A body or a query; fields that nobody here reads are let through, as the real service lets them."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Registration(_Request):
    """Body of POST /preview/models."""

    entity: _Name | None = None
    project: _Name
    name: _Name
    base_model: str
    return_existing: bool = False


class ChatRequest(_Request):
    """Body of POST /chat/completions."""

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[Message] | None = None
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    n: Literal[1] | None = None
    stream: Literal[False] | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None

    @property
    def token_limit(self) -> int:
        """The newer of OpenAI's two names for it wins."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_MAX_TOKENS


class TrainingRequest(_Request):
    """Body of POST /preview/training-jobs."""

    model_id: str
    trajectory_groups: list[dict[str, Any]]
    experimental_config: dict[str, Any] | None = None


class FinetuningRequest(_Request):
    """Body of POST /preview/sft-training-jobs.

    The client uploads its examples to W&B and sends the address; here they are in the request itself.
    """

    model_id: str
    training_data_url: str | None = None
    trajectories: list[dict[str, Any]] = Field(min_length=1)
    config: dict[str, Any] | None = None


class Deletion(_Request):
    """Body of DELETE /preview/models/{id}/checkpoints."""

    steps: list[int]


class PageQuery(_Request):
    """Query of a list: at most `limit` entries, beginning after the one with the id `after`."""

    model_config = ConfigDict(strict=False)

    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    order: Literal["asc", "desc"] = "desc"


class InferenceName(NamedTuple):
    """What `model` names in a chat request."""

    entity: str
    project: str
    name: str
    step: int | None
    """The pinned checkpoint; None is the latest."""


def read_body(raw: bytes) -> Mapping[str, Any]:
    """Read a request's body.

    Raises:
        RefusedError: it is not a JSON object, or holds NaN or an infinity.
    """
    try:
        value: object = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(400, f"the body is a JSON {type(value).__name__}; send an object")
    return cast("dict[str, Any]", value)


def read_request[Request: _Request](kind: type[Request], fields: Mapping[str, Any]) -> Request:
    """Read a body or a query as the request that it should be.

    Raises:
        RefusedError: a field is missing or does not fit; the first one is named with its value.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        shown = json.dumps(fault["input"], default=str)[:80]
        raise RefusedError(400, f"field '{field}': {fault['msg']} (got {shown})") from None


def read_groups(request: TrainingRequest) -> tuple[ArtGroup, ...]:
    """Give the groups with the defaults back in place that the client leaves out.

    Raises:
        RefusedError: a group or trajectory is not an object, or a reward is not a finite number.
    """
    return tuple(
        {**group, "trajectories": [_whole(t, f"group {i}, trajectory {j}") for j, t in enumerate(_trajectories(group, i))]}
        for i, group in enumerate(request.trajectory_groups)
    )


def read_transcripts(request: FinetuningRequest) -> tuple[Transcript, ...]:
    """Give the examples, `tools` in every one of them.

    Raises:
        RefusedError: one has no list of messages with an assistant among them, or its tools are no list of objects.
    """
    return tuple(_transcript(fields, f"trajectory {i}") for i, fields in enumerate(request.trajectories))


def choices_in(trajectory: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The Choices of a trajectory, those of its additional histories last; plain messages are context only."""
    return [choice for _, choice in turns_in(trajectory)]


def turns_in(trajectory: Mapping[str, Any]) -> Iterator[tuple[list[Message], Mapping[str, Any]]]:
    """Each of `choices_in` behind the conversation that it replies to, the message of each earlier Choice in its place."""
    for history in (trajectory, *trajectory.get("additional_histories", ())):
        said: list[Message] = []
        for entry in history.get("messages_and_choices", ()):
            if _is_choice(entry):
                yield list(said), entry
            said.append(entry["message"] if _is_choice(entry) else entry)


def _is_choice(entry: object) -> bool:
    return isinstance(entry, dict) and "finish_reason" in entry and "message" in entry


def why_untrainable(groups: Sequence[ArtGroup]) -> str | None:
    """Say in one sentence why a job cannot train on these groups; None when it can."""
    if not groups:
        return "there are no groups; send at least one"
    return next(_faults_of(groups), None)


def count_sequences(groups: Sequence[ArtGroup]) -> int:
    """Count the trajectories that there is something to train in."""
    return sum(bool(choices_in(trajectory)) for group in groups for trajectory in group["trajectories"])


def read_inference_name(text: str) -> InferenceName:
    """Read `wandb-artifact:///entity/project/run`, with `:step4` behind it or not.

    Raises:
        RefusedError: it has another form.
    """
    found = _INFERENCE_NAME.fullmatch(text)
    if not found:
        raise RefusedError(404, f"no model {text[:200]!r}; name one as wandb-artifact:///entity/project/run[:step4]")
    entity, project, name, step = found.groups()
    return InferenceName(entity, project, name, None if step is None else int(step))


def chat_answer(request: ChatRequest, completion: Completion, *, number: int, created: int, step: int) -> dict[str, Any]:
    """Build an OpenAI ChatCompletion.

    As with vLLM, token ids come with `return_token_ids` and log-probabilities with `logprobs` only.

    Args:
        number: the completion's own, which makes its id.
        created: seconds since 1970.
        step: the checkpoint it was sampled from, told as `system_fingerprint`.
    """
    choice: dict[str, Any] = {"index": 0, "message": completion.message, "finish_reason": completion.finish_reason}
    choice["logprobs"] = {"content": _logprobs(completion), "refusal": None} if request.logprobs else None
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "system_fingerprint": f"step{step}",
        "choices": [choice],
        "usage": _usage(len(completion.prompt_token_ids), len(completion.token_ids)),
    }
    if request.return_token_ids:
        choice["token_ids"] = list(completion.token_ids)
        answer["prompt_token_ids"] = list(completion.prompt_token_ids)
    return answer


def page_of(entries: Sequence[Mapping[str, Any]], query: PageQuery) -> dict[str, Any]:
    """Cut one page out of a list, in the list's order.

    Raises:
        RefusedError: there is no entry with the id `after`.
    """
    start = 0
    if query.after is not None:
        start = 1 + next((i for i, entry in enumerate(entries) if entry["id"] == query.after), -2)
        if start < 0:
            raise RefusedError(400, f"after={query.after[:200]!r} is the id of no entry of this list")
    end = start + query.limit
    return {"data": list(entries[start:end]), "has_more": end < len(entries)}


def error_answer(message: str) -> dict[str, Any]:
    """Build the body of an error."""
    return {"error": {"message": message}}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; a reward or metric must be a finite number")


def _trajectories(group: Mapping[str, Any], index: int) -> list[Any]:
    found = group.get("trajectories", [])
    if not isinstance(found, list):
        raise RefusedError(400, f"group {index}: 'trajectories' is not a list")
    return cast("list[Any]", found)


def _whole(trajectory: object, where: str) -> dict[str, Any]:
    if not isinstance(trajectory, dict):
        raise RefusedError(400, f"{where} is not an object")
    fields = cast("dict[str, Any]", trajectory)
    reward = fields.get("reward", 0.0)
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise RefusedError(400, f"{where}: the reward {str(reward)[:80]!r} is not a finite number")
    _refuse_other_than_lists(fields, where)
    return {**fields, "reward": float(reward), "messages_and_choices": fields.get("messages_and_choices", [])}


def _transcript(fields: Mapping[str, Any], where: str) -> Transcript:
    messages: object = fields.get("messages")
    tools: object = fields.get("tools") or list[object]()
    if not _is_list_of_objects(messages):
        raise RefusedError(400, f"{where}: 'messages' is not a list of objects")
    if not any(message.get("role") == "assistant" for message in cast("list[Message]", messages)):
        raise RefusedError(400, f"{where}: no message is an assistant's, so there is nothing to learn from it")
    if not _is_list_of_objects(tools):
        raise RefusedError(400, f"{where}: 'tools' is not a list of objects")
    return {"messages": messages, "tools": tools}


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in cast("list[object]", value))


def _refuse_other_than_lists(trajectory: Mapping[str, Any], where: str) -> None:
    histories = trajectory.get("additional_histories", [])
    if not isinstance(histories, list) or not all(isinstance(history, dict) for history in cast("list[object]", histories)):
        raise RefusedError(400, f"{where}: 'additional_histories' is not a list of objects")
    for history in (trajectory, *cast("list[dict[str, Any]]", histories)):
        if not isinstance(history.get("messages_and_choices", []), list):
            raise RefusedError(400, f"{where}: 'messages_and_choices' is not a list")


def _faults_of(groups: Sequence[ArtGroup]) -> Iterator[str]:
    for index, group in enumerate(groups):
        choices = [(j, choice) for j, trajectory in enumerate(group["trajectories"]) for choice in choices_in(trajectory)]
        if not choices:
            captured = any(trajectory.get("exchanges") for trajectory in group["trajectories"])
            why = "its exchanges were captured, which is not served here" if captured else "no trajectory of it holds a Choice"
            yield f"group {index} has nothing to train on: {why}; append the Choices of your replies to messages_and_choices"
        yield from (f"group {index}, trajectory {j}: {fault}" for j, c in choices if (fault := _fault_of(c)))


def _fault_of(choice: Mapping[str, Any]) -> str | None:
    token_ids, logprobs = choice.get("token_ids"), _logprobs_of(choice)
    if not isinstance(token_ids, list) or not token_ids:
        return "a Choice has no token_ids; take it from model.openai_client()"
    if not logprobs:
        return "a Choice has no logprobs; ask for logprobs=True"
    if len(cast("list[object]", token_ids)) != len(logprobs):
        return f"a Choice has {len(cast('list[object]', token_ids))} token_ids and {len(logprobs)} logprobs; do not edit it"
    return None


def _logprobs_of(choice: Mapping[str, Any]) -> list[object]:
    logprobs: object = choice.get("logprobs")
    content = cast("dict[str, object]", logprobs).get("content") if isinstance(logprobs, dict) else None
    return cast("list[object]", content) if isinstance(content, list) else []


def _logprobs(completion: Completion) -> list[dict[str, Any]]:
    return [
        {"token": token, "bytes": list(token.encode("utf-8", "replace")), "logprob": logprob, "top_logprobs": []}
        for token, logprob in zip(completion.tokens, completion.logprobs, strict=True)
    ]


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
