"""Masked problems: what a mask keeps is all that moves, for trainers and every mode of prediction."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import race_cases

import agf
from agf.shell.rerun import rerun


def mask_of(problem, seed=0, fraction=0.6):
    return np.random.default_rng(seed).random((problem.width, problem.n_params)) < fraction


def test_an_input_masked_in_every_neuron_is_data_without_it():
    """Masking a column of W is dropping a column of X: prediction in every mode, flow and descent agree."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    y = X @ [1.0, -1.0, 0.0] + 0.3 * X[:, 2]
    theta = 1e-4 * rng.standard_normal((4, 4))
    whole = agf.TwoLayer(X, y, width=4, activation="tanh")
    part = agf.TwoLayer(X[:, :2], y, width=4, activation="tanh")
    mask = np.ones((4, 4))
    mask[:, 2] = 0
    masked = agf.masked(whole, mask)
    full, less = agf.Init.from_params(theta, alpha=1e-4), agf.Init.from_params(np.delete(theta, 2, axis=1), alpha=1e-4)
    for mode in ("agf", "limit", "resolved"):
        one, other = agf.predict(masked, full, mode=mode, max_drops=2), agf.predict(part, less, mode=mode, max_drops=2)
        # The second drop follows a settling whose Gram matrix is formed in another order: its rank is decided at 1e-6.
        assert one.half_times == pytest.approx(other.half_times, rel=5e-3), mode
        assert one.half_times[1] == pytest.approx(other.half_times[1], rel=1e-5), mode
        assert one.levels == pytest.approx(other.levels, rel=5e-3), mode  # at horizons that end with the next drop
    flows = [agf.flow(p, i, t_max=40.0) for p, i in ((masked, full), (part, less))]
    assert flows[0].losses[-1] == pytest.approx(flows[1].losses[-1], rel=1e-5)
    assert not flows[0].params(-1)[:, 2].any()
    descents = [agf.descend(p, i, lr=0.05, steps=500, batch_size=10) for p, i in ((masked, full), (part, less))]
    assert descents[0].losses == pytest.approx(descents[1].losses, rel=1e-10)


@pytest.mark.parametrize("activation", ["relu", "tanh", "square"])
def test_masked_weights_are_zero_all_along_and_the_rest_follows_the_masked_gradient(activation):
    X, y = race_cases.blobs()
    problem = agf.TwoLayer(X, y, activation=activation, loss="cross-entropy", width=6)
    mask = mask_of(problem)
    flow = agf.flow(agf.masked(problem, mask), race_cases.start(6, scale=0.1), t_max=3.0)
    assert not flow.directions[:, ~mask].any()
    theta = flow.params(-1)
    gradient = agf.masked(problem, mask).loss_grad(theta, np.arange(6))[1]
    assert np.array_equal(gradient, problem.loss_grad(theta, np.arange(6))[1] * mask)


@pytest.mark.parametrize("kink", [None, 0])
def test_masked_relu_neurons_slide_along_the_kinks_of_what_is_left(kink):
    """A mask of its own for each neuron, one of which ends at w = 0: flows did not end. Losses by plain descent."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    y = np.maximum(X @ [2, -1, 0.5, 0], 0)
    mask = rng.random((8, 5)) > 0.3
    mask[:, 4] = True
    problem = agf.masked(agf.TwoLayer(X, y, width=8, kink=kink), mask)
    init = problem.init(1e-2, seed=2)
    run = agf.flow(problem, init, t_max=10.0)
    assert run.stats["steps"] < 2500
    theta, step = init.params() * mask, 2e-3
    for k in range(int(10 / step)):
        z = X @ theta[:, :4].T
        residual = y - np.maximum(z, 0) @ theta[:, 4]
        pull = np.c_[((z > 0) * residual[:, None] * theta[:, 4]).T @ X, np.maximum(z, 0).T @ residual] / 50
        theta = theta + step * pull * mask
        if (k + 1) * step in (6.0, 10.0):
            z = X @ theta[:, :4].T
            loss = 0.5 * np.mean((y - np.maximum(z, 0) @ theta[:, 4]) ** 2)
            assert run.loss_at((k + 1) * step) == pytest.approx(loss, rel=1e-2)  # of steps, which lag


def test_a_masked_relu_neuron_that_ends_at_zero_is_waited_for_by_no_prediction():
    """Two neurons of it from 1e-5: steps chattered about w = 0 and mode resolved ended without a drop."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    y = np.maximum(X @ [2, -1, 0.5, 0], 0)
    mask = rng.random((8, 5)) > 0.3
    mask[:, 4] = True
    theta = agf.masked(agf.TwoLayer(X, y, width=8), mask).init(1e-5, seed=2).params()
    some = [4, 6]  # one that ends there, and one that grows
    problem = agf.masked(agf.TwoLayer(X, y, width=2), mask[some])
    theta[4, :4] *= 1e-3  # it is nearly there
    init = agf.Init.from_params(theta[some], alpha=1e-5)
    drop = agf.predict(problem, init, mode="resolved", max_drops=1).drops[0]
    run = agf.flow(problem, init, t_max=1.05 * drop.half_time)
    assert run.time_at(0.5 * (run.losses[0] + drop.level)) == pytest.approx(drop.half_time, rel=1e-3)


