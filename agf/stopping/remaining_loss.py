"""What a decaying flow can still lose, told by the Hessian: also where the loss falls like a power of time.

Two neurons may move off to infinity with outputs that cancel, and the loss fall as t^-q to an infimum it never reaches.
The gradient g is then along a mode of curvature c with c t = (1 + q) / 2, and can still lose (1 + q) / q times
g^2 / 2 c, what an exponential decay of that rate loses. Modes that grow must be told from those of a saddle: where the
loss falls like a power of time they grow as powers too, at a rate that falls as 1/t; at a saddle the rate holds up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray
from agf.numerics.ndf import cholesky
from agf.rounding import EPS
from agf.stopping.driver import Moment

#: Power of time, q, that is supposed of what is slow: decays are t^-q at the slowest, and neurons part as t^q at the
#: fastest, their growth rate times the age being q. Result: of the loss said to be left, which a slower decay exceeds,
#: and of saddles told from decays; at 5 one that is left within a fifth of the age would pass for a decay, at 0.05
#: every exponential end would be followed seven times as far.
_POWER = 0.5
#: Loss that a decay t^-q still loses, over the age times its rate of decay. Derived: (1 + q) / q.
_SLOW = (1.0 + _POWER) / _POWER
#: Factor by which a growth rate times the age may change over a doubling of the age or more. Derived: it is 1 where the
#: loss falls like a power of time, 2 or more at a saddle, and this is as far from the one as from the other.
_HELD = 2.0**0.5
#: e-folds over the time ahead below which a mode that grows does not count. Derived: it then changes by a factor, and
#: not by an order.
_IDLE = 1.0
#: Gradients below this fraction of what the stiffest mode makes of y are rounding. Derived: the gradient of a quadratic
#: form, and ten operations on it.
_ROUNDING = 10 * EPS


def left(now: Moment, ahead: float, earlier: Moment | None, rounding: float = 1.0) -> float:
    """Loss that the flow can still lose in a time `ahead`; inf where a mode grows away from here, or none is known.

    Costs a gradient, a Hessian and its modes, and where a mode grows the same of an earlier moment, at half the age or
    less. rounding : how many times more of a gradient counts as rounding than is.
    """
    modes = _Curvatures.of(now, rounding)
    if modes is None:
        return np.inf
    rate = modes.escaping(ahead)
    if rate > 0:
        then = None if earlier is None else earlier.system.hessian(earlier.y)
        before = 0.0
        if earlier is not None and then is not None:
            before = earlier.t * max(-float(np.linalg.eigvalsh(then)[0]), 0.0)
        if not before / _HELD <= rate * now.t <= min(_HELD * before, _POWER):
            return np.inf
    return modes.left(ahead)


def escape(now: Moment, ahead: float) -> float:
    """Rate of the fastest mode along which the flow leaves within a time `ahead`; 0 when it stays, or cannot tell."""
    if ahead <= 0.0:
        return 0.0
    hessian = now.system.hessian(now.y)
    if hessian is None or cholesky(hessian, _IDLE / ahead) is not None:
        return 0.0
    return _Curvatures.from_hessian(now, hessian).escaping(ahead)


@dataclass(frozen=True)
class _Curvatures:
    """Curvatures (N,), the gradient along each (N,), 0 where that is rounding, the rounding of the former, and |y|."""

    curvatures: FloatArray
    pulls: FloatArray
    rounding: float
    size: float

    @classmethod
    def of(cls, now: Moment, rounding: float) -> _Curvatures | None:
        hessian = now.system.hessian(now.y)
        return None if hessian is None else cls.from_hessian(now, hessian, rounding)

    @classmethod
    def from_hessian(cls, now: Moment, hessian: FloatArray, rounding: float = 1.0) -> _Curvatures:
        values, vectors = np.linalg.eigh(hessian)
        pulls, size = -vectors.T @ now.system.velocity(now.y), float(np.linalg.norm(now.y))
        stiffest = float(np.abs(values).max())
        pulls[np.abs(pulls) <= rounding * _ROUNDING * stiffest * size] = 0.0
        return cls(values.astype(np.float64), pulls, values.size * EPS * stiffest, size)

    def escaping(self, ahead: float) -> float:
        """Rate of the fastest mode that grows to the size of y in a time `ahead`; 0 when none does.

        One that is rounding now counts where even its square would have grown from there.
        """
        growing = self.curvatures < -self.rounding
        rates, pulls = -self.curvatures[growing], np.abs(self.pulls[growing])
        seeds = np.where(pulls > 0, pulls, EPS**2 * self.size * rates)
        needs = np.maximum(np.log(self.size * rates / seeds), _IDLE)
        return float(np.max(rates, where=rates * ahead > needs, initial=0.0))

    def left(self, ahead: float) -> float:
        lasting = np.full(self.curvatures.size, ahead)
        decays = self.curvatures > self.rounding
        lasting[decays] = np.minimum(ahead, 0.5 * _SLOW / self.curvatures[decays])
        return float(self.pulls**2 @ lasting)
