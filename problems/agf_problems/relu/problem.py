"""ReLU networks on data: regression and classification, on the data as given unless a choice is named.

A thin user of `agf.TwoLayer`, which has the formulas; this file only reads labels and prepares data. [AGF] section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf import DataError, TwoLayer
from agf.arrays import FloatArray, held, matrix, number
from agf.errors import explain
from agf.losses import one_hot

#: A column of whole numbers with at most this many distinct values, each seen twice or more, is read as class labels
#: where task="auto". Setting: `task`; at 5 the ten digits would be numbers, at 500 whole-numbered measurements that
#: repeat would be classes.
_MAX_CLASSES = 50
_TASKS = ("auto", "classification", "regression")
_SCALES = ("given", "rms", "whiten")
_CENTRES = ("none", "inputs", "targets", "both")


class Relu(TwoLayer):
    """ReLU network f = A relu(W x) on data as they are given, rows theta_i = (w_i, a_i), P = d + c.

    Network: f(x) = sum_i a_i relu(w_i . x), without biases unless `bias` says otherwise. Loss: mean over the n samples
    of |y - f(x)|^2 / 2, summed over outputs, unless `loss` says otherwise. Both are on the data in the attributes X and
    Y, which are those given, unless `scale` or `centre` is named; `describe` then says what was done.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs.
    Y : array_like, shape (n,) or (n, c)
        Regression targets, class labels, or one-hot rows.
    width : int
        Number of neurons H.
    loss : str
        "half-squared", "logistic", "double-logistic", "exponential" or "cross-entropy".
    scale : str
        "given"; "rms": one factor, so that E|x|^2 = 1; "whiten": X = U S V^T becomes U V^T sqrt(n / r) on its r nonzero
        singular directions, as in [AGF]. Columns that are all zero are dropped by the last two.
    centre : str
        "none"; "inputs": minus their mean, before `scale` [Min23]; "targets": half-squared targets minus their mean,
        one-hot rows minus 1/c [AGF]; "both".
    whiten : bool
        The same as scale="whiten".
    leak : float
        Slope left of 0.
    task : str
        "classification", "regression", or "auto": text, and whole numbers of at most 50 values each seen twice or more,
        are read as class labels, except a column of -1 and 1, whose values are the targets.
    kink : float or None
        Width over which the slope rises at the kink, relative to |w| rms|x| (see `agf.TwoLayer`); None for 1e-3 outside
        the dormant phase, which is exact where there is one output; 0 for the textbook ReLU with relu'(0) = 0.
    device : str or None
        None for numpy, or a torch device.
    reduction : str
        "mean" over the rows, or "sum".
    bias : str
        "none", "hidden", "output" or "both" (see `agf.TwoLayer`).

    Raises
    ------
    DataError
        No rows, NaN, constant targets that were to be centred, a single class for a loss that needs two, rows that do
        not match, unknown names.
    """

    name = "relu"
    data_arguments = ("X", "Y")

    def __init__(
        self,
        X: Any,
        Y: Any,
        width: int = 10,
        loss: str = "half-squared",
        scale: str = "given",
        centre: str = "none",
        whiten: bool = False,
        leak: float = 0.0,
        task: str = "auto",
        kink: float | None = None,
        device: str | None = None,
        reduction: str = "mean",
        bias: str = "none",
    ) -> None:
        scale = "whiten" if whiten else scale
        for name, value, allowed in (("task", task, _TASKS), ("scale", scale, _SCALES), ("centre", centre, _CENTRES)):
            if value not in allowed:
                words = f"unknown {name} {value!r}."
                raise DataError(explain(words, where="Relu", expected="one of " + ", ".join(allowed)))
        labels = None if task == "regression" else _labels(Y, task == "classification")
        names: tuple[Any, ...] = ()
        about: list[str] = []
        if loss == "half-squared":
            Y, names, about = _targets(Y, labels, centre in ("targets", "both"))
        elif labels is not None:
            Y = labels
        X = matrix(X, "X", where="Relu")
        if centre in ("inputs", "both"):
            X = X - X.mean(axis=0)
            about.append("inputs minus their mean")
        if scale != "given":
            X = _scaled(X, scale)
            about.append("inputs scaled to E|x|^2 = 1" if scale == "rms" else "inputs whitened")
        if scale == "whiten":
            self.inputs_argument = ""  # weights are those of principal components
        kind: dict[str, Any] = {"activation": "relu"}
        if leak is not None and number(leak) != 0.0:
            kind = {"activation": "leaky-relu", "leak": leak}
        kind.update(loss=loss, width=width, kink=kink, device=device, reduction=reduction, bias=bias)
        super().__init__(X, Y, **kind)
        self.classes = names or self.classes
        self._prepared = about

    def describe(self) -> str:
        """Width, data and loss in one line, and what was done to the data."""
        return ", ".join([super().describe(), *(self._prepared or ["data as given"])])

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The 1,797 digits of scikit-learn."""
        from agf.datasets import load

        digits = load("digits")
        return {"X": digits["X"], "Y": digits["Y"], "width": 10, "scale": "whiten", "centre": "targets"}


