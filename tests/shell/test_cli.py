"""The command line: exit codes, one JSON document, sentences for bad requests, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import click
import numpy as np
import pytest

import agf
from agf.records.status import Status
from agf.shell import arguments as request
from agf.shell import main as cli
from agf.shell.main import main

AGF = [sys.executable, "-c", "import sys; from agf.shell.main import main; sys.exit(main())"]

PLUGIN = '''
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import agf


class Scripted:
    """One drop, and then trouble."""

    def __init__(self, problem, init):
        self.problem, self.init = problem, init
        self.clock = agf.Clock.from_norms(2, init.log_norms)

    def start(self):
        init = self.init
        return agf.State(0.0, np.zeros(2, dtype=bool), init.directions, init.log_norms, 1.0)

    def dormant(self, state):
        if not state.active.any():
            return state, agf.Activation(1.0, 0.9, np.array([0]), np.array([0.5]))
        if self.problem.trouble == "interrupt":
            raise KeyboardInterrupt
        if self.problem.trouble == "wait":
            Path("waiting").touch()
            time.sleep(60)
        if self.problem.trouble:
            return state, agf.Status.from_word(self.problem.trouble)
        return state, agf.Status.FITTED

    def active(self, state, activation):
        after = replace(state, time=activation.time, active=np.array([True, False]), level=0.5)
        return after, agf.Settled(0.5, np.zeros(0, dtype=np.int64), 0.0, 0.0, "closed form")


class Mine(agf.Problem):
    """A diagonal network of two coordinates.

    Parameters
    ----------
    gain : float
        Strength of the target.
    trouble : the status that ends a prediction after one drop.
    """

    name = "mine"
    degree = 2
    width = 2
    n_params = 2
    interchangeable = False

    def __init__(self, gain: float = 1.0, trouble: str = "", table: Any = None, flag: bool = False) -> None:
        self.target = gain * np.array([1.0, 0.5])
        self.trouble = trouble

    def residual(self, theta, neurons):
        out = self.target.copy()
        out[neurons] -= theta[:, 0] * theta[:, 1]
        return out

    def loss_grad(self, theta, neurons):
        r = self.residual(theta, neurons)
        return 0.5 * float(r @ r), -theta[:, ::-1] * r[neurons][:, None]

    def utility(self, theta, neurons, residual):
        r = residual[neurons]
        return theta[:, 0] * theta[:, 1] * r, theta[:, ::-1] * r[:, None]

    def phases(self, init, settings):
        return Scripted(self, init)
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Work in an empty folder with a plugin in it; returns its name for the command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PLUGIN)
    return "./mine.py:Mine"


@pytest.fixture
def run(capsys):
    """Runs one command line; returns exit code, standard output, standard error."""

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def refused(result, *parts):
    """Assert that a request was refused in one sentence on standard error, and nothing else was said."""
    code, out, err = result
    assert code == 2, err
    assert out == ""
    assert err.startswith("agf: error: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    for part in parts:
        assert part in err, err


# -- help and lists ---------------------------------------------------------------------------------------------


def test_version_and_help_go_to_standard_output(run):
    assert run("--version") == (0, f"agf {agf.__version__}\n", "")
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for command in cli.COMMANDS:
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_loads_and_has_readable_help(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: agf {command} ")
    loaded = cli.agf.get_command(click.Context(cli.agf), command)
    for parameter in loaded.params:
        assert getattr(parameter, "help", "words") or isinstance(parameter, click.Argument), parameter.name
    example = cli.COMMANDS[command][2]
    assert f"Example: agf {command} {example}" in " ".join(out.split())
    assert loaded.make_context(command, example.split()).params  # it parses


def test_the_help_lists_every_command_once_under_a_heading(run):
    out = run("--help")[1]
    assert out.count("\n  ") >= len(cli.COMMANDS)
    assert all(f"\n{heading}:\n" in out for heading in cli.GROUPS)
    assert sum(map(len, cli.GROUPS.values())) == len(cli.COMMANDS)


def test_listing_the_commands_imports_none_of_them():
    code = "import sys; from agf.shell.main import main; main(['--help']); sys.exit('agf.shell.runs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


#: A problem whose first sentence has a product with a dot.
PRODUCT = """
import agf


