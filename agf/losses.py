"""Losses l(f, y), row by row: value, residual -dl/df and second derivative.

The network's loss is the mean over the n rows. f and y are (n, c) arrays of a backend. Half-squared is |y - f|^2 / 2,
not divided by c; logistic log(1 + exp(-y f)) and exponential exp(-y f) take y = +-1 and sum over the c outputs;
cross-entropy takes rows of y that sum to 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agf.arrays import FloatArray, held, matrix
from agf.asked import asked
from agf.errors import DataError, explain
from agf.numerics.backend import Backend


@dataclass(frozen=True)
class Curvature:
    """Second derivative l'' = diag(weights) - p p^T of a loss in f, row by row.

    Parameters
    ----------
    b : Backend
        Library of the arrays, numpy or torch.
    weights : array or None, shape (k, c)
        The diagonal of every row; None for the identity.
    p : array or None, shape (k, c)
        The rank-one part of every row; None for none.
    """

    b: Backend
    weights: Any = None
    p: Any = None

    def root(self, v: Any) -> Any:
        """B v of (..., k, c) arrays with B^T B = l'': the loss is half-squared in B v."""
        if self.weights is None:
            return v
        q = self.b.xp.sqrt(self.weights)
        # with weights = p: diag(p) - p p^T = diag(q) (I - q q^T) diag(q), q a unit vector, I - q q^T its own square
        return q * v if self.p is None else q * (v - (self.p * v).sum(-1)[..., None])

    def apply(self, a: Any) -> Any:
        """l'' a of one vector (c,), row by row: (k, c), or (1, c) where all rows agree."""
        if self.weights is None:
            return a[None]
        out = self.weights * a
        return out if self.p is None else out - self.p * (self.p @ a)[:, None]

    def squares(self, a: Any) -> Any:
        """a_i . l'' a_i of vectors (m, c), row by row: (k, m), or (1, m) where all rows agree."""
        if self.weights is None:
            return (a**2).sum(1)[None]
        out = self.weights @ (a**2).T
        return out if self.p is None else out - (self.p @ a.T) ** 2

    def moment(self, g: Any, a: Any) -> Any:
        """sum_k g_ki l''_k a_i of weights g (k, m) and vectors a (m, c): (m, c)."""
        if self.weights is None:
            return g.sum(0)[:, None] * a
        out = (g.T @ self.weights) * a
        return out if self.p is None else out - (g * (self.p @ a.T)).T @ self.p


class Loss(ABC):
    """One loss, of outputs f and targets y, (n, c) arrays of a backend b.

    Attributes
    ----------
    name : str
        What it is called.
    classifies : bool
        Whether y names classes.
    quadratic : bool
        Whether l is half-squared in f.
    """

    name: ClassVar[str]
    classifies: ClassVar[bool] = True
    quadratic: ClassVar[bool] = False

    @abstractmethod
    def targets(self, Y: Any, where: str) -> tuple[FloatArray, tuple[Any, ...]]:
        """y (n, c) from the Y that the user gave, and the names of the classes (empty where there are none)."""

    @abstractmethod
    def value(self, b: Backend, f: Any, y: Any) -> Any:
        """l of each row, (n,)."""

    @abstractmethod
    def least(self, y: FloatArray) -> float:
        """Least sum of l over rows y (k, c) that are all given one and the same f."""

    @abstractmethod
    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        """-dl/df, (n, c)."""

    @abstractmethod
    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        """Second derivative in f, row by row."""

    def total(self, b: Backend, f: Any, y: Any, residual: Any) -> float:
        """Sum of l over the rows, where the residual at f is known."""
        return float(self.value(b, f, y).sum())

    def axis(self, outputs: int) -> FloatArray | None:
        """Unit vector (c,) along which every residual lies of so many outputs, or None where they may lie anywhere."""
        return np.ones(1) if outputs == 1 else None

    def correct(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Whether each row is classified rightly, (n,)."""
        if y.shape[1] == 1:
            return (f[:, 0] > 0) == (y[:, 0] > 0)
        return f.argmax(axis=1) == y.argmax(axis=1)