def _labels(Y: Any, wanted: bool) -> Any:
    """Class labels (n,) where Y names classes, or `wanted` says so, else None. Rows with one entry a unit higher than
    all others, such as one-hot rows, centred or not, name the column of that entry."""
    numbers = held(Y)
    given = np.asarray(Y) if numbers is None else numbers
    if given.dtype.kind not in "fiubUSO":
        return None  # dates, records and the like, which are refused as targets
    if given.ndim == 2 and given.shape[1] > 1:
        if given.dtype.kind not in "fiub":
            return None
        high, low = given.max(axis=1, keepdims=True), given.min(axis=1, keepdims=True)
        one = ((given == high).sum(axis=1) == 1).all() and ((given == high) | (given == low)).all()
        return given.argmax(axis=1) if wanted or (one and np.allclose(high - low, 1.0)) else None
    column = given.reshape(-1)
    if wanted or column.dtype.kind in "USOb":
        return column
    values, counts = np.unique(column, return_counts=True)
    if np.array_equal(values, [-1, 1]):
        return None
    whole = bool(np.all(values == np.round(values)))
    return column if whole and 2 <= values.size <= _MAX_CLASSES and counts.min() >= 2 else None


def _targets(Y: Any, labels: Any, centre: bool) -> tuple[FloatArray, tuple[Any, ...], list[str]]:
    """Half-squared targets (n, c), names of the classes if any, and what was done."""
    if labels is None:
        rows = matrix(Y, "Y", where="Relu")
        return (_centred(rows), (), ["targets minus their mean"]) if centre else (rows, (), [])
    coded, names = one_hot(labels, "Relu")
    if centre:
        return coded - 1.0 / coded.shape[1], names, [f"classes as one-hot rows minus 1/{coded.shape[1]}"]
    if np.ndim(Y) == 2 and np.shape(Y)[1] > 1:  # rows already, as given
        return matrix(Y, "Y", where="Relu"), names, []
    return coded, names, ["classes as one-hot rows"]


def _centred(Y: FloatArray) -> FloatArray:
    centred = Y - Y.mean(axis=0)
    if np.abs(centred).max() <= 1e-12 * np.abs(Y).max():
        raise DataError(
            explain(
                f"the targets are constant over the {Y.shape[0]} row(s): centred, nothing is left to fit.",
                where="Relu",
                remedy='Use centre="none" to fit a constant.',
            )
        )
    return centred


def _scaled(X: FloatArray, scale: str) -> FloatArray:
    X = X[:, np.any(X != 0, axis=0)]
    if X.size == 0:
        raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where="Relu"))
    n = X.shape[0]
    X = X / np.abs(X).max()
    if scale == "rms":
        return X / np.sqrt(np.sum(X**2) / n)
    u, s, vt = np.linalg.svd(X, full_matrices=False)
    rank = int(np.sum(s > s[0] * max(X.shape) * np.finfo(float).eps))
    return (u[:, :rank] @ vt[:rank]) * np.sqrt(n / rank)
