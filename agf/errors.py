"""The package's exceptions: a wrong request (exit code 2) and a computation that failed (exit code 1).

A message says what is wrong, where, what was found, what was expected and how to mend it, in that order and as much as
applies; `explain` puts the parts together.
"""

from __future__ import annotations

import re
from typing import Any

#: Where a value that is shown goes on on the next line, as arrays do: a message is one line.
_LINES = re.compile(r"\s*\n\s*")
#: Letters of a value in a message. Limit: the rest is three dots.
_LONGEST = 60


def explain(what: str, *, where: str = "", found: object = None, expected: str = "", remedy: str = "") -> str:
    """One message in the fixed order: where, what, found, expected, remedy.

    >>> explain("alpha must be positive.", where="Init", found=-1.0, remedy="Use alpha=1e-8.")
    'Init: alpha must be positive. Found -1.0. Use alpha=1e-8.'
    """
    parts = [f"{where}: {what}" if where else what]
    if found is not None:
        parts.append(f"Found {found}.")
    if expected:
        parts.append(f"Expected {expected}.")
    if remedy:
        parts.append(remedy)
    return _LINES.sub(" ", " ".join(part.strip() for part in parts))


def shown(value: object) -> str:
    """A value in a few words on one line, whatever it does when it is asked for them."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a stranger
        return f"a {type(value).__name__} without words"
    return text[:_LONGEST] + "..." * (len(text) > _LONGEST)


class AgfError(Exception):
    """Base of everything this package raises on purpose."""


class RequestError(AgfError, ValueError):
    """The request was wrong; nothing was computed. The command line exits with 2."""


class DataError(RequestError):
    """Data that cannot be used: wrong shape, non-finite values, nothing in it."""


class ProblemError(RequestError):
    """A plugin that breaks its contract: the message names the method, what it returned and what was expected."""


class FileError(RequestError):
    """A file that cannot be read or written: absent, truncated, foreign, from a later version, unwritable."""


class NoTheory(RequestError):
    """`theory()` was asked of a problem, or a case of it, that has no closed form."""


class ComputationError(AgfError, RuntimeError):
    """The computation failed. The command line exits with 1.

    Attributes
    ----------
    partial : Any
        The result up to the failure (Staircase or Trajectory), or None.
    """

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial
