"""The dormant flow of ReLU neurons: event times in closed form, integrators as an independent route, laws of slides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

import agf
from agf.coordinates.balance import Balance
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.dormant_parts import exact_flow
from agf.rectified.events import Event, Fate
from agf.rectified.extremal import extremal
from agf.rectified.least_norm import least_norm
from agf.rectified.pieces import Pieces
from agf.rectified.walls import Walls
from agf.sphere import polar

GRID16 = 11.25 + 22.5 * np.arange(16)
#: Angles of positives and of negatives [Min23].
TOYS = {"D1": ([20, 50], [210, 240]), "D2": ([20, 30], [230, 240]), "D3": ([20, 35, 50], [225])}
M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]) / 4)
M5D3 = (
    np.array([[1, 0.2, -0.1], [0.3, 1, 0.4], [-1, 0.5, 0.2], [-0.4, -1, 0.6], [0.1, 0.3, -1]]),
    np.array([1, -0.8, 1.2, 0.6, 0.9]) / 5,
)


def unit(degrees):
    t = np.deg2rad(np.atleast_1d(degrees))
    return np.c_[np.cos(t), np.sin(t)]


def toy(name):
    positives, negatives = TOYS[name]
    return unit(positives + negatives), np.r_[np.ones(len(positives)), -np.ones(len(negatives))]


def run(X, c, w, a, until=np.inf, leak=0.0):
    """Flow and events of neurons w (m, d), a (m,)."""
    flow = DormantFlow(Walls.of(X, c, leak), *polar(np.column_stack([w, np.broadcast_to(a, len(w))])))
    return flow, flow.run(until)


# -- exact times ------------------------------------------------------------------------------------------------------


def test_the_events_of_one_neuron_of_a_toy_set():
    # [Min23] on D1, a neuron of positive output at 191.25 degrees: between events tan(psi/2) decays by exp(-R t)
    X, y = toy("D1")
    flow, events = run(X, y, unit(191.25), 1.0)
    assert events.sample.tolist() == [3, 1, 2, 0]
    assert events.kind.tolist() == [Event.LOSS, Event.GAIN, Event.LOSS, Event.GAIN]
    t, angle, active = 0.0, 191.25, [2, 3]
    for sample, time in zip(events.sample, events.time, strict=True):
        target = (y[active, None] * X[active]).sum(axis=0)
        goal = np.rad2deg(np.arctan2(target[1], target[0])) % 360
        wall = np.rad2deg(np.arctan2(X[sample, 1], X[sample, 0])) % 360 + (90 if y[sample] > 0 else -90)
        before, after = (abs((v - goal + 180) % 360 - 180) for v in (angle, wall))
        t += np.log(np.tan(np.deg2rad(before) / 2) / np.tan(np.deg2rad(after) / 2)) / np.linalg.norm(target)
        assert time == pytest.approx(t, abs=1e-12)
        angle = wall
        active = [k for k in active if k != sample] if sample in active else [*active, sample]
    assert flow.log_norms[0] - np.log(np.sqrt(2)) == pytest.approx(-0.55309201, abs=1e-8)


@pytest.mark.parametrize(("name", "last"), [("D1", 2.41641), ("D2", 2.15967), ("D3", 2.58870)])
def test_the_slowest_of_sixteen_directions_aligns_when_the_paper_says(name, last):
    X, y = toy(name)
    times = [run(X, y, unit(GRID16), sign)[1].time.max() for sign in (1.0, -1.0)]
    assert max(times) == pytest.approx(last, abs=5e-6)


def test_neurons_die_between_the_angles_that_the_data_say():
    X, y = toy("D2")
    for sign, wedge, stop in ((1.0, (120, 235), 140.0), (-1.0, (25, 140), 120.0)):
        flow, events = run(X, y, unit(GRID16), sign)
        assert np.array_equal(flow.fate == Fate.DEAD, (wedge[0] < GRID16) & (wedge[1] > GRID16))
        moved = np.intersect1d(np.flatnonzero(flow.fate == Fate.DEAD), events.neuron)
        assert np.rad2deg(np.arctan2(flow.w[moved, 1], flow.w[moved, 0])) == pytest.approx(stop, abs=1e-11)
        # each gave up its last sample: it slides along nothing
        assert set(events.kind[np.isin(events.neuron, moved)]) == {Event.LOSS}


@pytest.mark.parametrize("s", [0.1, 0.001])
def test_two_orthogonal_ish_samples(s):
    # TWO(s) of [Min23]: entry after log tan(psi0/2) - log tan(s/2); psi0 from the sample that is active
    X = np.array([[1.0, 0.0], [np.sin(s), np.cos(s)]])
    for angle, psi in ((120.0, np.deg2rad(30) + s), (150.0, np.deg2rad(60) + s), (-60.0, np.deg2rad(60))):
        _, events = run(X, np.ones(2), unit(angle), 1.0)
        assert events.time == pytest.approx([np.log(np.tan(psi / 2) / np.tan(s / 2))], abs=1e-9)
    for angle, fate in ((200.0, Fate.DEAD), (45.0, Fate.ALIGNS)):
        flow, events = run(X, np.ones(2), unit(angle), 1.0)
        assert (events.time.size, flow.fate[0]) == (0, fate)


def test_orthogonal_samples_are_never_left_nor_reached():
    for angle, goal in ((120, 90), (-30, 0), (45, 45)):
        flow, events = run(np.eye(2), np.ones(2), unit(angle), 1.0)
        rows, _ = flow.inside(np.arange(1), 60.0)
        assert events.time.size == 0
        assert np.rad2deg(np.arctan2(rows[0, 1], rows[0, 0])) == pytest.approx(goal, abs=1e-9)


# -- slides, and neurons that shrink ----------------------------------------------------------------------------------


def test_a_balanced_neuron_that_shrinks_keeps_the_sign_of_its_output():
    # M4: a negative neuron at a ray where G has a positive maximum of -a G shrinks for ever, exactly opposite the field
    w = unit(-145.13)
    theta = 1e-8 * np.column_stack([w, [-1.0]])
    flow = DormantFlow(Walls.of(*M4), *polar(theta))
    flow.run()
    assert flow.fate[0] in (Fate.ALIGNS, Fate.OPPOSED)
    rows, log_norms = flow.inside(np.arange(1), 5.0)
    assert rows[0, 2] == pytest.approx(-np.sqrt(0.5), abs=1e-12)
    assert log_norms[0] < np.log(1e-8)


@pytest.mark.parametrize("span", [1.0, 700.0, 7000.0, 7e5])
def test_a_balanced_neuron_shrinks_below_every_float(span):
    # from norm one by exp(-|D| t), w against u: exp of the log norm alone left float64 at e^709, and all became NaN
    piece, one = Pieces(1, 2), np.ones(1)
    piece.begin(np.array([0]), np.array([[1.0, 0.0]]), np.zeros((1, 2)), one, one, -0.5 * one, 0.0 * one, 0.5 * one)
    w, a, log_norm = piece.after(np.array([0]), span * one)
    assert w[0] == pytest.approx([-0.5, 0.0])
    assert a[0] == pytest.approx(0.5)
    assert log_norm[0] == pytest.approx(-span)


def test_a_slide_ends_at_the_extremal_vector_with_its_slope_and_growth():
    # M4 from -20 degrees: slides on sample 1 with slope .5734; log growth by t = 60 from 40 digits [BF24]
    flow, events = run(*M4, unit(-20), 1.0, until=60.0)
    rows, log_norms = flow.inside(np.arange(1), 60.0)
    assert events.kind.tolist() == [Event.SLIDE]
    assert np.rad2deg(np.arctan2(rows[0, 1], rows[0, 0])) == pytest.approx(-16.69924423, abs=1e-8)
    assert log_norms[0] - 0.5 * np.log(2) == pytest.approx(13.50374583, abs=1e-8)
    assert 0.5 * (1 + flow.at.shares[0, 1]) == pytest.approx(0.57339, abs=1e-5)


@pytest.mark.parametrize(("data", "until"), [(M4, np.inf), (M5D3, np.inf)])
def test_neurons_end_at_the_enumerated_maxima_and_minima(data, until):
    X, c = data
    rng = np.random.default_rng(0)
    w = rng.standard_normal((5000, X.shape[1]))
    sign = np.where(rng.random(5000) < 0.5, -1.0, 1.0)
    flow, _ = run(X, c, w, sign * np.linalg.norm(w, axis=1), until)
    known = extremal(X, c)
    rows, _ = flow.inside(np.arange(5000), 2e3)
    ends = rows[:, :-1] / np.linalg.norm(rows[:, :-1], axis=1)[:, None]
    assert not np.isin(flow.fate, [Fate.TURNING, Fate.FLAT]).any()
    for sign_, kind in ((1.0, "maximum"), (-1.0, "minimum")):
        mine = (sign == sign_) & (flow.fate != Fate.DEAD)
        targets = known.directions[[k == kind for k in known.kinds]]
        gaps = np.linalg.norm(ends[mine][:, None] - targets, axis=2)
        assert gaps.min(axis=1).max() < 1e-8
        if X.shape[1] == 2:
            assert set(gaps.argmin(axis=1)) == set(range(len(targets)))


def test_the_shares_of_the_basins_of_four_points():
    # M4 [BF24]: arcs between minima, and between maxima, on a grid of 36,000 directions
    angles = np.arange(36000) / 100 + 0.005
    goals = {1.0: {-111.801: 0.1052, 180.0: 0.5, -27.759: 0.1580, -16.699: 0.2368},
             -1.0: {-116.565: 0.1895, -78.690: 0.2335, -21.801: 0.0307, 63.435: 0.5464}}  # fmt: skip
    for sign, parts in goals.items():
        flow, _ = run(*M4, unit(angles), sign)
        rows, _ = flow.inside(np.arange(angles.size), 2e3)
        ends = np.rad2deg(np.arctan2(rows[:, 1], rows[:, 0]))
        for angle, share in parts.items():
            here = np.abs((ends - angle + 180) % 360 - 180) < 0.01
            assert here.mean() == pytest.approx(share, abs=1e-4)


def test_a_heavy_input_neuron_flips_its_sign_and_leaves_the_ray():
    # |w| > |a|, exactly against the field: a passes through 0 when |w| has shrunk to sqrt(|w|^2 - a^2)
    X, c = np.array([[1.0, 0.0]]), np.array([-1.0])
    flow, events = run(X, c, np.array([[2.0, 0.0]]), 1.0)
    assert events.kind.tolist()[0] == Event.FLIP
    assert events.time[0] == pytest.approx(np.arctanh(0.5), abs=1e-12)  # tanh t = a / |w|
    rows, _ = flow.inside(np.arange(1), 5.0)
    assert rows[0, 2] < 0  # grows with a negative output weight on the negative sample
    assert flow.fate[0] == Fate.ALIGNS


def test_a_heavy_output_neuron_passes_through_zero_where_the_other_side_carries_it_on():
    # x = 1 with c < 0 pushes w to 0, x = -1 with c > 0 pulls it beyond: one exponential, w - a and w + a
    X, c = np.array([[1.0], [-1.0]]), np.array([-0.5, 0.5])
    flow, events = run(X, c, np.array([[1.0]]), 2.0)
    assert events.kind.tolist() == [Event.PASS]
    assert events.time == pytest.approx([np.log(3.0)], abs=1e-12)
    rows, log_norms = flow.inside(np.arange(1), 4.0)
    w, a = 0.5 * (3 * np.exp(-2.0) - np.exp(2.0)), 0.5 * (3 * np.exp(-2.0) + np.exp(2.0))
    assert rows[0] == pytest.approx(np.array([w, a]) / np.hypot(w, a), abs=1e-11)
    assert np.exp(log_norms[0]) == pytest.approx(np.hypot(w, a), rel=1e-11)


@pytest.mark.parametrize(("rows", "columns", "seed"), [(5, 3, 4), (7, 2, 3)])
def test_neurons_that_come_to_where_all_walls_meet_go_on_as_beside_narrow_kinks(rows, columns, seed):
    # heavy outputs carry w through 0, or, in inputs of lower rank, through the subspace that no sample sees
    rng = np.random.default_rng(seed)
    X, c = rng.standard_normal((rows, columns)), rng.standard_normal(rows)
    X = np.column_stack([X, X[:, 0]]) if columns == 2 else X
    w = rng.standard_normal((40, 3))
    w /= 2.0 * np.linalg.norm(w, axis=1)[:, None]
    flow, events = run(X, c, w, 1.0, until=16.0 / np.abs(c).sum())
    passing = np.unique(events.neuron[events.kind == Event.PASS])
    assert passing.size >= 2

    def beside(i, end, k):  # kinks of width k: off by a multiple of k
        def velocity(t, z):
            heights = X @ z[:3] / (np.linalg.norm(z[:3]) * np.linalg.norm(X, axis=1))
            D = (np.clip(0.5 * (heights / k + 1.0), 0.0, 1.0) * c) @ X
            return np.append(z[3] * D, z[:3] @ D)

        solved = solve_ivp(velocity, (0.0, end), np.append(w[i], 1.0), method="LSODA", rtol=1e-10, atol=1e-12)
        assert solved.status == 0  # narrower kinks stop it where all meet
        return solved.y[:, -1] / np.linalg.norm(solved.y[:, -1])

    for i in passing[-1:]:
        end = events.time[events.neuron == i].max() + 0.1
        found, _ = flow.inside(np.array([i]), end)
        assert found[0] == pytest.approx(2.0 * beside(i, end, 1e-4) - beside(i, end, 2e-4), abs=1e-5)


def test_a_neuron_that_all_sides_send_back_stays_where_all_walls_meet():
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((4, 3)), rng.standard_normal(4)
    w = rng.standard_normal((40, 3))
    w /= 2.0 * np.linalg.norm(w, axis=1)[:, None]
    flow, events = run(X, c, w, 1.0)
    i = int(events.neuron[events.kind == Event.VANISH][0])
    step, z, a = 1e-3, w[i].copy(), 1.0
    for _ in range(3_500):  # descent chatters about it, by a step
        D = ((X @ z > 0) * c) @ X
        z, a = z + step * a * D, a + step * z @ D
    assert np.linalg.norm(z) < 5 * step
    assert flow.fate[i] == Fate.VANISHED
    assert np.exp(flow.log_norms[i]) == pytest.approx(a, rel=5e-3)


@pytest.mark.parametrize("j", [5, 6])
def test_a_neuron_in_a_cycle_about_zero_comes_away_where_descent_does(j):
    # it slides in on two rays in turn, each of which leads past zero to the other; a third direction leads away
    rng = np.random.default_rng(1484)
    X, y = np.column_stack([rng.standard_normal(15), np.ones(15)]), rng.choice([-1.0, 1.0], 15)
    init = agf.TwoLayer(X, y, width=12, kink=0).init(1e-6, seed=0, kind="dominated")
    phase = agf.align(agf.TwoLayer(X, y, width=12, kink=0), init)
    passes = [time for time, kind, _ in phase.events(j) if kind == "passes 0"]
    assert len(passes) == 4
    end = passes[0] + 1.0
    w, a = init.directions[j, :-1].copy(), init.directions[j, -1]
    for _ in range(int(end / 2e-4)):
        D = y[X @ w > 0] @ X[X @ w > 0] / 15
        w, a = w + 2e-4 * a * D, a + 2e-4 * (w @ D)
    assert phase.at(end)[0][j] == pytest.approx(np.append(w, a) / np.linalg.norm([*w, a]), abs=1e-3)
    # the flow is not unique there, so that a second pass holds it
    flow = DormantFlow(Walls.of(X, y / 15), init.directions, init.log_norms, contrary=True)
    flow.run()
    assert flow.at.forked[j]
    assert flow.fate[j] == Fate.VANISHED


def test_a_heavy_output_neuron_comes_to_rest_without_input_weights():
    flow, events = run(np.array([[1.0, 0.0]]), np.array([-1.0]), np.array([[1.0, 0.0]]), 2.0)
    assert events.kind.tolist() == [Event.VANISH]
    assert events.time[0] == pytest.approx(np.arctanh(0.5), abs=1e-12)
    assert flow.fate[0] == Fate.VANISHED
    assert np.exp(flow.log_norms[0]) == pytest.approx(np.sqrt(3.0))


# -- an independent route ---------------------------------------------------------------------------------------------


def rounded(X, c, leak, w, a, until, width=1e-6):
    """End of the flow with kinks rounded over `width`, by an implicit integrator: it cannot tell a slide."""

    def rate(_, z):
        heights = X @ z[:-1] / np.linalg.norm(z[:-1])
        if leak == 0 and (heights <= 0).all():
            return np.zeros_like(z)
        D = (c * (leak + (1 - leak) * np.clip(heights / width + 0.5, 0, 1))) @ X
        return np.r_[z[-1] * D, z[:-1] @ D]

    return solve_ivp(rate, (0, until), np.r_[w, a], method="LSODA", rtol=1e-7, atol=1e-10).y[:, -1]


@pytest.mark.parametrize("seed", range(12))
def test_an_integrator_of_a_nearly_sharp_network_agrees(seed):
    rng = np.random.default_rng(seed)
    d, n, leak = int(rng.integers(2, 5)), int(rng.integers(2, 9)), float(rng.choice([0.0, 0.0, 0.2]))
    X, c, w = rng.standard_normal((n, d)), rng.standard_normal(n) / n, rng.standard_normal(d)
    a = np.linalg.norm(w) * rng.choice([-1.0, 1.0]) * rng.choice([1.0, 1.5, 0.6])
    flow, _ = run(X, c, w[None], a, until=3.0, leak=leak)
    rows, log_norms = flow.inside(np.arange(1), 3.0)
    want = rounded(X, c, leak, w, a, 3.0)
    # the width of the kink, times what a repelling wall makes of it
    assert np.linalg.norm(rows[0] * np.exp(log_norms[0]) - want) < 1e-4 * np.linalg.norm(want)


# -- laws -------------------------------------------------------------------------------------------------------------

inputs = st.tuples(st.integers(2, 4), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))


@settings(max_examples=40, deadline=None)
@given(inputs)
def test_balance_is_conserved_the_utility_never_falls_and_pieces_join(case):
    d, n, seed, leak = case
    rng = np.random.default_rng(seed)
    # small whole numbers: collinear, duplicate and orthogonal samples are common, and walls meet in corners
    X, c = rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-2, 3, n).astype(float)
    w, a = rng.integers(-2, 3, (20, d)).astype(float), rng.integers(-3, 4, 20).astype(float)
    theta = np.column_stack([w, a])[np.any(np.column_stack([w, a]) != 0, axis=1)]
    if not X.any():
        return
    unit_rows, log_norms = polar(theta)
    walls = Walls.of(X, c, leak)

    def utility(rows):
        z = rows[:, :-1] @ X.T
        return rows[:, -1] * (np.maximum(z, leak * z) @ c) / 2

    last, everybody = None, np.arange(theta.shape[0])
    for until in (0.3, 1.0, 3.0):
        flow = DormantFlow(walls, unit_rows, log_norms)
        events = flow.run(until)
        rows, norms = flow.inside(everybody, until)
        balance = Balance.of(rows, norms, X.shape[1])
        gap = theta[:, -1] ** 2 - np.sum(theta[:, :-1] ** 2, axis=1)
        assert np.abs(balance.over(np.zeros(norms.size)) - gap).max() <= 1e-12 * np.exp(2 * norms.max()) + 1e-12
        # dU/dt = |velocity|^2: at unit norm the utility of a neuron on the frozen residual never falls
        now = utility(rows)
        assert (now >= (utility(unit_rows) if last is None else last) - 1e-12 * walls.scale).all()
        last = now
        if events.time.size:
            assert (np.diff(events.time)[np.diff(events.neuron) == 0] >= 0).all()
        # stopped half-way and started again, it is the same flow
        half = DormantFlow(walls, unit_rows, log_norms)
        half.run(until / 2)
        again = DormantFlow(
            walls, *half.inside(everybody, until / 2), balance=Balance.of(unit_rows, log_norms, X.shape[1])
        )
        again.run(until / 2)
        other, _ = again.inside(everybody, until / 2)
        apart = np.linalg.norm(other - rows, axis=1)
        assert np.median(apart) < 1e-9  # a neuron on a repelling wall may leave it to either side


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_the_field_of_least_norm_is_that_of_bounded_least_squares(k, seed):
    rng = np.random.default_rng(seed)
    base, halves = rng.standard_normal((5, 4)), rng.standard_normal((5, k, 4))
    shares = least_norm(base, halves)
    for b, h, s in zip(base, halves, shares, strict=True):
        want = lsq_linear(h.T, -b, (-1, 1), method="bvls", tol=1e-14).x
        assert b + s @ h == pytest.approx(b + want @ h, abs=1e-9)
        assert (np.abs(s) <= 1.0 + 1e-12).all()


def test_dead_neurons_and_zero_ones_stay():
    walls = Walls.of(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    rows, norms = polar(np.array([[-1.0, -0.5, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 2.0]]))
    flow = DormantFlow(walls, rows, norms)
    assert flow.run().time.size == 0
    assert flow.fate.tolist() == [Fate.DEAD, Fate.VANISHED, Fate.VANISHED, Fate.DEAD]
    assert np.array_equal(flow.inside(np.arange(4), 1e9)[0], rows)


@pytest.mark.parametrize(
    ("X", "Y", "leak"),
    [
        ([[1.0, 0.0], [0.5, 1.0]], [-1.0, 1.0], 0.0),
        ([[1.0, 0.0], [0.5, 1.0]], [-1.0, 1.0], 0.2),
        ([[1.0, 0.0, 0.0], [0.3, 1.0, 0.0], [0.5, 0.5, 1.0]], [-1.0, -1.0, 1.0], 0.0),
    ],
)
def test_slides_beside_rounded_kinks_have_the_pace_of_the_rounded_network(X, Y, leak):
    """Growth along one and two kinks, by scipy: with the pace what is left is of second order in the width."""
    activation = {"activation": "leaky-relu", "leak": leak} if leak else {"activation": "relu"}
    left = {}
    for kink in (1e-3, 1e-4):
        problem, one = agf.TwoLayer(X, Y, width=1, kink=kink, **activation), np.zeros(1, dtype=int)
        row = np.append([0.3, 0.2, 0.5][-problem.n_inputs :], 0.6)
        row /= np.linalg.norm(row)
        residual = problem.residual(np.zeros((0, problem.n_params)), one[:0])

        def velocity(t, y, problem=problem, one=one, residual=residual):
            unit = y[:-1] / np.linalg.norm(y[:-1])
            pull = problem.pull(unit[None], np.zeros(1), one, residual)[0]
            return np.append(pull - (unit @ pull) * unit, unit @ pull)

        true = solve_ivp(velocity, (0.0, 40.0), np.append(row, 0.0), method="LSODA", rtol=1e-9, atol=1e-11).y[-1, -1]
        for rounded_too in (False, True):
            flow = exact_flow(problem, residual, one, row[None], np.zeros(1), rounded=rounded_too)
            flow.run(until=40.0)
            assert flow.flows[0].at.slides[0] == len(X) - 1
            left[kink, rounded_too] = abs(flow.inside(one, 40.0)[1][0] - true)
    assert left[1e-3, False] > 1e-3
    assert left[1e-3, True] < 0.01 * left[1e-3, False]
    assert left[1e-4, True] < 0.05 * left[1e-3, True]


def test_a_neuron_takes_the_other_way_at_a_fork_once():
    """Beside another wall it came back to the same fork within no time, and took it 400 times: predictions hung."""
    rng = np.random.default_rng(330)
    rng.integers([5, 1], [21, 5]), rng.integers([1, 2, 2], [4, 11, 9])  # of the fuzz that found it
    X, y = rng.standard_normal((13, 4)), rng.standard_normal((13, 1))
    rng.random()
    y = np.maximum(X @ rng.standard_normal((4, 2)), 0) @ rng.standard_normal((2, 1)) + 0.1 * y
    init = agf.TwoLayer(X, y, width=10).init(1e-5, seed=330)
    events = DormantFlow(Walls.of(X, y[:, 0] / 13), init.directions, init.log_norms, contrary=True).run(40.0)
    times = events.time[events.neuron == 4]
    assert times.size > 5
    assert np.unique(times, return_counts=True)[1].max() <= 4


@pytest.mark.parametrize("masked", [False, True])
def test_two_classes_are_one_output_to_dormant_neurons(masked):
    """By steps of descent on the frozen residual; output weights across the axis stay, and what a mask holds."""
    rng = np.random.default_rng(0)
    X, N = rng.standard_normal((8, 3)), np.arange(6)
    base = agf.TwoLayer(X, np.arange(8) % 2, loss="cross-entropy", width=6)
    mask = np.ones((6, 5), dtype=bool)
    if masked:
        mask[[1, 2, 3], [0, 3, 4]], mask[4, 3:], mask[5, :3] = False, False, False
    problem = agf.masked(base, mask) if masked else base
    init = problem.init(1.0, seed=0)
    residual = problem.residual(np.zeros((0, 5)), N[:0])
    flow = exact_flow(problem, residual, N, init.directions, init.log_norms)
    flow.run(until=4.0)
    rows, log_norms = flow.inside(N, 4.0)

    def pull(theta):
        z = theta[:, :3] @ X.T
        return mask * np.column_stack([((z > 0) * (theta[:, 3:] @ residual.T)) @ X, np.maximum(z, 0) @ residual]) / 8

    theta, h = init.params(), 1e-3
    for _ in range(4000):
        theta = theta + h * pull(theta + 0.5 * h * pull(theta))
    assert rows * np.exp(log_norms)[:, None] == pytest.approx(theta, abs=1e-4)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.isfinite(log_norms).astype(float))
    flow.run()
    ends, utility = flow.ends()
    assert utility == pytest.approx(problem.utility(ends, N, residual)[0], abs=1e-3)  # its kinks are rounded
    growing = flow.fate == Fate.ALIGNS
    assert growing.sum() == (4 if masked else 6)
    assert ends[growing][:, 3:] @ [1.0, 1.0] == pytest.approx(0.0, abs=1e-12) or masked
