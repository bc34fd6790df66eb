"""Paired statistics of an evaluation: the task is the unit, and "cannot tell" is an answer.

Pure functions over plain numbers. Samples are averaged within a task first, and two policies are compared by
the differences of these means on the tasks that both have (Miller 2024, arXiv 2411.00640). With a few dozen
tasks the Student-t interval keeps its coverage, and the normal one does not (Bowyer et al. 2025, arXiv
2503.01747). No answer is NaN: what cannot be computed is None, and a `note` says why.

`numpy` and `scipy.special` are imported inside the functions, because they cost 0.2 s that `--help` need not
pay. `scipy.stats` would cost 0.55 s; only the tests use it, to check what stands here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import comb, fsum, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
ALPHA = 0.05
"""Largest p value of a winner, two-sided."""
POWER = 0.80
TIE = 1e-9
"""Differences of at most this size count as none."""
MAX_EXCLUDED = 0.05
"""Largest share of episodes without a reward at which a verdict is still given."""
EXACT_TASKS = 20
"""Up to so many differing tasks all sign patterns are counted (524,288 in 5 ms); beyond, some are drawn."""
RESAMPLES = 19_999
"""Sign patterns drawn beyond EXACT_TASKS; the standard error of p is then 0.0015 at p = 0.05."""
MOST_TASKS = 100_000
"""Where the search for a sufficient number of tasks ends."""

type Rewards = Mapping[str, Sequence[float | None]]
"""Task id to one reward a sample; None is an infrastructure failure, which is no reward and not 0."""


class Verdict(StrEnum):
    """What a paired comparison says of the candidate."""

    BETTER = "better"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class TaskMeans:
    """Rewards averaged within each task, and what had to be left out."""

    means: Mapping[str, float]
    """By task, without the tasks that have no reward at all."""
    episodes: int
    excluded: int
    """Episodes without a reward."""


@dataclass(frozen=True)
class Interval:
    """A mean over tasks with its 95% interval; None where the tasks cannot give one."""

    mean: float | None
    low: float | None
    high: float | None
    n_tasks: int
    note: str = ""
    """Why a number is missing or an interval has no width; empty when there is nothing to say."""


@dataclass(frozen=True)
class Comparison:
    """A candidate against a baseline, task by task. `dataclasses.asdict` of it is valid JSON."""

    n_tasks: int
    """Tasks that have a reward under both policies."""
    unpaired: int
    """Tasks left out, because a policy has no reward on them."""
    difference: float | None
    """Mean of candidate minus baseline."""
    low: float | None
    high: float | None
    p_value: float | None
    """Of the two-sided sign-flip test."""
    better: int
    same: int
    worse: int
    detectable_difference: float | None
    verdict: Verdict | None
    """None when over 5% of a policy's episodes are without a reward."""
    note: str
    """Why there is no winner or no verdict, in words."""


class Moves(NamedTuple):
    """Tasks on which the candidate is better, the same, worse."""

    better: int
    same: int
    worse: int


def task_means(rewards: Rewards) -> TaskMeans:
    """Average within each task; episodes without a reward are left out and counted."""
    scored = {task: [r for r in samples if r is not None] for task, samples in rewards.items()}
    episodes = sum(map(len, rewards.values()))
    means = {task: fsum(values) / len(values) for task, values in scored.items() if values}
    return TaskMeans(means, episodes, episodes - sum(map(len, scored.values())))


def mean_interval(values: Collection[float]) -> Interval:
    """Average one value a task: mean ± t(0.975; n-1) · sd / √n, not cut to the range of the values."""
    n = len(values)
    if not n:
        return Interval(None, None, None, 0, "no task is left to average")
    mean = fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, 1, "one task has no spread, so there is no interval")
    half = _critical_t(n) * _spread(values) / sqrt(n)
    note = "" if half else f"all {n} tasks have the same value, so the interval has no width"
    return Interval(mean, mean - half, mean + half, n, note)


def paired_differences(candidate: Mapping[str, float], baseline: Mapping[str, float]) -> dict[str, float]:
    """Subtract baseline from candidate, for the tasks that both have."""
    return {task: mean - baseline[task] for task, mean in candidate.items() if task in baseline}


