"""When a flow is over: never before a drop that it still makes, and at once where there is nothing to learn.

Right values come from least squares of the right signs or rank, and from scipy in coordinates of our own.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from rectified_cases import T3, balanced
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar, nnls
from tiny import Sensing

import agf
from agf import FlowSystem, Init, Status, sphere
from agf.coordinates.choice import flow_system
from agf.coordinates.polar_system import PolarSystem
from agf.rectified.prospects import prospects
from agf.stopping import coordinates, rules
from agf.stopping.driver import Why, drive
from agf.stopping.ending import Ending
from agf.stopping.methods import LSODA
from agf.stopping.rules import Event


def diagonal(x, y):
    return agf.problem("diagonal-linear", X=x, y=y)


def least_squares(x, y) -> float:
    """Least loss, with columns scaled for the sake of lstsq."""
    scaled = x / np.linalg.norm(x, axis=0)
    return float(np.sum((y - scaled @ np.linalg.lstsq(scaled, y, rcond=None)[0]) ** 2)) / (2 * y.size)


def half_times(x, y, alpha, levels, until):
    """Times at which the loss crosses levels, by Radau in z on our own formulas."""

    def beta(z):
        large = np.exp(np.minimum(2 * np.abs(z) + 2 * np.log(alpha), 300.0))  # what a trial step may ask
        return np.sign(z) * 0.5 * (large - alpha**2 * np.exp(-2 * np.abs(z)))

    def loss(z):
        return float(np.sum((y - x @ beta(z)) ** 2)) / (2 * y.size)

    events = [lambda t, z, level=level: loss(z) - level for level in levels]
    own = solve_ivp(
        lambda t, z: x.T @ (y - x @ beta(z)) / y.size, (0, until), np.zeros(x.shape[1]), method="Radau", rtol=1e-9,
        atol=1e-9, events=events,
    )  # fmt: skip
    return [times[0] for times in own.t_events]


NEAR_COPIES = {
    "near": (np.array([[-3, -3], [2, 1.95], [-1, -0.95], [-1, -1]]), np.array([-3.0, 1, 2, 0]), 3e3),
    "nearer": (
        np.array([[0, -0.0002], [0, 0.0002], [0, 0], [3, 2.9997], [2, 1.9997], [-2, -2.0003], [1, 1.0]]),
        np.array([3.0, -3, -3, 3, -1, 3, -2]),
        1e6,
    ),
}


@pytest.mark.parametrize("gap", [1e-5, 3e-7])
def test_the_wait_for_the_difference_of_near_copies_is_not_spent_on_rounding(gap):
    """Columns b, c and b + gap d, of orthogonal b, c and d: .3 d is learned at last, by weights of .3 / gap.

    By then rounding of z is multiplied by rates of 1e6 and more: steps that follow it fall to 1e-5 of the time.
    """
    axes = 2.0 * np.linalg.qr(np.vander(np.linspace(-1, 1, 8), 4))[0]
    b, c, d = axes[:, 0], axes[:, 1], axes[:, 2]
    problem = diagonal(np.stack([b, c, b + gap * d], axis=1), b - 0.5 * c + 0.3 * d)
    run = agf.flow(problem, problem.init(1e-6))
    assert run.status is Status.SETTLED
    assert run.losses[-1] < 1e-6 * run.losses[0]
    # It took 4000 (measured); of Dormand-Prince and implicit steps, 20,000 on tables of this kind.
    assert run.stats["evaluations"] < 10_000


@pytest.mark.parametrize("name", NEAR_COPIES)
def test_next_to_a_near_copy_the_flow_goes_on_to_least_squares(name):
    x, y, until = NEAR_COPIES[name]
    problem = diagonal(x, y)
    flow = agf.flow(problem, problem.init(1e-6))
    least = least_squares(x, y)
    assert flow.status is Status.SETTLED
    # the promise: a millionth of the zero function's loss is left at most, and the sentence says how much
    assert flow.losses[-1] - least == pytest.approx(flow.stats["left"], abs=1e-9)
    assert flow.stats["left"] <= 1e-6 * flow.losses[0]
    levels = [0.5 * (drop.before + drop.after) for drop in flow.drops]
    assert [flow.time_at(level) for level in levels] == pytest.approx(half_times(x, y, 1e-6, levels, until), rel=1e-5)


@pytest.mark.parametrize("theta", [1e-4 * np.ones((4, 2)), np.ones((4, 2)), np.tile([1e-4, -1e-4], (4, 1))])
def test_signs_that_the_start_fixes_bound_what_can_be_reached(theta):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 4))
    y = x @ np.array([1.0, 0.5, -0.7, 0]) + 0.1 * rng.standard_normal(30)
    sign = np.sign(theta[0, 0] * theta[0, 1])
    level = nnls(sign * x, y)[1] ** 2 / 60
    problem, init = diagonal(x, y), Init.from_params(theta)
    assert problem.least_loss(init) == pytest.approx(level, rel=1e-12)
    flow = agf.flow(problem, init)
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] == pytest.approx(level, rel=1e-6)
    assert flow.stats["evaluations"] < 1000  # 100,000 steps when shrinking coordinates counted as growing


@pytest.mark.parametrize("start", ["equal", "positive"])
def test_a_column_in_small_units_is_learned_late_and_not_never(start):
    """Before, a flow was settled, "no network has less loss", with a column 1e-14 times as large as another to come."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 2))
    y = x @ [1.0, 0.5] + 0.1 * rng.standard_normal(30)
    problem = diagonal(x * [1e4, 1e-10], y)
    init = problem.init(1e-8) if start == "equal" else Init.from_params(np.full((2, 2), 1e-8))
    level = least_squares(x, y)
    assert problem.least_loss(init) == pytest.approx(level, rel=1e-12)
    for run in agf.flow(problem, init), agf.predict(problem, init), agf.predict(problem, init, mode="agf"):
        assert len(run.drops) == 2
        assert run.levels[-1] == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize("start", [None, [[1, 1], [1e-5, 0], [1e-5, 0]]])
