"""An endpoint: where an OpenAI-compatible server is found, what it costs, and how long to wait for it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from gradient_rl.errors import MissingKeyError, UsageError

HIDDEN = "***"
_REAL_SECRET_CHARS = 12
_NO_KEY = "none"


@dataclass(frozen=True)
class Price:
    """What tokens cost, in USD per million."""

    prompt: float
    completion: float

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of one reply, in USD."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


REPLY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server and a model that it serves.

    Raises:
        UsageError: the base URL is no http URL, or a number is out of its range.
        MissingKeyError: the key holds characters that no HTTP header may carry.
    """

    base_url: str = field(repr=False)
    """Up to and including the version, such as `https://host/v1`. It may carry a secret, so neither it nor the key is
    ever printed as it is; `shown_url` is."""
    api_key: str = field(repr=False)
    """Empty for a server that asks for none."""
    model: str
    """The model's name as the server knows it."""
    timeout_s: float = REPLY_TIMEOUT_S
    """Seconds for one request, from connecting to the last byte of its reply."""
    attempts: int = 5
    """Requests for one reply, the first among them."""
    max_wait_s: float = 60.0
    """Seconds of the longest wait before another attempt, whatever the server asks for."""
    max_completion_tokens: int = 1024
    """Tokens of one reply."""
    price_per_million: Price | None = None
    """None: unknown, and counted as 0."""
    logprobs: bool = False
    """Whether to ask for the log-probability of each completion token."""

    def __post_init__(self) -> None:
        if not _is_http(self.base_url):
            raise UsageError(f"the base URL of '{self.model}' is no http URL; write one such as https://host/v1")
        if not re.fullmatch(r"[!-~]*", self.api_key):
            fault = "holds a space, a line end or a letter that is not ASCII"
            raise MissingKeyError(f"the API key for {self.shown_url} {fault}; copy it again")
        for name in ("timeout_s", "attempts", "max_wait_s", "max_completion_tokens"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} of the endpoint {self.shown_url} is {getattr(self, name)}; it must be above 0")

    @property
    def key_sent(self) -> str:
        """The key, or the word `none` where there is none, for the client refuses to be made without one."""
        return self.api_key or _NO_KEY

    @cached_property
    def shown_url(self) -> str:
        """The base URL without user, password, query and fragment."""
        scheme, _, rest = self.base_url.partition("://")
        host_and_path = re.split(r"[?#]", rest, maxsplit=1)[0]
        host, slash, path = host_and_path.partition("/")
        return self.hide(f"{scheme}://{host.rpartition('@')[2]}{slash}{path}")

    def hide(self, text: str) -> str:
        """The text with every secret of this endpoint replaced, for messages that people read."""
        return self._any_secret.sub(HIDDEN, text)

    def hide_in_reply(self, text: str) -> str:
        """The same for a model's words, in which a short key such as `none` is a word and stays."""
        return self._real_secret.sub(HIDDEN, text)

    @cached_property
    def _any_secret(self) -> re.Pattern[str]:
        return _matching(self._secrets)

    @cached_property
    def _real_secret(self) -> re.Pattern[str]:
        return _matching({secret for secret in self._secrets if len(secret) >= _REAL_SECRET_CHARS})

    @cached_property
    def _secrets(self) -> set[str]:
        """The key, and what the URL carries for the server alone, in each spelling that an answer may give them."""
        url = urlsplit(self.base_url)
        user_info = url.netloc.rpartition("@")[0]
        basic = b64encode(unquote(user_info).encode()).decode()  # how user and password are sent, and may be sent back
        bare = {self.api_key, *user_info.split(":"), basic, *(value for _, value in parse_qsl(url.query))}
        return {spelled for secret in bare if secret for spelled in _spellings(secret)}


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(re.fullmatch(r"\w+://[^\s/?#]\S*", url))
    except ValueError:
        return False


def _spellings(secret: str) -> tuple[str, ...]:
    """As it is, in a URL, out of a URL, and within a JSON string."""
    return secret, quote(secret, safe="", errors="replace"), unquote(secret), json.dumps(secret)[1:-1]


def _matching(secrets: set[str]) -> re.Pattern[str]:
    longest_first = sorted(secrets, key=len, reverse=True)
    return re.compile("|".join(map(_pattern, longest_first)) or r"(?!)")


def _pattern(secret: str) -> str:
    """A short secret only where it stands alone: otherwise the key `x` would black out every x."""
    bounded = rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])"
    return re.escape(secret) if len(secret) >= _REAL_SECRET_CHARS else bounded
