"""Factors with logarithmic sizes: exact growth, and the split of hidden space."""

from __future__ import annotations

import numpy as np
import pytest
from linear_cases import rotation
from scipy.linalg import expm

from agf.factored import Factored


def weights(rng, width, size):
    z = rng.standard_normal((width, size))
    norms = np.linalg.norm(z, axis=1)
    return z, Factored.of(z / norms[:, None], np.log(norms))


def dense(factored):
    return (factored.basis * np.exp(factored.logs) @ factored.hidden).T


@pytest.mark.parametrize(("width", "size"), [(2, 4), (4, 4), (6, 3)])
def test_growth_is_the_matrix_exponential(rng, width, size):
    z, factored = weights(rng, width, size)
    q = rng.standard_normal((size, size))
    rates, vectors = np.linalg.eigh(q + q.T)
    grown = factored.grown(vectors, rates, 1.5)
    np.testing.assert_allclose(dense(grown), z @ expm(1.5 * (q + q.T)), rtol=1e-9)


def test_frozen_growth_is_the_matrix_exponential_for_what_stays_dormant(rng):
    n, hidden, pause = 5, 4, 1.7
    vectors = rotation(rng, n)
    rates = np.array([1.0, 0.6, 0.0, -0.6, -1.0])
    dormant = Factored(rotation(rng, n)[:, :4], np.array([0.0, -1.0, -3.0, 0.5]), rng.standard_normal((4, hidden)))
    left, mode = dormant.taken(vectors, rates, pause, 1)
    weights = dormant.basis @ np.diag(np.exp(dormant.logs)) @ dormant.hidden
    grown = expm(vectors * rates @ vectors.T * pause) @ weights
    amplitude = vectors[:, 1] @ grown
    q = amplitude / np.linalg.norm(amplitude)
    np.testing.assert_allclose(mode, grown @ q, rtol=1e-12, atol=1e-13)
    rest = left.basis @ np.diag(np.exp(left.logs)) @ left.hidden
    np.testing.assert_allclose(rest, grown - np.outer(grown @ q, q), rtol=1e-11, atol=1e-12)
    assert left.logs.size == 3


def test_frozen_growth_keeps_relative_accuracy_over_hundreds_of_e_folds():
    """Two coupled modes at exp(0) and exp(-400): the small one's norm is a ratio of determinants, known exactly."""
    c, s = np.cos(0.7), np.sin(0.7)
    dormant = Factored(np.array([[c, -s], [s, c]]), np.array([0.0, -400.0]), np.eye(2))
    left, mode = dormant.taken(np.eye(2), np.array([1.0, 0.5]), 300.0, 0)
    # det = exp(-400) grows by exp(450); the first mode takes exp(300) c, to relative accuracy exp(-400).
    assert np.log(np.linalg.norm(left.basis * np.exp(left.logs))) == pytest.approx(
        -400 + 450 - 300 - np.log(c), abs=1e-9
    )
    assert np.log(np.abs(mode[0])) == pytest.approx(300 + np.log(c), abs=1e-9)


def test_rows_of_norm_zero_are_nothing():
    none = Factored.of(np.eye(2), np.full(2, -np.inf))
    assert none.empty
    assert np.isneginf(none.log_amplitudes(np.eye(2))).all()


def test_many_rows_of_about_one_size_are_as_many_mixtures_as_there_are_columns(rng):
    directions = rng.standard_normal((2000, 5))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    logs = -500.0 + 0.3 * rng.standard_normal(2000).clip(-3, 3)
    logs[7] = -np.inf
    found = Factored.of(directions, logs)
    assert found.logs.size == 5
    assert found.hidden.shape == (5, 2000)
    scaled = (found.basis * np.exp(found.logs + 500.0)) @ found.hidden
    np.testing.assert_allclose(scaled.T, directions * np.exp(logs + 500.0)[:, None], atol=1e-14 * np.exp(1.0))
