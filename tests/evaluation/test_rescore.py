"""Saved trajectories under other weights and rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gradient_rl.errors import DataError, GradientError, NothingToReadError, UsageError
from gradient_rl.evaluation.rescore import parse_profile, rescore
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.rollout.runner import with_reward
from gradient_rl.runs import json_line
from gradient_rl.schema.evaluation import Evaluation
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Trajectory
from tests.conftest import write_data
from tests.tiny import NOTICE_TASK
from tests.trajectories import trajectory

SIX = [NOTICE_TASK.model_copy(update={"id": f"task-{n}"}) for n in range(6)]
GUESS = trajectory(opened=())
"""The right value and source, of which nothing was opened."""
WRONG = trajectory("90 days", ("mail-1",))
"""The right source under a wrong answer."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data", tasks=SIX)


def save(path: Path, played: Trajectory, name: str = "weak", tasks: Sequence[Task] = SIX, **more: object) -> Path:
    for task in tasks:
        named = played.model_copy(update={"policy": name, "task_id": task.id, **more})
        with path.open("ab") as file:
            file.write(json_line(with_reward(named, task, RewardProfile()).model_dump(mode="json")))
    return path


def scored(files: Sequence[Path], data: Path, profile: str = "", baseline: str | None = None) -> tuple[Evaluation, list[str]]:
    faults: list[str] = []

    def warn(fault: GradientError) -> None:
        faults.append(str(fault))

    return rescore(files, data, parse_profile(profile) if profile else RewardProfile(), baseline, warn), faults


def mean(evaluation: Evaluation, policy: str, metric: str) -> float | None:
    return evaluation.policies[policy].metrics[metric].mean


def test_the_same_profile_gives_the_same_reward(data: Path, tmp_path: Path) -> None:
    evaluation, _ = scored([save(tmp_path / "weak.jsonl", WRONG)], data)

    assert mean(evaluation, "weak", "reward") == mean(evaluation, "weak", "reward_as_saved") == pytest.approx(0.3)


def test_other_weights_give_another_reward_and_the_saved_one_stands_beside_it(data: Path, tmp_path: Path) -> None:
    evaluation, _ = scored([save(tmp_path / "weak.jsonl", WRONG)], data, "correctness=0.2,citation_quality=0.8")

    assert mean(evaluation, "weak", "reward") == pytest.approx(0.8)
    assert mean(evaluation, "weak", "reward_as_saved") == pytest.approx(0.3)
    assert evaluation.weights == {"correctness": 0.2, "citation_quality": 0.8, "efficiency": 0.0}


def test_another_rule_gives_another_reward(data: Path, tmp_path: Path) -> None:
    evaluation, _ = scored([save(tmp_path / "weak.jsonl", GUESS)], data, "require_opened=false")

    # Correct and efficient now, and its citation is still of a record that was not opened: 0.5 + 0.2.
    assert mean(evaluation, "weak", "reward_as_saved") == 0.0
    assert mean(evaluation, "weak", "reward") == pytest.approx(0.7)
    assert mean(evaluation, "weak", "pass@1") == 1.0
    assert evaluation.require_opened is False


def test_policies_are_compared_before_and_after(data: Path, tmp_path: Path) -> None:
    files = [save(tmp_path / "weak.jsonl", WRONG), save(tmp_path / "right.jsonl", trajectory(), "right")]
    evaluation, _ = scored(files, data, "citation_quality=1")

    assert [(c.metric, c.baseline, c.candidate, c.verdict) for c in evaluation.comparisons] == [
        ("reward", "weak", "right", "inconclusive"),
        ("reward_as_saved", "weak", "right", "better"),
    ]
    assert evaluation.comparisons[0].note == "none of the 6 tasks differs"


def test_the_latest_step_is_compared_with_the_state_before_training(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "learned.jsonl"
    for step in ("20", "0", "100"):
        save(path, WRONG, "learned", checkpoint=step)
    evaluation, _ = scored([path], data, baseline="learned@20")

    assert [(c.baseline, c.candidate) for c in evaluation.comparisons if c.metric == "reward"] == [
        ("learned@20", "learned@0"),
        ("learned@20", "learned@100"),
        ("learned@0", "learned@100"),
    ]


def test_the_same_policy_in_two_files_is_compared_as_two(data: Path, tmp_path: Path) -> None:
    files = [save(tmp_path / "before.jsonl", WRONG), save(tmp_path / "after.jsonl", trajectory())]
    evaluation, _ = scored(files, data)

    assert list(evaluation.policies) == [f"weak ({path})" for path in files]
    assert evaluation.comparisons[0].verdict == "better"


def test_a_file_that_is_named_twice_is_read_once(data: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "weak.jsonl", WRONG)

    assert scored([path, path], data)[0].policies["weak"].n_episodes == 6


def test_the_weak_policy_is_the_baseline_unless_another_is_named(data: Path, tmp_path: Path) -> None:
    files = [save(tmp_path / "a.jsonl", WRONG, "a"), save(tmp_path / "weak.jsonl", WRONG)]

    assert scored(files, data)[0].baseline == "weak"
    assert scored(files[:1], data)[0].baseline == "a"
    assert list(scored(files, data, baseline="a")[0].policies) == ["a", "weak"]


def test_an_unknown_baseline_is_told_what_there_is(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--baseline strong is in none of the files; they hold weak"):
        scored([save(tmp_path / "weak.jsonl", WRONG)], data, baseline="strong")


def test_a_damaged_line_is_named_and_the_rest_is_scored(data: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "weak.jsonl", WRONG)
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], '{"id":1}', *lines[3:]]) + "\n", "utf-8")
    evaluation, faults = scored([path], data)

    assert evaluation.policies["weak"].n_episodes == 4
    assert [fault.split(": ")[0] for fault in faults[:2]] == [f"{path} line 2 is damaged", f"{path} line 3 is not a trajectory"]


