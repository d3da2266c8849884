"""Linear networks as a problem: laws of covariance, initial weights, shapes, degenerate data and requests refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from agf_problems.linear.moments import Moments
from agf_problems.linear.problem import Linear
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_cases import EXAMPLE, commuting, generic, observed, rotation

import agf
from agf.errors import DataError, RequestError


@settings(max_examples=12)
@given(target=st.floats(-3, 3), inputs=st.floats(-3, 3), seed=st.integers(0, 50))
def test_rescaling_data_rescales_times_and_levels_and_nothing_else(target, inputs, seed):
    y, x = 10.0**target, 10.0**inputs
    arguments = generic(seed, d=4, c=3)
    base = Linear(**arguments, width=3)
    scaled = Linear(Sxx=arguments["Sxx"] * x**2, B=arguments["B"] * y / x, width=3)
    a, b = base.theory(), scaled.theory()
    np.testing.assert_allclose(b.levels, a.levels * y**2, rtol=1e-8, atol=1e-12 * y**2)
    np.testing.assert_allclose(b.accelerated_times, a.accelerated_times / (x * y), rtol=1e-8)
    # Weights scale with the square root of the map.
    theta = base.init(1e-10, seed=seed).params()
    p = agf.predict(base, agf.Init.from_params(theta), mode="agf")
    q = agf.predict(scaled, agf.Init.from_params(theta * np.sqrt(y / x)), mode="agf")
    np.testing.assert_allclose(q.times, p.times / (x * y), rtol=1e-5)
    np.testing.assert_allclose(q.levels, p.levels * y**2, rtol=1e-4, atol=1e-6 * y**2)


def test_rotating_inputs_outputs_and_hidden_units_changes_nothing(rng):
    arguments = generic(11, d=4, c=3)
    base = Linear(**arguments, width=5)
    turn, out, hidden = rotation(rng, 4), rotation(rng, 3), rotation(rng, 5)
    turned = Linear(Sxx=turn @ arguments["Sxx"] @ turn.T, B=out @ arguments["B"] @ turn.T, width=5)
    theta = base.init(1e-8).params()
    moved = hidden @ np.concatenate([theta[:, :4] @ turn.T, theta[:, 4:] @ out.T], axis=1)
    p = agf.predict(base, agf.Init.from_params(theta), mode="agf")
    q = agf.predict(turned, agf.Init.from_params(moved), mode="agf")
    np.testing.assert_allclose(q.times, p.times, rtol=1e-6)
    np.testing.assert_allclose(q.levels, p.levels, rtol=1e-5, atol=1e-9)


def test_balanced_and_aligned_weights_start_balanced_and_stay_so():
    problem = Linear(**generic(3, d=4, c=3), width=6, coordinates="factored")
    for kind in ("balanced", "aligned"):
        init = problem.init(1e-3, kind=kind)
        theta = init.params()
        imbalance = problem.conserved(theta, np.arange(6))["imbalance"]
        assert np.abs(imbalance).max() < 1e-15 * np.abs(theta).max()
        assert np.sum(theta[:, :4] ** 2) == pytest.approx(6 * 1e-6)  # E|w_i|^2 = alpha^2
        flow = agf.flow(problem, init, t_max=10.0)
        assert np.abs(problem.conserved(flow.params(-1), np.arange(6))["imbalance"]).max() < 1e-5
    with pytest.raises(DataError, match="kind"):
        problem.init(1e-3, kind="orthogonal")


def test_gaussian_weights_have_rows_and_columns_of_norm_alpha():
    theta = Linear(**generic(3, d=50, c=20), width=400).init(1e-5).params()
    assert np.sqrt(np.mean(np.sum(theta[:, :50] ** 2, axis=1))) == pytest.approx(1e-5, rel=0.03)
    assert np.sqrt(np.mean(np.sum(theta[:, 50:] ** 2, axis=1))) == pytest.approx(1e-5, rel=0.03)


def test_the_loss_of_samples_is_half_the_mean_square(rng):
    x = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 4))
    y = x @ rng.standard_normal((4, 3)) + rng.standard_normal((30, 3))
    problem = Linear(X=x, Y=y, width=5)
    theta = rng.standard_normal((5, 7))
    beta = theta[:, 4:].T @ theta[:, :4]
    loss, gradient = problem.loss_grad(theta, np.arange(5))
    assert loss == pytest.approx(np.sum((y - x @ beta.T) ** 2) / 60, rel=1e-10)
    theory = problem.theory()
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    assert theory.levels[-1] == pytest.approx(np.sum((y - x @ best) ** 2) / 60, rel=1e-10)
    assert theory.levels[0] == pytest.approx(np.sum(y**2) / 60, rel=1e-12)
    moments = Linear(Sxx=x.T @ x / 30, Syx=y.T @ x / 30, width=5)
    np.testing.assert_allclose(moments.loss_grad(theta, np.arange(5))[1], gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(moments.theory().accelerated_times, theory.accelerated_times, rtol=1e-9)


def test_a_singular_covariance_learns_what_varies(rng):
    x = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 6))
    problem = Linear(X=x, Y=x @ rng.standard_normal((6, 4)))
    assert problem.moments.rank == 3
    theory = problem.theory()
    assert len(theory.drops) == 3
    assert theory.levels[-1] == pytest.approx(0, abs=1e-12 * theory.levels[0])
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    assert stairs.status is agf.Status.FITTED
    np.testing.assert_allclose(stairs.levels, theory.levels, rtol=2e-2, atol=1e-3 * theory.levels[0])


def test_no_signal_is_an_empty_staircase_that_is_fitted():
    problem = Linear(Sxx=np.eye(2), B=np.zeros((3, 2)))
    assert len(problem.theory().drops) == 0
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    assert len(stairs.drops) == 0
    assert stairs.status is agf.Status.FITTED
    assert stairs.levels.tolist() == [0.0]


@pytest.mark.parametrize("mode", ["auto", "agf", "resolved", "limit"])
def test_targets_that_rounding_alone_correlates_with_the_inputs_are_nothing_to_learn(rng, mode):
    x, y = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    basis = np.linalg.qr(x)[0]
    y -= basis @ (basis.T @ y)
    assert np.abs(y.T @ x).max() > 0.0  # else there would be no rounding to tell
    problem = agf.problem("linear", X=x, Y=y)
    stairs = agf.predict(problem, problem.init(1e-6, seed=0), mode=mode)
    assert stairs.drops == ()
    assert problem.theory().drops == ()


def test_an_input_far_below_the_rounding_of_another_is_learned(rng):
    # sums are told from rounding entry by entry: 1e-9 of the one input is less than rounding of the other makes
    x = rng.standard_normal((40, 2)) * [1e6, 1e-9]
    problem = agf.problem("linear", X=x, Y=x[:, 1:] * 1e9)
    assert len(problem.theory().drops) == 1


def test_results_survive_a_file(tmp_path):
    problem = Linear(**generic(2, d=3, c=3))
    stairs = agf.predict(problem, problem.init(1e-20), mode="agf")
    stairs.save(tmp_path / "run")
    back = agf.load(next(tmp_path.iterdir()))
    np.testing.assert_array_equal(back.times, stairs.times)
    again = agf.problem("linear", **back.arguments)
    np.testing.assert_array_equal(agf.predict(again, back.init, mode="agf").times, stairs.times)
    for saved, drop in zip(back.drops, stairs.drops, strict=True):
        np.testing.assert_array_equal(saved.features["singular_values"], drop.features["singular_values"])


def test_one_input_and_one_output():
    problem = Linear(Sxx=[[0.5]], B=[[-3.0]], width=4)
    theory = problem.theory()
    np.testing.assert_allclose(theory.levels, [2.25, 0], atol=1e-14)
    np.testing.assert_allclose(theory.accelerated_times, [0, 1 / 1.5])
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    flow = agf.flow(problem, problem.init(1e-8))
    assert observed(flow, stairs.levels)[0] == pytest.approx(stairs.half_times[1], rel=1e-4)


@pytest.mark.parametrize(("d", "c"), [(6, 1), (1, 5), (2, 7)])
def test_more_inputs_than_outputs_and_the_reverse(d, c):
    problem = Linear(**generic(4, d=d, c=c), width=8)
    theory, stairs = problem.theory(), agf.predict(problem, problem.init(1e-12), mode="agf")
    assert len(theory.drops) == len(stairs.drops) == min(d, c)
    assert stairs.status is agf.Status.FITTED


def test_a_narrow_network_stops_when_its_units_are_used_up():
    problem = Linear(**generic(6, d=6, c=4), width=2)
    theory, stairs = problem.theory(), agf.predict(problem, problem.init(1e-20), mode="agf")
    assert len(theory.drops) == len(stairs.drops) == 2
    assert stairs.status is agf.Status.ALL_ACTIVE
    flow = agf.flow(problem, problem.init(1e-20))
    # The best map of rank 2, by Eckart and Young in the norm of the inputs.
    left = np.linalg.svd(problem.target @ problem.root, compute_uv=False)[2:]
    assert flow.losses[-1] == pytest.approx(0.5 * np.sum(left**2), rel=1e-4)
    assert theory.levels[-1] == pytest.approx(0.5 * np.sum(left**2), rel=1e-9)
    assert not any("saddle" in note for note in theory.notes)
    narrow = Linear(**EXAMPLE, width=1)
    assert any("saddle" in note for note in narrow.theory().notes)


def test_the_utility_is_what_a_small_mode_takes_off_the_loss(rng):
    problem = Linear(**generic(9, d=4, c=3), width=2)
    active, mode = rng.standard_normal((1, 7)), 1e-5 * rng.standard_normal((1, 7))
    both = np.concatenate([active, mode])
    before = problem.loss_grad(active, np.arange(1))[0]
    gain = before - problem.loss_grad(both, np.arange(2))[0]
    utility = problem.utility(mode, np.array([1]), problem.residual(active, np.arange(1)))[0][0]
    assert gain == pytest.approx(utility, rel=1e-4)


def test_outputs_give_the_loss_of_single_neurons(rng):
    problem = Linear(**generic(9, d=4, c=3), width=5)
    theta, who = rng.standard_normal((5, 7)), np.arange(5)
    out = problem.outputs(theta, who)
    none = np.zeros((0, 7)), np.zeros(0, dtype=np.int64)
    zero, residual = problem.loss_grad(*none)[0], problem.residual(*none)
    utilities = problem.utility(theta, who, residual)[0]
    for i in who:
        loss = problem.loss_grad(theta[[i]], who[[i]])[0]
        assert loss == pytest.approx(zero - utilities[i] + 0.5 * out[i] @ out[i], rel=1e-10)


def test_independent_blocks_are_found_under_rotations_and_rounding(rng):
    arguments = commuting(rng, 6)[2]
    assert len(Moments.of(arguments["Sxx"], arguments["B"] @ arguments["Sxx"]).blocks) == 6
    assert len(Linear(**generic(0)).moments.blocks) == 1
    assert len(Linear(Sxx=np.eye(3), B=2 * np.eye(3)).moments.blocks) == 3
    # Equal singular values leave the basis free: it is the one in which the inputs decouple.
    assert len(Linear(Sxx=arguments["Sxx"], Syx=rotation(rng, 6)).moments.blocks) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one way"),
        ({"Sxx": np.eye(2)}, "exactly one way"),
        ({"Sxx": np.eye(2), "B": np.eye(2), "Syx": np.eye(2)}, "exactly one way"),
        ({"X": np.eye(2), "Y": np.eye(2), "B": np.eye(2)}, "exactly one way"),
        ({"Sxx": [[1.0, 0.5], [0.2, 1.0]], "B": np.eye(2)}, r"not symmetric.*Sxx\[0, 1\] = 0.5"),
        ({"Sxx": [[1.0, 2.0], [2.0, 1.0]], "B": np.eye(2)}, "not positive semidefinite.*-1"),
        ({"Sxx": -np.eye(2), "B": np.eye(2)}, "not positive semidefinite"),
        ({"Sxx": np.zeros((2, 2)), "B": np.eye(2)}, "zero"),
        ({"Sxx": np.ones((2, 3)), "B": np.eye(2)}, "square"),
        ({"Sxx": np.eye(3), "B": np.eye(2)}, r"`B` has shape \(2, 2\).*\(any, 3\)"),
        ({"Sxx": np.eye(3), "Syx": np.ones((2, 4))}, "`Syx`"),
        ({"Sxx": np.diag([1.0, 0.0]), "Syx": np.eye(2)}, "never vary"),
        ({"X": np.ones((3, 2)), "Y": np.ones((4, 2))}, "`Y` has shape"),
        ({"X": np.zeros((3, 2)), "Y": np.ones((3, 2))}, "zero"),
        ({"X": [[1.0, np.nan]], "Y": [[1.0]]}, "non-finite"),
        ({"Sxx": np.eye(2), "B": np.eye(2), "width": 0}, "`width` must be at least 1"),
        ({"Sxx": np.eye(2), "B": np.eye(2), "coordinates": "polar"}, "unknown coordinates"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(arguments, words):
    with pytest.raises(DataError, match=words):
        Linear(**arguments)


@pytest.mark.parametrize("options", [{"rule": "published"}, {"alpha": 2.0}, {"alpha": -1.0}, {"seed": 0}])
def test_wrong_requests_for_the_theory_are_refused(options):
    with pytest.raises(RequestError):
        Linear(**EXAMPLE).theory(**options)


def test_the_problem_passes_its_own_conformance_suite():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = agf.check(agf.problem("linear", **Linear.example()))
    assert report.passed, str(report)


def test_singular_vectors_keep_their_signs_along_a_flow():
    """LAPACK gives pairs any sign: those of a run flipped from one snapshot to the next, and so did their picture."""
    X = np.random.default_rng(0).standard_normal((60, 4))
    problem = agf.problem("linear", X=X, Y=X @ np.diag([3.0, 1.0, 0.3, 0.1]))
    run = agf.flow(problem, problem.init(1e-8))
    values = run.features("singular_values")
    for name in ("left", "right"):
        vectors = run.features(name)
        turns = np.sum(vectors[1:] * vectors[:-1], axis=-1)
        learned = np.minimum(values[1:], values[:-1]) > 0.05
        assert turns[learned].min() > 0.9
        assert np.allclose(np.linalg.norm(vectors, axis=-1), 1.0)
