"""Flows with sharp kinks slide along them: against the dormant phase in closed form, and its known limits."""

from __future__ import annotations

import numpy as np
import pytest

import agf

M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]))


def start(degrees, sign=1.0, alpha=1e-6):
    t = np.deg2rad(degrees)
    return agf.Init.from_params(alpha * np.array([[np.cos(t), np.sin(t), sign]]))


def test_a_flow_slides_along_a_sharp_kink_to_the_extremal_vector_and_on_to_its_level():
    problem, init = agf.TwoLayer(*M4, width=1, kink=0), start(-20.0)
    exact = agf.align(problem, init)
    flow = agf.flow(problem, init, t_max=30.0)
    directions, log_norms = exact.at(30.0)
    assert flow.directions[-1] == pytest.approx(directions, abs=1e-8)
    assert flow.log_norms[-1] == pytest.approx(log_norms, abs=2e-6)  # what the neuron itself takes off the residual
    assert agf.flow(problem, init).losses[-1] == pytest.approx(0.305, abs=1e-6)


def test_many_neurons_in_space_follow_the_closed_form_through_their_events():
    rng = np.random.default_rng(1)
    problem = agf.TwoLayer(rng.standard_normal((12, 3)), rng.standard_normal(12), width=8, kink=0)
    init = problem.init(1e-9, seed=0, kind="balanced")
    exact = agf.align(problem, init)
    flow = agf.flow(problem, init, t_max=5.0)
    assert (exact.event_times < 5.0).sum() > 20  # crossings and slides
    directions, log_norms = exact.at(5.0)
    # the last step before every event is cut by the tolerance only: 1e-8 a step, times what the events make of it
    assert np.abs(flow.directions[-1] - directions).max() < 1e-5
    assert np.abs(flow.log_norms[-1] - log_norms).max() < 1e-5


def test_a_neuron_is_let_go_where_one_side_pulls_it_away():
    # slides on the second sample until the first neuron has learned what held it there: the loss ends at its minimum
    problem = agf.TwoLayer(*M4, width=2, kink=0)
    theta = np.concatenate([start(-20.0).params(), start(170.0, alpha=1e-4).params()])
    flow = agf.flow(problem, agf.Init.from_params(theta), t_max=400.0)
    rounded = agf.flow(agf.TwoLayer(*M4, width=2, kink=1e-4), agf.Init.from_params(theta), t_max=400.0)
    assert flow.losses[-1] == pytest.approx(rounded.losses[-1], rel=1e-3)


def test_a_problem_without_known_kinks_keeps_its_polar_coordinates():
    assert agf.TwoLayer(*M4).kink_normals() is None
    assert agf.TwoLayer(*M4, activation="tanh", kink=0).kink_normals() is None
    assert np.array_equal(agf.TwoLayer(*M4, kink=0).kink_normals(), M4[0])