@pytest.mark.parametrize("mode", ["agf", "limit"])
def test_a_masked_relu_neuron_waits_as_one_of_the_inputs_that_it_keeps(mode):
    """Steps chattered about w = 0, 12,000 of them, and mode limit did not end: every mask has an exact flow."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    y = np.maximum(X @ [2, -1, 0.5, 0], 0)
    mask = rng.random((8, 5)) > 0.3
    mask[:, 4] = True
    mask[6, 4] = mask[7, :4] = False  # without an output weight, and without inputs: they are still
    problem = agf.masked(agf.TwoLayer(X, y, width=8), mask)
    theta = problem.init(1e-8, seed=2).params() * mask
    stairs = agf.predict(problem, agf.Init.from_params(theta, alpha=1e-8), mode=mode, max_drops=1)
    assert stairs.stats.get("dormant_steps", 0) < 1000  # mode limit takes none up to its first drop
    assert stairs.stats.get("utility_evaluations", 0) == 0
    alone = []
    for row, kept in zip(theta[:6], mask[:6, :4], strict=True):
        one = agf.TwoLayer(X[:, kept], y, width=1)
        start = agf.Init.from_params(np.append(row[:4][kept], row[4])[None], alpha=1e-8)
        found = agf.predict(one, start, mode=mode, max_drops=1).drops
        alone.append(found[0].time if found else np.inf)
    assert stairs.drops[0].time == pytest.approx(min(alone), rel=1e-9)
    assert stairs.drops[0].neurons == (np.argmin(alone),)


def test_mode_limit_of_a_masked_relu_network_is_where_times_tend_to():
    """Over log 1/alpha they have an error of one over it: two scales tell the limit."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    y = np.maximum(X @ [2, -1, 0.5, 0], 0)
    mask = rng.random((8, 5)) > 0.3
    mask[:, 4] = True
    problem = agf.masked(agf.TwoLayer(X, y, width=8), mask)
    limit = agf.predict(problem, problem.init(1e-100, seed=2), mode="limit").drops
    assert len(limit) == 1  # one neuron keeps all inputs
    logs, times = np.log(10.0) * np.array([200.0, 300.0]), []
    for log in logs:
        stairs = agf.predict(problem, problem.init(np.exp(-log), seed=2), mode="agf", max_drops=1)
        times.append(stairs.drops[0].time)
    assert (times[1] - times[0]) / (logs[1] - logs[0]) == pytest.approx(limit[0].accelerated_time, rel=1e-6)


def test_bars_of_a_masked_neuron_cover_what_the_trainers_kinks_change():
    """It waits where its output weight changes sign: sharp kinks move its drop by .13 %, beside a bar of .04 %."""
    rng = np.random.default_rng(202)
    X = rng.standard_normal((23, 4))
    y = np.maximum(X @ rng.standard_normal(4), 0) - 0.7 * np.maximum(X @ rng.standard_normal(4), 0)
    problem = agf.masked(agf.TwoLayer(X, y, width=1), [[1, 1, 0, 0, 1]])
    row = agf.TwoLayer(X, y, width=5).init(1e-6, seed=202).params()[3:4]
    init = agf.Init.from_params(row, alpha=1e-6)
    drop = agf.predict(problem, init, mode="resolved", max_drops=1).drops[0]
    run = agf.flow(problem, init, t_max=1.05 * drop.half_time)
    assert abs(drop.half_time / run.time_at(0.5 * (run.losses[0] + drop.level)) - 1) < drop.error < 0.02


def test_an_input_that_is_masked_costs_a_prediction_what_one_that_is_not_there_does():
    """Both passes share their first plateau: no kinks are taken in another way in the second one."""
    X = np.random.default_rng(3).standard_normal((20, 3))
    y = np.tanh(X[:, :2] @ [1.5, -1.0])
    small = agf.TwoLayer(X[:, :2], y, activation="tanh", width=3)
    masked = agf.masked(agf.TwoLayer(X, y, activation="tanh", width=3), np.tile([True, True, False, True], (3, 1)))
    theta = small.init(1e-5, seed=0).params()
    told = [
        agf.predict(problem, agf.Init.from_params(rows, alpha=1e-5), mode="resolved")
        for problem, rows in ((small, theta), (masked, np.insert(theta, 2, 0.0, axis=1)))
    ]
    counts = [{name: n for name, n in stairs.stats.items() if name != "seconds"} for stairs in told]
    assert counts[0] == pytest.approx(counts[1], rel=0.01)  # steps differ by rounding
    assert told[1].drops[0].conditioning == pytest.approx(told[0].drops[0].conditioning, rel=1e-6)


def test_biases_of_a_masked_network_are_not_pruned_and_its_remarks_are_made():
    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = agf.TwoLayer(X, np.repeat([0, 1], [14, 6]), loss="cross-entropy", width=5, bias="both")
    masked = agf.masked(problem, np.ones((6, problem.n_params)))
    assert masked.remarks() == problem.remarks() != ()
    run = agf.rewind(masked, masked.init(0.5), cycles=2, keep=0.5, train={"lr": 0.1, "steps": 5})
    assert run.masks[-1][:, 3].all()


