"""The data set that travels with the package."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.evaluation.validate import (
    MAX_KEYWORD_SHARE,
    MAX_KEYWORD_SHARE_SINGLE,
    ValidationReport,
    validate_data,
)
from gradient_rl.rollout.runner import setting_for
from gradient_rl.schema.task import Family, Split, Task


@pytest.fixture(scope="module")
def report(data_dir: Path) -> ValidationReport:
    return validate_data(data_dir)


@pytest.fixture(scope="module")
def tasks(data_dir: Path) -> list[Task]:
    return [task for name in (TRAIN_FILE, HELDOUT_FILE) for task in load_tasks(data_dir / name).tasks]


def test_it_validates(report: ValidationReport) -> None:
    assert [str(finding) for finding in report.findings] == []


def test_it_holds_118_records_and_70_tasks(report: ValidationReport) -> None:
    assert report.records == 118
    assert report.tasks == {"train": 40, "validation": 10, "heldout": 20}


def test_all_kinds_of_record_are_there(data_dir: Path) -> None:
    kinds = Counter(record.kind.value for record in load_workspace(data_dir).records.values())

    assert set(kinds) == {"email", "contract", "policy", "meeting_notes", "customer_record"}
    assert min(kinds.values()) >= 10


def test_every_family_is_in_every_split(tasks: list[Task]) -> None:
    for split, each in ((Split.TRAIN, 4), (Split.VALIDATION, 1), (Split.HELDOUT, 2)):
        assert Counter(task.family for task in tasks if task.split is split) == dict.fromkeys(Family, each)


@pytest.mark.parametrize("split", [0, 1], ids=["heldout", "train"])
def test_keywords_alone_rarely_find_the_evidence(report: ValidationReport, split: int) -> None:
    figures = report.keywords[split]

    assert figures.share <= MAX_KEYWORD_SHARE
    assert figures.single_share <= MAX_KEYWORD_SHARE_SINGLE


def test_every_reference_trajectory_earns_exactly_one(data_dir: Path, tasks: list[Task]) -> None:
    setting = setting_for(load_workspace(data_dir))
    replayer = Replayer(setting.workspace, setting.index)

    assert {task.id: replayer.play(task, task.reference).total for task in tasks} == {task.id: 1.0 for task in tasks}


def test_no_two_records_are_alike(data_dir: Path) -> None:
    """Written by hand: no sentence of more than ten words stands in many records."""
    sentences = Counter(
        line.strip()
        for record in load_workspace(data_dir).records.values()
        for line in record.body.splitlines()
        if len(line.split()) > 10 and not line.lstrip().startswith(">")
    )

    assert [sentence for sentence, count in sentences.items() if count > 2] == []
