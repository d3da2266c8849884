"""Error bars of Algorithm 1: what they need of the drops before, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import agf
from agf.algorithm.cost_minimization import _passed
from agf.algorithm.deviation import Deviation, _between, _elsewhen, of_curve
from agf.algorithm.resolved.path import Path


def predicted(d, monkeypatch):
    """A prediction of d drops, its measures, its steps, and how often the utility was asked for."""
    rng = np.random.default_rng(d)
    x = rng.standard_normal((2 * d, d))
    problem = agf.problem("diagonal-linear", X=x, y=x @ rng.standard_normal(d))
    made, steps, asked = [], [], []
    utility, add, start = type(problem).utility, Deviation.add, Deviation.__init__
    monkeypatch.setattr(type(problem), "utility", lambda *a: asked.append(1) or utility(*a))
    monkeypatch.setattr(Deviation, "__init__", lambda self, *a: made.append(self) or start(self, *a))
    monkeypatch.setattr(Deviation, "add", lambda self, *a: steps.append(a) or add(self, *a))
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    monkeypatch.undo()
    return problem, stairs, made[0], steps, len(asked)


def test_bars_ask_for_one_utility_a_drop_however_many_came_before(monkeypatch):
    for d in (4, 48):
        _, stairs, _, _, asked = predicted(d, monkeypatch)
        assert asked <= len(stairs.drops) + 5  # and what the door asks for


def test_bars_ask_once_a_drop_for_the_outputs_of_all_that_are_active(monkeypatch):
    problem = agf.problem("diagonal-linear", X=np.eye(6) + 0.1, y=np.arange(1.0, 7.0))
    asked, outputs = [], type(problem).outputs
    monkeypatch.setattr(type(problem), "outputs", lambda *a: asked.append(len(a[2])) or outputs(*a))
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    assert len(stairs.drops) == 6
    assert sum(size > 1 for size in asked) == 5


def test_what_stays_moves_the_outputs_by_what_newcomers_do_not(monkeypatch):
    problem, _, deviation, steps, _ = predicted(5, monkeypatch)
    moved = []
    for _, activated, after, _ in steps:
        old, now = np.flatnonzero(activated.active), np.flatnonzero(after.active)
        before = problem.outputs(activated.rows(old), old).sum(axis=0)
        change = problem.outputs(after.rows(now), now).sum(axis=0) - before
        stayed = problem.outputs(after.rows(old), old).sum(axis=0) - before  # coordinates cannot turn
        moved.append(np.linalg.norm(stayed) / np.linalg.norm(change))
    assert max(moved) > 1e-3
    assert [leg.moved for leg in deviation.legs] == pytest.approx(moved, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("alpha", [1e-60, 1e-100, 1e-300])
def test_a_level_at_which_a_curve_stays_is_certain_however_steep_its_drops_are(alpha):
    # the tinier alpha, the narrower drops are in log time: a look just beside where the plateau begins was before it
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X @ [2.0, -1.0, 0.3]
    problem = agf.problem("diagonal-linear", X=X, y=y)
    stairs = agf.predict(problem, problem.init(alpha, seed=0), mode="resolved")
    truth = [0.5 * np.mean((y - X[:, :k] @ np.linalg.lstsq(X[:, :k], y, rcond=None)[0]) ** 2) for k in (1, 2, 3)]
    for drop, level in zip(stairs.drops, truth, strict=True):
        assert abs(drop.level - level) <= drop.level_error * stairs.start_level
    assert max(drop.level_error for drop in stairs.drops[:-1]) < 1e-3  # the curve ends soon after the last one


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.1, 0.03, 1e-3])
def test_the_size_at_which_a_lone_coordinate_begins_is_in_its_bar(alpha):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((17, 1))
    problem = agf.problem("diagonal-linear", X=x, y=1.3 * x[:, 0])
    # z' = S (b - alpha^2 sinh 2 z) from 0, half of the loss is gone at beta = (1 - 1 / sqrt 2) b
    end, rate = 0.5 * np.arcsinh((1.0 - np.sqrt(0.5)) * 1.3 / alpha**2), np.mean(x**2)
    true = quad(lambda z: 1.0 / (rate * (1.3 - alpha**2 * np.sinh(2.0 * z))), 0.0, end, epsrel=1e-11)[0]
    paper, default = (agf.predict(problem, problem.init(alpha), mode=mode).drops[0] for mode in ("agf", "auto"))
    assert abs(paper.half_time / true - 1.0) <= paper.error
    assert abs(default.half_time / true - 1.0) <= default.error <= 1e-3


@pytest.mark.parametrize("gap", [1.5, 3.0, 6.0])
def test_the_bar_of_a_level_covers_how_two_neighbours_mix_and_little_more(gap):
    # one newcomer each, x' = 2 (1 - x) x / width: the loss is where it falls least, not on the level between
    width, fall, begun = np.array([1.0, 0.7]), np.array([0.6, 0.3]), np.array([10.0, 10.0 + gap])

    def growth(t, k):
        return 1.0 / (1.0 + np.exp(-2.0 * (t - begun[k]) / width[k]))

    t = np.linspace(*begun, 20001)
    loss = 0.1 + sum(fall[k] * (1.0 - growth(t, k)) ** 2 for k in (0, 1))
    flattest = int(np.argmin(np.abs(np.diff(loss))))
    off = abs(loss[flattest] - 0.4)
    place, mixture = _between(np.append(gap, np.inf), width, fall)
    assert place[0] == pytest.approx(t[flattest] - begun[0], abs=0.1 * gap)
    assert off <= mixture[0] <= 10.0 * off
    t = begun[0] + place[0]
    there = fall[0] * (1.0 - growth(t, 0)) ** 2 + fall[1] * (1.0 - (1.0 - growth(t, 1)) ** 2)
    assert there <= mixture[0] <= 1.5 * there  # exponentials are above the logistic law
    assert mixture[1] == 0.0


@pytest.mark.parametrize("seed", [4, 57, 115, 136])
def test_a_coordinate_that_leaves_comes_back_at_a_time_that_is_known_to_the_drop_it_left_in(seed):
    # it shrinks by some e-folds before it lets go, at a time within that drop; bars without it were below these errors
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 3))
    y = x @ rng.standard_normal(3) + rng.standard_normal(6)
    problem = agf.problem("diagonal-linear", X=x, y=y)
    paper, truth = (agf.predict(problem, problem.init(1e-30), mode=mode) for mode in ("agf", "resolved"))
    assert len(paper.drops) == len(truth.drops)
    returned, gone = [], set()
    for drop, right in zip(paper.drops, truth.drops, strict=True):
        if gone.intersection(drop.neurons.tolist()):
            returned.append((abs(drop.half_time / right.half_time - 1.0), drop.error))
        gone.update(drop.collapsed.tolist())
    assert returned
    for error, bar in returned:
        assert 1e-3 < error < bar < 20 * error


def test_what_implicit_steps_add_up_to_by_a_drop_is_in_its_bar(monkeypatch):
    problem = predicted(2, monkeypatch)[0]
    stairs = agf.predict(problem, problem.init(1e-8), mode="resolved")
    known = replace(stairs, drops=tuple(replace(drop, conditioning=1e-5) for drop in stairs.drops))
    times = [drop.accelerated_time for drop in stairs.drops]
    path = Path(slips=[(0.5 * times[0], 1e-4), (times[0], 2e-4), (1.01 * times[1], 1.0)])
    assert path.slipped(known.drops) == pytest.approx([3e-4, 3e-4])
    plain, wider = (of_curve(known, slipped=slipped).drops for slipped in (None, path.slipped(known.drops)))
    assert [b.error - a.error for a, b in zip(plain, wider, strict=True)] == pytest.approx([6e-4, 6e-4])


def of_two_outputs(seed, k):
    """Drop k of two tanh neurons of two outputs in mode "agf", and when the curve of the default passes its middle."""
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(-2, 3, (5, 3)).astype(float), rng.integers(-2, 3, (5, 2)).astype(float)
    problem = agf.TwoLayer(X, Y, activation="tanh", width=2)
    init = problem.init(1e-6, seed=seed)
    paper, curve = agf.predict(problem, init, mode="agf"), agf.predict(problem, init, conditioning=False)
    middle = 0.5 * (paper.levels[k] + paper.levels[k + 1])
    return paper.drops[k], np.interp(-middle, -np.minimum.accumulate(curve.curve_losses), curve.curve_times)


def test_neurons_that_come_to_rest_far_from_their_threshold_have_that_in_their_bar():
    first, true = of_two_outputs(4, 0)
    off = abs(first.half_time / true - 1.0)  # it turns between its two outputs as it grows
    assert 0.045 < off < first.error < 3.0 * off


def test_the_size_at_which_a_lone_head_begins_is_in_its_bar_as_its_law_has_it(monkeypatch):
    problem, kappa = agf.problem("linear-attention", covariance=[[1.0]], context=4, heads=1), 3
    made, start = [], Deviation.__init__
    monkeypatch.setattr(Deviation, "__init__", lambda self, *a: made.append(self) or start(self, *a))
    stairs = agf.predict(problem, problem.init(1e-2, seed=0), mode="agf")
    drop, first = stairs.drops[0], problem.init(1e-2, seed=0).log_norms[0]
    size, utility = np.exp(drop.log_norms[0]), float(drop.utility[0])
    left_out = quad(lambda r: r ** (1 - kappa) * (1.0 / (1.0 - (r / size) ** kappa) - 1.0), 0.0, np.exp(first))[0]
    assert made[0].legs[0].late == pytest.approx(2.0 * left_out / utility, rel=1e-2)  # half of it counts


def test_heads_that_turn_while_they_grow_have_that_in_their_bar():
    problem = agf.problem("linear-attention", covariance=np.diag([1.0, 0.5]), context=8, heads=1)
    for seed in range(2, 10):
        init = problem.init(0.04, seed=seed)
        stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
        error = stairs.drops[0].half_time / flow.time_at(0.5 * (stairs.levels[0] + stairs.levels[1])) - 1.0
        assert abs(error) < stairs.drops[0].error < 1.0


def test_a_drop_that_is_smaller_than_the_error_of_the_level_before_may_be_where_others_are():
    halves, levels = np.array([10.0, 20.0, 50.0]), np.array([1.0, 0.5, 0.4, 0.0])
    assert _elsewhen(halves, levels, np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    # its middle, .45, may be at .525, which is passed in the first drop, or at .375, in the last
    assert _elsewhen(halves, levels, np.array([0.15, 0.0, 0.0])) == pytest.approx([0.0, 1.0, 0.0])
    assert _elsewhen(halves, levels, np.array([np.inf, 0.0, 0.0]))[1] == 1.0  # not in any drop, for all that is known


@pytest.mark.parametrize("seed", [2, 4])
def test_a_last_level_that_has_no_critical_point_may_fall_to_the_least_loss(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((5, 1))
    problem = agf.TwoLayer(x, np.sign(x[:, 0]) + 0.3 * rng.standard_normal(5), activation="tanh", width=2)
    init = problem.init(1e-3, seed=seed)
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    assert stairs.status.word == "no_critical_point"
    assert (stairs.levels[-1] - flow.losses[-1]) / stairs.start_level < stairs.drops[-1].level_error < 0.1


def test_a_drop_that_active_neurons_slide_through_may_be_as_late_as_the_slide_is_long():
    # the switch is where the second neuron stands at its threshold, and the two take longer from there than all before
    second, true = of_two_outputs(6, 1)
    assert true > 2.0 * second.half_time
    assert 1.0 - second.half_time / true < second.error < 1.5


def test_a_slide_is_as_long_as_it_takes_to_the_middle_and_none_where_neurons_pass_it_by_joining():
    curve = np.array([[1.0, 5.0], [2.0, 3.0], [4.0, 1.0]])
    assert _passed(curve, 4.0) == pytest.approx(1.5)
    assert _passed(curve, 6.0) == 0.0
    joined = np.concatenate([curve, [[0.5, 0.2]]])  # the next part begins at time 0 again
    assert _passed(joined, 0.3) == 0.5


def test_a_level_that_is_no_critical_point_lies_between_the_middles_of_its_drops(monkeypatch):
    _, stairs, deviation, _, _ = predicted(3, monkeypatch)
    loose = [replace(drop, critical=False) for drop in stairs.drops]
    told = deviation.barred(loose, stairs.start_level)
    levels = stairs.levels
    middles = 0.5 * (levels[:-1] + levels[1:])
    for k, drop in enumerate(told[:-1]):
        bar = drop.level_error * stairs.start_level
        assert drop.level - bar <= middles[k + 1]
        assert middles[k] <= drop.level + bar
