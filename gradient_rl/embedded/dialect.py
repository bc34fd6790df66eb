"""How a conversation becomes a language model's text, and its text a message again.

A chat template that knows tools (Qwen's, Llama's) gets the conversation as it is. For one that does not, such as SmolLM2's,
the same template is extended here:

- the system message ends with the tools, a line each, and one example of a call;
- an assistant's call is written `<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>`, Hermes' way, which
  most open models know;
- a tool's answer is a message of the role `tool`, in the brief form of `brief`: a small model reads a line for each hit, and of
  an opened record its head and the paragraphs nearest to the question, in all `MAX_OBSERVATION_CHARS` characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from gradient_rl.embedded.model import Message
from gradient_rl.policies.toolcalls import read_calls

STOP = "</tool_call>"
"""A reply ends with its first call."""
MAX_OBSERVATION_CHARS = 600
"""Of one tool result, about 180 tokens."""
MAX_SNIPPET_CHARS = 40
MIN_WORD_CHARS, STEM_CHARS = 4, 5
_CALL = re.compile(r'<tool_call>\{"name": "(\w{1,64})", "arguments": (\{.*\})\}</tool_call>', re.DOTALL)
_EXAMPLE = '<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>'


class ChatTokenizer(Protocol):
    """What of a tokenizer of transformers is used here."""

    chat_template: object
    all_special_tokens: Sequence[str]

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:  # noqa: ANN401 - as transformers has it
        """The conversation as text."""
        ...


def as_text(tokenizer: ChatTokenizer, messages: Sequence[Message], tools: Sequence[Message], *, reply: bool) -> str:
    """The conversation as the model reads it.

    Args:
        tokenizer: brings the chat template.
        messages: in OpenAI's form.
        tools: the tool schemas.
        reply: whether the text ends where the assistant's next message begins.
    """
    messages = [_defused(message, tokenizer.all_special_tokens) for message in messages]
    if "tools" in str(tokenizer.chat_template):
        said, offered = [_with_parsed_arguments(message) for message in messages], list(tools)
        return tokenizer.apply_chat_template(said, tools=offered or None, tokenize=False, add_generation_prompt=reply)
    said = list(_plain(messages, tools))
    return tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=reply)


def as_message(text: str, number: int, tools: Sequence[Message]) -> Message:
    """A reply in OpenAI's form; its text comes back unchanged when the message is rendered.

    A call that is written as this module writes one becomes a native call, its arguments letter by letter. Anything else stays
    text, in which a lenient reader may still find a call.

    Args:
        text: without the token that ends a message.
        number: of the messages before it, which makes the call's id.
        tools: what was offered.
    """
    written = _CALL.fullmatch(text)
    if written and _is_object(written[2]):
        return _calling(number, written[1], written[2])
    read = read_calls(text, (), tools)
    if len(read.calls) == 1 and not read.content and STOP in text and not written:
        call = read.calls[0]
        return _calling(number, call.tool, json.dumps(call.arguments, ensure_ascii=False))
    return {"role": "assistant", "content": text}


def call_text(name: str, arguments: str) -> str:
    """A call as the model writes it; `arguments` is a JSON object as text."""
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def brief(observation: str, question: str = "") -> str:
    """A tool result in the form that a small model reads; what is no JSON object of a tool stays as it is, cut to length.

    Args:
        observation: as the environment gave it.
        question: what the user asked; of a long record the paragraphs are shown that share most words with it.
    """
    try:
        value: object = json.loads(observation)
    except ValueError:
        return _cut(observation)
    if not isinstance(value, dict):
        return _cut(observation)
    fields = cast("dict[str, Any]", value)
    if isinstance(fields.get("hits"), list):
        return "\n".join(_hit(hit) for hit in fields["hits"]) or str(fields.get("note", "no hits"))
    if "body" in fields:
        head = f"{_head(fields)}\n"
        return head + _passages(str(fields["body"]), question, MAX_OBSERVATION_CHARS - len(head))
    return _cut(str(fields["error"]) if "error" in fields else observation)


def _defused(message: Message, special: Sequence[str]) -> Message:
    """A message whose text cannot end it: what looks like a token of the template gets a blank behind its first letter.

    A reply stays as it is, for its tokens are those that the model chose.
    """
    if message["role"] == "assistant":
        return message
    text = _text(message.get("content"))
    for token in special:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return {**message, "content": text}


def _plain(messages: Sequence[Message], tools: Sequence[Message]) -> Iterable[Message]:
    """Messages of a role and a text, for a template that knows nothing else."""
    offered = _offered(tools)
    if not any(message["role"] == "system" for message in messages) and offered:
        yield {"role": "system", "content": offered}
    question = next((_text(message.get("content")) for message in messages if message["role"] == "user"), "")
    for message in messages:
        role, content = message["role"], _text(message.get("content"))
        if role == "system":
            yield {"role": role, "content": "\n\n".join(filter(None, [content, offered]))}
        elif role == "tool":
            yield {"role": role, "content": brief(content, question)}
        else:
            calls = (call["function"] for call in message.get("tool_calls") or ())
            yield {"role": role, "content": content + "".join(call_text(c["name"], c["arguments"]) for c in calls)}


def _offered(tools: Sequence[Message]) -> str:
    if not tools:
        return ""
    lines = [_signature(tool["function"]) for tool in tools]
    return "\n".join(["Tools:", *lines, f"Call one at a time, like this: {_EXAMPLE}"])


def _signature(function: Mapping[str, Any]) -> str:
    """One line, as `search(query): Search all e-mails and documents by keywords.` is one."""
    names = ", ".join(function.get("parameters", {}).get("properties", {}))
    first_sentence = str(function.get("description", "")).partition(". ")[0].rstrip(".")
    return f"{function['name']}({names}): {first_sentence}."


def _hit(hit: Mapping[str, Any]) -> str:
    """The id stands last: a model that reads from left to right knows then what it is the id of."""
    snippet = " ".join(str(hit.get("snippet", "")).split())[:MAX_SNIPPET_CHARS]
    kind = str(hit.get("kind", "")).replace("_", " ")
    return " | ".join(part for part in (kind, str(hit.get("title")), snippet, str(hit.get("id"))) if part)


def _head(record: Mapping[str, Any]) -> str:
    title = record.get("title") or record.get("subject") or ""
    date = str(record.get("date") or record.get("sent_at") or "")[:10]
    return " | ".join(str(part) for part in (record.get("id"), record.get("kind"), date, title))


def _passages(text: str, question: str, room: int) -> str:
    """The paragraphs of a text that share most words with a question, in their order, as many as fit."""
    if len(text) <= room:
        return text
    paragraphs, asked = text.split("\n\n"), _words(question)
    kept: list[int] = []
    left = room
    for at in sorted(range(len(paragraphs)), key=lambda at: (-len(asked & _words(paragraphs[at])), at)):
        if len(paragraphs[at]) <= left:
            kept.append(at)
            left -= len(paragraphs[at]) + 2
    chosen = "\n\n".join(paragraphs[at] for at in sorted(kept)) if kept else text[: max(0, room)]
    return f"{chosen} [...]"


def _words(text: str) -> set[str]:
    """The beginnings of the longer words, so that a plural meets its singular."""
    return {word[:STEM_CHARS] for word in re.findall(rf"\w{{{MIN_WORD_CHARS},}}", text.lower())}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_OBSERVATION_CHARS else text[:MAX_OBSERVATION_CHARS] + " [...]"


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in cast("list[dict[str, Any]]", content))
    return "" if content is None else str(content)


def _with_parsed_arguments(message: Message) -> Message:
    """A template that knows tools writes arguments as JSON itself, so it wants them read."""
    if not message.get("tool_calls"):
        return {**message, "content": _text(message.get("content"))}
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"] or "{}")}}
        for call in message["tool_calls"]
    ]
    return {**message, "content": _text(message.get("content")), "tool_calls": calls}


def _calling(number: int, name: str, arguments: str) -> Message:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
