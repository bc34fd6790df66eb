from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradient_rl.environment.tools import tool_schemas
from gradient_rl.policies.toolcalls import CallsRead, read_calls
from tests.policies.replies import ARGUMENTS, DEPOSIT, KIMI, OPEN, SEARCH, TEXTS, Calls

TOOLS = tool_schemas()


def plain(read: CallsRead) -> Calls:
    return [(call.tool, call.arguments) for call in read.calls]


def native(arguments: object = '{"query": "deposit"}', name: object = "search", identity: object = "c1") -> dict[str, object]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def from_text(text: str) -> CallsRead:
    return read_calls(text, [], TOOLS)


@pytest.mark.parametrize(("arguments", "want"), [pytest.param(*row[1:], id=row[0]) for row in ARGUMENTS])
def test_native_arguments_are_read_as_models_write_them(arguments, want) -> None:
    read = read_calls(None, [native(arguments)], TOOLS)

    assert plain(read) == ([] if want is None else [("search", want)])
    assert (read.malformed is None) == (want is not None)


@pytest.mark.parametrize(("text", "want"), [pytest.param(*row[1:], id=row[0]) for row in TEXTS])
def test_calls_in_the_text_are_read_as_models_write_them(text, want) -> None:
    read = from_text(text)

    assert plain(read) == (want or [])
    assert (read.malformed is None) == bool(want)


# An unknown name is kept: the episode answers it with the names that there are.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("search<|channel|>commentary", id="g01-token-in-the-name"),
        pytest.param("searchjson", id="g02-json-glued-to-the-name"),
        pytest.param("multi_tool_use.parallel", id="c07-wrapper"),
    ],
)
def test_an_unknown_name_is_kept_as_written(name) -> None:
    assert read_calls(None, [native(name=name)], TOOLS).calls[0].tool == name


# Of the conversations in the collection (c01 to c09) those that hinge on a single reply are here; whether every call has its
# answer is not for a reader of replies to say.
@pytest.mark.parametrize(
    ("given", "made"),
    [
        pytest.param(["b9", "b9", "b9"], ["b9", "b9_2", "b9_3"], id="c01-twice"),
        pytest.param(["", None, 7], ["call_1", "call_2", "call_3"], id="c04-empty"),
        pytest.param(["a_2", "a", "a"], ["a_2", "a", "a_3"], id="suffix-taken"),
        pytest.param(["call_2", ""], ["call_2", "call_2_2"], id="made-one-taken"),
    ],
)
def test_ids_are_filled_in_and_made_unique(given, made) -> None:
    assert [call.id for call in read_calls(None, [native(identity=i) for i in given], TOOLS).calls] == made


def test_c09_an_empty_list_of_calls_beside_prose_is_malformed() -> None:
    read = from_text("calling")

    assert read == ((), read.malformed, "calling")
    assert read.malformed is not None
    assert "call one of search, search_email" in read.malformed


def test_native_calls_silence_the_text() -> None:
    read = read_calls(f"<tool_call>{OPEN}</tool_call>", [native()], TOOLS)

    assert plain(read) == DEPOSIT
    assert read.content == f"<tool_call>{OPEN}</tool_call>"


@pytest.mark.parametrize("bad", [native("prose"), native(name=""), native(name=None), native({"a": {1, 2}}), {}, None, "x", 3])
def test_one_unreadable_native_call_spoils_the_reply(bad) -> None:
    read = read_calls(None, [native(), bad], TOOLS)

    assert read.calls == ()
    assert read.malformed is not None


def test_what_was_cut_is_said() -> None:
    malformed = from_text('<tool_call>{"name": "search", "arguments": {"query": "de').malformed

    assert (
        malformed
        == "the reply ends in the middle of a tool call (the text ends inside a string); write the call again, in full"
    )


def test_the_content_is_what_no_call_uses() -> None:
    text = f"<think>draft <tool_call>{OPEN}</tool_call></think>\nFirst:\n<tool_call>{SEARCH}</tool_call>\nThen we see."

    assert from_text(text).content == f"<think>draft <tool_call>{OPEN}</tool_call></think>\nFirst:\n\nThen we see."
    assert from_text(f"```json\n{SEARCH}\n```").content is None


