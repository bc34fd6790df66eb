"""Raw HTTP to a server, as a client that is not ART's would send it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gradient_rl.embedded.server import EmbeddedServer

NAMES = {"entity": "us", "project": "tests", "name": "run", "base_model": "bandit", "return_existing": True}
LATEST = "wandb-artifact:///us/tests/run"
QUESTION = [{"role": "user", "content": "How much notice?"}]
KEY = {"Authorization": "Bearer local"}


class Response(NamedTuple):
    status: int
    body: Any


def call(
    server: EmbeddedServer,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] = KEY,
    prefix: str | None = None,
) -> Response:
    url = urlsplit(server.base_url)
    connection = HTTPConnection(str(url.hostname), url.port, timeout=5)
    try:
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, (url.path if prefix is None else prefix) + path, raw, dict(headers))
        response = connection.getresponse()
        text = response.read()
        return Response(response.status, json.loads(text) if text else None)
    finally:
        connection.close()


def register(server: EmbeddedServer) -> str:
    return call(server, "POST", "/preview/models", NAMES).body["id"]


def complete(server: EmbeddedServer, **fields: object) -> Response:
    asked = {"model": LATEST, "messages": QUESTION, "logprobs": True, "return_token_ids": True, **fields}
    return call(server, "POST", "/chat/completions", asked)


def choice(token: int) -> dict[str, Any]:
    """A trainable Choice as ART sends it."""
    content = [{"token": "x", "logprob": -1.6, "top_logprobs": []}, {"token": "", "logprob": 0.0, "top_logprobs": []}]
    message = {"role": "assistant", "content": "x"}
    return {"finish_reason": "stop", "message": message, "logprobs": {"content": content}, "token_ids": [token, 5]}


def group(*rewards_by_token: tuple[int, float]) -> dict[str, Any]:
    """One trajectory a pair of token and reward; a reward of 0 is left out, as ART leaves out defaults."""
    made = [
        {"messages_and_choices": [*QUESTION, choice(token)], **({"reward": reward} if reward else {})}
        for token, reward in rewards_by_token
    ]
    return {"trajectories": made}


def train(server: EmbeddedServer, model_id: str, groups: Sequence[object] = (group((0, 1.0), (1, 0.0)),)) -> str:
    body = {"model_id": model_id, "trajectory_groups": groups, "experimental_config": {"learning_rate": 1.0}}
    return call(server, "POST", "/preview/training-jobs", body).body["id"]


def example(query: str, **fields: object) -> dict[str, Any]:
    """A transcript in which the assistant searched."""
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": json.dumps({"query": query})}}
    return {"messages": [*QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}], **fields}


def finetune(server: EmbeddedServer, model_id: str, trajectories: Sequence[object]) -> Response:
    config = {"learning_rate": 0.5, "batch_size": 2}
    body = {"model_id": model_id, "training_data_url": "inline", "config": config, "trajectories": trajectories}
    return call(server, "POST", "/preview/sft-training-jobs", body)


def events_of(server: EmbeddedServer, job_id: str) -> list[dict[str, Any]]:
    return call(server, "GET", f"/preview/training-jobs/{job_id}/events").body["data"]


def outcome(server: EmbeddedServer, job_id: str) -> list[dict[str, Any]]:
    """The events of a job, once it has ended."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        events = events_of(server, job_id)
        if events and events[-1]["type"] in ("training_ended", "training_failed"):
            return events
        time.sleep(0.005)
    raise AssertionError(f"{job_id} did not end")


def failure(server: EmbeddedServer, job_id: str) -> str:
    last = outcome(server, job_id)[-1]
    assert last["type"] == "training_failed"
    return last["data"]["error_message"]


def steps_of(server: EmbeddedServer, model_id: str, query: str = "?order=asc") -> list[int]:
    return [entry["step"] for entry in call(server, "GET", f"/preview/models/{model_id}/checkpoints{query}").body["data"]]
