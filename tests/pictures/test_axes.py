"""The scale of the loss shows every drop, names of drops keep apart, and legends hide nothing."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import agf
from agf.pictures import axes


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(1e-3, 0.1))
def test_spreading_keeps_the_order_the_gap_and_the_mean(positions, gap):
    positions = np.sort(positions)
    placed = axes.spread(positions, gap)
    assert (np.diff(placed) >= gap - 1e-12).all()
    assert placed.mean() == pytest.approx(positions.mean(), abs=1e-12)
    if (np.diff(positions) >= gap).all():
        np.testing.assert_allclose(placed, positions, atol=1e-12)  # nothing moves that need not


def drawn(*runs):
    """Axes with these levels drawn as a staircase and scaled, and the heights of the levels in the picture."""
    ax = Figure().subplots()
    ax.step(np.arange(len(runs[0])), runs[0], where="post")
    ax.set_ylabel("loss")
    axes.loss_scale(ax, [np.asarray(run) for run in runs])
    ax.get_ylim()  # matplotlib sets the limits of a linear axis when asked
    to_axes = ax.transScale + ax.transLimits
    return ax, np.array([to_axes.transform((0.0, level))[1] for level in runs[0]])


#: Levels of a diagonal network on the diabetes data: the last falls are 1e-5 to 1e-3 of the first.
LATE = (0.5, 0.328, 0.2703, 0.26, 0.25425, 0.2457, 0.2453, 0.24328, 0.24271, 0.24224, 0.241265, 0.241126)


@pytest.mark.parametrize("levels", [LATE, (1.0, 1e-2, 1e-4, 1e-31), (90.0, 13.0, 2.3, 1.0, 0.17, 0.0)])
def test_every_drop_is_seen_and_every_level_is_in_the_picture(levels):
    ax, heights = drawn(levels)
    assert ax.get_yscale() == "function"
    assert (-np.diff(heights)).min() > 0.008  # of the height of the axes; on a linear one it is 1e-4 to 1e-2
    assert heights.min() >= 0
    assert heights.max() <= 1


def test_a_scale_on_which_every_drop_is_seen_stays_linear():
    ax, _ = drawn((1.0, 0.6, 0.3, 0.1))
    assert ax.get_yscale() == "linear"
    assert ax.get_ylabel() == "loss"
    assert drawn((0.5, 0.5))[0].get_yscale() == "linear"
    assert drawn((0.5,))[0].get_yscale() == "linear"


@pytest.mark.parametrize(
    "levels",
    [
        (0.5, 0.03, 0.02, 0.01, 0.0),  # 2 % of a linear axis
        (1.0, 0.04, 0.039, 0.038),  # .6 % of decades above 0
        (1.0, 0.3, 0.299, 0.2985),
    ],
)
def test_the_scale_is_that_on_which_the_smallest_drop_is_seen(levels):
    ax, heights = drawn(levels)
    assert (-np.diff(heights)).min() > 0.9 * axes._VISIBLE  # the axis has some room at its ends
    assert ax.get_yscale() == "function"


def test_ticks_are_losses_where_levels_span_decades_and_distances_where_they_do_not():
    ax, _ = drawn((1.0, 1e-2, 1e-4, 1e-31))
    words = dict(zip(ax.get_yticks(), (text.get_text() for text in ax.get_yticklabels()), strict=True))
    assert all(float(word) == pytest.approx(tick) for tick, word in words.items())
    assert words[0.0] == "0"
    ax, _ = drawn(LATE)
    words = dict(zip(ax.get_yticks(), (text.get_text() for text in ax.get_yticklabels()), strict=True))
    assert words.pop(LATE[-1]) == "0.2411"
    for tick, word in words.items():
        assert word[0] == "+"
        assert LATE[-1] + float(word) == pytest.approx(tick)
    assert "above 0.2411" in ax.get_ylabel()


@given(
    st.lists(st.floats(1e-12, 1.0), min_size=2, max_size=12, unique=True), st.sampled_from([2.0**-830, 1.0, 2.0**830])
)
def test_the_scale_is_monotone_and_covariant(levels, unit):
    levels = np.sort(levels)[::-1]
    _, heights = drawn(levels)
    _, scaled = drawn(levels * unit)
    assert (np.diff(heights) <= 0).all()
    np.testing.assert_allclose(scaled, heights, atol=1e-6)


def test_what_is_drawn_already_stays_in_the_picture():
    ax = Figure().subplots()
    ax.plot([0, 1], [0.5, 0.2405])  # below the last level
    axes.loss_scale(ax, [np.array(LATE)])
    assert ax.get_ylim()[0] < 0.2405
    assert ax.get_yscale() == "function"


@pytest.mark.parametrize("letters", [5, 16, 28])
def test_the_legend_is_not_wider_than_the_figure_has_room(letters):
    ax = axes.new_axes()
    for k in range(7):
        ax.plot([0, 1], [k, k], label=f"{k} " + "m" * letters)
    axes.legend_below(ax)
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= ax.figure.bbox.x1
    assert (ax.get_legend()._ncols == 3) == (letters == 5)


def test_the_legend_is_below_the_axes_whatever_their_size():
    for size in ((3.0, 2.0), (9.0, 7.0)):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        ax.plot([1, 2], [2, 1], label="gradient flow")
        ax.set_xlabel("flow time")
        axes.legend_below(ax)
        figure.draw_without_rendering()
        legend, label = ax.get_legend().get_window_extent(), ax.xaxis.label.get_window_extent()
        assert legend.y1 < label.y0 + 1
        assert legend.y0 >= 0


def test_runs_of_very_different_losses_share_one_axis():
    ax, _ = drawn(LATE, tuple(1e-20 * level for level in LATE))
    assert ax.get_yscale() == "function"
    assert np.isfinite(ax.get_ylim()).all()


@pytest.mark.parametrize("height", [1.5, 3.0, 7.0])
@pytest.mark.parametrize("decades", [1.5, 6.0, 16.0, 30.0])
@pytest.mark.parametrize("base", [0.0, 3.0])
def test_words_of_losses_are_apart_as_rendered_and_the_lowest_level_is_one_of_them(base, decades, height):
    levels = base + np.geomspace(1.0, 10.0**-decades, 9)
    figure = Figure(figsize=(4.0, height), layout="constrained")
    ax = figure.subplots()
    ax.step(np.arange(9), levels, where="post")
    axes.loss_scale(ax, [levels])
    figure.draw_without_rendering()
    labels = sorted((one for one in ax.get_yticklabels() if one.get_text()), key=lambda one: one.get_position()[1])
    boxes = [label.get_window_extent() for label in labels]
    assert all(below.y1 < above.y0 for below, above in pairwise(boxes))
    assert len(boxes) >= 2
    if ax.get_yscale() == "function":
        assert labels[0].get_text() == (f"{levels[-1]:.4g}" if base else "0")


def test_an_axis_that_is_not_linear_says_so():
    assert drawn((1.0, 1e-2, 1e-4, 1e-31))[0].get_ylabel() == "loss (log, linear below 3.3e-05)"
    label = drawn(LATE)[0].get_ylabel()
    assert label == "loss (log of what is above 0.2411)"


@pytest.mark.parametrize("odd", ["$x^$", r"$\frac{", "a\tb\x1b[31m", "_hidden", "", "b" * 500, "\u8eab\u9ad8"])
def test_names_of_the_user_are_drawn_as_they_are(tmp_path, odd):
    """A column "$x^$" is no formula, "_x" is not left out of the legend, and a long one leaves room for the axes."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    problem = agf.problem("diagonal-linear", X=X, y=X @ [3.0, -2.0], names=[odd, "y"])
    start = problem.init(1e-4)
    stairs, flow = agf.predict(problem, start), agf.flow(problem, start)
    drawn = [stairs.plot(), agf.compare(stairs, flow).plot(), agf.plot.features(flow), agf.plot.neurons(flow)]
    drawn += [agf.graph.draw(stairs.graph()), agf.landscape(problem, None).plot(), agf.plot.charges(flow)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for axes in drawn:
            agf.plot.save(axes, tmp_path / "a.svg")
    assert len(agf.plot.features(flow).get_legend().get_texts()) == 2


def test_a_letter_that_no_font_of_the_user_has_is_written_out_and_others_are_drawn():
    import matplotlib as mpl

    assert axes.plain("Gr\u00f6\u00dfe") == "Gr\u00f6\u00dfe"  # DejaVu Sans, the default, has these
    assert axes.plain("\u8eab \U00012000$") == r"\u8eab \U00012000\$"
    with mpl.rc_context({"font.family": ["cmr10"]}):  # the letters of TeX: no sharp s
        assert axes.plain("\u0416x") == r"\u0416x"
    with mpl.rc_context({"font.family": ["cmr10", "no such font", "DejaVu Sans"]}):
        assert axes.plain("\u0416x") == "\u0416x"


def test_drops_of_one_picture_are_all_called_alike():
    several, one = "coordinates 2 (pressure), 8 (cholesterol)", "coordinate 3 (age)"
    for labels, shown in (([several, one], ["pressure, cholesterol", "age"]), ([one], [one])):
        ax = Figure().subplots()
        ax.set_xlim(0, 3)
        axes.drop_rules(ax, np.arange(1.0, 1 + len(labels)), labels)
        assert [text.get_text() for text in ax.texts] == shown
