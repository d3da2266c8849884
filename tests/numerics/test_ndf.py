"""Implicit steps of the active phase: accurate on stiff decay, and never blind to a growing mode."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from agf import integrators
from agf.numerics import ndf
from agf.numerics.ndf import march


def follow(velocity, hessian, y0, until, rtol=1e-4, max_steps=10_000, first_step=1e-6):
    """Accepted steps up to the one that passes `until`; errors are relative to rtol in the root mean square."""
    steps = []
    march_on = march(
        velocity,
        hessian,
        np.asarray(y0, dtype=float),
        norm=lambda error, y: float(np.sqrt(np.mean(error**2))) / rtol,
        first_step=first_step,
        max_steps=max_steps,
    )
    for step in march_on:
        steps.append(step)
        if step.s1 >= until:
            return steps
    raise AssertionError("march ends only by raising")


def test_stiff_decay_takes_few_steps_and_stays_on_the_slow_solution():
    rates = np.array([1e6, 1.0])
    steps = follow(lambda y: -rates * y, lambda y: np.diag(rates), [1.0, 1.0], 3.0)
    last = steps[-1]
    assert len(steps) < 200  # an explicit step is at most about 3e-6 long
    # a few dozen steps of error 1e-4
    assert last.dense(3.0) == pytest.approx(np.array([0.0, np.exp(-3.0)]), abs=1e-3)


@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-7])
def test_the_error_follows_the_tolerance_at_every_time(rtol):
    """The valley y = x^2 of L = x^2 / 2 + 500 (y - x^2)^2: stiff, curved, and followed for a long way."""

    def velocity(p):
        x, y = p
        return np.array([-x + 2000 * x * (y - x**2), -1000 * (y - x**2)])

    def hessian(p):
        x, y = p
        return np.array([[1 - 2000 * (y - 3 * x**2), -2000 * x], [-2000 * x, 1000.0]])

    steps = follow(velocity, hessian, [2.0, 3.0], 4.0, rtol)
    exact = solve_ivp(
        lambda _, p: velocity(p), (0, 5), [2.0, 3.0], method="Radau", rtol=1e-10, atol=1e-12, dense_output=True
    ).sol
    inside = [(step, step.s0 + x * (step.s1 - step.s0)) for step in steps for x in (0.3, 1.0)]
    assert max(np.abs(step.dense(s) - exact(s)).max() for step, s in inside) < 30 * rtol
    assert len(steps) < 400


def test_a_growing_mode_far_below_the_tolerance_still_escapes_in_time():
    # L = -y^2/2 + y^4/4 beside a stiff direction: y leaves 0 as exp(s), reaches 1/2 at log(1/(2e-12)) + O(1)
    stiff, seed = 1e5, 1e-12

    def velocity(y):
        return np.array([y[0] - y[0] ** 3, -stiff * y[1]])

    def hessian(y):
        return np.diag([-1.0 + 3 * y[0] ** 2, stiff])

    steps = follow(velocity, hessian, [seed, 1.0], 40.0)
    assert max(step.s1 - step.s0 for step in steps if step.y1[0] < 0.1) <= 0.5 + 1e-12
    crossing = next(step.s1 for step in steps if step.y1[0] > 0.5)
    exact = np.log(0.5 / np.sqrt(0.75)) - np.log(seed)
    assert crossing == pytest.approx(exact, rel=0.15)  # below the tolerance a growing mode is followed, not resolved
    assert steps[-1].y1[0] == pytest.approx(1.0, abs=1e-3)


def test_the_limit_is_lifted_when_nothing_grows_any_more():
    steps = follow(lambda y: -1e-3 * y, lambda y: 1e-3 * np.eye(1), [1.0], 1e4)
    assert len(steps) < 150  # steps of 1e-6 at first, longer by at most ten once in order + 1 steps


def test_failures_have_names():
    with pytest.raises(integrators.NonFinite):
        follow(lambda y: -y, lambda y: np.array([[np.nan]]), [1.0], 1.0)
    with pytest.raises(integrators.OutOfSteps):
        follow(lambda y: -y, lambda y: np.eye(1), [1.0], 1e9, max_steps=3)
    with pytest.raises(integrators.Stalled):  # no velocity beyond y = 1/2
        follow(lambda y: np.where(y > 0.5, -y, np.nan), lambda y: np.eye(1), [1.0], 10.0)


def test_steps_that_rounding_keeps_short_end_with_a_sentence():
    # a Hessian that always claims growth at rate 1e6 over a flow at rest: 1e9 times the time that steps can cover
    with pytest.raises(integrators.Stalled, match="float64 resolves no longer ones"):
        follow(lambda y: 0.0 * y, lambda y: -1e6 * np.eye(1), [1.0], 1e3, max_steps=100_000)


@pytest.mark.parametrize("coupled", [[], [1, 4, 5], [0, 1, 2, 3, 4, 5]])
def test_only_entries_that_are_coupled_are_factored_and_all_are_solved_for(coupled, monkeypatch):
    rng, orders, cholesky = np.random.default_rng(0), [], ndf.cholesky

    def seen(matrix, shift):
        orders.append(len(matrix))
        return cholesky(matrix, shift)

    monkeypatch.setattr(ndf, "cholesky", seen)
    matrix, rest = np.zeros((6, 6)), rng.standard_normal(6)
    block = rng.standard_normal((len(coupled), len(coupled)))
    matrix[np.ix_(coupled, coupled)] = block @ block.T
    inverse = ndf._inverse(matrix, 0.3)
    assert inverse(rest) == pytest.approx(np.linalg.solve(matrix + 0.3 * np.eye(6), rest), rel=1e-12)
    assert orders == [len(coupled)]
    assert ndf._inverse(matrix - 9.0 * np.diag(matrix.any(axis=1)), 0.3) is None or not coupled


def test_what_rides_on_a_stiff_residual_without_a_matrix_answers_an_iteration_later():
    """x' = -a (x - sin s), and r' = -r - a (x - sin s) that only x makes: r sees nothing but the lag of x, 1/a."""
    a = 1e4
    steps = follow(
        lambda y: np.array([-a * (y[0] - np.sin(y[1])), 1.0, -y[2] - a * (y[0] - np.sin(y[1]))]),
        lambda y: np.diag([a, 0.0, 0.0]),
        [0.0, 0.0, 1.0],
        6.0,
        rtol=1e-6,
    )
    assert len(steps) < 500  # r's first two moves are equal and opposite, which was taken for divergence
    assert steps[-1].dense(6.0)[2] == pytest.approx(0.5 * (np.cos(6.0) + np.sin(6.0) + np.exp(-6.0)), abs=1e-4)
