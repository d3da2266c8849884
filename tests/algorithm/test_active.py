"""The active phase: it ends where the flow ends, or at the horizon, and says which."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from stubs import DiagonalToy, ReluToy, Scripted, norms_init

import agf
from agf.algorithm.active import settle
from agf.algorithm.engine import Engine
from agf.algorithm.phases import GenericPhases
from agf.records.settings import Settings
from agf.records.status import Status
from agf.stopping import methods


class Landscape(Scripted):
    """One or more active neurons on a loss of their own: value(theta), gradient(theta). Dormant ones never grow."""

    name = "landscape"

    def __init__(self, value, gradient, n_params=1, width=1):
        super().__init__(np.zeros(width))
        self.value, self.gradient, self.n_params = value, gradient, n_params

    def loss_grad(self, theta, neurons):
        return float(self.value(theta)), self.gradient(theta)


def quadratic(rates):
    """L = sum rates theta^2 / 2, one neuron."""
    rates = np.asarray(rates)
    return Landscape(lambda th: 0.5 * np.sum(rates * th**2), lambda th: rates * th, rates.size)


def rest(problem, theta, horizon=np.inf, rtol=1e-6, negligible=0.0, before=np.inf):
    theta = np.atleast_2d(np.asarray(theta, dtype=float))
    fixed = (lambda now, *_: horizon(now)) if callable(horizon) else (lambda *_: horizon)
    return settle(problem, theta, np.arange(len(theta)), fixed, rtol=rtol, negligible=negligible, before=before)


# -- where it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [1.0, 1e2, 1e4])
def test_the_loss_at_the_horizon_is_that_of_the_flow(stiffness):
    rates = np.array([stiffness, 1.0])
    got = rest(quadratic(rates), [1.0, 1.0], 3.0)
    exact = 0.5 * np.sum(rates * np.exp(-2 * rates * 3.0))
    assert got.how == "horizon"
    assert got.duration == 3.0
    # sqrt(rtol) = 1e-3 of the norm a step, on a loss that has fallen to 1e-3 of what it was
    assert got.level == pytest.approx(exact, rel=2e-2)


def test_it_stops_early_once_the_rest_of_the_horizon_can_lose_nothing():
    shifted = Landscape(lambda th: 1.0 + 0.5 * np.sum(th**2), lambda th: th, 2)
    got = rest(shifted, [1.0, 1.0], 1e6)
    assert got.how == "flow"
    assert got.level == pytest.approx(1.0, abs=1e-6)
    assert got.duration < 50.0
    assert got.grad_norm**2 * 1e6 <= 1e-6 * 1.001


@pytest.mark.parametrize("horizon", [10.0, 1e3, 1e5])
def test_algebraic_decay_ends_at_the_horizon_with_the_loss_of_the_flow_there(horizon):
    """theta' = -theta^3: theta = 1 / sqrt(1 + 2t), L = theta^4 / 4, no exponential end."""
    got = rest(Landscape(lambda th: 0.25 * np.sum(th**4), lambda th: th**3), [1.0], horizon, negligible=1e-14)
    assert got.how == "horizon"
    assert got.level == pytest.approx(0.25 / (1 + 2 * horizon) ** 2, rel=2e-2)


def test_a_horizon_that_moves_is_asked_again():
    """The wait doubles while the flow is under way: the later answer counts."""
    got = rest(quadratic([1.0]), [1.0], lambda theta: 1.0 if theta[0, 0] > 0.5 else 4.0)
    assert got.duration == pytest.approx(4.0)


def test_the_start_next_to_a_saddle_is_left_along_the_unstable_direction():
    """L = (x^2 - 1)^2 / 4 + y^2 / 2 has a saddle at 0: from (1e-9, 1) the flow goes to (1, 0), not to the saddle."""
    problem = Landscape(
        lambda th: 0.25 * (th[0, 0] ** 2 - 1) ** 2 + 0.5 * th[0, 1] ** 2,
        lambda th: np.array([[th[0, 0] * (th[0, 0] ** 2 - 1), th[0, 1]]]),
        2,
    )
    got = rest(problem, [1e-9, 1.0], 1e3, rtol=1e-12)
    assert got.theta == pytest.approx(np.array([[1.0, 0.0]]), abs=1e-5)


