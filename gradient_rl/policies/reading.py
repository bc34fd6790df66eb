"""How the scripted policies read: words and stems, leads, and values that look like an answer. Patterns only, no knowledge."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol, cast

import Stemmer

COMMON_WORDS = frozenset(
    "a about after all also am an and any are as at be been before but by can could did do does doing done for from get got "
    "had has have having he her him his how i if in into is it its just many me much must my no nor not now of off on one or "
    "our out over own she should since so some such tell than that the their them then there these they this to too up us "
    "was we were what when where which who whom whose why will with would you your ever still any anybody anyone actually "
    "please know need ask asks asked say says said really there's what's who's it's didn't don't doesn't can't".split()
)

_WORD = re.compile(r"[^\W_]+(?:['.,/-][^\W_]+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|\n+")
_IDENTIFIER = re.compile(r"\b(?:[A-Z]{1,5}-?\d{2,}[\w-]*|[A-Z]{2,5}-\d+|\d{5})\b")
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w'’-]+(?: (?:(?:de|van|von|der|of|&) )?[A-ZÀ-Þ][\w'’-]+)+")
_ISO_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = "|".join(month[:3] + rf"(?:{month[3:]})?" for month in _MONTHS)
_DATE = rf"\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH})\.?(?: \d{{4}})?"
_NUMBER_WORD = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|forty-five|sixty|ninety"
)
_AMOUNT = r"\d{1,3}(?:[,.]\d{3})+(?:\.\d{1,2})?|\d+(?:\.\d+)?"


class Asked(StrEnum):
    """What kind of thing a question asks for."""

    MONEY = "money"
    PERCENT = "percent"
    DURATION = "duration"
    DATE = "date"
    NUMBER = "number"
    NAME = "name"
    IDENTIFIER = "identifier"
    TEXT = "text"


_VALUE = {
    Asked.MONEY: re.compile(
        rf"(?:EUR|GBP|USD|€|£|\$)\s?(?:{_AMOUNT})k?|(?:{_AMOUNT}) ?(?:euros?|EUR|GBP|USD|pounds|dollars)\b"
    ),
    Asked.PERCENT: re.compile(rf"(?:{_AMOUNT}) ?(?:%|per ?cent\b)"),
    Asked.DURATION: re.compile(
        rf"\b(?:{_AMOUNT}|{_NUMBER_WORD})[ -](?:(?:working|business|calendar) )?(?:minute|hour|day|week|month|year)s?\b"
    ),
    Asked.DATE: re.compile(rf"\b(?:{_DATE})"),
    Asked.NUMBER: re.compile(rf"(?<![\w€£$.,-])(?:{_AMOUNT}|{_NUMBER_WORD})(?![\w%.,-]\w|[-/]|%)\b"),
    Asked.NAME: re.compile(rf"{_NAME.pattern}|(?<=[a-z,;:(|] )[A-ZÀ-Þ][a-zà-ÿ]{{3,}}\b"),
    Asked.IDENTIFIER: _IDENTIFIER,
}
_UNIT = "minutes|hours|days|weeks|months|years"
_ASKING = (
    (Asked.PERCENT, r"\b(?:per ?cent|percentage|what (?:rate of )?discount|what share)\b|%"),
    (Asked.DURATION, rf"\b(?:how long|how (?:many|much) (?:\w+ )?(?:{_UNIT}|notice|time)|how (?:soon|quickly|fast))\b"),
    (Asked.MONEY, r"\b(?:how much|what (?:does|did|do|would|will) .*\b(?:cost|pay|charge|come to))\b"),
    (Asked.MONEY, r"\b(?:what|which) .*\b(?:price|cost|fee|rent|charges?|amount|bill|sum)\b"),
    (
        Asked.MONEY,
        r"\b(?:how (?:high|big|large)|(?:limit|price|deposit|excess) (?:is|of|for)|what is the (?:price|limit|rent))\b",
    ),
    (Asked.NUMBER, r"\bhow many\b"),
    (Asked.DATE, r"\b(?:when|what (?:is the |was the )?(?:date|day)|which (?:date|day|month)|until when)\b"),
    (Asked.IDENTIFIER, r"\b(?:what|which) (?:serial|contract|ticket|account|room|number|reference|unit)\b"),
    (Asked.DURATION, r"\b(?:notice|deadline|period)\b"),
    (Asked.NAME, r"\b(?:who|whom|whose|which (?:person|colleague|engineer|customer|site|supplier|company|of))\b"),
)
_FACET = re.compile(r",? and (?=(?:how|who|whom|when|what|which|where|by)\b)|(?<=[.!?])\s+|; ", re.IGNORECASE)


class Sentence(NamedTuple):
    """One sentence or table row, with its stems."""

    text: str
    stems: frozenset[str]


class _StemsWords(Protocol):
    def stemWord(self, word: str) -> str:  # noqa: N802 - the package's own name
        ...


@lru_cache(16384)
def asked_kind(question: str) -> Asked:
    """What kind of value a question asks for, by the first of its phrases that tells."""
    plain = question.lower()
    return next((kind for kind, pattern in _ASKING if re.search(pattern, plain)), Asked.TEXT)


@lru_cache(16384)
def facets_of(question: str) -> tuple[str, ...]:
    """The parts of a question that each ask for something: `who signed, and when?` has two."""
    parts = [part.strip(" ?,") for part in _FACET.split(question)]
    asking = tuple(part for part in parts if re.search(r"\b(?:how|who|whom|whose|when|what|which|where|why)\b", part.lower()))
    return asking or (question,)


def values_in(text: str, kind: Asked) -> list[str]:
    """Values of a kind that stand in a text, each once, in order."""
    pattern = _VALUE.get(kind)
    return list(dict.fromkeys(match[0] for match in pattern.finditer(text))) if pattern else []


@lru_cache(16384)
def content_words(text: str) -> tuple[str, ...]:
    """The words of a text that carry meaning, each once, in order."""
    words = (word.removesuffix("'s") for word in _WORD.findall(text.replace("’", "'")))
    return tuple(dict.fromkeys(word for word in words if word.lower() not in COMMON_WORDS and len(word) > 1))


@lru_cache(16384)
def stems_of(text: str) -> frozenset[str]:
    """The stems of a text's meaningful words, accents folded."""
    return frozenset(_stem(word) for word in content_words(text))


