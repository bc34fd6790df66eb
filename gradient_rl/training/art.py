"""The learner that trains an adapter through OpenPipe ART: serverless, or any server of the same protocol.

The library is imported when the first call is made. Nothing is logged to Weights & Biases by it: this project's own journals
are the record. A training job is paid work, so the step is read back from the service before a job is ever sent again.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gradient_rl.errors import ArtifactError, DataError, MissingKeyError, ServiceError
from gradient_rl.policies.adapters import art_checkpoints, art_path, read_art_state, warm_path
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import REPLY_TIMEOUT_S, Endpoint, Price
from gradient_rl.rewards.advantages import Estimator
from gradient_rl.runs import json_line, write_whole
from gradient_rl.schema.training import WARM, ArtState, Submission
from gradient_rl.schema.trajectory import Group, Trajectory
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.imitation import imitate
from gradient_rl.training.learner import OnGradient
from gradient_rl.training.payload import is_trainable, to_art

if TYPE_CHECKING:
    import art

    type Model = art.TrainableModel[None, dict[str, Any]]
    type Opened = tuple[art.ServerlessBackend, Model]

type StartJob = Callable[[], Awaitable[tuple[int, Mapping[str, float]]]]
"""Begins a job and waits for it: the service's step after it, and what it measured."""

MARKER = "art.submitting.json"
_QUIET = {
    "PYTHON_DOTENV_DISABLED": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TQDM_DISABLE": "1",
    "WANDB_DISABLE_WEAVE": "1",
}
"""Environment that keeps the library from putting another folder's `.env` into the environment, fetching a price list,
drawing bars, and starting a tracer."""


@dataclass(frozen=True)
class Service:
    """Where the adapter is trained and served."""

    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    run_name: str
    """The durable name of the adapter: the same name, the same checkpoints."""
    price_per_million: Price | None = None
    key_name: str = "WANDB_API_KEY"
    """The variable that the key came from, for messages."""
    job_deadline_s: float = 3600.0
    """Seconds after which a training job counts as lost."""
    poll_s: float = 5.0
    """Seconds between two looks for the step of a job whose answer was lost."""
    reads_examples: bool = False
    """Whether a warm start's examples go with the request that begins it, and not to W&B."""
    reply_timeout_s: float = REPLY_TIMEOUT_S
    """See `Endpoint.timeout_s`."""
    jobs_outlive_us: bool = True
    """Whether a job goes on when this process has ended; if not, a later process need not wait for one."""


