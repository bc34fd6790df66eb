"""A run of an evaluation in one process: what is planned, what is written, and what a later process makes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gradient_rl.errors import DataError, GradientError, NothingToReadError, UsageError
from gradient_rl.evaluation.compare import evaluation_of
from gradient_rl.evaluation.metrics import Outcome
from gradient_rl.evaluation.records import read_trajectories
from gradient_rl.evaluation.run import Plan, Request, Stop, plan_evaluation, play, prepare_folder, save_evaluation
from gradient_rl.rewards.profile import RewardProfile
from gradient_rl.runs import RunIdentity, read_journal
from gradient_rl.schema.evaluation import Evaluation
from gradient_rl.schema.task import Split
from tests.evaluation.playing import fakes, heldout_world, save_step

REQUEST = Request(policies=("guessing",), baseline="empty", samples=2, concurrency=1)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return heldout_world(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "artifacts").mkdir()
    return tmp_path / "artifacts"


def plan_of(world: Path, folder: Path, request: Request = REQUEST) -> Plan:
    return plan_evaluation(request, world, folder, fakes(world))


def ignore(name: str, outcome: Outcome) -> None:
    pass


def run(
    world: Path,
    folder: Path,
    request: Request = REQUEST,
    *,
    resume: bool = False,
    listen: Callable[[str, Outcome], None] = ignore,
    stop: Stop | None = None,
    on_damage: Callable[[DataError], None] | None = None,
) -> Evaluation:
    plan = prepare_folder(plan_of(world, folder, request), folder, resume=resume)
    faults: list[DataError] = []
    played = play(plan, folder, stop or Stop(), listen, on_damage or faults.append)
    assert not faults
    return evaluation_of(plan.head(0.0), plan.tasks, played.outcomes, plan.lineup.pairs)


def interrupted_after(episodes: int, world: Path, folder: Path, request: Request = REQUEST) -> None:
    stop, heard = Stop(), 0

    def listen(name: str, outcome: Outcome) -> None:
        nonlocal heard
        heard += 1
        if heard == episodes:
            stop.request()

    run(world, folder, request, listen=listen, stop=stop)
    assert heard == episodes


def without_times(evaluation: Evaluation) -> Evaluation:
    return evaluation.model_copy(update={"started_at": "", "seconds": 0.0})


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


# What is planned


def test_a_plan_holds_every_task_of_the_split(world: Path, folder: Path) -> None:
    plan = plan_of(world, folder)

    assert [task.id for task in plan.tasks] == [f"held-{n:02}" for n in range(8)]
    assert plan.episodes == 2 * 8 * 2


@pytest.mark.parametrize(("split", "ids"), [(Split.TRAIN, ["tiny-1"]), (Split.VALIDATION, ["tiny-9"])])
def test_training_and_validation_tasks_stand_in_one_file_and_are_told_apart(
    world: Path, folder: Path, split: Split, ids: list[str]
) -> None:
    assert [task.id for task in plan_of(world, folder, replace(REQUEST, split=split)).tasks] == ids


def test_chosen_tasks_keep_the_order_of_the_file(world: Path, folder: Path) -> None:
    plan = plan_of(world, folder, replace(REQUEST, task_ids=("held-05", "held-02")))

    assert [task.id for task in plan.tasks] == ["held-02", "held-05"]


def test_an_unknown_task_names_the_nearest(world: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match="there is no heldout task 'held-99'; the nearest ids are held-0"):
        plan_of(world, folder, replace(REQUEST, task_ids=("held-01", "held-99")))


def test_a_split_without_tasks_is_nothing_to_read(tmp_path: Path, tiny_data: Path, folder: Path) -> None:
    with pytest.raises(NothingToReadError, match=r"train\.jsonl holds no validation task; choose another --split"):
        plan_of(tiny_data, folder, replace(REQUEST, split=Split.VALIDATION))


def test_the_same_request_has_the_same_run_id_and_another_seed_has_not(world: Path, folder: Path) -> None:
    first, second, other = (plan_of(world, folder, replace(REQUEST, seed=seed)) for seed in (0, 0, 1))

    assert first.identity.run_id == second.identity.run_id != other.identity.run_id


def test_how_many_play_at_once_is_no_part_of_the_run(world: Path, folder: Path) -> None:
    wide = plan_of(world, folder, replace(REQUEST, concurrency=9))

    assert wide.identity.run_id == plan_of(world, folder).identity.run_id


# What is played and written


def test_each_policy_has_a_file_with_a_trajectory_a_line(world: Path, folder: Path) -> None:
    run(world, folder)
    trajectories = [t for _, t in read_trajectories(folder / "eval.guessing.jsonl")]

    assert [(t.task_id, t.sample) for t in trajectories] == [(f"held-{n:02}", k) for n in range(8) for k in range(2)]
    assert {t.policy for t in trajectories} == {"guessing"}
    assert len(lines(folder / "eval.empty.jsonl")) == 16


def test_a_trajectory_is_on_the_disk_before_it_is_heard_of(world: Path, folder: Path) -> None:
    heard = 0

    def listen(name: str, outcome: Outcome) -> None:
        nonlocal heard
        heard += 1
        assert sum(len(lines(path)) for path in folder.glob("eval.*.jsonl")) == heard

    run(world, folder, listen=listen)

    assert heard == 32


def test_all_policies_work_on_a_task_before_any_goes_to_the_next(world: Path, folder: Path) -> None:
    order: list[tuple[str, str]] = []
    run(world, folder, replace(REQUEST, samples=1), listen=lambda name, outcome: order.append((outcome.task_id, name)))

    assert order[:4] == [("held-00", "empty"), ("held-00", "guessing"), ("held-01", "empty"), ("held-01", "guessing")]


def test_asked_to_play_one_by_one_each_policy_ends_before_the_next_begins(world: Path, folder: Path, tmp_path: Path) -> None:
    order: list[str] = []
    found = run(world, folder, replace(REQUEST, one_by_one=True, concurrency=8), listen=lambda name, _: order.append(name))
    (tmp_path / "other").mkdir()

    assert order == sorted(order, key=order.index)
    assert len(set(order)) == 2
    assert without_times(found) == without_times(run(world, tmp_path / "other"))


def test_a_checkpoint_writes_to_a_file_of_its_step(world: Path, folder: Path) -> None:
    save_step(folder / "checkpoints", 0, "empty")
    save_step(folder / "checkpoints", 40, "right")
    evaluation = run(world, folder, replace(REQUEST, policies=("learned@latest",)))

    assert list(evaluation.policies) == ["empty", "learned@40", "learned@0"]
    assert [(c.baseline, c.candidate) for c in evaluation.comparisons][-1] == ("learned@0", "learned@40")
    assert {t.checkpoint for _, t in read_trajectories(folder / "eval.learned-40.jsonl")} == {"40"}


def test_the_same_seed_gives_the_same_evaluation_whatever_plays_beside(world: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    alone, crowded = run(world, folder), run(world, tmp_path / "other", replace(REQUEST, concurrency=7))

    assert without_times(alone) == without_times(crowded)


def test_an_earlier_run_is_moved_whole_before_a_new_one_begins(world: Path, folder: Path) -> None:
    save_step(folder / "checkpoints", 0, "empty")
    run(world, folder)
    save_evaluation(folder, "readable", b"{}")
    earlier = {path.name: path.read_bytes() for path in folder.glob("eval.*")}
    run(world, folder, replace(REQUEST, policies=("right",), seed=1))
    (home,) = (folder / "runs").iterdir()

    assert {path.name: path.read_bytes() for path in home.iterdir()} == earlier
    assert {path.name for path in folder.glob("eval.*")} == {"eval.run.json", "eval.empty.jsonl", "eval.right.jsonl"}
    assert (folder / "checkpoints" / "learned" / "0.json").exists()


def test_text_that_is_no_unicode_is_still_saved(folder: Path) -> None:
    save_evaluation(folder, "an answer of \ud800", b"{}")

    assert (folder / "eval.md").read_bytes() == b"an answer of \\ud800"


# Going on


@pytest.mark.parametrize("episodes", [1, 15, 31])
def test_a_run_that_was_interrupted_and_resumed_equals_one_that_was_not(
    world: Path, folder: Path, tmp_path: Path, episodes: int
) -> None:
    (tmp_path / "straight").mkdir()
    interrupted_after(episodes, world, folder)
    heard: list[str] = []
    resumed = run(world, folder, resume=True, listen=lambda name, _: heard.append(name))

    assert without_times(resumed) == without_times(run(world, tmp_path / "straight"))
    assert len(heard) == 32
    assert len({line for path in folder.glob("eval.*.jsonl") for line in lines(path)}) == 32


def test_a_complete_run_that_is_resumed_plays_nothing(world: Path, folder: Path) -> None:
    first = run(world, folder)
    before = {path: path.read_bytes() for path in folder.glob("eval.*.jsonl")}

    assert without_times(run(world, folder, resume=True)) == without_times(first)
    assert {path: path.read_bytes() for path in folder.glob("eval.*.jsonl")} == before


def test_a_resumed_run_keeps_the_time_at_which_it_began(world: Path, folder: Path) -> None:
    run(world, folder)
    manifest = folder / "eval.run.json"
    began = RunIdentity.load(manifest).started_at.replace(year=2024)
    replace(RunIdentity.load(manifest), started_at=began).save(manifest)

    assert run(world, folder, resume=True).started_at == began.isoformat()


def test_without_a_run_there_is_nothing_to_resume(world: Path, folder: Path) -> None:
    with pytest.raises(NothingToReadError, match="artifacts holds no evaluation to resume; leave --resume out"):
        run(world, folder, resume=True)


CHANGES = {
    "seed": ("seed was 0 .* and is 1 now", replace(REQUEST, seed=1)),
    "samples": ("samples was 2 .* and is 3 now", replace(REQUEST, samples=3)),
    "temperature": ("temperature was 0.0 .* and is 0.5 now", replace(REQUEST, temperature=0.5)),
    "policies": ("policies was 'empty,guessing' .* and is 'empty,right' now", replace(REQUEST, policies=("right",))),
    "task_ids": ("task_ids was 'all' .* and is 'held-01' now", replace(REQUEST, task_ids=("held-01",))),
    "split": ("split was 'heldout' .* and is 'train' now", replace(REQUEST, split=Split.TRAIN)),
    "config": ("config was", replace(REQUEST, profile=RewardProfile(require_opened=False))),
}


@pytest.mark.parametrize(("words", "changed"), CHANGES.values(), ids=CHANGES)
def test_a_changed_run_is_not_resumed_and_the_field_is_named(world: Path, folder: Path, words: str, changed: Request) -> None:
    run(world, folder)

    with pytest.raises(UsageError, match=rf"--resume: {words}"):
        run(world, folder, changed, resume=True)


@pytest.mark.parametrize(
    ("file", "old", "new", "field"),
    [("emails.jsonl", "leek", "kale", "workspace"), ("tasks/heldout.jsonl", "What deposit", "Which deposit", "tasks")],
)
def test_changed_data_is_not_mixed_with_what_was_played(
    world: Path, folder: Path, file: str, old: str, new: str, field: str
) -> None:
    run(world, folder)
    (world / file).write_text((world / file).read_text("utf-8").replace(old, new), "utf-8")

    with pytest.raises(UsageError, match=f"--resume: {field} was"):
        run(world, folder, resume=True)


def test_a_retrained_checkpoint_is_not_mixed_with_what_was_played(world: Path, folder: Path) -> None:
    save_step(folder / "checkpoints", 40, "empty")
    request = replace(REQUEST, policies=("learned@40",))
    run(world, folder, request)
    save_step(folder / "checkpoints", 40, "right")

    with pytest.raises(UsageError, match="--resume: checkpoints was"):
        run(world, folder, request, resume=True)


def test_episodes_without_a_reward_are_counted_and_played_again_on_resume(world: Path, folder: Path) -> None:
    request = replace(REQUEST, policies=("unreachable",), samples=1)
    broken = run(world, folder, request).policies["unreachable"]
    (world / "repaired").touch()
    mended = run(world, folder, request, resume=True).policies["unreachable"]

    assert (broken.excluded, broken.n_episodes, broken.metrics["reward"].mean) == (8, 8, None)
    assert (mended.excluded, mended.n_episodes, mended.metrics["reward"].mean) == (0, 8, 0.5)
    assert [t.attempt for _, t in read_trajectories(folder / "eval.unreachable.jsonl")] == [0] * 8 + [1] * 8


def test_a_second_attempt_that_is_interrupted_is_still_to_be_played(world: Path, folder: Path) -> None:
    request = replace(REQUEST, policies=("unreachable",), samples=1)
    run(world, folder, request)
    stop = Stop()
    stop.request()
    heard: list[str] = []
    plan = prepare_folder(plan_of(world, folder, request), folder, resume=True)
    played = play(plan, folder, stop, lambda name, _: heard.append(name))

    assert played.left == 8
    assert heard == ["empty"] * 8


DAMAGE = {
    "cut short": lambda line: line[:100],
    "no JSON": lambda line: "\0" * 20,
    "another schema": lambda line: line.replace('"schema_version":1', '"schema_version":7'),
    "a field gone": lambda line: line.replace('"task_id"', '"task"'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_is_named_and_its_episode_played_again(world: Path, folder: Path, damage: Callable[[str], str]) -> None:
    first = run(world, folder)
    path = folder / "eval.guessing.jsonl"
    written = lines(path)
    path.write_text("\n".join([*written[:4], damage(written[4]), *written[5:]]) + "\n", "utf-8")
    faults: list[DataError] = []
    resumed = run(world, folder, resume=True, on_damage=faults.append)

    assert [str(fault).startswith(f"{path} line 5 ") for fault in faults] == [True]
    assert without_times(resumed) == without_times(first)


def test_a_torn_line_is_told_and_its_episode_played_again(world: Path, folder: Path) -> None:
    first = run(world, folder)
    path = folder / "eval.guessing.jsonl"
    path.write_bytes(path.read_bytes()[:-200])
    faults: list[DataError] = []
    resumed = run(world, folder, resume=True, on_damage=faults.append)

    assert [str(fault) for fault in faults] == [f"{path}.torn keeps torn lines, which were never counted as played: 1"]
    assert without_times(resumed) == without_times(first)


def test_a_line_of_another_run_is_left_out(world: Path, folder: Path) -> None:
    first = run(world, folder)
    path = folder / "eval.guessing.jsonl"
    foreign = lines(path)[0].replace(first.run_id, "another-run")
    path.write_text(path.read_text("utf-8") + foreign + "\n", "utf-8")
    faults: list[DataError] = []
    resumed = run(world, folder, resume=True, on_damage=faults.append)

    assert [str(fault) for fault in faults] == [f"{path} line 17 belongs to another run and is left out"]
    assert without_times(resumed) == without_times(first)


def test_a_line_that_stands_twice_is_named_and_counted_once(world: Path, folder: Path) -> None:
    run(world, folder)
    path = folder / "eval.guessing.jsonl"
    path.write_text(path.read_text("utf-8") + lines(path)[2] + "\n", "utf-8")
    faults: list[DataError] = []

    assert len(list(read_trajectories(path, faults.append))) == 16
    assert [str(fault) for fault in faults] == [f"{path} line 17 repeats the episode of line 3"]


# Stopping


def test_after_a_request_to_stop_no_episode_begins_and_those_in_flight_end(world: Path, folder: Path) -> None:
    request = replace(REQUEST, policies=("slow",), samples=1, concurrency=4, baseline="slow")
    stop = Stop()
    threading.Timer(0.1, stop.request).start()
    run(world, folder, request, stop=stop)

    assert len(lines(folder / "eval.slow.jsonl")) == 4


def test_an_episode_that_does_not_end_in_time_is_given_up(world: Path, folder: Path) -> None:
    request = replace(REQUEST, policies=("stuck",), samples=1, concurrency=4, baseline="stuck")
    stop = Stop(grace_s=0.1)
    threading.Timer(0.1, stop.request).start()
    run(world, folder, request, stop=stop)

    assert lines(folder / "eval.stuck.jsonl") == []


def test_a_request_to_stop_that_comes_first_lets_nothing_begin(world: Path, folder: Path) -> None:
    stop = Stop()
    stop.request()
    evaluation = run(world, folder, stop=stop)

    assert evaluation.policies["guessing"].n_episodes == 0


def test_a_timeout_that_nobody_asked_for_is_not_taken_for_a_stop(world: Path, folder: Path) -> None:
    def listen(name: str, outcome: Outcome) -> None:
        raise TimeoutError("the disk did not answer")

    with pytest.raises(TimeoutError, match="the disk did not answer"):
        run(world, folder, listen=listen)


def test_a_fault_in_the_folder_ends_the_run_with_a_clear_error(world: Path, folder: Path) -> None:
    (folder / "eval.guessing.jsonl").mkdir()
    plan = plan_of(world, folder)

    with pytest.raises(GradientError, match=r"eval\.guessing\.jsonl cannot be read: Is a directory"):
        play(plan, folder, Stop(), ignore)


def test_records_in_a_journal_are_whole_trajectories(world: Path, folder: Path) -> None:
    run(world, folder, replace(REQUEST, samples=1))
    _, record = next(iter(read_journal(folder / "eval.guessing.jsonl")))

    assert json.loads(json.dumps(record))["run_id"] == plan_of(world, folder, replace(REQUEST, samples=1)).identity.run_id


def test_a_request_to_stop_that_comes_as_the_last_episode_ends_breaks_nothing() -> None:
    faults: list[object] = []

    async def end_at_once() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        stop = Stop()
        async with asyncio.timeout(None) as timeout:
            with stop.watching(timeout):
                stop.request()
        await asyncio.sleep(0)

    asyncio.run(end_at_once())

    assert faults == []
