"""What grows where a flow has come to rest, told where it would rest exactly.

Steps leave the large neurons off the minimum, or the valley, that they follow, by what their tolerance allows. That is
nothing for the loss, but times the third derivative it bends flat directions up and down, and makes small neurons grow
or shrink. So the stiff modes of the large neurons are relaxed by Newton's method before anything is asked.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from agf.arrays import FloatArray
from agf.coordinates.held_neurons import Plateau
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.weight_system import WeightSystem
from agf.stopping.drive import Counted, Moment
from agf.stopping.fastest_growth import fastest_growth

#: Modes that have decayed by this many e-folds within the time have nothing left but the tolerance.
_RELAXED = 30.0
#: Newton iterations, which square what is left, and the part of the weights that they may move.
_ITERATIONS, _MOVES = 4, 1e-2
#: Large are neurons above exp(this) of the largest.
_LARGE = -7.0
#: Largest Hessian that is decomposed, in weights: cost only.
_LARGEST = 1200
#: A mode this fast, relative to the spectral radius, is told from a flat direction (central differences see 1e-9).
_SADDLE_RATE = 1e-6
#: Differences of velocities magnify their rounding by the inverse of their length, the cube root of epsilon, and some.
_DIFFERENCE = 1e6
_EPS = float(np.finfo(np.float64).eps)


class Rest:
    """Where the flow rests, and what grows there.

    Parameters
    ----------
    now : Moment
        When. A few gradients and Hessians, or a few dozen gradients without a Hessian.
    """

    def __init__(self, now: Moment) -> None:
        self._ask, self._y = now.system, now.y
        self._matrix: FloatArray | None = None
        if (other := _weights(self._ask, self._y)) is not None:
            self._ask = Counted(other[0])
            self._y, self._matrix = _relax(self._ask, other[0], other[1], now.t)
        system = self._ask.system
        if not system.smooth and isinstance(system, PolarSystem):
            self.growth, evaluations = system.prospect(self._y)
            self._ask.charge(evaluations)
        else:
            self.growth = self._ask.growth(self._y)
        if other is not None:
            now.system.charge(self._ask.work.gradients, self._ask.work.hessians)

    #: Rate 1/s of the fastest small neuron, 0 when none grows, None where the system does not know; where there are
    #: kinks, what a small neuron comes to by turning, as no Jacobian tells.
    growth: float | None

    @cached_property
    def perturbed(self) -> float:
        """Rate of the fastest perturbation, 0 where none is told from a flat direction, or where there are kinks."""
        if not self._ask.system.smooth:
            return 0.0
        matrix = self._matrix if self._matrix is not None else self._ask.hessian(self._y)
        if matrix is not None:
            return _fastest(matrix)
        rate, radius, evaluations = fastest_growth(self._ask.system, self._y)
        self._ask.charge(evaluations)
        return rate if rate > max(_SADDLE_RATE * radius, _DIFFERENCE * self._ask.system.noise(self._y)) else 0.0


def _weights(ask: Counted, y: FloatArray) -> tuple[WeightSystem, FloatArray] | None:
    """The flow in its weights, where these have a Hessian of moderate size."""
    system = ask.system
    if isinstance(system, WeightSystem):
        return (system, y) if y.size <= _LARGEST else None
    if not isinstance(system, PolarSystem) or isinstance(system, Plateau) or y.size > _LARGEST:
        return None
    return system.weights(y)


def _relax(ask: Counted, system: WeightSystem, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
    """y with the stiff modes of the large neurons relaxed, and the Hessian (N, N) there."""
    matrix = ask.hessian(y)
    assert matrix is not None
    sizes = system.scale(y)
    large = np.flatnonzero(sizes > np.exp(_LARGE) * sizes.max())
    start = y
    for _ in range(_ITERATIONS):
        values, vectors = np.linalg.eigh(matrix[np.ix_(large, large)])
        stiff = values > max(_RELAXED / t if t > 0 else np.inf, _SADDLE_RATE * values[-1])
        pull = vectors[:, stiff].T @ ask.velocity(y)[large]
        move = vectors[:, stiff] @ (pull / values[stiff])
        if not np.abs(move).max(initial=0.0) > 10 * _EPS * sizes.max():
            break
        y = y.copy()
        y[large] += move
        if not np.abs(y - start).max() <= _MOVES * sizes.max():
            y, matrix = start, ask.hessian(start)
            break
        matrix = ask.hessian(y)
        assert matrix is not None
    assert matrix is not None
    return y, matrix


def _fastest(matrix: FloatArray) -> float:
    """Rate at which the fastest mode of this Hessian grows; 0 where rounding may be all of it."""
    values = np.linalg.eigvalsh(matrix)
    rounding = 10 * values.size * _EPS * float(np.abs(values).max(initial=0.0))
    return float(-values[0]) if values[0] < -rounding else 0.0
