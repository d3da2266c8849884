"""What grows where a flow has come to rest, told where it would rest exactly.

Steps leave the large neurons off the minimum, or the valley, that they follow, by what their tolerance allows. That is
nothing for the loss, but times the third derivative it bends flat directions up and down, and makes small neurons grow
or shrink. So the stiff modes of the large neurons are relaxed by Newton's method before anything is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import FlowSystem
from agf.coordinates.cone_system import ConeSystem
from agf.coordinates.held_neurons import HeldSystem
from agf.coordinates.mode_system import ACTIVE, MOVES, TOLD
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.split_system import SplitSystem
from agf.coordinates.weight_system import WeightSystem
from agf.rounding import EPS, SUM
from agf.sphere import norms
from agf.stopping.driver import Counted, End, Moment, Stop, Why, drive
from agf.stopping.fastest_growth import fastest_growth
from agf.stopping.horizon import SLOWER
from agf.stopping.methods import Explicit
from agf.stopping.rules import PARKED, Budget, Certified, Memory, Tolerance

#: e-folds within the time after which nothing is left of a mode that decays but the tolerance. Derived: it is then
#: rounding of the sums that drive it.
_RELAXED = -float(np.log(SUM))
#: Hessians of Newton's method. Derived: each squares what is left, of `MOVES` after three 1e-16; and one more to see.
_ITERATIONS = 4
#: Largest Hessian that is decomposed, in weights. Cost: time of its eigenvalues; beyond it rates are found by
#: differences.
_LARGEST = 1200
#: Magnification of the rounding of velocities by their differences. Derived: the inverse of the length of these, and
#: eight of them.
_DIFFERENCE = 8.0 * EPS ** (-1 / 3)
#: Growth, over what the zero function makes of the fastest neuron, that is told from the chatter of steps about a kink.
#: Derived: what grows `SLOWER` is not waited for; the chatter of steps of 1e-4 is a tenth of it.
_TELLING = 1.0 / SLOWER
#: Steps in which they are turned at most. Result: what takes more is said not to grow; at 40 a direction that crosses
#: ten kinks is cut off, at 4,000 the question costs ten times as much where directions turn for ever.
_STEPS = 400
#: Tolerance of these steps. Cost: the question is whether a neuron grows, not when.
_TURNING = 1e-3


class Rest:
    """Where the flow rests, and what grows there.

    Parameters
    ----------
    now : Moment
        When. A few gradients and Hessians, or a few dozen gradients without a Hessian.
    """

    def __init__(self, now: Moment) -> None:
        self._now, self._ask, self._y = now, now.system, now.y
        self._matrix: FloatArray | None = None
        if (other := _weights(self._ask, self._y)) is not None:
            self._ask = Counted(other[0])
            self._y, self._matrix = _relax(self._ask, other[0], other[1], now.t)
            now.system.charge(self._ask.work.gradients, self._ask.work.hessians)

    @cached_property
    def growth(self) -> float | None:
        """Rate 1/s of the fastest small neuron, 0 when none grows, None where the system does not know; where there are
        sharp kinks, what a small neuron comes to by turning, as no Jacobian tells."""
        system, y = self._now.system.system, self._now.y
        if isinstance(system, ConeSystem):
            y, system = system.in_polar(y), system.sharp
        if system.smooth or not isinstance(system, PolarSystem):
            growth = self._ask.growth(self._y)
            if self._matrix is not None:  # told by a system that counts for itself
                self._now.system.charge(2)
            return growth
        growth, evaluations = prospect(system, y)
        self._now.system.charge(evaluations)
        return growth

    @cached_property
    def coming(self) -> float | None:
        """`growth`, or where it is 0 what small neurons will come to by turning, in up to 400 steps of directions."""
        asked, y = self._ask.system, self._y
        system: FlowSystem = asked
        if isinstance(asked, WeightSystem):
            system, y = asked.polar, asked.in_polar(y)
        if self.growth != 0.0 or not system.smooth or not isinstance(system, PolarSystem):
            return self.growth
        rate, evaluations = prospect(system, y)
        self._now.system.charge(evaluations)
        return rate

    @cached_property
    def perturbed(self) -> float:
        """Rate of the fastest perturbation, 0 where none grows or is told from a flat direction, or there are kinks."""
        if not self._ask.system.smooth or self._ask.system.contracts:
            return 0.0
        matrix = self._matrix if self._matrix is not None else self._ask.hessian(self._y)
        if matrix is not None:
            return _fastest(matrix, self._ask.system.noise(self._y))
        system, y = self._ask.system, self._y
        velocity, scale, y = system.plain(y) or (system.velocity, system.scale(y), y)
        rate, radius, evaluations = fastest_growth(velocity, scale, y)
        self._ask.charge(evaluations)
        return rate if rate > max(TOLD * radius, _DIFFERENCE * self._ask.system.noise(self._y)) else 0.0

    @cached_property
    def decaying(self) -> float:
        """Loss that modes which decay can still lose, however slowly they do; 0 where no Hessian tells.

        A mode of curvature c and gradient g loses g^2 / 2c by the time it rests, at a rate that looks like rest as long
        as 1/c is long. Gradients that are rounding beside those of the stiffest mode count for nothing.
        """
        if self._matrix is None:
            return 0.0
        values, vectors = np.linalg.eigh(self._matrix)
        pulls = vectors.T @ self._ask.velocity(self._y)
        stiffest, size = float(np.abs(values).max()), float(np.linalg.norm(self._y))
        told = (values > values.size * EPS * stiffest) & (np.abs(pulls) > SUM * stiffest * size)
        return float(np.sum(pulls[told] ** 2 / (2.0 * values[told])) * np.exp(-self._ask.system.log_time_unit))


def blur(now: Moment) -> float:
    """Rate at which rounding of the gradient moves the weights, over their norm: no weights in float64 can tell one of
    `EPS` times what the stiffest mode makes of them. 0 where no Hessian tells, or a neuron is not active. A Hessian."""
    found = _weights(now.system, now.y)
    if found is None:
        return 0.0
    system, y = found
    sizes = norms(y.reshape(system.shape))
    active = sizes[sizes > 0.0] > ACTIVE * sizes.max()
    matrix = system.hessian(y) if active.all() else None
    if matrix is None:
        return 0.0
    now.system.charge(0, 1)
    return EPS * float(np.linalg.norm(matrix))


def prospect(system: PolarSystem, y: FloatArray) -> tuple[float, int]:
    """Largest d log rho/ds that a small neuron comes to by turning, the large ones being at rest; and evaluations.

    A neuron may shrink here, next to a direction that it will leave, and grow once it has turned. So the small ones
    are turned on the residual of the large ones until one grows faster than `_TELLING` of what the zero function
    makes of the fastest, all stand still, or a direction beside a saddle would have left it from the smallest distance
    in float64.
    """
    turning = system.grows.turning(y)
    if turning is None:
        return 0.0, 0
    told = _TELLING * turning.natural
    stops: list[Stop] = [Certified(Tolerance(0.0), -told), _Still(_TELLING * told), Budget(np.inf, _STEPS)]
    end = drive(turning, Explicit(_TURNING, "rk45"), stops, turning.start(), s_end=PARKED / told)
    growth = turning.growth(end.at.y) if -end.at.loss >= told else 0.0
    return growth, end.at.work.gradients


@dataclass(frozen=True)
class _Still:
    """No entry moves faster than `speed`."""

    speed: float

    def init(self, now: Moment) -> Memory:
        """Nothing."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether all stand still."""
        still = now.step is not None and float(np.max(np.abs(now.step.f1))) <= self.speed
        return memory, End(Why.SETTLED, now) if still else None


