"""Critical directions of (leaky) ReLU utilities: exact values, an independent enumeration, and sampling."""

from itertools import combinations, product

import numpy as np
import pytest
from rectified_cases import M4, M5D3, T3, alignment, linear_residual
from scipy.optimize import lsq_linear

from agf.rectified.cones import Arrangement
from agf.rectified.extremal import extremal

TWO = np.array([[1.0, 0.0], [-0.3, 1.0]])


def angles(found):
    return np.degrees(np.arctan2(found.directions[:, 1], found.directions[:, 0]))


def listed(found, kind):
    """(value, angle) of one kind, as the tables of [BF24] give them."""
    return {
        (round(float(v), 6), round(float(a) % 360, 3))
        for v, a, k in zip(found.values, angles(found), found.kinds, strict=True)
        if k == kind
    }


def test_one_point():
    found = extremal(np.ones((1, 1)), np.ones(1))
    assert (found.kinds, found.values.tolist()) == (("maximum",), [1.0])
    leaky = extremal(np.ones((1, 1)), np.ones(1), 0.1)
    assert (leaky.kinds, leaky.values.tolist()) == (("maximum", "minimum"), [1.0, -0.1])


def test_three_points_have_one_extremal_vector_and_a_leak_adds_its_mirror():
    X, y = T3
    drive = X.T @ y / 3
    found = extremal(X, y / 3)
    assert found.kinds == ("maximum",)
    assert found.values == pytest.approx([np.linalg.norm(drive)], rel=1e-14)
    assert found.directions[0] == pytest.approx(drive / np.linalg.norm(drive), rel=1e-14)
    leaky = extremal(X, y / 3, 0.1)
    assert listed(leaky, "minimum") == {(-0.071497, 291.181)}


def test_two_points_of_one_sign():
    found = extremal(TWO, np.array([0.5, 0.5]))
    assert listed(found, "maximum") == {(0.522015, 106.699), (0.610328, 55.008), (0.5, 0.0)}
    assert listed(found, "minimum") == {(0.5, 90.0), (0.478913, 16.699)}
    assert len(found.flats) == 1
    assert found.flats[0].dead


@pytest.mark.parametrize(
    ("second", "high", "low", "slopes"),
    [((0.6, 0.8), (0.4, 323.13), (-0.4, 90.0), (0.6, 0.6)), ((-0.6, 0.8), (0.5, 0.0), (-0.5, 126.87), None)],
)
def test_two_points_of_opposite_signs(second, high, low, slopes):
    found = extremal(np.array([[1.0, 0.0], second]), np.array([0.5, -0.5]))
    assert (listed(found, "maximum"), listed(found, "minimum")) == ({high}, {low})
    if slopes is not None:
        assert (found.slopes[0, 1], found.slopes[1, 0]) == pytest.approx(slopes)


def test_four_points_alternate():
    found = extremal(M4[0], M4[1] / 4)
    assert listed(found, "maximum") == {(0.161555, 248.199), (0.36, 180.0), (0.214709, 332.241), (0.225089, 343.301)}
    assert listed(found, "minimum") == {(0.160997, 243.435), (0.13532, 281.31), (0.21355, 338.199), (-0.049193, 63.435)}
    assert not found.flats
    around = [found.kinds[i] for i in np.argsort(angles(found) % 360)]
    assert all(a != b for a, b in zip(around, around[1:] + around[:1], strict=True))


@pytest.mark.parametrize(("leak", "counts"), [(0.0, (6, 8, 4)), (0.1, (6, 9, 5))])
def test_five_points_in_three_dimensions(leak, counts):
    found = extremal(M5D3[0], M5D3[1] / 5, leak)
    assert tuple(found.kinds.count(k) for k in ("maximum", "saddle", "minimum")) == counts
    if leak == 0:
        assert found.values[0] == pytest.approx(0.312, abs=5e-4)
        assert found.patterns[0].tolist() == [-1, -1, 1, 1, -1]


