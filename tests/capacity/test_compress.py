"""Merging is exact where the mathematics says so; pruning by group keeps what pruning by norm loses."""

from __future__ import annotations

import numpy as np
import pytest
import race_cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agf
from agf.shell.main import main


def data(inputs=3, outputs=2, bias=True):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((25, inputs))
    return np.c_[X, np.ones(25)] if bias else X, rng.standard_normal((25, outputs))


@pytest.mark.parametrize(
    ("activation", "options"),
    [("relu", {}), ("leaky-relu", {"leak": 0.2}), ("linear", {}), ("square", {}), ("power", {"power": 3})],
)
@given(sizes=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=4), seed=st.integers(0, 99))
@example(sizes=[1.0, 2.0], seed=7)  # copies that no sample drives
@settings(max_examples=15, deadline=None)
def test_t13_copies_of_any_size_merge_to_one_that_computes_the_same(activation, options, sizes, seed):
    X, Y = data()
    problem = agf.TwoLayer(X, Y, activation=activation, width=len(sizes) + 1, **options)
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, problem.n_params))
    theta = np.array([*(size * one for size in sizes), other])
    few = agf.merge(problem, theta, cosine=1 - 1e-12)
    assert few.theta.shape[0] == 2
    assert few.exact
    full = problem.outputs(theta, np.arange(theta.shape[0])).sum(axis=0)
    less = few.problem.outputs(few.theta, np.arange(2)).sum(axis=0)
    assert np.abs(full - less).max() <= 1e-12 * np.abs(full).max()


def test_norms_three_and_four_merge_to_five():
    X, Y = data()
    unit = np.ones(6) / np.sqrt(6)
    few = agf.merge(agf.TwoLayer(X, Y, width=2), np.array([3 * unit, 4 * unit]))
    assert np.linalg.norm(few.theta) == pytest.approx(5.0, rel=1e-14)


def test_parallel_inputs_with_any_outputs_merge_by_rule_input_and_not_by_total():
    X, Y = data()
    problem = agf.TwoLayer(X, Y, width=4)
    w = np.array([0.5, -1.0, 0.2, 0.3])  # the last entry is the hidden bias
    theta = np.array(
        [[*w, 1.0, 0.0], [*(2 * w), -0.4, 2.0], [*-w, 1.0, 1.0], [*w, 0.2, -0.1]]  # the third looks the other way
    )
    assert agf.merge(problem, theta).theta.shape[0] == 4
    few = agf.merge(problem, theta, rule="input")
    assert sorted(map(len, few.members)) == [1, 3]
    assert few.loss_after == pytest.approx(few.loss_before, rel=1e-13)
    balance = np.sum(few.theta[:, 4:] ** 2, axis=1) - np.sum(few.theta[:, :4] ** 2, axis=1)
    assert np.abs(balance).max() < 1e-14


def test_neurons_that_cancel_are_left_out_by_rule_input():
    X, Y = data()
    problem = agf.TwoLayer(X, Y, width=3)
    w = np.array([0.5, -1.0, 0.2, 0.3])
    few = agf.merge(problem, np.array([[*w, 1.0, 2.0], [*w, -1.0, -2.0], [*-w, 1.0, 0.0]]), rule="input")
    assert few.theta.shape[0] == 1
    assert few.loss_after == pytest.approx(few.loss_before, rel=1e-13)


def test_a_bias_of_another_direction_is_not_merged():
    X, Y = data()
    problem = agf.TwoLayer(X, Y, width=2)
    theta = np.array([[1.0, 1, 1, 0.5, 1, 0], [1.0, 1, 1, -0.5, 1, 0]])
    assert agf.merge(problem, theta).theta.shape[0] == agf.merge(problem, theta, rule="input").theta.shape[0] == 2


