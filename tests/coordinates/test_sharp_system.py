"""Flows with sharp kinks slide along them: against the dormant phase in closed form, and its known limits."""

from __future__ import annotations

import numpy as np
import pytest

import agf
from agf.coordinates.sharp_system import SharpSystem

M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]))


def start(degrees, sign=1.0, alpha=1e-6):
    t = np.deg2rad(degrees)
    return agf.Init.from_params(alpha * np.array([[np.cos(t), np.sin(t), sign]]))


def test_a_flow_slides_along_a_sharp_kink_to_the_extremal_vector_and_on_to_its_level():
    problem, init = agf.TwoLayer(*M4, width=1, kink=0), start(-20.0)
    exact = agf.align(problem, init)
    flow = agf.flow(problem, init, t_max=30.0)
    directions, log_norms = exact.at(30.0)
    assert flow.directions[-1] == pytest.approx(directions, abs=1e-8)
    assert flow.log_norms[-1] == pytest.approx(log_norms, abs=2e-6)  # what the neuron itself takes off the residual
    assert agf.flow(problem, init).losses[-1] == pytest.approx(0.305, abs=1e-6)


def test_many_neurons_in_space_follow_the_closed_form_through_their_events():
    rng = np.random.default_rng(1)
    problem = agf.TwoLayer(rng.standard_normal((12, 3)), rng.standard_normal(12), width=8, kink=0)
    init = problem.init(1e-9, seed=0, kind="balanced")
    exact = agf.align(problem, init)
    flow = agf.flow(problem, init, t_max=5.0)
    assert (exact.event_times < 5.0).sum() > 20  # crossings and slides
    directions, log_norms = exact.at(5.0)
    # the last step before every event is cut by the tolerance only: 1e-8 a step, times what the events make of it
    assert np.abs(flow.directions[-1] - directions).max() < 1e-5
    assert np.abs(flow.log_norms[-1] - log_norms).max() < 1e-5


def test_a_neuron_is_let_go_where_one_side_pulls_it_away():
    # slides on the second sample until the first neuron has learned what held it there: the loss ends at its minimum
    problem = agf.TwoLayer(*M4, width=2, kink=0)
    theta = np.concatenate([start(-20.0).params(), start(170.0, alpha=1e-4).params()])
    flow = agf.flow(problem, agf.Init.from_params(theta), t_max=400.0)
    rounded = agf.flow(agf.TwoLayer(*M4, width=2, kink=1e-4), agf.Init.from_params(theta), t_max=400.0)
    assert flow.losses[-1] == pytest.approx(rounded.losses[-1], rel=1e-3)


def test_a_problem_without_known_kinks_keeps_its_polar_coordinates():
    assert agf.TwoLayer(*M4).kink_normals() is None
    assert agf.TwoLayer(*M4, activation="tanh", kink=0).kink_normals() is None
    assert np.array_equal(agf.TwoLayer(*M4, kink=0).kink_normals(), M4[0])


def test_steps_that_stop_short_of_a_kink_end_on_it():
    # one of these neurons was approached from one side only, in steps of 1e-8, for ever
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((7, 4)), rng.standard_normal(7)
    problem = agf.TwoLayer(X, y, width=15, kink=0)
    init = problem.init(1e-6, seed=4, kind="balanced")
    flow = agf.flow(problem, init, t_max=8.0)
    assert flow.stats["steps"] < 2_000
    exact = agf.align(problem, init).at(8.0)[0]
    assert flow.directions[-1] == pytest.approx(exact, abs=1e-4)  # what crossings leave grows beside saddles


def test_steps_that_chatter_beside_a_kink_and_never_over_it_end_on_it():
    # every step began and ended 2e-8 below the kink and met it in between: 200,000 gradients to t = 100
    rng = np.random.default_rng(1014)
    n, d = int(rng.integers(6, 40)), int(rng.integers(1, 5))
    X, _, y = rng.standard_normal((n, d)), rng.standard_normal(3 * d), rng.standard_normal(n)
    problem = agf.TwoLayer(X, y, width=int(rng.integers(1, 8)), kink=0)
    init = problem.init(1e-11, seed=14)
    flow = agf.flow(problem, init, t_max=110.0)
    assert flow.stats["evaluations"] < 10_000
    directions, log_norms = agf.align(problem, init).at(110.0)
    assert flow.directions[-1] == pytest.approx(directions, abs=1e-6)
    assert flow.log_norms[-1] == pytest.approx(log_norms, abs=1e-4)


