"""Hidden biases are a column of ones; an output bias is a row that is active for ever, in training and predictions."""

from __future__ import annotations

import numpy as np
import pytest
import race_cases
from scipy.integrate import solve_ivp

import agf


def data(seed=0, n=40):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return X, np.maximum(X[:, 0] - 0.3, 0) - 0.6 * np.maximum(X[:, 1], 0) + 1.5


def direct(problem, theta, x):
    """f(x) written down: the last row of theta is (anything, b)."""
    neurons = theta[:-1]
    inputs = np.column_stack([x, np.ones(len(x))])
    hidden = np.tanh(inputs @ neurons[:, :3].T)
    return hidden @ neurons[:, 3:] + theta[-1, 3:]


def test_the_network_is_the_one_that_is_written_down():
    X, y = data()
    problem = agf.TwoLayer(X, y, activation="tanh", width=4, bias="both")
    theta = np.random.default_rng(1).standard_normal((5, 4))
    loss, gradient = problem.loss_grad(theta, np.arange(5))
    f = direct(problem, theta, X)
    assert loss == pytest.approx(0.5 * np.mean((y[:, None] - f) ** 2), rel=1e-13)
    assert gradient[-1, 3] == pytest.approx(-np.mean(y - f[:, 0]), rel=1e-12)
    assert not gradient[-1, :3].any()  # what does nothing does not move


@pytest.mark.parametrize("loss", ["half-squared", "logistic", "cross-entropy"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "linear", "square"])
def test_the_contract_holds_and_derivatives_are_those_of_the_loss(activation, loss):
    X, y = data()
    labels = (X[:, 0] > 0.3).astype(int) + (0 if loss == "logistic" else (X[:, 1] > 0.3))
    problem = agf.TwoLayer(X, y if loss == "half-squared" else labels, activation=activation, loss=loss, width=4,
                           bias="both")  # fmt: skip
    assert not agf.check(problem).failures
    rng, neurons, step = np.random.default_rng(2), np.arange(5), 1e-6
    theta = 0.5 * rng.standard_normal((5, problem.n_params))
    along = rng.standard_normal(theta.shape)
    gradient = problem.loss_grad(theta, neurons)[1]
    ahead, behind = (problem.loss_grad(theta + side * step * along, neurons) for side in (1, -1))
    assert np.sum(gradient * along) == pytest.approx((ahead[0] - behind[0]) / (2 * step), rel=1e-6)
    bent = problem.hessian(theta, neurons) @ along.ravel()
    assert bent == pytest.approx(((ahead[1] - behind[1]) / (2 * step)).ravel(), rel=1e-5, abs=1e-6)


def test_a_hidden_bias_is_a_column_of_ones_that_starts_at_zero():
    X, y = data()
    by_hand = agf.TwoLayer(np.column_stack([X, np.ones(40)]), y, width=4)
    problem = agf.TwoLayer(X, y, width=4, bias="hidden")
    theta = np.random.default_rng(1).standard_normal((4, 4))
    assert problem.loss_grad(theta, np.arange(4))[0] == by_hand.loss_grad(theta, np.arange(4))[0]
    for kind in problem.kinds:
        start = problem.init(1e-3, kind=kind).params()
        if kind in ("gaussian", "unbalanced", "balanced"):
            assert not start[:, 2].any()


def test_flow_is_that_of_an_independent_integration_and_predictions_follow_it():
    X, y = data()
    problem = agf.TwoLayer(X, y, activation="tanh", width=5, bias="both")
    init = problem.init(1e-4, seed=1)
    flow = agf.flow(problem, init, t_max=40.0)

    def velocity(t, z):
        return -problem.loss_grad(z.reshape(6, 4), np.arange(6))[1].ravel()

    true = solve_ivp(velocity, (0, 40.0), init.params().ravel(), method="LSODA", rtol=1e-9, atol=1e-14)
    end = problem.loss_grad(true.y[:, -1].reshape(6, 4), np.arange(6))[0]
    assert flow.losses[-1] == pytest.approx(end, rel=1e-4)
    assert flow.params(-1)[-1, 3] == pytest.approx(true.y[-1, -1], rel=1e-4)
    stairs = agf.predict(problem, init, t_max=40.0)
    report = agf.compare(stairs, flow)
    assert report.max_time_error < 0.02  # the half-drop of the bias is read off a sampled curve
    assert stairs.drops[0].label == "output bias"
    assert "output bias moves at once" in " ".join(stairs.notes)
    assert "output bias moves at once" in " ".join(flow.notes)


@pytest.mark.parametrize("mode", ["agf", "limit", "resolved"])
def test_every_mode_lets_the_bias_relax_first_and_never_sends_it_back(mode):
    """Half-squared: b relaxes to the mean at rate 1, so that half of what it gains is gained at ln 2 / 2."""
    X, y = data()
    problem = agf.TwoLayer(X, y, width=6, bias="output")
    stairs = agf.predict(problem, problem.init(1e-6, seed=1), mode=mode, max_drops=2)
    first = stairs.drops[0]
    assert first.label == "output bias"
    assert first.level == pytest.approx(0.5 * np.var(y), rel=1e-3)
    assert first.half_time == pytest.approx(0.5 * np.log(2), rel=0.02)
    assert not any(6 in drop.collapsed for drop in stairs.drops)


