from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.worlds.folder import whole_folder


def write_world(folder: Path, text: str = "old", overwrite: bool = False) -> None:
    with whole_folder(folder, overwrite) as written:
        (written / "world.json").write_text(text)


def write_half(folder: Path, stop: type[BaseException]) -> None:
    (folder / "emails.jsonl").write_text("half")
    raise stop


def test_the_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "far" / "away") as written:
        (written / "world.json").write_text("{}")
        assert not (tmp_path / "far").exists()

    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == ["far/away/world.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["far"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_an_unfinished_folder(tmp_path: Path, stop: type[BaseException]) -> None:
    with pytest.raises(stop), whole_folder(tmp_path / "far" / "world") as written:
        write_half(written, stop)

    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_folder_leaves_the_earlier_one_as_it_was(tmp_path: Path) -> None:
    write_world(tmp_path / "world")
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "world", overwrite=True):
        raise KeyboardInterrupt

    assert (tmp_path / "world" / "world.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    write_world(tmp_path / "world")

    assert (tmp_path / "world" / "world.json").exists()


def test_an_earlier_generation_is_replaced_when_asked_for(tmp_path: Path) -> None:
    write_world(tmp_path / "world")
    with pytest.raises(UsageError, match="holds an earlier generation; add --overwrite"):
        write_world(tmp_path / "world", "new")
    write_world(tmp_path / "world", "new", overwrite=True)

    assert (tmp_path / "world" / "world.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and holds no earlier generation"):
        write_world(tmp_path, overwrite=True)


def test_a_generation_with_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    write_world(tmp_path / "world")
    (tmp_path / "world" / "tasks").mkdir()
    (tmp_path / "world" / "tasks" / "mine.jsonl").write_text("my own tasks")
    with pytest.raises(UsageError, match="also holds 'tasks/mine.jsonl', which no generation wrote"):
        write_world(tmp_path / "world", overwrite=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "world").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_world(tmp_path / "world", overwrite=True)
