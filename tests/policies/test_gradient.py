from __future__ import annotations

import random
from math import exp, log

import numpy as np
import pytest

from gradient_rl.policies.features import FEATURES, Kind
from gradient_rl.policies.gradient import Adam, Batch, Sample, Terms
from gradient_rl.policies.linear import Decision, log_softmax, zero_weights
from gradient_rl.policies.view import Row

CLIP = 0.2
STEP = 1e-6


def drawn(seed: int, *shape: int) -> Row:
    rng = random.Random(seed)
    return np.array([rng.uniform(-1.0, 1.0) for _ in range(int(np.prod(shape)))]).reshape(shape)


def some_weights() -> dict[Kind, Row]:
    return {kind: drawn(place, len(names)) for place, (kind, names) in enumerate(FEATURES.items())}


def logprob(decision: Decision, weights) -> float:
    return float(log_softmax(decision.features @ weights[decision.kind])[decision.chosen])


def sample(kind: Kind, advantage: float, ratio: float, weights, seed: int = 0) -> Sample:
    """A decision among four candidates whose probability under the weights is `ratio` times what it was."""
    decision = Decision(kind, drawn(100 + seed, 4, len(FEATURES[kind])), seed % 4)
    return Sample(decision, logprob(decision, weights) - log(ratio), advantage)


def of(samples, weights=None, entropy_bonus: float = 0.0) -> tuple[Terms, dict[Kind, Row]]:
    return Batch(samples).objective(weights or some_weights(), CLIP, entropy_bonus)


def by_differences(samples, weights, entropy_bonus: float) -> dict[Kind, Row]:
    """The gradient from two values of the objective a weight."""
    found = zero_weights()
    for kind, row in found.items():
        for place in range(len(row)):
            aside = np.zeros(len(row))
            aside[place] = STEP
            above = of(samples, {**weights, kind: weights[kind] + aside}, entropy_bonus)[0].objective
            below = of(samples, {**weights, kind: weights[kind] - aside}, entropy_bonus)[0].objective
            row[place] = (above - below) / (2 * STEP)
    return found


# An advantage with the ratio it meets: unmoved, moved within the bounds, beyond them on either side.
CASES = [(1.0, 1.0), (-1.0, 1.0), (0.7, 1.1), (-0.7, 0.9), (0.7, 1.5), (-0.7, 0.5), (0.7, 0.5), (-0.7, 1.5), (0.0, 1.3)]


@pytest.mark.parametrize("entropy_bonus", [0.0, 0.3])
def test_the_gradient_is_the_slope_of_the_objective(entropy_bonus: float) -> None:
    weights = some_weights()
    kinds = list(Kind)
    batch = [sample(kinds[i % len(kinds)], a, ratio, weights, seed=i) for i, (a, ratio) in enumerate(CASES)]

    _, gradient = of(batch, weights, entropy_bonus)

    for kind, expected in by_differences(batch, weights, entropy_bonus).items():
        assert gradient[kind] == pytest.approx(expected, abs=1e-7), kind


@pytest.mark.parametrize(("advantage", "ratio"), CASES)
def test_the_gradient_of_one_decision_is_the_slope_of_its_objective(advantage: float, ratio: float) -> None:
    weights = some_weights()
    one = [sample(Kind.MOVE, advantage, ratio, weights)]

    found = by_differences(one, weights, 0.1)[Kind.MOVE]

    assert of(one, weights, 0.1)[1][Kind.MOVE] == pytest.approx(found, abs=1e-7)


@pytest.mark.parametrize(
    ("advantage", "ratio", "counted"),
    [(1.0, 1.1, 1.1), (1.0, 1.5, 1.2), (1.0, 0.5, 0.5), (-1.0, 0.9, -0.9), (-1.0, 0.5, -0.8), (-1.0, 1.5, -1.5)],
)
def test_a_decision_counts_its_advantage_times_the_bounded_ratio(advantage: float, ratio: float, counted: float) -> None:
    terms, _ = of([sample(Kind.OPEN, advantage, ratio, some_weights())])

    assert terms.objective == pytest.approx(counted)
    assert terms.ratio == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("advantage", "ratio", "stopped"),
    [(1.0, 1.5, True), (-1.0, 0.5, True), (1.0, 0.5, False), (-1.0, 1.5, False), (1.0, 1.1, False), (-1.0, 0.9, False)],
)
def test_clipping_stops_the_gradient_where_enough_was_gained(advantage: float, ratio: float, stopped: bool) -> None:
    terms, gradient = of([sample(Kind.SAY, advantage, ratio, some_weights())])

    assert terms.clipped == float(stopped)
    assert np.any(gradient[Kind.SAY]) != stopped


