"""Groups of neurons and how they are driven: exact answers, conserved shares, and what the papers' coordinates say."""

from __future__ import annotations

import json

import numpy as np
import pytest
import race_cases
from scipy.integrate import cumulative_trapezoid

import agf
from agf.capacity import race_pictures
from agf.capacity.groups import at_end
from agf.capacity.half_times import falls, halfway
from agf.shell.main import main


@pytest.fixture(scope="module")
def run():
    problem = race_cases.network()
    return problem, agf.flow(problem, race_cases.start(), t_max=14.0, snapshots=800)


def test_duplicates_scaled_by_any_factor_are_one_group_whose_total_is_that_of_their_squares():
    problem = agf.TwoLayer(np.eye(3), np.eye(3), width=4)
    unit = np.array([1.0, 0.2, 0.1, 0.9, 0.0, 0.3]) / np.sqrt(1.95)
    theta = np.array([3 * unit, 1e-3 * np.roll(unit, 1), 4 * unit, np.zeros(6)])
    found = agf.groups(problem, theta)
    assert [group.members.tolist() for group in found.groups] == [[2, 0], [1]]
    assert found[0].total == pytest.approx(5.0, rel=1e-14)  # sqrt(3^2 + 4^2)
    assert found[0].shares == pytest.approx([16 / 25, 9 / 25], rel=1e-14)
    assert found[0].direction == pytest.approx(unit, rel=1e-14)
    assert found.dead.tolist() == [3]
    assert found.of(0).winner == 2


def test_rows_of_one_function_are_one_direction():
    X = np.random.default_rng(0).standard_normal((9, 2))
    row = np.array([0.3, -0.5, 0.7])
    for name, twin in (("tanh", -row), ("linear", -row), ("square", row * [-1, -1, 1])):
        problem = agf.TwoLayer(X, X[:, 0], activation=name, width=2)
        assert len(agf.groups(problem, np.array([row, twin]))) == 1, name
        both = problem.outputs(np.array([row, twin]), np.arange(2))
        assert both[0] == pytest.approx(both[1])
    opposite = agf.TwoLayer(X, X[:, 0], width=2)  # parallel incoming weights, opposite outputs: not one neuron
    assert len(agf.groups(opposite, np.array([row, row * [1, 1, -1]]))) == 2
    assert len(agf.groups(opposite, np.array([row, -row]))) == 2


def test_inside_a_group_log_ratios_are_conserved_from_the_moment_it_formed(run):
    _, flow = run
    fastest = max(agf.groups(flow).groups, key=lambda group: group.charge)
    assert fastest.members.size > 5
    assert fastest.formed < fastest.half_time
    # cosine .999 lets rates differ by 1 - .999 over the e-folds that are left
    assert fastest.drift < 2e-3 * fastest.charge


def test_the_prediction_has_the_half_times_and_the_shares_inside_the_groups(run):
    """Default mode on four blobs, past two drops; the flow keeps in the first group what it had before the drop."""
    problem, flow = run
    stairs = agf.predict(problem, flow.init, t_max=14.0)
    for drop, level in zip(stairs.drops[:2], 0.5 * (stairs.levels[1:3] + stairs.levels[:2]), strict=True):
        assert drop.half_time == pytest.approx(flow.time_at(level), rel=1e-3)

    def shares(log_norms, members):
        return np.exp(2 * (log_norms[members] - np.logaddexp.reduce(2 * log_norms[members]) / 2))

    first, second = sorted(agf.groups(flow).groups, key=lambda group: -group.took_off)[:2]
    for group in (first, second):
        assert shares(stairs.drops[1].log_norms, group.members) == pytest.approx(
            shares(flow.log_norms[-1], group.members), abs=3e-4
        )
    before = flow.log_norms[int(np.argmax(flow.snapshot_times > 4.2))]
    assert shares(before, first.members) == pytest.approx(shares(flow.log_norms[-1], first.members), abs=1e-5)


