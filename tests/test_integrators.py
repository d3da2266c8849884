"""Integrators: order by slope, tolerance, stability, failure, and resuming to the bit."""

from __future__ import annotations

from collections import deque
from itertools import cycle, pairwise

import numpy as np
import pytest

from agf.errors import RequestError
from agf.integrators import LOW, METHODS, NonFinite, OutOfSteps, Stalled, march


def logistic(y):
    return y * (1 - y)


def logistic_at(s, y0):
    return 1 / (1 + (1 / y0 - 1) * np.exp(-s))


def last(steps):
    return deque(steps, maxlen=1)[0]


def first_error(method, h, inside=False):
    """Error of one step of length h of the logistic equation, at its end or largest inside."""
    y0 = np.array([0.2])
    step = next(iter(march(logistic, y0, method=method, rtol=1e9, first_step=h, s_end=1e9)))
    assert step.s1 == h
    at = np.linspace(0, h, 21) if inside else [h]
    return max(abs(step.dense(s)[0] - logistic_at(s, 0.2)) for s in at)


# slope: order of the method plus one at the end of a step; the dense output of rk45 is of fourth order
@pytest.mark.parametrize(
    ("method", "inside", "slope"),
    [("rk45", False, 6), ("rk45", True, 5), ("rkc2", False, 3), ("rkc2", True, 3), (LOW, False, 4), (LOW, True, 4)],
)
def test_error_of_one_step_falls_with_the_order_of_the_method(method, inside, slope):
    errors = [first_error(method, h, inside) for h in (0.2, 0.1, 0.05)]
    slopes = [np.log2(a / b) for a, b in pairwise(errors)]
    assert np.allclose(slopes, slope, atol=0.3)


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_dense_output_meets_the_ends_of_the_step(method):
    for step in march(logistic, np.array([0.01]), method=method, rtol=1e-5, s_end=8.0):
        assert np.allclose(step.dense(step.s0), step.y0, rtol=1e-14)
        assert np.allclose(step.dense(step.s1), step.y1, rtol=1e-14)
        assert np.array_equal(step.f1, logistic(step.y1))


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_many_states_are_those_of_each_step(method):
    steps = list(march(logistic, np.array([0.01, 0.3]), method=method, rtol=1e-5, s_end=8.0))
    which = np.repeat(np.arange(len(steps)), 2)[::-1]
    s = np.array([steps[k].s0 + share * (steps[k].s1 - steps[k].s0) for k, share in zip(which, cycle((0.3, 0.9)))])
    together = type(steps[0]).many(steps)(which, s)
    assert np.array_equal(together, [steps[k].dense(at) for k, at in zip(which, s, strict=True)])


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_the_tolerance_is_kept_and_changes_the_answer(method):
    errors = []
    for rtol in (1e-4, 1e-6, 1e-8):
        steps = list(march(logistic, np.array([0.01]), method=method, rtol=rtol, s_end=10.0))
        errors.append(abs(steps[-1].y1[0] - logistic_at(10.0, 0.01)))
        assert errors[-1] < 2 * rtol * len(steps)  # each step within the tolerance, errors neither growing nor lost
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_stiff_decay_costs_the_stabilised_method_a_fraction():
    rates = -np.geomspace(0.1, 1e4, 40)
    ends = {m: last(march(lambda y: rates * y, np.ones(40), method=m, rtol=1e-4, s_end=2.0)) for m in [*METHODS, LOW]}
    for end in ends.values():
        assert np.allclose(end.y1, np.exp(2 * rates), atol=2e-3)
    # explicit steps are about 3.3 / 1e4 long at most: 6,000 steps of 6; the stabilised method has no such bound
    assert ends["rk45"].evaluations > 30_000
    assert ends["rkc2"].evaluations < 4_000
    for name in ("auto", LOW):
        assert ends[name].evaluations < 4_000
        assert ends[name].memory.method == "rkc2"


def test_at_a_rough_tolerance_low_order_takes_fewer_evaluations():
    """Rounded kinks crossed one after another, as a turning ReLU neuron does."""

    def velocity(y):
        return np.array([1.0 + np.tanh(40.0 * np.sin(6.0 * y[0]))])

    spent = {m: last(march(velocity, np.zeros(1), method=m, rtol=3e-2, s_end=5.0)).evaluations for m in ("auto", LOW)}
    assert spent[LOW] < 0.7 * spent["auto"]


def test_a_rough_march_turns_to_the_stabilised_method_sooner():
    # a stiff decay over 100 times its shortest time, 30 explicit steps: waiting for fifteen of them would be half of it
    rates = -np.geomspace(0.1, 10.0, 10)

    def turns(rtol):
        steps = march(lambda y: rates * y, np.ones(10), method="auto", rtol=rtol, s_end=10.0)
        return next(step.s1 for step in steps if step.memory.method == "rkc2")

    assert turns(3e-3) < 4.0
    assert turns(1e-4) > 6.0


