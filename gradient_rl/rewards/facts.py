"""Whether an answer states a fact.

An answer is judged by what its first `MAX_ANSWER_WORDS` words assert. A fact is stated when

1. its value is asserted (a value that is only denied is not; one that is said to be past counts only where the question is
   about the past; where it asks what is not covered, `does not cover X` asserts X);
2. none of its rivals is asserted beside it; a rival in a contrast (`formerly`, `replaced`, `not`, `until`, ...) is not
   asserted, see `contrast.py`;
3. the answer does not list values: at most n + 1 distinct values of a kind of which n are required (names: n + 3, because an
   honest sentence names people and places around its answer), no alternatives joined by `or`, no value within a list of many
   short items, nothing in many short sentences or lines, and no more than two rivals even in contrasts. What is denied or past
   does not count, nor what the question itself gives, nor the terms of a required sum, product or difference, which an honest
   answer may show;
4. the answer does not take it back by claiming that it is not on record, see `absence.py`.

An absent fact is stated when absence is affirmed and no value of the kind that was asked for is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gradient_rl.rewards.absence import affirms_absence, takes_back
from gradient_rl.rewards.contrast import conceded, covered, denied, former, later
from gradient_rl.rewards.hedging import alternative_to, enumerates, joined_by_or, strings_fragments
from gradient_rl.rewards.values import Key, Mention, key_of, mentions_of, plain_text, same_value
from gradient_rl.schema.task import Fact, FactKind, Operation, Reference

MAX_ANSWER_WORDS = 200
MAX_ANSWER_CHARS = 2000
"""A word of an answer may be of any length, so its characters are bounded too."""
MAX_RIVALS = 2
"""Rivals that an answer may name in contrasts."""
READ_KINDS = frozenset({FactKind.MONEY, FactKind.DATE, FactKind.NUMBER, FactKind.PERCENT, FactKind.DURATION})
"""Kinds whose values can be read out of a text; names and phrases can only be looked for."""

_IDENTIFIER_DIGITS = 5
"""A bare number of so many digits is an account or order number, and not an amount without its unit."""
_ARITHMETIC = frozenset(
    {
        Operation.SUM,
        Operation.DIFFERENCE,
        Operation.PRODUCT,
        Operation.PERCENT_OF,
        Operation.SHIFT_DATE,
        Operation.DAYS_BETWEEN,
    }
)

_ARTICLES = re.compile(r"\b(?:the|a|an)\b ?")
_LEGAL_FORMS = re.compile(r",? (?:ltd|limited|bv|b\.v|ab|gmbh|inc|sa|s\.a|nv|n\.v|plc|co|company)\.?$")
_TITLES = r"(?:mr|mrs|ms|miss|dr|prof)\.?"
_NAME_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_NAME_RUN = re.compile(rf"{_NAME_WORD}(?: (?:(?:de|van|von|der|den|la|le|&|and|of) )?{_NAME_WORD})+")


@dataclass(frozen=True)
class FactJudgement:
    """Whether one fact is stated, and why or why not, as a sentence."""

    fact_id: str
    stated: bool
    reason: str


def judge_facts(answer: str, reference: Reference) -> list[FactJudgement]:
    """Judge every fact of a reference against an answer, in the reference's order."""
    words = answer[:MAX_ANSWER_CHARS].split()
    original = " ".join(words[:MAX_ANSWER_WORDS])
    text, given = plain_text(original), plain_text(reference.question_text)
    absence_claimed, listed = affirms_absence(text), strings_fragments(answer[:MAX_ANSWER_CHARS])
    judgements: list[FactJudgement] = []
    for fact in reference.facts:
        if listed:
            fault = "the answer is a list of short lines"
        elif fact.kind is FactKind.ABSENT:
            fault = _absence_fault(text, given, fact, absence_claimed, reference.facts)
        else:
            fault = _value_fault(text, original, given, fact, reference.facts)
        judgements.append(FactJudgement(fact.id, fault is None, fault or "stated"))
    return judgements


def mentions_of_value(text: str, value: str, kind: FactKind) -> list[Mention]:
    """Where a plain text mentions a value, in any of the ways in which people write it."""
    if kind in READ_KINDS:
        wanted = key_of(value, kind)
        return [mention for mention in mentions_of(text, kind) if same_value(mention.key, wanted)]
    pattern = _name_pattern(value) if kind is FactKind.NAME else _phrase_pattern(value)
    return [Mention((value,), match.start(), match.end()) for match in pattern.finditer(text)]


