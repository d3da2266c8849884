"""By how much Algorithm 1 is late, to first order, against the flow itself in coordinates of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import agf
from agf.algorithm.deviation import Deviation
from agf.algorithm.lag import Lag


def table(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 4)) @ (np.eye(4) + 0.4)
    return x, x @ np.array([3.0, -1.0, 0.6, -0.3]) + 0.1 * rng.standard_normal(30)


def flow(x, y, alpha, end):
    """z(t) and the loss of a diagonal network: z' = -dL/dbeta, beta = alpha^2 sinh 2 z."""
    n, top = y.size, 20.0 - 2.0 * np.log(alpha)  # trial steps of the method may go anywhere

    def beta(z, f=np.sinh):
        return f(np.clip(2.0 * z, -top, top)) * alpha**2

    run = solve_ivp(
        lambda t, z: x.T @ (y - x @ beta(z)) / n, (0.0, end), np.zeros(x.shape[1]), "Radau", rtol=1e-9, atol=1e-9,
        dense_output=True, jac=lambda t, z: -2.0 * (x.T @ x / n) * beta(z, np.cosh),
    )  # fmt: skip
    return run.sol, lambda t: 0.5 * np.mean((y - x @ beta(run.sol(t))) ** 2)


def predicted(monkeypatch, x, y, alpha):
    """A prediction by Algorithm 1, the two lags of each drop, and the states from which they were told."""
    problem, found, states = agf.problem("diagonal-linear", X=x, y=y), [], []
    add, measure = Lag.add, Deviation.add

    def told(self, *others):
        found.append(add(self, *others))
        return found[-1]

    def measured(self, settled, activated, *others):
        states.append((settled, activated))
        measure(self, settled, activated, *others)

    monkeypatch.setattr(Lag, "add", told)
    monkeypatch.setattr(Deviation, "add", measured)
    stairs = agf.predict(problem, problem.init(alpha), mode="agf")
    monkeypatch.undo()
    return stairs, np.array(found), states


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_the_lag_of_those_that_are_still_dormant_is_exact(seed, monkeypatch):
    # between two drops z moves on straight lines: where that of the next newcomer meets its threshold is when the drop
    # is made, of the flow as well
    x, y = table(seed)
    stairs, lags, states = predicted(monkeypatch, x, y, 1e-40)
    z, _ = flow(x, y, 1e-40, stairs.drops[-1].half_time)
    for k in range(1, len(stairs.drops)):
        before, activated = states[k]
        new, now = stairs.drops[k].neurons[0], 0.5 * (stairs.drops[k - 1].half_time + stairs.drops[k].half_time)
        rate = x[:, new] @ (y - x @ before.memory.coefficients) / y.size
        true = now + (activated.memory.z[new] - z(now)[new]) / rate
        assert stairs.drops[k].time + lags[k, 0] == pytest.approx(true, abs=2e-3)  # e-folds of the plateau before
    assert np.abs(lags[:, 0]).max() > 0.01


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_what_is_left_out_of_half_times_is_known_to_first_order(seed, monkeypatch):
    x, y = table(seed)
    stairs, lags, _ = predicted(monkeypatch, x, y, 1e-40)
    halves = np.array([drop.half_time for drop in stairs.drops])
    _, loss = flow(x, y, 1e-40, 1.5 * halves[-1])
    for k, middle in enumerate(0.5 * (stairs.levels[:-1] + stairs.levels[1:])):
        late = brentq(lambda t, level=middle: loss(t) - level, 0.0, 1.5 * halves[-1], xtol=1e-9) - halves[k]
        assert abs(late - lags[k].sum()) <= 0.5 * np.abs(lags[k]).sum() + 1e-6 * halves[k]


def test_what_earlier_drops_have_done_is_felt_where_nobody_is_active_any_more():
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=[2.0, 1.0])
    engine = agf.Engine(problem, problem.init(1e-8))
    before = engine.init()
    step = engine.step(before)
    active, drop = np.flatnonzero(step.state.active), step.drop
    parts, done = problem.outputs(step.state.rows(active), active), np.array([0.3, -0.2])
    unit = problem.outputs(step.state.directions[active], active)[0]
    late = Lag(done).add(problem, before, step.state, drop, active, parts, parts[0], 0.0)
    assert late == pytest.approx((-float(unit @ done) / drop.utility[0], 0.0))
    assert late[0] != 0.0


def test_neurons_that_turn_have_no_lag(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3))
    problem = agf.TwoLayer(x, np.tanh(x @ [1.0, -1.0, 0.5]), width=3, activation="tanh")
    made, start = [], Deviation.__init__
    monkeypatch.setattr(Deviation, "__init__", lambda self, *a: made.append(self) or start(self, *a))
    stairs = agf.predict(problem, problem.init(1e-6, seed=0), mode="agf")
    assert stairs.drops
    assert [leg.lag for leg in made[0].legs] == [None] * len(stairs.drops)
