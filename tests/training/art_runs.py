"""Small runs of the ART learner: a tiny world, a server of its own, and the loop that all learners share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradient_rl.embedded.linear import LinearModel, _State
from gradient_rl.embedded.model import Transcript
from gradient_rl.embedded.server import EmbeddedServer
from gradient_rl.evaluation.run import Stop
from gradient_rl.policies.features import Kind
from gradient_rl.runs import hold_folder, read_journal
from gradient_rl.schema.training import Training
from gradient_rl.training.art import MARKER, ArtLearner, Service
from gradient_rl.training.config import TrainingConfig
from gradient_rl.training.loop import CHECKPOINTS, METRICS, TRAJECTORIES, Budget, Listener, plan_training, prepare_folder, train
from tests.conftest import write_data
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

RUN_NAME = "run"


def tiny_training_data(folder: Path) -> Path:
    """Three tasks to train on, all the same question, one to validate on, one held out."""
    named = {"tiny-1": "train", "tiny-3": "train", "tiny-4": "train", "tiny-5": "validation"}
    tasks = [_task(name, split) for name, split in named.items()]
    return write_data(folder, tasks=(*tasks, DEPOSIT_TASK))


def _task(name: str, split: str) -> Any:  # noqa: ANN401
    fields = NOTICE_TASK.model_dump(mode="json") | {"id": name, "split": split}
    fields["facts"] = [fact | {"id": f"{name}-f1"} for fact in fields["facts"]]
    return type(NOTICE_TASK).model_validate(fields)


class Crash(BaseException):
    """The process ends here: nothing that the code under test may catch."""


class Pupil(LinearModel):
    """Imitation makes it fonder of the first feature of each move, by the learning rate; it keeps what it was taught."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.taught: list[Sequence[Transcript]] = []
        self.on_lesson: Callable[[], None] = lambda: None

    def finetune(
        self, transcripts: Sequence[Transcript], config: Mapping[str, Any], *, step: int
    ) -> Iterator[Mapping[str, float]]:
        self.on_lesson()
        self.taught.append(transcripts)
        yield {"loss": 3.0}
        yield {"loss": 1.0, "batch": config["batch_size"]}
        state = self._states[step]
        moved = state.weights[Kind.MOVE].copy()
        moved[0] += config["learning_rate"]
        self._keep(step + 1, _State({**state.weights, Kind.MOVE: moved}, state.adam))


type MakeLearner = Callable[[TrainingConfig, Service, Path], ArtLearner]


@dataclass
class Bench:
    """One artifacts folder and the run in it."""

    data: Path
    folder: Path
    max_steps: int = 2
    group_size: int = 3
    seed: int = 0
    make: MakeLearner = ArtLearner
    job_deadline_s: float = 5.0
    key: str = "local"
    jobs_outlive_us: bool = True
    budget: Budget = field(default_factory=Budget)

    @property
    def config(self) -> TrainingConfig:
        return TrainingConfig(
            policy="art",
            max_steps=self.max_steps,
            tasks_per_step=3,
            group_size=self.group_size,
            seed=self.seed,
            learning_rate=5e-6,
            validate_every=50,
        )

    def train(
        self, server: EmbeddedServer, resume: bool = False, stop: Stop | None = None, listener: Listener | None = None
    ) -> Training | None:
        plan = plan_training(self.config, self.data, budget=self.budget)
        with hold_folder(self.folder):
            plan = prepare_folder(plan, self.folder, resume=resume)
            service = Service(
                server.base_url,
                self.key,
                RUN_NAME,
                job_deadline_s=self.job_deadline_s,
                poll_s=0.02,
                jobs_outlive_us=self.jobs_outlive_us,
            )
            learner = self.make(plan.config, service, self.folder / CHECKPOINTS)
            return train(plan, learner, self.folder, stop or Stop(), listener)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return [record for _, record in read_journal(self.folder / METRICS)]

    @property
    def trajectories(self) -> list[dict[str, Any]]:
        return [record for _, record in read_journal(self.folder / TRAJECTORIES)]

    @property
    def rewards(self) -> list[float]:
        """Mean reward of each training step."""
        return [step["train"]["reward"] for step in self.metrics if step["train"]]

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def marker(self) -> Path:
        return self.checkpoints / MARKER


def jobs_sent_to(server: EmbeddedServer) -> int:
    return len(server._service._jobs._jobs)
