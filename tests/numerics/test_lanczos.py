"""Largest eigenvalues of many small maps at once."""

import numpy as np
import pytest

from agf import sphere
from agf.numerics import lanczos


@pytest.mark.parametrize("p", [2, 5, 12])
def test_enough_steps_give_the_largest_eigenvalue_on_the_tangent_space(p):
    rng = np.random.default_rng(p)
    matrices = rng.standard_normal((7, p, p))
    matrices += matrices.transpose(0, 2, 1)
    unit = sphere.random(rng, 7, p)
    across = np.eye(p) - unit[:, :, None] * unit[:, None, :]
    inside = np.einsum("mij,mjk,mkl->mil", across, matrices, across)
    found = lanczos.largest(lambda v: np.einsum("mij,mj->mi", inside, v), unit, p - 1)
    basis = [np.linalg.svd(u[None])[2][1:] for u in unit]
    exact = [np.linalg.eigvalsh(b @ a @ b.T).max() for a, b in zip(matrices, basis, strict=True)]
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_few_steps_never_overestimate():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((30, 30))
    a += a.T
    unit = np.eye(30)[:1]
    exact = np.linalg.eigvalsh(a[1:, 1:]).max()
    assert 0.5 * exact < lanczos.largest(lambda v: v @ a * (np.arange(30) > 0), unit, 8)[0] <= exact * (1 + 1e-12)


def test_a_space_of_no_dimension_has_no_eigenvalue():
    assert lanczos.largest(lambda v: v, np.ones((2, 1)), 0).tolist() == [-np.inf, -np.inf]