def test_at_the_end_shares_are_those_before_the_drop():
    """Of the fastest group, from the first hundredth of the drop on: what is left to align falls with the scale."""
    problem, changes = race_cases.network(), []
    for scale, end in ((1e-4, 7.0), (1e-6, 10.3)):
        flow = agf.flow(problem, race_cases.start(scale=scale), t_max=end, snapshots=400)
        members = at_end(flow, problem)[0].members
        before = int(np.argmax(flow.loss_at(flow.snapshot_times) < 0.99 * flow.losses[0]))
        sizes = np.exp(2 * flow.log_norms[[before, -1]][:, members])
        changes.append(np.abs(np.diff(sizes / sizes.sum(axis=1, keepdims=True), axis=0)).max())
    assert changes[0] < 1e-5
    assert changes[1] < 5e-9


def test_half_times_of_groups_are_the_half_drop_times_that_are_predicted():
    """Coordinates are learned one by one; a group's half time was when its total was half, 3 % later."""
    problem = agf.problem("diagonal-linear", X=np.eye(3), y=[3.0, 2.0, 1.0])
    init = problem.init(1e-6)
    report = agf.compare(agf.predict(problem, init, mode="agf"), agf.flow(problem, init))
    found = agf.groups(report)
    for group, drop in zip(found.groups, report.trajectory.drops, strict=True):
        assert group.half_time == pytest.approx(drop.time, rel=1e-3)
        assert group.half_time == pytest.approx(group.predicted_half_time, rel=1e-3)
        assert group.took_off == pytest.approx(drop.before - drop.after, rel=1e-2)


def test_groups_together_took_off_what_the_loss_fell_by(run):
    _, flow = run
    found = agf.groups(flow)
    assert sum(group.took_off for group in found.groups) == pytest.approx(flow.losses[0] - flow.losses[-1], rel=1e-6)
    first = max(found.groups, key=lambda group: group.took_off)
    assert first.half_time == pytest.approx(flow.drops[0].time, rel=1e-2)


def test_cells_and_classes_split_all_living_neurons(run):
    problem, flow = run
    for by in ("cell", "class"):
        found = agf.groups(flow, by=by)
        members = np.sort(np.concatenate([*(group.members for group in found.groups), found.dead]))
        assert members.tolist() == list(range(problem.width))
    assert {group.label for group in agf.groups(flow, by="class").groups} == {"class 1", "class 2"}


def test_the_first_group_is_told_before_it_falls(run):
    """At a moment in the plateau; the law of one neuron of its total is 5 % early, as a softmax saturates later."""
    _, flow = run
    k = int(np.argmax(flow.snapshot_times > 4.0))
    growing = agf.groups(flow, at=k, cosine=0.99).groups  # as wide as directions still are then
    assert min(group.predicted_half_time for group in growing) == pytest.approx(flow.drops[0].time, rel=0.02)


def test_neurons_that_meet_a_group_before_its_drop_fall_with_it(run):
    """Each grew on at the rate of the group when that had fallen, and counted as one that waits."""
    _, flow = run
    k = int(np.argmax(flow.snapshot_times > 4.0))
    found = agf.groups(flow, at=k)
    first = max(agf.groups(flow).groups, key=lambda group: group.charge)
    apart = {found.of(int(i)).winner for i in first.members}
    assert len(apart) > 1
    told = [found.of(i).predicted_half_time for i in apart]
    assert told == pytest.approx([flow.drops[0].time] * len(apart), rel=0.02)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu"])
def test_groups_that_turn_while_others_fall_are_told_their_half_times(activation):
    """At .6 of them. (The law of one neuron at a frozen residual: logistic 9 % and 7 % early, leaky 11 %.)"""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3)) * [2, 1, 0.6]
    f = np.maximum(X @ rng.standard_normal((2, 3)).T, 0) @ [2.0, -1.5]
    if activation == "relu":
        problem = agf.TwoLayer(X, np.where(f > np.median(f), 1, -1), width=8, loss="logistic")
    else:
        problem = agf.TwoLayer(X, f, width=8, activation=activation)
    flow = agf.flow(problem, problem.init(1e-6, seed=1), t_max=120.0 if activation == "relu" else 60.0)
    large = [group for group in agf.groups(flow).groups if group.took_off > 0.1 * (flow.losses[0] - flow.losses[-1])]
    assert len(large) == 2
    for group in large:
        before = int(np.argmax(flow.snapshot_times > 0.6 * group.half_time))
        told = agf.groups(flow, at=before).of(group.winner)
        assert told.predicted_half_time == pytest.approx(group.half_time, rel=0.01)
        true = half_time(problem, flow, told.members)
        assert abs(told.predicted_half_time / true - 1) < told.predicted_error < 0.1


