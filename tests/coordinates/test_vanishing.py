"""Input weights that come to zero: who is asked whether they stay there."""

import numpy as np
import pytest

from agf.coordinates.vanishing import ENDS, vanishing


def asked(w):
    """How often the pull is asked for at input weights w (H,) of unit rows (w, 0, a)."""
    calls = []
    directions = np.column_stack([w, np.zeros(len(w)), np.sqrt(1.0 - np.square(w))])

    def pull(rows):
        calls.append(1)
        return np.zeros_like(rows)

    assert not vanishing(pull, directions, 2, np.ones(len(w), dtype=bool)).any()
    return len(calls)


@pytest.mark.parametrize("small", [0.5 * ENDS, 1e-100, 1e-200])
def test_only_input_weights_near_zero_cost_a_pull(small):
    assert asked([0.5, -0.2]) == 0
    assert asked([0.5, small]) == 1


def test_those_that_have_ended_cost_nothing_more():
    assert asked([0.5, 0.0]) == 0
