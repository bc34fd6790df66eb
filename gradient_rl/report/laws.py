"""Does a saved trajectory hold together? The laws that every one obeys, and its reward computed again from its task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gradient_rl.errors import DataError
from gradient_rl.evaluation.records import read_trajectories
from gradient_rl.report.artifacts import (
    EVALUATION,
    TRAINING,
    Damage,
    damage_of,
    foreign,
    read_evaluation,
    read_metrics,
    read_training,
    refuse_nothing,
    torn_end,
    trajectory_files,
)
from gradient_rl.report.conversation import asked_on, choice_faults, conversation_faults, read_object
from gradient_rl.report.library import Library
from gradient_rl.rewards.behaviours import behaviours_of
from gradient_rl.rewards.profile import PARTS, RewardProfile, score, total_of
from gradient_rl.schema.trajectory import OPENING_TOOLS, SEARCH_TOOLS, SUBMIT_TOOL, Reward, StopReason, Trajectory

_EXACT = 1e-9
_OTHERWISE = "name another file or folder"


@dataclass(frozen=True)
class Verdict:
    """What came of checking a folder or a file."""

    files: tuple[Path, ...]
    trajectories: int
    """Lines that are trajectories."""
    recomputed: int
    """Of them, those whose reward was computed again."""
    unscored: int
    """Of them, those without a reward."""
    unknown: int
    """Of them, those with a reward whose tasks the library does not hold."""
    findings: tuple[Damage, ...]


def validate_artifacts(path: Path, library: Library) -> Verdict:
    """Check every line of a trajectory file, or of all files of an artifacts folder with the summaries beside them.

    Rewards are computed again where the trajectory was played on exactly the tasks of the library.

    Raises:
        NothingToReadError: there is no such file, or no trajectory in it.
        DataError: no line of any file is a trajectory; what was expected is said.
        ArtifactError: the file system refuses.
    """
    files = trajectory_files(path, _OTHERWISE)
    checks = [_check(file, library) for file in files]
    findings = [finding for check in checks for finding in check.findings]
    count = sum(check.trajectories for check in checks)
    refuse_nothing(path, count, findings, _OTHERWISE)
    return Verdict(
        files,
        count,
        sum(check.recomputed for check in checks),
        sum(check.unscored for check in checks),
        sum(check.unknown for check in checks),
        (*findings, *(_in_summaries(path) if path.is_dir() else ())),
    )


def _check(file: Path, library: Library) -> Verdict:
    faults: list[DataError] = []
    findings: list[Damage] = []
    count = recomputed = unscored = unknown = 0
    for line, trajectory in read_trajectories(file, faults.append):
        count += 1
        recomputed += _can_be_scored(trajectory, library)
        unscored += trajectory.reward is None
        unknown += trajectory.reward is not None and trajectory.digests.tasks not in library.digests.values()
        findings += [Damage(file, line, f"{trajectory.task_id}: {fault}") for fault in faults_in(trajectory, library)]
    damages = [damage_of(file, fault) for fault in faults] + torn_end(file)
    return Verdict((file,), count, recomputed, unscored, unknown, (*findings, *(damages if count else foreign(file, damages))))


def faults_in(trajectory: Trajectory, library: Library) -> Iterator[str]:
    """Every law that a trajectory breaks, a sentence each."""
    for law in _LAWS:
        yield from law(trajectory)
    yield from _task_is_its_own(trajectory, library)
    if _can_be_scored(trajectory, library):
        yield from _reward_again(trajectory, library)


def _in_summaries(folder: Path) -> list[Damage]:
    found = list(read_metrics(folder)[1])
    readers: tuple[tuple[str, Callable[[Path], object]], ...] = ((EVALUATION, read_evaluation), (TRAINING, read_training))
    for name, read in readers:
        try:
            read(folder)
        except DataError as error:
            found.append(damage_of(folder / name, error))
    return found


def _reward_is_there(t: Trajectory) -> Iterator[str]:
    if t.stop_reason.is_infrastructure and t.reward is not None:
        yield f"it ended with {t.stop_reason}, a failure of the infrastructure, and has a reward of {t.reward.total:g}"
    if not t.stop_reason.is_infrastructure and t.reward is None:
        yield f"it ended with {t.stop_reason} and has no reward, which only a failure of the infrastructure lacks"
    if t.stop_reason.is_infrastructure and not t.error:
        yield f"it ended with {t.stop_reason}, and does not say what failed"


def _total_is_the_sum(t: Trajectory) -> Iterator[str]:
    if t.reward is None:
        return
    weights = sum(part.weight for part in t.reward.parts)
    if abs(weights - 1.0) > _EXACT:
        yield f"the weights of its reward add up to {weights:g}, not to 1"
    total = total_of(list(t.reward.parts))
    if abs(total - t.reward.total) > _EXACT:
        yield f"its reward is {t.reward.total:g}, and its parts add up to {total:g}"


def _nothing_without_an_answer(t: Trajectory) -> Iterator[str]:
    if t.stop_reason is not StopReason.SUBMITTED and t.reward and t.reward.total > 0.0:
        yield f"it ended with {t.stop_reason}, which earns nothing, and has a reward of {t.reward.total:g}"


def _answer_was_submitted(t: Trajectory) -> Iterator[str]:
    last = t.steps[-1] if t.steps and t.steps[-1].tool == SUBMIT_TOOL else None
    if t.stop_reason is StopReason.SUBMITTED and last is None:
        yield f"it ended with {t.stop_reason}, and its last step is no {SUBMIT_TOOL}"
    if last is not None and (last.arguments.get("answer"), last.arguments.get("sources")) != (t.answer, list(t.sources)):
        yield f"its answer and sources are not those of its {SUBMIT_TOOL}"
    if last is None and t.answer is not None:
        yield f"it has an answer and no {SUBMIT_TOOL}"


def _opened_was_shown(t: Trajectory) -> Iterator[str]:
    shown: set[str] = set()
    for number, step in enumerate(t.steps, start=1):
        if step.tool not in OPENING_TOOLS:
            shown.update(step.ids)
        elif step.error is None:
            asked = str(step.arguments.get("id"))
            if step.ids != (asked,):
                yield f"step {number} asked for {asked}, and opened {_listed(step.ids)}"
            for record_id in dict.fromkeys((asked, *step.ids)):
                if record_id not in shown:
                    yield f"step {number} opened {record_id}, which nothing before had shown"


def _ids_are_those_of_the_answer(t: Trajectory) -> Iterator[str]:
    for number, step in enumerate(t.steps, start=1):
        answer = read_object(step.observation)
        hits = cast("object", answer.get("hits") if step.tool in SEARCH_TOOLS else [answer])
        told = _ids_in(hits) if step.tool in SEARCH_TOOLS | OPENING_TOOLS and step.error is None else []
        if told and told != list(step.ids):
            yield f"step {number} has the ids {_listed(step.ids)}, and its observation shows {_listed(told)}"


def _ids_in(hits: object) -> list[str]:
    listed = cast("list[object]", hits) if isinstance(hits, list) else []
    objects = [cast("dict[str, object]", hit) for hit in listed if isinstance(hit, dict)]
    return [str(hit["id"]) for hit in objects if "id" in hit]


def _nothing_is_negative(t: Trajectory) -> Iterator[str]:
    usage = t.usage
    figures: dict[str, float] = {
        "step": t.step,
        "sample": t.sample,
        "attempt": t.attempt,
        "seconds": t.seconds,
        "usage.prompt_tokens": usage.prompt_tokens,
        "usage.completion_tokens": usage.completion_tokens,
        "usage.cost_usd": usage.cost_usd,
        **{f"seconds of step {number}": step.seconds for number, step in enumerate(t.steps, start=1)},
    }
    for name, value in figures.items():
        if not value >= 0:  # so that NaN is told, too
            yield f"its {name} is {value:g}, which cannot be"


def _calls_are_within_the_limit(t: Trajectory) -> Iterator[str]:
    if t.calls > t.max_calls:
        yield f"it made {t.calls} calls under a limit of {t.max_calls}"


def _behaviours_are_its_own(t: Trajectory) -> Iterator[str]:
    expected = tuple(behaviour.value for behaviour in behaviours_of(t))
    if t.behaviours != expected:
        yield f"its behaviours are {_listed(t.behaviours)}, and its steps show {_listed(expected)}"


def _choices_fit_the_replies(t: Trajectory) -> Iterator[str]:
    replies = sum(message.get("role") == "assistant" for message in t.messages)
    if t.choices and len(t.choices) != replies:
        yield f"it holds {len(t.choices)} replies of a server for {replies} messages of the assistant"


_LAWS: tuple[Callable[[Trajectory], Iterator[str]], ...] = (
    _reward_is_there,
    _total_is_the_sum,
    _nothing_without_an_answer,
    _answer_was_submitted,
    conversation_faults,
    choice_faults,
    _opened_was_shown,
    _ids_are_those_of_the_answer,
    _nothing_is_negative,
    _calls_are_within_the_limit,
    _behaviours_are_its_own,
    _choices_fit_the_replies,
)


def _task_is_its_own(t: Trajectory, library: Library) -> Iterator[str]:
    """What a task says otherwise, where the library holds exactly the tasks that were played."""
    if not library.holds(t):
        if t.digests.tasks and t.digests.tasks in library.digests.values():
            yield f"the tasks it was played on, which {library.folder} holds, have no '{t.task_id}'"
        return
    task = library.tasks[t.task_id]
    pairs = (
        ("question", t.question, task.question),
        ("family", t.family, task.family.value),
        ("split", t.split, task.split.value),
        ("day of asking", asked_on(t) or "not told", task.as_of.isoformat()),
    )
    for name, saved, known in pairs:
        if saved != known:
            yield f"its {name} is '{saved:.60}', and its task's '{known:.60}'"


def _can_be_scored(t: Trajectory, library: Library) -> bool:
    parts = t.reward.parts if t.reward else ()
    known = bool(parts) and all(part.name in PARTS for part in parts)
    return known and library.holds(t) and abs(sum(part.weight for part in parts) - 1.0) <= _EXACT


def _reward_again(t: Trajectory, library: Library) -> Iterator[str]:
    """What the saved reward has that the task does not give, under the rule that comes nearest.

    A trajectory does not say whether a fact counted only when its record was opened, so it may be either.
    """
    if t.reward is None:
        return
    weights = {part.name: part.weight for part in t.reward.parts}
    reference = library.tasks[t.task_id].for_grader()
    profiles = [RewardProfile(weights=weights, require_opened=rule) for rule in (True, False)]
    scored = [reward for profile in profiles if (reward := score(t, reference, profile))]
    if scored and not any(_same(t.reward, reward) for reward in scored):
        yield f"its reward is {_told(t.reward)}, and computed again it is {_told(scored[0])}"


def _same(saved: Reward, again: Reward) -> bool:
    values = zip(saved.parts, again.parts, strict=True)
    return abs(saved.total - again.total) <= _EXACT and all(abs(a.value - b.value) <= _EXACT for a, b in values)


def _told(reward: Reward) -> str:
    return f"{reward.total:g} ({', '.join(f'{part.name} {part.value:g}' for part in reward.parts)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
