"""What a training job makes of the turns of an episode."""

from __future__ import annotations

from typing import Any

import pytest

from gradient_rl.embedded.jobs import JobError
from gradient_rl.embedded.sequences import sequences_in
from gradient_rl.rewards.advantages import Estimator


def choice(prompt: list[int] | None, said: list[int]) -> dict[str, Any]:
    return {
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": ""},
        "token_ids": said,
        "logprobs": {"content": [{"token": "", "logprob": -0.5 * token} for token in said]},
        **({"prompt_token_ids": prompt} if prompt is not None else {}),
    }


def group(*episodes: tuple[float, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"trajectories": [{"reward": reward, "messages_and_choices": choices} for reward, choices in episodes]}


TWO_TURNS = [choice([1, 2], [3, 4]), choice([1, 2, 3, 4, 5], [6])]
OTHER = (0.0, [choice([1, 2], [9])])


def test_turns_that_go_on_from_each_other_are_one_sequence_and_only_what_was_sampled_is_learned() -> None:
    first, other = sequences_in([group((1.0, TWO_TURNS), OTHER)], Estimator.GROUP_STD)

    assert first.tokens == [1, 2, 3, 4, 5, 6]
    assert first.places == [2, 3, 5]
    assert first.logprobs == [-1.5, -2.0, -3.0]
    assert (first.advantage, other.advantage) == (pytest.approx(1.0, rel=1e-3), pytest.approx(-1.0, rel=1e-3))


def test_a_turn_whose_prompt_was_written_in_other_tokens_begins_a_sequence_of_its_own() -> None:
    rewritten = [choice([1, 2], [3, 4]), choice([1, 2, 34, 5], [6])]
    first, second, _ = sequences_in([group((1.0, rewritten), OTHER)], Estimator.GROUP_STD)

    assert (first.tokens, first.places) == ([1, 2, 3, 4], [2, 3])
    assert (second.tokens, second.places) == ([1, 2, 34, 5, 6], [4])
    assert first.advantage == second.advantage


def test_a_reply_that_was_cut_at_its_length_is_learned_from_like_any_other() -> None:
    cut = [{**choice([1, 2], [3, 4, 5]), "finish_reason": "length"}]
    first, _ = sequences_in([group((1.0, cut), OTHER)], Estimator.GROUP_STD)

    assert first.places == [2, 3, 4]


def test_a_group_of_equal_rewards_has_no_sequences() -> None:
    assert sequences_in([group((0.5, TWO_TURNS), (0.5, TWO_TURNS))], Estimator.GROUP_STD) == []


def test_a_choice_that_does_not_tell_its_prompt_is_refused_with_its_place() -> None:
    with pytest.raises(JobError, match="group 0, trajectory 1, Choice 0 has no prompt_token_ids"):
        sequences_in([group((1.0, TWO_TURNS), (0.0, [choice(None, [9])]))], Estimator.GROUP_STD)
