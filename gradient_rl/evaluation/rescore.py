"""Scoring saved trajectories again, under other weights or rules: no rollout, and the comparison before and after."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, TaskFile, load_tasks
from gradient_rl.errors import DataError, GradientError, NothingToReadError, UsageError
from gradient_rl.evaluation.compare import evaluation_of
from gradient_rl.evaluation.lineup import DEFAULT_BASELINE, Pair
from gradient_rl.evaluation.metrics import REWARD, SAVED_REWARD, Outcome, measure
from gradient_rl.evaluation.records import read_trajectories
from gradient_rl.policies.catalog import BASE, player_name
from gradient_rl.rewards.profile import PARTS, RewardFunction, RewardProfile
from gradient_rl.rollout.runner import versions, with_reward
from gradient_rl.schema.evaluation import Evaluation, EvaluationHead
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Digests, Trajectory

_RULE = "require_opened"
_SWITCH = {"true": True, "false": False}

type Warn = Callable[[GradientError], None]


@dataclass(frozen=True)
class Saved:
    """One saved trajectory, and the name under which its policy is compared."""

    policy: str
    trajectory: Trajectory
    task: Task


def rescore(files: Sequence[Path], data: Path, profile: RewardProfile, baseline: str | None, warn: Warn) -> Evaluation:
    """Score the trajectories of these files by this profile, and compare their policies before and after.

    Args:
        files: of one trajectory a line; the same policy in two files is compared as two.
        data: folder of the tasks.
        profile: weights and rules.
        baseline: name of a policy in the files; `weak` or else the first if None.
        warn: called for each line that cannot be scored; the others are.

    Raises:
        NothingToReadError: a file is not there, or no line can be scored.
        UsageError: the baseline is in none of the files.
        DataError: the tasks are damaged.
    """
    saved = read_saved(files, data, warn)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for each in saved:
        scored = with_reward(each.trajectory, each.task, profile)
        outcomes[each.policy].append(measure(scored, each.task, profile, saved=each.trajectory.reward))
    first = _baseline_among(list(outcomes), baseline)
    ordered = {name: outcomes[name] for name in sorted(outcomes, key=lambda name: name != first)}
    tasks = {each.task.id: each.task for each in saved}
    return evaluation_of(
        _head(saved, profile, first), tasks.values(), ordered, pairs_among(list(ordered), first), (REWARD, SAVED_REWARD)
    )


def read_saved(files: Sequence[Path], data: Path, warn: Warn) -> list[Saved]:
    """Read the trajectories that can be scored, with their tasks.

    Raises:
        NothingToReadError: a file is not there, or no line can be scored.
        DataError: the tasks are damaged.
    """
    files_of_tasks = task_files(data)
    tasks = {task.id: task for file in files_of_tasks for task in file.tasks}
    found: list[tuple[Path, Trajectory]] = []
    for path in dict.fromkeys(files):
        for number, trajectory in read_trajectories(path, warn):
            if trajectory.task_id in tasks:
                found.append((path, trajectory))
            else:
                warn(
                    DataError(
                        f"{path} line {number}: task '{trajectory.task_id}' is not in {data}; name its folder with --data"
                    )
                )
    if not found:
        raise NothingToReadError(f"{', '.join(map(str, files))}: no trajectory that can be scored; give files of gradient-eval")
    _warn_of_other_tasks(found, {file.digest for file in files_of_tasks}, data, warn)
    names = _names(found)
    return [Saved(names[path, _name(t)], t, tasks[t.task_id]) for path, t in found]


def parse_profile(text: str, parts: Mapping[str, RewardFunction] = PARTS) -> RewardProfile:
    """Read a profile from `FILE.json` or from `NAME=VALUE,...`; a part that is not named weighs nothing.

    Without any weight the default ones stay, so that a rule can be changed alone.

    Args:
        text: where it is read from.
        parts: the parts that it may weigh.

    Raises:
        UsageError: a part or rule does not exist, or the values do not fit; what exists is listed.
    """
    path = Path(text)
    try:
        if "=" not in text or path.is_file():
            profile = RewardProfile.model_validate_json(path.read_bytes(), strict=True)
        else:
            profile = RewardProfile.model_validate(_fields_in(text))
    except OSError as error:
        raise UsageError(f"--profile {text} cannot be read: {error.strerror}; give a JSON file or NAME=VALUE,...") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"--profile {text}: {where + ': ' if where else ''}{message}") from None
    unknown = [name for name in profile.weights if name not in parts]
    if unknown:
        raise UsageError(f"--profile {text}: there is no reward part '{unknown[0]}'; the parts are {', '.join(parts)}")
    return profile.model_copy(update={"weights": {name: profile.weights.get(name, 0.0) for name in parts}})


def task_files(data: Path) -> list[TaskFile]:
    """The task files of a folder that are there and hold tasks, the held-out ones first.

    Raises:
        NothingToReadError: there is none.
        DataError: a line is damaged.
    """
    files: list[TaskFile] = []
    for name in (HELDOUT_FILE, TRAIN_FILE):
        with suppress(NothingToReadError):
            files.append(load_tasks(data / name))
    if not files:
        raise NothingToReadError(f"{data} holds neither {HELDOUT_FILE} nor {TRAIN_FILE}; name the tasks' folder with --data")
    return files


def _fields_in(text: str) -> Mapping[str, object]:
    weights: dict[str, float] = {}
    rules: dict[str, bool] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        try:
            if name == _RULE:
                rules[name] = _SWITCH[value.lower()]
            else:
                weights[name] = float(value)
        except (KeyError, ValueError):
            wanted = "true or false" if name == _RULE else "a number in [0, 1]"
            raise UsageError(f"--profile {text}: '{pair.strip()}' should be {name or 'NAME'}= and {wanted}") from None
    return rules | ({"weights": weights} if weights else {})


def _name(trajectory: Trajectory) -> str:
    return player_name(trajectory.policy, trajectory.checkpoint)


def _names(found: Iterable[tuple[Path, Trajectory]]) -> Mapping[tuple[Path, str], str]:
    """The policy's own name, with its file where several files have it."""
    places = dict.fromkeys((path, _name(trajectory)) for path, trajectory in found)
    count = Counter(name for _, name in places)
    return {(path, name): name if count[name] == 1 else f"{name} ({path})" for path, name in places}


