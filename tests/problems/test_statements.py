"""Statements of [AGF] that no other test compares, each from its definition; `docs/statements.md` lists all."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.linear_attention.problem import LinearAttention
from agf_problems.modular_addition.problem import ModularAddition
from hypothesis import given, settings
from hypothesis import strategies as st
from modular_cases import cosine, six_neurons
from scipy.optimize import minimize

import agf

NOBODY = np.zeros(0, dtype=np.int64)


def samples(seed, n=7, d=3, c=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, c))


# -- general ----------------------------------------------------------------------------------------------------------

ACTIVATIONS = [("linear", None), ("relu", None), ("square", None), ("power", 3), ("power", 4)]


@given(st.sampled_from(ACTIVATIONS), st.integers(0, 10**6), st.floats(-3.0, 3.0))
def test_lemma_b1_what_a_homogeneous_activation_conserves(act, seed, log_size):
    """With sigma of degree kappa - 1, (kappa - 1) |a|^2 - |w|^2 of every neuron: its rate is 0 at any weights."""
    name, power = act
    x, y = samples(seed % 7)
    problem = agf.TwoLayer(x, y, width=4, activation=name, power=power, kink=0.0)
    theta = np.exp(log_size) * np.random.default_rng(seed).standard_normal((4, 5))
    gradient = problem.loss_grad(theta, np.arange(4))[1]
    terms = (problem.degree - 1) * theta[:, 3:] * gradient[:, 3:], theta[:, :3] * gradient[:, :3]
    rate = terms[0].sum(axis=1) - terms[1].sum(axis=1)
    # rounding of a sum of n terms
    np.testing.assert_allclose(rate, 0.0, atol=1e-12 * max(np.abs(part).max() for part in terms))
    kept = problem.conserved(theta, np.arange(4))["balance"]
    by_hand = (problem.degree - 1) * np.sum(theta[:, 3:] ** 2, axis=1) - np.sum(theta[:, :3] ** 2, axis=1)
    np.testing.assert_allclose(kept, by_hand, rtol=1e-12, atol=1e-12 * np.exp(2 * log_size))


@pytest.mark.parametrize(("name", "power"), [("relu", 1), ("square", 2), ("tanh", None)])
def test_lemma_b1_along_a_flow_and_not_for_an_activation_of_several_powers(name, power):
    problem = agf.TwoLayer(*samples(0), width=3, activation=name)
    flow = agf.flow(problem, problem.init(0.1, seed=0), t_max=40.0)
    kept = [(power or 1) * np.sum(theta[:, 3:] ** 2, axis=1) - np.sum(theta[:, :3] ** 2, axis=1)
            for theta in (flow.params(0), flow.params(-1))]  # fmt: skip
    drift = np.abs(kept[1] - kept[0]).max() / np.exp(2 * flow.log_norms[-1].max())
    assert drift < 1e-6 if power else drift > 1e-3


GENERAL = {
    "diagonal": lambda: agf.problem("diagonal-linear", X=samples(0)[0], y=samples(0)[1][:, 0]),
    "linear": lambda: agf.problem("linear", X=samples(1)[0], Y=samples(1)[1], width=4),
    "attention": lambda: agf.problem("linear-attention", covariance=np.diag([1.0, 0.5]), context=6, heads=4),
    "modular": lambda: agf.problem("modular-addition", p=5, width=4),
    "relu": lambda: agf.problem("relu", X=samples(2)[0], Y=samples(2)[1], width=4, task="regression", kink=0.0),
    "square": lambda: agf.TwoLayer(*samples(3), width=4, activation="square"),
    "own": lambda: agf.TwoLayer(*samples(4), width=4, activation="power", power=4),
}


@pytest.mark.parametrize("name", GENERAL)
def test_equation_14_small_neurons_take_their_utilities_off_the_loss_of_the_others(name):
    """L(A and D) = L(A) - sum over D of U_i(theta_i; r of A) + E|sum over D of f_i|^2 / 2, for any network.

    The last term is of twice the degree: it falls by 2^(2 kappa) when norms are halved, exactly so for activations
    that are powers.
    """
    problem = GENERAL[name]()
    rng = np.random.default_rng(5)
    theta = 0.7 * rng.standard_normal((problem.width, problem.n_params))
    active, dormant = np.arange(1), np.arange(1, problem.width)
    base = problem.loss_grad(theta[active], active)[0]
    residual = problem.residual(theta[active], active)
    left = []
    for size in (0.5, 0.25):
        small = theta.copy()
        small[dormant] *= size
        gain = problem.utility(small[dormant], dormant, residual)[0].sum()
        left.append(problem.loss_grad(small, np.arange(problem.width))[0] - base + gain)
    assert left[0] > 0
    assert left[0] / left[1] == pytest.approx(2.0 ** (2 * problem.degree), rel=1e-6)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_with_the_learning_rate_of_appendix_b5_jump_times_have_a_limit(degree):
    """eta = mean threshold: flow time over eta. An aligned neuron then jumps at 1 / (kappa U*) at any alpha."""
    times = []
    for alpha in (1e-3, 1e-30, 1e-90):
        log_norms = np.log([alpha])
        clock = agf.clock.Clock.from_norms(degree, log_norms)
        jump = agf.clock.threshold(log_norms, degree)[0] / (degree * 0.7)
        times.append(float(clock.accelerated(jump)))
    np.testing.assert_allclose(times, 1 / (degree * 0.7), rtol=1e-12)
    # neurons of unequal norms: their jumps differ from it by what vanishes with alpha at degree 2 only
    for alpha, apart in ((1e-3, 0.2), (1e-90, 0.01)):
        log_norms = np.log(alpha) + np.array([0.0, 0.5])
        clock = agf.clock.Clock.from_norms(degree, log_norms)
        jumps = clock.accelerated(agf.clock.threshold(log_norms, degree) / (degree * 0.7)) * degree * 0.7
        assert (np.abs(jumps - 1).max() < apart) == (degree == 2)


# -- linear attention -------------------------------------------------------------------------------------------------


def aligned(problem, amplitudes):
    """Heads with V K Q^T = amplitude v_i v_i^T, one a component."""
    size = np.cbrt(amplitudes)
    theta = np.zeros((len(amplitudes), problem.n_params))
    theta[:, 0] = size
    for i, s in enumerate(size):
        theta[i, 1 : 1 + problem.dimension] = s * problem.components[:, i]
        theta[i, 1 + problem.dimension :] = s * problem.components[:, i]
    return theta


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("fraction", [0.4, 1.0])
def test_equation_54_counts_half_the_trace_once_a_head(k, fraction):
    """The loss of k aligned heads is tr S / 2 plus what each adds, not the sum of the losses of one head each."""
    problem = LinearAttention(context=32, heads=4)
    theta = aligned(problem, fraction * problem.amplitudes[:k])
    alone = [problem.loss_grad(theta[i : i + 1], NOBODY[:0] + i)[0] for i in range(k)]
    whole = problem.loss_grad(theta, np.arange(k))[0]
    half = 0.5 * problem.trace
    assert whole == pytest.approx(half + sum(one - half for one in alone), rel=1e-13)
    assert sum(alone) - whole == pytest.approx((k - 1) * half, abs=1e-13)
    if k == 2 and fraction == 1.0:  # the numbers of the errata
        assert (whole, sum(alone)) == pytest.approx((0.3555, 1.3555), abs=5e-5)


def test_equation_55_needs_the_pull_of_the_target():
    """dL/dQ of a head is V^2 (K^T G K) S Q - N V S^2 K; without the second term it does not vanish at the optimum."""
    problem = LinearAttention(context=8, heads=1)
    rng = np.random.default_rng(0)
    v, key, query = 0.4, 0.3 * rng.standard_normal(4), 0.3 * rng.standard_normal(4)
    theta = np.concatenate([[v], key, query])[None]
    s, n = problem.covariance, 8
    gram = n * np.trace(s) * s + n * (n + 1) * s @ s
    printed = v**2 * (key @ gram @ key) * (s @ query)
    right = printed - n * v * s @ s @ key
    h = 1e-5
    slope = np.zeros(4)
    for i in range(4):
        step = np.zeros((1, 9))
        step[0, 5 + i] = h
        up, down = (problem.loss_grad(theta + sign * step, np.arange(1))[0] for sign in (1, -1))
        slope[i] = (up - down) / (2 * h)
    np.testing.assert_allclose(slope, right, atol=1e-8)
    assert np.abs(slope - printed).max() > 0.1 * np.abs(right).max()
    # the best single head of the authors' experiment
    problem = LinearAttention(context=32, heads=1)
    best = aligned(problem, problem.amplitudes[:1])
    s, n = problem.covariance, 32
    gram = n * np.trace(s) * s + n * (n + 1) * s @ s
    _, key, query = np.split(best[0], [1, 5])
    assert np.abs(problem.loss_grad(best, np.arange(1))[1]).max() < 1e-13
    assert np.abs(best[0, 0] ** 2 * (key @ gram @ key) * (s @ query)).max() == pytest.approx(2.828, abs=5e-4)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_what_k_heads_leave_is_the_problem_without_their_components(k):
    """-dL along V K Q^T is V Q^T (N S^2 - S M G) K; at amplitudes 1 / (tr S + (N + 1) lam) the first k terms vanish."""
    rng = np.random.default_rng(k)
    root = rng.standard_normal((4, 4))
    problem = LinearAttention(covariance=root @ root.T, context=9, heads=4)
    residual = problem.residual(aligned(problem, problem.amplitudes[:k]), np.arange(k))
    theta = rng.standard_normal((5, 9))
    found, pull = problem.utility(theta, np.arange(5) % 4, residual)
    rest = problem.components[:, k:]
    left = rest @ rest.T @ problem.covariance @ rest @ rest.T
    value, key, query = theta[:, 0], theta[:, 1:5], theta[:, 5:]
    expected = 9 * value * np.einsum("ij,jk,ik->i", query, left @ left, key)
    scale = 9 * problem.trace**2  # of the terms that cancel
    np.testing.assert_allclose(found, expected, atol=1e-12 * scale * np.abs(theta).max() ** 3)
    np.testing.assert_allclose(pull[:, 1:5], 9 * value[:, None] * (query @ left @ left), atol=1e-11 * scale)


# -- modular addition -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([3, 5, 8]))
def test_only_the_product_of_both_arguments_enters_a_utility(seed, p):
    """(A + B)^2 = A^2 + B^2 + 2 A B, and over all b the targets (a + b).x of a centred template sum to 0."""
    rng = np.random.default_rng(seed)
    template = rng.standard_normal(p)
    problem = ModularAddition(p=p, template=template - template.mean(), width=3)
    theta = rng.standard_normal((3, 3 * p))
    found = problem.utility(theta, np.arange(3), problem.residual(theta[:0], NOBODY))[0]
    rolled = np.array([np.roll(problem.template.values, a) for a in range(p)])
    u, v, w = np.moveaxis(theta.reshape(3, 3, p), 1, 0)
    a, b = u @ rolled.T, v @ rolled.T
    targets = rolled[np.add.outer(np.arange(p), np.arange(p)) % p] @ w.T  # (p, p, 3)
    product, squares = 2 * a[:, :, None] * b[:, None, :], a[:, :, None] ** 2 + b[:, None, :] ** 2
    sizes = np.abs(squares).max() * np.abs(targets).max()
    np.testing.assert_allclose(np.einsum("iab,abi->i", squares, targets) / p**2, 0.0, atol=1e-13 * sizes * p)
    np.testing.assert_allclose(found, np.einsum("iab,abi->i", product, targets) / p**2, atol=1e-13 * sizes * p)


@given(st.integers(0, 2), *[st.floats(-4.0, 4.0)] * 3)
def test_phases_enter_a_utility_as_one_cosine(position, s_u, s_v, s_w):
    """Of a neuron of one frequency, amplitudes as at best: sqrt(2 / 27 p^3) |xh|^3 cos(s_u + s_v - s_w - s_x)."""
    problem = ModularAddition(p=7, template={1: 3.0, 2: 1.5, 3: 0.7}, width=1)
    theta = cosine(problem, position, (s_u, s_v, s_w), np.sqrt(2 / 21))
    found = problem.utility(theta, np.zeros(1, dtype=np.int64), problem.residual(theta[:0], NOBODY))[0][0]
    phase, size = np.angle(problem.template.spectrum[position]), np.abs(problem.template.spectrum[position])
    largest = np.sqrt(2 / (27 * 7**3)) * size**3
    assert found == pytest.approx(largest * np.cos(s_u + s_v - s_w - phase), abs=1e-13)


def test_groups_that_have_learned_their_frequencies_add_up():
    """Each takes |xh|^2 / p off the loss, whatever others have learned: all together leave nothing."""
    problem = ModularAddition(p=7, template={1: 3.0, 2: 1.5, 3: 0.7}, width=18)
    groups = [six_neurons(problem, position) for position in range(3)]
    for some in ([0], [1], [0, 2], [0, 1, 2]):
        loss = problem.loss_grad(np.concatenate([groups[k] for k in some]), np.arange(6 * len(some)))[0]
        gained = sum([9.0, 2.25, 0.49][k] for k in some) / 7
        assert loss == pytest.approx(0.5 * problem.template.energy - gained, abs=1e-13)


def one_frequency(problem, rng, count):
    """Neurons of the first frequency with random norms and phases."""
    phases = rng.uniform(0, 2 * np.pi, (count, 3))
    rows = np.concatenate([cosine(problem, 0, tuple(row)) for row in phases])
    return rows * rng.uniform(0.0, 2.0, (count, 1))


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 10**6), st.floats(0.05, 3.0))
def test_theorem_f5_no_group_of_one_frequency_goes_below_its_bound(count, seed, scale):
    """L >= |x|^2 / 2 - |xh|^2 / p for any number of neurons of one frequency, whatever their norms and phases."""
    problem = ModularAddition(p=7, template={1: 3.0, 2: 1.5}, width=count)
    theta = scale * one_frequency(problem, np.random.default_rng(seed), count)
    bound = 0.5 * problem.template.energy - 3.0**2 / 7
    assert problem.loss_grad(theta, np.arange(count))[0] >= bound * (1 - 1e-12)
    assert problem.template.gains().tolist() == pytest.approx([3.0**2 / 7, 1.5**2 / 7, 0.0], abs=1e-12)


@pytest.mark.parametrize("count", [6, 8, 10, 14])
@pytest.mark.parametrize("p", [7, 11])
def test_theorem_f6_every_even_number_of_neurons_from_six_reaches_the_bound(count, p):
    """Pairs of opposite v and w at phases pi m / n, n >= 3: the unwanted waves cancel, and the gradient vanishes."""
    problem = ModularAddition(p=p, template={1: 3.0, 2: 1.5}, width=count)
    phase = np.angle(problem.template.spectrum[0])
    rows = []
    for m in range(count // 2):
        s = np.pi * m / (count // 2)
        rows += [cosine(problem, 0, (s, s, 2 * s - phase)), cosine(problem, 0, (s, s + np.pi, 2 * s + np.pi - phase))]
    theta = np.concatenate(rows)
    theta *= (1.0 / problem.learned(theta, np.arange(count))[0]) ** (1 / 3)
    loss, gradient = problem.loss_grad(theta, np.arange(count))
    assert loss == pytest.approx(0.5 * problem.template.energy - 3.0**2 / p, rel=1e-12)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    # Theorem F.7: the cubed norms sum to sqrt(54 p) / |xh|, however many neurons there are
    assert np.sum(np.linalg.norm(theta, axis=1) ** 3) == pytest.approx(np.sqrt(54 * p) / 3.0, rel=1e-12)


def aligned_cosines(x, frequency, size, turns):
    """Rows (m, 3p) of cosines of a frequency: sizes (m,), phases (2, m) of u and v, and of w what aligns them."""
    phases = *turns, turns.sum(axis=0) - np.angle(np.fft.fft(x)[frequency])
    at = 2 * np.pi * frequency * np.arange(x.size) / x.size
    return np.concatenate([size[:, None] * np.cos(at + phase[:, None]) for phase in phases], axis=1)


def listed(x, theta):
    """The loss over all p^2 pairs, one by one."""
    p = x.size
    u, v, w = np.split(theta, 3, axis=1)
    moved, (a, b) = np.array([np.roll(x, k) for k in range(p)]), np.indices((p, p))
    seen = (u @ moved.T)[:, :, None] + (v @ moved.T)[:, None, :]
    return 0.5 * np.sum((moved[(a + b) % p] - np.einsum("iab,ic->abc", seen**2, w)) ** 2) / p**2


@pytest.mark.parametrize(("p", "frequency", "count"), [(5, 1, 6), (5, 2, 7), (7, 2, 6), (7, 3, 7), (9, 3, 6)])
def test_theorem_f7_at_every_minimum_the_cubed_norms_have_one_sum(p, frequency, count):
    """All pairs listed, and descended from random sizes and phases, without the problem and without its waves.

    Scaled, the same neurons complete the square of eq. 88.
    """
    rng = np.random.default_rng(p)
    x = rng.standard_normal(p)
    x -= x.mean()
    size = np.abs(np.fft.fft(x)[frequency])

    def group(flat):
        logs, *turns = flat.reshape(3, -1)
        return aligned_cosines(x, frequency, np.exp(logs), np.array(turns))

    start = np.concatenate([-1 + 0.5 * rng.random(count), 2 * np.pi * rng.random(2 * count)])
    found = minimize(lambda flat: listed(x, group(flat)), start, method="BFGS", options={"maxiter": 600, "gtol": 1e-9})
    theta, least = group(found.x), 0.5 * x @ x - size**2 / p
    cubes = np.sum(np.linalg.norm(theta, axis=1) ** 3)
    assert found.fun == pytest.approx(least, abs=1e-9 * x @ x)
    assert cubes == pytest.approx(np.sqrt(54 * p) / size, rel=1e-5)
    for scale in (0.4, 1.3):
        square = (size / np.sqrt(p) - scale**3 * cubes * size**2 / (np.sqrt(54) * p)) ** 2
        assert listed(x, scale * theta) == pytest.approx(least + square, rel=1e-5)
    problem = ModularAddition(p=p, template=x, width=count)
    at = problem.characters.frequencies.tolist().index(frequency)
    assert problem.learned(theta, np.arange(count))[at] == pytest.approx(1.0, rel=1e-5)
    assert problem.loss_grad(theta, np.arange(count))[0] == pytest.approx(found.fun, rel=1e-9)


def test_theorem_f9_the_utility_that_is_left_is_that_of_the_other_frequencies():
    """Once a frequency is learned, the same sum over the others: neurons of it gain nothing, others what they did."""
    problem = ModularAddition(p=7, template={1: 3.0, 2: 1.5}, width=8)
    group = np.zeros((6, 21))
    phase = np.angle(problem.template.spectrum[0])
    for m in range(3):
        s = np.pi * m / 3
        group[2 * m] = cosine(problem, 0, (s, s, 2 * s - phase))[0]
        group[2 * m + 1] = cosine(problem, 0, (s, s + np.pi, 2 * s + np.pi - phase))[0]
    group *= (1.0 / problem.learned(group, np.arange(6))[0]) ** (1 / 3)
    after = problem.residual(group, np.arange(6))
    theta = np.random.default_rng(0).standard_normal((5, 21))
    x = np.fft.fft(problem.template.values)
    u, v, w = np.moveaxis(np.fft.fft(theta.reshape(5, 3, 7), axis=2), 1, 0)
    terms = 2 / 7**3 * (np.abs(x) ** 2 * u * v * np.conj(w * x)).real
    found = problem.utility(theta, np.arange(5), after)[0]
    np.testing.assert_allclose(found, terms[:, [2, 5]].sum(axis=1), rtol=1e-9, atol=1e-12)
