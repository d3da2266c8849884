"""Linear attention: moments, theory, prediction and flow against each other, sampled sequences, numpy regression."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from agf_problems.linear_attention.full import FullLinearAttention
from agf_problems.linear_attention.problem import LinearAttention
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import agf
from agf.errors import DataError, RequestError

NOBODY = np.zeros(0, dtype=np.int64)


def _spectrum(d, trace=2.0):
    values = 1.0 / np.arange(1, d + 1)
    return trace * values / values.sum()


def _covariance(rng, d):
    root = rng.standard_normal((d, d + 2))
    return root @ root.T / d


def _all(problem):
    return np.arange(problem.width)


def _random(problem, rng, size=0.4):
    return size * rng.standard_normal((problem.width, problem.n_params))


def _half_times(trajectory, levels):
    return np.array([trajectory.time_at(0.5 * (a + b)) for a, b in pairwise(levels)])


@pytest.fixture(scope="module")
def paper():
    """The authors' experiment: D = 4, N = 32, five heads, eigenvalues 1/k with trace 2."""
    return LinearAttention(context=32, heads=5)


@pytest.fixture(scope="module", params=[1e-2, 1e-3])
def run(request, paper):
    """Initialization, exact flow and its half-drop times at one alpha."""
    init = paper.init(request.param, seed=0)
    trajectory = agf.flow(paper, init)
    return init, trajectory, _half_times(trajectory, paper.plateaus())


# -- the population loss ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda s: LinearAttention(s, 8, 5), lambda s: FullLinearAttention(s, 8, 3, 2)])
def test_population_loss_and_gradient_are_the_means_of_2e5_sampled_sequences(make):
    """Standard errors are the sample's own; 5 of them is a chance of 6e-7 an entry. Every block is filled."""
    rng = np.random.default_rng(3)
    problem = make(_covariance(rng, 4))
    theta = _random(problem, rng)
    loss, gradient = problem.loss_grad(theta, _all(problem))
    sampled = problem.sampled_loss_grad(theta, _all(problem), rng, 200_000)
    assert abs(sampled.loss - loss) < 5 * sampled.loss_error
    assert sampled.loss_error < 0.01 * loss  # so that the line above can fail
    blind = sampled.grad_error == 0  # entries that cannot change any prediction
    np.testing.assert_array_equal(gradient[blind], 0.0)
    scores = (sampled.grad - gradient)[~blind] / sampled.grad_error[~blind]
    assert np.abs(scores).max() < 5
    assert np.abs(gradient[~blind] / sampled.grad_error[~blind]).max() > 50


def test_equation_53_is_made_of_the_first_two_moments_of_a_wishart_matrix():
    """With X = sum x_n x_n^T, E X = N S and E X A X = N^2 S A S + N (S A S + tr(A S) S) for a symmetric A."""
    rng = np.random.default_rng(3)
    s, n = _covariance(rng, 4), 8
    problem = LinearAttention(s, n, 5)
    theta = _random(problem, rng)
    m = problem.merged(theta)
    a = m @ s @ m.T
    square = n**2 * s @ a @ s + n * (s @ a @ s + np.trace(a @ s) * s)
    expected = 0.5 * np.trace(s - 2 * n * s @ m @ s + square)
    assert problem.loss_grad(theta, _all(problem))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [lambda s: LinearAttention(s, 5, 3), lambda s: FullLinearAttention(s, 5, 2, 2)])
def test_gradient_hessian_and_utility_belong_to_the_loss(make):
    """Central differences: error h^2 = 1e-10 of terms of order one, and 1e-16 / h of rounding."""
    rng = np.random.default_rng(4)
    problem = make(_covariance(rng, 3))
    theta, push = _random(problem, rng), _random(problem, rng)
    neurons, h = _all(problem), 1e-5
    ahead, behind = problem.loss_grad(theta + h * push, neurons), problem.loss_grad(theta - h * push, neurons)
    gradient = problem.loss_grad(theta, neurons)[1]
    assert (ahead[0] - behind[0]) / (2 * h) == pytest.approx(np.sum(gradient * push), rel=1e-8)
    hessian = problem.hessian(theta, neurons)
    if hessian is not None:
        np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-14 * np.abs(hessian).max())
        bent = ((ahead[1] - behind[1]) / (2 * h)).ravel()
        np.testing.assert_allclose(hessian @ push.ravel(), bent, atol=1e-7 * np.abs(bent).max())
    # with r of all neurons, grad U is minus the gradient; and U is homogeneous of degree 3 (Euler)
    utility, pull = problem.utility(theta, neurons, problem.residual(theta, neurons))
    np.testing.assert_allclose(pull, -gradient, rtol=0, atol=1e-14 * np.abs(gradient).max())
    np.testing.assert_allclose(np.sum(theta * pull, axis=1), 3 * utility, atol=1e-13 * np.abs(utility).max())


