"""A state machine over a real run folder: append, kill, damage, resume, read, archive, in any order.

The model is the set of acknowledged records. A kill is a file cut at any byte behind the last acknowledged one, with or
without the first half of the repair that comes after it.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from gradient_rl.errors import DataError, FolderInUseError, UsageError
from gradient_rl.runs import (
    Journal,
    RunIdentity,
    archive_earlier_run,
    hold_folder,
    json_line,
    read_journal,
    refuse_changed,
    write_whole,
)

KEY = ("run_id", "n")
JOURNAL, WHOLE, MANIFEST = "eval.weak.jsonl", "eval.json", "eval.run.json"
PATTERNS = ("eval.json", "eval.*.jsonl")
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)

texts = st.one_of(st.text(max_size=40), st.sampled_from(["\n", "\ud800", "\x00", "é" * 3000, '"}\n{"n":0}']))
tails = st.one_of(
    st.binary(min_size=1, max_size=30).map(lambda b: b.replace(b"\n", b"")).filter(bool),
    st.sampled_from([b"\0" * 4096, b'{"n":1', b"\xed\xa0\x80", b"null", b"\r", b"\xef\xbb\xbf{}"]),
)
lines = st.sampled_from(
    [b"null", b"[]", b"{", b"\0\0\0", b'{"n":NaN}', b'{"n":1e999}', b"[" * 9000, b"\xff", b'{"run_id":[],"n":0}']
)

type Model = dict[int, str]


class RunFolder(RuleBasedStateMachine):
    """See the module."""

    counts: ClassVar[Counter[str]] = Counter()
    """Over all runs of the machine: what was injected, acknowledged, lost or there twice."""

    def __init__(self) -> None:
        super().__init__()
        in_memory = Path("/dev/shm")  # where an fsync costs nothing; whether it is called is tested elsewhere
        self.folder = Path(tempfile.mkdtemp(prefix="run-folder-", dir=in_memory if in_memory.is_dir() else None))
        self.holding: ExitStack | None = None
        self.journal: Journal | None = None
        self.present: Model = {}
        """Records that have to be there: acknowledged, or written whole by a process that was killed before it could say so."""
        self.faults = 0
        """Complete lines of the journal that are no record."""
        self.torn: list[bytes] = []
        self.tail = b""
        self.whole: bytes | None = None
        self.kept: dict[Path, bytes] = {}
        """Files of earlier runs, where they were put away."""
        self.number = 0
        self.run = 0

    @property
    def path(self) -> Path:
        return self.folder / JOURNAL

    @property
    def identity(self) -> RunIdentity:
        return RunIdentity({"seed": self.run}, BEGAN + timedelta(seconds=self.run))

    @initialize()
    def begin(self) -> None:
        self.resume()
        self.identity.save(self.folder / MANIFEST)

    @precondition(lambda self: self.journal is None)
    @rule()
    def resume(self) -> None:
        """Open the folder again: a torn tail is moved aside, and what was acknowledged is known."""
        self.holding = ExitStack()
        self.holding.enter_context(hold_folder(self.folder))
        faults: list[DataError] = []
        self.journal = Journal(self.path, KEY, faults.append)
        self.holding.callback(self.journal.close)
        if self.tail and (not self.torn or self.torn[-1] != self.tail):
            self.torn.append(self.tail)
        self.tail = b""
        assert {n for _, n in self.journal.keys} == set(self.present)
        assert len(faults) == self.faults
        assert self.journal.torn == len(self.torn)
        if (self.folder / MANIFEST).exists():
            refuse_changed(RunIdentity.load(self.folder / MANIFEST), self.identity)

    @precondition(lambda self: self.journal is not None)
    @rule(bodies=st.lists(texts, min_size=1, max_size=3))
    def append(self, bodies: Sequence[str]) -> None:
        records = self._records(bodies)
        assert self.journal is not None
        self.journal.append(*records)
        self._know(records)
        RunFolder.counts["acknowledged"] += len(records)

    @precondition(lambda self: self.journal is not None and self.present)
    @rule(place=st.integers(min_value=0), body=texts)
    def append_again(self, place: int, body: str) -> None:
        """A key that is there is refused, and the record before it in the same batch is not written either."""
        n = list(self.present)[place % len(self.present)]
        assert self.journal is not None
        with pytest.raises(DataError, match="repeats the record"):
            self.journal.append(self._records([body])[0], {"run_id": f"run-{self.run}", "n": n, "body": body})

    @precondition(lambda self: self.journal is not None)
    @rule(
        bodies=st.lists(texts, max_size=3),
        share=st.one_of(st.just(1.0), st.floats(min_value=0, max_value=1)),
        halfway=st.booleans(),
    )
    def kill(self, bodies: Sequence[str], share: float, halfway: bool) -> None:
        """End the process within an append, often just before its last newline; or, `halfway`, within the repair after it."""
        records = self._records(bodies)
        self._close()
        data = b"".join(json_line(record) for record in records)
        written = data[:-1] if share == 1 else data[: round(share * len(data))]
        whole = written[: written.rfind(b"\n") + 1]
        self._add(written)
        self._know(records[: whole.count(b"\n")])
        self.tail = written[len(whole) :]
        if halfway and self.tail:
            moved = b"".join(torn + b"\n" for torn in self.torn)
            (self.folder / f"{JOURNAL}.torn").write_bytes(moved + self.tail + b"\n")
            self.torn.append(self.tail)
        RunFolder.counts["faults"] += 1

    @precondition(lambda self: self.journal is None and not self.tail)
    @rule(tail=tails)
    def tear(self, tail: bytes) -> None:
        """Put bytes without a newline behind the last record, as a power failure may."""
        self._add(tail)
        self.tail = tail
        RunFolder.counts["faults"] += 1

    @precondition(lambda self: self.journal is None and not self.tail)
    @rule(line=lines)
    def damage(self, line: bytes) -> None:
        """Put a complete line that is no record behind the last one."""
        self._add(line + b"\n")
        self.faults += 1
        RunFolder.counts["faults"] += 1

    @precondition(lambda self: self.journal is None and self.faults)
    @rule()
    def refuse_to_resume_blindly(self) -> None:
        """Without somebody to tell, a damaged line stops the resume, and every complete line stays."""
        before = self.path.read_bytes()
        with pytest.raises(DataError, match=JOURNAL):
            Journal(self.path, KEY)
        after = self.path.read_bytes()
        assert after == before[: before.rfind(b"\n") + 1]
        if self.tail and (not self.torn or self.torn[-1] != self.tail):
            self.torn.append(self.tail)
        self.tail = b""

    @precondition(lambda self: self.journal is not None)
    @rule()
    def start_twice(self) -> None:
        with pytest.raises(FolderInUseError), hold_folder(self.folder):
            pass

    @precondition(lambda self: self.journal is not None)
    @rule()
    def resume_as_another(self) -> None:
        other = RunIdentity({"seed": self.run + 1}, BEGAN)
        with pytest.raises(UsageError, match="--resume: seed was"):
            refuse_changed(RunIdentity.load(self.folder / MANIFEST), other)

    @precondition(lambda self: self.journal is not None)
    @rule(content=st.binary(max_size=60), left=st.one_of(st.none(), st.binary(max_size=20)))
    def save(self, content: bytes, left: bytes | None) -> None:
        """Replace the whole file; then, if `left`, die within the next replacement, whose temporary file stays."""
        write_whole(self.folder / WHOLE, content)
        self.whole = content
        if left is not None:
            (self.folder / f".{WHOLE}.tmp").write_bytes(left)

    @precondition(lambda self: self.journal is not None)
    @rule()
    def begin_anew(self) -> None:
        """Start another run: the earlier one's files are put away as they are."""
        self._close()
        with hold_folder(self.folder):
            files = [path for path in self.folder.glob("eval.*") if path.name != MANIFEST]
            before = {path.name: path.read_bytes() for path in files}
            home = archive_earlier_run(self.folder, MANIFEST, PATTERNS)
            assert home is not None
            moved = {home / name: content for name, content in before.items()}
            assert not self.kept.keys() & moved.keys()
            self.kept |= moved
            self.run += 1
            self.identity.save(self.folder / MANIFEST)
        self.present, self.faults, self.torn, self.tail, self.whole = {}, 0, [], b"", None
        self.resume()

    @invariant()
    def nothing_is_lost_and_nothing_is_there_twice(self) -> None:
        """Read as a report does, from a folder that a run may hold: exactly the model, in its order."""
        if not self.path.exists():
            return
        before = self.path.read_bytes()
        faults: list[DataError] = []
        records = [record for _, record in read_journal(self.path, faults.append)]
        found = [(record["n"], record["body"]) for record in records if isinstance(record.get("run_id"), str)]
        assert found == [(n, self._as_read(body)) for n, body in self.present.items()]
        assert len(faults) <= self.faults  # a line whose key alone is damaged is a fault to the journal and none to a reader
        assert self.path.read_bytes() == before

    @invariant()
    def whole_files_are_whole(self) -> None:
        if self.whole is not None:
            assert (self.folder / WHOLE).read_bytes() == self.whole
        for path, content in self.kept.items():
            assert path.read_bytes() == content
        torn = self.folder / f"{JOURNAL}.torn"
        if self.journal is not None and self.torn:
            assert torn.read_bytes() == b"".join(tail + b"\n" for tail in self.torn)

    def teardown(self) -> None:
        self._close()
        shutil.rmtree(self.folder)

    def _records(self, bodies: Sequence[str]) -> list[dict[str, object]]:
        first, self.number = self.number, self.number + len(bodies)
        return [{"run_id": f"run-{self.run}", "n": first + i, "body": body} for i, body in enumerate(bodies)]

    def _know(self, records: Sequence[Mapping[str, object]]) -> None:
        self.present |= {int(str(record["n"])): str(record["body"]) for record in records}

    @staticmethod
    def _as_read(body: str) -> str:
        return json.loads(json.dumps(body))

    def _add(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def _close(self) -> None:
        if self.holding is not None:
            self.holding.close()
        self.holding = self.journal = None


def one_round(rng: random.Random, _: Path) -> dict[str, int]:
    """A round for the torture: twenty runs of the machine, each of up to a hundred steps."""
    RunFolder.counts.clear()
    profile = settings(
        max_examples=20, stateful_step_count=100, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(seed(rng.getrandbits(64))(type("Seeded", (RunFolder,), {})), settings=profile)
    return {"rounds": 20, **RunFolder.counts}
