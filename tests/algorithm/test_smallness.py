"""Starts too large for a prediction are refused in the units of the data, whatever the problem and the mode."""

import re

import numpy as np
import pytest

import agf

DATA = np.random.default_rng(0).standard_normal((12, 3))
TARGET = DATA @ np.array([1.0, -0.5, 0.2])
MAKE = {
    "diagonal-linear": lambda y: agf.problem("diagonal-linear", X=DATA, y=y),
    "linear": lambda y: agf.problem("linear", X=DATA, Y=y[:, None], width=3),
    "relu": lambda y: agf.problem("relu", X=DATA, Y=y, width=3),
    "tanh": lambda y: agf.TwoLayer(DATA, y, activation="tanh", width=3),
    "square": lambda y: agf.TwoLayer(DATA, y, activation="square", width=3),
}


@pytest.mark.parametrize("mode", ["agf", "resolved"])
@pytest.mark.parametrize("name", MAKE)
def test_weights_larger_than_the_data_ask_for_are_refused(name, mode):
    problem = MAKE[name](1e-6 * TARGET)
    with pytest.raises(agf.RequestError, match=r"larger than what the data ask for.*norms well below.*smaller alpha"):
        agf.predict(problem, problem.init(0.3), mode=mode)


def test_a_smaller_alpha_is_advised_where_there_is_one():
    problem = MAKE["tanh"](TARGET)
    for init, advice in (
        (problem.init(3.0), "Choose a smaller alpha;"),
        (agf.Init.from_params(problem.init(3.0).params()), "Scale the weights down;"),
    ):
        with pytest.raises(agf.RequestError, match=advice):
            agf.predict(problem, init)


def test_many_starts_are_refused_as_one_is():
    # ten near-copies of a column, each alone at .81 of what it would learn, are eight times too much together
    rng = np.random.default_rng(0)
    x = DATA[:, :1] + 1e-3 * rng.standard_normal((12, 10))
    problem = agf.problem("diagonal-linear", X=x, y=DATA[:, 0])
    init = agf.Init.from_params(np.full((10, 2), 0.9))
    for predict in (agf.predict, lambda problem, init, mode: agf.predict_many(problem, [init], mode=mode)):
        with pytest.raises(agf.RequestError, match=r"larger than what the data ask for.*times that of the zero"):
            predict(problem, init, mode="agf")


@pytest.mark.parametrize("name", ["diagonal-linear", "linear", "relu"])
def test_targets_and_weights_in_other_units_are_predicted_alike(name):
    # y -> c y, theta -> sqrt(c) theta: times fall by c; norms of 300 are tiny next to the 1e6 that the data ask for
    c = 1e12
    plain, scaled = MAKE[name](TARGET), MAKE[name](c * TARGET)
    init = plain.init(3e-4)
    large = agf.Init(init.directions, init.log_norms + 0.5 * np.log(c), init.alpha * np.sqrt(c))
    one, other = agf.predict(plain, init, mode="agf"), agf.predict(scaled, large, mode="agf")
    np.testing.assert_allclose(other.times * c, one.times, rtol=1e-5)
    np.testing.assert_allclose(other.levels / c**2, one.levels, atol=1e-6 * one.levels[0])


def test_neurons_without_a_pull_do_not_count():
    problem = agf.TwoLayer(DATA, np.zeros(12), activation="tanh", width=2)
    assert agf.predict(problem, problem.init(0.3), mode="agf").status is agf.Status.FITTED


def test_targets_that_no_input_tells_anything_about_are_nothing_to_learn():
    # their pull is rounding, which no weights are small against; and no drop comes of it
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    y -= x @ np.linalg.lstsq(x, y, rcond=None)[0]
    problem = agf.problem("diagonal-linear", X=x, y=y)
    found = agf.predict(problem, problem.init(1e-6))
    assert (len(found.drops), found.status.word) == (0, "fitted")


