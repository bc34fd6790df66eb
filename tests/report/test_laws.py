from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.environment.workspace import load_tasks
from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.report.laws import faults_in, validate_artifacts
from gradient_rl.report.library import Library, read_library
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.trajectory import Digests, Reward, Step, StopReason, Trajectory, Usage
from tests.saving import reward, save, scored
from tests.tiny import NOTICE_TASK
from tests.trajectories import opening, searching

UNKNOWN = Library(Path("nowhere"), {}, {}, {}, "")


def faults(trajectory: Trajectory, library: Library = UNKNOWN) -> list[str]:
    return list(faults_in(trajectory, library))


def changed(**fields: object) -> Trajectory:
    return scored().model_copy(update=fields)


def test_a_real_trajectory_breaks_no_law() -> None:
    assert faults(scored()) == []
    assert faults(scored(answer=None, stop_reason=StopReason.MALFORMED)) == []
    assert faults(scored(answer=None, stop_reason=StopReason.TRANSPORT_ERROR, error="no answer")) == []


def reward_with(total: float, **weights: float) -> Reward:
    parts = tuple(part.model_copy(update={"weight": weights.get(part.name, part.weight)}) for part in reward().parts)
    return Reward(parts=parts, total=total)


SEARCH, OPEN, SUBMIT = scored().steps


def asking(record_id: str) -> Trajectory:
    return changed(steps=(SEARCH, OPEN.model_copy(update={"arguments": {"id": record_id}}), SUBMIT))


NO_ANSWER = {"answer": None, "sources": (), "steps": scored().steps[:2]}


@pytest.mark.parametrize(
    ("trajectory", "fault"),
    [
        (changed(reward=reward_with(0.9)), "its reward is 0.9, and its parts add up to 1"),
        (changed(reward=reward_with(0.9, correctness=0.4)), "the weights of its reward add up to 0.9, not to 1"),
        (changed(reward=None), "it ended with submitted and has no reward, which only a failure of the infrastructure lacks"),
        (
            changed(stop_reason=StopReason.TRANSPORT_ERROR, **NO_ANSWER),
            "it ended with transport_error, a failure of the infrastructure, and has a reward of 1",
        ),
        (
            changed(stop_reason=StopReason.MALFORMED, behaviours=("malformed",), **NO_ANSWER),
            "it ended with malformed, which earns nothing, and has a reward of 1",
        ),
        (changed(steps=scored().steps[:2], answer=None), "it ended with submitted, and its last step is no submit_answer"),
        (changed(answer="90 days"), "its answer and sources are not those of its submit_answer"),
        (changed(max_calls=2), "it made 3 calls under a limit of 2"),
        (changed(behaviours=("no_citation",)), "its behaviours are no_citation, and its steps show none"),
        (changed(choices=({}, {})), "it holds 2 replies of a server for 3 messages of the assistant"),
        (
            scored(answer=None, stop_reason=StopReason.TRANSPORT_ERROR),
            "it ended with transport_error, and does not say what failed",
        ),
        (changed(sample=-1), "its sample is -1, which cannot be"),
        (changed(seconds=-0.5), "its seconds is -0.5, which cannot be"),
        (changed(seconds=float("nan")), "its seconds is nan, which cannot be"),
        (changed(usage=Usage(cost_usd=-1)), "its usage.cost_usd is -1, which cannot be"),
        (changed(steps=(SEARCH.model_copy(update={"seconds": -2.0}),)), "its seconds of step 1 is -2, which cannot be"),
        (asking("doc-999"), "step 2 opened doc-999, which nothing before had shown"),
        (asking("doc-999"), "step 2 asked for doc-999, and opened mail-1"),
        (
            changed(steps=(SEARCH.model_copy(update={"observation": '{"hits":[{"id":"doc-1"}]}'}),)),
            "step 1 has the ids mail-1, and its observation shows doc-1",
        ),
        (changed(steps=(searching("x"), *scored().steps[1:])), "step 2 opened mail-1, which nothing before had shown"),
    ],
)
def test_a_broken_law_is_told(trajectory: Trajectory, fault: str) -> None:
    assert fault in faults(trajectory)


