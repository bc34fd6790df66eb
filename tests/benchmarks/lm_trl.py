"""TRL's side of `tests.benchmarks.lm`: a `GRPOTrainer` whose `rollout_func` plays the turns with `model.generate`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from gradient_rl.embedded.lm import ALPHA, LEARNING_RATE, RANK, TARGETS
from gradient_rl.embedded.weights import Loaded
from tests.benchmarks.lm import SAMPLED, Counter, Phase, Work


def theirs(loaded: Loaded, work: Work) -> tuple[Phase, Phase]:
    """The rollout, and all else of a step of the trainer."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOTrainer

    loaded.model.set_attn_implementation("sdpa")
    counter = Counter(loaded.model)
    player = Player(counter, [work.first_turn(), work], loaded.tokenizer.pad_token_id)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=loaded.model,
            args=config(folder, loaded, work),
            reward_funcs=lambda completions, **_: [float(at % 2) for at in range(len(completions))],
            train_dataset=Dataset.from_list([{"prompt": loaded.tokenizer.decode(work.prompt)}] * 2),
            processing_class=loaded.tokenizer,
            peft_config=LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(TARGETS), task_type="CAUSAL_LM"),
            rollout_func=player.play,
        )
        steps = Steps(counter)
        trainer.add_callback(steps.callback())
        trainer.train()
    rollout, whole = player.phases[-1], steps.phases[-1]
    return rollout, Phase(whole.seconds - rollout.seconds, whole.tokens - rollout.tokens)


def config(folder: str, loaded: Loaded, work: Work) -> Any:  # noqa: ANN401 - TRL is not there when types are checked
    """Two steps of one group each, the first of them to get warm."""
    import torch
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        max_steps=2,
        num_generations=work.conversations,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=work.conversations,
        gradient_checkpointing=False,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        beta=0.0,
        bf16=loaded.model.dtype == torch.bfloat16,
        use_cpu=loaded.device.type == "cpu",
        dataloader_pin_memory=False,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )


class Steps:
    """Times the trainer's steps."""

    def __init__(self, counter: Counter) -> None:
        self.phases: list[Phase] = []
        self._counter = counter

    def callback(self) -> Any:  # noqa: ANN401 - its class is made of one of transformers
        import time

        from transformers import TrainerCallback

        steps = self

        class Timer(TrainerCallback):
            def on_step_begin(self, *_: object, **__: object) -> None:
                self.tokens, self.started = steps._counter.tokens, time.perf_counter()

            def on_step_end(self, *_: object, **__: object) -> None:
                seconds = time.perf_counter() - self.started
                steps.phases.append(Phase(seconds, steps._counter.tokens - self.tokens))

        return Timer()


class Player:
    """Plays one work after another, as the trainer asks for rollouts."""

    def __init__(self, counter: Counter, works: Sequence[Work], pad: int) -> None:
        self.phases: list[Phase] = []
        self._counter, self._works, self._pad = counter, iter(works), pad

    def play(self, prompts: Sequence[object], trainer: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - see `config`
        """The group's tokens, as `rollout_func` gives them."""
        work, made = next(self._works), {}
        assert len(prompts) == work.conversations
        self.phases.append(self._counter.timed(lambda: made.update(self._played(work, trainer))))
        return made

    def _played(self, work: Work, trainer: Any) -> dict[str, list[Any]]:  # noqa: ANN401
        import torch
        from transformers import DynamicCache
        from trl.models import unwrap_model_for_generation

        device = trainer.accelerator.device
        ids = torch.tensor([list(work.prompt)] * work.conversations, device=device)
        logprobs, mask = [], []
        unwrapped = unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)
        # Without autocast the adapters' products are in float32, which is slower.
        with unwrapped as model, torch.no_grad(), trainer.accelerator.autocast():
            cache = DynamicCache(config=model.config)
            for turn in range(work.turns):
                if turn:
                    result = torch.tensor([list(work.results[turn - 1])] * work.conversations, device=device)
                    ids, mask = torch.cat([ids, result], 1), mask + [0] * result.shape[1]
                    logprobs.append(torch.zeros(result.shape, device=device))
                ids, drawn = self._reply(model, ids, cache)
                logprobs.append(drawn)
                mask += [1] * SAMPLED
        start = len(work.prompt)
        return {
            "prompt_ids": ids[:, :start].tolist(),
            "completion_ids": ids[:, start:].tolist(),
            "logprobs": torch.cat(logprobs, 1).tolist(),
            "env_mask": [mask] * work.conversations,
        }

    def _reply(self, model: Any, ids: Any, cache: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """All tokens with one reply more, and the log-probabilities of that."""
        import torch

        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=cache,
            min_new_tokens=SAMPLED,
            max_new_tokens=SAMPLED,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=self._pad,
            return_dict_in_generate=True,
            output_scores=True,
        )
        scores = torch.stack(made.scores, 1).log_softmax(-1)
        return made.sequences, scores.gather(-1, made.sequences[:, -SAMPLED:, None])[..., 0]
