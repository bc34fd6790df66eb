"""Whether a text says that the records do not hold something: `not on record`, `the lease is silent on it`."""

from __future__ import annotations

import re

_RECORDS = (
    r"(?:records?|files?|e-?mails?|mails?|documents?|contracts?|agreements?|minutes|notes|papers|policy|policies|lease|"
    r"sources?|workspace|it|they|anywhere|we|i)"
)
_SAY = (
    r"(?:say|state|mention|specif|record|give|show|contain|include|set|name|list|cover|address|note|fix|provide|document|tell|"
    r"hold|disclose|indicate|report|find)"
)
_SAID = (
    r"(?:recorded|stated|specified|mentioned|given|documented|noted|listed|named|disclosed|indicated|defined|found|known|"
    r"available|shown|written down|set out|on (?:record|file)|"
    r"in the (?:records?|files?|documents?|contract|agreement|minutes|notes|lease|e-?mails?))"
)
_NOT = r"(?:not|never|nowhere|isn't|wasn't|aren't|weren't|hasn't been|haven't been|un)"
_DOES_NOT = r"(?:do not|does not|don't|doesn't|did not|didn't|never|nowhere)"
_BE = r"(?:is |are |was |were |has been |have been |could be |can be )?"
_CANNOT = r"(?:could not|couldn't|cannot|can't|can not|unable to|did not|didn't|was not able to)"

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_NOT}(?! only\b)[ -]?(?:[a-z']+ ){{0,2}}?{_SAID}\b",
        rf"\b{_RECORDS}\b(?:,? [\w'-]+){{0,8}}?,? {_DOES_NOT}(?: \w+)? {_SAY}\w*",
        rf"\bno (?:[\w'-]+ ){{0,8}}?{_BE}(?:{_SAID}|agreed)\b",
        rf"\bno (?:clause|article|section|page|record|document|contract|e-?mail|file|source)s? (?:\w+ ){{0,2}}?{_SAY}\w*",
        r"\bno (?:record|mention|trace|information|indication|evidence|details?|data|figure|entry|documentation|reference|note)"
        r"\b",
        r"\b(?:nothing|none)\b(?: \w+){0,6}? (?:says?|states?|mentions?|records?|recorded|gives?|shows?|specif\w+|"
        r"on (?:record|file)|found|tells?|indicates?|appears?|laid down|written down|agreed)\b",
        rf"\bneither (?:[\w'-]+ ){{1,6}}?nor (?:[\w'-]+ ){{1,6}}?{_SAY}\w*",
        r"\b(?:found|find|finds|saw|see|located|turned up|came across) (?:no|nothing)\b",
        r"\b(?:silent|says? nothing|makes? no mention)\b",
        rf"\b{_CANNOT} (?:be )?(?:find|found|determined?|establish|established|locate|located|say|tell|answer|answered)\b",
        r"\b(?:unknown|undocumented|unrecorded|unspecified|unstated)\b",
        r"\bthere (?:is|are|was|were) (?:no|not any|nothing)\b(?: [\w'-]+){0,8}? (?:in|on|about|for)\b",
        r"\b(?:left|leaves?) (?:\w+ ){0,3}?(?:blank|open|unanswered)\b",
    )
)


_NAMES_NONE = re.compile(
    r"\b(?:names?|gives?|sets?|contains?|has|have|provides?|states?|mentions?|includes?|records?|shows?) (?:no|none|nothing)\b|"
    r"\bthere (?:is|are|was|were) no such\b"
)
"""Says that a thing has no other thing: an answer to `what is its deposit?`, and beside a value about something else."""
_BARE_CLAIM = re.compile(
    rf"\W*(?:but |though |however,? |yet )?(?:(?:the |our )?{_RECORDS}|this|that)(?: (?:itself|alone))?,? "
    rf"(?:{_DOES_NOT} {_SAY}\w*(?: (?:so|it|this|that))?|(?:is|was) (?:{_NOT} )?(?:{_SAID}|unknown|silent|unrecorded))\W*"
)
"""A sentence that is a claim of absence and nothing more: it is about what was asked, wherever it stands."""
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n|;\s")


def affirms_absence(text: str) -> bool:
    """Whether a plain text says that the records do not hold something, or that there is no such thing."""
    return bool(_NAMES_NONE.search(text)) or _is_off_record(text)


def _is_off_record(text: str) -> bool:
    return any(pattern.search(text) for pattern in _PATTERNS)


def takes_back(text: str, place: int) -> bool:
    """Whether a claim of absence takes back a value that stands at this place of a plain text.

    It does in the same sentence or an earlier one (`No clause sets it out. Such terms usually run for two years.`), and as a
    bare sentence anywhere. A later sentence about something else does not (`60 days. The policy names no deputy.`).
    """
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
        sentence = text[start:end]
        if _is_off_record(sentence) and (start <= place or _BARE_CLAIM.fullmatch(sentence)):
            return True
        start = end
    return False
