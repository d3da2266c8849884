"""Norms of groups of aligned neurons against sums over every pair."""

import numpy as np
import pytest

from agf.coordinates.aligned import log_group_norms


@pytest.mark.parametrize("close", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("spread", [0.0, 5.0, 300.0])
def test_a_group_is_all_that_is_near(rng, close, spread):
    directions = rng.standard_normal((60, 3)) * [1.0, 0.1, 0.1]
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    log_norms = -1000.0 - spread * rng.random(60)
    log_norms[3] = -np.inf
    rows = np.arange(1, 50)
    near = np.linalg.norm(directions[rows, None] - directions[None], axis=2) <= close * (1 + 1e-12)
    with np.errstate(divide="ignore"):
        expected = 0.5 * np.logaddexp.reduce(np.where(near, 2 * log_norms, -np.inf), axis=1)
        np.testing.assert_allclose(log_group_norms(directions, log_norms, rows, close), expected, rtol=1e-13)


def test_without_a_neuron_there_is_no_norm():
    found = log_group_norms(np.ones((1, 1)), np.array([-np.inf]), np.array([0]), 0.1)
    assert np.isneginf(found).all()
