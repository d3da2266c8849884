"""What the layers of a neuron conserve, where a flow goes on from a state that steps have rounded."""

import numpy as np
import pytest

import agf
from agf.algorithm.resolved.coordinates import Riding
from agf.records.state import State
from agf.sphere import normalize


def _shrunk(seed: int) -> tuple[Riding, np.ndarray, np.ndarray]:
    """A stretch that began where neurons were e^8 times as large and off by 1e-5, y where they are small again, and
    what they conserve."""
    rng = np.random.default_rng(seed)
    problem = agf.problem("relu", X=rng.standard_normal((8, 2)), Y=rng.standard_normal(8), task="regression", width=3)
    init = problem.init(1e-6, seed=seed)
    gap = init.directions[:, 2] ** 2 - np.sum(init.directions[:, :2] ** 2, axis=1)
    conserved = gap * np.exp(2.0 * init.log_norms)
    gap = conserved * np.exp(-2.0 * (init.log_norms + 8.0))  # over the squared norms of the large neurons
    w = normalize(rng.standard_normal((3, 2)))
    large = np.column_stack([w * np.sqrt((1 - gap) / 2)[:, None], np.sqrt((1 + gap) / 2)])
    off = normalize(large + 1e-5 * rng.standard_normal(large.shape))
    state = State(1.0, np.ones(3, dtype=bool), off, init.log_norms + 8.0, 1.0)
    system = Riding(problem, state, init)
    y = system.start()
    y[-3:] = init.log_norms + 1.0
    return system, y, conserved


@pytest.mark.parametrize("seed", range(3))
def test_a_stretch_restores_what_the_start_conserves(seed: int) -> None:
    # 1e-5 of the large neurons is 10 times the whole square of the small ones: their sign would be that of rounding
    system, y, conserved = _shrunk(seed)
    directions, log_norms = system.polar(system.retract(y))
    found = (directions[:, 2] ** 2 - np.sum(directions[:, :2] ** 2, axis=1)) * np.exp(2.0 * log_norms)
    np.testing.assert_allclose(found, conserved, rtol=1e-12)
