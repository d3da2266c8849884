"""What the engine does beyond the letter of Algorithm 1: departures without a test file of their own."""

import numpy as np
import pytest

import agf
from agf.algorithm.departures.symmetry import HANDED, vanish
from agf.algorithm.threshold import ExactThreshold
from agf.records.status import Status

XOR = (np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1.0]]), np.array([-1, 1, 1, -1.0]))
NOBODY = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("activation", "data", "symmetric"),
    [
        ("tanh", XOR, True),  # odd targets of degree 2 for an odd activation: the next order has them
        ("relu", XOR, False),  # to leading order a ReLU sees XOR
        ("tanh", (XOR[0], XOR[0][:, 0]), False),
        ("linear", XOR, False),  # no higher order: nothing ever grows
    ],
)
def test_utilities_that_vanish_by_symmetry_are_told_from_those_that_are_small(activation, data, symmetric):
    problem = agf.TwoLayer(*data, activation=activation, width=3)
    none, directions = np.zeros((0, problem.n_params)), problem.init(1e-2).directions
    threshold, residual = ExactThreshold(problem, True, none, NOBODY), problem.residual(none, NOBODY)
    loss = problem.loss_grad(none, NOBODY)[0]
    assert vanish(problem, threshold, directions, np.arange(3), residual, loss) is symmetric


def test_mode_agf_hands_a_symmetric_start_over_and_says_so():
    problem = agf.TwoLayer(*XOR, activation="tanh", width=3)
    stairs = agf.predict(problem, problem.init(1e-2), mode="agf", t_max=1.0)
    assert stairs.mode == "resolved"
    assert HANDED in stairs.notes


def test_an_activation_that_gains_less_than_the_active_neurons_may_still_lose_is_not_announced():
    """Mode agf had a sixth drop at 7866, to 0, of a neuron that gains 5e-6 of .19; LSODA stays at .19445 to 6e4."""
    problem = agf.problem("modular-addition", template=np.cos(2 * np.pi * 2 * np.arange(7) / 7), width=6)
    stairs = agf.predict(problem, problem.init(1e-2, seed=0), mode="agf")
    assert len(stairs.drops) == 5
    assert stairs.levels[-1] == pytest.approx(0.19445, rel=2e-3)
    assert stairs.status is Status.NO_CRITICAL_POINT
    assert "is not decided" in stairs.notes[-1]


def test_small_late_drops_are_drops():
    """Coordinates that take 2e-2, 2e-3 and 5e-4 of a loss that stays."""
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.standard_normal((40, 4)))[0] * np.sqrt(40)
    noise = rng.standard_normal(40)
    noise -= x @ (x.T @ noise) / 40
    y = x @ np.array([1.0, 3e-2, 1e-2, 5e-3]) + 0.25 * noise
    problem = agf.problem("diagonal-linear", X=x, y=y)
    exact = agf.predict(problem, problem.init(1e-12), mode="agf")
    shown = agf.predict(problem, problem.init(1e-12), mode="resolved", conditioning=False)
    assert len(exact.drops) == len(shown.drops) == 4
    assert shown.half_times == pytest.approx(exact.half_times, rel=3e-3)  # neurons join at .03 of R*
