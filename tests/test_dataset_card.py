"""The dataset card tells the truth: its counts, keyword figures and digests are those of the data."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.evaluation.validate import validate_data
from gradient_rl.schema.task import Family, Split
from gradient_rl.schema.workspace import RecordKind


@pytest.fixture(scope="module")
def card(data_dir: Path) -> str:
    return (data_dir / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("e-mails", RecordKind.EMAIL),
        ("contracts", RecordKind.CONTRACT),
        ("policies", RecordKind.POLICY),
        ("meeting notes", RecordKind.MEETING_NOTES),
        ("customer records", RecordKind.CUSTOMER_RECORD),
    ],
)
def test_the_counts_by_kind_are_right(card: str, data_dir: Path, row: str, kind: RecordKind) -> None:
    count = sum(record.kind is kind for record in load_workspace(data_dir).records.values())

    assert f"| {row} | {count} |" in card


@pytest.mark.parametrize("family", list(Family))
def test_the_counts_by_family_are_right(card: str, data_dir: Path, family: Family) -> None:
    tasks = [task for name in (TRAIN_FILE, HELDOUT_FILE) for task in load_tasks(data_dir / name).tasks]
    counts = Counter(task.split for task in tasks if task.family is family)

    assert f"| `{family}` | {counts[Split.TRAIN]} | {counts[Split.VALIDATION]} | {counts[Split.HELDOUT]} |" in card


def test_the_digests_are_right(card: str, data_dir: Path) -> None:
    digests = [
        load_workspace(data_dir).digest,
        load_tasks(data_dir / TRAIN_FILE).digest,
        load_tasks(data_dir / HELDOUT_FILE).digest,
    ]

    assert re.findall(r"`([0-9a-f]{64})`", card) == digests


def test_the_keyword_figures_are_right(card: str, data_dir: Path) -> None:
    for figures in validate_data(data_dir).keywords:
        row = f"| {figures.split} | {len(figures.found)} of {figures.tasks} | {len(figures.single_found)} of {figures.single} |"
        assert row in card
