"""Pictures: what is drawn is what was computed, axes come back, and nothing global is touched."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import agf
from agf import plot
from agf.clock import Clock
from agf.errors import FileError, RequestError
from agf.init import Init
from agf.pictures import axes as canvas
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

TIMES = np.array([10.0, 20.0, 20.5, 400.0])
LEVELS = np.array([1.0, 0.8, 0.5, 0.4, 0.1])


def staircase(times=TIMES, levels=LEVELS, **fields) -> Staircase:
    drops = tuple(
        Drop(
            time=1.02 * time,
            half_time=time,
            accelerated_time=0.1 * time,
            level=level,
            neurons=np.array([k]),
            label=f"coordinate {k}",
            features={"beta": np.arange(3.0) * (k + 1)},
        )
        for k, (time, level) in enumerate(zip(times, levels[1:], strict=True))
    )
    options = {"problem": "stub", "degree": 2, "clock": Clock(2, 0.0), "start_level": levels[0], "drops": drops}
    return Staircase(**{**options, "status": Status.FITTED, **fields})


def trajectory(**fields) -> Trajectory:
    times = np.concatenate([[0.0], np.geomspace(0.1, 4000, 800)])
    late = np.maximum(times, 1e-3)
    steps = [(b - a) / (1 + (t / late) ** 30) for a, b, t in zip(LEVELS[:-1], LEVELS[1:], TIMES, strict=True)]
    shots = np.geomspace(0.1, 4000, 7)
    options = {
        "problem": "stub",
        "degree": 2,
        "method": "rk45",
        "times": times,
        "losses": LEVELS[0] + np.sum(steps, axis=0),
        "status": Status.SETTLED,
        "snapshot_times": shots,
        "log_norms": np.linspace(-10, 0, 7)[:, None] + np.log(np.arange(1.0, 12.0)),
        "features_over_time": {"beta": np.log1p(shots)[:, None] * np.arange(3.0)},
    }
    return Trajectory(**{**options, **fields})


def texts(ax) -> str:
    return " | ".join(text.get_text() for text in ax.texts)


def test_steps_are_the_levels_at_the_half_drop_times():
    ax = plot.staircase(staircase())
    (line,) = [line for line in ax.lines if line.get_label() == "predicted"]
    np.testing.assert_array_equal(line.get_xdata()[1:-1], TIMES)
    np.testing.assert_array_equal(line.get_ydata()[:-1], LEVELS)
    assert line.get_drawstyle() == "steps-post"
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "flow time"
    low, high = ax.get_xlim()
    assert low < TIMES[0]
    assert TIMES[-1] < high


def test_every_drop_has_a_rule_and_its_name():
    ax = plot.staircase(staircase())
    rules = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert rules == TIMES.tolist()
    assert texts(ax) == "coordinate 0 | coordinate 1 | coordinate 2 | coordinate 3"
    assert not plot.staircase(staircase(), rules=False).texts


@pytest.mark.parametrize("size", [(3.0, 2.0), (6.4, 4.8), (12.0, 4.0)])
@pytest.mark.parametrize("times", [[10.0, 10.01, 10.02, 400.0], [10.0, 399.0, 399.5, 400.0]])
def test_names_of_close_drops_do_not_overlap_and_stand_above_the_axes(times, size):
    figure = Figure(figsize=size, layout="constrained")
    ax = plot.staircase(staircase(times=np.array(times)), ax=figure.subplots())
    figure.draw_without_rendering()
    words = [Text.get_window_extent(text) for text in ax.texts]  # an annotation's own extent has its leader in it
    assert len(words) == 4
    frame = ax.get_window_extent()
    assert all(left.x1 < right.x0 for left, right in pairwise(words))
    assert all(word.y0 > frame.y1 and frame.x0 - 10 < word.x0 and word.x1 < frame.x1 + 10 for word in words)


def test_more_names_than_fit_are_left_to_the_table():
    narrow = Figure(figsize=(2.0, 2.0)).subplots()
    assert not plot.staircase(staircase(times=np.geomspace(1, 9, 20), levels=np.linspace(1, 0, 21)), ax=narrow).texts


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("coordinate 2 (bmi)", "coordinate 2 (bmi)"),
        ("coordinates 1 (bmi), 4 (blood pressure)", "bmi, blood pressure"),
        ("coordinate 2 (mean arterial pressure)", "mean arterial pressure"),
        ("coordinate 2 (mean arterial blood pressure)", "coordinate 2"),
        ("coordinates 1 (bmi), 4 (mean arterial pressure)", "coordinates 1, 4"),
        ("modes 1 (sigma 3.1), 2 (sigma 2.2)", "modes 1, 2"),
        ("neurons 0 (class 4), 13, 25 (class 5), 26, 27, 28", "neurons 0, 13 + 4 more"),
        ("frequency 5 and frequency 7", "frequency 5 + 1 more"),
        ("a single word without any end", "a single word without..."),
    ],
)
def test_a_long_name_says_all_that_was_learned_or_how_much_more_it_is(label, short):
    assert canvas.short(label) == short
    assert len(short) <= canvas._LONGEST_LABEL


def test_an_empty_staircase_is_a_level_with_a_sentence():
    ax = plot.staircase(staircase(times=[], levels=[0.5], status=Status.NO_GROWTH))
    assert set(ax.lines[0].get_ydata()) == {0.5}
    assert "no drop is predicted (no_growth)" in texts(ax)


def test_a_theory_without_flow_times_is_drawn_in_accelerated_time():
    stairs = staircase(status=Status.THEORY)
    timeless = tuple(replace(drop, time=np.nan, half_time=np.nan) for drop in stairs.drops)
    ax = plot.staircase(replace(stairs, drops=timeless))
    assert ax.get_xlabel() == "accelerated time"
    assert ax.get_xscale() == "linear"
    np.testing.assert_allclose(ax.lines[0].get_xdata()[1:-1], 0.1 * TIMES)
    with pytest.raises(RequestError, match="cannot share axes in flow time"):
        plot.overlay([replace(stairs, drops=timeless), trajectory()])


def test_a_resolved_prediction_is_drawn_as_its_curve():
    times, losses = np.array([0.0, 5.0, 30.0, 1000.0]), np.array([1.0, 0.9, 0.5, 0.1])
    ax = plot.staircase(staircase(curve_times=times, curve_losses=losses))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), losses)
    assert ax.lines[0].get_drawstyle() == "default"


def test_a_drop_at_time_zero_can_be_drawn(tmp_path):
    plot.save(plot.staircase(staircase(times=[0.0, 2.0], levels=[1.0, 0.5, 0.1])), tmp_path / "a.png")


def test_extreme_times_can_be_drawn(tmp_path):
    for times in ([1e-300, 2e-300], [1e250, 3e250]):
        plot.save(plot.staircase(staircase(times=times, levels=[1.0, 0.5, 0.1])), tmp_path / "a.png")


def test_a_trajectory_is_its_recorded_curve_with_marks_half_way_down():
    traj = trajectory()
    ax = plot.trajectory(traj)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), traj.times[1:])  # log time has no zero
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), traj.losses[1:])
    np.testing.assert_allclose(ax.lines[1].get_xdata(), [drop.time for drop in traj.drops])
    assert "no loss was recorded" in texts(plot.trajectory(trajectory(times=np.zeros(1), losses=np.ones(1))))


def test_overlaid_predictions_and_curves_are_told_apart():
    other = staircase(init=Init.from_params(np.ones((2, 2)), alpha=1e-3))
    ax = plot.overlay([trajectory(), staircase(), other])
    colours = {line.get_label(): line.get_color() for line in ax.lines if not line.get_label().startswith("_")}
    assert {"gradient flow", "auto", "auto, alpha = 0.001"} <= set(colours)
    assert len({colours["gradient flow"], colours["auto"], colours["auto, alpha = 0.001"]}) == 3
    low, high = ax.get_xlim()
    assert low < TIMES[0]
    assert high >= 4000 * (1 - 1e-9)
    assert ax.get_legend() is not None


def test_pictures_of_one_run_name_their_marks_and_begin_a_plateau_before_the_first_drop():
    for ax in (plot.trajectory(trajectory()), plot.overlay([trajectory()])):
        assert "half-way down a drop" in [text.get_text() for text in ax.get_legend().get_texts()]
    curve = np.geomspace(1e-9, 1e5, 50)
    resolved = staircase(curve_times=curve, curve_losses=np.linspace(2.0, 1.0, 50))
    assert plot.staircase(resolved).get_xlim()[0] == plot.staircase(staircase()).get_xlim()[0]
    both = plot.overlay([trajectory(), resolved])
    widths = {line.get_label(): line.get_linewidth() for line in both.lines}
    assert widths["gradient flow"] > widths["predicted"]


def test_features_are_by_default_the_first_vector_of_the_prediction_and_of_the_trajectory():
    problem = agf.problem("linear", X=np.eye(3), Y=np.diag([3.0, 2.0, 1.0]), width=3)
    start = problem.init(1e-3, seed=0)
    for result in (agf.predict(problem, start), agf.flow(problem, start)):
        ax = plot.features(result)  # neither the matrix "left" nor the number "rank"
        assert ax.get_ylabel() == "singular_values"
        assert len([line for line in ax.lines if line.get_label().startswith("singular")]) == 3
        with pytest.raises(RequestError, match="singular_values, left, rank, right"):
            plot.features(result, "none")


def test_marks_of_a_comparison_are_where_its_table_reads_the_curve():
    """From weights that are not small plateaus slope, and the curve's own middle of a drop is another one."""
    problem = agf.problem("diagonal-linear", X=np.sqrt(2.0) * np.eye(2), y=np.sqrt(2.0) * np.array([2.0, 0.5]))
    start = problem.init(0.1)
    report = agf.compare(agf.predict(problem, start, mode="agf"), agf.flow(problem, start))
    (marks,) = [line for line in plot.comparison(report).lines if line.get_label() == "half-way down a drop"]
    assert list(marks.get_xdata()) == [match.observed_time for match in report.matches]
    levels = report.stairs.levels
    np.testing.assert_allclose(marks.get_ydata(), (levels[:-1] + levels[1:]) / 2)
    np.testing.assert_allclose(marks.get_ydata(), report.trajectory.loss_at(marks.get_xdata()), rtol=1e-4)
    assert report.drops[1].time / report.matches[1].observed_time > 1.05


