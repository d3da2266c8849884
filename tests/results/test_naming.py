"""Coordinates that have names are called by them wherever they are shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import agf
from agf import graph, plot
from agf.page import report as html_report
from agf.records import naming

NAMES = ["age", "mass (kg), dry", "s<3>", "none"]


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.4, 0.0]), names=NAMES)
    init = problem.init(1e-6)
    return agf.predict(problem, init, mode="agf"), agf.flow(problem, init)


def legend(ax):
    return {text.get_text() for text in ax.get_legend().get_texts()}


def test_every_view_names_them(runs):
    stairs, flow = runs
    called = {f"coordinate {i} ({name})" for i, name in enumerate(NAMES)}
    assert legend(plot.neurons(flow)) == called
    for draw in (plot.charges, plot.utilities):
        assert legend(draw(flow)) == called
        assert legend(draw(stairs)) <= called
    for run in runs:
        assert legend(plot.features(run)) <= set(NAMES)


def test_the_graph_names_them_whatever_is_in_a_name(runs):
    found = graph.saddles([runs[0]])
    assert "coordinate 0 (age), 1 (mass (kg), dry)" in found
    assert "+coordinate 1 (mass (kg), dry)" in graph.story(found)


def test_the_page_names_them_and_escapes_what_they_hold(runs, tmp_path):
    html_report.report([runs[1]], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="agf-data">(.*?)</script>', text, re.S)[1])["snapshots"]
    assert shown["neurons"][2] == "coordinate 2 (s&lt;3&gt;)"
    assert shown["features"]["coefficients"]["entries"] == ["age", "mass (kg), dry", "s&lt;3&gt;", "none"]


def test_what_leaves_without_having_joined_alone_has_its_name(runs):
    stairs = runs[0]
    first = replace(stairs.drops[0], collapsed=np.array([3]))
    changed = replace(stairs, drops=(first, *stairs.drops[1:]))
    assert changed.labels[0].endswith("; leaves: coordinate 3 (none)")


@pytest.mark.parametrize("odd", [3, "abcd", ["a"], [["a", "b", "c", "d"]], None, {"a": 1}, np.zeros((2, 2))])
def test_names_that_are_no_list_of_one_a_coordinate_are_not_used(odd):
    assert naming.given({"names": odd}, 4) is None


def test_a_label_names_neurons_in_order_whatever_the_order_they_became_active_in():
    X = np.random.default_rng(2).standard_normal((12, 2))
    problem = agf.TwoLayer(X, X[:, 0] + 0.5 * X[:, 1], activation="tanh", width=6)
    drops = agf.predict(problem, problem.init(1e-2, seed=2), mode="agf", max_drops=2).drops
    assert any(np.any(np.diff(drop.neurons) < 0) for drop in drops)
    for drop in drops:
        assert re.findall(r"\d+", drop.label) == [str(i) for i in sorted(drop.neurons)]
