"""ReLU networks: data preparation, extremal vectors as an oracle, known limits of tiny data sets, refused data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import agf
from agf import registry, sphere
from agf.datasets import load

Relu = registry.find("relu")

#: Three points on a line with a hidden bias, and what is known of them in closed form [BF24] (design: early alignment).
T3 = (np.c_[[-0.75, -0.5, 0.125], np.ones(3)], np.array([1.1, 0.1, 0.8]))
#: Four points in the plane with eight extremal vectors: (angle in degrees, G) of the maxima, and of the minima.
M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]))
M4_MAXIMA = [(-111.801, 0.161555), (180.0, 0.36), (-27.759, 0.214709), (-16.699, 0.225089)]
M4_MINIMA = [(-116.565, 0.160997), (-78.690, 0.135320), (-21.801, 0.213550), (63.435, -0.049193)]


@pytest.fixture(scope="module")
def digits():
    return load("digits")


# -- data -------------------------------------------------------------------------------------------------------------


def test_whitened_inputs_have_identity_covariance_on_the_directions_they_span(digits):
    p = Relu(digits["X"], digits["Y"], whiten=True)
    assert p.X.shape == (1797, 61)  # three pixels are always zero
    assert_allclose(p.X.T @ p.X / 1797, np.eye(61) / 61, atol=1e-12)


def test_the_example_is_the_papers_whitened_digits():
    p = agf.problem("relu", **agf.registry.find("relu").example())
    assert (p.n_samples, p.width, p.n_outputs) == (1797, 10, 10)
    assert np.allclose(p.X.T @ p.X / p.n_samples, np.eye(p.n_inputs) / p.n_inputs, atol=1e-10)


def test_whitening_keeps_collinear_columns_and_their_rank():
    X = np.random.default_rng(0).standard_normal((30, 3))
    p = Relu(np.c_[X, X[:, :1] + X[:, 1:2]], X[:, 0], whiten=True)
    values = np.linalg.eigvalsh(p.X.T @ p.X / 30)
    assert values == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3], abs=1e-12)


def test_data_are_taken_as_given_and_what_is_done_to_them_is_said(rng):
    X, y = 3.0 * rng.standard_normal((20, 3)) + 1.0, rng.standard_normal(20) + 5.0
    plain = Relu(X, y)
    assert np.array_equal(plain.X, X)
    assert np.array_equal(plain.Y, y[:, None])
    assert plain.describe().endswith("data as given")
    theta = rng.standard_normal((10, 4))
    assert plain.loss_grad(theta, np.arange(10))[0] == agf.TwoLayer(X, y).loss_grad(theta, np.arange(10))[0]
    assert np.array_equal(Relu(X, np.sign(y - 5.0)).Y[:, 0], np.sign(y - 5.0))  # signed labels are targets
    done = Relu(X, y, scale="rms", centre="both")
    assert done.X.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-14)
    assert np.sum(done.X**2) / 20 == pytest.approx(1.0)
    assert done.describe().endswith("targets minus their mean, inputs minus their mean, inputs scaled to E|x|^2 = 1")
    assert np.array_equal(Relu(X, y, whiten=True).X, Relu(X, y, scale="whiten").X)


def test_scaled_inputs_are_the_given_ones_with_unit_mean_square(digits):
    p = Relu(digits["X"], digits["Y"], scale="rms")
    kept = digits["X"][:, digits["X"].any(axis=0)]
    assert np.sum(p.X**2) / 1797 == pytest.approx(1.0, rel=1e-14)
    assert p.X * (kept.max() / p.X.max()) == pytest.approx(kept, rel=1e-13)


@pytest.mark.parametrize("scale", ["rms", "whiten"])
def test_preparation_does_not_depend_on_the_units_of_the_data(digits, scale):
    small = Relu(1e-200 * digits["X"][:50], digits["Y"][:50], scale=scale)
    large = Relu(1e200 * digits["X"][:50], digits["Y"][:50], scale=scale)
    assert_allclose(small.X, large.X, rtol=1e-9, atol=1e-12)


def test_classes_are_read_in_any_form(digits):
    labels = digits["labels"]
    want = np.eye(10)[labels] - 0.1
    for Y in (labels, labels.astype(float), labels[:, None], digits["Y"], np.eye(10)[labels], labels.astype(str)):
        p = Relu(digits["X"], Y, centre="targets")
        assert_allclose(p.Y, want)
        assert len(p.classes) == 10
        assert_allclose(Relu(digits["X"], Y, loss="cross-entropy").Y, np.eye(10)[labels])


def test_whole_numbers_are_targets_when_asked_or_when_there_are_too_many_of_them():
    X = np.random.default_rng(0).standard_normal((120, 2))
    few, many = np.arange(120) % 3, np.arange(120) % 60
    assert Relu(X, few).classes == (0, 1, 2)
    assert_allclose(Relu(X, few, task="regression").Y, few[:, None])
    assert_allclose(Relu(X, few).Y, np.eye(3)[few])
    assert Relu(X, many).classes == ()
    assert len(Relu(X, many, task="classification").classes) == 60


def test_regression_targets_are_centred_where_asked(rng):
    Y = rng.standard_normal((20, 2)) + 5
    assert Relu(rng.standard_normal((20, 3)), Y, centre="targets").Y.mean(axis=0) == pytest.approx([0, 0], abs=1e-14)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X": [[1.0, np.nan]] * 4}, r"`X` has 4 non-finite value\(s\), the first at index \(0, 1\)"),
        ({"Y": [1.5, 2.5, np.nan, 0.5]}, r"`Y` has 1 non-finite"),
        ({"Y": [7, 7, 7, 7], "centre": "targets"}, r"constant over the 4 row\(s\)"),
        ({"Y": ["a"] * 4}, r"one class only. Found \['a'\] in 4 row"),
        ({"Y": [1, 1, 1, 1], "task": "classification"}, r"one class only"),
        ({"Y": [0, 1, 2, 2], "loss": "logistic"}, r"3 distinct value"),
        ({"X": [[1.0, 2.0]], "Y": [1.0], "centre": "both"}, r"constant over the 1 row\(s\)"),
        ({"X": [[1.0, 2.0]], "Y": [1], "loss": "cross-entropy"}, r"one class only"),
        ({"X": np.zeros((0, 2)), "Y": []}, r"empty"),
        ({"X": np.zeros((4, 2))}, r"`X` is zero everywhere"),
        ({"Y": [0.0, 1.0, 0.0]}, r"`X` has 4 rows and `Y` 3"),
        ({"scale": "unit"}, r"unknown scale 'unit'. Expected one of given, rms, whiten"),
        ({"centre": "x"}, r"unknown centre 'x'. Expected one of none, inputs"),
        ({"task": "clustering"}, r"unknown task 'clustering'. Expected one of auto"),
        ({"loss": "hinge"}, r"unknown loss 'hinge'. Expected one of half-squared"),
        ({"leak": 1.5}, r"`leak` must be between 0 and 1"),
        ({"X": [["a", "b"]] * 4}, r"`X` holds text"),
        ({"Y": np.array(["2020-01-01"] * 4, dtype="M8[D]")}, r"`Y` holds dates"),
        ({"Y": np.ones(4, dtype="m8[s]"), "loss": "logistic"}, r"`Y` holds lengths of time"),
    ],
)
def test_bad_data_are_refused_in_a_sentence(arguments, words):
    with pytest.raises(agf.DataError, match=words):
        Relu(**{"X": np.eye(4), "Y": [0.1, 0.9, 0.4, 0.2], **arguments})


def test_samples_that_are_all_zero_are_legal():
    p = Relu([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [0.0, 0.5, 1.5])
    assert agf.check(p).passed


def test_mnist_comes_from_the_installed_package():
    data = load("mnist5k")
    p = Relu(data["X"][::50], data["Y"][::50], width=2, whiten=True)
    assert p.n_samples == 100
    assert p.classes == tuple(range(10))


# -- utility ----------------------------------------------------------------------------------------------------------


def ascend(problem, theta, residual):
    """Utility ascent on the sphere by small fixed steps: as far from the engine's integrator as can be."""
    neurons = np.arange(theta.shape[0])
    for rate, steps in ((0.1, 2000), (0.003, 3000)):  # the second is slow enough for the rounded kinks
        for _ in range(steps):
            theta = sphere.normalize(theta + rate * problem.utility(theta, neurons, residual)[1])
    return theta, problem.utility(theta, neurons, residual)[0]


