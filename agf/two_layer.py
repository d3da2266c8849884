"""Any two-layer network f(x) = sum_i a_i sigma(w_i . x) on samples: no code to write, only data and two names.

Formulas are analytic and batched over neurons and samples, in numpy or, with `device=`, in torch; work arrays are
bounded by walking over blocks of samples. Everything a caller gives or gets is numpy, except the opaque residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from agf.activations import Function
from agf.activations import activation as activation_of
from agf.arrays import FloatArray, IntArray, count, matrix
from agf.backend import Backend
from agf.contract import Problem
from agf.errors import DataError, explain
from agf.losses import loss_of

#: Entries of one work array: blocks of samples are cut so that (samples, neurons) stays below this. 1 MB stays in cache: half the time of unblocked at 1,000 neurons and more.
_BLOCK = {"cpu": 2**17, "cuda": 2**26}
#: Features of a snapshot hold the predictions themselves only up to this many numbers.
_MAX_PREDICTIONS = 4096
#: `hessian` and the exact projection of `self_interaction` form matrices of at most this order.
_MAX_ORDER = 4000
#: Below exp(-300) the quotient sigma(rho z) / rho^p no longer changes in float64: it is the leading order.
_LOG_TINY = -300.0


class TwoLayer(Problem):
    """Two-layer network on data, rows theta_i = (w_i, a_i), P = d + c.

    Parameters
    ----------
    X : (n, d) inputs. Append a column of ones for a hidden bias.
    Y : (n, c) or (n,) targets; for the classification losses, labels (numbers or text) or one-hot rows.
    activation : "linear", "relu", "leaky-relu", "square", "power", "tanh", "erf", "gelu" or "silu".
    loss : "half-squared" |y - f|^2 / 2, "logistic", "exponential" (two classes) or "cross-entropy"; mean over the rows.
    width : number of neurons H.
    leak, power : slope of leaky-relu left of 0 (default 0.01), exponent of "power" (default 3).
    device : None for numpy, or a torch device such as "cpu" or "cuda" (the same formulas, float64).

    Raises
    ------
    DataError : data that cannot be used, unknown activation or loss (with the list of valid names).
    RequestError : torch missing, or no such device.

    Notes
    -----
    `degree` is measured from the activation at the origin. `utility` is the leading order there (z/2 for gelu and silu);
    `pull` and `loss_grad` are exact, so a neuron is itself as soon as its norm is felt. relu'(0) = 0.
    For a loss that is not quadratic, `outputs` and `self_interaction` carry the square root of l'' (at f = 0, and at the
    active network), which makes the loss half-squared to second order there. Separable classes have no finite minimizer:
    the active phase then ends by its horizon or with status "no_critical_point".
    """

    name = "two-layer"
    data_arguments = ("X", "Y")

    def __init__(
        self,
        X: Any,
        Y: Any,
        activation: str = "relu",
        loss: str = "half-squared",
        width: int = 10,
        leak: float | None = None,
        power: int | None = None,
        device: str | None = None,
    ) -> None:
        where = type(self).__name__
        self.activation = activation_of(activation, leak=leak, power=power)
        self.loss = loss_of(loss)
        self.X = matrix(X, "X", where=where)
        if not self.X.any():
            raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where=where))
        self.Y, self.classes = self.loss.targets(Y, where)
        if self.Y.shape[0] != self.X.shape[0]:
            raise DataError(
                explain(
                    f"`X` has {self.X.shape[0]} rows and `Y` {self.Y.shape[0]}.", where=where,
                    expected="one row of each per sample",
                )
            )  # fmt: skip
        self.width = count(width, "width", where=where)
        self.n_samples, self.n_inputs = self.X.shape
        self.n_outputs = self.Y.shape[1]
        self.n_params = self.n_inputs + self.n_outputs
        self.degree = self.activation.degree
        self.smooth = self.activation.smooth
        self.quadratic_loss = self.loss.quadratic
        self._backend = Backend.of(device)
        self._x, self._y = self._backend.array(self.X), self._backend.array(self.Y)
        self._block = _BLOCK["cpu" if device is None or device == "cpu" else "cuda"]
        self._projector: tuple[bytes, FloatArray] | None = None

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Mean loss of the network of these neurons, and its gradient: (float, (m, P)). Exact for every activation."""
        return self._loss_grad(theta, self._x, self._y)

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on these rows of the data alone (mean over them); rows (k,) in 0..n_samples-1."""
        return self._loss_grad(theta, self._x[rows], self._y[rows])

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """-dl/df on the data, (n, c), an array of the backend."""
        return self.loss.residual(self._backend, self._predict(*self._split(theta)), self._y)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """a . E[r sigma(w . x)] with sigma at leading order, and its gradient: ((m,), (m, P))."""
        grad = self._force(theta, residual, self.activation.leading_value, self.activation.leading_slope)
        return np.sum(theta[:, self.n_inputs :] * grad[:, self.n_inputs :], axis=1), grad

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad L / rho^(degree - 1), exact at any rho: sigma(rho z) / rho^p tends to the leading order by itself."""
        act = self.activation
        if act.homogeneous:
            return self._force(directions, residual, act.value, act.slope)
        rho = self._backend.array(np.exp(np.maximum(log_norms, _LOG_TINY)))
        return self._force(
            directions,
            residual,
            lambda b, z: act.value(b, rho * z) / rho**act.power,
            lambda b, z: act.slope(b, rho * z) / rho ** (act.power - 1),
        )

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """ "gaussian", or "balanced": gaussian w and uniform direction of a with p |a|^2 = |w|^2 (p the activation's power)."""
        theta = super().initial(alpha, rng, "gaussian" if kind == "balanced" else kind)
        if kind == "balanced":
            w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
            size = np.linalg.norm(w, axis=1) / np.sqrt(self.activation.power)
            a *= (size / np.linalg.norm(a, axis=1))[:, None]
        return theta

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """f_i on the data, (m, n c), times sqrt(l''(0)) / sqrt(n); None above 2^27 numbers (1 GB)."""
        if theta.shape[0] * self.Y.size > 2**27:
            return None
        b = self._backend
        w, a = self._split(theta)
        root = self.loss.root(b, b.zeros(tuple(self._y.shape)), self._y)
        out = root(self.activation.value(b, w @ self._x.T)[:, :, None] * a[:, None, :])
        return b.numpy(out).reshape(theta.shape[0], -1) / np.sqrt(self.n_samples)

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, (m,), weighted by l'' at the active network.

        P_A projects on the span of the active neurons' Jacobian, which is analytic here; it is left out when that
        Jacobian has more than 4,000 rows.
        """
        b = self._backend
        w, a = self._split(directions)
        projected = 0 < active.size <= _MAX_ORDER
        f = self._predict(*self._split(active))
        total = b.zeros((directions.shape[0],))
        cross = b.zeros((directions.shape[0], active.size if projected else 0))
        for rows in self._blocks((directions.shape[0] + active.size) * self.n_outputs):
            root = self.loss.root(b, f[rows], self._y[rows])
            out = root(self.activation.leading_value(b, w @ self._x[rows].T)[:, :, None] * a[:, None, :])
            out = out.reshape(out.shape[0], -1)
            total += (out**2).sum(1)
            if projected:
                cross += out @ self._jacobian_rows(active, f, rows).T
        if projected:
            total -= ((cross @ self._whitener(active, f)) ** 2).sum(1)
        return 0.5 * np.maximum(b.numpy(total), 0.0) / self.n_samples

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), kinks ignored; None above order 4,000."""
        if theta.size > _MAX_ORDER:
            return None
        b, d = self._backend, self.n_inputs
        m = theta.shape[0]
        w, a = self._split(theta)
        f = self._predict(w, a)
        out = self._gram(theta, f).reshape(m, self.n_params, m, self.n_params)
        for rows in self._blocks(m * (d + self.n_outputs)):
            x = self._x[rows]
            z = x @ w.T
            r = self.loss.residual(b, f[rows], self._y[rows])
            bend = ((r @ a.T) * self.activation.curvature(b, z)).T[:, None, :] * x.T  # (m, d, samples)
            tilt = (self.activation.slope(b, z) * 1.0).T[:, None, :] * x.T
            for i in range(m):
                out[i, :d, i, :d] -= bend[i] @ x
                mixed = tilt[i] @ r
                out[i, :d, i, d:] -= mixed
                out[i, d:, i, :d] -= mixed.T
        return b.numpy(out.reshape(theta.size, theta.size)) / self.n_samples

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """{"balance": p |a_i|^2 - |w_i|^2} for a homogeneous activation of power p ([AGF] Lemma C.2 for p = 1)."""
        if not self.activation.homogeneous:
            return {}
        w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
        return {"balance": self.activation.power * np.sum(a**2, axis=1) - np.sum(w**2, axis=1)}

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """ "accuracy" (1,) where there are classes; "predictions" (n, c) where they are few."""
        f = self._backend.numpy(self._predict(*self._split(theta)))
        out = {}
        if self.classes:
            out["accuracy"] = np.array([self.loss.correct(f, self.Y).mean()])
        if f.size <= _MAX_PREDICTIONS:
            out["predictions"] = f
        return out

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "neuron 3 (class 7)": the output that the neuron's a favours most, or "not class 7" where it lowers it."""
        rows = {int(i): row for i, row in zip(neurons, theta[:, self.n_inputs :], strict=True)}
        words = [f"{int(i)} ({self._direction(rows[int(i)])})" if int(i) in rows else str(int(i)) for i in chosen]
        return ("neuron " if len(words) == 1 else "neurons ") + ", ".join(words)

    def describe(self) -> str:
        return (
            f"{self.name}: {self.width} {self.activation.name} neurons on {self.n_samples} samples, {self.n_inputs} inputs, "
            f"{self.n_outputs} output{'s' if self.n_outputs > 1 else ''}, {self.loss.name} loss, degree {self.degree}"
        )

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Twenty samples of two tanh neurons: small enough for every check."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 3))
        Y = np.tanh(X @ [1.0, -1.0, 0.5]) - 0.5 * np.tanh(X @ [0.0, 1.0, 1.0])
        return {"X": X, "Y": Y, "activation": "tanh", "width": 4}

    # -- formulas ---------------------------------------------------------------------------------------------

    def _split(self, theta: FloatArray) -> tuple[Any, Any]:
        theta = self._backend.array(theta)
        return theta[:, : self.n_inputs], theta[:, self.n_inputs :]

    def _blocks(self, width: int, samples: int | None = None) -> Iterator[slice]:
        """Slices of the samples, such that an array of (samples in the slice, width) stays bounded."""
        n = self.n_samples if samples is None else samples
        size = max(1, self._block // max(width, 1))
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    def _predict(self, w: Any, a: Any) -> Any:
        """f on the data, (n, c)."""
        out = self._backend.zeros(tuple(self._y.shape))
        for rows in self._blocks(w.shape[0]):
            out[rows] = self.activation.value(self._backend, self._x[rows] @ w.T) @ a
        return out

    def _loss_grad(self, theta: FloatArray, x: Any, y: Any) -> tuple[float, FloatArray]:
        b, act = self._backend, self.activation
        w, a = self._split(theta)
        total = 0.0
        grad = b.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0], x.shape[0]):
            z = x[rows] @ w.T
            value = act.value(b, z)
            f = value @ a
            total += float(self.loss.value(b, f, y[rows]).sum())
            r = self.loss.residual(b, f, y[rows])
            grad[:, : self.n_inputs] -= ((r @ a.T) * act.slope(b, z)).T @ x[rows]
            grad[:, self.n_inputs :] -= value.T @ r
        return total / x.shape[0], b.numpy(grad) / x.shape[0]

    def _force(self, theta: FloatArray, residual: Any, value: Function, slope: Function) -> FloatArray:
        """(a E[r sigma' x], E[r sigma]) of every row at a fixed residual, (m, P)."""
        b = self._backend
        w, a = self._split(theta)
        out = b.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0]):
            z = self._x[rows] @ w.T
            r = residual[rows]
            out[:, : self.n_inputs] += ((r @ a.T) * slope(b, z)).T @ self._x[rows]
            out[:, self.n_inputs :] += value(b, z).T @ r
        return b.numpy(out) / self.n_samples

    def _jacobian_rows(self, theta: FloatArray, f: Any, rows: slice) -> Any:
        """sqrt(l'') df/dtheta on a block of samples, (mP, samples c); f (n, c) is the network of `theta`."""
        b, d = self._backend, self.n_inputs
        w, a = self._split(theta)
        x = self._x[rows]
        z = w @ x.T
        root = self.loss.root(b, f[rows], self._y[rows])
        out = b.zeros((theta.shape[0], self.n_params, x.shape[0], self.n_outputs))
        out[:, :d] = (self.activation.slope(b, z)[:, None, :] * x.T)[..., None] * a[:, None, None, :]
        value = self.activation.value(b, z)
        for k in range(self.n_outputs):
            out[:, d + k, :, k] = value
        return root(out).reshape(theta.size, -1)

    def _gram(self, theta: FloatArray, f: Any) -> Any:
        """n E[J^T l'' J], (mP, mP)."""
        out = self._backend.zeros((theta.size, theta.size))
        for rows in self._blocks(theta.size * self.n_outputs):
            block = self._jacobian_rows(theta, f, rows)
            out += block @ block.T
        return out

    def _whitener(self, theta: FloatArray, f: Any) -> Any:
        """(mP, rank): maps products with the Jacobian's rows to orthonormal coordinates. Kept for the last network."""
        key = theta.tobytes()
        if self._projector is None or self._projector[0] != key:
            values, vectors = np.linalg.eigh(self._backend.numpy(self._gram(theta, f)))
            keep = values > 1e-12 * values[-1]  # singular values above 1e-6 of the largest: what a Gram matrix resolves
            self._projector = key, vectors[:, keep] / np.sqrt(values[keep])
        return self._backend.array(self._projector[1])

    def _direction(self, a: FloatArray) -> str:
        k = int(np.argmax(np.abs(a)))
        if self.classes:
            two = self.n_outputs == 1
            name = self.classes[int(a[0] > 0)] if two else self.classes[k]
            return f"class {name}" if two or a[k] > 0 else f"not class {name}"
        sign = "+" if a[k] > 0 else "-"
        return sign if self.n_outputs == 1 else f"output {k} {sign}"
