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

#: A column of whole numbers with at most this many distinct values, each seen twice, is read as class labels.
_MAX_CLASSES = 50


class Relu(TwoLayer):
    """ReLU network f = A relu(W x) on prepared data, rows theta_i = (w_i, a_i), P = d + c.

    Parameters
    ----------
    X : (n, d) inputs. Columns that are all zero are dropped; the rest are scaled so that E|x|^2 = 1, or whitened.
    Y : (n,) class labels, (n,) or (n, c) regression targets, or one-hot rows.
    width : number of neurons H.
    loss : "half-squared", "logistic", "exponential" or "cross-entropy". With half-squared, classes become one-hot rows
        minus 1/c, and regression targets are centred.
    whiten : replace X = U S V^T by U V^T sqrt(n / r) on its r nonzero singular directions, as in [AGF].
    leak : slope left of 0.
    task : "classification", "regression", or "auto": a column of text, or of whole numbers with at most 50 values each
        seen twice or more, is read as class labels.
    device : None for numpy, or a torch device.

    Raises
    ------
    DataError : no rows, NaN, constant labels (as with n = 1), a single class, rows that do not match, unknown names.
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
        device: str | None = None,
    ) -> None:
        if task not in ("auto", "classification", "regression"):
            raise DataError(
                explain(f"unknown task {task!r}.", where="Relu", expected="one of auto, classification, regression")
            )
        labels = task == "classification" or (task == "auto" and _names_classes(Y))
        names: tuple[Any, ...] = ()
        if loss == "half-squared":
            if labels:
                Y, names = one_hot(Y, "Relu") if np.ndim(Y) == 1 or np.shape(Y)[1] == 1 else _rows(Y)
                Y = Y - 1.0 / Y.shape[1]
            else:
                Y = _centred(matrix(Y, "Y", where="Relu"))
        kind: dict[str, Any] = {"activation": "leaky-relu", "leak": leak} if leak else {"activation": "relu"}
        super().__init__(
            _prepared(matrix(X, "X", where="Relu"), whiten), Y, loss=loss, width=width, device=device, **kind
        )
        self.classes = names or self.classes

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The 1,797 digits of scikit-learn, ten neurons."""
        from agf.datasets import load

        digits = load("digits")
        return {"X": digits["X"], "Y": digits["y"], "width": 10}


def _names_classes(Y: Any) -> bool:
    column = np.asarray(Y)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        return column.ndim == 2 and bool(np.isin(column, (0, 1)).all() and (column.sum(axis=1) == 1).all())
    if column.dtype.kind in "USOb":
        return True
    values, counts = np.unique(column, return_counts=True)
    return bool(np.all(values == np.round(values)) and 2 <= values.size <= _MAX_CLASSES and counts.min() >= 2)


def _rows(Y: Any) -> tuple[FloatArray, tuple[Any, ...]]:
    rows = matrix(Y, "Y", where="Relu")
    if ((rows != 0).sum(axis=0) == 0).any() or rows.shape[1] < 2:
        raise DataError(explain("a class of one-hot `Y` has no sample.", where="Relu", remedy="Drop its column."))
    return rows, tuple(range(rows.shape[1]))


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
