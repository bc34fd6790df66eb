"""A small real learner: a softmax over a handful of fixed tool calls, trained by REINFORCE on its groups."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from gradient_rl.embedded.model import ArtGroup, Completion, Message, Transcript
from gradient_rl.embedded.protocol import choices_in

QUERIES = ("notice period", "deposit", "lunch menu", "weather", "nothing")
END = len(QUERIES)


class Bandit:
    """A reply is two tokens: which query, which is drawn, and the end, which is certain.

    An example raises the logit of the query that its assistant made by the learning rate.
    """

    concurrency = 1

    def __init__(self) -> None:
        self.logits: dict[int, list[float]] = {0: [0.0] * len(QUERIES)}

    def chances(self, step: int) -> list[float]:
        weights = [math.exp(logit) for logit in self.logits[step]]
        return [weight / sum(weights) for weight in weights]

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
        chances = self.chances(step)
        chosen = random.Random(seed).choices(range(len(QUERIES)), chances)[0]
        query = json.dumps({"query": QUERIES[chosen]})
        call = {"id": f"call_{len(messages)}", "type": "function", "function": {"name": "search", "arguments": query}}
        return Completion(
            message={"role": "assistant", "content": None, "tool_calls": [call]},
            prompt_token_ids=tuple(range(len(messages))),
            token_ids=(chosen, END),
            logprobs=(math.log(chances[chosen]), 0.0),
            tokens=(query, ""),
            finish_reason="tool_calls",
        )

    def train(self, groups: Sequence[ArtGroup], config: Mapping[str, Any], *, step: int) -> Iterable[Mapping[str, float]]:
        logits, chances, rate = list(self.logits[step]), self.chances(step), config["learning_rate"]
        for group in groups:
            rewards = [trajectory["reward"] for trajectory in group["trajectories"]]
            for reward, trajectory in zip(rewards, group["trajectories"], strict=True):
                advantage = (reward - fmean(rewards)) / len(rewards)
                for choice in choices_in(trajectory):
                    for i, chance in enumerate(chances):
                        logits[i] += rate * advantage * ((i == choice["token_ids"][0]) - chance)
            yield {"reward": fmean(rewards), "learning_rate": rate}
        self.logits[step + 1] = logits

    def finetune(
        self, transcripts: Sequence[Transcript], config: Mapping[str, Any], *, step: int
    ) -> Iterable[Mapping[str, float]]:
        logits = list(self.logits[step])
        for transcript in transcripts:
            calls = [call for message in transcript["messages"] for call in message.get("tool_calls") or ()]
            for call in calls:
                logits[QUERIES.index(json.loads(call["function"]["arguments"])["query"])] += config["learning_rate"]
            yield {"calls": len(calls)}
        self.logits[step + 1] = logits

    def steps(self) -> Sequence[int]:
        return sorted(self.logits)

    def close(self) -> None:
        """A pull takes no time."""

    def forget(self, steps: Sequence[int]) -> None:
        for step in steps:
            del self.logits[step]