def test_the_loss_never_ends_above_the_one_before_the_phase():
    """A newcomer set down too large raises the loss at first: the horizon does not count until that is over."""
    got = rest(quadratic([1.0]), [10.0], 0.1, before=2.0)
    assert got.level <= 2.0 * 1.001


def test_a_norm_that_runs_away_is_reported_as_growing():
    got = rest(Landscape(lambda th: np.exp(-th).sum(), lambda th: -np.exp(-th)), [1.0], 1e3)
    assert got.growing
    assert got.predicted_decrease > 1e-4 * got.level


def test_nothing_to_lose_returns_the_start():
    got = rest(quadratic([0.0, 0.0]), [1.0, 2.0], 10.0)
    assert got.theta.tolist() == [[1.0, 2.0]]
    assert (got.grad_norm, got.duration) == (0.0, 0.0)


@given_settings(max_examples=8)
@given(st.floats(-12.0, 12.0), st.floats(-12.0, 12.0))
def test_units_of_loss_and_of_parameters_change_nothing_else(log_loss, log_length):
    """L -> a L(theta / b), theta -> b theta: times scale like b^2 / a."""
    a, b = np.exp(log_loss), np.exp(log_length)
    rates = np.array([3.0, 0.5])

    def problem(a, b):
        return Landscape(lambda th: 0.5 * a * np.sum(rates * (th / b) ** 2), lambda th: a / b**2 * rates * th, 2)

    plain = rest(problem(1.0, 1.0), [1.0, 1.0], 2.0)
    scaled = rest(problem(a, b), [b, b], 2.0 * b**2 / a)
    assert scaled.level == pytest.approx(a * plain.level, rel=1e-9)
    assert scaled.theta == pytest.approx(b * plain.theta, rel=1e-9)
    assert scaled.evaluations == plain.evaluations


def test_a_slide_along_a_kink_ends_on_it_and_reports_the_rate_of_the_slide():
    """L = |x| + (y - 1)^2 / 2: the flow reaches x = 0 and slides along it; the velocity there never vanishes."""
    problem = Landscape(
        lambda th: abs(th[0, 0]) + 0.5 * (th[0, 1] - 1) ** 2,
        lambda th: np.array([[np.sign(th[0, 0]), th[0, 1] - 1]]),
        2,
    )
    problem.smooth = False
    got = rest(problem, [0.4, 3.0], 30.0, negligible=1e-9)
    assert abs(got.theta[0, 0]) < 1e-5
    assert got.theta[0, 1] == pytest.approx(1.0, abs=1e-2)
    assert got.grad_norm < 0.1  # though |gradient| >= 1 all along


def test_steps_that_throw_neurons_across_rounded_kinks_are_shortened():
    """At the tolerance of the path, as wide as a kink, the force stayed at .07 and the loss rose, for 100,000 steps."""
    X = np.array([[1.4, 0.1], [0.3, 1.1], [0.8, 0.6], [-0.4, -1.0], [0.4, -0.5], [0.8, 0.2]])
    problem = agf.TwoLayer(X, [-0.7, 0.3, 0.7, 0.2, -0.8, 0.3], width=2)
    theta = np.array([[0.4, 0.8, 0.7], [-0.9, -0.5, 0.6]])
    got = settle(problem, theta, np.arange(2), lambda *_: 1e4, rtol=1e-6, negligible=1e-9, before=np.inf, most=3000)
    assert got.how == "flow"
    assert got.level == pytest.approx(agf.flow(problem, agf.Init.from_params(theta)).losses[-1], rel=1e-4)


