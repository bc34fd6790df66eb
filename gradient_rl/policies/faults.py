"""A fault of an endpoint: whether to ask again and after how long, or which error ends the run."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast

from gradient_rl.errors import GradientError, MissingKeyError, ServiceError
from gradient_rl.policies.base import Reply
from gradient_rl.policies.endpoint import Endpoint

FIRST_WAIT_S = 1.0
"""Upper bound of the wait after the first attempt; it doubles with each further one."""
MAX_MESSAGE_CHARS = 200

_AGAIN = frozenset({408, 409, 429})
_REFUSED = frozenset({401, 403})
_TOO_LONG = frozenset({400, 413, 422})
_UNSENDABLE = frozenset({"UnsupportedProtocol", "LocalProtocolError", "InvalidURL"})
# Servers have no common code for either; these are the words of OpenAI, vLLM, SGLang, llama.cpp and their gateways.
_OVERFLOW = re.compile(r"context[ _-]?(length|size|window)|maximum context|prompt is too long|input is too long", re.IGNORECASE)
_NO_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|\bcredits?\b|billing_hard_limit", re.IGNORECASE)


class Fault(NamedTuple):
    """A transport failure, after which the same request may be sent again."""

    what: str
    """Its class in words, such as `HTTP 502`."""
    retry_after: str | None = None
    """The server's own header, as it was sent."""
    unreached: bool = False
    """Whether no connection was made, so that no server has seen the request."""


NOT_JSON = Fault("HTTP 200 with a body that is not JSON")
NO_CHOICES = Fault("HTTP 200 without choices")


def status_fault(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: object) -> Fault | Reply:
    """Read an HTTP error status.

    Args:
        body: the error as the client read it: an object, a text, or None.

    Returns:
        A fault that may pass, or the reply that a conversation beyond the model's context counts as.

    Raises:
        MissingKeyError: the key was refused.
        ServiceError: asking again would not help.
    """
    text = str(body)
    if status in _TOO_LONG and _OVERFLOW.search(text):
        return Reply(finish_reason="context_overflow")
    if (status in _AGAIN or status >= 500) and not (status == 429 and _NO_CREDIT.search(text)):
        return Fault(f"HTTP {status}", headers.get("retry-after"))
    raise _final(endpoint, status, body)


def connection_fault(endpoint: Endpoint, failure: Exception) -> Fault:
    """Read a connection that could not be made, broke, or stayed silent.

    Args:
        failure: a timeout, or the client's error, whose cause says what happened.

    Raises:
        ServiceError: the request cannot be sent at all.
    """
    # A bare TimeoutError has the cancellation as its cause, which says nothing.
    telling = failure if isinstance(failure, TimeoutError) else failure.__cause__ or failure
    kind = type(telling).__name__
    if kind in _UNSENDABLE:
        raise ServiceError(f"no request can be sent to {endpoint.shown_url} ({kind}); check the base URL and the key")
    if "Timeout" in kind:
        return Fault(f"no reply within {endpoint.timeout_s:g} s")
    return Fault(f"a failed connection ({kind})", unreached=kind == "ConnectError")


def wait_s(fault: Fault, attempt: int, max_wait_s: float, jitter: random.Random, now_s: float) -> float:
    """Seconds to wait before the next attempt: what the server asks for, else exponential backoff with full jitter.

    The backoff is drawn evenly from 0 to min(max_wait_s, 2^(attempt-1)) seconds
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).

    Args:
        attempt: how many requests were sent, from 1.
        now_s: seconds since the epoch, for a Retry-After that is a date.
    """
    asked = retry_after_s(fault.retry_after, now_s)
    if asked is not None:
        return min(asked, max_wait_s)
    return jitter.uniform(0.0, min(max_wait_s, FIRST_WAIT_S * 2 ** (attempt - 1)))


def retry_after_s(header: str | None, now_s: float) -> float | None:
    """A Retry-After header (RFC 9110, section 10.2.3) in seconds from now; None where there is none that can be read."""
    header = (header or "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", header, re.ASCII):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, date.timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _final(endpoint: Endpoint, status: int, body: object) -> GradientError:
    url = endpoint.shown_url
    if status in _REFUSED:
        return MissingKeyError(f"{url} refused the API key (HTTP {status}); check the key that belongs to this address")
    said = _message_in(endpoint, body)
    advice = "add credits" if status == 429 else f"check the address and the model '{endpoint.hide(endpoint.model)}'"
    return ServiceError(f"{url} answered HTTP {status}{said}; {advice}")


def _message_in(endpoint: Endpoint, body: object) -> str:
    """What the server says of its error, in one short line; empty when it says nothing for people."""
    fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    named = next((fields[name] for name in ("message", "detail", "error") if fields.get(name)), None)
    message = str(cast("object", named if fields else body or ""))
    if named is None and (fields or message.lstrip().startswith("<")):
        return ""
    # Hidden before it is cut, so that no part of a secret is left at the cut.
    line = " ".join(word for word in re.split(r"[\s\x00-\x1f\x7f]+", endpoint.hide(message)) if word)
    return f": {line[:MAX_MESSAGE_CHARS]}" if line else ""