@pytest.mark.parametrize("make", [lambda: LinearAttention(context=32, heads=5), lambda: FullLinearAttention(rank=2)])
def test_every_law_of_the_contract_holds(make):
    report = agf.check(make())
    assert report.passed, str(report)


def test_many_parameters_have_no_dense_hessian():
    problem = LinearAttention(_spectrum(40), heads=40)
    assert problem.hessian(problem.init(1e-3).params(), _all(problem)) is None


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), heads=st.integers(0, 4), scale=st.floats(1e-3, 1e3))
def test_rotated_and_rescaled_inputs_change_nothing_but_units(seed, heads, scale):
    """x -> s O x with K, Q -> O K, O Q / s^.. keeps yhat / s; so loss is multiplied by s^2 when M is divided by s^2."""
    rng = np.random.default_rng(seed)
    d = 3
    covariance = _covariance(rng, d)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    here = LinearAttention(covariance, 7, 4)
    there = LinearAttention(scale**2 * turn @ covariance @ turn.T, 7, 4)
    theta = _random(here, rng)[:heads]
    moved = np.hstack([theta[:, :1] / scale**2, theta[:, 1:4] @ turn.T, theta[:, 4:] @ turn.T])
    neurons = np.arange(heads)
    assert there.loss_grad(moved, neurons)[0] == pytest.approx(scale**2 * here.loss_grad(theta, neurons)[0], rel=1e-11)
    np.testing.assert_allclose(there.plateaus(), scale**2 * here.plateaus(), rtol=1e-11)


def test_self_interaction_is_what_projecting_on_the_active_jacobian_leaves():
    """The independent route: outputs as vectors of d^2 numbers, Jacobian by central differences, least squares."""
    rng = np.random.default_rng(5)
    problem = LinearAttention(_covariance(rng, 4), 6, 5)
    left = np.linalg.cholesky(problem.gram)
    right = np.linalg.cholesky(problem.covariance)

    def outputs(theta):
        return np.array([(left.T @ problem.merged(row[None]) @ right).ravel() for row in theta])

    theta = _unit(_random(problem, rng))
    active = _random(problem, rng, 1.0)[:2]
    jacobian = []
    for p in range(problem.n_params):
        step = np.zeros_like(active)
        step[:, p] = 1e-5
        jacobian.extend((outputs(active + step) - outputs(active - step)) / 2e-5)
    basis = np.array(jacobian).T
    for chosen, span in ((NOBODY, np.zeros((16, 0))), (np.arange(2), basis)):
        vectors = outputs(theta).T
        if span.size:
            vectors = vectors - span @ np.linalg.lstsq(span, vectors, rcond=1e-9)[0]
        expected = 0.5 * np.sum(vectors**2, axis=0)
        found = problem.self_interaction(theta, _all(problem), active[chosen], chosen)
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    # without active heads it is also what the loss itself says: C = L(one head) - L(nobody) + U
    nothing = problem.loss_grad(np.zeros((0, 9)), NOBODY)[0]
    utility = problem.utility(theta, _all(problem), problem.residual(np.zeros((0, 9)), NOBODY))[0]
    alone = [problem.loss_grad(theta[i : i + 1], NOBODY[:0] + i)[0] for i in range(5)]
    found = problem.self_interaction(theta, _all(problem), active[:0], NOBODY)
    np.testing.assert_allclose(found, np.array(alone) - nothing + utility, rtol=1e-9)


def _unit(theta):
    return theta / np.linalg.norm(theta, axis=1, keepdims=True)


def test_a_head_within_the_span_of_the_active_ones_has_no_self_interaction_at_all():
    """Exactly zero, not rounding: a threshold divides by it."""
    problem = LinearAttention(_spectrum(3), 8, 4)
    rng = np.random.default_rng(6)
    theta = _random(problem, rng)
    active = _random(problem, rng, 1.0)[:3]
    np.testing.assert_array_equal(problem.self_interaction(theta, _all(problem), active, np.arange(3)), 0.0)


# -- theory -----------------------------------------------------------------------------------------------------------