class ArtLearner:
    """See the module. The state of a step is a checkpoint of the service; a small file remembers which."""

    name = "art"

    def __init__(
        self, config: TrainingConfig, service: Service, checkpoints: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._service = service
        self._folder = checkpoints
        self._clock = clock
        self._opened: Opened | None = None
        self._server_step = 0

    @property
    def model(self) -> str:
        """See `Learner.model`."""
        return self._config.base_model

    def policy(self, temperature: float) -> ChatPolicy:
        """The adapter at the present step, by its name on the server."""
        _, model = self._ready()
        return ChatPolicy(
            self._endpoint(model.get_inference_name(step=self._server_step)),
            temperature,
            open_client=model.openai_client,
            name=self.name,
        )

    async def update(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        """See `Learner.update`. Groups without anything to train on are not sent, and without any group no job is begun.

        Raises:
            ServiceError: the job failed, or its end is not known; `--resume` looks for it.
            MissingKeyError: the key was refused.
        """
        if await self._found_again(step, warm=False):
            return {"recovered": 1.0}
        sendable = [group for group in groups if is_trainable(group)]
        if not sendable:
            return {"sent_groups": 0.0}
        return await self._train(step, sendable)

    async def warm_start(self, trajectories: Sequence[Trajectory], told: OnGradient) -> Mapping[str, float]:
        """See `WarmLearner.warm_start`; the errors are those of `update`."""
        if await self._found_again(0, warm=True):
            return {"recovered": 1.0}
        backend, model = self._ready()
        listening = told if self._service.reads_examples else None
        learned = await self._sent(0, lambda: imitate(backend, model, trajectories, self._config, listening), warm=True)
        return {"examples": float(len(trajectories)), **learned}

    async def checkpoint(self, step: int) -> str:
        """See `Learner.checkpoint`."""
        await self._note(step, art_path(self._folder, step))
        return str(step)

    async def checkpoint_warm(self) -> str:
        """See `WarmLearner.checkpoint_warm`."""
        await self._note(0, warm_path(self._folder))
        return WARM

    async def _note(self, step: int, path: Path) -> None:
        _, model = self._opened or await self._open()
        state = ArtState(
            step=step,
            server_step=self._server_step,
            inference_name=model.get_inference_name(step=self._server_step),
            base_model=self._config.base_model,
            run_name=self._service.run_name,
            base_url=self._endpoint("").shown_url,
            max_completion_tokens=self._config.max_completion_tokens,
        )
        write_whole(path, json_line(state.model_dump(mode="json")))

    async def restore(self, step: int) -> None:
        """See `Learner.restore`. A step that the service has lost is an error."""
        await self._go_back(art_path(self._folder, step))

    async def restore_warm(self) -> None:
        """See `WarmLearner.restore_warm`."""
        await self._go_back(warm_path(self._folder))

    async def _go_back(self, path: Path) -> None:
        state = read_art_state(path)
        await self._open()
        self._server_step = state.server_step
        marker, there = self._submitted(), await self._present_step()
        if there != state.server_step and not (marker and marker.server_step == state.server_step):
            raise ServiceError(
                f"the service has step {there} of '{self._service.run_name}', and this run's last is {state.server_step}: "
                "something else trained it; begin a new run without --resume"
            )

    async def retain(self, steps: Sequence[int]) -> None:
        """See `Learner.retain`. The files go first, so that none names what the service has no more."""
        marker = self._submitted()
        if marker and not marker.warm and marker.step in steps:
            (self._folder / MARKER).unlink(missing_ok=True)  # the step is recorded, so nothing is open
        saved = art_checkpoints(self._folder)
        gone = [checkpoint for checkpoint in saved if checkpoint.label != WARM and int(checkpoint.label) not in steps]
        if not gone:
            return
        for checkpoint in gone:
            if checkpoint.path:
                checkpoint.path.unlink(missing_ok=True)
        kept = [read_art_state(c.path).server_step for c in saved if c not in gone and c.path]
        backend, model = self._ready()
        # A step that was trained and not yet recorded is the service's latest, and paid for.
        there = await self._present_step()
        with self._telling():
            # The public `delete_checkpoints` chooses by the library's own log, which this project does not write.
            await backend._delete_checkpoint_files(model, sorted({0, self._server_step, there, *kept}))  # pyright: ignore[reportPrivateUsage]

    def learned(self) -> Mapping[str, float]:
        """See `Learner.learned`: a model's weights have no names."""
        return {}

    async def close(self) -> None:
        """See `Learner.close`."""
        opened, self._opened = self._opened, None
        if opened:
            backend, model = opened
            await backend.close()
            await model.openai_client().close()

    async def _train(self, step: int, groups: Sequence[Group]) -> Mapping[str, float]:
        backend, model = self._ready()
        sent, config = to_art(groups), self._config

        async def job() -> tuple[int, Mapping[str, float]]:
            result = await backend.train(  # pyright: ignore[reportUnknownMemberType] - its own annotations are loose
                model,
                sent,
                learning_rate=config.learning_rate,
                loss_fn=config.loss,
                scale_rewards=config.estimator is Estimator.GROUP_STD,
                kl_penalty_coef=config.kl_penalty,
            )
            return result.step, result.metrics

        return {"sent_groups": float(len(groups)), **await self._sent(step, job)}

    async def _sent(self, step: int, job: StartJob, *, warm: bool = False) -> dict[str, float]:
        """Begin a job and wait for its end; what it measured."""
        submission = Submission(step=step, server_step=self._server_step, submitted_at=self._clock(), warm=warm)
        write_whole(self._folder / MARKER, json_line(submission.model_dump(mode="json")))
        try:
            with self._telling():
                async with asyncio.timeout(self._service.job_deadline_s):
                    there, measured = await job()
        except _LostError as error:
            if await self._found(submission, wait=True):
                return {"recovered": 1.0}
            raise ServiceError(f"{error}; the job may still run, and --resume looks for its step") from None
        except (ServiceError, _RefusedKeyError) as error:
            ours = "" if self._service.jobs_outlive_us else str(error).partition(f"{ArtifactError.__name__}: ")[2]
            if (
                ours
            ):  # the server is in this process and its disk is ours; the step may have been saved before, so the marker stays
                raise ArtifactError(ours) from None
            (self._folder / MARKER).unlink(missing_ok=True)  # no job runs, so the step may be sent again
            raise
        self._server_step = there
        return _finite(measured)

    async def _found_again(self, step: int, *, warm: bool) -> bool:
        """Whether an earlier process sent this very job, and its step has come."""
        marker = self._submitted()
        sent = marker if marker and (marker.step, marker.warm) == (step, warm) else None
        return sent is not None and await self._found(sent, wait=self._service.jobs_outlive_us)

    async def _found(self, submission: Submission, *, wait: bool) -> bool:
        """Whether the step of a job that was sent has come; `wait` gives it until the job's deadline."""
        until = submission.submitted_at + self._service.job_deadline_s if wait else 0.0
        while True:
            there = await self._present_step()
            if there > submission.server_step:
                self._server_step = there
                return True
            if self._clock() >= until:
                return False
            await asyncio.sleep(min(self._service.poll_s, max(0.0, until - self._clock())))

    async def _present_step(self) -> int:
        _, model = self._opened or await self._open()
        with self._telling():
            return await model.get_step()

    async def _open(self) -> Opened:
        if self._opened is None:
            for name, value in _QUIET.items():
                os.environ.setdefault(name, value)
            self._folder.mkdir(exist_ok=True)
            backend, model = _made(self._config, self._service, self._folder)
            try:
                with self._telling():
                    await model.register(backend)
            except BaseException:
                await backend.close()
                raise
            self._opened = backend, model
        return self._opened

    def _ready(self) -> Opened:
        if self._opened is None:
            raise RuntimeError("checkpoint or restore comes first: they register the model")
        return self._opened

    def _telling(self) -> AbstractContextManager[None]:
        return _told(self._endpoint(""), self._service.key_name)

    def _endpoint(self, model: str) -> Endpoint:
        return Endpoint(
            base_url=self._service.base_url,
            api_key=self._service.api_key,
            model=model,
            timeout_s=self._service.reply_timeout_s,
            max_completion_tokens=self._config.max_completion_tokens,
            price_per_million=self._service.price_per_million,
            logprobs=True,
        )

    def _submitted(self) -> Submission | None:
        path = self._folder / MARKER
        if not path.exists():
            return None
        try:
            return Submission.model_validate_json(path.read_bytes())
        except ValidationError:
            raise DataError(f"{path} is damaged, so it is not known whether a job runs; look at the service") from None


class _LostError(ServiceError):
    """The service may have taken the request, and its answer did not come."""


class _RefusedKeyError(MissingKeyError):
    """The key was refused, and with it what was to be begun."""


@contextmanager
def _told(endpoint: Endpoint, key_name: str) -> Generator[None]:
    """Turn a failure of the service into one sentence without secrets.

    Only what begins something is posted: a request to read that fails says nothing of a job that was begun before it.
    """
    from openai import APIConnectionError, APIError, APIStatusError

    where = f"the training service at {endpoint.shown_url}"
    try:
        yield
    except APIStatusError as error:
        begun = error.request.method == "GET" or error.status_code >= 500
        if error.status_code in (401, 403):
            refused = MissingKeyError if begun else _RefusedKeyError
            remedy = f"put a valid one into {key_name}, in the environment or in ./.env"
            raise refused(f"{where} refused the key (HTTP {error.status_code}); {remedy}") from None
        kind = _LostError if begun else ServiceError
        message = endpoint.hide(str(error.message))[:300]
        raise kind(f"{where} answered HTTP {error.status_code}: {message}") from None
    except APIConnectionError as error:
        reached = error.request.method == "GET" or type(error.__cause__).__name__ not in ("ConnectError", "ConnectTimeout")
        kind, remedy = (_LostError, "the connection broke") if reached else (ServiceError, "check the address and the network")
        raise kind(f"{where} cannot be reached: {remedy}") from None
    except TimeoutError:
        raise _LostError(f"{where} did not end the job in time") from None
    except RuntimeError as error:
        raise ServiceError(f"{where}: {endpoint.hide(str(error))}") from None
    except (APIError, AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        # What the library runs into when an answer has another form than it expects.
        raise _LostError(f"{where} gave an answer that cannot be read ({type(error).__name__}); check the address") from None


def _made(config: TrainingConfig, service: Service, folder: Path) -> Opened:
    import art

    class Unlogged(art.TrainableModel[None, dict[str, Any]]):
        """The library's model, without the Weights & Biases run that it would begin whenever a key is in the environment."""

        def _get_wandb_run(self) -> None:
            return None

    model = Unlogged(  # pyright: ignore[reportCallIssue] - its constructor is its own, and not that of its fields
        name=service.run_name,
        run_name=service.run_name,
        project=config.project,
        base_model=config.base_model,
        base_path=str(folder / "art"),
        report_metrics=[],
    )
    return art.ServerlessBackend(api_key=service.api_key, base_url=service.base_url), model


def _finite(metrics: Mapping[str, object]) -> dict[str, float]:
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
