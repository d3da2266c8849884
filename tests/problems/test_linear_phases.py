"""Predictions of linear networks at finite alpha: exact solutions, what blocks do, ties, and frozen growth.

Commuting problems started aligned and balanced have an exact solution at every alpha: each mode is a logistic curve,
beta_i' = 2 s_i beta_i (b_i - beta_i) [Saxe, McClelland & Ganguli 2014].
"""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.linear.problem import Linear
from linear_cases import EXAMPLE, authors, exact_half_times, generic, observed

import agf


@pytest.mark.parametrize("alpha", [1e-3, 1e-8, 1e-100, 1e-300])
def test_aligned_commuting_modes_drop_at_the_exact_times(alpha):
    b, s = np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.3])
    problem = Linear(Sxx=np.diag(s), B=np.diag(b), width=3)
    init = problem.init(alpha, kind="aligned")
    stairs = agf.predict(problem, init, mode="agf")
    exact = exact_half_times(b, s, alpha)
    # The law is exact up to beta(0)/b = alpha^2/b, and the drop is integrated to 1e-5 a step.
    np.testing.assert_allclose(stairs.half_times[1:], exact, rtol=1e-5 + 5 * alpha**2)
    np.testing.assert_allclose(stairs.levels, 0.5 * np.append(np.cumsum((b**2 * s)[::-1])[::-1], 0), atol=1e-5)
    flow = agf.flow(problem, init, t_max=1.2 * exact[-1])
    # Losses of the other modes shift a crossing by less than they are at it; the integrator's part is 1e-6.
    np.testing.assert_allclose(observed(flow, stairs.levels), exact, rtol=1e-5 if alpha < 1e-4 else 2e-2)


