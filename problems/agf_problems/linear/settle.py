"""Where the active modes of a linear network settle, and whether they later turn to better ones.

A critical point of fixed rank need not be its minimum: weakly coupled modes, or modes that outnumber the hidden units,
leave a saddle from which the active modes turn to modes of larger energy after a time of their own. Seen along the
flow, that is a second drop behind a plateau.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from agf.arrays import FloatArray, IntArray
from agf.integrators import Accepted, MarchError, march

#: Relative accuracy of a settled level, and of the smallest level that matters, in units of the initial loss.
SETTLED = 1e-6
#: The flow has passed a plateau when |g|^2 has risen this much from its lowest ...
_RISE = 4.0
#: ... where it would have taken this many times the time since the last drop to lose as much again.
_FLAT = 0.05
#: A further drop counts when it takes at least this fraction off the loss that can be explained.
_VISIBLE = 1e-3
#: Steps after which a flow that goes nowhere is left alone.
_MAX_STEPS = 20_000


@dataclass(frozen=True)
class Rest:
    """A state along the flow: y, velocity g, time t since the start, loss above the floor, whether it settled here."""

    y: FloatArray
    g: FloatArray
    t: float
    loss: float
    settled: bool = False

    @property
    def speed(self) -> float:
        """-dL/dt."""
        return float(self.g @ self.g)


@dataclass(frozen=True)
class Path:
    """What the flow does until the next activation.

    Parameters
    ----------
    rest : Rest
        The first plateau, or the state at the horizon.
    half : float
        Time halfway down to it.
    horizon : float
        Time of the next activation seen from there.
    turn : tuple[float, FloatArray] or None
        Time and state halfway down a second drop before the horizon, or None.
    failed : bool
        Whether no rest was reached.
    """

    rest: Rest
    half: float
    horizon: float
    turn: tuple[float, FloatArray] | None
    evaluations: int
    failed: bool = False


@dataclass(frozen=True)
class Flow:
    """Gradient flow y' = velocity(y) of the active modes.

    Parameters
    ----------
    loss : callable
        Above the floor.
    horizon : callable
        State -> time of the next activation, from the start.
    above : float
        Loss before the drop that the start is in.
    best : float
        Lowest loss this flow could reach.
    least : float
        Smallest fall that can be this drop.
    whole : float
        Loss of the zero function.
    span : float
        Longest time.
    rtol : float
        Of `agf.integrators.march`.
    scale : callable
        Of `agf.integrators.march`.
    groups : int ndarray
        Of `agf.integrators.march`.
    """

    velocity: Callable[[FloatArray], FloatArray]
    loss: Callable[[FloatArray], float]
    horizon: Callable[[FloatArray], float]
    above: float
    best: float
    least: float
    whole: float
    span: float
    rtol: float
    scale: Callable[[FloatArray], FloatArray]
    groups: IntArray

    def follow(self, y: FloatArray) -> Path:
        """From y to the first plateau, and on to a second drop if one comes before the horizon."""
        now = Rest(y, self.velocity(y), 0.0, self.loss(y))
        fastest = lowest = now  # since the last plateau, and since the fastest
        base = replace(now, loss=self.above)
        rest: Rest | None = None
        end, evaluations = self.horizon(y), 1
        steps: list[tuple[Accepted, float]] = []
        try:
            for step in self._march(y):
                evaluations = step.evaluations + 1
                now = Rest(step.y1, step.f1, step.s1, self.loss(step.y1))
                steps.append((step, now.loss))
                settled = self._settled(now, end)
                if rest is None and (settled or now.t >= end):
                    end = self.horizon(now.y)
                    settled = self._settled(now, end)
                if now.t >= end:
                    now = self._at(step, max(end, step.s0))
                    if rest is not None and rest.loss - now.loss < 0.5 * (rest.loss - self.best):
                        now = rest  # a turn that has hardly begun is left to the next phase
                    break
                if now.speed > fastest.speed:
                    fastest = lowest = now
                elif now.speed < lowest.speed:
                    lowest = now
                passed = min(now.speed, fastest.speed) > _RISE * lowest.speed and self._flat(lowest, base)
                if rest is None and (settled or passed):
                    rest = replace(now, settled=True) if settled else lowest
                    if settled and now.loss - self.best <= SETTLED * self.whole:
                        now = rest
                        break
                    end = self.horizon(rest.y)
                    fastest = lowest = base = rest
                elif rest is not None and (settled or passed) and rest.loss - now.loss > _VISIBLE * self.whole:
                    break
        except MarchError:
            if rest is None:
                return Path(now, now.t, end, None, evaluations, failed=True)
        rest = rest or now
        half = self._crossing(steps, 0.5 * (self.above + rest.loss))[0]
        visible = rest.loss - now.loss > _VISIBLE * self.whole
        turn = self._crossing(steps, 0.5 * (rest.loss + now.loss)) if visible else None
        return Path(rest, half, end, turn, evaluations)

    def _march(self, y: FloatArray) -> Iterator[Accepted]:
        return march(
            self.velocity,
            y,
            method="auto",
            rtol=self.rtol,
            scale=self.scale,
            groups=self.groups,
            s_end=self.span,
            max_steps=_MAX_STEPS,
        )

    def _at(self, step: Accepted, t: float) -> Rest:
        """The state at time t within a step."""
        y = step.dense(t)
        return Rest(y, self.velocity(y), t, self.loss(y))

    def _settled(self, now: Rest, end: float) -> bool:
        """Whether what the flow can still lose before `end`, to first order, does not matter."""
        return now.speed * (end - now.t) <= SETTLED * max(now.loss, SETTLED * self.whole)

    def _flat(self, low: Rest, base: Rest) -> bool:
        fall = base.loss - low.loss
        return fall >= self.least and low.speed * (low.t - base.t) <= _FLAT * fall

    def _crossing(self, steps: list[tuple[Accepted, float]], level: float) -> tuple[float, FloatArray]:
        """First time and state at which the loss is at most `level`; the start, or the end, if it never crosses."""
        step = next((step for step, after in steps if after <= level), steps[-1][0])
        early, late = step.s0, step.s1
        while late - early > 1e-9 * step.s1:
            middle = 0.5 * (early + late)
            early, late = (early, middle) if self.loss(step.dense(middle)) <= level else (middle, late)
        return late, step.dense(late)
