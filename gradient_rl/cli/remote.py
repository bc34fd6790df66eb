"""What commands that may call a model share: their options, the key, the price, and asking before anything is paid."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradient_rl.errors import DataError, MissingKeyError, UsageError

if TYPE_CHECKING:
    from gradient_rl.policies.adapters import Access
    from gradient_rl.policies.endpoint import Price

EMBEDDED = "embedded"
"""Name of the backend that runs on this machine, and of its folder under the checkpoints."""
OWN_DEADLINE_S = 7 * 86400.0
"""Of a job or a reply of a server in this process: it is at work as long as we are, and asking again brings nothing sooner."""

BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Of the server, up to its version: http://127.0.0.1:8000/v1.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key-env",
        metavar="NAME",
        help="Variable that holds the key, in the environment or in ./.env. For wandb.ai: WANDB_API_KEY.",
    ),
]
PriceOption = Annotated[
    str | None,
    typer.Option("--price-per-million", metavar="USD|IN:OUT", help="Price of a million tokens; prompt and completion."),
]


def environment() -> dict[str, str]:
    """The variables of `./.env`, and over them those of the real environment. Nothing is put into the environment.

    Raises:
        DataError: the file is not text.
    """
    from dotenv import dotenv_values

    try:
        written = {name: value for name, value in dotenv_values(Path(".env")).items() if value is not None}
    except UnicodeDecodeError as error:
        raise DataError(f"./.env is not UTF-8 text: byte {error.start} cannot be read; save it as UTF-8") from None
    return {**written, **os.environ}


def find_access(base_url: str | None, key_name: str | None, price: str | None, *, own: bool = False) -> Access:
    """How endpoints are reached, by these options and the environment; `own`: the server is in this process."""
    from gradient_rl.policies.adapters import Access
    from gradient_rl.policies.endpoint import REPLY_TIMEOUT_S

    timeout_s = OWN_DEADLINE_S if own else REPLY_TIMEOUT_S
    return Access(base_url, environment(), key_name, read_price(price), timeout_s)


def needed_key(values: Mapping[str, str], key_name: str | None, base_url: str) -> str:
    """The key for a training service; a server on this machine needs none.

    Raises:
        MissingKeyError: there is none, with where to get one and where to put it.
    """
    from gradient_rl.policies.adapters import is_loopback, key_for

    name, key = key_for(base_url, key_name, values)
    if name is None and not is_loopback(base_url):
        raise MissingKeyError(
            f"--base-url {without_secrets(base_url)}: which key may it see? name its variable with --api-key-env"
        )
    if not key and not is_loopback(base_url):
        raise MissingKeyError(
            f"training needs a Weights & Biases key and {name} is not set: get one at https://wandb.ai/authorize, then put the "
            f"line {name}=... into ./.env or export it; gradient-train without --policy art needs no key"
        )
    return key or "local"


def without_secrets(text: str) -> str:
    """The text without what its URLs carry for their servers alone: user, password and the values of the query."""
    from gradient_rl.policies.endpoint import Endpoint

    for url in re.findall(r"https?://[^\s/?#]\S*", text):
        with suppress(UsageError):  # what is no URL is sent to nobody
            text = text.replace(url, Endpoint(url, "", "").hide(url))
    return text


def command_to_resume(command: str, *added: str, without: str = "") -> str:
    """The command line of this process with `--resume` and options added; secrets in it are to be written anew.

    Args:
        command: its name.
        added: options, each once.
        without: an option that they take the place of.
    """
    arguments = [without_secrets(each) for each in sys.argv[1:] if each not in ("--resume", without, *added)]
    return shlex.join([command, *arguments, *added, "--resume"])


def read_price(text: str | None) -> Price | None:
    """A price in USD per million tokens: one for all, or `IN:OUT`.

    Raises:
        UsageError: it is no price.
    """
    from gradient_rl.policies.endpoint import Price

    if text is None:
        return None
    first, colon, second = text.partition(":")
    try:
        prompt = float(first)
        completion = float(second) if colon else prompt
    except ValueError:
        prompt = completion = -1.0
    if not (0.0 <= prompt < 1e6 and 0.0 <= completion < 1e6):
        raise UsageError(f"--price-per-million {text} is no price; write USD as in 0.5, or IN:OUT as in 0.5:2")
    return Price(prompt, completion)


def confirm(yes: bool) -> None:
    """Ask on a terminal whether to go on; elsewhere nobody could answer, and the plan has been printed.

    Raises:
        typer.Exit: the answer was no.
    """
    if yes or not sys.stdin.isatty():
        return
    if not sys.stderr.isatty():
        raise UsageError("the question whether to go on cannot be seen, for stderr is no terminal; add --yes")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(0)