def _value_fault(text: str, original: str, given: str, fact: Fact, facts: Sequence[Fact]) -> str | None:
    """Why a value fact is not stated; None when it is."""
    others = list(mentions_of(text, fact.kind)) if fact.kind in READ_KINDS else _all_mentions(text, fact)
    asserted = _asserted(text, fact, others)
    if not asserted:
        return f"the answer does not state {_shown(fact)}"
    absence_asked = any(other.kind is FactKind.ABSENT for other in facts)
    if not absence_asked and takes_back(text, asserted[0].start):
        return "the answer also claims that this is not on record"
    rival = _asserted_rival(text, fact, others, asserted)
    if rival:
        return f"the answer also states {rival}, which is wrong"
    return _hedging_fault(text, given, fact, asserted, others) or _listing_fault(text, original, given, fact, facts)


def _asserted(text: str, fact: Fact, others: list[Mention]) -> list[Mention]:
    """The mentions of the value that are neither denied nor, unless the question is about the past, said to be past."""
    standing = [m for m in _mentions_of_fact(text, fact) if not denied(text, m, others, _asks_what_is_left_out(fact))]
    return [m for m in standing if _is_about_past(fact) or not former(text, m, others, until=False)]


def _is_about_past(fact: Fact) -> bool:
    return fact.derivation is not None and fact.derivation.operation is Operation.IN_FORCE


def _asks_what_is_left_out(fact: Fact) -> bool:
    return fact.derivation is not None and fact.derivation.operation is Operation.EXCLUDE


def _terms(fact: Fact) -> list[str]:
    """Values that an honest answer may name to show how it calculated: the inputs of an arithmetic derivation."""
    derivation = fact.derivation
    if derivation is None or derivation.operation not in _ARITHMETIC:
        return []
    return [given.value for given in derivation.inputs if given.value is not None]


def _asserted_rival(text: str, fact: Fact, others: list[Mention], asserted: list[Mention]) -> str | None:
    """A rival that the answer asserts, offers as an alternative, or names as one of too many; None if there is none."""
    own = {(mention.start, mention.end) for mention in asserted}
    rivals = [rival for rival in fact.rivals if rival not in _terms(fact)]
    named = {
        rival: [
            mention
            for mention in mentions_of_value(text, rival, fact.kind)
            if not mention.weak and not any(start <= mention.start and mention.end <= end for start, end in own)
        ]
        for rival in rivals
    }
    if sum(bool(mentions) for mentions in named.values()) > MAX_RIVALS:
        return f"{MAX_RIVALS + 1} or more rivals"
    for rival, mentions in named.items():
        if any(not _excused(text, mention, fact, others, asserted) for mention in mentions):
            return rival
    return None


def _excused(text: str, mention: Mention, fact: Fact, others: list[Mention], asserted: list[Mention]) -> bool:
    """Whether a rival stands in a contrast to the value."""
    if any(joined_by_or(text, mention, own) for own in asserted):
        return False
    if denied(text, mention, others, _asks_what_is_left_out(fact)) or conceded(text, mention, asserted):
        return True
    if _asks_what_is_left_out(fact) and covered(text, mention):
        return True
    if _is_about_past(fact) and later(text, mention):
        return True
    # `formerly 30 days, formerly 60 days` sets neither against the other.
    contrasts = not all(former(text, own, others) for own in asserted)
    return contrasts and former(text, mention, others, until=fact.kind is not FactKind.DATE)


def _hedging_fault(text: str, given: str, fact: Fact, asserted: list[Mention], others: list[Mention]) -> str | None:
    if fact.kind in READ_KINDS:
        known = [mention.key for mention in mentions_of(given, fact.kind)]
        rest = [m for m in others if not m.weak and not any(same_value(m.key, key) for key in known)]
        other = alternative_to(text, asserted, rest)
        if other:
            return f"the answer offers '{text[other.start : other.end].strip()}' as an alternative"
    if not _terms(fact) and any(enumerates(text, mention) for mention in asserted):
        return "the answer gives the value as one of a list"
    return None


def _listing_fault(text: str, original: str, given: str, fact: Fact, facts: Sequence[Fact]) -> str | None:
    required = len({other.value for other in facts if other.kind is fact.kind})
    if fact.kind in READ_KINDS:
        terms = " ; ".join(term for other in facts for term in _terms(other))
        count, allowed = len(_stated_keys(text, f"{given} ; {plain_text(terms)}", fact.kind)), required + 1
    elif fact.kind is FactKind.NAME:
        count, allowed = len(_names_in(original, given)), required + 3
    else:
        return None
    if count > allowed:
        return f"the answer lists {count} values of kind {fact.kind}, and at most {allowed} may be stated"
    return None


