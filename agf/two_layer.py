"""Any two-layer network f(x) = sum_i a_i sigma(w_i . x) on samples: no code to write, only data and two names.

Formulas are analytic and batched over neurons and samples, in numpy or, with `device=`, in torch; work arrays are
bounded by walking over blocks of samples. Everything a caller gives or gets is numpy, except the opaque residual.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.activations import Function
from agf.activations import activation as activation_of
from agf.arrays import FloatArray, IntArray
from agf.errors import DataError, explain
from agf.sampled import MAX_ORDER, SampledProblem

#: Below exp(-300) the quotient sigma(rho z) / rho^p no longer changes in float64: it is the leading order.
_LOG_TINY = -300.0
#: A trial step may ask about absurd weights: infinities and NaN are the answer, not a warning.
_absurd_is_infinite = np.errstate(over="ignore", invalid="ignore")


class TwoLayer(SampledProblem):
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
    `degree` is measured from the activation at the origin. `utility` is the leading order there (z/2 for gelu and
    silu); `pull` and `loss_grad` are exact, so a neuron is itself as soon as its norm is felt. relu'(0) = 0.
    For a loss that is not quadratic, `outputs` and `self_interaction` carry the square root of l'' (at f = 0, and at
    the active network), which makes the loss half-squared to second order there. Separable classes have no finite
    minimizer: the active phase then ends by its horizon or with status "no_critical_point".
    """

    name = "two-layer"

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
        super().__init__(X, Y, width, loss, device)
        if self.X.ndim != 2:
            raise DataError(explain(f"`X` has shape {self.X.shape}.", where=where, expected="(n, d)"))
        if not self.X.any():
            raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where=where))
        self.n_params = self.n_inputs + self.n_outputs
        self.degree = self.activation.degree
        self.smooth = self.activation.smooth

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Mean loss of the network of these neurons, and its gradient: (float, (m, P)). Exact for every activation."""
        return self._loss_grad(theta, self._x, self._y)

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on these rows of the data alone (mean over them); rows (k,) in 0..n_samples-1."""
        return self._loss_grad(theta, self._x[rows], self._y[rows])

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
        """Kind "gaussian", or "balanced": gaussian w, a in a uniform direction with p |a|^2 = |w|^2, p the power."""
        theta = super().initial(alpha, rng, "gaussian" if kind == "balanced" else kind)
        if kind == "balanced":
            w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
            size = np.linalg.norm(w, axis=1) / np.sqrt(self.activation.power)
            a *= (size / np.linalg.norm(a, axis=1))[:, None]
        return theta

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), kinks ignored; None above order 4,000."""
        if theta.size > MAX_ORDER:
            return None
        b, d = self._backend, self.n_inputs
        m = theta.shape[0]
        w, a = self._split(theta)
        f = self._predict(theta, neurons)
        out = self._gram(theta, neurons, f).reshape(m, self.n_params, m, self.n_params)
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

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "neuron 3 (class 7)": the output that the neuron's a favours most, or "not class 7" where it lowers it."""
        rows = {int(i): row for i, row in zip(neurons, theta[:, self.n_inputs :], strict=True)}
        words = [f"{int(i)} ({self._direction(rows[int(i)])})" if int(i) in rows else str(int(i)) for i in chosen]
        return ("neuron " if len(words) == 1 else "neurons ") + ", ".join(words)

    def describe(self) -> str:
        """Width, activation, data and loss in one line."""
        return (
            f"{self.name}: {self.width} {self.activation.name} neurons on {self.n_samples} samples, "
            f"{self.n_inputs} inputs to {self.n_outputs}, {self.loss.name} loss, degree {self.degree}"
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

    @_absurd_is_infinite
    def _predict(self, theta: FloatArray, neurons: IntArray) -> Any:
        w, a = self._split(theta)
        out = self._backend.zeros(tuple(self._y.shape))
        for rows in self._blocks(theta.shape[0]):
            out[rows] = self.activation.value(self._backend, self._x[rows] @ w.T) @ a
        return out

    @_absurd_is_infinite
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

    @_absurd_is_infinite
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

    def _values(self, theta: FloatArray, neurons: IntArray, rows: slice, leading: bool = False) -> Any:
        w, a = self._split(theta)
        sigma = self.activation.leading_value if leading else self.activation.value
        return sigma(self._backend, w @ self._x[rows].T)[:, :, None] * a[:, None, :]

    def _neuron_jacobian(self, theta: FloatArray, neurons: IntArray, rows: slice) -> Any:
        b, d = self._backend, self.n_inputs
        w, a = self._split(theta)
        x = self._x[rows]
        z = w @ x.T
        out = b.zeros((theta.shape[0], self.n_params, x.shape[0], self.n_outputs))
        out[:, :d] = (self.activation.slope(b, z)[:, None, :] * x.T)[..., None] * a[:, None, None, :]
        value = self.activation.value(b, z)
        for k in range(self.n_outputs):
            out[:, d + k, :, k] = value
        return out.reshape(theta.size, x.shape[0], self.n_outputs)

    def _direction(self, a: FloatArray) -> str:
        k = int(np.argmax(np.abs(a)))
        if self.classes:
            two = self.n_outputs == 1
            name = self.classes[int(a[0] > 0)] if two else self.classes[k]
            return f"class {name}" if two or a[k] > 0 else f"not class {name}"
        sign = "+" if a[k] > 0 else "-"
        return sign if self.n_outputs == 1 else f"output {k} {sign}"