def test_levels_of_equation_57_are_losses_of_critical_points(paper):
    """Independent route: build the heads, ask the loss and the gradient."""
    assert paper.eigenvalues.sum() == pytest.approx(2.0)
    lam, n, d = paper.eigenvalues, 32, 4
    printed = 0.5 * (2.0 - np.cumsum(n * lam**2 / (2.0 + (n + 1) * lam)))
    np.testing.assert_allclose(paper.theory().levels, [1.0, *printed], rtol=1e-14)
    for k in range(5):
        theta = np.zeros((k, 1 + 2 * d))
        size = np.cbrt(paper.amplitudes[:k])
        theta[:, 0] = size
        theta[np.arange(k), 1 + np.arange(k)] = size
        theta[np.arange(k), 1 + d + np.arange(k)] = size
        loss, gradient = paper.loss_grad(theta, np.arange(k))
        assert loss == pytest.approx(paper.plateaus()[k], rel=1e-14)
        assert np.abs(gradient).max(initial=0.0) < 1e-13


def test_equation_7_of_the_main_text_lost_a_square_and_goes_negative(paper):
    lam = paper.eigenvalues
    printed, mended = (0.5 * (2.0 - np.cumsum(32 * lam**power / (2.0 + 33 * lam))) for power in (1, 2))
    assert printed[-1] < 0
    np.testing.assert_allclose(paper.plateaus(), [1.0, *mended], rtol=1e-12)


def test_printed_bound_exceeds_the_time_a_head_takes_and_the_corrected_one_is_that_time(paper):
    """An aligned head of norm 0.3 grows fastest of all; the bound must not exceed its time to norm 1."""
    start = 0.3 / np.sqrt(3.0)
    theta = np.zeros(9)
    theta[[0, 1, 5]] = start
    nothing = paper.residual(np.zeros((0, 9)), NOBODY)

    def reached(_, y):
        return np.linalg.norm(y) - 1.0

    reached.terminal = True
    grow = solve_ivp(
        lambda _, y: paper.utility(y[None], NOBODY, nothing)[1][0], (0.0, 1.0), theta, rtol=1e-11, atol=1e-13,
        events=reached,
    )  # fmt: skip
    time = grow.t_events[0][0]
    assert time == pytest.approx(0.1370, abs=1e-4)
    assert paper.least_wait(0, np.log(0.3), radius=1.0) == pytest.approx(time, rel=1e-8)
    printed = np.sqrt(3.0) / (0.3 * 32 * paper.eigenvalues[0] ** 2)
    assert printed == pytest.approx(0.1958, abs=1e-4)
    assert printed > time


def test_no_local_maximum_of_the_utility_but_the_top_component():
    """[AGF] Lemma E.1, by ascent from 40 random heads; rate of the slowest direction bounds what is left at 1e-9."""
    problem = LinearAttention(_spectrum(4), 32, 40)
    theta = _unit(np.random.default_rng(7).standard_normal((40, 9)))
    nothing = problem.residual(np.zeros((0, 9)), NOBODY)
    for _ in range(3000):
        theta = _unit(theta + 0.02 * problem.utility(theta, NOBODY, nothing)[1])
    best = 32 * problem.eigenvalues[0] ** 2 / (3 * np.sqrt(3.0))
    np.testing.assert_allclose(problem.utility(theta, NOBODY, nothing)[0], best, rtol=1e-9)
    told = [end for end in problem.critical(np.zeros((0, 9)), NOBODY) if end.kind == "maximum"]
    assert [end.utility for end in told] == pytest.approx([best])
    assert problem.utility(told[0].direction[None], NOBODY, nothing)[0] == pytest.approx(best)


def test_theory_without_heads_has_levels_and_no_times(paper):
    theory = paper.theory(alpha=1e-3)
    assert np.isnan(theory.times[1:]).all()
    assert np.isnan(theory.bounds).all()
    assert [drop.label[:21] for drop in theory.drops] == [f"principal component {k}" for k in (1, 2, 3, 4)]
    assert theory.drops[1].label == "principal component 2 (eigenvalue 0.48)"
    np.testing.assert_allclose(theory.features("amplitudes")[-1], paper.amplitudes)


