"""Standard error that may close, fill up or lose its reader: people hear less then, and the work goes on.

A result is worth more than the messages about it, so no write to standard error ever raises. Standard output carries
what was asked for, so a write to it that fails is told.
"""

from __future__ import annotations

import contextlib
import errno
import io
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


class Closed(io.TextIOBase):
    """Standard output of a process that was started without one: whoever writes there is told."""

    def write(self, text: str) -> int:
        """Raise OSError."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def occupied() -> None:
    """Take the numbers of standard streams that are closed, or files that are opened later would be given them, and
    words for people be written into these."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it is given the lowest number that is free


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    """Make standard error forgiving inside; a process that was started without one gets one that goes nowhere."""
    before, output = sys.stderr, sys.stdout
    sys.stdout = Closed() if output is None else output
    with contextlib.ExitStack() as stack:
        stream = before if before is not None else stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        sys.stderr = Forgiving(stream)
        try:
            yield
        finally:
            sys.stderr.flush()
            sys.stderr, sys.stdout = before, output
