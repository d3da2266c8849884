"""Problems of a few parameters with exact answers, for testing the trainers and what reads their results."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from agf import Init, Problem
from agf.arrays import FloatArray, IntArray


class Product(Problem):
    """f = sum of the product of each neuron's parameters (uv, or uvw), one sample, L = (target - f)^2 / 2.

    With two parameters, u = v = a at the start and target 1, uv = 1/2 at time 0.5 log((1 - a^2)/a^2).
    """

    name = "product"

    def __init__(self, degree: int = 2, width: int = 1, target: float = 1.0) -> None:
        self.degree = self.n_params = degree
        self.width = width
        self.target = target

    def residual(self, theta: FloatArray, neurons: IntArray) -> float:
        return self.target - float(np.sum(np.prod(theta, axis=1)))

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        others = [np.prod(np.delete(theta, p, axis=1), axis=1) for p in range(self.degree)]
        return residual * np.prod(theta, axis=1), residual * np.stack(others, axis=1)

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        return 0.5 * r * r, -self.utility(theta, neurons, r)[1]

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        return {"imbalance": theta[:, 0] ** 2 - theta[:, 1] ** 2}

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        return {"output": np.prod(theta, axis=1)}


class Samples(Problem):
    """f(x) = sum_i u_i v_i x_i on n samples (a diagonal network in raw coordinates), with minibatches."""

    name = "samples"
    degree = 2
    n_params = 2
    interchangeable = False

    def __init__(self, X: FloatArray, y: FloatArray) -> None:
        self.X, self.y = X, y
        self.n_samples, self.width = X.shape

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        X, y = self.X[rows][:, neurons], self.y[rows]
        r = y - X @ np.prod(theta, axis=1)
        pull = X.T @ r / rows.size
        return float(r @ r / (2 * rows.size)), -pull[:, None] * theta[:, ::-1]

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        return self.batch_loss_grad(theta, neurons, np.arange(self.n_samples))

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        r = self.y - self.X[:, neurons] @ np.prod(theta, axis=1)
        return self.X.T @ r / self.n_samples

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        pull = residual[neurons]
        return pull * np.prod(theta, axis=1), pull[:, None] * theta[:, ::-1]


class Mixing(Problem):
    """A fully connected linear network with the identity as input covariance: L = |B - A W|^2 / 2, rows (W_i, A_i)."""

    name = "mixing"
    degree = 2

    def __init__(self, B: FloatArray, width: int) -> None:
        self.B, self.width = B, width
        self.n_params = sum(B.shape)
        self.inputs = B.shape[1]

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return self.B - theta[:, self.inputs :].T @ theta[:, : self.inputs]

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        w, a = theta[:, : self.inputs], theta[:, self.inputs :]
        return np.sum((a @ residual) * w, axis=1), np.hstack([a @ residual, w @ residual.T])

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        return 0.5 * float(np.sum(r * r)), -self.utility(theta, neurons, r)[1]


class Slide(Product):
    """L = -log(1 + f), which falls for ever: its flow never settles."""

    name = "slide"
    _admitted = True  # losses below 0, which the door refuses

    def least_loss(self, init: Init) -> float:
        return -np.inf

    def residual(self, theta: FloatArray, neurons: IntArray) -> float:
        return 1 / (1 + float(np.sum(np.prod(theta, axis=1))))

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        return float(np.log(r)), -self.utility(theta, neurons, r)[1]


class Cliff(Product):
    """L = -f: in degree 3 every neuron runs to infinity in finite time."""

    name = "cliff"
    _admitted = True  # losses below 0, which the door refuses

    def least_loss(self, init: Init) -> float:
        return -np.inf

    def residual(self, theta: FloatArray, neurons: IntArray) -> float:
        return 1.0

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        return -float(np.sum(np.prod(theta, axis=1))), -self.utility(theta, neurons, 1.0)[1]


class Broken(Product):
    """Its loss and gradient are NaN once |theta| exceeds 1/2."""

    name = "broken"
    limit: ClassVar[float] = 0.5

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        loss, gradient = super().loss_grad(theta, neurons)
        return (loss, gradient) if np.linalg.norm(theta) < self.limit else (np.nan, np.nan * gradient)

    def residual(self, theta: FloatArray, neurons: IntArray) -> float:
        return super().residual(theta, neurons) if np.linalg.norm(theta) < self.limit else np.nan


class Plain(Problem):
    """Independent diagonal coordinates, L = sum (b_i - u_i v_i)^2 / 2, without closed form: times 1 / |b_i|."""

    name = "plain"
    degree, n_params = 2, 2
    interchangeable = False

    def __init__(self, b):
        self.b = np.asarray(b, dtype=float)
        self.width = self.b.size

    def loss_grad(self, theta, neurons):
        rest = self.b.copy()
        rest[neurons] -= theta[:, 0] * theta[:, 1]
        return 0.5 * float(rest @ rest), -rest[neurons, None] * theta[:, ::-1]

    def residual(self, theta, neurons):
        rest = self.b.copy()
        rest[neurons] -= theta[:, 0] * theta[:, 1]
        return rest

    def utility(self, theta, neurons, residual):
        r = residual[neurons]
        return r * theta[:, 0] * theta[:, 1], r[:, None] * theta[:, ::-1]


class Sensing(Problem):
    """Matrix sensing, f = sum_i u_i . A u_i with random symmetric A: quadratic neurons that are no linear network."""

    name = "sensing"
    degree = 2

    def __init__(self, rng: np.random.Generator, width: int = 3, size: int = 4, count: int = 60) -> None:
        self.width, self.n_params, self.count = width, size, count
        a = rng.standard_normal((count, size, size))
        self.forms = a + a.transpose(0, 2, 1)
        self.target = np.einsum("nij,ij->n", self.forms, np.diag(np.resize([1.0, 0.5, 0.2, 0.0], size)))

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return self.target - np.einsum("nij,hi,hj->n", self.forms, theta, theta)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        pull = np.einsum("n,nij,hj->hi", residual, self.forms, theta) / self.count
        return np.sum(pull * theta, axis=1), 2 * pull

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        return 0.5 * float(r @ r) / self.count, -self.utility(theta, neurons, r)[1]
