"""Problems that break their contract are refused before anything is computed; odd ones that keep it are not."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tiny

import agf
from agf import registry
from agf.conformance import template
from agf.contract import admission
from agf.errors import ProblemError
from agf.shell import main

PLUGIN = """
import agf
import numpy as np


class Mine(agf.TwoLayer):
    name = "mine"

    def __init__(self, X, Y, width=6):
        super().__init__(X, Y, activation="linear", width=width)

    @classmethod
    def example(cls):
        X = np.random.default_rng(0).standard_normal((30, 3))
        return {"X": X, "Y": X @ np.array([1.0, 0.5, 0.2])}

CHANGE
"""
#: What is wrong -> the method as written, what the sentence must say.
WRONG = {
    "mutates": (
        "    def utility(self, theta, neurons, residual):\n"
        "        out = super().utility(theta, neurons, residual)\n"
        "        theta[:] = 0.0\n"
        "        return out",
        r"`utility` breaks.*argument 1 changed by the call.*copy first",
    ),
    "degree": (
        "    degree = property(lambda self: 3, lambda self, value: None)",
        r"`utility` breaks.*degree 2 at scale.*`degree` should be 2",
    ),
    "negative": (
        "    def loss_grad(self, theta, neurons):\n"
        "        loss, grad = super().loss_grad(theta, neurons)\n"
        "        return loss - 10.0, grad",
        r"`loss_grad` breaks.*a loss of -.*at least 0.*a constant",
    ),
    "infinite": (
        "    def loss_grad(self, theta, neurons):\n        return np.inf, super().loss_grad(theta, neurons)[1]",
        r"`loss_grad` breaks.*a loss of inf.*a finite number",
    ),
    "not a number": (
        "    def loss_grad(self, theta, neurons):\n        return np.nan, super().loss_grad(theta, neurons)[1]",
        r"`loss_grad` breaks.*a loss of nan",
    ),
    "sign": (
        "    def loss_grad(self, theta, neurons):\n"
        "        loss, grad = super().loss_grad(theta, neurons)\n"
        "        return loss, -grad",
        r"`loss_grad` breaks.*slope -1 in all.*the sign",
    ),
    "factor": (
        "    def utility(self, theta, neurons, residual):\n"
        "        values, grads = super().utility(theta, neurons, residual)\n"
        "        return values, 2.0 * grads",
        r"`utility` breaks.*slope 0\.5 in all.*a factor 0\.5",
    ),
    "shape": (
        "    def utility(self, theta, neurons, residual):\n"
        "        values, grads = super().utility(theta, neurons, residual)\n"
        "        return values[:, None], grads",
        r"`utility` breaks.*shape \(.*, 1\).*one utility a neuron",
    ),
    "not a pair": (
        "    def loss_grad(self, theta, neurons):\n        return super().loss_grad(theta, neurons)[0]",
        r"`loss_grad` breaks.*a pair",
    ),
    "residual": (
        "    def residual(self, theta, neurons):\n        return np.nan * super().residual(theta, neurons)",
        r"`utility` breaks.*nan at index",
    ),
    "conserved": (
        "    def conserved(self, theta, neurons):\n        return {'first': theta[:, 0]}",
        r"`conserved` breaks.*'first' drifts.*0 along the flow",
    ),
    "layers": ("    layers = property(lambda self: (1, 1), lambda self, value: None)", r"`layers` breaks.*drifts"),
    "outputs": (
        "    def outputs(self, theta, neurons):\n        return 3.0 * super().outputs(theta, neurons)",
        r"`outputs` breaks.*E<f_0, f_1>",
    ),
    "self-interaction": (
        "    def self_interaction(self, directions, *rest):\n        return -np.ones(len(directions))",
        r"`self_interaction` breaks.*-1.*0 or more",
    ),
    "hessian": (
        "    def hessian(self, theta, neurons):\n        return np.eye(theta.size)",
        r"`hessian` breaks.*along a random direction",
    ),
    "bound": (
        "    def least_loss(self, init):\n        return 100.0",
        r"`least_loss` breaks.*100.*a loss that descent reaches",
    ),
    "another residual": (
        "    def residual(self, theta, neurons):\n        return 2.0 * super().residual(theta, neurons)",
        r"`pull` breaks.*2 times -grad L",
    ),
}


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(change: str) -> str:
        (tmp_path / "mine.py").write_text(PLUGIN.replace("CHANGE", change), encoding="utf-8")
        return "mine.py"

    return write


@pytest.mark.parametrize("command", ["predict", "train", "compare"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_broken_contract_is_refused_with_the_method_and_the_cause(written, capsys, tmp_path, command, wrong):
    change, words = WRONG[wrong]
    assert main.main([command, written(change), "--alpha", "1e-4", "-o", "run.npz", "--json"]) == main.WRONG
    out, err = capsys.readouterr()
    assert out == ""
    sentence = err.strip().splitlines()[-1]
    assert sentence.startswith("agf: error: problem 'mine': ")
    assert sentence.endswith("agf check mine.py:Mine")
    assert re.search(words, sentence), sentence
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("permanent", (77,), "a tuple of rows from 0 to 5"),
        ("permanent", [0], "a tuple of rows"),
        ("layers", "ab", "two integers"),
        ("layers", (4, 1), "0 < d < 4"),
        ("kink", float("nan"), "a number of at least 0"),
        ("name", 5, "text"),
        ("n_samples", "x", "an integer, at least 1"),
        ("n_samples", -3, "an integer, at least 1"),
        ("n_samples", None, "an integer, at least 1"),
    ],
)
def test_plain_attributes_that_cannot_be_are_refused_by_name(attribute, value, expected):
    class Mine(agf.TwoLayer):
        """Of a stranger's module."""

    problem = Mine(np.eye(3), np.ones(3), activation="tanh", width=6)
    setattr(Mine, attribute, value) if attribute == "name" else setattr(problem, attribute, value)
    with pytest.raises(ProblemError, match=f"has {attribute} = .*{re.escape(expected)}"):
        problem.init(1e-3)


