"""Saddles that modes leave by turning: how late a drop may come where the turn is below what the steps hold."""

import numpy as np
import pytest
from scipy.integrate import LSODA

import agf
from agf.algorithm.resolved.turning import slips
from agf.results.curve import CurveDrop

RATE, TURN = 0.5, 1e-3


def a_plateau(error: float, moved: float = 0.0, small: float = 0.0) -> np.ndarray:
    """Slips of two drops, where weights of size 1 leave the plateau from TURN at RATE, by steps of this `error`."""
    times = np.linspace(0.0, 20.0, 2001)
    speeds = RATE * TURN * np.exp(RATE * (times - 8.0)) + np.exp(-3.0 * times)  # of the weights; relaxing before
    losses = 1.0 - np.concatenate([[0.0], np.cumsum(0.5 * (speeds[1:] ** 2 + speeds[:-1] ** 2) * np.diff(times))])
    drops = [CurveDrop(1.0, 2.0, 1.0, 0.5, 8.0), CurveDrop(20.0, 1.0, 0.0, 19.0, 21.0)]
    steps = times[::10], np.full(times[::10].size, error)
    return slips(
        (times, losses, -(speeds**2)), steps, drops, lambda time: np.array([1.0, small]), (np.array([0.0, moved]), 10.0)
    )


def test_a_turn_within_what_steps_add_comes_at_the_latest_with_the_small_modes():
    """They add what they err by, times how it grows from there or has decayed by then; a tenth is too much."""
    small = 1e-5
    weight = float(np.sum(np.exp(-RATE * np.abs(np.arange(1.0, 19.05, 0.1) - 8.0))))
    just = 0.1 * TURN / weight
    late = np.log(TURN / small) / RATE / 20.0
    assert a_plateau(1.1 * just, small=small) == pytest.approx([0.0, late], rel=0.02)
    assert a_plateau(0.9 * just, small=small)[1] == 0.0
    assert a_plateau(1.1 * just)[1] == np.inf  # and no small mode would end the plateau


def test_a_turn_that_grows_with_the_tolerance_is_an_error():
    """Ten times coarser steps make a turn of errors ten times larger, and the drop earlier by ln 10 over the rate."""
    small, earlier = 1e-5, np.log(10.0) / RATE
    late = np.log(TURN / small) / RATE / 20.0
    assert a_plateau(0.0, earlier, small)[1] == pytest.approx(late, rel=0.02)
    assert a_plateau(0.0, 0.1 * earlier, small)[1] == 0.0


class Gated(agf.Problem):
    """f = sum_i (u_i . x)(v_i . x): hidden units mix, and rank-one critical points may be saddles of rank one."""

    name = "gated"
    degree = 2

    def __init__(self, X, y, width):
        self.X, self.y, self.width, self.n_params = X, y, width, 2 * X.shape[1]

    def residual(self, theta, neurons):
        u, v = np.split(theta, 2, axis=1)
        return self.y - np.sum((self.X @ u.T) * (self.X @ v.T), axis=1)

    def utility(self, theta, neurons, residual):
        u, v = np.split(theta, 2, axis=1)
        parts = [(residual[:, None] * (self.X @ other.T)).T @ self.X for other in (v, u)]
        pull = np.hstack(parts) / self.y.size
        return 0.5 * np.sum(pull * theta, axis=1), pull

    def loss_grad(self, theta, neurons):
        r = self.residual(theta, neurons)
        return 0.5 * float(r @ r) / self.y.size, -self.utility(theta, neurons, r)[1]


def test_drops_after_a_saddle_left_by_turning_are_within_their_bars():
    """Four samples: rank one turns away from a saddle it came to within 1e-6 of, and steps held 2e-5 of it."""
    rng = np.random.default_rng(53)
    d, n = int(rng.integers(2, 4)), int(rng.integers(4, 12))
    X = rng.standard_normal((n, d))
    problem = Gated(X, np.sin(2 * X @ rng.standard_normal(d)), int(rng.integers(2, 5)))
    init = problem.init(1e-7, seed=53)
    stairs = agf.predict(problem, init)
    last, middle = stairs.drops[-1], 0.5 * (stairs.levels[-2] + stairs.levels[-1])
    shape, loss = init.directions.shape, np.inf
    solver = LSODA(
        lambda _, y: -problem.loss_grad(y.reshape(shape), None)[1].ravel(), 0.0, init.params().ravel(), 1e4,
        rtol=1e-12, atol=1e-20,
    )  # fmt: skip
    while loss > middle:
        solver.step()
        loss = problem.loss_grad(solver.y.reshape(shape), None)[0]
    assert abs(last.half_time / solver.t - 1.0) < last.error
