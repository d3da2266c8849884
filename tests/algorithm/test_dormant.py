"""The dormant phase against exact flows: crossings, ties, everybody's state at the crossing, at any scale and width."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from stubs import DiagonalToy, QuadraticUtility, ReluToy, Scripted, norms_init

import agf
from agf import sphere
from agf.algorithm import crossings, dormant
from agf.algorithm.dormand_prince import DormandPrince
from agf.algorithm.dormant import Crossing
from agf.algorithm.field import Batch
from agf.algorithm.threshold import ExactThreshold
from agf.clock import Clock
from agf.records.status import Status

NOBODY, NONE = np.zeros(0, dtype=np.int64), np.zeros(0)


def run(problem, directions, log_norms, natural=False, log_factor=0.0, noise=0.0, **options):
    neurons = np.arange(log_norms.size)
    empty = np.zeros((0, problem.n_params))
    threshold = ExactThreshold(problem, natural, empty, NOBODY, log_factor, noise)
    clock = Clock.from_norms(problem.degree, log_norms)
    residual = problem.residual(empty, NOBODY)
    batch = Batch(problem, residual, clock, directions, log_norms, neurons)
    return dormant.cross(batch, threshold, **options), clock


def symmetric(rng, count, size):
    matrices = rng.standard_normal((count, size, size))
    return (matrices + matrices.transpose(0, 2, 1)) / 2


# -- exact answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-3, 1e-8, 1e-40, 1e-200])
def test_whitened_diagonal_coordinates_activate_at_their_closed_form(alpha):
    """rho^2 = 2 alpha^2 cosh(2 beta t) for u = sqrt 2 alpha, v = 0: norm 1 at arccosh(1 / (2 alpha^2)) / (2 |beta|)."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((6, 3)))[0] * np.sqrt(6)
    beta = np.array([2.0, -1.0, 0.5])
    problem = DiagonalToy(basis, basis @ beta)
    init = agf.Init.scaled(np.tile([np.sqrt(2.0), 0.0], (3, 1)), alpha)
    stairs = agf.predict(problem, init, threshold="unit", max_drops=3)
    log_twice = -2.0 * np.log(alpha) if alpha < 1e-7 else np.arccosh(1 / (2 * alpha**2))  # arccosh x ~ log 2x
    # each direction turns by 45 degrees with an error of rtol = 1e-6 a step, of a log norm of 7 to 460
    assert stairs.times[1:] == pytest.approx(log_twice / (2 * np.abs(beta)), rel=3e-6 / log_twice)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1], [2]]