def test_weights_that_are_all_zero_are_refused_whoever_made_them():
    class Mine(agf.TwoLayer):
        def initial(self, alpha, rng, kind):
            return np.zeros((self.width, self.n_params))

    problem = Mine(np.eye(3), np.ones(3), activation="tanh", width=6)
    raw = agf.Init(np.zeros((6, 4)), np.full(6, -np.inf), 1e-3)
    for init in (problem.init(1e-3), raw):
        for function in (agf.predict, agf.flow, agf.tickets):
            with pytest.raises(agf.RequestError, match="all neurons are exactly zero"):
                function(problem, init)


def test_the_check_that_is_advised_is_named_from_where_the_user_is(written, capsys):
    """Also where the problem changes the folder."""
    change = WRONG["sign"][0].replace("        loss,", "        import os; os.chdir('/')\n        loss,", 1)
    assert main.main(["predict", written(change), "--alpha", "1e-4"]) == main.WRONG
    assert capsys.readouterr().err.strip().endswith("agf check mine.py:Mine")


def test_what_keeps_the_contract_passes(written, capsys):
    assert main.main(["predict", written("    pass"), "--quiet"]) == main.DONE


KEPT = {
    "product": lambda: tiny.Product(),
    "product of three": lambda: tiny.Product(degree=3, width=4),
    "product of five": lambda: tiny.Product(degree=5, width=2),
    "samples": lambda: tiny.Samples(np.eye(3), np.array([1.0, 0.0, -2.0])),
    "mixing": lambda: tiny.Mixing(np.diag([2.0, 1.0]), 4),
    "broken later": lambda: tiny.Broken(),
    "nothing to fit": lambda: tiny.Product(target=0.0),
}


@pytest.mark.parametrize("name", KEPT)
def test_problems_of_other_tests_pass(name):
    problem = KEPT[name]()
    admission.admit(problem, problem.init(1e-6), name)


ACTIVATIONS = ["linear", "relu", "leaky-relu", "square", "tanh", "erf", "gelu", "silu"]


