"""Constants and bounds of [Min23] and [BF24]: published numbers, brute force, and claims against runs."""

import json
from functools import cache

import numpy as np
import pytest
from rectified_cases import D1, D2, D3, GRID, M4, T3, at, grid, pair, problem, slowest

import agf
from agf.rectified.ends import isotropic
from agf.rectified.orthogonal import orthogonal, path_sum
from agf.shell.main import main

T3A = np.array([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]]), np.array([1.0, 0.1, 1.1])
A3VIOL = np.array([[-0.85, 1.15], [-0.15, 1.15], [0.85, 1.15]]), np.array([1.0, 0.15, 1.15])
# -- [Min23] ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "mu", "plus", "minus", "zeta1", "xi"),
    [
        (D1, np.cos(np.deg2rad(40)), 1.9318517, 1.9318517, 0.8213938, 0.5868241),
        (D2, np.cos(np.deg2rad(40)), 1.9923894, 1.9923894, 0.6710101, 0.5868241),
        (D3, np.cos(np.deg2rad(30)), 2.9318517, 1.0, 0.8213938, 0.75),
    ],
)
def test_table_5(data, mu, plus, minus, zeta1, xi):
    s = agf.separation(problem(data), pair(160, 320)).separable
    assert (s.mu, s.plus, s.minus, s.zeta1, s.xi) == pytest.approx((mu, plus, minus, zeta1, xi), abs=1e-7)
    assert s.unit == pytest.approx(4.0)  # a mean of four where the paper sums


@pytest.mark.parametrize("shift", [0.05, 0.1, 1e-3])
def test_two_points_almost_orthogonal(shift):
    s = agf.separation(problem((at(0, 90 - np.rad2deg(shift)), [1.0, 1.0])), pair(30, 200)).separable
    assert s.mu == pytest.approx(np.sin(shift))
    assert s.plus == pytest.approx(2 * np.cos((np.pi / 2 - shift) / 2))
    assert s.zeta1 == pytest.approx((1 + np.sin(shift)) / 2)
    assert s.minus == 0


def test_test_5_a_pair_on_d1_at_the_scale_of_the_theorem():
    p = problem(D1)
    scale = agf.separation(p, pair(160, 320)).separable.log_eps_theorem
    s = agf.separation(p, pair(160, 320), log_eps=scale).separable
    found = (s.zeta2, s.m0, s.t1, s.t1_path, s.log_eps_B, s.T, s.rate)
    known = (0.8213938, 0.5868241, 43.185756, 23.363953, -691.318664, 43.185756, 0.0183382538)
    assert found == pytest.approx(known, abs=1e-6)
    assert (s.t2_plus, s.t2_minus) == pytest.approx((4786.8827, 4786.8827), abs=1e-4)


def test_test_6_neither_over_nor_underflows():
    s = agf.separation(problem(D1, 32), grid(1e-4)).separable
    assert s.zeta2 == pytest.approx(4.7588921e-4, rel=1e-7)
    assert s.log_eps_B == pytest.approx(-852046.83, abs=0.01)
    assert s.t1 == pytest.approx(53252.8, rel=1e-5)
    assert s.t1_log == pytest.approx(7.38, abs=0.01)
    assert np.isfinite([v for v in vars(s).values() if isinstance(v, float)]).all()


def test_a_neuron_exactly_against_its_class_breaks_assumption_2():
    s = agf.separation(problem(D3), pair(225, 320))
    assert s.separable.zeta2 < 1e-30
    assert s.separable.t1 > 1e20


def test_data_that_are_not_separable_have_statistics_instead_of_bounds():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.sign(rng.standard_normal(30))
    found = agf.separation(problem((X, y)), agf.TwoLayer(X, y, width=2).init(1e-4))
    s = found.separable
    z = y[:, None] * X / np.linalg.norm(X, axis=1)[:, None]
    pairs = (z @ z.T)[np.triu_indices(30, 1)]
    assert s.mu < 0
    assert s.t1 == np.inf
    assert s.soft.every == pytest.approx(np.mean(pairs > 0))
    assert s.soft.lowest == pytest.approx(pairs.min())
    assert "Assumption 1 of [Min23] fails" in str(found)