def test_balanced_neurons_keep_their_sign_however_long_they_shrink():
    # all opposed: each stands at a saddle of the sphere, which rounding would leave within 40 growth times
    X, y = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    for kink in (0, None):
        problem = agf.TwoLayer(X, y, width=3, kink=kink)
        init = agf.Init.from_params(1e-6 * np.array([[1, -1], [-1, -1], [1, 1.0]]))
        flow = agf.flow(problem, init, t_max=400.0)
        assert np.sign(flow.directions[-1]).tolist() == np.sign(init.directions).tolist()
        assert flow.log_norms[-1][1] < init.log_norms[1] - 100.0
        assert not flow.notes or "drifted" not in " ".join(flow.notes)
        assert flow.losses[-1] == pytest.approx(0.25, abs=1e-6)


def test_a_flow_ends_where_no_neuron_will_ever_grow():
    # two groups of different size: the smaller was taken for dormant neurons, growing on what it has fitted itself
    X, y = np.array([[2.0], [-0.5]]), np.array([1.0, -0.4])
    problem = agf.TwoLayer(X, y, width=3, kink=0)
    flow = agf.flow(problem, agf.Init.from_params(1e-6 * np.array([[1, 1], [1, 1], [-1, -1.0]])))
    assert flow.status.word == "settled"
    assert flow.losses[-1] < 1e-6


def test_a_relu_of_one_input_is_no_line():
    # all weights of a random draw may be on one side of the only kink, where it is one
    X, y = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    for kink in (None, 0):
        problem = agf.TwoLayer(X, y, width=2, kink=kink)
        flow = agf.flow(problem, agf.Init.from_params(1e-3 * np.array([[1, 1], [-1, 1.0]])))
        assert flow.losses[-1] < 1e-5


@pytest.mark.parametrize("kink", [None, 0.0])
def test_a_neuron_whose_input_weights_end_at_zero_stays_there_and_the_others_go_on_without_it(kink):
    # Samples on both sides of the origin, all above what the network makes of them: a neuron of negative output weight
    # shrinks wherever it points, and no way leads on from where all kinks meet. The rest is a network of its own.
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    y = np.array([[1.0], [2.0], [1.5], [1.2]])
    theta = 1e-3 * np.array([[0.3, 0.2, -1.0], [0.5, 0.4, 0.7], [-0.5, 0.3, 0.7], [0.3, -0.6, 0.8]])
    whole, rest = (
        agf.flow(agf.TwoLayer(x, y, "relu", width=rows.shape[0], kink=kink), agf.Init.from_params(rows))
        for rows in (theta, theta[1:])
    )
    assert np.all(whole.params(-1)[0, :2] == 0.0)
    conserved = np.sum(theta[0] ** 2 * [-1.0, -1.0, 1.0])
    assert whole.params(-1)[0, 2] == pytest.approx(-np.sqrt(conserved), rel=1e-3)  # to which it is kept
    assert [drop.time for drop in whole.drops] == pytest.approx([drop.time for drop in rest.drops], rel=1e-4)
    # it had been followed for ever, in steps of the size of the tolerance (720,000 gradients and no drop)
    assert whole.stats["evaluations"] < 10 * rest.stats["evaluations"]


def test_a_neuron_that_passes_where_all_kinks_meet_goes_on():
    # One input: beyond zero the other samples lead on the same way.
    x, y = np.array([[1.0], [-1.0]]), np.array([[0.5], [-2.0]])
    theta = np.array([[3e-4, -1e-3]])
    flow = agf.flow(agf.TwoLayer(x, y, "relu", width=1), agf.Init.from_params(theta))
    assert flow.params(-1)[0, 0] < 0.0
    assert flow.losses[-1] == pytest.approx(0.25 * 0.5**2, rel=1e-6)


