"""A problem whose own methods raise: the user reads which, where and on what, and keeps what was computed by then."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import agf
from agf.contract.blame import blame
from agf.contract.raised import told
from agf.records.status import Status
from agf.shell import main

PLUGIN = '''
import agf
import numpy as np

print("a plugin that prints when it is imported")


class Raising(agf.TwoLayer):
    """A tanh network whose method METHOD raises from its call number CALL on."""

    name = "raising"
    calls = 0

    def __init__(self, X, Y, width=4):
        super().__init__(X, Y, activation="tanh", width=width)

    @classmethod
    def example(cls):
        X = np.random.default_rng(0).standard_normal((30, 3))
        return {"X": X, "Y": np.tanh(X[:, 0]) + 0.4 * np.tanh(X[:, 1])}

    def METHOD(self, ARGUMENTS):
        Raising.calls += 1
        if Raising.calls == CALL:
            print("a plugin that prints when it is called")
            self.stumble()
        return super().METHOD(ARGUMENTS)

    def stumble(self):
        ERROR
'''
ARGUMENTS = {
    "loss_grad": "theta, neurons",
    "utility": "theta, neurons, residual",
    "pull": "directions, log_norms, neurons, residual",
    "features": "theta, neurons",
    "initial": "alpha, rng, kind",
    "describe": "",
    "init": "*given, **options",
}


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(method: str, call: int, error: str = "1 / 0") -> str:
        text = PLUGIN.replace("METHOD", method).replace("CALL", str(call)).replace("ERROR", error)
        text = text.replace("(self, ARGUMENTS)", f"(self, {ARGUMENTS[method]})").replace("ARGUMENTS", ARGUMENTS[method])
        (tmp_path / "raising.py").write_text(text, encoding="utf-8")
        return "raising.py"

    return write


@pytest.mark.parametrize("method", ["utility", "loss_grad", "initial", "describe"])
def test_what_raises_before_anything_is_computed_is_a_wrong_request(plugin, capsys, method, tmp_path):
    assert main.main(["predict", plugin(method, 1), "--json", "-o", "run.npz"]) == main.WRONG
    out, err = capsys.readouterr()
    assert out == ""
    sentence = err.strip().splitlines()[-1]
    assert f"Raising.{method} (raising.py:" in sentence
    assert "it raised ZeroDivisionError: division by zero." in sentence
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize("command", ["predict", "train", "compare"])
def test_what_raises_later_leaves_the_partial_result(plugin, capsys, command):
    arguments = [command, plugin("loss_grad", 500), "--json", "--alpha", "1e-4", "-o", "run.npz"]
    assert main.main(arguments) == main.FAILED
    out, err = capsys.readouterr()
    document = json.loads(out)  # and nothing of what the plugin printed
    assert "a plugin that prints when it is imported" in err
    assert "Raising.loss_grad (raising.py:" in err
    assert "Found theta (" in err
    found = agf.load("run.npz")
    if command != "compare":
        assert found.status is Status.ERROR
        assert document["status"] == "error"
    assert np.isfinite(getattr(found, "losses", getattr(found, "levels", np.zeros(1)))).all()


def test_a_comparison_whose_training_raises_at_once_keeps_the_prediction(plugin, capsys):
    # 'conserved' is asked for once at the door, and then by training alone
    ARGUMENTS["conserved"] = "theta, neurons"
    assert main.main(["compare", plugin("conserved", 2), "--json", "--alpha", "1e-4", "-o", "run.npz"]) == main.FAILED
    assert json.loads(capsys.readouterr().out)["status"] == "fitted"
    assert isinstance(agf.load("run.npz"), agf.Staircase)


@pytest.mark.parametrize("mode", ["agf", "limit", "resolved"])
def test_every_mode_hands_back_what_it_had(mode):
    X, Y = np.eye(2), np.array([1.0, -0.4])  # one sample a drop; the second ends below the level at which it raises

    class Late(agf.TwoLayer):
        """Raises as soon as it is nearly fitted, with every output right until then."""

        def loss_grad(self, theta, neurons):
            loss, grad = super().loss_grad(theta, neurons)
            if loss < 0.05 * self.start:
                raise KeyError("late")
            return loss, grad

    problem = Late(X, Y, width=20)
    problem.start = 0.5 * np.mean(Y**2)
    with pytest.raises(agf.ComputationError, match=r"Late\.loss_grad.*KeyError: 'late'") as caught:
        agf.predict(problem, problem.init(1e-8), mode=mode)
    assert isinstance(caught.value.__cause__, KeyError)
    partial = caught.value.partial
    assert partial.status is Status.ERROR
    if mode != "resolved":
        assert len(partial.drops) == 1
    else:
        assert partial.curve_losses[-1] >= 0.05 * problem.start


def test_training_that_raised_goes_on_where_it_was_once_the_problem_is_mended(plugin, capsys):
    name = plugin("loss_grad", 500)
    assert main.main(["train", name, "--alpha", "1e-4", "-o", "run.npz"]) == main.FAILED
    assert main.main(["train", plugin("loss_grad", -1), "--resume", "run.npz", "-o", "whole.npz"]) == main.DONE
    assert main.main(["train", plugin("loss_grad", -1), "--alpha", "1e-4", "-o", "once.npz"]) == main.DONE
    whole, once = agf.load("whole.npz"), agf.load("once.npz")
    # the curve of the first part may lack points inside the step that raised; where it went is the same
    assert whole.times[-1] == once.times[-1]
    assert whole.losses[-1] == once.losses[-1]


@pytest.mark.parametrize("command", ["predict", "predict --mode resolved", "train", "compare"])
def test_a_lack_of_memory_is_told_as_such_and_keeps_the_result(plugin, capsys, command):
    file = plugin("loss_grad", 250, 'raise MemoryError("8 GiB")')
    assert main.main([*command.split(), file, "--alpha", "1e-4", "-o", "run.npz"]) == main.FAILED
    err = capsys.readouterr().err
    assert "out of memory (MemoryError: 8 GiB)" in err
    assert "Traceback" not in err
    left = agf.load("run.npz")
    sides = left.sides.values() if isinstance(left, agf.Comparison) else [left]
    assert Status.ERROR in [side.status for side in sides]


def test_memory_that_really_runs_out_keeps_the_result(plugin):
    """The address space is bounded once the run has begun, and an array beyond it asked for."""
    error = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); np.ones(2**40)"
    words = ["train", plugin("loss_grad", 250, error), "--alpha", "1e-4", "-o", "run.npz"]
    code = "import sys; from agf.shell.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == main.FAILED
    assert "out of memory (" in done.stderr
    assert "Traceback" not in done.stderr
    left = agf.load("run.npz")
    assert left.status is Status.ERROR
    assert left.losses.size > 3


@pytest.mark.parametrize("words", [["train"], ["sweep", "--alpha", "1e-3,1e-2", "-o", "s"], ["check"]])
@pytest.mark.parametrize("method", ["loss_grad", "initial"])
def test_a_plugin_that_leaves_the_program_is_told_too(plugin, capsys, words, method):
    name = plugin(method, 1, "raise SystemExit(0)")
    assert main.main([words[0], name, *words[1:]]) in (main.WRONG, main.FAILED)
    assert "SystemExit: 0" in capsys.readouterr().err


def test_a_plugin_whose_start_takes_anything_is_described_as_others_are(plugin, capsys):
    name = plugin("init", -1)
    assert main.main(["problems", name]) == main.DONE
    assert "gaussian (default)" in capsys.readouterr().err


def test_what_a_method_returned_is_blamed_when_the_package_cannot_use_it():
    class Worded(agf.TwoLayer):
        def residual(self, theta, neurons):
            return "nothing is left"

    problem = Worded(np.eye(3), np.ones(3), activation="linear", width=2)
    with pytest.raises(agf.ProblemError, match=r"what a method returned cannot be used.*AttributeError.*agf check"):
        agf.flow(problem, problem.init(1e-3))


def test_what_an_observer_raises_is_not_the_fault_of_the_problem():
    class Mine(agf.TwoLayer):
        pass

    class Enough(Exception):
        pass

    def observer(*seen):
        raise Enough

    problem = Mine(np.eye(3), np.ones(3), activation="linear", width=2)
    with pytest.raises(Enough):
        agf.predict(problem, problem.init(1e-3), observer=observer, mode="agf")
    with pytest.raises(Enough):
        agf.flow(problem, problem.init(1e-3), observer=observer)


def test_an_error_of_the_package_itself_is_raised_as_it_is(monkeypatch):
    from agf.algorithm.engine import Engine

    def broken(self, state):
        raise AssertionError("ours")

    monkeypatch.setattr(Engine, "step", broken)
    problem = agf.TwoLayer(np.eye(3), np.ones(3), activation="linear", width=2)
    with pytest.raises(AssertionError, match="ours"):
        agf.predict(problem, problem.init(1e-3), mode="agf")


def test_an_error_outside_every_method_blames_nobody():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert blame(agf.TwoLayer, caught.value) is None
    assert told(caught.value) == "ZeroDivisionError: division by zero"


def test_no_check_is_advised_of_what_cannot_be_made():
    class Mine(agf.TwoLayer):
        def __init__(self):
            raise ValueError("nope")

    with pytest.raises(agf.ProblemError, match="ValueError: nope") as raised:
        agf.registry.build(Mine, {})
    assert "agf check" not in str(raised.value)


def test_a_method_that_a_class_is_given_later_leaves_no_program_either(plugin, capsys):
    with open(plugin("loss_grad", -1), "a", encoding="utf-8") as file:
        file.write("\n\ndef leave(self, init):\n    raise SystemExit(0)\n\n\nRaising.start_of = leave\n")
    for words in (["train"], ["predict"], ["sweep", "--alpha", "1e-3,1e-2", "-o", "s"]):
        assert main.main([words[0], "raising.py", *words[1:]]) in (main.WRONG, main.FAILED)
        assert "it raised SystemExit: 0" in capsys.readouterr().err


@pytest.mark.parametrize("raised", [ZeroDivisionError("no"), StopIteration(), RecursionError("deep")])
@pytest.mark.parametrize("method", ["label", "loss_grad", "initial", "theory"])
def test_a_class_made_by_a_call_is_blamed_as_any_other(method, raised):
    """Python calls the module of a class made by type(...) that of its metaclass, `abc`; and who asks for weights or
    for a closed form asks the method itself."""

    def stumble(self, *asked):
        raise raised

    X = np.eye(3)
    problem = type("Mine", (agf.TwoLayer,), {method: stumble})(X, X[:, 0], activation="tanh", width=2)
    ask = problem.theory if method == "theory" else lambda: agf.predict(problem, problem.init(1e-3))
    with pytest.raises(agf.ProblemError, match=rf"stumble \(.*py:\d+\): it raised {type(raised).__name__}"):
        ask()
