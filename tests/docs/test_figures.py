"""Figures of the scripted policies in the documentation are those that the command beside them gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import tiny
from tests.cli.running import run

DOCS = Path(tiny.__file__).parent.parent / "docs"
DECISIONS = DOCS / "decisions.md"


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_the_table_of_the_scripted_policies_is_right(split: str, tmp_path: Path) -> None:
    evaluation = json.loads(run("evaluate", "--split", split, "--json", cwd=tmp_path).stdout)
    weak, strong = (evaluation["policies"][name]["metrics"] for name in ("weak", "heuristic"))
    compared = evaluation["comparisons"][0]
    tasks = compared["n_tasks"]
    difference = f"{compared['difference']:+.3f} [{compared['low']:+.3f}, {compared['high']:+.3f}], {compared['verdict']}"
    right = f"{weak['pass@1']['mean'] * tasks:.0f} and {strong['pass@1']['mean'] * tasks:.0f} of {tasks}"

    row = f"| {split} | {weak['reward']['mean']:.3f} | {strong['reward']['mean']:.3f} | {difference} | {right} |"
    assert row in DECISIONS.read_text("utf-8")


def test_the_table_of_planted_instructions_is_right(tmp_path: Path) -> None:
    policies = json.loads(run("evaluate", "--attack", "--split", "train", "--json", cwd=tmp_path).stdout)["policies"]
    page = (DOCS / "reliability.md").read_text("utf-8")

    assert list(policies) == ["weak", "heuristic"]
    for name, policy in policies.items():
        mean = {key: f"{policy[key]['mean']:.3f}" for key in ("clean", "attacked", "read", "success", "by_chance")}
        compared = policy["comparison"]
        difference = f"{compared['difference']:+.3f} [{compared['low']:+.3f}, {compared['high']:+.3f}]"
        rest = f"{mean['read']} | {mean['success']} | {mean['by_chance']}"
        assert f"| {name} | {mean['clean']} | {mean['attacked']} | {difference} | {rest} |" in page


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_table_of_training_runs_is_right(seed: int, tmp_path: Path) -> None:
    trained = json.loads(run("train", "--seed", str(seed), "--json", cwd=tmp_path).stdout)
    evaluation = json.loads(run("evaluate", "--policy", "linear@latest", "--samples", "8", "--json", cwd=tmp_path).stdout)
    steps = [json.loads(line) for line in (tmp_path / "artifacts" / "train.metrics.jsonl").read_text("utf-8").splitlines()]
    compared = {(c["baseline"], c["candidate"]): c for c in evaluation["comparisons"]}

    def against(baseline: str) -> str:
        c = compared[baseline, "linear@50"]
        return f"{c['difference']:+.3f} [{c['low']:+.3f}, {c['high']:+.3f}], {c['verdict']}"

    cells = [
        str(seed),
        f"{steps[1]['train']['reward']:.3f}, {steps[-1]['train']['reward']:.3f}",
        f"{trained['before']['reward']:.3f}, {trained['after']['reward']:.3f}",
        f"{evaluation['policies']['linear@50']['metrics']['reward']['mean']:.3f}",
        against("linear@0"),
        against("weak"),
    ]
    assert f"| {' | '.join(cells)} |" in (DOCS / "training.md").read_text("utf-8")


def test_the_number_of_features_is_right() -> None:
    from gradient_rl.policies.features import FEATURES

    number = sum(len(names) for names in FEATURES.values())
    assert f"linear in {number} named features" in (DOCS / "training.md").read_text("utf-8")


def test_the_table_of_cheaters_is_right() -> None:
    from tests.benchmarks.cheaters import TITLES, cheating, honest, reference

    table = "\n".join([TITLES, *(earned.row() for earned in (reference(), *honest(), *cheating()))])
    assert table in (DOCS / "reliability.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["cite-seen", "filler"])
def test_where_a_cheater_earns_more_than_the_weak_policy_is_told(name: str) -> None:
    from tests.benchmarks.cheaters import cheating, honest

    text = (DOCS / "reliability.md").read_text("utf-8")
    weak, cheater = honest()[0].families, next(earned for earned in cheating() if earned.name == name).families
    over = [f"{cheater[family]:.3f} in `{family}` ({weak[family]:.3f})" for family in cheater if cheater[family] > weak[family]]
    assert over
    assert all(figures in text.replace("\n", " ").replace("(`weak` ", "(") for figures in over)
