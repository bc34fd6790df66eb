"""Reading tool calls out of a language model's reply, whichever way the model wrote them.

Native calls come first: where there are any, the text is not read. In the text these count as calls, outside of thinking only:

1. what a model marks as a call: `<tool_call>` (Hermes, Qwen, with JSON or `<function=...>` within), `[TOOL_CALLS]` (Mistral),
   `<|tool_call_begin|>` (Kimi), `<|python_tag|>` (Llama);
2. where nothing is marked, what a reply ends with: one or more JSON objects in a code fence or at the start of a line, or a
   list `[search(query="...")]`. With prose behind it, it is an example and no call.

Names and arguments stay as they were written: whether they fit a tool is for the episode to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gradient_rl.policies.lenient import Reader, UnreadableError, whole_value
from gradient_rl.schema.trajectory import ToolCall

if TYPE_CHECKING:
    from pydantic import JsonValue

_NAME_KEYS = ("name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters")
_SIDE_KEYS = {"id", "type", "index"}
_MAX_WRAPPINGS = 3
"""How often arguments may be a string that holds a string."""
_NO_CALL = "the reply holds no tool call; call one of {tools}"
_CUT = "the reply ends in the middle of a tool call ({reason}); write the call again, in full"
_BROKEN = "a tool call could not be read: {reason}; write its arguments as one JSON object"

_MARK = re.compile(
    r"""(?P<think><think(?:ing)?>)
    | (?P<thought></think(?:ing)?>)
    | (?P<tag><tool_call>\s*+(?:```[\w-]*+\s*+)?(?=[\[{]))
    | (?P<plain>(?:\[TOOL_CALLS\]|<\|python_tag\|>)\s*+(?=[\[{]))
    | (?P<named>(?:\[TOOL_CALLS\]\s*+ | <\|tool_call_begin\|>\s*+(?:functions\.)?)
        (?P<name>\w[\w.-]*+)(?::[0-9]++)?\s*+(?:\[ARGS\]|<\|tool_call_argument_begin\|>)?\s*+(?=\{))
    | (?P<xml>(?:<tool_call>\s*+)?<function=(?P<function>\w[\w.-]*+)>\s*+(?=<parameter=|</function>))
    | (?P<loose>(?:```[\w-]*+\s*+|^[\ \t]*+)(?=[\[{]\s*+["'{]))
    | (?P<python>^[\ \t]*+\[(?=\s*+\w++\(\s*+\w++\s*+=))""",
    re.VERBOSE | re.MULTILINE,
)
_THOUGHT = re.compile(r"</think(?:ing)?>")
_EXTRA_BRACE = re.compile(r"\s*+\}")
_SEPARATOR = re.compile(r"[\s;,]*+(?=\{)")
_TAG_END = re.compile(r"\s*+(?:```\s*+)?(?:</tool_call>|(?=<tool_call>)|</[a-z_]*\Z|\Z)")
_NAMED_END = re.compile(r"(?:\s*+<\|tool_call_end\|>)?")
_FENCE_END = re.compile(r"(?:\s*+```)?")
_NOTHING = re.compile("")
_BETWEEN = " \t\r\n;,"
_IDENTIFIER = re.compile(r"\s*+(\w++)\s*+")
_PARAMETER = re.compile(r"\s*+<parameter=(\w++)>\n?")
_PARAMETER_END = re.compile(r"\n?(?:</parameter>|(?=<parameter=|</function>))")
_FUNCTION_END = re.compile(r"\s*+</function>(?:\s*+</tool_call>)?")


class CallsRead(NamedTuple):
    """What a reply says once its calls are taken out."""

    calls: tuple[ToolCall, ...]
    """In the order of the reply; their ids are not empty, and unique within it."""
    malformed: str | None
    """One sentence for the model: why no call could be read; None when there are calls."""
    content: str | None
    """The text that is not part of a call, thinking included; None when there is none."""


class _Written(NamedTuple):
    tool: str
    arguments: dict[str, JsonValue]
    id: str


def read_calls(content: str | None, native: Sequence[object], tools: Sequence[Mapping[str, Any]]) -> CallsRead:
    """The tool calls of a reply. Never raises, and takes time linear in the reply.

    Args:
        content: the reply's text.
        native: the reply's `tool_calls` as plain JSON.
        tools: the tools that the model was offered, in OpenAI's form.
    """
    try:
        if native:
            return CallsRead(_with_ids([_call_in(item) for item in native]), None, content)
        scan = _Scan(content or "", tools)
        scan.run()
    except UnreadableError as error:
        return CallsRead((), _complaint(error), content)
    calls = scan.calls
    if calls:
        return CallsRead(_with_ids(calls), None, scan.rest)
    return CallsRead((), _complaint(scan.cut) if scan.cut else _NO_CALL.format(tools=", ".join(_types(tools))), content)


class _Scan:
    """One walk over a text, from mark to mark."""

    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self.text = text
        self.types = _types(tools)
        self.cut: UnreadableError | None = None
        """Set when the text ends within a call; what stands before it still counts."""
        self._broken: UnreadableError | None = None
        self._marked: list[_Written] = []
        self._loose: list[_Written] = []
        self._marked_spans: list[tuple[int, int]] = []
        self._loose_spans: list[tuple[int, int]] = []

    @property
    def calls(self) -> list[_Written]:
        return self._marked or self._loose

    @property
    def rest(self) -> str | None:
        spans = self._marked_spans if self._marked else self._loose_spans
        starts = [0, *(end for _, end in spans)]
        ends = [*(start for start, _ in spans), len(self.text)]
        left = "".join(self.text[start:end] for start, end in zip(starts, ends, strict=True))
        return left.strip() or None

    def run(self) -> None:
        """Find the calls.

        Raises:
            UnreadableError: one of them is broken; to act on the others would be to drop it silently.
        """
        at = 0
        last_thought = self.text.rfind("</think")
        while mark := _MARK.search(self.text, at):
            at = max(self._step(mark), mark.start() + 1)
            if self._broken and at > last_thought:
                raise self._broken
        if self._broken:
            raise self._broken
        self._keep_only_if_last(len(self.text))

    def _step(self, mark: re.Match[str]) -> int:
        if mark["think"]:
            thought = _THOUGHT.search(self.text, mark.end())
            return thought.end() if thought else len(self.text)
        if mark["thought"]:
            self._forget()
            return mark.end()
        reader = Reader(self.text, mark.end())
        try:
            return self._read(mark, reader)
        except UnreadableError as error:
            self._note(error)
            return max(error.at, reader.at)

    def _forget(self) -> None:
        """Thinking ends that never began: a chat template opened it, so all that was read so far is a draft."""
        self._broken = self.cut = None
        for found in (self._marked, self._loose, self._marked_spans, self._loose_spans):
            found.clear()

    def _note(self, error: UnreadableError) -> None:
        if error.cut:
            self.cut = error
        else:
            self._broken = self._broken or error

    def _read(self, mark: re.Match[str], reader: Reader) -> int:
        if mark["loose"] is not None or mark["python"]:
            return self._read_loose(mark, reader)
        if mark["named"]:
            calls = [_Written(mark["name"], _arguments(reader.outer_value()), "")]
            end = self._end(reader, _NAMED_END)
        elif mark["xml"]:
            calls = [self._read_function(mark["function"], reader)]
            end = reader.at
        else:
            calls = _calls_read(list(_flat(list(_values(reader)))), reader)
            end = self._end(reader, _TAG_END if mark["tag"] else _NOTHING)
        self._marked += calls
        self._marked_spans.append((mark.start(), end))
        return end

    def _read_loose(self, mark: re.Match[str], reader: Reader) -> int:
        self._keep_only_if_last(mark.start())
        if mark["python"]:
            self._loose += _python_calls(reader)
        else:
            values = list(_flat(_values(reader)))
            if not all(self._is_call(value) for value in values):
                return reader.at
            self._loose += _calls_read(values, reader)
        end = self._end(reader, _FENCE_END if mark[0].startswith("```") else _NOTHING)
        self._loose_spans.append((mark.start(), end))
        return end

    def _keep_only_if_last(self, at: int) -> None:
        if self._loose_spans and self.text[self._loose_spans[-1][1] : at].strip(_BETWEEN):
            self._loose.clear()
            self._loose_spans.clear()

    def _is_call(self, value: JsonValue) -> bool:
        """Whether unmarked JSON is a call and not data that happens to have a name."""
        if not isinstance(value, dict):
            return False
        inner = value.get("function")
        fields = inner if isinstance(inner, dict) else value
        name = next((fields[key] for key in _NAME_KEYS if key in fields), None)
        return isinstance(name, str) and (name in self.types or any(key in fields for key in _ARGUMENT_KEYS))

    def _end(self, reader: Reader, closer: re.Pattern[str]) -> int:
        extra = _EXTRA_BRACE.match(self.text, reader.at)
        at = extra.end() if extra else reader.at
        end = closer.match(self.text, at)
        if end is None:
            raise UnreadableError(f"behind its JSON there stands '{self.text[at : at + 20].strip()}'", at)
        return end.end()

    def _read_function(self, name: str, reader: Reader) -> _Written:
        types = self.types.get(name, {})
        arguments: dict[str, object] = {}
        while begin := _PARAMETER.match(self.text, reader.at):
            end = _PARAMETER_END.search(self.text, begin.end())
            if end is None:
                raise UnreadableError("the text ends inside a parameter", len(self.text), cut=True)
            reader.at = end.end()
            arguments[begin[1]] = _typed(self.text[begin.end() : end.start()], types.get(begin[1]))
        closed = _FUNCTION_END.match(self.text, reader.at)
        if closed is None:
            raise UnreadableError("'</function>' is missing", reader.at, cut=not self.text[reader.at :].strip())
        reader.at = closed.end()
        return _Written(name, _plain(arguments), "")


def _values(reader: Reader) -> Iterator[JsonValue]:
    """One value, and those that follow it with nothing but separators between them."""
    yield reader.outer_value()
    while more := _SEPARATOR.match(reader.text, reader.at):
        reader.at = more.end()
        yield reader.outer_value()


def _calls_read(values: Sequence[JsonValue], reader: Reader) -> list[_Written]:
    """The calls that values describe. One without arguments whose end was missing was cut before they came."""
    calls = [_call_in(value) for value in values]
    if reader.mended and calls and not calls[-1].arguments:
        raise UnreadableError("the text ends before the arguments come", len(reader.text), cut=True)
    return calls


def _flat(values: Iterable[JsonValue]) -> Iterator[JsonValue]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _python_calls(reader: Reader) -> Iterator[_Written]:
    """Calls like those of Python, keyword arguments only, up to the bracket that closes their list."""
    while not reader.take("]"):
        name = _identifier(reader)
        reader.need("(")
        arguments: dict[str, JsonValue] = {}
        while not reader.take(")"):
            key = _identifier(reader)
            reader.need("=")
            arguments[key] = reader.value()
            _ = reader.take(",")
        yield _Written(name, arguments, "")
        _ = reader.take(",")


def _identifier(reader: Reader) -> str:
    found = _IDENTIFIER.match(reader.text, reader.at)
    if found is None:
        cut = reader.at == len(reader.text)
        raise UnreadableError(f"character {reader.at + 1} should begin a name", reader.at, cut=cut)
    reader.at = found.end()
    return found[1]


def _typed(text: str, type_name: str | None) -> JsonValue:
    """A parameter that stands between tags; what is no string in the tool's schema is written there as JSON."""
    return text if type_name in (None, "string") else _held_in(text)


def _held_in(text: str) -> JsonValue:
    """The value that a string holds. The string itself is complete, so what ends too early in it is broken and not cut."""
    try:
        return whole_value(text)
    except UnreadableError as error:
        raise UnreadableError(f"in its arguments, {error}", 0) from None


def _call_in(item: object) -> _Written:
    """The call that an object describes.

    Raises:
        UnreadableError: it describes none.
    """
    fields = _fields(item)
    identity = fields.get("id")
    inner = fields.get("function")
    if isinstance(inner, dict):
        fields = cast("dict[str, object]", inner)
    names = [fields[key] for key in _NAME_KEYS if fields.get(key) is not None]
    if len(names) != 1 or not isinstance(names[0], str) or not _clean(names[0]):
        raise UnreadableError("it does not name a tool under 'name'", 0)
    return _Written(names[0].strip(), _arguments(_given(fields)), identity if isinstance(identity, str) else "")


def _fields(item: object) -> dict[str, object]:
    if not isinstance(item, dict):
        raise UnreadableError("it is not a JSON object", 0)
    return cast("dict[str, object]", item)


def _clean(name: str) -> bool:
    return bool(name.strip()) and not any("\ud800" <= character <= "\udfff" for character in name)


def _given(fields: Mapping[str, object]) -> object:
    given = [fields[key] for key in _ARGUMENT_KEYS if fields.get(key) is not None]
    others = fields.keys() - {*_NAME_KEYS, *_ARGUMENT_KEYS, *_SIDE_KEYS}
    if len(given) > 1 or (not given and others):
        raise UnreadableError("its arguments do not stand under 'arguments'", 0)
    return given[0] if given else None


def _arguments(given: object) -> dict[str, JsonValue]:
    """Arguments as an object: nothing is an empty one, and a string is read.

    Raises:
        UnreadableError: they are something else.
    """
    value = given
    for _ in range(_MAX_WRAPPINGS):
        if not isinstance(value, str):
            break
        value = None if value.strip() in ("", "None") else _held_in(value)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise UnreadableError("its arguments are not a JSON object", 0)
    return _plain(cast("dict[str, object]", value))


def _plain(arguments: dict[str, object]) -> dict[str, JsonValue]:
    """The arguments if every value in them is one that JSON can hold and a trajectory can save."""
    try:
        return cast("dict[str, JsonValue]", _held_in(json.dumps(arguments)))
    except (TypeError, ValueError, RecursionError):
        raise UnreadableError("its arguments are not plain JSON", 0) from None


def _with_ids(calls: Sequence[_Written]) -> tuple[ToolCall, ...]:
    taken: set[str] = set()
    numbers: dict[str, Iterator[int]] = {}
    made: list[ToolCall] = []
    for place, call in enumerate(calls, start=1):
        base = call.id if _clean(call.id) else f"call_{place}"
        identity = base
        while identity in taken:
            identity = f"{base}_{next(numbers.setdefault(base, count(2)))}"
        taken.add(identity)
        made.append(ToolCall(id=identity, tool=call.tool, arguments=call.arguments))
    return tuple(made)


def _complaint(error: UnreadableError) -> str:
    told = (_CUT if error.cut else _BROKEN).format(reason=error)
    return told.encode("utf-8", "replace").decode("utf-8")  # a quoted half of a surrogate pair could not be sent on


def _types(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str | None]]:
    """Type names by tool and argument."""
    functions = [tool["function"] for tool in tools]
    return {f["name"]: {k: v.get("type") for k, v in f.get("parameters", {}).get("properties", {}).items()} for f in functions}
