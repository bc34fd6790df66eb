"""Replies as language models really write them, each with the calls that come out; a call is (tool, arguments).

The ids are those of the collection that the shapes were taken from. `None` for the calls: nothing may be executed.
"""

from __future__ import annotations

from typing import Any

Calls = list[tuple[str, dict[str, Any]]]

ARGUMENTS: list[tuple[str, object, dict[str, Any] | None]] = [
    # id, arguments of one native call, arguments that come out
    ("a02-null", None, {}),
    ("a03-empty-list", [], {}),
    ("a04-object-and-no-string", {"id": "mail-1"}, {"id": "mail-1"}),
    (
        "a07-strings-that-look-like-json",
        '{"answer": "{30}", "sources": ["42", "true"]}',
        {"answer": "{30}", "sources": ["42", "true"]},
    ),
    # The next two stay as written: arguments are checked strictly, so the episode tells the model what it got wrong.
    ("a08-list-as-a-string", '{"answer": "x", "sources": "[\\"doc-1\\"]"}', {"answer": "x", "sources": '["doc-1"]'}),
    ("a09-number-for-a-string", '{"query": 1.000001}', {"query": 1.000001}),
    ("a10-trailing-comma", '{"query": "deposit",}', {"query": "deposit"}),
    # A list that was cut may lack the source that mattered, so it is not closed for the model.
    ("a12-cut-in-a-list", '{"answer": "30 days", "sources": ["doc-1", "doc-2"', None),
    ("a13-extra-brace", '{"query": "deposit"}}', {"query": "deposit"}),
    ("a14-cut-after-a-colon", '{"answer": "30 days", "sources":', None),
    ("a15-cut-in-a-string", '{"sources": ["doc-1"], "answer": "30 da', None),
    ("a17-raw-line-break-and-tab", '{"query": "one\ntwo\tthree"}', {"query": "one\ntwo\tthree"}),
    ("a18-escapes-between-values", '{"query": \\n"deposit"\\n\\n}', {"query": "deposit"}),
    # Three objects under one name: which of them was meant cannot be told.
    ("a21-objects-in-a-row", '{"query": "a"}{"query": "b"}{"query": "c"}', None),
    ("a22-empty-object-first", '{}{"query": "deposit"}', {"query": "deposit"}),
    ("a24-braces-in-a-string", '{"query": "if (c) { r(); }{"}', {"query": "if (c) { r(); }{"}),
    ("a25-fence", '```json\n{"id": "doc-1"}\n```', {"id": "doc-1"}),
    ("a27-python-none", "None", {}),
    # Readable, so it is kept; the episode refuses the arguments 'type' and 'function', which no tool has.
    (
        "a28-call-within-a-call",
        "{'id': '5', 'type': 'function', 'function': {'name': 'search', 'arguments': {'query': 'A'}}}",
        {"id": "5", "type": "function", "function": {"name": "search", "arguments": {"query": "A"}}},
    ),
    ("a29-prose", "No search is needed here.", None),
    ("d02-doubled-brace", '{{"query": "deposit"}', {"query": "deposit"}),
    ("missing-brace", '{"query": "deposit"', {"query": "deposit"}),
    ("string-of-a-string", '"{\\"query\\": \\"deposit\\"}"', {"query": "deposit"}),
    ("single-quotes", "{'query': 'the \"net\" price'}", {"query": 'the "net" price'}),
    ("half-a-pair", '{"query": "\\ud83d"}', None),
    ("a-whole-pair", '{"query": "\\ud83d\\ude00"}', {"query": "😀"}),
    ("no-json-number", '{"query": NaN}', None),
    ("empty-string", "", {}),
]

DEPOSIT: Calls = [("search", {"query": "deposit"})]
BOTH: Calls = [("search", {"query": "deposit"}), ("open_email", {"id": "mail-1"})]
SEARCH = '{"name": "search", "arguments": {"query": "deposit"}}'
OPEN = '{"name": "open_email", "arguments": {"id": "mail-1"}}'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
)