@pytest.mark.parametrize("seed", range(6))
def test_race_between_dormant_heads_is_their_utility_flow_on_the_frozen_residual(paper, seed):
    """Independent route: scipy on the raw equations, phase by phase, heads in the standard basis. Includes heads whose
    value changes sign on the way (a head with V against its own K and Q first shrinks it through zero)."""
    init = paper.init(1e-3, seed)
    theory = paper.theory(init=init)
    theta, waiting, now = init.params(), list(range(5)), 0.0
    residual = paper.residual(np.zeros((0, 9)), NOBODY)
    for k, drop in enumerate(theory.drops):
        flow = solve_ivp(
            lambda _, y, r=residual: paper.utility(y.reshape(-1, 9), NOBODY, r)[1].ravel(),
            (now, drop.time), theta[waiting].ravel(), method="DOP853", rtol=1e-11, atol=1e-17,
        )  # fmt: skip
        theta[waiting] = flow.y[:, -1].reshape(-1, 9)
        held = theta[:, 0] * theta[:, 1 + k] * theta[:, 5 + k]
        winner = waiting[int(np.argmax(held[waiting]))]
        assert [winner] == drop.neurons.tolist()
        # amplitudes move at a rate of order 10 here, so times of 50 to 1000 known to 1e-10 leave 1e-5
        assert held[winner] == pytest.approx(paper.amplitudes[k], rel=1e-4)
        waiting.remove(winner)
        residual[k, k] = 0.0
        now = drop.time


def test_signs_of_heads_do_not_matter_to_the_race(paper):
    """(V, K, Q) -> (-V, -K, Q) and its like compute the same function and are symmetries of the flow."""
    init = paper.init(1e-4, seed=2)
    flipped = init.directions.copy()
    flipped[0, :5] *= -1
    flipped[1, [0, 5, 6, 7, 8]] *= -1
    flipped[2, 1:] *= -1
    other = agf.Init(flipped, init.log_norms, init.alpha)
    np.testing.assert_allclose(paper.theory(init=other).times, paper.theory(init=init).times, rtol=1e-10)


@pytest.mark.parametrize("alpha", [1e-8, 1e-100, 1e-300])
def test_race_scales_as_one_over_alpha_at_any_alpha(paper, alpha):
    """The saturation norm enters as 1 - O(alpha): 2e-6 at the reference alpha of 1e-6."""
    ratio = (
        paper.theory(init=paper.init(alpha)).accelerated_times[1:]
        / paper.theory(init=paper.init(1e-6)).accelerated_times[1:]
    )
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-5)


@pytest.mark.parametrize(("rtol", "error"), [(1e-6, 1e-3), (1e-10, 1e-5)])
def test_engine_agrees_with_the_closed_form_at_tiny_alpha(paper, rtol, error):
    """Two routes that share no code. Active heads settle to rtol in the loss, so to its root in the residual, which
    enters the times to first order; alpha = 1e-7 itself leaves about 1e-6."""
    init = paper.init(1e-7, seed=1)
    stairs, theory = agf.predict(paper, init, rtol=rtol, mode="agf"), paper.theory(init=init)
    np.testing.assert_allclose(stairs.half_times, theory.half_times, rtol=error)
    np.testing.assert_allclose(stairs.levels, theory.levels, rtol=error)
    assert [d.label for d in stairs.drops] == [d.label for d in theory.drops]
    assert [d.neurons.tolist() for d in stairs.drops] == [d.neurons.tolist() for d in theory.drops]


# -- against gradient flow --------------------------------------------------------------------------------------------


def test_predictions_follow_the_exact_flow_and_natural_thresholds_beat_norm_one(paper, run):
    """Measured at alpha 1e-3: natural 1e-6, 0.04, 0.08, 0.05 % against 0.16 % for norm 1; at 1e-2 up to 2.8 %."""
    init, _, observed = run
    natural = agf.predict(paper, init, mode="agf").half_times[1:] / observed - 1
    unit = agf.predict(paper, init, threshold="unit").half_times[1:] / observed - 1
    closed = paper.theory(init=init).half_times[1:] / observed - 1
    assert abs(natural[0]) < 0.1 * init.alpha
    assert np.abs(natural).max() < 4 * init.alpha
    assert np.abs(closed).max() < 4 * init.alpha
    assert np.abs(natural[0]) < 0.1 * np.abs(unit[0])
    if init.alpha <= 1e-3:
        assert (np.abs(natural) < np.abs(unit)).all()


def test_time_resolved_mode_tracks_heads_that_move_during_the_drops():
    """Ten heads, six components, alpha = 1e-2: dormant heads turn while a drop lasts, which steps cannot see.
    Measured 0.1 % and less; tolerances per step are 1e-3 of the state."""
    problem = LinearAttention(_spectrum(6), 32, 10)
    init = problem.init(1e-2, seed=0)
    observed = _half_times(agf.flow(problem, init), problem.plateaus())
    resolved = np.abs(agf.predict(problem, init, mode="resolved").half_times[1:] / observed - 1)
    stepped = np.abs(agf.predict(problem, init, mode="agf").half_times[1:] / observed - 1)
    assert resolved.max() < 5e-3
    assert stepped.max() > 10 * resolved.max()