def test_the_rate_beside_a_kink_is_that_of_its_own_side():
    """A force that ends at 0 and balances at 1e-6: a difference reached across it, and steps became far too short."""

    def velocity(y):
        return 1e3 * (1e-6 - np.maximum(y, 0.0))

    steps = list(march(velocity, np.array([5e-7]), method="rkc2", rtol=1e-6, s_end=5e-3))
    assert min(step.memory.radius for step in steps) >= 1e3


def test_auto_returns_to_the_accurate_method_when_stiffness_ends():
    # y' = -k(s) (y - cos s) with k falling from 1e3 to 1; s is the second entry
    def velocity(y):
        k = 1 + 1e3 * np.exp(-y[1])
        return np.array([-k * (y[0] - np.cos(y[1])), 1.0])

    used = [step.memory.method for step in march(velocity, np.array([1.0, 0.0]), method="auto", rtol=1e-6, s_end=20.0)]
    assert "rkc2" in used
    assert used[-1] == "rk45"


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_a_growing_mode_far_below_the_others_is_followed_not_damped(method):
    # growth rate 1 beside decay 1e3: an L-stable step of 10 would shrink the growing entry
    def velocity(y):
        return np.array([y[0], -1e3 * y[1]])

    def scale(y):
        return np.array([abs(y[0]), 1.0])

    steps = march(
        velocity, np.array([1e-30, 1.0]), method=method, rtol=1e-6, scale=scale, groups=np.arange(2), s_end=3.0
    )
    assert np.isclose(last(steps).y1[0], 1e-30 * np.exp(3.0), rtol=1e-4)


def test_no_group_hides_behind_the_others():
    def velocity(y):
        return np.concatenate([np.zeros(999), -(y[999:] ** 2)])

    def error(groups):
        y = np.concatenate([np.zeros(999), [1.0]])
        end = last(march(velocity, y, rtol=1e-4, groups=groups, s_end=5.0))
        return abs(end.y1[-1] - 1 / 6)

    assert error(np.repeat([0, 1], [999, 1])) < 1e-4 < 20 * error(None)


def test_a_non_finite_stage_is_a_rejected_step():
    def velocity(y):
        return np.where(y < 1.5, 1 - y, np.nan)

    end = last(march(velocity, np.zeros(1), rtol=1e-6, first_step=10.0, s_end=5.0))
    assert np.isclose(end.y1[0], 1 - np.exp(-5.0), atol=1e-5)


def test_a_wall_of_non_finite_values_ends_with_the_last_good_state():
    good = []
    steps = march(lambda y: np.where(y < 0.5, 1.0, np.nan), np.zeros(1), rtol=1e-6)
    with pytest.raises(NonFinite) as caught:
        good.extend(iter(lambda: next(steps), None))
    assert caught.value.s == good[-1].s1
    assert 0.49 < caught.value.y[0] < 0.5
    with pytest.raises(NonFinite):
        next(march(lambda y: y * np.nan, np.ones(1), rtol=1e-6))


@pytest.mark.parametrize("method", ["rk45", "auto"])
def test_a_blow_up_stalls_at_its_time(method):
    with pytest.raises((Stalled, NonFinite)) as caught:
        last(march(lambda y: y**2, np.ones(1), method=method, rtol=1e-8, scale=np.abs))
    assert np.isclose(caught.value.s, 1.0, rtol=1e-6)


def test_velocities_of_any_size_overflow_nothing():
    big = last(march(lambda y: 1e200 * (1 - y), np.zeros(3), method="auto", rtol=1e-6, s_end=1e-198))
    small = last(march(lambda y: 1e-200 * (1 - y), np.zeros(3), method="auto", rtol=1e-6, s_end=1e202))
    assert np.allclose(big.y1, 1.0, atol=1e-5)
    assert np.allclose(small.y1, 1.0, atol=1e-5)


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_rescaling_time_and_state_changes_no_step(method):
    def run(c, k):
        steps = march(
            lambda y: k * c * logistic(y / c), np.array([0.01 * c]), method=method, rtol=1e-6, scale=c, s_end=9.0 / k
        )
        return [(step.s1 * k, step.y1[0] / c) for step in steps]

    assert run(1.0, 1.0) == run(2.0**-40, 2.0**30)  # powers of two: exact in float64


