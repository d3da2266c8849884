"""The index of a level: known in closed form for diagonal and linear networks."""

import numpy as np
import pytest
from stubs import DiagonalToy, norms_init

import agf
from agf.records.state import State


def certified(problem, init, **options):
    """(number of active neurons, certificate) after every drop."""
    out = []

    def observer(state, drop):
        if drop is not None:
            out.append((int(state.active.sum()), agf.certificate(problem, state)))

    agf.predict(problem, init, observer=observer, **options)
    return out


@pytest.mark.parametrize("alpha", [1e-8, 1e-200])
def test_each_dormant_coordinate_of_a_diagonal_network_is_one_way_down(alpha):
    """Its block of the Hessian is [[0, g], [g, 0]]; an active one has one flat direction, u^2 - v^2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([3.0, -2.0, 1.5, 1.0, 0.5]))
    found = certified(problem, problem.init(alpha), settle="converged")
    assert [k for k, _ in found] == [1, 2, 3, 4, 5]
    for k, got in found:
        assert (got.index, got.active_index, got.flat, got.order) == (5 - k, 0, k, 10)
        assert got.growth == 0.0
        assert got.grad_norm < 1e-9


def test_differences_of_the_gradient_count_the_same():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    problem = DiagonalToy(X, X @ np.array([3.0, -2.0, 1.5, 1.0]))
    assert problem.hessian(np.zeros((1, 2)), np.zeros(1, dtype=int)) is None
    found = certified(problem, agf.Init.scaled(np.tile([1.0, 0.3], (4, 1)), 1e-30), settle="converged", rtol=1e-9)
    assert [(k, got.index, got.active_index) for k, got in found] == [(k, 4 - k, 0) for k in range(1, 5)]


@pytest.mark.parametrize("width", [4, 6])
def test_a_linear_network_falls_along_each_pair_of_a_free_unit_and_an_unlearned_mode(width):
    """At rank k, with the largest modes learned: (H - k) (rank - k) negative eigenvalues."""
    problem = agf.problem("linear", Sxx=np.eye(4), B=np.diag([4.0, 3.0, 2.0, 1.0]), width=width)
    found = certified(problem, problem.init(1e-12))
    assert [(k, got.index) for k, got in found] == [(k, (width - k) * (4 - k)) for k in range(1, 5)]
    assert all(got.active_index == 0 for _, got in found)


def test_active_neurons_at_a_saddle_are_told_from_those_at_a_minimum():
    """L of u v fitted to 1, at u = v = 0 though active: curvature -1 along u = v, left at rate 1."""
    problem = DiagonalToy(np.ones((1, 1)), np.ones(1))
    saddle = State(0.0, np.array([True]), np.array([[1.0, 0.0]]), np.array([-np.inf]), 0.5)
    got = agf.certificate(problem, saddle)
    assert (got.index, got.active_index, got.growth) == (1, 1, pytest.approx(1.0))
    minimum = State(0.0, np.array([True]), np.full((1, 2), np.sqrt(0.5)), np.array([0.5 * np.log(2.0)]), 0.0)
    assert agf.certificate(problem, minimum).active_index == 0


def test_neurons_on_their_corner_are_left_out():
    problem = agf.TwoLayer(np.eye(3), np.ones(3), "relu", width=4)
    nobody = State(0.0, np.zeros(4, dtype=bool), problem.init(1e-3).directions, np.zeros(4), 0.5)
    got = agf.certificate(problem, nobody)
    assert (got.order, got.index, got.grad_norm) == (0, 0, 0.0)


def test_a_state_of_another_problem_is_refused():
    problem = DiagonalToy(np.ones((1, 1)), np.ones(1))
    other = norms_init([0.0, 0.0], n_params=3)
    state = State(0.0, np.zeros(2, dtype=bool), other.directions, other.log_norms, 1.0)
    with pytest.raises(agf.errors.RequestError, match=r"shape \(2, 3\)"):
        agf.certificate(problem, state)
