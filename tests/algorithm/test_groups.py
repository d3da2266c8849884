"""Neurons that share a direction are one neuron with rho^2 = sum rho_i^2 (degree 2), in every mode."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

import agf
from agf.coordinates.aligned import log_group_norms

THREE = (np.array([[-0.75, 1], [-0.5, 1], [0.125, 1]]), np.array([1.1, 0.1, 0.8]))


def shares(rng, count):
    """Norms of `count` neurons whose squares add up to 1."""
    norms = rng.exponential(size=count)
    return norms / np.linalg.norm(norms)


@pytest.mark.parametrize("mode", ["agf", "limit"])
@given_settings(max_examples=5)
@given(st.integers(2, 30), st.integers(0, 1000))
def test_neurons_of_one_direction_are_predicted_as_one_neuron(mode, count, seed):
    rng = np.random.default_rng(seed)
    row = np.append(rng.standard_normal(2), np.sqrt(2.0))
    few, many = (agf.TwoLayer(*THREE, width=width) for width in (1, count))
    one = agf.predict(few, agf.Init.from_params(1e-8 * row[None], alpha=1e-8), mode=mode)
    parts = 1e-8 * shares(rng, count)[:, None] * row
    group = agf.predict(many, agf.Init.from_params(parts, alpha=1e-8), mode=mode)
    assert len(group.drops) == len(one.drops)
    # each neuron takes steps of its own, with an error of rtol^(2/3) = 1e-4 a step at kinks, of a time of 20 e-folds
    assert group.times == pytest.approx(one.times, rel=1e-4)
    assert group.levels == pytest.approx(one.levels, rel=1e-6)


def test_a_group_keeps_its_shares_through_a_drop():
    row, norms = np.array([0.3, 1.0, np.sqrt(1.09)]), shares(np.random.default_rng(1), 6)
    problem = agf.TwoLayer(*THREE, width=6)
    stairs = agf.predict(problem, agf.Init.from_params(1e-6 * norms[:, None] * row), max_drops=1, mode="agf")
    left = stairs.drops[0].log_norms
    assert left - left[0] == pytest.approx(np.log(norms / norms[0]), abs=1e-3)


@pytest.mark.parametrize("width", [20, 200])
def test_random_neurons_that_align_activate_as_their_group(width):
    """Three points, one critical direction that grows: the flow's half-drop, which lone neurons miss by 5 and 16 %."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((width, 2))
    signs = np.where(rng.random(width) < 0.5, -1.0, 1.0)
    inner = 1e-3 / np.sqrt(width) * w
    problem = agf.TwoLayer(*THREE, width=width)
    init = agf.Init.from_params(np.c_[inner, signs * np.linalg.norm(inner, axis=1)])
    stairs = agf.predict(problem, init, max_drops=1, mode="agf")
    half = 0.5 * (0.31 + 0.0875213675)
    trained = agf.flow(problem, init, t_max=14.0)
    assert stairs.drops[0].half_time == pytest.approx(trained.time_at(half), rel=2e-3)
    assert stairs.levels[-1] == pytest.approx(0.0875213675, rel=1e-6)


@pytest.mark.parametrize("angles", [[190, 100], [190, 100, 80], [190, 100, 10]])
def test_in_the_limit_neurons_that_reach_one_critical_point_are_one(angles):
    """[r2] One drop at 1.398662, to .0875213675, where a tie of 1e-6 saw another for each further neuron."""
    t = np.deg2rad(angles)
    problem = agf.TwoLayer(*THREE, width=len(angles))
    init = agf.Init.from_params(1e-8 * np.c_[np.cos(t), np.sin(t), np.ones(len(angles))], alpha=1e-8)
    stairs = agf.predict(problem, init, mode="limit")
    assert stairs.accelerated_times == pytest.approx([0.0, 1.398662], rel=1e-6)
    assert stairs.levels == pytest.approx([0.31, 0.0875213675], rel=1e-6)


@pytest.mark.parametrize("seed", [None, 0, 2])
def test_the_order_of_neurons_changes_no_drop_of_a_relu_network(seed):
    """Two drops, to the loss of the flow; small neurons of a group no longer creep on by themselves."""
    r = np.random.default_rng(2)
    X = r.standard_normal((60, 3))
    Y = np.tanh(X @ [1.0, 0, 0]) - 0.7 * np.tanh(X @ [0, 1.0, 0])
    problem = agf.TwoLayer(X, Y, activation="relu", width=6)
    rows = np.arange(6) if seed is None else np.random.default_rng(seed).permutation(6)
    stairs = agf.predict(problem, agf.Init.from_params(problem.init(1e-6, seed=3).params()[rows]), mode="agf")
    assert stairs.half_times[1:] == pytest.approx([31.99665, 46.1493], rel=1e-4)
    assert stairs.levels[-1] == pytest.approx(0.0178188188, rel=1e-6)  # of agf.flow to t = 8000


@pytest.mark.parametrize("seed", [4, 5])
def test_neurons_that_met_part_again_and_make_a_drop(seed):
    """At the first drop two are closer than .1; held as one from there they never make the second."""
    r = np.random.default_rng(seed)
    outputs, width, inputs = 1 + seed % 3, 2 + seed % 4, 2 + seed % 3
    X, W, A = r.standard_normal((30, inputs)), r.standard_normal((inputs, 2)), r.standard_normal((2, outputs))
    Y = (np.maximum(X @ W, 0.0) if seed % 2 else X @ W) @ A
    problem = agf.TwoLayer(X, Y, activation="relu", width=width)
    init = problem.init(1e-6, seed=seed)
    stairs, flow = agf.predict(problem, init, t_max=70.0), agf.flow(problem, init, t_max=70.0)
    assert len(stairs.drops) == len(flow.drops) == 2
    for predicted, seen in zip(stairs.drops, flow.drops, strict=True):
        # what joining at .03 R* leaves out moves the spread, of which the second time is the logarithm
        assert predicted.half_time == pytest.approx(seen.time, rel=0.03)
    assert stairs.levels[-1] == pytest.approx(flow.drops[-1].after, abs=1e-3 * flow.losses[0])


def test_group_norms_are_sums_of_squares_over_a_cap():
    directions = np.array([[1.0, 0.0], [np.cos(0.05), np.sin(0.05)], [0.0, 1.0], [1.0, 0.0]])
    log_norms = np.array([0.0, -1.0, -300.0, -np.inf])
    got = log_group_norms(directions, log_norms, np.arange(4), 0.1)
    both = 0.5 * np.log1p(np.exp(-2.0))
    assert got == pytest.approx([both, both, -300.0, both])
    assert log_group_norms(directions, log_norms, np.array([2]), 2.0) == pytest.approx([both])


def test_aligned_neurons_of_a_tanh_network_race_as_one_but_learn_apart():
    # of neurons that align on the first plateau, one learns the first feature, and the others the second
    X = np.random.default_rng(0).standard_normal((30, 3))
    problem = agf.TwoLayer(X, np.tanh(X[:, 0]) + 0.4 * np.tanh(X[:, 1]), activation="tanh", width=4)
    init = problem.init(1e-4)
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    assert stairs.levels[1] == pytest.approx(flow.drops[0].after, rel=0.05)
    # what is left out: neurons turn and saturate during a drop, of order 1/log(1/alpha)
    for predicted, seen in zip(stairs.half_times[1:], flow.drops, strict=False):
        assert predicted == pytest.approx(seen.time, rel=0.06)