@pytest.mark.parametrize("loss", ["half-squared", "logistic", "exponential"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_kinks_and_activations_that_are_homogeneous_only_to_leading_order_pass(activation, loss):
    class Mine(agf.TwoLayer):
        """Of a stranger's module."""

    rng = np.random.default_rng(1)
    for n in (1, 3, 40):
        X = rng.standard_normal((n, 3))
        if loss != "half-squared" and n == 1:
            continue  # one class only
        X[0, 0], X[-1, 0] = 1.0, -1.0
        Y = np.sign(X[:, 0]) if loss != "half-squared" else X[:, 0] ** 2 + 0.1
        problem = Mine(X, Y, activation=activation, loss=loss, width=9)
        admission.admit(problem, problem.init(1e-200), "mine")


def test_the_template_passes(tmp_path):
    pytest.importorskip("torch")
    template.write(tmp_path / "mine.py")
    cls = registry.find(f"{tmp_path}/mine.py")
    problem = cls(**cls.example())
    admission.admit(problem, problem.init(1e-8), "mine")


def test_the_door_costs_little_and_nothing_for_what_the_package_brings():
    calls = []

    class Mine(agf.TwoLayer):
        def loss_grad(self, theta, neurons):
            calls.append(len(neurons))
            return super().loss_grad(theta, neurons)

        def utility(self, theta, neurons, residual):
            calls.append(len(neurons))
            return super().utility(theta, neurons, residual)

    X = np.random.default_rng(0).standard_normal((60, 4))
    problem = Mine(X, np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0), activation="relu", width=50)
    init = problem.init(1e-8)
    admission.admit(problem, init, "mine")
    asked = sum(calls)
    assert len(calls) <= 50
    calls.clear()
    agf.compare(agf.predict(problem, init, mode="agf"), agf.flow(problem, init))
    assert asked < 0.01 * sum(calls)  # in neurons evaluated
    calls.clear()
    Mine.__module__ = "agf_problems.mine"
    admission.admit(problem, init, "mine")
    assert not calls


def test_an_error_raised_at_the_door_is_told_as_one():
    class Mine(agf.TwoLayer):
        def residual(self, theta, neurons):
            raise KeyError("mine")

    problem = Mine(np.eye(2), np.ones(2), width=2)
    with pytest.raises(ProblemError, match=r"Mine\.residual.*KeyError"):
        admission.admit(problem, problem.init(1e-3), "mine")


WRONG_SIGN = WRONG["sign"][0]


def test_every_way_in_passes_the_same_door(written, capsys, tmp_path):
    """Commands that compute, the Python functions, sweeps, reruns and resumed training refuse a wrong gradient."""
    good = written("    pass")
    assert main.main(["predict", good, "--alpha", "1e-4", "-o", "predicted.npz", "--quiet"]) == main.DONE
    assert (
        main.main(["train", good, "--alpha", "1e-2", "--max-steps", "5", "-o", "trained.npz", "--quiet"]) == main.FAILED
    )
    bad = written(WRONG_SIGN)
    ways = {
        "predict": [bad],
        "train": [bad],
        "compare": [bad],
        "sweep": [bad, "-o", "swept", "--alpha", "1e-4", "--seed", "0:3"],
        "rerun": ["predicted.npz", "--problem", bad],
        "landscape": [bad],
        "tickets": [bad],
        "rewind": [bad],
        "escape": ["trained.npz", "--problem", bad],
        "groups": ["trained.npz", "--problem", bad],
        "flips": ["trained.npz", "--problem", bad],
        "merge": ["trained.npz", "--problem", bad],
        "prune": ["trained.npz", "--keep", "2", "--problem", bad],
    }
    resumed = ["train", bad, "--resume", "trained.npz", "--max-steps", "5"]
    for words in [*([command, *rest] for command, rest in ways.items()), resumed]:
        capsys.readouterr()
        assert main.main(words) == main.WRONG, words
        assert re.search(WRONG["sign"][1], capsys.readouterr().err), words
    assert not (tmp_path / "swept").exists()
    cls = registry.find(bad)
    problem = cls(**cls.example())
    init = problem.init(1e-4)
    for function in (
        lambda: agf.predict(problem, init, mode="agf"),
        lambda: agf.predict(problem, init, mode="limit"),
        lambda: agf.predict(problem, init, mode="resolved"),
        lambda: agf.predict_many(problem, [init], mode="agf"),
        lambda: agf.flow(problem, init),
        lambda: agf.descend(problem, init, lr=0.1, steps=3),
        lambda: agf.Engine(problem, init),
        lambda: agf.certificate(problem, agf.State(0.0, init.log_norms < 0, init.directions, init.log_norms, 0.0)),
        lambda: agf.landscape(problem),
        lambda: agf.groups(problem, init),
        lambda: agf.merge(problem, init),
        lambda: agf.prune(problem, init, 2),
        lambda: agf.escape(problem, init.params),
        lambda: agf.rewind(problem, init, cycles=1),
        lambda: agf.sweep(bad, folder="swept", alpha=[1e-4], arguments=cls.example()),
    ):
        with pytest.raises(ProblemError, match=r"`loss_grad` breaks"):
            function()


def test_a_problem_is_asked_once(monkeypatch):
    class Mine(agf.TwoLayer):
        pass

    problem = Mine(np.eye(3), np.ones(3), activation="linear", width=2)
    admission.admit(problem, problem.init(1e-3), "first")
    monkeypatch.setattr(admission, "_TESTED", None)
    admission.admit(problem, problem.init(1e-6), "second")


#: Method -> what a stranger's returns, and what must be said.
RETURNED = {
    "label": ("7", r"`label` returned an int.*a few words"),
    "features": ("None", r"`features` returned None.*a dict of arrays"),
    "features of text": ("{'words': np.array(['a'])}", r"`features` returned .*U1 for 'words'.*real numbers"),
    "features by number": ("{0: np.ones(2)}", r"`features` returned 0 as a name"),
    "features ragged": ("{'rows': [[1.0], [1.0, 2.0]]}", r"`features` returned a list for 'rows'"),
    "conserved": ("[1.0]", r"`conserved` returned a list.*a dict"),
    "describe": ("None", r"`describe` returned None.*a few words"),
    "flow_system": ("'polar'", r"`flow_system` returned a str.*FlowSystem"),
    "phases": ("3", r"`phases` returned an int.*start, dormant and active"),
    "loss_grad": ("('0.5', np.zeros_like(args[0]))", r"`loss_grad` returned a str for the loss.*a real number"),
    "initial": ("np.ones((1, 1))", r"`initial` returned shape \(1, 1\).*real numbers of shape \(6, 4\)"),
    "example": ("None", r"`example` returned None.*a dict"),
}


#: Method -> the commands that have no use for it, of a linear network that flows in modes.
NOT_ASKED = {"phases": ("train",)}


@pytest.mark.parametrize("case", RETURNED)
def test_what_a_method_returns_is_checked_when_it_returns_it(written, capsys, case):
    """In a run, which ends with the method's name and never a traceback, and in `agf check` alike."""
    method = case.split()[0]
    value, words = RETURNED[case]
    decorator = "    @classmethod\n" if method == "example" else ""
    file = written(f"{decorator}    def {method}(self, *args, **options):\n        return {value}")
    seen = ""
    for words_of_command in (
        ["check", file],
        ["train", file, "--alpha", "1e-2"],
        ["predict", file, "--alpha", "1e-2"],
    ):
        capsys.readouterr()
        code = main.main(words_of_command)
        seen = capsys.readouterr().err
        found, said = words.split("returned ", 1)[1].split(".*")[0], f"`?{method}`?"
        told = re.search(said, seen) and re.search(found, seen)
        used = words_of_command[0] not in NOT_ASKED.get(method, ())
        assert (code != main.DONE) == used, (words_of_command, seen)
        assert bool(told) == used, (words_of_command, seen)
        assert "Traceback" not in seen


def test_returns_are_checked_in_the_middle_of_a_run_too():
    class Later(agf.TwoLayer):
        calls = 0

        def label(self, theta, neurons, chosen):
            self.calls += 1
            return "fine" if self.calls < 2 else 3

    X = np.random.default_rng(0).standard_normal((30, 3))
    problem = Later(X, np.tanh(X[:, 0]) + 0.4 * np.tanh(X[:, 1]), activation="tanh", width=4)
    with pytest.raises(agf.AgfError, match=r"`label` returned an int"):
        agf.predict(problem, problem.init(1e-4), mode="agf")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("linear-attention", {"covariance": [2e100, 1e100]}),
        ("linear-attention", {"covariance": [2e-100, 1e-100]}),
        ("linear-attention", {"context": 10**160}),
        ("modular-addition", {"template": np.array([3e100, -1e100, 0.0, -1e100, -1e100])}),
        ("modular-addition", {"p": 7, "template": {1: 1e-100}}),
        ("diagonal-linear", {"X": np.eye(2), "y": [1e130, 1.0]}),
    ],
)
def test_data_whose_products_leave_float64_are_refused_and_not_called_learned(name, arguments):
    with pytest.raises(agf.DataError, match="leave the range of float64"):
        agf.problem(name, **arguments)


