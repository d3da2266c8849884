"""Both phases of a diagonal network in closed form, at any alpha.

Dormant coordinates move in the signed coordinate z at the constant rate v_i = x_i . r / n; a coordinate that returned
to dormancy keeps its z, moves inwards, and must pass z = 0 before it can activate with the other sign. Active
coordinates sit at the least-squares solution with the signs they activated with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dsyevd

import agf
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rounding import SUM
from agf_problems.diagonal_linear.mirror import Mirror
from agf_problems.diagonal_linear.signed_fit import SignedFit

#: Change of z between the half-drop and the switch. Derived: sinh(2 z) rises from 0 to 1 in it, so it is asinh(1)/2,
#: and asinh(1)/(4 U) in time.
LEAD = 0.5 * float(np.arcsinh(1.0))
#: Coordinates whose times are computed at once, to begin with. Cost: of a call against that of a coordinate.
_CHUNK = 16


@dataclass(frozen=True)
class _Minimum:
    """A minimization: from these coefficients and signs (d,) to these, and the same with equal columns sharing."""

    start: FloatArray
    signs: FloatArray
    coefficients: FloatArray
    shared: FloatArray


@dataclass(frozen=True)
class Memory:
    """What a state of `DiagonalPhases` remembers.

    z : (d,) signed coordinates.  coefficients : (d,) of the last minimization.  signs : (d,) with which coordinates are
    active, 0 for the others.  idle : (d,) bool, reached their threshold as combinations of active ones: these add
    nothing.
    """

    z: FloatArray
    coefficients: FloatArray
    signs: FloatArray
    idle: BoolArray


DiagonalState = agf.State[Memory]


class DiagonalPhases:
    """The two phases of [AGF] Algorithm 1 for `DiagonalLinear`.

    X : (n, d).  y : (n,).  init : where it starts.  settings : `threshold`, `tie_rtol` are read; the active phase has a
    closed form, whatever `settle` says.
    """

    def __init__(self, x: FloatArray, y: FloatArray, init: agf.Init, settings: agf.Settings) -> None:
        self._x, self._y, self._init, self._settings = x, y, init, settings
        self._n = y.size
        self.clock = agf.Clock.from_norms(2, init.log_norms)
        self.mirror = Mirror.of(init)
        # caches of what the states determine: the fit at some coefficients, and the last minimization
        self._fit = SignedFit(x, y)
        self._fit_at = np.zeros(x.shape[1])
        self._last: _Minimum | None = None

    def start(self) -> DiagonalState:
        """All coordinates dormant at time 0."""
        init, nothing = self._init, np.zeros(self._init.width)
        memory = Memory(nothing, nothing, nothing, np.zeros(init.width, dtype=bool))
        level = 0.5 * float(self._y @ self._y) / self._y.size
        return agf.State(0.0, np.zeros(init.width, dtype=bool), init.directions, init.log_norms, level, memory)

    def dormant(self, state: DiagonalState) -> tuple[DiagonalState, agf.Activation | agf.Status]:
        """Constant rates in z until the first coordinate, with all tied ones, reaches its threshold."""
        memory, mirror, scale = state.memory, self.mirror, self.clock.scale
        z, idle = memory.z, memory.idle
        v = self._at(memory.coefficients).pull / self._n
        v[state.active | idle] = 0.0
        while True:
            # an infinite height belongs to a coordinate that starts without a part of this sign: it never gets there
            heights = mirror.height(z, v)
            columns = ((v != 0.0) & np.isfinite(heights)).nonzero()[0]
            if columns.size == 0:
                return state, agf.Status.NO_GROWTH if v.any() else agf.Status.FITTED
            heights = heights[columns]
            parts = self._fit.parts(columns, heights)
            first_of_equals = parts > 0.0
            if not first_of_equals.all():
                columns, heights, parts = columns[first_of_equals], heights[first_of_equals], parts[first_of_equals]
            speeds = np.abs(v[columns])
            times = self._times(columns, speeds, heights, parts)
            first = times.argmin()
            step = float(times[first])
            slack = self._settings.tie_rtol * step + SUM * np.abs(heights) / speeds
            tied = (times <= step + slack).nonzero()[0]
            new = columns[tied]
            edge = memory.signs.copy()
            edge[new] = np.sign(v[new])
            if np.count_nonzero(self._settle(memory.coefficients, edge).shared[new]):
                break
            idle = idle.copy()  # combinations of the active columns, up to rounding: they can add nothing
            idle[new], v[new] = True, 0.0
        lead = LEAD if self._settings.threshold == "natural" else 0.0
        half = max(step - lead / float(speeds[first]), 0.0)
        moved = z + v * step
        times[tied] = np.inf
        second = times.argmin()
        wait = float(times[second])
        runner_up = (int(columns[second]), max(wait - step, 0.0) / scale) if wait < np.inf else None
        after = agf.State(
            state.time + step / scale,
            state.active,
            *mirror.polar(moved),
            state.level,
            Memory(moved, memory.coefficients, edge, idle),
        )
        return after, agf.Activation(after.time, state.time + half / scale, new, 0.5 * speeds[tied], runner_up)

    def _times(self, columns: IntArray, speeds: FloatArray, heights: FloatArray, parts: FloatArray) -> FloatArray:
        """(m,) time each of these coordinates still needs: of the first two at least, and inf where it is longer.

        At the natural threshold the coefficient is |v| n / |x - P_A x|^2, times `parts` (m,) where columns are equal.
        Leaving P_A out gives the bound, and as thresholds are logarithms few coordinates need it.
        """
        mirror = self.mirror
        if self._settings.threshold == "unit":
            return np.maximum(mirror.height_of_norm(0.0)[columns] - heights, 0.0) / speeds
        pulls = speeds * self._n * parts
        if columns.size <= _CHUNK:
            target = mirror.height_of_coefficient(pulls / self._fit.distance(columns), columns)
            return np.maximum(target - heights, 0.0) / speeds
        bound = mirror.height_of_coefficient(pulls / self._fit.norms[columns] ** 2, columns)
        times = np.maximum(bound - heights, 0.0) / speeds
        order = np.argsort(times)
        known, chunk = 0, _CHUNK
        while known < order.size and (known < 2 or times[order[known]] <= np.partition(times[order[:known]], 1)[1]):
            some = order[known : known + chunk]
            distance = self._fit.distance(columns[some])
            target = mirror.height_of_coefficient(pulls[some] / distance, columns[some])
            times[some] = np.maximum(target - heights[some], 0.0) / speeds[some]
            known += some.size
            chunk *= 2
        times[order[known:]] = np.inf
        return times

    def active(
        self, state: DiagonalState, activation: agf.Activation
    ) -> tuple[DiagonalState, agf.Settled | agf.Status]:
        """Least squares with the signs of the active and the new coordinates."""
        del activation
        memory, mirror, edge = state.memory, self.mirror, state.memory.signs
        minimum = self._settle(memory.coefficients, edge)
        beta = minimum.shared
        active = beta != 0.0
        collapsed = ((edge != 0.0) & ~active).nonzero()[0]
        inside = active.nonzero()[0]
        sizes, signs = np.abs(beta[inside]), edge[inside]
        z = memory.z.copy()
        z[inside] = mirror.depth(mirror.height_of_coefficient(sizes, inside), signs, inside)
        r = self._y - self._x @ beta
        v = r @ self._x / self._n
        after = Memory(z, minimum.coefficients, edge, memory.idle)
        if collapsed.size:
            after = Memory(z, minimum.coefficients, np.where(active, edge, 0.0), np.zeros_like(active))
        level = 0.5 * float(r @ r) / self._n
        final = agf.State(state.time, active, *mirror.polar(z), level, after)
        settled = agf.Settled(
            level=level,
            collapsed=collapsed,
            grad_norm=float(np.linalg.norm(np.exp(final.log_norms[inside]) * v[inside])),
            predicted_decrease=abs(float(beta @ v)),  # the duality gap
            how="closed form",
        )
        return final, settled

    def rates(self, state: DiagonalState) -> FloatArray:
        """Decay rates of the active coordinates, (m,), ascending: beta' = -rho^2 g where g is about to vanish."""
        inside = state.active.nonzero()[0]
        sizes = np.exp(state.log_norms[inside])
        matrix = sizes[:, None] * self._fit.inner(inside) * (sizes / self._n)
        rates: FloatArray = dsyevd(matrix, compute_v=0, overwrite_a=1)[0]  # numpy's takes three times as long
        return rates

    def _at(self, coefficients: FloatArray) -> SignedFit:
        """The fit at these coefficients."""
        if not _same(self._fit_at, coefficients):
            self._fit = SignedFit(self._x, self._y)
            inside = np.flatnonzero(coefficients)
            self._fit.minimize(inside, np.sign(coefficients[inside]))
            self._fit_at = coefficients
        return self._fit

    def _settle(self, start: FloatArray, signs: FloatArray) -> _Minimum:
        """The minimizer for these signs, from these coefficients."""
        last = self._last
        if last is None or not (_same(last.start, start) and _same(last.signs, signs)):
            fit = self._at(start)
            allowed = signs.nonzero()[0]
            fit.minimize(allowed, signs[allowed])
            self._fit_at = fit.coefficients.copy()
            shared = np.zeros_like(start)
            shared[allowed] = fit.shared(allowed, signs[allowed])
            last = self._last = _Minimum(start, signs, self._fit_at, shared)
        return last


def _same(one: FloatArray, other: FloatArray) -> bool:
    """Whether two arrays are one, or equal."""
    return one is other or bool((one == other).all())
