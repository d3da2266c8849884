"""Diagonal networks at finite alpha: prediction against gradient flow, any initialization, gradient flow in z."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.diagonal_linear.flow import MirrorFlow
from agf_problems.diagonal_linear.mirror import Mirror
from diagonal_cases import (
    coefficients,
    diagonal,
    five_coordinates,
    observed_half_times,
    random_problem,
    returning_problem,
)
from hypothesis import example, given
from hypothesis import strategies as st

import agf

# -- finite alpha ---------------------------------------------------------------------------------------------------


def half_drop_errors(x, y, alpha, threshold="natural"):
    problem = diagonal(x, y)
    init = problem.init(alpha)
    stairs = agf.predict(problem, init, threshold=threshold)
    flow = agf.flow(problem, init)
    return stairs.half_times[1:] / observed_half_times(flow, stairs) - 1.0


@pytest.mark.parametrize(
    ("data", "alpha", "percent"),
    [  # the table of the design, with its last digit rounded up
        (five_coordinates, 1e-4, [0.01, 0.04, 0.81, 1.6, 0.16]),
        (five_coordinates, 1e-8, [0.005, 0.035, 0.1, 0.23, 0.08]),
        (returning_problem, 1e-4, [0.005, 0.5, 1.3]),
    ],
)
def test_natural_thresholds_predict_half_drop_times_of_gradient_flow(data, alpha, percent):
    x, y = data()
    natural = np.abs(half_drop_errors(x, y, alpha))
    assert (100 * natural <= percent).all()
    unit = np.abs(half_drop_errors(x, y, alpha, "unit"))
    assert natural.max() < unit.max()


@pytest.mark.parametrize("alpha", [1e-2, 1e-16, 1e-50, 1e-200, 1e-300])
def test_every_alpha_is_ordinary(alpha):
    x, y = five_coordinates()
    errors = np.abs(half_drop_errors(x, y, alpha))
    # the error of a switch is O(1) in z, of which the prediction needs log(1/alpha)
    assert (errors < 0.4 / np.log(1 / alpha)).all()


def test_error_of_the_limit_falls_like_the_inverse_of_log_alpha():
    x, y = five_coordinates()
    problem = diagonal(x, y)
    limit = problem.theory()
    alphas = [1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128]
    errors = []
    for alpha in alphas:
        flow = agf.flow(problem, problem.init(alpha))
        observed = observed_half_times(flow, limit) / -np.log(alpha)
        errors.append(np.abs(observed / limit.accelerated_times[1:] - 1.0).max())
    slope = np.polyfit(np.log(-np.log(alphas)), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)


def test_prediction_tends_to_the_limit():
    problem = diagonal(*random_problem(np.random.default_rng(14), "correlated"))
    limit = problem.theory()
    stairs = agf.predict(problem, problem.init(1e-300), mode="agf")
    assert [d.neurons.tolist() for d in stairs.drops] == [d.neurons.tolist() for d in limit.drops]
    np.testing.assert_allclose(stairs.levels, limit.levels, rtol=1e-12)
    np.testing.assert_allclose(stairs.accelerated_times, limit.accelerated_times, rtol=0.05)


def test_natural_prediction_is_covariant_under_rescaling_of_the_targets():
    x, y = returning_problem()
    base = diagonal(x, y)
    scaled = diagonal(x, 1e4 * y)  # beta scales by 1e4, the weights by 1e2
    a, b = agf.predict(base, base.init(1e-6), mode="agf"), agf.predict(scaled, scaled.init(1e-4), mode="agf")
    np.testing.assert_allclose(b.times, a.times / 1e4, rtol=1e-12)
    np.testing.assert_allclose(b.half_times, a.half_times / 1e4, rtol=1e-12)
    np.testing.assert_allclose(b.levels, a.levels * 1e8, rtol=1e-12, atol=1e-20)


def test_lone_coordinate_activates_at_the_equal_area_time():
    # beta' = 2 sqrt(alpha^4 + beta^2) (1 - beta): the integral of the residual is asinh(1/alpha^2)/2
    problem = diagonal([[1.0]], [1.0])
    stairs = agf.predict(problem, problem.init(1e-3), mode="agf")
    assert stairs.times[1] == pytest.approx(0.5 * np.arcsinh(1e6), rel=1e-14)
    unit = agf.predict(problem, problem.init(1e-3), threshold="unit")
    assert unit.times[1] == pytest.approx(0.5 * np.arccosh(0.5e6), rel=1e-12)  # [AGF] with rho^2 = 2 alpha^2 cosh 2z


def test_state_records_weights_norms_and_signs_of_the_prediction():
    x, y = returning_problem()
    problem = diagonal(x, y)
    init = problem.init(1e-5)
    engine = agf.Engine(problem, init)
    state = engine.init()
    for _ in range(3):
        step = engine.step(state)
        state = step.state
        beta = step.drop.features["coefficients"]
        np.testing.assert_allclose(state.params[:, 0] * state.params[:, 1], beta, atol=1e-15)
        rho2 = np.exp(2 * state.log_norms)
        np.testing.assert_allclose(rho2[state.active] ** 2, 4 * (beta[state.active] ** 2 + 1e-20), rtol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(state.directions, axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(state.active, beta != 0)
    assert engine.step(state).status is agf.Status.FITTED


def test_steps_do_not_depend_on_what_was_stepped_before():
    problem = diagonal(*random_problem(np.random.default_rng(15), "correlated"))
    engine = agf.Engine(problem, problem.init(1e-6))
    states = [engine.init()]
    drops = []
    while (step := engine.step(states[-1])).drop is not None:
        states.append(step.state)
        drops.append(step.drop)
    for k in np.random.default_rng(0).permutation(len(drops)):
        after, activation = engine.phases.dormant(states[k])
        engine.phases.dormant(states[-1])  # moves what is cached
        assert engine.phases.active(after, activation)[1].level == pytest.approx(drops[k].level, rel=1e-10, abs=1e-25)
        again = engine.step(states[k])
        assert again.drop.time == pytest.approx(drops[k].time, rel=1e-12)
        assert again.drop.level == pytest.approx(drops[k].level, rel=1e-10, abs=1e-25)
        np.testing.assert_array_equal(again.drop.neurons, drops[k].neurons)


def test_alpha_too_large_for_the_data_is_refused_in_a_sentence():
    x, y = returning_problem()
    problem = diagonal(x, 1e-6 * y)
    with pytest.raises(agf.RequestError, match=r"larger than what the data ask for.*Choose a smaller"):
        agf.predict(problem, problem.init(0.1), mode="agf")
    with pytest.raises(agf.RequestError, match="larger than what the data ask for"):
        agf.predict(problem, problem.init(1.0), mode="agf")
    with pytest.raises(agf.RequestError, match="alpha < 1"):
        problem.theory(alpha=2.0)
    with pytest.raises(agf.DataError, match="positive"):
        problem.theory(alpha=-1.0)


# -- any initialization ---------------------------------------------------------------------------------------------


@given(
    u=st.floats(-2, 2), v=st.floats(-2, 2), exponent=st.integers(-300, -1), z=st.floats(-5, 5)
)  # fmt: skip
@example(u=1.0, v=1.0, exponent=-3, z=1.0)
@example(u=0.0, v=0.0, exponent=-3, z=1.0)
def test_mirror_coordinates_are_p_times_exp_z_and_q_times_exp_minus_z(u, v, exponent, z):
    small = 10.0**exponent
    theta = np.array([[u, v], [1.0, 0.0]])
    init = agf.Init.scaled(theta, small)
    mirror = Mirror.of(init)
    # in units of small, where nothing underflows
    p, q = (u + v) * np.exp(z), (u - v) * np.exp(-z)
    if max(abs(p), abs(q)) < 1e-3:
        return
    depth = np.array([z, z])
    directions, log_norms = mirror.polar(depth)
    np.testing.assert_allclose(
        directions[0] * np.exp(log_norms[0] - np.log(small)),
        [(p + q) / 2, (p - q) / 2],
        atol=1e-11 * max(abs(p), abs(q)),
    )
    if exponent > -100:
        beta = (p * p - q * q) / 4
        np.testing.assert_allclose(mirror.coefficients(depth)[0] / small**2, beta, atol=1e-11 * (p * p + q * q))
        np.testing.assert_allclose(mirror.squares(depth)[0] / small**2, (p * p + q * q) / 2, rtol=1e-11)


@given(size=st.floats(1e-6, 1e6), exponent=st.integers(-300, -1), sign=st.sampled_from([-1.0, 1.0]))
def test_depth_of_a_coefficient_is_where_the_coefficient_is_that(size, exponent, sign):
    alpha = 10.0**exponent
    mirror = Mirror.of(agf.Init.scaled(np.array([[np.sqrt(2.0), 0.0]]), alpha))
    z = mirror.depth(mirror.height_of_coefficient(np.array([size])), np.array([sign]))
    assert mirror.coefficients(z)[0] == pytest.approx(sign * size, rel=1e-11)
    if exponent > -70:
        assert z[0] == pytest.approx(sign * 0.5 * np.arcsinh(size / alpha**2), rel=1e-13)
        assert mirror.log_norms(z)[0] == pytest.approx(0.25 * np.log(4 * (size**2 + alpha**4)), abs=1e-11)


def test_balanced_initialization_never_changes_sign():
    # u = v: p > 0, q = 0, so beta = p^2/4 >= 0 for ever and the negative coordinate is out of reach
    x = np.eye(2)
    problem = diagonal(x, [1.0, -1.0])
    init = agf.Init.from_params(1e-5 * np.ones((2, 2)))
    stairs = agf.predict(problem, init, mode="agf")
    assert stairs.status is agf.Status.NO_GROWTH
    np.testing.assert_allclose(coefficients(stairs), [[1.0, 0.0]])
    flow = agf.flow(problem, init, t_max=3 * stairs.times[-1])
    np.testing.assert_allclose(flow.features("coefficients")[-1], [1.0, 0.0], atol=1e-6)
    assert stairs.half_times[1] == pytest.approx(observed_half_times(flow, stairs)[0], rel=1e-3)


def test_random_unbalanced_initialization_is_predicted_as_well():
    x, y = five_coordinates()
    problem = diagonal(x, y)
    for seed in range(3):
        init = problem.init(1e-30, seed=seed, kind="gaussian")
        stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
        np.testing.assert_allclose(stairs.half_times[1:], observed_half_times(flow, stairs), rtol=5e-3)


def test_neuron_that_starts_at_exactly_zero_stays_there():
    problem = diagonal(np.eye(3), [1.0, 2.0, 3.0])
    theta = np.array([[1e-6, 0.0], [0.0, 0.0], [1e-6, 0.0]])
    stairs = agf.predict(problem, agf.Init.from_params(theta), mode="agf")
    assert [d.neurons.tolist() for d in stairs.drops] == [[2], [0]]
    assert stairs.status is agf.Status.NO_GROWTH


@pytest.mark.parametrize("kind", ["equal", "gaussian"])
def test_flow_in_z_is_gradient_flow_in_u_and_v(kind):
    from scipy.integrate import solve_ivp

    x, y = random_problem(np.random.default_rng(16), "correlated")
    problem = diagonal(x, y)
    init = problem.init(0.3, seed=1, kind=kind)
    neurons = np.arange(x.shape[1])

    def right(_: float, w: np.ndarray) -> np.ndarray:
        return -problem.loss_grad(w.reshape(-1, 2), neurons)[1].ravel()

    times = np.array([0.01, 0.1])
    weights = solve_ivp(right, (0, 0.1), init.params().ravel(), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    system = problem.flow_system(init)
    z = solve_ivp(lambda _, w: system.velocity(w), (0, 0.1), system.start(), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    for k in range(2):
        snapshot = system.snapshot(z[k])
        theta = snapshot.directions * np.exp(snapshot.log_norms)[:, None]
        np.testing.assert_allclose(theta, weights[k].reshape(-1, 2), atol=1e-7)
        loss, gradient = problem.loss_grad(theta, neurons)
        assert system.loss(z[k]) == pytest.approx(loss, rel=1e-9)
        assert system.loss_rate(z[k]) == pytest.approx(-np.sum(gradient**2), rel=1e-6)


def test_growth_sees_dormant_coordinates_and_nothing_else():
    x, y = five_coordinates()
    problem = diagonal(x, y)
    init = problem.init(1e-40)
    system = MirrorFlow(x, y, init)
    assert system.growth(system.start()) == pytest.approx(np.abs(x.T @ y / 20).max())
    mirror = Mirror.of(init)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    z = mirror.depth(mirror.height_of_coefficient(np.abs(best)), np.sign(best))
    assert system.growth(z) == pytest.approx(0.0, abs=1e-10)
