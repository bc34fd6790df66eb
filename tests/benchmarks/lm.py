"""A language model's rollout and training step, ours against TRL's `GRPOTrainer`, on the same work: `make bench-lm`.

The work is one group of conversations from the real opening of an episode: some turns of sampled tokens, a tool result between
them, then one policy-gradient step over the group. Each side runs in a process of its own, which does one turn and its step
first, so that neither is measured at its first calls; medians are printed, and nothing is asserted.

    python -m tests.benchmarks.lm [--small] [--model NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from gradient_rl.embedded.dialect import STOP, as_text
from gradient_rl.embedded.generation import Request, Sampler
from gradient_rl.embedded.lm import LEARNING_RATE, _with_adapter
from gradient_rl.embedded.sequences import Sequence_
from gradient_rl.embedded.update import Optimizer, Scorer, Settings, improve
from gradient_rl.embedded.weights import SMALL, Loaded, load
from gradient_rl.environment.episode import Limits
from gradient_rl.environment.prompt import opening_messages
from gradient_rl.environment.tools import tool_schemas
from gradient_rl.environment.workspace import TRAIN_FILE, default_data_dir, load_tasks, load_workspace
from gradient_rl.rewards.advantages import advantages
from tests.benchmarks.spawn import MB

if TYPE_CHECKING:
    import torch

SAMPLED = 40
"""Tokens of a reply, exactly."""
RESULT = 180
"""Tokens between two replies."""
REPEATS = 3
PHASES = ("rollout", "train", "both")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
DIFFERENCES = """\
The same: weights, adapters (LoRA of rank 16 on seven projections), bfloat16 where the processor has it, tokens, one optimizer
step, no KL, no checkpointing, keys and values kept from turn to turn, no call to a server.
Different: ours reads each prompt by itself and samples together, with its own attention and a random generator for each
conversation, and computes logits for sampled tokens alone; its adapters compute in the model's precision, with a copy in
float32. TRL reads and samples in one batch with `model.generate` and PyTorch's attention (a `rollout_func` on one machine), is
trained one conversation at a time, its adapters in float32 under autocast in both phases, and computes logits for tool results
too. What a step of its trainer does besides (rewards, metrics, the loop) counts as training."""


@dataclass(frozen=True)
class Work:
    """What both sides do."""

    prompt: Sequence[int]
    results: Sequence[Sequence[int]]
    """Tokens of the tool results; there is one turn more."""
    conversations: int

    @property
    def turns(self) -> int:
        return len(self.results) + 1

    def first_turn(self) -> Work:
        return Work(self.prompt, (), self.conversations)


class Phase(NamedTuple):
    """What one phase took."""

    seconds: float
    tokens: int
    """Tokens that went through the model."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_in(arguments)
    if options.side:
        os.environ.update(OFFLINE)
        print(json.dumps(measured(options.side, options.model, small=options.small)))
        return
    for told in compared(options.model, small=options.small):
        print(told, flush=True)