def test_pairs_of_runs_share_a_colour_and_predictions_are_dashed():
    first, second = (Init.from_params(np.ones((2, 2)), alpha=alpha) for alpha in (1e-3, 1e-4))
    ax = plot.overlay([trajectory(init=first), staircase(init=first), trajectory(init=second), staircase(init=second)])
    lines = {line.get_label(): line for line in ax.lines}
    for alpha in ("0.001", "0.0001"):
        curve, steps = lines[f"gradient flow, alpha = {alpha}"], lines[f"auto, alpha = {alpha}"]
        assert curve.get_color() == steps.get_color()
        assert (curve.get_linestyle(), steps.get_linestyle()) == ("-", "--")


def test_norms_are_drawn_for_every_neuron_and_the_largest_are_named():
    ax = plot.neurons(trajectory())
    assert len(ax.lines) == 11
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == [f"neuron {i}" for i in range(10, 2, -1)]
    assert "recorded no norms" in texts(plot.neurons(trajectory(log_norms=np.zeros((0, 0)))))


def test_features_are_curves_of_a_trajectory_and_steps_of_a_prediction():
    curves = plot.features(trajectory(), "beta", names=["age", "sex", "bmi"])
    assert [text.get_text() for text in curves.get_legend().get_texts()] == ["bmi", "sex", "age"]
    steps = plot.features(staircase())
    np.testing.assert_array_equal(steps.lines[0].get_ydata(), [0, 2, 4, 6, 8, 8])
    np.testing.assert_array_equal(steps.lines[0].get_xdata()[1:-1], TIMES)
    with pytest.raises(RequestError, match=r"no feature 'gamma'.*one of beta"):
        plot.features(staircase(), "gamma")