def half_time(problem, flow, members):
    """When these, of a group then, had taken off half of what they take off in the whole flow."""
    taken = falls(problem, flow, flow.snapshot_times.size - 1)[:, members].sum(axis=1)
    k, share = halfway(taken)
    before, after = flow.loss_at(flow.snapshot_times[k : k + 2])
    return flow.time_at(before + share * (after - before))


def test_half_of_what_a_group_takes_off_counts_the_past_and_what_a_race_that_was_cut_has_left():
    """Two neurons share a loss of 8 that falls by 1 in a unit of time, evenly; a coarser race is a tenth late."""
    from types import SimpleNamespace

    from agf.capacity.half_times import Falls, Foresight

    def falling(stretch):
        times, works = stretch * np.arange(9.0), np.ones((8, 2))
        return Falls(race_cases.network(2), list(times), list(8.0 - np.arange(9.0)), list(works))

    both = np.array([0, 1])
    over = Foresight(SimpleNamespace(loss=0.0, unfinished=""), falling(1.0), falling(1.1))
    assert over.half_time(both, 0.0) == pytest.approx((4.0, 0.6, 0.0, 8.0))  # at 6 when three quarters are gone
    assert over.half_time(both[:1], 2.0) == pytest.approx((2.0, 0.5, 0.0, 4.0))  # 3 of 6, 1 of them in the race
    assert np.isnan(over.half_time(both, 9.0)[0])  # before the race
    cut = Foresight(SimpleNamespace(loss=2.0, unfinished="cut"), falling(1.0), falling(1.1))
    assert cut.half_time(both, 0.0) == pytest.approx((4.0, 0.6, 1.0, 8.0))
    crossed = falling(1.0)
    crossed.losses[1:4] = [7.5, 6.5, 5.0]  # where half is gone at the same time, and a quarter later
    assert Foresight(over.end, falling(1.0), crossed).half_time(both, 0.0)[1] == pytest.approx(1 / 3)


def test_a_neuron_takes_off_nothing_with_the_part_of_its_gradient_across_a_kink_that_it_slides_along():
    """L = 5 |y_0| - x_0 - x_1: both neurons take off the same, while one of them chatters about y = 0. (By squares of
    gradients that one took 26 times as much: half times of a leaky ReLU network were 94 % off under an error of 8 %.)
    """
    from types import SimpleNamespace

    from agf.capacity.half_times import Falls

    def loss_grad(theta, neurons):
        slope = np.array([[-1.0, 5.0 * np.sign(theta[0, 1])], [-1.0, 0.0]])
        return 5.0 * abs(theta[0, 1]) - theta[:, 0].sum(), slope

    seen = Falls(SimpleNamespace(width=2, loss_grad=loss_grad))
    for k in range(5):
        seen.see(float(k), np.array([[k, 1e-3 * (-1) ** k], [k, 0.0]]))
    assert seen.taken() == pytest.approx(np.ones((4, 2)), rel=1e-12)


def test_a_race_that_a_coarser_one_contradicts_is_run_again_finer(monkeypatch, run):
    """(Random labels: of a group that forks after .6 of its time 25 % off under 4 %, now .006 % under .009 %.)"""
    from agf.capacity import groups

    _, flow = run
    before = int(np.argmax(flow.snapshot_times > 4.0))
    first, tolerances, foresee = agf.groups(flow).groups[0], [], groups.foresee

    def told(problem, start, until, rtol):
        tolerances.append(rtol)
        return foresee(problem, start, until, rtol)

    monkeypatch.setattr(groups, "foresee", told)
    monkeypatch.setattr(groups, "RTOL", 0.1)
    group = agf.groups(flow, at=before).of(first.winner)
    assert tolerances[:2] == [0.1, 0.01]
    assert abs(group.predicted_half_time / first.half_time - 1) < group.predicted_error < groups.SURE


