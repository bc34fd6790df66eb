"""The language model behind the server, on random weights: what it samples, what it learns, what it keeps."""

from __future__ import annotations

import errno
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import pytest

from gradient_rl.errors import ArtifactError, DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradient_rl.embedded.lm import LanguageModel
    from gradient_rl.embedded.model import Completion
    from gradient_rl.embedded.sequences import Sequence_

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.lm

TOOLS = [
    {
        "type": "function",
        "function": {"name": "search", "description": "Search it.", "parameters": {"properties": {"query": {}}}},
    }
]
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
CALL = {"id": "call_2", "type": "function", "function": {"name": "search", "arguments": '{"query": "a"}'}}
CALLED = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
ANSWERED = [*CALLED, {"role": "tool", "tool_call_id": "call_2", "content": '{"hits":[]}'}]


def complete(model, messages=ASKED, seed=1, step=0, temperature=1.0, max_tokens=24) -> Completion:
    return model.complete(messages, TOOLS, step=step, temperature=temperature, max_tokens=max_tokens, seed=seed)


def sequence_of(completion) -> Sequence_:
    from gradient_rl.embedded.sequences import Sequence_

    sequence = Sequence_([])
    sequence.add(list(completion.prompt_token_ids), list(completion.token_ids), completion.logprobs)
    return sequence


def recomputed(model, completion, step=0) -> list[float]:
    return model.logprobs(sequence_of(completion), step).tolist()


def choice_of(completion) -> dict[str, object]:
    return {
        "finish_reason": completion.finish_reason,
        "message": completion.message,
        "prompt_token_ids": list(completion.prompt_token_ids),
        "token_ids": list(completion.token_ids),
        "logprobs": {"content": [{"token": "", "logprob": logprob} for logprob in completion.logprobs]},
    }


def group_of(completions, rewards) -> dict[str, object]:
    return {
        "trajectories": [
            {"messages_and_choices": [*ASKED, choice_of(said)], "reward": reward}
            for said, reward in zip(completions, rewards, strict=True)
        ]
    }


def fine_tuned(model, times=8, **config: float) -> list[Mapping[str, float]]:
    return list(model.finetune([{"messages": CALLED, "tools": TOOLS}] * times, {"batch_size": 1, **config}, step=0))


@pytest.fixture
def model(tmp_path) -> LanguageModel:
    from tests.embedded.tiny_lm import tiny_lm

    return tiny_lm(tmp_path / "states")


def test_recorded_log_probabilities_are_those_that_training_computes(model) -> None:
    said = complete(model)

    assert recomputed(model, said) == pytest.approx(said.logprobs, abs=1e-4)


def test_they_are_so_in_a_later_turn_which_goes_on_from_the_keys_of_the_first(model) -> None:
    complete(model)
    said = complete(model, ANSWERED)

    assert recomputed(model, said) == pytest.approx(said.logprobs, abs=1e-4)


def test_the_same_seed_says_the_same_whatever_runs_beside_it(model) -> None:
    alone = [complete(model, seed=seed) for seed in range(12)]
    with ThreadPoolExecutor(12) as threads:
        together = list(threads.map(lambda seed: complete(model, seed=seed), range(12)))

    assert [said.token_ids for said in together] == [said.token_ids for said in alone]
    assert len({said.token_ids for said in alone}) > 6


def test_a_reply_that_a_training_interrupts_goes_on_from_its_own_step(model, monkeypatch) -> None:
    alone, advance, begun = complete(model, seed=1), model._sampler.advance, Event()
    groups = [group_of([complete(model, seed=seed) for seed in range(4)], [1.0, 0.0, 0.0, 1.0])]

    def advance_until_a_training_waits(requests) -> None:
        begun.set()
        while not model._training:
            time.sleep(0.001)
        advance(requests)

    monkeypatch.setattr(model._sampler, "advance", advance_until_a_training_waits)
    with ThreadPoolExecutor(1) as thread:
        interrupted = thread.submit(complete, model, seed=1)
        assert begun.wait(10)
        training = model.train(groups, {"learning_rate": 0.1}, step=0)
        next(training)
        monkeypatch.setattr(model._sampler, "advance", advance)
        assert list(training)
        said = interrupted.result(10)

    assert said.token_ids == alone.token_ids
    assert said.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