def sign_flip_p(differences: Iterable[float], *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Test by sign flips whether the mean difference is 0: the two-sided p value, 1.0 when no task differs.

    Without a real difference the sign of each task's difference is a coin. Up to 20 differing tasks, p is the
    share of all sign patterns whose sum is at least as far from 0 as the observed one (ties move no sum and
    are dropped). Beyond, patterns are drawn and p = (1 + hits) / (1 + resamples), which is never 0 and keeps
    the test valid (Phipson and Smyth 2010).
    """
    moved = [d for d in differences if abs(d) > TIE]
    if not moved:
        return 1.0
    sizes = sorted(map(abs, moved))
    # The same sizes summed in another order differ in their last bits, and must still count as equal.
    bar = abs(fsum(moved)) - TIE * fsum(sizes)
    if len(sizes) <= EXACT_TASKS:
        return float((abs(_all_sums(sizes)) >= bar).mean())
    hits = int((abs(_drawn_sums(sizes, seed, resamples)) >= bar).sum())
    return (1 + hits) / (1 + resamples)


def count_moves(differences: Iterable[float]) -> Moves:
    """Count the tasks on which the candidate is better, the same (within 1e-9) and worse."""
    signs = [(d > TIE) - (d < -TIE) for d in differences]
    return Moves(signs.count(1), signs.count(0), signs.count(-1))


def detectable_difference(differences: Collection[float]) -> float | None:
    """Find the smallest true difference that so many tasks of this spread would show 4 times in 5.

    80% power in the two-sided 5% paired t test: δ · sd / √n, with δ the non-centrality at which the
    non-central t distribution with n-1 degrees of freedom has 20% of its mass below t(0.975; n-1) (Cohen
    1988, chapter 2). δ is 2.95 for 20 tasks. The other tail holds next to nothing and is left out. None
    for fewer than two tasks.
    """
    return _detectable(len(differences), _spread(differences)) if len(differences) > 1 else None


def tasks_needed(differences: Collection[float], target: float) -> int | None:
    """Find how many tasks of the observed spread, at as many samples each, would detect `target`.

    None when fewer than two differences are known, or when 100,000 tasks would not do.
    """
    if len(differences) < 2:
        return None
    spread = _spread(differences)
    sizes = range(2, MOST_TASKS + 1)
    place = bisect_left(sizes, True, key=lambda n: _detectable(n, spread) <= abs(target))
    return sizes[place] if place < len(sizes) else None


def compare(candidate: Rewards, baseline: Rewards, *, seed: int = 0) -> Comparison:
    """Compare two policies on the tasks that both have a reward on.

    A winner needs all three: an interval clear of 0, a sign-flip p of at most 0.05, and a difference no
    smaller than the detectable one. No verdict is given when over 5% of either policy's episodes are without
    a reward. `seed` is that of the sign patterns, which are drawn only when more than 20 tasks differ.
    """
    ours, theirs = task_means(candidate), task_means(baseline)
    differences = list(paired_differences(ours.means, theirs.means).values())
    interval = mean_interval(differences)
    p_value = sign_flip_p(differences, seed=seed) if differences else None
    moves, detectable = count_moves(differences), detectable_difference(differences)
    doubt = _doubt(interval, p_value, moves, detectable)
    winner = Verdict.BETTER if (interval.mean or 0.0) > 0 else Verdict.WORSE
    refusal = _refusal("candidate", ours) or _refusal("baseline", theirs)
    return Comparison(
        n_tasks=len(differences),
        unpaired=len(candidate.keys() | baseline.keys()) - len(differences),
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=p_value,
        **moves._asdict(),
        detectable_difference=detectable,
        verdict=None if refusal else Verdict.INCONCLUSIVE if doubt else winner,
        note=refusal or doubt or interval.note,
    )


def pass_hat_k(outcomes: Mapping[str, Sequence[bool | None]], k: int) -> Interval:
    """Estimate pass^k, the chance that k samples of a task are all correct; k = 1 is pass@1.

    Per task the unbiased C(c, k) / C(n, k), with c of n samples correct (Yao et al. 2024, arXiv 2406.12045),
    then the mean over tasks. Samples that are None are left out, and so is a task with fewer than k others.

    Raises:
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"pass^k needs a k of at least 1, not {k}")
    scored = [[o for o in samples if o is not None] for samples in outcomes.values()]
    interval = mean_interval([comb(sum(s), k) / comb(len(s), k) for s in scored if len(s) >= k])
    if interval.n_tasks == len(scored):
        return interval
    short = f"{len(scored) - interval.n_tasks} of {len(scored)} tasks have fewer than {k} scored samples"
    return replace(interval, note=f"{short}; {interval.note}".removesuffix("; "))


