"""The limits of early alignment do not know the units of inputs and targets: X -> s X and y -> t y rescale them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rectified_cases import M4, T3, balanced

import agf
from agf.rectified.walls import Walls

#: Decimal logs of the units, within what `TwoLayer` admits.
UNITS = st.floats(-30, 30)


def scaled(data, s, t):
    """The problem in other units, and a start that makes the same function in them."""
    X, y = data
    return agf.TwoLayer(s * X, t * y, width=12), balanced(12, X.shape[1], 1e-6 * np.sqrt(t / s))


@pytest.mark.parametrize("data", [T3, M4], ids=["three", "four"])
@given(log_s=UNITS, log_t=UNITS)
@settings(max_examples=6)
def test_all_but_times_rates_and_levels_stay_as_they_are(data, log_s, log_t):
    s, t = 10.0**log_s, 10.0**log_t
    (here, init), (there, other) = scaled(data, 1.0, 1.0), scaled(data, s, t)
    old, new = agf.landscape(here), agf.landscape(there)
    assert [one.kind for one in old.criticals] == [one.kind for one in new.criticals]
    for one, same in zip(old.criticals, new.criticals, strict=True):
        assert same.direction == pytest.approx(one.direction, abs=1e-12)
        assert (same.utility / (s * t), same.share) == pytest.approx((one.utility, one.share), rel=1e-9)
        assert same.drop / t**2 == pytest.approx(one.drop, rel=1e-9, nan_ok=True)
    old, new = agf.align(here, init), agf.align(there, other)
    assert old.fate == new.fate
    assert np.array_equal(old.event_kinds, new.event_kinds)
    assert new.event_times * s * t == pytest.approx(old.event_times, rel=1e-9, abs=1e-12)
    assert new.charges == pytest.approx(old.charges, abs=1e-9)
    old, new = agf.separation(here, init), agf.separation(there, other)
    assert new.early.tau * s * t / new.early.log_lambda == pytest.approx(old.early.tau / old.early.log_lambda)
    assert [new.early.alpha, new.early.D_min / (s * t)] == pytest.approx([old.early.alpha, old.early.D_min])
    assert [h for name, _, h in new.assumptions() if "umption" in name] == [
        h for name, _, h in old.assumptions() if "umption" in name
    ]
    old, new = agf.escape(here, init.params()), agf.escape(there, other.params())
    assert (new.verdict, new.level / t**2) == (old.verdict, pytest.approx(old.level))
    assert (new.reached / (s * t), new.time * s * t) == pytest.approx((old.reached, old.time), rel=1e-6)


def test_a_neuron_that_a_field_of_zero_holds_has_no_pace_of_its_own():
    X, y = 1e30 * T3[0], T3[1]
    walls = replace(Walls.of(X, y / 3), layers=np.full(3, 1e-3))
    shares = np.array([[0.0, 0.0, -1.0 - 2e-16], [0.5, 0.0, 0.0]])
    assert walls.paces(shares, np.zeros(2)).tolist() == [0.0, 0.0]