def test_few_snapshots_are_shown_as_points_and_many_as_a_line():
    few = plot.features(trajectory())
    assert {line.get_marker() for line in few.lines} == {"o"}
    shots = np.geomspace(0.1, 4000, 500)
    dense = trajectory(snapshot_times=shots, features_over_time={"beta": np.log1p(shots)[:, None] * np.arange(3.0)})
    assert {line.get_marker() for line in plot.features(dense).lines} == {"None"}


def test_absent_features_are_said():
    assert "holds no features" in texts(plot.features(trajectory(features_over_time={})))
    assert "no drop is predicted" in texts(plot.features(staircase(times=[], levels=[1.0])))


@pytest.fixture(scope="module")
def orthogonal():
    """Two coordinates that do not interact, with U = 1/2 and 1/4 once aligned: everything is known in closed form."""
    problem = agf.problem("diagonal-linear", X=np.eye(2) * np.sqrt(2.0), y=np.array([1.0, 0.5]) * np.sqrt(2.0))
    init = problem.init(1e-60)
    return agf.predict(problem, init, mode="agf"), agf.flow(problem, init, t_max=600.0)


def test_charges_reach_the_threshold_where_neurons_activate(orthogonal):
    for result in orthogonal:
        ax = plot.charges(result)
        lines = {line.get_label(): line for line in ax.lines if line.get_label() != "_child0"}
        assert "threshold" in texts(ax)
        for k, time in enumerate(orthogonal[0].times[1:]):
            (line,) = [line for label, line in lines.items() if label in (f"coordinate {k}", f"neuron {k}")]
            x, y = line.get_xdata(), line.get_ydata()
            # beta is 1 and 1/2, so R* is 1 and 0.7: 0 and 0.3 % of the threshold for norm 1 at alpha = 1e-60.
            assert np.interp(1.1 * time, x, y) == pytest.approx(1.0, abs=0.01)
            dormant = x < 0.95 * time
            assert dormant.sum() > 10
            np.testing.assert_allclose(y[dormant], x[dormant] / time, atol=0.01)  # linear in time while dormant
    dots = [line for line in plot.charges(orthogonal[0]).lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == orthogonal[0].times[1:].tolist()


def test_utilities_are_those_of_the_aligned_directions(orthogonal):
    stairs, flow = orthogonal
    for result in orthogonal:
        lines = [line for line in plot.utilities(result).lines if line.get_label()[0] != "_"]
        values = {int(line.get_label()[-1]): line for line in lines}
        for k, utility in enumerate([0.5, 0.25]):
            x, y = values[k].get_xdata(), values[k].get_ydata()
            dormant = (x > 0.2 * stairs.times[k + 1]) & (x < 0.8 * stairs.times[k + 1]) & np.isfinite(y)
            if result is flow:
                assert dormant.sum() > 3
            # Alignment and log 2 of the norm cost about 1/100 of a threshold of 138.
            np.testing.assert_allclose(y[dormant], utility, rtol=0.01)
    np.testing.assert_allclose([drop.utility[0] for drop in stairs.drops], [0.5, 0.25], rtol=1e-6)


def test_charges_of_higher_degree_do_not_overflow(tmp_path):
    from tiny import Product

    problem = Product(degree=3, width=2)
    init = Init.scaled(np.array([[1.0, 1.0, 1.0], [0.5, 0.6, 0.4]]), 1e-200)
    flow = agf.flow(problem, init)
    ax = plot.charges(flow)
    values = np.concatenate([line.get_ydata() for line in ax.lines])
    assert np.isfinite(values).all()
    assert values.max() == pytest.approx(1.0, abs=1e-9)  # rho0 / rho is 1e-200
    plot.save(plot.utilities(flow), tmp_path / "a.png")


def test_what_holds_no_norms_says_so():
    for draw in (plot.charges, plot.utilities):
        assert "holds no norms over time" in texts(draw(staircase()))
        assert "holds no norms over time" in texts(draw(trajectory()))


def test_a_prediction_of_modes_says_that_it_follows_no_neurons():
    problem = agf.problem("linear", Sxx=np.eye(3), B=np.diag([3.0, 2.0]) @ np.eye(2, 3), width=5)
    stairs = agf.predict(problem, problem.init(alpha=1e-8), mode="agf")
    for draw in (plot.charges, plot.utilities):
        assert "2 modes, not its 5 neurons" in texts(draw(stairs))


def test_a_band_holds_the_share_of_runs_it_states_at_every_time():
    runs = [staircase(times=TIMES * factor) for factor in np.linspace(0.8, 1.2, 21)]
    ax = plot.bands([*runs, trajectory()])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "trained",
        "predicted: median and 90% of 21 runs",
    ]
    (line,) = [line for line in ax.lines if "predicted" in line.get_label()]
    assert line.get_linestyle() == "--"  # the trained one is seen under it
    x, middle = line.get_xdata(), line.get_ydata()
    # The median of staircases is the staircase at the median times, here those of the run in the middle.
    np.testing.assert_array_equal(middle, LEVELS[np.searchsorted(TIMES, x, side="right")])
    outline = ax.collections[1].get_paths()[0].vertices
    at = np.argmin(abs(x - 8.5))  # 3 of 21 runs have dropped by then: within 90 %, but not the median
    band = outline[np.isclose(outline[:, 0], x[at]), 1]
    assert (band.min(), band.max()) == (LEVELS[1], LEVELS[0])


