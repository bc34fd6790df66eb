"""Weights & Biases: the same metrics that the journal holds, sent there as well when they are asked for."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gradient_rl.errors import MissingKeyError, ServiceError
from gradient_rl.schema.training import Played, StepMetrics
from gradient_rl.training.loop import OnStep, Plan

KEY = "WANDB_API_KEY"


def needed_key(values: Mapping[str, str]) -> str:
    """The key, from these variables; empty where the mode is not online and it is not needed.

    Raises:
        MissingKeyError: there is no key and the mode is online.
    """
    key = values.get(KEY, "").strip()
    if not key and values.get("WANDB_MODE", "online") == "online":
        raise MissingKeyError(f"--wandb needs {KEY}: get a key at https://wandb.ai/authorize and put it into ./.env")
    return key


@contextmanager
def tracked(plan: Plan, folder: Path, key: str) -> Generator[OnStep]:
    """A run of that service, which gets each step's numbers. Its own files go under the artifacts folder.

    Args:
        plan: names the run and its configuration.
        folder: the artifacts folder.
        key: as `needed_key` gave it.

    Raises:
        MissingKeyError: the key is refused.
        ServiceError: the service does not answer.
    """
    import wandb
    from wandb.errors import AuthenticationError, Error

    name, settings = plan.identity.label, wandb.Settings(api_key=key or None, console="off", silent=True, x_disable_meta=True)
    config = plan.config.model_dump(mode="json")
    try:
        run = wandb.init(
            project=plan.config.project, name=name, id=name, resume="allow", dir=str(folder), config=config, settings=settings
        )
    except AuthenticationError as error:
        raise MissingKeyError(f"{KEY} is refused: {error}; get a key at https://wandb.ai/authorize") from None
    except Error as error:
        raise ServiceError(f"Weights & Biases did not begin a run: {error}; leave --wandb out to train without it") from None
    with run:
        yield lambda metrics: run.log(flat(metrics), step=metrics.step)


def flat(metrics: StepMetrics) -> dict[str, float]:
    """A step's numbers by name, as `train/reward` or `learner/entropy`."""
    named = {"groups/used": float(metrics.used), "groups/dropped": float(metrics.groups - metrics.used)}
    named |= {f"learner/{name}": value for name, value in metrics.learner.items()}
    named |= {f"seconds/{name}": value for name, value in metrics.seconds.items()}
    for split, played in (("train", metrics.train), ("validation", metrics.validation)):
        if played:
            named |= {f"{split}/{name}": value for name, value in _numbers(played).items()}
    # The warm start has step 0 like the base, whose figures it must not replace.
    return {f"warm_start/{name}": value for name, value in named.items()} if metrics.is_warm_start else named


def _numbers(played: Played) -> dict[str, float]:
    plain = {name: value for name, value in played.model_dump().items() if isinstance(value, int | float)}
    return {**plain, **played.parts}
