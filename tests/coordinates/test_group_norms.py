"""Norms of groups of aligned neurons against sums over every pair."""

import numpy as np
import pytest

from agf.coordinates import aligned
from agf.coordinates.aligned import log_group_norms
from agf.errors import ProblemError


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


@pytest.mark.parametrize("clusters", [2, 6, 200])
@pytest.mark.parametrize("close", [0.1, 0.5])
@pytest.mark.parametrize("wide", [1e-9, 0.02, 0.3])
def test_many_neurons_around_few_directions_have_the_norms_of_all_pairs(rng, clusters, close, wide):
    m = aligned._MANY + 300
    centres = rng.standard_normal((clusters, 3))
    directions = centres[rng.integers(clusters, size=m)] + wide * rng.standard_normal((m, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    log_norms, rows = -5.0 * rng.random(m), rng.choice(m, 500, replace=False)
    near = directions[rows] @ directions.T >= 1 - 0.5 * close**2
    expected = 0.5 * np.log(near @ np.exp(2 * log_norms))
    np.testing.assert_allclose(log_group_norms(directions, log_norms, rows, close), expected, rtol=0, atol=1e-12)


def test_few_directions_cost_products_with_their_leaders_alone(rng, monkeypatch):
    m = 4 * aligned._MANY
    directions = np.repeat(np.eye(3), m, axis=0)[rng.permutation(3 * m)[:m]]
    pairs, sums = [], aligned._sums
    monkeypatch.setattr(aligned, "_sums", lambda d, s, at, c: pairs.append(len(d) * len(at)) or sums(d, s, at, c))
    found = log_group_norms(directions, np.zeros(m), np.arange(m), 0.5)
    assert sum(pairs) == 0
    np.testing.assert_allclose(np.exp(2 * found), directions @ directions.sum(axis=0))


def test_neurons_in_all_directions_are_compared_up_to_a_size_and_refused_beyond_it(rng, monkeypatch):
    m = 4 * aligned._MANY
    scattered = rng.standard_normal((m, 5))
    scattered /= np.linalg.norm(scattered, axis=1)[:, None]
    together = np.eye(5)[rng.integers(5, size=m)]
    monkeypatch.setattr(aligned, "_PRODUCTS", 0.5 * m * scattered.size)
    log_group_norms(together, np.zeros(m), np.arange(m), 0.5)
    with pytest.raises(ProblemError, match=r"4,096 neurons .* smaller width, or a smaller alpha"):
        log_group_norms(scattered, np.zeros(m), np.arange(m), 0.5)
