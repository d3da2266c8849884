"""Where the command starts: a Ctrl-C that comes while the rest is still being imported is a sentence too."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

#: The matrices of a step are small: threads of the linear algebra that wait for one another on them cost, on a machine
#: that has other work, several times what they gain (`agf predict relu`: 10 CPU s in one, over 44 in two). They are
#: read once, when numpy is loaded; what the user has set counts.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """The command line of this process; see `agf.shell.main`."""
    if not any(name in os.environ for name in THREADS):
        os.environ.update(dict.fromkeys(THREADS, "1"))
    listening = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listening:
        signal.signal(signal.SIGINT, _leave)
    from agf.shell import listeners

    listeners.occupied()
    from agf.shell.main import main as run

    if listening:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _leave(*_: Any) -> None:
    """End the process: nothing is computed yet, and an exception is lost in some of the places where imports call."""
    with contextlib.suppress(OSError):
        os.write(2, b"agf: interrupted\n")
    os._exit(130)
