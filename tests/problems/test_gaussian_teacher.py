"""Teacher and student on Gaussian inputs: closed forms against quadrature, sampling, the flow and [GB24]'s numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from agf_problems.gaussian_teacher.problem import GaussianTeacher
from agf_problems.gaussian_teacher.single_neuron import balanced_weight, overlap, quadrants
from scipy.integrate import solve_ivp
from scipy.special import erf

import agf

ACTIVATIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "leaky-relu": lambda z: np.where(z > 0, z, 0.1 * z),
    "linear": lambda z: z,
    "square": lambda z: z**2,
    "erf": erf,
}
SLOPES = {
    "relu": lambda z: 1.0 * (z > 0),
    "leaky-relu": lambda z: np.where(z > 0, 1.0, 0.1),
    "linear": np.ones_like,
    "square": lambda z: 2 * z,
    "erf": lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2)),
}


def random_problem(activation, inputs=2, seed=0, width=3):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((inputs, inputs))
    covariance = root @ root.T / inputs + 0.2 * np.eye(inputs)
    teacher, outer = rng.standard_normal((2, inputs)), np.array([1.0, -0.5])
    problem = GaussianTeacher(teacher, outer, covariance, width=width, activation=activation)
    return problem, rng.standard_normal((width, inputs + 1)), covariance


def nodes(activation, rows):
    """Points z (N, 2) and weights of an independent quadrature of averages over N(0, I) in the plane.

    Smooth: the trapezoid rule on 1000 x 1000 points over +-10, exact to rounding. Kinked and homogeneous:
    Gauss-Legendre in the angle between kinks (rows . z = 0), Gauss-Laguerre in r^2 / 2.
    """
    if activation == "erf":
        axis = np.linspace(-10, 10, 1000)
        x, y = np.meshgrid(axis, axis)
        z = np.stack([x.ravel(), y.ravel()], axis=1)
        return z, np.exp(-0.5 * np.sum(z**2, axis=1)) / (2 * np.pi) * (axis[1] - axis[0]) ** 2
    kinks = np.arctan2(rows[:, 0], -rows[:, 1]) % np.pi
    edges = np.unique(np.concatenate([kinks, kinks + np.pi]))
    edges = np.append(edges, edges[0] + 2 * np.pi)
    x, w = np.polynomial.legendre.leggauss(40)
    angle = np.concatenate([0.5 * (b - a) * x + 0.5 * (a + b) for a, b in pairwise(edges)])
    weight = np.concatenate([0.5 * (b - a) * w for a, b in pairwise(edges)]) / (2 * np.pi)
    s, v = np.polynomial.laguerre.laggauss(20)  # r^2 / 2 is exponential; integrands are polynomials in it
    z = np.sqrt(2 * s)[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return z.reshape(-1, 2), (v[:, None] * weight).ravel()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_loss_gradient_and_utility_are_averages_over_the_inputs(activation):
    problem, theta, covariance = random_problem(activation)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    z, weight = nodes(activation, np.concatenate([problem.teacher, theta[:, :2]]) @ root)
    x = z @ root
    sigma, slope = ACTIVATIONS[activation], SLOPES[activation]
    inside = x @ theta[:, :2].T
    r = sigma(x @ problem.teacher.T) @ problem.outer - sigma(inside) @ theta[:, 2]
    loss, gradient = problem.loss_grad(theta, np.arange(3))
    assert loss == pytest.approx(0.5 * weight @ r**2, rel=1e-10)
    on_w = -((weight * r)[:, None] * slope(inside) * theta[:, 2]).T @ x
    on_a = -sigma(inside).T @ (weight * r)
    scale = np.abs(gradient).max()
    assert np.abs(gradient - np.column_stack([on_w, on_a])).max() < 1e-10 * scale
    utility = problem.utility(theta, np.arange(3), problem.residual(theta, np.arange(3)))[0]
    leading = 2 / np.sqrt(np.pi) * inside if activation == "erf" else sigma(inside)
    assert np.abs(utility - theta[:, 2] * (leading.T @ (weight * r))).max() < 1e-10 * scale


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_hessian_is_the_slope_of_the_gradient(activation):
    problem, theta, _ = random_problem(activation, inputs=3, seed=1)
    dense = problem.hessian(theta, np.arange(3))
    step, slope = 1e-5, np.zeros_like(dense)
    for k in range(theta.size):
        shift = np.zeros(theta.size)
        shift[k] = step
        ends = [problem.loss_grad(theta + side * shift.reshape(theta.shape), np.arange(3))[1] for side in (1, -1)]
        slope[k] = (ends[0] - ends[1]).ravel() / (2 * step)
    assert np.abs(dense - slope).max() < 1e-7 * np.abs(dense).max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_hessian_is_an_average_over_the_inputs(activation):
    """E J J^T + E r d2f by the quadrature; where sigma has a kink, sigma'' is a line w . z = 0, integrated by hand."""
    problem, theta, covariance = random_problem(activation)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    z, weight = nodes(activation, np.concatenate([problem.teacher, theta[:, :2]]) @ root)
    sigma, slope, a = ACTIVATIONS[activation], SLOPES[activation], theta[:, 2]

    def error(z):
        x = z @ root
        return sigma(x @ theta[:, :2].T) @ a - sigma(x @ problem.teacher.T) @ problem.outer

    x, r = z @ root, error(z)
    inside = x @ theta[:, :2].T
    on_w = slope(inside)[:, :, None] * x[:, None, :]
    jacobian = np.concatenate([a[:, None] * on_w, sigma(inside)[:, :, None]], axis=2).reshape(len(z), 9)
    expected = jacobian.T @ (weight[:, None] * jacobian)
    bend = {"linear": lambda z: 0 * z, "square": lambda z: 2 + 0 * z,
            "erf": lambda z: -4 / np.sqrt(np.pi) * z * np.exp(-(z**2))}  # fmt: skip
    for i in range(3):
        rows, last = slice(3 * i, 3 * i + 2), 3 * i + 2
        mixed = (weight * r) @ on_w[:, i]
        expected[rows, last] += mixed
        expected[last, rows] += mixed
        if activation in bend:
            expected[rows, rows] += a[i] * x.T @ ((weight * r * bend[activation](inside[:, i]))[:, None] * x)
            continue
        w = root @ theta[i, :2]
        along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
        jump = float(slope(np.ones(1))[0] - slope(-np.ones(1))[0])
        # int_0^inf s^3 phi(s) ds = 2 / sqrt(2 pi) on either side; density of w . z at 0 is 1 / (|w| sqrt(2 pi))
        line = jump * error(np.stack([along, -along])).sum() / (np.pi * np.linalg.norm(w))
        expected[rows, rows] += a[i] * line * root @ np.outer(along, along) @ root
    dense = problem.hessian(theta, np.arange(3))
    assert np.abs(dense - expected).max() < 1e-10 * np.abs(dense).max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_contract_holds_at_every_activation(activation):
    problem, _, _ = random_problem(activation, inputs=3)
    assert not agf.check(problem).failures


def test_a_student_on_its_teacher_has_no_loss_and_no_gradient():
    for activation in ACTIVATIONS:
        problem, _, _ = random_problem(activation, inputs=3, width=2)
        theta = np.column_stack([problem.teacher, problem.outer])
        loss, gradient = problem.loss_grad(theta, np.arange(2))
        assert loss < 1e-14
        assert np.abs(gradient).max() < 1e-13


def test_samples_of_the_same_network_agree_to_their_number():
    problem = GaussianTeacher(**GaussianTeacher.example())
    sampled = problem.sampled(10_000)
    theta = np.random.default_rng(0).standard_normal((6, 4))
    exact, drawn = (p.loss_grad(theta, np.arange(6)) for p in (problem, sampled))
    assert drawn[0] == pytest.approx(exact[0], rel=0.05)  # some 3 / sqrt(10^4)
    assert np.abs(drawn[1] - exact[1]).max() < 0.05 * np.abs(exact[1]).max()


def test_saddle_to_saddle_of_six_students_is_predicted():
    problem = GaussianTeacher(**GaussianTeacher.example())
    init = problem.init(1e-8)
    flow = agf.flow(problem, init)
    report = agf.compare(agf.predict(problem, init, mode="resolved"), flow)
    assert len(flow.drops) == 2
    assert report.max_time_error < 1e-3
    sampled = agf.flow(problem.sampled(10_000), init, t_max=0.75 * flow.times[-1] + 10, rtol=1e-3)
    assert sampled.drops[0].time == pytest.approx(flow.drops[0].time, rel=0.05)


def test_the_erf_committee_waits_on_its_symmetric_plateau():
    """Three students on three orthogonal teachers: they first learn the mean of the teachers, all of them alike."""
    problem = GaussianTeacher(np.eye(3), width=3, activation="erf")
    init = problem.init(1e-3)
    flow = agf.flow(problem, init)
    report = agf.compare(agf.predict(problem, init, mode="resolved"), flow)
    assert len(flow.drops) == 2
    assert report.max_time_error < 5e-3
    # the plateau: best network of three equal students along (1, 1, 1)
    from scipy.optimize import minimize

    def alike(y):
        return problem.loss_grad(np.tile([y[0], y[0], y[0], y[1]], (3, 1)), np.arange(3))[0]

    assert flow.drops[0].after == pytest.approx(
        minimize(alike, [0.5, 0.5], tol=1e-12).fun, rel=0.03
    )  # .5 % at alpha 1e-6


# -- one neuron: [GB24] --------------------------------------------------------------------------------------------


def neuron(inputs, scale=None):
    teacher = np.eye(1, inputs)
    return GaussianTeacher(teacher, covariance=1 / inputs if scale is None else scale)


def test_17_overlap_has_its_printed_values_and_exceeds_the_cosine():
    assert overlap([0.0, np.pi / 2, np.pi]) == pytest.approx([1, 1 / np.pi, 0], abs=1e-15)
    grid = np.linspace(0, np.pi, 1001)
    assert (overlap(grid) >= np.cos(grid) - 1e-15).all()


@pytest.mark.parametrize("inputs", [2, 5])
def test_the_ode_of_angle_and_norms_is_the_gradient_flow(inputs):
    problem, rng = neuron(inputs), np.random.default_rng(0)
    theory = problem.theory()
    for _ in range(5):
        theta = rng.standard_normal((1, inputs + 1))
        w, a = theta[0, :-1], theta[0, -1]
        norm = float(np.linalg.norm(w))
        angle = float(np.arccos(w[0] / norm))
        loss, gradient = problem.loss_grad(theta, np.arange(1))
        turn, grow, outer = theory.rates(angle, norm, a)
        assert loss == pytest.approx(theory.population_loss(angle, norm, a), rel=1e-12)
        assert outer == pytest.approx(-gradient[0, -1], rel=1e-10)
        assert grow == pytest.approx(-gradient[0, :-1] @ w / norm, rel=1e-10)
        first = -gradient[0, 0] * np.sin(angle) ** 2 + gradient[0, 1:-1] @ w[1:] * np.cos(angle) / norm
        assert turn == pytest.approx(-first / (norm * np.sin(angle)), rel=1e-9)


def test_18_flip_times_are_those_of_the_flow_at_any_scale_of_the_start():
    for inputs in (2, 5):
        theory = neuron(inputs).theory()
        for angle, printed in ((2.0, 2.075241), (2.5, 6.943140), (3.0, 42.06)):
            assert theory.flip_time(angle) / inputs == pytest.approx(printed, rel=1e-5 if angle < 3 else 1e-4)
            assert theory.reached_angle(theory.flip_time(angle)) == pytest.approx(angle, abs=1e-9)
        assert theory.flip_time(np.pi) == np.inf
        for wrong in (-0.1, 4.0, np.nan):
            with pytest.raises(agf.AgfError, match="flip_time"):
                theory.flip_time(wrong)
    for scale in (1e-3, 0.3):
        w = scale * np.array([[np.cos(2.5), np.sin(2.5), 1.0]])
        problem = neuron(2)
        run = agf.flow(problem, agf.Init.from_params(w), t_max=20.0, rtol=1e-8)
        assert run.flips("inner", problem)[0].time / 2 == pytest.approx(6.943140, rel=1e-5)


@pytest.mark.parametrize(
    ("w0", "c1", "k", "times", "expected"),
    [
        (0.3, 0.5, 0.5, (0.5, 1, 3), (0.374432, 0.460303, 0.815572)),
        (1.5, 0.5, 0.45, (1,), (1.091047,)),
        (0.3, 0.5, -0.5, (1, 3), (0.176994, 0.064248)),
        (-0.4, 0.5, 0.0, (1, 3), (-0.371391, -0.328798)),
    ],
)
def test_1_2_3_4_5_the_balanced_weight_has_its_values_and_solves_its_equation(w0, c1, k, times, expected):
    assert balanced_weight(0.0, w0, c1, k) == pytest.approx(w0, rel=1e-15)
    assert balanced_weight(np.array(times), w0, c1, k) == pytest.approx(expected, abs=1e-6)
    law = solve_ivp(lambda t, w: k * w - c1 * w**3, (0, 3), [w0], rtol=1e-11, atol=1e-13)
    assert balanced_weight(3.0, w0, c1, k) == pytest.approx(law.y[0, -1], rel=1e-8)


def test_6_7_printed_closed_forms_have_doubled_exponents_and_lack_a_root():
    """[GB24]: for K > 0 the printed form is right at t/2, and for K < 0 it does not start at w0."""
    w0, c1, k, t = 0.3, 0.5, 0.5, 1.0

    def printed(t):  # exponents 2 K t and 4 K t in place of K t and 2 K t
        return np.sqrt(k) * np.exp(2 * k * t) * w0 / np.sqrt(k + c1 * w0**2 * (np.exp(4 * k * t) - 1))

    assert printed(t / 2) == pytest.approx(float(balanced_weight(t, w0, c1, k)), rel=1e-9)
    assert printed(t) != pytest.approx(float(balanced_weight(t, w0, c1, k)), rel=0.05)
    k = -0.5  # printed at t = 0: sqrt(-K) w0^2 / (-K) without the root of the denominator, .127279
    assert np.sqrt(-k) * w0**2 / -k == pytest.approx(0.127279, abs=1e-6)
    assert float(balanced_weight(0.0, w0, c1, k)) == pytest.approx(w0)


def test_quadrants_of_one_input():
    clean = quadrants(0.5, 0.5, 0.0)
    assert clean == {"++": 1.0, "+-": 0.0, "-+": 0.0, "--": 0.0}
    noisy = quadrants(0.5, 0.45, -0.05)
    assert noisy["++"] == pytest.approx(np.sqrt(0.9))
    assert noisy["+-"] == pytest.approx(-np.sqrt(0.1))
    assert noisy["--"] == noisy["-+"] == 0
    flow = agf.flow(neuron(1, 1.0), agf.Init.from_params([[-0.4, 0.4]]), t_max=30.0)
    # dies algebraically, and never crosses 0
    assert flow.params(-1)[0] == pytest.approx(
        float(balanced_weight(30.0, 0.4, 0.5, 0.0)) * np.array([-1, 1]), rel=1e-4
    )


def test_24_success_probabilities():
    brackets = {(2, 10): 0.685, (3, 10): 0.880, (5, 10): 0.979, (2, 50): 0.924, (3, 50): 0.993}
    for (inputs, time), expected in brackets.items():
        assert neuron(inputs).theory().flipped(time * inputs) == pytest.approx(expected, abs=1e-3)
    iid = [neuron(d).theory().success("lrr", imbalance="iid") for d in (2, 3, 5, 10)]
    assert iid == pytest.approx([0.8536, 0.9092, 0.9622, 0.9949], abs=1e-4)
    theory = neuron(5).theory()
    assert theory.success("imp") == 0.25
    assert theory.success("lrr") == 0.5
    assert theory.success("wr", rewind=50.0) == theory.success("lrr", time=50.0)
    assert theory.success("wr", rewind=0.0) == 0.25
    assert neuron(1).theory().success("lrr") == 0.25
    with pytest.raises(agf.RequestError, match="infinite time"):
        theory.success("wr", rewind=1.0, imbalance="iid")


def test_26_success_of_starts_that_are_not_balanced():
    """IMP and WR by imbalance: at time 0 by counting, later by following starts; balanced ones as the closed form."""
    rng = np.random.default_rng(0)
    for inputs in (2, 5):
        theory = neuron(inputs).theory()
        first = rng.standard_normal((100_000, inputs))
        first = first[:, 0] / np.linalg.norm(first, axis=1)
        for ratio in (0.3, 0.8, 1.5):
            counted = 0.25 + 0.5 * np.mean(first > ratio)
            assert theory.success("imp", imbalance=ratio, rebalance=False) == pytest.approx(counted, abs=5e-3)
            assert theory.success("imp", imbalance=ratio) == 0.25
        closed = theory.success("wr", rewind=3.0 * inputs)
        assert theory._restarts(3.0 * inputs, 1.0, True, 0.7) == pytest.approx(closed, abs=1e-4)
    assert theory.success("imp", imbalance="iid", rebalance=False) == 0.375
    problem, theory, learned = neuron(2), neuron(2).theory(), 0
    for _ in range(40):  # starts of all signs, |a| = .5 |w| = .5, masked at flow time 4 and followed
        w = rng.standard_normal(2)
        theta = np.append(w / np.linalg.norm(w), 0.5 * rng.choice([-1.0, 1.0]))[None]
        early = agf.descend(problem, agf.Init.from_params(theta), lr=0.1, steps=40, snapshots=2).params(-1)
        learned += early[0, 0] > 0 and (early[0, 2] > 0 or early[0, 0] > abs(early[0, 2]))
    law = theory.success("wr", rewind=4.0, imbalance=0.5, rebalance=False)
    assert learned / 40 == pytest.approx(law, abs=0.25)  # three standard deviations of .08


def test_iid_starts_succeed_as_often_as_counted():
    rng = np.random.default_rng(0)
    starts = rng.standard_normal((200_000, 4))
    rescued = (starts[:, 3] > 0) | (starts[:, 3] ** 2 < np.sum(starts[:, :3] ** 2, axis=1))
    assert neuron(3).theory().success("lrr", imbalance="iid") == pytest.approx(rescued.mean(), abs=5e-3)


def test_27_activation_comes_a_fixed_time_after_the_law_of_the_frozen_residual():
    """The self-interaction near norm 1 delays by d ln 2 (d = 5: 3.466), whatever the start."""
    theory, r0 = neuron(5).theory(), 1e-4

    def flow(t, y):
        turn, grow, _ = theory.rates(y[0], np.exp(y[1]), np.exp(y[1]))
        return [turn, grow / np.exp(y[1])]

    def frozen(t, y):
        return [theory.rates(y[0], 1.0, 1.0)[0], 0.5 * theory.scale * float(overlap(y[0]))]

    def there(t, y):
        return y[1] + 0.5 * np.log(2)

    there.terminal = True
    times = [
        solve_ivp(f, (0, 400), [2.0, np.log(r0)], rtol=1e-10, atol=1e-12, events=there).t[-1] for f in (flow, frozen)
    ]
    assert times[0] == pytest.approx(108.546, abs=0.01)
    assert times[0] - times[1] == pytest.approx(5 * np.log(2), abs=0.01)


def test_what_cannot_be_is_refused_in_a_sentence():
    for options, words in (
        ({"activation": "tanh"}, "one of relu"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive semi-definite"),
        ({"covariance": [[1.0, 2.0], [0.0, 1.0]]}, "symmetric"),
        ({"outer": [1.0]}, "length"),
        ({"covariance": 0.0}, "positive"),
    ):
        with pytest.raises(agf.DataError, match=words):
            GaussianTeacher(np.eye(2), **options)
    with pytest.raises(agf.NoTheory, match="one ReLU student"):
        GaussianTeacher(np.eye(2), width=2).theory()


@pytest.mark.parametrize("mode", ["agf", "resolved"])
def test_a_neuron_whose_input_weights_shrink_to_nothing_holds_nobody_up(mode):
    # Of the example's six students from seed 1 one has output weight -0.81: its input weights go to 0, a kink.
    problem = agf.problem("gaussian-teacher", **agf.registry.find("gaussian-teacher").example())
    init = problem.init(1e-4, seed=1)
    stairs, flow = agf.predict(problem, init, mode=mode, max_drops=1), agf.flow(problem, init)
    assert stairs.half_times[1] == pytest.approx(flow.drops[0].time, rel=1e-3)
    assert stairs.stats["utility_evaluations"] < 20_000  # 120,000 rounds and no drop where it chatters


def test_input_weights_that_are_gone_stay_gone_and_others_move():
    problem = agf.problem("gaussian-teacher", teacher=np.eye(3), width=3)
    residual = problem.residual(np.zeros((0, 4)), np.zeros(0, dtype=int))
    small = -1e-5 * np.ones(3)  # where E[r relu(w . x)] is least: it heads for 0
    rows = np.array([[*small, -1.0], [*small, 1.0], [*(1e3 * small), -1.0]])
    utility, gradient = problem.utility(rows, np.arange(3), residual)
    assert (gradient[0] == 0).all()
    assert utility[0] == 0
    assert np.linalg.norm(gradient[1:], axis=1).min() > 1e-3
    assert (problem.loss_grad(rows, np.arange(3))[1][0] == 0).all()
    assert (problem.hessian(rows, np.arange(3))[:4, :4] == 0).all()


@pytest.mark.parametrize("activation", ["relu", "leaky-relu"])
def test_small_input_weights_turn_first_where_the_residual_has_both_signs(activation):
    """Against the same network on 20,000 samples: w is 1e-6 of a, loses length at first, and turns and grows."""
    problem = GaussianTeacher(np.array([[1.0, 0.0], [0.0, 1.0]]), outer=[1.0, -1.0], activation=activation)
    init = agf.Init.from_params(1e-3 * np.array([[0.9e-6, 0.8e-6, -1.0]]))
    assert problem.utility(init.directions, np.arange(1), problem.residual(np.zeros((0, 3)), np.arange(0)))[0][0] < 0
    exact, sampled = agf.flow(problem, init), agf.flow(problem.sampled(20_000), init)
    assert exact.status.word == "settled"
    assert exact.drops[0].time == pytest.approx(sampled.drops[0].time, rel=0.05)
    assert agf.predict(problem, init).half_times[1] == pytest.approx(exact.drops[0].time, rel=2e-3)


@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_a_student_whose_input_weights_die_has_settled(alpha):
    """a < 0 and teachers of positive sign: w goes to 0 in a time of order one, and there is no way back."""
    problem = GaussianTeacher(np.diag([3.0, 2.0, 1.0]))
    init = problem.init(alpha, seed=1)
    assert init.directions[0, -1] < -0.8
    flow = agf.flow(problem, init)
    assert flow.status.word == "settled"
    assert flow.times[-1] < 10.0
    assert agf.predict(problem, init).status.word == "no_growth"


def test_the_hessian_with_a_student_of_no_input_weights_is_finite():
    problem = GaussianTeacher(np.eye(2), width=2)
    theta = np.array([[0.3, 0.4, 0.5], [0.0, 0.0, -0.7]])
    assert np.isfinite(problem.hessian(theta, np.arange(2))).all()
