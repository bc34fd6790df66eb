"""The artifacts folder in one process: journals, whole files, identity, archive, and refusals."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gradient_rl.errors import ArtifactError, DataError, FolderInUseError, NothingToReadError, UsageError
from gradient_rl.runs import (
    Journal,
    RunIdentity,
    archive_earlier_run,
    canonical_json,
    digest,
    hold_folder,
    json_line,
    raise_damage,
    read_journal,
    refuse_changed,
    write_whole,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
IDENTITY = RunIdentity({"config": "c0ffee", "workspace": "abad1d", "tasks": "7a5c5", "seed": 7}, NOON)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "eval.weak.jsonl"


def records_of(path: Path) -> list[dict[str, object]]:
    return [record for _, record in read_journal(path)]


# Journals


def test_records_are_read_back_as_they_were_written(path: Path) -> None:
    with Journal(path, key=["task", "sample"]) as journal:
        journal.append({"task": "a", "sample": 0, "reward": 0.5})
        journal.append({"task": "a", "sample": 1, "reward": None})
        assert journal.keys == {("a", 0), ("a", 1)}
    assert list(read_journal(path)) == [
        (1, {"task": "a", "sample": 0, "reward": 0.5}),
        (2, {"task": "a", "sample": 1, "reward": None}),
    ]


def test_a_reopened_journal_knows_what_is_done(path: Path) -> None:
    for n in range(3):
        with Journal(path, key=["n"]) as journal:
            assert journal.keys == {(i,) for i in range(n)}
            journal.append({"n": n})


def test_a_key_is_never_written_twice(path: Path) -> None:
    with Journal(path, key=["task", "sample"]) as journal:
        journal.append({"task": "a", "sample": 0})
        with pytest.raises(DataError, match=r"eval\.weak\.jsonl, new record repeats the record of task 'a', sample 0"):
            journal.append({"task": "a", "sample": 0, "reward": 1.0})
    assert records_of(path) == [{"task": "a", "sample": 0}]


@pytest.mark.parametrize("record", [{"task": "a"}, {"task": "a", "sample": [0]}])
def test_a_record_without_its_key_is_refused(path: Path, record: dict[str, object]) -> None:
    with (
        Journal(path, key=["task", "sample"]) as journal,
        pytest.raises(DataError, match="'sample', a part of"),
    ):
        journal.append(record)
    assert path.read_bytes() == b""


def test_a_torn_tail_is_moved_aside_and_counted_and_the_next_record_stands_alone(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n{"n":1,"answer":"tor')
    with Journal(path, key=["n"]) as journal:
        assert (journal.keys, journal.torn) == ({(0,)}, 1)
        journal.append({"n": 1, "answer": "whole"})
    assert records_of(path) == [{"n": 0}, {"n": 1, "answer": "whole"}]
    assert path.with_name("eval.weak.jsonl.torn").read_bytes() == b'{"n":1,"answer":"tor\n'


def test_a_second_torn_tail_is_kept_beside_the_first(path: Path) -> None:
    for tail in (b'{"n":1,"a', b'{"n":1,"answer'):
        with path.open("ab") as file:
            file.write(tail)
        journal = Journal(path, key=["n"])
        journal.close()
    assert journal.torn == 2
    assert path.with_name("eval.weak.jsonl.torn").read_bytes() == b'{"n":1,"a\n{"n":1,"answer\n'


def test_a_tail_that_is_complete_but_for_its_newline_was_not_acknowledged_and_is_torn(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n{"n":1}')
    with Journal(path, key=["n"]) as journal:
        assert journal.keys == {(0,)}


def test_reading_leaves_a_torn_tail_alone(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n{"n":1')
    assert records_of(path) == [{"n": 0}]
    assert path.read_bytes() == b'{"n":0}\n{"n":1'


DAMAGE = {
    "half a record": b'{"n": 1, "answer": "to',
    "a list": b"[1]",
    "NaN": b'{"n": NaN}',
    "zeros": b"\0" * 40,
    "no UTF-8": b'{"n": "\xff\xfe"}',
    "deep nesting": b'{"n":' + b"[" * 100_000,
    "a huge number": b'{"n": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("line", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_is_named_with_its_file_and_the_rest_is_read(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"n":0}\n' + line + b'\n{"n":2}\n')
    faults: list[DataError] = []
    assert [n for n, _ in read_journal(path, faults.append)] == [1, 3]
    assert [str(f).startswith(f"{path} line 2 is damaged: ") for f in faults] == [True]


@pytest.mark.parametrize("line", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_stops_reading_and_opening_unless_asked_otherwise(path: Path, line: bytes) -> None:
    path.write_bytes(line + b"\n")
    with pytest.raises(DataError, match="line 1 is damaged"):
        list(read_journal(path))
    with pytest.raises(DataError, match="line 1 is damaged"):
        Journal(path, key=["n"])
    with Journal(path, ["n"], lambda _: None) as journal:
        assert journal.keys == set()


@pytest.mark.parametrize(("second", "words"), [(b'{"n":0}', "repeats the record of n 0"), (b"{}", "'n', a part of the key")])
def test_opening_names_the_line_whose_key_is_wrong(path: Path, second: bytes, words: str) -> None:
    path.write_bytes(b'{"n":0}\n' + second + b"\n")
    with pytest.raises(DataError, match=rf"eval\.weak\.jsonl line 2:? {words}"):
        Journal(path, key=["n"])
    faults: list[DataError] = []
    with Journal(path, ["n"], faults.append) as journal:
        assert (journal.keys, len(faults)) == ({(0,)}, 1)


def test_a_byte_order_mark_carriage_returns_and_blank_lines_do_no_harm(path: Path) -> None:
    path.write_bytes(b'\xef\xbb\xbf{"n":0}\r\n\r\n\n{"n":1}\r\n')
    assert list(read_journal(path)) == [(1, {"n": 0}), (4, {"n": 1})]


def test_a_journal_that_is_not_there_is_nothing_to_read(path: Path) -> None:
    with pytest.raises(NothingToReadError, match=r"eval\.weak\.jsonl is not there"):
        list(read_journal(path))


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = Journal(path, key=["n"])
    journal.close()
    journal.close()
    with pytest.raises(ArtifactError, match="it was closed, or an earlier write to it failed"):
        journal.append({"n": 0})


# JSON


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), {1, 2}, b"bytes"])
def test_what_is_no_json_is_refused(path: Path, value: object) -> None:
    with Journal(path, key=["n"]) as journal, pytest.raises(DataError, match="cannot be written as JSON"):
        journal.append({"n": 0, "value": value})
    with pytest.raises(DataError):
        digest(value)


def test_a_lone_surrogate_is_written_as_its_escape_and_read_back(path: Path) -> None:
    with Journal(path, key=["n"]) as journal:
        journal.append({"n": "\ud800", "answer": "naïve \udcff"})
    assert path.read_bytes() == '{"n":"\\ud800","answer":"naïve \\udcff"}\n'.encode()
    assert records_of(path) == [{"n": "\ud800", "answer": "naïve \udcff"}]


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [True, None]}) == digest({"b": [True, None], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_a_digest_is_the_sha256_of_the_canonical_json() -> None:
    assert canonical_json({"b": "é", "a": 0.5}) == b'{"a":0.5,"b":"\\u00e9"}'
    # printf '{"a":0.5,"b":"\\u00e9"}' | sha256sum
    assert digest({"b": "é", "a": 0.5}) == "a1481ed6c663f92bff8d5fe1fc6a1ad71613a4b4dc2237f6eea653314f3c0aa8"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, categories=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_every_json_value_survives_a_line_and_keeps_its_digest(value: object) -> None:
    line = json_line(value)
    assert line.count(b"\n") == 1
    assert digest(json.loads(line)) == digest(value)


# Whole files


def test_a_whole_file_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "eval.json", b"old")
    write_whole(tmp_path / "eval.json", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"eval.json": b"new"}


def test_a_temporary_file_that_a_killed_run_left_is_used_up(tmp_path: Path) -> None:
    (tmp_path / ".eval.json.tmp").write_bytes(b"left behind, and longer than what comes")
    write_whole(tmp_path / "eval.json", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"eval.json": b"new"}


def test_a_whole_file_can_come_in_pieces(tmp_path: Path) -> None:
    write_whole(tmp_path / "chats.jsonl", (f"{n}\n".encode() for n in range(3)))
    assert (tmp_path / "chats.jsonl").read_bytes() == b"0\n1\n2\n"


def test_a_file_that_another_process_is_just_writing_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_bytes(b"old")
    with (tmp_path / ".report.html.tmp").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"half of")
        with pytest.raises(FolderInUseError, match=r"report.html is just being written by another process; wait until it ends"):
            write_whole(tmp_path / "report.html", b"new")
    assert (tmp_path / ".report.html.tmp").read_bytes() == b"half of"
    assert (tmp_path / "report.html").read_bytes() == b"old"


def test_a_file_that_took_its_name_in_the_meantime_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_flock, ended = fcntl.flock, []

    def flock(fd: int, operation: int) -> None:
        if not ended:  # the other writer ends between our opening and our locking
            os.write(fd, b"whole")
            ended.append((tmp_path / ".eval.json.tmp").rename(tmp_path / "eval.json"))
        real_flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with (tmp_path / "eval.json").open("wb"), pytest.raises(RuntimeError):
        write_whole(tmp_path / "eval.json", _breaking_off())
    assert (tmp_path / "eval.json").read_bytes() == b"whole"


def _breaking_off() -> Generator[bytes]:
    yield b"new"
    raise RuntimeError


def test_a_whole_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "eval.json", b"new")
    (tmp_path / "other").touch()
    assert (tmp_path / "eval.json").stat().st_mode == (tmp_path / "other").stat().st_mode


# What is on the disk, and when


@contextmanager
def recorded_calls() -> Generator[list[str]]:
    """Note the system calls that make a file durable, in their order."""
    calls: list[str] = []

    def recorded[**P, R](call: Callable[P, R]) -> Callable[P, R]:
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            calls.append(call.__name__)
            return call(*args, **kwargs)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        for call in (os.write, os.fsync, os.replace, os.ftruncate):
            patch.setattr(os, call.__name__, recorded(call))
        yield calls


def test_a_record_is_synced_before_it_is_acknowledged(path: Path) -> None:
    with Journal(path, key=["n"]) as journal, recorded_calls() as calls:
        journal.append({"n": 0})
    assert calls == ["write", "fsync"]


def test_a_whole_file_is_synced_before_it_takes_the_name_and_the_folder_after(tmp_path: Path) -> None:
    with recorded_calls() as calls:
        write_whole(tmp_path / "eval.json", b"new")
    assert calls == ["write", "fsync", "replace", "fsync"]


def test_a_torn_tail_is_safe_elsewhere_before_it_is_cut_off(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n{"n"')
    with recorded_calls() as calls, Journal(path, key=["n"]):
        pass
    assert calls == ["write", "fsync", "replace", "fsync", "ftruncate", "fsync", "fsync"]


def test_what_a_killed_process_wrote_and_did_not_sync_is_synced_on_opening(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n')
    with recorded_calls() as calls, Journal(path, key=["n"]):
        pass
    assert calls == ["fsync", "fsync"]


# What the file system refuses


@contextmanager
def full_disk() -> Generator[None]:
    """Send every write to /dev/full, after a first short one that the disk still takes."""
    real_write, device, room = os.write, os.open("/dev/full", os.O_WRONLY), [3]

    def write(fd: int, data: bytes) -> int:
        return real_write(fd, data[: room.pop()]) if room else real_write(device, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        yield
    os.close(device)


def test_a_full_disk_leaves_the_old_whole_file_and_no_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_bytes(b"old")
    words = r"eval\.json cannot be written: No space left on device; free some space"
    with full_disk(), pytest.raises(ArtifactError, match=words):
        write_whole(tmp_path / "eval.json", b"new and long")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"eval.json": b"old"}


def test_a_full_disk_leaves_the_journal_without_the_record(path: Path) -> None:
    with Journal(path, key=["n"]) as journal:
        journal.append({"n": 0})
        words = r"eval\.weak\.jsonl cannot be written: No space left on device; .* --resume"
        with full_disk(), pytest.raises(ArtifactError, match=words):
            journal.append({"n": 1})
        assert journal.keys == {(0,)}
        with pytest.raises(ArtifactError, match="an earlier write to it failed; find out why"):
            journal.append({"n": 2})
    assert path.read_bytes() == b'{"n":0}\n'


def test_a_failed_sync_is_no_acknowledgement(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = Journal(path, key=["n"])
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArtifactError, match="Input/output error"):
        journal.append({"n": 0})
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EACCES, "make it writable, or give another folder with --artifacts"),
        (errno.EROFS, "make it writable, or give another folder with --artifacts"),
        (errno.EDQUOT, "free some of your disk quota, then run it again"),
        (errno.EFBIG, "raise the file size limit"),
        (errno.EIO, "check that path, or give another folder with --artifacts"),
    ],
)
def test_each_refusal_names_the_path_and_a_remedy(path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    for act in (lambda: Journal(path, key=["n"]), lambda: write_whole(path, b"")):
        with pytest.raises(ArtifactError) as told:
            act()
        assert told.value.exit_code == 74
        assert str(told.value).startswith(f"{path} cannot be ")
        assert remedy in str(told.value)


def test_a_file_where_the_folder_should_be_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "artifacts").touch()
    with (
        pytest.raises(ArtifactError, match="artifacts cannot be prepared: File exists"),
        hold_folder(tmp_path / "artifacts"),
    ):
        pass


def test_a_folder_that_cannot_be_synced_at_all_is_still_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, b'{"n":0}\n')
    with Journal(path, key=["n"]) as journal:
        assert journal.keys == {(0,)}


# One writer


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "artifacts"
    with hold_folder(folder):
        second = hold_folder(folder)
        with pytest.raises(FolderInUseError, match=f"in use by process {os.getpid()}; wait until it ends"):
            second.__enter__()
    with hold_folder(folder):
        pass


def test_a_pid_file_that_was_left_behind_blocks_nobody(tmp_path: Path) -> None:
    for left in ("1", "not a number", ""):
        (tmp_path / ".lock").touch()
        (tmp_path / ".lock.pid").write_text(left)
        with hold_folder(tmp_path):
            assert (tmp_path / ".lock.pid").read_text() == str(os.getpid())
    assert not (tmp_path / ".lock.pid").exists()


def test_the_folder_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), hold_folder(tmp_path):
        raise RuntimeError
    with hold_folder(tmp_path):
        pass


# Identity


def test_an_identity_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    IDENTITY.save(tmp_path / "run.json")
    assert RunIdentity.load(tmp_path / "run.json") == IDENTITY


def test_the_same_inputs_have_the_same_run_id_whenever_they_run() -> None:
    later = RunIdentity(dict(sorted(IDENTITY.fields.items(), reverse=True)), NOON + timedelta(days=1))
    assert later.run_id == IDENTITY.run_id == digest(dict(IDENTITY.fields))[:12]
    assert RunIdentity({**IDENTITY.fields, "seed": 8}, NOON).run_id != IDENTITY.run_id


def test_a_label_is_the_start_in_utc_and_the_run_id() -> None:
    summer = RunIdentity(IDENTITY.fields, NOON.astimezone(timezone(timedelta(hours=2))))
    assert summer.label == IDENTITY.label == f"20260301T120000Z-{IDENTITY.run_id}"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b'{"schema_version":2,"started_at":"2026-03-01T12:00:00+00:00","fields":{}}\n',
        b'{"schema_version":1,"started_at":"2026-03-01T12:00:00","fields":{}}\n',
        b'{"schema_version":1,"started_at":"noon","fields":{}}\n',
        b'{"schema_version":1,"started_at":"2026-03-01T12:00:00+00:00","fields":7}\n',
        b'{"schema_version":1,"started_at":"2026-03-01T12:00:00+00:00","fields":{"seed":[7]}}\n',
        b'{"schema_version":1,"started_at":"2026-03-01T12:00:00+00:00","fields":{},"notes":{"max_steps":[3]}}\n',
    ],
)
def test_a_damaged_identity_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(DataError, match=r"run\.json"):
        RunIdentity.load(tmp_path / "run.json")


def test_a_run_resumes_as_what_it_was_whenever_that_is() -> None:
    refuse_changed(IDENTITY, RunIdentity(dict(IDENTITY.fields), NOON + timedelta(hours=5)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({**IDENTITY.fields, "seed": 8}, "seed was 7 when the run began and is 8 now"),
        (
            {**IDENTITY.fields, "workspace": "1", "seed": 8},
            "workspace was 'abad1d' when the run began and is '1' now",
        ),
        ({**IDENTITY.fields, "split": "train"}, "split was 'absent' when the run began and is 'train' now"),
        ({"config": "c0ffee"}, "workspace was 'abad1d' when the run began and is 'absent' now"),
    ],
)
def test_resuming_a_changed_run_names_the_first_field_and_both_values(fields: dict[str, str | int], words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        refuse_changed(IDENTITY, RunIdentity(fields, NOON))
    assert told.value.exit_code == 2


# Earlier runs


def earlier_run(folder: Path, name: str = "eval.weak.jsonl") -> None:
    IDENTITY.save(folder / "eval.run.json")
    (folder / name).write_bytes(b"records")
    (folder / f"{name}.torn").write_bytes(b"tail")
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "train.json").write_bytes(b"another command's")


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_earlier_run_moves_whole_and_takes_nothing_of_another_command(tmp_path: Path) -> None:
    earlier_run(tmp_path)
    home = archive_earlier_run(tmp_path, "eval.run.json", ["eval.json", "eval.*.jsonl"])
    assert home == tmp_path / "runs" / IDENTITY.label
    assert tree(tmp_path / "runs" / IDENTITY.label) == {
        "eval.run.json",
        "eval.weak.jsonl",
        "eval.weak.jsonl.torn",
    }
    assert (tmp_path / "checkpoints").is_dir()
    assert (tmp_path / "train.json").read_bytes() == b"another command's"


def test_checkpoints_move_when_they_are_named(tmp_path: Path) -> None:
    earlier_run(tmp_path)
    (tmp_path / "checkpoints" / "40").mkdir()
    (tmp_path / "checkpoints" / "40" / "weights.json").write_bytes(b"{}")
    home = archive_earlier_run(tmp_path, "eval.run.json", ["checkpoints"])
    assert home is not None
    assert (home / "checkpoints" / "40" / "weights.json").read_bytes() == b"{}"


def test_a_folder_without_an_earlier_run_is_left_as_it_is(tmp_path: Path) -> None:
    assert archive_earlier_run(tmp_path, "eval.run.json", ["eval.*.jsonl"]) is None
    assert list(tmp_path.iterdir()) == []


def test_two_runs_with_the_same_label_are_both_kept(tmp_path: Path) -> None:
    homes: list[Path | None] = []
    for _ in range(3):
        earlier_run(tmp_path)
        homes.append(archive_earlier_run(tmp_path, "eval.run.json", ["eval.*.jsonl"]))
    assert [home.name for home in homes if home] == [f"{IDENTITY.label}{end}" for end in ("", "-2", "-3")]
    assert sum(path.name == "eval.weak.jsonl" for path in tmp_path.rglob("*")) == 3


def test_files_without_a_readable_manifest_are_kept_under_their_time(tmp_path: Path) -> None:
    earlier_run(tmp_path)
    (tmp_path / "eval.run.json").write_bytes(b"\0\0\0\n")
    os.utime(tmp_path / "eval.weak.jsonl", (NOON.timestamp(), NOON.timestamp()))
    home = archive_earlier_run(tmp_path, "eval.run.json", ["eval.*.jsonl"])
    assert home == tmp_path / "runs" / "20260301T120000Z-unknown"


# Any history of appends and kills


class JournalMachine(RuleBasedStateMachine):
    """Append, kill, reopen: the model is the keys that were acknowledged, or else whole on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "run.jsonl"
        self.journal = Journal(self.path, key=["n"])
        self.present: list[int] = []
        self.torn: list[bytes] = []

    @rule(text=st.text(max_size=20))
    def append(self, text: str) -> None:
        n = len(self.present)
        self.journal.append({"n": n, "text": text})
        self.present.append(n)

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        with pytest.raises(DataError, match="repeats the record"):
            self.journal.append({"n": data.draw(st.sampled_from(self.present))})

    @rule(text=st.text(max_size=20), data=st.data())
    def kill_while_appending(self, text: str, data: st.DataObject) -> None:
        line = json_line({"n": len(self.present), "text": text})
        kept = data.draw(st.integers(0, len(line)), label="bytes that reached the disk")
        with self.path.open("ab") as file:
            file.write(line[:kept])
        if kept == len(line):
            self.present.append(len(self.present))
        elif kept and self.torn[-1:] != [line[:kept]]:
            self.torn.append(line[:kept])
        self.reopen()

    @precondition(lambda self: self.torn)
    @rule()
    def kill_between_moving_a_torn_tail_and_cutting_it(self) -> None:
        with self.path.open("ab") as file:
            file.write(self.torn[-1])
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.journal = Journal(self.path, ["n"], raise_damage)

    @invariant()
    def every_acknowledged_record_is_there_once(self) -> None:
        assert [record["n"] for _, record in read_journal(self.path)] == self.present
        assert self.journal.keys == {(n,) for n in self.present}

    @invariant()
    def every_torn_tail_is_kept(self) -> None:
        torn = self.path.with_name("run.jsonl.torn")
        assert (torn.read_bytes() if torn.exists() else b"") == b"".join(tail + b"\n" for tail in self.torn)
        assert self.journal.torn == len(self.torn)

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()


JournalMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestJournalMachine = JournalMachine.TestCase
