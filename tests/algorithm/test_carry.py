"""A dormant phase that cannot be followed says so."""

from __future__ import annotations

import numpy as np
import pytest

import agf
from agf.algorithm import dormant
from agf.integrators import Stalled

M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]))


@pytest.mark.parametrize("kink", [None, 1e-5, 0.0, 1e-3])
def test_a_slide_is_carried_to_its_end(kink):
    # to the extremal vector at -16.6992 degrees, log norm 13.5037 higher [BF24], not to the start
    problem, t = agf.TwoLayer(*M4, width=1, kink=kink), np.deg2rad(-20.0)
    init = agf.Init.from_params(1e-6 * np.array([[np.cos(t), np.sin(t), 1]]))
    clock = agf.Clock.from_norms(2, init.log_norms)
    residual = problem.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    duration = float(clock.accelerated(60.0))
    rows, norms = dormant.carry(problem, residual, clock, init.directions, init.log_norms, np.arange(1), duration)
    exact = 1e-8 if kink != 1e-3 else 1e-3
    assert np.rad2deg(np.arctan2(rows[0, 1], rows[0, 0])) == pytest.approx(-16.69924423, rel=exact)
    assert norms[0] - init.log_norms[0] == pytest.approx(13.50374583, rel=exact)


def test_steps_that_run_out_are_not_silent(monkeypatch):
    monkeypatch.setattr(dormant, "_MAX_ROUNDS", 3)
    problem = agf.TwoLayer(*M4, activation="tanh", width=2)
    init = problem.init(1e-6, seed=0)
    clock = agf.Clock.from_norms(2, init.log_norms)
    residual = problem.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    with pytest.raises(Stalled, match="more steps than there are"):
        dormant.carry(problem, residual, clock, init.directions, init.log_norms, np.arange(2), 1e3)
