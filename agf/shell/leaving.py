"""How an interrupted process ends, in a module of its own that is read at once."""

import os
import sys


def leave(*_: object) -> None:
    """End the process before and after `agf.shell.signals` listens: nothing is computed yet, or all is written, and an
    exception is lost in some of the places where imports and the end of Python call."""
    try:
        os.write(2, b"agf: interrupted\n")
    finally:
        os._exit(130)


def end(code: int) -> None:
    """End the process where an interrupt has been heeded, with all of its results written.

    The end of Python takes longer than the rest, more so where torch or matplotlib are loaded; and where the interrupt
    came into a text that was being executed, as to make a data class, it would end by SIGINT in place of this code.
    """
    try:
        sys.stdout.flush()
    finally:
        os._exit(code)
