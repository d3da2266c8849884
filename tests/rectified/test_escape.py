"""Can a network still learn: the published spurious ends, optimal ones, and drops still to come."""

import json

import numpy as np
import pytest
from rectified_cases import M4, T3, linear_residual
from scipy.integrate import quad
from scipy.optimize import brentq

import agf
from agf import registry
from agf.rectified.escape import _free, judge
from agf.rectified.pulls import beyond, pulls_of
from agf.rectified.samples import Samples
from agf.results.network import Neurons
from agf.shell.main import main

T3A = np.array([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]]), np.array([1.0, 0.1, 1.1])


def balanced(width, scale, seed=0):
    rng = np.random.default_rng(seed)
    w, sign = rng.standard_normal((width, 2)), rng.choice([-1.0, 1.0], width)
    return scale / np.sqrt(width) * np.column_stack([w, sign * np.linalg.norm(w, axis=1)])


def line(X, y):
    """One neuron that is the least-squares fit."""
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    return np.append(beta / np.linalg.norm(beta), 1.0)[None] * np.sqrt(np.linalg.norm(beta))


@pytest.mark.parametrize(("data", "utility"), [(T3, 0.0152894), (T3A, 0.0475)])
def test_trained_from_small_weights_the_published_points_end_spurious(data, utility):
    p = agf.TwoLayer(*data, width=20)
    flow = agf.flow(p, agf.Init.from_params(balanced(20, 1e-3)), t_max=200.0, rtol=1e-5)
    found = agf.escape(p, flow)
    assert found.verdict == "spurious"
    assert found.utility == pytest.approx(utility, abs=1e-6)
    assert found.reached < 1e-3 * found.utility
    assert found.gain == pytest.approx(1.0, abs=0.02)  # 1 - O(size^2) of the neuron that was added
    assert found.least_squares
    assert len(found.groups) == 1
    assert found.level == pytest.approx(np.mean(linear_residual(*data) ** 2) / 2, rel=1e-5)
    assert "none of the 20 neurons ever points there" in found.sentence


@pytest.mark.parametrize("loss", ["logistic", "exponential", "half-squared"])
def test_where_nothing_is_learned_yet_small_neurons_do_not_follow(loss):
    # counted as one that follows, a neuron of the best direction left it no self-interaction: a drop of 1e13
    rng = np.random.default_rng(3)
    X = rng.standard_normal((13, 1))
    p = agf.TwoLayer(X, np.where(X[:, 0] > 0.3, 1.0, -1.0), width=3, loss=loss, kink=0)
    theta = 1e-4 * np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    found = agf.escape(p, theta)
    assert found.verdict == "leaving"
    assert 0.0 < found.best.drop <= found.level
    assert found.gain == pytest.approx(1.0, abs=0.02)
    flow = agf.flow(p, agf.Init.from_params(theta), t_max=4 * found.time)
    half = np.interp(-(flow.losses[0] - 0.5 * found.best.drop), -flow.losses, flow.times)
    assert half == pytest.approx(found.time, rel=0.3)  # to first order in the log of the norm


def test_trained_from_large_weights_three_points_are_fitted_at_any_width():
    p = agf.TwoLayer(*T3, width=20)
    found = agf.escape(p, agf.flow(p, agf.Init.from_params(balanced(20, 1.0)), t_max=500.0, rtol=1e-5))
    assert found.verdict == "optimal"
    assert np.isnan(found.gain)
    assert "optimal at any width" in str(found)


def test_a_spurious_end_is_known_before_training():
    p = agf.TwoLayer(*T3, width=6)
    stairs = agf.predict(p, agf.Init.from_params(balanced(6, 1e-6)), mode="agf")
    found = agf.escape(p, stairs)
    assert found.verdict == "spurious"
    assert found.utility == pytest.approx(0.0152894, rel=2e-3)


def test_an_exact_fit_by_a_line_is_spurious_and_a_neuron_in_the_right_direction_leaves():
    p = agf.TwoLayer(*T3, width=3, kink=0)
    fit = line(*T3)
    assert agf.escape(p, fit).verdict == "spurious"
    help_ = 1e-6 * np.array([[2.0, 1.0, np.sqrt(5.0)]])  # towards (2, 1) / sqrt 5, a > 0
    found = agf.escape(p, np.vstack([fit, help_]))
    assert found.verdict == "leaving"
    assert found.neuron == 1
    q = agf.TwoLayer(*T3, width=2)  # rounded: the neuron slides along the second sample's kink
    flow = agf.flow(q, agf.Init.from_params(np.vstack([fit, help_])), t_max=600.0, rtol=1e-5)
    middle = 0.5 * (0.0875213675 + flow.losses[-1])
    assert found.time == pytest.approx(flow.time_at(middle), rel=0.1)  # first order: both neurons turn meanwhile


