"""Training of linear networks: the factored flow against scipy's DOP853 in raw weights, at scales where float64 holds
them, and gradient descent on minibatches."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.linear.problem import Linear
from linear_cases import generic, observed
from scipy.integrate import solve_ivp

import agf


@pytest.mark.parametrize(("d", "width", "c"), [(4, 6, 3), (3, 3, 5), (4, 2, 4)])
def test_factored_flow_is_the_flow_of_raw_weights_where_float64_holds_both(d, width, c):
    problem = Linear(**generic(d + width, d=d, c=c), width=width, coordinates="factored")
    alpha = 1e-4
    init = problem.init(alpha)
    horizon = 1.5 * problem.theory(alpha=alpha).times[-1]
    neurons = np.arange(width)

    def velocity(t, y):
        return -problem.loss_grad(y.reshape(width, -1), neurons)[1].ravel()

    times = np.linspace(0.1, 1, 30) * horizon
    raw = solve_ivp(velocity, (0, horizon), init.params().ravel(), "DOP853", times, rtol=1e-12, atol=1e-18)
    losses = [problem.loss_grad(y.reshape(width, -1), neurons)[0] for y in raw.y.T]
    flow = agf.flow(problem, init, t_max=horizon, rtol=1e-8)
    np.testing.assert_allclose(flow.loss_at(times), losses, rtol=2e-4, atol=1e-7 * losses[0])
    last = problem.loss_grad(flow.params(-1), neurons)[0]
    assert last == pytest.approx(flow.losses[-1], rel=1e-9, abs=1e-12 * losses[0])
    np.testing.assert_allclose(np.exp(flow.log_norms[0]), np.linalg.norm(init.params(), axis=1), rtol=1e-12)


def test_raw_weights_warn_below_their_floor_and_jump_early_where_factors_do_not():
    arguments = generic(1)
    raw = Linear(**arguments, coordinates="weights")
    factored = Linear(**arguments)
    init = factored.init(1e-30)
    t_max = 1.1 * factored.theory(alpha=1e-30).times[-1]
    theory = factored.theory(alpha=1e-30)
    right = observed(agf.flow(factored, init, t_max=t_max), theory.levels)
    early = agf.flow(raw, init, t_max=t_max)
    assert any("float64" in note for note in early.notes)
    assert observed(early, theory.levels)[2] < 0.9 * right[2]
    np.testing.assert_allclose(right, theory.times[1:], rtol=0.1)
    assert not agf.flow(raw, raw.init(1e-2), t_max=1.0).notes


def test_coordinates_are_chosen_by_the_smallest_mode():
    problem = Linear(**generic(0))
    assert type(problem.flow_system(problem.init(1e-1))).__name__ == "WeightFlow"
    assert type(problem.flow_system(problem.init(1e-8))).__name__ == "ModeFlow"
    lone = Linear(Sxx=[[1.0]], B=[[1.0]])  # one mode: nothing to be small beside
    assert type(lone.flow_system(lone.init(1e-100))).__name__ == "WeightFlow"


@pytest.mark.parametrize("width", [1, 3])
def test_one_mode_is_learned_at_any_scale_of_the_weights(width, rng):
    """Weights whose squares are below the range of float64 are no coordinates: the flow of 1e-200 ended at its start.

    A lone mode grows like exp(sigma t), so that its half-drop time is linear in log alpha."""
    x = rng.standard_normal((20, 3))
    problem = Linear(X=x, Y=x @ np.array([[1.0], [-2.0], [0.5]]), width=width)
    alphas = np.array([1e-100, 1e-200, 1e-320])
    logs = [problem.init(alpha).log_alpha for alpha in alphas]
    sigma = np.linalg.norm(problem.target @ (x.T @ x / 20))
    for follow in (agf.flow, agf.predict):
        found = [follow(problem, problem.init(alpha)).drops for alpha in alphas]
        assert [len(drops) for drops in found] == [1, 1, 1]
        steps = np.diff([drops[0].half_time if follow is agf.predict else drops[0].time for drops in found])
        np.testing.assert_allclose(steps, -np.diff(logs) / sigma, rtol=1e-4)
    raw = Linear(X=x, Y=x[:, :1], width=width, coordinates="weights")
    assert "below the range of float64" in agf.flow(raw, raw.init(1e-200)).notes[0]


def test_the_flow_does_not_park_at_a_saddle_and_ends_at_the_best_map():
    problem = Linear(**generic(2, d=3, c=3))
    flow = agf.flow(problem, problem.init(1e-20))
    assert flow.status is agf.Status.SETTLED
    assert flow.losses[-1] < 1e-5 * flow.losses[0]
    values, left, right = (flow.features(name)[-1] for name in ("singular_values", "left", "right"))
    gap = (problem.target - left.T * values @ right) @ problem.root
    assert 0.5 * np.sum(gap**2) == pytest.approx(flow.losses[-1], rel=1e-6)
    assert flow.features("rank")[0] == 0
    assert flow.features("rank")[-1] == 3
    assert flow.features("left").shape[1:] == (3, 3)


def test_minibatches_average_to_the_gradient_and_scatter_as_stated(rng):
    x = rng.standard_normal((40, 3))
    sampled = Linear(X=x, Y=x @ rng.standard_normal((3, 2)) + 0.1 * rng.standard_normal((40, 2)), width=4)
    for problem in (sampled, Linear(**generic(1, d=3, c=2), width=4)):
        theta, who, size = rng.standard_normal((4, 5)), np.arange(4), 8
        full = problem.loss_grad(theta, who)[1]
        rows = rng.permutation(problem.n_samples)
        parts = [(r.size * problem.batch_loss_grad(theta, who, r)[1]) for r in np.array_split(rows, 7)]
        np.testing.assert_allclose(sum(parts) / rows.size, full, rtol=1e-8, atol=1e-9)
        draws = [rng.choice(problem.n_samples, size, replace=False) for _ in range(4000)]
        w, a = problem.weights(theta)
        x_all, y_all = problem.samples
        gaps = [(y_all[r] - x_all[r] @ (a @ w).T).T @ x_all[r] / size for r in draws]
        # rows drawn without replacement from n: the variance of a mean is that of a row, (n - size) / (n - 1) / size
        r, n = y_all - x_all @ (a @ w).T, problem.n_samples
        variance = (r**2).T @ x_all**2 / n - (r.T @ x_all / n) ** 2
        # 4,000 draws give a standard deviation to 1/sqrt(8000) = 1.1 %; heavy tails of products double it.
        np.testing.assert_allclose(np.var(gaps, axis=0), variance * (n - size) / (n - 1) / size, rtol=0.24)


def test_descent_on_minibatches_follows_the_staircase():
    problem = Linear(Sxx=np.diag([1.0, 0.2]), B=np.diag([2.0, 1.5]), width=2)
    init = problem.init(1e-4)
    noisy = agf.descend(problem, init, lr=0.02, steps=3000, batch_size=64, seed=1)
    flow = agf.flow(problem, init, t_max=60.0)
    levels = problem.theory().levels
    np.testing.assert_allclose(observed(noisy, levels), observed(flow, levels), rtol=0.1)


def test_few_units_far_above_the_data_go_on_to_the_minimum():
    """They fit what their directions let them in a time of order one, and turn the rest of the way by t = 2e13."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((12, 3))
    y = 1e-6 * (x @ rng.standard_normal((3, 2)) + 0.1 * rng.standard_normal((12, 2)))
    problem, neurons = Linear(X=x, Y=y, width=2), np.arange(2)
    init = problem.init(1.0, seed=2)
    flow = agf.flow(problem, init)
    assert flow.status is agf.Status.SETTLED
    assert flow.losses[-1] == pytest.approx(problem.least_loss(init), rel=1e-6)
    assert flow.stats["evaluations"] < 5000
    times = np.array([1e6, 1e9, 1e11, 1e12, 3e12, 1e13])
    raw = solve_ivp(
        lambda t, z: -problem.loss_grad(z.reshape(2, 5), neurons)[1].ravel(),
        (0, times[-1]),
        init.params().ravel(),
        "Radau",
        times,
        rtol=1e-9,
        atol=1e-17,
        jac=lambda t, z: -problem.hessian(z.reshape(2, 5), neurons),
    )
    losses = [problem.loss_grad(z.reshape(2, 5), neurons)[0] for z in raw.y.T]
    np.testing.assert_allclose(flow.loss_at(times), losses, rtol=1e-4)


