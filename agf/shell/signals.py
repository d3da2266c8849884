"""Being told to stop: SIGTERM and a terminal that hangs up end a command as Ctrl-C does, with its result saved.

Schedulers, containers and `timeout` send SIGTERM first. Only the command line listens (`heeded`): importing the package
changes no handler, and in Python an interrupt is a KeyboardInterrupt as ever.
"""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from agf.shell.leaving import leave

#: By name, since not every system has them all.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
#: Seconds within which more signals are the same request: process groups, containers and shells send several.
_ONE_REQUEST = 2.0
#: Seconds after which it is asked again, by when whatever lost the request is over.
_AGAIN = 0.05
#: Seconds that Python may take to run a handler, before the process is ended without it. Limit: a signal is heeded
#: within two, and to end takes some of these; what is cut off has lost what was not yet on disk.
_PATIENCE = 1.0


class Interrupts:
    """What this process was told. number : the first signal that asked it to stop, or None."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.due = -float("inf")
        self.held = self.pending = False
        self.terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def code(self, otherwise: int) -> int:
        """The exit code by the shell's rule, 128 + the number of the signal; `otherwise` when there was none."""
        return otherwise if self.number is None else 128 + self.number

    def stop(self, number: int, frame: FrameType | None) -> None:
        """The handler: raise KeyboardInterrupt, unless this repeats a request or `holding` asks to wait."""
        del frame
        if number == getattr(signal, "SIGHUP", None):
            self._leave_terminal()
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + _ONE_REQUEST
        self.number = self.number or number
        if self.held:
            self.pending = True
        else:
            raise KeyboardInterrupt

    def _leave_terminal(self) -> None:
        """Point what was connected to the terminal nowhere: it is gone, and a word written to it would be an error."""
        for descriptor in self.terminals:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


_current = Interrupts()


@contextmanager
def heeded() -> Iterator[Interrupts]:
    """Raise KeyboardInterrupt inside at any signal that asks to stop; handlers are as before afterwards.

    A signal that is ignored stays so (under `nohup`, and Ctrl-C for jobs in the background), and so does one that the
    process handles itself. Only the main thread can listen; elsewhere nothing changes.
    """
    global _current
    before, _current = _current, Interrupts()
    replaced = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in [getattr(signal, name) for name in NAMES if hasattr(signal, name)]:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, leave):
                    replaced[number] = signal.signal(number, _current.stop)
        with _watched(_current, bool(replaced)), _caught(_current):
            yield _current
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        _current = before


@contextmanager
def _watched(interrupts: Interrupts, listening: bool) -> Iterator[None]:
    """End the process when a signal is not heeded for `_PATIENCE` seconds: Python runs no handler inside one long
    operation on large arrays. What was written as the computation went on is kept."""
    if not listening:
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_end_unheeded, args=(reader, interrupts), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()


@contextmanager
def _caught(interrupts: Interrupts) -> Iterator[None]:
    """Ask again where the interrupt came while a destructor or a callback ran, which Python does not let raise."""
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt) and interrupts.number is not None:
            interrupts.due = -float("inf")
            threading.Timer(_AGAIN, _thread.interrupt_main, (interrupts.number,)).start()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _end_unheeded(reader: socket.socket, interrupts: Interrupts) -> None:
    numbers = {getattr(signal, name) for name in NAMES if hasattr(signal, name)}
    with reader:
        while signals := reader.recv(16):
            wanted = numbers & set(signals)
            if not wanted:
                continue
            time.sleep(_PATIENCE)
            if interrupts.number is None and all(signal.getsignal(n) == interrupts.stop for n in wanted):
                with suppress(OSError):
                    os.write(2, b"agf: interrupted in the middle of one long operation\n")
                os._exit(128 + int(min(wanted)))


def stop_if_told() -> None:
    """Raise KeyboardInterrupt where a signal has come: what computed at that time took it, and ended early."""
    if _current.number is not None:
        raise KeyboardInterrupt


@contextmanager
def holding() -> Iterator[None]:
    """Finish what is inside, such as writing a result, before a signal is heeded."""
    interrupts = _current
    interrupts.held = True
    try:
        yield
    finally:
        interrupts.held = False
    if interrupts.pending:
        interrupts.pending = False
        raise KeyboardInterrupt
