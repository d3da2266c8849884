"""One notebook a problem: each runs from top to bottom, shows progress, tables and pictures, and warns of nothing."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from agf import registry

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


#: Networks that the notebook of another shows: the general one and exact averages are behind relu, and so on.
SHOWN_BY = {"two-layer": "relu", "gaussian-teacher": "relu", "full-linear-attention": "linear-attention"}


def test_every_registered_problem_has_a_notebook():
    assert {path.stem for path in NOTEBOOKS} == {SHOWN_BY.get(name, name) for name in registry.names()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_progress_tables_and_pictures(path, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as in a notebook
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # kept without outputs
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not [output.text for output in outputs if output.output_type == "stream"]  # a warning would be one
    kinds = [kind for output in outputs for kind in output.data]
    assert "image/png" in kinds
    assert kinds.count("text/html") >= 2
    words = [output.data["text/plain"] for output in outputs if output.output_type == "display_data"]
    assert any(line.startswith("predicting: drop ") for line in words)
    assert any(line.startswith("gradient flow: time ") for line in words)


FRESH = """
import numpy as np, agf
X = np.random.default_rng(0).standard_normal((30, 3))
problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.0]))
report = agf.compare(agf.predict(problem, problem.init(1e-6)), agf.flow(problem, problem.init(1e-6)))
"""


def test_a_fresh_notebook_shows_a_picture_and_a_table_unasked(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # nothing is set up, and pyplot is not imported
    cells = [nbformat.v4.new_code_cell(text) for text in (FRESH, "report.plot();", "report")]
    book = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(book, timeout=100, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    picture, table = ([output.data for output in cell.outputs] for cell in book.cells[1:])
    assert sum("image/png" in data for data in picture) == 1
    assert ["<table>" in data["text/html"] for data in table] == [True]
