"""The linear policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradient_rl.policies.base import Message, Reply, one_call
from gradient_rl.policies.features import FEATURES, Desk, Kind, hit_features, move_features, possible_moves, possible_queries, query_features
from gradient_rl.policies.view import Row, View

MAX_SAID = 3
MAX_CITED = 4
NOT_ON_RECORD = "This is not on record."
_MAX_WORDS = 60


class Decision(NamedTuple):
    kind: Kind
    features: Row
    chosen: int


class Chooser:
    """Takes decisions by a softmax, or follows those that were taken."""

    def __init__(self, weights: Mapping[Kind, Row], temperature: float, rng: random.Random | None, follow: Sequence[int] = ()) -> None:
        self._weights, self._temperature, self._rng = weights, temperature, rng
        self._follow = iter(follow)
        self.decisions: list[Decision] = []
        self.logprobs: list[float] = []

    def choose(self, kind: Kind, features: Row) -> int:
        if self._rng is None:
            chosen = next(self._follow)
        else:
            logits = features @ self._weights[kind]
            chosen = draw(logits, self._temperature, self._rng)
            self.logprobs.append(float(log_softmax(logits)[chosen]))
        self.decisions.append(Decision(kind, features, chosen))
        return chosen


def log_softmax(logits: Row) -> Row:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def draw(logits: Row, temperature: float, rng: random.Random) -> int:
    if temperature <= 0:
        best = np.flatnonzero(logits >= logits.max() - 1e-12)
        return int(best[rng.randrange(len(best))])
    p = np.exp(log_softmax(logits / temperature))
    return min(int(np.searchsorted(np.cumsum(p), rng.random())), len(p) - 1)


def decide(messages: Sequence[Message], chooser: Chooser, max_calls: int = 15) -> Reply:
    view = View(messages)
    moves = possible_moves(view)
    move = moves[chooser.choose(Kind.MOVE, move_features(view, moves, max_calls))]
    if move == "search":
        queries = possible_queries(view)
        q = queries[chooser.choose(Kind.SEARCH, query_features(view, queries))]
        return one_call(messages, q.tool, query=q.words)
    if move == "open":
        hit = view.unread[chooser.choose(Kind.OPEN, hit_features(view, view.unread))]
        return one_call(messages, "open_email" if hit.kind == "email" else "open_document", id=hit.record_id)
    desk = Desk(view)
    said, denied = say(desk, chooser)
    cited = cite(desk, chooser, said, denied)
    answer = " ".join(shortened(desk.sentences[i]) for i in said) or NOT_ON_RECORD
    return one_call(messages, "submit_answer", answer=answer, sources=cited)


def shortened(s: str) -> str:
    return " ".join(s.split()[:_MAX_WORDS])


def say(desk: Desk, chooser: Chooser) -> tuple[list[int], bool]:
    said: list[int] = []
    while len(said) < MAX_SAID:
        left = [i for i in range(len(desk.sentences)) if i not in said]
        f = desk.say_features(said, left, may_stop=bool(said), may_deny=not said)
        c = chooser.choose(Kind.SAY, f)
        if c >= len(left):
            return said, not said
        said.append(left[c])
    return said, False


def cite(desk: Desk, chooser: Chooser, said: Sequence[int], denied: bool) -> list[str]:
    cited: list[str] = []
    while len(cited) < MAX_CITED:
        left = [i for i in desk.view.pages if i not in cited]
        c = chooser.choose(Kind.CITE, desk.cite_features(said, denied, cited, left))
        if c >= len(left):
            break
        cited.append(left[c])
    return cited


def no_weights() -> dict[Kind, Row]:
    return {kind: np.zeros(len(names)) for kind, names in FEATURES.items()}


class LinearPolicy:
    name = "linear"

    def __init__(self, weights: Mapping[Kind, Row], temperature: float = 0.0) -> None:
        self.weights, self.temperature = weights, temperature

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        chooser = Chooser(self.weights, self.temperature, rng)
        reply = decide(messages, chooser)
        return reply.model_copy(update={"raw": {"chosen": [d.chosen for d in chooser.decisions], "logprobs": chooser.logprobs}})
