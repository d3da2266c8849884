"""By how much Algorithm 1 is late where neurons keep their directions, to first order in what it leaves out.

Algorithm 1 lets the residual jump when a drop is made. At degree 2 and a half-squared loss the log norm of a neuron
moves at 2 <O, r>: O are its outputs at unit norm, r the residual. The norms on two plateaus are known; how they differ
is 2 <O, I> for each active neuron, where I is the integral over time of the residual less what Algorithm 1 takes it
for. As that difference is made of outputs of active neurons, it gives all of I, and with it how much earlier or later
the dormant neurons are. Dormant neurons that had all but activated count as well, while they shrink. What is left out
are neighbouring drops, which begin or end within this one, and how those that collapse do so.

The middle of a drop moves as well, for those active before follow the newcomer and lag behind. Let b be norms squared,
and a the coefficients of the newcomer's outputs in theirs: then log b_new - sum a log b_old moves at 4 U (1 - x), with
x = b_new over what it becomes. Old norms that follow at once, b_old = b_0 + x d, make that an integral with a closed
form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv

from agf.arrays import FloatArray, IntArray
from agf.clock import HALF
from agf.contract.problem import Problem
from agf.records.state import State
from agf.results.drop import Drop
from agf.rounding import RANK, TIED, TINY

#: Log norm of a dormant neuron, over the largest active one, below which its outputs are none. Derived: they are below
#: `TIED` of those of the active one.
_FAR = 0.5 * float(np.log(TIED))


@dataclass
class Lag:
    """The integral I of the drops so far.

    integral : (N,), of outputs and time.  since : what it was when these neurons left the active ones.
    """

    integral: FloatArray | float = 0.0
    since: dict[int, FloatArray | float] = field(default_factory=dict)

    def add(
        self,
        problem: Problem,
        before: State[Any],
        after: State[Any],
        drop: Drop,
        active: IntArray,
        parts: FloatArray,
        gained: FloatArray,
        share: float,
    ) -> tuple[float, float]:
        """Flow times by which this drop is late for those before it, and its middle for those that follow it.

        Parameters
        ----------
        problem : Problem
            Of degree 2, with outputs and a half-squared loss.
        before, after : State
            Settled, and settled again.
        drop : Drop
            What led there.
        active : int ndarray, shape (m,)
            Neurons active after it.
        parts : float ndarray, shape (m, N)
            Their outputs.
        gained : float ndarray, shape (N,)
            Change of the output of the network.
        share : float
            Sum of the norms squared of the dormant neurons, over that of the newcomer.
        """
        if share <= TIED and not before.active.any() and not isinstance(self.integral, np.ndarray):
            return 0.0, 0.0  # nobody is there to follow or to shrink, nor ever was
        new, utility = int(drop.neurons[0]), float(drop.utility[0])
        norms = after.log_norms[active]
        units = parts * np.exp(-2.0 * norms)[:, None]
        itself = active == new
        place = int(itself.argmax())  # none, if it has left at once
        felt, lag = self.integral - self.since.pop(new, 0.0), 0.0
        if isinstance(felt, np.ndarray) and itself[place]:
            lag = -float(units[place] @ felt) / utility
        # a newcomer is at its threshold when on a straight line it would have the norm at which it settles
        changes = np.where(before.active[active], norms - before.log_norms[active], 0.0)
        shrinking = self._shrinking(problem, before, after, active) if share > TIED else None
        right = np.array([0.5 * changes if shrinking is None else 0.5 * changes + units @ shrinking, itself]).T
        gram = units @ units.T
        gram.reshape(-1)[:: active.size + 1] += RANK * gram.max() + TINY  # equal columns share
        answers, row = dposv(gram, right, overwrite_b=1)[1].T
        for neuron in drop.collapsed.tolist():
            self.since[neuron] = self.integral
        self.integral = self.integral + lag * gained + answers @ units - (0.0 if shrinking is None else shrinking)
        if not itself[place]:
            return lag, 0.0
        # a row of the inverse of a Gram matrix holds the coefficients in all others
        gains = np.expm1(2.0 * changes)  # of norms squared, over those before
        follow = gains / (1.0 + gains) * (np.log1p(gains * HALF) - math.log1p(-HALF))
        return lag, float(row @ follow) / (4.0 * utility * float(row[place]))

    def _shrinking(
        self, problem: Problem, before: State[Any], after: State[Any], active: IntArray
    ) -> FloatArray | None:
        """Integral of the outputs of dormant neurons that had all but activated, and shrink at 4 |U| now: (N,), or
        None where there are none."""
        norms = after.log_norms
        some = (~(after.active | before.active) & (norms > norms[active].max() + _FAR)).nonzero()[0]
        if not some.size:
            return None
        rows = after.directions[some]
        utilities = problem.utility(rows, some, problem.residual(after.rows(active), active))[0]
        shrink = (utilities < 0).nonzero()[0]  # the others are about to activate: neighbouring drops
        if not shrink.size:
            return None
        if shrink.size < some.size:
            some, rows, utilities = some[shrink], rows[shrink], utilities[shrink]
        times = np.exp(2.0 * norms[some]) / (-4.0 * utilities)
        outputs = problem.outputs(rows, some)
        return None if outputs is None else np.asarray(times @ outputs)
