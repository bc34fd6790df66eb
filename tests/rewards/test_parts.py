from __future__ import annotations

import pytest

from gradient_rl.rewards.citations import citation_quality, count_citations
from gradient_rl.rewards.correctness import correctness
from gradient_rl.rewards.efficiency import call_economy, efficiency
from gradient_rl.rewards.submission import Submission
from gradient_rl.schema.task import Fact, Reference
from tests.rewards.answers import fact


def submission(
    answer: str = "60 days",
    cited: str = "a b",
    opened: str = "a b",
    calls: int = 5,
    facts: tuple[Fact, ...] = (fact("duration", "60 days", sources=("a",)),),
    slots: tuple[tuple[str, ...], ...] = (("a", "a2"), ("b",)),
    neutral: tuple[str, ...] = ("n",),
    require_opened: bool = True,
) -> Submission:
    reference = Reference(
        task_id="t", facts=facts, required_sources=slots, neutral_sources=neutral, question_text="?", reference_calls=5
    )
    return Submission(answer, frozenset(cited.split()), frozenset(opened.split()), calls, 15, reference, require_opened)


def test_a_fact_stated_and_read_is_correct() -> None:
    assert correctness(submission()).value == 1.0


def test_half_of_the_facts_is_half_of_correctness() -> None:
    two = (fact("duration", "60 days", sources=("a",)), fact("name", "Ruth Adeyemi", id="f2", sources=("b",)))

    assert correctness(submission(facts=two)).value == 0.5


def test_a_guess_without_reading_earns_nothing() -> None:
    value, reasons = correctness(submission(opened="b"))

    assert value == 0.0
    assert reasons == ("f1: 60 days is stated, but a was not opened: a guess earns nothing",)


def test_reading_may_be_left_out_of_the_rules() -> None:
    assert correctness(submission(opened="", require_opened=False)).value == 1.0


def test_one_source_of_a_stated_fact_is_enough() -> None:
    stated_twice = (fact("duration", "60 days", sources=("a", "a2")),)

    assert correctness(submission(facts=stated_twice, opened="a2")).value == 1.0


def test_a_derived_fact_needs_every_record_it_is_derived_from() -> None:
    inputs = [{"record": "a", "value": "EUR 1"}, {"record": "b", "value": "EUR 2"}]
    total = (fact("money", "EUR 3", sources=("a", "b"), derivation={"operation": "sum", "inputs": inputs}),)

    assert correctness(submission("3 euros", facts=total, opened="a b")).value == 1.0
    assert correctness(submission("3 euros", facts=total, opened="a2 b")).value == 1.0
    assert correctness(submission("3 euros", facts=total, opened="a")).value == 0.0


@pytest.mark.parametrize(
    ("cited", "precision", "recall", "f1"),
    [
        ("a b", 1.0, 1.0, 1.0),
        ("a", 1.0, 0.5, 2 / 3),
        ("a x", 0.5, 0.5, 0.5),
        ("a b x", 2 / 3, 1.0, 0.8),
        ("a b n", 1.0, 1.0, 1.0),
        ("n", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
        ("a a2 b", 1.0, 1.0, 1.0),
        ("x y z", 0.0, 0.0, 0.0),
    ],
)
def test_citations_are_counted_by_hand(cited: str, precision: float, recall: float, f1: float) -> None:
    counts = count_citations(submission(cited=cited, opened="a a2 b n x y z"))

    assert (counts.precision, counts.recall, counts.f1) == pytest.approx((precision, recall, f1))


def test_citing_an_unopened_record_lowers_precision() -> None:
    value, reasons = citation_quality(submission(cited="a b", opened="a"))

    assert value == pytest.approx(0.5)
    assert "b is cited without having been opened" in reasons


def test_an_unopened_neutral_record_is_a_wrong_citation() -> None:
    assert count_citations(submission(cited="a b n")).wrong == ("n",)


@pytest.mark.parametrize(
    ("cited", "value"), [("a x", 0.5), ("a x y", 0.0), ("a b x y", 2 / 3), ("a b x y z", 0.0), ("a n x", 0.5)]
)
def test_citations_of_which_most_are_wrong_earn_nothing(cited: str, value: float) -> None:
    assert citation_quality(submission(cited=cited, opened="a b n x y z")).value == pytest.approx(value)


def test_why_a_list_of_sources_earns_nothing_is_told() -> None:
    reasons = citation_quality(submission(cited="a x y", opened="a x y")).reasons

    assert "2 wrong citations beside 1 right: a list proves nothing" in reasons


@pytest.mark.parametrize("answer", ["", " ", ".", "- _ -"])
def test_an_answer_without_a_word_has_no_citation_quality(answer: str) -> None:
    assert citation_quality(submission(answer=answer)).value == 0.0


@pytest.mark.parametrize("answer", ["7", "No.", "é"])
def test_a_short_answer_keeps_its_citations(answer: str) -> None:
    assert citation_quality(submission(answer=answer)).value == 1.0


@pytest.mark.parametrize(("calls", "economy"), [(1, 1.0), (5, 1.0), (6, 0.9), (10, 0.5), (14, 0.1), (15, 0.0), (16, 0.0)])
def test_call_economy_falls_linearly_from_the_reference_to_the_limit(calls: int, economy: float) -> None:
    assert call_economy(calls, 5, 15) == pytest.approx(economy)


def test_efficiency_is_scaled_by_correctness() -> None:
    assert efficiency(submission(answer="no idea", calls=2)).value == 0.0
    assert efficiency(submission(calls=10)).value == pytest.approx(0.5)
