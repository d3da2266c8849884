"""Diagonal networks as alpha -> 0: the sequence by an independent recursion, ties and degenerate data, the door."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.diagonal_linear import limit
from agf_problems.diagonal_linear.flow import MirrorFlow
from agf_problems.diagonal_linear.mirror import Mirror
from agf_problems.diagonal_linear.signed_fit import SignedFit, _Gram
from diagonal_cases import (
    coefficients,
    diagonal,
    five_coordinates,
    kkt_violation,
    observed_half_times,
    oracle,
    random_problem,
    returning_problem,
)
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog, nnls

import agf

# -- the limit sequence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "count"), [("tall", 70), ("wide", 70), ("correlated", 60)])
def test_limit_sequence_is_that_of_a_recursion_solved_from_nothing_at_every_stage(kind, count):
    rng = np.random.default_rng({"tall": 1, "wide": 2, "correlated": 3}[kind])
    returns = 0
    for _ in range(count):
        x, y = random_problem(rng, kind)
        stairs = diagonal(x, y).theory()
        expected = oracle(x, y)
        assert len(stairs.drops) == len(expected)
        np.testing.assert_allclose(stairs.accelerated_times[1:], [e[0] for e in expected], rtol=1e-8)
        # the last level of an interpolating problem is rounding error of both
        np.testing.assert_allclose(
            stairs.levels[1:], [e[1] for e in expected], rtol=1e-8, atol=1e-20 * stairs.start_level
        )
        np.testing.assert_array_equal(np.sign(coefficients(stairs)), [np.sign(e[2]) for e in expected])
        before = np.zeros(x.shape[1], dtype=bool)
        for drop, (_, _, beta) in zip(stairs.drops, expected, strict=True):
            np.testing.assert_array_equal(drop.neurons, np.flatnonzero((beta != 0) & ~before))
            np.testing.assert_array_equal(drop.collapsed, np.flatnonzero((beta == 0) & before))
            before = beta != 0
            returns += drop.collapsed.size
    assert returns > 0 or kind == "tall"  # the sample must contain returns to dormancy to say anything about them


def test_with_fewer_samples_than_coordinates_the_end_is_the_interpolant_of_least_l1_norm():
    rng = np.random.default_rng(4)
    for _ in range(30):
        x, y = random_problem(rng, "wide")
        d = x.shape[1]
        stairs = diagonal(x, y).theory()
        program = linprog(np.ones(2 * d), A_eq=np.hstack([x, -x]), b_eq=y, bounds=(0, None), method="highs")
        expected = program.x[:d] - program.x[d:]
        np.testing.assert_allclose(coefficients(stairs)[-1], expected, atol=1e-8 * np.abs(expected).max())
        assert stairs.levels[-1] < 1e-25 * stairs.start_level
        assert (stairs.levels[:-1] > 1e-12 * stairs.start_level).all()  # interpolation is the last stage


def test_coordinate_that_returns_to_dormancy_reenters_with_the_other_sign():
    stairs = diagonal(*returning_problem()).theory()
    np.testing.assert_allclose(stairs.accelerated_times[1:], [0.193042, 0.600220, 3.457363], atol=5e-7)
    np.testing.assert_allclose(stairs.levels[:3], [2.3111, 1.11465, 0.07], rtol=1e-5)
    assert stairs.levels[3] < 1e-28
    assert [d.neurons.tolist() for d in stairs.drops] == [[0], [1], [0]]
    assert [d.collapsed.tolist() for d in stairs.drops] == [[], [0], []]
    np.testing.assert_array_equal(np.sign(coefficients(stairs)), [[1, 0], [0, 1], [-1, 1]])


def test_flow_times_are_given_with_an_alpha_only():
    problem = diagonal(*returning_problem())
    assert np.isnan(problem.theory().times[1:]).all()
    with_alpha = problem.theory(alpha=1e-8)
    np.testing.assert_allclose(with_alpha.times, -np.log(1e-8) * problem.theory().accelerated_times, rtol=1e-15)
    assert with_alpha.clock.scale == pytest.approx(-np.log(1e-8))


def test_limit_times_and_levels_are_covariant_under_rescaling():
    x, y = random_problem(np.random.default_rng(5), "correlated")
    base = diagonal(x, y).theory()
    scaled = diagonal(x * 2.0**-200, y * 2.0**230).theory()  # powers of two: to the last bit
    np.testing.assert_array_equal(scaled.accelerated_times, base.accelerated_times * 2.0**-30)
    np.testing.assert_array_equal(scaled.levels, base.levels * 2.0**460)
    np.testing.assert_array_equal(coefficients(scaled), coefficients(base) * 2.0**430)


@given(
    data=hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(2, 8)), elements=st.integers(-2, 2)),
)
@example(data=np.array([[1, 1, 1, 0, 2], [0, 0, 1, 0, 2]]))
def test_small_integer_designs_full_of_ties_copies_and_dependent_columns_obey_every_law(data):
    x, y = data[:, :-1], data[:, -1]
    assume(x.any())
    stairs = diagonal(x, y).theory()
    assert stairs.status is agf.Status.THEORY
    assert (np.diff(stairs.accelerated_times) >= 0).all()
    assert (np.diff(stairs.levels) < 0).all() or not stairs.drops
    assert len(stairs.drops) < 50
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    scale = max(stairs.start_level, 1.0)
    assert stairs.levels[-1] == pytest.approx(0.5 * np.mean((y - x @ best) ** 2), abs=1e-13 * scale)
    for drop in stairs.drops:
        assert kkt_violation(x.astype(float), y.astype(float), drop) < 1e-12
        assert drop.predicted_decrease < 1e-12 * scale


def test_certificate_is_recomputed_and_small():
    rng = np.random.default_rng(6)
    for kind in ("tall", "wide", "correlated"):
        x, y = random_problem(rng, kind)
        stairs = diagonal(x, y).theory()
        assert stairs.stats["kkt"] < 1e-12
        worst = max(kkt_violation(x, y, drop) for drop in stairs.drops)
        assert stairs.stats["kkt"] >= 0.5 * worst  # the violation outside the support is counted as well
        for drop in stairs.drops:
            beta = drop.features["coefficients"]
            g = -x.T @ (y - x @ beta) / y.size
            theta = np.sqrt(np.abs(beta))[:, None] * np.stack([np.ones_like(beta), np.sign(beta)], axis=1)
            gradient = diagonal(x, y).loss_grad(theta, np.arange(beta.size))[1][beta != 0]
            assert drop.grad_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-14 * np.linalg.norm(y))
            assert drop.predicted_decrease == pytest.approx(abs(beta @ g), abs=1e-14 * y @ y)


# -- ties, copies, nothing to learn ---------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [None, 1e-2, 1e-200])
def test_orthonormal_columns_of_equal_correlation_are_one_drop(alpha):
    x = np.linalg.qr(np.random.default_rng(7).standard_normal((9, 4)))[0]
    problem = diagonal(x, x @ np.array([2.0, -2.0, 2.0, 1.0]))
    stairs = problem.theory() if alpha is None else agf.predict(problem, problem.init(alpha), mode="agf")
    assert [d.neurons.tolist() for d in stairs.drops] == [[0, 1, 2], [3]]


@pytest.mark.parametrize("alpha", [None, 1e-2, 1e-200])
def test_copies_of_a_column_activate_together_and_share_equally(alpha):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((12, 2))
    y = x @ np.array([3.0, 1.0])
    doubled = diagonal(np.column_stack([x[:, 0], x[:, 1], -x[:, 0], 0.5 * x[:, 0]]), y)
    single = diagonal(x, y)
    if alpha is None:
        stairs, plain = doubled.theory(), single.theory()
        np.testing.assert_allclose(stairs.accelerated_times, plain.accelerated_times, rtol=1e-12)
    else:
        stairs, plain = (agf.predict(p, p.init(alpha), mode="agf") for p in (doubled, single))
    np.testing.assert_allclose(stairs.levels, plain.levels, rtol=1e-12, atol=1e-25)
    assert stairs.drops[0].neurons.tolist() == [0, 2]
    final = coefficients(stairs)[-1]
    np.testing.assert_allclose(final, [1.5, 1.0, -1.5, 0.0], rtol=1e-12)
    assert final[3] == 0.0  # a shorter copy never gets anywhere


def test_copies_sharing_equally_is_what_gradient_flow_does():
    x = np.random.default_rng(9).standard_normal((10, 2))
    problem = diagonal(np.column_stack([x, x[:, 0]]), x @ np.array([3.0, 1.0]))
    init = problem.init(1e-6)
    flow = agf.flow(problem, init)
    np.testing.assert_allclose(flow.features("coefficients")[-1], [1.5, 1.0, 1.5], rtol=1e-2)
    stairs = agf.predict(problem, init, mode="agf")
    assert max(map(len, stairs.labels)) < 400
    assert "neuron" not in " ".join(stairs.labels)
    assert stairs.half_times[1] == pytest.approx(observed_half_times(flow, stairs)[0], rel=1e-4)


@pytest.mark.parametrize(
    ("x", "y", "levels"),
    [
        ([[2.0]], [3.0], [4.5, 0.0]),  # n = d = 1
        ([[1.0, 2.0, 0.0]], [3.0], [4.5, 0.0]),  # n = 1: the largest column interpolates
        ([[1.0], [2.0]], [0.0, 0.0], [0.0]),  # y = 0
        ([[1.0], [-1.0]], [1.0, 1.0], [0.5]),  # y orthogonal to X
        ([[1.0, 0.0], [1.0, 0.0]], [1.0, 3.0], [2.5, 0.5]),  # constant and zero columns
    ],
)
def test_degenerate_data_give_the_right_staircase_in_every_mode(x, y, levels):
    problem = diagonal(x, y)
    theory = problem.theory()
    np.testing.assert_allclose(theory.levels, levels, atol=1e-30)
    predicted = agf.predict(problem, problem.init(1e-5), mode="agf")
    np.testing.assert_allclose(predicted.levels, levels, atol=1e-30)
    assert predicted.status is agf.Status.FITTED


def test_collinear_columns_end_at_the_least_squares_level_without_extra_stages():
    rng = np.random.default_rng(10)
    base = rng.standard_normal((30, 4))
    x = np.column_stack([base, base @ rng.standard_normal((4, 3))])  # rank 4, 7 columns
    y = rng.standard_normal(30)
    best = 0.5 * np.mean((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2)
    problem = diagonal(x, y)
    for stairs in (problem.theory(), agf.predict(problem, problem.init(1e-8), mode="agf")):
        assert stairs.levels[-1] == pytest.approx(best, rel=1e-12)
        assert (np.diff(stairs.levels) < -1e-9 * stairs.start_level).all()
        assert np.count_nonzero(coefficients(stairs)[-1]) <= 4


def test_nearly_collinear_columns_are_solved_by_the_orthogonal_factor():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((40, 1)) + 1e-6 * rng.standard_normal((40, 5))  # condition number about 1e6
    y = x @ rng.standard_normal(5) + rng.standard_normal(40)
    stairs, expected = diagonal(x, y).theory(), oracle(x, y)
    assert stairs.stats["kkt"] < 1e-12
    np.testing.assert_allclose(stairs.levels[1:], [e[1] for e in expected], rtol=1e-9)
    assert stairs.levels[-1] == pytest.approx(
        0.5 * np.mean((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2), rel=1e-9
    )


@pytest.mark.parametrize("alpha", [None, 1e-4, 1e-200])
def test_mirror_images_enter_together_and_leave_together(alpha):
    # exchanging columns 0 and 1 exchanges the two halves of the rows; this draw drives both out when 2 enters
    rng = np.random.default_rng(66)
    half, target = rng.standard_normal((4, 3)) + 1.0, rng.standard_normal(4)
    problem = diagonal(np.vstack([half, half[:, [1, 0, 2]]]), np.concatenate([target, target]))
    stairs = problem.theory() if alpha is None else agf.predict(problem, problem.init(alpha), mode="agf")
    assert [d.neurons.tolist() for d in stairs.drops] == [[0, 1], [2], [0, 1]]
    assert [d.collapsed.tolist() for d in stairs.drops] == [[], [0, 1], []]
    signs = np.sign(coefficients(stairs)[:, 0])
    assert signs[0] == -signs[2] != 0


def test_warm_and_cold_fits_agree_and_keep_the_signs():
    rng = np.random.default_rng(13)
    for n, d in [(30, 12), (8, 12)]:
        x, y = rng.standard_normal((n, d)) + rng.standard_normal((n, 1)), rng.standard_normal(n)
        warm = SignedFit(x, y)
        signs = np.zeros(d)
        for _ in range(12):
            signs = np.where(warm.active, signs, rng.integers(-1, 2, d))
            edge = np.flatnonzero(signs)
            warm.minimize(edge, signs[edge])
            assert (signs * warm.coefficients >= 0).all()
            assert not warm.coefficients[signs == 0].any()
            cold = np.zeros(d)
            cold[edge] = signs[edge] * nnls(x[:, edge] * signs[edge], y)[0]
            np.testing.assert_allclose(x @ warm.coefficients, x @ cold, atol=1e-12 * np.linalg.norm(y))
            if n > d:
                np.testing.assert_allclose(warm.coefficients, cold, atol=1e-11)


# -- the plugin itself ----------------------------------------------------------------------------------------------


def test_gradient_and_hessian_are_derivatives_of_the_loss(rng):
    x, y = random_problem(rng, "tall")
    problem = diagonal(x, y)
    neurons = np.arange(x.shape[1])[::-2]
    theta = rng.standard_normal((neurons.size, 2))
    way = rng.standard_normal(theta.shape)
    loss, gradient = problem.loss_grad(theta, neurons)
    curvature = way.ravel() @ problem.hessian(theta, neurons) @ way.ravel()
    steps = np.array([1e-2, 1e-3])
    rest = [
        problem.loss_grad(theta + h * way, neurons)[0] - loss - h * np.sum(gradient * way) - 0.5 * h**2 * curvature
        for h in steps
    ]
    assert np.log10(abs(rest[0] / rest[1])) == pytest.approx(3.0, abs=0.1)  # third order is left
    rows = np.arange(y.size)
    batch = problem.batch_loss_grad(theta, neurons, rows)
    assert batch[0] == pytest.approx(loss)
    np.testing.assert_allclose(batch[1], gradient)


def test_conserved_quantity_is_twice_alpha_squared():
    # [AGF] Lemma C.2 prints u^2 - v^2 = 2 alpha with theta(0) = (sqrt(2 alpha), 0); the main text's alpha is right
    x, y = five_coordinates()
    problem = diagonal(x, y)
    init = problem.init(0.1)
    np.testing.assert_allclose(init.params(), np.tile([np.sqrt(2.0) * 0.1, 0.0], (5, 1)))
    flow = agf.flow(problem, init, t_max=5.0)
    kept = problem.conserved(flow.params(-1), np.arange(5))["u^2 - v^2"]
    np.testing.assert_allclose(kept, 2 * 0.1**2, rtol=1e-10)


def test_product_of_the_weights_follows_from_the_norm_to_the_fourth_power():
    # [AGF] eq. 26 prints 2uv = +- sqrt(|theta|^2 - 4 alpha^4), which is not even homogeneous
    alpha, z = 0.3, 0.7
    u, v = np.sqrt(2) * alpha * np.cosh(z), np.sqrt(2) * alpha * np.sinh(z)
    norm2 = u**2 + v**2
    mirror = Mirror.of(agf.Init.from_params(np.array([[np.sqrt(2) * alpha, 0.0]])))
    np.testing.assert_allclose(mirror.coefficients(np.array([z])), u * v, rtol=1e-14)
    np.testing.assert_allclose(mirror.squares(np.array([z])), norm2, rtol=1e-14)
    assert 2 * u * v == pytest.approx(np.sqrt(norm2**2 - 4 * alpha**4), rel=1e-14)
    assert 2 * u * v != pytest.approx(np.sqrt(norm2 - 4 * alpha**4), rel=0.1)


def test_frames_series_integers_and_fortran_order_are_read(rng):
    pd = pytest.importorskip("pandas")
    x = rng.integers(-3, 4, (9, 3))
    y = rng.integers(-3, 4, 9)
    base = diagonal(x.astype(float), y.astype(float)).theory()
    frame = diagonal(pd.DataFrame(x, columns=["age", "bmi", "bp"]), pd.Series(y))
    for problem in (
        diagonal(x, y),
        diagonal(np.asfortranarray(x), y[:, None]),
        diagonal(x.tolist(), y.tolist()),
        frame,
    ):
        np.testing.assert_array_equal(problem.theory().levels, base.levels)
    assert frame.theory().drops[0].label in {"coordinate 0 (age)", "coordinate 1 (bmi)", "coordinate 2 (bp)"}
    assert base.drops[0].label in {"coordinate 0", "coordinate 1", "coordinate 2"}


def test_data_are_not_modified():
    x, y = five_coordinates()
    x0, y0 = x.copy(), y.copy()
    problem = diagonal(x, y)
    problem.theory()
    agf.predict(problem, problem.init(1e-8), mode="agf")
    np.testing.assert_array_equal(x, x0)
    np.testing.assert_array_equal(y, y0)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0, np.nan]], [1.0], "`X` has 1 non-finite.*index \\(0, 1\\)"),
        ([[1.0]], [np.inf], "`y` has 1 non-finite"),
        ([[1.0], [2.0]], [1.0, 2.0, 3.0], "X has 2 row\\(s\\) and y has 3"),
        ([[1.0, 2.0]], [1.0, 2.0], "X has 1 row\\(s\\) and y has 2"),
        (np.zeros((0, 2)), [], "empty"),
        ([[1e200]], [1.0], "products of entries of `X` leave"),
        ([[1.0]], [1e-200], "products of entries of `y` leave"),
        ([["a"]], [1.0], "holds text"),
        ([[0.0], [0.0]], [1.0, 2.0], "zero everywhere"),
        ([[1.0 + 2.0j]], [1.0], "complex"),
        (np.zeros((2, 2, 2)), [1.0, 2.0], "two dimensions"),
    ],
)
def test_bad_data_are_refused_at_the_door_in_a_sentence(x, y, message):
    with pytest.raises(agf.DataError, match=message):
        diagonal(x, y)


def test_names_must_fit_and_options_must_exist():
    with pytest.raises(agf.DataError, match="1 names for 2 columns"):
        agf.problem("diagonal-linear", X=np.eye(2), y=[1.0, 2.0], names=["a"])
    with pytest.raises(agf.RequestError, match="unknown option `rule`"):
        diagonal(np.eye(2), [1.0, 2.0]).theory(rule="greedy")
    with pytest.raises(agf.DataError, match="unknown kind of initialization 'zeros'"):
        diagonal(np.eye(2), [1.0, 2.0]).init(1e-3, kind="zeros")


def test_theory_survives_a_run_file(tmp_path):
    x, y = five_coordinates()
    for stairs in (diagonal(x, y).theory(), diagonal(x, y).theory(alpha=1e-9)):
        path = tmp_path / "run.npz"
        stairs.save(path)
        back = agf.load(path)
        np.testing.assert_array_equal(back.levels, stairs.levels)
        np.testing.assert_array_equal(back.times, stairs.times)
        np.testing.assert_array_equal(coefficients(back), coefficients(stairs))
        assert back.mode == "theory"


def test_example_is_the_diabetes_data_with_names():
    problem = agf.problem("diagonal-linear", **agf.registry.find("diagonal-linear").example())
    assert problem.X.shape == (442, 10)
    assert problem.theory().drops[0].label == "coordinate 2 (bmi)"


# -- size and work --------------------------------------------------------------------------------------------------


def test_work_of_the_limit_sequence_grows_like_one_factorization(monkeypatch):
    # every stage must read each active column once, not solve anew: columns entering the factor count the stages
    import agf_problems.diagonal_linear.signed_fit as module

    entries = []
    enter = module._Factor.enter
    monkeypatch.setattr(module._Factor, "enter", lambda self, j: entries.append(j) or enter(self, j))
    x = np.random.default_rng(17).standard_normal((160, 80))
    y = x @ np.random.default_rng(18).standard_normal(80)
    stairs = diagonal(x, y).theory()
    assert len(entries) == sum(drop.neurons.size for drop in stairs.drops)


@pytest.mark.parametrize("follow", [1, 2, 4])
def test_following_few_columns_of_wide_data_is_following_all(monkeypatch, follow):
    import agf_problems.diagonal_linear.limit as module

    rng = np.random.default_rng(19)
    for _ in range(5):
        n = int(rng.integers(3, 15))
        x = rng.standard_normal((n, 60 * n)) @ np.diag(rng.uniform(0.5, 1.5, 60 * n)) + 0.5 * rng.standard_normal(
            (n, 1)
        )
        x[:, 7::60] = -x[:, 3::60]  # copies
        y = rng.standard_normal(n)
        monkeypatch.setattr(module, "_WIDE", 10**6)
        whole = diagonal(x, y).theory()
        monkeypatch.setattr(module, "_WIDE", follow)
        part = diagonal(x, y).theory()
        np.testing.assert_allclose(part.accelerated_times, whole.accelerated_times, rtol=1e-10)
        np.testing.assert_allclose(
            coefficients(part), coefficients(whole), atol=1e-9 * np.abs(coefficients(whole)).max()
        )
        assert [d.neurons.tolist() for d in part.drops] == [d.neurons.tolist() for d in whole.drops]
        assert [d.collapsed.tolist() for d in part.drops] == [d.collapsed.tolist() for d in whole.drops]


def test_wide_data_never_form_a_gram_matrix():
    rng = np.random.default_rng(19)
    x = rng.standard_normal((20, 4000))
    stairs = diagonal(x, x[:, :5] @ np.ones(5)).theory()
    assert stairs.levels[-1] < 1e-25 * stairs.start_level
    assert np.count_nonzero(coefficients(stairs)[-1]) <= 20
    fit = SignedFit(x, x[:, 0])
    assert max(a.size for a in vars(fit._factor).values() if isinstance(a, np.ndarray)) <= x.size


@pytest.mark.parametrize("at", [0, 3, 45, 89])
def test_a_column_that_leaves_leaves_the_factor_of_the_others(at):
    rng = np.random.default_rng(at)
    x, y = rng.standard_normal((200, 90)), rng.standard_normal(200)
    factor = _Gram(x, y)
    for j in range(90):
        assert factor.enter(j)
    factor.leave(at)
    rest = np.delete(np.arange(90), at)
    assert factor.order.tolist() == rest.tolist()
    assert np.allclose(factor.coefficients(), np.linalg.lstsq(x[:, rest], y)[0], rtol=0, atol=1e-13)
    assert factor.enter(at)  # and it may come back
    assert np.allclose(factor.coefficients()[-1], np.linalg.lstsq(x, y)[0][at], rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["tall", "correlated", "collinear"])
def test_certificates_by_normal_equations_are_those_of_the_data(kind, monkeypatch):
    rng = np.random.default_rng(11)
    if kind == "collinear":  # condition number about 1e6: levels are small differences
        x = rng.standard_normal((40, 1)) + 1e-6 * rng.standard_normal((40, 5))
        y = x @ rng.standard_normal(5) + rng.standard_normal(40)
    else:
        x, y = random_problem(rng, kind)
    by_data = diagonal(x, y).theory()
    monkeypatch.setattr("agf_problems.diagonal_linear.limit._LARGE", 0)
    by_normal = diagonal(x, y).theory()
    np.testing.assert_allclose(by_normal.levels, by_data.levels, rtol=1e-9)
    assert by_normal.stats["kkt"] < 1e-15


def near_equal(eps, d, n=3):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 1)) + eps * rng.standard_normal((n, d))
    return diagonal(x, rng.standard_normal(n))


def test_wide_data_are_followed_in_as_many_coordinates_as_samples(rng):
    """The same losses, slopes, growth and neurons as in z, and gradients that are differences of losses."""
    problem = diagonal(rng.standard_normal((3, 40)), rng.standard_normal(3))
    init = problem.init(1e-3)
    system, whole = problem.flow_system(init), MirrorFlow(problem.X, problem.y, init)
    w = rng.standard_normal((2, 3))
    z = w @ np.linalg.svd(problem.X, full_matrices=False)[0].T @ problem.X / 3
    np.testing.assert_allclose(system.losses_and_rates(w), whole.losses_and_rates(z), rtol=1e-9)
    assert system.growth(w[0]) == pytest.approx(whole.growth(z[0]), rel=1e-9)
    np.testing.assert_allclose(system.snapshot(w[0]).log_norms, whole.snapshot(z[0]).log_norms, rtol=1e-12)
    moved = [(system.loss(w[0] + 1e-4 * e) - system.loss(w[0] - 1e-4 * e)) / 2e-4 for e in np.eye(3)]
    np.testing.assert_allclose(system.gradients(w)[0], moved, rtol=1e-5)
    assert agf.check(problem).passed
    square = diagonal(rng.standard_normal((40, 40)), rng.standard_normal(40))
    assert isinstance(square.flow_system(square.init(1e-3)), MirrorFlow)


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-9])
def test_two_thousand_nearly_equal_columns_of_three_samples_take_seconds(eps):
    """In z they took 10,000 to a million gradients and up to minutes, in w two thousand at most."""
    problem = near_equal(eps, 2000)
    init = problem.init(1e-6)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    assert flow.stats["evaluations"] < 4000
    assert stairs.stats["velocity_evaluations"] < 4000
    assert flow.status is agf.Status.SETTLED
    assert stairs.status is agf.Status.FITTED
    assert max(map(len, stairs.labels)) < 400
    assert "neuron" not in " ".join(stairs.labels)
    assert stairs.half_times[1] == pytest.approx(flow.drops[0].time, rel=1e-2)
    assert np.diff(flow.losses).max() <= 1e-9 * flow.losses[0]
    assert np.diff(stairs.curve_losses).max() <= 1e-9 * flow.losses[0]


def test_the_late_curve_of_nearly_equal_columns_is_that_of_another_method():
    """Against scipy's Radau in the mean column and what is apart from it, each in its own unit.

    Between the nodes of a long step the coefficients of 1e9 that nearly cancel were off by 1e-11 of theirs in common:
    the loss rose by 6e-3 of that at the start.
    """
    from scipy.integrate import solve_ivp

    eps, d, n = 1e-9, 100, 3
    problem = near_equal(eps, d)
    flow = agf.flow(problem, problem.init(1e-6))
    mean = np.random.default_rng(0).standard_normal((3, 1))
    length, apart = np.linalg.norm(mean), problem.X - mean
    along, across = np.split(np.linalg.svd(mean)[0].T, [1])
    along *= np.sign(along @ mean)
    rows = np.vstack([length + along @ apart, across @ apart / eps])  # of X, in units 1 and eps
    units = np.array([1.0, eps, eps])

    def parts(s):
        z = np.clip(rows.T @ s / n, -30.0, 30.0)  # some first tries are absurd
        r = np.concatenate([along, across]) @ problem.y - units * (rows @ (1e-12 * np.sinh(2 * z)))
        return r, 2e-12 * np.cosh(2 * z)

    def velocity(t, s):  # t in units of 1 / eps
        return parts(s)[0] * units / eps

    def jacobian(t, s):
        return -(units**2 / eps)[:, None] * (rows * parts(s)[1]) @ rows.T / n

    late = flow.times > 1e3
    times = eps * flow.times[late]
    theirs = solve_ivp(velocity, (0.0, times[-1]), np.zeros(3), "Radau", times, jac=jacobian, rtol=1e-9, atol=1e-11)
    losses = [0.5 * np.sum(parts(s)[0][1:] ** 2) / n for s in theirs.y.T]  # the fast part has long gone
    np.testing.assert_allclose(flow.losses[late], losses, rtol=0, atol=3e-5 * flow.losses[0])


def test_the_curve_of_nearly_equal_columns_is_that_of_another_method():
    """Against scipy's Radau on the flow as the paper has it, in weights u and v."""
    from scipy.integrate import solve_ivp

    problem = near_equal(1e-2, 30)
    flow = agf.flow(problem, problem.init(1e-2))
    x, y, n = problem.X, problem.y, 3

    def velocity(t, theta):
        u, v = theta.reshape(2, -1)
        g = x.T @ (y - x @ (u * v)) / n
        return np.concatenate([v * g, u * g])

    start = np.concatenate([np.full(30, 2**0.5 * 1e-2), np.zeros(30)])
    times = flow.times[flow.times < 2000.0][::10]
    theirs = solve_ivp(velocity, (0.0, times[-1]), start, "Radau", times, rtol=1e-9, atol=1e-12).y.T.reshape(-1, 2, 30)
    losses = [0.5 * np.sum((y - x @ (u * v)) ** 2) / n for u, v in theirs]
    ours = flow.losses[flow.times < 2000.0][::10]
    np.testing.assert_allclose(ours, losses, rtol=0, atol=1e-6 * losses[0])