@pytest.mark.parametrize("settle_rule", ["horizon", "converged"])
def test_explicit_and_implicit_steps_reach_the_same_levels_at_the_same_times(monkeypatch, settle_rule):
    """Neurons of one frequency that cancel one another: the stiffest phases there are."""
    problem = agf.problem("modular-addition", p=5, template={1: 4.0, 2: 2.0}, width=8)
    init = problem.init(1e-3, seed=1)
    drops = 4 if settle_rule == "horizon" else 2
    stairs = agf.predict(problem, init, settle=settle_rule, max_drops=drops)
    monkeypatch.setattr(methods, "EXPENSIVE", np.inf)
    explicit = agf.predict(problem, init, settle=settle_rule, max_drops=drops)
    # without implicit steps, the Hessian is asked only whether what looks settled is
    assert stairs.stats["hessians"] > 2 * explicit.stats["hessians"]
    assert stairs.stats["loss_evaluations"] < 0.7 * explicit.stats["loss_evaluations"]
    # explicit steps may be wrong by sqrt(rtol) = 1e-3 each, in state; a late level is as wrong as its phase's start
    assert stairs.levels == pytest.approx(explicit.levels, abs=1e-4 * stairs.start_level)
    assert stairs.times == pytest.approx(explicit.times, rel=1e-3)


# -- through the generic phases -------------------------------------------------------------------------------------


class Return(DiagonalToy):
    """[PF23] section 5, two coordinates: 0 enters, leaves when 1 comes, and re-enters with the other sign."""

    def __init__(self):
        angle = np.deg2rad(150.0)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        X = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
        super().__init__(X, X @ np.array([-0.2, 2.0]))


@pytest.mark.parametrize("alpha", [1e-8, 1e-40, 1e-200])
def test_a_neuron_that_collapses_returns_to_dormancy_and_comes_back(alpha):
    problem = Return()
    init = agf.Init.scaled(np.tile([np.sqrt(2.0), 1e-3], (2, 1)), alpha)
    stairs = agf.predict(problem, init, settle="converged")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1], [0]]
    assert [drop.collapsed.tolist() for drop in stairs.drops] == [[], [0], []]
    # levels and times of the limit; at a finite alpha times are off by the logarithm of norms of order one, a few units
    # in log 1/alpha, through rates that differ by a factor of ten
    assert stairs.levels == pytest.approx([2.3111, 1.11465, 0.07, 0.0], abs=2e-4)
    limit = np.array([0.193042, 0.600220, 3.457363])
    assert stairs.times[1:] / -init.log_alpha == pytest.approx(limit, rel=2.0 / -init.log_alpha)
    assert stairs.status is Status.FITTED


def test_a_neuron_above_its_threshold_once_the_flow_is_over_joins_in_the_same_drop():
    """R*^2 = U / 2C: 1 for both at first; the second stands at e^-4 = 0.018 when the first has left it 0.01."""
    problem = Scripted([[1.0, 1.0], [1.0, 0.01], [0.0, 0.0]], levels=[1.0, 0.5, 0.2])
    stairs = agf.predict(problem, norms_init([-1.0, -3.0]), mode="agf")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0, 1]]
    assert stairs.drops[0].utility.tolist() == pytest.approx([1.0, 0.01], rel=1e-15)
    assert stairs.levels.tolist() == [1.0, 0.2]
    # with .02 left it has made half its drop, at (sqrt 2 - 1) R*^2 = .0083; with .05, at .021, it follows later
    half = Scripted([[1.0, 1.0], [1.0, 0.02], [0.0, 0.0]], levels=[1.0, 0.5, 0.2])
    assert len(agf.predict(half, norms_init([-1.0, -3.0]), mode="agf").drops) == 1
    later = Scripted([[1.0, 1.0], [1.0, 0.05], [0.0, 0.0]], levels=[1.0, 0.5, 0.2])
    stairs = agf.predict(later, norms_init([-1.0, -3.0]), mode="agf")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1]]