def test_a_neuron_that_points_the_wrong_way_does_not_help():
    p = agf.TwoLayer(*T3, width=3, kink=0)
    wrong = 1e-6 * np.array([[2.0, 1.0, -np.sqrt(5.0)], [0.1, -1.0, 1.0]])  # a < 0 there; and a dead one
    assert agf.escape(p, np.vstack([line(*T3), wrong])).verdict == "spurious"


def test_two_neurons_that_interpolate_are_optimal():
    theta = np.array([[-4.4, -2.2, 1.0], [1.12, 0.66, 1.0]])
    found = agf.escape(agf.TwoLayer(*T3, width=2, kink=0), theta)
    assert found.verdict == "optimal"
    assert found.level == pytest.approx(0.0, abs=1e-25)
    assert len(found.groups) == 2


def test_the_start_is_left_by_whom_points_somewhere_and_by_no_dead_neuron():
    p = agf.TwoLayer(*M4, width=2, kink=0)
    assert agf.escape(p, agf.predict(p, p.init(1e-6), mode="agf"), drop=0).verdict == "leaving"
    dead = agf.TwoLayer(*T3, width=1, kink=0)
    found = agf.escape(dead, agf.flow(dead, agf.Init.from_params([[1e-6, -1e-5, 1e-6]]), t_max=10.0))
    assert found.verdict == "spurious"
    assert found.reached == 0.0
    assert found.groups == ()


def test_a_neuron_in_the_middle_of_its_drop_is_not_at_rest_however_little_the_residual_moves():
    # orthogonal inputs: the first is fitted, the neuron of the second has 1.1e-3 of its norm and grows to .035
    p = agf.TwoLayer(np.eye(3)[[0, 1, 2, 2]], [1.0, 1.2e-3, 0.1, -0.1], width=2, kink=0)
    found = agf.escape(p, np.array([[1.0, -5e-6, -1e-6, 1.0], [-5e-6, 1.1e-3, -1e-6, 1.1e-3]]))
    assert found.verdict == "leaving"
    assert found.reached == pytest.approx(1.2e-3 / 8, rel=1e-2)


def test_the_next_drop_after_the_first_of_four_points():
    p = agf.TwoLayer(*M4, width=12)
    stairs = agf.predict(p, agf.Init.from_params(balanced(12, 1e-5, seed=1)), max_drops=2, rtol=1e-4, mode="agf")
    found = agf.escape(p, stairs, drop=1)
    if len(stairs.drops) > 1:
        assert found.verdict == "leaving"
        assert stairs.times[1] + found.time == pytest.approx(stairs.times[2], rel=0.15)


def test_a_network_that_has_learned_nothing_is_judged_as_the_empty_one():
    problem = agf.TwoLayer(*T3, width=6, kink=0)
    theta = problem.init(1e-5, seed=0, kind="balanced").params()
    found = agf.escape(problem, theta)
    assert found.verdict == "leaving"
    assert found.landscape.best.utility == pytest.approx(0.357484, abs=1e-6)


def test_small_neurons_on_which_all_samples_cancel_do_not_leave_by_what_they_add_themselves():
    problem = agf.TwoLayer([[1.0, 0.0], [1.0, 0.0], [0.5, 1.0]], [1.0, -1.0, 0.5], width=6)
    theta = problem.init(1e-6, seed=0, kind="balanced").params()
    assert agf.escape(problem, theta).verdict == "spurious"


def test_a_network_in_motion_says_so():
    p = agf.TwoLayer(*T3, width=1, kink=0)
    found = agf.escape(p, np.array([[-0.2, 0.5, 0.5]]))
    assert found.verdict == "moving"
    assert found.motion > 0.05