@given_settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([-5.0, -20.0, -300.0]))
def test_the_crossing_and_everybody_at_it_agree_with_the_matrix_exponential(seed, log_alpha):
    rng = np.random.default_rng(seed)
    problem = QuadraticUtility(symmetric(rng, 5, 3))
    directions = sphere.random(rng, 5, 3)
    log_norms = log_alpha + rng.standard_normal(5)
    found, clock = run(problem, directions, log_norms, rtol=1e-8)
    assert isinstance(found, Crossing)
    time = float(clock.flow(found.time))
    exact_directions, exact_norms = problem.exact(directions, log_norms, time)
    # rtol a step, of some tens of steps
    assert exact_norms.max() == pytest.approx(0.0, abs=1e-6)
    assert found.neurons.tolist() == [int(exact_norms.argmax())]
    assert found.log_norms == pytest.approx(exact_norms, abs=1e-6)
    assert np.abs(found.directions - exact_directions).max() < 1e-5
    assert np.linalg.norm(found.directions, axis=1) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_crossings_of_any_degree_agree_with_a_generic_solver(degree):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 4))
    problem = DiagonalToy(X, X @ np.array([1.0, -2.0, 0.5, 1.5]), degree)
    init = problem.init(1e-2, seed=5)
    found, clock = run(problem, init.directions, init.log_norms, rtol=1e-9)
    neurons = np.arange(4)
    residual = problem.residual(np.zeros((0, degree)), NOBODY)

    def flow(_, y):
        return problem.utility(y.reshape(4, degree), neurons, residual)[1].ravel()

    def largest(_, y):
        return np.linalg.norm(y.reshape(4, degree), axis=1).max() - 1.0

    largest.terminal, largest.direction = True, 1
    end = 2.0 * float(clock.flow(found.time))
    exact = solve_ivp(flow, (0, end), init.params().ravel(), rtol=1e-11, atol=1e-15, events=largest, method="DOP853")
    assert float(clock.flow(found.time)) == pytest.approx(exact.t_events[0][0], rel=1e-8)
    theta = exact.y_events[0][0].reshape(4, degree)
    assert sphere.cartesian(found.directions, found.log_norms) == pytest.approx(theta, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("degree", [2, 3])
def test_natural_thresholds_are_met_where_the_self_decay_equals_the_growth(degree):
    """At the crossing rho^kappa = U / 2C, everything recomputed from the problem at the state that is returned."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((20, 3))
    problem = DiagonalToy(X, X @ np.array([1.0, -2.0, 0.5]), degree)
    init = problem.init(1e-4, seed=5)
    found, _ = run(problem, init.directions, init.log_norms, natural=True)
    k = found.neurons
    at = found.directions[k]
    utility, gradient = problem.utility(at, k, problem.y)
    c = problem.self_interaction(at, k, np.zeros((0, degree)), NOBODY)
    drive = np.linalg.norm(gradient, axis=1) / degree
    assert found.log_norms[k] == pytest.approx(np.log(drive / (2 * c)) / degree, abs=1e-9)
    assert utility == pytest.approx(drive, rel=1e-3)  # aligned by then
    assert found.gain == pytest.approx(float(utility[0] ** 2 / (4 * c[0])), rel=1e-6)


def test_a_slow_escape_from_a_saddle_is_followed_and_not_frozen():
    """Directions next to the second eigenvector look at rest for 12 e-folds and then turn to the first."""
    matrix = np.diag([1.0, 0.6, 0.1])
    problem = QuadraticUtility([matrix])
    directions = sphere.normalize(np.array([[1e-12, 1.0, 1e-3]]))
    log_norms = np.array([-300.0])
    found, clock = run(problem, directions, log_norms)
    exact = brentq(lambda t: problem.exact(directions, log_norms, t)[1][0], 250.0, 600.0)
    # while the growing part is far below rtol = 1e-6 its steps are as long as stability lets them be: a tenth of one of
    # the 28 e-folds it takes, of 328
    assert float(clock.flow(found.time)) == pytest.approx(exact, rel=3e-4)
    assert abs(found.directions[0, 0]) == pytest.approx(1.0, abs=1e-6)


def test_neurons_that_ran_ahead_are_brought_back_to_the_crossing():
    """The first neuron waits on a flat spot, so nothing says it will cross before the second, whose steps are long."""
    rng = np.random.default_rng(0)
    first, second = np.diag([5.0, 0.0, 0.0]), np.diag([0.3, 0.2, 0.1])
    problem = QuadraticUtility([first, second])
    directions = np.vstack([sphere.normalize(np.array([[1e-9, 1.0, 0.0]])), sphere.random(rng, 1, 3)])
    log_norms = np.array([-10.0, -10.0])
    found, clock = run(problem, directions, log_norms)
    assert found.neurons.tolist() == [0]
    exact_directions, exact_norms = problem.exact(directions, log_norms, float(clock.flow(found.time)))
    # an escape over 20 e-folds, each good to 1e-5
    assert found.log_norms == pytest.approx(exact_norms, abs=2e-4)
    assert found.directions == pytest.approx(exact_directions, abs=2e-4)


def test_a_rough_question_still_knows_when_a_neuron_leaves_a_saddle():
    """20 e-folds beside the saddle decide the time; with errors of a hundredth of each step it would be 0.86 late."""
    problem = QuadraticUtility([np.diag([5.0, 0.0, 0.0])])
    directions, log_norms = sphere.normalize(np.array([[1e-9, 1.0, 0.0]])), np.array([-10.0])
    found, clock = run(problem, directions, log_norms, rtol=1e-3)
    exact = brentq(lambda t: problem.exact(directions, log_norms, t)[1][0], 1.0, 30.0)
    # in e-folds (the log norm grows at rate 5): some twenty steps of rtol
    assert abs(float(clock.flow(found.time)) - exact) * 5.0 < 0.02


def test_a_neuron_that_comes_to_rest_in_the_step_of_its_crossing_crosses_where_it_does():
    """Many draws, so that some end the damping of their last transients in the very step that crosses."""
    rng = np.random.default_rng(1)
    for log_alpha in np.linspace(-14.0, -22.0, 41):
        problem = QuadraticUtility(2.0 * symmetric(rng, 3, 4))
        directions, log_norms = sphere.random(rng, 3, 4), np.full(3, log_alpha)
        found, clock = run(problem, directions, log_norms)
        exact = problem.exact(directions, log_norms, float(clock.flow(found.time)))[1]
        assert exact.max() == pytest.approx(0.0, abs=1e-4)


def test_carry_is_the_flow_for_a_given_time():
    rng = np.random.default_rng(8)
    problem = QuadraticUtility(symmetric(rng, 4, 3))
    directions, log_norms = sphere.random(rng, 4, 3), np.full(4, -7.0)
    clock = Clock.from_norms(2, log_norms)
    got = dormant.carry(problem, None, clock, directions, log_norms, np.arange(4), 2.5 / clock.scale)
    exact = problem.exact(directions, log_norms, 2.5)
    assert got[0] == pytest.approx(exact[0], abs=1e-5)
    assert got[1] == pytest.approx(exact[1], abs=1e-5)


def test_neurons_that_slide_along_kinks_with_several_outputs_cost_no_more_than_the_flow():
    """Steps at the limit of stability took 43,576 evaluations of the utility, for 10,276 gradients of the flow."""
    rng = np.random.default_rng(3)
    x, first = rng.standard_normal((10, 2)), rng.integers(0, 2, 10) == 0
    x[:, 0] += 3.0 * first
    y = np.column_stack([first, ~first]) - 0.5
    problem = agf.problem("relu", X=x, Y=y, width=3, scale="whiten", centre="targets")
    init = problem.init(1e-8, seed=3)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    assert stairs.stats["utility_evaluations"] < flow.stats["evaluations"]
    report = agf.compare(stairs, flow)
    assert len(report.matches) == 2
    for match, drop in zip(report.matches, stairs.drops, strict=True):
        assert abs(match.time_error) < drop.error


def test_a_neuron_at_the_edge_of_a_rounded_kink_is_damped_and_takes_stabilised_steps():
    """Stages beyond the edge, where the slope is zero, hid that it was stiff: 30,012 evaluations to one crossing."""
    rng = np.random.default_rng(107)
    rng.integers([5, 1], [21, 5]), rng.integers([1, 2, 2], [4, 11, 9])  # of the fuzz that found it
    X, noise = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    rng.random()
    Y = np.maximum(X @ rng.standard_normal((3, 2)), 0) @ rng.standard_normal((2, 3)) + 0.1 * noise
    problem = agf.TwoLayer(X, Y, width=6)
    init, nobody = problem.init(1e-7, seed=107), (np.zeros((0, 6)), np.zeros(0, dtype=int))
    clock = Clock.from_norms(2, init.log_norms)
    batch = Batch(problem, problem.residual(*nobody), clock, init.directions, init.log_norms, np.arange(6), init)
    costs, ends = [], []
    for rtol in (1e-9, 1e-10):
        stats: dict[str, float] = {}
        ends.append(dormant.carry_batch(batch, 0.3, rtol=rtol, stats=stats))
        costs.append(stats["utility_evaluations"])
    assert costs[0] < 3000
    assert ends[0][0] == pytest.approx(ends[1][0], abs=1e-4)  # some sixty steps of 1e-6
    assert ends[0][1] == pytest.approx(ends[1][1], abs=1e-4)


# -- ties, order, steps ---------------------------------------------------------------------------------------------


def test_identical_neurons_activate_together_among_others():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12, 3))
    problem = ReluToy(X, np.maximum(X @ rng.standard_normal(3), 0) - 0.5 * np.maximum(-X[:, 0], 0), width=4)
    init = problem.init(1e-6, seed=1)
    directions, log_norms = init.directions.copy(), init.log_norms.copy()
    alone, own = run(problem, directions, log_norms, natural=True)
    k = int(alone.neurons[0])
    twin = (k + 1) % 4
    directions[twin], log_norms[twin] = directions[k], log_norms[k]
    found, clock = run(problem, directions, log_norms, natural=True)
    assert found.neurons.tolist() == sorted({*alone.neurons, twin})
    # the group is one neuron with rho^2 = sum rho_i^2: a second neuron k brings it forward
    squares = np.exp(2.0 * alone.log_norms[alone.neurons])
    earlier = 0.5 * np.log1p(squares[0] / squares.sum()) / (2.0 * alone.utility[0])
    # directions still differ by a percent, so that the log radius at which the first member sees the group differs by
    # its square
    late = 2e-4 / (2.0 * alone.utility[0])
    assert float(own.flow(alone.time) - clock.flow(found.time)) == pytest.approx(earlier, abs=late)


@given_settings(max_examples=10)
@given(st.permutations(range(6)))
def test_the_order_of_neurons_does_not_matter(order):
    rng = np.random.default_rng(11)
    matrices, directions, log_norms = symmetric(rng, 6, 3), sphere.random(rng, 6, 3), rng.uniform(-9, -5, 6)
    order = np.array(order)
    plain, _ = run(QuadraticUtility(matrices), directions, log_norms)
    other, _ = run(QuadraticUtility(matrices[order]), directions[order], log_norms[order])
    assert other.time == pytest.approx(plain.time, rel=1e-12)
    assert order[other.neurons].tolist() == plain.neurons.tolist()
    assert other.log_norms == pytest.approx(plain.log_norms[order], abs=1e-10)
    assert other.runner_up[1] == pytest.approx(plain.runner_up[1], rel=1e-8)


def test_a_neuron_alone_and_in_a_crowd_takes_the_same_time():
    """Step sizes are each neuron's own, so company changes nothing (up to rounding)."""
    rng = np.random.default_rng(12)
    matrices, directions, log_norms = symmetric(rng, 40, 3), sphere.random(rng, 40, 3), np.full(40, -8.0)
    crowd, clock = run(QuadraticUtility(matrices), directions, log_norms)
    k = crowd.neurons
    alone, own = run(QuadraticUtility(matrices[k]), directions[k], log_norms[k])
    assert float(own.flow(alone.time)) == pytest.approx(float(clock.flow(crowd.time)), rel=1e-12)


def test_the_tolerance_changes_the_answer_and_in_the_right_direction():
    rng = np.random.default_rng(13)
    problem = QuadraticUtility(symmetric(rng, 5, 4))
    directions, log_norms = sphere.random(rng, 5, 4), np.full(5, -30.0)
    times = [float(run(problem, directions, log_norms, rtol=rtol)[0].time) for rtol in (1e-3, 1e-6, 1e-9, 1e-11)]
    errors = np.abs(np.array(times[:3]) / times[3] - 1.0)
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 1e-7


def test_two_crossings_in_one_step_are_taken_in_their_order():
    """Constant utilities: one step spans the whole phase, and both cross inside it."""
    problem = Scripted([1.0, 1.0 + 1e-6])
    init = norms_init([-5.0, -5.0])
    found, _ = run(problem, init.directions, init.log_norms)
    assert found.neurons.tolist() == [1]
    assert found.runner_up[0] == 0
    assert found.runner_up[1] == pytest.approx(0.5e-6, rel=1e-3)


# -- ends -----------------------------------------------------------------------------------------------------------


def test_dead_relu_neurons_end_the_phase_with_a_status():
    X = np.abs(np.random.default_rng(0).standard_normal((10, 3)))
    problem = ReluToy(X, X[:, 0], width=2)
    directions = sphere.normalize(np.array([[-1.0, -1.0, -1.0, 1.0], [-2.0, -1.0, -1.0, -1.0]]))
    found, _ = run(problem, directions, np.array([-9.0, -9.0]), natural=True)
    assert found is Status.NO_GROWTH


def test_a_shrinking_neuron_ends_the_phase_and_does_not_loop():
    """Non-positive utility everywhere on the sphere: the direction goes to the least bad one and stays."""
    found, _ = run(QuadraticUtility([-np.diag([1.0, 2.0, 3.0])]), np.array([[0.6, 0.8, 0.0]]), np.array([-9.0]))
    assert found is Status.NO_GROWTH


def test_utilities_that_cannot_be_told_from_zero_never_activate():
    init = norms_init([-5.0, -5.0])
    problem = Scripted([1e-4, 1e-5])
    assert isinstance(run(problem, init.directions, init.log_norms)[0], Crossing)
    assert run(problem, init.directions, init.log_norms, noise=1e-3)[0] is Status.NO_GROWTH


def test_stop_ends_before_the_crossing():
    init = norms_init([-5.0])
    problem = Scripted([1.0])
    assert run(problem, init.directions, init.log_norms, stop=0.49)[0] is Status.MAX_TIME
    assert run(problem, init.directions, init.log_norms, stop=0.51)[0].time == pytest.approx(0.5)


def turning() -> tuple[Batch, ExactThreshold]:
    """One neuron that turns from a saddle on the way to its threshold."""
    problem = QuadraticUtility([np.diag([1.0, 0.6, 0.1])])
    start = sphere.normalize(np.array([[0.1, 1.0, 0.3]])), np.array([-10.0]), np.arange(1)
    empty = np.zeros((0, problem.n_params))
    threshold = ExactThreshold(problem, False, empty, NOBODY)
    batch = Batch(problem, problem.residual(empty, NOBODY), Clock.from_norms(problem.degree, start[1]), *start)
    return batch, threshold


def test_questions_share_rounds_and_end_when_they_are_spent():
    batch, threshold = turning()
    rounds = dormant.Rounds()
    before = rounds.left
    time, _ = dormant.wait(batch, threshold, rounds=rounds)
    used = before - rounds.left
    assert np.isfinite(time)
    assert dormant.wait(batch, threshold, rounds=rounds)[0] == time
    assert before - rounds.left == 2 * used
    rounds = dormant.Rounds(used - 1)
    stats = {}
    assert np.isinf(dormant.wait(batch, threshold, rounds=rounds)[0])
    assert np.isinf(dormant.wait(batch, threshold, rounds=rounds, stats=stats)[0])
    assert stats["dormant_steps"] == 0


# -- cost -----------------------------------------------------------------------------------------------------------


def test_the_number_of_evaluations_does_not_grow_with_the_width():
    rng = np.random.default_rng(21)
    counts = []
    for width in (20, 2000):
        problem = QuadraticUtility(symmetric(rng, width, 4))
        run(problem, sphere.random(rng, width, 4), np.full(width, -18.0))
        counts.append(problem.calls)
    # more neurons include slower ones, but they all move together
    assert counts[1] < 3 * counts[0]


def test_the_cost_does_not_grow_with_log_alpha_once_directions_rest():
    rng = np.random.default_rng(22)
    matrices, directions = symmetric(rng, 5, 4), sphere.random(rng, 5, 4)
    counts = []
    for log_alpha in (-60.0, -600.0):
        problem = QuadraticUtility(matrices)
        run(problem, directions, np.full(5, log_alpha))
        counts.append(problem.calls)
    assert counts[1] < 1.5 * counts[0]


def test_neurons_of_one_direction_learn_by_shares_when_the_second_stands_just_below_its_threshold():
    # At 1e-200 all three have the direction of the same extremal vector when the first activates, 4 % apart in norm:
    # they saturate together. Alone, the first would leave the others a residual that training never shows them.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3))
    problem = agf.TwoLayer(x, np.maximum(x[:, :1], 0) + 0.6 * np.maximum(x[:, 1:2], 0), activation="relu", width=3)
    init = agf.Init.scaled([[1.0, 0.1, 0.0, 1.0], [0.95, 0.12, 0.05, 1.0], [0.1, 1.0, 0.0, 1.0]], 1e-200)
    stairs, flow = agf.predict(problem, init, t_max=3000.0, mode="agf"), agf.flow(problem, init, t_max=3000.0)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0, 1, 2]]
    shares = np.exp(stairs.drops[0].log_norms - stairs.drops[0].log_norms[0])
    assert shares == pytest.approx(np.exp(flow.log_norms[-1] - flow.log_norms[-1, 0]), rel=1e-2)
    report = agf.compare(stairs, flow)
    assert report.max_time_error < 2e-3
    assert report.max_level_error < 1e-4


