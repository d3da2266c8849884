"""Where the command starts: a Ctrl-C that comes while the rest is still being imported is a sentence too."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line of this process; see `agf.shell.main`."""
    try:
        from agf.shell.main import main as run

        return run()
    except KeyboardInterrupt:
        print("agf: interrupted", file=sys.stderr)
        return 130