def options_in(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lm")
    parser.add_argument("--small", action="store_true", help="2 conversations of 2 turns, once")
    parser.add_argument("--model", default=SMALL, help="as gradient_rl.embedded.weights.load takes it")
    parser.add_argument("--side", choices=("ours", "TRL"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compared(model: str, *, small: bool) -> Iterator[str]:
    """The table, after every run of both sides, in turns."""
    orders = [("ours", "TRL"), ("TRL", "ours")] * REPEATS
    runs: dict[str, list[Mapping[str, float]]] = {"ours": [], "TRL": []}
    for order in orders[: 1 if small else REPEATS]:
        for side in order:
            runs[side].append(run := in_a_process(side, model, small=small))
            yield f"{side:<6}" + ", ".join(f"{name} {run[name]:.2f} s" for name in PHASES) + f", {run['peak_mb']:.0f} MB"
    yield ""
    yield from table(runs)
    yield ""
    yield DIFFERENCES


def table(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[str]:
    """Medians of each side, and how many times ours the other is."""
    yield f"{'median of ' + str(len(runs['ours'])):<28}{'ours':>10}{'TRL':>10}{'TRL / ours':>12}"
    for name, label in ROWS.items():
        ours, theirs = (median(run[name] for run in runs[side]) for side in ("ours", "TRL"))
        shown = ".2f" if name in PHASES else ".0f"
        yield f"{label:<28}{ours:>10{shown}}{theirs:>10{shown}}{theirs / ours:>12.2f}"


ROWS = {
    "rollout": "rollout, s",
    "train": "train, s",
    "both": "both, s",
    "peak_mb": "peak memory, MB",
    "sampled": "tokens sampled",
    "read": "tokens read in the rollout",
    "trained": "tokens read in training",
}


def in_a_process(side: str, model: str, *, small: bool) -> Mapping[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.lm", "--side", side, "--model", model]
    run = subprocess.run(command + ["--small"] * small, capture_output=True, text=True, env=os.environ | OFFLINE, check=False)
    if run.returncode:
        raise SystemExit(f"{side} failed:\n{run.stderr[-3000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def measured(side: str, model: str, *, small: bool) -> Mapping[str, float]:
    """Seconds, tokens and peak memory of one side in this process."""
    loaded = load(model)
    work = work_for(loaded.tokenizer, conversations=2, turns=2) if small else work_for(loaded.tokenizer)
    rollout, train = side_named(side)(loaded, work)
    sampled = work.conversations * work.turns * SAMPLED
    return {
        "rollout": rollout.seconds,
        "train": train.seconds,
        "both": rollout.seconds + train.seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB,
        "sampled": sampled,
        # The last token of a reply goes through the model at the head of the next turn; that of the last turn never does.
        "read": rollout.tokens - sampled + work.conversations,
        "trained": train.tokens,
    }


def side_named(side: str) -> Callable[[Loaded, Work], tuple[Phase, Phase]]:
    if side == "ours":
        return ours
    from tests.benchmarks.lm_trl import theirs

    return theirs


def work_for(tokenizer: Any, conversations: int = 8, turns: int = 4) -> Work:  # noqa: ANN401 - as transformers has it
    """The opening of the first training task, and pieces of the company's documents as tool results."""
    task = load_tasks(default_data_dir() / TRAIN_FILE).tasks[0]
    opening = as_text(tokenizer, opening_messages(task.for_policy(), Limits()), tool_schemas(), reply=True)
    documents = "\n\n".join(document.body for document in load_workspace(default_data_dir()).documents)
    prompt, text = (list(tokenizer(said, add_special_tokens=False)["input_ids"]) for said in (opening, documents))
    return Work(prompt, [text[turn * RESULT : (turn + 1) * RESULT] for turn in range(turns - 1)], conversations)


class Counter:
    """Counts the tokens that go through a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.tokens = 0
        model.get_input_embeddings().register_forward_pre_hook(self._add)

    def _add(self, _: object, inputs: tuple[torch.Tensor]) -> None:
        self.tokens += inputs[0].numel()

    def timed(self, work: Callable[[], object]) -> Phase:
        before, started = self.tokens, time.perf_counter()
        work()
        return Phase(time.perf_counter() - started, self.tokens - before)


def ours(loaded: Loaded, work: Work) -> tuple[Phase, Phase]:
    """The rollout and the training step as the served model makes them."""
    learner = Learner(loaded)
    learner.step(work.first_turn())
    return learner.step(work)


class Learner:
    """What of `gradient_rl.embedded.lm.LanguageModel` samples and learns."""

    def __init__(self, loaded: Loaded) -> None:
        adapted = _with_adapter(loaded.model)
        model = adapted.get_base_model()
        self._counter, self._scorer = Counter(model), Scorer(model)
        self._optimizer = Optimizer({name: p for name, p in adapted.named_parameters() if p.requires_grad})
        self._sampler = Sampler(model, (), lambda token_ids: loaded.tokenizer.decode(token_ids).replace(STOP, ""))

    def step(self, work: Work) -> tuple[Phase, Phase]:
        made: list[Sequence_] = []
        settings = Settings(LEARNING_RATE, {"ppo": False, "kl_penalty_coef": 0.0})
        rolled = self._counter.timed(lambda: made.extend(rollout(self._sampler, work)))
        self._sampler.forget()
        learned = improve(self._scorer, self._optimizer, made, settings, random.Random(0))
        return rolled, self._counter.timed(lambda: list(learned))


def rollout(sampler: Sampler, work: Work) -> list[Sequence_]:
    worth = advantages([float(at % 2) for at in range(work.conversations)])
    sequences = [Sequence_([], advantage or 0.0) for advantage in worth]
    for turn in range(work.turns):
        prompts = [[*made.tokens, *work.results[turn - 1]] if turn else work.prompt for made in sequences]
        requests = [Request(prompt, 0, 1.0, SAMPLED, seed=at + 100 * turn) for at, prompt in enumerate(prompts)]
        for request in requests:
            sampler.begin(request)
        while not requests[0].done:
            sampler.advance(requests)
        for made, request in zip(sequences, requests, strict=True):
            made.add(request.prompt, request.token_ids, request.logprobs)
    return sequences


if __name__ == "__main__":
    main()
