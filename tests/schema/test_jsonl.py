from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradient_rl.errors import DataError
from gradient_rl.schema.jsonl import parse_line, read_json, read_records, to_line
from gradient_rl.schema.trajectory import Trajectory
from gradient_rl.schema.workspace import Document
from tests.tiny import NOTICE_TASK, RECORDS
from tests.trajectories import trajectory


def test_records_survive_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    documents = [record for record in RECORDS if isinstance(record, Document)]
    path.write_text("".join(to_line(document) for document in documents), "utf-8")

    assert read_records(path, Document) == documents


def test_a_task_keeps_the_word_from_in_its_file() -> None:
    derivation = {"operation": "latest", "inputs": [{"record": "r", "value": "EUR 1", "from": "2025-01-01"}]}
    fields = json.loads(to_line(NOTICE_TASK))
    fields["facts"][0]["derivation"] = derivation
    line = to_line(parse_line(json.dumps(fields), type(NOTICE_TASK), "line 1"))

    assert '"from":"2025-01-01"' in line


def test_a_lone_surrogate_in_an_answer_is_written_as_its_escape() -> None:
    line = to_line(trajectory("half an emoji: \ud83d").model_copy(update={"answer": "half an emoji: \ud83d"}))

    assert "\\ud83d" in line
    assert json.loads(line)["task_id"] == "tiny-1"


@pytest.mark.parametrize("line", ["[]", "7", "null", "nothing", '{"id": 1', "\x00\x00", "[" * 5000])
def test_what_is_no_record_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(DataError, match="^file line 3: "):
        parse_line(line, Trajectory, "file line 3")


def test_json_is_read_with_a_lone_surrogate_and_a_byte_order_mark() -> None:
    assert read_json(b'\xef\xbb\xbf{"a":["\\ud800",-1.5,' + b"9" * 308 + b"]}") == {"a": ["\ud800", -1.5, 10**308 - 1]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"NaN", "NaN is no JSON"),
        (b"[-Infinity]", "-Infinity is no JSON"),
        (b"-1e999", "the number -1e999 is too large"),
        (b"1" * 309, "a number has 309 digits"),
        (b"7" * 9000, "a number has 9000 digits"),
        (b"[" * 100_000, "its brackets are nested too deeply"),
        (b'{"a":' * 100_000, "its brackets are nested too deeply"),
        (b'"\xed\xa0\x80"', "byte 1 is not UTF-8"),
        (b"", "Expecting value"),
    ],
)
def test_what_only_python_takes_for_json_is_refused_in_plain_words(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_json(data)
