"""Modular addition predicted and trained: activations, closed forms of the start, bundles, accuracy, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.modular_addition.problem import ModularAddition
from modular_cases import NOBODY, cosine, six_neurons
from scipy.integrate import quad, solve_ivp

import agf
from agf.shell import arguments as request


def three_wave_time(u, v, w, rate, radius):
    """Time in which (u, v, w) complex, u' = rate conj(v) w, v' = rate conj(u) w, w' = rate u v, reaches norm `radius`.

    The squares grow alike, and Im(u v conj w) is conserved, so y = |u|^2 obeys y' = 2 rate sqrt(y y_v y_w - c^2).
    """
    squares = np.abs([u, v, w]) ** 2
    conserved = (u * v * np.conj(w)).imag
    assert (u * v * np.conj(w)).real > 0  # growing from the start
    gain = (radius**2 - squares.sum()) / 3
    return quad(
        lambda z: 1 / (2 * rate * np.sqrt(np.prod(squares + z) - conserved**2)),
        0,
        gain,
        epsabs=0,
        epsrel=1e-12,
        limit=200,
    )[0]


def test_the_first_activation_is_that_of_the_three_wave_interaction():
    p, size = 7, 3.0
    problem = ModularAddition(p=p, template={1: size}, width=1)
    amplitudes, phases = np.array([0.02, 0.01, 0.015]), (0.4, 0.7, 0.2)
    theta = np.concatenate([a * cosine(problem, 0, (s,))[0] for a, s in zip(amplitudes, phases, strict=True)])[None]
    # utility c a_u a_v a_w cos(...) of cosines of amplitudes a and squared norms a^2 p/2: a_u' = c/(p/2) a_v a_w
    nothing = problem.residual(np.zeros((0, 3 * p)), NOBODY)
    unit = cosine(problem, 0, (0, 0, 0))
    rate = problem.utility(unit, np.arange(1), nothing)[0][0] / (p / 2)
    waves = amplitudes * np.exp(1j * np.array(phases))
    expected = three_wave_time(*waves, rate, 1.0 / np.sqrt(p / 2))
    drop = agf.predict(problem, agf.Init.from_params(theta), threshold="unit", max_drops=1).drops[0]
    assert drop.time == pytest.approx(expected, rel=1e-5)  # rtol of the engine 1e-6 a step


@pytest.mark.parametrize(
    "case",
    [
        {"p": 7},
        {"p": 8, "template": {1: 3.0, 2: 1.0, 4: 2.0}},
        {"group": [2, 3]},
        {"template": [3.0, -1, 2, 0.5, 0, 1]},
    ],
    ids=str,
)
def test_every_dormant_neuron_of_the_start_follows_three_waves_a_frequency(case):
    problem = ModularAddition(width=12, **case)
    init = problem.init(0.05, seed=1)
    theta = init.params()
    waves = problem.three_waves(theta)
    times = waves.time_to(1.0)
    nothing = problem.residual(np.zeros((0, problem.n_params)), NOBODY)

    def velocity(_, y):
        return problem.utility(y[None], np.arange(1), nothing)[1][0]

    for neuron in range(4):
        # the raw flow, none of its structure used; integrated to 1e-11 a step
        path = solve_ivp(velocity, (0, times[neuron]), theta[neuron], method="DOP853", rtol=1e-11, atol=1e-14)
        assert np.linalg.norm(path.y[:, -1]) == pytest.approx(1.0, rel=1e-6)
        middle = np.searchsorted(path.t, 0.9 * times[neuron])
        at = np.full(12, path.t[middle])
        assert waves.squared_norms(at)[neuron] == pytest.approx(np.sum(path.y[:, middle] ** 2), rel=1e-8)
    first = agf.predict(problem, init, threshold="unit", max_drops=1).drops[0]
    assert first.neurons.tolist() == [times.argmin()]
    assert first.time == pytest.approx(times.min(), rel=1e-5)  # rtol of the engine 1e-6 a step


def test_the_closed_form_of_the_dormant_flow_scales_with_the_initialization():
    problem = ModularAddition(p=7, template={1: 2.0, 3: 1.0}, width=5)
    theta = problem.init(1.0, seed=3).params()
    blow_up = problem.three_waves(theta).blow_up
    assert np.isinf(blow_up[:, 1]).all()  # frequency 2 is not in the template
    np.testing.assert_allclose(problem.three_waves(1e-100 * theta).blow_up, 1e100 * blow_up, rtol=1e-9)
    still = problem.three_waves(np.zeros((2, 21)))
    assert np.isinf(still.time_to(1.0)).all()
    with pytest.raises(agf.RequestError, match="two terms"):
        ModularAddition(p=5, terms=3).three_waves(np.zeros((1, 20)))


def test_the_same_network_written_as_samples_gives_the_same_staircase():
    problem = ModularAddition(p=5, template={1: 3.0, 2: 1.5}, width=6)
    encoding = problem.template.translates().T
    pairs = [(a, b) for a in range(5) for b in range(5)]
    samples = agf.TwoLayer(
        [np.concatenate([encoding[a], encoding[b]]) for a, b in pairs],
        [encoding[(a + b) % 5] for a, b in pairs],
        activation="square",
        width=6,
    )
    init = problem.init(1e-3, seed=0)
    ours, theirs = (agf.predict(each, init, max_drops=2, mode="agf") for each in (problem, samples))
    assert [drop.neurons.tolist() for drop in ours.drops] == [drop.neurons.tolist() for drop in theirs.drops]
    # both follow the flow to rtol = 1e-6 a step in the dormant phase, its square root in the active one
    np.testing.assert_allclose(ours.times, theirs.times, rtol=1e-4)
    np.testing.assert_allclose(ours.levels, theirs.levels, rtol=1e-3)
    assert ours.drops[0].label == "frequency 1"


def test_the_case_of_figure_6_activates_in_the_order_found_independently():
    problem = ModularAddition(p=20, template={1: 10, 3: 5, 5: 2.5}, width=18)
    init = problem.init(1e-2, seed=0)
    stairs = agf.predict(problem, init, threshold="unit", max_drops=5)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[1], [8], [0], [4], [11]]
    # another integrator with the same rule where to stop (numerics of the study: 5.9959, 4.1118, 2.867, 2.624, 1.5625)
    np.testing.assert_allclose(stairs.levels[1:], [5.9959, 4.1118, 2.867, 2.624, 1.5625], rtol=2e-3)
    first = agf.predict(problem, init, max_drops=2, mode="agf")
    flow = agf.flow(problem, init, t_max=22.0, rtol=1e-4)
    for k in (1, 2):
        middle = 0.5 * (first.levels[k - 1] + first.levels[k])
        assert first.half_times[k] == pytest.approx(flow.time_at(middle), rel=3e-3)  # measured 0.02 and 0.2 %


def test_a_flow_without_a_critical_point_ends_when_it_only_drifts():
    """Four neurons where six are needed: two of them diverge against each other, and the loss falls algebraically."""
    problem = ModularAddition(p=3, width=4)
    init = problem.init(0.1, seed=0)
    begun = agf.flow(problem, init, rtol=1e-3, max_steps=150)  # what it knows of the drift survives a resume
    drifting = agf.flow(problem, init, rtol=1e-3, resume=begun)
    assert drifting.status is agf.Status.NO_CRITICAL_POINT
    further = agf.flow(problem, init, rtol=1e-3, t_max=1.3 * drifting.times[-1])
    assert 0 < drifting.losses[-1] / further.losses[-1] - 1 < 0.02 * np.log(1.3)  # what the rule allows
    assert further.log_norms[-1].max() > drifting.log_norms[-1].max() + 0.01


def test_a_saddle_that_is_approached_for_as_long_as_the_run_has_taken_is_no_end():
    # what falls there looks like a power of the time since the last drop: two drops of half the loss were lost, with
    # `no_critical_point`. Times by LSODA on formulas of our own, rtol 1e-10
    rng = np.random.default_rng(54)
    p, width = int(rng.integers(4, 10)), int(rng.integers(4, 21))
    template = rng.standard_normal(p)
    problem = agf.problem("modular-addition", p=p, template=template - template.mean(), width=width)
    stairs = agf.predict(problem, problem.init(10 ** rng.uniform(-4, -1), seed=4))
    assert (p, width, len(stairs.drops)) == (5, 7, 7)
    for drop, right in zip(stairs.drops[-3:], (160.982626, 883.989393, 4091.951694), strict=True):
        assert abs(drop.half_time / right - 1.0) <= drop.error < 0.005


def test_a_constant_template_is_nothing_to_learn():
    problem = ModularAddition(template=np.full(5, 0.1), width=4)
    assert "nothing to learn" in problem.describe()
    stairs = agf.predict(problem, problem.init(1e-3), mode="agf")
    assert stairs.drops == ()
    assert stairs.levels.tolist() == [0.0]
    assert not stairs.status.failed
    assert len(problem.theory().drops) == 0


def test_accuracy_counts_the_pairs_whose_sum_is_named():
    problem = ModularAddition(p=7, template={1: 3.0}, width=6)
    theta = six_neurons(problem, 0)
    assert problem.accuracy(theta, np.arange(6)) == 1.0
    assert problem.accuracy(theta, np.arange(6), pairs=20) == 1.0
    wrong = theta.copy()
    wrong[:, 14:] = np.roll(wrong[:, 14:], 1, axis=1)  # always one off
    assert problem.accuracy(wrong, np.arange(6)) == 0.0
    twice = ModularAddition(p=8, template={2: 3.0}, width=6)  # a and a + 4 are encoded alike
    assert twice.accuracy(six_neurons(twice, 1), np.arange(6)) == 1.0


def test_both_kinds_of_initialization_draw_u_v_w_in_turn():
    problem = ModularAddition(p=20, template={1: 10}, width=18)
    rng = np.random.default_rng(0)
    u, v, w = (rng.standard_normal((18, 20)) for _ in range(3))
    fan_in = np.concatenate([u / np.sqrt(40), v / np.sqrt(40), w / np.sqrt(20)], axis=1)
    np.testing.assert_allclose(problem.init(1e-2, seed=0).params(), 1e-2 * fan_in, rtol=1e-14)
    np.testing.assert_allclose(
        problem.init(1e-2, kind="entrywise").params(), 1e-2 * np.concatenate([u, v, w], axis=1), rtol=1e-14
    )
    with pytest.raises(agf.DataError, match="unknown kind"):
        problem.init(1e-2, kind="balanced")


@pytest.mark.parametrize("given", [["p=5"], ["group=[2, 3]"]], ids=str)
def test_a_group_from_the_shell_comes_without_the_template_of_the_example(given):
    problem = request.problem("modular-addition", pairs=[*given, "width=4"]).problem
    assert np.abs(problem.template.spectrum) == pytest.approx(1.0)  # one-hot
    assert problem.p == (6 if "group" in given[0] else 5)


def test_a_spectrum_from_json_has_its_frequencies_as_text():
    problem = request.problem("modular-addition", pairs=['template={"1": 4, "3": 0.5}', "p=7"]).problem
    assert problem.template.spectrum == pytest.approx([4.0, 0.0, 0.5])


BAD = [
    ({"p": 1}, "at least 2"),
    ({}, "`p`, the number of residues, is missing"),
    ({"p": 5, "template": [1.0, 2.0]}, "length 2"),
    ({"p": 5, "template": [1.0, 2.0, 3.0, 4.0, np.nan]}, "non-finite"),
    ({"p": 3, "template": [1j, 0, 0]}, "complex"),
    ({"p": 5, "template": {0: 1.0}}, "frequency 0, the mean"),
    ({"p": 5, "template": {3: 1.0}}, "conjugate"),
    ({"p": 5, "template": {7: 1.0}}, "no frequency 7"),
    ({"p": 5, "template": {"1.5": 1.0}}, "no frequency '1.5'"),
    ({"p": 5, "template": {1: 1j}}, "real"),
    ({"p": 5, "template": {1: np.inf}}, "finite"),
    ({"p": 5, "template": "two-hot"}, "unknown template"),
    ({"p": 5, "width": 0}, "`width`"),
    ({"p": 5, "terms": 1}, "`terms`"),
    ({"p": 5, "group": [2, 3]}, "6 elements"),
    ({"group": []}, "orders of cyclic groups"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_bad_requests_are_refused_in_words(arguments, sentence):
    with pytest.raises(agf.DataError, match=sentence):
        ModularAddition(**arguments)


def test_sums_of_three_terms_are_predicted_to_their_end():
    """p = 5, ten cubic neurons: the last ones to learn cancel earlier ones, which only implicit steps follow."""
    problem = ModularAddition(p=5, template={1: 4.0, 2: 2.0}, width=10, terms=3)
    stairs = agf.predict(problem, problem.init(0.1, seed=0), mode="agf")
    assert stairs.status is agf.Status.ALL_ACTIVE
    assert len(stairs.drops) == 10
    assert (np.diff(stairs.levels) < 0).all()
    assert stairs.stats["hessians"] > 100
    # training with an explicit method, between the third and the fourth drop
    flow = agf.flow(problem, problem.init(0.1, seed=0), t_max=stairs.times[3:5].mean(), rtol=1e-5)
    assert stairs.levels[3] == pytest.approx(flow.losses[-1], rel=0.02)


def test_frequencies_are_independent_at_the_start_and_once_one_is_learned_but_not_on_the_way():
    """The dormant flow in closed form (`three_waves`) holds where the utility is a sum over frequencies."""
    problem = ModularAddition(p=11, template={1: 10.0, 3: 5.0}, width=8)
    each = np.arange(8)
    weights = np.random.default_rng(0).standard_normal((8, 3, 11))
    hats = np.fft.fft(weights, axis=2)
    parts = []
    for k in range(1, 6):
        kept = np.zeros(11)
        kept[[k, -k]] = 1.0
        parts.append(np.fft.ifft(hats * kept, axis=2).real.reshape(8, 33))

    def mixed(active):
        residual = problem.residual(active, np.arange(len(active)))
        whole = problem.utility(sum(parts), each, residual)[0]
        alone = sum(problem.utility(part, each, residual)[0] for part in parts)
        return np.abs(whole - alone).max() / np.abs(whole).max()

    learned = six_neurons(problem, 0)
    assert mixed(np.zeros((0, 33))) < 1e-13
    assert mixed(learned) < 1e-12
    assert mixed(learned[:3]) > 1e-2
    levels = np.array([125.0, 25.0, 0.0]) / 11.0  # sums of |xh_i|^2 / p over what is left
    np.testing.assert_allclose(problem.theory().levels, levels, atol=1e-12)
    assert problem.loss_grad(learned, np.arange(6))[0] == pytest.approx(levels[1], rel=1e-12)


def test_a_plateau_on_which_rounding_moves_the_neurons_is_skipped_and_not_stepped_through():
    # three neurons that part for ever, their norms as t^(1/8), wait 1e12 for the fourth: steps followed the rounding of
    # their velocity, with no end in 8 CPU seconds. Two frequencies of three tied ones are learned by then: a quarter of
    # the loss, of p = 4 with |xh| = 1, stays
    problem = agf.problem("modular-addition", p=4, width=4)
    stairs = agf.predict(problem, problem.init(1e-12, seed=0), conditioning=False, max_drops=5)
    assert stairs.levels[-1] == pytest.approx(0.25 * stairs.start_level, rel=1e-3)
    assert stairs.stats["velocity_evaluations"] + stairs.stats["hessians"] < 10_000
