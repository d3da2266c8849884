"""Steps that neurons have taken: who was where, asked for later."""

from __future__ import annotations

import numpy as np
import pytest

from agf.algorithm import past_steps
from agf.algorithm.past_steps import PastSteps


def line(start, end):
    """A step (5, k, P + 2) of neurons that move evenly from one state to the other: no bulge."""
    start, end = np.array(start), np.array(end)
    return [start, end, end - start, end - start, np.zeros_like(start)]


def test_each_of_several_is_found_where_it_was():
    past = PastSteps(2)
    # direction (1, 0), log norms -3 + t and -5 + 2 t, and times; neuron 7 takes one step, neuron 4 two
    past.keep(np.array([4, 7]), line([[1, 0, -3.0, 0.0], [1, 0, -5.0, 0.0]], [[1, 0, -2.0, 1.0], [1, 0, -1.0, 2.0]]))
    past.keep(np.array([4]), line([[1, 0, -2.0, 1.0]], [[1, 0, -1.0, 2.0]]))
    for time in (0.0, 0.25, 1.0, 1.5):
        rows, states = past.at(np.array([7, 4]), time)
        assert sorted(rows.tolist()) == [4, 7]
        wanted = {4: [1, 0, -3.0 + time, time], 7: [1, 0, -5.0 + 2.0 * time, time]}
        assert states == pytest.approx(np.array([wanted[row] for row in rows.tolist()]), abs=1e-15)
    assert past.at(np.array([7]), 0.5)[0].tolist() == [7]
    rows, states = past.at(np.array([4, 7]), 2.0)  # steps end before their ends
    assert (rows.size, states.shape) == (0, (0, 4))


def test_there_is_room_for_so_many(monkeypatch):
    monkeypatch.setattr(past_steps, "_KEPT", 30)
    past = PastSteps(2)
    for time in (0.0, 1.0):  # twenty numbers each
        past.keep(np.array([0]), line([[1, 0, 0.0, time]], [[1, 0, 1.0, time + 1.0]]))
    assert [past.at(np.array([0]), time)[0].size for time in (0.5, 1.5)] == [1, 0]
