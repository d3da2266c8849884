"""Laws of the sphere helpers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from agf import sphere

rows = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(rows)
def test_polar_and_cartesian_are_inverse(theta):
    assert sphere.cartesian(*sphere.polar(theta)) == pytest.approx(theta, rel=1e-13, abs=1e-300)


@given(rows)
def test_directions_are_unit_or_zero(theta):
    directions, log_norms = sphere.polar(theta)
    lengths = np.linalg.norm(directions, axis=1)
    assert lengths[np.isfinite(log_norms)] == pytest.approx(1.0, rel=1e-14)
    assert (lengths[~np.isfinite(log_norms)] == 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_norms_neither_underflow_nor_overflow(scale):
    assert sphere.norms(np.array([[3.0, 4.0], [0.0, 0.0]]) * scale) == pytest.approx([5.0 * scale, 0.0], rel=1e-14)


def test_a_neuron_below_the_range_of_float64_becomes_zero_and_keeps_its_log_norm():
    theta = sphere.cartesian(np.array([[0.6, 0.8]]), np.array([-2000.0]))
    assert (theta == 0).all()


@given(rows)
def test_tangent_is_orthogonal_and_leaves_tangents_alone(vectors):
    rng = np.random.default_rng(0)
    directions = sphere.random(rng, *vectors.shape)
    tangent = sphere.tangent(directions, vectors)
    size = 1e-14 * sphere.norms(vectors)
    assert (np.abs(np.sum(tangent * directions, axis=1)) <= size).all()
    assert (sphere.norms(sphere.tangent(directions, tangent) - tangent) <= size).all()


def test_random_points_have_no_preferred_direction_and_repeat_with_the_seed():
    points = sphere.random(np.random.default_rng(5), 20_000, 3)
    # the mean of n unit vectors in 3-d has components of standard deviation 1 / sqrt(3 n) = 0.004
    assert np.abs(points.mean(axis=0)).max() < 5 * 0.0041
    assert (points == sphere.random(np.random.default_rng(5), 20_000, 3)).all()
