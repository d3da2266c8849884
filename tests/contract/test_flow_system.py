"""What coordinates of a flow are taken to be where they do not say otherwise."""

import numpy as np
import pytest
from valley import Valley, bowl, power

import agf


def test_two_flows_down_a_convex_loss_never_move_apart_and_differ_in_loss_by_no_more_than_is_said():
    rates, rng = np.array([3.0, 0.4, 1e-3]), np.random.default_rng(0)
    flow = bowl(rates)
    one, other = rng.standard_normal((2, 3))
    apart = []
    for time in np.linspace(0.0, 5.0, 20):
        here, there = (y * np.exp(-rates * time) for y in (one, other))
        apart.append(flow.distance(there - here))
        steepest = max(flow.changes(flow.gradients(np.array([here, there]))))
        assert abs(flow.loss(there) - flow.loss(here)) <= steepest * apart[-1]
    assert (np.diff(apart) < 0).all()
    # the bound is met along the gradient
    step = 1e-6 * flow.gradient(one)
    change = flow.loss(one + step) - flow.loss(one)
    assert np.isclose(change, flow.changes(flow.gradient(one)[None])[0] * flow.distance(step), rtol=1e-5)


def test_coordinates_that_say_they_contract_and_not_how_are_told_what_is_missing():
    with pytest.raises(agf.ProblemError, match="Expected `hessian`, or `linearized`"):
        power(4).linearized(np.ones((2, 1)))


@pytest.mark.parametrize("method", ["snapshot", "snapshots"])
def test_coordinates_whose_moments_are_none_are_told_which_method_returned_what(method):
    """It was an AttributeError inside of the package, and the method was not named."""

    odd = type("Odd", (Valley,), {method: lambda self, y: [y]})
    system = odd(np.ones(2), None, None)
    with pytest.raises(agf.ProblemError, match=r"it returned a list. Expected a Snapshot"):
        getattr(system, method)(system.start())
