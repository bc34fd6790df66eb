from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.errors import UsageError
from gradient_rl.policies.base import Policy, Reply
from gradient_rl.policies.catalog import (
    CATALOG,
    Checkpoint,
    Entry,
    Player,
    find_player,
    learned_here,
    player_name,
    saved_states,
)
from gradient_rl.policies.weak import WeakPolicy


class Learned:
    """A policy that only remembers which checkpoint it was made from."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.name = "learned"
        self.checkpoint = checkpoint

    async def act(self, messages, tools, rng) -> Reply:
        raise NotImplementedError


def make(_: float, checkpoint: Checkpoint | None) -> Policy:
    return Learned(checkpoint)


def entry(*labels: str, remote: bool = False) -> Entry:
    return Entry("learned", make, learned=True, saved=lambda _: [Checkpoint(label) for label in labels], remote=remote)


NOWHERE = Path("nowhere")


@pytest.mark.parametrize("each", [entry for entry in CATALOG if not entry.learned], ids=lambda each: each.name)
def test_a_policy_has_the_name_that_it_is_found_by(each: Entry) -> None:
    assert find_player(each.name, NOWHERE).name == each.name


def test_a_temperature_reaches_the_policy() -> None:
    made: list[float] = []
    kept = Entry("weak", lambda temperature, _: made.append(temperature) or WeakPolicy())
    find_player("weak", NOWHERE, 0.7, [kept])

    assert made == [0.7]


def test_an_unknown_policy_is_told_what_there_is() -> None:
    with pytest.raises(UsageError, match="there is no policy 'stong'; the policies are weak, heuristic"):
        find_player("stong", NOWHERE)


@pytest.mark.parametrize("spec", ["weak@3", "weak@latest", "weak@"])
def test_a_checkpoint_of_a_policy_that_has_none_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=f"policy 'weak' has no checkpoints, so there is no '{spec}'; write 'weak'"):
        find_player(spec, NOWHERE)


@pytest.mark.parametrize("spec", ["learned", "learned@latest", "learned@40"])
def test_the_latest_step_is_resolved_and_brings_its_base(spec: str) -> None:
    player = find_player(spec, NOWHERE, catalog=[entry("0", "20", "40")])

    assert (player.name, player.slug, player.bases) == ("learned@40", "learned-40", ("learned@0",))


@pytest.mark.parametrize("spec", ["learned@20", "learned@0"])
def test_an_earlier_step_comes_alone(spec: str) -> None:
    player = find_player(spec, NOWHERE, catalog=[entry("0", "20", "40")])

    assert (player.name, player.bases) == (spec, ())


@pytest.mark.parametrize("labels", [("0",), ("20", "40")])
def test_without_a_base_there_is_no_pair(labels: tuple[str, ...]) -> None:
    assert find_player("learned@latest", NOWHERE, catalog=[entry(*labels)]).bases == ()


def test_the_latest_brings_its_warm_start_beside_its_base() -> None:
    catalog = [entry("0", "warm", "1")]

    assert find_player("learned@latest", NOWHERE, catalog=catalog).bases == ("learned@0", "learned@warm")
    assert find_player("learned@warm", NOWHERE, catalog=catalog).name == "learned@warm"


def test_a_run_that_has_come_as_far_as_its_warm_start_is_paired_with_the_base_alone() -> None:
    player = find_player("learned@latest", NOWHERE, catalog=[entry("0", "warm")])

    assert (player.name, player.bases) == ("learned@warm", ("learned@0",))


def test_the_warm_start_is_saved_between_step_0_and_step_1(tmp_path: Path) -> None:
    for name in ("art-000010.json", "art-000001.json", "art-warm.json", "art-000000.json", "art-hot.json"):
        (tmp_path / name).touch()

    assert [checkpoint.label for checkpoint in saved_states(tmp_path, "art")] == ["0", "warm", "1", "10"]


def test_an_unknown_checkpoint_is_told_what_there_is() -> None:
    words = "policy 'learned' has no checkpoint '7' in nowhere; there are 0, 20, latest"
    with pytest.raises(UsageError, match=words):
        find_player("learned@7", NOWHERE, catalog=[entry("0", "20")])


def test_an_untrained_policy_is_told_to_train() -> None:
    with pytest.raises(UsageError, match="policy 'learned' has no checkpoint in nowhere; train it first"):
        find_player("learned", NOWHERE, catalog=[entry()])


def test_remote_and_untrained_policies_do_not_play_unasked() -> None:
    assert learned_here(NOWHERE, [entry("0", "20"), *CATALOG]) == ["learned@latest"]
    assert learned_here(NOWHERE, [entry(), entry("3", remote=True), Entry("learned", make, learned=True)]) == []


def test_a_slug_has_no_character_that_a_file_name_may_not_have() -> None:
    assert Player(Learned(None), Checkpoint("../org/model:7 b")).slug == "learned-..-org-model-7-b"


def test_a_name_without_a_checkpoint_stands_alone() -> None:
    assert (player_name("weak", None), player_name("learned", "0")) == ("weak", "learned@0")


def test_a_checkpoint_is_known_by_its_content_wherever_it_lies(tmp_path: Path) -> None:
    for place, weights in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / place / "40").mkdir(parents=True)
        (tmp_path / place / "40" / "weights.json").write_text(weights)
    first, same, other = (Checkpoint("40", tmp_path / place / "40").digest for place in "abc")

    assert first == same != other
    assert Checkpoint("40").digest == ""


def test_a_checkpoint_may_be_a_single_file(tmp_path: Path) -> None:
    (tmp_path / "40.json").write_text("1")
    before = Checkpoint("40", tmp_path / "40.json").digest
    (tmp_path / "40.json").write_text("2")

    assert Checkpoint("40", tmp_path / "40.json").digest != before
