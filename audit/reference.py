"""The truth that the audit measures against: gradient flow and its limit by scipy alone, nothing of the package.

A diagonal network beta = u v from u = sqrt(2) alpha, v = 0 has beta = alpha^2 sinh 2z with z' = -g(beta), z(0) = 0. The
Jacobian of that is minus a covariance times a positive diagonal: no direction grows, so that implicit steps of any
length are safe, and a plateau of any length is a few steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import OdeSolution, solve_ivp
from scipy.optimize import brentq, nnls

Array = NDArray[np.float64]

#: Tolerances of a step in z: an error in z is a relative error in the size of a coordinate.
RTOL, ATOL = 1e-9, 1e-10
#: The flow is followed until it could lose no more than this fraction of the loss of the zero function ...
LEFT = 1e-10
#: ... or to this time: the slowest of near-collinear columns are never learned in practice.
LONGEST = 1e12
#: Drops whose middle is closer to the minimum than this fraction of the loss of the zero function are not timed.
SEEN = 1e-8
#: Singular values below this part of the largest are zero.
RANK = 1e-9


class Data:
    """Sufficient statistics of a table: loss = |r - R beta|^2 / 2n + what no coefficient can fit."""

    def __init__(self, x: Array, y: Array) -> None:
        n = y.size
        left, values, right = np.linalg.svd(x / np.sqrt(n), full_matrices=False)
        kept = values > RANK * values[0]
        self.factor = values[kept, None] * right[kept]
        self.inside = left[:, kept].T @ y / np.sqrt(n)
        self.start = 0.5 * float(y @ y) / n
        self.minimum = max(self.start - 0.5 * float(self.inside @ self.inside), 0.0)

    def pull(self, beta: Array) -> Array:
        """Minus the gradient of the loss in beta."""
        return (self.inside - self.factor @ beta) @ self.factor

    def excess(self, beta: Array) -> float:
        """Loss above the least-squares minimum, free of cancellation."""
        rest = self.inside - self.factor @ beta
        return 0.5 * float(rest @ rest)


@dataclass(frozen=True)
class Flow:
    """The true flow. end, excess : where it was stopped.  evaluations : of the gradient."""

    data: Data
    alpha: float
    solution: OdeSolution
    times: Array
    excesses: Array
    evaluations: int

    @property
    def whole(self) -> bool:
        """Whether it was followed until nothing was left."""
        return bool(self.excesses[-1] <= 2.0 * LEFT * self.data.start)

    def excess(self, time: float) -> float:
        """Loss above the minimum at one time."""
        return self.data.excess(_beta(self.solution(min(time, self.times[-1])), self.alpha))

    def loss(self, time: float) -> float:
        return self.data.minimum + self.excess(time)

    def passes(self, loss: float) -> float:
        """When the loss first falls below that; inf when it never does, NaN when it is too close to the minimum."""
        excess = loss - self.data.minimum
        if excess < SEEN * self.data.start:
            return np.nan
        below = np.flatnonzero(self.excesses <= excess)
        if below.size == 0:
            return np.inf
        k = int(below[0])
        if k == 0:
            return 0.0
        low, high = self.times[k - 1], self.times[k]
        return float(brentq(lambda t: np.log(self.excess(t) / excess), low, high, xtol=1e-12 * high, rtol=1e-12))

    def flattest(self, low: float, high: float) -> float:
        """The loss where it falls least in log time, between two times: that of the plateau."""
        losses = np.array([self.loss(t) for t in np.geomspace(max(low, 1e-12), high, 200)])
        k = int(np.argmin(np.abs(np.diff(np.log(losses)))))
        return float(0.5 * (losses[k] + losses[k + 1]))


def flow(x: Array, y: Array, alpha: float) -> Flow:
    """The gradient flow of a diagonal network on (x, y), by LSODA in z."""
    data = Data(x, y)

    def velocity(_: float, z: Array) -> Array:
        return data.pull(_beta(z, alpha))

    def jacobian(_: float, z: Array) -> Array:
        return -(data.factor.T @ data.factor) * (2.0 * alpha**2 * np.cosh(2.0 * z))

    def left(_: float, z: Array) -> float:
        return float(np.log(max(data.excess(_beta(z, alpha)), 1e-300) / (LEFT * data.start)))

    left.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        velocity, (0.0, LONGEST), np.zeros(x.shape[1]), method="LSODA", jac=jacobian, rtol=RTOL, atol=ATOL,
        dense_output=True, events=left,
    )  # fmt: skip
    if found.status < 0 or found.sol is None:
        raise ArithmeticError(f"the reference failed: {found.message}")
    excesses = np.array([data.excess(_beta(z, alpha)) for z in found.y.T])
    return Flow(data, alpha, found.sol, found.t, np.minimum.accumulate(excesses), int(found.nfev))


def _beta(z: Array, alpha: float) -> Array:
    return np.asarray(alpha**2 * np.sinh(2.0 * z))


def limit(x: Array, y: Array) -> tuple[Array, Array]:
    """Jump times (K,), in units of -log alpha, and levels (K,) as alpha -> 0, by the recursion of [PF23] Algorithm 1.

    Charges grow at the rate of the gradient; who reaches +-1 may take that sign; the coefficients are then the least
    squares with the signs that are allowed.
    """
    n, d = x.shape
    charges, signs = np.zeros(d), np.zeros(d)
    beta = np.zeros(d)
    times, levels, now = [], [], 0.0
    top = float(np.abs(x.T @ y).max()) / n
    for _ in range(20 * d + 20):
        rest = y - x @ beta
        pull = np.where(beta == 0.0, x.T @ rest / n, 0.0)
        pull[np.abs(pull) <= 1e-10 * top] = 0.0
        gap = np.full(d, np.inf)
        up, down = pull > 0, pull < 0
        gap[up], gap[down] = (1.0 - charges[up]) / pull[up], (1.0 + charges[down]) / -pull[down]
        wait = float(gap.min())
        if not np.isfinite(wait):
            break
        charges = np.clip(charges + wait * pull, -1.0, 1.0)
        now += wait
        arrived = gap <= wait * (1.0 + 1e-9)
        charges[arrived] = np.sign(pull[arrived])
        signs = np.where(np.abs(charges) == 1.0, charges, 0.0)
        allowed = np.flatnonzero(signs)
        beta = np.zeros(d)
        beta[allowed] = signs[allowed] * nnls(x[:, allowed] * signs[allowed], y, maxiter=100 * d)[0]
        times.append(now)
        levels.append(0.5 * float(np.sum((y - x @ beta) ** 2)) / n)
    return np.array(times), np.array(levels)