def _warn_of_other_tasks(found: Sequence[tuple[Path, Trajectory]], digests: set[str], data: Path, warn: Warn) -> None:
    other = sum(trajectory.digests.tasks not in digests for _, trajectory in found)
    if other:
        warn(UsageError(f"{other} of {len(found)} trajectories were played on other tasks than {data} holds now"))


def _baseline_among(names: Sequence[str], baseline: str | None) -> str:
    if baseline is None:
        return DEFAULT_BASELINE if DEFAULT_BASELINE in names else names[0]
    if baseline not in names:
        raise UsageError(f"--baseline {baseline} is in none of the files; they hold {', '.join(names)}")
    return baseline


def pairs_among(names: Sequence[str], first: str) -> list[Pair]:
    """Every policy against the baseline, then the highest step of a learned one against its state before training."""
    pairs: list[Pair] = [(first, name) for name in names if name != first]
    for base in (name for name in names if name.endswith(f"@{BASE}")):
        stem = base.removesuffix(BASE)
        steps = [int(step) for name in names if name != base and (step := name.removeprefix(stem)).isdecimal()]
        pairs += [(base, f"{stem}{max(steps)}")] if steps else []
    return list(dict.fromkeys(pairs))


def _head(saved: Sequence[Saved], profile: RewardProfile, baseline: str) -> EvaluationHead:
    trajectories = [each.trajectory for each in saved]
    digests = {name: _common(getattr(t.digests, name) for t in trajectories) for name in Digests.model_fields}
    episodes = Counter((each.policy, each.task.id) for each in saved)
    return EvaluationHead(
        run_id=_common(t.run_id for t in trajectories),
        rescored=True,
        split="+".join(sorted({t.split for t in trajectories})),
        samples=max(episodes.values()),
        temperature=None,
        seed=None,
        baseline=baseline,
        digests=Digests(**digests),
        weights=profile.weights,
        require_opened=profile.require_opened,
        versions=versions(),
    )


def _common(values: Iterable[str]) -> str:
    """The value that all share; empty when they do not."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""
