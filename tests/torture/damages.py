"""Ways in which a file is damaged: each takes a random generator and the bytes, and gives other bytes."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any

type Damage = Callable[[random.Random, bytes], bytes]

STRANGE: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, -0.5, 1e300, float("nan"), float("inf"), float("-inf")),
    *(10**400, 10**5000, "", " ", "x", "nan", "\ud800", "a\ud800b", "\x00", "../../x", "é" * 300, "9" * 400),
    *([], {}, [None], {"x": 1}, [[]], ["\ud800"], {"\ud800": 1}, [1, "x", {}], {"id": []}),
)
"""Values that are put in any field's place."""
NUMBERS = ("1" * 400, "9" * 5000, "-" + "7" * 400, "1e400", "-1e-400", "NaN", "Infinity", "-Infinity", "01", "0x1", "1_000")


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(max(1, len(data)))]


def cut_head(rng: random.Random, data: bytes) -> bytes:
    return data[rng.randrange(1, max(2, len(data))) :]


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def nul_run(rng: random.Random, data: bytes) -> bytes:
    at, count = _at(rng, data), rng.choice((1, 7, 512, 4096))
    return data[:at] + b"\0" * count + data[at + rng.choice((0, count)) :]


def nul_tail(rng: random.Random, data: bytes) -> bytes:
    """What a file system leaves of an append when the power fails: the length, without the bytes."""
    at = _at(rng, data)
    return data[:at] + b"\0" * (len(data) - at)


