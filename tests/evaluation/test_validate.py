"""The validator can fail: a test plants each kind of fault and reads the finding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradient_rl.errors import NothingToReadError
from gradient_rl.evaluation.validate import ValidationReport, validate_data

Change = Callable[[dict[str, Any]], None]


def findings(folder: Path) -> list[str]:
    return [str(finding).removeprefix(f"{folder}/") for finding in validate_data(folder, check_keywords=False).findings]


def edit(folder: Path, file: str, record_id: str, change: Change) -> None:
    path = folder / file
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        if row["id"] == record_id:
            change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def put(*keys: str | int, value: object) -> Change:
    def change(row: dict[str, Any]) -> None:
        inner: Any = row
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


def test_the_tiny_world_has_no_findings(tiny_data: Path) -> None:
    assert findings(tiny_data) == []


TRAIN, HELDOUT = ("tasks/train.jsonl", "tiny-1"), ("tasks/heldout.jsonl", "tiny-2")
MAIL, CONTRACT, RECORD = ("emails.jsonl", "mail-1"), ("documents.jsonl", "doc-1"), ("documents.jsonl", "doc-3")

FAULTS: list[tuple[str, tuple[str, str], Change, str]] = [
    (
        "an id that is not in the workspace",
        TRAIN,
        put("required_sources", value=[["mail-7"]]),
        "tasks/train.jsonl line 1: tiny-1: cites 'mail-7', which is not in the workspace",
    ),
    (
        "a record in two slots",
        TRAIN,
        put("required_sources", value=[["mail-1"], ["mail-1"]]),
        "a record stands in two slots: ['mail-1']",
    ),
    (
        "a source that does not state the fact",
        TRAIN,
        put("facts", 0, "sources", value=["mail-1", "doc-1"]),
        "fact 'tiny-1-f1': 'doc-1' does not state '60 days' about 'Birch Bakery'",
    ),
    (
        "the fact in a record that is no source",
        RECORD,
        put("body", value="Birch Bakery has 60 days notice."),
        "'doc-3' also states '60 days' about 'Birch Bakery', and is neither a source nor neutral",
    ),
    (
        "a value that cannot be read",
        TRAIN,
        put("facts", 0, "value", value="a while"),
        "fact 'tiny-1-f1': 'a while' cannot be read as one value of kind duration",
    ),
    (
        "a rival that stands nowhere",
        TRAIN,
        put("facts", 0, "rivals", value=["7 days"]),
        "rival '7 days' stands in no other record",
    ),
    (
        "a rival that is the value",
        TRAIN,
        put("facts", 0, "rivals", value=["sixty days"]),
        "rival 'sixty days' is the value itself",
    ),
    (
        "a question that contains its answer",
        TRAIN,
        put("question", value="Is it sixty days notice that the bakery contract asks for now?"),
        "the question already states '60 days'",
    ),
    (
        "a slot that is not needed",
        TRAIN,
        lambda row: row.update(required_sources=[["mail-1"], ["doc-4"]]),
        "slot ['doc-4'] is not needed: it proves no fact and no later query depends on it",
    ),
    (
        "a record that is required and neutral",
        TRAIN,
        put("neutral_sources", value=["mail-1"]),
        "'mail-1' is both required and neutral",
    ),
    (
        "a fact whose sources are in no slot",
        TRAIN,
        lambda row: row.update(required_sources=[["doc-3"]]),
        "fact 'tiny-1-f1': its sources ['mail-1'] are in no slot",
    ),
    (
        "a record from after the question",
        TRAIN,
        put("as_of", value="2025-01-01"),
        "'mail-1' is dated 2025-03-03, after the day of the question, 2025-01-01",
    ),
    (
        "a reference that earns less than 1",
        TRAIN,
        put("reference", 2, "arguments", "answer", value="30 days."),
        "the reference earns 0.3, not 1: tiny-1-f1: the answer does not state Birch Bakery: 60 days",
    ),
    (
        "a reference that searches for a word from nowhere",
        TRAIN,
        put("reference", 0, "arguments", "query", value="bakery amendment"),
        "the reference searches for words that nothing has shown: ['amend']",
    ),
    (
        "a reference with a needless call",
        TRAIN,
        lambda row: row["reference"].insert(1, {"tool": "search_email", "arguments": {"query": "bakery notice"}}),
        "could be dropped without loss",
    ),
    (
        "a reference that opens what no search has shown",
        HELDOUT,
        lambda row: row["reference"].insert(0, {"tool": "open_document", "arguments": {"id": "doc-2"}}),
        "the reference meets an error: no search has shown 'doc-2'",
    ),
    (
        "a reference as long as the limit",
        TRAIN,
        lambda row: row.update(reference=[row["reference"][0]] * 14 + row["reference"][1:]),
        "the reference makes 16 calls; it must stay under the limit of 15",
    ),
    (
        "a value where none should be",
        ("documents.jsonl", "doc-2"),
        put("body", value="Birch Barbers paid a deposit of EUR 300."),
        "'doc-2' gives a money beside 'Birch Barbers' and ['deposit']",
    ),
    (
        "an absent fact without its derivation",
        HELDOUT,
        put("facts", 0, "derivation", value=None),
        "an absent fact needs a derivation with the operation 'absence'",
    ),
    (
        "a wrong weekday",
        MAIL,
        put("body", value="Birch Bakery: from Tuesday 1 January 2025 notice is 60 days."),
        "emails.jsonl line 1: mail-1: 'tuesday 1 january 2025' was a wednesday",
    ),
    (
        "an address without a name",
        MAIL,
        put("sender", value="anna.berg@firm.example"),
        "'anna.berg@firm.example' is not of the form 'Name <address>'",
    ),
    (
        "two names for one address",
        MAIL,
        put("sender", value="Anne Berg <anna.berg@firm.example>"),
        "anna.berg@firm.example belongs to 'Anne Berg' elsewhere, and to 'Anna Berg' here",
    ),
    ("an empty body", CONTRACT, put("body", value=" "), "documents.jsonl line 1: doc-1: the body is empty"),
    (
        "a split in the wrong file",
        HELDOUT,
        put("split", value="train"),
        "tiny-2: a task of the split 'train' belongs in tasks/train.jsonl",
    ),
]


@pytest.mark.parametrize(("where", "change", "finding"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_planted_fault_is_found(tiny_data: Path, where: tuple[str, str], change: Change, finding: str) -> None:
    edit(tiny_data, *where, change)

    assert any(finding in found for found in findings(tiny_data)), findings(tiny_data)


def derive_in_train(operation: str, inputs: list[dict[str, object]], value: str, kind: str, **more: object) -> Change:
    def change(row: dict[str, Any]) -> None:
        row["facts"][0].update(kind=kind, value=value, rivals=[], sources=[str(i["record"]) for i in inputs])
        row["facts"][0]["derivation"] = {"operation": operation, "inputs": inputs, **more}

    return change


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            derive_in_train("sum", [{"record": "doc-1", "value": "EUR 1250"}, {"record": "doc-2", "value": "EUR 400"}], "EUR 1700", "money"),
            "sum of its inputs gives EUR 1650, not EUR 1700",
        ),
        (
            derive_in_train("sum", [{"record": "doc-1", "value": "EUR 1250"}, {"record": "doc-2", "value": "EUR 450"}], "EUR 1700", "money"),
            "input 'EUR 450' does not stand in 'doc-2'",
        ),
        (
            derive_in_train("sum", [{"record": "doc-1", "value": "EUR 1250"}, {"record": "doc-2", "value": "90 days"}], "EUR 1700", "money"),
            "sum cannot be computed: the inputs have different units: EUR, minutes",
        ),
        (
            derive_in_train("in_force", [{"record": "doc-1", "value": "30 days", "from": "2024-05-02"}], "30 days", "duration", on="2024-01-01"),
            "in_force cannot be computed: nothing was in force on 2024-01-01",
        ),
        (
            derive_in_train("exclude", [{"record": "doc-1", "value": "K-100", "covered": True}], "K-100", "name"),
            "exclude cannot be computed: exactly one input must have covered = false, and 0 have",
        ),
    ],
)  # fmt: skip
def test_a_derived_fact_that_does_not_follow_is_found(tiny_data: Path, change: Change, finding: str) -> None:
    edit(tiny_data, *TRAIN, change)

    assert any(finding in found for found in findings(tiny_data)), findings(tiny_data)


def test_a_damaged_line_is_a_finding_and_the_rest_is_still_checked(tiny_data: Path) -> None:
    with (tiny_data / "emails.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "mail-3"\n')
    edit(tiny_data, *CONTRACT, put("body", value=""))

    found = findings(tiny_data)

    assert any("emails.jsonl line 3: -: not valid JSON" in finding for finding in found)
    assert any("doc-1: the body is empty" in finding for finding in found)


def test_a_second_use_of_an_id_names_the_first(tiny_data: Path) -> None:
    path = tiny_data / "documents.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines, lines[0]]), "utf-8")

    assert any("doc-1: this id is already used at" in f and "documents.jsonl line 1" in f for f in findings(tiny_data))


def heldout_twin(folder: Path, change: Change) -> None:
    """A held-out copy of the training task, changed."""
    row = json.loads((folder / "tasks/train.jsonl").read_text("utf-8"))
    row.update(id="tiny-3", split="heldout")
    change(row)
    (folder / "tasks/heldout.jsonl").write_text(json.dumps(row) + "\n", "utf-8")


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (put("family", value="lookup"), "shares a fact with 'tiny-1'"),
        (put("facts", 0, "subject", value="The Oven"), "shares its required sources with 'tiny-1'"),
        (put("facts", 0, "value", value="61 days"), "shares subject and family with 'tiny-1'"),
    ],
)
def test_splits_that_share_something_are_found(tiny_data: Path, change: Change, finding: str) -> None:
    heldout_twin(tiny_data, change)

    assert any(f"tiny-3: {finding}" in found for found in findings(tiny_data)), findings(tiny_data)


def report(folder: Path) -> ValidationReport:
    return validate_data(folder)


def test_the_keyword_figures_are_counted_per_split(tiny_data: Path) -> None:
    heldout, train = report(tiny_data).keywords

    assert (heldout.split, heldout.tasks, heldout.found, heldout.single) == ("heldout", 1, ("tiny-2",), 1)
    assert (train.split, train.share, train.single_share) == ("train", 0.0, 0.0)


def test_too_many_keyword_answerable_tasks_are_a_finding(tiny_data: Path) -> None:
    problems = [finding.problem for finding in report(tiny_data).findings]

    assert "the question alone finds all records in 100% of tasks (allowed: 15%): ['tiny-2']" in problems
    assert "the question alone finds all records in 100% of single-source tasks (allowed: 25%): ['tiny-2']" in problems


def test_a_folder_without_records_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="emails.jsonl is not there"):
        validate_data(tmp_path)
