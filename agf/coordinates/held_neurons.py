"""Plateaus of degree 3 and more, where neurons at rest relax in a time of order one and small ones grow over 1/alpha.

Steps short enough for the large neurons do not see the small ones grow, and a method that damps is not to be trusted
beside a saddle. But once the large neurons rest to rounding, and while what the small ones add is below it, the flow of
the large ones is known: they stay. So they are held, and the small ones alone are stepped, explicitly. That they rest,
at a minimum of their own loss and not a saddle, is checked with their Hessian first; otherwise nothing is held.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.coordinates.mode_system import FALLEN
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.split_system import AWAKE
from agf.init import Init
from agf.numerics.derivatives import hessian
from agf.rounding import EPS, SUM
from agf.sphere import norms

#: Log norm over the largest below which neurons are small. Derived: with degree 3 they move the residual by less than
#: EPS.
_SMALL = float(np.log(EPS)) / 3.0
#: Log norm of the largest small neuron, over the largest held one, above which its step is rejected. Cost: of rejected
#: steps.
_BEYOND = float(np.log(1e-3))
#: Log norm over the largest above which neurons are active for certain. Cost: a plateau is looked for where none is
#: between this and small.
_ACTIVE = np.log(0.1)
#: Eigenvalues of an exact Hessian, relative to the largest, that count as 0. Derived: rounding of order 2,400 is 5e-13,
#: and of sums over the data as much again; two decades are left.
_FLAT = 1e-10
#: Eigenvalues of a Hessian by differences that count as 0. Derived: central differences see SUM^(2/3) = 2e-9 of the
#: largest; a decade and a half are left.
_FLAT_DIFFERENCES = 1e-7
#: Distance from the minimum, relative to their norms, over the tolerance of a step, up to which neurons rest and are
#: held. Result: they are moved there, and so much of the loss is taken off early; at 1000 neurons still on their way
#: would be, at 1 only those that the steps have brought there to their own tolerance.
NEAR = 100.0
#: Newton iterations with one Hessian. Cost: where they do not get there, nothing is held.
_ITERATIONS = 10
#: Hessians of Newton iterations. Cost: where they do not get there, nothing is held.
_ROUNDS = 3
#: A gradient off the minimum bends flat directions, up or down, by up to this multiple of it, both over their largest.
#: Result: at 100 a saddle ten times steeper than it pulls would pass for a minimum, at 1 symmetries would for a saddle.
_BENT = 10.0
#: Gradient, over what the curvature makes of the weights, beyond which no neurons rest. Cost: of looking in vain.
_PULLS = 1e-3
#: Largest Hessian that is decomposed, in parameters; and the largest that is made by differences of the gradient. Cost:
#: beyond them plateaus are stepped through.
_MOST, _MOST_DIFFERENCES = 2400, 400


class HeldSystem(PolarSystem):
    """The polar flow with some neurons held. held : (H,) bool."""

    def __init__(self, problem: Problem, init: Init, held: BoolArray) -> None:
        super().__init__(problem, init)
        self.held = held
        self.moving = self.alive & ~held

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds, 0 for the held neurons; not finite where a small neuron is no longer small."""
        width = self.neurons.size
        if self._lead(y) > _BEYOND:
            return np.full_like(y, np.nan)
        out = super().velocity(y)
        out[:-width].reshape(width, -1)[self.held] = 0.0
        out[-width:][self.held] = 0.0
        return out

    def stiff(self, y: FloatArray) -> None:
        """Nothing stiff moves."""

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Loss of the whole network, and the rate at which the small neurons lower it: the rest is rounding."""
        directions, log_norms, _ = self._split(y)
        loss, gradient = self.problem.loss_grad(self._theta(directions, log_norms), self.neurons)
        return float(loss), -float(np.sum(gradient[self.moving] ** 2)) * float(np.exp(self.log_time_unit))

    def over(self, y: FloatArray) -> bool:
        """Whether a small neuron is about to matter."""
        return self._lead(y) > AWAKE

    def _lead(self, y: FloatArray) -> float:
        """Log norm of the largest neuron that moves, relative to the largest held one."""
        log_norms = self._split(y)[1]
        return float(np.max(log_norms[self.moving], initial=-np.inf) - np.max(log_norms[self.held]))


def between_drops(system: object, y: FloatArray, fallen: float, first: float) -> bool:
    """Whether some neurons are active and none is on its way: what is cheap to ask before `hold`.

    Parameters
    ----------
    fallen : float
        How much less than `first`, that at the start, the loss is.
    """
    if not isinstance(system, PolarSystem) or system.power == 0 or fallen <= FALLEN * first:
        return False
    log_norms = system._split(y)[1][system.alive]
    behind = log_norms - np.max(log_norms)
    return not np.any((behind > _SMALL) & (behind < _ACTIVE))


def hold(
    system: object, y: FloatArray, rtol: float, held: BoolArray | None = None
) -> tuple[HeldSystem, FloatArray, int] | None:
    """The plateau at y, y with the large neurons moved onto their minimum, and the evaluations; None if there is none.

    Where no neuron is small, all are held: the flow has ended.

    Parameters
    ----------
    system : FlowSystem
        What flows; only polar coordinates of degree 3 and more have such plateaus.
    y : float ndarray, shape (N,)
        Where it is.
    rtol : float
        Tolerance of the steps that led to y.
    held : bool ndarray or None, shape (H,), optional
        Neurons that alone make the residual; None: all but those so small that they hardly do.
    """
    if not isinstance(system, PolarSystem) or system.power == 0 or system.problem.kink > 0:
        return None
    directions, log_norms, _ = system._split(y)
    if held is None:
        held = system.alive & (log_norms > np.max(log_norms[system.alive]) + _SMALL)
    who = np.flatnonzero(held)
    theta = directions[held] * np.exp(log_norms[held])[:, None]
    found = _minimum(system.problem, theta, who)
    if found is None:
        return None
    exact, evaluations = found
    if np.max(norms(exact - theta) / norms(theta)) > NEAR * rtol:
        return None
    y, rho = y.copy(), norms(exact)
    y[: directions.size].reshape(directions.shape)[held] = exact / rho[:, None]
    y[-held.size :][held] = np.exp(system.power * (system.log_largest - np.log(rho)))
    return HeldSystem(system.problem, system.init, held), y, evaluations


def _minimum(problem: Problem, theta: FloatArray, who: IntArray) -> tuple[FloatArray, int] | None:
    """The minimum next to theta (m, P), and the evaluations; None where this is a saddle or none is near.

    Along flat directions, those of a symmetry with what it conserves, nothing is moved, and nothing may pull. Off the
    minimum a gradient bends them, up or down, so what counts is the Hessian next to it.
    """
    start, size = theta, float(np.linalg.norm(theta))
    evaluations, before = 0, np.inf
    gradient = problem.loss_grad(theta, who)[1].ravel()
    for _ in range(_ROUNDS):
        matrix, count = _hessian(problem, theta, who)
        evaluations += count + 1
        if matrix is None or not np.isfinite(matrix).all():
            return None
        values, vectors = np.linalg.eigh(matrix)
        force = float(np.linalg.norm(gradient)) / (values[-1] * size) if values[-1] > 0 else np.inf
        if not force < min(_PULLS, 0.1 * before):
            return None
        before = force
        flat = _FLAT if count == 1 else _FLAT_DIFFERENCES
        bent = max(flat, _BENT * force)
        if values[0] < -bent * values[-1]:
            return None
        steep = values > bent * values[-1]
        values, vectors = values[steep], vectors[:, steep]
        for _ in range(_ITERATIONS):
            if force <= SUM:
                break
            theta = theta - (vectors @ (vectors.T @ gradient / values)).reshape(theta.shape)
            if not np.linalg.norm(theta - start) < size:
                return None
            gradient = problem.loss_grad(theta, who)[1].ravel()
            evaluations += 1
            force = float(np.linalg.norm(gradient)) / (values[-1] * size)
        if force <= SUM and bent == flat:
            return theta, evaluations
    return None


def _hessian(problem: Problem, theta: FloatArray, who: IntArray) -> tuple[FloatArray | None, int]:
    """Hessian of the loss of the neurons `who` alone, None when it is too large, and the evaluations it took."""
    size = theta.size
    matrix = problem.hessian(theta, who) if size <= _MOST else None
    if matrix is not None or size > _MOST_DIFFERENCES:
        return matrix, 1
    return hessian(lambda at: problem.loss_grad(at, who)[1], theta, float(norms(theta).max())), 2 * size
