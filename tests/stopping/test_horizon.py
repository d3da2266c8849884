"""Flows followed for as long as something else takes: on an exponential, a saddle and a power of time."""

from __future__ import annotations

import numpy as np
import pytest
from valley import Valley, bowl

from agf.stopping import Auto, Below, Budget, Course, Decayed, Explicit, Horizon, Spent, Tolerance, Why, drive

TOLERATED = Tolerance(1e-6)


def follow(system, until, method=None, late=0.95, least=0.0):
    course = Course(lambda now: until, least=least)
    stops = [Horizon(course), Spent(course, TOLERATED, late), Budget(1e6)]
    return drive(system, method or Explicit(1e-8), stops, system.start())


def test_the_horizon_is_asked_again_and_met_exactly():
    system = bowl([1.0])
    end = drive(system, Explicit(1e-8), [Horizon(Course(lambda now: 2.0 + now.y[0]))], system.start())
    assert end.why is Why.HORIZON
    assert 2.0 < end.at.t < 2.6  # 2 + exp(-t) as last seen
    assert end.at.y[0] == pytest.approx(np.exp(-end.at.t), rel=1e-6)


def test_a_horizon_that_comes_nearer_than_the_step_ends_at_its_start():
    system, ends = bowl([1.0]), iter([2.0] + 100 * [0.1])
    end = drive(system, Explicit(1e-3), [Horizon(Course(lambda now: next(ends), ratio=np.inf))], system.start())
    assert end.at.t == pytest.approx(end.at.step.s0)
    assert end.at.t < 2.0


def test_nothing_is_asked_before_the_time_that_is_followed_in_any_case():
    asked = []
    course = Course(lambda now: asked.append(now.t) or 0.0, least=1.5)
    system = bowl([1.0])
    end = drive(system, Explicit(1e-8), [Horizon(course)], system.start())
    assert end.why is Why.HORIZON
    assert min(asked) >= 1.5


@pytest.mark.parametrize("until", [1e2, 1e4, 1e8])
def test_what_is_left_of_an_exponential_is_what_the_rate_times_the_horizon_bounds(until):
    """L - 1 = exp(-2 t) / 2 falls at twice that: it stops once exp(-2 t) * until is the tolerance, and leaves half."""
    end = follow(bowl([1.0], level=1.0), until)
    assert end.why is Why.SETTLED
    assert end.at.t == pytest.approx(0.5 * np.log(until / 1e-6), rel=0.1)
    assert end.at.loss - 1.0 <= 1e-6


def test_in_the_last_part_of_the_horizon_nothing_settles():
    """At a rate of 1e-3 the last hundredth of a horizon of 1 loses less than 1e-6; the whole does not."""
    slow = Valley([1.0], lambda y: 100.0 - 1e-2 * y[0], lambda y: np.array([-1e-2]))
    assert follow(slow, 1e5, late=0.95).why is Why.HORIZON


def test_a_saddle_is_left_if_the_horizon_is_longer_than_that_takes():
    """Along x it grows at the rate 1e-3 from 1e-9: 21 / rate to leave."""

    def saddle():
        return Valley(
            [1e-9, 1.0],
            lambda y: 1.0 - 0.5e-3 * y[0] ** 2 + 0.25 * y[0] ** 4 + 0.5 * y[1] ** 2,
            lambda y: np.array([-1e-3 * y[0] + y[0] ** 3, y[1]]),
            lambda y: np.diag([-1e-3 + 3.0 * y[0] ** 2, 1.0]),
        )

    near, far = (follow(saddle(), until, Auto(1e-6)) for until in (1e4, 1e6))
    assert abs(near.at.y[0]) < 1e-4
    assert abs(far.at.y[0]) == pytest.approx(1e-3**0.5, rel=1e-2)


def test_a_rule_below_a_level_waits_for_it():
    system = bowl([1.0])
    course = Course(lambda now: 0.1)
    end = drive(system, Explicit(1e-8), [Below(0.05, Horizon(course))], system.start())
    assert end.why is Why.HORIZON
    assert end.at.loss <= 0.5 * np.exp(-0.2)  # the horizon had long been over
    assert end.at.t >= 0.5 * np.log(0.5 / 0.05) - (end.at.step.s1 - end.at.step.s0)


@pytest.mark.parametrize("m", [2.0, 6.0])
def test_a_power_of_time_is_not_followed_to_a_far_horizon(m):
    """L = 1 + y^-m: L - 1 falls as t^-q, q = m / (m + 2), and what is left is no more than (1 + q) / q <= 3 says."""
    system = Valley(
        [1.0], lambda y: 1.0 + y[0] ** -m, lambda y: -m * y ** -(m + 1), lambda y: np.diag(m * (m + 1) * y ** -(m + 2))
    )
    course = Course(lambda now: 1e90)
    rule = Decayed(course, TOLERATED, blurred=lambda now: False, growing=lambda now: True)
    end = drive(system, Auto(1e-4), [Horizon(course), Spent(course, TOLERATED), rule], system.start())
    assert end.why is Why.DRIFTING
    assert end.at.t < 1e30
    assert end.at.loss - 1.0 <= 1.01 * end.left <= 2.1 * (end.at.loss - 1.0)


def test_the_rate_is_the_share_of_the_gradient_that_the_loss_follows():
    """A velocity that hovers about a kink: L = |x| has the rate 1 all along, and does not fall."""
    course = Course(lambda now: np.inf)
    system = Valley([0.3], lambda y: abs(y[0]), lambda y: np.sign(y))
    system.smooth = False
    seen = []
    stops = [Horizon(course), Budget(np.inf, 400)]
    drive(system, Explicit(1e-3), stops, system.start(), each=lambda now, _: seen.append((now.rate, course.rate(now))))
    assert seen[0] == pytest.approx((1.0, 1.0))
    assert seen[-1][0] == 1.0
    assert seen[-1][1] < 0.05


@pytest.mark.parametrize("until", [3.0, 30.0, 1e4])
def test_a_horizon_that_is_far_need_not_be_told_and_a_near_one_is_met_exactly(until):
    """Where it is enough to know that it is not near, the run ends where it would, and it is seldom told."""
    told = []

    def ask(now, enough=np.inf):
        assert enough >= 1.25 * now.t
        told.append(min(until, enough) == until)
        return min(until, enough)

    plain, near = (Course(lambda now: until, least=0.1), Course(ask, least=0.1, tolerated=TOLERATED))
    ends = []
    for course in (plain, near):
        system = bowl([1.0], level=1.0)
        ends.append(drive(system, Explicit(1e-8), [Horizon(course), Spent(course, TOLERATED)], system.start()))
    assert [end.why for end in ends] == [Why.HORIZON if until == 3.0 else Why.SETTLED] * 2
    assert (ends[0].at.t, ends[0].at.loss, ends[0].left) == (ends[1].at.t, ends[1].at.loss, ends[1].left)
    assert told[-1]
    assert sum(told) <= 4 < len(told) - sum(told)