@pytest.mark.parametrize("apart", [1.0, 1e-7])
def test_low_levels_are_told_from_one_of_them_as_far_as_digits_reach(rng, apart):
    """Levels that are small differences of large terms: from one residual where the coefficients are near each other,
    and from their own where columns are nearly equal and coefficients are not."""
    x = apart * rng.standard_normal((50, 6)) + rng.standard_normal((50, 1))
    best = 1e3 * rng.standard_normal(6)
    y = x @ best + rng.standard_normal(50)
    beta = best + np.linalg.svd(x)[2][-1] * np.linspace(-1.0, 1.0, 9)[:, None] / apart
    v, norms = (y - beta @ x.T) @ x / 50, np.linalg.norm(x, axis=0)
    terms = np.linalg.norm(y) + np.abs(beta) @ norms
    exact = 0.5 * np.mean((y - beta @ x.T) ** 2, axis=1)
    found = limit._low(x, y, norms, np.arange(6), beta, v, terms)
    np.testing.assert_allclose(found, exact, rtol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("second", [[1.0, 1.0], [0.1, 0.0], [1.1, 1.0], [30.0, -2.0]])
def test_equal_columns_share_as_they_started(sign, second):
    # beta_i = (p_i^2 e^2z - q_i^2 e^-2z)/4 with one z for both columns (minus z for an opposite one): a logistic in
    # closed form for the sum, which begins at (p_1^2 + p_2^2)/4. Halves were off by log 2 / (4 U), with a bar of .03 %.
    rng = np.random.default_rng(1)
    x = rng.standard_normal(14)
    y = 0.5 * x + 0.3 * rng.standard_normal(14)
    alpha = 1e-30
    theta = np.array([[1.0, 1.0], second])
    problem = agf.problem("diagonal-linear", X=np.column_stack([x, sign * x]), y=y)
    init = agf.Init.from_params(alpha * theta)
    grows = [theta[0].sum() ** 2, (theta[1, 0] + sign * theta[1, 1]) ** 2]
    rate, total = float(x @ y) / 14, float(x @ y) / float(x @ x)
    log_part = np.log(np.sum(grows) / 4.0) + 2.0 * np.log(alpha) - np.log(total)
    half = (np.log(1.0 - np.sqrt(0.5)) - np.log(np.sqrt(0.5)) - log_part) / (2.0 * rate)
    for stairs in (
        agf.predict(problem, init, mode="agf"),
        agf.predict_many(problem, [init, init], mode="agf")[1],
        agf.predict(problem, init),
    ):
        assert stairs.drops[0].half_time == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("shape", [(20, 5), (6, 12)])
@pytest.mark.parametrize("doubled", [False, True])
def test_decay_rates_of_a_settled_state_are_those_of_its_hessian(shape, doubled):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape)
    if doubled:
        x[:, 1] = -x[:, 0]
    problem = agf.problem("diagonal-linear", X=x, y=x @ rng.standard_normal(shape[1]) + rng.standard_normal(shape[0]))
    phases = problem.phases(problem.init(1e-6), agf.Settings(mode="agf"))
    state, compared = phases.start(), 0
    while True:
        state, activation = phases.dormant(state)
        if isinstance(activation, agf.Status):
            break
        state, _ = phases.active(state, activation)
        active = np.flatnonzero(state.active)
        all_rates = np.linalg.eigvalsh(problem.hessian(state.rows(active), active))
        # each coordinate has one that is conserved, and so 0; copies of a column have another
        np.testing.assert_allclose(phases.rates(state), all_rates[-active.size :], rtol=1e-7, atol=1e-9 * all_rates[-1])
        compared += 1
    assert compared >= 4


def test_a_rate_that_is_rounding_hides_no_plateau():
    """Squared, and times the time, rounding of the gradient of a large column was all of the loss that is left."""
    z = np.random.default_rng(0).standard_normal((60, 3))
    y = z @ [1.0, -2.0, 3.0] + 0.3 * np.random.default_rng(1).standard_normal(60)
    problem = agf.problem("diagonal-linear", X=z * [1e-19, 1.0, 4e8], y=y)
    flow = agf.flow(problem, problem.init(1e-6), max_gradients=40_000)
    assert flow.times[-1] > 1e19
    assert flow.status is agf.Status.PLATEAU
    assert flow.stats["due"] == pytest.approx(agf.predict(problem, problem.init(1e-6)).half_times[-1], rel=0.05)
