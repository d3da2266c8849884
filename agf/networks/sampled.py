"""A network on samples with one of the named losses: what `TwoLayer` and `AutogradProblem` share.

The subclass gives the outputs of single neurons and their Jacobian on a block of samples; data, residual, quadratic
part of the loss around the active network and readable features are here. Work arrays stay bounded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from agf.arrays import FloatArray, IntArray, count, in_range, matrix, not_zero
from agf.contract.problem import Problem
from agf.errors import DataError, explain
from agf.init import Init
from agf.losses import loss_of
from agf.numerics.backend import Backend
from agf.rounding import RANK, SUM

#: Entries of one work array: blocks of samples are cut so that (samples, neurons) stays below this. 1 MB stays in
#: cache: two thirds of the time of unblocked arrays at 1,000 neurons.
_BLOCK = {"cpu": 2**17, "cuda": 2**26}
#: Numbers up to which features of a snapshot hold the predictions themselves. Limit: of memory; they can be had from
#: the weights.
_MAX_PREDICTIONS = 4096
#: Largest order of Hessians and exact projections. Limit: beyond it there is no Hessian, and natural thresholds are
#: those of neurons alone, as `self_interaction` says.
MAX_ORDER = 4000
#: Numbers up to which `outputs` is formed (1 GB). Cost: beyond it thresholds come from the loss.
_MAX_OUTPUTS = 2**27


class SampledProblem(Problem):
    """Problem on inputs X (n, ...) and targets Y, loss = mean over the rows of a loss of `agf.losses`."""

    data_arguments = ("X", "Y")

    def __init__(self, X: Any, Y: Any, width: int, loss: str, device: str | None) -> None:
        where = type(self).__name__
        self.loss = loss_of(loss)
        self.X = not_zero(in_range(_inputs(X, where), "X", where=where, power=8), "X", where=where)
        self.Y, self.classes = self.loss.targets(Y, where)
        in_range(self.Y, "Y", where=where, power=8)
        if self.Y.shape[0] != self.X.shape[0]:
            raise DataError(
                explain(
                    f"`X` has {self.X.shape[0]} rows and `Y` {self.Y.shape[0]}.",
                    where=where,
                    expected="one row of each per sample",
                )
            )
        self.width = count(width, "width", where=where)
        self.n_samples, self.n_inputs = self.X.shape[:2]
        #: What the mean over the rows is multiplied by: 1, or n where the loss is a sum.
        self._weight = 1.0
        #: Whether f is 0 at the input 0, whatever the weights are.
        self._through_origin = False
        self.n_outputs = self.Y.shape[1]
        self.quadratic_loss = self.loss.quadratic
        self._backend = Backend.of(device)
        self._x, self._y = self._backend.array(self.X), self._backend.array(self.Y)
        self._block = _BLOCK["cuda" if device is not None and str(device) != "cpu" else "cpu"]
        self._projector: tuple[bytes, FloatArray, IntArray] | None = None

    # -- what a subclass gives --------------------------------------------------------------------------------

    @abstractmethod
    def _values(self, theta: FloatArray, neurons: IntArray, rows: slice, leading: bool = False) -> Any:
        """f_i on a block of samples, or its leading order at the origin: (m, samples, c)."""

    @abstractmethod
    def _neuron_jacobian(self, theta: FloatArray, neurons: IntArray, rows: slice) -> Any:
        """df_i/dtheta_i on a block of samples, (m P, samples, c), neurons outermost."""

    def _predict(self, theta: FloatArray, neurons: IntArray) -> Any:
        """f on the data, (n, c)."""
        out = self._backend.zeros(tuple(self._y.shape))
        for rows in self._blocks(theta.shape[0] * self.n_outputs):
            out[rows] = self._values(theta, neurons, rows).sum(0)
        return out

    # -- contract ---------------------------------------------------------------------------------------------

    @property
    def operations(self) -> int:
        """On an accelerator nothing that its memory holds takes long."""
        return super().operations if self._block == _BLOCK["cpu"] else 1

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """-dl/df on the data, (n, c), an array of the backend."""
        return self.loss.residual(self._backend, self._predict(theta, neurons), self._y)

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """f_i on the data, (m, n c), times sqrt(l''(0)) / sqrt(n); None above 2^27 numbers (1 GB)."""
        if theta.shape[0] * self.Y.size > _MAX_OUTPUTS:
            return None
        b = self._backend
        root = self.loss.curvature(b, b.zeros(tuple(self._y.shape)), self._y).root
        out = root(self._values(theta, neurons, slice(0, self.n_samples)))
        return b.numpy(out).reshape(theta.shape[0], self.Y.size) * np.sqrt(self._weight / self.n_samples)

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, (m,), weighted by l'' at the active network.

        P_A projects on the span of the active neurons' Jacobian; it is left out when that has more than 4,000 rows.
        """
        b = self._backend
        m = directions.shape[0]
        projected = 0 < active.size <= MAX_ORDER
        f = self._predict(active, active_neurons)
        total = b.zeros((m,))
        cross = b.zeros((m, active.size if projected else 0))
        for rows in self._blocks((m + active.size * projected) * self.n_outputs):
            root = self.loss.curvature(b, f[rows], self._y[rows]).root
            out = _flat(root(self._values(directions, neurons, rows, leading=True)))
            total += (out**2).sum(1)
            if projected:
                cross += out @ _flat(root(self._neuron_jacobian(active, active_neurons, rows))).T
        return self._left_over(b.numpy(total), b.numpy(cross), active, active_neurons, f)

    def curved(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Outputs of unit neurons at leading order (m, n c), and the Jacobian of the network (m_A P, n c) that `active`
        and `active_neurons` make, as `theta` and `neurons` do.

        Both in the metric of the loss around the active network: their dot products are means over samples weighted by
        l''. For what restricts a problem (`agf.masked`); all at once in memory.
        """
        b, every = self._backend, slice(0, self.n_samples)
        root = self.loss.curvature(b, self._predict(active, active_neurons), self._y).root
        out = _flat(root(self._values(directions, neurons, every, leading=True)))
        jacobian = _flat(root(self._neuron_jacobian(active, active_neurons, every)))
        root_weight = np.sqrt(self._weight / self.n_samples)
        return b.numpy(out) * root_weight, b.numpy(jacobian) * root_weight

    def least_loss(self, init: Init) -> float:
        """What no function fits: equal rows of X have one output, and rows of 0 none where neurons have none."""
        del init
        groups: dict[bytes, list[int]] = {}  # by bytes, which takes no sorting
        for k, row in enumerate(self.X):
            groups.setdefault((row + 0.0).tobytes(), []).append(k)  # -0.0 is 0.0
        least = 0.0
        for group in groups.values():
            if self._through_origin and not self.X[group[0]].any():
                y = self._y[group]
                least += float(self.loss.value(self._backend, 0.0 * y, y).sum())
            elif len(group) > 1:
                least += self.loss.least(self.Y[group])
        return (1.0 - SUM) * self._weight * least / self.n_samples

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """ "accuracy" (1,) where there are classes; "predictions" (n, c) up to 4,096 numbers."""
        f = self._backend.numpy(self._predict(theta, neurons))
        out = {}
        if self.classes:
            out["accuracy"] = np.array([self.loss.correct(f, self.Y).mean()])
        if f.size <= _MAX_PREDICTIONS:
            out["predictions"] = f
        return out

    # -- formulas ---------------------------------------------------------------------------------------------

    def _blocks(self, width: int, samples: int | None = None, least: int = 1) -> Iterator[slice]:
        """Slices of at least `least` samples, such that an array of (samples in the slice, width) stays bounded."""
        n = self.n_samples if samples is None else samples
        size = max(1, least, self._block // max(width, 1))
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    def _gram(self, theta: FloatArray, neurons: IntArray, f: Any) -> Any:
        """n E[J^T l'' J], (mP, mP), at the network f (n, c)."""
        b = self._backend
        out = b.zeros((theta.size, theta.size))
        for rows in self._blocks(theta.size * self.n_outputs):
            root = self.loss.curvature(b, f[rows], self._y[rows]).root
            block = _flat(root(self._neuron_jacobian(theta, neurons, rows)))
            out += block @ block.T
        return out

    def _left_over(
        self, total: FloatArray, cross: FloatArray, active: FloatArray, active_neurons: IntArray, f: Any
    ) -> FloatArray:
        """Half of E|f_i|^2 less its part in the span of the active Jacobian, (m,).

        The pivoted Cholesky factor of n E[J^T J] is kept for the last network.

        Parameters
        ----------
        total : float ndarray, shape (m,)
            n E|f_i|^2.
        cross : float ndarray, shape (m, mP)
            n E<f_i, J>, without columns where nothing is projected out.
        """
        if cross.size:
            key = active.tobytes() + np.asarray(active_neurons).tobytes()
            if self._projector is None or self._projector[0] != key:
                gram = self._backend.numpy(self._gram(active, active_neurons, f))
                # singular values above RANK^(1/2) of the largest, what a Gram matrix resolves
                factor, pivots, rank, _ = dpstrf(gram, tol=RANK * float(gram.diagonal().max()))
                self._projector = key, np.ascontiguousarray(factor[:rank, :rank]), pivots[:rank] - 1
            _, factor, pivots = self._projector
            inside = solve_triangular(factor, cross[:, pivots].T, trans="T", check_finite=False)
            total = total - np.sum(inside**2, axis=0)
        return 0.5 * np.maximum(total, 0.0) * (self._weight / self.n_samples)


def _flat(array: Any) -> Any:
    """(m, k, c) as (m, k c), also for m = 0."""
    return array.reshape(array.shape[0], array.shape[1] * array.shape[2])


def _inputs(X: Any, where: str) -> FloatArray:
    """Inputs (n, ...): a vector becomes a column, arrays of more dimensions keep their shape. Raises DataError."""
    try:
        shape = np.shape(X)
    except Exception:  # ragged, or nothing that has a shape: `matrix` says so
        shape = ()
    if len(shape) <= 2:
        return matrix(X, "X", where=where)
    return matrix(np.reshape(X, (shape[0], -1)), "X", where=where).reshape(shape)
