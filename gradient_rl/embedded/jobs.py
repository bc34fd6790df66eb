"""Training jobs: one at a time in a thread of its own, each telling what it does as events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from gradient_rl.embedded.faults import Faults
from gradient_rl.embedded.model import ArtGroup, ServedModel, Transcript
from gradient_rl.embedded.protocol import RefusedError, count_sequences, why_untrainable
from gradient_rl.embedded.registry import Registry


class JobError(Exception):
    """A job that cannot go on; its text is told to the client."""


@dataclass(frozen=True)
class Work:
    """What a job has the model do."""

    sequences: int
    """How many the client is told that there are."""
    fault: str | None
    """Why it cannot be done; None where it can."""
    train: Callable[[ServedModel, int], Iterable[Mapping[str, float]]]
    """From a model and the step that it goes on from."""


def rewarded(groups: Sequence[ArtGroup], config: Mapping[str, Any]) -> Work:
    """Learn from groups of trajectories with rewards."""
    return Work(
        sequences=count_sequences(groups),
        fault=why_untrainable(groups),
        train=lambda model, step: model.train(groups, config, step=step),
    )


def examples(transcripts: Sequence[Transcript], config: Mapping[str, Any]) -> Work:
    """Learn to say what was said in transcripts."""
    return Work(len(transcripts), None, lambda model, step: model.finetune(transcripts, config, step=step))


_DONE = Work(0, None, lambda _, __: ())
"""In place of what a job no longer needs."""


@dataclass
class Job:
    """One training job and what it has told so far."""

    number: int
    work: Work
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Only ever appended to, from whichever thread is at work on the job."""

    @property
    def id(self) -> str:
        """By its number; a server that starts again begins anew."""
        return f"job-{self.number}"

    def tell(self, kind: str, **data: object) -> None:
        """Append an event."""
        self.events.append({"id": f"{self.id}-event-{len(self.events) + 1}", "type": kind, "data": data})


class TrainingQueue:
    """Runs jobs in the order they came.

    Args:
        registry: names the state that each job starts from, the latest when its turn comes.
        faults: the jobs that fail or stall.
    """

    def __init__(self, registry: Registry, faults: Faults) -> None:
        self._registry = registry
        self._faults = faults
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, "embedded-training")
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        return bool(self._tasks)

    def submit(self, work: Work) -> Job:
        """Queue a job. Call it in the running loop."""
        job = Job(len(self._jobs) + 1, work)
        self._jobs[job.id] = job
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, job_id: str) -> Job:
        """Find a job.

        Raises:
            RefusedError: there is none with this id since the server started.
        """
        if job_id not in self._jobs:
            raise RefusedError(404, f"no training job has the id {job_id[:80]!r} since this server started")
        return self._jobs[job_id]

    async def close(self) -> None:
        """Let the running job give up after its gradient step, drop the queued ones, and wait for the thread."""
        self._stopping = True
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        await asyncio.gather(*self._tasks)

    async def _run(self, job: Job) -> None:
        training = asyncio.get_running_loop().run_in_executor(self._thread, self._train, job)
        # What a model raises is the job's outcome, whatever it is: the client polls until it hears of an end.
        [failure] = await asyncio.gather(training, return_exceptions=True)
        job.work = _DONE
        if job.number in self._faults.stall_events:
            return
        if failure is None:
            job.tell("training_ended")
        else:
            job.tell("training_failed", error_message=_told(failure))

    def _train(self, job: Job) -> None:
        job.tell("training_started", num_sequences=job.work.sequences)
        if job.number in self._faults.fail_jobs:
            raise JobError(f"job {job.number} was made to fail")
        if job.work.fault:
            raise JobError(job.work.fault)
        step = self._registry.latest()
        for metrics in job.work.train(self._registry.model, step):
            job.tell("gradient_step", **_finite(metrics))
            if self._stopping:
                raise JobError("the server was stopped")
        if step + 1 not in self._registry.model.steps():
            raise JobError(f"the model was trained from step {step} and has no step {step + 1}")
        self._registry.save()


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise JobError(f"the metric {name!r} is {value}; training has diverged")
    return {name: float(value) for name, value in metrics.items()}


def _told(failure: BaseException) -> str:
    if isinstance(failure, JobError):
        return str(failure)
    if isinstance(failure, asyncio.CancelledError):
        return "the server was stopped"
    return f"{type(failure).__name__}: {failure}"