def test_levels_of_the_flow_are_those_of_the_theory(paper, run):
    """On a plateau dormant heads still hold about their utility times norm^3; 20 alpha^2 bounds what was measured."""
    init, trajectory, _ = run
    levels = [trajectory.drops[0].before, *[drop.after for drop in trajectory.drops]]
    np.testing.assert_allclose(levels, paper.plateaus(), atol=20 * init.alpha**2)


def test_corrected_bounds_hold_for_the_flow(paper, run):
    init, trajectory, observed = run
    bounds = paper.theory(init=init).bounds
    assert (bounds < observed).all()
    assert (bounds[1:] > observed[:-1]).all()  # each says something that the jump before does not
    # phase by phase, from the heads at its start: after the previous half-drop, the norms of heads still dormant
    starts = [0.0, *observed[:-1]]
    for k, (start, end) in enumerate(zip(starts, observed, strict=True)):
        snapshot = int(np.searchsorted(trajectory.snapshot_times, start))
        began = trajectory.snapshot_times[snapshot]
        pointing = trajectory.features("component")[-1].astype(int)
        dormant = np.array([p not in range(1, k + 1) for p in pointing])
        assert began + paper.least_wait(k, trajectory.log_norms[snapshot][dormant]) < end * (1 + 1e-9)


def test_bounds_of_every_level_start_from_the_heads_that_are_left_then(paper):
    """By hand from the flow: half-drop k-1, plus sqrt(3) (1/mu - 1) / (N lam_k^2) with mu the largest head left."""
    init = paper.init(1e-4, seed=0)
    bounds = paper.theory(init=init, radius=1.0).bounds
    flow = agf.flow(paper, init)
    starts = [0.0, *_half_times(flow, paper.plateaus())[:-1]]
    pointing = flow.features("component")[-1].astype(int)
    for k, start in enumerate(starts):
        order = np.argsort(np.abs(flow.snapshot_times - start))[:2]
        left = ~np.isin(pointing, np.arange(1, k + 1))
        mu = np.exp(flow.log_norms[order][:, left].max(axis=1))
        by_hand = start + np.sqrt(3.0) * (1.0 / mu - 1.0) / (32 * paper.eigenvalues[k] ** 2)
        # 5 %: snapshots are that far apart in time, and the race ends at the switch, not at the half-drop
        assert np.abs(by_hand / bounds[k] - 1).min() < 0.05, k


def test_features_say_which_component_each_head_took_and_what_was_learned(paper, run):
    _, trajectory, _ = run
    component = trajectory.features("component")[-1].astype(int)
    overlap = trajectory.features("overlap")[-1]
    strong = trajectory.log_norms[-1] > np.log(0.3)
    assert sorted(component[strong]) == [1, 2, 3, 4]
    # a head keeps what it held, O(alpha), of components that others had learned; measured 420 and 560 alpha^2
    assert overlap[strong].min() > 1 - 1000 * trajectory.init.alpha**2
    # a settled loss is right to about 1e-6, so what it is quadratic in to 1e-3
    np.testing.assert_allclose(trajectory.features("amplitudes")[-1], paper.amplitudes, rtol=1e-3)
    np.testing.assert_allclose(trajectory.features("singular_values")[-1], paper.amplitudes[::-1], rtol=1e-3)
    assert trajectory.stats["drift"] < 1e-4


def test_rescaled_inputs_rescale_times_and_levels_only(paper):
    """x -> s x: M = O(s^-2), so heads scale as s^(-2/3); losses as s^2; times as norm^2 / loss."""
    s = 5.0
    other = LinearAttention(s**2 * paper.covariance, 32, 5)
    init = paper.init(1e-3)
    scaled = agf.Init(init.directions, init.log_norms - np.log(s) * 2 / 3, init.alpha * s ** (-2 / 3))
    here, there = agf.predict(paper, init, mode="agf"), agf.predict(other, scaled, mode="agf")
    np.testing.assert_allclose(there.levels, s**2 * here.levels, rtol=1e-6)
    np.testing.assert_allclose(there.half_times, here.half_times * s ** (-4 / 3) / s**2, rtol=1e-5)


# -- degenerate cases -------------------------------------------------------------------------------------------------


