"""Modular addition: sums over pairs against listing the pairs, and the theory of Fourier features."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.modular_addition import kernels, products
from agf_problems.modular_addition.problem import ModularAddition
from agf_problems.modular_addition.template import Characters
from hypothesis import given, settings
from hypothesis import strategies as st
from modular_cases import NOBODY, best_neuron, six_neurons
from scipy.optimize import minimize

import agf


def listed(problem, theta):
    """Loss and gradient by listing all p^k tuples, with torch: shared with the kernels is only the group's table."""
    import torch

    p, k = problem.p, problem.terms
    sums = problem.characters.sums()
    x = problem.template.values
    translate = np.empty((p, p))
    for a in range(p):
        translate[sums[:, a], a] = x  # (a.x)[j + a] = x[j]
    weights = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    inputs, total = 0, np.arange(p)
    for term in range(k):
        pre = weights[:, term * p : (term + 1) * p] @ torch.tensor(translate)
        inputs = inputs + pre.reshape([-1, *[1] * term, p, *[1] * (k - 1 - term)])
        if term:
            total = sums[total]
    f = torch.einsum("i...,ij->...j", inputs**k, weights[:, k * p :])
    loss = 0.5 * ((torch.tensor(translate.T)[torch.tensor(total)] - f) ** 2).sum() / p**k
    loss.backward()
    return loss.item(), weights.grad.numpy()


