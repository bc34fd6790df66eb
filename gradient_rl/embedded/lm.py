"""A real language model behind the server: sampled with log-probabilities, trained by LoRA, one state for each step."""

# pyright: basic, reportMissingImports=false
# torch, transformers, peft and safetensors are in the extra `lm`.

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from gradient_rl.embedded.dialect import as_message, as_text
from gradient_rl.embedded.generation import Request, Sampler
from gradient_rl.embedded.jobs import JobError
from gradient_rl.embedded.model import ArtGroup, Completion, Message, Transcript
from gradient_rl.embedded.sequences import Sequence_, penalise, sequences_in
from gradient_rl.embedded.update import Optimizer, Scorer, Settings, imitate, improve
from gradient_rl.embedded.weights import Loaded, check_extra, load
from gradient_rl.errors import DataError, GradientError, UsageError
from gradient_rl.rewards.advantages import Estimator
from gradient_rl.runs import telling

if TYPE_CHECKING:
    import torch

RANK = 16
ALPHA = 32
"""Adapters are scaled by ALPHA / RANK."""
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CONCURRENCY = 48
"""Replies that are sampled at once."""
TURN_S = 10.0
"""Seconds after which a state pauses as long as another has something to sample."""
UPDATES = 4
"""Optimizer steps of one training job."""
GIVE_BACK_EVERY = 10
"""Optimizer steps; each time costs as much as reading a sequence anew."""
LEARNING_RATE = 1e-4
WARM_LEARNING_RATE = 6e-4
WARM_BATCH = 8
_STATE = "optimizer.safetensors"
_ADAPTER = "adapter_model.safetensors"
_UNFINISHED = ".making-"
"""How the names of folders begin that are being made or removed."""