def test_fewer_heads_than_components_stop_early():
    problem = LinearAttention(_spectrum(4), 16, 2)
    stairs, theory = agf.predict(problem, problem.init(1e-4), mode="agf"), problem.theory(init=problem.init(1e-4))
    assert len(stairs.drops) == len(theory.drops) == 2
    assert stairs.status is agf.Status.ALL_ACTIVE
    np.testing.assert_allclose(stairs.levels, problem.plateaus()[:3], rtol=1e-6)
    assert "2 heads learn 2 of 4 components" in " ".join(theory.notes)


def test_no_heads_do_better_than_the_best_matrix_of_their_rank():
    """By the singular values of G^(-1/2) N S^2 S^(-1/2), taken with Cholesky factors of a covariance of no basis."""
    problem = LinearAttention(_covariance(np.random.default_rng(3), 4), 7, 3)
    by_key, by_query = np.linalg.cholesky(problem.gram), np.linalg.cholesky(problem.covariance)
    scaled = np.linalg.solve(by_query, np.linalg.solve(by_key, problem.correlation).T)
    gains = 0.5 * np.linalg.svd(scaled, compute_uv=False) ** 2
    for heads in (1, 2, 3):
        theta = problem.init(1e-3).params() * (np.arange(3) < heads)[:, None]
        least = 0.5 * problem.trace - gains[:heads].sum()
        assert problem.least_loss(agf.Init.from_params(theta)) == pytest.approx(least, rel=1e-12)
    full = FullLinearAttention(problem.covariance, 7, 2, 2)
    assert full.least_loss(full.init(1e-3)) == pytest.approx(0.5 * problem.trace - gains.sum(), rel=1e-12)


def test_a_prediction_ends_where_no_heads_do_better():
    """Five more heads joined, to "A larger width may take more of it", under an error of 89 % of the level."""
    problem = LinearAttention([1.0], 16, 6)
    init = problem.init(1e-4, seed=47)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    assert stairs.status is agf.Status.FITTED
    assert stairs.levels[1:] == pytest.approx(problem.plateaus()[1:], rel=1e-5)
    assert stairs.drops[0].level_error < 1e-3
    assert "no network that the flow can reach has less loss" in flow.ending
    assert sum(value for name, value in stairs.stats.items() if name.endswith("evaluations")) < 800


def test_a_singular_covariance_has_as_many_drops_as_its_rank():
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    covariance = (basis * [1.0, 0.5, 0.25, 0.0, 0.0]) @ basis.T
    problem = LinearAttention(covariance, 16, 6)
    assert problem.rank == 3
    init = problem.init(1e-3, seed=1)
    stairs = agf.predict(problem, init, mode="agf")
    assert len(stairs.drops) == len(problem.theory(init=init).drops) == len(problem.theory().drops) == 3
    assert stairs.status is agf.Status.FITTED
    np.testing.assert_allclose(stairs.levels, problem.plateaus(), rtol=1e-6)


def test_equal_eigenvalues_are_learned_one_at_a_time_in_directions_the_heads_choose():
    problem = LinearAttention([1.0, 1.0, 0.4], 16, 4)
    init = problem.init(1e-3, seed=0)
    stairs, theory = agf.predict(problem, init, mode="agf"), problem.theory(init=init)
    trajectory = agf.flow(problem, init)
    observed = _half_times(trajectory, problem.plateaus())
    assert [d.label for d in theory.drops] == [d.label for d in stairs.drops]
    assert theory.drops[0].label == "one of principal components 1-2 (equal eigenvalue 1s)"
    np.testing.assert_allclose(stairs.half_times[1:], observed, rtol=0.01)
    np.testing.assert_allclose(theory.half_times[1:], observed, rtol=0.01)
    np.testing.assert_allclose(stairs.levels, problem.plateaus(), rtol=1e-5)


def test_identical_heads_activate_in_one_drop(paper):
    theta = paper.init(1e-3).params()
    theta[1] = theta[4]
    init = agf.Init.from_params(theta)
    theory, stairs = paper.theory(init=init), agf.predict(paper, init, mode="agf")
    assert theory.drops[0].neurons.tolist() == stairs.drops[0].neurons.tolist() == [1, 4]
    assert theory.drops[0].label == "principal component 1 (eigenvalue 0.96)"
    assert theory.drops[0].level == pytest.approx(paper.plateaus()[1], rel=1e-6)
    # Identical heads stay so on paper. Rounding parts them within the next 20 units of time, in training too, long
    # before another head grows: whether one learns a second component is the arithmetic's to say.
    levels = paper.plateaus()[1:3]
    assert np.min(np.abs(stairs.drops[0].level / levels - 1.0)) < 1e-5


