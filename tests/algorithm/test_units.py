"""Predictions and flows of homogeneous networks do not know the units of inputs, targets and weights.

X -> s X, y -> t y and theta -> c theta with s^q c^degree = t makes t times the outputs from the same samples (q the
power of X in them): losses times t^2, times times c^2 / t^2. In powers of two no digit of a gradient changes, so that
all steps are the same.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rectified_cases import T3

import agf

X = np.random.default_rng(5).standard_normal((12, 3))
TABLE = X, X @ [1.0, -0.5, 0.2]


def network(**options):
    return lambda X, y: agf.TwoLayer(X, y, width=4, **options)


#: Problem, data, power of X, norm of the first weights: at 1 neurons are active from the start.
SYSTEMS = {
    "diagonal": (lambda X, y: agf.problem("diagonal-linear", X=X, y=y), TABLE, 1, 1e-6),
    "relu": (network(), T3, 1, 1e-6),
    "sharp": (network(kink=0), T3, 1, 1e-6),
    "leaky": (network(activation="leaky-relu"), TABLE, 1, 1e-6),
    "square": (network(activation="square"), TABLE, 2, 1e-3),
    "large": (network(), T3, 1, 1.0),
}
LOGS = st.integers(-25, 25)


def runs(name, s, c):
    """Prediction and flow in these units, and the unit of outputs."""
    make, (X, y), power, alpha = SYSTEMS[name]
    t = s**power * c ** make(X, y).degree
    problem = make(s * X, t * y)
    init = problem.init(c * alpha)
    return agf.predict(problem, init), agf.flow(problem, init), t


plain = cache(lambda name: runs(name, 1.0, 1.0))


def work(stats):
    return sum(number for name, number in stats.items() if name.endswith("evaluations"))


@pytest.mark.parametrize("name", SYSTEMS)
@given(log_s=LOGS, log_c=LOGS)
@settings(max_examples=2)
def test_other_units_take_the_same_steps(name, log_s, log_c):
    s, c = 2.0**log_s, 2.0**log_c
    (stairs, flow, _), (same, again, t) = plain(name), runs(name, s, c)
    assert (same.status, again.status) == (stairs.status, flow.status)
    assert same.levels / t**2 == pytest.approx(stairs.levels, rel=1e-6, abs=1e-6 * stairs.levels[0])
    assert same.half_times * (t / c) ** 2 == pytest.approx(stairs.half_times, rel=1e-6)
    assert again.losses[-1] / t**2 == pytest.approx(flow.losses[-1], rel=1e-6, abs=1e-6 * flow.losses[0])
    # logs of norms are rounded in other places: a step may be longer or shorter by that
    assert work(same.stats) == pytest.approx(work(stairs.stats), rel=0.05)
    assert same.stats.get("hessians") == stairs.stats.get("hessians")
    assert again.stats["evaluations"] == pytest.approx(flow.stats["evaluations"], rel=0.05)


def test_a_long_unit_of_time_is_no_age_of_a_flow():
    """It was the least age at which a flow may rest: 2,906 evaluations for 647."""
    (stairs, _, _), (same, _, _) = plain("relu"), runs("relu", 2.0**25, 1.0)
    assert work(same.stats) == work(stairs.stats)
