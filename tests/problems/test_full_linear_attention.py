"""Linear attention with whole matrices: which blocks matter, and that the others stay where they start."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.linear_attention.full import FullLinearAttention
from agf_problems.linear_attention.problem import LinearAttention

import agf
from agf.errors import NoTheory


def _covariance(rng, d):
    root = rng.standard_normal((d, d + 2))
    return root @ root.T / d


def _random(problem, rng, size=0.4):
    return size * rng.standard_normal((problem.width, problem.n_params))


def test_whole_matrices_hold_the_rank_one_heads():
    rng = np.random.default_rng(12)
    covariance = _covariance(rng, 4)
    heads, full = LinearAttention(covariance, 9, 3), FullLinearAttention(covariance, 9, 3, 2)
    theta = _random(heads, rng)
    loss, gradient = heads.loss_grad(theta, np.arange(heads.width))
    whole = np.zeros((3, 5, 5))
    whole[:, 0, 4], whole[:, 1, :4], whole[:, 3, :4] = theta[:, 0], theta[:, 1:5], theta[:, 5:]
    whole_loss, whole_gradient = full.loss_grad(whole.reshape(3, -1), np.arange(full.width))
    assert whole_loss == pytest.approx(loss, rel=1e-14)
    shaped = whole_gradient.reshape(3, 5, 5)
    np.testing.assert_allclose(shaped[:, 0, 4], gradient[:, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(shaped[:, 1, :4], gradient[:, 1:5], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(shaped[:, 3, :4], gradient[:, 5:], rtol=1e-12, atol=1e-14)


def test_blocks_that_start_at_zero_stay_at_zero_and_any_rank_learns_the_components():
    problem = FullLinearAttention(None, 32, 2, 2)
    init = problem.init(1e-2, seed=0)
    trajectory = agf.flow(problem, init)
    np.testing.assert_array_equal(trajectory.features("zero_blocks"), 0.0)
    assert trajectory.losses[-1] == pytest.approx(problem.plateaus()[-1], rel=1e-4)
    np.testing.assert_allclose(trajectory.features("amplitudes")[-1], problem.amplitudes, rtol=1e-2)
    label = problem.label(trajectory.params(-1), np.arange(problem.width), np.arange(problem.width))
    assert label.count("principal component") == 4


def test_zero_blocks_are_a_minimum_across_them():
    """The even part is never useful: away from u = k = 0 the loss rises by exactly its mean square, to second order."""
    rng = np.random.default_rng(13)
    problem = FullLinearAttention(_covariance(rng, 3), 5, 2, 2)
    theta = _random(problem, rng)
    theta[:, problem.zero_blocks()] = 0.0
    neurons = np.arange(problem.width)
    base, gradient = problem.loss_grad(theta, neurons)
    np.testing.assert_array_equal(gradient[:, problem.zero_blocks()], 0.0)
    rises = []
    for size in (1e-2, 1e-3):
        moved = theta.copy()
        moved[:, problem.zero_blocks()] = size
        moved[:, :3] = 0.0  # only the tags k: then the odd part is unchanged
        rises.append(problem.loss_grad(moved, neurons)[0] - base)
    assert rises[0] > 0
    assert rises[0] / rises[1] == pytest.approx(100, rel=1e-3)


def test_whole_matrices_have_no_closed_form():
    with pytest.raises(NoTheory):
        FullLinearAttention().theory()
