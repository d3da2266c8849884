"""Where the command starts: a Ctrl-C that comes while the rest is still being imported is a sentence too.

What comes before, the start of Python itself and its reading of this file, is short as nothing else is imported here:
an interrupt is Python's own word until then.
"""

from __future__ import annotations

import os
import signal

from agf.shell.leaving import end, leave

#: The matrices of a step are small: threads of the linear algebra that wait for one another on them cost, on a machine
#: that has other work, several times what they gain (`agf predict relu`: 10 CPU s in one, over 44 in two). They are
#: read once, when numpy is loaded; what the user has set counts.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: Exit codes above it say by which signal a command was ended. Limit: of shells.
_SIGNAL = 128


def main() -> int:
    """The command line of this process; see `agf.shell.main`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    if not any(name in os.environ for name in THREADS):
        os.environ.update(dict.fromkeys(THREADS, "1"))
    from agf.shell import listeners

    listeners.occupied()
    from agf.shell.main import main as run

    code = run()
    if code > _SIGNAL:
        end(code)
    return code