@pytest.mark.parametrize("odd", [3, "run.npz", None.__class__])
def test_only_a_trajectory_is_resumed(odd):
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=[1.0, 0.5])
    for train in (agf.flow, lambda *a, **k: agf.descend(*a, lr=0.1, steps=2, **k)):
        with pytest.raises(agf.RequestError, match="`resume` is no trajectory"):
            train(problem, problem.init(1e-4), resume=odd)


@pytest.mark.parametrize("words", [["escape"], ["groups"], ["flips"], ["merge"], ["prune", "--keep", "2"], ["rerun"]])
def test_every_command_on_a_run_is_told_where_its_problem_is(written, capsys, monkeypatch, words):
    """A run of a problem in a file names the remedy, and takes no other problem of the same arguments for it."""
    good = written("    pass")
    train = ["train", good, "--alpha", "1e-2", "--max-steps", "5", "-o", "trained.npz", "--quiet"]
    assert main.main(train) == main.FAILED
    for more, expected in (
        ([], r"'mine' of this run is not registered.*--problem \./FILE\.py"),
        (["--problem", "linear"], r"this is a run of 'mine'. Found problem 'linear'"),
    ):
        capsys.readouterr()
        assert main.main([*words, "trained.npz", *more]) == main.WRONG
        assert re.search(expected, capsys.readouterr().err)


