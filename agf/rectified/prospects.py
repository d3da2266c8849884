"""Whether small (leaky) ReLU neurons of one output will ever grow beside large ones at rest: what ends a flow.

Small neurons turn before they grow, and beside kinks no Jacobian tells where to. Their flow on the residual of the
large ones is known exactly: so is the rate that each comes to, and whether a drop follows that is worth waiting for
(`agf.escape`). Where none does, the flow is over, at a minimum of all networks or at a spurious end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf.arrays import FloatArray
from agf.contract.problem import Problem
from agf.init import Init
from agf.rectified.cones import Arrangement
from agf.rectified.escape import AT_REST, LEAVING, MOVING, WORTH, judge
from agf.rectified.pulls import SLIGHT
from agf.rectified.samples import Samples
from agf.results.network import Neurons
from agf.rounding import SUM
from agf.sphere import normalize

#: Faces, and products of neurons and samples, up to which it is asked. Cost: a tenth of a second each time.
FACES, PRODUCTS = 5_000, 10**5


def prospects(
    problem: Problem, origin: Init, worth: float = WORTH
) -> Callable[[FloatArray, FloatArray], tuple[float, bool] | None] | None:
    """(unit rows (H, P), log norms (H,)) -> rate 1/s that small neurons come to, 0 where none ever grows, inf where a
    large one leaves its cone first, and whether it is that of a large one which stands on a kink, to rounding, that
    pushes it to both sides; None where they move otherwise. None for other problems, and large ones. Drops of less than
    `worth` of the loss of the zero function do not count.  origin : where the flow took them from."""
    samples = Samples.of(problem)
    if samples is None or origin.width * samples.X.shape[0] > PRODUCTS or Arrangement.of(samples.X).bound > FACES:
        return None

    inputs = normalize(samples.X[samples.X.any(axis=1)])

    def rate(directions: FloatArray, log_norms: FloatArray) -> tuple[float, bool] | None:
        there = Neurons(normalize(directions), log_norms, np.isfinite(log_norms), "the flow", origin=origin)
        found = judge(problem, there, starts=1, worth=worth)
        if found.motion > AT_REST:
            return (np.inf, False) if np.isinf(found.motion) else None
        # what still moves may be all that neurons reach: a slow mode beside which no flow is over, either
        comes = found.verdict in (LEAVING, MOVING)
        parked = False
        if (k := found.neuron) is not None and log_norms[k] > log_norms.max() + np.log(SLIGHT):
            heights = normalize(directions[k : k + 1, :-1]) @ inputs.T
            parked = bool(np.min(np.abs(heights)) <= SUM)
        return 2.0 * found.reached if comes else 0.0, parked

    return rate
