"""An evaluation as text: `eval.md`, the terminal's tables, and each verdict in words. Made from `eval.json`'s content only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradient_rl.report.terminal import count, safe
from gradient_rl.schema.evaluation import Attempt, ComparisonResult, Evaluation, HackingWarning, Measured, Metric, TaskResult
from gradient_rl.schema.task import Split

if TYPE_CHECKING:
    from rich.console import Console

MOST_MOVED = 5
"""Tasks that are shown for a comparison."""
_TIE = 1e-9
_MAX_ANSWER_CHARS = 600
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|!#~$&])")
_REWARD = "reward"
_STYLES = {"better": "bold green", "worse": "bold red"}


def verdict_sentence(comparison: ComparisonResult) -> str:
    """Who is better, or why that cannot be told."""
    candidate, baseline = comparison.candidate, comparison.baseline
    on = "" if comparison.metric == _REWARD else f" on {_words(comparison.metric)}"
    if comparison.verdict is None:
        return f"{candidate} against {baseline}{on}: {comparison.note}."
    if comparison.verdict == "inconclusive":
        return f"{candidate} against {baseline}{on}: inconclusive, because {comparison.note}."
    return f"{candidate} is {comparison.verdict} than {baseline}{on}."


def evidence_sentence(comparison: ComparisonResult) -> str:
    """The figures behind a verdict."""
    detectable = comparison.detectable_difference
    parts = [
        f"{_words(comparison.metric)} {_signed(comparison.difference)} {_interval(comparison, _signed)}".rstrip(),
        f"sign-flip p {_p(comparison.p_value)}",
        f"{count(comparison.better, 'task')} better, {comparison.same} the same, {comparison.worse} worse",
        f"{count(comparison.n_tasks, 'task')} of this spread can detect {_plain(detectable)}" if detectable is not None else "",
        f"{count(comparison.unpaired, 'task')} left out, for which only one side has a reward" if comparison.unpaired else "",
        comparison.note if comparison.verdict in ("better", "worse") else "",
    ]
    return f"{'; '.join(part for part in parts if part)}."


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Print the metrics of each policy, the reward by family, the verdicts, and what the hacking watch warns of."""
    names = list(evaluation.policies)
    console.print(Text(safe(headline(evaluation)), style="bold"))
    console.print(_terminal_table("", names, _metric_rows(evaluation)))
    console.print()
    console.print(_terminal_table("reward by family", names, _family_rows(evaluation)))
    for comparison in evaluation.comparisons:
        console.print()
        console.print(Text(safe(verdict_sentence(comparison)), style=_STYLES.get(comparison.verdict or "", "bold yellow")))
        console.print(Text(safe(evidence_sentence(comparison))))
    for warning in evaluation.warnings:
        console.print()
        console.print(Text(safe(warning_sentence(warning)), style="bold yellow"), soft_wrap=True)


def warning_sentence(warning: HackingWarning) -> str:
    """What the hacking watch warns of."""
    return f"Warning: {warning.text}"


def headline(evaluation: Evaluation) -> str:
    """What was measured, in a line."""
    played = sum(policy.n_episodes for policy in evaluation.policies.values())
    excluded = sum(policy.excluded for policy in evaluation.policies.values())
    how = "saved trajectories scored again" if evaluation.rescored else f"seed {evaluation.seed}"
    missing = f", {excluded} of {count(played, 'episode')} without a reward" if excluded else f", {count(played, 'episode')}"
    split = "held-out" if evaluation.split == Split.HELDOUT else evaluation.split
    return f"{count(len(evaluation.tasks), f'{split} task')}, {_samples(evaluation)} each, {how}{missing}"