def test_heads_that_cannot_grow_end_the_theory_without_a_drop(paper):
    """V alone, without key or query, is a saddle that nothing leaves."""
    theta = np.zeros((5, 9))
    theta[:, 0] = 1e-3
    assert paper.theory(init=agf.Init.from_params(theta)).drops == ()


def test_one_input_one_pair_one_head():
    problem = LinearAttention([3.0], 1, 1)
    init = problem.init(1e-4, seed=3)
    stairs = agf.predict(problem, init, mode="agf")
    # tr = lam = 3, N = 1: A = 1 / 9, level (3 - 9 / 9) / 2
    np.testing.assert_allclose(stairs.levels, [1.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(problem.theory(init=init).half_times, stairs.half_times, rtol=1e-4)


def test_levels_keep_their_digits_for_a_very_long_context():
    """l^(r) = (1/2) sum lam (tr + lam) / (tr + (N+1) lam), about tr r / 2N: differences of order one would lose it."""
    problem = LinearAttention(_spectrum(4), 10**12, 4)
    lam = problem.eigenvalues
    np.testing.assert_allclose(problem.plateaus()[-1], np.sum(2.0 + lam) / (2e12), rtol=1e-9)


def test_kinds_of_initialization():
    problem = LinearAttention(_spectrum(30), 8, 400)
    gaussian = np.exp(problem.init(1e-3).log_norms)
    assert gaussian.mean() == pytest.approx(1e-3 * np.sqrt(61), rel=0.02)  # entries have standard deviation alpha
    positive = problem.init(1e-3, kind="positive-values").params()
    assert (positive[:, 0] > 0).all()
    np.testing.assert_array_equal(np.abs(problem.init(1e-3).params()[:, 0]), positive[:, 0])
    with pytest.raises(DataError, match="unknown kind"):
        problem.init(1e-3, kind="balanced")


def test_theory_survives_a_file_with_and_without_times(paper, tmp_path):
    for init in (None, paper.init(1e-3)):
        theory = paper.theory(init=init)
        theory.save(tmp_path / "theory.npz")
        again = agf.load(tmp_path / "theory.npz")
        np.testing.assert_array_equal(again.times, theory.times)
        np.testing.assert_array_equal(again.bounds, theory.bounds)


# -- the predictor ----------------------------------------------------------------------------------------------------


def _pcr(X, y, query, k):
    """Principal component regression as numpy does it: least squares on the first k right singular vectors."""
    rows = np.linalg.svd(X, full_matrices=False)[2][:k]
    return query @ rows.T @ np.linalg.lstsq(X @ rows.T, y, rcond=None)[0]


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4])
def test_predictor_is_numpy_principal_component_regression_shrunk(k):
    """Exactly so on inputs whose second moment is N S: each component is then shrunk by N lam_i A_i."""
    rng = np.random.default_rng(9)
    n, lam = 50, np.array([2.0, 1.0, 0.5, 0.1])
    problem = LinearAttention(lam, n, 4)
    X = np.linalg.qr(rng.standard_normal((n, 4)))[0] * np.sqrt(n * lam)
    y, query = rng.standard_normal(n), rng.standard_normal((7, 4))
    parts = [_pcr(X, y, query, i + 1) - _pcr(X, y, query, i) for i in range(k)]
    expected = sum((part * n * lam[i] * problem.amplitudes[i] for i, part in enumerate(parts)), np.zeros(7))
    np.testing.assert_allclose(problem.limit_predictor(k)(X, y, query), expected, atol=1e-12)


def test_predictor_of_trained_weights_tends_to_principal_component_regression_for_long_contexts():
    """Sampled second moments differ from N S by 1/sqrt(N): ten times the context, sqrt(10) less, within a factor 2."""
    gaps = []
    for n in (10**3, 10**4, 10**5):
        rng = np.random.default_rng(10)
        problem = LinearAttention([2.0, 1.0, 0.2], n, 3)
        x, y, query, _ = problem.sample(rng, 20)
        predictor = problem.limit_predictor(2)
        gap = [float(predictor(x[b], y[b], query[b]) - _pcr(x[b], y[b], query[b], 2)) for b in range(20)]
        gaps.append(np.sqrt(np.mean(np.square(gap))))
    slopes = np.diff(np.log10(gaps))
    assert (slopes < -0.2).all()
    assert slopes.mean() == pytest.approx(-0.5, abs=0.15)


