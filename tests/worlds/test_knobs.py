from __future__ import annotations

import pytest

from gradient_rl.report.worlds import MEASURES
from gradient_rl.worlds.card import Measures
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.knobs import STATEMENTS, Statement, held, measure_knobs
from gradient_rl.worlds.trade import load_trade

FALLING = Statement("paraphrase", 0.0, 1.0, "keyword_recall", up=False)


def test_every_knob_has_one_statement() -> None:
    assert [statement.knob for statement in STATEMENTS] == list(Difficulty.model_fields)


def test_statements_name_measures_of_the_card_that_have_words() -> None:
    assert {statement.measure for statement in STATEMENTS} <= set(Measures.model_fields) == set(MEASURES)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.knob)
def test_both_values_of_a_knob_are_allowed_and_the_default_lies_between(statement: Statement) -> None:
    low, high = (Difficulty.model_validate({statement.knob: value}) for value in (statement.low, statement.high))

    assert getattr(low, statement.knob) <= getattr(Difficulty(), statement.knob) <= getattr(high, statement.knob)


def test_a_measure_that_falls_as_stated_in_every_world_has_moved_clearly() -> None:
    outcome = held(FALLING, [0.50, 0.52, 0.54], [0.40, 0.41, 0.45])

    assert (outcome.moved, outcome.clear) == (True, True)
    assert (outcome.measured_low, outcome.measured_high) == (pytest.approx(0.52), pytest.approx(0.42))


def test_a_measure_that_falls_on_average_only_has_not_moved_clearly() -> None:
    outcome = held(FALLING, [0.5, 0.5], [0.3, 0.6])

    assert (outcome.moved, outcome.clear) == (True, False)


def test_a_measure_that_rises_against_the_statement_has_not_moved() -> None:
    outcome = held(FALLING, [0.4, 0.4], [0.5, 0.5001])

    assert (outcome.moved, outcome.clear) == (False, False)


def test_one_seed_gives_no_interval() -> None:
    outcome = held(FALLING, [0.5], [0.4])

    assert (outcome.interval, outcome.moved, outcome.clear) == (None, True, False)


def test_small_worlds_are_made_and_measured() -> None:
    heard: list[str] = []
    report = measure_knobs(
        load_trade("logistics"), 200, 10, 1, lambda what, done, of: heard.append(f"{what} {done}/{of}"), statements=[FALLING]
    )

    assert [(moved.knob, moved.direction) for moved in report.knobs] == [("paraphrase", "down")]
    assert heard == ["paraphrase 1/2", "paraphrase 2/2"]


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.knob)
def test_every_knob_moves_its_measure_as_stated(statement: Statement) -> None:
    report = measure_knobs(load_trade("logistics"), 1000, 200, 6, statements=[statement])

    assert report.knobs[0].moved, report.knobs[0]