def test_a_race_that_takes_too_long_tells_no_half_time(monkeypatch, run):
    """No group is past its drop when it is cut."""
    from agf.capacity import half_times

    problem, flow = run
    theta = flow.params(int(np.argmax(flow.snapshot_times > 4.0)))
    assert np.isfinite([group.predicted_half_time for group in agf.groups(problem, theta).groups]).any()
    monkeypatch.setattr(half_times, "_MOST", 100)
    assert np.isnan([group.predicted_half_time for group in agf.groups(problem, theta).groups]).all()


def test_a_group_has_made_its_drop_or_is_still_to_make_it():
    """Past the first three drops of four blobs the second group was said to fall at 41, and to have fallen at 11.8."""
    problem = race_cases.network()
    flow = agf.flow(problem, race_cases.start(), t_max=60.0)
    found = agf.groups(flow, at=int(np.argmax(flow.snapshot_times > 30.0))).groups
    assert sorted(group.half_time for group in found)[:3] == pytest.approx(
        [drop.time for drop in flow.drops[:3]], rel=0.01
    )
    (late,) = (group for group in found if not np.isfinite(group.half_time))
    fell = agf.groups(flow).of(late.winner).half_time
    assert late.predicted_half_time == pytest.approx(fell, rel=0.05)
    assert all(np.isnan(group.predicted_half_time) for group in found if group is not late)


