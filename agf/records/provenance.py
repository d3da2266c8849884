"""Where a result came from: versions of what computed it, and a fingerprint of the data."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from agf.records import files

_SCALARS = (bool, int, float, str)
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
        value = arguments[name]
        digest.update(name.encode())
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        scalars = isinstance(value, list | tuple) and all(isinstance(item, _SCALARS) for item in value)
        if value is None or scalars or isinstance(value, (*_SCALARS, dict)):
            digest.update(repr(files.jsonable(value)).encode())  # tuples and numpy scalars as a run file has them
            continue
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            array = np.ascontiguousarray(array, dtype=np.float64)
            digest.update(repr(array.shape).encode() + array.tobytes())
        else:
            digest.update(repr(array.tolist()).encode())
    return digest.hexdigest()[:16]