def _weights(ask: Counted, y: FloatArray) -> tuple[WeightSystem, FloatArray] | None:
    """The flow in its weights, where these have a Hessian of moderate size."""
    system = ask.system
    if isinstance(system, SplitSystem):
        y, system = system.in_polar(y), system.polar
    if isinstance(system, WeightSystem):
        return (system, y) if y.size <= _LARGEST else None
    if not isinstance(system, PolarSystem) or isinstance(system, HeldSystem) or y.size > _LARGEST:
        return None
    return system.resting(y)


def _relax(ask: Counted, system: WeightSystem, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
    """y with the stiff modes of the large neurons relaxed, and the Hessian (N, N) there.

    A Hessian serves for as long as every move is half of the one before; another is worth its decomposition where
    more than rounding pulls then.
    """
    start, sizes = y, system.scale(y)
    large = np.flatnonzero(sizes > ACTIVE * sizes.max())
    matrix = _hessian(ask, y)
    for _ in range(_ITERATIONS):
        values, vectors = np.linalg.eigh(matrix[np.ix_(large, large)])
        rounding = SUM * float(np.abs(values).max()) * float(np.linalg.norm(y))
        stiff = values > max(_RELAXED / t if t > 0 else np.inf, TOLD * values[-1])
        values, vectors = values[stiff], vectors[:, stiff]
        at, last = y, np.inf
        while True:
            pull = vectors.T @ ask.velocity(y)[large]
            move = vectors @ (pull / values)
            size = float(np.abs(move).max(initial=0.0))
            if not 10 * EPS * sizes.max() < size <= 0.5 * last:
                break
            y, last = y.copy(), size
            y[large] += move
            if not np.abs(y - start).max() <= MOVES * sizes.max():
                return start, _hessian(ask, start)
        if y is at:
            break
        matrix = _hessian(ask, y)
        if not np.abs(pull).max() > rounding:
            break
    return y, matrix


def _hessian(ask: Counted, y: FloatArray) -> FloatArray:
    """That of a flow which has one."""
    matrix = ask.hessian(y)
    assert matrix is not None
    return matrix


def _fastest(matrix: FloatArray, noise: float) -> float:
    """Rate at which the fastest mode of this Hessian grows; 0 where rounding, `noise` of pulls, may be all of it.

    Its entries are sums over the data, and an eigenvalue near 0 is what two such sums leave of one another.
    """
    values = np.linalg.eigvalsh(matrix)
    rounding = max(2.0 * SUM, 10 * values.size * EPS) * float(np.abs(values).max(initial=0.0))
    return float(-values[0]) if values[0] < -max(rounding, noise) else 0.0
