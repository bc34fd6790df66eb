"""Whether a value is asserted or only mentioned: `60 days, not 30`, `€95 was replaced by €110`, `formerly 30 days`.

A cue belongs to the nearest value of the same kind within the same clause, at most `REACH` words away. The three lists below
are all that there is; `tests/rewards/test_contrast.py` has a row for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gradient_rl.rewards.values import Mention

REACH = 6
"""Words between a cue and its value."""

NEGATIONS = (
    "not", "no longer", "never", "nor", "isn't", "wasn't", "aren't", "weren't", "rather than", "instead of", "in place of",
    "as opposed to", "unlike",
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
    "a mistake", "not apply", "as signed", "retired", "resigned", "stepped down", "has left", "had left",
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
_DENIED = re.compile(rf"\b(?:{_cue(NEGATIONS)})\b(?! (?:only|just|before|until)\b){_GAP}$")
_DENIED_DIRECTLY = re.compile(rf"\b(?:{_cue(NEGATIONS)})\b{_SMALL_GAP}$")
_NOT_THE_ONE = re.compile(
    r"^(?:'s)? (?:(?:is|was|are|were) not|isn't|wasn't|aren't) (?:the|an?|right|correct|true|it|what|who)\b"
)
_FORMER = re.compile(rf"\b(?:{_cue(FORMER)})\b(?! by\b){_GAP}$")
_UNTIL = re.compile(rf"(?:^|[.,;(]\s*)(?:until|before|till)\b{_GAP}$")
_CHANGED_FROM = re.compile(rf"\b{_CHANGE}\b(?: [\w.-]+){{0,{REACH}}}? from{_GAP}$")
_AFTERWARDS = re.compile(
    rf"^(?:[^\w.,;:!?()]+{_WORD}){{0,{REACH}}}?[^\w.,;:!?()]*"
    rf"\b(?:{_cue(AFTERWARDS)}|left on \d+|(?:is|are|was|were|been|being|got) (?:\w+ )?(?:{_cue(CHANGED)}))\b"
)
_BUT = re.compile(r"\b(?:but|however|whereas|yet|although|though)\b")
_COORDINATED = re.compile(r"\s*(?:,|/|\bor\b|\bnor\b|\band\b|,\s*(?:or|nor|and))\s*")


def denied(text: str, mention: Mention, others: Sequence[Mention], directly: bool = False) -> bool:
    """Whether a mention is negated: `not 30 days`, `not 30 or 45 days`, `30 days is not the notice period`.

    Args:
        text: the whole plain text.
        others: all mentions of the same kind in it, in order.
        directly: only a negation of the value itself counts. Where a question asks what is not covered, `does not cover the
            chiller` asserts the chiller, and only `not the chiller` denies it.
    """
    cue = _DENIED_DIRECTLY if directly else _DENIED
    return _reached(text, mention, others, lambda before: bool(cue.search(before))) or bool(
        _NOT_THE_ONE.search(text[mention.end :])
    )


def former(text: str, mention: Mention, others: Sequence[Mention], until: bool = True) -> bool:
    """Whether a mention is said to hold no more, or to have been wrong.

    Args:
        text: the whole plain text.
        others: all mentions of the same kind in it, in order.
        until: whether `until` and `before` contrast. They do for a rival; but `until 3 March` states that date, and `15% are
            kept until acceptance` states that share.
    """
    reached = _reached(text, mention, others, lambda before: former_alone(before, until))
    return reached or _held_before(text, mention, others, until)


def conceded(text: str, mention: Mention, asserted: Sequence[Mention]) -> bool:
    """Whether a later value in the same sentence overrides this one: `€95 was quoted, but the contract says €110`."""
    for other in asserted:
        between = text[mention.end : other.start]
        if mention.end <= other.start and not re.search(r"[.!?]\s", between) and _BUT.search(between):
            return True
    return False


def former_alone(before: str, until: bool) -> bool:
    """Whether the words before a value say that it is past."""
    if _FORMER.search(before) or _CHANGED_FROM.search(before):
        return True
    return until and bool(_UNTIL.search(before))


def _reached(text: str, mention: Mention, others: Sequence[Mention], cue: Callable[[str], bool]) -> bool:
    """Whether a cue stands before the mention, or before the first of a list that the mention is part of."""
    start = 0
    for other in others:
        if other.end > mention.start:
            break
        if not (_COORDINATED.fullmatch(text[other.end : mention.start]) and _reached(text, other, others, cue)):
            start = other.end
        else:
            return True
    return cue(text[start : mention.start])


def _held_before(text: str, mention: Mention, others: Sequence[Mention], until: bool) -> bool:
    end = min((other.start for other in others if other.start >= mention.end), default=len(text))
    after = text[mention.end : end]
    found = _AFTERWARDS.search(after)
    return bool(found) and (until or not found[0].endswith(("before", "until")))
