"""Coordinates that follow one another exactly are one: to the same numbers, at the price of one."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agf
from agf.arrays import equal_rows
from agf.coordinates import stand_ins


def tied(copies: int, seed: int = 0, alpha: float = 1e-4) -> tuple[agf.Problem, agf.Init]:
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((3, 2)), copies, axis=1)
    X = X[:, rng.permutation(2 * copies)]
    y = X[:, 0] + 0.1 * rng.standard_normal(3)
    problem = agf.problem("diagonal-linear", X=X, y=y)
    return problem, problem.init(alpha)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_equal_rows_are_those_of_numpy(rows):
    table = np.array(rows, dtype=np.float64)
    of = equal_rows(list(table.T))
    if of is None:
        assert len(set(rows)) == len(rows)
    else:
        assert [rows.index(row) for row in rows] == [of.tolist().index(k) for k in of.tolist()]
        assert sorted(set(of.tolist())) == list(range(len(set(rows))))


def test_descent_with_ties_is_the_plain_loop():
    problem, init = tied(3, alpha=0.1)
    run = agf.descend(problem, init, lr=1e-2, steps=300, momentum=0.5)
    theta, velocity = init.params(), 0.0
    for _ in range(300):
        r = problem.y - problem.X @ (theta[:, 0] * theta[:, 1])
        velocity = 0.5 * velocity + 1e-2 * theta[:, ::-1] * (problem.X.T @ r / 3)[:, None]
        theta = theta + velocity
    assert np.allclose(run.params(-1), theta, rtol=1e-10)  # 300 steps of rounding
    assert np.allclose(run.features_over_time["coefficients"][-1], theta[:, 0] * theta[:, 1], rtol=1e-10)
    assert run.init is init


def test_a_flow_with_ties_is_that_of_one_column_that_starts_larger():
    problem, init = tied(50)
    ties = stand_ins.tied(problem, init)
    assert ties.init.width == 2
    # What it is for float64 when nothing is tied: weights that differ in the last digit.
    nudged = agf.Init(init.directions, init.log_norms + 1e-13 * np.arange(init.width), init.alpha)
    assert not stand_ins.tied(problem, nudged).any
    runs = [agf.flow(problem, start) for start in (init, nudged)]
    for one, other in zip(*(run.drops for run in runs), strict=True):
        assert one.time == pytest.approx(other.time, rel=2e-5)  # rtol 1e-6 a step, as test_flow holds drops
        assert one.after == pytest.approx(other.after, rel=1e-6)
    ends = [problem.X @ run.features_over_time["coefficients"][-1] for run in runs]
    left = sum(run.stats["left"] for run in runs)  # of the loss, |r|^2 / (2n), in both
    assert np.linalg.norm(ends[0] - ends[1]) <= 2 * np.sqrt(2 * 3 * left)


def test_runs_with_ties_resume_and_load_as_others(tmp_path):
    problem, init = tied(4)
    whole = agf.flow(problem, init)
    first = agf.flow(problem, init, max_steps=20)
    first.save(tmp_path / "run.npz")
    second = agf.flow(problem, init, resume=agf.load(tmp_path / "run.npz"))
    assert np.array_equal(second.times, whole.times)
    assert np.allclose(second.log_norms, whole.log_norms, atol=1e-12)
    first = agf.descend(problem, init, lr=1e-2, steps=100)
    second = agf.descend(problem, init, lr=1e-2, steps=200, resume=first)
    assert np.array_equal(second.losses, agf.descend(problem, init, lr=1e-2, steps=200).losses)


@pytest.mark.parametrize("copies", [100, 3000])
def test_copies_act_together_in_predictions(copies):
    # Carried as if alone, without influence on the residual, the second drop is 1 % late, then not there.
    problem, init = tied(copies)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    found = agf.compare(stairs, flow)
    assert found.max_time_error < 1e-3
    assert stairs.drops[0].neurons.size == copies
    assert stairs.drops[0].label.endswith(f"and {copies - 8:,} more")
    assert stairs.drops[-1].log_norms.shape == (2 * copies,)
    beta = stairs.features("coefficients")[-1]
    assert np.allclose(problem.X @ beta, problem.X @ flow.features_over_time["coefficients"][-1], atol=2e-3)
    assert stairs.clock.scale == agf.predict(problem, init, mode="agf").clock.scale


def test_a_million_ties_are_trained_in_seconds():
    problem = agf.problem("diagonal-linear", X=np.ones((2, 10**6)), y=np.ones(2))
    init = problem.init(1e-8)
    began = time.process_time()
    run = agf.flow(problem, init)
    assert time.process_time() - began < 8.0  # .6 s where nothing else runs; it was a minute
    found = run.features_over_time["coefficients"][-1].sum()
    assert 0.5 * (1.0 - found) ** 2 == pytest.approx(run.losses[-1], rel=1e-6)
