"""Networks from one torch function: derived quantities against analytic ones, measured degrees, explained mistakes."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import agf
from agf import sphere
from agf.conformance.checks import check

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((15, 3))
Y = np.random.default_rng(1).standard_normal((15, 2))


def problem(function, X=X, Y=Y, **members):
    """An AutogradProblem whose neuron is function(theta, x)."""
    body = {"name": "mine", "neuron": lambda self, theta, x: function(theta, x), **members}
    return type("Mine", (agf.AutogradProblem,), body)(X, Y, width=4)


def layer(sigma):
    return lambda theta, x: theta[3:] * sigma(theta[:3] @ x)


SIGMAS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "square": torch.square,
    "linear": lambda z: z,
}


@pytest.mark.parametrize("name", SIGMAS)
def test_everything_derived_agrees_with_the_analytic_network(name):
    p, q = problem(layer(SIGMAS[name])), agf.TwoLayer(X, Y, name, width=4)
    theta, who = q.init(1.0, seed=2).params(), np.arange(4)
    assert p.degree == q.degree
    for mine, theirs in (
        (p.loss_grad(theta, who), q.loss_grad(theta, who)),
        (p.batch_loss_grad(theta, who, np.arange(4)), q.batch_loss_grad(theta, who, np.arange(4))),
        (p.utility(theta, who, p.residual(theta, who)), q.utility(theta, who, q.residual(theta, who))),
    ):
        assert mine[0] == pytest.approx(theirs[0], rel=1e-12)
        assert np.abs(mine[1] - theirs[1]).max() < 1e-12
    directions, log_norms = sphere.polar(theta)
    for shift in (0.0, -3.0, -30.0, -600.0):
        mine, theirs = (s.pull(directions, log_norms + shift, who, s.residual(theta, who)) for s in (p, q))
        assert np.abs(mine - theirs).max() < 1e-10 * np.abs(theirs).max()
    assert np.abs(p.hessian(theta, who) - q.hessian(theta, who)).max() < 1e-12
    vector = np.random.default_rng(3).standard_normal(theta.shape)
    assert p.hessian_product(theta, who, vector).ravel() == pytest.approx(
        q.hessian(theta, who) @ vector.ravel(), abs=1e-12
    )
    mine, theirs = (s.self_interaction(directions, who, theta[:1], who[:1]) for s in (p, q))
    assert mine == pytest.approx(theirs, abs=1e-9)
    assert p.outputs(theta, who) == pytest.approx(q.outputs(theta, who), abs=1e-14)


@pytest.mark.parametrize("loss", ["half-squared", "logistic", "cross-entropy"])
def test_a_network_from_a_function_keeps_its_contract(loss):
    labels = np.arange(15) % (3 if loss == "cross-entropy" else 2)
    cls = type(
        "Mine", (agf.AutogradProblem,), {"name": "mine", "neuron": lambda self, t, x: t[3:] * torch.tanh(t[:3] @ x)}
    )
    report = check(cls(X, Y if loss == "half-squared" else labels, width=4, loss=loss))
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("function", "degree", "homogeneous"),
    [
        (layer(torch.tanh), 2, False),
        (layer(torch.relu), 2, True),
        (layer(lambda z: z**3), 4, True),
        (layer(lambda z: torch.nn.functional.softplus(z) - np.log(2.0)), 2, False),
        (layer(lambda z: torch.cosh(z) - 1), 3, False),
        (lambda t, x: t[3:] * torch.tanh(t[:3] @ x) * torch.tanh(t[0] * x[1]), 3, False),
        (lambda t, x: t[3:] * (t[:3] @ x) * t.norm(), 3, True),
    ],
)
def test_the_degree_is_measured(function, degree, homogeneous):
    scaling = problem(function).scaling
    assert (scaling.degree, scaling.homogeneous) == (degree, homogeneous)
    assert scaling.error <= 1e-5


def test_the_leading_order_is_as_accurate_as_subtraction_allows():
    # softplus(z) - log 2 loses digits as z -> 0; the scale chosen balances that against the next order of the series
    p = problem(layer(lambda z: torch.nn.functional.softplus(z) - np.log(2.0)))
    theta, who = p.init(1.0).params(), np.arange(4)
    q = agf.TwoLayer(X, Y, "linear", width=4)
    mine, theirs = (s.utility(theta, who, s.residual(theta[:0], who[:0]))[1] for s in (p, q))
    assert np.abs(mine - 0.5 * theirs).max() < 1e-6 * np.abs(theirs).max()


def test_neurons_may_have_inputs_of_their_own():
    # a diagonal network: neuron i sees coordinate i; beta = u v, loss |y - X beta|^2 / 2n
    cls = type(
        "Diagonal",
        (agf.AutogradProblem,),
        {
            "name": "diagonal",
            "n_params": 2,
            "neuron": lambda self, theta, x: theta[0] * theta[1] * x,
            "neuron_inputs": lambda self, x, neurons: x.T[neurons],
        },
    )
    p = cls(X, Y[:, 0], width=3)
    assert p.interchangeable is False
    theta = np.random.default_rng(4).standard_normal((3, 2))
    who = np.array([2, 0, 1])
    beta = np.empty(3)
    beta[who] = theta[:, 0] * theta[:, 1]
    residual = Y[:, 0] - X @ beta
    loss, grad = p.loss_grad(theta, who)
    assert loss == pytest.approx(residual @ residual / 30, rel=1e-13)
    assert grad == pytest.approx((-X.T @ residual / 15)[who][:, None] * theta[:, ::-1], rel=1e-12)
    assert check(p).passed


def test_inputs_may_have_any_shape():
    images = np.random.default_rng(5).standard_normal((6, 4, 2))
    p = problem(lambda t, x: t[4:] * torch.relu(t[:4] @ x).sum(), X=images, Y=Y[:6], n_params=6)
    assert check(p).passed


MISTAKES = [
    (lambda t, x: 1.0, "not a torch tensor. Found float", r"\.item\(\)"),
    (lambda t, x: t.detach().numpy()[3:], "not a torch tensor. Found ndarray", "numpy"),
    (lambda t, x: t[0] * x[0] * t[1], r"wrong shape .* Found \(\)\. Expected \(2,\)", "columns of Y"),
    (lambda t, x: t[3:, None] * x, r"wrong shape .* Found \(2, 3\)", "batch"),
    (lambda t, x: t[3:].detach() * (t[:3].detach() @ x), "does not depend on theta", "detach"),
    (lambda t, x: t[3:] * torch.log(t[:3] @ x - 100), r"not finite at a random theta. Found \[nan", "log"),
    (lambda t, x: t[3:] * (t[:3] @ x if t[0] > 0 else 0 * x[0]), "not under torch.func.vmap", "torch.where"),
    (lambda t, x: t[3:] * torch.sigmoid(t[:3] @ x), "no whole power of s", "bias or constant"),
    (lambda t, x: t[3:] + 0 * x[0], "no whole power of s", "single layer"),
    (lambda t, x: t[3:] * torch.sqrt(torch.abs(t[:3] @ x)), "no whole power of s", "kappa >= 2"),
    (lambda t, x: t[3:] * x[0] + 1, "theta = 0 has an output. Found 1", "constant added"),
    (lambda t, x: t[3:] * (t[:2] @ x), "it failed on theta", "slice of theta"),
    (lambda t, x: t[3:].float() * (t[:3].float() @ x.float()), "float32", "dtype"),
    (lambda t, x: t[3:] * torch.tanh(t[:3] @ x.mul_(2)), "changed its arguments", "in-place"),
]


@pytest.mark.parametrize(("function", "words", "cause"), MISTAKES)
def test_a_mistake_in_the_neuron_is_explained(function, words, cause):
    p = problem(function)
    with pytest.raises(agf.ProblemError, match=words) as caught:
        p.loss_grad(np.ones((1, 5)), np.array([0]))
    assert str(caught.value).startswith("Mine.neuron: ")
    assert re.search(cause, str(caught.value)), str(caught.value)


def test_a_wrong_declared_degree_is_refused():
    p = problem(layer(torch.tanh), degree=3)
    with pytest.raises(agf.ProblemError, match=r"`degree` is declared as 3. Expected 2"):
        p.loss_grad(np.ones((1, 5)), np.array([0]))
    assert problem(layer(torch.tanh), degree=2).loss_grad(np.ones((1, 5)), np.array([0]))[0] > 0


def test_wrong_inputs_of_a_neuron_are_refused():
    p = problem(layer(torch.tanh), neuron_inputs=lambda self, x, neurons: x)
    with pytest.raises(agf.ProblemError, match=r"neuron_inputs: wrong shape. Found \(15, 3\). Expected \(4, 15, ...\)"):
        p._predict(np.ones((4, 5)), np.arange(4))


def test_more_neurons_than_inputs_of_their_own_are_a_sentence():
    def own(self, x, neurons):
        return x.T[neurons]

    with pytest.raises(agf.ProblemError, match=r"it has no inputs for some of 4 neurons .* \(width=\)"):
        problem(lambda theta, x: theta[0] * theta[1] * x, Y=Y[:, :1], n_params=2, neuron_inputs=own).init(1e-6)


def test_a_missing_neuron_is_named():
    p = type("Mine", (agf.AutogradProblem,), {"name": "mine"})(X, Y)
    with pytest.raises(agf.ProblemError, match=r"`neuron\(theta, x\)` is not defined"):
        p.degree  # noqa: B018


def test_without_torch_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(agf.RequestError, match=r"needs torch, which is not installed. pip install torch"):
        problem(layer(lambda z: z))
    with pytest.raises(agf.RequestError, match="needs torch"):
        agf.TwoLayer(X, Y, device="cpu")
