"""The saddle graph: names, merging, probabilities, exports."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from matplotlib.text import Text

import agf
from agf import graph, plot
from agf.clock import Clock
from agf.errors import FileError, RequestError
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase


def stairs(*steps, problem="toy"):
    """A staircase from (neurons, collapsed, label) triples; levels fall by one each."""
    drops = tuple(
        Drop(
            time=float(k),
            half_time=float(k),
            accelerated_time=k / 10,
            level=10.0 - k,
            neurons=np.array(neurons),
            collapsed=np.array(collapsed, dtype=int),
            label=label,
            utility=np.ones(len(neurons)),
            runner_up=(9, 0.5),
        )
        for k, (neurons, collapsed, label) in enumerate(steps, 1)
    )
    return Staircase(problem, 2, Clock(2, 1.0), 10.0, drops, Status.FITTED)


ONE = ([1], [], "coordinate 1")
TWO = ([2], [], "coordinate 2")


def test_one_run_is_a_path_with_its_times_and_levels():
    g = graph.saddles([stairs(ONE, TWO)])
    assert list(nx.topological_sort(g)) == ["nothing", "coordinate 1", "coordinate 1, 2"]
    assert g.nodes["coordinate 1"]["level"] == 9.0
    assert g.edges["nothing", "coordinate 1"]["accelerated_time"] == 0.1
    assert g.edges["nothing", "coordinate 1"]["runner_up_gap"] == 0.5
    assert graph.most_likely_path(g) == list(nx.topological_sort(g))


def test_order_of_acquisition_branches_and_meets_again_with_counts_that_add_up():
    g = graph.saddles([stairs(ONE, TWO), stairs(TWO, ONE), stairs(ONE, TWO)])
    assert g.edges["nothing", "coordinate 1"]["probability"] == pytest.approx(2 / 3)
    assert g.edges["nothing", "coordinate 2"]["count"] == 1
    assert g.nodes["coordinate 1, 2"]["visits"] == 3
    assert graph.most_likely_path(g)[1] == "coordinate 1"
    for node in g:
        leaving = sum(d["probability"] for _, _, d in g.out_edges(node, data=True))
        assert leaving + g.nodes[node]["ends"] / g.nodes[node]["visits"] == pytest.approx(1.0)


def test_a_collapsed_neuron_leaves_the_name_and_can_come_back():
    g = graph.saddles([stairs(ONE, ([2], [1], "coordinate 2"), ONE)])
    assert "coordinate 2" in g
    assert g.has_edge("coordinate 2", "coordinate 1, 2")


def test_a_run_that_ends_early_lowers_the_probability_of_going_on():
    g = graph.saddles([stairs(ONE, TWO), stairs(ONE)])
    assert g.edges["coordinate 1", "coordinate 1, 2"]["probability"] == 0.5


@pytest.mark.parametrize(
    ("label", "meaning"),
    [
        ("mode 2 (sigma 3.1)", "mode 2"),
        ("neuron 7 (class 3)", "class 3"),
        ("coordinate 3", "coordinate 3"),
        ("neuron 7", "neuron 7"),
        ("neurons 0 (+), 3 (-), 6 (+)", "neuron (+) x2 + neuron (-)"),
        ("class 7", "class 7"),
        ("neurons 0 (class 4), 1 (class 5), 2 (class 5)", "class 4, 5 x2"),
        ("neurons 0 (not class 4), 3", "neuron 3 + not class 4"),
        ("coordinates 1 (bmi), 4 (s1)", "coordinate 1, 4"),
        ("frequency 5 and frequency 7", "frequency 5 and frequency 7"),
        ("neurons 0 (+), 3 (+) grew on", "neuron (+) x2 grew on"),
        ("coordinate 0 grew on", "coordinate 0 grew on"),
    ],
)
def test_labels_are_reduced_to_what_means_the_same_in_every_run(label, meaning):
    assert graph.feature(label) == meaning


def test_a_table_of_many_coordinates_fits_a_page_and_numbers_saddles_as_pictures_do():
    """The column `from` spelled out what is learned, 130 letters of the diabetes data."""
    names = [f"column {i}" for i in range(12)]
    g = graph.saddles([stairs(*(([k], [], f"coordinate {k} ({name})") for k, name in enumerate(names)))])
    table = graph.table(g)
    assert max(map(len, str(replace(table, notes=())).splitlines())) <= 100
    assert [row[:2] for row in table.rows] == [[str(k), str(k + 1)] for k in range(1, 13)]
    assert list(graph.numbered(g)) == ["nothing", *(node for node in g if node != "nothing")]


def test_what_grew_on_is_told_with_the_names_of_its_columns():
    """Nobody joins in such a drop, and its label lost the names."""
    last = stairs(([], [], "coordinates 0 (age), 6 (s3) grew on")).drops[0]
    assert graph.learned(last) == "coordinate 0 (age), 6 (s3) grew on"


def test_an_empty_staircase_is_one_node():
    g = graph.saddles([stairs()])
    assert list(g) == ["nothing"]
    assert graph.most_likely_path(g) == ["nothing"]
    graph.draw(g)


def test_runs_of_different_problems_or_none_are_refused():
    with pytest.raises(RequestError, match="one problem"):
        graph.saddles([stairs(ONE), stairs(ONE, problem="other")])
    with pytest.raises(RequestError, match="no run"):
        graph.saddles([])


def test_names_share_their_word_and_count_repeats():
    same = ([1], [], "frequency 5"), ([2], [], "frequency 5"), ([3], [], "frequency 12"), ([4], [3], "bias")
    g = graph.saddles([stairs(*same)])
    assert list(g)[-1] == "bias + frequency 5 x2"
    assert "frequency 5 x2, 12" in g
    assert graph.story(g) == "nothing > +frequency 5 > +frequency 5 > +frequency 12 > +bias, -frequency 12"


def test_tied_neurons_are_named_one_by_one_so_that_one_of_them_can_leave():
    tied = ([0, 1, 2], [], "neurons 0 (class 4), 1 (class 5), 2 (class 5)")
    g = graph.saddles([stairs(tied, ([3], [1], "neuron 3 (class 9)"))])
    assert list(g) == ["nothing", "class 4, 5 x2", "class 4, 5, 9"]
    assert g.edges["nothing", "class 4, 5 x2"]["change"] == "+class 4, +class 5, +class 5"
    bundle = stairs(([0, 1, 2], [], "frequency 5 and frequency 7"))
    assert list(graph.saddles([bundle]))[1] == "frequency 5 and frequency 7 x3"


def test_times_are_read_on_the_clock_that_the_runs_share():
    slow = replace(stairs(ONE), clock=Clock(2, 2.0))
    g = graph.saddles([stairs(ONE), stairs(ONE)])
    assert (g.graph["clock"], graph.edge_time(g, ("nothing", "coordinate 1"))) == ("flow time", 1.0)
    for runs in ([stairs(ONE), slow], [replace(slow, drops=tuple(replace(d, time=np.nan) for d in slow.drops))]):
        g = graph.saddles(runs)
        assert (g.graph["clock"], graph.edge_time(g, ("nothing", "coordinate 1"))) == ("accelerated time", 0.1)


def pictured(size, runs=20):
    """The drawn graph of random orders of acquisition; discs (centre and radius, pixels), and words beside arrows."""
    rng = np.random.default_rng(0)
    orders = [rng.permutation(size) for _ in range(runs)]
    g = graph.saddles([stairs(*[([k], [], f"coordinate {k}") for k in order]) for order in orders])
    ax = graph.draw(g)
    ax.get_figure().canvas.draw()
    pixel = ax.get_figure().dpi / 72
    discs = [
        (ax.transData.transform((line.get_xdata()[0], line.get_ydata()[0])), 0.5 * pixel * line.get_markersize())
        for line in ax.lines
    ]
    return g, ax, discs, [text for text in ax.texts if "%" in text.get_text()]


@pytest.mark.parametrize("size", [5, 8])
def test_in_a_crowded_picture_words_touch_neither_one_another_nor_saddles_nor_the_frame(size):
    _, ax, discs, beside = pictured(size)
    assert len(beside) > 10
    assert all("(" in text.get_text() and ", " in text.get_text() for text in beside)
    boxes = [text.get_bbox_patch().get_window_extent() for text in beside]  # the paper behind the words, as rendered
    for k, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:k]) == 0
        for centre, radius in discs:
            nearest = np.clip(centre, box.min, box.max)
            assert np.hypot(*(nearest - centre)) > radius
    frame = ax.get_window_extent()
    assert all(frame.contains(*box.min) and frame.contains(*box.max) for box in boxes)


def test_words_lie_across_arrows_on_the_most_likely_path_only():
    g, ax, _, beside = pictured(5)
    names = {text.get_text() for text in beside if text.get_color() == plot.OBSERVED}
    assert len(names) == len(graph.most_likely_path(g)) - 1  # each of its arrows has its words
    arrows = [text.arrow_patch for text in ax.texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == len(g.edges)
    points = np.concatenate([arrow.get_transform().transform_path(arrow.get_path()).vertices for arrow in arrows])
    for text in beside:
        if text.get_color() != plot.OBSERVED:
            box = Text.get_window_extent(text)
            assert not any(box.contains(x, y) for x, y in points)


@pytest.mark.parametrize("size", [5, 8])
def test_numbered_saddles_stand_apart_with_the_likeliest_path_and_the_rest_are_counted(size):
    g, ax, discs, _ = pictured(size)
    large = [centre for centre, radius in discs if radius > 5]
    assert min(np.hypot(*(one - other)) for k, one in enumerate(large) for other in large[:k]) > 2 * discs[0][1]
    (listed,) = [text.get_text().splitlines() for text in ax.texts if text.get_text().startswith("saddle (visits")]
    assert listed[1] == "1: nothing  (20)"
    names = [line.split(": ", 1)[1].rsplit("  (", 1)[0] for line in listed[1:] if ": " in line]
    assert len(names) == len(large) <= graph._NAMED
    assert set(graph.most_likely_path(g)) <= set(names)
    assert listed[-1].startswith(f"and {len(g) - len(names)} more, visited at most")


def test_one_run_has_a_time_beside_every_arrow():
    ax = graph.draw(graph.saddles([stairs(ONE, TWO, ([3], [], "coordinate 3"))]))
    assert {"1", "2", "3"} <= {text.get_text() for text in ax.texts if text.get_bbox_patch() is not None}


def test_exports_read_back_and_quote_awkward_names(tmp_path):
    g = graph.saddles([stairs(([1], [], 'coordinate "a\\b"'), TWO)])
    graph.write(g, tmp_path / "g.graphml")
    back = nx.read_graphml(tmp_path / "g.graphml")
    assert set(back) == set(g)
    graph.write(g, tmp_path / "g.dot")
    assert '"coordinate \\"a\\\\b\\""' in (tmp_path / "g.dot").read_text()
    with pytest.raises(RequestError, match="graphml"):
        graph.write(g, tmp_path / "g.png")
    with pytest.raises(FileError, match="cannot write"):
        graph.write(g, tmp_path / "no" / "g.dot")


def test_graphs_edges_and_runs_of_another_kind_are_sentences(tmp_path):
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=[2.0, 1.0])
    stairs = agf.predict(problem, problem.init(1e-4))
    mine = graph.saddles([stairs])
    (edge, *_) = mine.edges
    assert graph.edge_time(mine, list(edge)) == graph.edge_time(mine, edge) > 0
    other = nx.DiGraph([("nothing", "b")])
    for call in (
        lambda: graph.edge_time(mine, ("nothing", "nowhere")),
        lambda: graph.edge_time(mine, [["nothing"], ["b"]]),
        lambda: graph.edge_time(other, ("nothing", "b")),
        lambda: graph.story(other),
        lambda: graph.draw(other),
        lambda: graph.write(other, tmp_path / "other.dot"),
        lambda: graph.saddles(run for run in [stairs, None]),
    ):
        with pytest.raises(agf.RequestError):
            call()
