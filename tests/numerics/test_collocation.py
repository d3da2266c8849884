"""Long implicit steps of high order: their order, what they damp, and that they resume."""

import numpy as np
import pytest

from agf.integrators import NonFinite, OutOfSteps, Stalled
from agf.numerics.collocation import NAME, STAGES, TABLE, _error, march


def logistic(y):
    return y * (1 - y)


def slope_of_logistic(y):
    return (1 - 2 * y)[:, :, None] * np.eye(y.shape[1])


def both(y):
    return logistic(y), slope_of_logistic(y)


def ones(y):
    return np.ones_like(y)


def run(rtol, s_end=10.0, **more):
    """Steps along y = 1 / (1 + 99 exp(-s))."""
    return list(march(both, np.array([0.01]), rtol=rtol, scale=ones, s_end=s_end, **more))


def exact(s):
    return 1 / (1 + 99 * np.exp(-s))


def test_the_nodes_and_weights_are_those_of_radau():
    x = TABLE.nodes
    assert x[-1] == 1.0
    for power in range(2 * STAGES - 1):  # the quadrature is exact up to degree 2 s - 2
        assert TABLE.weights[-1] @ x**power == pytest.approx(1 / (power + 1), rel=1e-13)
    inner = np.array([0.2, 0.7])
    for power in range(STAGES):  # any polynomial of degree s - 1 is integrated exactly, from 0 to anywhere
        assert TABLE.integrals(inner) @ x**power == pytest.approx(inner ** (power + 1) / (power + 1), rel=1e-12)
        assert TABLE.at(inner) @ x**power == pytest.approx(inner**power, rel=1e-12)


def test_dense_output_keeps_the_tolerance_within_steps_and_beats_it_at_their_ends():
    for rtol in (1e-4, 1e-7, 1e-10):
        steps = run(rtol)
        inside = max(abs(step.dense(s)[0] - exact(s)) for step in steps for s in np.linspace(step.s0, step.s1, 9)[1:-1])
        ends = max(abs(step.y1[0] - exact(step.s1)) for step in steps)
        assert inside < rtol * len(steps)  # errors at the ends of steps add up, at most
        assert ends < 0.5 * rtol


def test_cost_grows_as_the_order_allows():
    steps = [len(run(rtol)) for rtol in (1e-5, 1e-9)]
    assert steps[1] / steps[0] < 1.3 * 1e4 ** (1 / (STAGES + 1))


def test_many_states_are_those_of_each_step():
    steps = run(1e-6)
    s = np.array([0.5 * (step.s0 + step.s1) for step in steps])
    together = type(steps[0]).many(steps)(np.arange(len(steps)), s)
    assert np.allclose(together, [step.dense(at) for step, at in zip(steps, s, strict=True)], rtol=0, atol=1e-15)


def test_stiff_modes_are_damped_at_once():
    """y' = -c (y - 1): L-stable, so a step of any length ends at rest."""
    rates = np.array([1.0, 1e8])
    steps = list(
        march(
            lambda y: (-rates * (y - 1), np.broadcast_to(np.diag(-rates), (y.shape[0], 2, 2))),
            np.zeros(2),
            rtol=1e-6,
            scale=ones,
            s_end=100.0,
        )
    )
    assert len(steps) < 60
    assert np.allclose(steps[-1].y1, 1, atol=1e-6)


@pytest.mark.parametrize("c", 10.0 ** np.arange(0, 13, 2))
def test_the_estimated_error_is_that_of_a_decay_however_fast(c):
    """y' = -c y over one step of length 1; without the implicit step of Euler it would be c / 60 times as large."""
    slopes = -c * np.linalg.solve(np.eye(STAGES) + c * TABLE.weights, np.ones(STAGES))
    x = np.concatenate([[0.0], np.logspace(-13, 0, 2000)])
    error = np.abs(1 + TABLE.integrals(x) @ slopes - np.exp(-c * x)).max()
    estimate = abs(_error(1.0, np.array([[-c]]), np.array([-c - TABLE.first @ slopes]))[0])
    assert 0.95 * error < estimate < 1.34 * error


def test_rounding_of_a_fast_mode_neither_shortens_steps_nor_is_integrated():
    """y' = -A (y - 1), A of rates 1e12 and 1 along turned axes: velocities are off by 1e12 roundings of y."""
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    rates = np.array([1e12, 1.0])
    matrix = (turn * rates) @ turn.T
    start = 1.0 - turn[:, 1]  # along the slow axis: y = 1 - e^-s (-0.6, 0.8)
    steps = list(
        march(
            lambda y: ((((1.0 - y) @ turn) * rates) @ turn.T, np.broadcast_to(-matrix, (y.shape[0], 2, 2))),
            start,
            rtol=1e-6,
            scale=ones,
            s_end=1e4,
        )
    )
    assert len(steps) < 60
    for step in steps:
        for s in np.linspace(step.s0, step.s1, 5):
            assert np.abs(step.dense(s) - 1.0 + np.exp(-s) * turn[:, 1]).max() < 1e-6  # that is rtol


def test_a_march_resumes_as_if_it_had_never_stopped():
    whole = run(1e-7)
    third = whole[2]
    assert third.memory.method == NAME
    again = list(march(both, third.y1, rtol=1e-7, scale=ones, s0=third.s1, s_end=10.0, memory=third.memory))
    assert [step.s1 for step in again] == [step.s1 for step in whole[3:]]
    assert again[-1].y1 == whole[-1].y1


def test_it_says_why_it_cannot_go_on():
    with pytest.raises(OutOfSteps):
        run(1e-9, max_steps=3)
    with pytest.raises(NonFinite, match="at the start"):
        next(march(lambda y: (y * np.nan, slope_of_logistic(y)), np.ones(1), rtol=1e-6, scale=ones))
    with pytest.raises(Stalled):  # y = 1 / (1 - s)
        list(march(lambda y: (y**2, 2 * y[:, :, None]), np.ones(1), rtol=1e-6, scale=ones, s_end=2.0))
