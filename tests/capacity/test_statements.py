"""Statements of [Pinson], numbered as in docs/races.md: each with biases, against formulas written down here."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import race_cases

import agf

ANTI = np.array([1.0, -1.0]) / np.sqrt(2)


def at(seed=0, inputs=4, samples=30, width=6, small=1.0):
    """A random network with biases in the paper's coordinates, beside the problem that has it."""
    rng = np.random.default_rng(seed)
    X, labels = rng.standard_normal((samples, inputs)), rng.permutation(np.repeat([1, 2], samples // 2))
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=width, kink=0, bias="both")
    theta = small * rng.standard_normal((width + 1, inputs + 3))
    w1, b, w2, b2 = theta[:-1, :inputs], theta[:-1, inputs], theta[:-1, inputs + 1 :], theta[-1, inputs + 1 :]
    pre = X @ w1.T + b
    z = np.maximum(pre, 0) @ w2 + b2
    p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    error = np.eye(2)[labels - 1] - p
    size, n1, n2 = np.linalg.norm(error, axis=1), np.linalg.norm(w1, axis=1), np.linalg.norm(w2, axis=1)
    cosine = (error @ w2.T) / np.outer(size, n2)
    gates = pre > 0
    gamma = (gates * cosine * size[:, None]).T @ X / samples
    sine = (error[:, :1] * -w2[:, 1] + error[:, 1:] * w2[:, 0]) / np.outer(size, n2)
    gradient = problem.loss_grad(theta, np.arange(width + 1))[1][:-1]
    return SimpleNamespace(**locals())


@pytest.mark.parametrize("seed", [0, 1])
def test_t1_errors_lie_along_one_line_for_all_time(seed):
    s = at(seed)
    residual = np.asarray(s.problem.residual(s.theta, np.arange(7)))
    true = np.where(s.labels == 1, s.p[:, 0], s.p[:, 1])
    assert residual == pytest.approx(s.error, abs=1e-13)
    assert s.size == pytest.approx(np.sqrt(2) * (1 - true), abs=1e-12)
    assert np.abs(residual.sum(axis=1)).max() < 1e-13


def test_t2_t5_the_gradient_in_polar_coordinates():
    s = at()
    h, n = np.maximum(s.pre, 0), s.samples
    on_w1, on_b, on_w2 = s.gradient[:, : s.inputs], s.gradient[:, s.inputs], s.gradient[:, s.inputs + 1 :]
    across = np.stack([-s.w2[:, 1], s.w2[:, 0]], axis=1) / s.n2[:, None]
    assert on_w1 == pytest.approx(-s.n2[:, None] * s.gamma, abs=1e-13)
    assert np.sum(on_w1 * s.w1, axis=1) / s.n1 == pytest.approx(
        -s.n2 * np.sum(s.w1 * s.gamma, axis=1) / s.n1, abs=1e-12
    )  # eq. 7
    assert np.sum(on_w2 * across, axis=1) == pytest.approx(-(h * s.size[:, None] * s.sine).sum(0) / n, abs=1e-12)
    radial = (h * s.size[:, None] * s.cosine).sum(0) / n
    assert np.sum(on_w2 * s.w2, axis=1) / s.n2 == pytest.approx(-radial, abs=1e-12)  # eq. 5
    bias = (s.gates * s.size[:, None] * s.cosine).sum(0) / n
    assert on_b == pytest.approx(-s.n2 * bias, abs=1e-12)  # eq. 8
    assert radial == pytest.approx(np.sum(s.w1 * s.gamma, axis=1) + s.b * bias, abs=1e-12)  # eq. 80 and its bias


def test_t4_t24_the_ratio_of_turning_to_growing_is_a_tangent_and_huge_for_some():
    s = at()
    h = np.maximum(s.pre, 0)
    turning, growing = ((h * s.size[:, None] * part).sum(0) for part in (s.sine, s.cosine))
    angle = 3 * np.pi / 4 - np.arctan2(s.w2[:, 1], s.w2[:, 0])
    alive = growing != 0
    assert (turning / growing)[alive] == pytest.approx(np.tan(angle)[alive], rel=1e-9)
    w2 = np.random.default_rng(0).standard_normal((1000, 2))
    assert np.abs(np.tan(3 * np.pi / 4 - np.arctan2(w2[:, 1], w2[:, 0]))).max() > 50


def test_t6_the_symmetric_part_of_the_outputs_never_moves():
    s = at(small=0.1)
    run = agf.descend(s.problem, agf.Init.from_params(s.theta), lr=0.01, momentum=0.9, batch_size=5, steps=1000)
    outputs = [theta[:, s.inputs + 1 :].sum(axis=1) for theta in (run.params(0), run.params(-1))]
    assert outputs[1] == pytest.approx(outputs[0], abs=1e-12)
    assert np.abs(run.params(-1) - run.params(0)).max() > 0.1


def test_t7_the_drive_is_one_vector_times_a_cosine():
    s = at()
    sign = np.where(s.labels == 1, 1.0, -1.0) * s.size
    v = (s.gates * sign[:, None]).T @ s.X / s.samples
    assert s.gamma == pytest.approx((s.w2 @ ANTI / s.n2)[:, None] * v, abs=1e-13)


def test_t9_the_first_drive_is_the_difference_of_the_class_sums():
    s = at()
    theta = 1e-12 * s.theta
    theta[:-1, s.inputs + 1 :], theta[-1] = 1e-12 * ANTI, 0.0
    found = agf.alignment(s.problem, theta)
    m = (s.gates * np.where(s.labels == 1, 1.0, -1.0)[:, None]).T @ np.c_[s.X, np.ones(s.samples)]
    assert found.drive[0, :6] == pytest.approx(np.sqrt(0.5) * np.linalg.norm(m, axis=1) / s.samples, rel=1e-9)


def test_t10_t12_the_error_of_small_logits():
    z = np.linspace(-0.5, 0.5, 41)
    assert (np.abs(1 / (1 + np.exp(-2 * z)) - (0.5 + z / 2)) <= np.abs(z) ** 3 / 6 + 1e-16).all()
    s = at()
    w, open_ = s.w1[0] / s.n1[0], s.X @ s.w1[0] > 0
    sign = np.where(s.labels == 1, 1.0, -1.0)

    def mean_error(a):
        logit = a * np.maximum(s.X @ w, 0) / np.sqrt(2)  # an aligned neuron of norms 1 and a
        return np.mean((np.sqrt(2) * (1 - 1 / (1 + np.exp(-2 * sign * logit))))[open_])

    m = (sign[:, None] * s.X)[open_].mean(axis=0)
    assert (mean_error(1e-5) - mean_error(-1e-5)) / 2e-5 == pytest.approx(-0.5 * m @ w, rel=1e-6)


def test_t11_with_linear_errors_the_drive_vanishes_at_least_squares_and_not_at_the_mean():
    rng = np.random.default_rng(0)
    sign = np.repeat([1.0, -1.0], 200)
    X = rng.standard_normal((400, 3)) * [1, 0.5, 0.25] + 0.15 * sign[:, None]
    m, second, total = sign @ X, X.T @ X, 2.5
    w = np.sqrt(2) / total * np.linalg.solve(second, m)
    errors = np.sqrt(0.5) * (1 - sign * total * (X @ w) / np.sqrt(2))
    assert (sign * errors) @ X == pytest.approx(np.zeros(3), abs=1e-11)
    assert np.degrees(np.arccos(m @ w / np.linalg.norm(m) / np.linalg.norm(w))) > 20


def test_t15_utility_is_what_the_neuron_and_its_drive_make():
    s = at()
    value, _ = s.problem.utility(s.theta, np.arange(7), s.problem.residual(s.theta, np.arange(7)))
    bias = (s.gates * s.size[:, None] * s.cosine).sum(0) / s.samples
    assert value[:-1] == pytest.approx(s.n2 * (np.sum(s.w1 * s.gamma, axis=1) + s.b * bias), abs=1e-12)


def test_t16_the_law_at_frozen_gates():
    """u and w along v turn hyperbolically; what is across stays. Inputs all seen by all neurons, weights of 1e-6."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.standard_normal((40, 2)) * 0.2 + [[0.3, 0.0]], np.full(40, 3.0)]
    labels = rng.permutation(np.repeat([1, 2], 20))
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=5, kink=0)
    w = np.c_[0.1 * rng.standard_normal((5, 2)), np.ones(5)]
    theta = 1e-6 * np.c_[w, rng.standard_normal((5, 2))]
    v = np.sqrt(0.5) * np.where(labels == 1, 1.0, -1.0) @ X / 40
    nu, time = np.linalg.norm(v), 1.0 / np.linalg.norm(v)
    along, u = theta[:, :3] @ v / nu, theta[:, 3:] @ ANTI
    end = agf.flow(problem, agf.Init.from_params(theta), t_max=time, rtol=1e-7).params(-1)
    assert ((X @ end[:, :3].T) > 0).all()
    scale = np.abs(end).max()
    assert end[:, 3:] @ ANTI == pytest.approx(u * np.cosh(1) + along * np.sinh(1), abs=1e-3 * scale)
    assert end[:, :3] @ v / nu == pytest.approx(along * np.cosh(1) + u * np.sinh(1), abs=1e-3 * scale)


@pytest.fixture(scope="module")
def blobs():
    """Norms (8, 4, 2, 1), biases, std 1e-4: one flow past all four drops."""
    X, labels = race_cases.blobs(each=50)
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=100, bias="both")
    theta = 1e-4 * np.random.default_rng(1).standard_normal((100, 5))
    theta[:, 2] = 0.0
    init = agf.Init.from_params(theta)
    return problem, init, agf.flow(problem, init, t_max=40.0, snapshots=200)


def blob_errors(problem, theta):
    """Mean error of each blob over its start."""
    error = np.asarray(problem.residual(theta, np.arange(problem.width)))
    return np.linalg.norm(error, axis=1).reshape(4, -1).mean(axis=1) / np.sqrt(0.5)


def test_t18_four_drops_in_the_order_of_the_distances(blobs):
    problem, _, flow = blobs
    errors = np.array([blob_errors(problem, flow.params(k)) for k in range(flow.snapshot_times.size)])
    half = [float(flow.snapshot_times[np.argmax(errors[:, k] < 0.5)]) for k in range(4)]
    assert half == pytest.approx([4.6, 10.2, 19.2, 30.3], rel=0.15)  # five hundred neurons: 4.4, 9.8, 17.8, 24.2
    assert half == sorted(half)


def test_t21_t22_directions_settle_before_the_drop_and_end_at_four(blobs):
    problem, _, flow = blobs
    cosines = agf.alignment(problem, flow)
    before = int(np.argmax(flow.snapshot_times > 3.0))
    assert flow.loss_at(flow.snapshot_times[before]) > 0.98 * np.log(2)
    assert np.nanmedian(cosines.cos_delta[before, :100]) > 0.95
    assert np.nanmean(cosines.cos_delta[before, :100] < 0) < 0.15 < np.nanmean(cosines.cos_delta[0, :100] < 0)
    end = flow.params(-1)[:100]
    angle = np.degrees(np.arctan2(end[:, 1], end[:, 0])) % 90
    large = np.linalg.norm(end, axis=1) > 0.1 * np.linalg.norm(end, axis=1).max()
    assert (np.abs(angle[large] - 45) < 20).all()


@pytest.mark.parametrize("bias", [False, True])
def test_t22_gates_go_on_changing_where_directions_have_settled(bias):
    """On the plateau, where each neuron is alone: the best directions lie on kinks, as many as they have dimensions,
    and steps go to and fro across them. Own descent, four draws."""
    some, most, far = [], [], []
    for seed in range(1, 5):
        X, labels = race_cases.blobs(norms=(4, 3, 2, 1), seed=seed)
        x = np.column_stack([X, np.ones(len(X))]) if bias else X
        error = np.where(labels == 1, 0.5, -0.5)[:, None] / len(x)
        rng, rate = np.random.default_rng(seed), 4e-3
        w, u = rng.standard_normal((x.shape[1], 100)), np.sqrt(2) * rng.standard_normal(100)
        w[2:] = 0.0
        for step in range(3000):
            z = x @ w
            if step == 2875:  # a time of .5 before 12
                before = z > 0
            pushed = (z > 0) * error
            w, u = w + rate * u * (x.T @ pushed), u + 2 * rate * (z * pushed).sum(axis=0)
        changed = (x @ w > 0) != before
        some.append(changed.any(axis=0).mean())
        most.append((changed.sum(axis=0) > 1 + bias).mean())
        angle = np.abs(x @ w) / np.linalg.norm(w, axis=0) / np.linalg.norm(x, axis=1)[:, None]
        far.extend(angle[changed])
    assert np.mean(some) > (0.3 if bias else 0.1)
    assert np.mean(most) < 0.03
    assert np.quantile(far, 0.9) < 1e-3  # what a step turns


def largest_drive(X, sign):
    """max over unit w of |sum_k sign_k relu(w . x_k)| / (sqrt 2 n) in the plane: in a cell, or on a kink."""
    edges = np.sort(np.concatenate([np.arctan2(X[:, 1], X[:, 0]) + k * np.pi / 2 for k in (1, -1)]) % (2 * np.pi))
    best = 0.0
    for low, high in zip(edges, np.append(edges[1:], edges[0] + 2 * np.pi), strict=True):
        middle = 0.5 * (low + high)
        v = ((X @ [np.cos(middle), np.sin(middle)] > 0) * sign) @ X / (np.sqrt(2) * len(X))
        for v_ in (v, -v):
            inside = (np.arctan2(v_[1], v_[0]) - low) % (2 * np.pi) < high - low
            ends = [v_ @ [np.cos(angle), np.sin(angle)] for angle in (low, high)]
            best = max(best, np.linalg.norm(v_) if inside else max(ends))
    return best


def test_t19_the_time_of_the_first_drop_is_linear_in_the_log_of_the_scale():
    """Slope from 1e-6 to 1e-150 in flow and prediction: 1 / max utility, on a kink: .71233 for this noise."""
    X, labels = race_cases.blobs(each=50, seed=4)
    exact = 1 / largest_drive(X, np.where(labels == 1, 1.0, -1.0))
    assert exact == pytest.approx(0.712339, abs=2e-5)  # draws 0 to 12 have .708 to .714
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=8)
    theta, level = np.random.default_rng(0).standard_normal((8, 4)), 0.6
    seen, told, logs = [], [], np.array([6.0, 50.0, 150.0])
    for decades in logs:
        init = agf.Init.scaled(theta, 10.0**-decades)
        end = 1.66 * decades + 4
        seen.append(agf.flow(problem, init, t_max=end).time_at(level))
        stairs = agf.predict(problem, init, mode="resolved", t_max=end, conditioning=False)
        told.append(float(np.interp(-level, -np.minimum.accumulate(stairs.curve_losses), stairs.curve_times)))
    slopes = np.diff([seen, told], axis=1) / np.diff(logs * np.log(10))
    assert slopes == pytest.approx(np.full((2, 2), exact), rel=2e-4)


def test_t23_small_weights_end_along_the_diagonals_and_large_ones_nowhere():
    X, labels = race_cases.blobs(norms=(2, 2, 2, 2), sd=0.2)
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=40)
    apart = []
    for scale in (1e-3, 1.0):
        end = agf.descend(problem, race_cases.start(40, scale), lr=0.02, momentum=0.9, steps=1500).params(-1)
        apart.append(np.abs(np.degrees(np.arctan2(end[:, 1], end[:, 0])) % 90 - 45).mean())
    assert apart[0] < 2
    assert apart[1] > 15


def test_t32_without_the_leaders_the_losers_take_over_the_whole_total(blobs):
    problem, init, flow = blobs
    early = int(np.argmax(flow.snapshot_times > 4.6))
    members = max(agf.groups(flow, at=early, cosine=0.95).groups, key=lambda group: group.total).members
    leaders, losers = members[: members.size // 4], members[members.size // 4 :]
    others = np.setdiff1d(np.arange(100), leaders)
    fewer = agf.TwoLayer(problem.X[:, :2], race_cases.blobs(each=50)[1], loss="cross-entropy", width=others.size,
                         bias="both")  # fmt: skip
    alone = agf.flow(fewer, agf.Init(init.directions[others], init.log_norms[others], init.alpha), t_max=20.0)
    k = int(np.argmax(flow.snapshot_times > 20.0)) - 1
    total, before = (np.sum(np.exp(2 * flow.log_norms[k, rows])) for rows in (members, losers))
    after = np.sum(np.exp(2 * alone.log_norms[-1, np.searchsorted(others, losers)]))
    assert before < 0.6 * total
    assert after == pytest.approx(total, rel=0.1)


def test_every_statement_of_the_page_has_a_test_of_its_number():
    """T1 to T32, each in some file beside this one or on biases."""
    tests = Path(__file__).parents[1]
    files = [*tests.glob("capacity/test_*.py"), tests / "networks" / "test_biases.py"]
    names = re.findall(r"^def test(?:_t\d+)+", "\n".join(path.read_text() for path in files), re.MULTILINE)
    assert {int(number) for name in names for number in re.findall(r"_t(\d+)", name)} == set(range(1, 33))
