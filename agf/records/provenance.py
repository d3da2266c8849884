"""Where a result came from: versions of what computed it, and a fingerprint of the data."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from agf.records import files
from agf.records.recorded import Unsaved, recorded

_PACKAGES = ("agf", "numpy", "scipy", "torch")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on, where installed."""
    out = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def brief(value: Any) -> str:
    """One constructor argument in words: its value, or the shape and fingerprint of an array."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"array {shape}, fingerprint {fingerprint({'': value})}"
    return str(value)


def fingerprint(arguments: Mapping[str, Any]) -> str:
    """SHA-256 (first 16 hex digits) of a problem's constructor arguments: names, shapes and bytes of every value.

    Arrays enter as float64 in C order, so integer and Fortran-ordered copies of the same data agree, and so does what
    a run file holds.
    """
    digest = hashlib.sha256()
    for name in sorted(arguments):
        digest.update(name.encode())
        value = recorded(arguments[name])
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            with np.errstate(all="ignore"):  # of long doubles that float64 does not hold
                array = np.ascontiguousarray(value, dtype=np.float64)
            digest.update(repr(value.shape).encode() + array.tobytes())
        else:  # tuples and numpy scalars as a run file has them
            digest.update(repr(files.jsonable(arguments[name] if isinstance(value, Unsaved) else value)).encode())
    return digest.hexdigest()[:16]
