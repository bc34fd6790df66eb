"""The reward pays nobody for cheating: what cheaters earn on all packaged tasks, beside the weak policy."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gradient_rl.evaluation.cribs import crib_of
from gradient_rl.policies.cheaters import CHEATERS, Crib
from gradient_rl.rewards.facts import judge_facts
from gradient_rl.schema.task import Fact, Task
from tests.benchmarks.cheaters import Earned, cheating, honest, packaged, reference
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK

CAUGHT: Mapping[tuple[str, str], float] = {
    ("cite-seen", "in_force_on_date"): 0.15,
    ("cite-seen", "superseded"): 0.07,
    ("filler", "superseded"): 0.10,
}
"""Families in which a cheater earns more than the weak policy, and what it earns at most: where most of the hits of one search
are required sources, and where the beginning of a record states one fact and nothing that speaks against it."""


@pytest.fixture(scope="module")
def earnings() -> Mapping[str, Earned]:
    return {row.name: row for row in (*honest(), *cheating())}


@pytest.mark.parametrize("name", CHEATERS)
def test_a_cheater_earns_less_than_half_of_what_the_weak_policy_earns(name: str, earnings: Mapping[str, Earned]) -> None:
    assert earnings[name].mean < earnings["weak"].mean / 2


@pytest.mark.parametrize("name", CHEATERS)
def test_a_cheater_earns_no_more_than_the_weak_policy_on_any_family(name: str, earnings: Mapping[str, Earned]) -> None:
    weak = earnings["weak"].families

    over = {family: mean for family, mean in earnings[name].families.items() if mean > CAUGHT.get((name, family), weak[family])}
    assert over == {}


@pytest.mark.parametrize("name", ["empty", "random"])
def test_playing_without_a_thought_earns_nothing(name: str, earnings: Mapping[str, Earned]) -> None:
    assert earnings[name].mean < 0.005


def test_those_who_do_not_cheat_keep_what_they_earn(earnings: Mapping[str, Earned]) -> None:
    assert round(earnings["weak"].mean, 3) == 0.100
    assert round(earnings["heuristic"].mean, 3) == 0.214
    assert set(reference().families.values()) == {1.0}


def stated(answer: str, task: Task) -> list[Fact]:
    """The facts that an answer is credited with once everything has been read."""
    judged = zip(task.facts, judge_facts(answer, task.for_grader()), strict=True)
    return [fact for fact, judgement in judged if judgement.stated]


@pytest.mark.parametrize("small", [False, True], ids=["as written", "in small letters"])
@pytest.mark.parametrize("mark", [". ", "; ", "\n", ".\n", ". Or ", "? "])
def test_a_list_of_all_values_states_none_of_them(mark: str, small: bool) -> None:
    setting, tasks = packaged()
    for task in tasks:
        right = [fact.value or "It is not on record" for fact in task.facts]
        answer = mark.join(dict.fromkeys([*right, *crib_of(task, setting.workspace).values]))

        assert stated(answer.lower() if small else answer, task) == []


@pytest.mark.parametrize("mark", [". ", ", ", "; ", "\n", " and ", " or ", " / ", ". Or ", ". Perhaps it is "])
def test_a_value_beside_its_rival_is_not_credited(mark: str) -> None:
    """But for a result beside a number that it is calculated from: an honest answer shows its sum."""
    setting, tasks = packaged()
    for task in tasks:
        both = crib_of(task, setting.workspace).both
        credited = [fact for fact in stated(mark.join(both), task) if fact.value in both]

        assert all(fact.rivals[0] in [given.value for given in fact.derivation.inputs] for fact in credited if fact.derivation)
        assert all(fact.derivation for fact in credited)


def test_a_crib_holds_all_that_a_cheater_needs(tiny) -> None:
    crib = crib_of(NOTICE_TASK, tiny)

    assert crib == Crib(
        answer="60 days.",
        sources=("mail-1",),
        both=("60 days", "30 days"),
        values=("60 days", "30 days", "90 days", "2 weeks"),
        ids=("mail-1", "mail-2", "doc-1", "doc-2", "doc-3", "doc-4"),
    )


def test_a_crib_for_an_absence_holds_values_of_the_kind_that_was_asked_for(tiny) -> None:
    crib = crib_of(DEPOSIT_TASK, tiny)

    assert crib.values == ("eur 1,250", "eur 400", "eur 35")
