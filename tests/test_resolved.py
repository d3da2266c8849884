"""The resolved mode against gradient flow, its curve, its conditioning, and how it ends."""

import numpy as np
import pytest

import agf
from agf.status import Status


@pytest.fixture(scope="module")
def pair():
    """[PF23] in two dimensions, where one coordinate leaves and comes back: prediction and flow at alpha = 1e-4."""
    angle = np.deg2rad(150.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
    problem = agf.problem("diagonal-linear", X=x, y=x @ np.array([-0.2, 2.0]))
    init = problem.init(1e-4)
    return problem, init, agf.predict(problem, init, mode="resolved"), agf.flow(problem, init)


def orthogonal(scale=1.0):
    """Two independent coordinates: X = sqrt(n) I, so that each obeys the logistic law of a lone neuron."""
    n = 2
    return agf.problem("diagonal-linear", X=np.sqrt(n) * np.eye(n), y=scale * np.sqrt(n) * np.array([2.0, 0.5]))


def test_the_curve_follows_the_flow_within_what_joining_at_a_tenth_leaves_out(pair):
    # A dormant neuron below 0.1 R* changes the residual by less than 0.1^2 of what it will.
    _, _, stairs, flow = pair
    report = agf.compare(stairs, flow)
    assert report.max_time_error < 0.01
    assert report.max_level_error < 1e-4
    assert report.curve_error < 0.01
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1], [0]]
    assert stairs.drops[1].collapsed.tolist() == [0]


def test_the_error_falls_with_the_joining_fraction(pair):
    # What is left out is of the order joining^2: at 0.5 it must show, at 0.1 it must be much smaller.
    problem, init, stairs, flow = pair
    late = agf.predict(problem, init, mode="resolved", joining=0.5)
    assert agf.compare(late, flow).curve_error > 4 * agf.compare(stairs, flow).curve_error


def test_the_curve_never_rises_and_never_jumps_where_a_neuron_joins(pair):
    _, _, stairs, _ = pair
    steps = np.diff(stairs.curve_losses)
    assert steps.max() <= 1e-9 * stairs.start_level
    assert np.all(np.diff(stairs.curve_times) >= 0)
    assert -steps.min() < 0.1 * stairs.start_level


def test_conditioning_is_the_change_under_twice_the_joining_norm_and_ten_times_the_tolerance(pair):
    problem, init, stairs, _ = pair
    other = agf.predict(problem, init, mode="resolved", joining=0.06, rtol=1e-5, conditioning=False)
    assert np.isnan([drop.conditioning for drop in other.drops]).all()
    for drop, moved in zip(stairs.drops, other.drops, strict=True):
        # plateaus of the second pass keep the tolerance of the first, so the two agree to what that is worth
        assert drop.conditioning == pytest.approx(abs(moved.half_time / drop.half_time - 1), rel=0.2, abs=2e-4)


def test_independent_coordinates_drop_at_the_times_of_the_logistic_law():
    # beta' = 2 b (b* - b) sqrt(...) with u = sqrt 2 alpha, v = 0: beta = alpha^2 sinh 2z exactly, z' = b* - beta;
    # half the loss is left at beta = (1 - 1/sqrt 2) b*, reached on the frozen law only to O(alpha^2): use the flow.
    problem = orthogonal()
    init = problem.init(1e-6)
    stairs = agf.predict(problem, init, mode="resolved")
    flow = agf.flow(problem, init)
    for match in agf.compare(stairs, flow).matches:
        assert abs(match.time_error) < 2e-3


def test_times_and_levels_scale_with_the_targets():
    plain, scaled = (agf.predict(p, p.init(1e-6), mode="resolved") for p in (orthogonal(), orthogonal(100.0)))
    # y -> s y at the same alpha is alpha -> alpha / sqrt(s) in units where y is plain: levels scale exactly
    assert scaled.levels[:2] == pytest.approx(1e4 * plain.levels[:2], rel=1e-4)
    twin = orthogonal()
    same = agf.predict(twin, twin.init(1e-7), mode="resolved")
    assert scaled.half_times * 100 == pytest.approx(same.half_times, rel=1e-3)


def test_long_plateaus_cost_next_to_nothing():
    # From alpha = 1e-8 to 1e-200 plateaus are 25 times longer; a settled active set is not stepped.
    problem = orthogonal()
    cost = [
        agf.predict(problem, problem.init(alpha), mode="resolved").stats["velocity_evaluations"]
        for alpha in (1e-8, 1e-200)
    ]
    assert cost[1] < 1.5 * cost[0]


def test_nothing_to_fit_and_time_limits_end_with_a_status():
    zero = agf.problem("diagonal-linear", X=np.eye(3), y=np.zeros(3))
    assert agf.predict(zero, zero.init(1e-4), mode="resolved").drops == ()
    problem = orthogonal()
    cut = agf.predict(problem, problem.init(1e-6), mode="resolved", max_time=8.0)
    assert cut.status is Status.MAX_TIME
    assert cut.curve_times[-1] == pytest.approx(8.0)
    assert len(cut.drops) == 1


def test_mixing_hidden_units_are_refused_below_the_float64_floor_and_followed_above_it():
    problem = agf.problem("linear", Sxx=np.eye(2), B=np.diag([3.0, 1.0]))
    init = problem.init(1e-6)
    assert agf.compare(agf.predict(problem, init, mode="resolved"), agf.flow(problem, init)).max_time_error < 0.01
    with pytest.raises(agf.RequestError, match=r'loses the small ones at alpha = 1e-30.*Use mode="agf"'):
        agf.predict(problem, problem.init(1e-30), mode="resolved")


def test_an_interrupt_keeps_the_curve_so_far():
    problem = orthogonal()
    calls = 0

    def observer(state, drop):
        nonlocal calls
        calls += 1
        if calls == 10:
            raise KeyboardInterrupt

    stairs = agf.predict(problem, problem.init(1e-6), mode="resolved", observer=observer)
    assert stairs.status is Status.INTERRUPTED
    assert stairs.curve_times.size > 5


def test_a_slide_is_followed_where_steps_merge():
    # Nearly tied singular values, gaps of a few per cent: the steps of mode agf have no plateau between them.
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 8)) @ np.diag(np.linspace(1.0, 1.2, 8))
    problem = agf.problem("diagonal-linear", X=x, y=x @ np.ones(8))
    init = problem.init(1e-2)
    flow = agf.flow(problem, init)
    stairs = agf.predict(problem, init, mode="resolved")
    assert agf.compare(stairs, flow).curve_error < 0.03
    steps = agf.predict(problem, init)
    gap = np.abs(steps.level(flow.times) - flow.losses).max() / steps.start_level
    assert gap > 0.2  # the cartoon is far off here, or this test would show nothing