def test_the_entropy_bonus_goes_on_where_clipping_stops_the_rest() -> None:
    _, gradient = of([sample(Kind.SAY, 1.0, 1.5, some_weights())], entropy_bonus=0.1)

    assert np.any(gradient[Kind.SAY])


def test_an_advantage_of_zero_moves_nothing() -> None:
    terms, gradient = of([sample(Kind.CITE, 0.0, 1.5, some_weights())])

    assert terms.objective == terms.clipped == 0.0
    assert not any(np.any(row) for row in gradient.values())


def test_at_the_old_weights_the_ratio_is_one_and_nothing_diverges() -> None:
    weights = some_weights()
    terms, _ = of([sample(kind, 0.5, 1.0, weights, seed) for seed, kind in enumerate(Kind)], weights)

    assert terms.ratio == pytest.approx(1.0, abs=1e-12)
    assert terms.kl == pytest.approx(0.0, abs=1e-12)
    assert terms.objective == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("ratio", [0.01, 0.5, 0.99, 1.01, 2.0, 50.0])
def test_the_divergence_is_never_negative(ratio: float) -> None:
    terms, _ = of([sample(Kind.MOVE, 1.0, ratio, some_weights())])

    assert terms.kl == pytest.approx(ratio - 1 - log(ratio))
    assert terms.kl > 0.0


def test_weights_of_zero_are_even_between_the_candidates() -> None:
    terms, _ = of([sample(Kind.SEARCH, 0.0, 1.0, zero_weights())], zero_weights())

    assert terms.entropy == pytest.approx(log(4))


def test_the_objective_is_a_mean_over_decisions() -> None:
    weights = some_weights()
    one, two = sample(Kind.MOVE, 1.0, 1.1, weights), sample(Kind.OPEN, -1.0, 0.9, weights)
    terms, gradient = of([one, one, two], weights)

    assert terms.objective == pytest.approx((1.1 + 1.1 - 0.9) / 3)
    assert gradient[Kind.MOVE] == pytest.approx(2 / 3 * of([one], weights)[1][Kind.MOVE])
    assert gradient[Kind.OPEN] == pytest.approx(1 / 3 * of([two], weights)[1][Kind.OPEN])


def test_a_good_decision_becomes_likelier_and_a_bad_one_less_so() -> None:
    weights = some_weights()
    for advantage in (1.0, -1.0):
        one = sample(Kind.OPEN, advantage, 1.0, weights)
        after = Adam(0.01).ascend(weights, of([one], weights)[1])
        assert (logprob(one.decision, after) - one.logprob) * advantage > 0


def test_log_probabilities_of_far_apart_candidates_stay_finite() -> None:
    found = log_softmax(np.array([2000.0, 0.0, 2000.0]))

    assert list(found) == pytest.approx([-log(2), -2000.0 - log(2), -log(2)])
    assert sum(exp(value) for value in found) == pytest.approx(1.0)


def constant(value: float) -> dict[Kind, Row]:
    return {kind: np.full(len(names), value) for kind, names in FEATURES.items()}


def test_two_steps_of_adam_are_those_of_a_hand_calculation() -> None:
    """Slopes of 2 and -1. First 0.2 / 0.1 = 2 over 0.04 / 0.01 = 4; then 0.08 / 0.19 over 0.0496 / 0.0199."""
    adam = Adam(0.1)
    first = adam.ascend(constant(0.5), constant(2.0))
    second = adam.ascend(first, constant(-1.0))

    for kind in Kind:
        assert list(first[kind]) == pytest.approx([0.5 + 0.1] * len(FEATURES[kind]), abs=1e-9)
        assert list(second[kind]) == pytest.approx([0.6 + 0.1 * 0.4210526316 / 1.5787534035] * len(FEATURES[kind]), abs=1e-8)


def test_adam_leaves_the_weights_it_was_given_alone() -> None:
    before = constant(0.5)
    Adam(0.1).ascend(before, constant(2.0))

    assert all(np.all(row == 0.5) for row in before.values())


def test_two_optimisers_share_no_state() -> None:
    Adam(0.1).ascend(constant(0.0), constant(2.0))

    assert not any(np.any(row) for row in Adam(0.1).mean.values())