def test_a_call_that_was_cut_stays_in_the_content() -> None:
    assert from_text(f'<tool_call>{SEARCH}</tool_call><tool_call>{{"name": "se').content == '<tool_call>{"name": "se'


LENGTH = 300_000


@pytest.mark.parametrize(
    "piece",
    [
        "{", "[", "{{ ", '{"a":', '{"a":\n', "[{\n", "{'a':1}\n", "{'a':1} x\n", f"{SEARCH}\n", f"{SEARCH} x\n", "<tool_call>",
        "<tool_call>{", "<tool_call>{}", '<tool_call>{"a":"', f"<tool_call>{SEARCH}", "<think>", "</think>", "<think></think>",
        "<tool_call></think>", "```", "```json\n{", "\\", '"', "'", "\\n", " ", "\n", "{ ", "\n{\n", "<function=a>", "[a(b=",
        "<function=a><parameter=b>", "<function=a></function>", "[TOOL_CALLS]", "[TOOL_CALLS]a{", "[\n", "\n[a(b=1)]", "1",
        "<tool_call>{\"</think>\":<tool_call>{'", "<tool_call>{'x':'</think>'}", "<|tool_call_begin|>functions.",
    ],
)  # fmt: skip
def test_a_long_run_of_anything_is_read_in_a_moment(piece) -> None:
    text = piece * (LENGTH // len(piece))
    started = time.process_time()

    from_text(text)
    read_calls(None, [native(text)], TOOLS)

    assert time.process_time() - started < 1.5


@pytest.mark.parametrize("piece", ["{", "<tool_call>", '{"a":', "<tool_call>{"])
def test_a_megabyte_that_says_nothing_is_read_in_well_under_a_second(piece) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()

    assert from_text(text).calls == ()
    assert time.process_time() - started < 0.8


def test_depth_is_refused_and_no_error() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    assert read_calls(None, [native(deep)], TOOLS).malformed is not None
    assert read_calls(None, [native('{"a":' * 100_000 + "1" + "}" * 100_000)], TOOLS).malformed is not None


FRAGMENTS = [
    "<tool_call>", "</tool_call>", "<think>", "</think>", "```json\n", "```", "\n", "{", "}", "[", "]", '"', "'", "\\", ",", ":",
    SEARCH, OPEN, SEARCH[:-1], SEARCH.replace('"', "'"), json.dumps(SEARCH), '{"name": "search", "arguments": ', '"query"', "name",
    "[TOOL_CALLS]", "[ARGS]", "search", "<function=search>", "<parameter=query>", "</parameter>", "</function>", "<|python_tag|>",
    "[search(query=", ")]", "\ud800", "\\ud800", "1e9", "null", "😀", " prose ",
]  # fmt: skip
mangled = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=14).map("".join)


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [s for key, item in value.items() for s in (key, *strings_in(item))]
    return [s for item in value for s in strings_in(item)] if isinstance(value, list) else []


def unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        return json.loads(f'"{found[0]}"') if found[0] != "\\'" else "'"

    plain_text = re.sub(r"\\(?:u[0-9a-fA-F]{4}|[\"\\/bfnrt'])", one, text)
    return plain_text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def stands_in(value: str, text: str) -> bool:
    once = unescaped(text)
    return any(value in reading for reading in (text, once, unescaped(once), unescaped(unescaped(once))))


@settings(max_examples=300, deadline=None)
@given(mangled)
def test_mangled_text_never_raises_and_nothing_is_made_up(text: str) -> None:
    natively = read_calls(text, [native(text)], TOOLS)
    for read in (from_text(text), natively):
        assert (read.malformed is None) == bool(read.calls)
        assert len({call.id for call in read.calls}) == len(read.calls)
        for call in read.calls:
            assert read is natively or call.tool in text
            assert all(stands_in(value, text) for value in strings_in(call.arguments))
            json.dumps(call.arguments, ensure_ascii=False).encode()


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
anything = st.recursive(
    plain_values | st.floats() | st.just(object()) | mangled,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(anything, st.builds(native, anything, anything, anything)), max_size=3))