def test_t20_balanced_classes_leave_the_bias_at_rest_until_a_blob_is_solved():
    """The plateau after the first of four blobs is 3/4 H(1/3): the bias learns the prior of the unsolved ones."""
    X, y = race_cases.blobs()
    problem = agf.TwoLayer(X, y, loss="cross-entropy", width=40, bias="both")
    start = agf.Init.from_params(1e-8 * np.random.default_rng(0).standard_normal((40, 5)), alpha=1e-8)
    assert problem.remarks() == ()
    flow = agf.flow(problem, start, t_max=25.0)
    prior = 0.75 * (np.log(3) - (2 / 3) * np.log(2))  # 3/4 H(1/3)
    assert np.isclose(prior, 0.4774, atol=5e-5)
    assert np.min(np.abs(flow.losses - prior)) < 0.01 * prior
    rate = np.gradient(flow.losses, np.log(flow.times + 1.0))
    near = (np.abs(flow.losses - prior) < 0.02 * prior) & (flow.times > 1)
    assert np.abs(rate[near]).min() < 0.02  # a plateau there
    symmetric = flow.params(-1)[-1, 3:].sum()
    assert abs(symmetric) < 1e-9  # errors of a softmax of two classes lie along (1, -1)


def test_unbalanced_classes_are_said_and_the_bias_learns_their_prior():
    X = np.random.default_rng(0).standard_normal((80, 2))
    labels = np.repeat([0, 1], [50, 30])
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=3, bias="output")
    assert "classes are not balanced (50, 30 samples)" in problem.remarks()[0]
    init = agf.Init.from_params(1e-30 * np.ones((3, 4)))
    b = agf.flow(problem, init, t_max=20.0).params(-1)[-1, 2:]
    assert b[0] - b[1] == pytest.approx(np.log(50 / 30), rel=1e-3)


def test_groups_merging_pruning_tickets_and_files_keep_the_bias(tmp_path):
    X, y = race_cases.blobs()
    problem = agf.TwoLayer(X, y, loss="cross-entropy", width=30, bias="both")
    init = agf.Init.from_params(1e-4 * np.random.default_rng(0).standard_normal((30, 5)))
    flow = agf.flow(problem, init, t_max=40.0)
    found = agf.groups(flow)
    assert not any(30 in group.members for group in found.groups)
    assert 30 not in found.dead
    for rule in ("total", "input"):
        few = agf.merge(problem, flow, rule=rule)
        assert few.theta[-1, 3:] == pytest.approx(flow.params(-1)[-1, 3:])
        assert few.problem.hidden == few.neurons < 30
        assert abs(few.relative_change) < 0.01
    kept = agf.prune(problem, flow, 8)
    assert (kept.neurons, kept.theta.shape[0], kept.accuracy_after) == (8, 9, 1.0)
    tickets = agf.tickets(problem, init, keep=10, until=40.0)
    assert 30 not in tickets.kept
    assert tickets.scores(flow)["tickets"]["spearman"] > 0.98
    flow.save(tmp_path / "run.npz")
    again = agf.load(tmp_path / "run.npz")
    assert agf.problem(again.problem, **again.arguments).loss_grad(again.params(-1), np.arange(31))[0] == pytest.approx(
        flow.losses[-1], rel=1e-9
    )
    pruned = agf.rewind(problem, init, cycles=1, keep=0.5, train={"t_max": 1.0})
    assert pruned.masks[1][-1].all()
    assert pruned.masks[1][:30, 2].all()  # biases are not pruned


def test_descent_and_masks_know_the_bias():
    X, y = data()
    problem = agf.TwoLayer(X, y, activation="tanh", width=4, bias="output")
    init = problem.init(1e-2, seed=1)
    one = agf.descend(problem, init, lr=0.01, steps=500)
    assert one.params(-1)[-1, 2] == pytest.approx(agf.flow(problem, init, t_max=5.0).params(-1)[-1, 2], rel=0.02)
    mask = np.ones((5, 3))
    mask[-1] = 0  # no output bias after all
    plain = agf.TwoLayer(X, y, activation="tanh", width=4)
    without = agf.flow(agf.masked(problem, mask), init, t_max=5.0)
    alone = agf.flow(plain, agf.Init.from_params(init.params()[:4]), t_max=5.0)
    assert without.losses[-1] == pytest.approx(alone.losses[-1], rel=1e-4)


def test_an_unknown_bias_is_refused_with_the_list():
    with pytest.raises(agf.DataError, match="none, hidden, output, both"):
        agf.TwoLayer(*data(), bias="yes")


@pytest.mark.parametrize("seed", range(3))
def test_bars_hold_for_the_drop_of_an_output_bias_and_those_after_it(seed):
    """Targets of mean 1.5: the bias alone first, in a time of order one, then neurons."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    y = np.tanh(X @ [1, -0.5, 0.2]) + 1.5 + 0.1 * rng.standard_normal(60)
    problem = agf.TwoLayer(X, y, activation="tanh", width=6, bias="output")
    init = problem.init(1e-4, seed=seed)
    flow, stairs = agf.flow(problem, init, t_max=40.0), agf.predict(problem, init, t_max=40.0)
    assert stairs.drops[0].label == "output bias"
    assert len(stairs.drops) > 1
    levels = stairs.levels
    for drop, middle in zip(stairs.drops, 0.5 * (levels[1:] + levels[:-1]), strict=True):
        assert abs(drop.half_time / flow.time_at(middle) - 1) <= drop.error
    assert all(drop.error < 0.1 for drop in stairs.drops[:-1])  # the last one is not over at 40
