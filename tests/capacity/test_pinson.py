"""Formulas of [Pinson] that did not survive a check (docs/errata.md), and exact facts that the paper does not state."""

from __future__ import annotations

import numpy as np
import pytest
import race_cases
from scipy.integrate import solve_ivp

import agf


def random_network(inputs, seed=0, bias=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, inputs))
    X = np.c_[X, np.ones(40)] if bias else X
    problem = agf.TwoLayer(X, rng.integers(0, 2, 40), loss="cross-entropy", width=6, kink=0)
    return problem, rng.standard_normal((6, problem.n_params))


def angles(w):
    """Hyperspherical angles of w."""
    tails = np.sqrt(np.cumsum((w**2)[::-1])[::-1])
    theta = [np.arctan2(tails[k + 1], w[k]) for k in range(w.size - 2)]
    return np.array([*theta, np.arctan2(w[-1], w[-2])])


@pytest.mark.parametrize(("inputs", "holds"), [(2, True), (5, False)])
def test_t3_equation_6_holds_in_the_plane_alone(inputs, holds):
    """dL/dtheta_i in proportion to sin(theta_gamma,i - theta_w,i): printed for every dimension."""
    problem, theta = random_network(inputs)
    gradient = problem.loss_grad(theta, np.arange(6))[1]
    w, gamma = theta[0, :inputs], -gradient[0, :inputs]
    a, g = angles(w), angles(gamma)
    step = 1e-6
    printed, true = np.sin(g - a) * np.linalg.norm(gamma) * np.linalg.norm(w), np.zeros(inputs - 1)
    for k in range(inputs - 1):
        for sign in (1, -1):
            moved = a.copy()
            moved[k] += sign * step
            sines = np.concatenate([[1.0], np.cumprod(np.sin(moved))])
            point = np.linalg.norm(w) * sines * np.append(np.cos(moved), 1.0)
            true[k] += sign * (point @ gamma) / (2 * step)
    assert (np.abs(true - printed).max() < 1e-6) == holds


def test_the_product_of_the_norms_grows_at_twice_the_printed_rate():
    """[Pinson] eqs. 18 to 20 print d a/dt = |gamma| cos(delta) a; it is |gamma| cos(delta) sqrt(c^2 + 4 a^2)."""
    problem, theta = random_network(3)
    gradient = problem.loss_grad(theta, np.arange(6))[1]
    moment = agf.alignment(problem, theta)
    n1, n2 = np.linalg.norm(theta[:, :3], axis=1), np.linalg.norm(theta[:, 3:], axis=1)
    on_w, on_a = -np.sum((theta * gradient)[:, :3], axis=1), -np.sum((theta * gradient)[:, 3:], axis=1)
    grown = on_w * n2 / n1 + on_a * n1 / n2
    right = moment.drive[0] * moment.cos_delta[0] * np.sqrt((n2**2 - n1**2) ** 2 + 4 * (n1 * n2) ** 2)
    assert grown == pytest.approx(right, rel=1e-10)


def test_t8_the_balance_is_conserved_with_the_hidden_bias_counted_and_not_without():
    problem, theta = random_network(3, bias=True)
    gradient = problem.loss_grad(theta, np.arange(6))[1]
    rate = 2 * theta * gradient
    with_bias = rate[:, 4:].sum(axis=1) - rate[:, :4].sum(axis=1)
    assert np.abs(with_bias).max() < 1e-15
    assert np.abs(rate[:, 4:].sum(axis=1) - rate[:, :3].sum(axis=1)).max() > 1e-3


