"""Mode "resolved" where nothing grows away from anything: the cost of the flow, and bars that bound."""

from __future__ import annotations

import numpy as np
import pytest
from agf_problems.diagonal_linear.problem import DiagonalLinear
from hypothesis import given
from hypothesis import strategies as st

import agf
from agf.conformance.checks import check
from agf.numerics.collocation import Polynomials
from agf.registry import find
from agf.stopping import along
from audit import reference


def table(seed: int, near: float):
    """30 rows of 5 columns, the last a copy of the first up to `near`, and a target that tells the two apart."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 5))
    x[:, 4] = x[:, 0] + near * x[:, 4]
    return x, x @ rng.uniform(-1.0, 1.0, 5) + (x[:, 4] - x[:, 0]) / near + 0.1 * rng.standard_normal(30)


@pytest.mark.parametrize("near", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("seed", range(3))
def test_times_are_those_of_the_true_flow_within_bars_of_a_part_in_a_thousand_for_the_gradients_of_the_flow(seed, near):
    x, y = table(seed, near)
    problem = agf.problem("diagonal-linear", X=x, y=y)
    init = problem.init(1e-6)
    stairs, flow, truth = (
        agf.predict(problem, init, mode="resolved"),
        agf.flow(problem, init),
        reference.flow(x, y, 1e-6),
    )
    for drop, before in zip(stairs.drops, stairs.levels, strict=False):
        right = truth.passes(0.5 * (before + drop.level))
        # below the bar, most of which is what tolerances and drawing leave at any conditioning (3e-4)
        assert abs(drop.half_time / right - 1.0) <= min(drop.error, 3e-4)
        assert drop.error < 2e-3 or near < 0.1
    # a tenth more for problems of few steps, where looks at who joins count
    cost = sum(value for name, value in stairs.stats.items() if name.endswith("evaluations"))
    assert cost <= 1.1 * flow.stats["evaluations"]


@pytest.mark.parametrize("depth", [1e-3, 1e-5, 1e-6])
def test_a_late_drop_counts_however_small_it_is_next_to_the_loss_that_stays(depth):
    # Columns that share no row and a target mostly beyond both: each coordinate learns alone, which Algorithm 1 has in
    # closed form.
    x = np.repeat(np.eye(2), 4, axis=0) * np.sqrt(2.0)
    beyond = np.tile([1.0, -1.0], 4)
    problem = agf.problem("diagonal-linear", X=x, y=x @ np.array([1.0, np.sqrt(2.0 * depth)]) + beyond)
    init = problem.init(1e-6)
    stairs, paper = agf.predict(problem, init, mode="resolved"), agf.predict(problem, init)
    flow = agf.flow(problem, init)
    assert len(stairs.drops) == len(flow.drops) == 2
    assert not paper.curve_times.size  # of a prediction in closed form
    assert stairs.drops[1].half_time == pytest.approx(paper.drops[1].half_time, rel=stairs.drops[1].error)
    # an end half a millionth of the loss above the least is what the flow settles at
    assert stairs.levels[1] - stairs.levels[2] == pytest.approx(depth, abs=2.5e-7)


@given(st.integers(0, 1000), st.floats(-3.0, 3.0))
def test_two_flows_of_a_diagonal_network_never_move_apart(seed, spread):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 8)), int(rng.integers(2, 6))
    x = rng.standard_normal((n, d)) * 10.0 ** (spread * rng.uniform(-1, 1, d))
    problem = agf.problem("diagonal-linear", X=x, y=x @ rng.standard_normal(d))
    system = problem.flow_system(problem.init(0.3))
    one, other = (x.T @ rng.standard_normal(n) / (n * np.abs(x.T @ x).max()) for _ in range(2))
    # Euler steps far below the time of the fastest mode, which the norm of the larger Jacobian bounds
    before = system.distance(one - other)
    for _ in range(20):
        stiff = max(float(np.abs(np.linalg.eigvals(j)).max()) for j in system.linearized(np.stack([one, other]))[1])
        h = 0.1 / max(stiff, 1e-300)
        one, other = one + h * system.velocity(one), other + h * system.velocity(other)
        after = system.distance(one - other)
        # sums of n terms that cancel, and what `distance` leaves out, are rounding relative to the states
        assert after <= before * (1 + 1e-9) + 1e-9 * max(system.distance(one), system.distance(other))
        before = after


def test_a_norm_in_which_solutions_move_apart_is_found_by_agf_check():
    cls = find("diagonal-linear")

    class Wrong(cls):
        def flow_system(self, init):
            system = super().flow_system(init)
            system.changes = lambda gradients: np.zeros(len(gradients))
            return system

    report = check(Wrong(*table(0, 1.0)))
    assert "changes" in str(report)


def test_the_curve_is_that_of_steps_read_one_by_one_for_a_tenth_of_the_calls(monkeypatch):
    x, y = table(1, 0.1)
    problem = agf.problem("diagonal-linear", X=x, y=y)
    init = problem.init(1e-6)
    calls, settled = [], Polynomials.settled
    monkeypatch.setattr(Polynomials, "settled", lambda *asked: calls.append(1) or settled(*asked))
    together, often = agf.predict(problem, init, mode="resolved"), len(calls)
    monkeypatch.setattr(along, "_STEPS", 1)
    single = agf.predict(problem, init, mode="resolved")
    assert often < 0.1 * (len(calls) - often)
    # products of other shapes round otherwise
    np.testing.assert_allclose(together.half_times, single.half_times, rtol=1e-10)
    np.testing.assert_allclose(together.levels, single.levels, rtol=0, atol=1e-12 * single.levels[0])
    assert [drop.neurons.tolist() for drop in together.drops] == [drop.neurons.tolist() for drop in single.drops]
    for k, drop in enumerate(together.drops):
        assert drop.error == pytest.approx(single.drops[k].error, rel=1e-6)
        assert drop.level_error == pytest.approx(single.drops[k].level_error, abs=1e-8)


class Breaking(DiagonalLinear):
    """Raises `error` when the loss is asked for the thirtieth time."""

    error: BaseException | None = None

    def flow_system(self, init):
        system = super().flow_system(init)
        left, rate = iter(range(30)), system.loss_and_rate
        system.loss_and_rate = lambda state: self.told(rate(state), next(left, None))
        return system

    def told(self, found, left):
        if left is None and self.error is not None:
            raise self.error
        return found


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no more")])
def test_an_interrupt_and_a_method_that_raises_lose_no_step_that_was_taken(error):
    problem = Breaking(*table(1, 1.0))
    init = problem.init(1e-6)
    whole = agf.predict(problem, init, mode="resolved")
    problem.error = error
    try:
        cut = agf.predict(problem, init, mode="resolved")
        assert cut.status is agf.Status.INTERRUPTED
    except agf.ComputationError as raised:
        cut = raised.partial
    assert 0 < len(cut.drops) < len(whole.drops)
    assert cut.drops[0].half_time == pytest.approx(whole.drops[0].half_time, rel=1e-9)
    assert cut.drops[0].neurons.tolist() == whole.drops[0].neurons.tolist()


def test_a_curve_that_ends_while_it_still_falls_says_what_can_still_be_lost():
    rng = np.random.default_rng(2)
    wide, tall = rng.standard_normal((10, 20)), rng.standard_normal((30, 3))
    for x, falls in ((wide, True), (tall, False)):  # at interpolation a loss falls for ever
        problem = agf.problem("diagonal-linear", X=x, y=x[:, :3] @ [2.0, -1.0, 0.5] + rng.standard_normal(len(x)))
        stairs = agf.predict(problem, problem.init(1e-6), mode="resolved")
        assert stairs.status is agf.Status.FITTED
        said = [note for note in stairs.notes if "can still be lost" in note]
        assert bool(said) == falls
        if said:
            assert float(said[0].split()[-5]) >= stairs.levels[-1] > 0.0


def test_a_prediction_from_a_minimum_ends_there_and_says_what_the_weights_have_learned():
    # it was `fitted` at the loss of the zero function, as the one without a gradient
    x, y = table(0, 1.0)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    root = np.sqrt(np.abs(best))
    problem = agf.problem("diagonal-linear", X=x, y=y)
    stairs = agf.predict(problem, agf.Init.from_params(np.column_stack([root, np.sign(best) * root])))
    assert stairs.levels[-1] == pytest.approx(np.sum((y - x @ best) ** 2) / 60, rel=1e-12)
    assert [drop.half_time for drop in stairs.drops] == [0.0]
    assert "initial weights" in stairs.drops[0].label
    assert "zero function has no" not in str(stairs)


@pytest.mark.parametrize("size", [0.3, 1.0, -1.0])
def test_drops_from_weights_that_are_not_small_are_those_of_the_flow_from_there(size):
    # the first coordinate starts in part, with its sign or the other; the curve began at the loss of the zero function
    x, y = table(1, 1.0)
    theta = 1e-3 * np.ones((5, 2))
    theta[0] = np.sqrt(abs(size) * 0.5), np.sign(size) * np.sqrt(abs(size) * 0.5)
    problem = agf.problem("diagonal-linear", X=x, y=y)
    init = agf.Init.from_params(theta)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init, rtol=1e-8)
    assert stairs.curve_losses[0] == pytest.approx(flow.losses[0], rel=1e-12)
    drops = [drop for drop in stairs.drops if drop.half_time > 0]
    assert len(drops) >= len(stairs.drops) - 1
    assert len(drops) == len(flow.drops) > 0
    for drop, before in zip(drops, stairs.levels[-len(drops) - 1 :], strict=False):
        right = flow.time_at(0.5 * (before + drop.level))
        assert abs(drop.half_time / right - 1.0) <= drop.error < 0.001
    if size == -1.0:  # above the loss of the zero function, from which levels are told
        assert flow.losses[0] > 1.1 * stairs.start_level
    assert "more than the error bar" not in str(agf.compare(stairs, flow).table())