def test_utility_maxima_are_the_extremal_vectors():
    p = agf.TwoLayer(*M4, width=2)
    residual = p.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    rng = np.random.default_rng(0)
    for sign, known in ((1, M4_MAXIMA), (-1, M4_MINIMA)):
        angles = rng.uniform(0, 2 * np.pi, 60)
        theta = np.c_[np.cos(angles), np.sin(angles), np.full(60, sign)] / np.sqrt(2)
        theta, utility = ascend(p, theta, residual)
        grown = utility > 1e-6  # a maximum of negative G shrinks neurons of positive a, and the reverse
        found = np.degrees(np.arctan2(theta[grown, 1], theta[grown, 0]))
        for angle, value in known:
            near = np.abs((found - angle + 180) % 360 - 180) < 1.0
            if value * sign > 0:
                assert near.any()
                assert utility[grown][near] == pytest.approx(abs(value) / 2, rel=3e-3)  # 1 + O(kink)


def test_the_first_utility_of_three_points_is_half_the_norm_of_the_mean_of_y_x():
    p = agf.TwoLayer(*T3, width=1)
    drive = T3[0].T @ T3[1] / 3
    theta = np.r_[drive / np.linalg.norm(drive), 1.0][None] / np.sqrt(2)
    residual = p.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    utility, grad = p.utility(theta, np.array([0]), residual)
    assert utility[0] == pytest.approx(0.7149689 / 2, rel=1e-6)
    assert sphere.tangent(theta, grad) == pytest.approx(np.zeros((1, 3)), abs=1e-15)


