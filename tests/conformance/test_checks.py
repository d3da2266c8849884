"""Every registered problem keeps its contract, and a problem that breaks it is told where and why."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import agf
from agf import registry
from agf.conformance.checks import NAMES, check
from agf.contract.problem import Problem

CASES = {
    "linear": {"activation": "linear"},
    "relu": {"activation": "relu"},
    "leaky": {"activation": "leaky-relu", "leak": 0.2},
    "square": {"activation": "square"},
    "fourth power": {"activation": "power", "power": 4},
    "tanh": {"activation": "tanh"},
    "erf": {"activation": "erf"},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "logistic": {"activation": "tanh", "loss": "logistic"},
    "exponential": {"activation": "relu", "loss": "exponential"},
    "cross-entropy": {"activation": "gelu", "loss": "cross-entropy"},
}


def network(case: str = "square", cls: type[agf.TwoLayer] = agf.TwoLayer) -> agf.TwoLayer:
    options = dict(CASES[case])
    rng = np.random.default_rng(3)
    X = rng.standard_normal((25, 3))
    Y = {
        "half-squared": X @ rng.standard_normal((3, 2)) + 0.3,
        "cross-entropy": rng.integers(0, 3, 25),
    }.get(options.get("loss", "half-squared"), rng.integers(0, 2, 25))
    return cls(X, Y, width=5, **options)


@functools.cache
def registered(name: str) -> agf.conformance.checks.Conformance:
    cls = registry.find(name)
    return check(cls(**cls.example()))


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("law", NAMES)
def test_a_registered_problem_keeps_its_contract(name, law):
    verdict = registered(name).verdicts[NAMES.index(law)]
    assert verdict.check == law
    assert verdict.outcome != "failed", verdict.sentence


@pytest.mark.parametrize("case", CASES)
def test_a_two_layer_network_keeps_its_contract(case):
    report = check(network(case))
    assert report.passed, str(report)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_verdicts_do_not_depend_on_the_units_of_the_data(scale):
    X, Y = network("relu").X, network("relu").Y
    for problem in (agf.TwoLayer(scale * X, Y, width=4), agf.TwoLayer(X, scale * Y, width=4)):
        report = check(problem)
        assert report.passed, str(report)


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_do_not_depend_on_the_random_points(seed):
    for case in ("relu", "tanh"):
        report = check(network(case), seed=seed)
        assert report.passed, str(report)


def test_a_report_reads_as_a_table_and_as_json():
    report = check(network())
    assert [row[0] for row in report.table().rows] == list(NAMES)
    assert json.loads(json.dumps(report.to_dict()))["passed"] is True
    assert "passed, 0 failed" in str(report)


# -- broken plugins: each breaks one thing, and the named check finds it --------------------------------------------


class GradientFactor(agf.TwoLayer):
    """The gradient of a mean that forgot the 1/2 of the loss in the output weights."""

    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        grad = grad.copy()
        grad[:, 3:] *= 2
        return loss, grad


class UtilitySign(agf.TwoLayer):
    def utility(self, theta, neurons, residual):
        values, grads = super().utility(theta, neurons, residual)
        return -values, -grads


class ResidualSum(agf.TwoLayer):
    def residual(self, theta, neurons):
        return super().residual(theta, neurons) * self.n_samples


class WrongDegree(agf.TwoLayer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.degree = 2


class FractionalDegree(agf.TwoLayer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.degree = 2.5


class WholeActivation(agf.TwoLayer):
    """tanh itself where its leading order is asked for."""

    def utility(self, theta, neurons, residual):
        grad = self._force(theta, residual, None)
        return np.sum(theta[:, 3:] * grad[:, 3:], axis=1), grad


class Cancelling(agf.TwoLayer):
    """The right leading order, with digits lost as in the logarithm of 1 + exp(z), less log 2."""

    def utility(self, theta, neurons, residual):
        values, grad = super().utility(theta, neurons, residual)
        return values + 1e-8 * np.sin(1e4 * values), grad


class Underflow(agf.TwoLayer):
    def pull(self, directions, log_norms, neurons, residual):
        rho = np.exp(log_norms)[:, None]
        theta = rho * directions
        return self._force(theta, residual, None) / rho ** (self.degree - 1)


class NoPull(agf.TwoLayer):
    """A non-homogeneous activation with the default `pull`."""

    pull = Problem.pull


class Everybody(agf.TwoLayer):
    """A shortcut that takes all neurons for members of the network."""

    def network_pull(self, directions, log_norms, neurons, members):
        return super().network_pull(directions, log_norms, neurons, members | True)


class LastMoment(agf.TwoLayer):
    """What is read off all moments at once, in the wrong order."""

    def features_along(self, thetas, neurons):
        return super().features_along(thetas[::-1], neurons)


class Transposed(agf.TwoLayer):
    def utility(self, theta, neurons, residual):
        values, grads = super().utility(theta, neurons, residual)
        return values, grads.T


class SinglePrecision(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        return loss, grad.astype(np.float32)


class NotANumber(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        return loss, grad + np.where(theta > 0, np.nan, 0.0)


class NoPair(agf.TwoLayer):
    def utility(self, theta, neurons, residual):
        return super().utility(theta, neurons, residual)[0]


class Mutates(agf.TwoLayer):
    def residual(self, theta, neurons):
        theta *= 1.0 + 1e-3
        return super().residual(theta, neurons)


class NeedsSomeone(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        theta[0]
        return super().loss_grad(theta, neurons)


class CountsNeurons(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        return loss + 0.01 * len(neurons), grad


class Recycles(agf.TwoLayer):
    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        if getattr(self, "work", np.zeros(0)).shape != grad.shape:
            self.work = grad
        self.work[...] = grad
        return loss, self.work


class Remembers(agf.TwoLayer):
    def residual(self, theta, neurons):
        self.latest = super().residual(theta, neurons)
        return None

    def utility(self, theta, neurons, residual):
        return super().utility(theta, neurons, self.latest)

    def pull(self, directions, log_norms, neurons, residual):
        return super().pull(directions, log_norms, neurons, self.latest)


class FirstSample(agf.TwoLayer):
    """Penalizes the first sample of the file."""

    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        extra = 0.01 * self.X[0, 0] ** 2
        return loss * (1.0 + extra), grad * (1.0 + extra)


class FirstInput(agf.TwoLayer):
    """Weighs its samples by the first column of its inputs, whatever it is."""

    def loss_grad(self, theta, neurons):
        loss, grad = super().loss_grad(theta, neurons)
        extra = 0.01 * float(np.mean(self.X[:, 0] ** 2))
        return loss * (1.0 + extra), grad * (1.0 + extra)


class Accumulates(agf.TwoLayer):
    """Every neuron is weakened by those before it in the list."""

    def utility(self, theta, neurons, residual):
        utility, gradient = super().utility(theta, neurons, residual)
        weak = 0.9 ** np.arange(len(neurons))
        return utility * weak, gradient * weak[:, None]


class Identities(agf.TwoLayer):
    """Neurons of different strength that claim to be interchangeable."""

    def _strength(self, neurons):
        return (1.0 + np.asarray(neurons))[:, None] ** 0.5

    def loss_grad(self, theta, neurons):
        s = self._strength(neurons)
        loss, grad = super().loss_grad(s * theta, neurons)
        return loss, s * grad

    def residual(self, theta, neurons):
        return super().residual(self._strength(neurons) * theta, neurons)

    def utility(self, theta, neurons, residual):
        s = self._strength(neurons)
        values, grads = super().utility(s * theta, neurons, residual)
        return values, s * grads


class GlobalRandomness(agf.TwoLayer):
    def initial(self, alpha, rng, kind):
        return np.random.default_rng().standard_normal((self.width, self.n_params))


class AlphaTwice(agf.TwoLayer):
    def initial(self, alpha, rng, kind):
        return alpha * super().initial(alpha, rng, kind)


class NotConserved(agf.TwoLayer):
    def conserved(self, theta, neurons):
        return {"balance": np.sum(theta[:, 3:] ** 2, axis=1) - np.sum(theta[:, :3] ** 2, axis=1)}


class UnweightedOutputs(agf.TwoLayer):
    def outputs(self, theta, neurons):
        return super().outputs(theta, neurons) * np.sqrt(self.n_samples)


class NoHalf(agf.TwoLayer):
    def self_interaction(self, directions, neurons, active, active_neurons):
        return 2 * super().self_interaction(directions, neurons, active, active_neurons)


class GaussNewton(agf.TwoLayer):
    def hessian(self, theta, neurons):
        return self._gram(theta, neurons, self._predict(theta, neurons)) / self.n_samples


class BatchSum(agf.TwoLayer):
    def batch_loss_grad(self, theta, neurons, rows):
        loss, grad = super().batch_loss_grad(theta, neurons, rows)
        return loss * len(rows), grad * len(rows)


class RisingTheory(agf.TwoLayer):
    def theory(self, alpha=None, **options):
        drop = agf.Drop(1.0, 1.0, 1.0, 2 * self.loss_grad(np.zeros((0, 5)), [])[0])
        start = self.loss_grad(np.zeros((0, 5)), [])[0]
        return agf.Staircase(self.name, self.degree, agf.Clock(self.degree, 0.0), start, (drop,), agf.Status.THEORY)


BROKEN = [
    (GradientFactor, "relu", "gradient of the loss", "loss_grad", "3-4 of each neuron"),
    (UtilitySign, "relu", "utility against loss", "utility", "the sign"),
    (ResidualSum, "relu", "utility against loss", "utility", "mean"),
    (WrongDegree, "square", "homogeneity", "utility", "`degree` should be 3"),
    (FractionalDegree, "square", "attributes", "degree", "not set"),
    (WholeActivation, "tanh", "homogeneity", "utility", "leading order"),
    (Cancelling, "tanh", "homogeneity", "utility", "subtracting nearly equal numbers"),
    (Underflow, "square", "pull against loss", "pull", "division by zero"),
    (NoPull, "tanh", "pull against loss", "pull", "override `pull`"),
    (Everybody, "tanh", "pull against loss", "network_pull", "`members`"),
    (LastMoment, "relu", "words and features", "features_along", "rows mixed up"),
    (Transposed, "relu", "shapes and finiteness", "utility", "transposed"),
    (SinglePrecision, "relu", "shapes and finiteness", "loss_grad", "float32"),
    (NotANumber, "relu", "shapes and finiteness", "loss_grad", "division by zero"),
    (NoPair, "relu", "shapes and finiteness", "utility", "left out"),
    (Mutates, "relu", "no side effects", "residual", "in-place"),
    (NeedsSomeone, "relu", "empty network", "loss_grad", "see the line named"),
    (CountsNeurons, "relu", "empty network", "loss_grad", "counts neurons"),
    (Recycles, "relu", "no side effects", "loss_grad", "work array"),
    (Remembers, "relu", "no side effects", "residual", "state kept"),
    (Identities, "relu", "order of neurons", "loss_grad", "interchangeable = False"),
    (FirstInput, "relu", "order of inputs", "loss_grad", "a place of its own"),
    (FirstSample, "relu", "order of samples", "loss_grad", "weights by position"),
    (Accumulates, "relu", "order of neurons", "utility", "a loop in which one changes"),
    (GlobalRandomness, "relu", "initialization", "initial", "`rng`"),
    (AlphaTwice, "relu", "initialization", "initial", "alpha applied twice"),
    (NotConserved, "square", "conserved quantities", "conserved", "factor"),
    (UnweightedOutputs, "relu", "outputs against loss", "outputs", "mean"),
    (NoHalf, "relu", "self-interaction", "self_interaction", "a factor 0.5"),
    (NoHalf, "tanh", "self-interaction", "self_interaction", "a factor 0.5"),
    (GaussNewton, "square", "hessian", "hessian", "term left out"),
    (BatchSum, "relu", "minibatches", "batch_loss_grad", "mean"),
    (RisingTheory, "relu", "closed form", "theory", "out of order"),
]


@pytest.mark.parametrize(
    ("cls", "case", "law", "method", "cause"), BROKEN, ids=[f"{b[0].__name__}-{b[1]}" for b in BROKEN]
)
def test_a_broken_plugin_is_told_where_and_why(cls, case, law, method, cause):
    report = check(network(case, cls))
    verdict = report.verdicts[NAMES.index(law)]
    assert verdict.outcome == "failed", str(report)
    assert verdict.method == method, verdict.sentence
    assert cause in verdict.cause or cause in verdict.found or cause in verdict.expected, verdict.sentence
    assert not report.passed
    assert verdict.found


def test_what_is_not_broken_is_not_blamed():
    failed = {v.check for v in check(network("relu", BatchSum)).failures}
    assert failed == {"minibatches"}


@pytest.mark.parametrize("epsilon", [1e-3, 1e-4])
def test_a_gradient_wrong_by_a_little_is_found(epsilon):
    class Slightly(agf.TwoLayer):
        def loss_grad(self, theta, neurons):
            loss, grad = super().loss_grad(theta, neurons)
            return loss, grad * (1 + epsilon)

    assert "gradient of the loss" in {v.check for v in check(network("relu", Slightly)).failures}


# -- one cause, one row ---------------------------------------------------------------------------------------------


class Softplus(agf.AutogradProblem):
    """Not small to second order at the origin: every method fails for this one reason."""

    name = "softplus"

    def neuron(self, theta, x):
        import torch

        return theta[3:] * torch.nn.functional.softplus(theta[:3] @ x)


def test_one_cause_is_told_once_and_the_checks_it_fails_are_only_listed():
    report = check(Softplus(np.eye(3), np.arange(3.0)))
    first = report.failures[0]
    assert "follows no whole power of s" in first.sentence
    assert all(verdict.follows == first.check for verdict in report.failures[1:])
    told = str(report)
    assert told.count("follows no whole power") == 1
    assert "Failed for a reason given above: shapes and finiteness, empty network" in told
    assert sum(row[1] == "failed" for row in report.table().rows) == 1


def test_a_check_that_builds_on_a_broken_law_says_which():
    failures = {verdict.check: verdict for verdict in check(network(cls=GradientFactor)).failures}
    assert failures["gradient of the loss"].follows == ""
    pull = failures["pull against loss"]
    assert pull.follows == "gradient of the loss"
    assert pull.sentence.startswith("follows from 'gradient of the loss'. pull: found")


def test_two_causes_are_both_told():
    class Both(UtilitySign):
        def conserved(self, theta, neurons):
            return {"norm": np.sum(theta**2, axis=1)}

    roots = [verdict.check for verdict in check(network(cls=Both)).failures if not verdict.follows]
    assert roots == ["utility against loss", "conserved quantities"]


def test_a_method_that_raises_is_named_with_its_line_and_what_it_was_given():
    class Raises(agf.TwoLayer):
        def utility(self, theta, neurons, residual):
            if not neurons.size:
                raise KeyError("nobody")
            return super().utility(theta, neurons, residual)

    (empty,) = check(network(cls=Raises)).failures
    assert empty.check == "empty network"
    assert "utility: raised KeyError: 'nobody' (Raises.utility (" in empty.sentence
    assert "it was given theta (0, 5), neurons (0,)" in empty.sentence