def test_the_authors_problem_all_nine_drops_from_gaussian_weights():
    problem = Linear(**authors(), width=10)
    levels = [20.43674, 4.272561, 1.228689, 0.4005025, 0.1732231, 0.07268724, 0.03162004, 0.007348766, 0.00236227]
    np.testing.assert_allclose(problem.theory().levels[:9], levels, rtol=1e-6)
    for alpha in (1e-8, 1e-100):
        init = problem.init(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        assert [d.neurons.tolist() for d in stairs.drops] == [[k] for k in range(10)]
        flow = agf.flow(problem, init, t_max=1.05 * stairs.times[9])
        # Commuting modes: the frozen law is exact but for their overlap, which is tiny on long plateaus.
        np.testing.assert_allclose(observed(flow, stairs.levels[:10]), stairs.half_times[1:10], rtol=2e-5)


def test_predictions_converge_to_gradient_flow_on_problems_that_do_not_commute():
    problem = Linear(**generic(7, d=5, c=4), width=6)
    errors = []
    for alpha in (1e-8, 1e-30, 1e-100):
        init = problem.init(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        flow = agf.flow(problem, init, t_max=1.2 * stairs.times[-1])
        errors.append(np.abs(observed(flow, stairs.levels) / stairs.half_times[1:] - 1).max())
    # The time a drop takes is ignored: first order in 1/log(1/alpha).
    assert errors[0] < 0.15
    assert errors[1] < 0.4 * errors[0]
    assert errors[2] < 0.4 * errors[1]


def test_a_drop_is_told_with_the_gradient_and_the_loss_of_its_active_modes():
    problem = Linear(**generic(7, d=5, c=4), width=6)
    for drop in agf.predict(problem, problem.init(1e-6), mode="agf", conditioning=False).drops:
        modes = np.flatnonzero(drop.active)
        level, gradient = problem.loss_grad(np.exp(drop.log_norms[modes])[:, None] * drop.directions[modes], modes)
        assert drop.level == pytest.approx(level, rel=1e-12)
        # The gradient is a difference: rounding of the correlations.
        assert drop.grad_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-12)


def test_a_single_unit_turns_from_the_mode_that_grew_first_to_the_one_of_larger_energy():
    """Narrower than the problem: the greedy plateau is a saddle, and the unit leaves it by what it has of the other."""
    problem = Linear(**EXAMPLE, width=1)
    for alpha in (1e-8, 1e-40):
        init = problem.init(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        assert stairs.status is agf.Status.ALL_ACTIVE
        np.testing.assert_allclose(stairs.levels, [6.125, 5.0, 1.125], rtol=1e-4)
        drops = agf.flow(problem, init).drops
        # The unit's share of the other mode is read where the first saturates, not followed through that drop.
        np.testing.assert_allclose([d.time for d in drops], stairs.half_times[1:], rtol=1e-2)


def test_weakly_coupled_modes_turn_when_the_flow_says():
    angle = 1e-3
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    problem = Linear(Sxx=turn * [0.1, 1.0] @ turn.T, B=EXAMPLE["B"])
    init = problem.init(1e-60)
    stairs, drops = agf.predict(problem, init, mode="agf"), agf.flow(problem, init).drops
    np.testing.assert_allclose(stairs.levels[1:], [d.after for d in drops], atol=2e-3)
    np.testing.assert_allclose(stairs.half_times[1:], [d.time for d in drops], rtol=3e-2)
    assert [d.neurons.tolist() for d in stairs.drops] == [[0], [0], [1]]
    # Without time to turn, the next mode joins first.
    assert agf.predict(problem, problem.init(1e-8), mode="agf").levels[1:] == pytest.approx([5, 0], abs=2e-3)


def test_unit_thresholds_wait_for_norm_one():
    b, s, alpha = 3.0, 0.5, 1e-8
    problem = Linear(Sxx=[[s]], B=[[b]], width=1)
    init = agf.Init.from_params([[alpha, alpha]])
    unit = agf.predict(problem, init, threshold="unit")
    natural = agf.predict(problem, init, mode="agf")
    # The mode's norm is sqrt(2) alpha; norm 1, and sqrt(2 b) where beta = b.
    assert unit.times[1] == pytest.approx(-np.log(np.sqrt(2) * alpha) / (b * s), rel=1e-12)
    assert natural.times[1] == pytest.approx(np.log(np.sqrt(b) / alpha) / (b * s), rel=1e-12)
    assert unit.half_times[1] == unit.times[1]


def test_alignment_counts_a_mode_starts_with_what_grows_of_it():
    """w = a grows; w = -a only decays, and joins through what rounding, here an explicit 1e-3, leaves of the other."""
    problem = Linear(Sxx=[[1.0]], B=[[1.0]], width=1)
    start = agf.Init.from_params([[1e-6, -1e-6 * (1 - 2e-3)]])
    stairs = agf.predict(problem, start, mode="agf")
    growing = (1e-6 - 1e-6 * (1 - 2e-3)) / np.sqrt(2)
    assert stairs.times[1] == pytest.approx(np.log(np.sqrt(2) / growing), rel=1e-6)
    flow = agf.flow(problem, start, t_max=3 * stairs.times[1])
    assert observed(flow, stairs.levels)[0] == pytest.approx(stairs.half_times[1], rel=1e-4)


def test_ties_activate_together_and_exactly_equal_modes_are_one_drop():
    problem = Linear(Sxx=np.eye(4), B=np.diag([2.0, 2.0, 1.0, 1.0]))
    for stairs in (problem.theory(), agf.predict(problem, problem.init(1e-8, kind="aligned"), mode="agf")):
        assert [d.neurons.tolist() for d in stairs.drops] == [[0, 1], [2, 3]]
        np.testing.assert_allclose(stairs.levels, [5, 1, 0], atol=1e-6)


def test_an_independent_mode_cut_short_by_the_next_drop_goes_on_to_its_target():
    # Rates 6 * 1/16, 5 * 1/8, ... bring the first two drops within 1.5 of one another: the first is not done by then.
    b, s = np.array([6.0, 5.0, 2.4, 1.0, 0.4]), 2.0 ** -np.arange(5)[::-1]
    problem = agf.problem("linear", Sxx=np.diag(s), B=np.diag(b))
    stairs = agf.predict(problem, problem.init(1e-8, seed=0), mode="agf")
    assert stairs.levels[-1] < 1e-9 * stairs.start_level
    assert agf.compare(stairs, agf.flow(problem, problem.init(1e-8, seed=0))).max_time_error < 0.02


def test_units_two_hundred_orders_apart_learn_every_mode_and_say_when_one_carries_several():
    # The largest unit learns first, 0.4 % of the time of the last: singular values kept only this one.
    problem = agf.problem("linear", Sxx=np.diag([1.0, 2.0, 3.0]), B=np.diag([3.0, 1.5, 0.5]), width=3)
    theta = np.random.default_rng(0).standard_normal((3, 6))
    directions = theta / np.linalg.norm(theta, axis=1)[:, None]
    far = agf.predict(problem, agf.Init(directions, np.log(10.0) * np.array([-4.0, -100.0, -204.0]), 1e-4), mode="agf")
    assert far.status is agf.Status.FITTED
    assert len(far.drops) == 3
    assert "carries of several modes" in far.notes[0]
    near = agf.predict(problem, problem.init(1e-4), mode="agf")
    assert near.notes == ()


def test_units_apart_in_norm_drop_when_the_flow_drops():
    problem = agf.problem("linear", Sxx=np.diag([1.0, 2.0, 3.0]), B=np.diag([3.0, 1.5, 0.5]), width=9)
    theta = np.random.default_rng(1).standard_normal((9, 6))
    directions = theta / np.linalg.norm(theta, axis=1)[:, None]
    norms = np.log(10.0) * np.array([-8.0, -9.0, -8.0, -30.0, -8.0, -100.0, -12.0, -40.0, -8.0])
    init = agf.Init(directions, norms, 1e-8)
    report = agf.compare(agf.predict(problem, init, mode="agf"), agf.flow(problem, init))
    assert report.max_time_error < 0.03  # the first two drops overlap
    assert report.max_level_error < 1e-2


@pytest.mark.parametrize("seed", range(12))
def test_a_turn_that_is_halfway_done_before_the_drop_it_overlaps_does_not_lie_in_the_past(seed):
    problem = agf.problem("linear", X=np.eye(3), Y=np.diag([1.0, 0.5, 0.2]), width=2)
    init = problem.init(1e-9, seed=seed)
    stairs = agf.predict(problem, init, mode="agf")
    assert np.all(np.diff(stairs.half_times) >= 0)
    if seed == 0:
        told = agf.predict(problem, init)
        flow = agf.flow(problem, init)
        assert told.levels[-1] == pytest.approx(flow.losses[-1], abs=1e-6)
        assert told.half_times[1:] == pytest.approx([d.time for d in flow.drops], rel=1e-4)


def test_fewer_hidden_units_than_modes_may_learn_a_later_mode_first():
    """One unit that starts on the smaller of two near-equal modes: an IndexError before."""
    problem = agf.problem("linear", Sxx=np.eye(2), Syx=np.diag([1.0, 1.0 - 1e-6]), width=1)
    init = agf.Init.from_params(1e-20 * np.array([[1e-3, 1.0, 1e-3, 1.0]]))
    stairs = agf.predict(problem, init, mode="agf")
    assert stairs.drops[0].neurons.tolist() == [1]
    assert stairs.drops[0].half_time == pytest.approx(agf.flow(problem, init, t_max=60.0).drops[0].time, rel=1e-3)


def test_what_the_closed_form_does_not_follow_is_resolved_in_time_by_default():
    """Balanced units whose determinant has the wrong sign stay at rank one but for rounding: a bar of .03 % before."""
    problem = agf.problem("linear", Sxx=np.eye(2), Syx=np.diag([2.53, 2.52]), width=2)
    init = agf.Init.from_params(5e-3 * np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]))
    assert agf.predict(problem, init, mode="agf").notes
    default = agf.predict(problem, init)
    assert default.notes[-1].startswith("Resolved in time")
    assert all(drop.error > 0.1 for drop in default.drops[1:])


def test_modes_take_no_further_phase_once_their_gradients_are_used_up():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 3))
    problem = agf.problem("linear", X=x, Y=x @ np.diag([3.0, 1.0, 0.3]), width=3)
    whole, cut = (agf.predict(problem, problem.init(1e-6), mode="agf", max_gradients=most) for most in (None, 1.0))
    assert len(whole.drops) == 3
    assert (cut.status.word, len(cut.drops), cut.drops[0].half_time) == ("max_steps", 1, whole.drops[0].half_time)