def test_orthogonal_inputs_have_degenerate_directions_unless_leaky():
    # E8: the sign rule calls the two degenerate ones minima; G rises on one side of them and falls on the other
    found = extremal(np.eye(2), np.array([0.5, 1.0]))
    assert found.kinds == ("maximum", "degenerate", "degenerate")
    assert found.values == pytest.approx([1.118034, 1.0, 0.5], abs=1e-6)
    leaky = extremal(np.eye(2), np.array([0.5, 1.0]), 0.1)
    assert leaky.kinds == ("maximum", "minimum")
    assert leaky.values == pytest.approx([1.118034, -0.111803], abs=1e-6)


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, 1, -1, -1), (1, -1, -1, -1)])
def test_orthogonal_inputs_have_one_for_every_set_of_one_sign(signs):
    found = extremal(np.eye(len(signs)), np.array(signs, dtype=float))
    positive = signs.count(1)
    assert found.size == 2**positive - 1 + 2 ** (len(signs) - positive) - 1


def test_the_residual_of_least_squares_has_two_equal_maxima_and_no_minimum():
    X, y = T3
    found = extremal(X, linear_residual(X, y) / 3)
    assert listed(found, "maximum") == {(0.030579, 26.565), (0.030579, 206.565)}
    assert found.size == 2
    slopes = sorted(slope for row in found.slopes for slope in row)
    assert slopes == pytest.approx([0, 0, 0.2143, 0.7857, 1, 1], abs=1e-4)
    flats = sorted((flat.pattern.tolist(), flat.kind, flat.dead) for flat in found.flats)
    assert flats == [([-1, -1, -1], "minimum", True), ([1, 1, 1], "minimum", False)]


def independent(X, c, leak):
    """Definition 1 of [BF24] with bounded least squares on every face: the slow reference."""
    arrangement = Arrangement.of(X)
    out = []
    for u in arrangement.faces()[:, arrangement.owner] * arrangement.orient.astype(int):
        fixed = (((u > 0) + leak * (u < 0)) * c) @ X
        kinks = np.flatnonzero(u == 0)
        drive = fixed
        if kinks.size:
            fit = lsq_linear((c[kinks, None] * X[kinks]).T, -fixed, (leak, 1.0), tol=1e-14)
            drive = fixed + fit.x @ (c[kinks, None] * X[kinks])
        size = np.linalg.norm(drive)
        if size > 1e-10:
            heights = X @ drive / size
            signs = np.sign(np.where(np.abs(heights) > 1e-7, heights, 0))
            out += [side * size for side in (1, -1) if (signs == side * u).all()]
    return np.sort(out)


