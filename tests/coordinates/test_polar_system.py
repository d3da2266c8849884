"""The polar flow of any problem: what counts as small in it."""

from __future__ import annotations

import numpy as np

import agf
from agf.coordinates.polar_system import PolarSystem


def test_what_training_has_grown_is_not_small_where_a_flow_begins_anew():
    """A neuron on its way to the minimum; begun anew there, with no loss fallen yet, it counted as one still to come,
    and a run that began at rest never ended."""
    X, y = np.array([[1.0, 0.2], [0.3, 1.0], [-1.0, 0.5]]), np.array([1.0, 0.8, 0.1])
    problem = agf.TwoLayer(X, y, width=1)
    tiny = problem.init(1e-6, seed=0)
    half = agf.Init.from_params(np.array([[0.5, 0.5, 0.7]]))
    first, anew = PolarSystem(problem, half), PolarSystem(problem, half, tiny)
    assert first.growth(first.start()) > 0.1
    assert anew.growth(anew.start()) == 0.0
    assert anew.first_loss == PolarSystem(problem, tiny).first_loss > anew.loss(anew.start())