def test_the_slope_at_a_kink_is_found_with_a_minus_sign():
    # [BF24] section 2: D = D~ + (1/n) sum over K of eta g x = D~ - Z eta with Z = (1/n) l' x, printed as D~ + Z eta
    X, y = M4
    w = np.array([np.cos(np.radians(-16.699)), np.sin(np.radians(-16.699))])
    k = 1
    others = [j for j in range(4) if j != k and X[j] @ w > 0]
    drive = sum(y[j] * X[j] for j in others) / 4
    z = -y[k] * X[k] / 4
    slope = np.linalg.lstsq(z[:, None], drive - (drive @ w) * w, rcond=None)[0][
        0
    ]  # D along w: D~ - slope z = (D~ . w) w
    assert slope == pytest.approx(0.5734, abs=1e-4)
    assert np.linalg.norm(drive - slope * z) == pytest.approx(0.225089, abs=1e-5)
    assert not 0 <= -slope <= 1  # what the printed sign would need


def test_data_that_break_assumption_5_still_end_at_the_linear_fit():
    # three points in the boxes of Assumption 3 (eta = .15) of [BF24], which should imply Assumption 5 by its lemma 8
    X, y = np.array([[-0.85, 1.15], [-0.15, 1.15], [0.85, 1.15]]), np.array([1.0, 0.15, 1.15])
    gram = X @ X.T
    gap = [y[k] * gram[k, k] - np.linalg.norm(y) * np.sqrt(np.sum(gram[k] ** 2) - gram[k, k] ** 2) for k in (0, 2)]
    assert min(gap) == pytest.approx(-0.358, abs=1e-3)
    p = agf.TwoLayer(X, y, width=20)
    flow = agf.flow(p, p.init(1e-3, seed=0, kind="balanced"), t_max=200.0)
    level = np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2) / 6
    assert level == pytest.approx(0.0914193, abs=1e-7)
    assert flow.losses[-1] == pytest.approx(level, rel=1e-3)


