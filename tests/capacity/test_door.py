"""Groups, alignment, merging, pruning, flips, bounds and masks ask a stranger's problem at the door."""

from __future__ import annotations

import numpy as np
import pytest
from stubs import DiagonalToy

import agf


class Toy(DiagonalToy):
    """Two products of two weights on two samples; neurons count as like each other, so that they may be merged."""

    interchangeable = True

    def __init__(self, width=2):
        super().__init__(np.eye(2)[:, :width], np.array([2.0, 1.0]))


class WrongGradient(Toy):
    def loss_grad(self, theta, neurons):
        loss, gradient = super().loss_grad(theta, neurons)
        return loss, 2.0 * gradient


class WrongShape(Toy):
    def loss_grad(self, theta, neurons):
        loss, gradient = super().loss_grad(theta, neurons)
        return loss, gradient.ravel()


class NotANumber(Toy):
    def utility(self, theta, neurons, residual):
        value, gradient = super().utility(theta, neurons, residual)
        return value * np.nan, gradient


class Raises(Toy):
    def residual(self, theta, neurons):
        raise KeyError("labels")


class LateNaN(Toy):
    """Right at the weights that the door looks at, and not at large ones."""

    def loss_grad(self, theta, neurons):
        loss, gradient = super().loss_grad(theta, neurons)
        return loss * (np.nan if np.abs(theta).max(initial=0.0) > 50.0 else 1.0), gradient


class LateError(Toy):
    def loss_grad(self, theta, neurons):
        if np.abs(theta).max(initial=0.0) > 50.0:
            raise ZeroDivisionError("of my own")
        return super().loss_grad(theta, neurons)


class WrongNetwork(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        loss, gradient = super().loss_grad(theta, neurons)
        return loss, 2.0 * gradient


THETA = np.array([[-0.3, 0.5], [0.4, 0.6]])


@pytest.mark.parametrize("problem", [WrongGradient, WrongShape, NotANumber, Raises])
def test_a_broken_problem_is_a_sentence(problem):
    run = agf.flow(Toy(), agf.Init.from_params(THETA), t_max=3.0, snapshots=5)
    broken, init = problem(), agf.Init.from_params(THETA)
    for ask in (
        lambda: agf.groups(broken, THETA),
        lambda: agf.groups(run, problem=broken),
        lambda: agf.alignment(broken, THETA),
        lambda: agf.merge(broken, THETA),
        lambda: agf.prune(broken, THETA, 1, by="snip"),
        lambda: run.flips("all", problem=broken),
        lambda: agf.flow(agf.masked(broken, np.ones((2, 2))), init, t_max=1.0),
        lambda: agf.predict(agf.masked(broken, np.ones((2, 2))), init),
    ):
        with pytest.raises(agf.ProblemError, match=f"{problem.__name__}|DiagonalToy"):
            ask()


@pytest.mark.parametrize("problem", [LateNaN, LateError])
def test_what_breaks_later_is_a_sentence_too(problem):
    for ask in (agf.merge, lambda problem, theta: agf.prune(problem, theta, 1, by="snip")):
        with pytest.raises(agf.ProblemError, match="loss_grad"):
            ask(problem(), 200.0 * THETA)


def test_bounds_of_a_broken_network_are_a_sentence():
    X = np.random.default_rng(0).standard_normal((6, 2))
    broken = WrongNetwork(X, np.sign(X[:, 0]), width=3)
    with pytest.raises(agf.ProblemError, match="breaks the contract"):
        agf.separation(broken, broken.init(1e-3))


def test_a_right_one_passes():
    run = agf.flow(Toy(), agf.Init.from_params(THETA), t_max=3.0, snapshots=5)
    assert len(agf.groups(Toy(), THETA)) == 2
    assert agf.merge(Toy(), THETA).neurons == 2
    assert agf.prune(Toy(), THETA, 1, by="snip").neurons == 1
    assert [flip.parameter for flip in run.flips("all", problem=Toy()).flips] == [0]