def test_a_band_ends_where_a_run_was_cut_short_and_needs_flow_times():
    short = trajectory()
    cut = Trajectory("stub", 2, "rk45", short.times[:400], short.losses[:400], Status.MAX_TIME)
    (line,) = plot.bands([cut, staircase()]).lines[:1]
    assert line.get_xdata()[-1] <= short.times[399] * (1 + 1e-9)
    stairs = staircase()
    timeless = replace(stairs, drops=tuple(replace(drop, half_time=np.nan) for drop in stairs.drops))
    with pytest.raises(RequestError, match="a band needs flow times"):
        plot.bands([timeless])
    assert "no run was given" in texts(plot.bands([]))


DRAWINGS = {
    "staircase": lambda ax: plot.staircase(staircase(), ax=ax),
    "trajectory": lambda ax: plot.trajectory(trajectory(), ax=ax),
    "overlay": lambda ax: plot.overlay([trajectory(), staircase()], ax=ax),
    "neurons": lambda ax: plot.neurons(trajectory(), ax=ax),
    "features": lambda ax: plot.features(trajectory(), ax=ax),
    "charges": lambda ax: plot.charges(staircase(), ax=ax),
    "utilities": lambda ax: plot.utilities(trajectory(), ax=ax),
    "bands": lambda ax: plot.bands([staircase()], ax=ax),
}


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_axes_go_in_and_the_same_axes_come_out(draw):
    axes = Figure().subplots(1, 2)
    assert draw(axes[0]) is axes[0]
    assert not axes[1].lines
    assert draw(None).get_figure() is not None


