from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.evaluation.lineup import Lineup, line_up
from gradient_rl.policies.catalog import CATALOG, Checkpoint, Entry
from tests.evaluation.playing import ELSEWHERE, LEARNED, Empty, save_step


def names(lineup: Lineup) -> list[str]:
    return [player.name for player in lineup.players]


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    for step, skill in ((0, "empty"), (20, "empty"), (40, "right")):
        save_step(tmp_path, step, skill)
    return tmp_path


def test_by_default_the_heuristic_policy_is_held_against_the_weak_one(tmp_path: Path) -> None:
    lineup = line_up("weak", (), tmp_path)

    assert names(lineup) == ["weak", "heuristic"]
    assert lineup.pairs == (("weak", "heuristic"),)
    assert lineup.candidates == ("heuristic",)


def test_learned_checkpoints_that_are_there_play_too_and_remote_ones_do_not(trained: Path) -> None:
    lineup = line_up("weak", (), trained, catalog=(*CATALOG, LEARNED, ELSEWHERE))

    assert names(lineup) == ["weak", "heuristic", "learned@40", "learned@0"]
    assert lineup.pairs == (
        ("weak", "heuristic"),
        ("weak", "learned@40"),
        ("weak", "learned@0"),
        ("learned@0", "learned@40"),
    )


def test_a_base_that_was_only_brought_along_is_no_candidate(trained: Path) -> None:
    assert line_up("weak", ("learned@latest",), trained, catalog=(*CATALOG, LEARNED)).candidates == ("learned@40",)


@pytest.mark.parametrize(
    ("baseline", "policies"),
    [
        ("weak", ("learned@latest",)),
        ("weak", ("learned@40", "learned@20")),
        ("heuristic", ("weak", "learned")),
        ("learned@latest", ("weak",)),
        ("learned@20", ("learned@latest",)),
    ],
)
def test_the_latest_is_paired_with_its_base_whatever_the_baseline(
    trained: Path, baseline: str, policies: tuple[str, ...]
) -> None:
    assert ("learned@0", "learned@40") in line_up(baseline, policies, trained, catalog=(*CATALOG, LEARNED)).pairs


def test_a_pair_is_compared_once(trained: Path) -> None:
    lineup = line_up("learned@0", ("learned@latest",), trained, catalog=(*CATALOG, LEARNED))

    assert names(lineup) == ["learned@0", "learned@40"]
    assert lineup.pairs == (("learned@0", "learned@40"),)


def test_a_remote_policy_plays_when_it_is_named(tmp_path: Path) -> None:
    assert names(line_up("weak", ("elsewhere",), tmp_path, catalog=(*CATALOG, ELSEWHERE))) == ["weak", "elsewhere@3"]


def test_a_policy_is_not_held_against_itself(tmp_path: Path) -> None:
    lineup = line_up("weak", ("weak", "weak"), tmp_path)

    assert (names(lineup), lineup.pairs, lineup.candidates) == (["weak"], (), ("weak",))


def test_players_can_be_called_by_their_step_or_as_the_latest(trained: Path) -> None:
    lineup = line_up("weak", ("learned@latest",), trained, catalog=(*CATALOG, LEARNED))

    assert lineup.by_spec == {
        "weak": "weak",
        "learned@40": "learned@40",
        "learned@0": "learned@0",
        "learned@latest": "learned@40",
    }


def test_two_players_never_write_to_one_file(tmp_path: Path) -> None:
    odd = Entry("odd", lambda _, __: Empty("odd"), learned=True, saved=lambda _: [Checkpoint("a/b"), Checkpoint("a:b")])

    with pytest.raises(UsageError, match=r"'odd@a/b' and 'odd@a:b' would both write to eval\.odd-a-b\.jsonl"):
        line_up("weak", ("odd@a/b", "odd@a:b"), tmp_path, catalog=(*CATALOG, odd))


def test_the_latest_is_compared_with_its_base_and_with_its_warm_start(trained: Path) -> None:
    warmed = replace(LEARNED, saved=lambda _: [Checkpoint(label, trained / "0") for label in ("0", "warm", "40")])
    warmed = replace(warmed, make=lambda _, checkpoint: LEARNED.make(0.0, LEARNED.saved(trained)[0]))
    lineup = line_up("learned@0", ("learned@latest",), trained, catalog=(*CATALOG, warmed))

    assert names(lineup) == ["learned@0", "learned@40", "learned@warm"]
    assert lineup.pairs == (
        ("learned@0", "learned@40"),
        ("learned@0", "learned@warm"),
        ("learned@warm", "learned@40"),
    )