class HalfSquared(Loss):
    """|y - f|^2 / 2."""

    name = "half-squared"
    classifies = False
    quadratic = True

    def targets(self, Y: Any, where: str) -> tuple[FloatArray, tuple[Any, ...]]:
        return matrix(Y, "Y", where=where), ()

    def value(self, b: Backend, f: Any, y: Any) -> Any:
        return 0.5 * ((y - f) ** 2).sum(1)

    def least(self, y: FloatArray) -> float:
        return 0.5 * float(np.sum((y - y.mean(axis=0)) ** 2))

    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        return y - f

    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        return Curvature(b)

    def total(self, b: Backend, f: Any, y: Any, residual: Any) -> float:
        return 0.5 * float((residual * residual).sum())


class _Margin(Loss):
    """A function of the margin y f, with y = +-1."""

    def targets(self, Y: Any, where: str) -> tuple[FloatArray, tuple[Any, ...]]:
        given = _as_array(Y, where)
        given = given[:, None] if given.ndim == 1 else given
        if given.ndim != 2 or given.size == 0:
            raise DataError(explain(f"`Y` has shape {given.shape}.", where=where, expected="(n,) or (n, c)"))
        if np.issubdtype(given.dtype, np.number):
            given = matrix(given, "Y", where=where)
        names, _ = _classes(given, where)
        if names.size > 2:
            raise DataError(
                explain(
                    f"`Y` has {names.size} distinct value(s).",
                    where=where,
                    expected=f"two classes, or one, for the {self.name} loss",
                    remedy='Use loss="cross-entropy" for more classes.',
                )
            )
        if names.size == 1:
            return _one_class(given, names)
        several = given.shape[1] > 1  # one column a class, each of them against the rest
        return np.where(given == names[1], 1.0, -1.0), tuple(range(given.shape[1])) if several else _plain(names)


def _one_class(given: np.ndarray, names: np.ndarray) -> tuple[FloatArray, tuple[Any, ...]]:
    """y and class names of labels that are all the same: -1 for the numbers -1 and 0, else +1."""
    (name,) = _plain(names)
    sign = -1.0 if name in (-1, 0) else 1.0
    pair = (name, f"not {name}") if sign < 0 else (f"not {name}", name)
    return np.full(given.shape, sign), tuple(range(given.shape[1])) if given.shape[1] > 1 else pair


class Logistic(_Margin):
    """log(1 + exp(-y f))."""

    name = "logistic"

    def value(self, b: Backend, f: Any, y: Any) -> Any:
        return b.xp.logaddexp(b.zeros(tuple(f.shape)), -y * f).sum(1)

    def least(self, y: FloatArray) -> float:
        share = (y > 0).mean(axis=0)
        return float(y.shape[0] * (_entropy(share) + _entropy(1.0 - share)))

    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        return y * b.special.expit(-y * f)

    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        return Curvature(b, b.special.expit(f) * b.special.expit(-f))


class DoubleLogistic(Logistic):
    """2 log(1 + exp(-y f)): -dl/df is y at f = 0, as [Min23] needs; the logistic loss at twice the speed."""

    name = "double-logistic"

    def value(self, b: Backend, f: Any, y: Any) -> Any:
        return 2.0 * super().value(b, f, y)

    def least(self, y: FloatArray) -> float:
        return 2.0 * super().least(y)

    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        return 2.0 * super().residual(b, f, y)

    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        return Curvature(b, 2.0 * b.special.expit(f) * b.special.expit(-f))


class Exponential(_Margin):
    """exp(-y f)."""

    name = "exponential"

    def value(self, b: Backend, f: Any, y: Any) -> Any:
        return b.xp.exp(-y * f).sum(1)

    def least(self, y: FloatArray) -> float:
        share = (y > 0).mean(axis=0)
        return float(y.shape[0] * np.sum(2.0 * np.sqrt(share * (1.0 - share))))

    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        return y * b.xp.exp(-y * f)

    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        return Curvature(b, b.xp.exp(-y * f))