TEXTS: list[tuple[str, str, Calls | None]] = [
    # id, text of a reply without native calls, calls that come out
    ("d01-marker-alone", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search", None),
    ("f01-fence-is-the-reply", f"```json\n{SEARCH}\n```", DEPOSIT),
    ("f02-example-in-prose", f"For example:\n```json\n{SEARCH}\n```\nDo not run it.", None),
    ("f03-bare-list", f"[{SEARCH}, {OPEN}]", BOTH),
    (
        "h02-end-tag-says-it-is-whole",
        '<tool_call>{"name": "search", "arguments": {"query": 5</tool_call>',
        [("search", {"query": 5})],
    ),
    (
        "h03-end-tag-in-a-string",
        '<tool_call>\n{"name": "search", "arguments": {"query": "see </tool_call> in docs"}}\n</tool_call>',
        [("search", {"query": "see </tool_call> in docs"})],
    ),
    ("h05-no-name", '<tool_call>{"arguments": {"query": "deposit"}}</tool_call>', None),
    ("h07-end-tag-alone", f"{SEARCH}</tool_call>", None),
    ("h08-cut-in-a-key", '<tool_call>{"name": "search", "arguments": {"que', None),
    (
        "h09-second-was-cut",
        f'First.<tool_call>{SEARCH}</tool_call><tool_call>{{"name": "search", "arguments": {{"query": "b',
        DEPOSIT,
    ),
    (
        "h12-apostrophe",
        '<tool_call>{"name": "search", "arguments": {"query": "what\'s due"}}</tool_call>',
        [("search", {"query": "what's due"})],
    ),
    (
        "h13-python-literal",
        "<tool_call>{'name': 'search', 'arguments': {'query': 'x', 'fresh': True, 'n': None}}</tool_call>",
        [("search", {"query": "x", "fresh": True, "n": None})],
    ),
    ("h14-parameters", '<tool_call>{"name": "search", "parameters": {"query": "deposit"}}</tool_call>', DEPOSIT),
    ("h14-tool", '<tool_call>{"tool": "search", "parameters": {"query": "deposit"}}</tool_call>', DEPOSIT),
    ("h14-function", '<tool_call>{"function": "search", "arguments": {"query": "deposit"}}</tool_call>', DEPOSIT),
    ("h14-nested", f'<tool_call>{{"type": "function", "function": {SEARCH}}}</tool_call>', DEPOSIT),
    ("h14-arguments-beside-the-name", '<tool_call>{"name": "search", "query": "deposit"}</tool_call>', None),
    (
        "h15-arguments-as-a-string",
        '<tool_call>{"name": "search", "arguments": "{\\n  \\"query\\": \\"deposit\\"\\n}"}</tool_call>',
        DEPOSIT,
    ),
    ("h16-no-arguments", '<tool_call>{"name": "search"}</tool_call>', [("search", {})]),
    (
        "h17-open-brace-in-a-string",
        '<tool_call>{"name": "search", "arguments": {"query": "test/{a,b"}}</tool_call>',
        [("search", {"query": "test/{a,b"})],
    ),
    ("h18-closing-brace-in-a-string", '{"name": "search", "parameters": {"query": "}A"}}', [("search", {"query": "}A"})]),
    ("k01-kimi", KIMI.format("functions.search:0", '{"query": "deposit"}'), DEPOSIT),
    # The name is not guessed at: the episode answers that there is no tool of this name.
    (
        "k03-kimi-glued-name",
        KIMI.format("functionssearch5", '{"query": "deposit"}'),
        [("functionssearch5", {"query": "deposit"})],
    ),
    (
        "l02-semicolon",
        '<|python_tag|>{"name": "search", "parameters": {"query": "deposit"}}; {"name": "open_email", "parameters": {"id": "mail-1"}}',
        BOTH,
    ),
    ("m02-mistral", '[TOOL_CALLS]search[ARGS]{"query": "deposit"}[TOOL_CALLS]open_email[ARGS]{"id": "mail-1"}', BOTH),
    ("m03-mistral-without-args", '[TOOL_CALLS]search{"query": "deposit"}', DEPOSIT),
    ("m04-mistral-prose-behind", '[TOOL_CALLS]search[ARGS]{"query":"deposit"}Looking it up...', DEPOSIT),
    ("m05-mistral-list", "[TOOL_CALLS][{'name': 'search', 'arguments': {'query': 'deposit'}}]$$ In order to", DEPOSIT),
    ("p01-python", '[search(query="deposit"), open_email(id="mail-1")]', BOTH),
    (
        "p02-python-commas-in-a-value",
        "[submit_answer(answer='Hi, you\\nsay(\"30\")', sources=['doc-1'])]",
        [("submit_answer", {"answer": 'Hi, you\nsay("30")', "sources": ["doc-1"]})],
    ),
    ("p03-infinity", "[search(query=1e999)]", None),
    ("p04-unpacking", "[search(**{'query': 'deposit'})]", None),
    ("t03-tags-as-prose", "<think>some write <function=...>, others <tool_call></think>\nDone.", None),
    ("t04-data-with-a-name", 'const s = \'{"name": "search", "age": 30}\';', None),
    ("t04-data-is-the-reply", '{"name": "Bingo", "age": 30}', None),
    ("x02-function-tag", "<function=search>\n<parameter=query>\ndeposit\n</parameter>\n</function>\n</tool_call>", DEPOSIT),
    (
        "x03-parameter-not-closed",
        "<tool_call>\n<function=search>\n<parameter=query>\ndeposit\n</function>\n</tool_call>",
        DEPOSIT,
    ),
    (
        "function-tag-with-a-list",
        '<function=submit_answer><parameter=answer>30</parameter><parameter=sources>["doc-1"]</parameter></function>',
        [("submit_answer", {"answer": "30", "sources": ["doc-1"]})],
    ),
    ("function-tag-was-cut", "<tool_call>\n<function=search>\n<parameter=query>\ndepo", None),
    ("bare-after-prose", f"I will look it up.\n{SEARCH}", DEPOSIT),
    ("two-fences", f"```json\n{SEARCH}\n```\n```json\n{OPEN}\n```", BOTH),
    ("fence-within-a-tag", f"<tool_call>\n```json\n{SEARCH}\n```\n</tool_call>", DEPOSIT),
    ("last-tag-not-closed", f"<tool_call>{SEARCH}</tool_call>\n<tool_call>\n{OPEN}\n", BOTH),
    ("missing-brace-at-the-end", f"<tool_call>{SEARCH[:-1]}", DEPOSIT),
    ("two-missing-at-the-end", f"<tool_call>{SEARCH[:-2]}", None),
    ("extra-brace", f"<tool_call>{SEARCH}}}</tool_call>", DEPOSIT),
    ("doubled-braces", f"<tool_call>{{{SEARCH}}}</tool_call>", DEPOSIT),
    (
        "broken-one-among-good-ones",
        f"<tool_call>{SEARCH}</tool_call><tool_call>{{oops}}</tool_call><tool_call>{OPEN}</tool_call>",
        None,
    ),
    (
        "one-with-cut-arguments-among-good-ones",
        f'<tool_call>{{"name": "search", "arguments": "{{\\"query\\": \\"de"}}</tool_call><tool_call>{OPEN}</tool_call>',
        None,
    ),
    ("draft-while-thinking", f"<think>maybe <tool_call>{OPEN}</tool_call>?</think><tool_call>{SEARCH}</tool_call>", DEPOSIT),
    ("draft-only", f"<think>maybe <tool_call>{OPEN}</tool_call>", None),
    (
        "template-began-the-thinking",
        f"maybe <tool_call>{OPEN}</tool_call>\n</think>\n\n<tool_call>{SEARCH}</tool_call>",
        DEPOSIT,
    ),
    ("broken-draft", f"or <tool_call>{{oops}}\n</think>\n{SEARCH}", DEPOSIT),
    (
        "call-quoted-in-an-answer",
        f"{{'name': 'submit_answer', 'arguments': {{'answer': 'write <tool_call>{OPEN}</tool_call>', 'sources': []}}}}",
        [("submit_answer", {"answer": f"write <tool_call>{OPEN}</tool_call>", "sources": []})],
    ),
    (
        "end-of-thinking-quoted-in-an-answer",
        f"<tool_call>{{'name': 'search', 'arguments': {{'query': '</think><tool_call>{OPEN}'}}}}</tool_call>",
        [("search", {"query": f"</think><tool_call>{OPEN}"})],
    ),
    ("prose", "The deposit is 500 dollars.", None),
    ("empty", "", None),
]
