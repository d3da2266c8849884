"""What the two papers on early alignment print, against what holds (docs/errata.md)."""

import numpy as np
import pytest
from rectified_cases import D1, T3, at, grid, pair, problem, slowest

import agf
from agf.rectified.orthogonal import path_sum


def test_the_smaller_of_both_zetas_bounds_the_time_and_the_printed_larger_one_does_not():
    X, y = at(0, 180), np.array([1.0, -1.0])
    theta = np.array([[-1.0, 1e-12, 1.0]]) / np.sqrt(2)  # almost exactly against its class
    p = problem((X, y), 1)
    s = agf.separation(p, agf.Init.scaled(theta, 1e-3)).separable
    assert (s.zeta1, s.zeta2) == pytest.approx((1.0, 1e-24), rel=1e-3)
    printed = 16 * np.log(2) / (min(max(s.zeta1, s.zeta2), s.xi) * np.sqrt(s.mu) * s.X_min)
    assert printed < slowest(X, y, theta) < s.t1_log < s.t1


def test_one_sample_does_not_align_at_once():
    # t1 = 16 log n / ... is 0 for n = 1; a neuron with a < 0 on a positive sample needs time to lose it
    X, y = at(0), np.ones(1)
    theta = np.column_stack([at(20), [-1.0]]) / np.sqrt(2)
    s = agf.separation(problem((X, y), 1), agf.Init.scaled(theta, 1e-3)).separable
    assert 16 * np.log(1) == 0
    assert 0 < slowest(X, y, theta) <= s.t1_log
    assert s.t1 > 0


def test_the_sine_of_a_small_angle_survives_where_one_less_the_square_of_its_cosine_does_not():
    angle = 1e-9
    X, y = at(0, 180), np.array([1.0, -1.0])
    theta = np.array([[-np.cos(angle), np.sin(angle), 1.0]])
    s = agf.separation(problem((X, y), 1), agf.Init.scaled(theta, 1e-3)).separable
    assert s.zeta2 == pytest.approx(angle**2, rel=1e-6)
    assert 1 - np.cos(angle) ** 2 == 0.0


def test_the_logistic_loss_needs_the_factor_two_of_the_proofs():
    plain, proofs = problem(D1, loss="logistic"), problem(D1)
    none = np.zeros((0, 3)), np.zeros(0, dtype=int)
    assert plain.residual(*none)[:, 0] == pytest.approx(D1[1] / 2)
    assert proofs.residual(*none)[:, 0] == pytest.approx(D1[1])
    assert (
        agf.separation(plain, pair(160, 320)).separable.unit
        == 2 * agf.separation(proofs, pair(160, 320)).separable.unit
    )


def test_a_step_of_the_proof_fails_for_two_samples_and_its_end_holds():
    assert 4 * np.log(2) - 1e-9 < 2 * 1.0 + 0.5 or path_sum(1, 1) <= 4 * np.log(2)
    for own in range(1, 6):
        for other in range(6):
            if own + other > 1:
                assert path_sum(own, other) <= 4 * np.log(own + other)


def test_the_printed_time_is_ten_thousand_times_what_the_limit_flow_takes():
    s = agf.separation(problem(D1, 32), grid(1e-4)).separable
    theta = grid(1e-4).directions
    assert slowest(*D1, theta) < s.t1_log < 1e-3 * s.t1


def test_the_printed_condition_of_alpha_min_minus_would_be_zero_where_a_minimum_exists():
    # eq. (25) repeats the condition of alpha_min,+: D not on its face, also for faces where -D is
    p = agf.TwoLayer(*T3, activation="leaky-relu", leak=0.1, width=3)
    found = agf.separation(p, p.init(1e-3))
    assert found.early.alpha_minus > 0
    minimum = [k for k, kind in enumerate(found.early.found.kinds) if kind == "minimum"]
    assert minimum  # -D lies on its own face: the cosine is -1 there, and sqrt(1 - 1) = 0