class CrossEntropy(Loss):
    """log sum_k exp f_k - sum_k y_k f_k."""

    name = "cross-entropy"

    def targets(self, Y: Any, where: str) -> tuple[FloatArray, tuple[Any, ...]]:
        given = _as_array(Y, where)
        if given.ndim == 2 and given.shape[1] > 1:
            y = matrix(given, "Y", where=where)
            if (y < 0).any():  # one-hot rows that were centred
                y = y - y.min(axis=1, keepdims=True)
            if not np.allclose(y.sum(axis=1), 1.0):
                raise DataError(
                    explain(
                        "rows of `Y` are not probabilities.",
                        where=where,
                        expected="one-hot rows, centred or not, or a column of class labels",
                    )
                )
            return y, tuple(range(y.shape[1]))
        return one_hot(given, where)

    def value(self, b: Backend, f: Any, y: Any) -> Any:
        top, shifted = self._shifted(b, f)
        return top[:, 0] + b.xp.log(b.xp.exp(shifted).sum(1)) - (y * f).sum(1)

    def least(self, y: FloatArray) -> float:
        return float(y.shape[0] * _entropy(y.mean(axis=0)))

    def residual(self, b: Backend, f: Any, y: Any) -> Any:
        return y - self._softmax(b, f)

    def curvature(self, b: Backend, f: Any, y: Any) -> Curvature:
        p = self._softmax(b, f)
        return Curvature(b, p, p)

    def axis(self, outputs: int) -> FloatArray | None:
        """Two classes are pulled at by the same, as probabilities add up to 1."""
        return np.array([1.0, -1.0]) * 0.5**0.5 if outputs == 2 else super().axis(outputs)

    @staticmethod
    def _shifted(b: Backend, f: Any) -> tuple[Any, Any]:
        top = b.xp.amax(f, 1)[:, None]
        return top, f - top

    def _softmax(self, b: Backend, f: Any) -> Any:
        e = b.xp.exp(self._shifted(b, f)[1])
        return e / e.sum(1)[:, None]


def _entropy(shares: FloatArray) -> float:
    """-sum of p log p."""
    return -float(shares @ np.log(np.where(shares > 0, shares, 1.0)))


@asked
def one_hot(labels: Any, where: str) -> tuple[FloatArray, tuple[Any, ...]]:
    """One-hot rows (n, c) of a column of class labels (numbers or text), and the labels in order.

    Parameters
    ----------
    labels : array_like, shape (n,)
        The labels.
    where : str
        What the message names.

    Raises
    ------
    DataError
        For NaN labels, for a single class, and for what is no column of numbers or of text.
    """
    column = _as_array(labels, where).reshape(-1)
    if np.issubdtype(column.dtype, np.number):
        column = matrix(column, "Y", where=where)[:, 0]
    names, index = _classes(column, where)
    if names.dtype.kind == "f" and (apart := names[names != np.round(names)]).size:
        words = f"{apart[0]:g} among them is no whole number: are these measurements?"
        raise _no_labels(words, where, 'Use loss="half-squared" for measurements.')
    if names.size < 2:
        raise DataError(
            explain(
                "`Y` holds one class only.", where=where, found=f"{names.tolist()} in {column.size} row(s)",
                expected="two classes or more",
            )
        )  # fmt: skip
    return np.eye(names.size)[index], _plain(names)


def _as_array(labels: Any, where: str) -> np.ndarray:
    """Labels as numpy reads them. Raises DataError for rows of many lengths, and for what is masked or dates."""
    array = held(labels)
    if array is not None:
        return array
    if np.ma.is_masked(labels):
        raise _no_labels("some are masked", where, "Drop them first.")
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError) as error:
        raise _no_labels(str(error), where) from None
    return array if array.dtype.kind == "O" else matrix(array, "Y", where=where)  # which refuses dates and the like


def _classes(labels: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The labels that there are, in order, and the place of each among them."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:  # they have no order
        raise _no_labels(str(error), where) from None


def _no_labels(words: str, where: str, remedy: str = "") -> DataError:
    what = f"`Y` is no column of labels ({words})."
    return DataError(explain(what, where=where, expected="whole numbers or text, one a row", remedy=remedy))


def _plain(names: np.ndarray) -> tuple[Any, ...]:
    """Names as people write them: whole numbers without a decimal point."""
    whole = names.dtype.kind == "f" and bool(np.all(names == np.round(names)))
    return tuple(int(v) if whole else v for v in names.tolist())


_LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (HalfSquared(), Logistic(), DoubleLogistic(), Exponential(), CrossEntropy())
}

#: Valid names, in the order they are listed to people.
NAMES = tuple(_LOSSES)


@asked
def loss_of(name: str) -> Loss:
    """The loss of that name.

    Raises
    ------
    DataError
        With the list of valid names.
    """
    key = str(name).lower().replace("_", "-").replace(" ", "-")
    if key not in _LOSSES:
        raise DataError(explain(f"unknown loss {name!r}.", expected="one of " + ", ".join(NAMES)))
    return _LOSSES[key]
