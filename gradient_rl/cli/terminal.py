"""What all commands share: their options, how they report errors, and where they print."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.errors import ArtifactError, GradientError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from gradient_rl.report.artifacts import Damage

INTERRUPTED = 130
_NAMED_DAMAGES = 20
PIPED_WIDTH = 110
"""Columns when the output is not a terminal."""

DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data folder; the packaged workspace if left out.")
]
ArtifactsOption = Annotated[Path, typer.Option("--artifacts", metavar="DIR", help="Where the files are written.")]
PathOption = Annotated[Path, typer.Option("--artifacts", metavar="PATH", help="Artifacts folder, or one trajectory file.")]
ARTIFACTS = Path("artifacts")
"""Where everything is written and read if nothing else is said."""
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of every random choice.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def reported_errors(debug: bool) -> Generator[None]:
    """Turn an error into one sentence on stderr and the exit code that is documented for it."""
    try:
        yield
    except GradientError as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has gone; say nothing more, also not at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        if debug:
            traceback.print_exc()
        print(
            f"error: the output cannot be written: {error.strerror or error}; give it room, or another place", file=sys.stderr
        )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ArtifactError.exit_code) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # the last resort of a command: one sentence instead of a stack
        if debug:
            raise
        print(f"error: {type(error).__name__}: {error}; this is a fault of the program, --debug shows where", file=sys.stderr)
        raise typer.Exit(1) from None


def stdout_console() -> Console:
    """A console for data on stdout: plain and of a fixed width when it is not a terminal."""
    from rich.console import Console

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end with 1, as if the run had failed; `reported_errors` knows better.
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return PipedConsole(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def warn(text: str) -> None:
    """Put a warning on stderr, with nothing in it that a terminal would obey."""
    from gradient_rl.report.terminal import safe

    print(f"warning: {safe(text)}", file=sys.stderr)


def warn_of(damaged: Iterable[Damage]) -> None:
    """Name damaged lines on stderr, the first of them, and count them all."""
    from gradient_rl.report.terminal import count

    found = list(damaged)
    for damage in found[:_NAMED_DAMAGES]:
        warn(str(damage))
    if found:
        rest = len(found) - _NAMED_DAMAGES
        more = f", {rest} of them not named here; gradient-inspect validate names all" if rest > 0 else ""
        warn(f"{count(len(found), 'damaged line')} left out{more}")


def data_dir(given: Path | None) -> Path:
    """The data folder that was asked for, or the packaged one.

    Raises:
        UsageError: the folder that was asked for is not there.
    """
    from gradient_rl.environment.workspace import default_data_dir

    if given is not None and not given.is_dir():
        raise UsageError(f"--data {given} is not a folder; give one that holds emails.jsonl, documents.jsonl and tasks/")
    return given or default_data_dir()
