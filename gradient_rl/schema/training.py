"""A training run as it is saved: one line of metrics a step, and the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import Field

from gradient_rl.schema.trajectory import Digests
from gradient_rl.schema.workspace import FrozenRecord

SCHEMA_VERSION = 1
BASE_MODEL = "OpenPipe/Qwen3-14B-Instruct"
STOOD_IN_FOR = frozenset({BASE_MODEL, "linear"})
"""On this machine the linear policy stands in for these base models; any other is a language model that runs here."""
"""What ART adapts unless another model is named."""
WARM = "warm"
"""Label of the state after the warm start, between those of step 0 and step 1."""


class Played(FrozenRecord):
    """What a step's episodes measured; means over those with a reward, None where there is none."""

    episodes: int
    excluded: int
    """Infrastructure failures, which have no reward."""
    reward: float | None
    parts: dict[str, float]
    """Mean value of each reward part, in [0, 1]."""
    supported: float | None = None
    """Supported correctness: right, and the evidence opened and cited. Of a validation alone."""
    malformed: float
    """Share of the episodes."""
    calls: float
    """Tool calls of an episode."""
    opened: float
    """Records that an episode opened."""
    cited: float
    """Records that an episode cited."""
    tools: dict[str, float] = Field(default_factory=dict)
    """Calls of each tool in an episode; empty where it was not recorded."""
    tokens: int
    """Prompt and completion tokens of all episodes."""
    cost_usd: float


class TaskScore(NamedTuple):
    """Means over the samples of a validation task."""

    reward: float
    supported: float


class Watched(FrozenRecord):
    """What the hacking watch knows after a validation."""

    tasks: Mapping[str, TaskScore]
    """By validation task, without those that have no reward; empty where over 5% of the episodes have none."""
    in_a_row: int = 0
    """Validations up to this one, one after the other, whose reward rose clear of zero without supported correctness."""
    warning: str = ""
    """What it warns of, as a sentence; empty where it does not."""


class StepMetrics(FrozenRecord):
    """One training step; step 0 is the state before training, and once more, with the checkpoint `warm`, the warm start."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    step: int = Field(ge=0)
    train: Played | None = None
    """The step's rollouts; None at step 0."""
    validation: Played | None = None
    """None where the step was not validated."""
    watch: Watched | None = None
    """What the hacking watch made of the validation; None where the step was not validated."""
    spread: float | None = None
    """Mean over the groups of largest minus smallest reward."""
    groups: int = 0
    used: int = 0
    """Groups that were handed to the learner."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Groups that teach nothing, by the reason in words."""
    learner: dict[str, float] = Field(default_factory=dict)
    """What the learner measured: loss terms, entropy, ratios."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """By phase: rollout, score (of training and validation episodes), update, validate, warm_start; together the whole step."""
    checkpoint: str | None = None
    """Label of the state after the step."""

    @property
    def is_warm_start(self) -> bool:
        """Whether this is the warm start, which comes before step 1."""
        return self.step == 0 and self.checkpoint == WARM

    @property
    def at(self) -> int | float:
        """Its place on an axis of steps: its number; the warm start, which has none of its own, lies halfway to step 1."""
        return 0.5 if self.is_warm_start else self.step


class Training(FrozenRecord):
    """The summary of a complete run, `train.json`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    policy: str
    dry_run: bool
    config: dict[str, Any]
    config_digest: str
    """SHA-256 of the configuration, in hex."""
    digests: Digests
    versions: dict[str, str]
    started_at: str
    seconds: float
    """Of the process that ended the run; an earlier one's, before `--resume`, are not in it."""
    steps: int
    episodes: int
    excluded: int
    before: Played | None
    """On the validation tasks, before training."""
    after: Played | None
    """On the validation tasks, after it."""
    warm: Played | None = None
    """On the validation tasks, after the warm start; None without one."""
    best_step: int | None
    """The step with the highest validation reward, the earliest of equals; 0 stands for the warm start too."""
    latest: str | None
    """Label of the last checkpoint."""
    warnings: tuple[str, ...] = ()
    """What the hacking watch warned of, in the order of the steps."""
    learned: dict[str, float] = Field(default_factory=dict)
    """The largest weights by name, where the learner has weights that can be named."""


class ArtState(FrozenRecord):
    """The state of a step that ART trained: where its adapter is. It holds no key."""

    schema_version: Literal[1] = SCHEMA_VERSION
    step: int
    """Step of this run."""
    server_step: int
    """The service's own count, which an empty step does not raise."""
    inference_name: str
    base_model: str
    run_name: str
    base_url: str
    max_completion_tokens: int
    """Tokens of one reply while it was trained, and so while it is evaluated."""


class Submission(FrozenRecord):
    """A training job that is about to be sent."""

    step: int
    server_step: int
    """The service's step before it."""
    submitted_at: float
    """Seconds since the epoch."""
    warm: bool = False
    """Whether it is the warm start, which belongs to step 0."""


def place_name(at: float) -> str:
    """What stands at a place that `StepMetrics.at` gave: the step's number, or `warm`."""
    return str(int(at)) if at == int(at) else WARM