def test_several_neurons_collapse_in_one_phase():
    """Two features of the first stage are better explained by the third alone: both leave when it comes."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((6, 3)))[0] * np.sqrt(6)
    a, b, c = basis.T
    third = (a + b) / np.sqrt(2) + 0.05 * c
    X = np.column_stack([2.0 * a, 2.0 * b, 0.9 * third])
    problem = DiagonalToy(X, 3.0 * third)
    stairs = agf.predict(problem, agf.Init.scaled(np.tile([1.0, 0.9], (3, 1)), 1e-30), settle="converged")
    assert [sorted(drop.neurons.tolist()) for drop in stairs.drops][:1] == [[0, 1]]
    assert stairs.status in (Status.FITTED, Status.NO_GROWTH)
    assert (np.diff(stairs.levels) <= 1e-6 * stairs.levels[0]).all()


def test_levels_agree_with_the_flow_of_the_same_network_at_the_switch_times():
    """ReLU on few points: between drops the full flow sits on the predicted levels."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((30, 3))
    problem = ReluToy(X, np.maximum(X @ np.array([1.0, 0.5, -0.5]), 0.0), width=1)
    init = problem.init(1e-6, seed=3)
    stairs = agf.predict(problem, init, mode="agf")
    shape = (1, problem.n_params)

    def flow(_, y):
        return -problem.loss_grad(y.reshape(shape), np.arange(1))[1].ravel()

    end = 3.0 * stairs.times[-1]
    run = solve_ivp(flow, (0, end), init.params().ravel(), rtol=1e-5, atol=1e-10)
    level = problem.loss_grad(run.y[:, -1].reshape(shape), np.arange(1))[0]
    assert stairs.levels[-1] == pytest.approx(level, abs=1e-4 * stairs.levels[0])


def test_levels_never_rise_on_random_problems():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((15, 4)) @ rng.standard_normal((4, 4))
        problem = DiagonalToy(X, X @ rng.standard_normal(4))
        stairs = agf.predict(problem, problem.init(1e-6, seed=seed), mode="agf")
        assert (np.diff(stairs.levels) <= 1e-6 * stairs.levels[0]).all()


def test_a_loss_without_minimizer_stops_at_a_stated_horizon_with_its_own_status():
    """Separable classification: one logistic neuron grows for ever."""
    X = np.array([[1.0, 0.2], [0.7, -0.3], [1.2, 0.1]])
    problem = agf.TwoLayer(X, np.array([0, 1, 1]), "linear", "logistic", width=1)
    stairs = agf.predict(problem, problem.init(1e-4, seed=0), mode="agf")
    assert stairs.status is Status.NO_CRITICAL_POINT
    assert not stairs.drops[-1].critical


def test_a_failure_of_the_flow_is_a_status_and_says_where():
    class Wall(Scripted):
        def loss_grad(self, theta, neurons):
            if neurons.size == 0:
                return 1.0, np.zeros_like(theta)
            return (1.0, np.full_like(theta, np.nan)) if neurons.size > 1 else (0.5, np.zeros_like(theta))

    engine = Engine(Wall([2.0, 1.0]), norms_init([-3.0, -3.0]), Settings(threshold="unit"))
    first = engine.step(engine.init())
    second = engine.step(first.state)
    assert first.drop.level == 0.5
    assert second.status is Status.NONFINITE
    assert "active phase" in engine.phases.notes[0]


@pytest.mark.parametrize(("alpha", "slack"), [(1e-4, 3e-4), (1e-8, 3e-4), (1e-50, 1e-2)])
def test_the_generic_phases_repeat_the_closed_forms_of_a_diagonal_network(alpha, slack):
    """Two routes to one staircase, with nothing in common but the contract.

    At 1e-50 a dormant charge turns back, which the generic route knows up to a constant of order one in log 1/alpha.
    """
    rng = np.random.RandomState(10)
    X = rng.multivariate_normal(np.zeros(5), np.diag(1 / np.arange(1, 6)), size=20)
    problem = agf.problem("diagonal-linear", X=X, y=X @ (10 * rng.randn(5)))
    init = problem.init(alpha)
    closed = agf.predict(problem, init, mode="agf")
    settings = Settings()
    generic = GenericPhases(problem, init, settings)
    engine = Engine(problem, init, settings, generic)
    step, drops = engine.step(engine.init()), []
    while step.status is None:
        drops.append(step.drop)
        step = engine.step(step.state)
    assert step.status is closed.status
    assert [drop.neurons.tolist() for drop in drops] == [drop.neurons.tolist() for drop in closed.drops]
    assert [drop.half_time for drop in drops] == pytest.approx(closed.half_times[1:].tolist(), rel=slack)
    assert [drop.level for drop in drops] == pytest.approx(closed.levels[1:].tolist(), abs=2e-6 * closed.start_level)
