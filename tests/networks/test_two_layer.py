"""Two-layer networks on data: formulas against definitions, leading orders, exactness at any norm, bad input."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf
from agf import sphere
from agf.conformance.checks import check
from agf.contract.problem import Problem
from agf.losses import NAMES as LOSSES
from agf.networks import labels
from agf.networks.activations import NAMES as ACTIVATIONS
from agf.networks.activations import Activation, activation
from agf.networks.sampled import SampledProblem

#: sigma by its definition, for scalars.
DEFINITIONS = {
    "linear": lambda z: z,
    "relu": lambda z: max(z, 0.0),
    "leaky-relu": lambda z: z if z > 0 else 0.01 * z,
    "square": lambda z: z * z,
    "power": lambda z: z * z * z,
    "tanh": np.tanh,
    "erf": lambda z: math.erf(z),
    "gelu": lambda z: 0.5 * z * (1 + math.erf(z / np.sqrt(2))),
    "silu": lambda z: z / (1 + np.exp(-z)),
}
#: Power and the two coefficients of sigma at the origin, from its Taylor series.
SERIES = {
    "linear": (1, 1, -1),
    "relu": (1, 1, 0),
    "leaky-relu": (1, 1, -0.01),
    "square": (2, 1, 1),
    "power": (3, 1, -1),
    "tanh": (1, 1, -1),
    "erf": (1, 2 / np.sqrt(np.pi), -2 / np.sqrt(np.pi)),
    "gelu": (1, 0.5, -0.5),
    "silu": (1, 0.5, -0.5),
}


def row_loss(name, f, y):
    """l(f, y) of one row by its definition."""
    return {
        "half-squared": lambda: 0.5 * np.sum((y - f) ** 2),
        "logistic": lambda: np.sum(np.log(1 + np.exp(-y * f))),
        "double-logistic": lambda: 2 * np.sum(np.log(1 + np.exp(-y * f))),
        "exponential": lambda: np.sum(np.exp(-y * f)),
        "cross-entropy": lambda: np.log(np.sum(np.exp(f))) - np.sum(y * f),
    }[name]()


def network(act="relu", loss="half-squared", n=13, width=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    labels = np.arange(n) % 3
    Y = {"half-squared": rng.standard_normal((n, 2)), "cross-entropy": labels}.get(loss, labels > 0)
    return agf.TwoLayer(X, Y, act, loss, width=width, **options)


def point(problem, seed=1, size=1.0):
    theta = size * np.random.default_rng(seed).standard_normal((problem.width, problem.n_params))
    return theta, np.arange(problem.width)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_the_loss_is_its_definition_written_with_loops(act, loss):
    # mlp gradients were right and losses wrong for some odd sizes in a peer: an independent formula, over odd sizes
    for n in (1, 2, 3, 5, 7, 13) if loss == "half-squared" else (3, 5, 13):
        p = network(act, loss, n=n)
        theta, who = point(p)
        total = 0.0
        for x, y in zip(p.X, p.Y, strict=True):
            f = sum(row[3:] * DEFINITIONS[act](float(row[:3] @ x)) for row in theta)
            total += row_loss(loss, f, y)
        assert p.loss_grad(theta, who)[0] == pytest.approx(total / n, rel=1e-13)


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_the_leading_order_is_the_taylor_series_at_the_origin(act):
    power, right, left = SERIES[act]
    found = activation(act)
    assert (found.power, found.degree) == (power, power + 1)
    assert [found.right, found.left] == pytest.approx([right, left], rel=1e-14)
    assert found.homogeneous == (act in {"linear", "relu", "leaky-relu", "square", "power"})
    assert found.smooth == (act not in {"relu", "leaky-relu"})
    assert network(act).smooth
    assert network(act, kink=0).smooth == found.smooth


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_power_has_its_degree(k):
    assert agf.TwoLayer(np.eye(2), [1, 2], "power", power=k).degree == k + 1


def test_an_activation_that_misses_the_origin_or_has_no_power_is_refused():
    def make(value):
        return Activation.of("mine", value, value, value)

    with pytest.raises(agf.ProblemError, match=r"sigma\(0\) is not 0. Found 1.0"):
        make(lambda b, z: b.xp.exp(z))
    with pytest.raises(agf.ProblemError, match="no leading power"):
        make(lambda b, z: abs(z) ** 1.5)
    with pytest.raises(agf.ProblemError, match="no leading power"):
        make(lambda b, z: 0 * z)


def test_the_derivative_of_relu_at_a_sharp_kink_is_zero():
    p = agf.TwoLayer([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], "relu", width=1, kink=0)
    theta = np.array([[0.0, -1.0, 1.0]])  # first sample on the kink, second on the dead side
    assert not p.loss_grad(theta, np.array([0]))[1].any()


@pytest.mark.parametrize("kink", [0.0, 1e-3])
def test_a_neuron_with_zero_input_weights_keeps_them(kink):
    p = agf.TwoLayer([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], "relu", width=1, kink=kink)
    assert not p.loss_grad(np.array([[0.0, 0.0, 1.0]]), np.array([0]))[1].any()


@pytest.mark.parametrize("act", ["relu", "leaky-relu"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_rounded_kink_keeps_every_law(act, loss):
    # a kink so wide that many pre-activations lie in it: homogeneity, Euler, balance, projections; derivatives as sharp
    report = check(network(act, loss, n=31, kink=0.5))
    assert report.passed, str(report)
    p = network(act, loss, n=31, kink=0.5)
    theta, _ = point(p)
    z = theta[:, :3] @ p.X.T
    inside = (z > 0) & (z < p.layer.reach * np.linalg.norm(theta[:, :3], axis=1)[:, None])
    assert inside.mean() > 0.1


@given(st.sampled_from(["relu", "leaky-relu"]), st.floats(1e-6, 1.0), st.integers(0, 99))
def test_a_rounded_kink_rounds_the_slope_alone_and_only_where_a_sample_is_active(act, kink, seed):
    rounded, sharp = (network(act, n=17, kink=k, seed=seed) for k in (kink, 0.0))
    theta, who = point(sharp, seed)
    assert rounded.outputs(theta, who) == pytest.approx(sharp.outputs(theta, who), rel=1e-12, abs=1e-12)
    # a continuous slope that never leaves the subgradients: above the right one it would hold neurons that cross
    left = -rounded.activation.left
    slope = rounded.activation.rounded(rounded._backend, np.linspace(-2.0, 2.0, 401))[1]
    assert (np.diff(slope) >= 0).all()
    assert (slope[:201] == left).all()
    assert slope[301:] == pytest.approx(1.0)
    assert np.abs(np.diff(slope)).max() < 0.011  # by steps of a hundredth of the width


@given(st.floats(1e-6, 1.0), st.integers(0, 99))
def test_a_sample_on_which_a_neuron_is_inactive_does_nothing_to_it_whatever_the_kink(kink, seed):
    p = network("relu", n=17, kink=kink, seed=seed)
    theta, who = point(p, seed)
    residual = p.residual(np.zeros((0, p.n_params)), who[:0])
    for i in range(p.width):
        others = residual * (theta[i, :3] @ p.X.T > 0)[:, None]
        alone = theta[i : i + 1], who[i : i + 1]
        assert np.array_equal(p.utility(*alone, residual)[1], p.utility(*alone, others)[1])


def test_a_direction_slides_along_a_rounded_kink_to_the_known_extremal_vector():
    # four points whose maximum at -16.699 degrees lies on the kink of the second point, with slope .5734 there [BF24]
    X, y = np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6])
    p = agf.TwoLayer(X, y, width=1)
    init = agf.Init.from_params(1e-8 * np.array([[np.cos(-0.2), np.sin(-0.2), 1.0]]))
    flow = agf.flow(p, init, t_max=30.0)
    w = flow.params(-1)[0, :2]
    assert np.degrees(np.arctan2(w[1], w[0])) == pytest.approx(-16.699, abs=0.05)
    slope = (w @ X[1]) / (p.layer.reach * np.linalg.norm(w))
    assert slope == pytest.approx(0.5734, abs=2e-3)
    assert flow.stats["evaluations"] < 3000


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("log_norm", [0.7, -1.0, -20.0, -300.0, -690.0])
def test_pull_is_exact_at_any_norm(act, log_norm):
    p = network(act)
    directions = sphere.normalize(point(p)[0])
    who = np.arange(p.width)
    log_norms = np.full(p.width, log_norm)
    residual = p.residual(np.zeros((0, p.n_params)), who[:0])  # frozen: only the neuron's own force is compared
    pull = p.pull(directions, log_norms, who, residual)
    assert np.isfinite(pull).all()
    if log_norm < -30:
        wanted = p.utility(directions, who, residual)[1]
        assert np.abs(pull - wanted).max() < 1e-12 * np.abs(wanted).max()
    elif log_norm > -2:
        theta = np.exp(log_norm) * directions
        h = 1e-6
        for q in range(p.n_params):
            shift = h * np.eye(p.n_params)[q]
            r = residual.ravel() / p.n_samples
            raw = lambda t: p.outputs(t, who) * np.sqrt(p.n_samples)  # noqa: E731
            slope = (raw(theta + shift) - raw(theta - shift)) @ r / (2 * h)
            assert pull[:, q] == pytest.approx(slope * np.exp(-(p.degree - 1) * log_norm), rel=1e-6, abs=1e-7)


@given(
    st.sampled_from(ACTIVATIONS),
    st.sampled_from(LOSSES),
    st.sampled_from([0.0, 1e-3, 0.5]),
    st.lists(st.floats(-800.0, 0.0), min_size=4, max_size=4),
    st.integers(0, 15),
    st.integers(0, 99),
)
def test_the_pull_of_a_network_is_the_pull_on_its_residual(act, loss, kink, log_norms, chosen, seed):
    p = network(act, loss, n=17, kink=kink)
    directions = sphere.normalize(point(p, seed)[0])
    log_norms, members, who = (
        np.array(log_norms),
        np.array([chosen >> i & 1 for i in range(4)], dtype=bool),
        np.arange(4),
    )
    found = p.network_pull(directions, log_norms, who, members)
    wanted = Problem.network_pull(p, directions, log_norms, who, members)
    # rounding of sums of 17 products, which exp(f) magnifies by f: up to about a hundred for cubes
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_a_class_that_overrides_a_residual_or_a_pull_gets_a_network_pull_made_of_them():
    class Weighted(agf.TwoLayer):
        def residual(self, theta, neurons):
            return 2.0 * super().residual(theta, neurons)

    class Shared(Weighted):
        pass

    class Own(Weighted):
        def network_pull(self, directions, log_norms, neurons, members):
            return np.zeros_like(directions)

    p = network()
    directions, log_norms = sphere.polar(point(p)[0])
    arguments = directions, log_norms, np.arange(4), np.array([True, False, True, True])
    plain, double, inherited, own = (
        cls(p.X, p.Y, width=4).network_pull(*arguments) for cls in (agf.TwoLayer, Weighted, Shared, Own)
    )
    assert double == pytest.approx(2.0 * plain, rel=1e-12)
    assert np.array_equal(inherited, double)
    assert not own.any()


@pytest.mark.parametrize("act", ["linear", "relu", "tanh", "gelu"])
@pytest.mark.parametrize("size", [1e-100, 1e-200, 1e-300])
def test_gradients_of_tiny_raw_weights_are_not_lost(act, size):
    p = network(act)
    directions = sphere.normalize(point(p)[0])
    who = np.arange(p.width)
    grad = p.loss_grad(size * directions, who)[1] / size
    pull = p.pull(directions, np.full(p.width, np.log(size)), who, p.residual(size * directions, who))
    assert np.abs(grad + pull).max() < 1e-7 * np.abs(pull).max()  # subnormal products at 1e-300


@pytest.mark.parametrize("act", ["tanh", "gelu", "silu", "erf"])
def test_the_hand_over_from_leading_order_to_the_activation_is_smooth(act):
    p = network(act)
    directions = sphere.normalize(point(p)[0])
    who = np.arange(p.width)
    residual = p.residual(np.zeros((0, p.n_params)), who[:0])
    sizes = [p.pull(directions, np.full(p.width, x), who, residual) for x in np.arange(-310.0, -290.0, 1.0)]
    jumps = [np.abs(b - a).max() for a, b in itertools.pairwise(sizes)]
    assert max(jumps) < 1e-14 * np.abs(sizes[0]).max()


@given(st.floats(0.01, 100.0), st.sampled_from([a for a in ACTIVATIONS if activation(a).homogeneous]))
def test_losses_scale_with_the_targets(s, act):
    p = network(act)
    q = agf.TwoLayer(p.X, s * p.Y, act, width=p.width)
    theta, who = point(p)
    scaled = s ** (1 / p.degree) * theta
    assert q.loss_grad(scaled, who)[0] == pytest.approx(s**2 * p.loss_grad(theta, who)[0], rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_torch_and_blocks_give_the_same_numbers_as_numpy(act, loss):
    p, q, small = network(act, loss), network(act, loss, device="cpu"), network(act, loss)
    small._block = 8  # two samples a block
    theta, who = point(p, size=0.7)
    active, idx = theta[:2], who[:2]
    for other in (q, small):
        for mine, theirs in (
            (p.loss_grad(theta, who), other.loss_grad(theta, who)),
            (p.utility(theta, who, p.residual(theta, who)), other.utility(theta, who, other.residual(theta, who))),
            (p.batch_loss_grad(theta, who, np.array([1, 4])), other.batch_loss_grad(theta, who, np.array([1, 4]))),
        ):
            assert isinstance(theirs[1], np.ndarray)
            assert np.allclose(mine[0], theirs[0], rtol=1e-11, atol=1e-14)
            assert np.allclose(mine[1], theirs[1], rtol=1e-10, atol=1e-12)
        directions, log_norms = sphere.polar(theta)
        for members in (np.ones(4, dtype=bool), np.array([False, True, True, False])):
            mine, theirs = (s.network_pull(directions, log_norms, who, members) for s in (p, other))
            assert isinstance(theirs, np.ndarray)
            assert np.allclose(mine, theirs, rtol=1e-10, atol=1e-12)
        assert np.allclose(
            p.self_interaction(directions, who, active, idx),
            other.self_interaction(directions, who, active, idx),
            atol=1e-8,
        )
        assert np.allclose(p.hessian(active, idx), other.hessian(active, idx), rtol=1e-9, atol=1e-9)
        assert np.allclose(p.outputs(theta, who), other.outputs(theta, who), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_root_of_the_second_derivative_is_its_root(loss):
    p = network("relu", loss)
    b = p._backend
    f = np.random.default_rng(2).standard_normal(p.Y.shape)
    curvature = p.loss.curvature(b, f, p.Y)
    root = curvature.root
    h = 1e-5
    for k in range(p.n_outputs):
        unit = np.zeros_like(f)
        unit[:, k] = 1.0
        column = -(p.loss.residual(b, f + h * unit, p.Y) - p.loss.residual(b, f - h * unit, p.Y)) / (2 * h)  # l'' e_k
        for j in range(p.n_outputs):
            other = np.zeros_like(f)
            other[:, j] = 1.0
            assert np.sum(root(unit) * root(other), axis=1) == pytest.approx(column[:, j], abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_self_interaction_is_the_second_order_of_the_loss_beside_active_neurons(loss):
    # without room to re-equilibrate (one active neuron far from the newcomer's outputs) C is E f l'' f / 2; the
    # projection can only lower it
    p = network("relu", loss, n=60)
    theta, who = point(p)
    active, idx = theta[:1], who[:1]
    newcomer = sphere.normalize(theta[1:2])
    utility = p.utility(newcomer, who[1:2], p.residual(active, idx))[0][0]
    s = 1e-2
    both = np.concatenate([active, s * newcomer])
    gain = p.loss_grad(active, idx)[0] - p.loss_grad(both, who[:2])[0]
    unprojected = (s**2 * utility - gain) / s**4
    projected = p.self_interaction(newcomer, who[1:2], active, idx)[0]
    assert 0 < projected < unprojected * (1 + 1e-3)
    alone = p.self_interaction(active / np.linalg.norm(active), idx, active, idx)[0]
    assert alone < 1e-8 * p.self_interaction(active / np.linalg.norm(active), idx, active[:0], idx[:0])[0]


@pytest.mark.parametrize("act", [a for a in ACTIVATIONS if activation(a).homogeneous])
def test_the_projection_agrees_with_the_one_by_differences(act):
    p = network(act, n=40)
    theta, who = point(p)
    directions = sphere.normalize(theta)
    mine = p.self_interaction(directions, who, theta[:2], who[:2])
    generic = Problem.self_interaction(p, directions, who, theta[:2], who[:2])
    alone = p.self_interaction(directions, who, theta[:0], who[:0])
    assert mine == pytest.approx(generic, abs=1e-9 * alone.max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("act", ["relu", "tanh"])
def test_self_interaction_without_outputs_is_that_with_them(act, loss):
    p = network(act, loss, n=40, kink=0.3)
    theta, who = point(p)
    directions = sphere.normalize(theta)
    for count in (0, 1, 3):
        mine, formed = (
            f(p, directions, who, theta[:count], who[:count])
            for f in (agf.TwoLayer.self_interaction, SampledProblem.self_interaction)
        )
        assert mine == pytest.approx(formed, rel=1e-7, abs=1e-12)


def test_a_dead_active_neuron_projects_nothing_out():
    p = agf.TwoLayer(np.ones((5, 2)), np.arange(5.0), width=2)
    theta = np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    alone = p.self_interaction(theta, np.arange(2), theta[:0], np.arange(0))
    assert p.self_interaction(theta, np.arange(2), theta[1:], np.array([1])) == pytest.approx(alone)


@pytest.mark.parametrize("act", [a for a in ACTIVATIONS if activation(a).homogeneous])
def test_balanced_starts_have_no_imbalance(act):
    p = network(act)
    init = p.init(1e-3, kind="balanced")
    assert np.abs(p.conserved(init.params(), np.arange(p.width))["balance"]).max() < 1e-20


def test_labels_say_which_class_a_neuron_favours():
    p = network("relu", "cross-entropy")
    theta = np.zeros((2, 6))
    theta[:, 3:] = [[0.1, 0.9, 0.0], [0.1, 0.2, -0.8]]
    assert p.label(theta, np.array([1, 3]), np.array([1])) == "neuron 1 (class 1)"
    assert p.label(theta, np.array([1, 3]), np.array([1, 3])) == "neurons 1 (class 1), 3 (not class 2)"
    two = agf.TwoLayer(np.eye(2), ["cat", "dog"], "relu", "logistic", width=1)
    assert two.label(np.array([[0, 0, 1.0]]), np.array([0]), np.array([0])) == "neuron 0 (class dog)"
    softmax = agf.TwoLayer(np.eye(2), ["cat", "dog"], "relu", "cross-entropy", width=2)
    same = np.array([[0, 0, 0.1, -0.8], [0, 0, 0.8, -0.1]])  # both raise cat over dog, by either output
    assert softmax.label(same, np.arange(2), np.arange(2)) == "neurons 0 (class cat), 1 (class cat)"
    many = agf.TwoLayer(np.eye(2), ["cat", "dog"], "relu", "cross-entropy", width=60)
    theta = np.repeat([[0, 0, 1.0, 0], [0, 0, 0, 1.0]], [50, 10], axis=0)
    assert many.label(theta, np.arange(60), np.arange(60)) == "neurons of class cat (50), of class dog (10)"
    one = agf.TwoLayer(np.eye(2), [1.0, 2.0], width=1)
    assert one.label(np.array([[0, 0, -1.0]]), np.array([0]), np.array([0])) == "neuron 0 (-)"


def test_accuracy_counts_what_is_classified_rightly():
    p = agf.TwoLayer([[1.0], [2.0], [-1.0]], ["a", "a", "b"], "linear", "logistic", width=1)
    assert p.classes == ("a", "b")
    right = np.array([[-1.0, 1.0]])
    assert p.features(right, np.array([0]))["accuracy"] == [1.0]
    assert p.features(-right * [1, -1], np.array([0]))["accuracy"] == [0.0]


def test_work_arrays_stay_bounded_at_ten_thousand_neurons():
    rng = np.random.default_rng(0)
    p = agf.TwoLayer(rng.standard_normal((500, 4)), rng.standard_normal((500, 3)), "relu", width=10_000)
    theta, who = point(p)
    r = p.residual(theta, who)
    tracemalloc.start()
    p.loss_grad(theta, who)
    p.utility(theta, who, r)
    p.self_interaction(theta, who, theta[:0], who[:0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # unblocked arrays of 500 x 10,000 take 40 MB each


@pytest.mark.parametrize("loss", ["logistic", "exponential", "cross-entropy", "half-squared"])
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_a_column_a_class_will_do_for_every_loss_also_when_it_was_centred(loss, shift):
    Y = np.eye(4)[np.arange(12) % 4] - shift
    X = np.repeat(np.eye(4), 3, axis=0)[np.argsort(np.arange(12) % 4)]
    p = agf.TwoLayer(X, Y, activation="tanh", loss=loss, width=3)
    stairs = agf.predict(p, p.init(1e-6), max_drops=2, mode="agf")
    assert len(stairs.drops) == 2
    if p.classes:
        assert p.classes == (0, 1, 2, 3)
        assert "class" in stairs.drops[0].label
        assert "accuracy" in stairs.drops[0].features


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"activation": "rely"}, r"unknown activation 'rely'. Expected one of linear, relu, leaky-relu"),
        ({"loss": "mse"}, r"unknown loss 'mse'. Expected one of half-squared, logistic"),
        ({"activation": "relu", "leak": 0.1}, r"`leak` is for activation 'leaky-relu'"),
        ({"activation": "tanh", "power": 3}, r"`power` is for activation 'power'"),
        ({"activation": "leaky-relu", "leak": 2}, r"`leak` must be between 0 and 1"),
        ({"activation": "power", "power": 0}, r"`power` must be at least 1"),
        ({"X": [[1, np.nan], [0, 1]]}, r"`X` has 1 non-finite value\(s\), the first at index \(0, 1\)"),
        ({"Y": [1.0, np.inf]}, r"`Y` has 1 non-finite"),
        ({"X": np.zeros((0, 2)), "Y": []}, r"`X` is empty"),
        ({"X": np.zeros((2, 2))}, r"`X` is zero everywhere"),
        ({"Y": [1.0, 2.0, 3.0]}, r"`X` has 2 rows and `Y` 3"),
        ({"kink": -1}, r"`kink` must be between 0 and 1"),
        ({"width": 0}, r"`width` must be at least 1"),
        ({"X": np.eye(3), "loss": "logistic", "Y": [0, 1, 2]}, r'Use loss="cross-entropy"'),
        ({"loss": "cross-entropy", "Y": [3, 3]}, r"one class only. Found \[3.0\] in 2 row"),
        ({"loss": "cross-entropy", "Y": [0, np.nan]}, r"non-finite"),
        ({"loss": "cross-entropy", "Y": [[1], [1, 2]]}, r"no column of labels"),
        ({"loss": "cross-entropy", "Y": np.array([1, None])}, r"no column of labels"),
        ({"loss": "cross-entropy", "Y": [0.25, 1.75]}, r"0.25 among them is no whole number.*half-squared"),
        ({"loss": "logistic", "Y": [[1], [1, 2]]}, r"no column of labels"),
        ({"loss": "exponential", "Y": np.array([1, None])}, r"no column of labels"),
        ({"loss": "cross-entropy", "Y": [[1, 1], [0, 1]]}, r"not probabilities"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, words):
    with pytest.raises(agf.DataError, match=words):
        agf.TwoLayer(**{"X": np.eye(2), "Y": [1.0, -1.0], **arguments})


def test_an_absent_device_is_refused_in_a_sentence():
    with pytest.raises(agf.RequestError, match="device 'warp:9' cannot be used"):
        agf.TwoLayer(np.eye(2), [1, 2], device="warp:9")


def test_losses_at_absurd_weights_are_infinite_without_a_warning():
    p = network("relu", "exponential")
    theta, who = point(p, size=1e3)
    assert p.loss_grad(theta, who)[0] == np.inf


def test_logistic_and_cross_entropy_of_two_classes_agree():
    # with f = (f_0, f_1), cross-entropy is logistic in f_1 - f_0
    X = np.random.default_rng(0).standard_normal((9, 3))
    labels = np.arange(9) % 2
    one, two = agf.TwoLayer(X, labels, "tanh", "logistic", 2), agf.TwoLayer(X, labels, "tanh", "cross-entropy", 2)
    theta, who = point(one)
    pair = np.concatenate([theta[:, :3], -0.5 * theta[:, 3:], 0.5 * theta[:, 3:]], axis=1)
    assert one.loss_grad(theta, who)[0] == pytest.approx(two.loss_grad(pair, who)[0], rel=1e-13)


# -- conventions of other papers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["half-squared", "logistic", "cross-entropy"])
def test_a_sum_is_n_times_the_mean(loss):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9, 3)), rng.integers(0, 2, 9)
    one, whole = (agf.TwoLayer(X, Y, "relu", loss, width=4, reduction=name) for name in ("mean", "sum"))
    theta, neurons = rng.standard_normal((4, one.n_params)), np.arange(4)
    unit = theta / np.linalg.norm(theta, axis=1)[:, None]
    r = one.residual(theta, neurons)
    for a, b in (
        (one.loss_grad(theta, neurons), whole.loss_grad(theta, neurons)),
        (one.utility(theta, neurons, r), whole.utility(theta, neurons, r)),
        ([one.pull(unit, np.zeros(4), neurons, r)], [whole.pull(unit, np.zeros(4), neurons, r)]),
        ([one.hessian(theta, neurons)], [whole.hessian(theta, neurons)]),
        (
            [one.self_interaction(unit, neurons, theta, neurons)],
            [whole.self_interaction(unit, neurons, theta, neurons)],
        ),
        ([one.outputs(unit, neurons) ** 2], [whole.outputs(unit, neurons) ** 2]),
        (
            [one.batch_loss_grad(theta, neurons, np.arange(3))[1]],
            [whole.batch_loss_grad(theta, neurons, np.arange(3))[1]],
        ),
    ):
        for first, second in zip(a, b, strict=True):
            assert second == pytest.approx(9 * np.asarray(first), rel=1e-12, abs=1e-14)
    assert "summed over them" in whole.describe()
    init = one.init(1e-4, seed=0)
    times = [agf.predict(p, init, max_drops=1, mode="agf").times[1] for p in (one, whole)]
    assert times[0] == pytest.approx(9 * times[1], rel=1e-6)


def test_the_double_logistic_loss_is_twice_the_logistic_one():
    X, Y = np.random.default_rng(0).standard_normal((9, 3)), np.arange(9) % 2
    plain, double = (agf.TwoLayer(X, Y, "relu", name, width=3) for name in ("logistic", "double-logistic"))
    theta, neurons = np.random.default_rng(1).standard_normal((3, 4)), np.arange(3)
    for a, b in zip(plain.loss_grad(theta, neurons), double.loss_grad(theta, neurons), strict=True):
        assert b == pytest.approx(2 * np.asarray(a), rel=1e-14)
    nobody = np.zeros((0, 4)), np.zeros(0, dtype=int)
    assert np.abs(double.residual(*nobody)) == pytest.approx(np.ones((9, 1)))  # y at f = 0 [Min23]
    assert check(double).passed


def test_kinds_of_starts_relate_the_layers_as_they_say():
    p = agf.TwoLayer(np.eye(3), np.ones(3), width=2000)
    for kind, low, high in (("balanced", 1.0, 1.0), ("ball", 1.0, np.inf), ("dominated", 1.0, np.inf)):
        theta = p.init(1e-3, seed=0, kind=kind).params() / 1e-3
        ratio = np.abs(theta[:, -1]) / np.linalg.norm(theta[:, :-1], axis=1)
        assert ratio.min() >= low - 1e-12
        assert ratio.max() <= high + 1e-12
        assert 0.45 < (theta[:, -1] > 0).mean() < 0.55
    ball = p.init(1e-3, seed=0, kind="ball").params() / 1e-3
    assert np.abs(ball[:, -1]) == pytest.approx(np.ones(2000))
    assert (np.linalg.norm(ball[:, :-1], axis=1) <= 0.5).mean() == pytest.approx(1 / 8, abs=0.02)  # uniform in volume
    assert np.array_equal(p.init(1e-3, kind="unbalanced").directions, p.init(1e-3).directions)


def test_many_neurons_of_a_regression_are_counted_by_the_sign_of_what_they_add():
    outputs = np.where(np.arange(12) < 9, -1.0, 1.0)[:, None]
    label = labels.of_neurons(outputs, np.arange(12), np.arange(12), ())
    assert label == "neurons of sign - (9), of sign + (3)"


@pytest.mark.parametrize(("activation", "power"), [("linear", 1), ("square", 2), ("power", 3)])
@pytest.mark.parametrize("bias", ["none", "hidden", "output", "both"])
def test_no_network_of_powers_fits_more_than_hundreds_of_random_neurons_do(activation, power, bias):
    rng = np.random.default_rng(power)
    X, Y = rng.standard_normal((30, 2)) * [1e-5, 1e4], rng.standard_normal((30, 2))
    problem = agf.TwoLayer(X, Y, activation=activation, width=40, bias=bias, reduction="sum")
    inputs = np.column_stack([X / [1e-5, 1e4], *[np.ones(30)] * (bias in ("hidden", "both"))])
    outputs = (inputs @ rng.standard_normal((inputs.shape[1], 300))) ** power
    outputs = np.column_stack([outputs, *[np.ones(30)] * (bias in ("output", "both"))])
    left = Y - outputs @ np.linalg.lstsq(outputs, Y, rcond=1e-10)[0]
    assert problem.least_loss(problem.init(1e-3)) == pytest.approx(0.5 * np.sum(left**2), rel=1e-9)


def test_what_no_square_network_fits_is_not_waited_for():
    rng = np.random.default_rng(311)
    X, Y = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    problem = agf.TwoLayer(X, Y, activation="square", width=6)
    init = problem.init(1e-4, seed=0)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    assert stairs.status is agf.Status.FITTED
    assert flow.losses[-1] == pytest.approx(problem.least_loss(init), rel=1e-5)
    assert "no network that the flow can reach has less loss" in flow.ending
    few = agf.TwoLayer(X, Y, activation="square", width=1)  # of which that is not told
    assert few.least_loss(few.init(1e-4)) == 0.0


@pytest.mark.parametrize(
    ("loss", "labels", "zero", "split"),
    [
        ("half-squared", [3.0, 1.0, -1.0, 1.0, 0.0], 4.5, 4.0 / 3.0),
        ("logistic", [1, 1, -1, 1, 1], np.log(2.0), 3 * np.log(3.0) - 2 * np.log(2.0)),
        ("double-logistic", [1, 1, -1, 1, 1], 2 * np.log(2.0), 2 * (3 * np.log(3.0) - 2 * np.log(2.0))),
        ("exponential", [1, 1, -1, 1, 1], 1.0, 2.0 * np.sqrt(2.0)),
        ("cross-entropy", [0, 1, 2, 0, 0], np.log(3.0), 3 * np.log(3.0)),
    ],
)
def test_equal_inputs_have_one_output_and_an_input_of_zeros_has_none(loss, labels, zero, split):
    X = [[0.0, 0.0], [1.0, 0.0], [1.0, -0.0], [1.0, 0.0], [-1.0, 1.0]]
    problem = agf.TwoLayer(X, labels, activation="relu", loss=loss, width=2)
    init = problem.init(1e-3)
    assert problem.least_loss(init) == pytest.approx((zero + split) / 5, rel=1e-12)
    biased = agf.TwoLayer(X, labels, activation="relu", loss=loss, width=2, bias="output", reduction="sum")
    assert biased.least_loss(init) == pytest.approx(split, rel=1e-12)
    shifted = agf.TwoLayer(X, labels, activation="relu", loss=loss, width=2, bias="hidden")
    assert shifted.least_loss(shifted.init(1e-3)) == pytest.approx(split / 5, rel=1e-12)
