"""Which head of a linear attention network learns which principal component, and when: the theory's answer.

Between two jumps the residual is diagonal in the principal basis, l_i = N lam_i^2 for the components not yet learned
and 0 for the others. A dormant head then has an exact solution up to one number z = int V dt: with p = K + Q and
q = K - Q in that basis,

    p_i = p_i(0) exp(l_i z),  q_i = q_i(0) exp(-l_i z),  z'' = V' = (1/4) sum_i l_i (p_i^2 - q_i^2).

All heads are followed together until the first would hold component i at its final amplitude, V K_i Q_i = A_i: the
switch of the drop, where the frozen law crosses the norm at which the head saturates. As alpha -> 0 the times are
blow-up times of these equations and grow as 1/alpha. What is left out, active heads on their way to equilibrium, takes
a time that does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import half_drop_ratio
from agf.rounding import TIED

#: Growth (log) at which a head is as good as blown up. Derived: the rest of its time has a closed form, wrong by
#: exp(-25) = 1e-11 of it, the tolerance of the integration.
_GROWN = 25.0
#: Relative tolerance of the integration. Cost: times are right to ten digits.
_RTOL = 1e-11


@dataclass(frozen=True)
class Jump:
    """One jump.

    Parameters
    ----------
    time : float
        Flow time of the switch.
    half_time : float
        Flow time of the half-drop.
    heads : int ndarray, shape (k,)
        The heads that make it.
    components : int ndarray, shape (k,)
        The components learned.
    began : float
        Flow time at which the phase began: that of the jump before, 0 for the first.
    log_norm : float
        Log of the largest norm of a dormant head when the phase began.
    """

    time: float
    half_time: float
    heads: IntArray
    components: IntArray
    began: float
    log_norm: float


def race(
    heads: tuple[FloatArray, FloatArray, FloatArray],
    log_scale: float,
    rates: FloatArray,
    groups: IntArray,
    amplitudes: FloatArray,
) -> list[Jump]:
    """Jumps in order of time, until every component is learned, no head is left, or no head grows.

    Parameters
    ----------
    heads : tuple[FloatArray, float ndarray, FloatArray]
        V (H,), K and Q (H, d) in the principal basis, over exp(log_scale).
    rates : float ndarray, shape (d,)
        l_i = N lam_i^2, decreasing.
    groups : int ndarray, shape (d,)
        Number of the group of equal rates of each component; which direction of a group is learned is up to the head.
    amplitudes : float ndarray, shape (d,)
        Final amplitudes A_i.
    """
    values, keys, queries = (np.array(part) for part in heads)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    room = np.where(rates[starts] > 0, np.bincount(groups), 0)
    log_goals = np.log(amplitudes[starts]) - 3.0 * log_scale
    waiting = np.ones(values.size, dtype=bool)
    idle = np.zeros(values.size)  # squares of what lies along learned components, where nothing is left to gain
    now, jumps = 0.0, []
    while waiting.any() and room.any():
        left = np.where(room[groups] > 0, rates, 0.0)
        unit = np.exp(-log_scale) / left.max()
        rival = np.flatnonzero(waiting)
        squares = values**2 + np.sum(keys**2 + queries**2, axis=1) + idle
        racers = _Racers(
            values[rival], keys[rival], queries[rival], left / left.max(), starts, np.where(room > 0, log_goals, np.inf)
        )
        finish = racers.run()
        if finish is None:
            break
        values[rival], keys[rival], queries[rival] = finish.values, finish.keys, finish.queries
        winners = rival[finish.first]
        components = []
        for h, group in zip(winners, finish.groups[finish.first], strict=True):
            along = np.where(groups == group, keys[h], 0.0)
            if room[group] == 0 or np.sum(along**2) <= TIED * np.sum(finish.keys**2):
                continue  # an equal head of this jump has this direction already
            along /= np.linalg.norm(along)
            for part in (keys, queries):  # of a group that has room left, what remains is orthogonal to what is learned
                idle += (part @ along) ** 2
                part -= np.outer(part @ along, along)
            components.append(int(starts[group] + np.count_nonzero(groups == group) - room[group]))
            room[group] -= 1
        jumps.append(
            Jump(
                time=now + finish.time * unit,
                half_time=now + finish.half_time * unit,
                heads=winners,
                components=np.array(components),
                began=now,
                log_norm=0.5 * float(np.log(squares[rival].max())) + log_scale,
            )
        )
        waiting[winners] = False
        now += finish.time * unit
    return jumps


@dataclass(frozen=True)
class _Finish:
    """All heads at the switch of the first: V (m,), K and Q (m, d), the group each leads in, and which are first."""

    time: float
    half_time: float
    values: FloatArray
    keys: FloatArray
    queries: FloatArray
    groups: IntArray
    first: BoolArray


@dataclass(frozen=True)
class _Racers:
    """m dormant heads on a diagonal residual; rates are over the largest and norms over a scale, so of order one.

    Parameters
    ----------
    log_goals : float ndarray
        Log of the amplitude that ends the race in each group of components, inf where nothing is left to learn.
    """

    values: FloatArray
    keys: FloatArray
    queries: FloatArray
    rates: FloatArray
    starts: IntArray
    log_goals: FloatArray

    def run(self) -> _Finish | None:
        """Follow all of them until the first is there; None when none ever is."""
        m = self.values.size
        start = np.concatenate([np.zeros(m), self.values, [0.0]])
        grown = np.log(self._norms(start).max()) + _GROWN

        half_way = 3.0 * np.log(half_drop_ratio(3))
        events: list[Any] = [
            lambda _, y: self._lead(y).max() - half_way,
            lambda _, y: self._lead(y).max(),
            lambda _, y: np.log(self._norms(y).max()) - grown,
        ]
        events[1].terminal = events[2].terminal = True
        y, half = start, 0.0
        if events[1](0.0, start) < 0:
            run = solve_ivp(
                self._velocity, (0.0, 1e4 * np.sqrt(m)), start, "DOP853", events=events, rtol=_RTOL, atol=1e-13
            )
            if run.status != 1:
                return None
            assert run.y_events is not None  # events were asked for
            y = run.y[:, -1]
            half = float(run.y_events[0][0][-1]) if len(run.y_events[0]) else 0.0
        lead = self._lead(y)
        best = lead.max(axis=1)
        time = float(y[-1])
        if best.max() < -1e-6:  # stopped grown, and blows up as d rho/dt = growth rho^2, amplitudes as rho^3
            h = int(np.argmax(best))
            p, q = self._modes(y)
            norm = self._norms(y)[h]
            growth = 0.75 * y[m + h] * np.sum(self.rates * (p[h] ** 2 - q[h] ** 2)) / norm**2
            time, half = (float(y[-1] + (1.0 - np.exp((best[h] - part) / 3.0)) / growth) for part in (0.0, half_way))
        p, q = self._modes(y)
        first = best >= best.max() + np.log1p(-TIED)
        return _Finish(time, half, y[m : 2 * m], 0.5 * (p + q), 0.5 * (p - q), np.argmax(lead, axis=1), first)

    def _modes(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p and q, (m, d)."""
        exponent = np.clip(y[: self.values.size, None] * self.rates, -300.0, 300.0)
        return (self.keys + self.queries) * np.exp(exponent), (self.keys - self.queries) * np.exp(-exponent)

    def _norms(self, y: FloatArray) -> FloatArray:
        p, q = self._modes(y)
        m = self.values.size
        return np.sqrt(y[m : 2 * m] ** 2 + 0.5 * np.sum(p**2 + q**2, axis=1))

    def _lead(self, y: FloatArray) -> FloatArray:
        """Log of the amplitude in each group over its goal, (m, groups); very negative where it is not positive."""
        p, q = self._modes(y)
        m = self.values.size
        held = 0.25 * y[m : 2 * m, None] * np.add.reduceat(p**2 - q**2, self.starts, axis=1)
        return np.log(np.maximum(held, 1e-300)) - self.log_goals

    def _velocity(self, _: float, y: FloatArray) -> FloatArray:
        """In s, ds = (root of the sum of squared norms) dt, in which norms grow exponentially and never blow up."""
        p, q = self._modes(y)
        m = self.values.size
        v = y[m : 2 * m]
        pace = np.sqrt(np.sum(v**2) + 0.5 * np.sum(p**2 + q**2))
        force = 0.25 * np.sum(self.rates * (p**2 - q**2), axis=1)
        return np.concatenate([v, force, [1.0]]) / pace
