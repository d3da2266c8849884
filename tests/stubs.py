"""Problems and phases whose answers are known: scripted ones for exact counts, and toys with closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agf import sphere
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.init import Init
from agf.records.state import Activation, Settled, State
from agf.records.status import Status


class DiagonalToy(Problem):
    """f = sum_i (product of theta_i) x_i: a diagonal network of any depth, degree = depth. L = |y - X beta|^2 / 2n."""

    name = "diagonal-toy"
    interchangeable = False

    def __init__(self, X: Any, y: Any, depth: int = 2) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.width, self.n_params, self.degree = self.X.shape[1], depth, depth

    def _others(self, theta: FloatArray) -> FloatArray:
        """Product of the other entries of each row, (m, P)."""
        out = np.empty_like(theta)
        for p in range(self.n_params):
            out[:, p] = np.prod(np.delete(theta, p, axis=1), axis=1)
        return out

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        n = self.y.size
        return float(r @ r) / (2 * n), -self._others(theta) * (self.X[:, neurons].T @ r / n)[:, None]

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return self.y - self.X[:, neurons] @ np.prod(theta, axis=1)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        g = self.X[:, neurons].T @ residual / self.y.size
        return np.prod(theta, axis=1) * g, self._others(theta) * g[:, None]

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return np.prod(theta, axis=1)[:, None] * self.X[:, neurons].T / np.sqrt(self.y.size)


class ReluToy(Problem):
    """f = sum_i a_i relu(w_i . x), one output, theta_i = (w_i, a_i); L = E (y - f)^2 / 2."""

    name = "relu-toy"
    degree = 2
    smooth = False

    def __init__(self, X: Any, y: Any, width: int = 5) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.width, self.n_params = width, self.X.shape[1] + 1

    def _hidden(self, theta: FloatArray) -> FloatArray:
        return np.maximum(theta[:, :-1] @ self.X.T, 0.0)

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        r = self.residual(theta, neurons)
        return 0.5 * float(np.mean(r**2)), -self.utility(theta, neurons, r)[1]

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return self.y - theta[:, -1] @ self._hidden(theta)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        hidden = self._hidden(theta)
        on_output = hidden @ residual / self.y.size
        on_input = theta[:, -1:] * ((hidden > 0) * residual) @ self.X / self.y.size
        return theta[:, -1] * on_output, np.column_stack([on_input, on_output])

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return theta[:, -1:] * self._hidden(theta) / np.sqrt(self.y.size)


class Scripted(Problem):
    """Utilities that do not depend on the direction: U_i = rates[k][i] rho^degree while k neurons are active.

    levels[k] is the loss with k active neurons. Active neurons feel no gradient, so they settle at once.
    interactions : C_i, for natural thresholds.
    """

    name = "scripted"
    _admitted = True  # a script, no network: the laws at the door do not hold
    quadratic_loss = False

    def __init__(self, rates: Any, levels: Any = None, degree: int = 2, interactions: Any = None) -> None:
        self.rates = np.atleast_2d(np.asarray(rates, dtype=np.float64))
        self.width, self.n_params, self.degree = self.rates.shape[1], 2, degree
        self.levels = np.asarray(levels if levels is not None else 2.0 ** -np.arange(self.width + 1.0))
        self.interactions = np.full(self.width, 0.5) if interactions is None else np.asarray(interactions)

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        return float(self.levels[neurons.size]), np.zeros_like(theta)

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        return self.rates[min(neurons.size, self.rates.shape[0] - 1)]

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        rho = np.linalg.norm(theta, axis=1)
        rate = residual[neurons]
        return rate * rho**self.degree, (self.degree * rate * rho ** (self.degree - 2))[:, None] * theta

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        return self.interactions[neurons]


class ScriptedPhases:
    """Phases that read their answers off a list: pairs (activation or status, settled or status)."""

    def __init__(
        self, init: Init, script: list[tuple[Activation | Status, Settled | Status | None]], level: float = 1.0
    ) -> None:
        self.init, self.clock = init, Clock.from_norms(2, init.log_norms)
        self.script, self.level, self.turn = script, level, 0
        self.stats = {"turns": 0.0}

    def start(self) -> State:
        init = self.init
        nobody = np.zeros(init.width, dtype=bool)
        return State(0.0, nobody, init.directions.copy(), init.log_norms.copy(), self.level)

    def dormant(self, state: State) -> tuple[State, Activation | Status]:
        answer = self.script[self.turn][0]
        if isinstance(answer, Status):
            return state, answer
        return replace(state, time=answer.time), answer

    def active(self, state: State, activation: Activation) -> tuple[State, Settled | Status]:
        answer = self.script[self.turn][1]
        self.turn += 1
        self.stats["turns"] += 1
        assert answer is not None
        if isinstance(answer, Status):
            return state, answer
        mask = state.active.copy()
        mask[activation.neurons] = True
        mask[answer.collapsed] = False
        return replace(state, active=mask, level=answer.level), answer


def norms_init(log_norms: Any, n_params: int = 2, seed: int = 0) -> Init:
    """Neurons of given log norms in random directions."""
    log_norms = np.asarray(log_norms, dtype=np.float64)
    directions = sphere.random(np.random.default_rng(seed), log_norms.size, n_params)
    return Init(directions, log_norms, float(np.exp(log_norms[np.isfinite(log_norms)].mean())), seed)


class QuadraticUtility(Scripted):
    """U_i = theta^T Q_i theta / 2 with a symmetric matrix a neuron: dormant neurons are exp(Q_i t) theta_i(0)."""

    name = "quadratic-utility"
    interchangeable = False

    def __init__(self, matrices: Any, interactions: Any = None) -> None:
        self.matrices = np.asarray(matrices, dtype=np.float64)
        super().__init__(np.ones(len(self.matrices)), interactions=interactions)
        self.n_params = self.matrices.shape[-1]
        self.calls = 0

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        self.calls += 1
        gradient = np.einsum("mij,mj->mi", self.matrices[neurons], theta)
        return 0.5 * np.sum(theta * gradient, axis=1), gradient

    def exact(self, directions: FloatArray, log_norms: FloatArray, time: float) -> tuple[FloatArray, FloatArray]:
        """Directions and log norms at flow time `time`, by eigenvectors, scaled so that nothing overflows."""
        values, vectors = np.linalg.eigh(self.matrices)
        top = values[:, -1:]
        along = np.einsum("mji,mj->mi", vectors, directions) * np.exp((values - top) * time)
        turned, shrunk = sphere.polar(np.einsum("mij,mj->mi", vectors, along))
        return turned, log_norms + shrunk + top[:, 0] * time
