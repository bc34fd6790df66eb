"""Hand calculations, scipy as the second opinion, laws, and promises over simulated evaluations."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradient_rl.evaluation.statistics import (
    Comparison,
    Interval,
    Rewards,
    Verdict,
    compare,
    count_moves,
    detectable_by_design,
    detectable_difference,
    mean_interval,
    paired_differences,
    pass_hat_k,
    sign_flip_p,
    task_means,
    tasks_needed,
)


def one_sample_each(values: list[float] | list[float | None]) -> Rewards:
    return {f"task-{i:03}": [value] for i, value in enumerate(values)}


def finite_or_none(result: Comparison | Interval) -> bool:
    numbers = [v for v in asdict(result).values() if isinstance(v, float)]
    json.dumps(asdict(result), allow_nan=False)
    return all(map(math.isfinite, numbers))


# Within-task means


def test_samples_are_averaged_within_their_task() -> None:
    assert task_means({"a": [1.0, 0.5], "b": [0.0]}).means == {"a": 0.75, "b": 0.0}


def test_an_infrastructure_failure_is_excluded_and_counted_and_is_not_zero() -> None:
    result = task_means({"a": [1.0, None], "b": [0.2, 0.4]})
    assert result.means == pytest.approx({"a": 1.0, "b": 0.3})
    assert (result.episodes, result.excluded) == (4, 1)


def test_a_task_with_no_reward_at_all_has_no_mean() -> None:
    result = task_means({"a": [None, None], "b": [0.5]})
    assert result.means == {"b": 0.5}
    assert result.excluded == 2


# Intervals


def test_the_interval_equals_a_hand_calculation() -> None:
    # mean 0.5, sd sqrt(0.06 / 3) = 0.141421, t(0.975; 3) = 3.182446: half-width 3.182446 * 0.141421 / 2
    interval = mean_interval([0.4, 0.4, 0.5, 0.7])
    assert interval.mean == pytest.approx(0.5)
    assert interval.low == pytest.approx(0.5 - 0.225033, abs=1e-6)
    assert interval.high == pytest.approx(0.5 + 0.225033, abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 10, 20, 84])
def test_the_interval_equals_that_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).beta(0.5, 0.5, n)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    interval = mean_interval(list(values))
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_task_gives_no_numbers_and_says_so() -> None:
    assert mean_interval([]) == Interval(None, None, None, 0, "no task is left to average")


def test_one_task_gives_a_mean_and_no_interval_and_says_so() -> None:
    assert mean_interval([0.7]) == Interval(0.7, None, None, 1, "one task has no spread, so there is no interval")


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 0.7, 1.0])
def test_equal_values_give_an_interval_without_width_and_a_note(value: float) -> None:
    interval = mean_interval([value] * 7)
    assert interval.low == interval.high == pytest.approx(value)
    assert interval.note == "all 7 tasks have the same value, so the interval has no width"


# Paired differences and counts


def test_only_tasks_that_both_policies_have_are_paired() -> None:
    assert paired_differences({"a": 1.0, "b": 0.5}, {"b": 0.25, "c": 1.0}) == {"b": 0.25}


def test_differences_within_rounding_count_as_the_same() -> None:
    assert count_moves([0.3, -0.1, 0.0, 0.1 + 0.2 - 0.3, -1e-9, 2e-9]) == (2, 3, 1)


# The sign-flip test


def test_six_tasks_that_all_gain_have_a_p_of_two_in_sixty_four() -> None:
    assert sign_flip_p([0.1, 0.2, 0.3, 0.1, 0.5, 0.2]) == 2 / 64


def test_the_sign_flip_p_equals_a_count_by_hand() -> None:
    # Sums of ±1 ±2 ±3: |sum| is 6, 4, 2, 0, 0, 2, 4, 6; the observed 1 - 2 + 3 = 2 is reached by 6 of 8.
    assert sign_flip_p([1.0, -2.0, 3.0]) == 6 / 8


def test_ties_leave_the_p_value_as_it_is() -> None:
    assert sign_flip_p([0.25, 0.5, -0.125, 0.75]) == sign_flip_p([0.25, 0.0, 0.5, -0.125, 1e-10, 0.75])
    assert sign_flip_p([1e-10] * 8) == 1.0


def test_sums_that_are_equal_but_for_rounding_count_as_equal() -> None:
    assert sign_flip_p([0.1, 0.2, -0.3, 0.3, 0.3]) == sign_flip_p([1.0, 2.0, -3.0, 3.0, 3.0])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [2, 5, 9, 12])
def test_the_exact_sign_flip_p_equals_that_of_scipy(n: int, seed: int) -> None:
    # Sixteenths are exact in binary, so that both see the same ties.
    values = np.random.default_rng(seed).integers(-8, 13, n) / 16
    expected = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(list(values)) == pytest.approx(expected.pvalue, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1])
def test_the_drawn_sign_flip_p_agrees_with_that_of_scipy(shift: float) -> None:
    values = np.random.default_rng(5).normal(shift, 0.2, 40)
    expected = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=19_999, rng=np.random.default_rng(6)
    )
    allowed = 4 * math.sqrt(2 * expected.pvalue * (1 - expected.pvalue) / 20_000) + 1e-4
    assert sign_flip_p(list(values)) == pytest.approx(expected.pvalue, abs=allowed)


def test_a_drawn_p_is_never_zero_and_the_same_seed_draws_it_again() -> None:
    values = [0.5 + i / 100 for i in range(30)]
    assert sign_flip_p(values, resamples=999) == 1 / 1000
    mixed = [math.sin(i) + 0.1 for i in range(30)]
    assert sign_flip_p(mixed, seed=3) == sign_flip_p(mixed, seed=3) != sign_flip_p(mixed, seed=4)


def test_the_order_of_tasks_does_not_change_a_drawn_p() -> None:
    values = [math.sin(i) + 0.1 for i in range(30)]
    assert sign_flip_p(sorted(values), resamples=999) == sign_flip_p(values, resamples=999)


# The detectable difference


@pytest.mark.parametrize("n", [3, 5, 10, 20, 84, 1000])
def test_a_difference_as_large_as_the_detectable_one_has_a_power_of_80_percent(n: int) -> None:
    values = list(np.random.default_rng(n).normal(0, 0.3, n))
    found = detectable_difference(values)
    assert found is not None
    shift = found / (np.std(values, ddof=1) / math.sqrt(n))
    assert stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, shift) == pytest.approx(0.80, abs=1e-5)


def test_simulated_t_tests_find_the_detectable_difference_four_times_in_five() -> None:
    unit = np.array([1.0, -1.0] * 10) * math.sqrt(19 / 20)  # 20 tasks with a standard deviation of exactly 1
    draws = np.random.default_rng(0).normal(detectable_difference(list(unit)), 1.0, (20_000, 20))
    found = (stats.ttest_1samp(draws, 0.0, axis=1).pvalue <= 0.05).mean()
    assert found == pytest.approx(0.80, abs=0.01)


def test_the_detectable_difference_is_close_to_the_textbook_sum_of_two_quantiles() -> None:
    values = list(np.random.default_rng(1).normal(0, 0.3, 20))
    textbook = (stats.t.ppf(0.975, 19) + stats.t.ppf(0.8, 19)) * np.std(values, ddof=1) / math.sqrt(20)
    assert detectable_difference(values) == pytest.approx(textbook, rel=1e-3)


@pytest.mark.parametrize("values", [[], [0.3]])
def test_fewer_than_two_tasks_have_no_detectable_difference(values: list[float]) -> None:
    assert detectable_difference(values) is None
    assert tasks_needed(values, 0.1) is None


def test_the_tasks_needed_are_the_fewest_that_would_detect_the_target() -> None:
    values = [0.3, -0.3] * 10
    needed = tasks_needed(values, 0.1)
    assert needed is not None
    sd = np.std(values, ddof=1)
    scaled = {n: float(detectable_difference([0.3, -0.3] * n) or 0) for n in (5, 10, 20)}
    assert list(scaled.values()) == sorted(scaled.values(), reverse=True)
    power = [stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, 0.1 / sd * math.sqrt(n)) for n in (needed - 1, needed)]
    assert power[0] < 0.80 <= power[1] + 1e-6


def test_no_number_of_tasks_detects_a_difference_of_nothing() -> None:
    assert tasks_needed([0.3, -0.3], 0.0) is None


@pytest.mark.parametrize(("n_samples", "planned"), [(1, 0.394), (4, 0.215), (8, 0.167), (16, 0.137), (None, 0.099)])
def test_what_twenty_tasks_can_detect_is_as_documented(n_samples: int | None, planned: float) -> None:
    assert detectable_by_design(20, n_samples) == pytest.approx(planned, abs=0.001)


def test_ten_points_need_about_85_tasks_at_4_samples() -> None:
    assert detectable_by_design(84, 4) == pytest.approx(0.10, abs=0.001)
    assert detectable_by_design(85, 4) > 0.10 > detectable_by_design(86, 4)


# The comparison and its verdict


def test_a_clear_gain_on_every_task_is_better_and_the_reverse_is_worse() -> None:
    low, high = one_sample_each([0.1, 0.2, 0.3] * 4), one_sample_each([0.6, 0.8, 0.7] * 4)
    assert compare(high, low).verdict is Verdict.BETTER
    assert compare(low, high).verdict is Verdict.WORSE


def test_a_comparison_holds_its_parts() -> None:
    result = compare(one_sample_each([0.5, 0.5, 1.0, 0.0]), one_sample_each([0.0, 0.5, 0.5, 0.5]))
    assert (result.n_tasks, result.difference) == (4, 0.125)
    assert (result.better, result.same, result.worse) == (2, 1, 1)
    assert result.p_value == 1.0  # of the 8 sums of ±½ ±½ ±½ none is nearer to 0 than the observed ½


def test_an_interval_that_holds_zero_gives_no_winner() -> None:
    result = compare(one_sample_each([0.9, 0.1] * 10), one_sample_each([0.5] * 20))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "holds 0" in result.note


def test_five_differing_tasks_are_too_few_for_a_winner() -> None:
    result = compare(one_sample_each([0.5, 0.6, 0.5, 0.6, 0.5]), one_sample_each([0.0] * 5))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.note == "only 5 of 5 tasks differ, and the sign-flip test needs 6 to reach p <= 0.05"


def test_there_is_no_winner_when_the_sign_flip_test_has_doubts() -> None:
    # Of 64 sign patterns 4 are as extreme: all up, or all but the smallest, and their mirror images.
    result = compare(one_sample_each([0.3] * 5 + [-0.01]), one_sample_each([0.0] * 6))
    assert result.low is not None
    assert result.low > 0
    assert (result.difference or 0) > (result.detectable_difference or 1)
    assert (result.verdict, result.p_value) == (Verdict.INCONCLUSIVE, 4 / 64)
    assert result.note == "the sign-flip p of 0.062 is above 0.05"


def test_there_is_no_winner_below_the_detectable_difference() -> None:
    differences = [0.045 + 0.1 * math.sin(3 * i) for i in range(20)]
    result = compare(one_sample_each(differences), one_sample_each([0.0] * 20))
    assert result.low is not None
    assert result.low > 0
    assert result.p_value is not None
    assert result.p_value <= 0.05
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "can detect" in result.note


def test_two_policies_that_do_the_same_are_inconclusive() -> None:
    result = compare(one_sample_each([0.3, 0.7]), one_sample_each([0.3, 0.7]))
    assert (result.verdict, result.difference, result.p_value) == (Verdict.INCONCLUSIVE, 0.0, 1.0)
    assert result.note == "none of the 2 tasks differs"


def test_the_same_gain_on_every_task_is_a_gain_with_a_note() -> None:
    result = compare(one_sample_each([0.7] * 20), one_sample_each([0.4] * 20))
    assert result.verdict is Verdict.BETTER
    assert result.note == "all 20 tasks have the same value, so the interval has no width"


@pytest.mark.parametrize(
    ("candidate", "baseline", "note"),
    [
        ({}, {}, "no task has a reward under both policies"),
        ({"a": [1.0]}, {"b": [0.0]}, "no task has a reward under both policies"),
        ({"a": [1.0]}, {"a": [0.0]}, "one task has no spread, so nothing can be concluded from it"),
    ],
)
def test_a_degenerate_comparison_is_inconclusive_and_says_why(candidate: Rewards, baseline: Rewards, note: str) -> None:
    result = compare(candidate, baseline)
    assert (result.verdict, result.note) == (Verdict.INCONCLUSIVE, note)
    assert finite_or_none(result)


def test_no_verdict_is_given_when_more_than_one_episode_in_twenty_has_no_reward() -> None:
    candidate = one_sample_each([0.9, 0.8] * 9 + [None, None])
    result = compare(candidate, one_sample_each([0.1] * 20))
    assert result.verdict is None
    assert result.note == "no verdict: 2 of the candidate's 20 episodes are without a reward, more than 5%"
    assert result.difference == pytest.approx(0.75)
    assert (result.n_tasks, result.unpaired) == (18, 2)


def test_one_episode_in_twenty_without_a_reward_still_allows_a_verdict() -> None:
    result = compare(one_sample_each([0.9, 0.8] * 9 + [0.9, None]), one_sample_each([0.1] * 20))
    assert result.verdict is Verdict.BETTER


def test_the_baseline_alone_can_prevent_a_verdict() -> None:
    result = compare(one_sample_each([0.9] * 20), one_sample_each([0.1] * 18 + [None, None]))
    assert "of the baseline's 20 episodes" in result.note


# pass^k


def test_pass_at_1_is_the_mean_share_of_correct_samples() -> None:
    assert pass_hat_k({"a": [True, False], "b": [True, True]}, 1).mean == 0.75


def test_pass_hat_k_equals_a_hand_calculation() -> None:
    # C(3,2)/C(4,2) = 3/6 and C(2,2)/C(4,2) = 1/6: mean 1/3
    outcomes = {"a": [True, True, True, False], "b": [True, False, True, False]}
    assert pass_hat_k(outcomes, 2).mean == pytest.approx(1 / 3)


def test_pass_hat_k_is_unbiased() -> None:
    correct = np.random.default_rng(2).random((4000, 5)) < 0.7
    estimate = pass_hat_k({str(i): [bool(c) for c in row] for i, row in enumerate(correct)}, 3)
    assert estimate.mean == pytest.approx(0.7**3, abs=0.02)


def test_tasks_with_too_few_scored_samples_are_left_out_and_counted() -> None:
    interval = pass_hat_k({"a": [True, None], "b": [True, True]}, 2)
    assert (interval.mean, interval.n_tasks) == (1.0, 1)
    assert interval.note.startswith("1 of 2 tasks have fewer than 2 scored samples; one task")


def test_a_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        pass_hat_k({}, 0)


# Laws

REWARD = st.one_of(st.just(0.0), st.just(1.0), st.integers(0, 100).map(lambda i: i / 100), st.floats(0, 1))
SAMPLES = st.lists(st.one_of(REWARD, REWARD, REWARD, st.none()), min_size=0, max_size=4)
REWARDS = st.dictionaries(st.sampled_from([f"task-{i}" for i in range(14)]), SAMPLES)
DIFFERENCES = st.lists(st.floats(-1, 1), max_size=14)


@given(REWARDS, REWARDS)
@settings(max_examples=150, deadline=None)
def test_every_comparison_is_finite_bounded_and_json_safe(candidate: Rewards, baseline: Rewards) -> None:
    result = compare(candidate, baseline)
    assert finite_or_none(result)
    assert result.better + result.same + result.worse == result.n_tasks
    assert result.difference is None or -1 <= result.difference <= 1
    assert result.p_value is None or 0 < result.p_value <= 1
    if result.low is not None:
        assert result.low <= (result.difference or 0.0) <= (result.high or 0.0)


@given(REWARDS, REWARDS)
@settings(max_examples=150, deadline=None)
def test_exchanging_candidate_and_baseline_only_turns_the_signs(candidate: Rewards, baseline: Rewards) -> None:
    ours, theirs = compare(candidate, baseline), compare(baseline, candidate)
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert theirs.verdict == turned.get(ours.verdict, ours.verdict) if ours.verdict else theirs.verdict is None
    assert theirs.p_value == ours.p_value
    assert (theirs.better, theirs.same, theirs.worse) == (ours.worse, ours.same, ours.better)
    if ours.difference is not None and theirs.difference is not None:
        assert theirs.difference == -ours.difference
    if ours.low is not None and theirs.high is not None:
        assert theirs.high == -ours.low


@given(REWARDS, REWARDS, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_tasks_and_samples_changes_nothing(candidate: Rewards, baseline: Rewards, random: Random) -> None:
    def shuffled(rewards: Rewards) -> Rewards:
        tasks = sorted(rewards, key=lambda _: random.random())
        return {t: sorted(rewards[t], key=lambda _: random.random()) for t in tasks}

    assert compare(shuffled(candidate), shuffled(baseline)) == compare(candidate, baseline)


@given(DIFFERENCES)
@settings(max_examples=100, deadline=None)
def test_a_verdict_is_never_given_against_the_interval_or_the_p_value(differences: list[float]) -> None:
    result = compare(one_sample_each(differences), one_sample_each([0.0] * len(differences)))
    if result.verdict in (Verdict.BETTER, Verdict.WORSE):
        assert (result.low or 0) > 0 or (result.high or 0) < 0
        assert (result.p_value or 1) <= 0.05
        assert abs(result.difference or 0) >= (result.detectable_difference or 0)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.sampled_from([0.5, 2.0, 1024.0]))
@settings(max_examples=60, deadline=None)
def test_the_p_value_does_not_depend_on_the_unit_of_the_metric(differences: list[float], scale: float) -> None:
    coarse = [round(d, 3) for d in differences]
    assert sign_flip_p([d * scale for d in coarse], resamples=199) == sign_flip_p(coarse, resamples=199)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_pass_hat_k_falls_as_k_grows(samples: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(samples)))
    here, next_k = pass_hat_k({"a": samples}, k).mean, pass_hat_k({"a": samples}, k + 1).mean
    assert here is not None
    assert 0 <= here <= 1
    assert next_k is None or next_k <= here


# Promises over simulated evaluations

EVALUATIONS = 2000
TASKS = 20
MEAN_OF_MIXTURE = 0.3 + 0.4 * 2 / 7
"""0 with probability 0.3, 1 with 0.3, else Beta(2, 5)."""
MEAN_OF_BETTER_MIXTURE = 0.4 + 0.4 * 3 / 7
"""0 with probability 0.2, 1 with 0.4, else Beta(3, 4)."""


def mixture(u: np.ndarray, zero: float, one: float, a: float, b: float) -> np.ndarray:
    """Rewards at the quantiles u of a skewed mixture on [0, 1] with ties at both ends."""
    inner = np.clip((u - zero) / (1 - zero - one), 0, 1)
    return np.where(u < zero, 0.0, np.where(u >= 1 - one, 1.0, stats.beta.ppf(inner, a, b)))


def correlated_quantiles(seed: int, equal: float) -> tuple[np.ndarray, np.ndarray]:
    """Uniform pairs (evaluation, task) of a Gaussian copula, correlation 0.5; a share of them is equal."""
    rng = np.random.default_rng(seed)
    first, own = rng.standard_normal((2, EVALUATIONS, TASKS))
    second = np.where(rng.random(first.shape) < equal, first, 0.5 * first + math.sqrt(0.75) * own)
    return stats.norm.cdf(first), stats.norm.cdf(second)


@pytest.mark.parametrize("equal", [0.0, 0.25])
def test_the_paired_t_interval_covers_the_true_difference_93_to_97_times_in_100(equal: float) -> None:
    u, v = correlated_quantiles(1, equal)
    differences = mixture(v, 0.2, 0.4, 3, 4) - mixture(u, 0.3, 0.3, 2, 5)
    true = MEAN_OF_BETTER_MIXTURE - MEAN_OF_MIXTURE
    intervals = [mean_interval([float(d) for d in row]) for row in differences]
    coverage = sum((i.low or 0) <= true <= (i.high or 0) for i in intervals) / EVALUATIONS
    assert 0.93 <= coverage <= 0.97


@pytest.mark.parametrize("equal", [0.0, 0.25])
def test_without_a_difference_the_sign_flip_test_errs_no_more_often_than_it_says(equal: float) -> None:
    u, v = correlated_quantiles(2, equal)
    differences = mixture(v, 0.3, 0.3, 2, 5) - mixture(u, 0.3, 0.3, 2, 5)
    p_values = np.array([sign_flip_p([float(d) for d in row]) for row in differences])
    for level in (0.01, 0.05, 0.1):
        share = float((p_values <= level).mean())
        assert share <= level + 3 * math.sqrt(level * (1 - level) / EVALUATIONS)


def test_without_a_difference_drawn_sign_patterns_err_no_more_often_than_they_say() -> None:
    rng = np.random.default_rng(3)
    draws = np.round(rng.choice([-1, 1], (1000, 30)) * rng.beta(0.5, 1.5, (1000, 30)), 1)
    p_values = np.array([sign_flip_p([float(d) for d in row], seed=i, resamples=199) for i, row in enumerate(draws)])
    for level in (0.01, 0.05, 0.1):
        assert (p_values <= level).mean() <= level + 3 * math.sqrt(level * (1 - level) / 1000)


def test_without_a_difference_winners_are_rare() -> None:
    u, v = correlated_quantiles(4, 0.0)
    pairs = zip(mixture(v, 0.3, 0.3, 2, 5)[:500], mixture(u, 0.3, 0.3, 2, 5)[:500], strict=True)
    verdicts = [compare(one_sample_each(list(c)), one_sample_each(list(b))).verdict for c, b in pairs]
    winners = sum(v is not Verdict.INCONCLUSIVE for v in verdicts) / 500
    assert winners <= 0.03


# Cost


def test_importing_the_module_loads_neither_numpy_nor_scipy_and_using_it_never_loads_scipy_stats() -> None:
    program = (
        "import sys\n"
        "from gradient_rl.evaluation import statistics\n"
        "assert not {'numpy', 'scipy'} & set(sys.modules)\n"
        "statistics.compare({'a': [0.1], 'b': [0.4]}, {'a': [0.3], 'b': [0.9]})\n"
        "assert 'scipy.special' in sys.modules and 'scipy.stats' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
