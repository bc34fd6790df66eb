"""The warm start through ART: supervised fine-tuning on examples.

The library uploads them as a W&B artifact for the service to fetch. A server of our own reads them from the request that begins
the job, which the library's client sends too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gradient_rl.schema.trajectory import Trajectory
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.learner import OnGradient
from gradient_rl.training.payload import transcript

if TYPE_CHECKING:
    import art
    from art.serverless.client import Client

    type Model = art.TrainableModel[None, dict[str, Any]]

EVENTS_S = 0.5
"""Seconds between two looks at what a job has told."""


async def imitate(
    backend: art.ServerlessBackend,
    model: Model,
    examples: Sequence[Trajectory],
    config: TrainingConfig,
    inline: OnGradient | None,
) -> tuple[int, Mapping[str, float]]:
    """Fine-tune a registered model on examples, and wait for the end.

    Args:
        examples: at least one.
        config: `warm_start_learning_rate` and `warm_start_batch` are read.
        inline: whether the server reads the examples from the request, and who is then told of each gradient step; None: the
            library uploads them.

    Returns:
        The service's step after it, and what was measured: means over the gradient steps, and the last loss. The library
        tells nothing of a job that it began itself.

    Raises:
        RuntimeError: the job failed, or the examples could not be uploaded.
        openai.APIError: as the library's client raises it.
    """
    transcripts = [transcript(trajectory) for trajectory in examples]
    measured = dict[str, float]()
    if inline is not None:
        # The library's own call has no field for examples, and it uploads them before.
        measured = await _sent_along(backend._client, str(model.id), transcripts, config, inline)  # pyright: ignore[reportPrivateUsage]
    else:
        await _uploaded(model, transcripts, config)
    return await model.get_step(), measured


async def _sent_along(
    client: Client, model_id: str, transcripts: Sequence[Mapping[str, Any]], config: TrainingConfig, told: OnGradient
) -> dict[str, float]:
    from art.serverless.client import SFTTrainingJob

    job = await client.post(
        "/preview/sft-training-jobs",
        cast_to=SFTTrainingJob,
        body={
            "model_id": model_id,
            "training_data_url": None,
            "config": {"learning_rate": config.warm_start_learning_rate, "batch_size": config.warm_start_batch},
            "trajectories": transcripts,
        },
    )
    values: dict[str, list[float]] = defaultdict(list)
    async for metrics in _gradient_steps(client, job.id):
        for name, value in metrics.items():
            values[name].append(float(value))
        told(len(values["loss"]), ceil(len(transcripts) / config.warm_start_batch))
    last = {"last_loss": values["loss"][-1]} if "loss" in values else {}
    return {name: fmean(found) for name, found in values.items()} | last


async def _gradient_steps(client: Client, job_id: str) -> AsyncIterator[Mapping[str, Any]]:
    """What each gradient step of a job measured, until the job ends."""
    from openai import NOT_GIVEN

    after: str | None = None
    while True:
        async for event in client.sft_training_jobs.events.list(training_job_id=job_id, after=after or NOT_GIVEN):
            after = event.id
            if event.type == "gradient_step":
                yield event.data
            elif event.type == "training_ended":
                return
            elif event.type == "training_failed":
                raise RuntimeError(f"Warm start failed: {event.data.get('error_message', 'no reason was told')}")
        await asyncio.sleep(EVENTS_S)


async def _uploaded(model: Model, transcripts: Sequence[Mapping[str, Any]], config: TrainingConfig) -> None:
    import art
    from art.types import TrainSFTConfig
    from wandb.errors import Error

    trajectories = [art.Trajectory(messages_and_choices=t["messages"], tools=t["tools"]) for t in transcripts]
    settings = TrainSFTConfig(learning_rate=config.warm_start_learning_rate, batch_size=config.warm_start_batch)
    try:
        await model.train_sft(trajectories, settings, log_metrics=False)
    except Error as error:
        raise RuntimeError(f"the examples could not be uploaded as a W&B artifact: {error}") from None
