"""Dormant neurons that turn while the active ones settle.

[AGF] Algorithm 1 lets dormant neurons keep their directions during a drop. For degree 2 a direction turns as fast as
the active neurons settle, however small its norm: a drop moves it along the way of its residual, a (leaky) ReLU neuron
into another cone perhaps, from where it goes to another end. What the charge changes by meanwhile is nothing beside
log 1/alpha. These neurons are followed exactly, on a residual that is held for a little while and then renewed.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.init import Init
from agf.integrators import Accepted
from agf.rectified.dormant_parts import exact_flow

#: E-folds below the norm of its own drop from which a newcomer is followed. Derived: the residual has moved by the
#: square of that before, 1e-6, which is below what it is known to.
EARLY = 7.0
#: Change of the residual, over its size at the start of the drop, for which it is held. Cost: it is held at its mean,
#: so that directions err by the square of this.
_HELD = 0.01


class Carrying:
    """Dormant neurons along the accepted steps of the active ones.

    Parameters
    ----------
    problem : Problem
        One that `has_exact_flow`.
    origin : Init
        Where all neurons started: what balances a neuron's parts is what it was there.
    rows : int ndarray, shape (k,)
        Which neurons.
    directions : float ndarray, shape (k, P)
        Unit rows, at the start of the drop; `directions` has them at any time since.

    Attributes
    ----------
    moves : int
        How often they were moved.
    """

    def __init__(self, problem: Problem, origin: Init, rows: IntArray, directions: FloatArray) -> None:
        self.problem, self.rows, self._directions = problem, rows, directions.copy()
        self._start = origin.directions[rows], np.zeros(rows.size)
        self.moves = 0
        self._enough = np.inf  # change of the residual after which the neurons are moved
        self._begin: FloatArray | None = None  # residual when they were moved last
        self._integral, self._span = np.zeros(0), 0.0  # of the residual since, and how long that is

    def see(self, neurons: IntArray, step: Accepted) -> None:
        """Go on by a step of the active neurons (m,)."""
        if self.rows.size == 0:
            return

        def residual(y: FloatArray) -> FloatArray:
            return np.asarray(self.problem.residual(y.reshape(neurons.size, -1), neurons))

        span = step.s1 - step.s0
        start, middle, end = (residual(y) for y in (step.y0, step.dense(0.5 * (step.s0 + step.s1)), step.y1))
        if self._begin is None:
            self._begin, self._enough = start, _HELD * float(np.linalg.norm(start))
            self._integral = np.zeros_like(start)
        self._integral = self._integral + span / 6.0 * (start + 4.0 * middle + end)
        self._span += span
        if np.linalg.norm(end - self._begin) > self._enough:
            self._move()
            self._begin = end

    @property
    def directions(self) -> FloatArray:
        """(k, P) unit rows after all steps so far."""
        self._move()
        return self._directions

    def _move(self) -> None:
        if self._span == 0.0:
            return
        log_norms = np.zeros(self.rows.size)
        flow = exact_flow(
            self.problem, self._integral / self._span, self.rows, self._directions, log_norms, origin=self._start
        )
        if flow is None:  # more than memory holds: they keep their directions, as in the paper
            return
        flow.run(self._span)
        self.moves += 1
        self._directions = flow.inside(np.arange(self.rows.size), self._span)[0]
        self._integral, self._span = np.zeros_like(self._integral), 0.0
