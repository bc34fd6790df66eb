from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.evaluation import audit as audits
from gradient_rl.evaluation.audit import Audit, Check, Finding, Player, Reciting, Reward, Role, Scored, audit, play
from gradient_rl.evaluation.holes import Hole
from gradient_rl.policies.base import Message, Reply, one_call
from gradient_rl.rewards.own import load_parts
from gradient_rl.rewards.profile import PARTS, RewardFunction, RewardProfile
from gradient_rl.rollout.runner import Setting, setting_for
from gradient_rl.schema.task import Task
from tests.evaluation import own_rewards as own
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK, tiny_workspace

TINY = (NOTICE_TASK, DEPOSIT_TASK)


def own_reward(*names: str) -> Reward:
    return Reward(RewardProfile(), {**PARTS, **{name: getattr(own, name) for name in names}})


def whole(part: RewardFunction) -> Reward:
    return Reward(RewardProfile(weights={"mine": 1.0}), {"mine": part})


@pytest.fixture(scope="session")
def packaged() -> Audit:
    folder = default_data_dir()
    tasks = [task for name in (TRAIN_FILE, HELDOUT_FILE) for task in load_tasks(folder / name).tasks]
    return audit(tasks, setting_for(load_workspace(folder)), Reward())


@pytest.fixture(scope="session")
def one_of_each() -> tuple[list[Task], Setting]:
    """A packaged task of every family."""
    folder = default_data_dir()
    by_family = {task.family: task for task in reversed(load_tasks(folder / TRAIN_FILE).tasks)}
    return list(by_family.values()), setting_for(load_workspace(folder))


def audited(one_of_each: tuple[list[Task], Setting], reward: Reward) -> Audit:
    return audit(*one_of_each, reward)


def holes_of(found: Audit) -> Mapping[tuple[str | None, Hole | None], Finding]:
    return {(finding.part, finding.hole): finding for finding in found.findings if finding.check is Check.HOLES}


def scored(reward: Reward, players: Sequence[Player], tasks: Sequence[Task] = TINY) -> list[Scored]:
    played = play(players, tasks, setting_for(tiny_workspace()), reward.profile, seed=0)
    return [audits.scored_by(reward, each) for each in played]


def references(tasks: Sequence[Task] = TINY) -> list[Player]:
    return [Player("reference", Role.REFERENCE, "", lambda task: Reciting(task.reference))]


def test_the_packaged_reward_on_the_packaged_tasks_has_no_finding(packaged: Audit) -> None:
    assert (packaged.findings, packaged.failed) == ((), ())
    assert packaged.tasks == 70
    assert {s.name: s.mean for s in packaged.standings if s.role is Role.REFERENCE} == {"reference": pytest.approx(1.0)}


def test_every_cheater_and_both_of_the_floor_play_every_task(packaged: Audit) -> None:
    roles = [standing.role for standing in packaged.standings]

    assert (roles.count(Role.CHEATER), roles.count(Role.FLOOR), roles.count(Role.HONEST)) == (15, 2, 1)
    assert packaged.episodes == 70 * (len(roles) + 4)


def test_a_standing_is_the_sum_of_its_parts_and_the_mean_of_its_families(packaged: Audit) -> None:
    for standing in packaged.standings:
        assert sum(standing.parts.values()) == pytest.approx(standing.mean)
        assert min(standing.families.values()) <= standing.mean <= max(standing.families.values())


def test_efficiency_that_is_not_gated_is_named(one_of_each: tuple[list[Task], Setting]) -> None:
    found = audited(one_of_each, own_reward("efficiency"))
    holes = holes_of(found)
    hole = holes["efficiency", Hole.UNGATED]

    assert list(holes) == [("efficiency", Hole.UNGATED)]
    assert (hole.policy, hole.mean, hole.family_mean) == ("empty", pytest.approx(0.2), pytest.approx(0.2))
    assert "submit-at-once" in hole.others
    assert [(f.policy, f.mean) for f in found.findings if f.check is Check.FLOOR] == [
        ("empty", pytest.approx(0.2)),
        ("random", pytest.approx(0.2, abs=0.08)),
    ]


def test_citations_that_count_recall_only_are_named(one_of_each: tuple[list[Task], Setting]) -> None:
    holes = holes_of(audited(one_of_each, own_reward("citation_quality")))
    recall = holes["citation_quality", Hole.RECALL_ONLY]

    assert set(holes) == {("citation_quality", Hole.RECALL_ONLY), ("citation_quality", Hole.UNREAD)}
    assert (recall.policy, recall.mean) == ("cite-all", pytest.approx(0.3))
    assert "cite-seen" in recall.others
    assert holes["citation_quality", Hole.UNREAD].policy == "oracle"


