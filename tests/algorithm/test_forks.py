"""Forks: where the flow is not unique a prediction shows one course, and says so."""

import numpy as np

import agf
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.events import Event
from agf.rectified.walls import Walls
from agf.sphere import polar


def _net() -> tuple[np.ndarray, np.ndarray, int]:
    """A small random table on which a neuron comes back to the end of a kink along which it slid."""
    rng = np.random.default_rng(17)
    n, d, width = int(rng.integers(6, 60)), int(rng.integers(1, 6)), int(rng.integers(1, 11))
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n), width


def test_a_drop_that_hangs_on_a_fork_has_no_bar() -> None:
    # training at rtol 1e-6, 1e-8 and 1e-10 has the last drop at 128.2, 104.88 and 104.88
    X, y, width = _net()
    problem = agf.problem("relu", X=X, Y=y, task="regression", width=width)
    found = agf.predict(problem, problem.init(1e-4, seed=1), mode="resolved")
    *before, last = found.drops
    assert np.isinf([last.error, last.level_error]).all()
    assert all(drop.error < 0.01 for drop in before)
    assert [note for note in found.notes if note.startswith("Fork:") and f"decides drop {len(found.drops)}." in note]


def test_a_neuron_whose_output_weight_changes_sign_goes_back_the_way_it_came() -> None:
    # dw/dt = a D and da/dt = w . D: (w, a) at t before the change of sign is (w, -a) at t after it
    checked = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        walls = Walls.of(rng.standard_normal((8, 3)), rng.standard_normal(8))
        rows, log_norms = polar(np.column_stack([rng.standard_normal((40, 3)), 0.3 * rng.standard_normal(40)]))
        events = DormantFlow(walls, rows, log_norms).run()
        slid = set(events.neuron[events.kind == Event.SLIDE].tolist())
        flips = np.flatnonzero(events.kind == Event.FLIP)
        for n, t in zip(events.neuron[flips], events.time[flips], strict=True):
            if n in slid:
                continue
            ends = []
            for at in (0.5 * t, 1.5 * t):
                flow = DormantFlow(walls, rows[[n]], log_norms[[n]])
                flow.run(at)
                ends.append(flow.inside(np.array([0]), np.array([at])))
            np.testing.assert_allclose(ends[0][0] * [1, 1, 1, -1], ends[1][0], atol=1e-9)
            np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-9)
            checked += 1
    assert checked >= 3


def _forked(contrary: bool) -> DormantFlow:
    """Two inputs, two walls: a neuron slides along one while a > 0, and is pushed off it when a < 0."""
    walls = Walls.of(np.array([[0.0, 1.0], [1.0, -0.5]]), np.array([-4.0, -0.6]))
    rows, log_norms = polar(np.array([[1.0, 0.1, 0.5]]))
    flow = DormantFlow(walls, rows, log_norms, contrary=contrary)
    flow.run()
    return flow


def test_both_ways_on_from_a_fork_are_followed() -> None:
    one, other = _forked(False), _forked(True)
    assert one.at.forked.all()
    assert other.at.forked.all()
    assert np.linalg.norm(one.ends()[0] - other.ends()[0]) > 0.1
