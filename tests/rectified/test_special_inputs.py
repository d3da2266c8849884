"""Inputs at the edge of what the theorems are about: the right answer, or a sentence."""

import numpy as np
import pytest

import agf


def test_orthogonal_inputs_of_both_signs_have_their_ends_and_their_staircase():
    """Every set of positive samples has one for a > 0, those beside walls that do not bend; D = (1, 2, 0) / 3 leads."""
    problem = agf.TwoLayer(np.eye(3), [1.0, 2.0, -1.0], width=8, kink=0)
    found = agf.landscape(problem)
    assert [one.kind for one in found.criticals] == ["maximum", "degenerate", "degenerate", "minimum"]
    assert found.utilities == pytest.approx(np.array([np.sqrt(5), 2, 1, 1]) / 6)
    assert len(found.ends) == 4
    stairs = problem.theory()
    assert stairs.accelerated_times[1:] == pytest.approx([3 / np.sqrt(5), 3.0], rel=1e-6)
    assert stairs.levels == pytest.approx([1.0, 1 / 6, 0.0], abs=1e-6)  # kinks are rounded by 1e-3, to its square
    phase = agf.align(problem, problem.init(1e-6, seed=0, kind="balanced"))
    ends = {round(one.utility, 9) for one in found.ends} | {0.0}
    assert {round(phase.cluster(k).utility, 9) for k in range(phase.n_clusters)} <= ends


def test_a_zero_sample_is_fitted_by_nobody():
    """A sample that is 0 has no activation; its label stays in the loss."""
    X, y = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]]), np.array([1.0, 1.0, -1.0])
    problem = agf.TwoLayer(X, y, width=6)
    theta = np.random.default_rng(0).standard_normal((6, 3))
    everybody = np.arange(6)
    sharp = agf.TwoLayer(X, y, width=6, kink=0)
    assert problem.loss_grad(theta, everybody)[0] == pytest.approx(sharp.loss_grad(theta, everybody)[0], rel=1e-9)
    assert (problem.outputs(theta, everybody)[:, 0] == 0).all()
    step, gradient = 1e-6, problem.loss_grad(theta, everybody)[1]
    for index in np.ndindex(6, 3):
        moved = [theta.copy(), theta.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        losses = [problem.loss_grad(each, everybody)[0] for each in moved]
        assert gradient[index] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-7)
    init = problem.init(1e-4, seed=0, kind="balanced")
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init, t_max=200.0)
    assert stairs.levels[-1] == pytest.approx(1 / 6, rel=1e-3)
    assert flow.losses[-1] == pytest.approx(1 / 6, rel=1e-3)
    assert agf.escape(problem, stairs).verdict == "optimal"


@pytest.mark.parametrize(
    ("X", "y", "level"),
    [
        (np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 1.0]]), [1.0, -1.0, 0.5], 1 / 3),
        (np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]]), [1.0, 0.5, -1.0], 0.075),
        (np.array([[1.0], [2.0], [-0.5]]), [1.0, -1.0, 0.3], None),
        (np.array([[1.0, 2.0]]), [1.0], 0.0),
    ],
    ids=["contradicting duplicates", "collinear", "one column", "one sample"],
)
def test_the_best_network_is_least_squares_over_what_differs(X, y, level):
    """Of duplicates the mean counts; on a line each side has its own least squares."""
    problem = agf.TwoLayer(X, y, width=8, kink=0)
    stairs = problem.theory()
    if level is None:
        x, labels = X[:, 0], np.array(y)
        level = sum(
            np.sum((labels[side] - x[side] * (x[side] @ labels[side]) / (x[side] @ x[side])) ** 2)
            for side in (x > 0, x < 0)
        ) / (2 * x.size)
    assert stairs.levels[-1] == pytest.approx(level, abs=1e-8 * stairs.start_level)  # the tolerance of `theory`
    phase = agf.align(problem, problem.init(1e-6, seed=1, kind="balanced"))
    assert set(phase.fate) <= {"aligns", "opposed", "dead", "flat"}


