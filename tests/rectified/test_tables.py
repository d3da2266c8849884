"""Dormant states of the named data sets, neuron by neuron, against an integration that shares no code with ours.

`march` integrates balanced neurons, a = s |w|, with scipy's DOP853 at 1e-12 from wall to wall; at a wall the field is
the shortest in the Clarke set, by bounded least squares ([BF24] section 5.2), so it crosses or slides by definition.
Tolerances: of the integration over some ten growth times, 1e-8; of event times, 1e-9.
"""

import numpy as np
import pytest
from rectified_cases import D1, D2, D3, GRID, M4, M5D3, T3
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.ends import isotropic
from agf.rectified.walls import Walls


def march(X, c, w, s, until):
    """Input weights at a time, and the times at which walls were met; s is the sign of the output weight."""
    state, t, times = w, 0.0, []
    active, held = X @ w > 0, np.zeros(len(c), dtype=bool)
    for _ in range(50):
        D = c[active & ~held] @ X[active & ~held]
        if held.any():
            halves = (c[held, None] * X[held]).T
            shares = lsq_linear(halves, -D, (0.0, 1.0), method="bvls", tol=1e-15).x
            inner = (shares > 1e-9) & (shares < 1 - 1e-9)
            active[np.flatnonzero(held)[~inner]] = shares[~inner] > 0.5
            held[np.flatnonzero(held)[~inner]] = False
            D = D + halves @ shares
        if np.linalg.norm(D) < 1e-13 or not (active | held).any():
            break

        def right(_, w, D=D):
            return s * np.linalg.norm(w) * D

        walls = list(np.flatnonzero(~held))
        marks = [
            lambda _, w, k=k, up=active[k]: (X[k] @ w) * (1 if up else -1) + 1e-15 * np.linalg.norm(w) for k in walls
        ]
        for mark in marks:
            mark.terminal, mark.direction = True, -1
        found = solve_ivp(right, (t, until), state, method="DOP853", rtol=1e-12, atol=1e-30, events=marks)
        t, state = found.t[-1], found.y[:, -1]
        if found.status == 0:
            break
        k = walls[next(i for i, each in enumerate(found.t_events) if each.size)]
        state = state - (X[k] @ state) / (X[k] @ X[k]) * X[k]
        times.append(t)
        # beyond the wall, on it, or back: where the two fields push
        sides = []
        for on in (True, False):
            trial = active.copy()
            trial[k] = on
            sides.append(np.sign(s * (X[k] @ (c[trial & ~held] @ X[trial & ~held]))))
        if sides[0] < 0 < sides[1]:
            held[k] = True
        elif held.any():
            held[k] = True  # with others: bounded least squares decides
        else:
            active[k] = not active[k]
    return state, times


SETS = {
    "D1": (*D1, 1.0), "D2": (*D2, 1.0), "D3": (*D3, 1.0), "T3": (*T3, 1 / 3), "M4": (*M4, 1 / 4),
    "M5d3": (*M5D3, 1 / 5),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_directions_and_charges_are_those_of_a_plain_integration(name):
    X, y, weight = SETS[name]
    c = weight * y
    rng = np.random.default_rng(1)
    theta = np.vstack([isotropic(rng, 8, X.shape[1], sign) for sign in (1.0, -1.0)])
    until = 12.0 / np.linalg.norm(np.maximum(c, 0) @ X)
    flow = DormantFlow(Walls.of(X, c), theta, np.zeros(16))
    flow.run(until)
    directions, log_norms = flow.inside(np.arange(16), until)
    for j in range(16):
        sign = np.sign(theta[j, -1])
        w, _ = march(X, c, theta[j, :-1], sign, until)
        size = np.linalg.norm(w)
        assert directions[j] == pytest.approx(np.append(w / size, sign) / np.sqrt(2), abs=1e-8), j
        assert log_norms[j] == pytest.approx(np.log(size) + np.log(2) / 2, abs=1e-8), j


@pytest.mark.parametrize("name", ["D1", "D2", "D3"])
def test_event_times_of_sixteen_directions(name):
    X, y, _ = SETS[name]
    theta = np.column_stack([np.vstack([GRID, GRID]), np.repeat([1.0, -1.0], 16)]) / np.sqrt(2)
    flow = DormantFlow(Walls.of(X, y), theta, np.zeros(32))
    events = flow.run()
    for j in range(32):
        _, times = march(X, y, theta[j, :-1], np.sign(theta[j, -1]), 6.0)
        assert events.time[events.neuron == j] == pytest.approx(np.array(times), abs=1e-9), j
