"""Copies of what a caller hands over, so that nothing changes under a computation or its record."""

from __future__ import annotations

from typing import Any

import numpy as np


def copied(value: Any) -> Any:
    """A copy of arrays, tensors and frames, also inside lists, tuples and dicts; anything else is itself."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(item) for item in value)
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        return value.detach().clone()
    if hasattr(value, "to_numpy") and hasattr(value, "copy"):  # a pandas frame or series
        return value.copy()
    return value


def frozen(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy whose arrays refuse to be written to: what a run file will record."""
    out: dict[str, Any] = copied(arguments)
    for value in out.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return out
