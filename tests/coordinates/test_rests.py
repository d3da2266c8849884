"""Neurons that come closer to a direction in which nothing drives them than steps hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import agf

X = np.array([[1.8, -3.1], [1.0, 0.1], [1.3, 0.4], [1.8, 0.0]])
Y = np.array([1.3, 1.5, 0.2, 1.2])
SENTENCE = "Steps do not hold how close neuron 1 had come to where nothing drives a neuron"


def start(first: float) -> agf.Init:
    """Square neurons, one of which decays, as its output weight is negative, until the other has grown from `first`."""
    return agf.Init.from_params([[first, 0.75 * first, first], [0.02, 0.01, -0.02]])


def own(init: agf.Init, until: float) -> np.ndarray:
    """Size of the input weights of the second neuron along the flow, by scipy in the weights."""

    def velocity(_: float, v: np.ndarray) -> np.ndarray:
        theta = v.reshape(2, 3)
        z = X @ theta[:, :2].T
        residual = (Y - z**2 @ theta[:, 2]) / 4
        return np.column_stack([2 * ((residual[:, None] * z).T @ X) * theta[:, 2:], (z**2).T @ residual]).ravel()

    found = solve_ivp(velocity, (0, until), init.params().ravel(), method="LSODA", rtol=1e-9, atol=1e-35)
    return np.abs(found.y[3:5]).max(axis=0)


def test_a_neuron_that_leaves_where_nothing_drove_it_leaves_at_a_time_that_rounding_decides_and_this_is_said():
    problem = agf.TwoLayer(X, Y, activation="square", width=2)
    init = start(2e-4)
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    size = own(init, flow.drops[1].time)
    assert size.min() < 1e-19  # steps of 1e-6 hold no such part of a direction,
    assert size[-1] < 1e-3  # and the flow is early by far
    assert any(SENTENCE in note for note in flow.notes)
    assert any(SENTENCE in note for note in stairs.notes)
    assert stairs.drops[0].error < 1e-3
    assert np.isinf(stairs.drops[1].error)


@pytest.mark.parametrize("first", [0.02, 0.05])
def test_nothing_is_said_of_a_neuron_whose_input_weights_have_hardly_decayed(first):
    problem = agf.TwoLayer(X, Y, activation="square", width=2)
    init = start(first)
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert own(init, flow.drops[1].time).min() > 1e-5
    assert len(stairs.drops) == 2
    assert not [note for note in (*flow.notes, *stairs.notes) if "Steps do not hold" in note]
    assert agf.compare(stairs, flow).max_time_error < stairs.drops[1].error < 0.1
