"""For the tests that use the unmodified openpipe-art: nothing of it leaves this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def local_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """No key, no download, no bar, and no socket but loopback ones; what was tried is listed."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for name, value in (("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("TQDM_DISABLE", "1"), ("WANDB_DISABLE_WEAVE", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return refuse_other_machines(monkeypatch)


def refuse_other_machines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tried: list[str] = []

    def guarded(original: Callable[..., Any], host_of: Callable[..., object]) -> Callable[..., Any]:
        def call(*arguments: object, **named: object) -> object:
            host = host_of(*arguments)
            if not is_local(host):
                tried.append(str(host))
                raise OSError(f"a test reached for {host}")
            return original(*arguments, **named)

        return call

    monkeypatch.setattr(socket, "getaddrinfo", guarded(socket.getaddrinfo, lambda host, *_: host))
    for method in ("connect", "connect_ex"):
        host_of = lambda _, address: address[0] if isinstance(address, tuple) else "127.0.0.1"  # noqa: E731
        monkeypatch.setattr(socket.socket, method, guarded(getattr(socket.socket, method), host_of))
    return tried


def is_local(host: object) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits a second before each look at a job's events; ten jobs need not take ten."""
    import art.serverless.backend

    monkeypatch.setattr(art.serverless.backend, "asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0.01)))
