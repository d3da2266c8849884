"""Every rule against a flow whose end is known in closed form, and the driver that asks them."""

from __future__ import annotations

import numpy as np
import pytest
from valley import Valley, bowl, power

from agf.errors import ProblemError
from agf.records.status import Status
from agf.rounding import SUM
from agf.stopping.driver import Saved, Why, drive
from agf.stopping.ending import Ending, remarks
from agf.stopping.methods import LSODA, Auto, Explicit
from agf.stopping.rules import (
    PARKED,
    TIMELESS,
    Before,
    Blurred,
    Budget,
    Certified,
    Drifting,
    Event,
    Parked,
    Quiet,
    Rounding,
    Settled,
    Timeless,
    Tolerance,
    Unaffordable,
)


def grows(rate):
    return lambda now: rate


METHODS = [Explicit(1e-8), Auto(1e-8), LSODA(1e-9)]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_every_method_follows_a_decay_to_the_end_time(method):
    seen = []
    end = drive(
        bowl([1.0, 30.0]), method, [], bowl([1.0, 30.0]).start(), s_end=3.0, each=lambda now, _: seen.append(now)
    )
    assert end.why is Why.TIME
    assert end.at.t == pytest.approx(3.0, rel=1e-15)
    assert end.at.y[0] == pytest.approx(np.exp(-3.0), rel=1e-5)
    assert end.at.work.gradients >= len(seen) > 0
    middle = seen[len(seen) // 2]
    inside = middle.inside(0.5 * (middle.origin + middle.step.s0 + middle.t))
    assert inside.y[0] == pytest.approx(np.exp(-inside.t), rel=1e-5)


def test_steps_turn_implicit_where_that_is_cheaper_and_only_with_a_hessian():
    stiff = bowl([1e7, 1.0])
    end = drive(stiff, Auto(1e-6), [], stiff.start(), s_end=3.0)
    assert end.at.work.hessians > 0
    assert end.at.y[1] == pytest.approx(np.exp(-3.0), rel=1e-4)
    stiff._hessian = None
    explicit = drive(stiff, Auto(1e-6), [], stiff.start(), s_end=3.0)
    assert explicit.at.work.hessians == 0
    assert explicit.at.work.gradients > 5 * end.at.work.gradients


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_certified_ends_when_the_bound_is_near_however_slow_the_flow(scale):
    system = bowl([1.0 / scale], level=2.0)
    end = drive(system, Auto(1e-6), [Certified(Tolerance(1e-3), least=2.0)], system.start())
    assert end.why is Why.SETTLED
    assert end.left == pytest.approx(end.at.loss - 2.0)
    assert 0 < end.left <= 1e-3 * end.at.loss


def test_a_bound_says_so_and_a_loss_below_all_bounds_is_refused():
    system = bowl([1.0], level=-1.0)
    end = drive(system, Auto(1e-6), [Certified(Tolerance(1e-3), least=-1.0)], system.start())
    assert end.bounded
    with pytest.raises(ProblemError, match="fallen below 0"):
        drive(system, Auto(1e-6), [Certified(Tolerance(1e-3), least=-1.0, refused=-0.9)], system.start())


def test_settled_leaves_what_it_says_on_an_exponential():
    system, tolerated = bowl([1.0], level=1.0), Tolerance(1e-4)
    end = drive(system, Explicit(1e-8), [Settled(tolerated, grows(0.0), 1.0)], system.start())
    assert end.why is Why.SETTLED
    assert not end.bounded
    # fall = t exp(-2t) of L = 1 + exp(-2t) / 2; what is left, exp(-2t) / 2, is the fall over 2t
    assert end.left <= 1e-4 * end.at.loss
    assert end.at.loss - 1.0 == pytest.approx(end.left / (2 * end.at.t), rel=1e-2)


@pytest.mark.parametrize("rate", [1e-30, 1e-3, None])
def test_nothing_is_settled_while_something_grows_or_that_is_unknown(rate):
    system = bowl([1.0], level=1.0)
    end = drive(system, Explicit(1e-4), [Settled(Tolerance(1e-4), grows(rate))], system.start(), s_end=1e6)
    assert end.why is Why.TIME


def test_tolerances_count_small_losses_as_the_floor():
    assert Tolerance(1e-2, 5.0)(1.0) == pytest.approx(5e-2)
    assert Tolerance(1e-2, 5.0)(10.0) == pytest.approx(1e-1)


def test_parked_waits_for_as_long_as_rounding_needs_and_a_saddle_with_any_seed_is_left_before():
    # L = (1 - x^2)^2 / 4: at x = 0 a mode grows at rate 1
    def hill(x):
        return Valley([x], lambda y: 0.25 * (1 - y[0] ** 2) ** 2, lambda y: -y * (1 - y**2))

    parked = Parked(Tolerance(1e-4, 1.0), lambda now: max(1 - 3 * float(now.y[0]) ** 2, 0.0), first=1.0)
    held = drive(hill(0.0), Explicit(1e-4), [parked], np.zeros(1))
    assert held.why is Why.PARKED
    assert PARKED <= held.at.t <= 5 * PARKED  # where nothing moves, the last step is five times the one before
    left = drive(hill(1e-16), Explicit(1e-6), [parked], np.array([1e-16]), s_end=200.0)
    assert left.why is Why.TIME
    assert left.at.y[0] == pytest.approx(1.0, abs=1e-6)


def test_a_saddle_is_asked_about_for_no_more_work_than_its_flow_takes():
    asked, cost = [], 300

    def leaving(now):
        asked.append(now.t)
        now.system.charge(cost)
        return 1e-9

    still = bowl([1.0], level=1.0)
    end = drive(still, Explicit(1e-6, "rk45"), [Parked(Tolerance(1e-4, 1.0), leaving)], np.full(1, 1e-3), s_end=3e3)
    flow = end.at.work.gradients - cost * len(asked)
    assert 2 < len(asked) <= 1 + flow / cost


@pytest.mark.parametrize(
    ("seed", "small", "why"), [(1e-9, 0.0, Why.QUIET), (0.05, 0.0, Why.TIME), (1e-9, 1e-9, Why.TIME)]
)
def test_quiet_bounds_a_crawl_by_work_and_never_what_grows_within_it(seed, small, why):
    # L = 1 + x^2 / 2: explicit steps stay as short as the decay, which is over at once; what grows at `seed` would have
    # grown by a factor e in 1 / seed
    system = bowl([1.0], level=1.0)
    quiet = Quiet(Tolerance(1e-4, 1.0), grows(small), grows(seed))
    end = drive(system, Explicit(1e-6, "rk45"), [quiet], system.start(), s_end=5e3)
    assert end.why is why
    if why is Why.QUIET:
        assert Quiet.LEAST <= end.at.work.gradients <= 2 * Quiet.LEAST
        assert end.left <= 1e-4


def test_quiet_waits_a_share_of_all_that_the_run_has_done():
    system, spent = bowl([1.0], level=1.0), 1e4
    quiet = Quiet(Tolerance(1e-4, 1.0), grows(0.0), grows(1e-9), spent=spent)
    end = drive(system, Explicit(1e-6, "rk45"), [quiet], system.start(), s_end=1e5)
    assert end.why is Why.QUIET
    assert end.at.work.gradients == pytest.approx(Quiet.SHARE * spent, rel=0.1)


@pytest.mark.parametrize("p", [12.0, 40.0])
def test_drifting_tells_a_power_of_time_and_what_it_leaves(p):
    system = power(p)
    end = drive(system, Auto(1e-8), [Drifting(Tolerance(1e-2, 1.0), grows(0.0))], system.start())
    assert end.why is Why.DRIFTING
    assert 1.0 < end.left / end.at.loss < 2.0  # all of it; powers set in with time from below, so it is a bound
    sentence = Ending(1e-4, 1.0, 0.0, 1.0).status(end, 1.0)[1]
    assert remarks(end, sentence) == (sentence,)  # it has the note, which was said twice


def test_drifting_takes_neither_an_exponential_nor_a_saddle_for_a_power():
    system = bowl([1.0, 0.3, 0.1], level=1.0)
    assert drive(system, Auto(1e-6), [Drifting(Tolerance(1.0), grows(0.0))], system.start(), s_end=1e3).why is Why.TIME
    saddle = Valley([1.0, 1e-9], lambda y: 0.5 * (y[0] ** 2 - y[1] ** 2) + y[1] ** 4 / 4,
                    lambda y: np.array([y[0], -y[1] + y[1] ** 3]))  # fmt: skip
    assert drive(saddle, Auto(1e-6), [Drifting(Tolerance(1.0), grows(0.0))], saddle.start(), s_end=60).why is Why.TIME


@pytest.mark.parametrize(
    ("rate", "ends"),
    [
        (lambda t: 0.3 / t, True),
        (lambda t: 0.3 / (t + 100.0), True),
        (lambda t: 0.3 / t + 1e-3, False),  # at a saddle that is passed slowly: its time is not t for long
        (lambda t: 1e-9, False),
        (lambda t: None, False),
    ],
)
def test_growth_that_falls_as_one_over_t_drifts_along_and_growth_that_holds_up_does_not(rate, ends):
    rule = Drifting(Tolerance(2.0), lambda now: rate(now.t))
    end = drive(power(20.0), Auto(1e-6), [rule], np.ones(1), s_end=1e6)
    assert (end.why is Why.DRIFTING) == ends


def test_events_are_located_on_the_dense_output_and_ties_are_found_as_sets():
    system = bowl([1.0, 1.0, 3.0], y0=[1.0, 1.0, np.e])
    low = Event(lambda y, now: np.exp(-1.0) - y, Why.LEFT)
    end = drive(system, Explicit(1e-9), [low], system.start())
    assert end.why is Why.LEFT
    assert end.at.t == pytest.approx(2 / 3, rel=1e-7)
    assert list(end.who) == [2]
    tie = drive(bowl([1.0, 1.0]), Explicit(1e-9), [low], np.ones(2))
    assert tie.at.t == pytest.approx(1.0, rel=1e-7)
    assert list(tie.who) == [0, 1]


def test_events_are_located_in_local_time_where_no_number_of_float64_lies_within_a_step():
    low = Event(lambda y, now: np.exp(-1.0) - y, Why.LEFT)
    end = drive(bowl([1.0]), Explicit(1e-9), [low], Saved(np.ones(1), origin=1e17))
    assert list(end.who) == [0]
    assert end.at.y[0] == pytest.approx(np.exp(-1.0), rel=1e-7)


def test_rounding_is_a_rate_that_has_fallen_by_its_square():
    system = bowl([1.0])
    end = drive(system, Explicit(1e-6), [Rounding()], system.start())
    assert end.why is Why.ROUNDING
    assert end.at.y[0] <= SUM  # the rate of L = y^2 / 2 is y^2


def test_a_budget_counts_gradients_and_ends_any_run():
    system = power(3.0)
    end = drive(system, Explicit(1e-6), [Budget(500)], system.start())
    assert end.why is Why.BUDGET
    assert 500 <= end.at.work.gradients < 520


def test_a_run_that_was_not_over_says_what_it_was_losing():
    system = power(3.0)
    end = drive(system, Explicit(1e-6), [Budget(500)], system.start())
    status, said, numbers = Ending(1e-4, 1.0, 0.0, 0.0).status(end, 1.0)
    assert status is Status.MAX_STEPS
    assert numbers == {"left": end.at.loss}
    # as long again at the rate of a power -3 of time is more than there is, as is a rate that is rounding
    assert end.at.fall > end.at.loss
    assert f"can still be lost: {end.at.loss:.2g} in another time as long at its last rate" in said
    least = end.at.loss - 2.0 * end.at.fall
    said = Ending(1e-4, 1.0, least, 0.0).status(end, 1.0)[1]
    assert f"can still be lost: {end.at.fall:.2g} in another time" in said


@pytest.mark.parametrize(
    ("growth", "s_end", "why"), [(1e-6, np.inf, Why.BUDGET), (1e-6, 1e-2, Why.TIME), (1e3, 1e-2, Why.TIME)]
)
def test_what_explicit_steps_cannot_reach_is_given_up_at_once_and_what_they_can_is_reached(growth, s_end, why):
    # Steps of s stages reach s^2 / (1.54 c) where the loss is as steep as c, so a time T costs 1.54 c T / s gradients:
    # here 8e11 until what grows matters, and 8,000 to s_end
    system, budget = bowl([1e9]), Budget(1e6)
    system._hessian, system.grows = None, growth
    end = drive(system, Auto(1e-6), [Unaffordable(budget, s_end), budget], system.start(), s_end=s_end)
    assert end.why is why
    assert end.at.work.gradients < 5e4


def test_what_grows_on_what_still_relaxes_is_not_given_up():
    # What is seen to grow at 1e-6 does so until the rest has relaxed: then nothing is due, and the run goes on
    system, budget = bowl([1e9]), Budget(1e4)
    system._hessian, system.grows = None, 1e-6
    end = drive(system, Auto(1e-6), [Unaffordable(budget, small=grows(0.0)), budget], system.start())
    assert end.at.work.gradients >= 1e4


def test_a_small_neuron_that_is_due_late_does_not_hide_a_perturbation_that_is_not():
    # an e-fold costs 1.54e9 / (rate s) gradients: a thousandth of the budget, and 1e8 times as much
    spent = []
    for rate in (2e4, 2e-4):
        system, budget = bowl([1e9]), Budget(1e5)
        system._hessian, system.grows = None, 1e-6
        rule = Unaffordable(budget, small=grows(1e-6), perturbed=lambda now, rate=rate: rate)
        end = drive(system, Auto(1e-6), [rule, budget], system.start())
        assert end.why is Why.BUDGET
        spent.append(end.at.work.gradients)
    assert spent[0] > 9e4
    assert spent[1] < 5e4


def test_a_rule_before_a_time_ends_what_it_would_end_until_then_and_nothing_later():
    # L = exp(-2 t) / 2 has fallen to 1e-3 of its size at t = ln(1000) / 2 = 3.45
    system, low = bowl([1.0]), Certified(Tolerance(1e-3, 0.5))
    for until, why in [(3.0, Why.TIME), (4.0, Why.SETTLED)]:
        end = drive(system, Explicit(1e-10), [Before(until, low)], system.start(), s_end=6.0)
        assert end.why is why
    assert 0.5 * np.log(1000) <= end.at.t < until


@pytest.mark.parametrize(
    ("blur", "perturbed", "decaying", "fell", "ends"),
    [
        (1e-5, 0.0, 0.0, 0.0, True),
        (1e-9, 0.0, 0.0, 0.0, False),  # rounding has not moved the weights by 1e-2 since the loss fell
        (1e-5, 0.0, 0.0, 1.0, False),  # it has just fallen
        (1e-5, 1e-3, 0.0, 0.0, False),  # something grows, or what pulls by more has something to lose
        (1e-5, 0.0, 2.0, 0.0, False),
    ],
)
def test_where_rounding_decides_the_way_of_a_flow_it_is_over_and_not_before(blur, perturbed, decaying, fell, ends):
    system = bowl([1e7, 1e-9])
    now = drive(system, Auto(1e-6), [], system.start(), s_end=2e4).at
    assert now.work.hessians > 0
    rule = Blurred(Tolerance(1e-3, 1.0), 1e-2, grows(blur), grows(perturbed), grows(decaying))
    memory, end = rule.look(now, (1e4, now.loss + (fell or 1e-10), 0.0))
    assert memory[0] == (now.t if fell else 1e4)
    assert (end is not None and end.why is Why.QUIET) is ends
    # what falls as t^-1/2 loses twice as much as in an e-fold of time: 1e-10 in the second half of it
    assert end is None or end.left == pytest.approx(4e-10, rel=1e-4)


def test_a_fall_that_rounding_has_blurred_for_a_moment_alone_is_followed():
    """Seven tanh neurons ended with 1.3 % of their first loss still to lose, blurred for less than 1 % of their age."""
    system = bowl([1e7, 1e-9])
    now = drive(system, Auto(1e-6), [], system.start(), s_end=2e4).at
    rule = Blurred(Tolerance(1e-3, 1.0), 1e-6, grows(1e-5), grows(0.0), grows(0.0))
    for part, ends in ((1e-2, False), (0.5, True)):  # of the time, in which it fell by half of what does not count
        _, end = rule.look(now, ((1.0 - part) * now.t, now.loss + 5e-4, 0.0))
        assert (end is not None) is ends


def test_steps_that_do_not_advance_the_time_end_a_run():
    rule = Timeless()
    memory, end = rule.init(drive(bowl([1.0]), Explicit(1e-6), [Budget(1)], np.ones(1)).at), None
    system = bowl([1.0])
    moment = drive(system, Explicit(1e-6), [Budget(9)], system.start()).at
    looks = 0
    while end is None:
        memory, end = rule.look(moment, memory)
        looks += 1
    assert end.why is Why.TIMELESS
    assert looks == TIMELESS + 2  # the first look sees the time move


@pytest.mark.parametrize("rates", [[1.0, 3.0], [1e7, 1.0]], ids=["explicit", "implicit"])
def test_a_run_in_two_parts_is_the_run_in_one(rates):
    system, rules, method = (
        bowl(rates),
        [Settled(Tolerance(1e-12, 1.0), grows(0.0)), Drifting(Tolerance(1e-3), grows(0.0))],
        Auto(1e-6),
    )
    kept: list[Saved] = []
    whole = drive(system, method, rules, system.start(), each=lambda _, saved: kept.append(saved))
    for saved in kept[:-1:7]:
        again = drive(system, method, rules, saved)
        assert again.why is whole.why
        assert again.at.t == whole.at.t
        assert np.array_equal(again.at.y, whole.at.y)


def test_a_velocity_that_is_not_finite_ends_the_run_at_the_last_good_state():
    system = Valley([1.0], lambda y: -y[0], lambda y: np.array([-1.0 if y[0] < 2 else np.nan]))
    end = drive(system, Explicit(1e-6), [], system.start())
    assert end.why in (Why.NONFINITE, Why.STALLED)
    assert end.at.y[0] == pytest.approx(2.0, rel=1e-6)
