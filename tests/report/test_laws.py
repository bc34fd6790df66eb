from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.environment.workspace import load_tasks
from gradient_rl.report.laws import faults_in, validate_artifacts
from gradient_rl.report.library import Library, read_library
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.schema.trajectory import Digests, Reward, Step, StopReason, Trajectory
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
    assert faults(scored(answer=None, stop_reason=StopReason.TRANSPORT_ERROR)) == []


def reward_with(total: float, **weights: float) -> Reward:
    parts = tuple(part.model_copy(update={"weight": weights.get(part.name, part.weight)}) for part in reward().parts)
    return Reward(parts=parts, total=total)


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
        (changed(choices=({}, {})), "it holds 2 replies of a server for 0 messages of the assistant"),
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


@pytest.mark.parametrize("name", ["train.metrics.jsonl", "eval.json", "train.json"])
def test_a_summary_alone_can_be_checked(tmp_path: Path, name: str) -> None:
    (tmp_path / "eval.json").write_text("{}")
    (finding,) = validate_artifacts(save(tmp_path / name, damaged=["{}"]), UNKNOWN).findings

    assert (finding.file, finding.line) == (tmp_path / name, 1)
    assert "field 'run_id': Field required" in finding.problem
