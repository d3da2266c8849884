"""Standard error that may close, fill up or lose its reader: people hear less then, and the work goes on.

A result is worth more than the messages about it, so no write to standard error ever raises.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


class Forgiving:
    """A text stream whose writes never raise; after the first that fails they go nowhere."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._gone = False

    def write(self, text: str) -> int:
        """Write; a failure is the last one."""
        if not self._gone:
            try:
                return int(self._stream.write(text) or 0)
            except (OSError, ValueError):
                self._drop()
        return len(text)

    def flush(self) -> None:
        """Flush, unless there is nowhere to."""
        if not self._gone:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._drop()

    def _drop(self) -> None:
        """Point the descriptor nowhere, so that what is left in buffers does not fail again at exit."""
        self._gone = True
        with contextlib.suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    """Make standard error forgiving inside; a process that was started without one gets one that goes nowhere."""
    before = sys.stderr
    with contextlib.ExitStack() as stack:
        stream = before if before is not None else stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        sys.stderr = Forgiving(stream)
        try:
            yield
        finally:
            sys.stderr.flush()
            sys.stderr = before
