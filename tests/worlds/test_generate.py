"""Generated folders: fit to train and measure on, and the same for the same recipe."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.workspace import HELDOUT_FILE, TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.errors import UsageError
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.evaluation.validate import validate_data
from gradient_rl.schema.task import Family, Split, Task
from gradient_rl.schema.workspace import RecordKind
from gradient_rl.worlds.generate import WorldReport, generate
from gradient_rl.worlds.trade import TRADES
from tests.worlds.conftest import Made, recipe
from tests.worlds.founding import trade_of

AGAIN = """
import sys
from pathlib import Path
from gradient_rl.worlds.generate import Recipe, generate
from gradient_rl.worlds.trade import load_trade
generate(Recipe.model_validate_json(sys.argv[1]), load_trade("software"), Path(sys.argv[2]))
"""


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tasks_in(made: Made) -> list[Task]:
    return [*load_tasks(made.folder / TRAIN_FILE).tasks, *load_tasks(made.folder / HELDOUT_FILE).tasks]


def test_the_same_recipe_gives_the_same_bytes_in_another_process(worlds: Mapping[str, Made], tmp_path: Path) -> None:
    made = worlds["software"]
    subprocess.run(
        [sys.executable, "-c", AGAIN, made.report.recipe.model_dump_json(), str(tmp_path)],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
    )

    assert digests(tmp_path) == digests(made.folder)
    assert len(digests(tmp_path)) == 5


def test_another_seed_gives_other_bytes(worlds: Mapping[str, Made], tmp_path: Path) -> None:
    generate(recipe("software", seed=8), trade_of("software"), tmp_path)
    ours, others = digests(worlds["software"].folder), digests(tmp_path)

    assert [name for name in ours if ours[name] == others[name]] == []


@pytest.mark.parametrize("trade", TRADES)
def test_the_validator_finds_nothing_wrong(worlds: Mapping[str, Made], trade: str) -> None:
    report = validate_data(worlds[trade].folder)

    assert [str(finding) for finding in report.findings] == []
    assert report.records == 300


@pytest.mark.parametrize("trade", TRADES)
def test_every_reference_earns_one(worlds: Mapping[str, Made], trade: str) -> None:
    workspace = load_workspace(worlds[trade].folder)
    replayer = Replayer(workspace, BM25Index(workspace))

    assert {replayer.play(task, task.reference).total for task in tasks_in(worlds[trade])} == {1.0}


@pytest.mark.parametrize("trade", TRADES)
def test_every_family_has_its_share_of_the_tasks(worlds: Mapping[str, Made], trade: str) -> None:
    tasks = tasks_in(worlds[trade])

    for heldout in (True, False):
        counts = Counter(task.family for task in tasks if (task.split is Split.HELDOUT) is heldout)
        assert counts.total() == 20
        assert len(counts) == 10
        assert max(counts.values()) - min(counts.values()) <= 2


def test_only_the_families_that_were_asked_for_have_tasks_and_the_records_are_the_same(
    worlds: Mapping[str, Made], tmp_path: Path
) -> None:
    asked = recipe("software").model_copy(update={"families": (Family.LOOKUP, Family.EXCEPTIONS), "tasks": 6, "heldout": 6})
    made = Made(tmp_path, generate(asked, trade_of("software"), tmp_path))

    found = Counter(task.family for task in tasks_in(made))
    assert found == {Family.LOOKUP: 6, Family.EXCEPTIONS: 6}
    assert made.report.families == {family.value: found[family] for family in Family}
    whole = digests(worlds["software"].folder)
    assert {name: whole[name] for name in ("emails.jsonl", "documents.jsonl")}.items() <= digests(tmp_path).items()


def test_a_family_that_runs_out_is_not_replaced_by_one_that_was_not_asked_for(tmp_path: Path) -> None:
    asked = recipe("software").model_copy(update={"families": (Family.AGGREGATION,), "tasks": 200})

    with pytest.raises(UsageError, match="300 records hold [0-9]+ of the 200 train tasks"):
        generate(asked, trade_of("software"), tmp_path)


@pytest.mark.parametrize("trade", TRADES)
def test_no_customer_has_tasks_in_two_files(worlds: Mapping[str, Made], trade: str) -> None:
    def subjects(name: str) -> set[str]:
        tasks = load_tasks(worlds[trade].folder / name).tasks
        return {words for task in tasks for fact in task.facts for words in (fact.subject, *fact.subject_aliases)}

    assert subjects(TRAIN_FILE) & subjects(HELDOUT_FILE) == set()


def test_one_task_in_ten_is_a_validation_task_of_another_family_each_time(worlds: Mapping[str, Made]) -> None:
    tasks = load_tasks(worlds["catering"].folder / TRAIN_FILE).tasks

    assert [task.split for task in tasks] == [Split.TRAIN] * 18 + [Split.VALIDATION] * 2
    assert len({task.family for task in tasks[18:]}) == 2


def test_a_single_task_is_one_to_train_on(tmp_path: Path) -> None:
    report = generate(recipe("catering", tasks=1, heldout=0), trade_of("catering"), tmp_path)

    assert report.tasks == {"train": 1, "validation": 0, "heldout": 0}


def test_the_report_counts_what_the_folder_holds(worlds: Mapping[str, Made]) -> None:
    made = worlds["catering"]
    records = load_workspace(made.folder).records.values()
    report = WorldReport.model_validate_json((made.folder / "world.json").read_text(encoding="utf-8"))

    assert report == made.report
    assert report.records == Counter(record.kind.value for record in records)
    assert report.tasks == {"train": 18, "validation": 2, "heldout": 20}
    assert report.customers == report.records["customer_record"]
    assert report.drafts == 40 + sum(report.dropped.values())


def test_every_address_is_one_that_cannot_exist(worlds: Mapping[str, Made]) -> None:
    emails = (worlds["logistics"].folder / "emails.jsonl").read_text(encoding="utf-8").splitlines()

    assert {json.loads(line)["sender"].rpartition(".")[2] for line in emails} == {"example>"}


def test_asking_for_too_many_tasks_is_told_how_many_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        generate(recipe("catering", records=200, tasks=60, heldout=540), trade_of("catering"), tmp_path)

    words = str(error.value).split()
    assert 10 < int(words[3]) < 60
    assert str(error.value) == (
        f"200 records hold {words[3]} of the 60 train tasks that were asked for; raise --records or ask for fewer"
    )


def test_a_world_without_tasks_has_records_only(tmp_path: Path) -> None:
    report = generate(recipe("catering", tasks=0, heldout=0), trade_of("catering"), tmp_path)

    assert sum(report.records.values()) == 300
    assert not (tmp_path / TRAIN_FILE).exists()


def test_a_larger_world_of_the_same_seed_begins_with_the_customers_of_the_smaller(
    worlds: Mapping[str, Made], tmp_path: Path
) -> None:
    larger = generate(recipe("medical_devices", records=700, tasks=1, heldout=1), trade_of("medical_devices"), tmp_path)
    small, large = (
        [r.title for r in load_workspace(folder).records.values() if r.kind is RecordKind.CUSTOMER_RECORD]
        for folder in (worlds["medical_devices"].folder, tmp_path)
    )

    assert larger.company == worlds["medical_devices"].report.company
    assert sum(larger.records.values()) == 700
    assert large[: len(small)] == small
    assert len(large) > len(small)


def test_progress_is_told_up_to_the_end(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    generate(
        recipe("catering", tasks=2, heldout=1),
        trade_of("catering"),
        tmp_path,
        lambda what, done, of: told.append((what, done, of)),
    )

    assert {what for what, _, _ in told} == {"records", "train tasks", "heldout tasks"}
    assert told[-1] == ("heldout tasks", 1, 1)


def test_a_world_has_at_least_two_hundred_records() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 200"):
        recipe("catering", records=199)