def _absence_fault(text: str, given: str, fact: Fact, claimed: bool, facts: Sequence[Fact]) -> str | None:
    if not claimed:
        return "the answer does not say that this is not on record"
    kind = fact.asked_kind or FactKind.TEXT
    if kind in READ_KINDS:
        required = {key_of(other.value or "", kind) for other in facts if other.kind is kind}
        stated = _stated_keys(text, given, kind) - required
        if not stated and kind in (FactKind.MONEY, FactKind.PERCENT, FactKind.DURATION):
            stated = {
                key for key in _stated_keys(text, given, FactKind.NUMBER) if len(key[0]) < _IDENTIFIER_DIGITS or "," in text
            }
        if stated:
            return f"the answer claims absence and yet gives a {kind}: {' '.join(sorted(stated)[0])}"
    rival = next((r for r in fact.rivals if mentions_of_value(text, r, kind)), None)
    return f"the answer claims absence and yet gives {rival}" if rival else None


def _stated_keys(text: str, given: str, kind: FactKind) -> set[Key]:
    """Distinct values of a kind in a text, without weak, denied and former ones and without those that the question gave."""
    echoed = [mention.key for mention in mentions_of(given, kind)]
    mentions = mentions_of(text, kind)
    keys = [m.key for m in mentions if not m.weak and not denied(text, m, mentions) and not former(text, m, mentions)]
    return {key for key in keys if not any(same_value(key, known) for known in echoed)}


def _names_in(original: str, given: str) -> set[str]:
    """Distinct names of two words or more, without those that the question gave."""
    found = {plain_text(match[0]) for match in _NAME_RUN.finditer(original)}
    return {name for name in found if name not in given}


def _mentions_of_fact(text: str, fact: Fact) -> list[Mention]:
    values = (fact.value or "", *fact.aliases)
    return _distinct(mention for value in values for mention in _mentions_of_wording(text, value, fact.kind))


def _mentions_of_wording(text: str, value: str, kind: FactKind) -> list[Mention]:
    """An alias may be a phrase even where the value is a number: `a third` beside `33.3`."""
    try:
        return mentions_of_value(text, value, kind)
    except ValueError:
        return mentions_of_value(text, value, FactKind.TEXT)


def _all_mentions(text: str, fact: Fact) -> list[Mention]:
    rivals = (m for rival in fact.rivals for m in mentions_of_value(text, rival, fact.kind))
    return _distinct([*_mentions_of_fact(text, fact), *rivals])


def _distinct(mentions: Iterable[Mention]) -> list[Mention]:
    """In order of place, the longest of those that start together, none inside another."""
    kept: list[Mention] = []
    for mention in sorted(mentions, key=lambda m: (m.start, -m.end)):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


@lru_cache(4096)
def _name_pattern(name: str) -> re.Pattern[str]:
    """The name as people write it: legal form dropped, `&` as `and`, first name shortened, behind, or replaced by a title."""
    plain = re.sub(r"\bsaint\b", "st", _LEGAL_FORMS.sub("", plain_text(name))).replace("&", "and")
    words = [word for word in re.split(r"[^\w']+", plain) if word]
    forms = [_spaced(words)]
    if len(words) >= 2 and words[0].isalpha() and words[0] != "st":
        forms.append(rf"(?:{_TITLES}|{re.escape(words[0][0])}\.?) {_spaced(words[1:])}")
        forms.append(rf"{_spaced(words[1:])}, {re.escape(words[0])}")
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?:'s)?(?![\w-])")


@lru_cache(4096)
def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """The phrase without its articles, each word in singular or plural."""
    words = re.findall(r"[\w%€$£'.]+", _ARTICLES.sub("", plain_text(phrase)))
    inflected = [_inflected(word.strip(".'")) for word in words]
    return re.compile(rf"(?<!\w)(?<!non-)(?<!un-){_GAP.join(inflected)}(?!\w)")


_GAP = r"[\s,/&\"'-]+(?:(?:the|a|an) )?"


def _spaced(words: Sequence[str]) -> str:
    escaped = ["(?:saint|st\\.?)" if word == "st" else "(?:and|&)" if word == "and" else re.escape(word) for word in words]
    return r"[\s.,'-]+".join(escaped)


def _inflected(word: str) -> str:
    if not word.isalpha() or len(word) < 3:
        return re.escape(word)
    if word.endswith("ies"):
        return re.escape(word[:-3]) + "(?:y|ies)"
    if word.endswith("s") and not word.endswith("ss"):
        return re.escape(word[:-1]) + "s?"
    return re.escape(word) + "(?:s|es)?"


def _shown(fact: Fact) -> str:
    return f"{fact.subject}: {fact.value}"