@pytest.mark.parametrize("method", ["residual", "loss_grad", "utility"])
def test_what_a_plugin_inherits_must_be_about_the_loss_that_it_says_anew(method):
    """A residual of 0, from which the parent makes loss, gradient and utilities, kept every law of the core: the
    parent's closed forms then answered for another problem."""

    class Other(type(agf.problem("diagonal-linear", X=np.eye(2), y=np.ones(2)))):
        residual = lambda self, theta, neurons: 0 * super().residual(theta, neurons)  # noqa: E731

    class Same(Other.__base__):
        pass

    setattr(Same, method, lambda self, *asked: getattr(Other.__base__, method)(self, *asked))
    X = np.random.default_rng(0).standard_normal((8, 2))
    other, same = Other(X, X @ [1.0, 2.0]), Same(X, X @ [1.0, 2.0])
    with pytest.raises(ProblemError, match="breaks the contract"):
        agf.predict(other, other.init(1e-3))
    assert agf.predict(same, same.init(1e-3), mode="limit").drops


def test_a_class_without_a_name_is_not_its_parent():
    """A run of it was called one of the parent, which was built in its place wherever the run was asked."""

    class Mine(agf.TwoLayer):
        pass

    mine = Mine(np.eye(2), np.ones(2), activation="tanh", width=2)
    run = agf.flow(mine, mine.init(1e-3), t_max=1.0)
    assert run.problem == "Mine"
    with pytest.raises(agf.RequestError, match="'Mine' of this run is not registered"):
        agf.groups(run)


@pytest.mark.parametrize("mode", ["agf", "limit", "auto"])
def test_a_prediction_looks_its_problem_over_once(mode, monkeypatch):
    looked = []
    monkeypatch.setattr(admission, "check_sizes", lambda problem, where: looked.append(where))
    problem = agf.problem("diagonal-linear", X=np.eye(3), y=np.array([3.0, 2.0, 1.0]))
    agf.predict(problem, problem.init(1e-4), mode=mode)
    assert looked == ["predict"]
