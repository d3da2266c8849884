"""Mode "limit": closed forms where there are some, else the generic race; refusals."""

import numpy as np
import pytest
from scipy.optimize import nnls
from stubs import DiagonalToy
from tiny import Plain

import agf
from agf.errors import RequestError
from agf.records.status import Status


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
        times = agf.predict(problem, init, mode="agf").times[1:] / -init.log_alpha
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
    assert agf.predict(problem, init, mode="limit", t_max=1.0).status is Status.MAX_TIME


def test_a_neuron_that_collapses_gives_back_its_charge_and_returns_with_the_other_sign():
    """[PF23] section 5: coordinate 0 enters, leaves when 1 comes, and re-enters; times and levels as published."""
    angle = np.deg2rad(150.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    X = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
    problem = DiagonalToy(X, X @ np.array([-0.2, 2.0]))
    init = agf.Init.scaled(np.tile([np.sqrt(2.0), 1e-3], (2, 1)), 1e-8)
    stairs = agf.predict(problem, init, mode="limit")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1], [0]]
    assert [drop.collapsed.tolist() for drop in stairs.drops] == [[], [0], []]
    # the levels that drive the rates are settled to 1e-6, and the flow of the active pair to its root
    assert stairs.accelerated_times[1:] == pytest.approx([0.193042, 0.600220, 3.457363], rel=1e-3)
    assert stairs.levels == pytest.approx([2.3111, 1.11465, 0.07, 0.0], abs=2e-4)


def test_bounds_cut_a_closed_form_too():
    X = np.random.default_rng(0).standard_normal((20, 4))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, -1.0, 0.5, 0.2]))
    init = problem.init(1e-8)
    whole = agf.predict(problem, init, mode="limit")
    assert len(agf.predict(problem, init, mode="limit", max_drops=2).drops) == 2
    short = agf.predict(problem, init, mode="limit", t_max=float(whole.times[2]))
    assert len(short.drops) == 2
    assert short.status is Status.MAX_TIME


@pytest.mark.parametrize("seed", [1, 2, 4, 7])
def test_the_generic_race_repeats_the_closed_form_with_returns_and_reversals(seed):
    """Correlated columns: charges turn back before charge 1 (2, 4, 7), a coordinate leaves and comes back (1)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 5)) @ (np.eye(5) + 0.6 * rng.standard_normal((5, 5)))
    y = X @ rng.standard_normal(5)
    exact = agf.problem("diagonal-linear", X=X, y=y).theory()
    init = agf.Init.scaled(np.tile([np.sqrt(2.0), 1e-3], (5, 1)), 1e-8)
    stairs = agf.predict(DiagonalToy(X, y), init, mode="limit")
    assert [d.neurons.tolist() for d in stairs.drops] == [d.neurons.tolist() for d in exact.drops]
    assert [d.collapsed.tolist() for d in stairs.drops] == [d.collapsed.tolist() for d in exact.drops]
    # a level settled to rtol = 1e-6 leaves a residual, and so a rate, to its root
    assert stairs.accelerated_times == pytest.approx(exact.accelerated_times, rel=1e-3)
    assert stairs.levels == pytest.approx(exact.levels, abs=3e-6 * exact.levels[0])


def three_columns():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 3))
    return x, x @ [1.0, -0.5, 0.2]


@pytest.mark.parametrize("mode", ["limit", "agf", "auto"])
def test_a_neuron_of_weight_zero_is_never_learned(mode):
    x, y = three_columns()
    problem = agf.problem("diagonal-linear", X=x, y=y)
    stairs = agf.predict(problem, agf.Init.from_params(np.array([[1e-4, 0.0], [0.0, 0.0], [1e-4, 0.0]])), mode=mode)
    others = x[:, [0, 2]]
    rest = y - others @ np.linalg.lstsq(others, y)[0]
    assert {i for drop in stairs.drops for i in drop.neurons.tolist()} == {0, 2}
    assert stairs.levels[-1] == pytest.approx(rest @ rest / 24, rel=1e-4)


def test_norms_of_unlike_logs_are_said_to_be_taken_for_equal():
    x, y = three_columns()
    problem = agf.problem("diagonal-linear", X=x, y=y)
    even, uneven = (
        agf.predict(problem, agf.Init.from_params(np.array([[1e-4, 0.0], [1e-4, 0.0], [last, 0.0]])), mode="limit")
        for last in (2e-4, 1e-12)
    )
    assert not even.notes
    assert "between 1e-12 and 0.0001" in uneven.notes[0]


def test_where_u_is_v_a_coefficient_comes_with_one_sign_alone():
    """The positive network beta = v^2: levels are those of non-negative least squares."""
    x, y = three_columns()
    problem = agf.problem("diagonal-linear", X=x, y=y)
    stairs = agf.predict(problem, agf.Init.from_params(np.full((3, 2), 1e-8)), mode="limit")
    assert stairs.levels[-1] == pytest.approx(nnls(x, y)[1] ** 2 / 24, rel=1e-6)