@lru_cache(16384)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """The sentences and table rows of a text, without quotation marks of earlier mails."""
    parts = (part.lstrip("> ").strip() for part in _SENTENCE.split(text))
    return tuple(Sentence(part, stems_of(part)) for part in parts if part)


@lru_cache(16384)
def identifiers_in(text: str) -> tuple[str, ...]:
    """Contract numbers, ticket numbers, unit numbers and the like, each once, in order."""
    return tuple(dict.fromkeys(_IDENTIFIER.findall(text)))


@lru_cache(16384)
def names_in(text: str) -> tuple[str, ...]:
    """Runs of two or more capitalised words, each once, in order."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


def latest_date_in(texts: Iterable[str]) -> str | None:
    """The last ISO date in these texts, or None."""
    return max((found for text in texts for found in _ISO_DATE.findall(text)), default=None)


@lru_cache(16384)
def day_asked_about(question: str) -> str | None:
    """The day, in ISO form, on which a question wants to know what applied; None when it asks about today."""
    match = re.search(rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?)?({_MONTH})\.? (\d{{4}})\b", question)
    if not match:
        return None
    month = next(n for n, name in enumerate(_MONTHS, start=1) if name.startswith(match[2][:3]))
    return f"{match[3]}-{month:02}-{int(match[1] or 28):02}"


@lru_cache(65536)
def _stem(word: str) -> str:
    folded = "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))
    return _stemmer().stemWord(folded)


@lru_cache(1)
def _stemmer() -> _StemsWords:
    return cast("_StemsWords", Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType] - untyped package
