"""Laws that hold for every answer to every task, packaged or generated: what may never raise a reward, what may never matter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks
from gradient_rl.rewards.profile import RewardProfile, score
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Reward, Step, StopReason
from gradient_rl.worlds.generate import Recipe, generate
from gradient_rl.worlds.trade import load_trade
from tests.benchmarks.cheaters import packaged
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK
from tests.trajectories import opening, searching, trajectory

IRRELEVANT = "mail-2"
MADE_UP = "made-up"
WORDS = ["not", "formerly", "until", "no deposit is recorded", "but", ".", ",", "or", "30 days", "EUR 400", "60 days"]
FILLER = st.lists(st.sampled_from(["indeed", "kindly", "as asked", "thank you", "more follows in due course"]), min_size=1)
LOOKS = 8
"""Searches and openings of every trajectory, so that calls never differ."""


class Case(NamedTuple):
    """An answer to a task, what it cites, and what was read before it."""

    task: Task
    answer: str
    sources: list[str]
    read: frozenset[str]

    @property
    def required(self) -> set[str]:
        return required_by(self.task)


@lru_cache(1)
def tasks() -> Sequence[Task]:
    """Two tiny tasks, the packaged ones, and those of a small generated world."""
    with TemporaryDirectory(prefix="gradient-laws-") as folder:
        recipe = Recipe(trade="catering", records=200, tasks=20, heldout=0, seed=7)
        generate(recipe, load_trade(recipe.trade), Path(folder))
        generated = load_tasks(Path(folder) / TRAIN_FILE).tasks
    return (NOTICE_TASK, DEPOSIT_TASK, *packaged()[1], *generated)


@pytest.fixture(scope="module", autouse=True)
def tasks_are_made() -> None:
    """Once, and outside of the time that an example may take."""
    tasks()


def required_by(task: Task) -> set[str]:
    return {record_id for slot in task.required_sources for record_id in slot}


def records_of(task: Task) -> list[str]:
    return sorted({*required_by(task), *task.neutral_sources, IRRELEVANT})


def pieces_of(task: Task) -> list[str]:
    """What answers to a task may be put together from: right values, rivals, whole statements, and words between them."""
    values = [text for fact in task.facts for text in (fact.value or "", *fact.aliases, *fact.rivals, fact.statement)]
    submitted = str(task.reference[-1].arguments["answer"])
    return [*filter(None, values), submitted, *WORDS]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    made = tasks()
    task = made[draw(st.integers(0, len(made) - 1))]
    piece = st.one_of(st.sampled_from(pieces_of(task)), st.text(max_size=12))
    answer = " ".join(draw(st.lists(piece, max_size=8)))
    record = st.sampled_from(records_of(task))
    sources = draw(st.lists(st.one_of(record, st.just(MADE_UP)), max_size=7))
    return Case(task, answer, sources, frozenset(draw(st.sets(record))))


laws = settings(deadline=None)


def played(case: Case, stop_reason: StopReason = StopReason.SUBMITTED) -> Reward | None:
    looks = [*map(opening, sorted(case.read)), *[searching("it")] * (LOOKS - len(case.read))]
    submission = Step(tool="submit_answer", arguments={}, observation="{}")
    made = trajectory(case.answer, case.sources, steps=[*looks, submission], stop_reason=stop_reason)
    return score(made, case.task.for_grader(), RewardProfile())


def scored(case: Case) -> Reward:
    reward = played(case)
    assert reward is not None
    return reward


def no_more(changed: Case, case: Case) -> bool:
    """Whether a change raises neither the total nor any part."""
    pairs = zip(scored(changed).parts, scored(case).parts, strict=True)
    return scored(changed).total <= scored(case).total + 1e-9 and all(new.value <= old.value + 1e-9 for new, old in pairs)


@laws
@given(cases())
def test_every_part_and_the_total_lie_in_the_unit_interval(case: Case) -> None:
    reward = scored(case)

    assert all(0.0 <= part.value <= 1.0 for part in reward.parts)
    assert 0.0 <= reward.total <= 1.0


@laws
@given(cases())
def test_the_total_is_the_weighted_sum(case: Case) -> None:
    reward = scored(case)

    assert abs(reward.total - sum(part.weight * part.value for part in reward.parts)) < 1e-9


@laws
@given(cases(), st.sampled_from([IRRELEVANT, MADE_UP, "", "*"]))
def test_an_irrelevant_source_never_helps(case: Case, source: str) -> None:
    assert no_more(case._replace(sources=[*case.sources, source]), case)


def says_something(case: Case) -> bool:
    """An empty answer cannot be padded: what comes first is the answer."""
    return any(char.isalnum() for char in case.answer)


@laws
@given(cases().filter(says_something), FILLER)
def test_filler_never_helps(case: Case, filler: list[str]) -> None:
    case = case._replace(answer=f"{case.answer} .")

    assert no_more(case._replace(answer=f"{case.answer} {'. '.join(filler)} ."), case)


@laws
@given(cases().filter(says_something), FILLER)
def test_filler_before_the_answer_never_helps(case: Case, filler: list[str]) -> None:
    """As long as all of the answer is read; of a longer one, the beginning counts as the whole."""
    before = f"{'. '.join(filler)} . {case.answer}"
    assume(len(before.split()) <= 200)
    assume(len(before) <= 2000)

    assert no_more(case._replace(answer=before), case)


@laws
@given(cases(), st.data())
def test_leaving_required_evidence_unread_never_helps(case: Case, data: st.DataObject) -> None:
    dropped = data.draw(st.sampled_from(sorted(case.required)))

    assert no_more(case._replace(read=case.read - {dropped}), case._replace(read=case.read | {dropped}))


@laws
@given(cases(), st.sampled_from(["", " ", ".", "\n", "- _ -", "?!"]))
def test_an_answer_without_a_word_earns_nothing(case: Case, answer: str) -> None:
    assert scored(case._replace(answer=answer)).total == 0.0


@laws
@given(cases(), st.data())
def test_leaving_required_evidence_out_of_the_sources_never_helps(case: Case, data: st.DataObject) -> None:
    dropped = data.draw(st.sampled_from(sorted(case.required)))
    read = case._replace(read=case.read | {dropped})

    less = read._replace(sources=[source for source in case.sources if source != dropped])
    assert no_more(less, read._replace(sources=[*case.sources, dropped]))


@laws
@given(cases(), st.randoms())
def test_order_and_case_of_sources_never_matter(case: Case, random) -> None:
    drawn = random.sample(case.sources, len(case.sources))
    shuffled = [random.choice([s.upper(), s.lower(), f" {s}"]) for s in [*drawn, *drawn[:1]]]

    assert scored(case._replace(sources=shuffled)) == scored(case)


@laws
@given(cases(), st.sampled_from([r for r in StopReason if r is not StopReason.SUBMITTED and not r.is_infrastructure]))
def test_an_episode_without_a_proper_submission_earns_nothing(case: Case, stop_reason: StopReason) -> None:
    reward = played(case, stop_reason)

    assert reward is not None
    assert {reward.total, *(part.value for part in reward.parts)} == {0.0}


@laws
@given(cases(), st.sampled_from([r for r in StopReason if r.is_infrastructure]))
def test_an_infrastructure_failure_has_no_reward(case: Case, stop_reason: StopReason) -> None:
    assert played(case, stop_reason) is None


def test_the_laws_are_tried_on_answers_that_earn_something() -> None:
    """Laws about rewards that are all 0 would hold for nothing."""
    whole = [
        Case(task, str(task.reference[-1].arguments["answer"]), sorted(required_by(task)), frozenset(required_by(task)))
        for task in tasks()
        if len(required_by(task)) <= LOOKS
    ]

    assert len(whole) == len(tasks())
    assert all(scored(case).value("correctness") == 1.0 and scored(case).value("citation_quality") == 1.0 for case in whole)