@pytest.mark.parametrize("seed", [-(2**70), 2**70])
def test_a_seed_may_be_any_whole_number(model, seed) -> None:
    assert complete(model, seed=seed).token_ids == complete(model, seed=seed).token_ids


def test_at_temperature_0_the_likeliest_token_is_taken(model) -> None:
    said = complete(model, temperature=0.0, max_tokens=1)
    others = [complete(model, seed=seed, max_tokens=1).logprobs[0] for seed in range(20)]

    assert said.logprobs[0] >= max(others)


def test_a_reply_ends_at_its_limit(model) -> None:
    said = complete(model, max_tokens=5)

    assert (len(said.token_ids), said.finish_reason) == (5, "length")


def test_a_conversation_longer_than_the_context_is_refused_with_both_numbers(model) -> None:
    with pytest.raises(UsageError, match=r"maximum context length is 16384 tokens, and the conversation has 20\d\d\d"):
        complete(model, [*ASKED, {"role": "user", "content": "x" * 20000}])


def test_fine_tuning_teaches_the_call_and_leaves_the_base_as_it_was(model) -> None:
    before = complete(model)
    told = fine_tuned(model, times=300, learning_rate=0.03)
    said = complete(model, step=1, temperature=0.0, max_tokens=80)

    assert told[-1]["loss"] < 0.2 < told[0]["loss"]
    assert said.message["tool_calls"][0]["function"] == CALL["function"]
    assert said.finish_reason == "tool_calls"
    assert complete(model).logprobs == before.logprobs
    assert list(model.steps()) == [0, 1]


def test_a_state_survives_the_process(model, tmp_path) -> None:
    from tests.embedded.tiny_lm import tiny_lm

    fine_tuned(model)
    again = tiny_lm(tmp_path / "states")

    assert complete(again, step=1).logprobs == complete(model, step=1).logprobs != complete(model).logprobs


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_the_adapter_is_one_that_peft_reads(model, tmp_path) -> None:
    from peft import PeftModel

    from gradient_rl.embedded.update import Scorer
    from tests.embedded.tiny_lm import random_model

    fine_tuned(model)
    read = PeftModel.from_pretrained(random_model(), str(tmp_path / "states/step-000001"))
    sequence = sequence_of(complete(model))
    with torch.no_grad():
        logprobs = Scorer(read.get_base_model()).score(sequence)[0]

    assert logprobs.tolist() == pytest.approx(model.logprobs(sequence, 1).tolist(), abs=1e-5)


def test_what_was_rewarded_becomes_likelier_and_the_rest_less_likely(model) -> None:
    said = [complete(model, seed=seed) for seed in range(4)]
    told = list(model.train([group_of(said, [1.0, 0.0, 0.0, 1.0])], {"learning_rate": 1e-3}, step=0))
    gains = [sum(recomputed(model, s, step=1)) - sum(s.logprobs) for s in said]

    assert min(gains[0], gains[3]) > 0 > max(gains[1], gains[2])
    assert all(math.isfinite(value) for metrics in told for value in metrics.values())
    assert {told_of["loss/logprob_gap"] < 1e-4 for told_of in told} == {True}
    assert len({told_of["loss/ratio"] for told_of in told}) == len(told)


def test_a_group_of_equal_rewards_teaches_nothing(model) -> None:
    said = [complete(model, seed=seed) for seed in range(2)]

    assert list(model.train([group_of(said, [0.5, 0.5])], {}, step=0)) == []
    assert complete(model, step=1).logprobs == complete(model).logprobs


