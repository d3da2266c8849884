"""Sizes that would take for ever are refused by counting, before anything is computed and at any load."""

import numpy as np
import pytest

import agf
from agf.contract import start

X = np.random.default_rng(0).standard_normal((20, 3))


def wide(width):
    return agf.TwoLayer(X, X[:, 0], activation="tanh", width=width)


@pytest.mark.parametrize(
    "problem", [wide(10**6), agf.problem("modular-addition", p=11, terms=10, width=12)], ids=["width", "terms"]
)
def test_what_would_take_hours_is_refused_with_what_a_gradient_goes_through(problem):
    init = problem.init(1e-3)
    for asked in (agf.predict, agf.flow):
        with pytest.raises(
            agf.RequestError, match=r"would take many minutes or hours.*numbers in each gradient.*smaller"
        ):
            asked(problem, init)
    with pytest.raises(agf.RequestError, match="would take many minutes or hours"):
        agf.predict_many(problem, [init])


def test_who_bounds_the_gradients_is_answered(monkeypatch):
    problem = wide(4)
    init = problem.init(1e-3)
    monkeypatch.setattr(start, "_MOST_NUMBERS", 1e4)
    with pytest.raises(agf.RequestError, match="would take many minutes or hours"):
        agf.flow(problem, init)
    assert agf.flow(problem, init, max_gradients=10).losses.size
    assert agf.descend(problem, init, lr=0.1, steps=1).losses.size


def test_closed_forms_are_answered_where_a_flow_would_take_hours(monkeypatch):
    """Two million hidden units take seconds by the closed forms of Algorithm 1, and were refused by their number."""
    for problem in (agf.problem("linear", X=X, Y=X[:, :2]), agf.problem("diagonal-linear", X=X, y=X[:, 0] + X[:, 1])):
        init = problem.init(1e-6)
        known = agf.predict(problem, init, mode="agf")
        with monkeypatch.context() as few:
            few.setattr(start, "_MOST_NUMBERS", 1e4)
            for mode in ("agf", "auto"):
                found = agf.predict(problem, init, mode=mode)
                assert [drop.time for drop in found.drops] == [drop.time for drop in known.drops]
            for asked in (agf.flow, lambda p, i: agf.predict(p, i, mode="resolved")):
                with pytest.raises(agf.RequestError, match="would take many minutes or hours"):
                    asked(problem, init)


def test_a_flow_in_coordinates_of_a_problem_takes_a_tenth_of_the_gradients(monkeypatch):
    problem = agf.problem("linear", X=X, Y=X[:, :2])
    numbers = problem.width * problem.operations
    monkeypatch.setattr(start, "_MOST_NUMBERS", start.PHASES * numbers)
    assert agf.flow(problem, problem.init(1e-6)).drops
    generic = wide(numbers // wide(1).operations)  # as many numbers in each gradient
    with pytest.raises(agf.RequestError, match="this takes about 10,000"):
        agf.flow(generic, generic.init(1e-3))


def test_what_a_wide_linear_network_conserves_is_told_by_a_few_of_its_units():
    """Pairs of 100,000 units are 75 GiB."""
    problem = agf.problem("linear", X=X, Y=X[:, :2], width=40)
    system = problem.flow_system(problem.init(0.1))
    assert system.conserved(system.start())["imbalance"].size == problem.n_params**2


def test_pairs_of_neurons_count_as_memory():
    problem = agf.problem("gaussian-teacher", teacher=np.eye(3), width=10**6)
    with pytest.raises(agf.RequestError, match=r"1,000,000 neurons of 4 parameters need about \d\d,\d\d\d GiB"):
        problem.init(1e-3)


def test_a_width_beyond_the_integers_of_numpy_is_refused_by_whoever_asks():
    """A run file that says so was an OverflowError in `escape`."""
    problem = wide(1e308)
    for asked in (agf.escape, agf.alignment, agf.predict):
        with pytest.raises(agf.ProblemError, match=r"has width = 10{5}.*that numpy can count to"):
            asked(problem, agf.Init.from_params(np.ones((2, 4))))


def test_no_plugin_need_say_how_much_work_it_is():
    assert wide(7).operations == wide(7).footprint
    assert (
        agf.problem("modular-addition", p=5, width=3).operations
        == agf.problem("modular-addition", p=5, width=3).footprint
    )


def test_neurons_that_start_equal_are_counted_where_they_are_refused(monkeypatch):
    """A hundred equal neurons were refused as "1 neurons"."""
    problem = wide(100)
    init = agf.Init.from_params(np.full((100, 4), 1e-3))
    monkeypatch.setattr(start, "_MOST_NUMBERS", 1.0)
    with pytest.raises(agf.RequestError, match="100 neurons of 4 parameters would take"):
        agf.flow(problem, init)
