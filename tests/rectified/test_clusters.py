"""Groups of neurons that grow together, in predictions."""

import numpy as np
import pytest
from rectified_cases import balanced, teacher40

import agf


@pytest.fixture(scope="module")
def teacher():
    problem = agf.TwoLayer(*teacher40(), width=100)
    return problem, balanced(100, 2, 1e-3)


#: Of `agf.flow` at rtol 1e-6, kink=0, half-way between levels; the levels are those of least squares and of three
#: neurons, to all digits of settled runs.
HALVES, LEVELS = (13.503, 505.40), (0.0395157, 0.0209107)


def test_two_groups_that_grow_at_nearly_one_rate_make_one_drop(teacher):
    """Negative neurons end in two cones at rates .01605 and .01581: both are half-way before either is done."""
    problem, init = teacher
    stairs = agf.predict(problem, init, mode="agf")
    assert stairs.levels[1:] == pytest.approx(LEVELS, rel=1e-4)
    for drop, time in zip(stairs.drops, HALVES, strict=True):
        assert drop.half_time == pytest.approx(time, rel=drop.error)
    assert np.unique(np.round(stairs.drops[1].directions[stairs.drops[1].neurons], 6), axis=0).shape[0] == 2


def test_the_default_times_that_drop_and_says_that_the_end_is_spurious(teacher):
    problem, init = teacher
    stairs = agf.predict(problem, init)
    assert stairs.levels[1:] == pytest.approx(LEVELS, rel=1e-3)  # rtol of the curve
    for drop, time in zip(stairs.drops, HALVES, strict=True):
        assert drop.half_time == pytest.approx(time, rel=drop.error)
        assert drop.error < 5e-3
    found = agf.escape(problem, stairs)
    assert found.verdict == "spurious"
    assert len(found.groups) == 3
