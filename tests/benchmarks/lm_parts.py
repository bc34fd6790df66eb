"""What two choices of the language model are worth: how much of a tool result it reads, and how it attends."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median

from gradient_rl.embedded import dialect
from gradient_rl.embedded.weights import load
from gradient_rl.environment.workspace import TRAIN_FILE, load_tasks, load_workspace
from gradient_rl.rollout.runner import setting_for
from gradient_rl.schema.task import Split
from gradient_rl.schema.trajectory import SEARCH_TOOLS, Trajectory
from gradient_rl.training.demonstrations import demonstrations

DATA = Path(__file__).parents[2] / "data"
READ = ((1200, 100), (dialect.MAX_OBSERVATION_CHARS, dialect.MAX_SNIPPET_CHARS))
"""Characters of an opened record, and of a snippet: twice as much, and what is read."""
HEADS, SHARED, SIZE, TOKENS = 9, 3, 64, 1300


def words_seen(example: Trajectory) -> list[bool]:
    """Whether each query of an example uses only words that the model has read."""
    seen, known = example.question.lower(), []
    for step in example.steps:
        if step.tool in SEARCH_TOOLS:
            known.append(all(word in seen for word in re.findall(r"\w+", str(step.arguments["query"]).lower())))
        seen += dialect.brief(step.observation, example.question).lower()
    return known


def what_is_read() -> None:
    """Mean tokens of 100 examples of the packaged tasks, and the share of queries whose words were read."""
    file = load_tasks(DATA / TRAIN_FILE)
    tasks = [task for task in file.tasks if task.split is Split.TRAIN]
    examples, tokenizer = demonstrations(tasks, setting_for(load_workspace(DATA)), 100, seed=0), load("smollm2").tokenizer
    for dialect.MAX_OBSERVATION_CHARS, dialect.MAX_SNIPPET_CHARS in READ:
        texts = [dialect.as_text(tokenizer, list(e.messages), list(e.tools), reply=False) for e in examples]
        tokens = sum(len(tokenizer(text)["input_ids"]) for text in texts) / len(texts)
        known = [each for example in examples for each in words_seen(example)]
        print(f"{dialect.MAX_OBSERVATION_CHARS} characters: {tokens:,.0f} tokens, {sum(known) / len(known):.0%} of the queries")


def attention() -> None:
    """Milliseconds forward and backward, ours and PyTorch's, on one core; the median of nine."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from gradient_rl.embedded.attention import attend

    torch.set_num_threads(1)
    query, keys, values = (torch.randn(n, TOKENS, SIZE).bfloat16().requires_grad_() for n in (HEADS, SHARED, SHARED))
    many = HEADS // SHARED
    ways = {
        "in blocks": lambda: attend(query, keys, values, SIZE**-0.5),
        "PyTorch's": lambda: scaled_dot_product_attention(
            query[None], keys[None].repeat_interleave(many, 1), values[None].repeat_interleave(many, 1), is_causal=True
        ),
    }
    for name, way in ways.items():
        taken: list[float] = []
        for _ in range(9):
            started = time.perf_counter()
            way().sum().backward()
            taken.append(time.perf_counter() - started)
        print(f"attention {name}: {1000 * median(taken):.0f} ms")


if __name__ == "__main__":
    what_is_read()
    attention()