def test_the_contract_holds():
    masked = agf.masked(race_cases.network(6), mask_of(race_cases.network(6)))
    assert not agf.check(masked).failures
    diagonal = agf.problem("diagonal-linear", X=np.eye(3), y=[3.0, 2.0, 1.0])
    masked = agf.masked(diagonal, np.array([[1, 1], [0, 0], [1, 1]]))
    assert not agf.check(masked).failures


@pytest.mark.parametrize("bias", ["none", "output"])
def test_neurons_of_one_mask_are_merged_and_pruned_as_those_of_the_data_without_the_input(bias, rng):
    """The smaller network was refused: its mask had the rows of the larger one."""
    X = rng.standard_normal((30, 3))
    problem, less = (agf.TwoLayer(data, X[:, 0], width=4, bias=bias) for data in (X, X[:, [0, 2]]))
    mask = np.ones((problem.width, 4), dtype=bool)
    mask[:4, 1] = False
    theta = rng.standard_normal((problem.width, 4)) * mask
    theta[1] = 0.5 * theta[0]
    pruned = agf.masked(problem, mask)
    for change in (agf.merge, lambda network, theta: agf.prune(network, theta, 2, train=1.0)):
        small, other = change(pruned, theta), change(less, theta[:, [0, 2, 3]])
        assert small.neurons == other.neurons < 4
        assert small.theta[:, [0, 2, 3]] == pytest.approx(other.theta)
        assert (small.theta[: small.neurons, 1] == 0.0).all()
        assert small.loss_after == pytest.approx(other.loss_after)
        assert small.trained_loss == pytest.approx(other.trained_loss, rel=1e-6, nan_ok=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_a_network_that_a_mask_leaves_without_a_layer_ends_in_one_word(activation, rng):
    """It was fitted in one mode, all active in another: nothing grows, beside an output bias and without one."""
    X = rng.standard_normal((30, 3))
    for bias, masked in (("none", slice(3, 4)), ("none", slice(0, 3)), ("output", slice(0, 4))):
        problem = agf.TwoLayer(X, X[:, 0] + 0.3, width=3, activation=activation, bias=bias)
        mask = np.ones((problem.width, 4), dtype=bool)
        mask[:3, masked] = False
        pruned, init = agf.masked(problem, mask), problem.init(1e-3)
        for mode in ("auto", "agf", "limit", "resolved"):
            stairs = agf.predict(pruned, init, mode=mode)
            assert (stairs.status, len(stairs.drops)) == (agf.Status.NO_GROWTH, int(bias == "output")), mode
        assert agf.flow(pruned, init).status is agf.Status.SETTLED


def test_a_diagonal_network_without_a_coordinate_never_learns_it():
    problem = agf.problem("diagonal-linear", X=np.eye(3), y=[3.0, 2.0, 1.0])
    masked = agf.masked(problem, np.array([[1, 1], [0, 0], [1, 1]]))
    stairs = agf.predict(masked, problem.init(1e-8), mode="agf")
    assert len(stairs.drops) == 2
    assert stairs.levels[-1] == pytest.approx(4.0 / 6.0)
    report = agf.compare(stairs, agf.flow(masked, problem.init(1e-8)))
    assert report.max_time_error < 1e-3


def test_masks_multiply_pickle_and_are_saved_with_the_run(tmp_path):
    problem = race_cases.network(6)
    one, other = mask_of(problem, 0, 0.8), mask_of(problem, 1, 0.8)
    both = agf.masked(agf.masked(problem, one), other)
    assert np.array_equal(both.mask, one & other)
    again = pickle.loads(pickle.dumps(both))
    assert np.array_equal(again.mask, both.mask)
    run = agf.flow(both, race_cases.start(6, scale=0.1), t_max=0.5)
    run.save(tmp_path / "run.npz")
    loaded = agf.load(tmp_path / "run.npz")
    rebuilt = agf.problem(loaded.problem, **loaded.arguments)
    assert np.array_equal(rebuilt.mask, both.mask)
    assert rebuilt.loss_grad(run.params(-1), np.arange(6))[0] == pytest.approx(run.losses[-1], rel=1e-9)
    assert np.array_equal(rerun(tmp_path / "run.npz").losses, run.losses)


def test_what_cannot_be_is_refused_in_a_sentence():
    problem = race_cases.network(6)
    for mask, words in (
        (np.zeros((6, 4)), "kills all weights"),
        (np.ones((4, 6)), r"shape \(4, 6\)"),
        (np.full((6, 4), 0.5), "other entries"),
    ):
        with pytest.raises(agf.DataError, match=words):
            agf.masked(problem, mask)
    alone = np.zeros((6, 4))
    alone[0] = 1
    theta = np.ones((6, 4))
    theta[0] = 0
    with pytest.raises(agf.DataError, match="leaves nothing"):
        agf.flow(agf.masked(problem, alone), agf.Init.from_params(theta), t_max=1.0)