def test_merging_leaves_the_flow_as_it_was():
    """Copies and the neuron they merge to have one future: their losses agree along a flow."""
    X, Y = data(outputs=1)
    problem = agf.TwoLayer(X, Y, width=3, kink=0.01)
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 5))
    theta = 0.1 * np.array([one, 2 * one, other])
    few = agf.merge(problem, theta)
    pairs = ((problem, theta), (few.problem, few.theta))
    flows = [agf.flow(p, agf.Init.from_params(start), t_max=5.0, rtol=1e-8) for p, start in pairs]
    assert flows[0].losses[-1] == pytest.approx(flows[1].losses[-1], rel=1e-6)


def test_by_group_a_dozen_neurons_solve_the_blobs_and_by_norm_a_blob_is_lost():
    problem = race_cases.network(width=120)
    run = agf.descend(problem, race_cases.start(120), lr=5e-3, steps=9000)
    assert run.features("accuracy")[-1] == 1
    group, norm = (agf.prune(problem, run, 12, by=by) for by in ("group", "norm"))
    assert group.accuracy_after == 1
    assert group.loss_after == pytest.approx(group.loss_before, rel=1e-3)
    assert norm.accuracy_after <= 0.75
    assert agf.merge(problem, run).theta.shape[0] < 12


def test_t31_pruned_at_the_first_drop_a_network_by_norm_never_learns_the_slow_blobs():
    problem = race_cases.network(width=120)
    early = agf.descend(problem, race_cases.start(120), lr=5e-3, steps=1000)
    norm, group = (agf.prune(problem, early, 12, by=by, train=40.0) for by in ("norm", "group"))
    assert norm.trained_accuracy <= 0.75
    assert group.trained_accuracy == 1


@pytest.mark.parametrize("by", ["norm", "random", "snip", "charge"])
def test_every_score_keeps_what_it_says(by):
    problem = race_cases.network()
    run = agf.descend(problem, race_cases.start(), lr=5e-3, steps=200)
    kept = agf.prune(problem, run, 0.25, by=by)
    assert kept.theta.shape == (10, 4)
    rows = np.concatenate(kept.members)
    assert np.array_equal(kept.theta, run.params(-1)[rows])
    grew = run.log_norms[-1] - run.log_norms[0]
    best = {"norm": run.log_norms[-1], "charge": grew}.get(by)
    assert best is None or set(rows) == set(np.argsort(-best)[:10])


def test_what_cannot_be_is_refused_in_a_sentence():
    problem = race_cases.network()
    theta = race_cases.start().params()
    with pytest.raises(agf.RequestError, match="is 0 of 40"):
        agf.prune(problem, theta, 0.01)
    with pytest.raises(agf.RequestError, match="is 41 of 40"):
        agf.prune(problem, theta, 41)
    with pytest.raises(agf.RequestError, match="need the run"):
        agf.prune(problem, theta, 3, by="charge")
    with pytest.raises(agf.RequestError, match="one of group"):
        agf.prune(problem, theta, 3, by="luck")
    with pytest.raises(agf.RequestError, match="shape"):
        agf.merge(problem, theta[:3])
    tanh = agf.TwoLayer(np.eye(2), np.eye(2), activation="tanh", width=2)
    with pytest.raises(agf.RequestError, match="not homogeneous"):
        agf.merge(tanh, np.ones((2, 4)), rule="input")
    assert not agf.merge(tanh, np.ones((2, 4))).exact
    diagonal = agf.problem("diagonal-linear", X=np.eye(3), y=[3.0, 2.0, 1.0])
    with pytest.raises(agf.RequestError, match="index means something"):
        agf.merge(diagonal, np.ones((3, 2)))


def test_the_commands_write_weights_that_init_reads(tmp_path, capsys):
    problem = agf.problem("two-layer", **agf.TwoLayer.example())
    run = agf.flow(problem, problem.init(1e-2), t_max=20.0)
    path, small = str(tmp_path / "run.npz"), str(tmp_path / "small.npz")
    run.save(path)
    assert main(["merge", path, "--json"]) == 0
    assert main(["prune", path, "--keep", "2", "--by", "norm", "--train", "3", "-o", small]) == 0
    assert "trained on" in capsys.readouterr().err
    assert main(["train", "two-layer", "--width", "2", "--init", small, "--t-max", "1"]) == 0


