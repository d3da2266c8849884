"""Flat tables of results: nothing is lost on the way to csv or pandas, and what is unknown is an empty cell."""

from __future__ import annotations

import csv
import importlib
import pkgutil
import re
import sys

import numpy as np
import pytest
from tiny import Product

import agf
from agf import FileError, Init, RequestError, Trajectory
from agf.results import frames


@pytest.fixture(scope="module")
def results():
    problem = Product(width=2)
    init = Init.scaled(np.array([[1.0, 1.0], [0.5, 0.4]]), 1e-6)
    stairs = agf.predict(problem, init, mode="agf")
    flow = agf.flow(problem, init)
    return stairs, flow, agf.compare(stairs, flow)


def read(path):
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle))


def test_a_prediction_has_a_row_for_the_start_and_one_a_drop(results, tmp_path):
    stairs = results[0]
    stairs.to_csv(tmp_path / "stairs.csv")
    rows = read(tmp_path / "stairs.csv")
    assert [float(row["time"]) for row in rows] == stairs.times.tolist()
    assert [float(row["level"]) for row in rows] == stairs.levels.tolist()
    assert [row["label"] for row in rows] == ["start", *stairs.labels]
    assert rows[1]["neurons"] == " ".join(map(str, stairs.drops[0].neurons))
    assert rows[0]["utility"] == rows[0]["bound"] == ""  # unknown is empty, not nan


def test_a_curve_written_as_csv_is_read_again_to_the_bit(results, tmp_path):
    flow = results[1]
    flow.to_csv(tmp_path / "curve.csv")
    again = Trajectory.from_csv(tmp_path / "curve.csv")
    np.testing.assert_array_equal(again.times, flow.times)
    np.testing.assert_array_equal(again.losses, flow.losses)


def test_snapshots_have_norms_and_every_entry_of_every_feature(results, tmp_path):
    flow = results[1]
    flow.to_csv(tmp_path / "shots.csv", snapshots=True)
    rows = read(tmp_path / "shots.csv")
    assert list(rows[0]) == ["time", "loss", "log_norm_0", "log_norm_1", "output_0", "output_1"]
    assert [float(row["log_norm_1"]) for row in rows] == flow.log_norms[:, 1].tolist()
    assert [float(row["output_0"]) for row in rows] == flow.features("output")[:, 0].tolist()
    matrix = frames.trajectory(
        Trajectory("m", 2, "rk45", np.arange(2.0), np.ones(2), agf.Status.SETTLED, snapshot_times=np.arange(2.0),
                   features_over_time={"M": np.arange(8.0).reshape(2, 2, 2), "acc": np.zeros(2)}),
        snapshots=True,
    )  # fmt: skip
    assert list(matrix) == ["time", "loss", "M_0_0", "M_0_1", "M_1_0", "M_1_1", "acc"]
    X = np.eye(2)
    problem = agf.problem("diagonal-linear", X=X, y=np.array([2.0, 1.0]), names=["age", "bm\u202ei"])
    named = agf.flow(problem, problem.init(1e-3), t_max=1.0).to_frame(snapshots=True)
    own = ["0 (age)", "1 (bm\\u202ei)"]
    assert list(named) == ["time", "loss", *[f"{name}_{i}" for name in ("log_norm", "coefficients") for i in own]]


def test_a_comparison_has_its_matches(results, tmp_path):
    report = results[2]
    report.to_csv(tmp_path / "report.csv")
    rows = read(tmp_path / "report.csv")
    assert [float(row["time_error"]) for row in rows] == [match.time_error for match in report.matches]
    assert rows[0]["bundled"] in ("yes", "no")


@pytest.mark.parametrize("kind", range(3))
def test_frames_hold_the_same_columns_and_numbers_as_csv(results, kind, tmp_path):
    import pandas as pd

    result = results[kind]
    result.to_csv(tmp_path / "a.csv")
    frame, back = result.to_frame(), pd.read_csv(tmp_path / "a.csv")
    assert list(frame.columns) == list(back.columns)
    for name in frame.columns:
        if frame[name].dtype.kind == "f":
            np.testing.assert_array_equal(frame[name].to_numpy(), back[name].to_numpy(dtype=float))


def test_pandas_is_asked_for_when_missing(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in results:
        with pytest.raises(RequestError, match=r"needs pandas\. pip install pandas"):
            result.to_frame()


def test_an_unwritable_path_is_refused(results, tmp_path):
    with pytest.raises(FileError, match="folder does not exist"):
        results[0].to_csv(tmp_path / "absent" / "a.csv")


def test_critical_is_a_boolean_and_reprs_fit_a_line(tmp_path):
    import agf

    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.5]))
    init = problem.init(1e-6)
    stairs = agf.predict(problem, init)
    frame = stairs.to_frame()
    for name in ("critical", "overlap"):
        assert frame[name].dtype == "boolean"
        assert frame[name].isna().tolist() == [True] + [False] * len(stairs.drops)
    sweep = agf.sweep("diagonal-linear", folder=tmp_path / "s", alpha=[1e-3], arguments=problem.arguments)
    for value in (init, stairs.drops[0], stairs, sweep):
        assert len(repr(value)) <= 79
        assert "\n" not in repr(value)


def test_the_meaning_of_every_column_is_in_the_docstring_and_in_the_docs(results, tmp_path):
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
    stairs, flow, report = results
    sweep = agf.sweep("diagonal-linear", folder=tmp_path / "s", alpha=[1e-3], mode=["agf"], max_drops=[1],
                      arguments=agf.registry.find("diagonal-linear").example())  # fmt: skip
    settings = {"alpha", "mode", "max_drops", "seed"}
    for result, frame in (
        (stairs, stairs.to_frame()), (flow, flow.to_frame()), (report, report.to_frame()), (sweep, sweep.to_frame()),
    ):  # fmt: skip
        told = type(result).to_frame.__doc__
        for name in set(frame.columns) - settings:
            line = re.search(rf"\* `{name}`: (.*?)\n\s*(?=\*|\n)", told, re.DOTALL)
            assert line, (type(result), name)
            assert f"| `{name}` | {' '.join(line[1].split())} |" in page, name


def test_everything_that_has_a_table_shows_it_in_a_notebook():
    without = []
    for module in pkgutil.walk_packages(agf.__path__, "agf."):
        if module.name.startswith("agf.shell"):
            continue
        found = vars(importlib.import_module(module.name)).values()
        without += [
            f"{module.name}.{cls.__name__}"
            for cls in found
            if isinstance(cls, type) and cls.__module__ == module.name and hasattr(cls, "table")
            if not hasattr(cls, "_repr_html_")
        ]
    assert without == []


def test_a_sweep_shows_what_varies_and_how_far_it_is(tmp_path):
    swept = agf.sweep("diagonal-linear", folder=tmp_path / "s", alpha=[1e-2], seed=range(2), mode=["agf"])
    shown = swept._repr_html_()
    assert "2 of 2 runs are finished" in shown
    assert "seed" in shown
