"""The polar flow of networks with sharp kinks: neurons slide along a kink where both its sides push towards it.

Steps of any method only chatter about such a kink, and what they make of the slopes in between is an accident of the
steps: losses were found 40 % off. Here a neuron whose step crossed a kink that holds it is put onto it, and from then
on moves along it, on the field of least norm (Filippov): contributions of the samples on their kinks lie along their
inputs, so that it is the projection of the gradient across them, whatever their slopes. It leaves a kink once one side
pulls it away. What the sides do is asked of the gradient itself, just beside the kink.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.cone_system import ConeSystem
from agf.coordinates.polar_system import PolarSystem
from agf.init import Init
from agf.rounding import LOG_LEAST, SUM, TIED, UNIT
from agf.sphere import norms

#: Angle beside a kink at which its sides are looked at. Derived: far above rounding (UNIT) and far below what the
#: finest steps resolve, 1e-8.
_BESIDE = 1e-9
#: Tolerance of one step where kinks are sharp, or narrower than the trainer resolves. Setting: `rtol`; what every
#: crossing leaves is as large as the tolerance, and saddles make it grow (a classifier of 150 samples, six neurons,
#: loss at t = 30: .121, .147 and .1949 at 1e-4, 1e-6 and 1e-8; .1951 by descent in steps of 2e-3).
RTOL_SHARP = 1e-8
#: Height over a kink, of |w|, and its change over a step, below which a neuron has reached the kink, over the tolerance
#: of a step. Cost: at a tenth steps of the size of the tolerance stop short of a kink which holds the neuron, or meet
#: it within and end beside it, for ever; drops move by 1e-5 at ten times and at a tenth, no more than by the
#: tolerance, against steps of 1e-10.
_SHORT = 10.0


class SharpSystem(PolarSystem):
    """`PolarSystem` of a problem with `kink_normals`; which neurons slide along which kinks is kept between steps."""

    #: Tolerance of the steps that are taken.
    tolerance = RTOL_SHARP

    def __init__(self, problem: Problem, init: Init, origin: Init | None = None) -> None:
        super().__init__(problem, init, origin)
        normals = problem.kink_normals()
        assert normals is not None  # or these are not the coordinates to choose
        shared = normals.ndim == 2
        self._normals = [_distinct(rows) for rows in (normals[None] if shared else normals)]  # one for all, or each
        self._d = normals.shape[-1]
        self._heights: FloatArray | None = None  # (H, n) over the kinks, at the last accepted state
        self._held: dict[int, IntArray] = {}  # kinks along which a neuron slides
        self._bases: dict[int, FloatArray] = {}  # orthonormal rows that span their normals

    def _pull(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        return self.along(super()._pull(directions, log_norms))

    def loss_grad(self, y: FloatArray, who: IntArray | None = None) -> tuple[float, FloatArray]:
        """Of a neuron on kinks only what lies along them counts: slopes there are any."""
        who = self.neurons if who is None else who
        loss, gradient = super().loss_grad(y, who)
        on = np.abs(self._over(self._split(y)[0])[who]) <= SUM
        for row in np.flatnonzero(on.any(axis=1)).tolist():  # y need not be the last state, whose kinks are known
            basis = self._basis(int(who[row]), np.flatnonzero(on[row]))
            gradient[row, : self._d] -= basis.T @ (basis @ gradient[row, : self._d])
        return loss, gradient

    def along(self, rows: FloatArray) -> FloatArray:
        """Rows (..., H, P), which are overwritten, without what leads sliding neurons off their kinks."""
        for neuron, basis in self._bases.items():
            w = rows[..., neuron, : basis.shape[1]]
            w -= w @ basis.T @ basis
        return rows

    def resting(self, y: FloatArray) -> tuple[ConeSystem, FloatArray] | None:
        """The weights in the cone of the last state, along the kinks that hold neurons there."""
        theta = self.params(y)
        if np.min(self._split(y)[1][self.alive]) < LOG_LEAST or self.problem.hessian(theta, self.neurons) is None:
            return None
        return ConeSystem(self), theta.ravel()

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """As `resting`."""
        return self.resting(y)

    def elsewhere(self, y: FloatArray) -> bool:
        """Whether a neuron has passed a kink since the last state, or one lets go."""
        if self._heights is None:
            return False
        directions, log_norms, _ = self._split(y)
        passed = (self._over(directions) > 0) != (self._heights > 0)
        for neuron, held in self._held.items():
            passed[neuron, held] = False
        if passed[self.alive].any():
            return True
        return any(
            self._holding(neuron, held, directions, log_norms).size < held.size for neuron, held in self._held.items()
        )

    def retract(self, y: FloatArray) -> FloatArray:
        """Unit rows restored, and neurons that met a kink which holds them put onto it; others let go."""
        y = super().retract(y)
        directions, log_norms, _ = self._split(y)
        heights = self._over(directions)
        before = self._heights
        if before is None:
            met = np.abs(heights) <= SUM
        else:
            with np.errstate(invalid="ignore"):  # of kinks that are none
                moved = np.abs(heights - before)
            over, was = np.abs(heights), np.abs(before)
            short = _SHORT * self.tolerance
            beside = over <= np.maximum(moved, short * norms(directions[:, : self._d])[:, None])
            crossed = ((heights > 0) != (before > 0)) & (was > SUM)  # on a kink it was on neither side
            met = crossed | (beside & (moved <= short) & (over <= was))
        met[~self.alive] = False
        for neuron, held in self._held.items():
            met[neuron, held] = True
        self._heights = heights
        changed = False
        for row in np.flatnonzero(met.any(axis=1)).tolist():
            held = self._holding(row, np.flatnonzero(met[row]), directions, log_norms)
            changed |= self._hold(row, held, self._held.get(row))
        if not self._held and not changed:
            return y
        theta = self.along(directions.copy())
        theta /= np.maximum(np.linalg.norm(theta, axis=1), np.finfo(float).tiny)[:, None]
        self._heights = self._over(theta)
        return np.concatenate([theta.ravel(), y[directions.size :]])

    def _over(self, directions: FloatArray) -> FloatArray:
        """Heights of unit rows (H, P) over the kinks, (H, n); infinite where a neuron has fewer than another."""
        w = directions[:, : self._d]
        if len(self._normals) == 1:
            return np.asarray(w @ self._normals[0].T)
        out = np.full((w.shape[0], max(rows.shape[0] for rows in self._normals)), np.inf)
        for row, normals, heights in zip(w, self._normals, out, strict=True):
            heights[: normals.shape[0]] = normals @ row
        return out

    def _of(self, neuron: int) -> FloatArray:
        """Unit normals (n, d) of the kinks of one neuron."""
        return self._normals[neuron if len(self._normals) > 1 else 0]

    def _hold(self, neuron: int, held: IntArray, before: IntArray | None) -> bool:
        """Let a neuron slide along these kinks and no others; whether that is new."""
        if held.size == 0:
            self._bases.pop(neuron, None)
            return self._held.pop(neuron, None) is not None
        if before is not None and np.array_equal(before, held):
            return False
        self._held[neuron], self._bases[neuron] = held, self._basis(neuron, held)
        return True

    def _basis(self, neuron: int, kinks: IntArray) -> FloatArray:
        """Orthonormal rows that span the normals of kinks of one neuron."""
        if neuron in self._held and np.array_equal(self._held[neuron], kinks):
            return self._bases[neuron]
        _, values, rows = np.linalg.svd(self._of(neuron)[kinks], full_matrices=False)
        return np.asarray(rows[values > 1e-10 * values[0]])

    def _holding(self, neuron: int, kinks: IntArray, directions: FloatArray, log_norms: FloatArray) -> IntArray:
        """Those of `kinks` both of whose sides push the neuron towards them, the others being held as well."""
        d = self._d
        while kinks.size:
            normals = self._of(neuron)[kinks]
            dual = np.asarray(np.linalg.pinv(normals))
            at = directions[neuron].copy()
            at[:d] -= dual @ (normals @ at[:d])
            size = float(np.linalg.norm(at[:d]))
            if size <= SUM * float(np.linalg.norm(directions[neuron, :d])):
                # all meet in w = 0, past which a neuron goes on along those it came on
                kinks = np.intersect1d(kinks, self._held.get(neuron, kinks[:0]))
                if kinks.size < normals.shape[0]:
                    continue
                return kinks[:0]
            keeps = np.zeros(kinks.size, dtype=bool)
            for j, across in enumerate(_across(normals, dual)):
                pushes = []
                for side in (-1.0, 1.0):
                    rows = directions.copy()
                    rows[neuron, :d] = at[:d] + side * _BESIDE * size * across
                    pull = self._free_pull(rows, log_norms)[neuron, :d]
                    pushes.append(side * float(pull @ across))
                    if pushes[-1] >= 0.0:
                        break
                keeps[j] = max(pushes) < 0.0
            if keeps.all():
                return kinks
            kinks = kinks[keeps]
        return kinks


def _across(normals: FloatArray, dual: FloatArray) -> FloatArray:
    """The part of each normal (n, d) that is orthogonal to all others; `dual` : their pseudo-inverse (d, n).

    Where none is in the span of the others that is its vector of the dual basis, of another length.
    """
    if np.abs(normals @ dual - np.eye(normals.shape[0])).max() <= TIED:
        return np.asarray(dual.T / np.sum(dual**2, axis=0)[:, None])
    out = normals.copy()
    for row, normal in enumerate(normals):
        others = np.delete(normals, row, axis=0)
        out[row] -= np.linalg.pinv(others) @ (others @ normal)
    return out


def _distinct(normals: FloatArray) -> FloatArray:
    """Unit rows (m, d) of the distinct kinks {w : x_k . w = 0}: samples on one line through zero share one."""
    lengths = np.linalg.norm(normals, axis=1)
    rows = normals[lengths > 0] / lengths[lengths > 0, None]
    first = np.argmax(np.abs(rows) > UNIT, axis=1)
    rows *= np.sign(rows[np.arange(rows.shape[0]), first])[:, None]
    rows = rows[np.argsort(rows @ np.cos(np.arange(rows.shape[1])))]  # in an order in which equal ones are neighbours
    new = np.abs(np.diff(rows, axis=0)).max(axis=1) > UNIT
    return rows[np.append(np.ones(min(rows.shape[0], 1), dtype=bool), new)]