def test_neurons_exactly_at_a_minimum_of_their_utility_never_activate_and_cost_nothing():
    # u = -v with a positive pull: the direction is at rest to the last bit, unstable, and the norm shrinks for ever.
    problem = agf.problem("diagonal-linear", X=np.eye(3) * np.sqrt(3), y=np.sqrt(3) * np.array([1.0, 2.0, 3.0]))
    directions, stats = np.tile([np.sqrt(0.5), -np.sqrt(0.5)], (3, 1)), {}
    assert run(problem, directions, np.full(3, np.log(1e-8)), stats=stats)[0] is Status.NO_GROWTH
    assert stats["utility_evaluations"] < 100  # 120,000 before
    directions[2, 0] += 1e-12  # one that is not, and turns
    directions = sphere.normalize(directions)
    assert run(problem, directions, np.full(3, np.log(1e-8)))[0].neurons.tolist() == [2]


def test_a_crossing_that_cannot_be_located_ends_the_run_with_a_sentence(monkeypatch):
    monkeypatch.setattr(crossings, "_TURNS", 2)
    x = np.random.default_rng(0).standard_normal((40, 3))
    problem = agf.TwoLayer(x, x[:, :1] - 0.5 * x[:, 1:2] ** 2, activation="tanh", width=4)
    stairs = agf.predict(problem, problem.init(1e-6), mode="agf")
    assert stairs.status is Status.STALLED
    assert "was not located within 2 halvings" in stairs.notes[0]


