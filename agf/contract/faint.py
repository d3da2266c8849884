"""Starts whose growth float64 does not hold: the leading order vanishes by symmetry, and the next one drowns in it.

Where targets are uncorrelated with all that neurons make to leading order (XOR for tanh) they grow by the next order,
which is smaller by a power of their norm. Summed over the data together with the leading one it is rounding below some
norm, and what is followed from there is noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.contract.interaction import SOME
from agf.contract.order import Order, noise, order
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.sphere import norms

#: Log norms at which the power of the next order is read off. Derived: it is the whole of the pull there, to a percent,
#: and far from rounding.
_READ = -np.log(100.0) - np.log([1.0, 2.0])
#: Departure from a power of two of the pull at twice the norm, relative to it, above which the pull is rounding.
#: Derived: EPS over SUM is 2e-3, and half of it is left to either pull.
_ROUGH = 1e-3


@dataclass(frozen=True)
class Nothing:
    """What a problem says of the network without neurons: its residual and its loss."""

    residual: Any
    loss: float

    @classmethod
    def of(cls, problem: Problem) -> Nothing:
        """Ask once for both: doors need them again and again."""
        empty = problem.empty
        return cls(problem.residual(*empty), float(problem.loss_grad(*empty)[0]))


def refuse_faint(problem: Problem, init: Init, where: str, nothing: Nothing | None = None) -> None:
    """Raise RequestError, with the smallest alpha that serves, where growth from these weights is rounding.

    A problem may sum what is beyond the leading order by itself (`TwoLayer` of half-squared loss does): its pulls are
    powers of the norm at any size, and nothing is refused.
    """
    if problem.cornered or type(problem).pull is Problem.pull:
        return  # neurons of one order
    alive = np.isfinite(init.log_norms)
    alive[list(problem.permanent)] = False
    rows = alive.nonzero()[0][:SOME]
    if not rows.size:
        return
    nothing = Nothing.of(problem) if nothing is None else nothing
    directions, residual = init.directions[rows], nothing.residual
    if order(problem, directions, rows, residual, nothing.loss) is not Order.NEXT:
        return  # the leading order counts, or nothing ever grows
    rounding = noise(problem, directions, rows, nothing.loss)

    def pull(log_norms: FloatArray) -> FloatArray:
        return np.asarray(problem.pull(directions, log_norms, rows, residual))

    now, double = pull(init.log_norms[rows]), pull(init.log_norms[rows] + np.log(2.0))
    if _longest(now) > rounding or _a_power(now, double):
        return
    above, below = (_longest(pull(np.full(rows.size, log_norm))) for log_norm in _READ)
    log_least = _READ[0] - np.log(above / rounding) / max(round(np.log2(above / below)), 1)
    factor = float(np.exp(log_least - init.log_norms[rows].max()))
    raise RequestError(
        explain(
            "to leading order these targets do not make the neurons grow, by symmetry, and the next order is below "
            "the rounding of float64 at weights as small as these.",
            where=f"{where} of problem {problem.name!r}",
            found=f"neurons of norm {np.exp(init.log_norms[rows].max()):.2g}",
            expected=f"norms of {np.exp(log_least):.2g} or more",
            remedy=f"Choose an alpha {factor:.2g} times as large; times go as a power of it.",
        )
    )


def _longest(rows: FloatArray) -> float:
    return float(np.max(norms(np.asarray(rows))))


def _a_power(now: FloatArray, double: FloatArray) -> bool:
    """Whether pulls (m, P) are whole powers of the norm: those at twice the norm, over them, a power of two."""
    if not now.any():
        return False
    factor = 2.0 ** max(round(np.log2(max(_longest(double) / _longest(now), 1.0))), 1)
    return _longest(double - factor * now) <= _ROUGH * _longest(double)