def test_the_kl_penalty_is_taken_from_what_drifted_more_than_the_batch() -> None:
    from gradient_rl.embedded.sequences import Sequence_, penalise

    drifted, close = Sequence_([1, 2, 3], 1.0, [1, 2], [-1.0, -1.0]), Sequence_([1, 2], 1.0, [1], [-1.0])
    mean = penalise([drifted, close], [[-2.0, -3.0], [-1.0]], coefficient=0.5)

    assert mean == pytest.approx(1.0)
    assert (drifted.penalty, close.penalty) == ([0.0, 0.5], [-0.5])


def test_the_divergence_from_the_reference_is_told(model) -> None:
    fine_tuned(model)
    said = [complete(model, seed=seed, step=1) for seed in range(4)]
    config = {"kl_penalty_coef": 0.5, "kl_penalty_reference_step": 0}
    [*_, told] = model.train([group_of(said, [1.0, 0.0, 0.0, 1.0])], config, step=1)
    drift = sum(sum(s.logprobs) - sum(recomputed(model, s, step=0)) for s in said)

    assert told["kl_policy_ref"] == pytest.approx(drift / sum(len(s.logprobs) for s in said), abs=1e-4)


def test_the_reference_is_the_warm_start_unless_another_is_asked_for(model) -> None:
    fine_tuned(model)
    said = [complete(model, seed=seed, step=1) for seed in range(4)]
    groups = [group_of(said, [1.0, 0.0, 0.0, 1.0])]
    list(model.train(groups, {"learning_rate": 1e-2}, step=1))

    def drift(step, **asked: int) -> float:
        return next(iter(model.train(groups, {"kl_penalty_coef": 0.5, **asked}, step=step)))["kl_policy_ref"]

    from_warm = drift(2, kl_penalty_reference_step=1)
    assert drift(2) == from_warm
    assert drift(2, kl_penalty_step_lag=1) == from_warm
    assert drift(2, kl_penalty_step_lag=5) == drift(2, kl_penalty_reference_step=0) != from_warm


def test_the_penalty_draws_back_the_tokens_that_have_drifted_most(model) -> None:
    fine_tuned(model)
    said = [complete(model, seed=seed) for seed in range(8)]
    list(model.train([group_of(said, [1.0, 0.0] * 4)], {"learning_rate": 1e-2}, step=1))
    now = [complete(model, seed=seed, step=2) for seed in range(8)]
    drift = torch.tensor([p - q for s in now for p, q in zip(s.logprobs, recomputed(model, s, step=1), strict=True)])
    config = {"learning_rate": 1e-3, "kl_penalty_coef": 100.0}
    list(model.train([group_of(now, [1.0, 0.0] * 4)], config, step=2))
    gained = torch.tensor([p - q for s in now for p, q in zip(recomputed(model, s, step=3), s.logprobs, strict=True)])

    assert gained[drift > drift.mean()].mean() < 0 < gained[drift < drift.mean()].mean()


def test_tokens_of_another_model_are_refused(model) -> None:
    from gradient_rl.embedded.jobs import JobError

    said = [complete(model, seed=seed) for seed in range(2)]
    strange = said[0].model_copy(update={"token_ids": (999, *said[0].token_ids[1:])})

    with pytest.raises(JobError, match="tokens that this model does not have"):
        model.train([group_of([strange, said[1]], [1.0, 0.0])], {}, step=0)


def test_a_conversation_that_fits_no_template_is_refused_in_a_sentence(model) -> None:
    with pytest.raises(DataError, match="does not fit the chat template"):
        complete(model, [{"content": "Who?"}])


def test_a_failure_is_that_of_the_request_it_concerns(model, tmp_path) -> None:
    fine_tuned(model)
    (tmp_path / "states/step-000001/optimizer.safetensors").write_bytes(b"")
    with ThreadPoolExecutor(4) as threads:
        replies = [threads.submit(complete, model, seed=seed, step=seed % 2) for seed in range(4)]

    assert [type(reply.exception()) for reply in replies] == [type(None), DataError, type(None), DataError]


