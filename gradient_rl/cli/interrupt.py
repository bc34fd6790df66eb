"""Ctrl-C for commands that can be resumed: the first asks them to stop, the second stops them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_on_interrupt(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` at the first Ctrl-C within the block; the second raises KeyboardInterrupt."""

    def first(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ask_to_stop(request: Callable[[], None], grace_s: float) -> None:
    """Pass the request on, and say what happens next."""
    # Straight to the descriptor: a signal may come while a buffered stream is being written.
    os.write(2, f"\nstopping: episodes in flight have {grace_s:g} s to end; press Ctrl-C again to stop at once\n".encode())
    request()
