"""The linear policy: a softmax over what could be done next, linear in named features of the conversation.

A reply is a few decisions: what to do (search, open, submit), with which words and tool, on which hit; for a submission, which
sentences to say and which records to cite, one after the other until it stops. The log-probability of a reply is the sum over
its decisions and is exact. A decision is to this policy what a token is to a language model: the numbers of the chosen
candidates, with their log-probabilities, are what a trainer needs to score the reply again.

It reads the messages alone, knows no task, and starts from weights of 0, where every candidate is as likely as any other.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from gradient_rl.errors import ArtifactError, DataError, NothingToReadError
from gradient_rl.policies.base import Message, Reply, one_call
from gradient_rl.policies.features import (
    FEATURES,
    Desk,
    Kind,
    hit_features,
    move_features,
    possible_moves,
    possible_queries,
    query_features,
)
from gradient_rl.policies.view import Row, View
from gradient_rl.schema.jsonl import read_json

type Weights = Mapping[Kind, Row]
"""One weight a feature, by kind of decision; see `FEATURES`."""

NOT_ON_RECORD = "This is not on record."
MAX_SAID = 3
MAX_CITED = 4
_MAX_QUOTED_WORDS = 60
_DEFAULT_CALLS = 15
_CALLS_ALLOWED = re.compile(r"\b(\d+) tool calls")


class Decision(NamedTuple):
    """One choice among candidates."""

    kind: Kind
    features: Row
    """Shape (candidates, features of the kind)."""
    chosen: int
    """Row of the candidate that was taken."""


class Choose(Protocol):
    """Takes a candidate by its features, shape (candidates, features of the kind)."""

    def __call__(self, kind: Kind, features: Row) -> int:
        """The row of the candidate that is taken."""
        ...


class LinearPolicy:
    """See the module. A temperature of 0 takes the likeliest candidate, and draws among equals."""

    name = "linear"

    def __init__(self, weights: Weights, temperature: float = 0.0) -> None:
        self._weights = weights
        self._temperature = max(temperature, 0.0)

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        return reply_to(messages, self._weights, self._temperature, rng)


def reply_to(messages: Sequence[Message], weights: Weights, temperature: float, rng: random.Random) -> Reply:
    """Decide on a reply. `Reply.raw` holds its `decisions` and, at the sampling temperature, their `logprobs`."""
    decisions: list[int] = []
    logprobs: list[float] = []

    def choose(kind: Kind, features: Row) -> int:
        logits = features @ weights[kind]
        chosen = _draw(logits, temperature, rng)
        decisions.append(chosen)
        logprobs.append(float(log_softmax(logits / (temperature or 1.0))[chosen]))
        return chosen

    reply = _decide(messages, choose)
    return reply.model_copy(update={"raw": {"decisions": decisions, "logprobs": logprobs}})


def decisions_behind(messages: Sequence[Message], chosen: Sequence[int]) -> list[Decision]:
    """Take the decisions of a reply once more, with the features that each was taken on.

    Args:
        messages: the conversation that was replied to.
        chosen: the reply's `decisions`.

    Raises:
        ValueError: the decisions do not fit the conversation.
    """
    follow = iter(chosen)
    made: list[Decision] = []

    def choose(kind: Kind, features: Row) -> int:
        place = next(follow, -1)
        if not 0 <= place < len(features):
            raise ValueError(f"decision {len(made) + 1} is {place}, and there are {len(features)} candidates for '{kind}'")
        made.append(Decision(kind, features, place))
        return place

    _decide(messages, choose)
    if len(chosen) > len(made):
        raise ValueError(f"there are {len(chosen)} decisions, and the reply takes {len(made)}")
    return made


def log_softmax(logits: Row) -> Row:
    """Log-probabilities of candidates; shape (candidates,) to (candidates,)."""
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the state of a step is saved."""
    return folder / f"{LinearPolicy.name}-{step:06}.json"


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a saved state: its `weights` by name, checked, and what else its learner keeps.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it is damaged, or was made with other features.
    """
    try:
        state = cast("dict[str, Any]", read_json(path.read_bytes()))
        from_names(state["weights"])
    except FileNotFoundError:
        raise NothingToReadError(f"{path} is not there; train again, or give another --artifacts") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}; check that path") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DataError(f"{path} is not a checkpoint of this version: {fault}; train again, or play an earlier one") from None
    return state


def zero_weights() -> dict[Kind, Row]:
    """The weights before training."""
    return {kind: np.zeros(len(names)) for kind, names in FEATURES.items()}


def named(weights: Weights) -> dict[str, float]:
    """Weights by `kind.feature`."""
    return {f"{kind}.{name}": float(w) for kind in Kind for name, w in zip(FEATURES[kind], weights[kind], strict=True)}


def from_names(by_name: Mapping[str, object]) -> dict[Kind, Row]:
    """Weights from what `named` gave.

    Raises:
        ValueError: a feature is missing or unknown, or a weight is not a finite number.
    """
    known = set(named(zero_weights()))
    if strange := sorted(known ^ set(by_name)):
        raise ValueError(f"the features do not match those of this version, the first being '{strange[0]}'")
    numbers = {name: _number(name, weight) for name, weight in by_name.items()}
    return {kind: np.array([numbers[f"{kind}.{name}"] for name in names]) for kind, names in FEATURES.items()}


def _number(name: str, weight: object) -> float:
    if isinstance(weight, int | float) and isfinite(weight):
        return float(weight)
    raise ValueError(f"the weight of '{name}' is {weight!r}, and must be a finite number")


def _draw(logits: Row, temperature: float, rng: random.Random) -> int:
    if temperature == 0.0:
        best = np.flatnonzero(logits >= logits.max())
        return int(best[rng.randrange(len(best))])
    heaped = np.cumsum(np.exp(log_softmax(logits / temperature)))
    return min(int(np.searchsorted(heaped, rng.random(), side="right")), len(logits) - 1)


def _decide(messages: Sequence[Message], choose: Choose) -> Reply:
    view = View(messages)
    moves = possible_moves(view)
    match moves[choose(Kind.MOVE, move_features(view, moves, _calls_allowed(messages)))]:
        case "search":
            queries = possible_queries(view)
            query = queries[choose(Kind.SEARCH, query_features(view, queries))]
            return one_call(messages, query.tool, query=query.words)
        case "open":
            hit = view.unread[choose(Kind.OPEN, hit_features(view, view.unread))]
            return one_call(messages, "open_email" if hit.kind == "email" else "open_document", id=hit.record_id)
        case _:
            return _submit(messages, view, choose)


def _submit(messages: Sequence[Message], view: View, choose: Choose) -> Reply:
    desk = Desk(view)
    said = list(_said(desk, choose))
    cited = list(_cited(desk, said, choose))
    answer = " ".join(_quoted(desk.sentences[place]) for place in said) or NOT_ON_RECORD
    return one_call(messages, "submit_answer", answer=answer, sources=cited)


def _said(desk: Desk, choose: Choose) -> Iterator[int]:
    """Places of the sentences to say; none is `not on record`."""
    said: list[int] = []
    while len(said) < MAX_SAID:
        left = [place for place in desk.shortlist if place not in said]
        taken = choose(Kind.SAY, desk.say_features(said, left, may_stop=bool(said), may_deny=not said))
        if taken >= len(left):
            return
        said.append(left[taken])
        yield left[taken]


def _cited(desk: Desk, said: Sequence[int], choose: Choose) -> Iterator[str]:
    cited: list[str] = []
    while len(cited) < MAX_CITED:
        left = [record_id for record_id in desk.view.opened if record_id not in cited]
        taken = choose(Kind.CITE, desk.cite_features(said, not said, cited, left))
        if taken >= len(left):
            return
        cited.append(left[taken])
        yield left[taken]


def _quoted(sentence: str) -> str:
    return " ".join(sentence.split()[:_MAX_QUOTED_WORDS])


def _calls_allowed(messages: Sequence[Message]) -> int:
    """The call limit, from the sentence of the system prompt that states it."""
    stated = _CALLS_ALLOWED.search(str(messages[0]["content"]))
    return int(stated[1]) if stated else _DEFAULT_CALLS