CASES = [
    {"p": 2},
    {"p": 7},
    {"p": 8, "template": {1: 3.0, 4: 2.0}},
    {"group": [2, 3]},
    {"group": [4, 2], "template": {(1, 1): 2.0, (2, 1): -1.0}},
    {"p": 5, "terms": 3},
    {"p": 4, "terms": 4, "template": "power-law:0.5"},
    {"p": 2, "terms": 6},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("way", ["products", "matrix", "fft"])
def test_loss_and_gradient_are_those_of_listing_all_pairs(case, way, monkeypatch):
    monkeypatch.setattr(kernels, "_DENSE_ORDER", 0 if way == "fft" else 10**6)
    monkeypatch.setattr(products, "_MOST_WORK", np.inf if way == "products" else 0)
    problem = ModularAddition(width=12, **case)
    assert (problem.products is not None) == (way == "products" and problem.terms == 2)
    # more and fewer neurons than residues: the two orders of multiplication
    for m in (1, 3, 12):
        theta = 0.5 * np.random.default_rng(m).standard_normal((m, problem.n_params))
        loss, gradient = problem.loss_grad(theta, np.arange(m))
        expected, slope = listed(problem, theta)
        assert loss == pytest.approx(expected, rel=1e-13)
        np.testing.assert_allclose(gradient, slope, atol=1e-13 * np.abs(slope).max())


def test_the_pull_of_a_network_is_that_of_its_members_and_near_a_fit_the_loss_keeps_its_digits():
    problem = ModularAddition(p=11, template={2: 3.0}, width=6)
    assert problem.products is not None
    theta = six_neurons(problem, 1)
    members = np.arange(6) % 2 == 0
    sizes = np.linalg.norm(theta, axis=1)
    rows, logs = theta / sizes[:, None], np.log(sizes)
    pull = problem.network_pull(rows, logs, np.arange(6), members)
    expected = agf.Problem.network_pull(problem, rows, logs, np.arange(6), members)
    np.testing.assert_allclose(pull, expected, atol=1e-13 * np.abs(expected).max())
    # the loss of a fit is 0, and moves with the square of what the neurons move: no difference of large numbers
    assert problem.loss_grad(theta, np.arange(6))[0] < 1e-28 * problem.template.energy
    near, nearer = (problem.loss_grad(theta * (1 + size), np.arange(6))[0] for size in (1e-7, 1e-9))
    assert near / nearer == pytest.approx(1e4, rel=1e-5)


def test_the_general_moments_agree_with_the_quadratic_sums():
    problem = ModularAddition(p=9, width=5)
    theta = np.random.default_rng(0).standard_normal((5, 27))
    quadratic, general = problem.kernel, kernels.Moments(problem.template, 2)
    one, two = quadratic.sources(theta), general.sources(theta)
    np.testing.assert_allclose(quadratic.gram(one, one), general.gram(two, two), rtol=1e-12)
    for mine, other in zip(quadratic.pull(one, one), general.pull(two, two), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12 * np.abs(mine).max())


def test_leaving_out_each_of_k_terms_takes_about_three_k_products_of_polynomials(monkeypatch):
    counts, times = [], kernels.Moments._times
    monkeypatch.setattr(
        kernels.Moments, "_times", lambda self, one, two: counts.append(one.shape[2]) or times(self, one, two)
    )
    for terms in (2, 3, 10):
        counts.clear()
        kernel = kernels.Moments(ModularAddition(p=2, width=1).template, terms)
        one = kernel.sources(np.ones((1, 2 * (terms + 1))))
        kernel.gram(one, one)
        assert sum(counts) == 3 * (terms - 2)  # k (k - 2) when each is multiplied out


def test_moments_in_blocks_are_those_of_all_neurons_at_once(monkeypatch):
    problem = ModularAddition(p=4, width=7, terms=3)
    theta = np.random.default_rng(0).standard_normal((7, 16))
    whole = problem.loss_grad(theta, np.arange(7))[1]
    alone = problem.self_interaction(theta, np.arange(7), theta[:0], NOBODY)
    monkeypatch.setattr(kernels, "_BLOCK", 9)
    np.testing.assert_allclose(problem.loss_grad(theta, np.arange(7))[1], whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(problem.self_interaction(theta, np.arange(7), theta[:0], NOBODY), alone, rtol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_small_neuron_lowers_the_loss_by_its_utility(case):
    problem = ModularAddition(width=5, **case)
    rng = np.random.default_rng(3)
    active, extra = 0.4 * rng.standard_normal((4, problem.n_params)), rng.standard_normal((1, problem.n_params))
    residual = problem.residual(active, np.arange(4))
    utility, _ = problem.utility(extra, np.array([4]), residual)
    before = problem.loss_grad(active, np.arange(4))[0]
    errors = []
    for s in (0.2, 0.1):  # at .05 what is left of degree 7 is 1e-14 of the loss
        after = problem.loss_grad(np.concatenate([active, s * extra]), np.arange(5))[0]
        errors.append(abs(before - after - s**problem.degree * utility[0]))
    # what is left is the neuron's interaction with itself, s^(2 degree)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * problem.degree, abs=0.01)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), p=st.integers(2, 12), scale=st.floats(1e-3, 1e3), terms=st.integers(2, 3))
def test_utility_is_homogeneous_and_covariant(seed, p, scale, terms):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(p)
    problem, scaled = (ModularAddition(template=s * x, width=3, terms=terms) for s in (1.0, scale))
    theta, active = rng.standard_normal((2, problem.n_params)), 0.3 * rng.standard_normal((1, problem.n_params))
    residual = problem.residual(active, np.arange(1))
    utility, gradient = problem.utility(theta, np.arange(2), residual)
    size = np.linalg.norm(gradient, axis=1) * np.linalg.norm(theta, axis=1)
    euler = np.sum(theta * gradient, axis=1)
    np.testing.assert_allclose(euler, problem.degree * utility, atol=1e-12 * size.max())
    # x -> s x turns A into s A; w -> s^(1-k) w then turns f into s f and the loss into s^2 L
    rescale = np.ones(problem.n_params)
    rescale[terms * problem.p :] = scale ** (1 - terms)
    loss, expected = scaled.loss_grad(active * rescale, np.arange(1))[0], problem.loss_grad(active, np.arange(1))[0]
    assert loss == pytest.approx(scale**2 * expected, rel=1e-9, abs=1e-12 * scale**2 * problem.template.energy)


def test_inputs_are_not_modified_and_no_neurons_are_legal():
    problem = ModularAddition(p=7, width=4)
    theta = np.random.default_rng(0).standard_normal((4, 21))
    theta.flags.writeable = False
    problem.loss_grad(theta, np.arange(4))
    problem.utility(theta, np.arange(4), problem.residual(theta, np.arange(4)))
    problem.self_interaction(theta, np.arange(4), theta, np.arange(4))
    nobody = np.zeros((0, 21))
    loss, gradient = problem.loss_grad(nobody, NOBODY)
    assert loss == pytest.approx(0.5 * (1 - 1 / 7))
    assert gradient.shape == (0, 21)
    assert problem.features(nobody, NOBODY)["accuracy"] == pytest.approx(1 / 7)


@pytest.mark.parametrize(
    "case",
    [
        {"p": 5},
        {"p": 6, "template": {1: 3.0, 3: 2.0}},
        {"group": [2, 3]},
        {"p": 5, "terms": 3},
        {"group": [2, 2], "terms": 3},
        {"p": 3, "terms": 4},
    ],
    ids=str,
)
def test_products_of_the_hessian_are_slopes_of_the_gradient(case):
    problem = ModularAddition(width=3, **case)
    rng = np.random.default_rng(5)
    theta, vectors = 0.4 * rng.standard_normal((2, 3, problem.n_params))
    hessian = problem.hessian(theta, np.arange(3))
    size = np.abs(hessian).max()
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-13 * size)
    product = hessian @ vectors.ravel()
    # second-order slope of a central difference: error falls fourfold when the step is halved
    errors = []
    for h in (0.2, 0.1):
        ahead, behind = (problem.loss_grad(theta + s * h * vectors, np.arange(3))[1] for s in (1, -1))
        errors.append(np.abs((ahead - behind).ravel() / (2 * h) - product).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_two_residues_have_one_real_wave_and_are_predicted_like_any_others(seed):
    # what the outputs do not span is rounding alone; the loss falls by half with each sign of the wave
    problem = ModularAddition(p=2, width=6)
    found = agf.predict(problem, problem.init(1e-8, seed=seed), mode="agf")
    assert found.status is agf.Status.FITTED
    np.testing.assert_allclose([drop.level for drop in found.drops], [0.125, 0.0], atol=1e-6)


@pytest.mark.parametrize("case", [{"p": 5}, {"p": 6, "template": {1: 3.0, 3: 2.0}}, {"group": [2, 3]}], ids=str)
def test_self_interaction_is_that_of_explicit_functions_and_their_jacobian(case):
    problem = ModularAddition(width=6, **case)
    p = problem.p
    rng = np.random.default_rng(1)
    active, others = 0.5 * rng.standard_normal((4, 3 * p)), agf.sphere.random(rng, 6, 3 * p)
    translates = problem.template.translates()

    def functions(theta):
        a, b = theta[:, :p] @ translates, theta[:, p : 2 * p] @ translates
        pairs = (a[:, :, None] + b[:, None, :]) ** 2
        return (pairs[..., None] * theta[:, None, None, 2 * p :]).reshape(theta.shape[0], -1) / p

    rows = [functions(active + h) - functions(active - h) for h in 1e-4 * np.eye(3 * p)[:, None, :]]
    _, values, span = np.linalg.svd(np.concatenate(rows) / 2e-4, full_matrices=False)
    span = span[values > 1e-6 * values[0]]  # between the null directions (rounding) and the rest
    out = functions(others)
    rest = out - (out @ span.T) @ span
    found = problem.self_interaction(others, np.arange(6), active, np.arange(4))
    np.testing.assert_allclose(found, 0.5 * np.sum(rest**2, axis=1), rtol=1e-5)  # differences of 1e-4 at each entry
    alone = problem.self_interaction(others, np.arange(6), active[:0], NOBODY)
    np.testing.assert_allclose(alone, 0.5 * np.sum(out**2, axis=1), rtol=1e-12)


@pytest.mark.parametrize("terms", [2, 3])
def test_gradient_flow_conserves_the_balance(terms):
    problem = ModularAddition(p=5, width=3, terms=terms)
    theta = np.random.default_rng(2).standard_normal((3, problem.n_params))
    gradient = problem.loss_grad(theta, np.arange(3))[1]
    ahead, behind = (problem.conserved(theta + s * gradient, np.arange(3))["balance"] for s in (0.5, -0.5))
    np.testing.assert_allclose(ahead, behind, atol=1e-12 * np.abs(ahead).max())  # exactly: the balance is quadratic


# -- spectra and theory ---------------------------------------------------------------------------------------------


def test_amplitudes_are_moduli_of_the_fourier_coefficients():
    problem = ModularAddition(p=20, template={1: 10, 3: 5, 5: 2.5}, width=18)
    x = problem.template.values
    expected = sum(a / 10 * np.cos(2 * np.pi * k * np.arange(20) / 20) for k, a in ((1, 10), (3, 5), (5, 2.5)))
    np.testing.assert_allclose(x, expected, atol=1e-14 * np.abs(x).max())
    np.testing.assert_allclose(np.abs(np.fft.fft(x))[[1, 3, 5]], [10, 5, 2.5])
    assert problem.loss_grad(np.zeros((0, 60)), NOBODY)[0] == pytest.approx(6.5625)
    theory = problem.theory()
    np.testing.assert_allclose(theory.levels, [6.5625, 1.5625, 0.3125, 0.0], atol=1e-14)
    assert [drop.label for drop in theory.drops] == ["frequency 1", "frequency 3", "frequency 5"]
    assert any("even" in note for note in theory.notes)


def test_templates_may_be_text_arrays_or_dictionaries():
    spectrum = ModularAddition(p=7, template={1: 2.0, 3: -1.0}).template.values
    np.testing.assert_allclose(ModularAddition(p=7, template="1:2,3:-1").template.values, spectrum)
    np.testing.assert_allclose(ModularAddition(template=spectrum + 5.0).template.values, spectrum, atol=1e-14)
    np.testing.assert_allclose(
        np.abs(ModularAddition(p=7, template="power-law:2").template.spectrum), [1, 1 / 4, 1 / 9]
    )
    np.testing.assert_allclose(np.abs(ModularAddition(p=7, template="one-hot").template.spectrum), 1.0)


def test_characters_of_a_product_are_homomorphisms():
    characters = Characters((3, 4))
    waves = characters.transform(np.eye(12))  # row j: conj chi_k(j)
    sums = characters.sums()
    for a in range(12):
        np.testing.assert_allclose(waves[sums[a]], waves[a] * waves, atol=1e-13)
    assert characters.frequencies.size == (12 - 1 - 1) // 2 + 1  # one real character, (0, 2)
    assert characters.name(characters.frequencies[~characters.paired][0]) == "character (0, 2)"


@pytest.mark.parametrize("case", [{"p": 11}, {"p": 8, "template": {1: 3.0, 4: 2.0}}, {"group": [3, 3]}], ids=str)
def test_the_largest_utility_of_a_frequency_is_the_formula(case):
    problem = ModularAddition(width=1, **case)
    nothing = problem.residual(np.zeros((0, problem.n_params)), NOBODY)
    for position in problem.template.learnable:
        character = problem.characters.inverse(
            problem.characters.fill(np.eye(problem.characters.frequencies.size)[position] * (1 + 0j))
        )
        wave = np.tile(character / np.linalg.norm(character) / np.sqrt(3), 3)[None]
        wave[:, 2 * problem.p :] *= np.sign(problem.template.spectrum[position].real)
        utility = problem.utility(wave, np.arange(1), nothing)[0][0]
        size = np.abs(problem.template.spectrum[position])
        if problem.characters.paired[position]:
            assert problem.max_utilities()[position] == pytest.approx(np.sqrt(2 / (27 * problem.p**3)) * size**3)
        if np.isclose(abs(problem.template.spectrum[position].imag), 0, atol=1e-12):
            assert utility == pytest.approx(problem.max_utilities()[position])


def ascend(problem, start):
    """Utility at the end of an ascent on the sphere, and the direction."""
    nothing = problem.residual(np.zeros((0, problem.n_params)), NOBODY)

    def negative(theta):
        unit, size = theta / np.linalg.norm(theta), np.linalg.norm(theta)
        utility, gradient = problem.utility(unit[None], np.arange(1), nothing)
        return -utility[0], -(gradient[0] - (gradient[0] @ unit) * unit) / size

    found = minimize(
        negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-12}
    )
    return -found.fun, found.x / np.linalg.norm(found.x)


def test_ascent_ends_on_several_frequencies_each_at_its_own_maximum():
    """[AGF] Theorem 5.1 prints that there are no local maxima but the global one."""
    rng = np.random.default_rng(0)
    problem = ModularAddition(template=rng.standard_normal(11), width=1)
    reached = set()
    for start in agf.sphere.random(rng, 20, 33):
        utility, direction = ascend(problem, start)
        position, share = problem.neuron_frequencies(direction[None])
        assert share[0] == pytest.approx(1.0, abs=1e-6)
        assert utility == pytest.approx(problem.max_utilities()[position[0]], rel=1e-8)
        assert problem.neuron_phases(direction[None])[1][0] == pytest.approx(0.0, abs=1e-3)
        reached.add(int(position[0]))
    assert len(reached) >= 2


@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_frequency_is_a_strict_local_maximum_up_to_phases(position):
    problem = ModularAddition(p=7, template={1: 3.0, 2: 1.0, 3: 0.2}, width=1)
    theta = best_neuron(problem, position)
    nothing = problem.residual(np.zeros((0, 21)), NOBODY)
    utility, gradient = problem.utility(theta, np.arange(1), nothing)
    np.testing.assert_allclose(gradient, 3 * utility[0] * theta, atol=1e-14)  # critical on the sphere
    h = 1e-4
    rows = [
        (
            problem.utility(theta + h * e, np.arange(1), nothing)[1]
            - problem.utility(theta - h * e, np.arange(1), nothing)[1]
        )[0]
        / (2 * h)
        for e in np.eye(21)
    ]
    tangent = np.eye(21) - theta.T @ theta
    curvature = np.linalg.eigvalsh(tangent @ (np.array(rows) - 3 * utility[0] * np.eye(21)) @ tangent) / utility[0]
    # one zero along theta (projected out) and two along the phases that keep s_u + s_v - s_w
    assert np.sum(np.abs(curvature) < 1e-6) == 3
    assert np.all(curvature[:-3] < -0.1)
    told = problem.critical(np.zeros((0, 21)), NOBODY)[position]
    assert (told.kind, told.utility) == ("maximum", pytest.approx(utility[0]))
    assert problem.utility(told.direction[None], np.arange(1), nothing)[0] == pytest.approx(utility)


@pytest.mark.parametrize("p", [7, 12])
def test_six_aligned_neurons_reach_the_bound_of_one_frequency(p):
    problem = ModularAddition(p=p, template={1: 4.0, 2: 3.0}, width=6)
    for position, size in ((0, 4.0), (1, 3.0)):
        theta = six_neurons(problem, position)
        loss, gradient = problem.loss_grad(theta, np.arange(6))
        assert loss == pytest.approx(problem.template.energy / 2 - size**2 / p, rel=1e-13)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-13 * size)
        np.testing.assert_allclose(problem.neuron_phases(theta)[1], 0.0, atol=1e-12)
        power = np.zeros(p // 2)
        power[position] = size**2
        np.testing.assert_allclose(problem.output_power(theta, np.arange(6)), power, atol=1e-12)


@pytest.mark.parametrize("fraction", [0.2, 1.0, 1.7])
def test_the_completed_square_and_the_sum_of_cubes_carry_the_powers_of_p_we_say(fraction):
    """[AGF] Theorem F.7 prints sqrt(54 p) |xh| for the sum of cubed norms, and eq. 88 sqrt(54 p) for sqrt(54) p."""
    p, size = 9, 4.0
    problem = ModularAddition(p=p, template={2: size, 3: 1.0}, width=6)
    theta = six_neurons(problem, 1, fraction)
    cubes = np.sum(np.linalg.norm(theta, axis=1) ** 3)
    assert cubes == pytest.approx(fraction * np.sqrt(54 * p) / size)
    square = (size / np.sqrt(p) - cubes * size**2 / (np.sqrt(54) * p)) ** 2
    loss = problem.loss_grad(theta, np.arange(6))[0]
    assert loss == pytest.approx(problem.template.energy / 2 - size**2 / p + square)


def best_of_group(problem, count, seeds, rng):
    """Least loss found with `count` neurons, by ascent from random starts."""
    energy = problem.template.energy

    def objective(flat):
        loss, gradient = problem.loss_grad(flat.reshape(count, -1), np.arange(count))
        return loss / energy, gradient.ravel() / energy

    starts = [0.5 * rng.standard_normal(count * problem.n_params) for _ in range(seeds)]
    return (
        min(
            minimize(objective, s, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 1e-15}).fun
            for s in starts
        )
        * energy
    )


@pytest.mark.parametrize(("count", "gap"), [(1, 8 / 9), (2, 5 / 9)])
def test_fewer_neurons_leave_the_published_gap(count, gap):
    problem = ModularAddition(p=7, template={1: 3.0}, width=count)
    least = best_of_group(problem, count, 6, np.random.default_rng(0))
    gain = problem.template.gains()[0]
    assert (least - (problem.template.energy / 2 - gain)) / gain == pytest.approx(gap, rel=1e-5)


def test_two_neurons_learn_a_real_character_exactly():
    problem = ModularAddition(p=4, template={2: 3.0}, width=2)
    assert best_of_group(problem, 2, 4, np.random.default_rng(0)) < 1e-10 * problem.template.energy
    assert problem.theory().drops[0].features["group_size"] == 2


def test_printed_bounds_on_the_jump_are_not_bounds_and_ours_is_met_by_an_aligned_neuron():
    """[AGF] eq. 9 prints sqrt(3 p^{3/2}), and all bounds of degree 3 drop the minus-one of (1/mu - 1)."""
    p, mu, size = 11, 0.3, 6.0
    problem = ModularAddition(p=p, template={2: size}, width=1)
    utility = problem.max_utilities()[1]
    init = agf.Init.from_params(mu * best_neuron(problem, 1))
    jump = agf.predict(problem, init, threshold="unit", max_drops=1).times[1]
    assert problem.jump_bound(2, mu) == pytest.approx((1 / mu - 1) / (3 * utility))
    assert jump == pytest.approx(problem.jump_bound(2, mu), rel=1e-5)
    assert 1 / (mu * 3 * utility) > 1.4 * jump  # without the minus-one: the blow-up time, after the jump
    printed = np.sqrt(3 * p**1.5) * (1 / mu - 1) / (np.sqrt(2) * size**3)
    assert printed < jump / np.sqrt(p)  # p^{3/4} where p^{3/2} belongs


def test_the_utility_needs_its_conjugates():
    """[AGF] section 5 prints the utility without the conjugate on w and x."""
    problem = ModularAddition(template=np.random.default_rng(0).standard_normal(7), width=1)
    theta = np.random.default_rng(1).standard_normal((1, 21))
    nothing = problem.residual(np.zeros((0, 21)), NOBODY)
    utility = problem.utility(theta, np.arange(1), nothing)[0][0]
    x = np.fft.fft(problem.template.values)
    u, v, w = (np.fft.fft(part) for part in theta.reshape(3, 7))
    right = 2 / 7**3 * np.sum(np.abs(x) ** 2 * u * v * np.conj(w * x))
    assert utility == pytest.approx(right.real)
    assert abs(right.imag) < 1e-12
    assert abs(utility - (2 / 7**3 * np.sum(np.abs(x) ** 2 * u * v * w * x)).real) > 0.01 * abs(utility)


def test_theory_says_when_frequencies_tie_and_how_many_neurons_it_needs():
    notes = " ".join(ModularAddition(p=7, width=4).theory().notes)
    assert "tie" in notes
    assert "18 neurons" in notes
    assert ModularAddition(p=7, template={1: 2.0}, width=6).theory().notes == ()


def test_theory_bounds_come_from_the_largest_initial_norm():
    problem = ModularAddition(p=7, template={1: 4.0, 2: 2.0}, width=12)
    init = problem.init(1e-3, seed=0)
    mu = float(np.exp(init.log_norms.max()))
    bounds = problem.theory(init=init).bounds
    np.testing.assert_allclose(bounds, [problem.jump_bound(1, mu), problem.jump_bound(2, mu)])
    assert bounds[1] / bounds[0] == pytest.approx(8.0)
    assert np.isnan(problem.theory(alpha=1e-3).times[1:]).all()
    assert problem.theory().bounds is None
    with pytest.raises(agf.RequestError, match="unknown option `rule`"):
        problem.theory(rule="greedy")
    assert agf.predict(problem, init, max_drops=1, mode="agf").times[1] > bounds[0]


def test_a_theory_whose_flow_times_leave_float64_is_refused_in_a_sentence():
    problem = agf.problem("modular-addition", p=5, width=4)
    assert np.isfinite(problem.theory(alpha=1e-300).bounds).all()
    with pytest.raises(agf.RequestError, match="beyond float64"):
        problem.theory(alpha=1e-320)


@pytest.mark.parametrize("terms", [99, 200, 10**6])
def test_terms_whose_factors_leave_float64_are_refused_at_once(terms):
    with pytest.raises(agf.DataError, match=r"beyond float64\. Expected fewer than 99 terms"):
        agf.problem("modular-addition", p=2, terms=terms)
    assert agf.problem("modular-addition", p=2, terms=98).terms == 98
