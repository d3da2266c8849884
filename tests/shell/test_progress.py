"""Progress in words: on terminals, in log files and in notebooks."""

from __future__ import annotations

import io

import nbformat
import numpy as np
from nbclient import NotebookClient
from tiny import Product

import agf
from agf import Init
from agf.shell import console, main, progress
from agf.shell.progress import Watcher

INIT = Init.scaled(np.ones((1, 2)), 1e-6)


def test_drops_are_told_at_once_and_steps_at_most_so_often():
    said = []
    agf.predict(Product(), INIT, observer=Watcher("predicting", said.append, every=1e9))
    assert len(said) == 1
    assert said[0].startswith("predicting: drop 1, ")
    agf.flow(Product(), INIT, observer=Watcher("gradient flow", said.append, every=1e9))
    agf.descend(Product(), INIT, lr=0.1, steps=3000, observer=Watcher("descent", said.append, every=0.0))
    assert said[1].startswith("gradient flow: time ")
    assert said[2].startswith("descent: time ")
    assert len(said) >= 4


def test_watching_changes_no_number():
    for compute in (agf.predict, agf.flow):
        watched = compute(Product(), INIT, observer=agf.watch("working"))
        assert np.array_equal(watched.times, compute(Product(), INIT).times)


def test_a_log_file_gets_lines_and_a_terminal_one_line_that_is_replaced(capsys, monkeypatch):
    agf.predict(Product(), INIT, observer=agf.watch("predicting"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("predicting: drop 1, ")
    assert captured.err.endswith("\n")

    class Screen(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    agf.predict(Product(), INIT, observer=agf.watch("predicting"))
    assert screen.getvalue().startswith("\r\x1b[Kpredicting: drop 1, ")
    assert "\n" not in screen.getvalue()


def test_what_takes_minutes_is_foretold_and_what_does_not_is_not(capsys, monkeypatch, tmp_path):
    """A relu network of 1,000 neurons computed for minutes without a word."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((10, 2))
    np.savez("data.npz", X=X, Y=X[:, 0])
    network = ["two-layer", "--data", "data.npz", "-p", "activation=tanh", "--width", "2"]
    for command in (["predict"], ["predict", "--mode", "agf"], ["train"], ["compare"]):
        assert main.main([*command, *network]) == 0
        assert "A gradient takes" not in capsys.readouterr().err
    monkeypatch.setattr(progress, "_gradient", lambda problem: 6.0)
    for command, words in (("predict", "10,000 are needed: 17 hours"), ("train", "10,000 are needed: 17 hours")):
        assert main.main([command, *network]) == 0
        assert capsys.readouterr().err.count(words) == 1
    assert main.main(["predict", "--mode", "agf", *network]) == 0
    assert "1,000 are needed: 100 minutes or more" in capsys.readouterr().err
    assert main.main(["predict", "diagonal-linear", "--mode", "agf"]) == 0  # by closed forms
    assert "A gradient takes" not in capsys.readouterr().err


def test_a_log_of_a_command_gets_a_line_when_twice_as_long_has_passed(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console, "monotonic", lambda: now[0])
    with console.Plain().progress("predicting") as update:
        for now[0] in range(100):
            update(f"at {now[0]}")
    assert capsys.readouterr().err.splitlines() == [f"at {t} (after {t} s)" for t in (10, 20, 40, 80)]


def test_a_notebook_shows_the_latest_words_below_the_cell_and_results_as_html():
    cells = [
        "import agf\nimport numpy as np\n"
        "problem = agf.problem('diagonal-linear', X=np.eye(3), y=np.array([3.0, 2.0, 1.0]))\n"
        "init = problem.init(1e-8)\n"
        "stairs = agf.predict(problem, init, observer=agf.watch('predicting'))",
        "flow = agf.flow(problem, init, observer=agf.watch('gradient flow'))",
        "problem", "stairs", "flow", "agf.compare(stairs, flow)",
    ]  # fmt: skip
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    first, second, *results = book.cells
    assert [output.output_type for output in first.outputs] == ["display_data"]  # one line, and no warning on stderr
    assert first.outputs[0].data["text/plain"].startswith("predicting: drop 3, coordinate 2, time ")
    assert [output.output_type for output in second.outputs] == ["display_data"]
    assert second.outputs[0].data["text/plain"].startswith("gradient flow: time ")
    for cell in results:
        assert "<table>" in cell.outputs[0].data["text/html"]
    assert "diagonal-linear, 3 coordinates" in results[0].outputs[0].data["text/html"]