def test_a_trained_network_predicts_new_sequences_as_well_as_its_loss_says(paper, run):
    _, trajectory, _ = run
    predictor = paper.predictor(trajectory.params(-1))
    x, y, query, target = paper.sample(np.random.default_rng(11), 4000)
    errors = np.array([float(predictor(x[b], y[b], query[b])) - target[b] for b in range(4000)])
    spread = np.std(errors**2) / np.sqrt(4000)
    assert abs(np.mean(errors**2) - 2 * trajectory.losses[-1]) < 5 * spread
    assert predictor(x[0], y[0], query[:3]).shape == (3,)
    assert predictor(x[0], y[0], query[0]).shape == ()
    np.testing.assert_allclose(query[0] @ predictor.coefficients(x[0], y[0]), predictor(x[0], y[0], query[0]))


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"covariance": [[1.0, 0.5], [0.0, 1.0]]}, "not symmetric"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "negative eigenvalue"),
        ({"covariance": [1.0, -0.1]}, "negative eigenvalue"),
        ({"covariance": np.zeros((2, 2))}, "zero"),
        ({"covariance": [0.0, 0.0]}, "zero"),
        ({"covariance": np.ones((2, 3))}, r"shape \(2, 3\)"),
        ({"covariance": np.ones((2, 2, 2))}, "two dimensions"),
        ({"covariance": [1.0, np.nan]}, "non-finite"),
        ({"covariance": ["a", "b"]}, "numbers"),
        ({"context": 0}, "`context` must be at least 1"),
        ({"context": 2.5}, "`context` must be an integer"),
        ({"heads": 0}, "`heads` must be at least 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, words):
    for make in (LinearAttention, FullLinearAttention):
        with pytest.raises(DataError, match=words):
            make(**arguments)


def test_bad_requests_are_refused_in_a_sentence(paper):
    with pytest.raises(DataError, match="`rank` is larger"):
        FullLinearAttention(rank=5)
    with pytest.raises(DataError, match="at least 1"):
        FullLinearAttention(rank=0)
    with pytest.raises(DataError, match=r"expected|Expected"):
        paper.predictor(np.ones((2, 5)))
    predictor = paper.limit_predictor(2)
    with pytest.raises(DataError, match="`X` has shape"):
        predictor(np.ones((31, 4)), np.ones(31), np.ones(4))
    with pytest.raises(DataError, match="`y` has length"):
        predictor(np.ones((32, 4)), np.ones(31), np.ones(4))
    with pytest.raises(DataError, match="`query` has shape"):
        predictor(np.ones((32, 4)), np.ones(32), np.ones(3))
    with pytest.raises(DataError, match="fewer components"):
        paper.limit_predictor(5)
    with pytest.raises(DataError, match="at least 2"):
        paper.sampled_loss_grad(np.ones((5, 9)), _all(paper), np.random.default_rng(0), 1)
    with pytest.raises(DataError, match="unknown option `rule`"):
        paper.theory(rule="greedy")
    with pytest.raises(DataError, match="`radius` must be a positive"):
        paper.theory(init=paper.init(1e-3), radius=-1.0)
    with pytest.raises(RequestError, match="shape"):
        agf.predict(paper, LinearAttention(heads=3).init(1e-3), mode="agf")


def test_eigenvalues_in_any_layout_and_the_matrix_are_the_same_problem():
    values = np.array([0.5, 2.0, 1.0])
    theta = np.random.default_rng(14).standard_normal((3, 7))
    losses = {
        LinearAttention(given, 4).loss_grad(theta, np.arange(3))[0]
        for given in (values, values[:, None], values[None, :], np.diag(values), values.tolist())
    }
    assert len(losses) == 1


@pytest.mark.parametrize("alpha", [1e-280, 1e-300])
def test_resolved_drops_are_those_of_any_scale_also_where_no_number_holds_the_spread_of_norms(alpha):
    """Times are over alpha. Neurons 1e278 times smaller than the largest were set to that size once one had joined."""
    problem = agf.problem("linear-attention")
    large = agf.predict(problem, problem.init(1e-8, seed=0), mode="resolved")
    drops = [agf.predict(problem, problem.init(a, seed=0), mode="resolved").drops for a in (1e-100, alpha)]
    assert len(drops[0]) == 4
    times = [[drop.half_time * a for drop in each] for each, a in zip(drops, (1e-100, alpha), strict=True)]
    np.testing.assert_allclose(times[1], times[0], rtol=1e-6)
    np.testing.assert_allclose([d.level for d in drops[1]], [d.level for d in drops[0]], rtol=1e-6)
    # at these scales one time in float64 is that of a whole drop: who learned is told from the loss
    assert [(*d.neurons, d.label) for each in drops for d in each] == 2 * [(*d.neurons, d.label) for d in large.drops]
