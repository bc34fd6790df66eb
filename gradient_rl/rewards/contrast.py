"""Whether a value is asserted or only mentioned: `60 days, not 30`, `€95 was replaced by €110`, `formerly 30 days`.

A cue belongs to the nearest value of the same kind within the same clause, at most `REACH` words away. The four lists below
have a test for each entry; the patterns after them cover what is no single word (`changed from X to Y`, `X, but the contract
says Y`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gradient_rl.rewards.values import Mention

REACH = 6
"""Words between a cue and its value."""

NEGATIONS = (
    "not", "no longer", "never", "nor", "isn't", "wasn't", "aren't", "weren't", "rather than", "instead of", "in place of",
    "as opposed to", "unlike", "false that",
)  # fmt: skip
"""Before a value: it is denied."""

FORMER = (
    "formerly", "previously", "original", "originally", "initially", "earlier", "former", "old", "prior", "used to be",
    "superseded", "supersedes", "superseding", "replaced", "replaces", "replacing", "followed", "succeeded", "succeeds",
    "succeeding", "successor to", "successor of", "passed from", "took over from", "takes over from", "taking over from",
    "up from", "down from", "outdated", "draft", "wrongly", "mistakenly", "incorrectly",
)  # fmt: skip
"""Before a value: it held once, or somebody said so wrongly. `replaced by`, `followed by` and the like point the other way."""

AFTERWARDS = (
    "no longer", "replaced by", "superseded by", "followed by", "succeeded by", "previously", "formerly", "originally",
    "before", "until", "outdated", "expired", "lapsed", "withdrawn", "wrong", "incorrect", "in error", "by mistake",
    "a mistake", "false", "rejected", "not hold", "not apply", "as signed", "retired", "resigned", "stepped down",
    "has left", "had left",
)  # fmt: skip
"""After a value: it holds no more."""

CHANGED = (
    "replaced", "superseded", "changed", "raised", "cut", "amended", "corrected", "withdrawn", "overtaken", "dropped",
    "abandoned", "cancelled", "scrapped",
)  # fmt: skip
"""After a value, with a form of `to be`: `30 days was changed in March`."""

_CHANGE = (
    r"(?:chang|rais|increas|extend|reduc|cut|lower|mov|shift|amend|went|rose|fell|revis|updat|shorten|postpon|bring|brought|"
    r"correct)\w*"
)


def _cue(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_WORD = r"[\w'€$£](?:[\w'€$£%/.,-]*[\w%])?"
_GAP = rf"(?:[^\w.;:!?]+{_WORD}){{0,{REACH}}}?[^\w.;:!?]*"
_SMALL_GAP = r"[^\w.;:!?]+(?:(?:the|a|an|for|on|at|in) )?"
_NO_DENIAL = r"(?! (?:only|just|before|until|long|least|to forget|to mention)\b)"
_DENIED = re.compile(rf"\b(?:{_cue(NEGATIONS)})\b{_NO_DENIAL}{_GAP}$|\bneither (?:the )?$")
_DENIED_DIRECTLY = re.compile(rf"\b(?:{_cue(NEGATIONS)})\b{_NO_DENIAL}{_SMALL_GAP}$")
_NOT_THE_ONE = re.compile(
    r"^(?:'s)? (?:(?:is|was|are|were) not|isn't|wasn't|aren't) (?:the|an?|right|correct|true|it|what|who)\b|^\s*\? no\b"
)
_STAYS_COVERED = re.compile(
    r"^[^.;]{0,60}?\b(?:is|are|was|were|remains?|stays?) (?:also |still |all |both |fully )?"
    r"(?:covered|included|watched|monitored|rung|phoned|serviced|on the)\b"
)
_COVERS = re.compile(rf"(?<!not )\b(?:covers?|includes?|watche[sd]|applies to|holds? for){_GAP}$")
_LATER_BEFORE = re.compile(rf"\b(?:(?:increas|rais|rose|went|chang|mov)\w* (?:up )?to|later|now|today|currently|since){_GAP}$")
_LATER_AFTER = re.compile(
    r"^[^\w.;]*(?:\w+ ){0,3}?(?:only |first |not )*"
    r"(?:took effect|came|appl(?:y|ies|ied)|began|starts?|started|from|since|as of|on) "
)
_COVERED = re.compile(r"^(?:'s)? (?:is|are|was|were) (?:also |still |fully )?(?:covered|included)\b")
_FORMER = re.compile(rf"\b(?:{_cue(FORMER)})\b(?! (?:by|within|in|inside|before|at)\b){_GAP}$")
_UNTIL = re.compile(rf"(?:^|[.,;(]\s*)(?:until|before|till)\b{_GAP}$")
_CHANGED_FROM = re.compile(rf"\b{_CHANGE}\b(?: [\w.-]+){{0,{REACH}}}? from{_GAP}$")
_AFTERWARDS = re.compile(
    rf"^(?:[^\w.,;:!?()]+{_WORD}){{0,{REACH}}}?[^\w.,;:!?()]*"
    rf"\b(?:{_cue(AFTERWARDS)}|left on \d+|(?:is|are|was|were|been|being|got) (?:\w+ )?(?:{_cue(CHANGED)}))\b"
)
_BUT = re.compile(r"\b(?:but|however|whereas|yet)\b")
_AUTHORITY = re.compile(
    r"\b(?:says?|has|have|gives?|states?|sets?|puts?|is|are|was|were|became|now|in fact|actually|contract|agreement|"
    r"amendment|signed|correct\w*|right|real\w*|made|changed|reduced|raised|cut|applies|stands|confirm\w*|invoice\w*|letter|register)\b"
)
_HEDGE = re.compile(
    r"\b(?:possibly|perhaps|maybe|may(?! \d)|might|could|some say|discussed|typed|claim\w*|asked|propos\w*|draft\w*|"
    r"unsure|wrongly)\b"
)
_AT_AN_EVENT = re.compile(
    r"^ (?:that|then|this|when|last|recently|it|the (?!end\b)\w+|an? (?!further\b)\w+|her|his|their|our|[\w']+'s? |\w+ \d|\d|"
    r"january|february|march|april|may|june|july|august|september|october|november|december)"
)
_WAS_BEFORE = re.compile(r"\b(?:was|were|had been|paid|charged|used to be)\b[^.,;]{0,24}$")
_COORDINATED = re.compile(r"\s*(?:,|/|\bor\b|\bnor\b|\band\b|,\s*(?:or|nor|and))\s*")


def denied(text: str, mention: Mention, others: Sequence[Mention], left_out: bool = False) -> bool:
    """Whether a mention is negated: `not 30 days`, `not 30 or 45 days`, `30 days is not the notice period`.

    Args:
        text: the whole plain text.
        others: all mentions of the same kind in it, in order.
        left_out: the question asks what is not covered. Then `does not cover the chiller` asserts the chiller, and `not the
            chiller` or `the chiller is covered` denies it.
    """
    cue, after = (_DENIED_DIRECTLY if left_out else _DENIED), text[mention.end :]
    if _reached(text, mention, others, lambda before: bool(cue.search(before))):
        return True
    return bool(_NOT_THE_ONE.search(after)) or (left_out and bool(_COVERED.search(after)))


def former(text: str, mention: Mention, others: Sequence[Mention], until: bool = True) -> bool:
    """Whether a mention is said to hold no more, or to have been wrong.

    Args:
        text: the whole plain text.
        others: all mentions of the same kind in it, in order.
        until: whether `until` and `before` contrast. They do for a rival; but `until 3 March` states that date, and `15% are
            kept until acceptance` states that share.
    """
    reached = _reached(text, mention, others, lambda before: _former_alone(before, until))
    return reached or _held_before(text, mention, others, until)


def conceded(text: str, mention: Mention, asserted: Sequence[Mention]) -> bool:
    """Whether a later value in the same sentence overrides this one: `€95 was quoted, but the contract says €110`.

    The later clause has to stand by its value; `30 days, but possibly 60` and `not only 30 but 60 days` concede nothing.
    """
    if re.search(r"\bnot only\b[^.;]*$", text[: mention.start]):
        return False
    for other in asserted:
        between = text[mention.end : other.start]
        but = _BUT.search(between)
        if mention.end <= other.start and but and not re.search(r"[.!?]\s", between):
            clause = between[but.end() :] + re.split(r"[.;!?]\s|$", text[other.end :], maxsplit=1)[0]
            if _AUTHORITY.search(clause) and not _HEDGE.search(clause):
                return True
    return False


def later(text: str, mention: Mention) -> bool:
    """Whether a value is said to have come later, on a question about a past day: `the EUR 290 took effect in January`."""
    return bool(_LATER_BEFORE.search(text[: mention.start]) or _LATER_AFTER.search(text[mention.end :]))


def covered(text: str, mention: Mention) -> bool:
    """Whether a value is said to be covered, on a question about what is not: `the long room and Bessie are watched`."""
    before = re.split(r"[.;!?]\s", text[: mention.start])[-1]
    return bool(_STAYS_COVERED.search(text[mention.end :]) or _COVERS.search(before))


def _former_alone(before: str, until: bool) -> bool:
    """Whether the words before a value say that it is past."""
    if _FORMER.search(before) or _CHANGED_FROM.search(before):
        return True
    return until and bool(_UNTIL.search(before))


def _reached(text: str, mention: Mention, others: Sequence[Mention], cue: Callable[[str], bool]) -> bool:
    """Whether a cue stands before the mention, or before the first of a list that the mention is part of."""
    start, reached = 0, False
    for other in (*(other for other in others if other.end <= mention.start), mention):
        listed = reached and bool(_COORDINATED.fullmatch(text[start : other.start]))
        reached = listed or cue(text[start : other.start])
        start = other.end
    return reached


def _held_before(text: str, mention: Mention, others: Sequence[Mention], until: bool) -> bool:
    """Whether the words after a mention, up to the next one, say that it holds no more."""
    end = min((other.start for other in others if other.start >= mention.end), default=len(text))
    found = _AFTERWARDS.search(text[mention.end : end])
    if not found:
        return False
    if not found[0].endswith(("before", "until")):
        return True
    at_an_event = _AT_AN_EVENT.search(text[mention.end + found.end() :])
    was_so = found[0].endswith("before") and _WAS_BEFORE.search(text[: mention.start])
    return until and bool(at_an_event or was_so)