@pytest.mark.parametrize(
    ("seed", "rows", "leak", "neuron"), [(47, 11, 0.1, 7), (60, 6, 0.0, 7), (31, 12, 0.0, 3), (63, 9, 0.1, 0)]
)
def test_neurons_that_slide_to_where_all_kinks_meet_pass_or_stay_as_in_the_dormant_phase(
    seed, rows, leak, neuron, monkeypatch
):
    # 63 shrinks for ever, and its flow would end before
    monkeypatch.setattr("agf.rectified.prospects.prospects", lambda *_: None)
    # 47: let go of its kink there and never came away; 60 and 31: were held at zero, though the far side carries on;
    # 63: stays, and leaky steps took it away from there for ever
    rng = np.random.default_rng(seed)
    rng.choice([2, 2, 3]), rng.integers(3, 14), rng.choice([0, 0.1])
    X, y = rng.standard_normal((rows, 2)), rng.standard_normal(rows)
    options = {"activation": "leaky-relu", "leak": leak} if leak else {}
    many = agf.TwoLayer(X, y, width=8, kink=0, **options).init(1e-7, seed=seed, kind="ball")
    problem = agf.TwoLayer(X, y, width=1, kink=0, **options)
    init = agf.Init.from_params(many.params()[neuron : neuron + 1])
    exact = agf.align(problem, init)
    first = next(time for time, kind, _ in exact.events(0) if kind in ("passes 0", "vanishes"))
    flow = agf.flow(problem, init, t_max=1.2 * first + 0.3)
    assert flow.stats["evaluations"] < 5000
    assert np.abs(flow.directions[-1] - exact.at(1.2 * first + 0.3)[0]).max() < 1e-5


def test_samples_on_one_line_share_a_kink():
    # Neuron and samples as above, but that it comes to the origin along a kink, which two opposite samples have made
    # two: neither could hold it without the other, and steps chattered about them.
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 2.0]])
    problem = agf.TwoLayer(x, np.ones((4, 1)), "relu", width=2, kink=0.0)
    system = SharpSystem(problem, agf.Init.from_params(np.eye(2, 3)))
    assert system._normals[0].shape == (2, 2)


def test_the_loss_falls_at_the_rate_of_the_slide():
    # what led off the kink counted, as much of it as rounding made: 5 % of the rate, and curves were halved without end
    problem = agf.TwoLayer(*M4, width=8, kink=0)
    flow = agf.flow(problem, problem.init(1e-4, seed=0, kind="balanced"))
    assert_rates(flow, 26.0, 60.0, 0.01)  # two drops, in which neurons slide
    assert flow.stats["evaluations"] < 6000  # 13,147, three in four of them for the curve


def test_the_loss_within_a_step_that_ends_a_slide_is_that_of_the_slide():
    # the velocity past the end was taken for that of the step, which left the kink inside: the loss rose, and one drop
    # was three
    rng = np.random.default_rng(5)
    problem = agf.TwoLayer(rng.standard_normal((20, 3)), rng.standard_normal(20), width=5, kink=0)
    flow = agf.flow(problem, problem.init(1e-4, seed=0, kind="balanced"), t_max=90.0)
    assert_rates(flow, 66.0, 90.0, 0.1)  # it was up to eight times as steep; walls are crossed within steps


def assert_rates(flow, begin, end, rel):
    """Slopes of the curve are those of its points."""
    k = slice(*np.searchsorted(flow.times, (begin, end)))
    times, losses, slopes = flow.times[k], flow.losses[k], flow.slopes[k]
    assert np.diff(losses) / np.diff(times) == pytest.approx(0.5 * (slopes[1:] + slopes[:-1]), rel=rel)


def test_predictions_slide_along_sharp_kinks_too():
    # in steps that chattered about the kink it took 42,013 velocities; the flow halves its drop at 1008.147
    rng = np.random.default_rng(5)
    problem = agf.TwoLayer(rng.standard_normal((20, 3)), rng.standard_normal(20), width=1, kink=0)
    init = problem.init(1e-4, seed=0, kind="balanced")
    stairs = agf.predict(problem, init)
    assert stairs.half_times[1] == pytest.approx(agf.flow(problem, init).drops[0].time, rel=3e-4)
    assert stairs.stats["velocity_evaluations"] < 1000
