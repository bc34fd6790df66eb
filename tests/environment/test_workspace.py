from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.environment.workspace import load_tasks, load_workspace
from gradient_rl.errors import DataError, NothingToReadError


def test_records_are_loaded_by_id(tiny_data: Path) -> None:
    workspace = load_workspace(tiny_data)

    assert [email.id for email in workspace.emails] == ["mail-1", "mail-2"]
    assert [document.id for document in workspace.documents] == ["doc-1", "doc-2", "doc-3", "doc-4"]


def test_the_digest_depends_on_the_records_and_not_on_their_order(tiny_data: Path) -> None:
    before = load_workspace(tiny_data).digest
    file = tiny_data / "documents.jsonl"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(reversed(lines)), "utf-8")
    assert load_workspace(tiny_data).digest == before

    file.write_text("".join(lines).replace("EUR 400", "EUR 401"), "utf-8")
    assert load_workspace(tiny_data).digest != before


def test_a_byte_order_mark_and_crlf_are_read(tiny_data: Path) -> None:
    file = tiny_data / "emails.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))

    assert len(load_workspace(tiny_data).emails) == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-40], r"emails.jsonl line 2: not valid JSON"),
        (lambda text: text.replace('"subject":"lunch",', ""), r"emails.jsonl line 2: 'mail-2', field 'subject': Field required"),
        (lambda text: text.replace("mail-2", "mail-1"), r"line 2: id 'mail-1' is already used at .*emails.jsonl line 1"),
        (lambda text: text.replace('"lunch"', '"lunch","mood":"hungry"'), r"field 'mood': Extra inputs are not permitted \(got \"hungry\"\)"),
        (lambda text: text.replace("+00:00", "").replace("Z", ""), r"line 1: 'mail-1', field 'sent_at': Input should have timezone info"),
        (lambda text: text.replace('"mail-2"', '"../mail"'), r"field 'id': String should match pattern"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_named(tiny_data: Path, damage, message: str) -> None:
    file = tiny_data / "emails.jsonl"
    file.write_text(damage(file.read_text("utf-8")), "utf-8")

    with pytest.raises(DataError, match=message):
        load_workspace(tiny_data)


def test_a_file_that_is_no_text_is_named(tiny_data: Path) -> None:
    (tiny_data / "documents.jsonl").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(DataError, match="documents.jsonl is not UTF-8 text: byte 0"):
        load_workspace(tiny_data)


def test_a_missing_file_is_named(tiny_data: Path) -> None:
    (tiny_data / "documents.jsonl").unlink()

    with pytest.raises(NothingToReadError, match="documents.jsonl is not there"):
        load_workspace(tiny_data)


def test_an_empty_task_file_is_nothing_to_read(tiny_data: Path) -> None:
    (tiny_data / "tasks" / "train.jsonl").write_text("\n", "utf-8")

    with pytest.raises(NothingToReadError, match="holds no tasks"):
        load_tasks(tiny_data / "tasks" / "train.jsonl")


def test_a_task_that_contradicts_itself_is_named(tiny_data: Path) -> None:
    file = tiny_data / "tasks" / "heldout.jsonl"
    file.write_text(file.read_text("utf-8").replace('"asked_kind":"money"', '"asked_kind":null'), "utf-8")

    with pytest.raises(DataError, match=r"heldout.jsonl line 1: 'tiny-2', field 'facts.0': absent fact 'tiny-2-f1' needs"):
        load_tasks(file)
