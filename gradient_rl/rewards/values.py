"""Reading values out of text as people write them: amounts of money, dates, numbers, percentages, durations.

A text is first made plain (`plain_text`): lower case, no accents, number words as digits. Each kind then has one reader
that finds its mentions and gives each a key; two mentions say the same thing when their keys are equal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import zip_longest

from gradient_rl.schema.task import FactKind

Key = tuple[str, ...]


@dataclass(frozen=True)
class Mention:
    """One value in a plain text, at characters `start` to `end`."""

    key: Key
    start: int
    end: int
    weak: bool = False
    """May be the value that was asked for, but proves nothing when it is another one: `one`, a year, a clause number."""


NUMBER = r"(?:\d{1,3}(?:[ ,.']\d{3}){1,4}(?:[.,]\d{1,2})?(?!\d)|\d{1,15}(?:[.,]\d{1,15})?(?!\d))"
_START = r"(?<![\w.,/])(?<![a-z]-)"
_LIST_GAP = r"\s*(?:,|;|/|-|\bto\b|\band\b|\bor\b|,\s*and\b|,\s*or\b)\s*"

_UNITS: dict[str, int] = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split(),
        range(20),
        strict=True,
    )
)
_TENS: dict[str, int] = dict(
    zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True)
)
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_ORDINALS: dict[str, int] = dict(
    zip(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split(),
        range(1, 21),
        strict=True,
    )
) | {"thirtieth": 30}
_SMALL = "|".join(sorted(_UNITS, key=len, reverse=True))
_UNDER_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(list(_UNITS)[1:10])})(?!\w))?|(?:{_SMALL}))"
_UNDER_1000 = rf"(?:(?:{_UNDER_100}|an?)[ -]hundred(?:(?: and)? {_UNDER_100}\b)?|{_UNDER_100})"
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?:{_UNDER_1000}|an?) million\b(?:,?(?: and)? {_UNDER_1000} thousand\b)?(?:,?(?: and)? {_UNDER_1000}\b)?|"
    rf"(?:{_UNDER_1000}|an?) thousand\b(?:,?(?: and)? {_UNDER_1000}\b)?|{_UNDER_1000})(?!\w)"
)
_MONTHS = {
    name: number
    for number, names in enumerate(
        "january jan,february feb,march mar,april apr,may may,june jun,july jul,august aug,september sept sep,"
        "october oct,november nov,december dec".split(","),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ORDINAL_WORDS = re.compile(
    rf"\b(?:(twenty|thirty)-)?({'|'.join(_ORDINALS)})(?=(?: day)? of (?:{_MONTH})\b)|"
    rf"(?<=\b)(?P<month>{_MONTH}) (?:the )?(?:(?P<tens>twenty|thirty)-)?(?P<unit>{'|'.join(_ORDINALS)})\b"
)

_CURRENCIES = {
    "eur": "EUR", "euro": "EUR", "euros": "EUR", "€": "EUR",
    "usd": "USD", "us$": "USD", "$": "USD", "dollar": "USD", "dollars": "USD", "us dollars": "USD", "us dollar": "USD",
    "gbp": "GBP", "£": "GBP", "pound": "GBP", "pounds": "GBP", "pound sterling": "GBP", "pounds sterling": "GBP",
    "sterling": "GBP",
}  # fmt: skip
_CURRENCY = "|".join(re.escape(name) for name in sorted(_CURRENCIES, key=len, reverse=True))
_FACTORS = {"k": 1000, "thousand": 1000, "m": 1_000_000, "mn": 1_000_000, "million": 1_000_000}
_FACTOR = r"(?:(?P<factor>k|mn?|thousand|million)\b)?"
_IN_WORDS = "euros?|(?:us )?dollars?|pounds?(?: sterling)?"
_MONEY_IN_WORDS = re.compile(rf"{_START}(?P<number>{NUMBER})\s*{_FACTOR}\s*-?\s*(?P<currency>{_IN_WORDS})(?!\w)")
_MONEY_BEFORE = re.compile(rf"(?<![\w.])(?P<currency>{_CURRENCY})\s*(?P<number>{NUMBER})\s*{_FACTOR}")
_MONEY_AFTER = re.compile(rf"{_START}(?P<number>{NUMBER})\s*{_FACTOR}\s*-?\s*(?P<currency>{_CURRENCY})(?!\w)")
_CENTS = re.compile(rf"{_START}(?P<number>{NUMBER})\s*(?P<currency>cents?|pence|p)\b")

_LISTED_AFTER = re.compile(
    rf"{_LIST_GAP}(?P<number>{NUMBER})(?=\s*(?:[,;).]|$|-|/|\bto\b|\band\b|\bor\b))|\s*(?:/|\bor\b)\s*(?P<either>{NUMBER})(?![\w%])"
)

_PERCENT = re.compile(rf"{_START}(?P<number>{NUMBER})[\s-]*(?:%|per ?cent\b|pct\b|percentage points?\b)")

_DURATION_UNITS = {
    "minute": ("minutes", 1), "min": ("minutes", 1), "hour": ("minutes", 60), "hr": ("minutes", 60),
    "h": ("minutes", 60), "day": ("minutes", 1440), "week": ("minutes", 10080), "wk": ("minutes", 10080),
    "fortnight": ("minutes", 20160), "month": ("months", 1), "mth": ("months", 1), "year": ("months", 12),
    "yr": ("months", 12),
}  # fmt: skip
_DURATION_UNIT = "|".join(sorted(_DURATION_UNITS, key=len, reverse=True))
_DURATION = re.compile(
    rf"{_START}(?P<number>{NUMBER}|an?|one)[\s-]*(?:(?P<working>business|working)|calendar|consecutive|full|clear|"
    rf"whole)?[\s-]*(?P<unit>{_DURATION_UNIT})(?:s|s')?(?:'s)?(?: and a (?P<fraction>half|quarter))?(?![a-z])"
)

_DATE_FORMS = (
    re.compile(r"(?<![\d-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?!\d)"),
    re.compile(
        rf"(?<![\w.,])(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: day)?(?: of)?[ -](?P<month>{_MONTH})\b\.?"
        rf"(?:,?[ -](?P<year>\d{{4}}|'\d{{2}})\b)?"
    ),
    re.compile(rf"\b(?P<month>{_MONTH})\.? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?!\d|:)(?:,? (?P<year>\d{{4}})\b)?"),
    re.compile(r"(?<![\w/.-])(?P<day>\d{1,2})(?P<mark>[/.-])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})(?![\w/-])"),
    re.compile(rf"\b(?P<month>{_MONTH})\.?,? (?P<year>\d{{4}})\b"),
)
_IN_ORDER = "(?:, ?| and | or | & |-| to )"
_DAYS_BEFORE = re.compile(rf"(?<![\w.,])((?:\d{{1,2}}(?:st|nd|rd|th)?{_IN_ORDER})+)$")

_BARE_NUMBER = re.compile(rf"(?<![\w.,/$€£#-])(?P<number>{NUMBER})(?P<factor>k\b)?(?![\w/]|-\w|[.,]\d|:\d)")
_LABEL_BEFORE = re.compile(
    r"(?:\b(?:clause|section|article|account|no\.?|number|version|issue|invoice|ticket|page|schedule|item|revision|"
    r"appendix|annex|contract|ref|reference|edition|paragraph|step|point|in|since|of|by)\s*:?\s*)$"
)
_YEAR = re.compile(r"(?:19|20)\d{2}")


@lru_cache(4096)
def plain_text(text: str) -> str:
    """Lower case, without accents and typographic characters, with number words as digits.

    `Sixty days' notice – twelve and a half per cent` gives `60 days' notice - 12.5 per cent`.
    """
    for fraction, decimals in (("½", ".5"), ("¼", ".25"), ("¾", ".75")):
        text = re.sub(rf"(?<=\d) ?{fraction}", decimals, text).replace(fraction, "0" + decimals)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(char for char in text if not unicodedata.combining(char)).lower()
    text = re.sub("[’‘ʼ`´]", "'", re.sub("[–—−‐‑]", "-", text))
    text = re.sub("[^\\S\n]+", " ", text)
    text = _ORDINAL_WORDS.sub(_ordinal_in_digits, text)
    text = re.sub(r"\bhalf a dozen\b", "6", re.sub(r"(?<!half )\ba dozen\b", "12", text))
    text = _NUMBER_WORDS.sub(_number_in_digits, text)
    text = re.sub(r"\b(\d[\d.,]*) \(\1\)", r"\1", text)
    text = re.sub(r"(?<=\d) and a half\b", ".5", text)
    text = re.sub(r"(?<=\d) point (?=\d)", ".", text)
    text = re.sub(r"\bhalf an? (?=hour|day|year|month|week)", "0.5 ", text)
    return re.sub(r"\ba quarter of an (?=hour)", "0.25 ", text)


def mentions_of(text: str, kind: FactKind) -> list[Mention]:
    """All values of a kind in a text that was made plain, in the order in which they stand.

    Raises:
        ValueError: names and phrases have no reader; they are looked for, not read.
    """
    return list(_mentions(text, kind))


def key_of(value: str, kind: FactKind) -> Key:
    """The key of a value as a fact states it.

    Raises:
        ValueError: the value cannot be read as one value of this kind.
    """
    text = f"{value}%" if kind is FactKind.PERCENT and re.fullmatch(NUMBER, value) else value
    keys = {mention.key for mention in mentions_of(plain_text(text), kind)}
    if len(keys) != 1:
        raise ValueError(f"'{value}' cannot be read as one value of kind {kind}")
    return keys.pop()


def same_value(key: Key, wanted: Key) -> bool:
    """Whether a mention says the wanted value. A date without its year fits any year."""
    if len(key) == 3 and len(wanted) == 3 and "" in (key[0], wanted[0]):
        return key[1:] == wanted[1:]
    return key == wanted


@lru_cache(8192)
def _mentions(text: str, kind: FactKind) -> tuple[Mention, ...]:
    readers = {
        FactKind.MONEY: _read_money,
        FactKind.DATE: _read_dates,
        FactKind.NUMBER: _read_numbers,
        FactKind.PERCENT: _read_percents,
        FactKind.DURATION: _read_durations,
    }
    if kind not in readers:
        raise ValueError(f"values of kind {kind} have no reader")
    return tuple(sorted(_without_overlap(readers[kind](text)), key=lambda mention: mention.start))


def _without_overlap(found: Iterator[Mention]) -> Iterator[Mention]:
    """Drop a mention that overlaps an earlier found one: the readers try the more specific form first."""
    taken: list[Mention] = []
    for mention in found:
        if all(mention.end <= other.start or other.end <= mention.start for other in taken):
            taken.append(mention)
            yield mention


def _read_money(text: str) -> Iterator[Mention]:
    # `940 pounds 50` is not 50 pounds: a currency in words belongs to the number before it.
    for pattern, listed in ((_MONEY_IN_WORDS, _listed_before), (_MONEY_BEFORE, _listed_after), (_MONEY_AFTER, _listed_before)):
        for match in pattern.finditer(text):
            currency, factor = _CURRENCIES[match["currency"]], _FACTORS.get(match["factor"] or "", 1)
            end = match.start() + len(match[0].rstrip())
            yield _money(match["number"], currency, factor, match.start(), end)
            edge = end if listed is _listed_after else match.start()
            for number, start, end in listed(text, edge):
                yield _money(number, currency, factor, start, end)
    for match in _CENTS.finditer(text):
        currency = "EUR" if match["currency"].startswith("c") else "GBP"
        amount = _decimal(match["number"], thousands_dot=True) / 100
        yield Mention((currency, _written(amount)), match.start(), match.end())


def _money(number: str, currency: str, factor: int, start: int, end: int) -> Mention:
    thousands_dot = factor == 1
    return Mention((currency, _written(_decimal(number, thousands_dot) * factor)), start, end)


def _read_percents(text: str) -> Iterator[Mention]:
    for match in _PERCENT.finditer(text):
        yield Mention((_written(_decimal(match["number"])),), match.start(), match.end())
        for number, start, end in _listed_before(text, match.start()):
            yield Mention((_written(_decimal(number)),), start, end)


def _read_durations(text: str) -> Iterator[Mention]:
    found = [(_duration(match), match) for match in _DURATION.finditer(text)]
    skip = False
    for (mention, match), following in zip_longest(found, found[1:]):
        if skip:
            skip = False
            continue
        joined = _joined(text, mention, following[0]) if following else None
        yield joined or mention
        skip = joined is not None
        for number, start, end in _listed_before(text, match.start()):
            unit, size = _duration_unit(match)
            yield Mention((unit, _written(_decimal(number) * size)), start, end)


def _duration(match: re.Match[str]) -> Mention:
    unit, size = _duration_unit(match)
    number = match["number"]
    amount = Decimal(1) if number.isalpha() else _decimal(number)
    amount += {"half": Decimal("0.5"), "quarter": Decimal("0.25")}.get(match["fraction"] or "", Decimal(0))
    weak = number in ("a", "an") and not match["fraction"]
    return Mention((unit, _written(amount * size)), match.start(), match.end(), weak)


def _duration_unit(match: re.Match[str]) -> tuple[str, int]:
    """Minutes and months convert among themselves; working time converts into nothing else."""
    unit, size = _DURATION_UNITS[match["unit"]]
    return (f"working {match['unit']}", 1) if match["working"] else (unit, size)


def _joined(text: str, first: Mention, second: Mention) -> Mention | None:
    """`2 hours 30 minutes` and `a year and 6 months` are one duration."""
    between = text[first.end : second.start].strip(" ,")
    smaller = Decimal(second.key[1]) < Decimal(first.key[1])
    same_unit = (
        text[first.start : first.end].rstrip("s").split()[-1:] == text[second.start : second.end].rstrip("s").split()[-1:]
    )
    if between not in ("", "and") or first.key[0] != second.key[0] or not smaller or same_unit:
        return None
    total = Decimal(first.key[1]) + Decimal(second.key[1])
    return Mention((first.key[0], _written(total)), first.start, second.end)


def _read_dates(text: str) -> Iterator[Mention]:
    for pattern in _DATE_FORMS:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            mention = _date(parts.get("year"), parts["month"], parts.get("day"), match.start(), match.end())
            if mention is None:
                continue
            yield mention
            if parts.get("day") and not parts["month"].isdigit() and match.start("day") < match.start("month"):
                yield from _days_listed_before(text, mention)


def _days_listed_before(text: str, mention: Mention) -> Iterator[Mention]:
    """`1, 8 and 15 March 2025` names three dates."""
    listed = _DAYS_BEFORE.search(text[: mention.start])
    if not listed:
        return
    for day in re.finditer(r"\d{1,2}", listed[1]):
        start = listed.start(1) + day.start()
        yield replace(mention, key=(*mention.key[:2], f"{int(day[0]):02}"), start=start, end=start + len(day[0]))


def _date(year: str | None, month: str, day: str | None, start: int, end: int) -> Mention | None:
    """A date, day before month where both are numbers, unless only the other order can be meant; None if it is no date."""
    if year is not None and len(year.strip("'")) == 2:
        year = "20" + year.strip("'")
    month_number = int(month) if month.isdigit() else _MONTHS[month]
    day_number = int(day) if day else 1
    if month.isdigit() and month_number > 12 >= day_number:
        month_number, day_number = day_number, month_number
    try:
        date(int(year or 2024), month_number, day_number)
    except ValueError:
        return None
    key = (year or "", f"{month_number:02}", f"{day_number:02}" if day else "")
    return Mention(key, start, end, weak=not day)


def _read_numbers(text: str) -> Iterator[Mention]:
    taken = [
        mention
        for kind in (FactKind.MONEY, FactKind.DATE, FactKind.PERCENT, FactKind.DURATION)
        for mention in _mentions(text, kind)
    ]
    for match in _BARE_NUMBER.finditer(text):
        if any(mention.start < match.end() and match.start() < mention.end for mention in taken):
            continue
        labelled = bool(_LABEL_BEFORE.search(text[max(0, match.start() - 16) : match.start()]))
        weak = labelled or bool(_YEAR.fullmatch(match[0]))
        number = _decimal(match["number"], thousands_dot=not match["factor"]) * _FACTORS.get(match["factor"] or "", 1)
        yield Mention((_written(number),), match.start(), match.end(), weak)
    for match in re.finditer(r"\bone\b", text):
        yield Mention(("1",), match.start(), match.end(), weak=True)


def _listed_before(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Bare numbers that share the unit of the one that follows: `30, 45 or` before `60 days`."""
    listed = re.search(rf"(?<![\w.,/$€£-])(?:{NUMBER}{_LIST_GAP})+$", text[max(0, start - 80) : start])
    if not listed:
        return
    offset = max(0, start - 80) + listed.start()
    for match in re.finditer(NUMBER, listed[0]):
        yield match[0], offset + match.start(), offset + match.end()


