"""What hostile and unlucky users do: every mistake is refused in a sentence, and nothing hangs, lies or turns to NaN."""

from __future__ import annotations

import numpy as np
import pytest

import agf
from agf.errors import DataError, RequestError

EYE = {"X": np.eye(2), "y": [1.0, 2.0]}


@pytest.fixture
def diagonal():
    return agf.problem("diagonal-linear", **EYE)


# -- arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 1.5, "a", np.nan, True, [1, 2], np.random.default_rng(0)])
def test_a_seed_that_is_no_seed_is_refused_as_such(diagonal, seed):
    with pytest.raises(DataError, match="`seed` must be"):
        diagonal.init(1e-3, seed=seed)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[(name, value) for name in ("rtol", "tie_rtol", "joining") for value in (0, 2, np.nan, np.inf, "x", None)],
        *[("horizon", value) for value in (0, -1, np.nan, "x", None)],
        *[("max_drops", value) for value in (-1, 1.5, np.nan, "3", True)],
        *[("max_time", value) for value in (-1, np.nan, "x", True)],
        *[(name, value) for name in ("mode", "threshold", "settle") for value in ("agff", None, ["agf"])],
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(diagonal, option, value):
    with pytest.raises(RequestError, match=option):
        agf.predict(diagonal, diagonal.init(1e-3), **{option: value})


def test_what_is_no_problem_or_no_initialization_is_refused_by_type(diagonal):
    init = diagonal.init(1e-3)
    for mode in ("agf", "limit", "resolved"):
        with pytest.raises(RequestError, match="a str is not a problem"):
            agf.predict("diagonal-linear", init, mode=mode)
        with pytest.raises(RequestError, match=r"a ndarray is not an initialization.*from_params"):
            agf.predict(diagonal, init.params(), mode=mode)
        with pytest.raises(RequestError, match=r"shape \(1, 2\).*\(2, 2\)"):
            agf.predict(diagonal, agf.Init.from_params([[1e-3, 0.0]]), mode=mode)


@pytest.mark.parametrize(
    ("directions", "log_norms"),
    [
        ([[1.0, 1.0]], [-3.0]),
        ([[0.0, 0.0]], [-3.0]),
        ([[1.0, 0.0]], [np.nan]),
        ([[1.0, 0.0]], [np.inf]),
        ([[np.nan, 0.0]], [-3.0]),
        ([["a", "b"]], [-3.0]),
        ([[1.0, 0.0], [1.0]], [-3.0, -3.0]),
    ],
)
def test_an_init_holds_unit_directions_and_log_norms(directions, log_norms):
    with pytest.raises(DataError, match="Init: "):
        agf.Init(directions, log_norms, 1e-3)


def test_an_init_takes_lists():
    assert agf.Init([[1.0, 0.0], [0.0, 0.0]], [-3.0, -np.inf], 1e-3).width == 2


# -- data -------------------------------------------------------------------------------------------------------


def test_masked_values_are_refused_and_an_empty_mask_is_not():
    X = np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]])
    with pytest.raises(DataError, match="`X` has masked values"):
        agf.problem("diagonal-linear", X=X, y=[1.0, 2.0])
    agf.problem("diagonal-linear", X=np.ma.masked_array(np.eye(2)), y=[1.0, 2.0])


def test_ragged_inputs_are_refused_in_a_sentence():
    with pytest.raises(DataError, match="`X` cannot be read as numbers"):
        agf.TwoLayer([[1.0, 2.0], [3.0]], [1.0, 2.0], width=2)


# -- computations that must end ---------------------------------------------------------------------------------


def test_the_flow_of_a_diagonal_network_does_not_wait_for_a_coordinate_that_is_zero(diagonal):
    theta = np.array([[0.0, 0.0], [1e-4, 0.0]])
    flow = agf.flow(diagonal, agf.Init.from_params(theta), max_steps=10**4)
    assert flow.status.word == "settled"
    # |1 - 0|^2 / 2n is out of reach
    assert flow.losses[-1] == pytest.approx(0.25, rel=1e-6)
