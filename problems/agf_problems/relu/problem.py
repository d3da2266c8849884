"""ReLU networks on data: regression and classification, scaled or whitened inputs, centred labels.

A thin user of `agf.TwoLayer`, which has the formulas; this file only prepares the data. [AGF] section 6 and appendix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf import DataError, TwoLayer
from agf.arrays import FloatArray, matrix
from agf.errors import explain
from agf.losses import one_hot

#: A column of whole numbers with at most this many distinct values, each seen twice or more, is read as class labels.
_MAX_CLASSES = 50


class Relu(TwoLayer):
    """ReLU network f = A relu(W x) on prepared data, rows theta_i = (w_i, a_i), P = d + c.

    Network: f(x) = sum_i a_i relu(w_i . x), without biases. Loss: mean over the n samples of |y - f(x)|^2 / 2, summed
    over outputs, unless `loss` says otherwise. Both are on the data as prepared, the attributes X and Y.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs. Columns that are all zero are dropped; the rest are scaled so that E|x|^2 = 1, or whitened.
    Y : array_like, shape (n,)
        Class labels, one-hot rows (centred or not), or (n,) or (n, c) regression targets.
    width : int
        Number of neurons H.
    loss : str
        "half-squared", "logistic", "exponential" or "cross-entropy". With half-squared, classes become one-hot rows
        minus 1/c, and regression targets are centred.
    whiten : bool
        Replace X = U S V^T by U V^T sqrt(n / r) on its r nonzero singular directions, as in [AGF].
    leak : float
        Slope left of 0.
    task : str
        "classification", "regression", or "auto": a column of text, or of whole numbers with at most 50 values each
        seen twice or more, is read as class labels.
    kink : float
        Half-width to which the kink is rounded, relative to |w| rms|x| (see `agf.TwoLayer`), 1e-3 unless given; 0 for
        the textbook ReLU with relu'(0) = 0.
    device : str or None
        None for numpy, or a torch device.

    Raises
    ------
    DataError
        No rows, NaN, constant labels (as with n = 1), a single class, rows that do not match, unknown names.
    """

    name = "relu"
    data_arguments = ("X", "Y")

    def __init__(
        self,
        X: Any,
        Y: Any,
        width: int = 10,
        loss: str = "half-squared",
        whiten: bool = False,
        leak: float = 0.0,
        task: str = "auto",
        kink: float = 1e-3,
        device: str | None = None,
    ) -> None:
        if task not in ("auto", "classification", "regression"):
            raise DataError(
                explain(f"unknown task {task!r}.", where="Relu", expected="one of auto, classification, regression")
            )
        labels = None if task == "regression" else _labels(Y, task == "classification")
        names: tuple[Any, ...] = ()
        if labels is not None and loss == "half-squared":
            rows, names = one_hot(labels, "Relu")
            Y = rows - 1.0 / rows.shape[1]
        elif labels is not None:
            Y = labels
        elif loss == "half-squared":
            Y = _centred(matrix(Y, "Y", where="Relu"))
        kind: dict[str, Any] = {"activation": "leaky-relu", "leak": leak} if leak else {"activation": "relu"}
        kind.update(loss=loss, width=width, kink=kink, device=device)
        super().__init__(_prepared(matrix(X, "X", where="Relu"), whiten), Y, **kind)
        self.classes = names or self.classes

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The 1,797 digits of scikit-learn."""
        from agf.datasets import load

        digits = load("digits")
        return {"X": digits["X"], "Y": digits["Y"], "width": 10, "whiten": True}


def _labels(Y: Any, wanted: bool) -> Any:
    """Class labels (n,) where Y names classes, or `wanted` says so, else None. Rows with one entry a unit higher than
    all others, such as one-hot rows, centred or not, name the column of that entry."""
    given = np.asarray(Y)
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
    whole = bool(np.all(values == np.round(values)))
    return column if whole and 2 <= values.size <= _MAX_CLASSES and counts.min() >= 2 else None


def _centred(Y: FloatArray) -> FloatArray:
    centred = Y - Y.mean(axis=0)
    if np.abs(centred).max() <= 1e-12 * np.abs(Y).max():
        raise DataError(
            explain(
                f"the targets are constant over the {Y.shape[0]} row(s): centred, nothing is left to fit.",
                where="Relu",
                remedy="Use agf.TwoLayer, which does not centre, to fit a constant.",
            )
        )
    return centred


def _prepared(X: FloatArray, whiten: bool) -> FloatArray:
    X = X[:, np.any(X != 0, axis=0)]
    if X.size == 0:
        raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where="Relu"))
    n = X.shape[0]
    X = X / np.abs(X).max()
    if not whiten:
        return X / np.sqrt(np.sum(X**2) / n)
    u, s, vt = np.linalg.svd(X, full_matrices=False)
    rank = int(np.sum(s > s[0] * max(X.shape) * np.finfo(float).eps))
    return (u[:, :rank] @ vt[:rank]) * np.sqrt(n / rank)
