"""Names that become files, what is unpacked, and what a server takes requests for."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

import gradient_rl
from gradient_rl.errors import UsageError
from gradient_rl.policies.catalog import Checkpoint, Entry, Player, find_player, saved_states
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.runs import RunIdentity, archive_earlier_run
from gradient_rl.schema.workspace import Document
from tests.untrusted.hostile import HOSTILE, task

SOURCES = sorted(Path(gradient_rl.__file__).parent.rglob("*.py"))
TRAVERSALS = ["../../etc/passwd", "..", "a/b", "a\\b", "/etc/passwd", "a\0b", "a\n", "", "x" * 81, "\u202egnp", "a b", "~"]
UNPACKERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


class Named(WeakPolicy):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


@pytest.mark.parametrize("name", [name for name in TRAVERSALS if name != ".."])  # of allowed letters, and never a name alone
def test_the_id_of_a_record_or_task_is_plain(name: str) -> None:
    fields = {"id": name, "kind": "policy", "title": "t", "author": "a", "date": "2024-01-15", "status": "final", "body": "b"}

    with pytest.raises(ValidationError):
        Document.model_validate(fields)
    with pytest.raises(ValidationError):
        task(name, "train")


@pytest.mark.parametrize("name", [*TRAVERSALS, "chat:../../x", HOSTILE])
def test_a_policy_of_any_name_is_saved_under_a_plain_one(name: str) -> None:
    slug = Player(Named(name), Checkpoint("../../x")).slug

    assert re.fullmatch(r"[A-Za-z0-9._-]{1,80}", slug)


def test_a_checkpoint_is_found_by_its_step_alone(tmp_path: Path) -> None:
    for name in (
        "p-000001.json",
        "p-0000002.json",
        "p-1.json",
        "p-..json",
        "p-000003.json.tmp",
        "p-\u0661\u0661\u0661\u0661\u0661\u0661.json",
    ):
        (tmp_path / name).touch()
    entry = Entry("p", lambda *_: WeakPolicy(), learned=True, saved=lambda folder: saved_states(folder, "p"))

    assert [each.label for each in saved_states(tmp_path, "p")] == ["1", "2"]
    with pytest.raises(UsageError, match="has no checkpoint"):
        find_player("p@../../1", tmp_path, catalog=[entry])


def test_an_earlier_run_is_put_away_under_a_name_of_our_own(tmp_path: Path) -> None:
    RunIdentity({"seed": "../../x"}, datetime(2025, 1, 2, tzinfo=UTC)).save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text("utf-8")
    (tmp_path / "m.json").write_text(re.sub(r'"run_id":"[^"]*"', '"run_id":"../../../evil"', text))
    moved = archive_earlier_run(tmp_path, "m.json", [])

    assert moved is not None
    assert moved.parent == tmp_path / "runs"
    assert re.fullmatch(r"20250102T000000Z-[0-9a-f]{12}", moved.name)


def imported(tree: ast.AST) -> set[str]:
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_nothing_is_read_that_could_run_code() -> None:
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}

        assert not imported(tree) & UNPACKERS, path
        assert not calls & {"eval", "exec", "torch.load", "yaml.load", "os.system"}, path
        assert "allow_pickle=True" not in path.read_text("utf-8"), path
        assert "shell=True" not in path.read_text("utf-8"), path


def test_no_server_listens_beyond_this_machine() -> None:
    for path in SOURCES:
        assert not re.search(r"0\.0\.0\.0|INADDR_ANY|TCPSite\([^)]*None", path.read_text("utf-8")), path