@cache
def longest(own, other, mine, theirs):
    """Longest path by dynamic programming: from `mine` active of its own, `theirs` of the other class."""
    if (mine, theirs) == (own, 0):
        return 0.0
    cost = 1 / (mine + theirs)
    steps = [
        (a, b)
        for a in range(mine, own + 1)
        for b in range(theirs + 1)
        if (a, b) != (mine, theirs) and ((a, b) != (0, 0) or own == 0)
    ]
    return cost + max(longest(own, other, *step) for step in steps)


@pytest.mark.parametrize("own", range(5))
@pytest.mark.parametrize("other", range(5))
def test_the_path_sum_is_the_longest_path(own, other):
    starts = [(a, b) for a in range(own + 1) for b in range(other + 1) if a + b]
    if starts:
        best = max(longest(own, other, *start) for start in starts)
        assert path_sum(own, other) == pytest.approx(best)


def random_problem(rng):
    """Two classes in a cone: inputs within 44 degrees of +-e_1."""
    d, plus, minus = int(rng.integers(2, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 5))
    y = np.r_[np.ones(plus), -np.ones(minus)]
    side = rng.standard_normal((y.size, d - 1))
    side /= np.linalg.norm(side, axis=1)[:, None]
    turn = rng.uniform(0, np.deg2rad(44), y.size)
    z = np.column_stack([np.cos(turn), np.sin(turn)[:, None] * side])
    return y[:, None] * rng.uniform(0.5, 2.0, y.size)[:, None] * z, y


def test_our_time_bounds_the_limit_flow_on_random_problems_and_is_almost_reached():
    rng = np.random.default_rng(0)
    tight = 0.0
    for _ in range(60):
        X, y = random_problem(rng)
        theta = np.vstack([isotropic(rng, 10, X.shape[1], s) for s in (1.0, -1.0)])
        w = theta[:, :-1] * np.sqrt(2)
        s = orthogonal(X, y, w, np.zeros(20), theta[:, -1] > 0, -10.0, 1.0)
        ratio = slowest(X, y, theta) / s.t1_log
        assert ratio <= 1.0
        assert s.t1_log < s.t1
        tight = max(tight, ratio)
    assert tight > 0.3


def test_the_slowest_neurons_of_the_grid():
    for data, known in ((D1, 2.41641), (D2, 2.15967), (D3, 2.58870)):
        theta = np.column_stack([np.vstack([GRID, GRID]), np.repeat([1.0, -1.0], 16)]) / np.sqrt(2)
        assert slowest(*data, theta) == pytest.approx(known, abs=1e-5)


@pytest.mark.parametrize(("data", "angles", "plus", "minus"), [
    (D1, (160, 320), 358.505, 357.979), (D2, (300, 340), 407.168, 407.450), (D3, (160, 320), 174.235, 508.872),
])  # fmt: skip
def test_every_claim_holds_at_the_scale_of_the_theorem(data, angles, plus, minus):
    p, start = problem(data), pair(*angles)
    scale = agf.separation(p, start).separable.log_eps_theorem
    tiny = agf.Init(start.directions, start.log_norms - np.log(1e-4) + scale, max(np.exp(scale), 1e-300))
    flow = agf.flow(p, tiny, t_max=4 * 600.0, snapshots=2000)
    claims = agf.separation(p, start, log_eps=scale).check(flow)
    assert claims.hold
    assert claims["t2 of the positives"].left == pytest.approx(plus, abs=0.1)
    assert claims["t2 of the negatives"].left == pytest.approx(minus, abs=0.1)
    assert claims["all neurons aligned or dead, at the latest"].holds
    assert claims["all neurons aligned or dead, limit flow"].slack > 0


def test_claims_whose_premise_fails_are_not_asked_and_a_wrong_run_breaks_them():
    p, start = problem(D1), pair(160, 320, 0.5)
    claims = agf.separation(p, start).check(agf.flow(p, start, t_max=10.0))
    assert claims["seeded neurons not on their class at the end"].holds is None
    assert "eps above" in claims["seeded neurons not on their class at the end"].why
    # the flow of other labels, said to be of these
    q = problem((D1[0], np.array([1.0, -1.0, 1.0, -1.0])))
    small = pair(160, 320, 1e-3)
    wrong = agf.separation(p, small, log_eps=-800.0).check(agf.flow(q, small, t_max=40.0))
    assert not wrong.hold


