"""What all commands share: their options, how they report errors, and where they print."""

from __future__ import annotations

import math
import os
import shlex
import sys
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from gradient_rl.errors import ArtifactError, GradientError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from gradient_rl.report.artifacts import Damage

INTERRUPTED = 130
_NAMED_DAMAGES = 20
_WrongCommandLine = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""The base of all that Typer finds wrong; its own name is private, and has moved between versions."""
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
            _print_traceback()
        say(f"error: {error}")
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
            _print_traceback()
        say(f"error: {_refused(error)}")
        raise typer.Exit(ArtifactError.exit_code) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001 - the last resort of a command: one sentence instead of a stack
        if debug:
            _print_traceback()
        say(f"error: {type(error).__name__}: {error}; this is a fault of the program, --debug shows where")
        raise typer.Exit(1) from None


def _refused(error: OSError) -> str:
    """What the file system refused: a file, or else our output, which is then written no more."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename} cannot be used: {reason}; check that path"
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"the output cannot be written: {reason}; give it room, or another place"


def run_app(app: typer.Typer) -> NoReturn:
    """Run a command line to its end; what fails outside of the command, such as the writing of its help, is told as well.

    Other people's text may hold what the terminal's encoding lacks, and shows as escapes then.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with reported_errors(debug=False):
            code = _code_of(app)
    except typer.Exit as ended:
        code = ended.exit_code
    sys.exit(code)


def _code_of(app: typer.Typer) -> int:
    try:
        return app(standalone_mode=False)
    except _WrongCommandLine as error:
        error.message = _safe(error.message)  # Typer quotes what it was given as it is
        error.show()
        return error.exit_code
    except typer.Abort:
        say("aborted")
        return 1


def finite(value: float | None) -> float | None:
    """Refuse what no range of an option can refuse: nan lies in all of them, and infinity above every lower bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number")
    return value


def stdout_console() -> Console:
    """A console for data on stdout: plain and of a fixed width when it is not a terminal."""
    return _console(None if sys.stdout.isatty() else PIPED_WIDTH)


def stderr_console() -> Console:
    """A console for what is drawn on stderr while a command works."""
    return _console(None, stderr=True)


def _console(width: int | None, *, stderr: bool = False) -> Console:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class SafeConsole(Console):
        """Its own control codes reach the terminal, and nobody else's."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Generator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(_safe(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            # Rich would end with 1, as if the run had failed; `reported_errors` knows better.
            raise BrokenPipeError

    return SafeConsole(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def put(text: str) -> None:
    """Print other people's text on stdout, with nothing in it that a terminal would obey."""
    typer.echo(_safe(text))


def put_json(text: str) -> None:
    """Print one JSON object on stdout. It reads back as it was, and holds no control code as it stands."""
    from gradient_rl.report.terminal import safe_json

    typer.echo(safe_json(text.removesuffix("\n")))


def say(text: str) -> None:
    """Put a line on stderr, with nothing in it that a terminal would obey or take for another line."""
    from gradient_rl.report.terminal import safe_line

    print(safe_line(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Put a warning on stderr."""
    say(f"warning: {text}")


def _safe(text: str) -> str:
    from gradient_rl.report.terminal import safe

    return safe(text)


def _print_traceback() -> None:
    print(_safe(traceback.format_exc()), end="", file=sys.stderr)


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


def same_folders(artifacts: Path, data: Path | None = None) -> str:
    """The options with which a next command reads the same folders, a blank before each; nothing for the usual ones."""
    options: list[str] = []
    if artifacts != ARTIFACTS:
        options += ["--artifacts", str(artifacts)]
    if data is not None and data != data_dir(None):
        options += ["--data", str(data)]
    return f" {shlex.join(options)}" if options else ""