def test_a_neuron_that_is_exactly_zero_is_compared_with_nobody():
    # -inf less -inf would be no number, and a warning; beside it two neurons tie.
    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = agf.TwoLayer(X, np.maximum(X @ [1.0, -1.0, 0.5], 0)[:, None], "relu", "half-squared", width=3)
    theta = problem.init(1e-4, seed=0).params()
    theta[1], theta[2] = theta[0], 0.0
    with np.errstate(invalid="raise"):
        stairs = agf.predict(problem, agf.Init.from_params(theta), mode="agf")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0, 1]]


def test_a_neuron_that_slides_to_where_all_kinks_meet_takes_steps_as_long_as_its_way():
    """Three outputs: its input weights all but vanish, where kinks are rounded by less than differences were long."""
    x = [[-0.19, -0.34], [-0.23, 0.6], [-1.28, 0.97], [-1.13, -0.19], [0.89, 0.66], [-0.69, 1.77], [0.37, -0.95],
         [0.04, -0.83], [0.43, -1.34], [0.48, -1.77], [1.1, 0.27]]  # fmt: skip
    y = [[1.36, -0.71, -2.09], [-1.37, -0.24, 1.96], [0.57, 1.31, -0.88], [-0.53, -0.33, 1.17], [-0.56, -0.29, 1.62],
         [-0.87, -0.03, -1.34], [-0.24, 0.83, 1.19], [-1.39, -2.53, 0.54], [1.67, -0.7, 0.26], [0.03, -2.16, -2.67],
         [-0.07, 0.49, -1.52]]  # fmt: skip
    problem = agf.TwoLayer(x, y, width=1)
    residual = problem.residual(*problem.empty)
    rng, evaluations = np.random.default_rng(0), []
    for _ in range(
        9
    ):  # rounding decides whether it ends there or leaves by another kink: of nine neighbours, the middle one
        weights = 1e-7 * np.array([[-0.08, 0.4, 0.3, -0.31, 0.79]]) * (1 + 1e-12 * rng.standard_normal((1, 5)))
        init, stats = agf.Init.from_params(weights), {}
        clock = Clock.from_norms(2, init.log_norms)
        there, _ = dormant.carry(
            problem, residual, clock, init.directions, init.log_norms, np.arange(1), 0.3, rtol=1e-9, stats=stats
        )
        assert np.isfinite(there).all()
        evaluations.append(stats["utility_evaluations"])
    assert np.median(evaluations) < 4000  # 6,139 before, and 121,201 of a neighbour of this one