@pytest.mark.parametrize("context", [10**3, 10**9])
def test_weights_that_together_are_further_off_than_nothing_are_refused_in_any_unit(context):
    # theta^3 N grows with the context, and targets do not: alpha N^(1/3) says how large a start is. No head alone is
    # at its natural norm, but all together start at 3 times the loss of the zero function, and the one drop that was
    # predicted, 69 % off, had a bar of 500 %.
    problem = agf.problem("linear-attention", context=context)
    large = 1e-3 * (1e9 / context) ** (1 / 3)
    with pytest.raises(agf.RequestError, match=r"loss of 3\.\d+ times that of the zero function"):
        agf.predict(problem, problem.init(large))
    assert len(agf.predict(problem, problem.init(1e-2 * large)).drops) == 4


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_bars_know_what_the_initial_weights_make_of_the_loss(activation):
    # linear: the first drop is 32 % early, and its bar was .4 %
    x = np.random.default_rng(0).standard_normal((40, 3))
    problem = agf.TwoLayer(x, np.tanh(x[:, 0]) + 0.3 * x[:, 1], activation=activation, width=20)
    init = problem.init(0.3)
    start = problem.loss_grad(init.params(), np.arange(20))[0] / problem.loss_grad(init.params()[:0], np.arange(0))[0]
    paper, stairs, flow = agf.predict(problem, init, mode="agf"), agf.predict(problem, init), agf.flow(problem, init)
    assert start > 1.3
    assert all(drop.error >= (start - 1.0) * (1 - 1e-12) for drop in paper.drops)
    assert any("not negligible" in note for note in paper.notes)
    # where they are followed, nothing is left out
    assert not any("not negligible" in note for note in stairs.notes)
    for found in (paper, stairs):
        match = agf.compare(found, flow)
        assert match.max_time_error <= max(drop.error for drop in found.drops)
    assert match.max_time_error < 1e-3


def test_a_drop_that_learned_weights_have_behind_them_has_no_time_and_says_so():
    """Its error was 1e308, of a time of 0."""
    x = np.random.default_rng(0).standard_normal((30, 4))
    problem = agf.problem("diagonal-linear", X=x, y=x @ [3.0, -2.0, 1.0, 0.5])
    learned = agf.Init.from_params(agf.flow(problem, problem.init(1e-6)).params(-1))
    paper = agf.predict(problem, learned, mode="agf")
    assert paper.half_times[1] == 0.0
    assert paper.drops[0].error == np.inf
    assert any("No time is known of drops 1, 2, 3, 4; mode" in note for note in paper.notes)
    assert agf.predict(problem, learned, mode="resolved").levels[-1] < 1e-5 * paper.start_level


def test_starts_that_change_nothing_leave_bars_as_they_are():
    problem = MAKE["tanh"](TARGET)
    assert not any("not negligible" in note for note in agf.predict(problem, problem.init(1e-3)).notes)


def test_the_network_after_what_the_initial_weights_have_learned_is_the_one_that_makes_its_loss():
    # counted as nobody's, it was the zero function: `leaving`, with the first drop "about 0 from now"
    teacher = np.array([1.0, 0.5, 0.0])
    problem = agf.problem("relu", X=DATA, Y=np.maximum(DATA @ teacher, 0.0), width=2)
    stairs = agf.predict(problem, agf.Init.from_params([[*1.0001 * teacher, 1.0001], [1e-8] * 4]))
    assert [drop.half_time for drop in stairs.drops] == [0.0]
    found = agf.escape(problem, stairs)
    assert found.level == pytest.approx(stairs.levels[-1])
    assert found.verdict == "optimal"
    assert stairs.notes[-1].startswith("Can it still learn? Optimal")


def test_the_norm_that_is_refused_is_above_the_one_that_is_asked_for():
    """Every head has a natural norm of its own: the least norm was told beside the largest of these, 1.63 and 2.94."""
    problem = agf.problem("linear-attention", **agf.registry.find("linear-attention").example())
    with pytest.raises(agf.RequestError, match="larger than what the data ask for") as refused:
        agf.predict(problem, problem.init(1.0, seed=0), mode="agf")
    norm, natural = map(float, re.search(r"norm (\S+) of the neuron .* below (\S+),", str(refused.value)).groups())
    assert norm > natural
