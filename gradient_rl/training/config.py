"""The training configuration: every parameter in one record, from defaults, a TOML file and flags, in this order."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

from pydantic import Field, ValidationError

from gradient_rl.environment.episode import Limits
from gradient_rl.errors import NothingToReadError, UsageError
from gradient_rl.rewards.advantages import Estimator
from gradient_rl.rewards.profile import PARTS, RewardProfile
from gradient_rl.schema.training import BASE_MODEL, STOOD_IN_FOR
from gradient_rl.schema.workspace import FrozenRecord


class TrainingConfig(FrozenRecord):
    """Everything that a training run depends on, but for the data. Unless said otherwise, each holds for every learner."""

    policy: str = "linear"
    """What learns, or with `--dry-run` what plays."""
    max_steps: int = Field(default=50, ge=1)
    """Training steps; a step is one batch of groups and one update."""
    tasks_per_step: int = Field(default=20, ge=1)
    """Groups in a step, each of another task."""
    group_size: int = Field(default=8, ge=2)
    """Episodes of a task in a step. One alone has nothing to be compared with."""
    learning_rate: float = Field(default=0.08, gt=0.0, le=1.0)
    """Of Adam. 0.08 suits the linear policy, whose features lie in [0, 1]; a LoRA adapter takes about 5e-6 (ART's default)."""
    temperature: float = Field(default=1.0, gt=0.0, le=10.0)
    """Of the rollouts; 1 samples from the policy itself, which is what the gradient assumes."""
    estimator: Estimator = Estimator.GROUP_STD
    """How advantages are made of rewards; see `rewards/advantages.py` for the equations and sources."""
    seed: int = Field(default=0, ge=0)
    """Of every random choice."""
    validate_every: int = Field(default=10, ge=1)
    """Steps between two validations; the first comes before training, the last after it."""
    validation_samples: int = Field(default=1, ge=1)
    """Episodes of each validation task, at temperature 0."""
    stop_on_hacking: bool = False
    """Whether the run ends when the hacking watch warns; `evaluation/watch.py` has the rule. Without it the run goes on."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """The newest so many are kept, beside the base and the best on the validation tasks."""
    concurrency: int = Field(default=8, ge=1)
    """Episodes at a time."""
    episode_deadline_s: float = Field(default=900.0, gt=0.0)
    """Seconds that an episode may take; one that takes longer failed on the way and has no reward."""
    update_epochs: int = Field(default=8, ge=1)
    """`linear`: gradient steps on one batch."""
    clip_ratio: float = Field(default=0.3, gt=0.0, lt=1.0)
    """`linear`: how far the probability ratio may move from 1 in an update (PPO, arXiv 1707.06347, section 3)."""
    entropy_bonus: float = Field(default=0.02, ge=0.0)
    """`linear`: reward units for each nat of a decision's entropy, against early certainty."""
    weight_decay: float = Field(default=0.02, ge=0.0, lt=1.0)
    """`linear`: share of each weight that is taken away in a gradient step, times the learning rate."""
    credit_by_part: bool = True
    """`linear`: whether what was said is judged by correctness and economy alone, and what was cited by its citations alone.
    Off is plain GRPO, where every decision answers for the whole reward, as every token of a language model does."""
    base_model: str = BASE_MODEL
    """`art`: the model that the adapter is trained on."""
    project: str = Field(default="gradient", pattern=r"^[A-Za-z0-9._-]{1,80}$")
    """`art`: the project on the service that the adapter belongs to."""
    max_completion_tokens: int = Field(default=1024, ge=16)
    """`art`: tokens of one reply."""
    kl_penalty: float = Field(default=0.0, ge=0.0)
    """`art`: coefficient of the divergence (ART's `kl_penalty_coef`) from the base model; on the embedded backend, from the
    warm start where there was one."""
    loss: Literal["cispo", "ppo"] = "cispo"
    """`art`: ART's loss; cispo is its default (arXiv 2506.13585)."""
    warm_start: int = Field(default=0, ge=0)
    """`art`: examples that the model imitates before the first step; 0 is no warm start."""
    warm_start_learning_rate: float = Field(default=5e-5, gt=0.0, le=1.0)
    """`art`: of the warm start; the default is that of ART's supervised fine-tuning."""
    warm_start_batch: int = Field(default=8, ge=1)
    """`art`: examples of one gradient step of the warm start."""
    limits: Limits = Limits()
    """Of an episode."""
    reward: RewardProfile = RewardProfile()
    """Parts, weights and rules of the reward."""


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "art": {"tasks_per_step": 8, "learning_rate": 5e-6, "validate_every": 5},
}
"""Where a learner's defaults differ from those of the linear one: ART's own learning rate, and fewer groups, for they cost."""
LOCAL: Mapping[str, object] = {
    "tasks_per_step": 8,
    "group_size": 8,
    "learning_rate": 1e-4,
    "estimator": Estimator.GROUP_MEAN,
    "kl_penalty": 0.1,
    "validate_every": 10,
    "concurrency": 48,
    "max_completion_tokens": 128,
    "warm_start_learning_rate": 6e-4,
    "warm_start_batch": 4,
}
"""Where those of a language model on this machine differ; they were chosen for 135 million parameters on two cores."""