@pytest.mark.parametrize("method", [*METHODS, LOW])
def test_a_march_resumed_from_its_memory_is_the_uninterrupted_one(method):
    rates = -np.geomspace(0.1, 300.0, 12)

    def velocity(y):
        return rates * y + 0.1 * y**2

    whole = list(march(velocity, np.ones(12), method=method, rtol=1e-5, s_end=3.0))
    cut = whole[len(whole) // 2]
    rest = list(march(velocity, cut.y1, method=method, rtol=1e-5, s0=cut.s1, s_end=3.0, memory=cut.memory))
    assert len(rest) == len(whole) - len(whole) // 2 - 1
    assert np.array_equal(rest[-1].y1, whole[-1].y1)


def test_the_state_is_retracted_and_its_velocity_taken_there():
    def spin(y):
        return np.array([-y[1], y[0]])

    for step in march(spin, np.array([1.0, 0.0]), rtol=1e-4, retract=lambda y: y / np.linalg.norm(y), s_end=6.0):
        assert np.isclose(np.linalg.norm(step.y1), 1.0, rtol=1e-15)
        assert np.array_equal(step.f1, spin(step.y1))


def test_a_step_says_the_stages_that_stability_takes():
    rates = -np.geomspace(1.0, 1e3, 20)
    steps = list(march(lambda y: rates * y, np.ones(20), method="rkc2", rtol=1e-4, s_end=2.0))
    for before, step in pairwise(steps):
        assert 1e3 <= step.memory.radius <= 1.3e3
        taken = step.evaluations - before.evaluations - 1  # one for the velocity at its end
        if step.memory.age > 1:  # and some to renew the radius
            assert abs(taken - step.stages) < 3
    assert next(march(lambda y: rates * y, np.ones(20), rtol=1e-4)).stages == 0.0


def test_the_end_is_met_exactly_and_an_end_already_reached_takes_no_step():
    assert last(march(logistic, np.array([0.1]), rtol=1e-6, s_end=0.7)).s1 == 0.7
    assert list(march(logistic, np.array([0.1]), rtol=1e-6, s0=2.0, s_end=2.0)) == []


def test_a_velocity_of_zero_reaches_the_end_in_one_step():
    steps = list(march(np.zeros_like, np.ones(4), method="auto", rtol=1e-6, s_end=7.0))
    assert len(steps) == 1
    assert steps[0].s1 == 7.0


def test_steps_are_bounded_and_methods_have_names():
    with pytest.raises(OutOfSteps):
        last(march(logistic, np.array([0.1]), rtol=1e-6, max_steps=5))
    with pytest.raises(RequestError, match=r"unknown method 'euler'.*rk45, rkc2, auto"):
        next(march(logistic, np.array([0.1]), method="euler", rtol=1e-6))


def test_a_stiff_mode_is_damped_and_not_left_hovering_at_the_tolerance():
    # at the edge of stability the fast entries hover at 2e-4, twice the tolerance (measured)
    rates = -np.geomspace(1, 1e3, 10)
    steps = march(lambda y: rates * y, np.ones(10), method="rk45", rtol=1e-4, s_end=3.0)
    late = [np.max(np.abs(step.y1 - np.exp(step.s1 * rates))) for step in steps if step.s1 > 1]
    assert max(late) < 5e-5


@pytest.mark.parametrize("method", ["rk45", "auto"])
def test_noise_that_the_tolerance_allows_does_not_raise_what_the_flow_lowers(method):
    rates, size = np.array([1e-3, 1e6]), np.array([1.0, 1e3])  # an error of 1e-3 in the stiff entry is one of the step

    def energy(y):
        return float(rates @ y**2)

    def rises(y0, y1):
        return energy(y1) > energy(y0) * (1 + 1e-9)

    start, highest = np.array([1.0, 0.0]), {}
    for guard in (None, rises):
        steps = march(
            lambda y: -rates * y, start + 1e-12, method=method, rtol=1e-6, scale=size, s_end=1e-3, rises=guard
        )
        highest[guard] = max(energy(step.y1) for step in steps)
    assert highest[None] > 10 * energy(start)
    assert highest[rises] < energy(start) * (1 + 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_projected_before_its_velocity_is_had_costs_none(method):
    def circling(y):
        return np.array([-y[1], y[0]])

    def unit(y):
        return y / np.linalg.norm(y)

    def steps(**how):
        return list(march(circling, np.array([1.0, 0.0]), method=method, rtol=1e-4, s_end=6.0, **how))

    before, after = steps(project=unit), steps(retract=unit)
    for step in before:
        assert abs(np.linalg.norm(step.y1) - 1.0) < 1e-15
        assert np.array_equal(step.f1, circling(step.y1))
    if method == "rk45":  # six a step, and two to begin with; where the velocity is had twice, seven
        assert before[-1].evaluations == 6 * len(before) + 2
        assert after[-1].evaluations == 7 * len(after) + 2
    assert before[-1].evaluations < after[-1].evaluations
    assert np.allclose(before[-1].y1, [np.cos(6.0), np.sin(6.0)], atol=1e-2)