def test_the_law_inside_a_cone_is_hyperbolic():
    # [BF24], balanced neuron at 160 degrees, norm 1e-6, t = 3: growth of the output weight and alignment with D*
    p = agf.TwoLayer(*T3, width=1)
    angle = np.radians(160.0)
    init = agf.Init.from_params([[1e-6 * np.cos(angle), 1e-6 * np.sin(angle), 1e-6]])
    flow = agf.flow(p, init, t_max=3.0, rtol=1e-8)
    theta = flow.params(-1)[0]
    drive = T3[0].T @ T3[1] / 3
    assert theta[2] / 1e-6 == pytest.approx(7.1026, rel=1e-4)
    assert theta[:2] @ drive / np.linalg.norm(drive) / theta[2] == pytest.approx(0.994370, abs=1e-5)


@pytest.mark.parametrize("kink", [None, 1e-3, 1e-4, 0.0])
def test_a_neuron_that_dies_beside_its_last_sample_stays_dead(kink):
    # The second neuron shrinks until its last sample is no longer active; rounded kinks brought it back to life. The
    # textbook network ends at .1089 (torch, the same steps): the first neuron fits the points it can.
    X, y = np.array([[-0.75, 1], [-0.125, 1], [0.5, 1]]), np.array([0.01, 1, 0.01])
    w = np.cos(0.02) * np.array([-0.8, -0.6]) + np.sin(0.02) * X[0] / 1.25
    init = agf.Init.from_params(1e-3 * np.array([[0, 1, 1], [*w, -1]]))
    p = agf.TwoLayer(X, y, width=2, kink=kink)
    assert agf.descend(p, init, lr=0.02, steps=10_000).losses[-1] == pytest.approx(0.1089, abs=1e-6)
    assert agf.flow(p, init, t_max=300.0).losses[-1] == pytest.approx(0.1089, abs=1e-5)
    assert agf.predict(p, init, mode="agf").levels[-1] == pytest.approx(0.1089, abs=1e-5)
    stairs = agf.predict(p, init, mode="resolved")
    assert stairs.levels[-1] == pytest.approx(0.1089, abs=1e-5)
    assert stairs.stats["velocity_evaluations"] < 5_000  # with a sharp kink it waited for the dead one, 2,000,000


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize(("label", "sign"), [(1, 1.0), (-1, -1.0), (0, -1.0), ("b", 1.0)])
def test_one_class_is_data(loss, label, sign):
    p = Relu([[1.0, 0.0], [0.1, 1.0]], [label, label], width=4, loss=loss)
    assert np.array_equal(p.Y, [[sign], [sign]])
    stairs = agf.predict(p, p.init(1e-6, seed=0), mode="agf")
    assert stairs.levels[-1] < 0.5 * stairs.levels[0]


def test_dead_neurons_never_move():
    p = agf.TwoLayer(*T3, width=2)
    dead, alive = [0.1, -1.0, 1.0], [0.1, 1.0, 1.0]
    init = agf.Init.from_params(1e-6 * np.array([dead, alive]))
    flow = agf.flow(p, init, t_max=60.0)
    assert np.array_equal(flow.params(-1)[0], init.params()[0])


# -- prediction -------------------------------------------------------------------------------------------------------


def test_a_single_neuron_on_three_points_ends_at_the_linear_fit():
    # all points active: the level is that of least squares, and accelerated time 1 / |D*| up to O(1 / log alpha)
    p = agf.TwoLayer(*T3, width=1)
    drive = T3[0].T @ T3[1] / 3
    level = np.sum((T3[1] - T3[0] @ np.linalg.lstsq(*T3, rcond=None)[0]) ** 2) / 6
    for alpha in (1e-8, 1e-100, 1e-200):
        init = agf.Init.scaled(np.r_[drive, np.linalg.norm(drive)][None], alpha)
        stairs = agf.predict(p, init, mode="agf")
        assert len(stairs.drops) == 1
        assert stairs.levels[1] == pytest.approx(level, rel=1e-4)
        assert stairs.accelerated_times[1] == pytest.approx(1 / np.linalg.norm(drive), rel=3 / -np.log(alpha))
    flow = agf.flow(p, agf.Init.scaled(np.r_[drive, np.linalg.norm(drive)][None], 1e-8), t_max=200.0)
    stairs = agf.predict(p, agf.Init.scaled(np.r_[drive, np.linalg.norm(drive)][None], 1e-8), mode="agf")
    assert stairs.half_times[1] == pytest.approx(flow.time_at(0.5 * (0.31 + level)), rel=1e-3)