def test_facts_that_are_looked_for_as_substrings_are_named(one_of_each: tuple[list[Task], Setting]) -> None:
    holes = holes_of(audited(one_of_each, own_reward("correctness")))
    substring = holes["correctness", Hole.SUBSTRING]

    assert substring.policy == "both-values"
    assert substring.family_mean == pytest.approx(0.5)
    assert "every-value" in substring.others


def test_three_holes_in_one_function_are_all_named(one_of_each: tuple[list[Task], Setting]) -> None:
    reward = Reward(RewardProfile(weights={"whole": 1.0}), load_parts(["tests.evaluation.own_rewards:whole"]))

    assert {("whole", hole) for hole in (Hole.UNGATED, Hole.RECALL_ONLY, Hole.SUBSTRING)} <= set(
        holes_of(audited(one_of_each, reward))
    )


def test_a_profile_that_asks_for_no_opened_record_pays_guesses(one_of_each: tuple[list[Task], Setting]) -> None:
    holes = holes_of(audited(one_of_each, Reward(RewardProfile(require_opened=False))))

    assert set(holes) == {("correctness", Hole.GUESS), ("efficiency", Hole.GUESS)}
    assert (holes["correctness", Hole.GUESS].policy, holes["correctness", Hole.GUESS].mean) == (
        "oracle",
        pytest.approx(0.5),
    )


def test_a_small_weight_hides_no_hole(one_of_each: tuple[list[Task], Setting]) -> None:
    profile = RewardProfile(weights={"correctness": 0.9, "citation_quality": 0.05, "efficiency": 0.05})
    found = audited(one_of_each, replace(own_reward("efficiency"), profile=profile))

    assert holes_of(found)["efficiency", Hole.UNGATED].mean == pytest.approx(0.05)


def test_a_sound_part_of_ones_own_has_no_finding(one_of_each: tuple[list[Task], Setting]) -> None:
    assert audited(one_of_each, whole(own.brevity)).findings == ()


def test_a_cheater_that_no_hole_explains_is_named_when_it_stands_high(one_of_each: tuple[list[Task], Setting]) -> None:
    found = audited(one_of_each, whole(own.reading))
    high = {f.policy: f for f in found.findings if f.check is Check.HOLES}

    assert {f.hole for f in high.values()} == {None}
    assert {"cite-seen", "open-all"} <= set(high)
    assert {f.part for f in high.values()} == {"mine"}


def test_chance_in_a_part_is_found_by_scoring_twice_and_not_taken_for_a_hole(one_of_each: tuple[list[Task], Setting]) -> None:
    found = audited(one_of_each, whole(own.by_chance))

    assert found.failed_checks == {Check.REFERENCE, Check.SCORED_TWICE}


def test_a_part_that_is_noise_is_not_asked_for_its_holes() -> None:
    found = audit(TINY, setting_for(tiny_workspace()), whole(lambda _: own.PartScore(random.random())))

    assert Check.SCORED_TWICE in found.failed_checks
    assert {finding.hole for finding in found.findings} == {None}


def test_a_part_that_remembers_is_found_by_scoring_in_another_order() -> None:
    asked = count()
    reward = whole(lambda submission: own.PartScore(submission.correctness * (next(asked) == 0)))
    found = list(audits.scoring_findings(reward, scored(reward, references())))

    assert [(f.part, f.task, f.detail) for f in found] == [("mine", "tiny-1", "1, then 0")]


def test_a_part_that_depends_on_the_order_of_its_submissions_is_found() -> None:
    """The second round asks backwards, so that who counts in rounds is found too."""
    asked = count()
    reward = whole(lambda submission: own.PartScore(submission.correctness * (next(asked) % 2)))

    assert [f.tasks for f in audits.scoring_findings(reward, scored(reward, references()))] == [2]


@pytest.mark.parametrize(("amount", "found"), [(0.049, []), (0.051, [("superseded", pytest.approx(0.051))])])
def test_a_hole_in_one_family_is_not_hidden_by_the_others(amount: float, found: list[object]) -> None:
    """With ten tasks, 0.05 within a family of one is 0.005 over all."""
    tasks = [NOTICE_TASK, *(DEPOSIT_TASK.model_copy(update={"id": f"other-{n}"}) for n in range(9))]
    (first,) = play(references(), [NOTICE_TASK], setting_for(tiny_workspace()), RewardProfile(), 0)
    payment = audits.Payment("correctness", Hole.GUESS, first, amount)

    assert [(f.family, f.family_mean) for f in audits.hole_findings([payment], tasks)] == found


def test_the_same_fault_twice_is_deterministic() -> None:
    reward = whole(own.infinite)
    silent = Player(
        "silent",
        Role.FLOOR,
        "",
        lambda task: Reciting((task.reference[-1].model_copy(update={"arguments": {"answer": "", "sources": []}}),)),
    )

    assert list(audits.scoring_findings(reward, scored(reward, [silent]))) == []


