from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import Workspace, default_data_dir
from gradient_rl.rollout.runner import Setting, setting_for
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.task import Task
from gradient_rl.schema.workspace import Email
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK, RECORDS, tiny_workspace


@pytest.fixture(scope="session")
def tiny() -> Workspace:
    return tiny_workspace()


@pytest.fixture(scope="session")
def tiny_index(tiny: Workspace) -> BM25Index:
    return BM25Index(tiny)


@pytest.fixture(scope="session")
def tiny_setting(tiny: Workspace) -> Setting:
    return setting_for(tiny)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    return default_data_dir()


@pytest.fixture
def tiny_data(tmp_path: Path) -> Path:
    """The tiny world as a data folder that a test may damage."""
    return write_data(tmp_path / "data", tasks=(NOTICE_TASK, DEPOSIT_TASK))


def write_data(folder: Path, records: Iterable[object] = RECORDS, tasks: Iterable[Task] = ()) -> Path:
    (folder / "tasks").mkdir(parents=True)
    for name, chosen in (
        ("emails.jsonl", [r for r in records if isinstance(r, Email)]),
        ("documents.jsonl", [r for r in records if not isinstance(r, Email)]),
        ("tasks/train.jsonl", [t for t in tasks if t.split != "heldout"]),
        ("tasks/heldout.jsonl", [t for t in tasks if t.split == "heldout"]),
    ):
        (folder / name).write_text("".join(to_line(record) for record in chosen), encoding="utf-8")
    return folder