def small_net(seed, t_max=None):
    """Three balanced neurons on six or eight samples, and their flow."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    X = np.column_stack([rng.uniform(-1, 1, n), np.ones(n)]) if seed % 2 else rng.standard_normal((n, 2))
    problem = agf.TwoLayer(X, rng.standard_normal(n), width=3)
    return problem, agf.flow(problem, problem.init(1e-2, seed=seed, kind="balanced"), t_max=t_max, snapshots=300)


def at_time(flow, t):
    """The neurons of a flow at the snapshot next to t."""
    k = int(np.argmin(np.abs(flow.snapshot_times - t)))
    whole = np.isfinite(flow.log_norms[k])
    return Neurons(flow.directions[k], flow.log_norms[k], whole, "then", flow.snapshot_times[k], flow.init)


def test_a_balanced_neuron_that_shrinks_for_ever_does_not_come_back_by_what_steps_have_added():
    problem, flow = small_net(16)
    found = agf.escape(problem, flow)
    assert (found.verdict, found.reached) == ("spurious", 0.0)
    assert found.now == flow.times[-1]
    assert agf.escape(problem, flow.params(-1)).verdict == "leaving"  # as weights of no known start they are unbalanced


def test_what_neurons_reach_of_a_residual_in_motion_counts_if_it_is_more_than_what_still_moves():
    X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]]), np.array([1.0, 0.03, 1.0, -0.5])
    problem = agf.TwoLayer(X, y, width=2, kink=0)
    small = 1e-4 * np.array([-0.5, 1.0, 1.0])
    verdicts = [agf.escape(problem, np.array([[1.0, -0.5, 1.0 - off], small])) for off in (0.052, 0.01)]
    assert [found.verdict for found in verdicts] == ["moving", "leaving"]
    for found, off in zip(verdicts, (0.052, 0.01), strict=True):
        assert found.reached == pytest.approx(0.03 / 8)  # of the second target
        assert found.utility == pytest.approx(0.5 * 2**0.5 / 8)  # of the last two
        assert found.motion == pytest.approx(off / np.linalg.norm([off, 0.03, 1.0, 0.5]))
        assert (found.reached < found.motion * found.utility) == (off == 0.052)


def test_the_next_drop_is_due_at_a_flow_time_and_the_residual_says_by_how_much_it_moves():
    problem, flow = small_net(39, t_max=100.0)
    first = judge(problem, at_time(flow, 1.0))
    assert first.verdict == "leaving"
    assert first.now + first.time == pytest.approx(flow.drops[0].time, rel=0.3)
    assert f"at t = {first.now + first.time:.4g}" in first.sentence
    last = agf.escape(*small_net(16))
    assert last.verdict == "spurious"
    assert ("while its residual still moves" in last.sentence) == (last.motion > 1e-3)


@pytest.mark.parametrize("name", registry.names())
def test_any_problem_can_be_asked(name):
    example = registry.find(name).example()
    if name == "relu":
        example = {"X": example["X"][:60, 20:26], "Y": example["Y"][:60], "width": 3}
    p = agf.problem(name, **example)
    found = agf.escape(p, agf.predict(p, p.init(1e-3 if p.degree > 2 else 1e-6), max_drops=1, mode="agf"), starts=5)
    assert found.verdict in ("optimal", "spurious", "leaving", "moving")
    assert json.dumps(found.verdict)


def test_coordinates_keep_their_places_and_those_that_are_active_are_no_way_out():
    # three orthogonal columns, the first learned: read as rows 0 to k it was another network, and what rounding leaves
    # of the residual of an active coordinate was a drop of 1e9 that "would help most"
    X, y = np.sqrt(3) * np.eye(3)[:, [2, 1, 0]], np.array([0.1, 1.0, 0.6])
    p = agf.problem("diagonal-linear", X=X, y=y)
    stairs = agf.predict(p, p.init(1e-8), conditioning=False)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[1], [0], [2]]
    first, last = agf.escape(p, stairs, drop=1), agf.escape(p, stairs)
    assert first.verdict == "leaving"
    assert first.level == pytest.approx(stairs.levels[1], rel=1e-6)
    assert (first.best.neuron, first.neuron) == (0, 0)
    assert first.best.drop == pytest.approx(stairs.levels[1] - stairs.levels[2], rel=1e-3)
    assert stairs.times[1] + first.time == pytest.approx(stairs.times[2], rel=0.05)
    assert last.verdict == "optimal"
    end = stairs.drops[-1]
    whole = agf.landscape(p, (1 - 1e-7) * end.directions * np.exp(end.log_norms)[:, None])  # all but at rest
    assert [one.drop for one in whole.criticals] == [np.inf] * 3
    assert str(whole).count("active") == 3


def test_a_component_that_active_neurons_make_is_no_way_out():
    # all components are learned: what rounding leaves of the residual had utility 1.7e-7, and a small neuron there was
    # "measured / predicted -104"
    p = agf.problem("linear-attention", **registry.find("linear-attention").example())
    found = agf.escape(p, agf.predict(p, p.init(1e-3), mode="agf"))
    assert found.verdict == "optimal"
    assert np.isnan(found.gain)


def test_bad_requests_are_refused():
    p = agf.TwoLayer(*T3, width=2)
    linear = agf.problem("linear", **registry.find("linear").example())
    stairs = agf.predict(linear, linear.init(1e-6), mode="agf")
    with pytest.raises(agf.RequestError, match="the result is of problem 'linear'"):
        agf.escape(p, stairs)
    with pytest.raises(agf.RequestError, match="there is no drop 99"):
        agf.escape(linear, stairs, drop=99)
    with pytest.raises(agf.RequestError, match="`drop` names a drop of a result"):
        agf.escape(p, line(*T3), drop=1)
    with pytest.raises(agf.RequestError, match="is not a problem"):
        agf.escape("relu", line(*T3))
    with pytest.raises(agf.RequestError, match=r"`theta` is a start. .* Pass its .params\(\)."):
        agf.escape(p, p.init(1e-3))
    with pytest.raises(agf.RequestError, match=r"name of a file. .* Pass what agf.load reads from it."):
        agf.escape(p, "run.npz")
    with pytest.raises(agf.RequestError, match=r"`theta` is a run. .* Pass its .params\(-1\)"):
        agf.landscape(p, agf.flow(p, p.init(1e-3), t_max=1.0))


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("t3.npz", X=T3[0], Y=T3[1])
    np.savez("w.npz", theta=balanced(4, 1e-4))
    words = ["predict", "two-layer", "--data", "t3.npz", "--width", "4", "--init", "w.npz", "-o", "run.npz", "--quiet"]
    assert main(words) == 0
    assert main(["escape", "run.npz", "--json", "--plot", "e.png"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["verdict"] == "spurious"
    assert "none of the 4 neurons ever points there" in shown.err
    assert main(["escape", "run.npz", "--drop", "0"]) == 0
    assert "leaving" in capsys.readouterr().err
    assert main(["escape", "run.npz", "--drop", "8"]) == 2


def test_predictions_and_flows_end_with_the_verdict():
    p = agf.TwoLayer(*T3, width=6)
    start = agf.Init.from_params(balanced(6, 1e-6))
    for run in (agf.predict(p, start, mode="agf"), agf.flow(p, start, t_max=200.0, rtol=1e-5)):
        assert run.notes[-1].startswith("Can it still learn? Spurious: a > 0 at ")
    assert not any("Can it still learn" in note for note in agf.flow(p, start, t_max=1e-3).notes[:-1])
    other = agf.TwoLayer(*T3, width=3, activation="tanh")
    assert not any("Can it still learn" in note for note in agf.predict(other, other.init(1e-6), mode="agf").notes)


#: Six and five samples on which a group of neurons ends on a kink.
ON_KINKS = [
    (
        [[-1.26, 1.51], [1.35, 0.78], [0.26, -0.31], [1.46, 1.96], [1.8, 1.32], [0.36, -1.21]],
        [0.0, 0.66, -1.29, 0.4, 0.43, 0.7],
    ),
    ([[0.12, 0.19], [0.2, -0.05], [-0.57, 1.67], [-1.02, -1.17], [-0.68, 0.25]], [0.63, -0.45, 0.02, -0.33, 0.39]),
]


@pytest.mark.parametrize("seed", [4, 8])
def test_two_neurons_at_the_edges_of_the_cone_that_is_fitted_are_at_rest(seed):
    """Each in the rounding of a kink: told apart by what that adds, a network without a gradient was said to move, or
    to leave, and its flow went on for ever."""
    rng = np.random.default_rng(seed)
    X, leak, kink = rng.standard_normal((8, 3)), 0.3, 1e-3
    across = np.linalg.pinv(X[:2])  # X[:2] @ across = 1
    w = np.linalg.svd(X[:2])[2][2] + 0.1 * across.T  # row k is on the kink of the other sample
    w /= np.linalg.norm(w, axis=1)[:, None]
    w += (1 - 1e-9) * kink * np.sqrt(np.mean(np.sum(X**2, axis=1))) * across.T[::-1]  # at the edge of its rounding
    heights = w @ X.T
    assert (heights[0] * heights[1] > 0).all()
    slopes = np.where(heights[0] > 0, 1.0, leak)[:, None] * X
    r = rng.standard_normal(8)
    r -= slopes @ np.linalg.lstsq(slopes, r, rcond=None)[0]
    y = r + np.linalg.norm(w, axis=1) @ np.maximum(heights, leak * heights)
    p = agf.TwoLayer(X, y, width=2, activation="leaky-relu", leak=leak, kink=kink)
    theta = np.column_stack([w, np.linalg.norm(w, axis=1)])
    assert np.abs(p.loss_grad(theta, np.arange(2))[1]).max() < 1e-5
    found = agf.escape(p, theta)
    assert found.motion < 1e-9
    assert found.verdict == "spurious"


@pytest.mark.parametrize(("X", "y"), ON_KINKS)
def test_members_of_a_group_that_steps_left_side_by_side_on_a_rounded_kink_are_no_way_out(X, y):
    """Their differences were taken for a direction that the group can make, so that these ends were "optimal", and the
    first flow ended before a drop that takes two thirds of the loss."""
    problem = agf.TwoLayer(X, y, width=6)
    init = problem.init(1e-4, seed=0, kind="balanced")
    flow, stairs = agf.flow(problem, init), agf.predict(problem, init)
    assert [drop.after for drop in flow.drops] == pytest.approx(list(stairs.levels[1:]), rel=1e-4)
    for run in (flow, stairs):
        end = agf.escape(problem, run)
        assert end.verdict == "spurious"
        assert end.gain == pytest.approx(1.0, abs=0.01)  # a small neuron there lowers the loss


@pytest.mark.parametrize("loss", ["half-squared", "logistic"])
def test_what_neurons_cost_beside_active_ones_is_the_problem_s_own_where_no_kink_is_near(loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)), np.sign(rng.standard_normal(8))
    problem = agf.TwoLayer(X, y, loss=loss, width=3, kink=0)
    large, directions = rng.standard_normal((2, 4)), rng.standard_normal((3, 4))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    samples = Samples.of(problem)
    own = problem.self_interaction(directions, np.arange(3), large, np.arange(2))
    assert beyond(samples, large, *pulls_of(samples, large))(directions, np.arange(3)) == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("kink", [1e-3, 0.0])
def test_a_small_neuron_that_shrinks_comes_back_with_the_other_sign_beside_samples_that_nobody_fits(kink):
    # what it would have to be to stand was so little of the residual that it was taken to stand: settled at once
    X, y, size = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]]), np.array([1.0, 0.05, 1.0, -1.0]), 0.015
    p = agf.TwoLayer(X, y, width=2, kink=kink)
    theta = np.array([[1.0, -0.5, 1.0], [-0.5 * size, size, -0.9 * size]])  # a fit, and one that shrinks to |a| < |w|
    found, flow = agf.escape(p, theta), agf.flow(p, agf.Init.from_params(theta))

    def made(z):  # of the second target, w a of the neuron: (w + a) e^z and (w - a) e^-z, z' = residual / 4
        return ((0.1 * size) ** 2 * np.exp(2 * z) - (1.9 * size) ** 2 * np.exp(-2 * z)) / 4

    half = brentq(lambda z: made(z) - 0.05 * (1 - 0.5**0.5), 0.0, 20.0)
    exact = 4 * quad(lambda z: 1 / (0.05 - made(z)), 0.0, half)[0]
    assert (found.verdict, found.neuron) == ("leaving", 1)
    assert found.time == pytest.approx(exact, rel=0.1)  # to first order
    assert flow.losses[-1] == pytest.approx(0.25, rel=1e-5)
    assert np.interp(-0.25 - 0.05**2 / 16, -flow.losses, flow.times) == pytest.approx(exact, rel=1e-4)


def test_a_neuron_that_is_inactive_beside_a_rounded_kink_is_dead():
    p = agf.TwoLayer([[1.0, 0.0], [0.0, 1.0]], [-1.0, 1.0], width=1)
    theta = np.array([[0.9e-6 * p.layer.reach, -1.0, -1.0]])  # beyond a sharp kink it would be turned to the sample
    assert agf.escape(p, theta).verdict == "spurious"
    assert agf.flow(p, agf.Init.from_params(theta), t_max=100.0).losses[-1] == pytest.approx(0.5, abs=1e-9)


def test_neurons_that_stand_are_not_followed_by_what_their_rest_is_off():
    # one a layer beside a kink came across it by rounding of the field: due for ever later, and the flow was quiet
    X = np.array([[1.186, -1.614], [0.925, 0.012], [-0.295, 1.584], [-1.106, -1.715], [0.289, -0.265], [0.003, 0.005]])
    p = agf.TwoLayer(X, [-0.959, 0.028, -0.851, 0.102, 0.918, 1.238], width=5)
    flow = agf.flow(p, p.init(1e-2, seed=457))
    assert flow.status is agf.Status.SETTLED
    assert agf.escape(p, flow).verdict == "spurious"


def test_a_neuron_in_a_slow_mode_that_leaves_its_cone_is_not_at_rest():
    """The flow was settled at 493 with .2232 of the first loss, of which a neuron that crosses a wall takes .07."""
    rng = np.random.default_rng([7003, 480])
    rng.integers(4, 13), rng.integers(2, 4), rng.integers(2, 7), rng.integers(-4, -1), rng.integers(1000)
    X, y = rng.standard_normal((8, 2)).round(3), rng.standard_normal((8, 1)).round(3)
    problem = agf.TwoLayer(X, y, width=4)
    flow = agf.flow(problem, problem.init(1e-4, seed=441))
    k = int(np.searchsorted(flow.snapshot_times, 400.0))
    theta = flow.params(k).copy()
    for _ in range(int((5000.0 - flow.snapshot_times[k]) / 0.1)):  # descent of our own, from before it ended
        heights = theta[:, :2] @ X.T
        residual = (y[:, 0] - theta[:, 2] @ np.maximum(heights, 0.0)) / 8
        pull = (heights > 0) * residual
        theta += 0.1 * np.c_[theta[:, 2:] * (pull @ X), np.sum(pull * heights, axis=1)]
    own = 0.5 * np.mean((y[:, 0] - theta[:, 2] @ np.maximum(theta[:, :2] @ X.T, 0.0)) ** 2)
    assert flow.losses[-1] == pytest.approx(own, rel=1e-3)
    assert flow.losses[-1] < 0.16 * flow.losses[0]
    before = agf.escape(problem, flow.params(int(np.searchsorted(flow.snapshot_times, 800.0))))
    assert before.verdict == "moving"
    assert "to where a neuron leaves its cone" in before.sentence


@pytest.mark.parametrize(("bias", "kink"), [("output", 0.0), ("output", 1e-4), ("none", 0.0)])
def test_a_neuron_next_to_a_kink_that_it_crosses_is_not_at_rest(bias, kink):
    X = np.array([[-2.0, -2.0], [2.0, 1.0], [-1.0, -3.0], [2.0, 2.0], [0.0, -1.0], [2.0, 4.0]])
    y = np.array([-4.0, -0.9, -1.4, 1.26, -1.0, 0.4]) + (1.2 if bias == "output" else 0.0)

    def fit(active):
        rows = np.where(np.isin(np.arange(6), active)[:, None], X, 0.0)
        rows = np.column_stack([rows, np.ones(6)]) if bias == "output" else rows
        return rows, np.linalg.pinv(rows)

    # the least loss of the cone where it starts is a little beyond the kink of the fifth sample
    _, inverse = fit([0, 2, 4])
    off = X[4] @ inverse[:2]
    y[4] += (1e-4 - off @ y) / off[4]
    best = inverse @ y
    size = np.sqrt(np.linalg.norm(best[:2]))
    theta = np.array([[*(-best[:2] / size - [0.0, 0.03]), -size]])
    theta = np.vstack([theta, [1.0, 1.0, best[2] + 0.01]]) if bias == "output" else theta
    p = agf.TwoLayer(X, y, width=1, bias=bias, kink=kink)
    flow = agf.flow(p, agf.Init.from_params(theta))
    rows, inverse = fit([0, 2])
    r = y - rows @ inverse @ y
    assert flow.status is agf.Status.SETTLED
    assert flow.losses[-1] == pytest.approx(r @ r / 12, rel=1e-3)


@pytest.mark.parametrize("loss", ["half-squared", "logistic"])
def test_an_output_bias_is_part_of_the_large_network_and_no_neuron(loss):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((14, 2))
    y = rng.standard_normal(14) if loss == "half-squared" else np.sign(rng.standard_normal(14))
    p = agf.TwoLayer(X, y, width=2, bias="output", loss=loss, kink=0)
    theta = np.array([[0.5, 0.2, 0.3], [-0.1, 0.4, -0.4], [1.0, 0.0, 0.7]])
    found = agf.landscape(p, theta)
    assert found.complete
    f = np.maximum(X @ theta[:2, :2].T, 0.0) @ theta[:2, 2] + 0.7
    r = y - f if loss == "half-squared" else y / (1.0 + np.exp(y * f))
    alone = agf.landscape(agf.TwoLayer(X, y, width=2, loss=loss, kink=0), residual=r)
    assert [c.utility for c in found.criticals] == pytest.approx([c.utility for c in alone.criticals], rel=1e-12)
    # to first order the others follow, and the bias with them: what a neuron costs is what they cannot make
    curved = np.ones(14) if loss == "half-squared" else np.sqrt(np.exp(f) / (1.0 + np.exp(f)) ** 2)
    made = np.column_stack([*((X @ w[:2] > 0)[:, None] * X for w in theta[:2]), np.ones(14)]) * curved[:, None]
    for one in (one for one in found.criticals if one.grows):
        out = curved * one.direction[2] * np.maximum(X @ one.direction[:2], 0.0)
        left = out - made @ np.linalg.lstsq(made, out, rcond=None)[0]
        drop = one.utility**2 / (4 * (left @ left / 28))
        more = loss == "half-squared" and 2 * drop > found.level  # than there is to lose: the others make it
        assert one.drop == pytest.approx(np.inf if more else drop, rel=1e-6)
    judged = agf.escape(p, theta)
    assert judged.width == 2
    assert judged.level == pytest.approx(p.loss_grad(theta, np.arange(3))[0], rel=1e-12)


def test_a_network_that_is_its_output_bias_alone_is_judged_at_the_mean():
    X, y = np.array([[-1.0], [1.0], [2.0]]), np.array([1.0, -2.0, 4.0])
    p = agf.TwoLayer(X, y, width=1, bias="output", kink=0)
    found = agf.escape(p, np.array([[0.0, 0.0], [1.0, 1.0]]))
    best = agf.landscape(p, residual=y - y.mean()).best
    assert found.verdict == "spurious"
    assert found.utility == pytest.approx(best.utility, rel=1e-12)
    assert found.motion == pytest.approx(0.0, abs=1e-12)


def test_neurons_at_rest_beside_rounded_kinks_are_not_said_to_leave_for_being_off_the_sharp_ones():
    X = [[0, 0, 0], [-1, 2, 1], [2, 1, -1], [2, 2, 1], [2, 1, 1], [-2, 0, -2], [0, -2, -2]]
    problem = agf.TwoLayer(X, [1, -2, -2, 2, -2, -1, -2], activation="leaky-relu", width=2, leak=0.1)
    theta = np.array(
        [[1.027044452, -0.985038228, -0.08047977, -1.42537153], [-1.220039041, -0.167910829, 0.785356963, -1.460655193]]
    )
    assert np.abs(problem.loss_grad(theta, np.arange(2))[1]).max() < 1e-8
    found = agf.escape(problem, theta)
    assert found.motion < 1e-8  # what rounding makes of the kinks is none
    assert found.verdict == "spurious"
    moved = theta * [1.0, 1.0, 1.0, 0.997]
    assert agf.flow(problem, agf.Init.from_params(moved), t_max=50.0).losses[-1] == pytest.approx(found.level, rel=1e-6)
    assert "still moves by 0.48 %" in agf.escape(problem, moved).sentence


def test_samples_on_one_line_hold_a_neuron_by_what_they_weigh_together_and_one_at_zero_not_at_all():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    samples = Samples.of(agf.TwoLayer(X, np.ones(4), activation="leaky-relu", width=1, leak=0.1))
    neuron = np.array([[0.0, 1.0, 1.0]])
    for weights, free in [([1, 0, 0, 0], False), ([0, 1, -2, 0], False), ([0, 2, -1, 0], True), ([0, 1, -1, 0], False)]:
        assert _free(samples, neuron, np.array(weights, dtype=float)) == [free]