class LanguageModel:
    """See the module, and `ServedModel`.

    Each step is a folder `step-000003` with the adapter as `peft` writes it, which `PeftModel.from_pretrained` reads, and the
    optimizer's state. Of a job's config it reads `learning_rate`, `scale_rewards`, `ppo`, `epsilon`, `epsilon_high`,
    `kl_penalty_coef`, `kl_penalty_step_lag` and `kl_penalty_reference_step` (if neither is given, the last state that was
    fine-tuned on examples, else the base). What is to be trained on is sampled at temperature 1. Sampling waits while a job
    trains.

    Everything is computed in one thread: each thread that computes has a team of its own in OpenMP, and two teams on two cores
    take turns instead of working side by side.

    Args:
        base_model: see `weights.load`.
        folder: where the states are kept.

    Raises:
        UsageError: the extra is not installed.
        NothingToReadError: there are no such weights.
    """

    concurrency = CONCURRENCY

    def __init__(self, base_model: str, folder: Path) -> None:
        check_extra()
        self._computing = ThreadPoolExecutor(1, "language-model")
        self._computing.submit(lambda: self._use(load(base_model), folder)).result()

    @classmethod
    def of(cls, loaded: Loaded, folder: Path) -> LanguageModel:
        """The same over a model that is loaded already."""
        made = cls.__new__(cls)
        made._computing = ThreadPoolExecutor(1, "language-model")
        made._use(loaded, folder)
        return made

    def _use(self, loaded: Loaded, folder: Path) -> None:
        self._tokenizer, self._folder = loaded.tokenizer, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._adapted = _with_adapter(loaded.model)
        self._model = self._adapted.get_base_model()
        self._parameters = {name: p for name, p in self._adapted.named_parameters() if p.requires_grad}
        self._fresh = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._ends = _end_ids(loaded)
        self._sampler = Sampler(self._model, self._ends, self._decoded)
        self._scorer = Scorer(self._model)
        self._training = self._closed = False
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._loaded_step: int | None = None
        self._turns: dict[int, float] = {}

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        *,
        step: int,
        temperature: float,
        max_tokens: int,
        seed: int,
    ) -> Completion:
        """See `ServedModel.complete`. May be called from many threads; what waits is sampled together."""
        prompt = self._prompt(messages, tools)
        self._refuse_too_long(len(prompt) + 1)
        request = Request(prompt, step, temperature, min(max_tokens, self._context - len(prompt)), seed)
        self._waiting.append(request)
        self._computing.submit(self._sample)
        request.ended.wait()
        if request.failure is not None:
            raise request.failure
        return self._completion(request, len(messages), tools)

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterator[Mapping[str, float]]:
        """See `ServedModel.train`. Groups whose rewards are alike teach nothing; if all are, the new state equals the old.

        Raises:
            JobError: a Choice was not sampled from this model, or a setting of the config is impossible.
        """
        settings = _settings(config)
        sequences = sequences_in(
            groups, Estimator.GROUP_STD if config.get("scale_rewards") is not False else Estimator.GROUP_MEAN
        )
        self._refuse_other_tokens(sequences)

        def steps() -> Iterator[Mapping[str, float]]:
            penalised = settings.kl_coefficient > 0 and bool(sequences)
            reference = self._reference(config, step) if penalised else 0
            penalty = self._penalise(sequences, reference, settings.kl_coefficient) if penalised else {}
            optimizer = self._optimizer(step)
            if sequences:
                for told in improve(self._scorer, optimizer, sequences, settings, random.Random(step)):
                    yield {**told, **penalty}
            self._save(step + 1, optimizer)

        return self._alone(steps())

    def finetune(
        self, transcripts: Sequence[Transcript], config: Mapping[str, Any], *, step: int
    ) -> Iterator[Mapping[str, float]]:
        """See `ServedModel.finetune`. One pass; the optimizer begins anew, and so does that of the step after it."""
        sequences = [made for transcript in transcripts if (made := self._example(transcript)).places]
        rate = _number(config, "learning_rate", WARM_LEARNING_RATE, 0.0, 1.0)
        batch = int(_number(config, "batch_size", WARM_BATCH, 1, 4096)) if config.get("batch_size") != "auto" else WARM_BATCH

        def steps() -> Iterator[Mapping[str, float]]:
            optimizer = self._optimizer(step)
            yield from imitate(self._scorer, optimizer, sequences, rate, batch, random.Random(step))
            self._save(step + 1, optimizer, fine_tuned=True)

        return self._alone(steps())

    def steps(self) -> Sequence[int]:
        """See `ServedModel.steps`."""
        return [0, *(step for step in _saved_steps(self._folder) if step)]

    def forget(self, steps: Sequence[int]) -> None:
        """See `ServedModel.forget`."""
        for step in steps:
            # A folder that is half removed must not pass for a state.
            gone = self._folder / f"{_UNFINISHED}{self._at(step).name}"
            shutil.rmtree(gone, ignore_errors=True)
            self._at(step).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """See `ServedModel.close`."""
        self._closed = True
        wait([self._computing.submit(self._sample)])

    def logprobs(self, sequence: Sequence_, step: int) -> torch.Tensor:
        """Log-probabilities of the sampled tokens of a sequence at a step, computed as training computes them."""

        def score() -> torch.Tensor:
            import torch

            self._load(step)
            with torch.no_grad():
                return self._scorer.score(sequence)[0]

        return self._computing.submit(score).result()

    def _alone(self, steps: Iterator[Mapping[str, float]]) -> Iterator[Mapping[str, float]]:
        """Take the steps of a training one by one, while nothing is sampled."""
        self._training = True
        try:
            for number in count(1):
                if (told := self._computing.submit(next, steps, None).result()) is None:
                    return
                if number % GIVE_BACK_EVERY == 0:
                    self._computing.submit(_give_back_memory).result()
                yield told
        finally:
            self._computing.submit(self._forget_loaded).result()
            self._training = False
            self._computing.submit(self._sample)

    # Sampling. What follows runs in the computing thread.

    def _sample(self) -> None:
        """Work on all that waits, until nothing does; a call that finds nothing to do is no loss."""
        try:
            while (self._waiting or self._running) and not self._training:
                if self._closed:
                    raise UsageError("the server is stopping; ask another one")
                self._advance()
        finally:
            # Closed, or broken in a way that nobody foresaw: who waits is told, or would wait for ever.
            while (failure := sys.exception()) and (broken := self._running or self._waiting):
                request = broken.pop()
                request.failure = failure
                request.ended.set()

    def _advance(self) -> None:
        """Take in what waits for the state whose turn it is, and sample a token for each of its requests.

        What fails, fails for whom it concerns.
        """
        step = self._turn()
        taken = [request for request in self._waiting if request.step == step]
        taken = taken[: CONCURRENCY - sum(request.step == step for request in self._running)]
        for request in taken:
            self._waiting.remove(request)
        self._running += taken
        own = [request for request in self._running if request.step == step]
        with _failing(own):
            self._load(step)  # a training since the last token has left other weights
        for request in taken:
            with _failing([request]):
                if not request.done:
                    self._sampler.begin(request)
        if active := [request for request in own if not request.done]:
            with _failing(active):
                self._sampler.advance(active)
        for request in own:
            if request.done:
                self._running.remove(request)
                request.ended.set()

    def _turn(self) -> int:
        """The state that is sampled from next: the one that is loaded, until its turn is over and another has something to do.

        A reply that is not at its end then goes on in the next turn of its state.
        """
        busy = {request.step for request in (*self._running, *self._waiting)}
        others = busy - {self._loaded_step}
        if self._loaded_step in busy and (not others or monotonic() - self._turns[self._loaded_step] < TURN_S):
            return self._loaded_step
        return min(others, key=lambda step: self._turns.get(step, 0.0))

    def _completion(self, request: Request, number: int, tools: Sequence[Message]) -> Completion:
        text_ids = [token for token in request.token_ids if token not in self._ends]
        message = as_message(self._decoded(text_ids), number, tools)
        finish: Any = "tool_calls" if message.get("tool_calls") else request.finish_reason
        if finish == "tool_calls" and not message.get("tool_calls"):
            finish = "stop"  # the text ends with a call that this server cannot read; the client may
        return Completion(
            message=message,
            prompt_token_ids=tuple(request.prompt),
            token_ids=tuple(request.token_ids),
            logprobs=tuple(request.logprobs),
            tokens=tuple(self._decoded([token]) for token in request.token_ids),
            finish_reason=finish,
        )

    # Text and tokens.

    def _prompt(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[int]:
        try:
            return self._tokens(as_text(self._tokenizer, messages, tools, reply=True))
        except (AttributeError, KeyError, TypeError, ValueError, TemplateError) as error:
            raise DataError(f"the conversation does not fit the chat template: {type(error).__name__}: {error}") from None

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _decoded(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    @property
    def _context(self) -> int:
        return int(self._model.config.max_position_embeddings)

    def _refuse_other_tokens(self, sequences: Sequence[Sequence_]) -> None:
        known = int(self._model.config.vocab_size)
        for sequence in sequences:
            if len(sequence.tokens) > self._context or not all(0 <= token < known for token in sequence.tokens):
                raise JobError(f"a Choice has tokens that this model does not have, or over {self._context}; send its own")

    def _refuse_too_long(self, tokens: int) -> None:
        if tokens > self._context:
            raise UsageError(
                f"This model's maximum context length is {self._context} tokens, and the conversation has {tokens}; shorten it"
            )

    def _example(self, transcript: Transcript) -> Sequence_:
        """The tokens of an example; those of the assistant's messages, with the token that ends each, are learned."""
        messages, tools = transcript["messages"], transcript.get("tools") or ()
        made = Sequence_([])
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            prompt = self._tokens(as_text(self._tokenizer, messages[:at], tools, reply=True))
            whole = self._tokens(as_text(self._tokenizer, messages[: at + 1], tools, reply=False))
            if whole[: len(prompt)] != prompt or prompt[: len(made.tokens)] != made.tokens:
                raise JobError(f"message {at} of an example does not continue the tokens before it; use another template")
            end = next((i + 1 for i in range(len(prompt), len(whole)) if whole[i] in self._ends), len(whole))
            made.add(prompt, whole[len(prompt) : end], ())
        if len(made.tokens) > self._context:
            raise JobError(f"an example has {len(made.tokens)} tokens, and the model reads {self._context}")
        return made

    # States.

    def _at(self, step: int) -> Path:
        return self._folder / f"step-{step:06}"

    def _load(self, step: int) -> None:
        """Put the weights of a step in place."""
        import torch

        if self._loaded_step == step:
            return
        state = self._read(step)
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(state.get(f"weight.{name}", self._fresh[name]))
        self._sampler.turn_to(step)
        self._loaded_step = step
        self._turns[step] = monotonic()

    def _forget_loaded(self) -> None:
        self._loaded_step = None
        self._sampler.forget()
        for parameter in self._parameters.values():
            parameter.grad = None

    def _read(self, step: int) -> dict[str, torch.Tensor]:
        if step == 0:
            return {}
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            state, adapter = (load_file(self._at(step) / name) for name in (_STATE, _ADAPTER))
        except (OSError, SafetensorError) as error:
            raise DataError(
                f"{self._at(step)} does not hold the state of step {step}: {error}; restore it, or train again"
            ) from None
        saved = _adapter_names(self._parameters)
        strange = [name for name in saved if name not in adapter]
        if strange:
            raise DataError(f"{self._at(step)} was made for another model: it has no '{strange[0]}'; train again")
        return state | {f"weight.{name}": adapter[written] for written, name in saved.items()}

    def _optimizer(self, step: int) -> Optimizer:
        self._load(step)
        self._sampler.forget()  # what conversations have left takes a gigabyte, and training needs it
        _give_back_memory()
        return Optimizer(self._parameters, self._read(step))

    def _save(self, step: int, optimizer: Optimizer, *, fine_tuned: bool = False) -> None:
        """The adapter in peft's form and the optimizer's moments, in a folder that is there whole or not at all.

        After fine-tuning the optimizer begins anew, so that its moments are not kept.

        Raises:
            ArtifactError: the file system refuses.
        """
        import torch
        from safetensors.torch import save

        for left in self._folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)  # by a process that was killed
        state = {"fine_tuned": torch.ones(())} if fine_tuned else optimizer.moments()
        weights = optimizer.weights()
        adapter = {written: weights[name] for written, name in _adapter_names(weights).items()}
        with telling(self._at(step), "written"):
            making = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
            try:
                # The library's own `save_file` tells of a full disk in an error that names neither it nor the file.
                (making / _STATE).write_bytes(save(state))
                (making / _ADAPTER).write_bytes(save(adapter))
                self._adapted.peft_config["default"].save_pretrained(str(making))
                _synced(*making.iterdir(), making)
                if self._at(step).exists():  # of a job that was broken off behind this line
                    self.forget([step])
                making.rename(self._at(step))
                _synced(self._folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)

    def _reference(self, config: Mapping[str, Any], step: int) -> int:
        """The step whose divergence is penalised in a training from a step."""
        lag, reference = config.get("kl_penalty_step_lag"), config.get("kl_penalty_reference_step")
        if lag is not None:
            return max(0, step - int(lag))
        return self._fine_tuned_step() if reference is None else int(reference)

    def _penalise(self, sequences: Sequence[Sequence_], reference: int, coefficient: float) -> dict[str, float]:
        """ART's penalty: a token's advantage less what its log-ratio to the reference exceeds the batch's mean by."""
        import torch

        self._load(reference)
        with torch.no_grad():
            references = [self._scorer.score(sequence)[0].tolist() for sequence in sequences]
        return {"kl_policy_ref": penalise(sequences, references, coefficient)}

    def _fine_tuned_step(self) -> int:
        return max((step for step in self.steps() if step and "fine_tuned" in self._read(step)), default=0)


def _give_back_memory() -> None:
    """Have the C library return what is free in it, where it can: after sequences of many lengths that is gigabytes."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _failing(requests: Sequence[Request]) -> Generator[None]:
    """Give what goes wrong to those who wait for these."""
    try:
        yield
    except (GradientError, RuntimeError, ValueError, MemoryError) as error:
        for request in requests:
            request.failure = error


def _with_adapter(model: Any) -> Any:
    """The model with a LoRA adapter on every projection; it changes nothing as long as it is fresh."""
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(TARGETS), lora_dropout=0.0, task_type="CAUSAL_LM")
    with warnings.catch_warnings(action="ignore", category=FutureWarning), torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return get_peft_model(model, config, autocast_adapter_dtype=False)
        except ValueError as error:
            raise UsageError(f"this base model has no {', '.join(TARGETS)} to adapt; give one of the Llama kind") from error


def _adapter_names(weights: Iterable[str]) -> dict[str, str]:
    """Names of weights by what `peft` calls them in a file: without the adapter's own name."""
    return {name.replace(".default.", "."): name for name in weights}


def _saved_steps(folder: Path) -> list[int]:
    found = [re.fullmatch(r"step-([0-9]{6,})", path.parent.name) for path in folder.glob(f"step-*/{_STATE}")]
    return sorted(int(match[1]) for match in found if match)


def _synced(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _end_ids(loaded: Loaded) -> tuple[int, ...]:
    """The tokens that end a message: those of the generation config, and the tokenizer's own."""
    declared = loaded.model.generation_config.eos_token_id if loaded.model.generation_config else None
    many = declared if isinstance(declared, list) else [declared]
    return tuple(dict.fromkeys(int(token) for token in [*many, loaded.tokenizer.eos_token_id] if token is not None))


def _settings(config: Mapping[str, Any]) -> Settings:
    kl = _number(config, "kl_penalty_coef", 0.0, 0.0, 1e6)
    loss: dict[str, bool | float] = {"ppo": bool(config.get("ppo") or config.get("loss_fn") == "ppo")}
    for name in ("epsilon", "epsilon_high"):
        if config.get(name) is not None:
            loss[name] = _number(config, name, 0.0, 0.0, 1e6)
    return Settings(_number(config, "learning_rate", LEARNING_RATE, 0.0, 1.0), loss, kl, UPDATES)


def _number(config: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value: object = config.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise JobError(f"{name} is {value!r}; it must be a number from {least:g} to {most:g}")
    return float(value)
