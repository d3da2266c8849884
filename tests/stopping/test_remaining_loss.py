"""What a decaying flow can still lose: powers of time, infima that nothing attains, saddles that only look settled."""

import numpy as np
import pytest
from stubs import Scripted

import agf
from agf.algorithm.active import Cost, settle
from agf.stopping import remaining_loss
from agf.stopping.driver import Counted, Moment


class Landscape(Scripted):
    """One neuron on a loss of its own, with its Hessian. Dormant neurons never grow."""

    name = "landscape"

    def __init__(self, value, gradient, hessian, n_params):
        super().__init__(np.zeros(1))
        self.value, self.gradient, self.curvature, self.n_params = value, gradient, hessian, n_params

    def loss_grad(self, theta, neurons):
        return float(self.value(theta[0])), self.gradient(theta[0])[None]

    def hessian(self, theta, neurons):
        return self.curvature(theta[0])


def rest(problem, theta, horizon, rtol=1e-6):
    theta = np.array([theta], dtype=float)
    return settle(problem, theta, np.arange(1), lambda *_: horizon, rtol=rtol, negligible=0.0, before=np.inf)


def receding(m):
    """L = 1 + theta^-m: the neuron runs away, L - 1 falls as t^-q with q = m / (m + 2), and 1 is not attained."""
    return Landscape(
        lambda th: 1.0 + th[0] ** -m,
        lambda th: -m * th ** -(m + 1.0),
        lambda th: np.diag(m * (m + 1.0) * th ** -(m + 2.0)),
        1,
    )


def saddle(rate):
    """L = 1 - rate x^2 / 2 + x^4 / 4 + y^2 / 2: left along x at `rate`, for a level of 1 - rate^2 / 4."""
    return Landscape(
        lambda th: 1.0 - 0.5 * rate * th[0] ** 2 + 0.25 * th[0] ** 4 + 0.5 * th[1] ** 2,
        lambda th: np.array([-rate * th[0] + th[0] ** 3, th[1]]),
        lambda th: np.diag([-rate + 3.0 * th[0] ** 2, 1.0]),
        2,
    )


@pytest.mark.parametrize("m", [2.0, 3.0, 6.0])
@pytest.mark.parametrize("horizon", [1e20, 1e90])
def test_a_loss_that_falls_like_a_power_of_time_ends_at_its_infimum(m, horizon):
    """Horizons that no step reaches: theta ~ t^(1 / (m + 2)) would have to be followed for 1e90 units of time."""
    got = rest(receding(m), [1.0], horizon)
    assert got.how == "infimum"
    assert 0.0 <= got.level - 1.0 <= 1e-6
    # (1 + q) / q is 3 or less for q >= 1/2
    assert got.level - 1.0 <= 1.01 * got.predicted_decrease <= 2.1 * (got.level - 1.0)


def test_what_is_left_to_a_power_law_of_exponent_one_half_is_exact():
    """theta^4 = 8 t, and the loss above its infimum is theta^-2."""
    y = np.array([30.0])
    system = Cost(receding(2.0), np.arange(1), y[None], np.zeros(1))
    now = Moment(30.0**4 / 8, y, system.loss(y), -system.loss_rate(y), Counted(system))
    assert remaining_loss.left(now, 1e30, None) == pytest.approx(30.0**-2)


def test_a_slow_saddle_is_no_level_where_the_horizon_is_longer():
    """From 1e-7 beside it the flow needs 14 / rate to leave; the gradient there is 1e-10."""
    got = rest(saddle(1e-3), [1e-7, 1.0], 1e6, rtol=1e-8)
    assert got.level == pytest.approx(1.0 - 0.25e-6, rel=1e-8)
    assert abs(got.theta[0, 0]) == pytest.approx(1e-3**0.5, rel=1e-2)


def test_a_saddle_is_not_left_in_no_time():
    at, system = np.array([0.5, 1.0]), saddle(1e-3)
    cost = Cost(system, np.arange(1), at[None], np.zeros(1))
    now = Moment(1.0, at, cost.loss(at), -cost.loss_rate(at), Counted(cost))
    assert remaining_loss.escape(now, 0.0) == 0.0  # as where the next neuron is there already


def test_a_saddle_is_a_level_where_the_next_activation_comes_first():
    got = rest(saddle(1e-3), [1e-7, 1.0], 5e3, rtol=1e-8)
    assert got.level == pytest.approx(1.0, abs=1e-9)


def test_a_saddle_that_is_met_exactly_is_a_level():
    """Nothing moves along x, not even rounding: the flow waits as long as rounding would need, and goes no further."""
    got = rest(saddle(1.0), [0.0, 1.0], 1e12)
    assert got.how == "flow"
    assert got.level == pytest.approx(1.0, abs=1e-6)
    assert got.duration < 1e3
    assert got.evaluations < 3000


@pytest.mark.parametrize("alpha", [1e-14, 1e-100])
def test_neurons_that_cancel_do_not_end_the_prediction(alpha):
    """Seven residues, {1: 5, 2: 4}: the first three neurons are of frequency 1, where N aligned ones leave 8/9, 5/9 and
    1/3 of its 25/7 ([AGF] Theorem 5.2); two only in the limit of infinite norms, at an infimum."""
    problem = agf.problem("modular-addition", p=7, template={1: 5, 2: 4}, width=12)
    stairs = agf.predict(problem, problem.init(alpha, seed=0), max_drops=3, mode="agf")
    assert [drop.how for drop in stairs.drops[:2]] == ["flow", "infimum"]
    assert not stairs.status.failed
    expected = 16 / 7 + 25 / 7 * np.array([1.0, 8 / 9, 5 / 9, 1 / 3])
    np.testing.assert_allclose(stairs.levels, expected, rtol=2e-6)
    assert len([note for note in stairs.notes if "infimum" in note]) == 1