def test_columns_of_very_different_size_are_waited_for(start):
    raw = np.random.default_rng(0).standard_normal((12, 3))
    problem = diagonal(raw @ np.diag([1, 1e-3, 1e3]), raw @ np.array([1, -0.5, 0.2]))
    init = problem.init(1e-6) if start is None else Init.from_params(np.array(start, dtype=float))
    flow = agf.flow(problem, init)
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] < 1e-6
    assert 1e5 < flow.drops[-1].time < 2e5


def test_what_is_at_its_minimum_is_over_at_once():
    rng = np.random.default_rng(1)
    x, b = rng.standard_normal((20, 3)), np.array([1.0, -0.5, 0.2])
    at = np.stack([np.sqrt(np.abs(b)), np.sign(b) * np.sqrt(np.abs(b))], axis=1)
    linear = agf.problem("linear", X=x, Y=x @ b[:, None], width=2)
    exact = np.zeros((2, 4))
    exact[0] = [*b, 1.0]
    runs = [agf.flow(diagonal(x, x @ b), Init.from_params(at)), agf.flow(linear, Init.from_params(exact))]
    for kind, options in (("linear", {}), ("two-layer", {"width": 4})):
        problem = agf.problem(kind, X=x, Y=np.zeros((20, 1)), **options)
        runs.append(agf.flow(problem, problem.init(1e-3)))
    constant = agf.problem("modular-addition", template=np.ones(5), width=4)
    runs.append(agf.flow(constant, constant.init(1e-3)))
    for flow in runs:
        assert flow.status is Status.SETTLED
        assert flow.times[-1] == 0.0
        assert flow.stats["evaluations"] < 10


def test_a_neuron_that_shrinks_before_it_turns_is_waited_for_where_kinks_are_sharp():
    # |u| = |w| nearly, and of opposite sign: the neuron shrinks for 1 / U, and changes sign after ln(1e11) / 2 U
    x = np.random.default_rng(1).standard_normal((40, 1))
    problem = agf.TwoLayer(x, np.maximum(x, 0), activation="relu", width=1, kink=0)
    flow = agf.flow(problem, Init.from_params(1e-6 * np.array([[1.0, -0.99999]])))
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] < 1e-5 * flow.losses[0]
    # LSODA on the raw weights finds the drop at 66.2; float64 holds the difference of the two parts to 1e-11
    assert flow.drops[0].time == pytest.approx(66.2, rel=5e-3)


