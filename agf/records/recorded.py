"""Constructor arguments as a run file holds them: what is read back is what was given, or the file says that it is not
held."""

from __future__ import annotations

import math
from typing import Any

from agf.arrays import held


class Unsaved:
    """Stands for an argument that a run file cannot hold."""


def recorded(value: Any) -> Any:
    """A constructor argument as a run file holds it.

    Returns
    -------
    None, bool, int, float, str, list, dict, ndarray or Unsaved
        Finite scalars as they are, lists and dicts of such ones; an array for all else that holds numbers, booleans or
        text (NaN and infinities too: JSON has none).
    """
    if _scalar(value):
        return _builtin(value)
    if isinstance(value, dict) and all(_scalar(key) and _scalar(item) for key, item in value.items()):
        return {_builtin(key): _builtin(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and all(map(_scalar, value)):
        return [_builtin(item) for item in value]
    array = held(value)
    return Unsaved() if array is None else array


def _scalar(value: Any) -> bool:
    """Whether JSON holds a value, exactly."""
    try:
        return value is None or isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))
    except OverflowError:  # integers beyond float64, which may have more digits than JSON is read with
        return False


def _builtin(value: Any) -> Any:
    """A scalar without its class: numpy's text and numbers, and enumerations, are those of Python to a reader."""
    if isinstance(value, str):
        return str.__str__(value)
    return value if value is None or isinstance(value, bool) else (float if isinstance(value, float) else int)(value)