def test_a_refused_opening_breaks_no_law() -> None:
    refused = Step(tool="open_email", arguments={"id": "mail-9"}, observation="no", error="no search has shown it")
    episode = scored(
        steps=(refused, searching("x", "mail-1"), opening("mail-1")), answer=None, stop_reason=StopReason.CALL_LIMIT
    )

    assert faults(episode) == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"question": "Who?"},
            "its question is 'Who?', and its task's 'How much notice does the bakery contract ask for now?'",
        ),
        ({"family": "lookup"}, "its family is 'lookup', and its task's 'superseded'"),
        ({"split": "heldout"}, "its split is 'heldout', and its task's 'train'"),
    ],
)
def test_what_its_task_says_otherwise_is_told(library: Library, fields: dict[str, object], fault: str) -> None:
    assert fault in faults(played_on(library, changed(**fields)), library)


def test_another_day_than_that_of_its_task_is_told(library: Library) -> None:
    asked, *rest = scored().messages
    moved = changed(messages=({**asked, "content": asked["content"].replace("2025", "2024")}, *rest))

    assert faults(played_on(library, moved), library) == ["its day of asking is '2024-06-30', and its task's '2025-06-30'"]


def test_a_day_that_was_not_told_is_missed(library: Library) -> None:
    asked, *rest = scored().messages
    silent = changed(messages=({**asked, "content": scored().question}, *rest))

    assert faults(played_on(library, silent), library) == ["its day of asking is 'not told', and its task's '2025-06-30'"]


def test_a_task_that_the_tasks_played_do_not_hold_is_told(library: Library) -> None:
    edited = played_on(library, changed(task_id="tiny-9"))

    assert faults(edited, library) == [f"the tasks it was played on, which {library.folder} holds, have no 'tiny-9'"]


@pytest.fixture
def library(tiny_data: Path) -> Library:
    return read_library(tiny_data)


def played_on(library: Library, trajectory: Trajectory) -> Trajectory:
    tasks = load_tasks(library.folder / "tasks/train.jsonl").digest
    return trajectory.model_copy(update={"digests": Digests(tasks=tasks)})


def test_a_forged_reward_is_found_by_computing_it_again(library: Library) -> None:
    forged = played_on(library, scored(answer="30 days")).model_copy(update={"reward": scored().reward})

    assert faults(forged, library) == [
        "its reward is 1 (correctness 1, citation_quality 1, efficiency 1), "
        "and computed again it is 0.3 (correctness 0, citation_quality 1, efficiency 0)"
    ]


def test_a_reward_under_other_weights_and_rules_is_accepted(library: Library) -> None:
    profile = RewardProfile(weights={"correctness": 0.7, "citation_quality": 0.3}, require_opened=False)
    unread = scored(opened=("doc-1",), sources=())

    assert faults(played_on(library, with_reward(unread, NOTICE_TASK, profile)), library) == []


def test_a_reward_on_other_tasks_is_not_computed_again(library: Library) -> None:
    assert faults(scored(answer="30 days").model_copy(update={"reward": scored().reward}), library) == []


def test_every_finding_of_a_folder_names_file_and_line(tmp_path: Path, library: Library) -> None:
    folder = tmp_path / "artifacts"
    good = played_on(library, scored())
    file = save(folder / "demo.jsonl", good, good.model_copy(update={"sample": 1, "max_calls": 1}), damaged=["{}"])
    save(folder / "train.metrics.jsonl", damaged=["{}"])
    (folder / "eval.json").write_text("{}")
    verdict = validate_artifacts(folder, library)

    assert (verdict.trajectories, verdict.recomputed) == (2, 2)
    assert [(finding.file.name, finding.line) for finding in verdict.findings] == [
        ("demo.jsonl", 2),
        ("demo.jsonl", 3),
        ("train.metrics.jsonl", 1),
        ("eval.json", 1),
    ]
    assert str(verdict.findings[0]) == f"{file} line 2 tiny-1: it made 3 calls under a limit of 1"


@pytest.mark.parametrize("name", ["train.metrics.jsonl", "eval.json", "chats.jsonl"])
def test_a_file_of_something_else_is_refused_with_what_was_expected(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"line 1 is not a trajectory: .*; no line of the file is a trajectory: expected is"):
        validate_artifacts(save(tmp_path / name, damaged=['{"messages":[],"tools":[]}']), UNKNOWN)


def test_an_empty_file_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="holds no trajectory yet; .*, or name another file or folder$"):
        validate_artifacts(save(tmp_path / "demo.jsonl"), UNKNOWN)


def test_a_folder_of_summaries_alone_is_nothing_to_check(tmp_path: Path) -> None:
    save(tmp_path / "train.metrics.jsonl", damaged=["{}"])

    with pytest.raises(NothingToReadError, match="holds no trajectories yet"):
        validate_artifacts(tmp_path, UNKNOWN)