def test_a_neuron_that_turns_before_it_grows_is_waited_for_on_a_plateau():
    # degree 3: a small neuron stands beside a saddle of its utility, below 0, and shrinks by a thousandth for 40,000
    problem = agf.problem("modular-addition", p=2, width=4)
    flow = agf.flow(problem, problem.init(1e-3, seed=0))
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] < 1e-6
    stairs = agf.predict(problem, problem.init(1e-3, seed=0))
    assert [drop.time for drop in flow.drops] == pytest.approx([drop.half_time for drop in stairs.drops], rel=5e-4)


def test_neurons_of_a_group_that_has_grown_are_no_small_ones_that_turn_towards_growth():
    # three points of [BF24]: seven neurons share one direction at norms from .07 to .56, and the end is spurious
    flow = agf.flow(agf.TwoLayer(*T3, width=20), balanced(20, 2, 1e-6), max_gradients=20_000, settle=1e-9)
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] == pytest.approx(0.0875213675, abs=1e-9)


def test_what_can_still_be_lost_covers_drops_that_do_not_count():
    # orthogonal inputs, a neuron each; of the third, seen twice, .1^2/4 stays; the second takes 9e-4^2/8 off, less than
    # 1e-6 of the first loss
    problem = agf.TwoLayer(np.eye(3)[[0, 1, 2, 2]], [1.0, 9e-4, 0.1, -0.1], width=2, kink=0)
    start = agf.Init.from_params(1e-4 * np.array([[1.0, -0.5, -0.1, 1.2], [-0.5, 1.0, -0.1, 1.2]]))
    flow = agf.flow(problem, start)
    assert flow.status is Status.SETTLED
    said = float(re.search("about (.*) can still be lost", str(flow))[1])
    assert max(flow.losses[-1] - 0.1**2 / 4, 1e-6 * problem.loss_grad(np.zeros((0, 4)), np.zeros(0, int))[0]) <= said
    there = sphere.polar(flow.params(-1))
    assert prospects(problem, start)(*there) == (0.0, False)
    rate, parked = prospects(problem, start, 1e-8)(*there)
    assert rate == pytest.approx(9e-4 / 4, rel=1e-2)
    assert not parked


@pytest.mark.parametrize("kink", [None, 0.0])
def test_a_neuron_on_a_kink_that_pushes_it_to_both_sides_is_at_a_saddle(kink):
    # of the last two samples, opposite ones, one is fitted by whoever leaves their common kink, and none on it
    X, y = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]]), [2.0, -2.0, -1.0, -1.0, -1.0]
    problem = agf.TwoLayer(X, y, width=1, kink=kink)
    flow = agf.flow(problem, agf.Init.from_params(np.array([[0.0, 1e-3, -1e-3]])), max_gradients=20_000)
    assert flow.status is Status.SADDLE
    assert flow.losses[-1] == pytest.approx(0.7, rel=1e-6)
    assert "Perturb the start" in flow.evidence
    aside = agf.flow(problem, agf.Init.from_params(np.array([[1e-9, 1e-3, -1e-3]])))
    assert aside.status is Status.SETTLED
    assert aside.losses[-1] == pytest.approx(0.6, rel=1e-4)


def test_a_flow_that_is_quiet_says_in_flow_time_how_slowly_the_rest_grows(monkeypatch):
    monkeypatch.setattr(Ending, "small", lambda self, now: self.rest(now).growth)  # the directions are not asked
    monkeypatch.setattr(coordinates, "EXPENSIVE", np.inf)  # with implicit steps it settles
    problem = agf.problem("modular-addition", p=2, width=4)
    init = problem.init(1e-3, seed=0)
    flow = agf.flow(problem, init)
    assert flow.status is Status.SETTLED  # a factor e is affordable: it was quiet at .125
    monkeypatch.setattr(rules, "BUDGET", 0.0)  # and now nothing is
    flow = agf.flow(problem, init)
    assert flow.status is Status.QUIET
    assert flow.losses[-1] == pytest.approx(0.125, rel=1e-3)
    said = float(re.search("takes (.*) of time by a factor e", str(flow))[1])
    assert said > flow.times[-1]  # or it would have been waited for


