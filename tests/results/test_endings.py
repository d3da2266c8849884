"""The last sentence of a result is built from what was measured: no advice that the run at hand could not follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import agf
from agf.records.status import Status

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
DIAGONAL = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.0]) + 0.1 * RNG.standard_normal(30))


def tanh(width):
    return agf.TwoLayer(X=X, Y=np.tanh(X[:, 0]) - 0.5 * np.tanh(X[:, 1]), activation="tanh", width=width)


def test_a_width_that_follows_from_the_data_is_not_to_be_raised():
    stairs = agf.predict(DIAGONAL, DIAGONAL.init(1e-6), mode="limit")
    for status in (Status.ALL_ACTIVE, Status.NO_GROWTH):
        assert "width" not in replace(stairs, status=status).ending
        assert "seed" not in replace(stairs, status=status).ending


def test_a_width_that_is_a_choice_may_be_raised_where_something_is_left():
    problem = tanh(1)
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf", max_drops=1)
    told = replace(stairs, status=Status.ALL_ACTIVE).ending
    assert told.startswith("The one neuron is active, at loss ")
    assert "A larger width" in told
    done = replace(stairs, status=Status.ALL_ACTIVE, drops=(replace(stairs.drops[0], level=0.0),))
    assert "width" not in done.ending


def test_a_bias_is_not_counted_among_the_neurons():
    problem = agf.TwoLayer(X=X, Y=X[:, 0] + 1.0, activation="tanh", width=3, bias="output")
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf", max_drops=1)
    assert replace(stairs, status=Status.ALL_ACTIVE).ending.startswith("Every neuron is active, at loss ")
    problem = tanh(3)
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf", max_drops=1)
    assert replace(stairs, status=Status.ALL_ACTIVE).ending.startswith("All 3 neurons are active")


def test_neurons_that_are_active_and_that_no_drop_names_are_counted():
    problem = tanh(3)
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf", max_drops=1)
    for brought, words in (([0, 2], ", 1 of which no drop names, at loss "), ([0, 1, 2], " active, at loss ")):
        drop = replace(stairs.drops[0], neurons=np.array(brought))
        assert words in replace(stairs, status=Status.ALL_ACTIVE, drops=(drop,)).ending


def test_seeds_are_advised_where_a_seed_was_drawn():
    problem = tanh(3)
    drawn = agf.predict(problem, problem.init(1e-4), mode="agf", max_drops=1)
    given = replace(drawn, init=agf.Init.from_params(drawn.init.params()))
    assert "Another seed" in replace(drawn, status=Status.NO_GROWTH).ending
    told = replace(given, status=Status.NO_GROWTH).ending
    assert "Another seed" not in told
    assert "None of the 2 dormant neurons gains utility" in told


@pytest.mark.parametrize(
    "data", [(np.array([[1.0], [1.0], [-1.0], [-1.0]]), np.array([1.0, -1.0, 1.0, -1.0])), (X[:, :2], np.zeros(30))]
)
def test_nothing_to_learn_is_not_called_fitted(data):
    problem = agf.problem("diagonal-linear", X=data[0], y=data[1])
    told = agf.predict(problem, problem.init(1e-6)).ending
    assert told.startswith("The zero function has no loss gradient: nothing is learned, at loss ")


def test_limits_are_told_with_their_numbers():
    init = DIAGONAL.init(1e-6)
    assert "1 drop, as asked" in agf.predict(DIAGONAL, init, max_drops=1).ending
    assert "0 drops, as asked" in agf.predict(DIAGONAL, init, max_drops=0, mode="agf").ending
    assert "flow time 2 (t_max)" in agf.predict(DIAGONAL, init, t_max=2.0, mode="agf").ending
    assert "flow time 2 (t_max)" in agf.flow(DIAGONAL, init, t_max=2.0).ending
    assert agf.descend(DIAGONAL, init, lr=0.01, steps=1200).ending == "All 1,200 gradient-descent steps were taken."


def test_the_budget_that_ran_out_is_named_and_predictions_have_none_to_raise():
    init = DIAGONAL.init(1e-6)
    for option, taken in (("max_steps", "steps"), ("max_gradients", "evaluations")):
        flow = agf.flow(DIAGONAL, init, t_max=2.0)
        budget = {"max_steps": 10**6, "max_gradients": 1e9, option: flow.stats[taken]}
        cut = replace(flow, status=Status.MAX_STEPS, settings={**flow.settings, **budget})
        assert f"Raise {option} (" in cut.ending
    stairs = agf.predict(DIAGONAL, init, mode="limit")
    told = replace(stairs, status=Status.MAX_STEPS).ending
    assert "max_steps" not in told
    assert "looser rtol than 1e-06" in told
    loose = replace(stairs.settings, rtol=0.05)
    assert "rtol" not in replace(stairs, status=Status.STALLED, settings=loose).ending


def test_an_interrupted_prediction_cannot_be_resumed_and_training_can():
    init = DIAGONAL.init(1e-6)
    stairs = replace(agf.predict(DIAGONAL, init, mode="limit"), status=Status.INTERRUPTED)
    flow = replace(agf.flow(DIAGONAL, init, t_max=1.0), status=Status.INTERRUPTED)
    assert "starts anew" in stairs.ending
    assert "--resume" in flow.ending
    assert "resume" not in replace(flow, init=None).ending


@pytest.mark.parametrize("status", list(Status))
def test_what_holds_for_every_run_of_a_status_names_no_option(status):
    for option in ("Raise", "Loosen", "rtol", "max_steps", "width", "seed", "alpha"):
        assert option not in status.sentence