def test_ratios_in_a_group_are_bounded_where_the_paper_lets_them_grow():
    """Cosines .9 and .5 to one drive, equal norms: the ratio ends at ((1 + .9)/(1 + .5))^2 = 1.604, not exp(2 .4 t)."""

    def law(t, y):  # u' = w . v, w' = u v with |v| = 1, for two balanced neurons
        u, along = y[:2], y[2:4]
        return np.concatenate([along, u])

    cosines = np.array([0.9, 0.5])
    end = solve_ivp(law, (0, 20), np.concatenate([np.ones(2), cosines]), rtol=1e-10, atol=1e-12).y[:, -1]
    u, along, across = end[:2], end[2:4], np.sqrt(1 - cosines**2)
    strength = u * np.sqrt(along**2 + across**2)
    assert strength[0] / strength[1] == pytest.approx((1.9 / 1.5) ** 2, rel=1e-8)
    assert np.exp(2 * 0.4 * 20) > 1e6  # what the printed law says (8.9e6; without the factor 2, 2981)


def test_the_printed_square_of_a_difference_has_the_wrong_sign():
    a, b = 1.3, 0.4  # eq. 86 expands (A^2 - B^2)^2 with + 2 A^2 B^2
    assert (a**2 - b**2) ** 2 == pytest.approx(a**4 - 2 * a**2 * b**2 + b**4)
    assert (a**2 - b**2) ** 2 != pytest.approx(a**4 + 2 * a**2 * b**2 + b**4)


def test_the_first_plateau_with_an_output_bias_is_the_entropy_of_the_other_blobs():
    """One blob of four is solved; the bias learns that two of the other three are of class 2: 3/4 H(1/3) = .477386."""
    p = 1 / 3
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    assert 0.75 * entropy == pytest.approx(0.477386, abs=1e-6)
    assert 0.75 * np.log(2) == pytest.approx(0.519860, abs=1e-6)  # without a bias


def test_the_error_at_the_start_is_the_root_of_one_half():
    problem = race_cases.network()
    residual = problem.residual(np.zeros((0, 4)), np.arange(0))
    assert np.linalg.norm(residual, axis=1) == pytest.approx(np.sqrt(0.5))  # appendix C.2 prints .5


def test_the_logit_of_the_first_class_takes_neurons_by_their_own_class():
    """Eq. 71 has the angle between a neuron and the error of the sample in place of that to class 1."""
    rng = np.random.default_rng(0)
    X, w, own, size = rng.standard_normal((30, 4)), rng.standard_normal((6, 4)), np.tile([1.0, -1.0], 3), rng.random(6)
    labels = np.repeat([1, 2], 15)
    theta = np.c_[w, np.outer(size * own, [1, -1]) / np.sqrt(2)]  # all output weights aligned
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=6, kink=0)
    p = np.eye(2)[labels - 1] - problem.residual(theta, np.arange(6))
    logits = np.log(p) - np.log(p).mean(axis=1, keepdims=True)  # z_1 = -z_0
    pull = np.maximum(X @ w.T, 0) * size * own / np.sqrt(2)
    side = np.where(labels == 1, 1.0, -1.0)
    assert logits[:, 0] == pytest.approx(pull.sum(axis=1))
    true_class = side * pull.sum(axis=1)  # as printed
    assert true_class == pytest.approx(np.where(labels == 1, logits[:, 0], logits[:, 1]))


def test_the_norm_follows_from_the_cosine_without_a_parameter():
    """Figure 1c at frozen gates: an exponential, fitted, is farther off."""
    rng = np.random.default_rng(0)
    d, neurons = 1000, 250
    w, u = rng.standard_normal((neurons, d)), rng.standard_normal(neurons)
    time = 4.0
    along = w[:, 0] * np.cosh(time) + u * np.sinh(time)
    u = u * np.cosh(time) + w[:, 0] * np.sinh(time)
    length = np.sqrt(along**2 + np.sum(w[:, 1:] ** 2, axis=1))
    cosine, log_a = np.abs(along) / length, np.log(np.abs(u) * length)
    grown = cosine > 0.1
    law = np.log(d * cosine / (1 - cosine**2))
    fitted = np.polyval(np.polyfit(cosine[grown], log_a[grown], 1), cosine)
    off, off_fitted = (np.sqrt(np.mean((log_a - to)[grown] ** 2)) for to in (law, fitted))
    assert off < 0.06
    assert off < 0.3 * off_fitted