def test_mangled_native_calls_never_raise(items: list[object]) -> None:
    read = read_calls(None, items, TOOLS)

    assert (read.malformed is None) == bool(read.calls)


quoted = st.sampled_from([*FRAGMENTS[:13], SEARCH, f"<tool_call>{OPEN}</tool_call>"])
texts = st.text() | st.lists(quoted | st.text(max_size=3), max_size=5).map("".join)
searches = st.tuples(st.sampled_from(["search", "search_email", "search_documents"]), st.fixed_dictionaries({"query": texts}))
opens = st.tuples(st.sampled_from(["open_email", "open_document"]), st.fixed_dictionaries({"id": texts}))
answer = st.tuples(st.just("submit_answer"), st.fixed_dictionaries({"answer": texts, "sources": st.lists(texts, max_size=3)}))
some_calls = st.lists(searches | opens | answer, min_size=1, max_size=4)


def as_json(call: tuple[str, dict[str, object]], ascii_only: bool = False) -> str:
    return json.dumps({"name": call[0], "arguments": call[1]}, ensure_ascii=ascii_only)


def as_python(call: tuple[str, dict[str, object]]) -> str:
    return f"{call[0]}({', '.join(f'{key}={json.dumps(value)}' for key, value in call[1].items())})"


FORMS = {
    "tags": lambda calls: "Let me see.\n" + "\n".join(f"<tool_call>\n{as_json(c)}\n</tool_call>" for c in calls),
    "last tag open": lambda calls: "".join(f"<tool_call>{as_json(c)}" for c in calls),
    "fences": lambda calls: "Let me see.\n" + "\n".join(f"```json\n{as_json(c)}\n```" for c in calls),
    "one fence": lambda calls: f"```json\n[{', '.join(map(as_json, calls))}]\n```",
    "bare": lambda calls: "\n".join(as_json(c, ascii_only=True) for c in calls),
    "strings": lambda calls: "".join(
        "<tool_call>" + json.dumps({"name": c[0], "arguments": json.dumps(c[1])}) + "</tool_call>" for c in calls
    ),
    "mistral": lambda calls: "".join(f"[TOOL_CALLS]{c[0]}[ARGS]{json.dumps(c[1])}" for c in calls),
    "kimi": lambda calls: "".join(KIMI.format(f"functions.{c[0]}:{i}", json.dumps(c[1])) for i, c in enumerate(calls)),
    "python": lambda calls: f"[{', '.join(map(as_python, calls))}]",
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40, deadline=None)
@given(calls=some_calls)
def test_a_well_formed_text_gives_back_its_calls(form: str, calls: Calls) -> None:
    assert plain(from_text(FORMS[form](calls))) == calls


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1).filter(str.strip).map(str.strip), st.dictionaries(st.text(), plain_values, max_size=3)),
        min_size=1,
    )
)
def test_native_calls_are_given_back(calls: Calls) -> None:
    as_string = [native(json.dumps(arguments), name, f"c{i}") for i, (name, arguments) in enumerate(calls)]
    as_object = [native(arguments, name, f"c{i}") for i, (name, arguments) in enumerate(calls)]

    assert plain(read_calls(None, as_string, TOOLS)) == calls
    assert plain(read_calls(None, as_object, TOOLS)) == calls


@pytest.mark.parametrize("opened", ["<tool_call>", "```json\n", ""])
def test_a_call_that_was_cut_before_its_arguments_is_none(opened: str) -> None:
    assert from_text(f'{opened}{{"name": "submit_answer"').calls == ()


@settings(max_examples=60, deadline=None)
@given(answer, st.data())
def test_no_call_comes_of_a_text_that_ends_in_a_value(call: tuple[str, dict[str, object]], data: st.DataObject) -> None:
    text = f"<tool_call>{as_json(call)}"
    cut = data.draw(st.integers(0, len(text) - 2))

    assert from_text(text[:cut]).calls == ()