def test_a_thousand_samples_in_ten_columns_are_followed_and_marked():
    rng = np.random.default_rng(0)
    problem = agf.TwoLayer(rng.standard_normal((1000, 10)), rng.standard_normal(1000), width=5, kink=0)
    found = agf.landscape(problem, starts=8)
    assert not found.complete
    assert "not proven complete" in str(found)
    with pytest.raises(agf.NoTheory, match="too many activation cones"):
        problem.theory()


@pytest.mark.parametrize("leak", [0.1, 0.01])
def test_the_staircase_ends_where_only_rounding_is_left(leak):
    """Duplicates that contradict each other leave 1/3 for ever; beside it utilities are 1e-8 of the first."""
    problem = agf.TwoLayer([[1.0, 0.0], [1.0, 0.0], [0.5, 1.0]], [1.0, -1.0, 0.5], "leaky-relu", width=6, leak=leak)
    stairs = problem.theory()
    # 1e-9 of the loss is left to relax where an active phase ends
    assert stairs.levels == pytest.approx([0.375, 1 / 3], rel=2e-9)
    assert "optimal at any width" in str(stairs)


@pytest.mark.parametrize("kink", [None, 1e-4, 1e-3, 2e-3, 1e-2])
def test_a_neuron_that_is_held_by_a_kink_has_its_level_in_the_limit_whatever_the_width_of_the_kink(kink):
    X, y = np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6])
    t = np.deg2rad(-20.0)
    problem = agf.TwoLayer(X, y, width=1, kink=kink)
    stairs = agf.predict(problem, agf.Init.from_params(1e-6 * np.array([[np.cos(t), np.sin(t), 1.0]])), mode="limit")
    assert stairs.levels == pytest.approx([0.43, 0.305], abs=1e-6)
    assert stairs.accelerated_times[1] == pytest.approx(1 / 0.225089, rel=3 * (kink or 1e-4))


def end_of_descent(X, y, theta, rate=0.02, steps=20_000):
    """Loss at the end of textbook gradient descent, relu'(0) = 0, in numpy alone."""
    w, a = theta[:, :-1], theta[:, -1]
    for _ in range(steps):
        h = w @ X.T
        r = (y - a @ np.maximum(h, 0)) / y.size
        w, a = w + rate * a[:, None] * (((h > 0) * r) @ X), a + rate * np.maximum(h, 0) @ r
    return 0.5 * np.mean((y - a @ np.maximum(w @ X.T, 0)) ** 2)


@pytest.mark.parametrize("seed", range(-1, 10))
def test_samples_on_which_every_neuron_is_inactive_are_not_learned_though_it_grows_past_them(seed):
    """Orthogonal data: w . x_k < 0 stands still while |w| grows a millionfold, so that it comes as near as you like to
    its kink; rounded on both sides, kinks learned such samples (5.7e-7 for .2087)."""
    rng = np.random.default_rng(max(seed, 0))
    n = int(rng.integers(2, 6))
    X = np.linalg.qr(rng.standard_normal((n + 1, n + 1)))[0][:n] * rng.uniform(0.5, 2, (n, 1))
    y, theta = rng.uniform(0.5, 2, n), 1e-6 * rng.standard_normal((int(rng.integers(1, 4)), n + 2))
    if seed < 0:
        X, y, theta = np.eye(2), np.array([2.0, 3.0]), 1e-6 * np.array([[1.0, -1.0, 1.5]])
    problem, init = agf.TwoLayer(X, y, width=theta.shape[0]), agf.Init.from_params(theta)
    end = end_of_descent(X, y, theta)
    # of mean squares of order one; flow and predictions end at 1e-6 of the loss
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert flow.losses[-1] == pytest.approx(end, abs=1e-5)
    assert stairs.levels[-1] == pytest.approx(end, abs=1e-5)
    # nor is a neuron of 1e-6 waited for that only what it makes itself leaves something to grow on (2e6 for 800)
    assert stairs.stats["velocity_evaluations"] < 5 * flow.stats["evaluations"]
