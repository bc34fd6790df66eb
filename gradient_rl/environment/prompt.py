"""The conversation that an episode starts with: what the agent is told before its first call."""

from __future__ import annotations

from typing import Any

from gradient_rl.environment.episode import Limits
from gradient_rl.schema.task import Question

SYSTEM_PROMPT = """\
You are a research agent. You answer a colleague's question from the e-mails and documents of the company.

- Work with the tools only. Search with words, names, numbers or dates; open what looks useful; search again with what \
you have read. Records can be out of date, contradict each other, or be about a customer with a similar name.
- Only ids that a search has shown can be opened.
- End with submit_answer: the answer in one to three plain sentences, and the ids of exactly the records that prove it. \
A cited record that you did not open, or that proves nothing, counts against you; so does a record that is missing.
- If the records do not say, answer that it is not on record and cite the record that would have said it.
- You have {max_calls} tool calls in all, the submission among them. Fewer is better once the answer is sure."""


def opening_messages(question: Question, limits: Limits) -> list[dict[str, Any]]:
    """The system and user messages of an episode, in OpenAI's chat form."""
    return [
        {"role": "system", "content": SYSTEM_PROMPT.format(max_calls=limits.max_calls)},
        {"role": "user", "content": f"Today is {question.as_of.isoformat()}.\n\n{question.text}"},
    ]
