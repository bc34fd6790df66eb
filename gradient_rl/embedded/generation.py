"""Sampling from a language model, many conversations at once, each turn going on from the keys and values of the last.

Each conversation keeps its own keys and values; only the layers between attentions run as one batch. So no padding is computed,
and where the processor's matrix product does not depend on the number of rows, a reply does not depend on what ran beside it.
A prompt is read in pieces that end where messages end, whatever of it was there already, for the same reason.
"""

# pyright: basic, reportMissingImports=false
# torch and transformers are in the extra `lm`.

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING, Any

from gradient_rl.embedded.attention import attend, attend_next
from gradient_rl.embedded.dialect import STOP

if TYPE_CHECKING:
    import torch

ATTENTION = "gradient_threads"
MAX_KEPT_BYTES = 3_000_000_000
"""Of keys and values kept for conversations that may go on; a token of SmolLM2-135M takes 23 KB in bfloat16, 46 in float32."""
_GROWTH = 512
_SHORT = 8
"""A piece is at least so long: the token that ends a reply is read with the message behind it."""
_SEEDS = 2**63
"""A client's seed may be any whole number, and the generator takes no larger ones."""
_TAIL = 12
"""Tokens looked at for the text that ends a call."""


class Thread:
    """The tokens of one conversation that were read under the weights of a step, with their keys and values."""

    def __init__(self, layers: int, step: int) -> None:
        self.step = step
        self.tokens: list[int] = []
        self._keys: list[Any] = [None] * layers
        self._values: list[Any] = [None] * layers

    def extend(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values (tokens x heads x size), and give all of them."""
        start, end = len(self.tokens), len(self.tokens) + len(keys)
        if self._keys[layer] is None or len(self._keys[layer]) < end:
            self._keys[layer] = _grown(self._keys[layer], keys, start, end)
            self._values[layer] = _grown(self._values[layer], values, start, end)
        self._keys[layer][start:end] = keys
        self._values[layer][start:end] = values
        return self._keys[layer][:end], self._values[layer][:end]

    @property
    def bytes(self) -> int:
        """What the keys and values take."""
        return sum(held.nbytes for held in (*self._keys, *self._values) if held is not None)

    def copied(self, length: int) -> Thread:
        """A new thread of the first `length` tokens."""
        made = Thread(len(self._keys), self.step)
        made.tokens = self.tokens[:length]
        made._keys = [keys[:length].clone() for keys in self._keys]
        made._values = [values[:length].clone() for values in self._values]
        return made


def _grown(old: Any, like: torch.Tensor, start: int, end: int) -> torch.Tensor:
    made = like.new_empty(end + _GROWTH, *like.shape[1:])
    if old is not None:
        made[:start] = old[:start]
    return made


@dataclass(eq=False)
class Request:
    """A reply that is being sampled."""

    prompt: Sequence[int]
    step: int
    temperature: float
    max_tokens: int
    seed: int
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    finish_reason: str | None = None
    failure: BaseException | None = None
    ended: Event = field(default_factory=Event)
    """Set when there is nothing more to come."""
    thread: Any = None
    generator: Any = None

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.finish_reason is not None or self.failure is not None


class Sampler:
    """Samples replies from one state of a model. Not to be used from two threads at a time.

    Args:
        model: a causal language model of transformers, adapters in place.
        end_ids: tokens that end a message.
        decode: token ids to text.
    """

    def __init__(self, model: Any, end_ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> None:
        _register()
        self._model = model
        self._ends = frozenset(end_ids)
        self._decode = decode
        self._step = 0
        self._kept: list[Thread] = []

    def turn_to(self, step: int) -> None:
        """Go on with the threads of a step, whose weights are in place now; those of other steps wait."""
        self._step = step

    def forget(self) -> None:
        """Drop every thread."""
        self._kept.clear()

    def begin(self, request: Request) -> None:
        """Read the prompt and sample the first token."""
        import torch

        request.generator = torch.Generator().manual_seed(request.seed % _SEEDS)
        request.thread = self._thread_for(request.prompt)
        logits = None
        for piece in self._pieces(request.prompt, len(request.thread.tokens)):
            logits = self._forward([request.thread], [piece])
        assert logits is not None
        self._take(request, logits[0])

    def advance(self, requests: Sequence[Request]) -> None:
        """Sample one more token for each."""
        logits = self._forward([request.thread for request in requests], [request.token_ids[-1:] for request in requests])
        for request, row in zip(requests, logits, strict=True):
            self._take(request, row)

    def _thread_for(self, prompt: Sequence[int]) -> Thread:
        """A thread that holds the longest known beginning of a prompt, at least one token short of it."""
        found, length = None, 0
        for thread in self._kept:
            if thread.step != self._step:
                continue
            common = self._usable(thread.tokens, prompt)
            if common > length:
                found, length = thread, common
        if found is None:
            return Thread(self._model.config.num_hidden_layers, self._step)
        if length == len(found.tokens):
            self._kept.remove(found)
            return found
        return found.copied(length)

    def _usable(self, known: Sequence[int], prompt: Sequence[int]) -> int:
        """How much of a thread a prompt can go on from: all of it, or up to where a message ends."""
        limit = min(len(known), len(prompt) - 1)
        common = next((i for i in range(limit) if known[i] != prompt[i]), limit)
        if common == len(known):
            return common
        while common and prompt[common - 1] not in self._ends:
            common -= 1
        return common

    def _pieces(self, prompt: Sequence[int], start: int) -> list[Sequence[int]]:
        ends = [i + 1 for i in range(start + _SHORT, len(prompt) - 1) if prompt[i] in self._ends]
        # What follows the last end is only the head of the reply; it is read with the message before it.
        cuts = [start, *ends[:-1], len(prompt)]
        return [prompt[a:b] for a, b in pairwise(cuts) if b > a]

    def _forward(self, threads: Sequence[Thread], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """The logits behind the last token of each; either one thread and many tokens, or one token for each thread."""
        import torch

        device = self._model.device
        ids = torch.tensor([list(piece) for piece in tokens], device=device)
        starts = torch.tensor([[len(thread.tokens)] for thread in threads], device=device)
        positions = starts + torch.arange(ids.shape[1], device=device)
        with torch.inference_mode(), _attending(threads), _implementation(self._model):
            hidden = self._model.model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
            logits = self._model.lm_head(hidden[:, -1]).float()
        for thread, piece in zip(threads, tokens, strict=True):
            thread.tokens.extend(piece)
        return logits

    def _take(self, request: Request, logits: torch.Tensor) -> None:
        token, logprob = _sample(logits, request.temperature, request.generator)
        request.token_ids.append(token)
        request.logprobs.append(logprob)
        if token in self._ends:
            request.finish_reason = "stop"
        elif STOP in self._decode(request.token_ids[-_TAIL:]):
            request.finish_reason = "tool_calls"
        elif len(request.token_ids) >= request.max_tokens:
            request.finish_reason = "length"
        if request.done:
            self._keep(request.thread)

    def _keep(self, thread: Thread) -> None:
        self._kept.append(thread)
        held = sum(kept.bytes for kept in self._kept)
        while held > MAX_KEPT_BYTES and len(self._kept) > 1:
            held -= self._kept.pop(0).bytes


def _sample(logits: torch.Tensor, temperature: float, generator: Any) -> tuple[int, float]:
    """A token, and its log-probability at the temperature it was drawn at; at 0 the likeliest, and that at 1."""
    import torch

    logprobs = torch.log_softmax(logits / (temperature or 1.0), -1).cpu()
    token = _drawn(logprobs, generator) if temperature else int(logprobs.argmax())
    return token, float(logprobs[token])


def _drawn(logprobs: torch.Tensor, generator: Any) -> int:
    """A token by its share of the whole: one random number, where `torch.multinomial` draws one for every token there is."""
    import torch

    upto = logprobs.double().exp().cumsum(0)
    place = torch.rand((), generator=generator, dtype=torch.float64) * upto[-1]
    return min(int(torch.searchsorted(upto, place, right=True)), len(upto) - 1)


_threads: ContextVar[Sequence[Thread]] = ContextVar("threads")
"""Whose turn it is in a forward pass; the attention function has no other way to know."""


@contextmanager
def _attending(threads: Sequence[Thread]) -> Generator[None]:
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


@contextmanager
def _implementation(model: Any) -> Generator[None]:
    """The model's attention is ours within, and as it was outside."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)


def _attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, scaling: float, **_: Any
) -> tuple[torch.Tensor, None]:
    """Attention of each row over its own thread: many rows of one token, or one of many.

    Rows x heads x tokens x size in, rows x tokens x heads x size out.
    """
    held = [
        thread.extend(module.layer_idx, key[row].transpose(0, 1), value[row].transpose(0, 1))
        for row, thread in enumerate(_threads.get())
    ]
    if query.shape[2] == 1:
        keys, values = zip(*held, strict=True)
        return attend_next(query[:, :, 0], keys, values, scaling)[:, None], None
    [(keys, values)] = held
    made = attend(query[0], keys.transpose(0, 1).contiguous(), values.transpose(0, 1).contiguous(), scaling)
    return made.transpose(0, 1)[None], None
