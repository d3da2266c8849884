"""The field in which dormant neurons move on a frozen residual.

In ds = rho^(degree - 2) dt ([AGF] eq. 2 in polar form) nothing is stiff and nothing overflows at any scale:

    d direction / ds = tangent part of grad U,    d log rho / ds = degree U,    d t / ds = rho^(2 - degree).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.algorithm.threshold import expect_shape
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.init import Init
from agf.sphere import lengths


@dataclass(frozen=True)
class Batch:
    """Dormant neurons on one frozen residual.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    residual : Any
        Frozen, as `problem.residual` returned it.
    clock : Clock
        What accelerated time is.
    directions : float ndarray, shape (m, P)
        Unit rows.
    log_norms : float ndarray, shape (m,)
        Their log norms; rows of norm 0 stay where they are.
    neurons : int ndarray, shape (m,)
        Their indices.
    origin : Init or None, optional
        Where training started: exact flows carry what they conserve from there.
    contrary : bool, optional
        Whether neurons go the other way at forks, where the flow is not unique.
    rounded : bool, optional
        Whether exact flows slide along kinks at the pace that the trainer's rounding leaves them.
    stepped : bool, optional
        Whether neurons with kinks are taken in steps, also where their flow is known exactly.
    """

    problem: Problem
    residual: Any
    clock: Clock
    directions: FloatArray
    log_norms: FloatArray
    neurons: IntArray
    origin: Init | None = None
    contrary: bool = False
    rounded: bool = False
    stepped: bool = False

    def some(self, rows: IntArray, directions: FloatArray, log_norms: FloatArray) -> Batch:
        """Some of its rows (k,), where these arrays (m, P), (m,) say that all are."""
        neurons = self.neurons[rows]
        return replace(self, directions=directions[rows], log_norms=log_norms[rows], neurons=neurons)


class Field:
    """Velocities of neurons by the utility of their problem; columns of a row: direction, log norm, elapsed time.

    Attributes
    ----------
    p : int
        Parameters of a neuron.
    pace : float
        dt/ds for degree 2.
    evaluations : int
        Of the utility, so far.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch, self.p = batch, batch.directions.shape[1]
        self.pace = float(np.exp(min(-batch.clock.log_scale, 700.0)))
        self.evaluations = 0

    def utility(self, unit: FloatArray, neurons: IntArray) -> tuple[FloatArray, FloatArray]:
        """Utilities (m,) and their gradients (m, P) at unit rows."""
        self.evaluations += 1
        problem = self.batch.problem
        utility, gradient = problem.utility(unit, neurons, self.batch.residual)
        expect_shape(problem, "utility", utility, (neurons.size,))
        expect_shape(problem, "utility gradient", gradient, unit.shape)
        return utility, gradient

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2)."""
        p, degree = self.p, self.batch.problem.degree
        theta = y[:, :p]
        unit = theta / lengths(theta)[:, None]
        utility, gradient = self.utility(unit, neurons)
        out = np.empty_like(y)
        np.subtract(gradient, np.vecdot(unit, gradient)[:, None] * unit, out=out[:, :p])
        np.multiply(utility, degree, out=out[:, p])
        if degree == 2:
            out[:, p + 1] = self.pace
        else:
            out[:, p + 1] = np.exp(np.minimum((2 - degree) * y[:, p] - self.batch.clock.log_scale, 700.0))
        return out

    def aligned_utility(self, f: FloatArray) -> FloatArray:
        """|grad U| / degree at unit norm, (m,): the utility of a row that is aligned with its gradient.

        From its velocity, whose radial part is degree U by Euler's identity.
        """
        return lengths(f[:, : self.p + 1]) / self.batch.problem.degree
