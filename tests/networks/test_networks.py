"""What `agf problems NAME` says is trained, written down in a few lines of numpy, is what each problem computes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import agf
from agf import registry
from agf.shell.main import main


def loss_of(problem: agf.Problem, theta: np.ndarray) -> float:
    return problem.loss_grad(theta, np.arange(theta.shape[0]))[0]


@pytest.fixture
def data(rng):
    return rng.standard_normal((12, 3)), rng.standard_normal((12, 2))


def test_diagonal_network(data, rng):
    X, y = data[0], data[1][:, 0]
    theta = rng.standard_normal((3, 2))
    f = X @ (theta[:, 0] * theta[:, 1])
    assert loss_of(agf.problem("diagonal-linear", X=X, y=y), theta) == pytest.approx(np.mean((y - f) ** 2) / 2)


def test_linear_network_on_samples_and_on_moments(data, rng):
    X, Y = data
    W, A = rng.standard_normal((4, 3)), rng.standard_normal((2, 4))
    theta = np.concatenate([W, A.T], axis=1)
    loss = np.mean(np.sum((Y - X @ (A @ W).T) ** 2, axis=1)) / 2
    assert loss_of(agf.problem("linear", X=X, Y=Y, width=4), theta) == pytest.approx(loss)
    B, Sxx = rng.standard_normal((2, 3)), X.T @ X / 12
    loss = np.mean(np.sum((X @ (B - A @ W).T) ** 2, axis=1)) / 2
    assert loss_of(agf.problem("linear", Sxx=Sxx, B=B, width=4), theta) == pytest.approx(loss)


def gaussian(variances) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (q, k) and weights (q,) for independent normals; exact for polynomials of degree 7 in each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    points = np.array(list(itertools.product(nodes, repeat=len(variances)))) * np.sqrt(variances)
    products = np.array(list(itertools.product(weights / weights.sum(), repeat=len(variances))))
    return points, products.prod(axis=1)


@pytest.mark.parametrize("name", ["linear-attention", "full-linear-attention"])
def test_linear_attention(name, rng):
    S = np.array([1.5, 0.5])  # two pairs and a query in two dimensions, and beta: eight numbers
    points, weights = gaussian(np.array([*S, *S, *S, 1.0, 1.0]))
    x, query, beta = points[:, :4].reshape(-1, 2, 2), points[:, 4:6], points[:, 6:]
    y = np.einsum("qnd,qd->qn", x, beta)
    problem = agf.problem(name, covariance=S, context=2, heads=3)
    theta = rng.standard_normal((3, problem.n_params))
    f = np.zeros(weights.size)
    if name == "linear-attention":
        for V, K, Q in zip(theta[:, 0], theta[:, 1:3], theta[:, 3:], strict=True):
            f += V * np.einsum("qn,qnd,d->q", y, x, K) * (query @ Q)
    else:
        Z = np.concatenate(
            [np.concatenate([x, query[:, None]], axis=1), np.pad(y, ((0, 0), (0, 1)))[..., None]], axis=2
        )
        for row, WK, WQ in zip(theta[:, :3], theta[:, 3:6], theta[:, 6:], strict=True):
            f += (Z @ row * (Z @ WK)).sum(axis=1) * (Z[:, -1] @ WQ)
    loss = weights @ (np.sum(query * beta, axis=1) - f) ** 2 / 2
    assert loss_of(problem, theta) == pytest.approx(loss)


def test_modular_addition(rng):
    p = 5
    x = rng.standard_normal(p)
    x -= x.mean()
    u, v, w = rng.standard_normal((3, 4, p))
    losses = []
    for a, b in itertools.product(range(p), repeat=2):
        f = (u @ np.roll(x, a) + v @ np.roll(x, b)) ** 2 @ w
        losses.append(np.sum((np.roll(x, a + b) - f) ** 2) / 2)
    problem = agf.problem("modular-addition", template=x, width=4)
    assert loss_of(problem, np.concatenate([u, v, w], axis=1)) == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("name", ["relu", "two-layer"])
def test_relu_network_on_the_data_as_prepared(data, rng, name):
    X, Y = data
    problem = agf.problem(name, X=X, Y=Y, width=4, kink=0.0)
    w, a = rng.standard_normal((4, problem.X.shape[1])), rng.standard_normal((4, 2))
    f = np.maximum(problem.X @ w.T, 0.0) @ a
    loss = np.mean(np.sum((problem.Y - f) ** 2, axis=1)) / 2
    assert loss_of(problem, np.concatenate([w, a], axis=1)) == pytest.approx(loss)


def test_drops_of_a_linear_network_off_a_curve_are_named_by_rank_as_hidden_units_are_no_modes():
    problem = agf.problem("linear", **registry.find("linear").example())
    stairs = agf.predict(problem, problem.init(1e-4), mode="resolved", conditioning=False)
    ranks = [int(drop.features["rank"]) for drop in stairs.drops]
    named = [f"rank {old} to {new} of A W" for old, new in zip([0, *ranks], ranks, strict=False)]
    assert [drop.label for drop in stairs.drops] == named
    assert ranks[-1] == 4


@pytest.mark.parametrize("name", registry.names())
def test_every_problem_says_what_is_trained_and_what_its_example_is(name, capsys):
    assert main(["problems", name]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Network: f" in said
    assert "Loss: " in said
    assert "Without data of your own: " in said
