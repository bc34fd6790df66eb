"""Names that nobody else has: people, customers, numbers, tags."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from random import Random

from gradient_rl.worlds.office import Names

_TRIES = 50


class Register:
    """Hands out names and numbers, each once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._taken: set[str] = set()
        self._firsts: set[str] = set()

    def person(self, rng: Random) -> str:
        """A first and a last name. Only a world with tens of thousands of people repeats one."""
        return self._fresh(lambda: f"{rng.choice(self._names.given)} {rng.choice(self._names.surnames)}")

    def colleague(self, rng: Random) -> str:
        """A name whose first one no other colleague has, as long as there are first names left."""
        free = [name for name in self._names.given if name not in self._firsts] or self._names.given
        self._firsts.add(first := rng.choice(free))
        return self._fresh(lambda: f"{first} {rng.choice(self._names.surnames)}")

    def proper(self, rng: Random) -> str:
        """The first part of a customer's name: `Silvermere`, `Tobin & Yeates`."""
        return self._fresh(lambda: self._proper(rng))

    def nickname(self, called: tuple[str, ...], town: str, rng: Random) -> str:
        """A description with a town, `the creamery in Fethard`; empty when all of them are taken."""
        free = [f"{name} in {town}" for name in called if f"{name} in {town}" not in self._taken]
        if not free:
            return ""
        self._taken.add(chosen := rng.choice(free))
        return chosen

    def number(self, rng: Random, prefix: str = "", digits: int = 5) -> str:
        """A number with so many digits, more once they are scarce."""
        while True:
            for _ in range(_TRIES):
                number = f"{prefix}{rng.randrange(10 ** (digits - 1), 10**digits)}"
                if number not in self._taken:
                    self._taken.add(number)
                    return number
            digits += 1

    def tag(self, pattern: str, rng: Random) -> str:
        """A tag of a pattern such as `CR-ddd`, with more digits once they are scarce."""
        letters = pattern.rstrip("d")
        return self.number(rng, letters, len(pattern) - len(letters))

    def _proper(self, rng: Random) -> str:
        names = self._names
        if rng.random() < 0.6:
            first, second = rng.choice(names.proper), rng.choice(names.places)
            return first + second if first.lower() != second else f"{first}field"
        first, second = rng.sample(names.surnames, 2)
        return f"{first} & {second}" if rng.random() < 0.6 else f"{rng.choice(names.given)} {second}"

    def _fresh(self, draw: Callable[[], str]) -> str:
        name = draw()
        for _ in range(_TRIES):
            if name not in self._taken:
                break
            name = draw()
        self._taken.add(name)
        return name


def plain(text: str) -> str:
    """Letters and digits of a name without accents, in lower case, for addresses."""
    folded = unicodedata.normalize("NFKD", text)
    return re.sub(r"[^a-z0-9]+", "", "".join(c for c in folded if not unicodedata.combining(c)).lower())


def address(name: str, domain: str) -> str:
    """`aoife.brannock@marlowe.example`."""
    first, *rest = name.split()
    return f"{plain(first)}.{plain(''.join(rest))}@{domain}"