def unlike_columns():
    """One output, columns of sizes a thousand to a thousandth: after its drop the mode relaxes at rates 1e8 apart."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((13, 3)) * [1.0, 30.0, 3e-2]
    y = x @ rng.standard_normal(3) + 0.1 * rng.standard_normal(13)
    return x, y[:, None]


@pytest.mark.parametrize("alpha", [1e-3, 1e-300])
def test_columns_of_unlike_size_settle_without_explicit_steps_through_the_end(alpha, tmp_path):
    x, y = unlike_columns()
    problem = Linear(X=x, Y=y, width=1)
    init = problem.init(alpha, seed=0)
    flow = agf.flow(problem, init)
    assert flow.status is agf.Status.SETTLED
    assert flow.losses[-1] == pytest.approx(problem.least_loss(init), rel=1e-4)
    assert flow.stats["evaluations"] < 10_000
    agf.flow(problem, init, max_steps=int(0.9 * flow.stats["steps"])).save(tmp_path / "part.npz")
    rest = agf.flow(problem, init, resume=agf.load(tmp_path / "part.npz"))
    assert np.array_equal(rest.times, flow.times)
    assert np.array_equal(rest.losses, flow.losses)
    stairs = agf.predict(problem, init, mode="resolved", conditioning=False)
    assert stairs.levels[-1] - problem.least_loss(init) < 1e-5 * stairs.start_level
    assert stairs.stats["velocity_evaluations"] < 10_000


@pytest.mark.parametrize("seed", [0, 3])
def test_stiff_modes_are_stepped_in_weights_from_where_these_hold_them_all(seed):
    """Asked at every doubling of the time, and then in explicit steps again, predictions took 1.1 of the flow."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, 4)) * [10.0, 3.0, 0.3, 0.1]
    y = x @ rng.standard_normal((4, 3))
    problem = Linear(X=x, Y=y + 0.5 * y.std() * rng.standard_normal(y.shape), width=3)
    init = problem.init(1e-6, seed=seed)
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert stairs.stats["velocity_evaluations"] < 0.95 * flow.stats["evaluations"]
    assert stairs.levels[-1] == pytest.approx(problem.least_loss(init), abs=1e-5 * stairs.start_level)
    times = [flow.time_at(level) for level in 0.5 * (stairs.levels[1:] + stairs.levels[:-1])]
    assert np.all(np.abs(stairs.half_times[1:] / times - 1.0) <= [drop.error for drop in stairs.drops])


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_other_units_of_the_targets_change_nothing_else(scale):
    x, y = generic_rows(0)
    plain, other = (Linear(X=x, Y=factor * y, width=3) for factor in (1.0, scale))
    starts = [problem.init(1e-8 * np.sqrt(factor), seed=0) for problem, factor in ((plain, 1.0), (other, scale))]
    for run in (lambda p, i: agf.predict(p, i, mode="resolved", conditioning=False), agf.predict):
        one, two = run(plain, starts[0]), run(other, starts[1])
        assert two.status is one.status
        np.testing.assert_allclose(scale * two.half_times[1:], one.half_times[1:], rtol=1e-5)
        np.testing.assert_allclose(two.levels / scale**2, one.levels, rtol=1e-4)
    one, two = agf.flow(plain, starts[0]), agf.flow(other, starts[1])
    assert two.status is one.status
    assert two.losses[-1] / scale**2 == pytest.approx(one.losses[-1], rel=1e-5)


