"""A reward part of one's own: found by `MODULE:FUNCTION`, and called so that its faults are told and end nothing."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import cast

from gradient_rl.errors import UsageError
from gradient_rl.rewards.profile import PARTS, RewardFunction, RewardProfile
from gradient_rl.rewards.submission import Submission

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What code of one's own may raise by mistake. Requests to stop, and memory that runs out, pass through."""


@dataclass(frozen=True)
class Mark:
    """What a part returned for a submission, before anything bounds it."""

    value: float
    """NaN where the part raised or returned no number."""
    fault: str = ""
    """What it raised, a value that is no `PartScore` included, or returned instead of a number; empty when it did neither."""

    @property
    def fits(self) -> bool:
        """Whether it is a finite value in [0, 1]."""
        return not self.fault and 0.0 <= self.value <= 1.0

    @property
    def paid(self) -> float:
        """The value held within [0, 1]; 0 where there is none."""
        return 0.0 if math.isnan(self.value) else min(1.0, max(0.0, self.value))


def mark(part: RewardFunction, submission: Submission) -> Mark:
    """Call a part; what it raises or returns by mistake becomes the mark's fault."""
    try:
        value, _ = cast("tuple[object, object]", part(submission))
    except FAULTS as error:
        return Mark(math.nan, f"raised {type(error).__name__}: {error}")
    if not isinstance(value, Real):
        return Mark(math.nan, f"returned {value!r:.80}, which is no number")
    return Mark(float(value))


def load_parts(specs: Sequence[str]) -> dict[str, RewardFunction]:
    """The parts that `[NAME=]MODULE:FUNCTION` name, by their names; without one, a part is called as its function.

    Raises:
        UsageError: there is no such module or function, importing it fails, or two have one name.
    """
    parts: dict[str, RewardFunction] = {}
    for spec in specs:
        name, path = name_and_path(spec)
        if name in parts:
            raise UsageError(f"--reward {spec}: two parts are called '{name}'; write NAME={path} to call this one otherwise")
        parts[name] = _load(spec, path)
    return parts


def name_and_path(spec: str) -> tuple[str, str]:
    """The name of a part and its `MODULE:FUNCTION`."""
    given, _, path = spec.rpartition("=")
    return given.strip() or path.rpartition(":")[2].strip(), path.strip()


def profile_of(own: Mapping[str, RewardFunction]) -> RewardProfile:
    """The profile that parts of one's own have where none is given.

    Those that are called as packaged parts take their places; a single other one is the whole reward.

    Raises:
        UsageError: it takes a profile to say what each weighs.
    """
    new = [name for name in own if name not in PARTS]
    if not new:
        return RewardProfile()
    if len(own) > 1:
        raise UsageError(f"--reward: nothing says what '{new[0]}' weighs; add --profile NAME=WEIGHT,... with weights of sum 1")
    return RewardProfile(weights={new[0]: 1.0})


def refuse_unweighed(own: Mapping[str, RewardFunction], profile: RewardProfile) -> None:
    """Refuse a part that the profile does not weigh, and that would silently count for nothing.

    Raises:
        UsageError: there is one.
    """
    for name in own:
        if not profile.weights.get(name):
            raise UsageError(f"--reward: the profile gives '{name}' no weight; add {name}=WEIGHT to --profile")


def _load(spec: str, path: str) -> RewardFunction:
    module_name, colon, function_name = path.partition(":")
    if not (module_name and colon and function_name):
        raise UsageError(f"--reward {spec} is not of the form [NAME=]MODULE:FUNCTION, as in my_rewards:brevity")
    try:
        module = importlib.import_module(module_name)
    except FAULTS as error:
        raise UsageError(
            f"--reward {spec}: importing {module_name} fails with {type(error).__name__}: {error}; "
            "run where the module can be imported, and name it without .py"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"--reward {spec}: {module_name} has no function '{function_name}'")
    return cast("RewardFunction", function)