# -- [BF24] -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "alpha0", "star"),
    [(0.1, 1, 0.069329), (0.2, 1, 0.028481), (0.3, 1, 0.0048065), (0.1, 0.5, 0.066772), (0.2, 0.5, 0.027089),
     (0.3, 0.5, 0.0044585)],
)  # fmt: skip
def test_section_4_1_largest_lambda(eps, alpha0, star):
    p = problem(T3, 3, "half-squared")
    e = agf.separation(p, p.init(1e-3), eps=eps, alpha0=alpha0).early
    assert np.exp(e.log_star) == pytest.approx(star, rel=2e-5)


def test_section_4_1_constants():
    p = problem(T3, 3, "half-squared")
    e = agf.separation(p, p.init(1e-3)).early
    found = (e.D_max, e.D_min, e.alpha_plus, e.alpha_minus, e.delta_others, e.s2, e.ratio)
    assert found == pytest.approx((0.7149689, 0.268742, 0.728690, 1.0, 0.629476, 1.276042, 0.089443), abs=1e-6)
    assert e.delta_kinks == np.inf
    assert e.log_constant / np.log(10) == pytest.approx(np.log10(1.5e24), abs=0.02)
    assert e.log_content / np.log(10) == pytest.approx(-81, abs=0.2)
    assert e.unit == pytest.approx(1.0)


def test_other_data_of_section_4():
    p = problem(T3A, 3, "half-squared")
    found = agf.separation(p, p.init(1e-3))
    e = found.early
    assert (e.D_max, e.D_min, e.alpha_plus, e.delta) == pytest.approx(
        (0.7339467, 0.448454, 0.147639, 0.525013), abs=1e-6
    )
    assert np.exp(e.log_star) == pytest.approx(1.33e-4, rel=2e-3)
    assert found.spurious.holds
    assert found.spurious.gap == pytest.approx(0.2934, abs=1e-4)
    four = agf.separation(problem(M4, 3, "half-squared"), p.init(1e-3)).early
    assert (four.D_max, four.D_min) == pytest.approx((0.465188, 0.049193), abs=1e-6)


def test_distances_to_cones_are_those_of_a_fine_grid():
    X, y = M4
    e = agf.separation(problem(M4, 3, "half-squared"), agf.TwoLayer(*M4, width=3).init(1e-3)).early
    angles = np.linspace(0, 2 * np.pi, 200_001)
    w = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    patterns = (w @ X.T > 0).astype(int) @ (1 << np.arange(4))
    largest = {1: -1.0, -1: -1.0}
    for pattern in np.unique(patterns):
        inside = w[patterns == pattern]
        active = (inside[0] @ X.T) > 0
        D = (active * y) @ X / 4
        D /= np.linalg.norm(D)
        for side in (1, -1):
            if ((side * D @ X.T > 0) != active).any():
                largest[side] = max(largest[side], float((side * inside @ D).max()))
    # open cones alone bound the sines from above; kinks may only lower them
    assert e.alpha_plus <= np.sqrt(1 - largest[1] ** 2) + 1e-4
    assert e.alpha_minus <= np.sqrt(1 - largest[-1] ** 2) + 1e-4


def test_assumption_5_fails_for_points_that_end_spurious_all_the_same():
    found = agf.separation(problem(T3, 3, "half-squared"), agf.TwoLayer(*T3, width=3).init(1e-3)).spurious
    gram = T3[0] @ T3[0].T
    gaps = [
        T3[1][k] * gram[k, k] - np.linalg.norm(T3[1]) * np.sqrt(np.sum(gram[k] ** 2) - gram[k, k] ** 2) for k in (0, 2)
    ]
    assert gaps == pytest.approx([1.7188 - 2.2459, 0.8125 - 1.7783], abs=2e-4)
    assert found.gap == pytest.approx(min(gaps))
    assert found.extreme.tolist() == [0, 2]
    assert found.under == pytest.approx(0.164103, abs=1e-6)
    assert found.level == pytest.approx(0.0875213675, abs=1e-9)
    assert not found.holds
    other = agf.separation(problem(A3VIOL, 3, "half-squared"), agf.TwoLayer(*T3, width=3).init(1e-3)).spurious
    assert other.gap == pytest.approx(-0.358, abs=1e-3)
    assert other.level == pytest.approx(0.0914193, abs=1e-7)


