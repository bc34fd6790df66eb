from __future__ import annotations

import pytest

from gradient_rl.report.html.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, bars, behaviours, charts
from gradient_rl.schema.evaluation import BehaviourResult, Metric, PolicyResult
from gradient_rl.schema.training import Played, StepMetrics


def played(reward: float, **more: object) -> Played:
    fields = {"episodes": 8, "excluded": 0, "parts": {"correctness": reward}, "malformed": 0.25, "calls": 3.0, "opened": 1.0}
    return Played.model_validate({"reward": reward, "cited": 1.0, "tokens": 0, "cost_usd": 0.0, **fields, **more})


STEPS = [
    StepMetrics(run_id="r", step=0, validation=played(0.1)),
    StepMetrics(run_id="r", step=1, train=played(0.2), spread=0.5, groups=4, used=3, dropped={"all wrong": 1}),
    StepMetrics(run_id="r", step=2, train=played(0.4), validation=played(0.3), spread=0.25, groups=4, used=4),
]


def chart(title: str, steps: list[StepMetrics] = STEPS) -> Chart:
    return next(each for each in charts(steps) if each.title == title)


def test_a_run_has_its_six_charts() -> None:
    assert [each.title for each in charts(STEPS)] == [
        "Reward",
        "Parts of the reward",
        "Spread within a group",
        "Groups",
        "Malformed",
        "Tools",
    ]


def test_no_steps_no_charts() -> None:
    assert charts([]) == ()


def test_a_value_stands_where_the_axes_say() -> None:
    training, validation = chart("Reward").lines
    middle = (LEFT + WIDTH - RIGHT) / 2

    assert [point.x for point in validation.points] == [LEFT, WIDTH - RIGHT]
    assert training.points[0].x == middle
    assert training.points[1].y == TOP  # 0.4, the top of the axis
    assert training.points[0].y == (TOP + HEIGHT - BOTTOM) / 2
    assert chart("Reward").y_ticks == ((156, "0"), (83, "0.2"), (10, "0.4"))


def test_many_points_are_dotted_under_the_pointer_alone_and_very_many_not_at_all() -> None:
    dots = [
        charts([StepMetrics(run_id="r", step=n, spread=0.1) for n in range(count)])[0].lines[0].dots for count in (20, 21, 201)
    ]

    assert dots == ["shown", "pointed", ""]


def test_groups_are_stacked_by_what_became_of_them() -> None:
    groups = chart("Groups")

    assert [block.label for block in groups.blocks] == [
        "step 1: 3 used",
        "step 1: 1 all wrong, taught nothing",
        "step 2: 4 used",
    ]
    assert groups.blocks[0].height == pytest.approx(3 * groups.blocks[1].height, abs=0.1)
    assert all(block.x >= LEFT and block.x + block.width <= WIDTH - RIGHT + 0.1 for block in groups.blocks)
    assert groups.rows == (("1", "3", "1"), ("2", "4", "0"))


def test_a_bar_of_groups_stands_over_its_step() -> None:
    steps = [StepMetrics(run_id="r", step=step, groups=4, used=4) for step in (0, 1, 2, 3, 4)]
    groups = chart("Groups", steps)

    assert [label for _, label in groups.x_ticks] == ["0", "1", "2", "3", "4"]
    assert [block.x + block.width / 2 for block in groups.blocks] == pytest.approx([x for x, _ in groups.x_ticks], abs=0.1)
    assert all(block.x >= LEFT and block.x + block.width <= WIDTH - RIGHT for block in groups.blocks)


def test_tools_are_shown_by_name_where_they_were_recorded() -> None:
    steps = [StepMetrics(run_id="r", step=n, train=played(0.1, tools={"search": n + 1.0, "open_email": 2.0})) for n in (1, 2)]

    assert [line.name for line in chart("Tools").lines] == ["calls", "records opened", "records cited"]
    assert [line.name for line in chart("Tools", steps).lines] == ["search", "open email"]
    assert chart("Tools", steps).rows == (("1", "2.000", "2.000"), ("2", "3.000", "2.000"))


def test_a_chart_can_be_read_without_being_seen() -> None:
    assert chart("Reward").summary == "Reward by step. training: 0.200 to 0.400. validation: 0.100 to 0.300."


def metric(mean: float | None, low: float | None = None, high: float | None = None) -> Metric:
    return Metric(mean=mean, low=low, high=high)


def test_bars_end_at_a_round_number_above_their_intervals() -> None:
    drawn, top = bars([metric(0.1, -0.02, 0.13), None, metric(None)])

    assert top == "0.2"
    assert drawn[0] is not None
    assert (drawn[0].mean, drawn[0].low, drawn[0].high) == (50.0, 0.0, 65.0)
    assert drawn[1:] == (None, None)


def policy(**shares: float) -> PolicyResult:
    found = {
        name: BehaviourResult(episodes=int(share * 10), share=share, reward=0.2 if share else None)
        for name, share in shares.items()
    }
    return PolicyResult(n_tasks=1, n_episodes=10, excluded=0, metrics={}, families={}, behaviours=found)


def test_the_behaviour_that_changed_most_comes_first_and_unseen_ones_are_left_out() -> None:
    policies = [
        ("a", policy(malformed=0.2, no_citation=0.9, empty_search=0)),
        ("b", policy(malformed=0.3, no_citation=0.1, empty_search=0)),
    ]
    rows = behaviours(policies, "a", "b")

    assert [row.name for row in rows] == ["no citation", "malformed"]
    assert rows[0].change == pytest.approx(-0.8)
    assert [(share.percent, share.earning) for share in rows[0].shares] == [(90.0, "earning 0.20"), (10.0, "earning 0.20")]


def test_the_warm_start_is_a_point_and_a_row_of_its_own() -> None:
    warm = StepMetrics(run_id="r", step=0, checkpoint="warm", validation=played(0.2))
    reward = chart("Reward", [STEPS[0], warm, *STEPS[1:]])

    assert [row[0] for row in reward.rows] == ["0", "warm", "1", "2"]
    assert [row[2] for row in reward.rows] == ["0.100", "0.200", "", "0.300"]
    assert [point.label for point in reward.lines[1].points][1] == "step warm, validation 0.200"