def test_what_was_passed_is_remembered_and_not_found_by_steps_anew():
    """One neuron waits for the other, and is asked for where groups and neurons cross."""
    rng = np.random.default_rng(7)
    X, W, A = rng.integers(-2, 3, (12, 3)).astype(float), rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    problem = agf.TwoLayer(X, np.maximum(X @ W.T, 0) @ A, width=2)
    init = problem.init(1e-4, seed=7)
    stairs = agf.predict(problem, init, mode="resolved", conditioning=False, max_drops=1)
    assert stairs.half_times[1] == pytest.approx(2.836777, rel=1e-6)  # the tolerance of a step
    assert stairs.stats["utility_evaluations"] < 700  # 927 where it was taken there from its start each time

    batch = Batch(problem, problem.residual(*problem.empty), Clock.from_norms(2, init.log_norms), init.directions,
                  init.log_norms, np.arange(2))  # fmt: skip
    steps, seen = DormandPrince(batch, 1e-6), []
    for _ in range(20):
        if 0 in steps.step(np.arange(2)):
            time = 0.5 * (steps.y0[0, -1] + steps.y1[0, -1])
            seen.append((time, steps.dense(np.array([0]), steps.place(np.array([0]), time))[0]))
    for time, state in seen:
        rows, states = steps.past(np.array([0]), time)
        assert rows.tolist() == [0]
        assert np.array_equal(states[0], state)
    assert steps.past(np.array([0]), 2.0 * seen[-1][0])[0].size == 0


