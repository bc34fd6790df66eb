"""The weak policy: one keyword search, the first hit, and a quotation from it. The floor that others are compared with."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from gradient_rl.policies.base import Message, Reply, observations_in, one_call, question_in

_COMMON = frozenset(
    "a about after all also an and any are as at be been before but by can could did do does for from had has have how i if in "
    "into is it its just many me much must my no not of on one or our out over own should since so some such tell than that "
    "the their them then there these they this to up us was we were what when where which who whom whose why will with would "
    "you your".split()
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MAX_QUERY_WORDS = 6


class WeakPolicy:
    """Searches once, opens what comes first, quotes the sentence that shares most words with the question.

    At a temperature above 0 it leaves out each query word with that probability (at most one half), so that the samples of a
    training group differ.
    """

    name = "weak"

    def __init__(self, temperature: float = 0.0) -> None:
        self._drop = min(max(temperature, 0.0), 1.0) / 2

    async def act(self, messages: Sequence[Message], tools: Sequence[Message], rng: random.Random) -> Reply:
        """See `Policy.act`."""
        observations = observations_in(messages)
        if not observations:
            return one_call(messages, "search", query=self._query(question_in(messages), rng))
        first = next(iter(observations[0].get("hits", ())), None)
        if first is None:
            return one_call(messages, "submit_answer", answer="I found nothing about this.", sources=[])
        if len(observations) == 1:
            tool = "open_email" if first["kind"] == "email" else "open_document"
            return one_call(messages, tool, id=first["id"])
        quotation = _best_sentence(str(observations[1].get("body", "")), question_in(messages))
        return one_call(messages, "submit_answer", answer=quotation, sources=[first["id"]])

    def _query(self, question: str, rng: random.Random) -> str:
        words = [word for word in re.findall(r"[\w'’-]+", question) if word.lower() not in _COMMON]
        kept = [word for word in words if rng.random() >= self._drop] or words
        return " ".join(kept[:_MAX_QUERY_WORDS])


def _best_sentence(text: str, question: str) -> str:
    wanted = {word.lower() for word in re.findall(r"\w+", question)} - _COMMON
    sentences = [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()] or [""]
    return max(sentences, key=lambda s: len(wanted & {word.lower() for word in re.findall(r"\w+", s)}))
