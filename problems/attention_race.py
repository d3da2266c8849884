"""Which head of a linear attention network learns which principal component, and when: the theory's answer.

Between two jumps the residual is diagonal in the principal basis, l_i = N lam_i^2 for the components not yet learned
and 0 for the others. A dormant head then has an exact solution up to one number z = int V dt: with p = K + Q and
q = K - Q in that basis,

    p_i = p_i(0) exp(l_i z),  q_i = q_i(0) exp(-l_i z),  z'' = V' = (1/4) sum_i l_i (p_i^2 - q_i^2).

All heads are followed together until the first reaches the norm at which it saturates. As alpha -> 0 the times are
blow-up times of these equations and grow as 1/alpha. What is left out, active heads on their way to equilibrium, takes
a time that does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import half_drop_ratio

#: Growth (log) at which a head is as good as blown up: what remains of its time is 1e-11 of it, and has a closed form.
_GROWN = 25.0
#: Heads whose log norms agree to this at a jump make it together.
_TIED = 1e-9
_RTOL = 1e-11


@dataclass(frozen=True)
class Jump:
    """One jump: flow times of the switch and of the half-drop, the heads (k,) that make it, the components learned."""

    time: float
    half_time: float
    heads: IntArray
    components: IntArray


def race(
    heads: tuple[FloatArray, FloatArray, FloatArray],
    log_scale: float,
    rates: FloatArray,
    groups: IntArray,
    radii: FloatArray,
) -> list[Jump]:
    """Jumps in order of time, until every component is learned, no head is left, or no head grows.

    heads : V (H,), K and Q (H, d) in the principal basis, over exp(log_scale).
    rates : (d,) l_i = N lam_i^2, decreasing.
    groups : (d,) number of the group of equal rates of each component; which direction of a group is learned is up to
        the head.
    radii : (d,) norm at which a head that holds component i saturates.
    """
    values, keys, queries = (np.array(part) for part in heads)
    room = np.bincount(groups)
    room[np.unique(groups[rates <= 0])] = 0
    learned = np.zeros_like(room)
    waiting = np.ones(values.size, dtype=bool)
    now, jumps = 0.0, []
    while waiting.any() and (learned < room).any():
        left = np.where((learned < room)[groups], rates, 0.0)
        leader = int(np.argmax(left))
        rival = np.flatnonzero(waiting)
        found = _first(
            values[rival], keys[rival], queries[rival], left / left[leader], np.log(radii[leader]) - log_scale
        )
        if found is None:
            break
        (half, switch), values[rival], keys[rival], queries[rival], first = found
        unit = np.exp(-log_scale) / left[leader]
        winners = rival[first]
        before, components = keys.copy(), []
        for h in winners:
            weight = np.bincount(groups, np.where(left > 0, before[h] ** 2, 0.0))
            group = groups == np.argmax(weight)
            along = np.where(group, keys[h], 0.0)
            if np.sum(along**2) <= _TIED * weight.max():  # an equal head of this jump has it already
                continue
            along /= np.linalg.norm(along)
            for part in (keys, queries):
                part -= np.outer(part @ along, along)
            components.append(int(np.flatnonzero(group)[learned[groups[group][0]]]))
            learned[groups[group][0]] += 1
        jumps.append(Jump(now + switch * unit, now + half * unit, winners, np.array(components)))
        waiting[winners] = False
        now += switch * unit
    return jumps


def _first(
    values: FloatArray, keys: FloatArray, queries: FloatArray, rates: FloatArray, log_radius: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, BoolArray] | None:
    """Times at which the first head is at its half-drop and at `log_radius`, all heads then, and which are there.

    Everything is of order one but `log_radius`: rates relative to the largest, norms to the scale. None if none grows.
    """
    m = values.size
    plus, minus = keys + queries, keys - queries

    def parts(y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        exponent = np.clip(y[:m, None] * rates, -300.0, 300.0)
        p, q, v = plus * np.exp(exponent), minus * np.exp(-exponent), y[m : 2 * m]
        return p, q, np.sqrt(v**2 + 0.5 * np.sum(p**2 + q**2, axis=1))

    def velocity(_: float, y: FloatArray) -> FloatArray:
        p, q, norms = parts(y)
        pace = np.sqrt(np.sum(norms**2))  # ds = pace dt: in s norms grow exponentially and never blow up
        force = 0.25 * np.sum(rates * (p**2 - q**2), axis=1)
        return np.concatenate([y[m : 2 * m], force, [1.0]]) / pace

    def reach(log_norm: float):  # type: ignore[no-untyped-def]
        return lambda _, y: np.log(parts(y)[2].max()) - log_norm

    start = np.concatenate([np.zeros(m), values, [0.0]])
    goals = np.array([log_radius + np.log(half_drop_ratio(3)), log_radius])
    stop = min(goals[1], np.log(parts(start)[2].max()) + _GROWN)
    events = [reach(goals[0]), reach(stop)]
    events[1].terminal = True
    if events[1](0.0, start) >= 0:
        y, half = start, 0.0
    else:
        run = solve_ivp(velocity, (0.0, 1e4 * np.sqrt(m)), start, "DOP853", events=events, rtol=_RTOL, atol=1e-13)
        if run.status != 1:
            return None
        assert run.y_events is not None  # events were asked for
        assert run.t_events is not None
        y = run.y_events[1][0]
        half = run.y_events[0][0][-1] if run.t_events[0].size else 0.0
    p, q, norms = parts(y)
    first = norms >= norms.max() * (1 - _TIED)
    times = np.array([half, y[-1]])
    if stop < goals[1]:  # aligned, and blowing up as d rho/dt = growth rho^2
        lead = int(np.argmax(norms))
        growth = 0.75 * y[m + lead] * np.sum(rates * (p[lead] ** 2 - q[lead] ** 2)) / norms[lead] ** 3
        times = y[-1] + (1.0 / norms[lead] - np.exp(-goals)) / growth
    return times, y[m : 2 * m], 0.5 * (p + q), 0.5 * (p - q), first
