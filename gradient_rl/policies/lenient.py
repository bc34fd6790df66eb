"""JSON as models write it: mild damage is mended, and text that was cut is told apart from text that is broken.

Mended: a comma before a closing bracket, single quotes, Python's `True`, `False` and `None`, raw line breaks in a string, a
backslash and a letter for white space between values, one closing brace too few or too many, a doubled opening brace.
Never mended: a string, list or number that ends where the text ends, for it is not the value that the model meant.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_DEPTH = 64
"""Containers within one another; far above what a call needs, far below what Python's stack allows."""
_MAX_NUMBER = 40
_MORE = re.compile(r"(?:\s|\\[nrt])*+")
_CLOSER = re.compile(r"</tool_call>|<\|tool_call_end\|>|```")
_STRINGS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"'\\/bfnrt]))")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORD = re.compile(r"[\w+.-]*+")
_WORDS: dict[str, JsonValue] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LEAD = re.compile(r"\s*+(?:```[\w-]*+\s*+)?(?:\{\s*+\}\s*+(?=\{))?(?:\{\s*+(?=\{))?")
_TAIL = re.compile(r"(?:\s*+\})?\s*+(?:```)?\s*+")


class UnreadableError(ValueError):
    """A text that is not JSON even with a lenient eye."""

    def __init__(self, reason: str, at: int, cut: bool = False) -> None:
        super().__init__(reason)
        self.at = at
        """The place that was reached; never inside a string that could be read."""
        self.cut = cut
        """Whether the text ends before the value does."""


def whole_value(text: str) -> JsonValue:
    """The one value that a text consists of; a code fence around it and an empty object before it do not count.

    Raises:
        UnreadableError: it is damaged beyond what is mended, or more text follows.
    """
    reader = Reader(text)
    value = reader.outer_value()
    end = reader.at
    tail = _TAIL.match(text, end)
    if tail is None or tail.end() < len(text):
        raise UnreadableError(f"more text follows the value: '{text[end : end + 40].strip()}'", end)
    return value


class Reader:
    """Reads values off a text from a place on. Time is linear in what is read."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at
        self._missing = 0

    @property
    def mended(self) -> bool:
        """Whether a closing brace was missing at the end of the text when the last value was read."""
        return self._missing > 0

    def outer_value(self) -> JsonValue:
        """The next value, which may have one opening brace too many.

        Raises:
            UnreadableError: there is none.
        """
        self._missing = 0
        lead = _LEAD.match(self.text, self.at)
        self.at = lead.end() if lead else self.at
        return self.value()

    def value(self, depth: int = 0) -> JsonValue:
        """The next value; `depth` is the number of containers around it.

        Raises:
            UnreadableError: there is none.
        """
        self.skip()
        if depth > MAX_DEPTH:
            raise UnreadableError(f"values are nested deeper than {MAX_DEPTH}", self.at)
        opening = self.text[self.at : self.at + 1]
        if opening == "{":
            return self._object(depth)
        if opening == "[":
            return self._list(depth)
        return self._string() if opening in _STRINGS else self._word()

    def skip(self) -> None:
        """Step over white space."""
        space = _MORE.match(self.text, self.at)
        self.at = space.end() if space else self.at

    def take(self, token: str) -> bool:
        """Step over white space, and over the token if it stands there."""
        self.skip()
        there = self.text.startswith(token, self.at)
        self.at += len(token) * there
        return there

    def need(self, token: str) -> None:
        """Step over a token that must stand here.

        Raises:
            UnreadableError: it does not.
        """
        if not self.take(token):
            raise self._wrong(f"'{token}'")

    def _object(self, depth: int) -> JsonValue:
        self.at += 1
        members: dict[str, JsonValue] = {}
        while not self._ends("}", first=not members):
            if self.text[self.at] not in _STRINGS:
                raise self._wrong("a key in quotes")
            key = self._string()
            self.need(":")
            members[key] = self.value(depth + 1)
        return members

    def _list(self, depth: int) -> JsonValue:
        self.at += 1
        items: list[JsonValue] = []
        while not self._ends("]", first=not items):
            items.append(self.value(depth + 1))
        return items

    def _ends(self, bracket: str, first: bool) -> bool:
        comma = not first and self.take(",")
        if self.take(bracket) or _CLOSER.match(self.text, self.at):
            return True
        if self.at == len(self.text):
            self._miss(may=bracket == "}" and not comma and not first)
            return True
        if not first and not comma:
            raise self._wrong(f"',' or '{bracket}'")
        return False

    def _miss(self, may: bool) -> None:
        self._missing += 1
        if not may or self._missing > 1:
            raise UnreadableError("the text ends before the value does", self.at, cut=True)

    def _string(self) -> str:
        found = _STRINGS[self.text[self.at]].match(self.text, self.at)
        if found is None:
            raise UnreadableError("the text ends inside a string", len(self.text), cut=True)
        self.at = found.end()
        return self._unescaped(found[1])

    def _unescaped(self, body: str) -> str:
        plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2]), body)
        try:
            return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise UnreadableError("a string holds half of a surrogate pair", self.at) from None

    def _word(self) -> JsonValue:
        found = _WORD.match(self.text, self.at)
        word = found[0] if found else ""
        if word in _WORDS:
            self.at += len(word)
            return _WORDS[word]
        if self.at + len(word) == len(self.text):
            raise UnreadableError("the text ends before the value does", len(self.text), cut=True)
        number = _number(word)
        if number is None:
            raise self._wrong("a value")
        self.at += len(word)
        return number

    def _wrong(self, expected: str) -> UnreadableError:
        rest = self.text[self.at : self.at + 20]
        if not rest:
            return UnreadableError("the text ends before the value does", self.at, cut=True)
        return UnreadableError(f"character {self.at + 1} should be {expected}, but there stands '{rest}'", self.at)


def _number(word: str) -> int | float | None:
    if len(word) > _MAX_NUMBER or not _NUMBER.fullmatch(word):
        return None
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if math.isfinite(float(word)) else None
