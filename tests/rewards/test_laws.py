"""Laws that hold for every answer: what may never raise a reward, and what may never matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradient_rl.rewards.profile import RewardProfile, score
from gradient_rl.schema.trajectory import Reward, StopReason
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK
from tests.trajectories import trajectory

RECORDS = ["mail-1", "mail-2", "doc-1", "doc-2", "doc-3", "doc-4"]
PIECES = ["60 days", "30 days", "not", "formerly", "until", "no deposit is recorded", "€400", "bakery", "but", ".", ",", "or"]
FILLER = st.lists(st.sampled_from(["indeed", "kindly", "as asked", "thank you"]), min_size=1, max_size=5)

answers = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=12).map(" ".join)
ids = st.lists(st.sampled_from([*RECORDS, "made-up"]), max_size=7)
opened = st.sets(st.sampled_from(RECORDS))
tasks = st.sampled_from([NOTICE_TASK, DEPOSIT_TASK])


def scored(task, answer: str, sources: list[str], read: set[str]) -> Reward:
    reward = score(trajectory(answer, sources, sorted(read)), task.for_grader(), RewardProfile())
    assert reward is not None
    return reward


@given(tasks, answers, ids, opened)
def test_every_part_and_the_total_lie_in_the_unit_interval(task, answer, sources, read) -> None:
    reward = scored(task, answer, sources, read)

    assert all(0.0 <= part.value <= 1.0 for part in reward.parts)
    assert 0.0 <= reward.total <= 1.0


@given(tasks, answers, ids, opened)
def test_the_total_is_the_weighted_sum(task, answer, sources, read) -> None:
    reward = scored(task, answer, sources, read)

    assert abs(reward.total - sum(part.weight * part.value for part in reward.parts)) < 1e-9


@given(tasks, answers, ids, opened)
def test_an_irrelevant_source_never_helps(task, answer, sources, read) -> None:
    more = scored(task, answer, [*sources, "mail-2"], read)

    assert more.total <= scored(task, answer, sources, read).total + 1e-9


@given(tasks, answers, ids, opened, FILLER)
def test_filler_never_helps(task, answer, sources, read, filler) -> None:
    padded = f"{answer} . {' '.join(filler)} ."

    assert scored(task, padded, sources, read).value("correctness") <= scored(task, f"{answer} .", sources, read).value(
        "correctness"
    )


@given(tasks, answers, ids, opened, st.sampled_from(RECORDS))
def test_reading_less_never_helps_to_be_correct(task, answer, sources, read, dropped) -> None:
    less = scored(task, answer, sources, read - {dropped})

    assert less.value("correctness") <= scored(task, answer, sources, read).value("correctness")


@given(tasks, answers, ids, opened)
def test_leaving_required_evidence_unread_never_helps(task, answer, sources, read) -> None:
    required = {record_id for slot in task.required_sources for record_id in slot}

    assert scored(task, answer, sources, read - required).total <= scored(task, answer, sources, read | required).total + 1e-9


@given(tasks, answers, ids, opened, st.randoms())
def test_order_and_case_of_sources_never_matter(task, answer, sources, read, random) -> None:
    shuffled = [random.choice([s.upper(), s.lower(), f" {s}"]) for s in random.sample(sources, len(sources))]

    assert scored(task, answer, shuffled, read) == scored(task, answer, sources, read)


@given(tasks, answers, ids, opened)
def test_a_malformed_trajectory_earns_nothing(task, answer, sources, read) -> None:
    played = trajectory(answer, sources, sorted(read), stop_reason=StopReason.MALFORMED)
    reward = score(played, task.for_grader(), RewardProfile())

    assert reward is not None
    assert reward.total == 0.0
