"""Dormant neurons that go with an active one of their direction, against gradient flow."""

import numpy as np
import pytest

import agf
from agf.algorithm.departures.following import Following
from agf.records.state import State


def problem(activation="relu"):
    """Two ReLU features whose extremal vectors one neuron fits as well as it can."""
    x = np.random.default_rng(0).standard_normal((80, 3))
    return agf.TwoLayer(x, np.maximum(x[:, :1], 0) + 0.6 * np.maximum(x[:, 1:2], 0), activation=activation, width=3)


def start(gap):
    """Norms at 1e-200: neuron 1 below neuron 0 by `gap`, and neuron 2 far below, all in one cone in the end."""
    theta = np.array([[1.0, 0.1, 0.0, 1.0], [0.95, 0.12, 0.05, 1.0], [0.1, 1.0, 0.0, 1.0]])
    return agf.Init.scaled(theta * np.exp([[0.0], [-gap], [-40.0]]), 1e-200)


@pytest.mark.parametrize("gap", [0.5, 1.5, 6.0])
def test_a_neuron_of_the_first_ones_direction_never_activates_on_a_residual_that_training_does_not_show_it(gap):
    # Left where it stood during the drop it would leave the cone: a second drop, to a loss of 1e-7.
    relu, init = problem(), start(gap)
    stairs, flow = agf.predict(relu, init, t_max=6000.0, mode="agf"), agf.flow(relu, init, t_max=6000.0)
    assert len(stairs.drops) == len(flow.drops) == 1
    report = agf.compare(stairs, flow)
    assert report.max_time_error < 1e-3
    assert report.max_level_error < 1e-4
    ratio = stairs.drops[0].log_norms[1] - stairs.drops[0].log_norms[0]
    assert ratio == pytest.approx(flow.log_norms[-1, 1] - flow.log_norms[-1, 0], abs=2e-2)


def state(directions, log_norms, active):
    return State(0.0, np.array(active), np.array(directions), np.array(log_norms), 1.0)


UNIT = np.array([0.6, 0.0, 0.0, 0.8])
OTHER = np.array([0.0, 0.6, 0.0, 0.8])


def test_who_follows_whom_and_where_they_end():
    before = state([UNIT, UNIT, OTHER], [0.5, -30.0, -2.0], [True, False, False])
    found = Following.of(problem(), before, 1e-3)
    assert (found.neurons.tolist(), found.leaders.tolist()) == ([1], [0])
    moved = state([OTHER, UNIT, OTHER], [0.7, -30.0, -2.0], [True, False, False])
    after = found.after(moved)
    assert after.directions[1] == pytest.approx(OTHER)
    assert after.log_norms == pytest.approx([0.7, -29.8, -2.0])
    assert moved.log_norms[1] == -30.0  # states are never modified
    collapsed = state([OTHER, UNIT, OTHER], [0.7, -30.0, -2.0], [False, False, False])
    assert found.after(collapsed).log_norms[1] == -30.0


@pytest.mark.parametrize("activation", ["square", "tanh"])
def test_nobody_follows_where_a_direction_knows_its_norm(activation):
    before = state([UNIT, UNIT, OTHER], [0.5, -30.0, -2.0], [True, False, False])
    assert Following.of(problem(activation), before, 1e-3).neurons.size == 0


def test_nobody_follows_before_anybody_is_active_or_when_all_are():
    for active in ([False] * 3, [True] * 3):
        before = state([UNIT, UNIT, OTHER], [0.5, -30.0, -2.0], active)
        assert Following.of(problem(), before, 1e-3).neurons.size == 0