class Mine(agf.TwoLayer):
    \"\"\"f = a w . x. Nothing else.\"\"\"

    name = "mine"
"""


def test_problems_are_listed_from_the_registry(run):
    from agf import registry

    code, out, err = run("problems")
    assert (code, out) == (0, "")
    assert all(name in err for name in registry.names())
    listed = json.loads(run("problems", "--json")[1])
    assert [one["name"] for one in listed] == registry.names()
    assert all(one["broken"] is None and one["summary"] for one in listed)


def test_the_summary_of_a_problem_is_its_first_sentence_products_included(run, tmp_path):
    (tmp_path / "mine.py").write_text(PRODUCT)
    assert "f = a w . x" in run("problems", f"{tmp_path / 'mine.py'}:Mine")[2].splitlines()[0]


def test_parameters_come_from_the_signature_and_the_docstring(run, plugin):
    document = json.loads(run("problems", plugin, "--json")[1])
    gain, trouble, *_ = document["parameters"]
    assert gain == {
        "name": "gain",
        "kind": "float",
        "default": "1.0",
        "required": False,
        "meaning": "Strength of the target.",
    }
    assert trouble["meaning"] == "the status that ends a prediction after one drop."
    assert "Strength of the target." in run("problems", plugin)[2]


@pytest.mark.parametrize("name", ["diagonal-linear", "linear", "linear-attention", "modular-addition", "relu"])
def test_every_parameter_of_a_built_in_problem_is_explained(run, name):
    document = json.loads(run("problems", name, "--json")[1])
    assert not [p["name"] for p in document["parameters"] if not p["meaning"] or not p["kind"]]


@pytest.mark.parametrize(("name", "alpha"), [("diagonal-linear", 1e-8), ("linear-attention", 1e-3)])
def test_the_default_scale_is_one_at_which_plateaus_of_that_degree_end(run, name, alpha):
    assert json.loads(run("predict", name, "--max-drops", 1, "--json")[1])["alpha"] == alpha


def test_a_broken_plugin_is_listed_with_its_reason_and_breaks_nothing(run, monkeypatch):
    from importlib.metadata import EntryPoint

    from agf import registry

    good = registry._points()
    bad = {"broken": EntryPoint("broken", "no_such_module:Nothing", registry.GROUP)}
    monkeypatch.setattr(registry, "_points", lambda: {**bad, **good})
    code, _, err = run("problems")
    assert code == 0
    assert "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'" in err
    refused(run("predict", "broken"), "'broken' cannot be loaded")


def test_checking_a_problem_says_what_holds_and_fails_with_1(run, plugin, tmp_path):
    code, out, err = run("check", plugin, "--json")
    document = json.loads(out)
    assert code == 0, err
    assert document["passed"] is True
    assert "homogeneity" in err
    wrong = PLUGIN.replace("return 0.5 * float(r @ r), -theta", "return 0.5 * float(r @ r), +theta")
    (tmp_path / "wrong.py").write_text(wrong)
    code, _, err = run("check", "./wrong.py")
    assert code == 1
    assert "gradient of the loss" in err


def test_a_new_plugin_passes_the_checks_and_overwrites_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "fresh.py")[0] == 0
    assert run("check", "fresh.py")[0] == 0
    before = (tmp_path / "fresh.py").read_text()
    refused(run("new", "fresh.py"), "fresh.py")
    assert (tmp_path / "fresh.py").read_text() == before


# -- predict ----------------------------------------------------------------------------------------------------


def test_json_is_one_strict_document_and_the_only_thing_on_standard_output(run):
    code, out, err = run("predict", "diagonal-linear", "--data", "diabetes", "--alpha", "1e-50", "--json")
    assert code == 0
    document = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    promised = "problem mode alpha seed degree clock_scale times accelerated_times levels drops status"
    assert set(promised.split()) <= set(document)
    assert document["problem"] == "diagonal-linear"
    assert document["alpha"] == 1e-50
    assert document["status"] == "fitted"
    assert len(document["levels"]) == len(document["drops"]) + 1
    fields = {"time", "half_time", "level", "neurons", "collapsed", "label", "error", "level_error", "overlap"}
    assert fields <= set(document["drops"][0])
    assert document["mode"] == "auto"
    assert document["drops"][0]["label"] == "coordinate 2 (bmi)"
    assert "coordinate 2 (bmi)" in err


def test_quiet_says_nothing(run, tmp_path):
    assert run("predict", "diagonal-linear", "--data", "diabetes", "--quiet") == (0, "", "")


def test_the_preparation_of_the_data_is_said(run):
    assert "columns standardized" in run("predict", "diagonal-linear", "--data", "diabetes")[2]


def test_a_saved_run_is_what_was_printed_and_can_be_shown_and_drawn_again(run, tmp_path):
    path, first, again = tmp_path / "run.npz", tmp_path / "a.svg", tmp_path / "b.svg"
    _, out, table = run("predict", "diagonal-linear", "--data", "diabetes", "-o", path, "--plot", first, "--json")
    stairs = agf.load(path)
    assert json.loads(out)["levels"] == stairs.levels.tolist()
    code, shown, again_table = run("show", path, "--json")
    assert code == 0
    assert json.loads(shown) == json.loads(out)
    assert again_table.strip() in table
    assert run("plot", path, "-o", again)[0] == 0
    assert first.read_bytes() == again.read_bytes()


def test_csv_and_npz_of_the_same_data_give_the_same_prediction(run, tmp_path, rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    np.savez(tmp_path / "a.npz", X=X, y=y, extra=np.ones(2))
    rows = "\n".join(",".join(repr(float(v)) for v in (*x, target)) for x, target in zip(X, y, strict=True))
    (tmp_path / "a.csv").write_text("a,b,c,t\n" + rows + "\n")
    npz = run("predict", "diagonal-linear", "--data", tmp_path / "a.npz", "--json")
    csv = run("predict", "diagonal-linear", "--data", tmp_path / "a.csv", "--target", "t", "--json")
    assert json.loads(npz[1])["times"] == json.loads(csv[1])["times"]
    assert "Not used by diagonal-linear: extra." in npz[2]
    assert {drop["label"][-3:] for drop in json.loads(csv[1])["drops"]} <= {"(a)", "(b)", "(c)"}
    relu = run("predict", "relu", "--width", 2, "--data", tmp_path / "a.csv", "--target", "t")
    assert "Not used" not in relu[2]  # names of columns are no data


def test_data_that_lack_an_array_are_refused_with_what_the_file_holds(run, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=np.ones(3))
    refused(run("predict", "relu", "--data", tmp_path / "a.npz"), "holds no X, which the problem 'relu' needs",
            "Found x (3, 3), y (3,)")  # fmt: skip
    refused(run("sweep", "relu", "--alpha", "1e-4", "-o", tmp_path / "s", "--data", tmp_path / "a.npz"), "holds no X")


def test_init_from_a_file_is_the_init_of_the_prediction(run, tmp_path):
    theta = np.tile([1e-9, 3e-10], (10, 1))
    np.savez(tmp_path / "init.npz", theta=theta)
    code, _, err = run("predict", "diagonal-linear", "--init", tmp_path / "init.npz", "-o", tmp_path / "run.npz")
    assert code == 0
    assert f"Predicted staircase of diagonal-linear, weights from {tmp_path / 'init.npz'}, mode auto" in err
    np.testing.assert_allclose(agf.load(tmp_path / "run.npz").init.params(), theta, rtol=1e-14)


def test_settings_reach_the_prediction(run, tmp_path):
    code, out, _ = run("predict", "diagonal-linear", "--threshold", "unit", "--max-drops", 2, "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["threshold"], document["status"], len(document["drops"])) == ("unit", "max_drops", 2)


def test_parameters_reach_the_problem(run, plugin, tmp_path):
    run("predict", plugin, "--mode", "agf", "-p", "gain=2", "-p", "table=[1, 2]", "-p", "flag=true", "-o", "run.npz")
    arguments = agf.load(tmp_path / "run.npz").arguments
    assert arguments["gain"] == 2.0
    assert arguments["flag"] is True
    assert arguments["table"] == [1, 2]


# -- failures and interrupts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [status for status in Status if status.failed], ids=lambda status: status.word)
def test_a_failed_prediction_exits_with_1_and_saves_what_it_has(run, plugin, tmp_path, status):
    code, out, err = run("predict", plugin, "--mode", "agf", "-p", f"trouble={status.word}", "-o", "run.npz", "--json")
    assert code == 1
    assert json.loads(out)["status"] == status.word
    assert status.sentence in err
    stairs = agf.load(tmp_path / "run.npz")
    assert stairs.levels.tolist() == [1.0, 0.5]
    assert run("compare", plugin, "--mode", "agf", "-p", f"trouble={status.word}")[0] == 1


def test_an_interrupt_exits_with_130_and_saves_what_it_has(run, plugin, tmp_path):
    assert run("predict", plugin, "--mode", "agf", "-p", "trouble=interrupt", "-o", "run.npz")[0] == 130
    stairs = agf.load(tmp_path / "run.npz")
    assert (stairs.status, len(stairs.drops)) == (Status.INTERRUPTED, 1)


def test_ctrl_c_keeps_the_partial_result(plugin, tmp_path):
    words = [*AGF, "predict", plugin, "--mode", "agf", "-p", "trouble=wait", "-o", "run.npz"]
    # a job in the background of a script inherits that Ctrl-C is ignored
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, **heed)
    deadline = time.monotonic() + 60
    while not (tmp_path / "waiting").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert len(agf.load(tmp_path / "run.npz").drops) == 1


def test_a_computation_that_raises_keeps_its_partial_result(run, plugin, tmp_path, monkeypatch):
    from agf.shell import runs

    partial = agf.predict(agf.problem(plugin), agf.problem(plugin).init(1e-8), mode="agf")

    def fail(*args, **options):
        raise agf.ComputationError("the disk of the cluster went away.", partial)

    monkeypatch.setattr(runs, "predict_with", fail)
    code, out, err = run("predict", plugin, "--mode", "agf", "-o", "run.npz", "--json")
    assert (code, json.loads(out)["levels"]) == (1, [1.0, 0.5])
    assert agf.load(tmp_path / "run.npz").levels.tolist() == [1.0, 0.5]
    assert err.endswith("agf: error: the disk of the cluster went away.\n")


# -- train and compare ------------------------------------------------------------------------------------------


def test_a_run_that_ran_out_of_steps_is_resumed_to_the_same_curve(run, plugin, tmp_path):
    assert run("train", plugin, "--max-steps", 40, "-o", "part.npz")[0] == 1
    assert agf.load(tmp_path / "part.npz").status is Status.PLATEAU  # and the next drop is due
    assert run("train", plugin, "--resume", "part.npz", "-o", "rest.npz")[0] == 0
    code, _, err = run("train", plugin, "-o", "whole.npz", "--checkpoint", "saved.npz")
    assert code == 0
    assert "Wrote whole.npz.\nWrote saved.npz.\n" in err
    rest, whole = agf.load(tmp_path / "rest.npz"), agf.load(tmp_path / "whole.npz")
    np.testing.assert_array_equal(rest.times, whole.times)
    np.testing.assert_array_equal(rest.losses, whole.losses)
    np.testing.assert_array_equal(agf.load(tmp_path / "saved.npz").losses, whole.losses)


def test_descent_is_resumed_to_the_same_curve(run, plugin, tmp_path):
    words = ("--alpha", "1e-3", "--lr", "0.1", "--momentum", "0.5")
    assert run("train", plugin, *words, "--steps", 100, "-o", "part.npz")[0] == 0
    assert run("train", plugin, "--resume", "part.npz", "--steps", 300, "-o", "rest.npz")[0] == 0
    assert run("train", plugin, *words, "--steps", 300, "-o", "whole.npz")[0] == 0
    rest, whole = agf.load(tmp_path / "rest.npz"), agf.load(tmp_path / "whole.npz")
    np.testing.assert_array_equal(rest.losses, whole.losses)
    refused(run("train", plugin, "--resume", "part.npz", "--lr", "0.2"), "only --steps")
    refused(run("train", plugin, "--resume", "part.npz", "--t-max", "2"), "only --steps")


def test_descent_is_chosen_by_its_options(run, plugin, tmp_path):
    assert run("train", plugin, "--alpha", "1e-3", "--lr", "0.1", "--steps", 300, "-o", "gd.npz", "--json")[0] == 0
    trained = agf.load(tmp_path / "gd.npz")
    assert trained.status is Status.STEPS
    assert trained.times[-1] == pytest.approx(30.0)


def test_compare_saves_both_sides_and_draws_them(run, tmp_path):
    words = ("diagonal-linear", "--data", "diabetes", "--alpha", "1e-50", "--mode", "agf")
    code, out, err = run("compare", *words, "-o", tmp_path / "run.npz", "--plot", tmp_path / "a.pdf", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["max_time_error"] < 0.05  # errors fall like 1/log(1/alpha); a wrong drop is off by half or more
    assert document["matches"][0]["label"] == "coordinate 2 (bmi)"
    assert "leaves: coordinate 5 (s2)" in err
    report = agf.load(tmp_path / "run.npz")
    assert report.to_dict()["max_time_error"] == document["max_time_error"]
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    for view in ("loss", "norms", "features"):
        assert run("plot", tmp_path / "run.npz", "--view", view, "-o", tmp_path / "b.png")[0] == 0


def test_a_curve_trained_elsewhere_is_compared_in_flow_time(run, plugin, tmp_path):
    """The same flow, once as a run and once as a csv of steps, gives the same observed times."""
    predicted = ("diagonal-linear", "--data", "diabetes", "--alpha", "1e-50")
    assert run("predict", *predicted, "-o", "stairs.npz")[0] == 0
    assert run("train", *predicted, "-o", "flow.npz")[0] == 0
    flow = agf.load(tmp_path / "flow.npz")
    lines = [f"{t / 0.5!r},{loss!r}" for t, loss in zip(flow.times.tolist(), flow.losses.tolist(), strict=True)]
    (tmp_path / "mine.csv").write_text("step,loss\n" + "\n".join(lines) + "\n")
    scale = ("--lr", "0.05", "--momentum", "0.9")
    ours = json.loads(run("compare", "stairs.npz", "--curve", "flow.npz", "--json")[1])
    code, out, err = run("compare", "stairs.npz", "--curve", "mine.csv", *scale, "--json")
    assert code == 0, err
    theirs = json.loads(out)
    # The csv has no slopes, so crossings are found on chords: 1e-3 is their sag at the recorder's spacing.
    for a, b in zip(ours["matches"], theirs["matches"], strict=True):
        assert a["observed_time"] == pytest.approx(b["observed_time"], rel=1e-3)
    both = json.loads(run("compare", *predicted, "--curve", "mine.csv", *scale, "--json")[1])
    assert both["matches"] == theirs["matches"]


# -- bad requests -----------------------------------------------------------------------------------------------


def test_words_that_are_no_command_or_option_are_refused(run):
    refused(run("predcit"), "there is no command 'predcit'", "predict, train")
    refused(run("predict"), "Missing argument 'NAME'")
    refused(run("predict", "linear", "--colour", "red"), "--colour")
    refused(run("predict", "linear", "--mode", "fast"), "'fast' is not one of", "limit")
    refused(run("predict", "linear", "--alpha", "tiny"), "'tiny' is not a valid float")


def test_an_unknown_problem_or_parameter_is_refused_with_the_valid_ones(run, plugin):
    refused(run("predict", "perceptron"), "there is no problem 'perceptron'", "diagonal-linear", "relu")
    refused(run("predict", plugin, "--mode", "agf", "-p", "speed=3"), "unknown parameter `speed`", "gain, trouble")
    refused(run("predict", plugin, "--mode", "agf", "-p", "gain"), "KEY=VALUE")
    refused(run("predict", plugin, "--mode", "agf", "-p", "gain=1", "-p", "gain=2"), "given twice")
    refused(run("predict", plugin, "--mode", "agf", "-p", "gain=much"), "`gain`", "'much'", "a number")
    refused(run("predict", plugin, "--mode", "agf", "-p", "flag=2"), "`flag`", "true or false")
    refused(run("predict", plugin, "--mode", "agf", "--width", 3), "width follows from the data")
    refused(run("predict", "./none.py"), "there is no file")


@pytest.mark.parametrize("alpha", ["0", "-1", "nan", "inf"])
def test_a_scale_that_is_none_is_refused(run, alpha):
    refused(run("predict", "diagonal-linear", "--alpha", alpha), "alpha", "positive finite number")


def test_a_scale_too_large_for_the_theory_is_refused(run):
    code, out, err = run("predict", "diagonal-linear", "--alpha", "10")
    assert (code, out) == (2, "")
    assert "Choose a smaller alpha" in err.splitlines()[-1]


def test_a_limit_is_answered_at_any_scale_as_in_python(run):
    assert run("predict", "diagonal-linear", "--mode", "limit", "--alpha", "0.9")[0] == 0


def test_bad_data_are_refused(run, tmp_path):
    np.savez(tmp_path / "nan.npz", X=np.full((3, 2), np.nan), y=np.ones(3))
    np.savez(tmp_path / "shape.npz", X=np.ones((3, 2)), y=np.ones(4))
    np.savez(tmp_path / "other.npz", A=np.ones((3, 2)))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    refused(run("predict", "diagonal-linear", "--data", tmp_path / "nan.npz"), "`X` has 6 non-finite")
    refused(run("predict", "diagonal-linear", "--data", tmp_path / "shape.npz"), "3 row", "4 value")
    refused(run("predict", "diagonal-linear", "--data", tmp_path / "other.npz"), "A (3, 2)", "Expected X, y")
    refused(run("predict", "diagonal-linear", "--data", tmp_path / "a.csv"), "needs a target column")
    refused(
        run("predict", "diagonal-linear", "--data", tmp_path / "a.csv", "--target", "c"), "no column 'c'", "'a', 'b'"
    )
    refused(run("predict", "diagonal-linear", "--target", "c"), "Add --data")
    refused(run("predict", "diagonal-linear", "--data", "nothing"), "no data set 'nothing'")


def test_initial_weights_of_another_shape_or_twice_are_refused(run, tmp_path):
    np.savez(tmp_path / "small.npz", theta=np.ones((3, 2)))
    np.savez(tmp_path / "other.npz", weights=np.ones((10, 2)))
    refused(run("predict", "diagonal-linear", "--init", tmp_path / "small.npz"), "shape (3, 2)", "(10, 2)")
    refused(run("predict", "diagonal-linear", "--init", tmp_path / "other.npz"), "no array `theta`", "weights")
    refused(run("predict", "diagonal-linear", "--init", tmp_path / "small.npz", "--alpha", "1e-3"), "--alpha")
    refused(run("predict", "diagonal-linear", "--kind", "uniform"), "'uniform'")


def test_outputs_that_cannot_be_written_are_refused_before_the_problem_is_built(run, tmp_path):
    for option in ("-o", "--plot"):
        refused(run("predict", "no-such-problem", option, tmp_path / "absent" / "a.png"), "folder does not exist")
        refused(run("compare", "no-such-problem", option, tmp_path / "absent" / "a.png"), "folder does not exist")
    refused(run("predict", "no-such-problem", "--plot", tmp_path / "a.docx"), "suffix", ".pdf")
    refused(run("predict", "no-such-problem", "-o", tmp_path / "a.png", "--plot", tmp_path / "a.png"), "two names")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_request_overwrites_nothing(run, tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"precious")
    refused(run("predict", "diagonal-linear", "--alpha", "-1", "-o", path))
    assert path.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_foreign_and_damaged_run_files_are_refused(run, tmp_path):
    np.savez(tmp_path / "foreign.npz", X=np.ones(3))
    (tmp_path / "text.npz").write_text("hello")
    for command in (("show",), ("plot", "-o", tmp_path / "a.png"), ("train", "diagonal-linear", "--resume")):
        refused(run(*command, tmp_path / "foreign.npz"), "not an agf run file")
        refused(run(*command, tmp_path / "text.npz"), "damaged or not a run file")
        refused(run(*command, tmp_path / "absent.npz"), "there is no such file")
    assert not (tmp_path / "a.png").exists()


def test_options_that_contradict_one_another_are_refused(run, plugin, tmp_path):
    run("predict", plugin, "--mode", "agf", "-o", "stairs.npz")
    run("train", plugin, "-o", "flow.npz")
    refused(run("train", plugin, "--lr", "0.1"), "needs --lr and --steps")
    refused(run("train", plugin, "--lr", "0.1", "--steps", 3, "--t-max", 2), "mixed", "--t-max, --lr, --steps")
    refused(run("train", plugin, "--resume", "flow.npz", "--alpha", "1e-3"), "from the run")
    refused(run("train", "diagonal-linear", "--resume", "flow.npz"), "a run of 'mine'")
    refused(run("train", plugin, "--resume", "stairs.npz"), "no training")
    refused(run("train", plugin, "--resume", "flow.npz", "--steps", 3), "is a gradient flow")
    refused(run("compare", plugin, "--mode", "agf", "--lr", "0.1"), "Add --curve")
    refused(run("compare", plugin, "--mode", "agf", "--curve", "flow.npz", "--t-max", 3), "--curve replaces it")
    refused(run("compare", "stairs.npz"), "Add --curve")
    run("compare", plugin, "--mode", "agf", "-o", "both.npz")
    refused(run("compare", "both.npz"), "holds a comparison already", "agf show both.npz")
    for absent in ("absent.npz", "runs/absent"):
        refused(run("compare", absent, "--curve", "flow.npz"), "there is no such file")
    refused(run("compare", "flow.npz", "--curve", "flow.npz"), "holds no prediction")
    refused(run("compare", "stairs.npz", "--curve", "stairs.npz"), "holds no trajectory")
    refused(run("compare", "stairs.npz", "--curve", "flow.npz", "--lr", "1"), "in flow time already")
    refused(run("compare", "stairs.npz", "--curve", "flow.npz", "--alpha", "1"), "prediction already", "--alpha")
    refused(run("plot", "stairs.npz", "-o", "a.png", "--view", "norms"), "recorded by training")
    refused(run("plot", "stairs.npz", "flow.npz", "-o", "a.png", "--view", "features"), "draws one run")
    refused(run("plot", "stairs.npz", "-o", "a.png", "--feature", "beta"), "Add --view features")


def test_a_full_disk_is_one_sentence(plugin):
    if not os.path.exists("/dev/full"):
        return  # the device exists on Linux only
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*AGF, "predict", plugin, "--mode", "agf", "--json", "--quiet"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (2, "agf: error: cannot write the output (No space left on device).\n")


def test_a_reader_that_leaves_early_is_no_error(plugin):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*AGF, "predict", plugin, "--mode", "agf", "--json", "--quiet"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert done.stderr == ""


# -- typed values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", "int", 3),
        ("1e3", "int", 1000),
        ("3", "float", 3.0),
        ("1e-8", "float | None", 1e-8),
        (".1", "float | None", 0.1),
        ("1.", "int", 1),
        (".1", "str", ".1"),
        ("None", "float | None", None),
        ("true", "bool", True),
        ("yes", "bool", True),
        ("False", "bool", False),
        ("3", "str", "3"),
        ("one-hot", "Any", "one-hot"),
        ("[1, 2.5]", "Any", [1, 2.5]),
        ('{"3": 1.0}', "FloatArray | dict[int, float] | str", {"3": 1.0}),
        ("relu", "str", "relu"),
        ("a=b", "str", "a=b"),
    ],
)
def test_values_are_typed_by_the_annotation(text, kind, value):
    typed = request.typed(text, kind)
    assert typed == value
    assert type(typed) is type(value)


@pytest.mark.parametrize(("text", "kind"), [("3.5", "int"), ("many", "int"), ("1", "bool"), ("[1]", "float")])
def test_values_of_another_type_are_refused(text, kind):
    with pytest.raises(ValueError, match=r"integer|number|true"):
        request.typed(text, kind)


def test_a_picture_of_a_landscape_is_named_once(run, tmp_path):
    code, _, err = run("landscape", "diagonal-linear", "--plot", str(tmp_path / "a.svg"))
    assert code == 0
    assert err.count("Wrote") == 1