def generic_rows(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, 4))
    return x, x @ rng.standard_normal((4, 3)) + 0.1 * rng.standard_normal((20, 3))


def test_a_column_that_is_all_but_a_copy_takes_nothing_from_the_prediction():
    """Its own mode is rounding of the second moments: with it, the default ended after one drop of 1e-4 of the loss."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((17, 4))
    x[:, -1] = x[:, 0] * (1.0 + 1e-6 * rng.standard_normal(17))
    y = x @ rng.standard_normal((4, 6)) + 0.1 * rng.standard_normal((17, 6))
    problem = Linear(X=x, Y=y, width=4)
    init = problem.init(1e-100, seed=0)
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert len(stairs.drops) == 3
    assert stairs.levels[-1] == pytest.approx(flow.losses[-1], rel=1e-4)
    np.testing.assert_allclose(stairs.half_times[1:], observed(flow, stairs.levels), rtol=3e-4)


def test_a_run_in_two_parts_is_the_run_in_one(tmp_path):
    problem = Linear(**generic(0))
    init = problem.init(1e-3)
    whole = agf.flow(problem, init)
    agf.flow(problem, init, max_steps=20).save(tmp_path / "part.npz")
    rest = agf.flow(problem, init, resume=agf.load(tmp_path / "part.npz"))
    assert np.array_equal(rest.times, whole.times)
    for name, values in whole.features_over_time.items():
        assert np.array_equal(rest.features_over_time[name], values)


def test_the_loss_is_known_where_the_velocity_was_asked_for_last():
    problem = Linear(**generic(2, d=5, c=3), width=7, coordinates="factored")
    system = problem.flow_system(problem.init(1e-3))
    y = system.start()
    for _ in range(40):
        y = y + 0.2 * system.velocity(y)  # near order one: the shear is not that of the start
    system.velocity(y)
    assert system.loss_is_known(y)
    assert not system.loss_is_known(y.copy())
    np.testing.assert_allclose(system.loss_and_rate(y), system.loss_and_rate(y.copy()), rtol=1e-12)
