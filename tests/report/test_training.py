"""A training run as text: the curve, a row a step, before against after, and other people's text as text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console, RenderableType

from gradient_rl.report.training import (
    curve,
    live_view,
    print_dry_run,
    print_training,
    rewards_of,
    step_line,
    step_table,
    time_told,
)
from gradient_rl.schema.training import Played, StepMetrics, Training
from gradient_rl.schema.trajectory import Digests

HOSTILE = "\x1b[31mred\x1b[0m \x07bell \u202eback [bold]markup[/bold]"


def played(reward: float | None = 0.5, **more: Any) -> Played:  # noqa: ANN401
    fields: dict[str, Any] = {
        "episodes": 6,
        "excluded": 0,
        "reward": reward,
        "parts": {"correctness": 0.25, "citation_quality": 0.75},
        "malformed": 0.0,
        "calls": 4.25,
        "opened": 2.0,
        "cited": 1.5,
        "tokens": 0,
        "cost_usd": 0.0,
    }
    return Played.model_validate(fields | more)


STEPS = (
    StepMetrics(run_id="r", step=0, validation=played(0.1), seconds={"validate": 0.25}),
    StepMetrics(run_id="r", step=1, train=played(0.2), groups=3, used=1, dropped={"all wrong": 2}, seconds={"rollout": 1.0}),
    StepMetrics(
        run_id="r",
        step=2,
        train=played(0.4),
        validation=played(0.375, calls=3.0),
        groups=3,
        used=2,
        dropped={"all right": 1},
        seconds={"rollout": 1.0, "update": 0.5},
    ),
)


def training(**more: Any) -> Training:  # noqa: ANN401
    fields: dict[str, Any] = {
        "run_id": "r",
        "policy": "linear",
        "dry_run": False,
        "config": {},
        "config_digest": "",
        "digests": Digests(),
        "versions": {},
        "started_at": "",
        "seconds": 1.0,
        "steps": 2,
        "episodes": 24,
        "excluded": 0,
        "before": STEPS[0].validation,
        "after": STEPS[2].validation,
        "best_step": 2,
        "latest": "2",
        "learned": {"move.open": 1.25, "say.length": -0.5},
    }
    return Training.model_validate(fields | more)


def console() -> Console:
    return Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None, markup=False, emoji=False)


def text_of(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def rows(renderable: RenderableType) -> list[list[str]]:
    out = console()
    out.print(renderable)
    return [line.split() for line in text_of(out).splitlines()]


def printed(run: Training, steps: Sequence[StepMetrics] = STEPS) -> str:
    out = console()
    print_training(out, run, steps)
    return text_of(out)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([0.5], "█"),
        ([0.0, 0.0], "▁▁"),
        ([0.0, 0.25, 0.5, 1.0], "▁▃▅█"),
        ([-1.0, 1.0], "▁█"),
        ([-2.0, -1.0], "▁▁"),
    ],
)
def test_a_curve_goes_from_nothing_to_the_largest_value(values: list[float], line: str) -> None:
    assert curve(values) == line


def test_more_values_than_blocks_are_averaged() -> None:
    assert curve([0.0, 0.0, 0.5, 1.5, 2.0, 2.0], width=3) == "▁▅█"
    assert len(curve([1.0] * 1000)) == 40


def test_the_rewards_are_those_of_the_steps_that_have_one() -> None:
    nothing = StepMetrics(run_id="r", step=3, train=played(None))

    assert rewards_of([*STEPS, nothing]) == [0.2, 0.4]


def test_the_table_has_a_row_a_step() -> None:
    assert rows(step_table(STEPS)) == [
        ["step", "reward", "correct", "citation", "F1", "groups", "used", "calls", "validation", "s"],
        ["0", "0.100", "0.2"],
        ["1", "0.200", "0.250", "0.750", "1/3", "4.2", "1.0"],
        ["2", "0.400", "0.250", "0.750", "2/3", "4.2", "0.375", "1.5"],
    ]


def test_a_run_is_its_curve_its_validated_steps_and_before_against_after() -> None:
    lines = printed(training()).splitlines()
    words = [line.split() for line in lines]

    assert lines[0] == "linear  2 steps, 24 episodes"
    assert lines[1] == "training reward ▅█ 0.200 to 0.400"
    assert [line[0] for line in words[3:5]] == ["0", "2"]
    assert "3 of 6 groups taught nothing: 2 all wrong, 1 all right." in lines
    assert "Largest weights: move.open +1.25, say.length -0.50." in lines
    assert "6 validation episodes" in [line.strip() for line in lines]
    assert ["reward", "0.100", "0.375"] in words
    assert ["calls", "4.250", "3.000"] in words


def test_what_is_not_there_is_not_printed() -> None:
    steps = [STEPS[1].model_copy(update={"train": played(None, parts={}), "used": 3, "dropped": {}})]
    text = printed(training(before=None, after=None, learned={}, steps=1), steps)

    for words in ("training reward", "taught nothing", "Largest weights", "validation episodes", "nan", "None"):
        assert words not in text


def dry(**numbers: float) -> StepMetrics:
    learner = {f"payload_{name}": value for name, value in numbers.items()}
    return StepMetrics(run_id="r", step=1, train=played(), learner=learner)


def test_a_dry_run_says_what_would_have_been_sent_over_all_steps() -> None:
    out = console()
    step = dry(groups=2, trajectories=6, trainable=0, sampled_tokens=700, prompt_tokens=9000, tokens_estimated=1, bytes=250_000)
    print_dry_run(out, [STEPS[0], step, step])

    assert text_of(out).strip() == (
        "Dry run: nothing was trained, nothing was sent. ART would get 4 groups with 12 trajectories: about 1,400 sampled and "
        "18,000 prompt tokens, 0.50 MB of JSON. 0 of them hold token ids and can be trained on: only a language "
        "model's replies have them."
    )


def test_a_dry_run_whose_tokens_were_counted_does_not_say_about() -> None:
    out = console()
    print_dry_run(out, [dry(groups=1, trajectories=2, trainable=2, sampled_tokens=7, prompt_tokens=9, bytes=10)])

    assert "2 trajectories: 7 sampled and 9 prompt tokens" in text_of(out)
    assert text_of(out).strip().endswith("2 of them hold token ids and can be trained on.")


def test_a_dry_run_has_no_before_and_after() -> None:
    assert "validation episodes" not in printed(training(dry_run=True))


def test_the_live_view_says_how_far_it_is() -> None:
    words = [" ".join(row) for row in rows(live_view(STEPS, 10, 4, 18, 12.4))]

    assert words[0] == "reward ▅█ 0.400"
    assert words[-1] == "step 3 of 10, 4 of 18 episodes, 12 s so far, 1.25 s a step, about 10 s left"
    assert next(" ".join(row) for row in rows(live_view([], 10, 0, 18, 0.0))) == "reward no step yet"
    assert [" ".join(row) for row in rows(live_view(STEPS, 2, 0, 18, 0.0))][-1].startswith("step 2 of 2,")


def test_control_characters_reach_the_terminal_as_nothing_and_markup_as_text() -> None:
    hostile = played(parts={HOSTILE: 0.5})
    steps = [StepMetrics(run_id="r", step=2, train=hostile, validation=hostile, groups=1, dropped={HOSTILE: 1})]
    text = printed(training(policy=HOSTILE, learned={HOSTILE: 1.0}, before=hostile, after=hostile), steps)

    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[bold]markup[/bold]" in text


WARM_START = StepMetrics(
    run_id="r", step=0, checkpoint="warm", validation=played(0.3), learner={"loss": 1.0}, seconds={"warm_start": 60.0}
)


def test_the_warm_start_has_a_row_and_a_column() -> None:
    steps = (STEPS[0], WARM_START, *STEPS[1:])
    console = Console(file=io.StringIO(), width=120)
    print_training(console, training(before=STEPS[0].validation, warm=WARM_START.validation, after=STEPS[2].validation), steps)
    lines = [line.split() for line in console.file.getvalue().splitlines()]

    assert ["warm", "0.300", "60.0"] in lines
    assert ["before", "warm", "start", "after"] in lines
    assert ["reward", "0.100", "0.300", "0.375"] in lines


def test_a_line_of_the_log_tells_the_time_that_is_left() -> None:
    steps = (STEPS[0], WARM_START, *STEPS[1:])

    assert step_line(WARM_START, 4, steps[:2]) == "warm start: validation 0.300, 60 s (60 s so far)"
    assert step_line(STEPS[2], 4, steps).endswith("2 s (63 s so far, 1.25 s a step, about 2 s left)")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(100.0, "100 s so far, 50 s a step, about 100 s left"), (4000.0, "67 min so far"), (9000.0, "2 h 30 min so far")],
)
def test_long_times_are_told_in_minutes_and_hours(seconds: float, told: str) -> None:
    steps = [step.model_copy(update={"seconds": {"rollout": 50.0}}) for step in STEPS]

    assert time_told(steps, 4, seconds).startswith(told)
