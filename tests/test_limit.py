"""Mode "limit": closed forms where there are some, else the generic race; refusals."""

import numpy as np
import pytest

import agf
from agf.errors import RequestError
from agf.status import Status


class Plain(agf.Problem):
    """Independent diagonal coordinates, L = sum (b_i - u_i v_i)^2 / 2, without closed form: times 1 / |b_i|."""

    name = "plain"
    degree, n_params = 2, 2
    interchangeable = False

    def __init__(self, b):
        self.b = np.asarray(b, dtype=float)
        self.width = self.b.size

    def loss_grad(self, theta, neurons):
        rest = self.b.copy()
        rest[neurons] -= theta[:, 0] * theta[:, 1]
        return 0.5 * float(rest @ rest), -rest[neurons, None] * theta[:, ::-1]

    def residual(self, theta, neurons):
        rest = self.b.copy()
        rest[neurons] -= theta[:, 0] * theta[:, 1]
        return rest

    def utility(self, theta, neurons, residual):
        r = residual[neurons]
        return r * theta[:, 0] * theta[:, 1], r[:, None] * theta[:, ::-1]


def test_independent_neurons_activate_at_the_inverse_of_their_utility():
    problem = Plain([2.0, -0.5, 1.0])
    stairs = agf.predict(problem, problem.init(1e-8, seed=1), mode="limit")
    # kappa U = 2 |b| / 2 on the unit circle; the charge 1 is reached at 1 / |b|
    assert stairs.accelerated_times[1:] == pytest.approx([0.5, 1.0, 2.0], rel=1e-6)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [2], [1]]
    assert stairs.levels == pytest.approx([2.625, 0.625, 0.125, 0.0], abs=1e-4)
    assert stairs.times[1:] == pytest.approx(stairs.accelerated_times[1:] * 8 * np.log(10))


def test_ties_activate_together_and_dead_neurons_never():
    problem = Plain([1.0, 1.0, 0.0])
    stairs = agf.predict(problem, problem.init(1e-8, seed=1), mode="limit")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0, 1]]
    assert stairs.status is Status.FITTED


def test_finite_alpha_approaches_the_limit_like_one_over_log_alpha():
    problem = Plain([2.0, -0.5, 1.0])
    limit = agf.predict(problem, problem.init(1e-8, seed=1), mode="limit").accelerated_times[1:]
    gaps = []
    for alpha in (1e-20, 1e-40, 1e-80):
        init = problem.init(alpha, seed=1)
        times = agf.predict(problem, init).times[1:] / -init.log_alpha
        gaps.append(np.abs(times - limit).max() * -init.log_alpha)
    assert np.ptp(gaps) < 0.05 * max(gaps)


def test_a_closed_form_is_used_where_there_is_one():
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.array([1.0, 2.0]))
    stairs = agf.predict(problem, problem.init(1e-8), mode="limit")
    assert stairs.accelerated_times == pytest.approx(problem.theory().accelerated_times)


def test_higher_degrees_without_times_are_refused_with_a_remedy():
    problem = agf.problem("modular-addition", p=5, template="one-hot", width=3)
    with pytest.raises(RequestError, match=r"degree 3.*Use mode=\"agf\""):
        agf.predict(problem, problem.init(1e-2), mode="limit")


def test_bounds_on_drops_and_time_are_kept():
    problem = Plain([2.0, -0.5, 1.0])
    init = problem.init(1e-8, seed=1)
    assert agf.predict(problem, init, mode="limit", max_drops=1).status is Status.MAX_DROPS
    assert agf.predict(problem, init, mode="limit", max_time=1.0).status is Status.MAX_TIME