@pytest.mark.parametrize(
    ("part", "detail"),
    [
        (own.doubled, "returned 2"),
        (lambda _: own.PartScore(-0.25), "returned -0.25"),
        (lambda _: own.PartScore(float("inf")), "returned inf"),
        (lambda _: own.PartScore(float("nan")), "returned nan"),
        (lambda _: own.PartScore(1 / 0), "raised ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_part_that_leaves_its_bounds_is_named_with_what_it_returned(part: RewardFunction, detail: str) -> None:
    reward = whole(part)

    (finding,) = audits.bounds_findings(scored(reward, references()))
    assert (finding.part, finding.policy, finding.task, finding.tasks, finding.detail) == (
        "mine",
        "reference",
        "tiny-1",
        2,
        detail,
    )


def test_a_reference_that_misses_the_top_is_named_with_the_part_that_keeps_it_below() -> None:
    reward = Reward(parts={**PARTS, "efficiency": own.strict})

    (finding,) = audits.reference_findings(scored(reward, references()))
    assert (finding.part, finding.mean, finding.tasks) == ("efficiency", pytest.approx(0.9), 2)


@pytest.mark.parametrize(("paid", "named"), [(0.05, []), (0.051, [("floor", pytest.approx(0.051))])])
def test_who_does_nothing_sensible_may_earn_a_twentieth_and_no_more(paid: float, named: list[object]) -> None:
    floor = [Player("floor", Role.FLOOR, "", lambda task: Reciting(task.reference))]
    found = audits.floor_findings(scored(whole(lambda _: own.PartScore(paid)), floor))

    assert [(f.policy, f.mean) for f in found] == named


def test_a_reference_without_a_submission_is_named() -> None:
    cut = NOTICE_TASK.model_copy(update={"reference": NOTICE_TASK.reference[:2]})

    (finding,) = audits.reference_findings(scored(Reward(), references(), (cut, DEPOSIT_TASK)))
    assert (finding.task, finding.tasks, finding.detail) == ("tiny-1", 1, "it ends without a submission")


class Drifting:
    """Answers with a number that no seed determines."""

    name = "drifting"

    def __init__(self) -> None:
        self._number = count()

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        return one_call(messages, "submit_answer", answer=str(next(self._number)), sources=[])


def test_episodes_that_do_not_repeat_are_named() -> None:
    drifting = Drifting()
    players = [*references(), Player("drifting", Role.FLOOR, "", lambda _: drifting)]
    again = partial(play, players, TINY, setting_for(tiny_workspace()), RewardProfile(), 0)

    assert [(f.policy, f.task, f.tasks) for f in audits.playing_findings(again(), again())] == [("drifting", "tiny-1", 2)]


def test_another_seed_makes_other_episodes_of_who_plays_by_chance() -> None:
    (by_chance,) = [player for player in audits.players_for(tiny_workspace()) if player.name == "random"]
    first, second = (
        [each.trace for each in play([by_chance], TINY, setting_for(tiny_workspace()), RewardProfile(), seed)]
        for seed in (0, 1)
    )

    assert first != second


def test_a_leak_is_found_with_its_task_and_place() -> None:
    told = NOTICE_TASK.model_copy(update={"question": "Is the notice of the bakery 60 days?"})
    found = audit([told, DEPOSIT_TASK], setting_for(tiny_workspace()), Reward())

    assert [(f.task, f.detail) for f in found.findings if f.check is Check.LEAKS] == [("tiny-1", "'60 days' in the question")]


class Failing:
    """A policy with a fault."""

    name = "failing"

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        raise ZeroDivisionError("no")


def test_an_episode_that_fails_on_the_way_is_counted_and_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Player("failing", Role.CHEATER, "", lambda _: Failing())
    monkeypatch.setattr(audits, "players_for", lambda _: [*references(), failing])
    found = audit(TINY, setting_for(tiny_workspace()), Reward())

    assert found.findings == ()
    assert found.failed == ("failing on tiny-1: ZeroDivisionError: no", "failing on tiny-2: ZeroDivisionError: no")


def test_progress_counts_every_episode_once() -> None:
    told: list[tuple[int, int]] = []
    found = audit(TINY, setting_for(tiny_workspace()), Reward(), progress=lambda ended, of: told.append((ended, of)))

    assert told == [(n + 1, found.episodes) for n in range(found.episodes)]


def test_an_audit_repeats_itself() -> None:
    assert audit(TINY, setting_for(tiny_workspace()), Reward(), 3) == audit(TINY, setting_for(tiny_workspace()), Reward(), 3)
