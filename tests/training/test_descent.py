"""Gradient descent: its time map, momentum, minibatches, resuming to the bit, and its honest failures."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import Product, Samples

import agf
from agf import Init, RequestError, Status


def balanced(alpha: float) -> Init:
    return Init.scaled(np.ones((1, 2)), alpha)


@pytest.fixture
def samples(rng) -> Samples:
    X = rng.standard_normal((24, 3))
    return Samples(X, X @ np.array([1.5, -1.0, 0.3]) + 0.1 * rng.standard_normal(24))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_time_map_is_right_to_first_order_in_the_learning_rate(momentum):
    exact = np.log(1e4) + 0.5 * np.log1p(-1e-8)
    errors = []
    for lr in (8e-3, 4e-3, 2e-3):
        rate = lr * (1 - momentum)
        run = agf.descend(Product(), balanced(1e-4), lr=rate, steps=int(13 * (1 - momentum) / rate), momentum=momentum)
        assert run.status is Status.STEPS
        errors.append(run.time_at(0.125) - exact)
    assert np.isclose(errors[0] / errors[1], 2, atol=0.15)
    assert np.isclose(errors[1] / errors[2], 2, atol=0.15)


def test_the_record_is_what_gradient_descent_did():
    run = agf.descend(Product(), balanced(0.1), lr=0.1, steps=30)
    theta, losses = np.full((1, 2), 0.1), []
    for _ in range(31):
        loss, gradient = Product().loss_grad(theta, np.arange(1))
        losses.append(loss)
        theta = theta - 0.1 * gradient
    assert np.allclose(run.losses, losses, rtol=1e-14)
    assert np.allclose(run.times, 0.1 * np.arange(31), rtol=1e-14)
    assert run.stats["evaluations"] == 31


def test_minibatches_see_every_sample_once_an_epoch(samples):
    seen = []
    inner = samples.batch_loss_grad
    samples.batch_loss_grad = lambda theta, neurons, rows: seen.append(rows.copy()) or inner(theta, neurons, rows)
    samples.loss_grad = lambda theta, neurons: inner(theta, neurons, np.arange(24))
    agf.descend(samples, samples.init(alpha=1e-2), lr=0.01, steps=10, batch_size=5)
    assert [rows.size for rows in seen] == [5, 5, 5, 5, 4] * 2
    first, second = np.concatenate(seen[:5]), np.concatenate(seen[5:])
    assert sorted(first) == sorted(second) == list(range(24))
    assert (first != second).any()


def test_a_full_batch_in_minibatch_clothes_is_full_batch_descent(samples):
    init = samples.init(alpha=1e-2)
    full = agf.descend(samples, init, lr=0.05, steps=400)
    batched = agf.descend(samples, init, lr=0.05, steps=400, batch_size=24)
    assert batched.method == "sgd"
    assert np.allclose(batched.losses, full.loss_at(batched.times), rtol=1e-5)


def test_the_seed_decides_the_batches(samples):
    runs = [
        agf.descend(samples, samples.init(alpha=1e-2), lr=0.05, steps=200, batch_size=4, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(runs[0].losses, runs[1].losses)
    assert not np.array_equal(runs[0].losses, runs[2].losses)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_run_in_two_parts_is_the_run_in_one(samples, batch_size, tmp_path):
    init = samples.init(alpha=1e-2)
    options = {"lr": 0.02, "momentum": 0.8, "batch_size": batch_size}

    def stop(progress):
        if progress.step == 300:
            raise KeyboardInterrupt

    whole = agf.descend(samples, init, steps=700, **options)
    for first in (
        agf.descend(samples, init, steps=300, **options),
        agf.descend(samples, init, steps=700, observer=stop, **options),
    ):
        assert first.stats["steps"] == 300
        first.save(tmp_path / "first.npz")
        second = agf.descend(samples, init, steps=700, resume=agf.load(tmp_path / "first.npz"), **options)
        for name in ("times", "losses", "snapshot_times", "log_norms", "directions"):
            assert np.array_equal(getattr(second, name), getattr(whole, name)), name
        assert second.status is whole.status


def test_divergence_keeps_the_last_finite_state():
    run = agf.descend(Product(target=-4.0), Init.from_params(np.array([[3.0, 3.0]])), lr=1.0, steps=100)
    assert run.status is Status.NONFINITE
    assert np.isfinite(run.losses).all()
    assert np.isfinite(run.params(-1)).all()
    assert run.stats["steps"] < 100


def test_snapshots_are_bounded_copies():
    run = agf.descend(Product(), balanced(1e-3), lr=1e-2, steps=3000, snapshots=30)
    assert 8 < run.snapshot_times.size <= 31
    assert run.snapshot_times[-1] == run.times[-1]
    assert run.log_norms[0, 0] < run.log_norms[-1, 0] - 5


def test_the_observer_is_told_every_hundred_steps():
    seen = []
    agf.descend(Product(), balanced(1e-2), lr=1e-2, steps=450, observer=seen.append)
    assert [p.step for p in seen] == [100, 200, 300, 400]


def test_a_checkpoint_is_the_result(tmp_path):
    run = agf.descend(Product(), balanced(1e-2), lr=1e-2, steps=150, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(agf.load(tmp_path / "run.npz").losses, run.losses)


def test_wrong_requests_are_refused_in_a_sentence(samples):
    init = balanced(1e-2)
    with pytest.raises(RequestError, match="has no minibatches"):
        agf.descend(Product(), init, lr=0.1, steps=5, batch_size=2)
    with pytest.raises(RequestError, match="larger than the data"):
        agf.descend(samples, samples.init(alpha=1e-2), lr=0.1, steps=5, batch_size=25)
    for log_norm in (-2000.0, -737.0):  # 0, and a number of three bits
        with pytest.raises(RequestError, match="too small for float64 to hold in full"):
            agf.descend(Product(), Init(np.array([[1.0, 0.0]]), np.array([log_norm]), 1e-300), lr=0.1, steps=5)
    with pytest.raises(RequestError, match=r"shape \(1, 2\)"):
        agf.descend(samples, init, lr=0.1, steps=5)
    for wrong in ({"lr": 0.0}, {"steps": 0}, {"momentum": 1.0}, {"snapshots": 1}):
        with pytest.raises(RequestError, match=next(iter(wrong))):
            agf.descend(Product(), init, **{"lr": 0.1, "steps": 5, **wrong})
    first = agf.descend(Product(), init, lr=0.1, steps=5)
    with pytest.raises(RequestError, match="cannot resume"):
        agf.descend(Product(), init, lr=0.2, steps=9, resume=first)


def test_frozen_columns_stay_and_a_resumed_run_keeps_them_so():
    p = agf.TwoLayer(np.eye(3), np.array([1.0, -1.0, 0.5]), width=4)
    init = p.init(1e-2, seed=0)
    whole = agf.descend(p, init, lr=0.1, steps=40, frozen=(-1,))
    assert whole.params(-1)[:, -1] == pytest.approx(init.params()[:, -1], rel=1e-14)
    assert np.abs(whole.params(-1)[:, 0] / init.params()[:, 0] - 1.0).max() > 0.1
    half = agf.descend(p, init, lr=0.1, steps=20, frozen=[3])
    assert np.array_equal(agf.descend(p, init, lr=0.1, steps=40, frozen=(3,), resume=half).params(-1), whole.params(-1))
    with pytest.raises(agf.RequestError, match="cannot resume"):
        agf.descend(p, init, lr=0.1, steps=40, resume=half)
    for wrong in ((9,), (0, 1, 2, 3), ("a",)):
        with pytest.raises(agf.RequestError, match="`frozen` cannot be used"):
            agf.descend(p, init, lr=0.1, steps=2, frozen=wrong)


class Stopping(agf.TwoLayer):
    """A loss that is interrupted at one call, and counts those after it."""

    name = "stopping"
    calls, at = 0, 0

    def loss_grad(self, theta, neurons):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return super().loss_grad(theta, neurons)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_interrupt_is_not_followed_by_another_evaluation(batch_size):
    X = np.random.default_rng(0).standard_normal((6, 2))
    problem = Stopping(X, X[:, 0], activation="tanh", width=2)
    init = problem.init(0.1)
    agf.descend(problem, init, lr=0.1, steps=1)  # through the door
    for at, kept in ((1, False), (5, True)):
        problem.calls, problem.at = 0, at
        if not kept:  # nothing was computed: there is nothing to hand back, and one gradient may take a minute
            with pytest.raises(KeyboardInterrupt):
                agf.descend(problem, init, lr=0.1, steps=1000, batch_size=batch_size)
        else:
            run = agf.descend(problem, init, lr=0.1, steps=1000, batch_size=batch_size)
            assert run.status is agf.Status.INTERRUPTED
            assert run.snapshot_times[-1] <= run.times[-1]
        assert problem.calls == at
