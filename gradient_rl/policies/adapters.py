"""Adapters: the states of a model that ART trained, and policies behind endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from gradient_rl.errors import DataError, MissingKeyError, NothingToReadError, UsageError
from gradient_rl.policies.catalog import Checkpoint, Entry, saved_states
from gradient_rl.policies.chat import ChatPolicy
from gradient_rl.policies.endpoint import REPLY_TIMEOUT_S, Endpoint, Price
from gradient_rl.schema.training import WARM, ArtState

ART = "art"
CHAT = "chat:"
MAX_COMPLETION_TOKENS = 1024
"""Of one reply of a `chat:MODEL`."""
WANDB_KEY = "WANDB_API_KEY"
WANDB_HOST = ".wandb.ai"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Access:
    """How endpoints are reached: what the command line and the environment said."""

    base_url: str | None = field(default=None, repr=False)
    """None: where the adapter was trained."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The environment, in which keys are looked for."""
    key_name: str | None = None
    """The variable that holds the key; None where it was not named."""
    price_per_million: Price | None = None
    reply_timeout_s: float = REPLY_TIMEOUT_S
    """See `Endpoint.timeout_s`."""


def key_for(base_url: str, key_name: str | None, variables: Mapping[str, str]) -> tuple[str | None, str]:
    """The variable that holds the key for a server, and the key. A key is shown only to whom it was meant for.

    The variable is the one that was named; else that of Weights & Biases, for its own servers alone; else None, and no key.
    """
    name = key_name or (WANDB_KEY if _host(base_url).endswith(WANDB_HOST) else None)
    return name, variables.get(name, "").strip() if name else ""


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    return _host(url) in _LOOPBACK


def remote_entries(access: Access, specs: Sequence[str]) -> tuple[Entry, ...]:
    """The catalog's entries for `art` and for each `chat:MODEL` among the specs."""
    models = dict.fromkeys(spec.removeprefix(CHAT) for spec in specs if spec.startswith(CHAT))
    adapter = Entry(ART, lambda t, c: _adapter(access, t, c), learned=True, saved=art_checkpoints, remote=True)
    return adapter, *(_chat_entry(access, model) for model in models)


def art_path(folder: Path, step: int) -> Path:
    """Where the state of a step is noted."""
    return folder / f"art-{step:06}.json"


def warm_path(folder: Path) -> Path:
    """Where the state after the warm start is noted."""
    return folder / f"art-{WARM}.json"


def art_checkpoints(folder: Path) -> Sequence[Checkpoint]:
    """The states that are noted in a folder, by step; that of the warm start behind step 0."""
    return saved_states(folder, ART)


def read_art_state(path: Path) -> ArtState:
    """Read what was noted of a step.

    Raises:
        NothingToReadError: the file is not there.
        DataError: it is damaged.
    """
    try:
        return ArtState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise NothingToReadError(f"{path} is not there; train again, or give another --artifacts") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]["msg"]
        raise DataError(f"{path} does not say which adapter it is: {fault}; restore the file, or train again") from None


def _adapter(access: Access, temperature: float, checkpoint: Checkpoint | None) -> ChatPolicy:
    if checkpoint is None or checkpoint.path is None:
        raise UsageError(f"policy '{ART}' is played from a checkpoint; run gradient-train --policy {ART} first")
    state = read_art_state(checkpoint.path)
    url = access.base_url or state.base_url
    return ChatPolicy(_endpoint(access, state.inference_name, url, state.max_completion_tokens), temperature, name=ART)


def chat_policy(
    access: Access,
    model: str,
    temperature: float,
    max_completion_tokens: int = MAX_COMPLETION_TOKENS,
    option: str = "--policy",
) -> ChatPolicy:
    """The policy of a `chat:MODEL`.

    Args:
        option: the option that named the model, for the messages.

    Raises:
        UsageError: there is no address.
        MissingKeyError: the address needs a key, and there is none.
    """
    if access.base_url is None:
        raise UsageError(f"{option} {CHAT}{model} needs --base-url, such as https://api.openai.com/v1")
    return ChatPolicy(_endpoint(access, model, access.base_url, max_completion_tokens), temperature)


def _chat_entry(access: Access, model: str) -> Entry:
    if not model:
        raise UsageError(f"--policy {CHAT} names no model; write {CHAT}MODEL, as in {CHAT}gpt-4.1-mini")
    return Entry(f"{CHAT}{model}", lambda temperature, _: chat_policy(access, model, temperature), remote=True)


def _endpoint(access: Access, model: str, base_url: str, max_completion_tokens: int = MAX_COMPLETION_TOKENS) -> Endpoint:
    name, key = key_for(base_url, access.key_name, access.variables)
    if not key and not is_loopback(base_url):
        remedy = f"set {name} in the environment or in ./.env" if name else "name the variable that holds it with --api-key-env"
        raise MissingKeyError(f"'{model}' needs a key: {remedy}")
    return Endpoint(
        base_url=base_url,
        api_key=key,
        model=model,
        timeout_s=access.reply_timeout_s,
        max_completion_tokens=max_completion_tokens,
        price_per_million=access.price_per_million,
    )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
