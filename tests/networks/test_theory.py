"""ReLU networks of infinite width as the scale vanishes: the staircase without weights."""

import numpy as np
import pytest
from rectified_cases import M4, T3

import agf


def test_three_points_have_one_drop_that_ends_spurious():
    stairs = agf.TwoLayer(*T3).theory()
    assert stairs.status is agf.Status.THEORY
    drive = np.linalg.norm(T3[0].T @ T3[1]) / 3
    assert stairs.accelerated_times == pytest.approx([0, 1 / drive], rel=1e-9)
    assert stairs.accelerated_times[1] == pytest.approx(1.398662, abs=1e-6)
    assert stairs.levels[1] == pytest.approx(0.0875213675, abs=1e-9)
    assert np.isnan(stairs.times[1])
    assert "The end is spurious" in stairs.notes[-1]
    p = agf.TwoLayer(*T3)
    assert agf.escape(p, stairs).utility == pytest.approx(0.0152894, abs=1e-6)


def test_points_nearly_opposite_end_spurious_in_the_limit_though_not_at_a_thousandth():
    # T3eta0: gradient flow fits it from lambda = 1e-3, and not from 1e-6
    stairs = agf.TwoLayer(np.array([[-0.99, 1.0], [0.0, 1.0], [0.99, 1.0]]), np.array([1.0, 0.01, 1.0])).theory()
    assert stairs.levels[1] == pytest.approx(0.1089, abs=1e-6)
    assert "spurious" in stairs.notes[-1]


def test_flow_times_need_a_scale():
    assert agf.TwoLayer(*T3).theory(1e-6).times[1] == pytest.approx(1.398662 * np.log(1e6), rel=1e-6)
    with pytest.raises(agf.RequestError, match="alpha must be below 1"):
        agf.TwoLayer(*T3).theory(2.0)
    with pytest.raises(agf.RequestError, match="unknown option `rule`"):
        agf.TwoLayer(*T3).theory(rule="greedy")


def test_many_neurons_of_a_vanishing_scale_follow_it():
    stairs = agf.TwoLayer(*M4).theory()
    rng = np.random.default_rng(0)
    w = rng.standard_normal((40, 2))
    w /= np.linalg.norm(w, axis=1)[:, None]
    theta = np.column_stack([w, rng.choice([-1.0, 1.0], 40)]) / np.sqrt(80)
    p = agf.TwoLayer(*M4, width=40, kink=0)
    limit = agf.predict(p, agf.Init.scaled(theta, 1e-300), mode="agf")
    assert len(limit.drops) == len(stairs.drops) == 3
    assert limit.levels == pytest.approx(stairs.levels, abs=2e-3)
    assert limit.times[1:] / -np.log(1e-300) == pytest.approx(stairs.accelerated_times[1:], rel=0.01)


def test_mode_limit_is_about_the_weights_that_are_given():
    p = agf.TwoLayer(*T3, width=1)
    stairs = agf.predict(p, agf.Init.from_params([[0.0, -1e-9, 1e-9]]), mode="limit")  # dead
    assert stairs.status is not agf.Status.THEORY
    assert len(stairs.drops) == 0


@pytest.mark.parametrize("other", [
    agf.TwoLayer(*T3, activation="tanh"),
    agf.TwoLayer(T3[0], np.eye(3)),
    agf.TwoLayer(np.random.default_rng(0).standard_normal((300, 10)), np.ones(300)),
])  # fmt: skip
def test_other_networks_have_none(other):
    with pytest.raises(agf.NoTheory):
        other.theory()


def test_a_spent_budget_leaves_the_first_drops(monkeypatch):
    whole = agf.TwoLayer(*M4).theory()
    monkeypatch.setattr("agf.networks.theory._WORK", 1)  # one round is always made
    first = agf.TwoLayer(*M4).theory()
    assert first.status is agf.Status.MAX_STEPS
    assert first.levels == pytest.approx(whole.levels[:2], rel=1e-12)
    assert "goes on" in first.notes[-1]
    assert "rtol" not in str(first)


def test_inputs_of_lower_rank_than_their_columns_have_a_staircase():
    # directions that no sample sees take nothing away from the first drops; neurons that shrink there are no ends;
    # later utilities are right to the width of the rounded kinks, 1e-3
    rng = np.random.default_rng(2)
    plane, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    flat = agf.TwoLayer(plane, y).theory()
    embedded = agf.TwoLayer(plane @ np.linalg.qr(rng.standard_normal((4, 2)))[0].T, y).theory()
    assert len(embedded.drops) >= 2
    count = min(len(flat.drops), len(embedded.drops), 2)
    assert embedded.accelerated_times[: count + 1] == pytest.approx(flat.accelerated_times[: count + 1], rel=1e-3)
    assert embedded.levels[: count + 1] == pytest.approx(flat.levels[: count + 1], rel=1e-4)


def test_a_sum_over_samples_is_n_times_as_fast_as_their_mean():
    mean, total = (agf.TwoLayer(*T3, reduction=name).theory() for name in ("mean", "sum"))
    assert total.accelerated_times == pytest.approx(mean.accelerated_times / 3, rel=1e-6)
    assert total.levels == pytest.approx(3 * mean.levels, rel=1e-6)


