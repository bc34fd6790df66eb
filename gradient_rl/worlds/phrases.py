"""Lists of phrases as a trade file holds them, checked when the file is read: slots, brackets, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import AfterValidator

from gradient_rl.worlds.grammar import GrammarError, always_has, slots_of

Check = Callable[[tuple[str, ...]], tuple[str, ...]]


def phrases(least: int, slots: str = "", needs: str = "") -> AfterValidator:
    """A validator of a list of phrases.

    Args:
        least: how many phrases there must be at least.
        slots: names of the slots that a phrase may use, separated by spaces.
        needs: names of the slots that every text of each phrase must use.
    """
    allowed = {*slots.split(), *needs.split()}

    def check(value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) < least:
            raise ValueError(f"{len(value)} phrases; at least {least} are needed")
        for phrase in value:
            for fault in _faults(phrase, allowed, needs.split()):
                raise ValueError(fault)
        if len(set(value)) < len(value):
            raise ValueError(f"a phrase stands twice: {max(value, key=value.count)}")
        return value

    return AfterValidator(check)


def _faults(phrase: str, allowed: set[str], needs: Iterable[str]) -> Iterable[str]:
    try:
        used = slots_of(phrase)
    except GrammarError as error:
        yield str(error)
        return
    if used - allowed:
        yield f"unknown slot {sorted(used - allowed)} (allowed: {sorted(allowed)}) in: {phrase}"
    yield from (f"'{{{slot}}}' may be missing in: {phrase}" for slot in needs if not always_has(phrase, slot))


Phrases = tuple[str, ...]
Words = Annotated[Phrases, phrases(1)]