def test_at_rest_no_group_is_said_to_fall():
    """Three outputs: pieces of one group that came apart were each said to make another drop, ten thousand later."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((60, 4)), rng.standard_normal((2, 4))
    problem = agf.TwoLayer(X, np.maximum(X @ W.T, 0) @ rng.standard_normal((2, 3)), activation="tanh", width=12)
    flow = agf.flow(problem, problem.init(1e-4, seed=0))
    fell = flow.losses[0] - flow.losses[-1]
    for group in agf.groups(flow).groups:
        assert np.isnan(group.predicted_half_time) or group.took_off < 1e-3 * fell


@pytest.mark.parametrize("neurons", [1, 10, 100])
@pytest.mark.parametrize(("mode", "within"), [("agf", 1e-8), ("resolved", 1e-4)])
def test_aligned_neurons_drop_when_one_of_their_total_would(neurons, mode, within):
    """In mode agf the law is that of the total, and exact for a direction that stays; a race of one by one is 16 % late
    for a hundred."""
    problem = agf.TwoLayer(np.eye(3), [3.0, 2.0, 1.0], width=neurons, kink=0)
    sizes = np.random.default_rng(1).uniform(0.2, 2, neurons)
    init = agf.Init(np.tile(np.array([1.0, 0, 0, 1]) / np.sqrt(2), (neurons, 1)), np.log(1e-5 * sizes), 1e-5)
    drop = agf.predict(problem, init, mode=mode, max_drops=1, t_max=30.0).drops[0]
    seen = agf.flow(problem, init, t_max=1.01 * drop.half_time).time_at(0.5 * (14 / 6 + drop.level))
    assert drop.half_time == pytest.approx(seen, rel=within)


def test_t17_rates_integrate_to_the_growth_of_every_neuron(run):
    problem, flow = run
    moments = agf.alignment(problem, flow)
    early = moments.times <= 6.0
    grown = cumulative_trapezoid(moments.rate[early], moments.times[early], axis=0, initial=0.0)
    assert np.abs(moments.log_norms[early] - moments.log_norms[0] - grown).max() < 0.01


def test_pinsons_coordinates_at_random_weights():
    """gamma of [Pinson] eq. 9 from its definition, and grad_w L = -|w2| gamma (D6), with hidden biases in X."""
    rng = np.random.default_rng(3)
    X = np.c_[rng.standard_normal((30, 3)), np.ones(30)]
    y = rng.integers(0, 2, 30)
    problem = agf.TwoLayer(X, y, loss="cross-entropy", width=5, kink=0)
    theta = rng.standard_normal((5, 6))
    W, A = theta[:, :4], theta[:, 4:]
    hidden = np.maximum(X @ W.T, 0)
    Z = hidden @ A
    error = np.eye(2)[y] - np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    size = np.linalg.norm(error, axis=1)
    cosine = (error @ A.T) / (size[:, None] * np.linalg.norm(A, axis=1))
    gamma = ((X @ W.T > 0) * cosine * size[:, None]).T @ X / 30
    moment = agf.alignment(problem, theta)
    assert moment.drive[0] == pytest.approx(np.linalg.norm(gamma, axis=1), rel=1e-12)
    delta = np.sum(W * gamma, axis=1) / np.linalg.norm(W, axis=1) / np.linalg.norm(gamma, axis=1)
    assert moment.cos_delta[0] == pytest.approx(delta, rel=1e-12)
    balanced = 2 * np.linalg.norm(W, axis=1) * np.linalg.norm(A, axis=1) / np.sum(theta**2, axis=1)
    assert moment.rate[0] == pytest.approx(balanced * moment.drive[0] * delta, rel=1e-12)  # a dead one: 0
    assert moment.gate_share[0] == pytest.approx((X @ W.T > 0).mean(axis=0))
    # all errors lie along (1, -1): the sum of the outputs' gradients vanishes (O1)
    gradient = problem.loss_grad(theta, np.arange(5))[1]
    assert np.abs(gradient[:, 4:].sum(axis=1)).max() < 1e-15


def test_t14_hand_case_of_theorem_4_1():
    """[Pinson] T14: x = (1, 0) of class 1, (0, 1) of class 2, w = (2, 1): turned to class 1, cos delta = 1/sqrt 10."""
    problem = agf.TwoLayer(np.eye(2), [1, 2], loss="cross-entropy", width=1, kink=0)
    tiny = agf.Init(np.array([[2.0, 1, 1, -1]]) / np.sqrt(7), np.array([-60.0]), alpha=1e-26)
    moment = agf.alignment(problem, tiny)
    assert moment.classes[moment.target[0, 0]] == 1
    assert moment.cos_delta[0, 0] == pytest.approx(1 / np.sqrt(10))
    assert moment.drive[0, 0] == pytest.approx(0.5)  # |(.35355, -.35355)|


def test_a_problem_that_is_no_two_layer_network_has_groups_but_no_gates():
    problem = agf.problem("diagonal-linear", X=np.eye(3), y=[3.0, 2.0, 1.0])
    flow = agf.flow(problem, problem.init(1e-4))
    assert len(agf.groups(flow)) == 3  # coordinates, whatever their direction
    assert np.isnan(agf.alignment(problem, flow).gate_share).all()
    with pytest.raises(agf.RequestError, match="no rows"):
        agf.groups(flow, by="cell")


def test_what_cannot_be_is_refused_in_a_sentence(run):
    problem, flow = run
    stairs = agf.predict(problem, race_cases.start(), max_drops=1, mode="agf")
    for wrong, words in (
        ({"cosine": 0.0}, "cosine"),
        ({"by": "colour"}, "one of direction, cell, class"),
        ({"at": 10**6}, "no snapshot"),
    ):
        with pytest.raises(agf.RequestError, match=words):
            agf.groups(flow, **wrong)
    with pytest.raises(agf.RequestError, match="has no groups"):
        agf.groups(None)
    with pytest.raises(agf.DataError, match="an integer"):
        agf.groups(flow, at=1.5)
    with pytest.raises(agf.RequestError, match="keeps no directions"):
        agf.groups(stairs)
    with pytest.raises(agf.RequestError, match="theta"):
        agf.groups(problem)
    with pytest.raises(agf.RequestError, match="shape"):
        agf.alignment(problem, np.ones((3, 3)))


def test_the_command_prints_a_table_and_a_document_and_draws(run, tmp_path, capsys):
    path = str(tmp_path / "run.npz")
    run[1].save(path)
    assert main(["groups", path, "--json"]) == 0
    printed = capsys.readouterr()
    assert "winner's share" in printed.err
    assert len(json.loads(printed.out)["groups"]) == len(agf.groups(run[1]))
    for draw in (race_pictures.race, race_pictures.aligned):
        names = [text.get_text() for text in draw(run[1]).get_legend().get_texts()]
        for k, (name, group) in enumerate(zip(names, agf.groups(run[1]).groups, strict=False)):
            what = f"neuron {group.members[0]}" if group.members.size == 1 else f"{group.members.size} neurons"
            assert name == f"{k}: {what}"
    for view in ("race", "groups", "alignment"):
        assert main(["plot", path, "--view", view, "-o", str(tmp_path / f"{view}.svg")]) == 0