def test_theorem_1_and_2_against_a_run():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((20, 2))
    theta = np.column_stack([w, rng.choice([-1.0, 1.0], 20) * np.linalg.norm(w, axis=1)]) / np.sqrt(40)
    p = agf.TwoLayer(*T3A, width=20)
    start = agf.Init.scaled(theta, 1e-5)
    claims = agf.separation(p, start).check(agf.flow(p, start, t_max=200.0))
    assert claims.hold
    assert claims["change of log |a| up to tau"].holds
    assert claims["loss at the end off the linear fit"].holds
    assert claims["motion of dead neurons"].left < 1e-14


# -- requests ---------------------------------------------------------------------------------------------------------


def test_case_ii_at_a_scale_where_it_says_something():
    """T3 at lambda = 1e-100: the rotation is over by tau, and what turns has turned to the one extremal vector."""
    p = agf.TwoLayer(*T3, width=20)
    start = agf.Init.scaled(p.init(1.0, seed=0, kind="balanced").params() / np.sqrt(20), 1e-100)
    found = agf.separation(p, start)
    assert found.early.turn < found.early.tau
    claims = found.check(agf.flow(p, start, t_max=1.2 * found.early.tau))
    assert claims.hold
    asked = [one for one in claims if one.source == "[BF24] Theorem 1 (ii)"]
    assert [one.holds for one in asked] == [True, True]


def test_rates_of_change_hold_at_any_scale():
    """[Min23] (46) and (50) need no smallness."""
    X, y = D2
    p = agf.TwoLayer(X, y, width=8, loss="exponential", kink=0)
    start = p.init(0.3, seed=0, kind="balanced")
    claims = agf.separation(p, start).check(agf.flow(p, start, t_max=3.0))
    rates = [one for one in claims if one.source in ("[Min23] (46)", "[Min23] (50)")]
    assert [one.holds for one in rates] == [True, True]
    assert rates[1].left < 1.0


def test_other_labels_losses_and_networks_are_told():
    p = agf.TwoLayer(*M4, width=3)
    assert "[Min23] is about labels +-1" in str(agf.separation(p, p.init(1e-3)))
    leaky = agf.TwoLayer(*D1, activation="leaky-relu", leak=0.1, width=3)
    assert agf.separation(leaky, leaky.init(1e-3)).spurious is None
    with pytest.raises(agf.RequestError, match="relu or leaky-relu networks with one output"):
        agf.separation(agf.TwoLayer(M4[0], np.eye(4)), p.init(1e-3))
    with pytest.raises(agf.RequestError, match=r"eps or alpha0 is out of range"):
        agf.separation(p, p.init(1e-3), eps=0.5)
    large = agf.TwoLayer(np.random.default_rng(0).standard_normal((200, 10)), np.ones(200), width=3)
    assert "too many faces" in str(agf.separation(large, large.init(1e-3)))


@pytest.mark.parametrize(
    "data",
    [
        (np.ones((1, 1)), [1.0]),
        (np.eye(3), [1.0, 1.0, -1.0]),
        (np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 4.0]]), [1.0, 1.0, 1.0]),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), [1.0, -1.0]),
        (np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]]), [1.0, -1.0, 1.0]),
        (np.array([[1.0, 2.0], [1.0, 2.0]]), [1.0, -1.0]),
        (np.array([[1.0, 1.0], [-1.0, -1.0]]), [1.0, 1.0]),  # the sum of the class is 0
    ],
)
def test_degenerate_data_have_a_table(data):
    p = agf.TwoLayer(*data, width=2)
    assert "Bounds for two-layer" in str(agf.separation(p, p.init(1e-3)))


def test_logistic_runs_at_half_the_speed_of_the_paper():
    p = problem(D1, loss="logistic")
    assert agf.separation(p, pair(160, 320)).separable.unit == pytest.approx(8.0)


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("t3.npz", X=T3A[0], Y=T3A[1])
    words = ["two-layer", "--data", "t3.npz", "--width", "4", "--alpha", "1e-5", "--kind", "balanced"]
    assert main(["train", *words, "--t-max", "200", "-o", "run.npz", "--quiet"]) == 0
    assert main(["bounds", *words[:5], "--check", "run.npz", "--json"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["early"]["D_max"] == pytest.approx(0.7339467, abs=1e-6)
    assert document["check"]["hold"]
    assert "[BF24] assumption 5" in shown.err
    assert main(["bounds", *words, "--eps", "0.1", "--alpha0", "0.5", "--json"]) == 0
    other = json.loads(capsys.readouterr().out)["early"]
    assert (other["eps"], other["alpha0"]) == (0.1, 0.5)
    assert main(["bounds", "linear"]) == 2
