"""Words on a logarithmic time axis: round, different from one another, and apart as they are drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from agf.pictures import ticks


def drawn(low, high, width=6.4, **style):
    """The words on a log time axis from low to high, left to right, and their extents as rendered."""
    import matplotlib as mpl

    with mpl.rc_context(style):
        figure = Figure(figsize=(width, 2.0))
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        ax.plot([low, high], [0, 1])
        ticks.log_time(ax)
        ax.set_xlim(low, high)
        figure.draw_without_rendering()
    labels = [tick for tick in (*ax.get_xticklabels(), *ax.get_xticklabels(minor=True)) if tick.get_text()]
    shown = [label for label in labels if low <= label.get_position()[0] <= high]
    shown.sort(key=lambda label: label.get_position()[0])
    return [label.get_text() for label in shown], [label.get_window_extent() for label in shown]


RANGES = [(60.0, 90.0), (40.0, 135.0), (60.0, 60.3), (9.99, 10.01), (95.0, 1100.0), (1.0, 2.0), (3e4, 9e6), (2e5, 4e5),
          (1e-5, 3e-5), (1e-250, 1e250), (1e250, 3e250), (1e-300, 2e-300), (1.0, 1 + 1e-12), (0.1, 4e3)]  # fmt: skip


@pytest.mark.parametrize("width", [2.0, 6.4, 12.0])
@pytest.mark.parametrize("span", RANGES, ids=str)
def test_words_are_apart_as_rendered_at_every_range_and_size(span, width):
    words, boxes = drawn(*span, width=width)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert len(set(words)) == len(words) >= 1
    if width >= 6.4 and span[1] / span[0] > 1 + 1e-9:
        assert len(words) >= 2  # one word does not say how fast time goes


@settings(max_examples=40)
@given(st.floats(-12, 12), st.floats(1e-6, 14), st.floats(1.5, 14.0), st.sampled_from([6.0, 10.0, 18.0]))
def test_words_are_apart_at_any_range_width_and_font(start, decades, width, size):
    words, boxes = drawn(10.0**start, 10.0 ** (start + decades), width=width, **{"xtick.labelsize": size})
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert len(set(words)) == len(words)


def test_times_are_round_and_written_as_people_write_them():
    assert drawn(60.0, 90.0)[0] == ["60", "65", "70", "75", "80", "85", "90"]
    assert drawn(0.2, 0.6)[0] == ["0.2", "0.25", "0.3", "0.35", "0.4", "0.45", "0.5", "0.55", "0.6"]
    assert drawn(0.2, 0.6, width=3.0)[0] == ["0.2", "0.3", "0.4", "0.5", "0.6"]
    assert drawn(8.0, 700.0)[0] == ["10", "20", "50", "100", "200", "500"]
    assert drawn(0.1, 4000.0, width=4.0)[0] == ["0.1", "1", "10", "100", "1000"]
    assert drawn(3e4, 9e7, width=4.0)[0] == ["$10^{5}$", "$10^{6}$", "$10^{7}$"]


def test_candidates_lie_inside_and_a_unit_of_time_ten_times_as_large_has_the_same_ones():
    for low, high in [(6.0, 9.0), (2.0, 300.0), (1.0, 1.001)]:
        sets, tens = list(ticks.candidates(low, high)), list(ticks.candidates(10 * low, 10 * high))
        for one, ten in zip(sets, tens, strict=True):
            assert not one.size or (one.min() >= low * (1 - 1e-6) and one.max() <= high * (1 + 1e-6))
            if one.size > 1:  # a lone power of ten is one that a stride meets
                np.testing.assert_allclose(ten, 10 * one, rtol=1e-12)


def test_the_words_follow_a_zoom():
    figure = Figure(figsize=(6.4, 2.0))
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    ax.plot([1, 1e6], [0, 1])
    ticks.log_time(ax)
    for span in [(1.0, 1e6), (70.0, 71.0)]:
        ax.set_xlim(*span)
        figure.canvas.draw()
        inside = [tick for tick in ax.get_xticks() if span[0] <= tick <= span[1]]
        assert 3 <= len(inside) <= 9
