"""Whom a key may be shown to, and the entries of remote policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.errors import DataError, MissingKeyError, UsageError
from gradient_rl.policies.adapters import Access, art_checkpoints, key_for, read_art_state, remote_entries
from gradient_rl.policies.catalog import find_player

VARIABLES = {"WANDB_API_KEY": "for-wandb", "MY_KEY": "mine"}


@pytest.mark.parametrize(
    ("url", "named", "found"),
    [
        ("https://api.training.wandb.ai/v1", None, ("WANDB_API_KEY", "for-wandb")),
        ("https://api.training.wandb.ai/v1", "MY_KEY", ("MY_KEY", "mine")),
        ("https://api.openai.com/v1", None, (None, "")),
        ("https://api.openai.com/v1", "MY_KEY", ("MY_KEY", "mine")),
        ("http://127.0.0.1:8000/v1", None, (None, "")),
        ("http://127.0.0.1:8000/v1", "WANDB_API_KEY", ("WANDB_API_KEY", "for-wandb")),
        ("https://wandb.ai.example.com/v1", None, (None, "")),
        ("https://notwandb.ai/v1", None, (None, "")),
        ("https://user@api.wandb.ai:443/v1", None, ("WANDB_API_KEY", "for-wandb")),
        ("https://api.training.wandb.ai/v1", "ABSENT", ("ABSENT", "")),
    ],
)
def test_a_key_is_shown_only_to_whom_it_was_meant_for(url: str, named: str | None, found: tuple[str | None, str]) -> None:
    assert key_for(url, named, VARIABLES) == found


def test_a_chat_policy_needs_an_address_and_elsewhere_a_named_key(tmp_path: Path) -> None:
    def play(access: Access) -> None:
        find_player("chat:m@1", tmp_path, 0.0, remote_entries(access, ["chat:m@1"]))

    with pytest.raises(UsageError, match="--policy chat:m@1 needs --base-url"):
        play(Access(None, VARIABLES))
    with pytest.raises(MissingKeyError, match="'m@1' needs a key: name the variable that holds it with --api-key-env"):
        play(Access("https://example.com/v1", VARIABLES))
    play(Access("http://127.0.0.1:9/v1", VARIABLES))


def test_a_policy_without_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="--policy chat: names no model"):
        remote_entries(Access(), ["chat:"])


def test_checkpoints_are_in_the_order_of_their_steps_and_strays_are_left_out(tmp_path: Path) -> None:
    for name in ("art-000010.json", "art-000002.json", "art-x.json", "art.submitting.json"):
        (tmp_path / name).write_text("{}")

    assert [checkpoint.label for checkpoint in art_checkpoints(tmp_path)] == ["2", "10"]
    with pytest.raises(DataError, match="does not say which adapter it is"):
        read_art_state(tmp_path / "art-000002.json")