@pytest.mark.parametrize("seed", [0, 3])
def test_slow_modes_beside_stiff_ones_are_followed_until_they_can_lose_no_more(seed):
    """One linear neuron on columns of unlike size: the least loss is that of the best matrix of rank one."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 4)) * [100, 10, 0.3, 0.1]
    y = x @ rng.standard_normal((4, 2))
    values = np.linalg.svd(x @ np.linalg.lstsq(x, y, rcond=None)[0], compute_uv=False)
    least = 0.5 * (np.sum(y**2) - values[0] ** 2) / 30
    problem = agf.TwoLayer(x, y, activation="linear", width=1)
    flow = agf.flow(problem, problem.init(1e-6, seed=0))
    assert flow.status is Status.SETTLED
    left = float(re.search("about (.*) can still be lost", flow.evidence)[1])
    assert least <= flow.losses[-1] <= least + left <= (1 + 1e-3) * least


def test_a_mode_that_dies_out_is_no_saddle_of_a_network_whose_units_mix(rng):
    """U^T U beside a target with negative eigenvalues: one mode shrinks for ever, and its direction turns."""
    problem = Sensing(rng, width=4, size=5, count=40)
    problem.target = np.einsum("nij,ij->n", problem.forms, np.diag([2.0, 1.0, 0.5, -1.0, -0.5]))
    flow = agf.flow(problem, Init.from_params(2.0 * rng.standard_normal((4, 5))))
    assert flow.status is Status.SETTLED
    residual = problem.residual(flow.params(-1), np.arange(4))
    push = np.linalg.eigvalsh(np.einsum("n,nij->ij", residual, problem.forms))
    assert push[-1] <= 1e-3 * np.abs(push).max()  # no direction gains: the least of a loss that is convex in U^T U


def test_gradient_descent_of_a_constant_template_works():
    constant = agf.problem("modular-addition", template=np.ones(5), width=4)
    run = agf.descend(constant, constant.init(1e-3), lr=1e-2, steps=10)
    assert run.status is Status.STEPS


def test_a_start_far_above_the_data_is_no_measure_of_what_counts():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 3))
    y = 1e-6 * (x @ np.array([[1.0], [0.5], [-0.2]]) + 0.1 * rng.standard_normal((12, 1)))
    problem = agf.problem("linear", X=x, Y=y)
    flow = agf.flow(problem, problem.init(1.0))
    assert flow.status is Status.SETTLED
    assert flow.losses[-1] == pytest.approx(least_squares(x, y[:, 0]), rel=1e-3)
    huge = agf.problem("linear", **agf.registry.find("linear").example())
    flow = agf.flow(huge, huge.init(1000.0))
    assert flow.status.failed or flow.losses[-1] < 1e-3


def test_the_bound_of_a_narrow_linear_network_is_that_of_its_rank():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 4))
    target = rng.standard_normal((4, 3)) @ np.diag([3.0, 1.0, 0.3])
    problem = agf.problem("linear", X=x, Y=x @ target, width=1)
    init = problem.init(1e-4)
    flow = agf.flow(problem, init)
    assert flow.status is Status.SETTLED
    assert problem.least_loss(init) == pytest.approx(flow.losses[-1], rel=1e-4)
    assert problem.least_loss(init) <= flow.losses[-1]


def test_a_network_that_only_drifts_ends_as_such_within_its_budget():
    problem = agf.problem("modular-addition", p=7, template={1: 10, 3: 5}, width=8)
    flow = agf.flow(problem, problem.init(1e-3, seed=2))
    assert flow.status is Status.NO_CRITICAL_POINT
    # BDF of scipy with the problem's Hessian: .0729 at t = 3.2e3, .0550 at 3.7e4, .0497 at 4.2e5
    assert float(flow.loss_at(3.7e4)) == pytest.approx(0.0550, abs=2e-4)
    assert flow.losses[-1] > 0.045
    assert flow.stats["evaluations"] < 1e5
    assert "t^-0." in str(flow)


def test_a_flow_along_sharp_kinks_that_only_drifts_ends_as_such():
    # the first neuron separates the class at 1 for ever; no neuron is active at -1, where log 2 stays
    problem = agf.TwoLayer([[1.0], [-1.0]], [0, 1], width=2, kink=0, loss="cross-entropy")
    start = agf.Init.from_params(np.array([[0.1, 0.1, -0.1], [0.01, 0.01, -0.011]]))
    flow = agf.flow(problem, start, max_gradients=2500)
    assert flow.status is Status.NO_CRITICAL_POINT
    assert flow.losses[-1] - np.log(2.0) / 2 == pytest.approx(flow.stats["left"], rel=0.3)


@pytest.mark.parametrize("part", [0.5, 0.9])
def test_a_run_in_two_parts_across_implicit_steps_is_the_run_in_one(part, tmp_path):
    x, y, _ = NEAR_COPIES["near"]
    problem = diagonal(x, y)
    init = problem.init(1e-6)
    whole = agf.flow(problem, init)
    assert whole.stats["hessians"] > 0
    agf.flow(problem, init, max_steps=int(part * whole.stats["steps"])).save(tmp_path / "part.npz")
    rest = agf.flow(problem, init, resume=agf.load(tmp_path / "part.npz"))
    assert rest.status is whole.status
    for name in ("times", "losses", "log_norms"):
        assert np.array_equal(getattr(rest, name), getattr(whole, name))


class Unknown(PolarSystem):
    """Coordinates that do not say what grows."""

    def growth(self, y):
        return FlowSystem.growth(self, y)


def test_coordinates_that_do_not_say_what_grows_never_settle_on_a_plateau(monkeypatch):
    x = np.random.default_rng(0).standard_normal((40, 2))
    problem = agf.TwoLayer(x, x[:, 0] ** 2 - 0.5 * x[:, 1] ** 2, activation="square", width=6)
    init = problem.init(1e-6)
    whole = agf.flow(problem, init)
    monkeypatch.setattr(problem, "flow_system", lambda init: Unknown(problem, init))
    flow = agf.flow(problem, init, max_gradients=2 * whole.stats["evaluations"])
    assert flow.losses[-1] < 1e-3 * flow.losses[0] or flow.status is Status.MAX_STEPS


def test_the_checks_tell_whether_coordinates_say_what_grows():
    rng = np.random.default_rng(0)
    problem = agf.TwoLayer(rng.standard_normal((20, 2)), rng.standard_normal(20), activation="square", width=3)
    for kind, told in ((Unknown, "does not say what grows"), (PolarSystem, "and says what grows")):
        problem.flow_system = lambda init, kind=kind: kind(problem, init)
        assert told in str(agf.check(problem))


@pytest.mark.parametrize("name", ["diagonal-linear", "linear", "two-layer", "linear-attention"])
def test_the_flow_is_that_of_an_integrator_that_shares_no_code(name):
    """LSODA through the same driver: only coordinates and rules are shared with the trainer."""
    problem = agf.problem(name, **agf.registry.find(name).example())
    init = problem.init(1e-3)
    flow = agf.flow(problem, init)
    system = flow_system(problem, init)
    for drop in flow.drops[:2]:
        level = 0.5 * (drop.before + drop.after)
        middle = Event(lambda y, now, level=level: np.array([level - system.loss(y)]), Why.HORIZON)
        end = drive(system, LSODA(1e-9), [middle], system.start())
        assert end.why is Why.HORIZON
        time = end.at.t * float(np.exp(system.log_time_unit))
        assert flow.time_at(level) == pytest.approx(time, rel=2e-5)  # some twenty tolerances of a step


def test_a_time_limit_far_beyond_the_end_is_not_waited_for():
    """At rest steps are as long as rounding of the velocity allows: to 1e300 they were 27,000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    y = X @ np.array([1, 0.5, 0.2, -0.3, 0.1]) + 0.1 * rng.normal(size=30)
    problem = agf.problem("diagonal-linear", X=X, y=y)
    init = problem.init(1e-6)
    far = agf.flow(problem, init, t_max=1e300)
    near = agf.flow(problem, init, t_max=2e3)
    assert far.status is Status.SETTLED
    assert far.stats["steps"] < 100
    assert near.status is Status.MAX_TIME
    assert near.times[-1] == 2e3
    assert far.losses[-1] == pytest.approx(near.losses[-1], rel=1e-12)


