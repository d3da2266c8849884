"""Array names and the checks at the door.

Every array that comes from a user passes once through a function here and is float64, C-ordered and finite afterwards.
The names of the aliases say the type; letters in docstrings say the shape: H neurons, P parameters a neuron, m a subset
of the neurons, T snapshots.

The checks take the value given, its name, and where it was given: both are words of the message. length, rows and
columns are sizes that are known beforehand, None for any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agf.errors import DataError, explain

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def _floats(value: Any, name: str, where: str) -> FloatArray:
    if value is None:
        raise DataError(explain(f"`{name}` is missing.", where=where))
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().numpy()
    if np.ma.is_masked(value):  # numpy would hand over what is under the mask
        raise DataError(explain(f"`{name}` has masked values.", where=where, remedy="Drop or impute them first."))
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise DataError(explain(f"`{name}` is complex.", where=where, expected="real numbers"))
        array = np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            explain(
                f"`{name}` cannot be read as numbers ({error}).",
                where=where,
                expected="an array of real numbers; encode text columns first",
            )
        ) from None
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            explain(
                f"`{name}` has {int(bad.sum())} non-finite value(s), the first at index {first}.",
                where=where,
                found=array[first],
                remedy="Drop or impute them first.",
            )
        )
    return array


def vector(value: Any, name: str, *, where: str = "", length: int | None = None) -> FloatArray:
    """A finite float64 vector, from anything array-like; (n, 1) columns are flattened. Raises DataError."""
    array = _floats(value, name, where)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise DataError(explain(f"`{name}` has shape {array.shape}.", where=where, expected="one dimension"))
    if length is not None and array.size != length:
        raise DataError(explain(f"`{name}` has length {array.size}.", where=where, expected=f"length {length}"))
    return array


def matrix(
    value: Any, name: str, *, where: str = "", rows: int | None = None, columns: int | None = None
) -> FloatArray:
    """A finite float64 matrix, C-ordered copy, from anything array-like; a vector is one column. Raises DataError."""
    array = _floats(value, name, where)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(explain(f"`{name}` has shape {array.shape}.", where=where, expected="two dimensions"))
    if 0 in array.shape:
        raise DataError(
            explain(f"`{name}` is empty, shape {array.shape}.", where=where, expected="at least one row and one column")
        )
    if (rows is not None and array.shape[0] != rows) or (columns is not None and array.shape[1] != columns):
        want = f"shape ({'any' if rows is None else rows}, {'any' if columns is None else columns})"
        raise DataError(explain(f"`{name}` has shape {array.shape}.", where=where, expected=want))
    return array


def in_range(array: FloatArray, name: str, *, where: str = "", power: int = 2) -> FloatArray:
    """The array itself; DataError when the `power`-th power of its largest entry leaves the range of float64."""
    largest = float(np.abs(array).max(initial=0.0))
    bound = 10.0 ** (280 // power)
    if largest and not 1.0 / bound <= largest <= bound:
        raise DataError(
            explain(
                f"products of entries of `{name}` leave the range of float64.",
                where=where,
                found=largest,
                expected=f"a largest entry between {1.0 / bound:.0e} and {bound:.0e}",
                remedy="Rescale it: results rescale with the data.",
            )
        )
    return array


def positive(value: Any, name: str, *, where: str = "") -> float:
    """A finite positive float. Raises DataError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise DataError(explain(f"`{name}` must be a positive finite number.", where=where, found=repr(value)))
    return number


def count(value: Any, name: str, *, where: str = "", least: int = 1) -> int:
    """An integer >= `least`. Raises DataError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        else:
            raise DataError(explain(f"`{name}` must be an integer.", where=where, found=repr(value)))
    if value < least:
        raise DataError(explain(f"`{name}` must be at least {least}.", where=where, found=value))
    return int(value)