@pytest.mark.parametrize("seed", range(12))
def test_bounded_least_squares_on_every_face_finds_the_same(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    X, c, leak = rng.standard_normal((n, d)), rng.standard_normal(n), float(rng.choice([0.0, 0.2]))
    assert np.sort(extremal(X, c, leak).values) == pytest.approx(independent(X, c, leak), abs=1e-9)


def sampled_kind(X, c, leak, v, pattern, rng):
    """Kind of v by G at nearby points: at random, and inside the span of each subset of its kinks."""
    radius = 1e-3 * min(1.0, np.abs((X @ v)[pattern != 0]).min(initial=1.0))
    near = [v[None]]
    kinks = np.flatnonzero(pattern == 0)
    for k in range(kinks.size + 1):
        for held in combinations(kinks, k):
            step = rng.standard_normal((200, v.size))
            step -= np.outer(step @ v, v)
            if held:
                across = np.vstack([X[list(held)], v])
                step -= step @ np.linalg.pinv(across) @ across
            near.append(v + radius * step)
    points = np.vstack(near)
    points /= np.linalg.norm(points, axis=1)[:, None]
    rise = alignment(X, c, leak, points)[1:] - alignment(X, c, leak, v)
    noise = 1e-9 * radius * np.abs(c) @ np.linalg.norm(X, axis=1)
    return "maximum" if (rise < noise).all() else "minimum" if (rise > -noise).all() else "saddle"


@pytest.mark.parametrize("d", [2, 3, 4])
def test_kinds_agree_with_sampling_on_random_problems(d):
    rng = np.random.default_rng(d)
    for _ in range(12):
        n = int(rng.integers(d, 8))
        X, c, leak = rng.standard_normal((n, d)), rng.standard_normal(n), float(rng.choice([0.0, 0.1]))
        found = extremal(X, c, leak)
        assert found.size > 0
        for v, kind, pattern, value in zip(found.directions, found.kinds, found.patterns, found.values, strict=True):
            assert sampled_kind(X, c, leak, v, pattern, rng) == kind
            assert alignment(X, c, leak, v) == pytest.approx(value, rel=1e-9)
        if d == 2:
            assert "saddle" not in found.kinds


@pytest.mark.parametrize("seed", range(6))
def test_maxima_less_saddles_plus_minima_are_two_on_the_sphere(seed):
    rng = np.random.default_rng(seed)
    found = extremal(rng.standard_normal((15, 3)), rng.standard_normal(15), 0.2)
    assert not found.flats
    count = found.kinds.count
    assert count("maximum") - count("saddle") + count("minimum") == 2


@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_slopes_make_the_direction_a_subgradient_of_its_own_value(leak):
    found = extremal(M5D3[0], M5D3[1] / 5, leak)
    drive = (found.slopes * M5D3[1] / 5) @ M5D3[0]
    assert drive == pytest.approx(found.values[:, None] * found.directions, abs=1e-12)
    assert ((found.slopes >= leak) & (found.slopes <= 1)).all()


def test_covariant_under_rotation_scale_and_sign():
    rng = np.random.default_rng(3)
    X, c = rng.standard_normal((9, 3)), rng.standard_normal(9)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    one, other = extremal(X, c), extremal(1e50 * X @ turn, -1e30 * c)
    assert other.values[::-1] == pytest.approx(-1e80 * one.values, rel=1e-9)
    assert other.directions[::-1] == pytest.approx(one.directions @ turn, abs=1e-9)


def test_rows_that_are_zero_or_copies_change_nothing_and_inputs_in_a_plane_keep_it():
    X, c = M4[0], M4[1] / 4
    more = np.vstack([X, np.zeros((1, 2)), X[:1], -2.0 * X[1:2]])
    # half of the first sample is moved to a copy; the mirror image of the second has nothing left to fit
    same = extremal(more, np.r_[c[0] / 2, c[1:], 3.0, c[0] / 2, 0.0])
    assert same.values == pytest.approx(extremal(X, c).values, rel=1e-12)
    flat = extremal(np.c_[X, np.zeros(4)], c)
    assert flat.values == pytest.approx(extremal(X, c).values, rel=1e-9)
    assert flat.kinds.count("saddle") == 3  # turning out of the plane lowers G: a minimum of positive G is a saddle


def test_opposite_labels_on_one_line_cancel_their_kink():
    # sigma(z) - sigma(-z) is linear: two mirror images with opposite labels bend nothing
    found = extremal(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0]))
    assert found.values == pytest.approx([1.0, -1.0])
    assert found.kinds == ("maximum", "minimum")


def test_a_leak_of_one_is_a_linear_network():
    found = extremal(M5D3[0], M5D3[1], 1.0)
    drive = np.linalg.norm(M5D3[1] @ M5D3[0])
    assert found.values == pytest.approx([drive, -drive])


def test_nothing_left_to_fit_has_no_critical_direction():
    assert extremal(M4[0], np.zeros(4)).size == 0


def test_a_hundred_points_in_three_dimensions():
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((100, 3)), rng.standard_normal(100)
    found = extremal(X, c)
    count = found.kinds.count
    assert count("maximum") - count("saddle") + count("minimum") == 2
    points = rng.standard_normal((4000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    sampled = alignment(X, c, 0.0, points)
    assert found.values[0] >= sampled.max() >= 0.98 * found.values[0]
    assert found.values[-1] <= sampled.min()


def test_grids_have_many_hyperplanes_on_a_ray():
    X = np.array([[i, j, 1.0] for i, j in product((-1.0, 0.0, 1.0), repeat=2)])
    c = np.random.default_rng(1).standard_normal(9)
    assert np.sort(extremal(X, c, 0.1).values) == pytest.approx(independent(X, c, 0.1), abs=1e-9)