@pytest.mark.parametrize("scale", [1e-4, 1e-8])
def test_neurons_beside_rounded_kinks_do_not_keep_a_spurious_end_from_being_one(scale):
    # at least squares a negative neuron stands beside the kink of a point: the slope of its field there was a growth of
    # 5e-11, and the flow went on to t = 17,000, where it was "quiet"
    p = agf.TwoLayer(*T3, width=20)
    rng = np.random.default_rng(0)
    w, sign = rng.standard_normal((20, 2)), rng.choice([-1.0, 1.0], 20)
    theta = scale / np.sqrt(20) * np.column_stack([w, sign * np.linalg.norm(w, axis=1)])
    flow = agf.flow(p, agf.Init.from_params(theta))
    assert flow.status is Status.SETTLED
    assert flow.times[-1] < 100
    assert flow.losses[-1] == pytest.approx(0.0875213675, rel=1e-4)
    assert "Spurious" in flow.notes[-1]


def test_a_neuron_held_by_a_rounded_kink_is_no_saddle():
    # "a perturbation grows at 94 per unit of time, but float64 holds none here"
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 8)
    p = agf.TwoLayer(np.column_stack([x, np.ones(8)]), np.sin(3 * x) + 0.3 * rng.standard_normal(8), width=8)
    init = p.init(1e-8, seed=0, kind="balanced")
    stairs = agf.predict(p, init, mode="resolved", conditioning=False)
    assert stairs.status is Status.NO_GROWTH
    assert stairs.levels[-1] == pytest.approx(agf.flow(p, init, t_max=2000.0).losses[-1], rel=1e-3)
    assert "Spurious" in stairs.notes[-1]