def test_a_fault_that_nobody_foresaw_is_told_to_all_who_wait(model, monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("no such layer")

    monkeypatch.setattr(model._sampler, "begin", broken)
    with ThreadPoolExecutor(4) as threads:
        replies = [threads.submit(complete, model, seed=seed) for seed in range(4)]
        assert {str(reply.exception(10)) for reply in replies} == {"no such layer"}


def test_closing_gives_up_what_is_being_sampled(model, monkeypatch) -> None:
    advance, begun = model._sampler.advance, Event()

    def advance_slowly(requests) -> None:
        begun.set()
        time.sleep(0.01)
        advance(requests)

    monkeypatch.setattr(model._sampler, "advance", advance_slowly)
    with ThreadPoolExecutor(2) as threads:
        replies = [threads.submit(complete, model, seed=seed, max_tokens=10_000) for seed in range(2)]
        assert begun.wait(10)
        model.close()
        assert ["stopping" in str(reply.exception(10)) for reply in replies] == [True, True]

    with pytest.raises(UsageError, match="the server is stopping"):
        complete(model)


def test_a_conversation_whose_keys_were_dropped_is_read_anew(model, monkeypatch) -> None:
    from gradient_rl.embedded import generation

    kept = complete(model, ANSWERED)
    model._sampler.forget()
    monkeypatch.setattr(generation, "MAX_KEPT_BYTES", 1)
    for seed in range(3):
        complete(model, seed=seed)
    dropped = complete(model, ANSWERED)

    assert len(model._sampler._kept) == 1
    assert dropped.logprobs == pytest.approx(kept.logprobs, abs=1e-4)


def test_training_that_is_given_up_leaves_no_state(model) -> None:
    said = [complete(model, seed=seed) for seed in range(8)]
    training = model.train([group_of(said, [1.0, 0.0] * 4)], {}, step=0)
    next(training)
    training.close()

    assert list(model.steps()) == [0]
    assert [path.name for path in (model._folder).iterdir()] == []
    assert complete(model).logprobs == said[1].logprobs


def test_training_goes_on_as_if_the_process_had_not_ended(model, tmp_path) -> None:
    from tests.embedded.tiny_lm import tiny_lm

    groups = [group_of([complete(model, seed=seed) for seed in range(4)], [1.0, 0.0, 0.0, 1.0])]
    list(model.train(groups, {"learning_rate": 1e-3}, step=0))
    list(tiny_lm(tmp_path / "states").train(groups, {"learning_rate": 1e-3}, step=1))
    ended = complete(tiny_lm(tmp_path / "states"), step=2).logprobs
    list(model.train(groups, {"learning_rate": 1e-3}, step=1))

    assert complete(model, step=2).logprobs == ended


def test_forgotten_steps_are_gone(model) -> None:
    fine_tuned(model)
    model.forget([1])

    assert list(model.steps()) == [0]


def test_a_step_that_is_forgotten_is_gone_even_when_its_files_are_not(model, monkeypatch) -> None:
    fine_tuned(model)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # as when the process is killed on the way
    model.forget([1])

    assert list(model.steps()) == [0]


def test_what_a_killed_process_left_half_made_is_cleared_by_the_next_save(model) -> None:
    (model._folder / ".making-1/deep").mkdir(parents=True)
    fine_tuned(model)

    assert [path.name for path in model._folder.iterdir()] == ["step-000001"]


def test_a_full_disk_is_told_with_the_file_and_leaves_no_state(model, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(ArtifactError, match="step-000001 cannot be written: No space left on device; free some space"):
        fine_tuned(model)

    assert list(model.steps()) == [0]
    assert list(model._folder.iterdir()) == []


@pytest.mark.parametrize("name", ["optimizer.safetensors", "adapter_model.safetensors"])
def test_a_damaged_state_is_told_with_its_folder(model, tmp_path, name) -> None:
    fine_tuned(model)
    (tmp_path / "states/step-000001" / name).write_bytes(b"\0" * 64)

    with pytest.raises(DataError, match="step-000001 does not hold the state of step 1"):
        complete(model, step=1)


def test_the_gradient_is_that_of_finite_differences() -> None:
    from gradient_rl.embedded.sequences import Sequence_
    from gradient_rl.embedded.update import Scorer, Settings, policy_loss
    from tests.embedded.tiny_lm import random_model

    model = random_model()
    sequence = Sequence_(list(range(40)), 0.7, [20, 21, 30], [-5.0, -6.0, -4.0])
    weight = model.model.layers[0].mlp.down_proj.weight
    settings = Settings(1e-3, {"ppo": False, "epsilon": 10.0, "epsilon_high": 1e9})

    def loss() -> torch.Tensor:
        return policy_loss(sequence, Scorer(model).score(sequence)[0], settings)[0]

    def moved(by) -> float:
        with torch.no_grad():
            weight.add_(direction, alpha=by)
            # CISPO's ratio is a constant of its gradient, so the differences are those of the log-probabilities it weighs.
            logprobs = Scorer(model).score(sequence)[0]
            weight.sub_(direction, alpha=by)
        return float(-(ratios * sequence.advantage * logprobs).sum())

    with torch.no_grad():
        ratios = (Scorer(model).score(sequence)[0] - torch.tensor(sequence.logprobs)).exp()
    loss().backward()
    direction = torch.randn_like(weight, generator=None) * 1.0
    expected = (moved(3e-3) - moved(-3e-3)) / 6e-3

    assert float((weight.grad * direction).sum()) == pytest.approx(expected, rel=0.02)


def test_the_loss_of_a_batch_is_the_mean_over_its_tokens() -> None:
    from gradient_rl.embedded.sequences import Sequence_
    from gradient_rl.embedded.update import Scorer, Settings, _accumulate, policy_loss
    from tests.embedded.tiny_lm import random_model

    model, settings = random_model(), Settings(1e-3, {"ppo": False})
    short = Sequence_(list(range(30)), 1.0, [20], [-5.0])
    long = Sequence_(list(range(40)), -0.5, [20, 21, 30, 31], [-5.0, -6.0, -4.0, -5.0])
    scorer, weight = Scorer(model), model.model.layers[0].mlp.down_proj.weight
    terms = _accumulate(scorer, [short, long], settings)
    together, weight.grad = weight.grad.clone(), None
    losses = [policy_loss(sequence, scorer.score(sequence)[0], settings)[0] for sequence in (short, long)]
    (sum(losses) / 5).backward()

    assert torch.allclose(weight.grad, together, atol=1e-6)
    assert terms["loss"] == pytest.approx(float(sum(losses).detach()) / 5)


def test_the_optimizer_goes_on_where_the_weights_are_wherever_its_state_was_read() -> None:
    from gradient_rl.embedded.update import Optimizer

    ones = torch.ones(2)
    state = {"weight.a": ones, "mean.a": ones, "square.a": ones, "step": torch.ones(())}
    optimizer = Optimizer({"a": torch.ones(2, device="meta")}, state)
    made = {**optimizer.moments(), **optimizer.weights()}

    assert {made[name].device.type for name in ("a", "mean.a", "square.a")} == {"meta"}


def test_the_clipped_loss_is_that_of_a_hand_calculation() -> None:
    from gradient_rl.embedded.sequences import Sequence_
    from gradient_rl.embedded.update import Settings, policy_loss

    old, new = [math.log(0.5), math.log(0.5)], torch.tensor([math.log(0.7), math.log(0.4)])
    sequence = Sequence_([1, 2, 3], 2.0, [1, 2], old)
    loss, terms = policy_loss(sequence, new, Settings(1e-3, {"ppo": True, "epsilon": 0.2}))

    # Ratios 1.4 and 0.8; the advantage is positive, so the first is clipped to 1.2 and the second stands.
    assert float(loss) == pytest.approx(-(1.2 * 2.0 + 0.8 * 2.0))
    assert terms["loss/clipped"] == 1.0
    assert terms["loss/ratio"] == pytest.approx(2.2)

    sequence.penalty = [0.5, -1.0]
    penalised, _ = policy_loss(sequence, new, Settings(1e-3, {"ppo": True, "epsilon": 0.2}))

    # The penalty comes off the advantage of its token: 1.5 and 3.
    assert float(penalised) == pytest.approx(-(1.2 * 1.5 + 0.8 * 3.0))


def test_cispo_weighs_log_probabilities_with_a_ratio_that_is_held_to_five() -> None:
    from gradient_rl.embedded.sequences import Sequence_
    from gradient_rl.embedded.update import Settings, policy_loss

    sequence = Sequence_([1, 2, 3], 2.0, [1, 2], [math.log(0.05), math.log(0.5)])
    new = torch.tensor([math.log(0.4), math.log(0.25)], requires_grad=True)
    loss, terms = policy_loss(sequence, new, Settings(1e-3, {"ppo": False}))
    loss.backward()

    # Ratios 8, held to 1 + epsilon_high = 5, and 0.5, both constants of the gradient.
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([-5.0 * 2.0, -0.5 * 2.0])
    assert float(loss.detach()) == pytest.approx(-2.0 * (5.0 * math.log(0.4) + 0.5 * math.log(0.25)))
    assert terms["loss/clipped"] == 1.0


def test_the_gradient_of_the_clipped_loss_is_that_of_finite_differences() -> None:
    from gradient_rl.embedded.sequences import Sequence_
    from gradient_rl.embedded.update import Settings, policy_loss

    sequence = Sequence_([1, 2, 3, 4], -1.5, [1, 2, 3], [math.log(0.5), math.log(0.5), math.log(0.5)])

    def loss(logprobs) -> torch.Tensor:
        return policy_loss(sequence, logprobs, Settings(1e-3, {"ppo": True, "epsilon": 0.2}))[0]

    # Ratios 1.1, 0.6 and 1.5 under a negative advantage: the second is clipped, the others are not.
    at = torch.tensor([math.log(0.55), math.log(0.3), math.log(0.75)], requires_grad=True)
    loss(at).backward()
    step, ones = 1e-2, torch.eye(3)
    with torch.no_grad():
        expected = [float(loss(at + step * one) - loss(at - step * one)) / (2 * step) for one in ones]

    assert at.grad is not None
    assert at.grad.tolist() == pytest.approx(expected, abs=1e-3)
    assert at.grad[1] == 0.0


def test_entropy_is_that_of_what_a_token_was_drawn_from(model) -> None:
    from gradient_rl.embedded.update import Scorer

    sequence = sequence_of(complete(model))
    scorer = Scorer(model._model)
    with torch.no_grad():
        _, entropy = scorer.score(sequence)
        expected = torch.distributions.Categorical(logits=scorer.logits(sequence)).entropy()

    assert entropy.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_tokens_are_drawn_by_their_share() -> None:
    from gradient_rl.embedded.generation import _drawn

    shares = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    generator = torch.Generator().manual_seed(3)
    drawn = [_drawn(shares.log(), generator) for _ in range(4000)]
    # A share of 0.5 has a standard error of 0.008 here.
    found = [drawn.count(token) / len(drawn) for token in range(6)]

    assert found == pytest.approx(shares.tolist(), abs=0.035)
    assert found[0] == found[2] == found[5] == 0.0


def test_weights_load_without_a_network_from_a_folder_with_a_blank(tmp_path, monkeypatch) -> None:
    from gradient_rl.embedded.weights import load
    from tests.embedded.tiny_lm import save_tiny

    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    made = load(str(save_tiny(tmp_path / "my weights")))

    assert made.model.config.num_hidden_layers == 2
    assert made.tokenizer.chat_template


def test_only_sampled_tokens_are_learned_from(model) -> None:
    [*_, first] = model.train([group_of([complete(model, seed=1), complete(model, seed=2)], [1.0, 0.0])], {}, step=0)
    sequence = sequence_of(complete(model, seed=1))

    assert [sequence.tokens[place] for place in sequence.places] == list(complete(model, seed=1).token_ids)
    assert first["loss/ratio"] == pytest.approx(1.0, abs=0.2)


def test_attention_in_blocks_is_attention() -> None:
    from gradient_rl.embedded import attention

    query, keys, values = torch.randn(4, 600, 16), torch.randn(2, 700, 16), torch.randn(2, 700, 16)
    repeated = [each.repeat_interleave(2, 0)[None] for each in (keys, values)]
    mask = torch.ones(600, 700, dtype=torch.bool).tril(100)
    expected = torch.nn.functional.scaled_dot_product_attention(query[None], *repeated, attn_mask=mask)[0]

    assert torch.allclose(attention.attend(query, keys, values, 16**-0.5), expected, atol=1e-5)


def test_attention_of_one_token_each_is_attention() -> None:
    from gradient_rl.embedded import attention

    lengths = (5, 9)
    query = torch.randn(2, 4, 16)
    keys, values = ([torch.randn(length, 2, 16) for length in lengths] for _ in range(2))
    alone = [
        attention.attend(query[row][:, None], keys[row].transpose(0, 1), values[row].transpose(0, 1), 0.25)[:, 0]
        for row in range(2)
    ]

    assert torch.allclose(attention.attend_next(query, keys, values, 0.25), torch.stack(alone), atol=1e-5)


def test_arguments_come_back_letter_by_letter(model) -> None:
    fine_tuned(model, times=300, learning_rate=0.03)
    said = complete(model, step=1, temperature=0.0, max_tokens=80)
    again = model.complete([*ASKED, dict(said.message)], TOOLS, step=1, temperature=0.0, max_tokens=1, seed=0)

    assert again.prompt_token_ids[: len(said.prompt_token_ids) + len(said.token_ids)] == said.prompt_token_ids + said.token_ids
    assert json.loads(said.message["tool_calls"][0]["function"]["arguments"]) == {"query": "a"}


def test_conversations_of_two_states_go_on_side_by_side(model) -> None:
    fine_tuned(model)
    first = {step: complete(model, step=step) for step in (0, 1)}
    later = {step: complete(model, ANSWERED, step=step) for step in (1, 0, 1)}

    assert first[0].logprobs != first[1].logprobs
    for step, said in later.items():
        assert recomputed(model, said, step) == pytest.approx(said.logprobs, abs=1e-4)


def test_a_state_with_ever_more_to_do_leaves_another_its_turn(model, monkeypatch) -> None:
    from gradient_rl.embedded import lm

    fine_tuned(model)
    complete(model, step=0)
    monkeypatch.setattr(lm, "TURN_S", 0.0)
    advance, asked, order = model._sampler.advance, [], []

    def ask(step: int) -> None:
        asked.append(threads.submit(complete, model, seed=len(asked), step=step))
        asked[-1].add_done_callback(lambda _: order.append(step))

    def advance_with_more_to_do(requests) -> None:
        if requests[0].step == 0 and len(asked) < 60:
            waiting = len(model._waiting)
            ask(1 if len(asked) == 4 else 0)
            while len(model._waiting) == waiting:
                time.sleep(0.001)
        advance(requests)

    monkeypatch.setattr(model._sampler, "advance", advance_with_more_to_do)
    with ThreadPoolExecutor(64) as threads:
        ask(0)
        for reply in asked:  # it grows meanwhile
            reply.result(20)

    assert len(asked) == 60
    assert order.index(1) < 30


def test_a_reply_that_pauses_for_another_state_goes_on_as_if_it_had_not(model, monkeypatch) -> None:
    from gradient_rl.embedded import lm

    fine_tuned(model)
    alone = [complete(model, seed=seed, step=seed % 2) for seed in range(6)]
    monkeypatch.setattr(lm, "TURN_S", 0.0)
    with ThreadPoolExecutor(6) as threads:
        paused = list(threads.map(lambda seed: complete(model, seed=seed, step=seed % 2), range(6)))

    assert [said.token_ids for said in paused] == [said.token_ids for said in alone]
