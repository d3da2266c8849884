"""Where a flow rests: what the question costs, and that rounding is all that pulls there."""

from __future__ import annotations

import numpy as np

import agf
from agf.coordinates.polar_system import PolarSystem
from agf.rounding import EPS, SUM
from agf.stopping.driver import Counted, Moment
from agf.stopping.rest import Rest, blur


def test_stiff_modes_are_relaxed_by_one_decomposition_where_it_serves():
    # two Hessians, the first and that of the end, where each Newton step had one of its own: five
    rng = np.random.default_rng(0)
    problem = agf.TwoLayer(rng.standard_normal((40, 3)), rng.standard_normal(40), activation="tanh", width=4)
    flow = agf.flow(problem, problem.init(0.1, seed=1))
    theta = flow.params(-1)
    theta += 1e-8 * np.abs(theta).max() * rng.standard_normal(theta.shape)
    system = PolarSystem(problem, agf.Init.from_params(theta))
    y, counted = system.start(), Counted(system)
    rest = Rest(Moment(1e6, y, *counted.loss_and_rate(y), counted))
    assert counted.work.hessians == 2
    values, vectors = np.linalg.eigh(rest._matrix)
    pulls = vectors.T @ rest._ask.velocity(rest._y)
    stiff = values > 1e-5 * values[-1]
    assert stiff.sum() > 10
    assert np.abs(pulls[stiff]).max() < SUM * values[-1] * np.linalg.norm(rest._y)


def test_what_relaxing_leaves_is_no_growth():
    """Four neurons at rest on rounded kinks: a plateau, of which the next drop was due at 1.5e12."""
    x = np.array([[-0.59], [-1.056], [-0.9], [-0.391], [1.627], [-1.176], [0.16], [-2.138]])
    y = [[-0.002, 0.9], [-0.237, -0.629], [0.232, 0.7], [0.664, 1.972], [0.209, -0.592], [-0.126, -0.072],
         [0.109, -0.03], [0.174, -1.671]]  # fmt: skip
    rows = [[-0.727, 0.0, -0.482, 0.489], [-0.584, 0.0, -0.221, 0.781], [-0.967, 0.0, 0.204, 0.152],
            [0.23, 0.0, -0.558, -0.797]]  # fmt: skip
    problem = agf.TwoLayer(x, y, width=4, kink=0.01, leak=0.1, activation="leaky-relu", bias="hidden")
    flow = agf.flow(problem, agf.Init.scaled(np.array(rows), 1e-5))
    assert not flow.status.failed
    assert float(np.sum(problem.loss_grad(flow.params(-1), np.arange(4))[1] ** 2)) < 1e-18


def test_how_far_rounding_moves_weights_is_told_by_one_hessian_where_it_is_asked():
    rng = np.random.default_rng(0)
    problem = agf.TwoLayer(rng.standard_normal((40, 3)), rng.standard_normal(40), activation="tanh", width=4)
    system = PolarSystem(problem, problem.init(1.0, seed=1)).in_weights()
    y, counted = system.start(), Counted(system)
    assert blur(Moment(1e6, y, *counted.loss_and_rate(y), counted)) == EPS * np.linalg.norm(system.hessian(y))
    assert counted.work.hessians == 1
    small = y * np.repeat([1e-6, 1.0, 1.0, 1.0], problem.n_params)  # a neuron that may yet grow
    assert blur(Moment(1e6, small, *counted.loss_and_rate(small), counted)) == 0.0
    assert counted.work.hessians == 1