def test_a_flow_is_not_quiet_while_a_small_neuron_is_known_to_come():
    """Asked beside rounded kinks alone nothing grew: it ended at 177 with .918 of the first loss, before this drop."""
    X = np.array([[-0.764, -0.546], [-0.87, 0.411], [0.037, -0.702], [-2.223, -0.95],
                  [0.121, -0.288], [0.008, 0.348], [1.464, -0.693], [0.167, 0.664]])  # fmt: skip
    y = np.array([-1.272, 0.291, 0.479, 0.664, -0.482, 0.793, -1.788, 0.006])
    problem = agf.problem("relu", X=X, Y=y[:, None], width=4)
    # between two kinks a layer apart it shrinks, and which it comes off is told by steps of 1e-7 and less
    flow = agf.flow(problem, problem.init(alpha=1e-4, seed=27), rtol=1e-7)
    assert flow.status is Status.SETTLED
    assert [drop.time for drop in flow.drops][1:] == pytest.approx([318.6], rel=1e-3)
    assert flow.losses[-1] == pytest.approx(0.3957 * flow.losses[0], rel=1e-3)


def test_a_neuron_that_only_shrinks_ends_at_once_where_kinks_are_sharp():
    """Its rate tells so, and what small neurons would come to is known and not asked again: 4,176 gradients before."""
    rng = np.random.default_rng([5, 0])
    rng.integers(3, 13), rng.integers(2, 4)
    X, y = rng.standard_normal((9, 3)), rng.standard_normal((9, 1))
    problem = agf.problem("relu", X=X, Y=y, width=1, kink=0)
    flow = agf.flow(problem, problem.init(alpha=1e-3, seed=0, kind="dominated"))
    assert flow.status is Status.SETTLED
    assert flow.times[-1] == 0.0
    assert flow.stats["evaluations"] < 10


@pytest.mark.parametrize(("loss", "seed"), [("logistic", 6), ("exponential", 7)])
def test_classes_of_which_a_part_is_separable_end_next_to_the_least_loss_of_the_others(loss, seed):
    """Steps of hundreds of stages took 150,000 gradients and more, and the prediction had no end in 40 seconds."""
    rng = np.random.default_rng([seed, 6])
    n, k = 8, 4
    x = rng.standard_normal((n, 2))
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    x[:k, 0] = 0.0
    y[:k] = np.sign(x[:k, 1]) * [1.0, -1.0, 1.0, 1.0]
    cost = {"logistic": lambda m: np.logaddexp(0.0, -m), "exponential": lambda m: np.exp(-m)}[loss]
    least = minimize_scalar(lambda w: float(np.sum(cost(y[:k] * x[:k, 1] * w))) / n).fun
    problem = agf.TwoLayer(x, y, activation="linear", loss=loss, width=3)
    init = problem.init(1e-4, seed=seed)
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert not flow.status.failed
    assert not stairs.status.failed
    for end in (flow.losses[-1], stairs.levels[-1]):
        assert 0.0 < end - least < 1e-3 * least
    assert flow.stats["evaluations"] < 5_000
    assert stairs.stats["velocity_evaluations"] < 5_000
    first = agf.flow(problem, init, max_steps=int(flow.stats["steps"]) - 9)
    assert agf.flow(problem, init, resume=first).losses[-1] == flow.losses[-1]
