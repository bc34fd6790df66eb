from __future__ import annotations

from gradient_rl.report.curves import Series, curves_text, plot, series_object, series_of
from gradient_rl.schema.training import Played, StepMetrics


def played(value: float | None, malformed: float = 0.0) -> Played:
    parts = {} if value is None else {"correctness": value}
    return Played(
        episodes=4, excluded=0, reward=value, parts=parts, malformed=malformed, calls=3, opened=1, cited=1, tokens=0, cost_usd=0
    )


METRICS = (
    StepMetrics(run_id="r", step=0, validation=played(0.1)),
    StepMetrics(run_id="r", step=1, train=played(0.2, 0.5), spread=0.4, groups=4, used=3, learner={"kl": 0.01}),
    StepMetrics(run_id="r", step=2, train=played(0.4), validation=played(0.5), spread=0.2, groups=4, used=4),
)


def test_every_figure_is_a_series_over_the_steps_that_have_it() -> None:
    found = {each.name: each for each in series_of(METRICS)}

    assert list(found) == [
        "training reward",
        "validation reward",
        "training correctness",
        "validation correctness",
        "malformed share",
        "calls",
        "reward spread",
        "groups used",
        "learner kl",
    ]
    assert found["training reward"] == Series("training reward", (1, 2), (0.2, 0.4))
    assert found["validation reward"].steps == (0, 2)
    assert found["malformed share"].values == (0.5, 0.0)
    assert found["groups used"].values == (0.75, 1.0)


def test_a_step_without_a_reward_leaves_a_gap() -> None:
    steps = (*METRICS, StepMetrics(run_id="r", step=3, train=played(None)))

    assert series_of(steps)[0].steps == (1, 2)


def test_the_plot_puts_values_where_they_belong() -> None:
    lines = plot([Series("training reward", (0, 1, 2), (0.0, 0.5, 1.0))])

    assert lines[0] == " 1.000 ┤        ●"
    assert lines[9] == " 0.000 ┤●"
    assert lines[-1] == "        step 0 to 2   ● training reward"


def test_a_single_step_and_nothing_but_zeros_can_be_plotted() -> None:
    assert plot([Series("training reward", (5,), (0.0,))])[9].endswith("┤●")
    assert plot([]) == []


def test_a_long_run_fits_the_terminal() -> None:
    steps = tuple(range(1000))
    lines = plot([Series("training reward", steps, tuple(float(step) for step in steps))])

    assert max(map(len, lines)) <= 80


def test_a_line_says_where_a_figure_began_and_ended() -> None:
    line = next(line for line in curves_text(METRICS, unicode=True) if line.startswith("malformed share"))

    assert line.split() == "malformed share █▁ 0.500 to 0.000 (lowest 0.000, highest 0.500)".split()


def test_ascii_stands_in_for_blocks() -> None:
    lines = curves_text(METRICS, unicode=False)

    assert "\n".join(lines).isascii()
    assert any(line.startswith("malformed share") and "#_" in line for line in lines)


def test_without_a_measured_step_nothing_is_plotted() -> None:
    assert curves_text((StepMetrics(run_id="r", step=0),), unicode=True) == ["no step has been measured yet"]


def test_a_series_as_plain_data() -> None:
    assert series_object(Series("calls", (1,), (3.0,))) == {"name": "calls", "steps": [1], "values": [3.0]}


def test_the_warm_start_lies_halfway_to_step_1() -> None:
    warm = StepMetrics(run_id="r", step=0, checkpoint="warm", validation=played(0.3), learner={"loss": 2.0})
    found = {each.name: each for each in series_of((METRICS[0], warm, *METRICS[1:]))}

    assert found["validation reward"] == Series("validation reward", (0, 0.5, 2), (0.1, 0.3, 0.5))
    assert found["learner loss"].steps == (0.5,)
    assert plot([found["learner loss"]])[-1].startswith("        step 0.5 to 0.5 ")