def markdown(evaluation: Evaluation) -> str:
    """The content of `eval.md`: the verdicts, the figures behind them, and the tasks that moved most."""
    title = "# Saved trajectories scored again" if evaluation.rescored else "# Evaluation"
    sections = [
        title,
        _verdicts(evaluation),
        *(f"**{_md(warning_sentence(warning))}**" for warning in evaluation.warnings),
        f"## Metrics\n\n{_md(headline(evaluation))}. Mean over tasks, with its 95% interval.\n\n{_metrics_table(evaluation)}",
        f"## Reward by family\n\n{_markdown_table('family', list(evaluation.policies), _family_rows(evaluation))}",
        f"## Behaviours\n\n{_behaviours(evaluation)}",
        *(_moved(evaluation, each) for each in evaluation.comparisons if each.metric == _REWARD),
        f"## What would tell more\n\n{_needed(evaluation)}",
        f"## How it was run\n\n{_provenance_list(evaluation)}",
    ]
    return "\n\n".join(sections) + "\n"


def _verdicts(evaluation: Evaluation) -> str:
    if not evaluation.comparisons:
        return "One policy alone: there is nothing to compare it with."
    return "\n\n".join(f"**{_md(verdict_sentence(c))}** {_md(evidence_sentence(c))}" for c in evaluation.comparisons)


type Row = tuple[str, list[str]]
"""A label and one cell a policy."""


def _metric_rows(evaluation: Evaluation) -> list[Row]:
    policies = evaluation.policies.values()
    names = dict.fromkeys(name for policy in policies for name in policy.metrics)
    rows = [(_words(name), [_cell(policy.metrics.get(name)) for policy in policies]) for name in names]
    return [
        *rows,
        ("tasks", _counts(policies, lambda p: p.n_tasks)),
        ("without a reward", _counts(policies, lambda p: p.excluded)),
    ]


def _counts(policies: Iterable[Measured], count: Callable[[Measured], int]) -> list[str]:
    return [str(count(policy)) for policy in policies]


def _family_rows(evaluation: Evaluation) -> list[Row]:
    policies = evaluation.policies.values()
    families = sorted({family for policy in policies for family in policy.families})
    return [(_words(family), [_family_cell(policy.families.get(family)) for policy in policies]) for family in families]


def _family_cell(measured: Measured | None) -> str:
    if measured is None:
        return "-"
    return f"{_plain(measured.metrics[_REWARD].mean)} ({measured.n_tasks} task{'s' * (measured.n_tasks != 1)})"


def _terminal_table(title: str, names: Sequence[str], rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title)
    for name in names:
        table.add_column(Text(safe(name)), justify="right")
    for label, cells in rows:
        table.add_row(Text(safe(label)), *(Text(safe(cell)) for cell in cells))
    return table