def detectable_by_design(
    n_tasks: int, n_samples: int | None, *, effect_sd: float = 0.15, success_variance: float = 1 / 6
) -> float:
    """Find the smallest difference in success that a design would show 4 times in 5, before it is run.

    A task's difference has the variance ω² + 2σ²/k (Miller 2024, power analysis): true effects differ between
    tasks by ω = `effect_sd`, and k = `n_samples` under each policy add σ² = `success_variance`, the mean of
    p(1-p) over tasks, which is 1/6 for success probabilities p spread evenly over [0, 1]. `n_samples` None
    gives the floor that no number of samples goes below. `n_tasks` is at least 2.
    """
    noise = 2 * success_variance / n_samples if n_samples else 0.0
    return _detectable(n_tasks, sqrt(effect_sd**2 + noise))


def _critical_t(n: int) -> float:
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs] # scipy ships none

    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))


def _detectable(n: int, spread: float) -> float:
    from scipy.special import nctdtrinc  # pyright: ignore[reportMissingTypeStubs] # scipy ships none

    return float(nctdtrinc(n - 1, 1 - POWER, _critical_t(n))) * spread / sqrt(n)


def _spread(values: Collection[float]) -> float:
    """Give the standard deviation (n-1), exactly 0 for values that are equal but for rounding."""
    if max(values) - min(values) <= TIE:
        return 0.0
    mean = fsum(values) / len(values)
    return sqrt(fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _all_sums(sizes: Sequence[float]) -> NDArray[np.float64]:
    """Sum under every sign pattern whose first sign is plus; the others are their mirror images."""
    import numpy as np

    sums = np.array(sizes[:1])
    for size in sizes[1:]:
        sums = np.concatenate((sums + size, sums - size))
    return sums


def _drawn_sums(sizes: Sequence[float], seed: int, resamples: int) -> NDArray[np.float64]:
    import numpy as np

    rng = np.random.default_rng(seed)
    sums = np.zeros(resamples)
    for size in sizes:
        sums += np.where(rng.random(resamples) < 0.5, size, -size)
    return sums


def _doubt(interval: Interval, p_value: float | None, moves: Moves, detectable: float | None) -> str:
    """Say why there is no winner; empty when there is one."""
    n, moved = interval.n_tasks, moves.better + moves.worse
    if interval.mean is None or p_value is None:
        return "no task has a reward under both policies"
    if interval.low is None or interval.high is None or detectable is None:
        return "one task has no spread, so nothing can be concluded from it"
    if not moved:
        return f"none of the {n} tasks differs"
    if 0.5 ** (moved - 1) > ALPHA:
        differ = "differs" if moved == 1 else "differ"
        return f"only {moved} of {n} tasks {differ}, and the sign-flip test needs 6 to reach p <= {ALPHA}"
    if interval.low <= 0 <= interval.high:
        return f"the 95% interval [{interval.low:+.3f}, {interval.high:+.3f}] holds 0"
    if p_value > ALPHA:
        return f"the sign-flip p of {p_value:.3f} is above {ALPHA}"
    if abs(interval.mean) < detectable:
        return f"{interval.mean:+.3f} is below the {detectable:.3f} that {n} tasks of this spread can detect"
    return ""


def _refusal(policy: str, means: TaskMeans) -> str:
    """Say why no verdict is given; empty when enough episodes have a reward."""
    if means.excluded <= MAX_EXCLUDED * means.episodes:
        return ""
    share = f"{means.excluded} of the {policy}'s {means.episodes} episodes"
    return f"no verdict: {share} are without a reward, more than {MAX_EXCLUDED:.0%}"
