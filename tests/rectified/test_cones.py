"""Activation cones: counts by Cover, patterns by linear programming, and inputs in every bad position."""

from itertools import product

import numpy as np
import pytest
from rectified_cases import M4, M5D3, T3
from scipy.optimize import linprog

import agf
from agf.rectified.cones import n_cones, n_faces


def realizable(X):
    """Every sign pattern that some w other than 0 has, by linear programming; the independent route."""
    n, d = X.shape
    out = set()
    for u in map(np.array, product((-1, 0, 1), repeat=n)):
        if not u.any():
            if np.linalg.matrix_rank(X) < d:
                out.add(tuple(u.tolist()))
            continue
        rows, zero = -u[u != 0, None] * X[u != 0], X[u == 0]
        done = linprog(
            np.r_[np.zeros(d), -1.0],
            A_ub=np.c_[rows, np.ones(len(rows))],
            b_ub=np.zeros(len(rows)),
            A_eq=np.c_[zero, np.zeros(len(zero))] if len(zero) else None,
            b_eq=np.zeros(len(zero)) if len(zero) else None,
            bounds=[(-1, 1)] * d + [(None, 1)],
        )
        if -done.fun > 1e-9:
            out.add(tuple(u.tolist()))
    return out


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 3), (6, 4), (4, 4), (1, 1)])
def test_random_inputs_have_the_cones_and_faces_of_general_position(n, d):
    found = agf.cones(np.random.default_rng(n).standard_normal((n, d)))
    assert (found.n_open, found.dimensions.size) == (n_cones(n, d), n_faces(n, d)) == found.general


def test_the_counts_of_the_published_data_sets():
    counts = [(agf.cones(X).n_open, agf.cones(X).dimensions.size) for X, _ in (T3, M4, M5D3)]
    assert counts == [(6, 12), (8, 16), (22, 82)]


@pytest.mark.parametrize(
    "X",
    [
        M4[0],
        np.eye(3),
        [[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.0, 0.0]],  # collinear, and a zero
        [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]],  # a bias column, coplanar
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0, 0.0]],  # rank 2 in three dimensions
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]],  # four meet on a ray
        [[2.0]],
        [[2.0, 1.0]],
        np.zeros((1, 2)),
    ],
)
def test_patterns_are_those_that_linear_programming_realizes(X):
    found = agf.cones(X)
    assert {tuple(row.tolist()) for row in found.patterns} == realizable(np.asarray(X, dtype=float))
    assert len({tuple(row) for row in found.patterns}) == found.patterns.shape[0]


def test_a_face_has_the_dimension_of_what_its_kinks_leave():
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = agf.cones(X)
    for pattern, dimension in zip(found.patterns, found.dimensions, strict=True):
        on = X[pattern == 0]
        assert dimension == 3 - (np.linalg.matrix_rank(on) if on.size else 0)


def test_too_many_cones_are_refused_with_their_number():
    X = np.random.default_rng(0).standard_normal((1000, 10))
    with pytest.raises(agf.RequestError, match=r"1000 distinct inputs of rank 10 have up to \d\.\d+e\+\d+ activation"):
        agf.cones(X)


def test_patterns_take_a_byte_a_sign_and_are_refused_where_they_would_fill_the_memory():
    X = np.random.default_rng(0).standard_normal((700, 3))
    assert agf.cones(X[:20]).patterns.itemsize == 1
    with pytest.raises(
        agf.RequestError, match=r"700 distinct inputs of rank 3 have up to 1\.96e\+06 .* most 1\.92e\+05"
    ):
        agf.cones(X)


def test_names_and_table():
    found = agf.cones(T3[0])
    assert found.names[:2] == ("all", "++-")
    assert "General position has 6 open cones, 12 in all." in str(found)
    assert found.to_dict()["n_open"] == 6
