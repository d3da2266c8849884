"""Drops of a loss curve in log time: synthetic curves with known answers, noise, degenerate curves, files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

import agf
from agf import DataError, FileError, RequestError, Status, Trajectory
from agf.results.curve import CurveDrop, crowded, detect, rises, swinging
from agf.results.interpolant import crossing, interpolate, monotone

T = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 6000)])
NONE = np.zeros(0)


def stairs(times, levels, width, t=T):
    """A sum of logistic drops, each half-way at its time; width is a fraction of the time."""
    loss = np.full_like(t, levels[-1])
    for k, time in enumerate(times):
        loss += (levels[k] - levels[k + 1]) / (1 + np.exp(np.clip((t - time) / (width * time), -700, 700)))
    return loss


def test_every_drop_is_found_at_its_time_and_between_its_levels():
    drops = detect(T, stairs([2, 5, 40], [20, 4, 1, 0.002], 0.02))
    assert np.allclose([d.time for d in drops], [2, 5, 40], rtol=1e-4)
    assert np.allclose([d.before for d in drops], [20, 4, 1], rtol=1e-4)
    assert np.allclose([d.after for d in drops], [4, 1, 0.002], rtol=1e-4)
    # 10 % and 90 % of a logistic drop are log 9 widths from its middle
    assert np.allclose([d.end - d.start for d in drops], 2 * np.log(9) * 0.02 * np.array([2, 5, 40]), rtol=1e-2)


def test_small_late_drops_are_found_relative_to_the_loss_before_them():
    drops = detect(T, stairs([1, 10, 100], [10.0, 0.02, 0.019, 0.0189], 0.02))
    assert np.allclose([d.time for d in drops], [1, 10, 100], rtol=1e-3)


def test_drops_shallower_than_the_stated_depth_are_not_reported():
    curve = stairs([1, 10], [1.0, 0.5, 0.4995], 0.02)
    assert len(detect(T, curve)) == 1
    assert len(detect(T, curve, depth=5e-4)) == 2


def test_a_computed_curve_is_read_more_finely():
    curve = stairs([1, 10], [1.0, 0.5, 0.4998], 0.02)
    assert len(detect(T, curve)) == 1
    assert len(detect(T, curve, slopes=np.gradient(curve, T))) == 2


@pytest.mark.parametrize("seed", range(5))
def test_levels_on_a_plateau_that_slopes_do_not_hang_on_where_the_points_lie(seed):
    # L = exp(-t) + 1/2 exp(-t / 200): the rate of fall in log time, -t L' / L, is lowest where the two balance
    def fall(t):
        return np.exp(-t) + 0.5 * np.exp(-t / 200), -np.exp(-t) - np.exp(-t / 200) / 400

    dense = np.geomspace(3, 30, 100_001)
    loss, slope = fall(dense)
    rest = int(np.argmin(-dense * slope / loss))
    step = np.log(3e5) / 400
    t = np.exp(np.log(1e-2) + step * (np.arange(401) + np.random.default_rng(seed).uniform(-0.4, 0.4, 401)))
    loss_there, slopes = fall(t)
    drops = detect(t, loss_there, slopes=slopes)
    assert len(drops) == 2
    # points lie 3 % apart, and the loss falls by 1e-3 between them; a parabola is right to the square of the distance
    assert drops[0].after == pytest.approx(loss[rest], rel=2e-4)


def test_drops_too_close_for_a_plateau_are_one_visible_drop():
    near, far = stairs([2, 2.1], [2, 1, 0.5], 0.025), stairs([2, 2.6], [2, 1, 0.5], 0.025)
    assert len(detect(T, near)) == 1
    assert len(detect(T, far)) == 2
    assert len(detect(T, far, flatness=1e-6)) == 1


@given(st.floats(-60, 60), st.floats(-60, 60))
def test_rescaling_loss_and_time_changes_nothing_else(log_loss, log_time):
    a, b = np.exp(log_loss), np.exp(log_time)
    t = T[::10]
    plain = detect(t, stairs([2, 40], [20, 4, 1], 0.05, t))
    scaled = detect(b * t, a * stairs([2, 40], [20, 4, 1], 0.05, t))
    assert np.allclose([d.time for d in scaled], b * np.array([d.time for d in plain]), rtol=1e-9)
    assert np.allclose([d.after for d in scaled], a * np.array([d.after for d in plain]), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_noise_neither_hides_nor_makes_drops(seed):
    rng = np.random.default_rng(seed)
    curve = stairs([2, 5, 40], [20, 8, 4, 1], 0.02) + 0.05 * rng.standard_normal(T.size)
    drops = detect(T, curve)
    assert np.allclose([d.time for d in drops], [2, 5, 40], rtol=0.01)
    assert np.allclose([d.after for d in drops], [8, 4, 1], atol=0.1)
    assert detect(T, 3 + 0.05 * rng.standard_normal(T.size)) == []


def test_a_drop_is_crowded_where_a_neighbour_is_closer_than_it_takes_itself():
    drops = [
        CurveDrop(1.0, 8.0, 4.0, 0.9, 1.1),
        CurveDrop(3.0, 4.0, 2.0, 2.0, 4.0),
        CurveDrop(9.0, 2.0, 0.0, 5.0, 13.0),
    ]
    # gaps .9 and 1, widths .2, 2 and 8
    assert crowded(drops) == [False, True, True]
    assert crowded(drops[:1]) == [False]
    assert crowded([]) == []


def test_a_slide_is_one_long_drop():
    (drop,) = detect(T, 1 / (1 + T))
    assert np.isclose(drop.time, 1.0, rtol=0.01)
    assert drop.end / drop.start > 50


@pytest.mark.parametrize(
    ("times", "losses"),
    [([0.0], [1.0]), ([3.0], [1.0]), ([0.0, 1.0], [1.0, 0.5]), (T, np.ones_like(T)), (T, np.zeros_like(T))],
)
def test_a_point_a_constant_and_a_zero_curve_have_no_drop(times, losses):
    assert detect(np.asarray(times), np.asarray(losses)) == []


def test_a_rising_curve_has_no_drop():
    assert detect(T, 1 + T) == []


def test_a_drop_within_one_instant_is_a_drop():
    # flow times of 1e200 cannot resolve the drop: the same time twice
    (drop,) = detect(np.array([0.0, 1e199, 1e200, 1e200, 2e200]), np.array([1.0, 1.0, 0.9, 0.1, 0.1]))
    assert np.isclose(drop.time, 1e200)


@pytest.mark.parametrize("resolved", [30.0, 3e-1, 3e-3])
def test_a_drop_that_times_hardly_resolve_is_one_drop(resolved):
    # a fall over a few units in the last place of the time, then a plateau of the same length as what came before
    t = np.concatenate([np.linspace(0, 1, 50), 1 + np.spacing(1.0) / resolved * np.linspace(0, 12, 300), [1.5, 2.0]])
    loss = np.concatenate([np.ones(50), np.exp(-np.linspace(0, 6, 300)), np.exp([-6.0, -6.0])])
    (drop,) = detect(np.sort(t), loss)
    assert drop.time == pytest.approx(1.0, rel=1e-12)
    assert drop.end == pytest.approx(1.0, rel=1e-12)
    assert drop.after == pytest.approx(np.exp(-6.0))


@pytest.mark.parametrize("slope", [-1e-22, 1e-22, 0.0])
def test_a_slope_that_is_rounding_does_not_swing_over_a_plateau_of_1e30(slope):
    # drops at log 2 and at 1e30, the second within one time; a plateau in between whose ends have slopes of their own
    early, late = np.linspace(0, 40, 400), np.linspace(0, 40, 400)
    t = np.concatenate([early, np.full(400, 1e30), [2e30]])
    loss = np.concatenate([0.5 + 0.5 * np.exp(-early), 0.5 * np.exp(-late), [0.0]])
    slopes = np.concatenate([-0.5 * np.exp(-early), -0.5 * np.exp(-late), [0.0]])
    slopes[399] = slope
    first, second = detect(t, loss, slopes=slopes)
    assert first.time == pytest.approx(np.log(2), rel=1e-4)
    assert first.after == pytest.approx(0.5, rel=1e-4)
    assert second.time == pytest.approx(1e30, rel=1e-12)
    assert crossing(t, loss, slopes, 0.6) == pytest.approx(np.log(5), rel=1e-4)


def test_a_negative_loss_is_measured_from_its_end():
    drops = detect(T, stairs([2, 40], [2, -1, -3], 0.02))
    assert np.allclose([d.time for d in drops], [2, 40], rtol=1e-3)


@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4), st.floats(0.05, 0.95))
def test_interpolation_with_slopes_is_exact_for_cubics(coefficients, x):
    cubic = np.polynomial.Polynomial(coefficients)
    t = np.array([0.0, 0.7, 1.0])
    value = interpolate(t, cubic(t), cubic.deriv()(t), np.array(x))
    assert np.isclose(value, cubic(x), atol=1e-12)


def test_crossing_is_located_on_the_interpolant():
    t = np.linspace(0, 3, 31)
    loss = np.exp(-t)
    assert np.isclose(crossing(t, loss, -loss, 0.3), -np.log(0.3), rtol=1e-6)
    assert np.isclose(crossing(t, loss, NONE, 0.3), -np.log(0.3), rtol=1e-3)
    assert crossing(t, loss, NONE, 2.0) == 0.0
    assert crossing(t, loss, NONE, 0.01) == np.inf


@pytest.mark.parametrize(
    ("times", "losses", "why"),
    [
        ([0, 2, 1], [3, 2, 1], "backwards at index 2"),
        ([-1, 2], [3, 2], "negative"),
        ([0, 1], [3, np.nan], "non-finite"),
        ([0, 1], [3, 2, 1], "length"),
        ([], [], "number of points"),
    ],
)
def test_what_is_no_curve_is_refused(times, losses, why):
    with pytest.raises(DataError, match=why):
        detect(np.array(times, dtype=float), np.array(losses, dtype=float))


# -- files ------------------------------------------------------------------------------------------------------


def written(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "step,loss\n0,2.0\n10,1.0\n20,0.5\n",
        "Step;Loss;lr\n0;2.0;0.1\n10;1.0;0.1\n20;0.5;0.1\n",
        "# a comment\nloss\tstep\n2.0\t0\n1.0\t10\n0.5\t20\n\n",
        "0,2.0\n10,1.0\n20,0.5\n",
        "0 2.0\n10  1.0\n20 0.5\n",
        "\ufeffstep, loss, name\n0, 2.0, a\n10, 1.0, b\n20, 0.5, c\n",
    ],
)
def test_curves_trained_elsewhere_are_read_with_their_time_map(tmp_path, text):
    run = Trajectory.from_csv(written(tmp_path, text), lr=0.1, momentum=0.9)
    assert np.allclose(run.times, [0, 10, 20])  # 10 steps x 0.1 / (1 - 0.9)
    assert np.allclose(run.losses, [2, 1, 0.5])
    assert run.status is Status.CURVE
    assert "step x lr / (1 - momentum)" in run.notes[0]


def test_columns_are_named_or_numbered(tmp_path):
    path = written(tmp_path, "epoch,wall,val\n0,5,2.0\n1,6,1.0\n")
    assert np.allclose(Trajectory.from_csv(path, time="wall", loss="val").times, [5, 6])
    assert np.allclose(Trajectory.from_csv(path, step="epoch", loss=-1, lr=0.5).times, [0, 0.5])
    times = Trajectory.from_csv(written(tmp_path, "t,loss\n0,2.0\n7,1.0\n"))
    assert np.allclose(times.times, [0, 7])
    assert "flow times" in times.notes[0]


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("", {"lr": 0.1}, "empty"),
        ("step,loss\n", {"lr": 0.1}, "no rows"),
        ("step,loss\n0,1\n", {}, "steps need a learning rate.*on the command line --lr"),
        ("step,acc\n0,1\n", {"lr": 0.1}, "no column 'loss'.*columns step, acc.*Call it 'loss' in the file"),
        ("step,loss\n0,1\n1,oops\n", {"lr": 0.1}, "not finite numbers, the first in row 2"),
        ("step,loss\n0,1\n1,nan\n", {"lr": 0.1}, "not finite numbers"),
        ("step,loss\n0,1\n1\n", {"lr": 0.1}, "row 2 has 1 cells"),
        ("step,loss\n1,1\n0,1\n", {"lr": 0.1}, "backwards"),
        ("step,loss\n0,1\n", {"lr": -1.0}, "lr"),
        ("step,loss\n0,1\n", {"lr": 0.1, "momentum": 1.0}, "momentum"),
        ("time,loss\n0,1\n", {"time": "time", "lr": 0.1}, "`lr` is for steps"),
        ("time,step,loss\n0,1,1\n", {"time": "time", "step": "step"}, "both"),
        ("step,loss\n0,1\n", {"loss": 5, "lr": 0.1}, "no column 5"),
    ],
)
def test_what_is_no_curve_file_is_refused_in_a_sentence(tmp_path, text, options, why):
    with pytest.raises(RequestError, match=why):
        Trajectory.from_csv(written(tmp_path, text), **options)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        Trajectory.from_csv(tmp_path / "none.csv", lr=0.1)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FileError, match="not text"):
        Trajectory.from_csv(tmp_path / "binary.csv", lr=0.1)


def test_the_curve_of_a_loop_is_written_as_it_is_read(tmp_path):
    class Lazy:
        """A loss that counts how often it is fetched."""

        fetched = 0

        def __init__(self, value):
            self.value = value

        def __float__(self):
            Lazy.fetched += 1
            return float(self.value)

    curve = agf.CurveWriter(tmp_path / "curve.csv")
    for step in range(20_000):
        curve(Lazy(1.0 + np.exp(-0.001 * step)))
        if step == 100:  # what a run that is killed leaves
            assert agf.Trajectory.from_csv(tmp_path / "curve.csv", lr=0.5).times[-1] == 50.0
    run = agf.Trajectory.from_csv(tmp_path / "curve.csv", lr=0.5)
    assert run.times.size == Lazy.fetched < 2000
    np.testing.assert_array_equal(run.losses, 1.0 + np.exp(-0.002 * run.times))
    assert (np.diff(np.log(run.times[1:])) < 0.7).all()
    with pytest.raises(FileError, match="folder does not exist"):
        agf.CurveWriter(tmp_path / "none" / "curve.csv")


@pytest.mark.parametrize("scale", [1e-290, 1e-200, 1e160, 1e290])
def test_drops_are_found_in_losses_of_any_unit(scale):
    times = np.geomspace(1.0, 1e4, 400)
    losses = 1.0 / (1 + (times / 20) ** 4) + 0.1 / (1 + (times / 1000) ** 4) + 0.01
    noisy = losses * (1 + 1e-4 * np.random.default_rng(0).standard_normal(400))
    for curve in (losses, noisy):
        usual = [drop.time for drop in detect(times, curve)]
        assert len(usual) == 2
        assert [drop.time for drop in detect(times, curve * scale)] == pytest.approx(usual, rel=1e-9)


@pytest.mark.parametrize("size", [0.01, 0.1])
@pytest.mark.parametrize("relative", [False, True], ids=["noise of one size", "noise in proportion"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_makes_no_plateaus_in_a_slide(size: float, relative: bool, seed: int) -> None:
    # a power of time has none; the scatter of minibatches is in proportion to the loss
    t = 0.01 * np.arange(1, 20_001)
    losses = 1.0 / (1.0 + t / 5.0)
    scatter = size * np.random.default_rng(seed).standard_normal(t.size)
    noisy = losses * np.exp(scatter) if relative else np.abs(losses + losses.mean() * scatter)
    assert len(detect(t, noisy)) == 1


@pytest.mark.parametrize("size", [1e-3, 1e-2])
@pytest.mark.parametrize("seed", range(3))
def test_noise_in_proportion_hides_no_late_drop(size: float, seed: int) -> None:
    # two drops of a decade each: the second is as high as the scatter at the start where that is a tenth
    t = 0.01 * np.arange(1, 20_001)
    losses = 0.01 + 0.9 / (1.0 + np.exp(t - 30.0)) + 0.09 / (1.0 + np.exp((t - 120.0) / 3.0))
    noisy = losses * np.exp(size * np.random.default_rng(seed).standard_normal(t.size))
    assert [round(drop.time, -1) for drop in detect(t, noisy)] == [30.0, 120.0]


def test_a_fall_that_begins_at_time_zero_begins_at_its_loss_there_and_is_read_by_cubics():
    # An output bias fits the mean at once: L = 1/2 + exp(-2 t) / 10, half-way at log(2) / 2. Lines between these points
    # are up to .04 off; cubics through them, of third order in the gaps, a thirtieth of that.
    t = np.concatenate([[0.0], np.linspace(0.05, 6.0, 24), [50.0]])
    drop = detect(t, 0.5 + 0.1 * np.exp(-2 * t))[0]
    assert drop.before == 0.6
    assert drop.time == pytest.approx(0.5 * np.log(2), rel=1e-2)


def test_what_rounding_makes_of_the_last_loss_is_no_drop():
    # Of a table of condition 1e9 the loss is right to 4e-11, and above its least are a hundred such wiggles.
    losses = stairs([1, 30], [1.0, 0.5 + 4e-9, 0.5], 0.02)
    assert len(detect(T, losses, slopes=np.gradient(losses, T), left=1e-9)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_slopes_of_a_curve_without_any_are_those_of_scipy_and_none_where_times_repeat(seed):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(size=20))
    losses = np.cumsum(rng.exponential(size=20) * (rng.random(20) < 0.7))[::-1].copy()
    assert monotone(times, losses) == pytest.approx(PchipInterpolator(times, losses).derivative()(times), abs=1e-12)
    stairs = monotone(np.repeat(times, 2)[1:], np.repeat(losses, 2)[:-1])
    assert np.all(stairs == 0.0)


def test_swings_of_momentum_past_a_plateau_are_no_drops(rng):
    """A mode that overshoots is learned once: the loss at its first passing is that of the plateau."""
    x = rng.standard_normal((60, 3))
    x -= x.mean(axis=0)
    x = np.linalg.qr(x)[0] * np.sqrt(60)  # coordinates of their own: plateaus of half the squares that are left
    problem = agf.problem("diagonal-linear", X=x, y=x @ np.array([2.0, -1.0, 0.3]))
    init = problem.init(1e-4)
    descent = agf.descend(problem, init, lr=0.01, steps=12_000, momentum=0.9)
    assert rises(descent.losses)[1].max() > 0.03 * descent.losses[0]
    levels = [drop.after / descent.losses[0] for drop in descent.drops]
    np.testing.assert_allclose(levels, [1.09 / 5.09, 0.09 / 5.09, 0.0], atol=1e-2)
    noisy = descent.losses * (1 + 1e-3 * rng.standard_normal(descent.losses.size))
    assert swinging(descent.times, noisy) == detect(descent.times, noisy)
    steady = agf.descend(problem, init, lr=0.01, steps=5000)
    assert swinging(steady.times, steady.losses) == detect(steady.times, steady.losses)


def test_a_kink_that_is_crossed_slowly_is_no_plateau():
    # exp(-t), whose fall goes on at a tenth of its rate for a thousandth of the drop, and for as long as a plateau has
    for stall, drops in ((0.01, 1), (3.0, 2)):
        t = np.sort(np.concatenate([np.linspace(0.01, 12.0, 2000), np.linspace(3.0, 3.0 + 2.0 * stall, 200)]))
        slow = (t >= 3.0) & (t < 3.0 + stall)
        losses = np.exp(-np.where(slow, 3.0 + 0.1 * (t - 3.0), t - 0.9 * stall * (t >= 3.0)))
        assert len(detect(t, losses, slopes=-losses * np.where(slow, 0.1, 1.0), left=1e-9)) == drops


def test_a_run_that_ended_as_quiet_is_read_relative_to_what_it_may_still_lose():
    # a late drop that is small next to the loss that stays
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 2000)])
    losses, slopes = np.full(times.size, 0.4), np.zeros(times.size)
    for height, time in ((0.6, 10.0), (5e-5, 1e3)):
        left = 1.0 / (1.0 + np.exp(np.minimum(10.0 * (times / time - 1.0), 500.0)))
        losses += height * left
        slopes -= height * 10.0 / time * left * (1.0 - left)
    seen = [
        len(Trajectory("p", 2, "rk45", times, losses, Status.QUIET, slopes=slopes, stats=stats).drops)
        for stats in ({}, {"left": 1e-6})
    ]
    assert seen == [1, 2]


@pytest.mark.parametrize("size", [1e-5, 3e-4])
def test_scatter_of_one_drop_hides_no_later_one(size):
    """Of a computed curve, as kinks shake it where they are passed: by that of all of it the second drop was none."""
    t = np.geomspace(1.0, 1e4, 600)
    parts = [(1.0, 10.0), (1e-3, 1e3)]
    losses = sum(a / (1 + (t / at) ** 4) for a, at in parts)
    slopes = sum(-4 * a * (t / at) ** 4 / t / (1 + (t / at) ** 4) ** 2 for a, at in parts)
    clean = detect(t, losses, slopes=slopes, left=0.0)
    seen = detect(t, losses + size * (t < 30) * np.sin(3.0 * np.arange(t.size)), slopes=slopes, left=0.0)
    assert len(seen) == len(clean) == 2
    assert seen[1].time == pytest.approx(clean[1].time, rel=1e-9)
    assert seen[1].before == pytest.approx(clean[1].before, rel=1e-9)


@pytest.mark.parametrize("size", [0.01, 0.1])
def test_a_loss_that_rises_where_a_kink_is_passed_makes_no_plateau(size):
    """Scatter in one place made all rates there smaller than elsewhere: an exponential fall was two drops."""
    t = np.sort(np.concatenate([np.linspace(0.01, 14.0, 1500), np.linspace(3.0, 3.008, 40)]))
    past = np.maximum(t - 3.0, 0.0) / 1e-3
    drops = detect(t, np.exp(-t) + size * np.exp(-3.0) * past * np.exp(-past), slopes=-np.exp(-t), left=1e-9)
    assert len(drops) == 1
    assert np.exp(-drops[0].time) == pytest.approx(0.5 * np.exp(-0.01), rel=1e-3)


@pytest.mark.parametrize("size", [0.002, 0.05])
def test_kinks_that_are_passed_fast_make_no_drops_of_their_own(size):
    """An exponential fall that twice loses a little at once is one drop: each jump was as steep as a hump is high."""
    width, at = 4e-4, np.array([[1.0], [1.5]])
    t = np.sort(np.concatenate([np.linspace(0.01, 14.0, 1500), *(np.linspace(a, a + 2 * width, 20) for a in at[:, 0])]))
    losses = np.exp(-t - size * np.clip((t - at) / width, 0.0, 1.0).sum(axis=0))
    steep = 1.0 + size / width * ((t >= at) & (t < at + width)).sum(axis=0)
    drops = detect(t, losses, slopes=-losses * steep, left=1e-9)
    assert len(drops) == 1
    assert drops[0].time == pytest.approx(np.log(2.0) + 0.01, rel=1e-3)


def test_a_bound_at_the_end_does_not_change_how_the_curve_before_is_read():
    """Of one curve, ended by a bound or by a rate: how flat a plateau is, is told by what is left there."""
    t = np.concatenate([[0.0], np.geomspace(0.1, 3e4, 4000)])
    parts = [(0.5, 1.0), (1e-3, 30.0), (3e-5, 300.0)]
    losses = 0.3 + sum(size * np.exp(-t / time) for size, time in parts)
    slopes = sum(-size / time * np.exp(-t / time) for size, time in parts)
    seen = [
        [drop.time for drop in Trajectory("p", 2, "rk45", t, losses, Status.SETTLED, slopes=slopes, stats=stats).drops]
        for stats in ({"left": 1e-14}, {"left": 2.9e-6})
    ]
    assert seen[0] == seen[1]


def test_chatter_of_losses_that_their_slopes_do_not_have_makes_no_drops():
    """A neuron along a rounded kink makes the loss fall in steps: 134 drops of a fall that was one."""
    t = np.linspace(1.0, 14.0, 6000)
    losses = np.exp(-t - 0.95 * np.sin(600.0 * t) / 600.0)
    assert len(detect(t, losses, slopes=-np.exp(-t), left=1e-9)) == 1
    assert len(detect(t, losses, slopes=-losses * (1.0 + 0.95 * np.cos(600.0 * t)), left=1e-9)) > 100


@pytest.mark.parametrize(
    "content", ["time,loss\n0," + "1" * 200_000 + "\n", "time,loss\n0,1\n1," + "x" * 200_000, "x" * 200_000]
)
def test_a_cell_that_no_csv_has_is_a_sentence(tmp_path, content):
    (tmp_path / "curve.csv").write_text(content, encoding="utf-8")
    with pytest.raises(agf.FileError, match=r"cannot read .*curve\.csv"):
        agf.Trajectory.from_csv(tmp_path / "curve.csv")


@pytest.mark.parametrize("path", ["a\0b", None, 3.5, "absent.csv"])
def test_what_is_no_curve_file_is_a_sentence(path):
    with pytest.raises(agf.FileError, match="cannot read"):
        agf.Trajectory.from_csv(path)