def _markdown_table(title: str, names: Sequence[str], rows: Iterable[Row]) -> str:
    lines = [[_md(title), *map(_md, names)], ["---", *["---:"] * len(names)]]
    lines += [[_md(label), *map(_md, cells)] for label, cells in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _metrics_table(evaluation: Evaluation) -> str:
    return _markdown_table("metric", list(evaluation.policies), _metric_rows(evaluation))


def _behaviours(evaluation: Evaluation) -> str:
    policies = evaluation.policies.values()
    shown = dict.fromkeys(name for p in policies for name, result in p.behaviours.items() if result.episodes)
    if not shown:
        return "None was seen."
    rows: list[Row] = []
    for name in shown:
        results = [policy.behaviours[name] for policy in policies]
        rows.append((_words(name), [f"{r.share:.0%}, earning {_plain(r.reward)}" if r.episodes else "0%" for r in results]))
    explained = "Share of the episodes that did it, and the mean reward of those."
    return f"{explained}\n\n{_markdown_table('behaviour', list(evaluation.policies), rows)}"


def _moved(evaluation: Evaluation, comparison: ComparisonResult) -> str:
    """The tasks on which a candidate gained or lost most, both answers side by side."""
    moves: list[tuple[float, TaskResult, Attempt, Attempt]] = []
    for task in evaluation.tasks:
        pair = task.policies.get(comparison.baseline), task.policies.get(comparison.candidate)
        if pair[0] and pair[1] and pair[0].reward is not None and pair[1].reward is not None:
            moves.append((pair[1].reward - pair[0].reward, task, pair[0], pair[1]))
    most = sorted((m for m in moves if abs(m[0]) > _TIE), key=lambda m: (-abs(m[0]), m[1].id))[:MOST_MOVED]
    title = f"## Tasks that moved most, {_md(comparison.candidate)} against {_md(comparison.baseline)}"
    if not most:
        return f"{title}\n\nNone of them moved."
    return "\n\n".join([title, *(_side_by_side(comparison, *move) for move in most)])


def _side_by_side(comparison: ComparisonResult, difference: float, task: TaskResult, first: Attempt, second: Attempt) -> str:
    names = [f"{comparison.baseline} {_plain(first.reward)}", f"{comparison.candidate} {_plain(second.reward)}"]
    both = (first, second)
    rows: list[Row] = [
        ("answer", [_answer(each) for each in both]),
        ("sources", [", ".join(each.sources) or "none" for each in both]),
    ]
    return (
        f"### {_md(task.id)}: {_signed(difference)}\n\n{_md(task.question)} ({_md(_words(task.family))})\n\n"
        f"Right answer: {_md(task.expected)}\n\n{_markdown_table('', names, rows)}"
    )


def _answer(attempt: Attempt) -> str:
    if attempt.answer is None:
        return f"no answer: {attempt.stop_reason}"
    left_out = len(attempt.answer) - _MAX_ANSWER_CHARS
    return attempt.answer if left_out <= 0 else f"{attempt.answer[:_MAX_ANSWER_CHARS]} ({left_out} more characters)"


def _needed(evaluation: Evaluation) -> str:
    """How many tasks of the spread that was seen would detect a difference."""
    comparisons = [c for c in evaluation.comparisons if c.metric == _REWARD]
    if not comparisons:
        return "A second policy."
    targets = list(comparisons[0].tasks_needed)
    rows = [(f"{c.candidate} against {c.baseline}", [_tasks(c.tasks_needed.get(t)) for t in targets]) for c in comparisons]
    explained = (
        "Tasks that would detect a difference of this size 4 times in 5, at the spread that was seen and "
        f"{_samples(evaluation)} of each task. More samples help until the tasks themselves are what differs."
    )
    return f"{explained}\n\n{_markdown_table('', targets, rows)}"


def _tasks(needed: int | None) -> str:
    return "-" if needed is None else str(needed)


def provenance(evaluation: Evaluation) -> Mapping[str, str]:
    """How it was run: reward, run, temperature, digests, versions, start."""
    weights = " + ".join(f"{weight:g} {_words(part)}" for part, weight in evaluation.weights.items())
    read_first = "" if evaluation.require_opened else ", facts counted without reading their source"
    return {
        "reward": f"{weights}{read_first}",
        "run": evaluation.run_id or "several",
        "temperature": "as saved" if evaluation.temperature is None else f"{evaluation.temperature:g}",
        "digests": ", ".join(f"{name} {value[:12] or '-'}" for name, value in evaluation.digests.model_dump().items()),
        "versions": ", ".join(f"{name} {version}" for name, version in evaluation.versions.items()),
        "began": evaluation.started_at or "-",
    }


def _provenance_list(evaluation: Evaluation) -> str:
    return "\n".join(f"- {name}: {_md(value)}" for name, value in provenance(evaluation).items())


def _samples(evaluation: Evaluation) -> str:
    return f"{evaluation.samples} sample{'s' * (evaluation.samples != 1)}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(metric: Metric | None) -> str:
    return f"{_plain(metric.mean)} {_interval(metric, _plain)}".rstrip() if metric else "-"


def _interval(metric: Metric | ComparisonResult, number: Callable[[float | None], str]) -> str:
    return f"[{number(metric.low)}, {number(metric.high)}]" if metric.low is not None and metric.high is not None else ""


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _p(value: float | None) -> str:
    return "-" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _md(text: str) -> str:
    """Other people's text as one line of plain Markdown: no markup of its own, no control codes."""
    return _MARKUP.sub(r"\\\1", " ".join(safe(text).split()))