def test_a_trajectory_of_an_unknown_task_is_named_and_the_rest_is_scored(data: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "weak.jsonl", WRONG, tasks=[NOTICE_TASK, *SIX])
    evaluation, faults = scored([path], data)

    assert evaluation.policies["weak"].n_episodes == 6
    assert faults[0] == f"{path} line 1: task 'tiny-1' is not in {data}; name its folder with --data"


def test_trajectories_of_other_tasks_than_are_there_now_are_told(data: Path, tmp_path: Path) -> None:
    _, faults = scored([save(tmp_path / "weak.jsonl", WRONG)], data)

    assert faults == [f"6 of 6 trajectories were played on other tasks than {data} holds now"]


def test_an_episode_without_a_reward_stays_without(data: Path, tmp_path: Path) -> None:
    failed = trajectory(None, (), stop_reason="transport_error", error="503")
    evaluation, _ = scored([save(tmp_path / "weak.jsonl", failed)], data)

    assert (evaluation.policies["weak"].excluded, mean(evaluation, "weak", "reward")) == (6, None)


def test_files_without_a_trajectory_are_nothing_to_read(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()

    with pytest.raises(NothingToReadError, match=r"empty\.jsonl: no trajectory that can be scored"):
        scored([tmp_path / "empty.jsonl"], data)
    with pytest.raises(NothingToReadError, match=r"none\.jsonl is not there"):
        scored([tmp_path / "none.jsonl"], data)


def test_a_folder_without_tasks_is_nothing_to_read(tmp_path: Path) -> None:
    path = save(tmp_path / "weak.jsonl", WRONG)

    with pytest.raises(NothingToReadError, match=r"holds neither tasks/heldout\.jsonl nor tasks/train\.jsonl"):
        scored([path], tmp_path)


# Profiles


def test_a_part_that_is_not_named_weighs_nothing() -> None:
    assert parse_profile("correctness=1").weights == {"correctness": 1.0, "citation_quality": 0.0, "efficiency": 0.0}


def test_a_rule_can_be_changed_alone() -> None:
    profile = parse_profile("require_opened=false")

    assert (profile.require_opened, profile.weights) == (False, RewardProfile().weights)


def test_a_profile_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text('{"weights": {"correctness": 0.6, "efficiency": 0.4}, "require_opened": false}')
    profile = parse_profile(str(tmp_path / "profile.json"))

    assert profile.weights == {"correctness": 0.6, "citation_quality": 0.0, "efficiency": 0.4}
    assert profile.require_opened is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("correctness=0.9", "weights must lie in [0, 1] and add up to 1, and these add up to 0.9"),
        ("style=1", "there is no reward part 'style'; the parts are correctness, citation_quality, efficiency"),
        ("correctness=much", "'correctness=much' should be correctness= and a number in [0, 1]"),
        ("correctness=nan", "weights.correctness: Input should be a finite number"),
        ("require_opened=maybe", "'require_opened=maybe' should be require_opened= and true or false"),
        ("correctness=1,", "'' should be NAME= and a number in [0, 1]"),
        ("nothing.json", "cannot be read: No such file or directory; give a JSON file or NAME=VALUE,..."),
    ],
)
def test_a_profile_that_does_not_fit_is_told_why(text: str, words: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_profile(text)

    assert str(told.value).startswith(f"--profile {text}")
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("content", "words"), [("{", "Invalid JSON"), ('{"weight": {}}', "weight: Extra inputs are not permitted")]
)
def test_a_profile_file_that_does_not_fit_is_told_why(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "profile.json").write_text(content)

    with pytest.raises(UsageError, match=words):
        parse_profile(str(tmp_path / "profile.json"))


def test_damage_in_the_tasks_ends_the_scoring(data: Path, tmp_path: Path) -> None:
    (data / "tasks" / "train.jsonl").write_text("{\n")

    with pytest.raises(DataError, match=r"train\.jsonl line 1"):
        scored([save(tmp_path / "weak.jsonl", WRONG)], data)
