"""Networks whose hidden units mix, predicted by modes: against gradient flow in modes, and the linear plugin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tiny import Mixing, Sensing

import agf
from agf.algorithm import mixing
from agf.records.status import Status


def errors(problem, init):
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    levels = stairs.levels
    observed = [flow.time_at(0.5 * (a + b)) for a, b in pairwise(levels)]
    return stairs, flow, np.abs(stairs.half_times[1:] / observed - 1)


@pytest.mark.parametrize("alpha", [1e-8, 1e-20, 1e-100])
def test_a_linear_network_of_ones_own_is_predicted_at_any_scale(rng, alpha):
    X = rng.standard_normal((80, 4))
    Y = X @ rng.standard_normal((4, 3)) + 0.1 * rng.standard_normal((80, 3))
    problem = agf.TwoLayer(X, Y, activation="linear", width=5)
    stairs, flow, wrong = errors(problem, problem.init(alpha, seed=1))
    assert [drop.label for drop in stairs.drops] == ["mode 0", "mode 1", "mode 2"]
    assert stairs.status is Status.FITTED
    # what the natural threshold leaves out: turning during a drop, of order one e-fold of log(1/alpha)
    assert wrong.max() < 0.2 / -np.log(alpha)
    assert stairs.levels[-1] == pytest.approx(flow.losses[-1], rel=1e-4)
    theirs = agf.problem("linear", X=X, Y=Y, width=5)
    np.testing.assert_allclose(
        agf.predict(theirs, problem.init(alpha, seed=1), mode="agf").levels, stairs.levels, rtol=1e-3
    )


def test_a_budget_that_runs_out_in_an_active_phase_says_so_and_keeps_the_drops_before(monkeypatch):
    problem = Mixing(np.diag([1.0, 0.5]), 2)
    whole = agf.predict(problem, problem.init(1e-6), mode="agf")
    monkeypatch.setattr(mixing, "BUDGET", 3)
    cut = agf.predict(problem, problem.init(1e-6), mode="agf")
    assert len(whole.drops) == 2
    assert cut.status is Status.MAX_STEPS  # it was called stalled
    assert "budget" in cut.notes[-1]


def test_matrix_sensing_is_predicted_and_the_error_falls_with_alpha(rng):
    problem = Sensing(rng)
    worst = [errors(problem, problem.init(alpha))[2].max() for alpha in (1e-4, 1e-20)]
    # first order in 1/log(1/alpha): a fifth
    assert worst[0] < 0.06
    assert worst[1] < 0.4 * worst[0]


def test_commuting_modes_are_learned_at_the_inverse_of_their_rates():
    # aligned weights of size alpha in modes of rates 1 and 1/2; R*^2 = 2 b: activation at log(R*/alpha) / b exactly
    problem = Mixing(np.diag([1.0, 0.5]), 2)
    alpha = 1e-10
    theta = alpha * np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]) / np.sqrt(2.0)
    stairs = agf.predict(problem, agf.Init.from_params(theta), mode="agf")
    b = np.array([1.0, 0.5])
    np.testing.assert_allclose(stairs.times[1:], np.log(np.sqrt(2 * b) / alpha) / b, rtol=1e-9)
    # half-way u v = b (1 - 1/sqrt 2) of a mode from alpha^2/2: time log of the odds over 2 b
    x = 1 - np.sqrt(0.5)
    half = np.log(x / (1 - x) * (2 * b / alpha**2 - 1)) / (2 * b)
    np.testing.assert_allclose(stairs.half_times[1:], half, rtol=1e-5)
    np.testing.assert_allclose(stairs.levels, [0.625, 0.125, 0.0], atol=1e-6)


def test_modes_of_equal_rate_and_size_activate_together():
    problem = Mixing(np.eye(2), 2)
    theta = 1e-8 * np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    stairs = agf.predict(problem, agf.Init.from_params(theta), mode="agf")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0, 1]]


def test_fewer_units_than_modes_end_all_active():
    problem = Mixing(np.diag([3.0, 2.0, 1.0]), 2)
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    assert stairs.status is Status.ALL_ACTIVE
    assert len(stairs.drops) == 2
    assert stairs.levels[-1] == pytest.approx(0.5, rel=1e-4)


def test_nothing_to_learn_is_fitted_at_once():
    problem = Mixing(np.zeros((2, 2)), 2)
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf")
    assert (stairs.status, len(stairs.drops)) == (Status.FITTED, 0)


def test_predictions_hang_on_no_floor_of_the_coordinates_that_training_is_asked_to_take():
    """coordinates="weights" loses modes below 1e-16 of the weights they are in: drops came 36 % early, under 3 %."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 3))
    y = x @ rng.standard_normal((3, 3)) + 0.1 * rng.standard_normal((30, 3))
    weights, factored = (agf.problem("linear", X=x, Y=y, width=4, coordinates=c) for c in ("weights", "factored"))
    init = weights.init(1e-40, seed=0)
    assert agf.flow(weights, init, t_max=1.0).notes  # training says so
    one, other = (agf.predict(problem, init, mode="resolved", conditioning=False) for problem in (weights, factored))
    np.testing.assert_allclose(one.half_times, other.half_times, rtol=2e-5)


@pytest.mark.parametrize(("seed", "alpha"), [(0, 1.0), (1, 0.5), (3, 1.0), (7, 1.0), (12, 0.5), (24, 0.5)])
def test_a_mode_that_activates_with_the_one_before_is_no_step_back_in_time(seed, alpha):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((15, 3))
    y = X @ [1.0, 0.4, -0.2] + 0.1 * rng.standard_normal(15)
    problem = agf.TwoLayer(X, y, activation="linear", width=4)
    stairs = agf.predict(problem, problem.init(alpha, seed), mode="agf")
    assert np.all(np.diff(stairs.times) >= 0)
