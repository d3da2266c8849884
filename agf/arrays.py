"""Array names and the checks at the door.

Every array that comes from a user passes once through a function here and is float64, C-ordered and finite afterwards.
The names of the aliases say the type; letters in docstrings say the shape: H neurons, P parameters a neuron, m a subset
of the neurons, T snapshots.

The checks take the value given, its name, and where it was given: both are words of the message. length, rows and
columns are sizes that are known beforehand, None for any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agf.errors import DataError, explain, shown

#: numpy's own way with floating-point exceptions, whatever the caller has set (`numpy.seterr(all="raise")`, say).
USUAL: dict[str, Any] = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


_KINDS = {
    "b": "booleans", "c": "complex numbers", "M": "dates", "m": "lengths of time", "U": "text", "S": "bytes",
    "V": "records",
}  # fmt: skip
#: A number as files write it: digits of ASCII, no underscores, no blanks; "nan" and "inf" are told apart later.
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def parsed(text: str) -> float | None:
    """The number that a cell of a text file holds, or None: what Python alone reads as one (1_000) is text."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _not_numbers(array: np.ndarray) -> str:
    """What an array holds in place of real numbers, in words; "" where it holds them."""
    if array.dtype.kind in "iuf":
        return ""
    if array.dtype.kind != "O":
        return f"{_KINDS.get(array.dtype.kind, 'no numbers')} ({array.dtype})"
    for item in array.flat:
        if isinstance(item, bool | np.bool_) or not isinstance(item, Real | Decimal | np.number):
            return f"{item!r:.40}, of type {type(item).__name__}"
        if isinstance(item, np.complexfloating):
            return "complex numbers"
    return ""


def _from_tensor(value: Any, name: str, where: str) -> Any:
    """A torch tensor, which has `detach`, as numpy; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    if not str(getattr(value, "layout", "torch.strided")).endswith("strided"):
        raise DataError(
            explain(f"`{name}` is a sparse tensor ({value.layout}).", where=where, remedy=f"Give {name}.to_dense().")
        )
    try:
        value = value.detach().cpu()
        narrow = str(value.dtype) in ("torch.bfloat16", "torch.float16")  # numpy has no bfloat16; both fit in float64
        return (value.double() if narrow else value.resolve_conj().resolve_neg()).numpy()
    except (TypeError, RuntimeError) as error:  # a tensor without data, or of a type that numpy has not
        raise DataError(
            explain(f"`{name}` is a tensor that cannot be read ({error}).", where=where,
                    expected="a dense tensor of real numbers, with data")
        ) from None  # fmt: skip


def _floats(value: Any, name: str, where: str) -> FloatArray:
    if value is None:
        raise DataError(explain(f"`{name}` is missing.", where=where))
    value = _from_tensor(value, name, where)
    if hasattr(value, "toarray"):  # of scipy.sparse, without importing it
        raise DataError(explain(f"`{name}` is sparse.", where=where, remedy=f"Give {name}.toarray()."))
    if np.ma.is_masked(value):  # numpy would hand over what is under the mask
        raise DataError(explain(f"`{name}` has masked values.", where=where, remedy="Drop or impute them first."))
    try:
        array = np.asarray(value)
        odd = _not_numbers(array)
        if odd:
            raise DataError(
                explain(f"`{name}` holds {odd}.", where=where, expected="real numbers",
                        remedy="Convert it yourself, so that you know what is meant: .astype(float).")
            )  # fmt: skip
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what does not fit is told below
            array = np.array(array, dtype=np.float64, order="C")
    except DataError:
        raise
    except Exception as error:  # also of a stranger's __array__
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


def not_zero(array: FloatArray, name: str, *, where: str = "") -> FloatArray:
    """The array itself; DataError when it is zero everywhere, and no network of it can learn anything."""
    if not array.any():
        raise DataError(
            explain(f"`{name}` is zero everywhere: no weights change the loss.", where=where,
                    remedy="Check how the data were read.")
        )  # fmt: skip
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


def numbers(value: Any, name: str) -> FloatArray:
    """Real numbers in an array of any shape, NaN and infinities too, as float64. Raises DataError."""
    array = np.asarray(value)
    odd = _not_numbers(array)
    if odd:
        raise DataError(explain(f"`{name}` holds {odd}.", expected="real numbers"))
    return array.astype(np.float64, copy=False)


def held(value: Any) -> np.ndarray | None:
    """What a value holds as an array of booleans, numbers or text; None where that would be another value, as of what
    is masked, or of numbers beside text. Numbers and text that come as objects (Decimal, of pandas) are as any."""
    try:
        array = np.asarray(_from_tensor(value, "", ""))
        if array.dtype.kind == "O" and not _not_numbers(array):
            array = array.astype(np.float64)
        if array.dtype.kind in "UO":
            text = all(isinstance(item, str) for item in np.asarray(value, dtype=object).flat)
            array = array.astype(np.str_) if text else np.zeros(0, dtype=object)
    except Exception:  # ragged, sparse, without data, or of a stranger's __array__
        return None
    return array if array.dtype.kind in "biufUS" and not np.ma.is_masked(value) else None


def number(value: Any) -> float:
    """The float that a number is; NaN for what is none, or none of float64."""
    dtype = getattr(value, "dtype", None)  # of numpy, pandas or torch, whose dtypes have no kind
    if getattr(dtype, "kind", "f") not in "iufO" or str(dtype) == "torch.bool":
        return np.nan
    if isinstance(value, bool | str | bytes | bytearray | memoryview):
        return np.nan
    try:
        return float(value)
    except Exception:  # also of a stranger's __float__
        return np.nan


def positive(value: Any, name: str, *, where: str = "") -> float:
    """A finite positive float. Raises DataError."""
    found = number(value)
    if not (np.isfinite(found) and found > 0):
        raise DataError(explain(f"`{name}` must be a positive finite number.", where=where, found=shown(value)))
    return found


def fraction(value: Any, name: str, *, where: str = "") -> float:
    """A number in (0, 1]. Raises DataError."""
    found = number(value)
    if not 0.0 < found <= 1.0:
        raise DataError(explain(f"`{name}` must be in (0, 1].", where=where, found=shown(value)))
    return found


def count(value: Any, name: str, *, where: str = "", least: int = 1) -> int:
    """An integer >= `least`. Raises DataError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        else:
            raise DataError(explain(f"`{name}` must be an integer.", where=where, found=shown(value)))
    if value < least:
        raise DataError(explain(f"`{name}` must be at least {least}.", where=where, found=value))
    return int(value)


def equal_rows(keys: Sequence[FloatArray]) -> IntArray | None:
    """Number, in order of first appearance, of each of H rows; None where all rows differ.

    Parameters
    ----------
    keys : sequence of ndarray, shape (H,)
        The columns of the rows; those that tell most apart come first.

    Returns
    -------
    int ndarray or None, shape (H,)
        Equal rows have equal numbers.
    """
    code = np.zeros(keys[0].size, dtype=np.int64)
    for key in keys:
        level = np.unique(key, return_inverse=True)[1]
        found, code = np.unique(code * (level.max(initial=0) + 1) + level, return_inverse=True)
        if found.size == code.size:
            return None
    first = np.unique(code, return_index=True)[1]
    return np.argsort(np.argsort(first))[code]
