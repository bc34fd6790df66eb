"""What each endpoint does, without the HTTP around it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradient_rl.embedded.faults import Faults
from gradient_rl.embedded.jobs import Job, TrainingQueue, examples, rewarded
from gradient_rl.embedded.model import Completion
from gradient_rl.embedded.protocol import (
    ChatRequest,
    Deletion,
    FinetuningRequest,
    PageQuery,
    RefusedError,
    Registration,
    TrainingRequest,
    chat_answer,
    page_of,
    read_body,
    read_groups,
    read_inference_name,
    read_request,
    read_transcripts,
)
from gradient_rl.embedded.registry import Registry
from gradient_rl.errors import GradientError


@dataclass(frozen=True)
class Call:
    """One request."""

    path: Mapping[str, str]
    """The named parts of the path."""
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One response; `body` None is an empty one."""

    body: Mapping[str, Any] | None
    status: int = 200
    lost: bool = False
    """Close the connection instead of answering."""


type Endpoint = Callable[[Call], Awaitable[Answer]]


class Service:
    """The endpoints over one model. Every method runs in one event loop; the model is called in threads."""

    def __init__(self, registry: Registry, faults: Faults) -> None:
        self._registry = registry
        self._faults = faults
        self._jobs = TrainingQueue(registry, faults)
        self._completions = 0
        self._inference = ThreadPoolExecutor(registry.model.concurrency, "embedded-inference")

    def routes(self) -> Mapping[tuple[str, str], Endpoint]:
        """The endpoints by method and path."""
        return {
            ("POST", "/preview/models"): self.register,
            ("DELETE", "/preview/models/{id}"): self.delete_model,
            ("POST", "/preview/models/{id}/log"): self.log,
            ("GET", "/preview/models/{id}/checkpoints"): self.list_checkpoints,
            ("DELETE", "/preview/models/{id}/checkpoints"): self.delete_checkpoints,
            ("POST", "/preview/training-jobs"): self.start_training,
            ("GET", "/preview/training-jobs/{id}/events"): self.list_events,
            ("POST", "/preview/sft-training-jobs"): self.start_finetuning,
            ("POST", "/chat/completions"): self.complete,
        }

    async def close(self) -> None:
        """Stop the jobs and the threads."""
        await self._jobs.close()
        await asyncio.to_thread(self._registry.model.close)
        await asyncio.to_thread(self._inference.shutdown, cancel_futures=True)

    async def register(self, call: Call) -> Answer:
        """Register the model, or find it registered."""
        return Answer(self._registry.register(read_request(Registration, read_body(call.body))).answer())

    async def delete_model(self, call: Call) -> Answer:
        """Drop the model's name and checkpoints."""
        self._registry.find(call.path["id"])
        if self._jobs.busy:
            raise RefusedError(409, "a training job is running; wait for its end, then delete the model")
        self._registry.remove()
        return Answer(None, status=204)

    async def log(self, call: Call) -> Answer:
        """Take trajectories that are only to be kept, and keep nothing: the client has them on its own disk."""
        self._registry.find(call.path["id"])
        read_body(call.body)
        return Answer({})

    async def list_checkpoints(self, call: Call) -> Answer:
        """List the steps that can be sampled from, the base among them."""
        model = self._registry.find(call.path["id"])
        query = read_request(PageQuery, call.query)
        steps = sorted(self._registry.model.steps(), reverse=query.order == "desc")
        return Answer(page_of([{"id": f"{model.id}-step{s}", "step": s, "metrics": {}} for s in steps], query))

    async def delete_checkpoints(self, call: Call) -> Answer:
        """Drop steps; the base stays, and counts as not found."""
        self._registry.find(call.path["id"])
        dropped, absent = self._registry.forget(read_request(Deletion, read_body(call.body)).steps)
        return Answer({"deleted_count": len(dropped), "not_found_steps": absent})

    async def start_training(self, call: Call) -> Answer:
        """Queue a policy-gradient job."""
        request = read_request(TrainingRequest, read_body(call.body))
        self._registry.find(request.model_id)
        return self._begun(self._jobs.submit(rewarded(read_groups(request), request.experimental_config or {})))

    async def list_events(self, call: Call) -> Answer:
        """List what a job has told so far, in its order; nothing while it waits for its turn."""
        job = self._jobs.find(call.path["id"])
        return Answer(page_of(job.events, read_request(PageQuery, call.query)))

    async def start_finetuning(self, call: Call) -> Answer:
        """Queue a job of supervised fine-tuning. Its examples come with the request; a W&B artifact is not fetched."""
        body = read_body(call.body)
        if body.get("trajectories") is None:
            raise RefusedError(501, "this server fetches no examples from W&B; send them with the job, as 'trajectories'")
        request = read_request(FinetuningRequest, body)
        transcripts = read_transcripts(request)
        self._registry.find(request.model_id)
        return self._begun(self._jobs.submit(examples(transcripts, request.config or {})))

    def _begun(self, job: Job) -> Answer:
        return Answer({"id": job.id}, lost=job.number in self._faults.lose_training_answer)

    async def complete(self, call: Call) -> Answer:
        """Sample one chat completion."""
        self._completions += 1
        number = self._completions
        if status := self._faults.completion_status.get(number):
            raise RefusedError(status, f"completion {number} was made to fail")
        request = read_request(ChatRequest, read_body(call.body))
        step = self._registry.resolve(read_inference_name(request.model))
        completion = await self._sample(request, step, number)
        return Answer(chat_answer(request, completion, number=number, created=int(time.time()), step=step))

    async def _sample(self, request: ChatRequest, step: int, number: int) -> Completion:
        sample = partial(
            self._registry.model.complete,
            request.messages,
            request.tools or [],
            step=step,
            temperature=1.0 if request.temperature is None else request.temperature,
            max_tokens=request.token_limit,
            seed=_seed(step, number) if request.seed is None else request.seed,
        )
        try:
            return await asyncio.get_running_loop().run_in_executor(self._inference, sample)
        except GradientError as error:
            raise RefusedError(400, str(error)) from None


def _seed(step: int, number: int) -> int:
    """A seed for a request without one: the same requests in the same order give the same answers."""
    return int.from_bytes(hashlib.sha256(f"{step}/{number}".encode()).digest()[:6])
