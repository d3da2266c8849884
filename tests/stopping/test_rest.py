"""Where a flow rests: what the question costs, and that rounding is all that pulls there."""

from __future__ import annotations

import numpy as np

import agf
from agf.coordinates.polar_system import PolarSystem
from agf.rounding import SUM
from agf.stopping.driver import Counted, Moment
from agf.stopping.rest import Rest


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
