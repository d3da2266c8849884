"""Networks whose hidden units mix: against scipy where float64 suffices, the linear plugin at any scale."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tiny import Mixing, Product, Sensing

import agf
from agf.coordinates.choice import flow_system
from agf.coordinates.mode_system import ModeSystem, form, mixes, turns
from agf.coordinates.polar_system import PolarSystem


def test_which_networks_mix(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    linear, tanh, relu = (agf.TwoLayer(X, y, activation=a, width=3) for a in ("linear", "tanh", "relu"))
    assert [mixes(p) for p in (linear, Sensing(rng), Product(), tanh, relu, Product(3))] == 3 * [True] + 3 * [False]
    assert [turns(p) for p in (linear, Sensing(rng), tanh, relu, Product(3))] == [True, True, True, False, False]
    assert isinstance(flow_system(linear, linear.init(1e-6)), ModeSystem)
    assert isinstance(flow_system(tanh, tanh.init(1e-6)), PolarSystem)
    alone = agf.TwoLayer(X, y, activation="linear", width=1)
    assert isinstance(flow_system(alone, alone.init(1e-6)), PolarSystem)


def test_the_form_is_the_hessian_of_the_utility(rng):
    problem = Sensing(rng)
    residual = problem.residual(rng.standard_normal((2, 4)), np.zeros(2, dtype=int))
    theta = rng.standard_normal((5, 4))
    np.testing.assert_allclose(
        theta @ form(problem, residual), problem.utility(theta, np.zeros(5, dtype=int), residual)[1], rtol=1e-12
    )


@pytest.mark.parametrize("width", [2, 3, 6])
def test_the_velocity_is_that_of_the_weights(rng, width):
    # weights at y + h dy agree with Z + h Z Q to second order, for fewer, as many and more units than parameters
    problem = Sensing(rng, width)
    init = problem.init(0.3, seed=1)
    system = ModeSystem(problem, init)
    y = system.start()

    def gram(y):
        theta = agf.Init(*(getattr(system.snapshot(y), n) for n in ("directions", "log_norms")), 1.0).params()
        return theta.T @ theta

    np.testing.assert_allclose(gram(y), init.params().T @ init.params(), rtol=1e-12, atol=1e-14)
    h = 1e-6
    theta = init.params()
    push = -problem.loss_grad(theta, np.arange(width))[1] / system.unit
    left = (gram(y + h * system.velocity(y)) - gram(y - h * system.velocity(y))) / (2 * h)
    # central difference: h^2 times third derivatives of order one, and rounding 1e-16 / h
    np.testing.assert_allclose(left, push.T @ theta + theta.T @ push, atol=1e-8)


@pytest.mark.parametrize("width", [3, 6])
def test_half_drops_of_matrix_sensing_agree_with_scipy_on_raw_weights(rng, width):
    problem = Sensing(rng, width)
    init = problem.init(1e-3, seed=0)
    flow = agf.flow(problem, init)
    shape = (width, 4)
    theta = init.params()
    levels = [drop.after for drop in flow.drops]
    own = solve_ivp(
        lambda t, v: -problem.loss_grad(v.reshape(shape), np.arange(width))[1].ravel(),
        (0, flow.times[-1]), theta.ravel(), method="DOP853", rtol=1e-10, atol=1e-16, dense_output=True,
    )  # fmt: skip
    for drop in flow.drops[:3]:
        t = flow.time_at(0.5 * (drop.before + drop.after))
        loss = problem.loss_grad(own.sol(t).reshape(shape), np.arange(width))[0]
        # 1e-6 a step over some hundred steps, times the slope of the curve, at most the drop over its width
        assert loss == pytest.approx(0.5 * (drop.before + drop.after), rel=1e-3)
    assert levels[-1] < 1e-3 * flow.losses[0]


def test_a_linear_network_written_as_two_layer_follows_the_plugin_at_any_scale(rng):
    X, Y = rng.standard_normal((60, 4)), rng.standard_normal((60, 3))
    Y += X @ rng.standard_normal((4, 3))
    ours, theirs = agf.TwoLayer(X, Y, activation="linear", width=5), agf.problem("linear", X=X, Y=Y, width=5)
    theta = rng.standard_normal((5, 7))
    for alpha in (1e-8, 1e-60):
        init = agf.Init.scaled(theta, alpha)
        levels = theirs.theory().levels
        one, other = (agf.flow(p, init) for p in (ours, theirs))
        for level in 0.5 * (levels[:-1] + levels[1:]):
            assert one.time_at(level) == pytest.approx(other.time_at(level), rel=1e-4)


def test_mixing_by_a_problem_of_its_own_class_is_found():
    assert mixes(Mixing(np.diag([2.0, 1.0]), 4))


def test_a_mode_that_rests_until_others_have_learned_grows_from_its_own_size(monkeypatch):
    """Classes that one column tells apart at first: weights held no mode of 1e-100, which came at 2,391 for 9,796."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((12, 2)), np.arange(12) % 3
    pulls = np.eye(3)[y] - 1.0 / 3.0
    x[:, 1] -= pulls @ np.linalg.lstsq(pulls, x[:, 1], rcond=None)[0]
    problem = agf.TwoLayer(x, y, activation="linear", loss="cross-entropy", width=3)
    init = problem.init(alpha=1e-100, seed=1)
    flow = agf.flow(problem, init)
    monkeypatch.setattr(ModeSystem, "stiff", lambda self, y: None)
    modes = agf.flow(problem, init)
    np.testing.assert_allclose([d.time for d in flow.drops], [d.time for d in modes.drops], rtol=1e-5)
    assert flow.stats["evaluations"] < 2.0 * modes.stats["evaluations"]


def test_no_plateau_before_the_first_drop_is_left_in_weights():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 2))
    problem = agf.TwoLayer(x, np.arange(12) % 3, activation="linear", loss="cross-entropy", width=3)
    system = ModeSystem(problem, problem.init(alpha=1e-8, seed=1))
    assert system.stiff(system.start()) is None  # though all modes are as large, and weights hold them