def bom(_: random.Random, data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def utf16(_: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode("utf-16")


def crlf(_: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def lone_cr(_: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def raw_surrogate(rng: random.Random, data: bytes) -> bytes:
    at = _at(rng, data)
    return data[:at] + rng.choice((b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xff\xfe", b"\xc3", b"\xf4\x90\x80\x80")) + data[at:]


def escaped_surrogate(rng: random.Random, data: bytes) -> bytes:
    """Inside some string, as a server may send it: valid JSON that is no text."""
    quotes = [at for at, byte in enumerate(data) if byte == ord('"') and at and data[at - 1] != ord("\\")]
    if not quotes:
        return data + b'"\\ud800"'
    at = rng.choice(quotes) + 1
    return data[:at] + rng.choice((b"\\ud800", b"\\udfff", b"\\ud800\\ud800", b"\\u0000")) + data[at:]


def odd_number(rng: random.Random, data: bytes) -> bytes:
    """A number's place taken by one of 400 or 5,000 digits, by NaN, or by what is no JSON number."""
    starts = [at for at in range(1, len(data)) if data[at : at + 1].isdigit() and data[at - 1] in b":[,"]
    at = rng.choice(starts) if starts else len(data)
    end = at
    while end < len(data) and data[end] in b"0123456789.eE+-":
        end += 1
    return data[:at] + rng.choice(NUMBERS).encode() + data[end:]


def nest(rng: random.Random, data: bytes) -> bytes:
    """A value's place taken by brackets in brackets, closed or not."""
    colons = [at for at, byte in enumerate(data) if byte == ord(":")]
    at = rng.choice(colons) + 1 if colons else 0
    depth = rng.choice((200, 5_000, 100_000))
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"1" + b"}")))
    closing = closed * depth if closed == b"]" else b"1" + b"}" * depth
    return data[:at] + opened * depth + (closing if rng.random() < 0.7 else b"") + data[at:]


def nest_value(rng: random.Random, data: bytes) -> bytes:
    """Valid JSON whose value lies deep."""
    depth = rng.choice((100, 250, 600, 2_000, 50_000))
    return _in_a_record(rng, data, lambda parent, key: "\x01", {b'"\\u0001"': b"[" * depth + b"]" * depth})


def twice(rng: random.Random, data: bytes) -> bytes:
    return _with_lines(rng, data, lambda lines, at: [*lines[: at + 1], lines[at], *lines[at + 1 :]])


def without_line(rng: random.Random, data: bytes) -> bytes:
    return _with_lines(rng, data, lambda lines, at: [*lines[:at], *lines[at + 1 :]])


def swapped(rng: random.Random, data: bytes) -> bytes:
    def swap(lines: list[bytes], at: int) -> list[bytes]:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
        return lines

    return _with_lines(rng, data, swap)


def glued(rng: random.Random, data: bytes) -> bytes:
    """Two lines in one, as an append behind a torn tail leaves them."""
    return _with_lines(rng, data, lambda lines, at: [*lines[:at], lines[at].rstrip(b"\n"), *lines[at + 1 :]])


def foreign_line(rng: random.Random, data: bytes) -> bytes:
    strange = rng.choice((b"null", b"[]", b"3", b'"x"', b"{}", b'{"schema_version":1}', b"<html>", b"# note", b"   ", b""))
    return _with_lines(rng, data, lambda lines, at: [*lines[:at], strange + b"\n", *lines[at:]])


def endless_line(_: random.Random, data: bytes) -> bytes:
    return data + b'{"x":"' + b"y" * 1_000_000 + b'"}\n'


def no_last_newline(_: random.Random, data: bytes) -> bytes:
    return data.rstrip(b"\n")


def empty(_: random.Random, _data: bytes) -> bytes:
    return b""


def blank(_: random.Random, _data: bytes) -> bytes:
    return b"\n \n\t\n"


def other_version(rng: random.Random, data: bytes) -> bytes:
    version = rng.choice((b"0", b"2", b"99", b'"1"', b"null", b"1.0", b"true"))
    return data.replace(b'"schema_version":1', b'"schema_version":' + version)


def wrong_type(rng: random.Random, data: bytes) -> bytes:
    strange = rng.choice(STRANGE)
    return _in_a_record(rng, data, lambda parent, key: strange)


def missing_key(rng: random.Random, data: bytes) -> bytes:
    return _in_a_record(rng, data, None)


def extra_key(rng: random.Random, data: bytes) -> bytes:
    return _in_a_record(rng, data, lambda parent, key: {"unknown": 1, **parent[key]} if isinstance(parent[key], dict) else 7)


def repeated_key(rng: random.Random, data: bytes) -> bytes:
    return _with_lines(
        rng, data, lambda lines, at: [*lines[:at], lines[at].replace(b"{", b'{"run_id":"x",', 1), *lines[at + 1 :]]
    )


def similar_value(rng: random.Random, data: bytes) -> bytes:
    """Another value of the same type: a file that reads well, and tells something else."""

    def other(parent: dict[Any, object], key: object) -> object:
        value = parent[key]
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return rng.choice((-value, value + 1, value * 1000, 0, 2**63))
        return f"{value}x" if isinstance(value, str) else value

    return _in_a_record(rng, data, other)


DAMAGES: tuple[Damage, ...] = (
    *(cut, cut_head, flip_bits, nul_run, nul_tail, bom, utf16, crlf, lone_cr, raw_surrogate, escaped_surrogate, odd_number),
    *(nest, nest_value, twice, without_line, swapped, glued, foreign_line, endless_line, no_last_newline, empty, blank),
    *(other_version, wrong_type, wrong_type, wrong_type, missing_key, missing_key, extra_key, repeated_key, similar_value),
)


def _at(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _with_lines(rng: random.Random, data: bytes, change: Callable[[list[bytes], int], list[bytes]]) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    return b"".join(change(lines, rng.randrange(len(lines))))


def _in_a_record(
    rng: random.Random, data: bytes, other: Callable[[Any, Any], object] | None, instead: dict[bytes, bytes] | None = None
) -> bytes:
    """One value of one line's JSON replaced, or taken out. What is no JSON, such as TOML, gets a strange line."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    at = rng.randrange(len(lines))
    try:
        record = json.loads(lines[at])
    except ValueError:
        key = lines[at].split(b"=")[0].strip() or b"x"
        value = _dumped(rng.choice(STRANGE))
        return b"".join([*lines[:at], key + b" = " + value, *lines[at + 1 :]])
    places = list(_places(record))
    if not places:
        return data
    parent, key = rng.choice(places)
    if other is None:
        del parent[key]
    else:
        parent[key] = other(parent, key)
    lines[at] = _dumped(record)
    for old, new in (instead or {}).items():
        lines[at] = lines[at].replace(old, new)
    return b"".join(lines)


def _dumped(record: object) -> bytes:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"
    finally:
        sys.set_int_max_str_digits(limit)


def _places(value: object) -> list[tuple[Any, Any]]:
    """(parent, key) of every value within, the shallow ones as often as the deep ones together."""
    found: list[tuple[Any, Any]] = []
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            found.append((each, key))
            waiting.append(each[key])  # type: ignore[index]
    top = [(parent, key) for parent, key in found if parent is value]
    return found + top * max(1, len(found) // max(1, len(top)))
