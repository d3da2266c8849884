"""Inside an activation cone, and along the kinks it slides on, a sharp network is smooth: it has a Hessian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import agf
from agf.coordinates.cone_system import ConeSystem
from agf.coordinates.sharp_system import SharpSystem
from agf.init import Init

#: Eight samples with a hidden bias, two neurons: the second slides for a while, then a slow mode makes a drop.
BIASED = (
    np.c_[[0.024, 0.901, -0.712, 0.897, -0.376, -0.153, 0.655, -0.182], np.ones(8)],
    np.array([0.18, 0.513, -0.836, 0.599, -1.125, -0.493, 0.778, -0.339]),
)


def slides():
    """A state whose first neuron is held by the kink of x_0, and its normal."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    problem = agf.TwoLayer(X, y, width=3, kink=0)
    theta = rng.standard_normal((3, 4))
    theta[0, :3] -= X[0] * (X[0] @ theta[0, :3]) / (X[0] @ X[0])
    sharp = SharpSystem(problem, Init.from_params(theta))
    kink = int(np.argmax(np.abs(sharp._of(0) @ X[0])))
    sharp._hold(0, np.array([kink]), None)
    return ConeSystem(sharp), theta.ravel(), X[0]


def test_the_hessian_is_the_derivative_of_the_velocity_along_the_kinks():
    cone, y, _ = slides()
    matrix = cone.hessian(y)
    assert matrix == pytest.approx(matrix.T, abs=1e-14)
    rng = np.random.default_rng(0)
    for _ in range(5):
        v = cone.sharp.along(rng.standard_normal((3, 4))).ravel()
        change = (cone.velocity(y + 1e-6 * v) - cone.velocity(y - 1e-6 * v)) / 2e-6
        assert -matrix @ v == pytest.approx(change, abs=1e-8)


def test_what_leads_off_a_kink_is_no_part_of_the_velocity_of_the_rate_nor_of_the_hessian():
    cone, y, normal = slides()
    off = np.zeros((3, 4))
    off[0, :3] = normal
    assert cone.velocity(y) @ off.ravel() == pytest.approx(0.0, abs=1e-15)
    assert cone.hessian(y) @ off.ravel() == pytest.approx(np.zeros(12), abs=1e-14)
    assert cone.loss_rate(y) == pytest.approx(-float(cone.velocity(y) @ cone.velocity(y)))


@pytest.mark.parametrize("kink", [0, None])
def test_a_slow_mode_inside_a_cone_is_waited_for(kink):
    """Inputs all but on one line, all active: nothing but a mode of curvature 1e-4 is left after the first drop.

    A flow of sharp kinks said here that at most 6e-7 could still be lost, and 7e-5 could.
    """
    X = np.array([[1.0, 1.0], [1.0, 1.01], [1.0, 0.99]])
    problem = agf.TwoLayer(X, X @ [2.0, -1.0], width=1, kink=kink)
    flow = agf.flow(problem, agf.Init.from_params(1e-3 * np.array([[0.6, 0.8, 1.0]])))
    assert flow.status.word == "settled"
    assert flow.losses[-1] <= 1e-6 * flow.losses[0]  # the least is 0, and a hundredth of the settling tolerance counts
    assert flow.stats["evaluations"] < 10_000  # in steps that stability allows it takes 60,000


@pytest.fixture(scope="module")
def biased():
    """That network, small starting weights, and its flow."""
    theta = np.array([[-0.565, 1.006, 1.154], [-1.301, 0.841, -1.549]])
    problem, init = agf.TwoLayer(*BIASED, width=2, kink=0), agf.Init.scaled(theta, 1e-4)
    return problem, init, agf.flow(problem, init)


def test_a_drop_that_a_slow_mode_makes_comes_when_an_implicit_integrator_has_it(biased):
    (X, y), (_, _, flow) = BIASED, biased
    k = int(np.searchsorted(flow.snapshot_times, 1500.0))  # it has slid until 1,340
    then, start = float(flow.snapshot_times[k]), flow.params(k)
    active = (start[:, :2] @ X.T > 0).astype(float)

    def network(u):
        return (active * (u[:, :2] @ X.T)).T @ u[:, 2]

    def velocity(_, u):
        u = u.reshape(2, 3)
        pull = (active * (y - network(u))) @ X / 8
        return np.c_[u[:, 2:] * pull, np.sum(u[:, :2] * pull, axis=1)].ravel()

    exact = solve_ivp(velocity, (then, flow.times[-1]), start.ravel(), "LSODA", rtol=1e-10, atol=1e-13)
    losses = np.array([0.5 * np.mean((y - network(u.reshape(2, 3))) ** 2) for u in exact.y.T])
    assert np.interp(exact.t, flow.times, flow.losses) == pytest.approx(losses, rel=1e-4)


def test_a_stretch_in_a_cone_is_resumed(tmp_path):
    X, y = BIASED
    theta = np.array([[-0.565, 1.006, 1.154], [-1.301, 0.841, -1.549]])
    problem, init = agf.TwoLayer(X, y, width=2, kink=0), agf.Init.from_params(theta)
    whole = agf.flow(problem, init, t_max=4e3)
    half = agf.flow(problem, init, t_max=2e3)
    assert "weights" in half.state  # or this shows nothing
    on = agf.flow(problem, init, t_max=4e3, resume=half)
    assert on.losses[-1] == pytest.approx(whole.losses[-1], rel=1e-7)
    assert on.stats["evaluations"] < 1.1 * whole.stats["evaluations"]


def test_a_prediction_crosses_what_is_stiff_in_a_cone_by_implicit_steps(biased):
    """In steps that stability allows the last drop was out of reach: no answer after 36,000 velocities."""
    problem, init, flow = biased
    stairs = agf.predict(problem, init, mode="resolved")
    trained = [drop.time for drop in flow.drops]
    assert trained[-1] > 1e5
    assert stairs.half_times[1:] == pytest.approx(trained, rel=1e-3)
    assert stairs.stats["velocity_evaluations"] < 1.2 * flow.stats["evaluations"]  # at as fine a tolerance