def test_a_prediction_on_digits_follows_the_flow(digits):
    p = Relu(digits["X"][:400], digits["Y"][:400], width=1, scale="whiten")
    init = p.init(1e-10, seed=0)
    stairs = agf.predict(p, init, mode="agf")
    flow = agf.flow(p, init, t_max=1.3 * stairs.times[-1])
    start, end = stairs.levels
    assert stairs.half_times[1] == pytest.approx(flow.time_at(0.5 * (start + end)), rel=0.02)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_separable_classes_end_with_a_status_not_a_loop(loss):
    X = np.array([[1.0, 0.2], [0.8, -0.1], [-1.0, 0.3], [-0.7, -0.2]])
    p = Relu(X, [1, 1, 0, 0], width=3, loss=loss)
    stairs = agf.predict(p, p.init(1e-6, seed=1), mode="agf")
    assert isinstance(stairs.status, agf.Status)
    assert stairs.levels[-1] < stairs.levels[0]


# -- the dormant phase, exactly ---------------------------------------------------------------------------------------


def test_in_the_limit_aligned_neurons_make_one_drop_at_the_rate_of_their_vector():
    # two neurons of T3 reach D* from either side: one drop at 1/|D*|, and nothing after it
    t = np.deg2rad([190.0, 100.0])
    init = agf.Init.from_params(1e-8 * np.c_[np.cos(t), np.sin(t), [1, 1]], alpha=1e-8)
    stairs = agf.predict(agf.TwoLayer(*T3, width=2), init, mode="limit")
    assert stairs.accelerated_times[1:] == pytest.approx([1 / np.linalg.norm(T3[0].T @ T3[1] / 3)], rel=1e-9)
    assert stairs.levels[1:] == pytest.approx([0.0875213675], rel=1e-4)


def test_a_balanced_neuron_keeps_the_sign_of_its_output_while_it_shrinks():
    # M4: the second neuron slides to a ray where it shrinks, exactly opposite its field (closed form, 240 bits)
    t = np.deg2rad([180.0, -145.13])
    init = agf.Init.from_params(1e-8 * np.c_[np.cos(t), np.sin(t), [1, -1]])
    states = []
    agf.predict(agf.TwoLayer(*M4, width=2), init, observer=lambda state, drop: states.append(state), mode="agf")
    assert states[0].directions[1, 2] == pytest.approx(-np.sqrt(0.5), abs=1e-12)
    assert states[0].log_norms[1] == pytest.approx(-26.505, abs=2e-3)


@pytest.mark.parametrize("rtol", [1e-6, 1e-9])
def test_a_neuron_on_a_kink_is_predicted_from_where_it_is(rtol):
    # M4 from -20 degrees: with rounded directions it ended at .26; training and exact events have .305
    t = np.deg2rad(-20.0)
    p = agf.TwoLayer(*M4, width=1)
    init = agf.Init.from_params(1e-6 * np.array([[np.cos(t), np.sin(t), 1]]))
    stairs = agf.predict(p, init, rtol=rtol, mode="agf")
    assert stairs.levels[1:] == pytest.approx([0.305], rel=1e-4)
    assert stairs.stats["utility_evaluations"] == 0
    limit = agf.predict(p, init, mode="limit")
    assert limit.accelerated_times[1] == pytest.approx(1 / 0.225089, rel=1e-5)


def test_a_spurious_end_is_an_end():
    # T3, balanced: every neuron left is dead, or rests where the least-squares fit leaves it nothing [BF24] Theorem 2.
    # What the residual is not known to must not turn them, given time, into directions that would help.
    rng = np.random.default_rng(0)
    w = 1e-3 / np.sqrt(20) * rng.standard_normal((20, 2))
    sign = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    init = agf.Init.from_params(np.c_[w, sign * np.linalg.norm(w, axis=1)])
    stairs = agf.predict(agf.TwoLayer(*T3, width=20), init, mode="agf")
    assert len(stairs.drops) == 1
    assert stairs.levels[-1] == pytest.approx(0.0875213675, rel=1e-4)