def test_a_wait_that_is_long_enough_is_not_followed_to_its_end():
    """U = 1: from log norm -10 the threshold, norm 1, is met at 10 / 2 in flow time; time is in units of the wait."""
    init, problem = norms_init([-10.0, -12.0]), Scripted([[1.0, 1.0]])
    empty = np.zeros((0, problem.n_params))
    threshold = ExactThreshold(problem, False, empty, NOBODY)
    clock = Clock.from_norms(problem.degree, init.log_norms)
    batch = Batch(problem, problem.residual(empty, NOBODY), clock, init.directions, init.log_norms, np.arange(2))
    whole, _ = dormant.wait(batch, threshold)
    assert clock.flow_time(whole) == pytest.approx(5.0)
    assert dormant.wait(batch, threshold, enough=0.3 * whole)[0] == 0.3 * whole
    assert dormant.wait(batch, threshold, enough=1.1 * whole)[0] == whole
    assert np.isinf(dormant.wait(batch, threshold, enough=0.3 * whole, stop=0.2 * whole)[0])
    still = replace(batch, residual=np.zeros(2))  # nobody grows: that is no wait of any length
    assert np.isinf(dormant.wait(still, threshold, enough=0.3 * whole)[0])


def test_a_wait_that_is_long_enough_takes_fewer_steps():
    batch, threshold = turning()
    steps = []
    for part in (1.0, 0.2):
        stats = {}
        whole, _ = dormant.wait(batch, threshold)
        dormant.wait(batch, threshold, enough=part * 1.01 * whole, stats=stats)
        steps.append(stats["dormant_steps"])
    assert steps[1] < 0.6 * steps[0]
