"""What the engine does beyond the letter of Algorithm 1: departures without a test file of their own."""

import re
from pathlib import Path

import numpy as np
import pytest

import agf
from agf.algorithm.departures.symmetry import HANDED
from agf.contract.order import Order, order
from agf.records.status import Status

XOR = (np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1.0]]), np.array([-1, 1, 1, -1.0]))
NOBODY = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("activation", "data", "decides"),
    [
        ("tanh", XOR, Order.NEXT),  # odd targets of degree 2 for an odd activation: the next order has them
        ("relu", XOR, Order.LEADING),  # to leading order a ReLU sees XOR
        ("tanh", (XOR[0], XOR[0][:, 0]), Order.LEADING),
        ("linear", XOR, Order.NONE),  # no higher order: nothing ever grows
    ],
)
def test_utilities_that_vanish_by_symmetry_are_told_from_those_that_are_small(activation, data, decides):
    problem = agf.TwoLayer(*data, activation=activation, width=3)
    none, directions = np.zeros((0, problem.n_params)), problem.init(1e-2).directions
    residual = problem.residual(none, NOBODY)
    loss = problem.loss_grad(none, NOBODY)[0]
    assert order(problem, directions, np.arange(3), residual, loss) is decides


def test_mode_agf_hands_a_symmetric_start_over_and_says_so():
    problem = agf.TwoLayer(*XOR, activation="tanh", width=3)
    stairs = agf.predict(problem, problem.init(1e-2), mode="agf", t_max=1.0)
    assert stairs.mode == "resolved"
    assert HANDED in stairs.notes


def test_xor_drops_when_the_page_on_departures_says():
    page = (Path(__file__).parents[2] / "docs" / "departures.md").read_text(encoding="utf-8")
    said = re.search(r"XOR with three tanh neurons and hidden biases drops at ([\d,]+) \(alpha 1e-2\)", page)
    problem = agf.TwoLayer(*XOR, activation="tanh", width=3)
    stairs = agf.predict(problem, problem.init(1e-2))
    assert stairs.half_times[1] == pytest.approx(float(said.group(1).replace(",", "")), rel=1e-3)


@pytest.mark.parametrize(("activation", "alpha"), [("tanh", 1e-3), ("erf", 1e-9), ("linear", 1e-3)])
def test_targets_that_no_order_of_the_activation_sees_teach_nothing_and_every_route_says_so_at_once(activation, alpha):
    """Even targets on inputs of both signs, odd neurons: took 30,000 gradients on rounding, or stalled."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((20, 2))
    even = (half @ [1.0, 0.5]) ** 2
    problem = agf.TwoLayer(
        np.concatenate([half, -half]), np.tile(even - even.mean(), 2), activation=activation, width=3
    )
    init = problem.init(alpha)
    for mode in ("auto", "agf", "limit", "resolved"):
        stairs = agf.predict(problem, init, mode=mode)
        assert stairs.status is Status.NO_GROWTH, mode
        assert not stairs.drops
    flow = agf.flow(problem, init)
    assert flow.status in (Status.SETTLED, Status.QUIET)  # linear neurons undo one another, as slowly as they are small
    assert flow.stats["evaluations"] < 2000


def test_an_activation_that_gains_less_than_the_active_neurons_may_still_lose_is_not_announced():
    """Mode agf had a sixth drop at 7866, of a neuron that gains 5e-6 of .19: the active ones make it, at 100,984."""
    problem = agf.problem("modular-addition", template=np.cos(2 * np.pi * 2 * np.arange(7) / 7), width=6)
    stairs = agf.predict(problem, problem.init(1e-2, seed=0), mode="agf")
    assert len(stairs.drops) == 5
    assert stairs.levels[-1] == pytest.approx(0.19445, rel=2e-3)
    assert stairs.status is Status.NO_CRITICAL_POINT
    assert "is not decided" in stairs.notes[-1]


def test_a_saddle_that_is_passed_slowly_is_not_the_end():
    """Between 229 and 6780 the loss .1945 falls like t^-.74; LSODA on the raw weights falls to 0 at 100,984."""
    problem = agf.problem("modular-addition", template=np.cos(2 * np.pi * 2 * np.arange(7) / 7), width=6)
    stairs = agf.predict(problem, problem.init(1e-2, seed=0), mode="resolved", conditioning=False)
    assert stairs.status is Status.FITTED
    assert len(stairs.drops) == 6
    assert stairs.half_times[-1] == pytest.approx(100_983.6, rel=5e-3)  # neurons join at .03 of R*


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