def test_input_weights_that_cancel_to_rounding_leave_no_ghost():
    """.3 (.7 / 3) is .1 (.7) but for a rounding: a neuron of norm 3e-9 stood for their sum."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    problem = agf.TwoLayer(X, X[:, :1], width=3, kink=0)
    w = np.array([1.0, 2.0, 0.5])
    theta = np.array([[*(0.1 * w), 0.7], [*(0.3 * w), -0.7 / 3], [0.3, 0.2, -0.5, 1.0]])
    merged = agf.merge(problem, theta, rule="input")
    assert merged.neurons == 1
    assert merged.loss_after == pytest.approx(merged.loss_before, rel=1e-12)
    theta[1, 3] += 1e-9  # this is no rounding
    assert agf.merge(problem, theta, rule="input").neurons == 2


@pytest.mark.parametrize("wrong", ["a", None, float("nan"), -1, 1.5, [1]])
def test_a_number_that_is_none_is_refused_in_a_sentence(wrong):
    """In every place where one is asked for; None is the default where there is one."""
    problem, init = race_cases.network(6), race_cases.start(6)
    theta = init.params()
    for call in (
        lambda: agf.prune(problem, theta, wrong),
        lambda: agf.prune(problem, theta, 2, cosine=wrong),
        lambda: agf.merge(problem, theta, cosine=wrong),
        lambda: agf.groups(problem, theta, cosine=wrong),
        lambda: agf.tickets(problem, init, keep=wrong),
        lambda: agf.rewind(problem, init, keep=wrong),
        lambda: agf.rewind(problem, init, method="wr", rewind=wrong if wrong != 1.5 else None),
        lambda: agf.rewind(problem, init, seed=wrong),
        lambda: agf.rewind(problem, init, train={"lr": 0.1, "steps": wrong}),
        lambda: agf.rewind(problem, init, train={"lr": wrong if wrong != 1.5 else "x", "steps": 1}),
        lambda: agf.rewind(problem, init, train=wrong if wrong is not None else 3),
        lambda: agf.rewind(problem, init, masks=wrong if wrong is not None else 3),
        lambda: agf.rewind(problem, init, score=wrong if wrong is not None else 3),
        lambda: agf.rewind(problem, init, path=wrong if wrong not in ("a", None) else 3),
    ):
        with pytest.raises(agf.RequestError):
            call()


def test_what_is_no_problem_training_or_mask_is_refused_in_a_sentence():
    problem, init = race_cases.network(6), race_cases.start(6)
    tickets = agf.tickets(problem, init, until=0.5)
    for call, words in (
        (lambda: agf.alignment(None, init), "NoneType is not a problem"),
        (lambda: agf.merge("x", init), "str is not a problem"),
        (lambda: agf.prune(None, init, 2), "NoneType is not a problem"),
        (lambda: tickets.against(None), "no training"),
        (lambda: tickets.plot(against="x"), "no training"),
        (lambda: agf.masked(problem, [[1, 0], [1]]), "differ in length"),
    ):
        with pytest.raises(agf.RequestError, match=words):
            call()


@pytest.mark.parametrize("size", [1e200, 1e150, 1e71])
def test_weights_whose_loss_is_outside_float64_are_refused_in_a_sentence(size):
    problem, theta = race_cases.network(width=6), size * race_cases.start(6).params() / 1e-4
    init = agf.Init.from_params(theta)
    for computed in (
        lambda: agf.groups(problem, theta),
        lambda: agf.alignment(problem, init),
        lambda: agf.merge(problem, theta, rule="input"),
        lambda: agf.prune(problem, theta, 3, by="snip"),
        lambda: agf.tickets(problem, init, keep=2),
        lambda: agf.flow(problem, init),
        lambda: agf.rewind(problem, init, cycles=1),
        lambda: agf.rewind(problem, race_cases.start(6), cycles=1, train=lambda problem, init: theta),
    ):
        with pytest.raises(agf.RequestError, match="outside the range of float64"):
            computed()