def load_config(flags: Mapping[str, object], file: Path | None = None, *, embedded: bool = False) -> TrainingConfig:
    """Make the configuration: the learner's defaults, then the file, then the flags.

    Args:
        flags: by field; None where a flag was not given.
        file: TOML, with the fields as keys.
        embedded: whether the backend is a server on this machine.

    Raises:
        NothingToReadError: the file is not there.
        UsageError: a field is unknown or its value impossible; it is named with what is allowed.
    """
    written: Mapping[str, object] = _read(file) if file else {}
    given = {name: value for name, value in flags.items() if value is not None}
    named = {"policy": "linear", "base_model": BASE_MODEL, **written, **given}
    fields = {**_defaults_of(str(named["policy"]), str(named["base_model"]), embedded), **written, **given}
    try:
        # As JSON and strictly: true is no number, and '8' none either.
        config = TrainingConfig.model_validate_json(json.dumps(fields, default=str), strict=True)
    except ValidationError as error:
        raise UsageError(_told(error, given, file)) from None
    if config.policy == "art" and config.estimator is Estimator.LEAVE_ONE_OUT:
        raise UsageError(
            "estimator: art computes advantages itself, by group_std or group_mean; leave_one_out cannot be asked of it"
        )
    if config.warm_start and config.policy != "art":
        raise UsageError(f"--warm-start: {config.policy} has no warm start; leave it out, or train --policy art")
    if strange := [name for name in config.reward.weights if name not in PARTS]:
        raise UsageError(f"{file}: there is no reward part '{strange[0]}'; the parts are {', '.join(PARTS)}")
    return config


def _defaults_of(policy: str, base_model: str, embedded: bool) -> Mapping[str, object]:
    return LOCAL if embedded and policy == "art" and base_model not in STOOD_IN_FOR else DEFAULTS.get(policy, {})


def _read(file: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise NothingToReadError(f"--config {file} is not there; check the path") from None
    except OSError as error:
        raise UsageError(f"--config {file} cannot be read: {error.strerror or error}; check the path") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits, brackets in brackets
        raise UsageError(f"--config {file} cannot be read as TOML: {error}; write lines such as max_steps = 20") from None


def _told(error: ValidationError, flags: Mapping[str, object], file: Path | None) -> str:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    name = ".".join(path)
    where = f"--{name.replace('_', '-')}" if path and path[0] in flags else f"--config {file}: {name}"
    if first["type"] == "extra_forbidden":
        known = _known(path[:-1])
        near = difflib.get_close_matches(path[-1], known, n=3, cutoff=0.0)
        return f"{where}: there is no such field; the nearest are {', '.join(near)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{where} is {first['input']!r}, and it must fit: {message[:1].lower()}{message[1:]}"


def _known(path: list[str]) -> list[str]:
    record: type[FrozenRecord] = TrainingConfig
    for part in path:
        record = cast("type[FrozenRecord]", record.model_fields[part].annotation)
    return list(record.model_fields)