def test_pyplot_is_used_only_by_a_session_that_uses_it(tmp_path):
    code = (
        "import sys\n"
        "from agf import plot\n"
        "plot.save(plot.new_axes(), sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "import matplotlib.pyplot as plt\n"
        "assert plot.new_axes() is plt.gca()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png", ".eps"])
def test_the_suffix_chooses_the_format_and_equal_pictures_are_equal_files(tmp_path, suffix):
    heads = {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG", ".eps": b"%!PS"}
    contents = []
    for name in ("a", "b"):
        ax = plot.staircase(staircase())
        assert plot.save(ax, tmp_path / f"{name}{suffix}") is ax
        contents.append((tmp_path / f"{name}{suffix}").read_bytes())
    assert contents[0].startswith(heads[suffix])
    if suffix != ".eps":  # its header names the file's date whatever we ask
        assert contents[0] == contents[1]


def test_a_picture_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(FileError, match=r"suffix names no picture format. Expected one of .pdf"):
        plot.save(plot.staircase(staircase()), tmp_path / "a.docx")
    with pytest.raises(FileError, match="folder does not exist"):
        plot.save(plot.staircase(staircase()), tmp_path / "absent" / "a.png")
    assert list(tmp_path.iterdir()) == []
    assert plot.save(plot.new_axes(), None) is not None


def test_the_users_style_is_kept():
    import matplotlib as mpl

    with mpl.rc_context({"figure.figsize": (3, 2), "lines.linewidth": 7.0}):
        ax = plot.staircase(staircase())
    assert ax.get_figure().get_size_inches().tolist() == [3, 2]
    assert ax.lines[0].get_linewidth() == 7.0


def test_colours_differ_in_lightness_or_hue_for_colour_blind_readers():
    # Simulated deuteranopia (Vienot et al. 1999, linear RGB): the two colours that carry meaning stay apart.
    from matplotlib.colors import to_rgb

    def seen(colour):
        linear = np.array(to_rgb(colour)) ** 2.2
        return np.array([[0.292, 0.708, 0.0], [0.292, 0.708, 0.0], [-0.022, 0.022, 1.0]]) @ linear

    assert np.linalg.norm(seen(plot.PREDICTED) - seen(plot.OBSERVED)) > 0.3


def test_runs_of_one_name_are_told_apart_and_predictions_are_seen_on_their_curves():
    run = agf.compare(staircase(), trajectory())
    ax = agf.plot.overlay([run, run])
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(set(words)) == 4
    curves = [line for line in ax.lines if line.get_linestyle() == "-"]
    dashes = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [line.get_color() for line in curves] == [line.get_color() for line in dashes]
    assert all(line.get_alpha() < 0.5 for line in curves)
    assert not any(line.get_alpha() for line in dashes)


def test_the_legend_of_runs_of_two_problems_names_them():
    X = np.random.default_rng(0).standard_normal((20, 2))
    made = [
        agf.problem("diagonal-linear", X=X, y=X @ [3.0, -2.0]),
        agf.problem("linear", X=X, Y=X @ np.diag([3.0, 2.0])),
    ]
    runs = [agf.compare(agf.predict(one, start), agf.flow(one, start)) for one in made for start in [one.init(1e-4)]]
    words = [text.get_text() for text in agf.plot.overlay(runs).get_legend().get_texts()]
    assert len(set(words)) == len(words)
    assert sum("diagonal-linear" in word for word in words) == 2
    assert not any(
        "linear" in word for word in [text.get_text() for text in agf.plot.overlay(runs[:1]).get_legend().get_texts()]
    )


def test_a_colour_that_matplotlib_does_not_know_is_named():
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=[2.0, 1.0])
    init = problem.init(1e-4)
    for run in (agf.predict(problem, init), agf.flow(problem, init, t_max=1.0)):
        with pytest.raises(agf.RequestError, match=r"no such colour\. Found 'bluish'"):
            run.plot(color="bluish")
