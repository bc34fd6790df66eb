"""The exception tree: every error a user may see, with the exit code that the commands return for it.

GradientError            1   the run failed
├── UsageError           2   an unknown task, policy, field or value
├── GateError            3   a gate was not met
├── GuardError           4   a guard, such as a budget, stopped the run
│   └── HackingError         the hacking watch did
├── DataError           65   data that cannot be read or does not hold together
├── NothingToReadError  66   the file or folder is not there, or holds nothing
├── ServiceError        69   a model endpoint or training service failed
├── ArtifactError       74   reading or writing the artifacts folder failed
├── FolderInUseError    75   another run writes to the artifacts folder
└── MissingKeyError     77   an API key is missing or refused
"""

from __future__ import annotations

from typing import ClassVar


class GradientError(Exception):
    """Base of all errors that are told to the user in one sentence."""

    exit_code: ClassVar[int] = 1


class UsageError(GradientError):
    """Something on the command line, or an argument, names what does not exist or may not be."""

    exit_code: ClassVar[int] = 2


class GateError(GradientError):
    """A figure is not what a gate asks for."""

    exit_code: ClassVar[int] = 3


class GuardError(GradientError):
    """A guard stopped the run: a budget is spent."""

    exit_code: ClassVar[int] = 4


class HackingError(GuardError):
    """The hacking watch stopped a training run: its reward rose and supported correctness did not."""


class DataError(GradientError):
    """A data file is damaged or its records contradict each other; the message names file and line."""

    exit_code: ClassVar[int] = 65


class NothingToReadError(GradientError):
    """What should be read is not there."""

    exit_code: ClassVar[int] = 66


class ServiceError(GradientError):
    """A remote endpoint failed for good."""

    exit_code: ClassVar[int] = 69


class ArtifactError(GradientError):
    """The file system refused a read or a write under the artifacts folder."""

    exit_code: ClassVar[int] = 74


class FolderInUseError(GradientError):
    """Another process holds the artifacts folder."""

    exit_code: ClassVar[int] = 75


class MissingKeyError(GradientError):
    """An API key is missing or was refused."""

    exit_code: ClassVar[int] = 77