def _listed_after(text: str, end: int) -> Iterator[tuple[str, int, int]]:
    """Bare numbers that share the currency of the one before: `, 500 and 600` after `€400`, and ` / 500`."""
    while match := _LISTED_AFTER.match(text, end):
        group = "number" if match["number"] else "either"
        yield match[group], match.start(group), match.end(group)
        end = match.end()


def _decimal(number: str, thousands_dot: bool = False) -> Decimal:
    """Read a number in English or continental writing: 12,500.00, 12.500,00 and 12 500 are the same.

    Args:
        thousands_dot: a single dot before exactly three digits separates thousands (money, counts), not decimals (percentages).
    """
    number = number.replace(" ", "").replace("'", "")
    last = max(number.rfind("."), number.rfind(","))
    if last < 0:
        return Decimal(number)
    mark, tail = number[last], number[last + 1 :]
    grouped = number.count(mark) > 1 or (len(tail) == 3 and last <= 3 and (mark == "," or thousands_dot))
    if grouped and number.lstrip("0").find(mark) != 0:
        return Decimal(number.replace(",", "").replace(".", ""))
    return Decimal(re.sub(r"[.,]", "", number[:last]) + "." + tail)


def _written(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def _number_in_digits(match: re.Match[str]) -> str:
    words = re.split(r"[ ,-]+", match[0])
    if words in (["one"], ["zero"]):
        return match[0]
    total, current = 0, 0
    for word in words:
        if word in _SCALES:
            current = max(current, 1) * _SCALES[word]
            if _SCALES[word] >= 1000:
                total, current = total + current, 0
        elif word not in ("and", "a", "an"):
            current += _UNITS.get(word, _TENS.get(word, 0))
    return str(total + current)


def _ordinal_in_digits(match: re.Match[str]) -> str:
    tens = _TENS.get(match[1] or match["tens"] or "", 0)
    day = tens + _ORDINALS[match[2] or match["unit"]]
    return f"{match['month']} {day}" if match["month"] else str(day)