def test_dormant_neurons_turn_with_the_residual_of_a_drop():
    # held still, a neuron stays in its cone and makes a third drop, at 2.114, that no training has; mode "resolved"
    # at two scales has two drops
    rng = np.random.default_rng(1013)
    n, d = int(rng.integers(3, 9)), int(rng.integers(1, 4))
    p = agf.TwoLayer(rng.standard_normal((n, d)), rng.standard_normal(n))
    stairs = p.theory()
    ends = np.array([end.direction for end in agf.landscape(p, starts=1).ends])
    start = agf.Init.scaled(ends, 1e-300)
    resolved = agf.predict(p.of_width(len(ends)), start, mode="resolved", conditioning=False)
    assert len(stairs.drops) == len(resolved.drops) == 2
    assert stairs.accelerated_times[1:] == pytest.approx(resolved.half_times[1:] / -np.log(1e-300), rel=3e-3)
    assert np.isfinite([drop.conditioning for drop in stairs.drops]).all()


def test_single_drops_are_looked_at_for_forks_where_the_budget_allows_for_two_repeats(monkeypatch):
    single = agf.TwoLayer(*T3).theory()
    assert [drop.conditioning for drop in single.drops] == pytest.approx([0.0], abs=1e-6)
    assert not any("not looked at" in note for note in single.notes)
    monkeypatch.setattr("agf.networks.theory._WORK", 200)  # the one drop takes 181
    assert any("not looked at" in note for note in agf.TwoLayer(*T3).theory().notes)


def random_set(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 4)), int(rng.integers(3, 13))
    return agf.TwoLayer(rng.standard_normal((n, d)), rng.standard_normal(n))


def flow_of_the_ends(p, until):
    """Gradient flow, which knows nothing of drops, of one neuron at every end of the alignment; and its -log alpha."""
    ends = np.array([end.direction for end in agf.landscape(p, starts=1).ends])
    unit = -np.log(1e-300)
    return p.of_width(len(ends)), agf.Init.scaled(ends, 1e-300), until * unit, unit


@pytest.mark.parametrize("seed", [0, 2])
def test_gradient_flow_makes_the_same_drops(seed):
    p = random_set(seed)
    stairs = p.theory()
    assert len(stairs.drops) == 2
    few, init, until, unit = flow_of_the_ends(p, 1.1 * stairs.accelerated_times[-1])
    flow = agf.flow(few, init, t_max=until)
    middles = 0.5 * (stairs.levels[1:] + stairs.levels[:-1])
    halves = np.array([flow.time_at(middle) for middle in middles]) / unit
    assert halves == pytest.approx(stairs.accelerated_times[1:], rel=2.0 / unit)  # some growth times, over log 1/alpha
    assert flow.losses[-1] == pytest.approx(stairs.levels[-1], rel=1e-5)


def test_slides_along_kinks_are_followed_to_their_end():
    # beside rounded kinks the second active phase did not end within 2,000 steps, and one drop was given; begun at the
    # norm where it saturates, 10, the last neuron threw the others into another cone, to a minimum at .352183
    rng = np.random.default_rng(8)
    n, d = int(rng.integers(3, 13)), int(rng.integers(2, 4))
    p = agf.TwoLayer(rng.standard_normal((n, d)), rng.standard_normal(n))
    stairs = p.theory()
    assert stairs.status is agf.Status.THEORY
    assert len(stairs.drops) == 4
    few, init, until, unit = flow_of_the_ends(p, 1.1 * stairs.accelerated_times[-1])
    flow = agf.flow(few.rounded(0.0), init, t_max=until)
    middles = 0.5 * (stairs.levels[1:] + stairs.levels[:-1])
    halves = np.array([flow.time_at(middle) for middle in middles]) / unit
    assert halves == pytest.approx(stairs.accelerated_times[1:], rel=5.0 / unit)
    assert flow.losses[-1] == pytest.approx(stairs.levels[-1], rel=1e-6)


def test_however_near_the_next_drop_is_the_active_neurons_reach_their_critical_point_first():
    # a second neuron is behind by 1.9e-4 of the way. Left where the wait for it was over, the first had a field that
    # took the second to another end, and a drop came at 1.476
    p = random_set(6)
    few, init, until, unit = flow_of_the_ends(p, 1.55)
    limit = agf.predict(few, init, mode="limit", rtol=1e-8, max_drops=2, conditioning=False)
    flow = agf.flow(few, init, t_max=until)
    assert limit.levels[2] == pytest.approx(0.379098517, rel=1e-6)  # of the flow at t = 4
    half = flow.time_at(0.5 * (limit.levels[1] + limit.levels[2])) / unit
    assert limit.accelerated_times[2] == pytest.approx(half, rel=5.0 / unit)


def test_mode_limit_does_not_know_the_scale_of_the_weights():
    # active flows ended after ten times the flow time so far, which is of any length as alpha -> 0: at 1e-300 the first
    # was followed until it ran out of steps
    p = random_set(6)
    ends = np.array([end.direction for end in agf.landscape(p, starts=1).ends])
    few, options = p.of_width(len(ends)), {"mode": "limit", "rtol": 1e-8, "max_drops": 2, "conditioning": False}
    small, large = (agf.predict(few, agf.Init.scaled(ends, alpha), **options) for alpha in (1e-300, 1e-2))
    assert small.accelerated_times == pytest.approx(large.accelerated_times, rel=1e-9)
    assert small.levels == pytest.approx(large.levels, rel=1e-9)
    assert len(small.drops) == 2
