"""Two-layer networks on samples to first order: outputs, losses, forces and utilities of many rows (w, a) at once.

Work arrays are bounded by walking over blocks of samples. Everything given or returned is numpy, except the residual.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.networks.activations import SMALLEST
from agf.networks.hidden_layer import HiddenLayer, Sigma, nonzero
from agf.networks.sampled import SampledProblem
from agf.rounding import SUM

#: A trial step may ask about absurd weights: infinities and NaN are the answer, not a warning.
_absurd_is_infinite = np.errstate(over="ignore", invalid="ignore")


class FirstOrder(SampledProblem):
    """f(x) = sum_i a_i sigma(w_i . x) + b, the bias b being the `a` of a row whose sigma is 1 (`permanent`)."""

    layer: HiddenLayer

    @cached_property
    def blind(self) -> bool:
        """Whether the line of sigma does not see the targets, by a symmetry: X^T y is rounding (XOR, even targets).

        Neurons then grow by what is beyond it, however small beside the rounding of the line's sums; so these are
        taken of what the network makes alone, as the targets add nothing.
        """
        if self.layer.activation.beyond is None or not self.quadratic_loss:
            return False
        sums, sizes = self.X.T @ self.Y, np.abs(self.X).T @ np.abs(self.Y)
        return bool(self.Y.any() and (np.abs(sums) <= SUM * sizes).all())

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Mean loss of the network of these neurons, and its gradient: (float, (m, P)). Exact for every activation."""
        return self._loss_grad(theta, neurons, self._x, self._y)

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on these rows of the data alone (mean over them); rows (k,) in 0..n_samples-1."""
        return self._loss_grad(theta, neurons, self._x[rows], self._y[rows])

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """a . E[r sigma(w . x)] with sigma at leading order, and its gradient: ((m,), (m, P))."""
        grad = self._force(theta, residual, self._constant(neurons), leading=True)
        return np.sum(theta[:, self.n_inputs :] * grad[:, self.n_inputs :], axis=1), grad

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad L / rho^(degree - 1), exact at any rho: sigma(rho z) / rho^p tends to the leading order by itself."""
        return self._force(directions, residual, self._constant(neurons), log_norms)

    def weigh(self, residual: Any) -> FloatArray:
        """What each sample counts in a utility, (n, c): U = sum_k c_k . a sigma(w . x_k), at a residual as returned."""
        return self._backend.numpy(residual) * (self._weight / self.n_samples)

    @_absurd_is_infinite
    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        """`pull` on the residual that `members` make: one set of pre-activations serves both."""
        b, network = self._backend, slice(None) if members.all() else np.flatnonzero(members)
        constant = self._constant(neurons)
        w, a = self._split(directions, constant)
        (inner, scale), sigma = self.layer.inner(w, constant), self.layer.sigma_at(log_norms, constant)
        weights = b.array(np.exp(self.degree * log_norms[network])[:, None]) * (scale * a)[network]
        out = b.zeros(directions.shape)
        for rows in self._blocks(directions.shape[0]):
            x = self._x[rows]
            z = (inner @ x.T).T
            value, slope = sigma(z)
            f = b.product(weights.T, value.T[network]).T
            r = self.loss.residual(b, f, self._y[rows])
            if self.blind:
                self._add_apart(out, a, x, r, f, z, log_norms, constant)
            else:
                self._add_force(out, a, x, r, (value, slope))
        return self._mean(out, a, inner, scale, self.n_samples)

    # -- formulas ---------------------------------------------------------------------------------------------

    def _constant(self, neurons: IntArray) -> IntArray | None:
        """Places of the rows whose sigma is 1, None where there are none."""
        if not self.permanent:
            return None
        found = np.flatnonzero(np.isin(neurons, self.permanent))
        return found if found.size else None

    def _split(self, theta: FloatArray, constant: IntArray | None = None) -> tuple[Any, Any]:
        """Input and output weights of every row; those of constant ones, which do nothing, as 0."""
        rows = self._backend.array(theta)
        w, a = rows[:, : self.n_inputs], rows[:, self.n_inputs :]
        if constant is not None:
            w = w + 0.0
            w[constant] = 0.0
        return w, a

    @_absurd_is_infinite
    def _predict(self, theta: FloatArray, neurons: IntArray) -> Any:
        b, constant = self._backend, self._constant(neurons)
        w, a = self._split(theta, constant)
        inner, scale = self.layer.inner(w, constant)
        weights, sigma = scale * a, self.layer.sigma(constant)
        blocks = self._blocks(theta.shape[0])
        parts = [b.product(weights.T, sigma((inner @ self._x[rows].T).T)[0].T) for rows in blocks]
        return (parts[0] if len(parts) == 1 else b.xp.concatenate(parts, 1)).T

    @_absurd_is_infinite
    def _loss_grad(self, theta: FloatArray, neurons: IntArray, x: Any, y: Any) -> tuple[float, FloatArray]:
        b, constant = self._backend, self._constant(neurons)
        w, a = self._split(theta, constant)
        inner, scale = self.layer.inner(w, constant)
        weights, sigma = scale * a, self.layer.sigma(constant)
        total = 0.0
        force = b.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0], x.shape[0]):
            pair = sigma((inner @ x[rows].T).T)
            f = b.product(weights.T, pair[0].T).T
            r = self.loss.residual(b, f, y[rows])
            total += self.loss.total(b, f, y[rows], r)
            self._add_force(force, a, x[rows], r, pair)
        return total * (self._weight / x.shape[0]), -self._mean(force, a, inner, scale, x.shape[0])

    @_absurd_is_infinite
    def _force(
        self,
        theta: FloatArray,
        residual: Any,
        constant: IntArray | None,
        log_norms: FloatArray | None = None,
        leading: bool = False,
    ) -> FloatArray:
        """Gradient of E<f_i, r> of every row at a fixed residual, (m, P); with `log_norms`, of unit rows over rho^p."""
        w, a = self._split(theta, constant)
        inner, scale = self.layer.inner(w, constant)
        sigma: Sigma = (
            self.layer.sigma(constant, leading) if log_norms is None else self.layer.sigma_at(log_norms, constant)
        )
        force = self._backend.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0]):
            x, r = self._x[rows], residual[rows]
            z = (inner @ x.T).T
            if self.blind and leading:
                self._add_force(force, a, x, r - self._y[rows], sigma(z))
            elif self.blind and log_norms is not None:
                self._add_apart(force, a, x, r, self._y[rows] - r, z, log_norms, constant)
            else:
                self._add_force(force, a, x, r, sigma(z))
        return self._mean(force, a, inner, scale, self.n_samples)

    def _add_apart(
        self, force: Any, a: Any, x: Any, r: Any, f: Any, z: Any, log_norms: FloatArray, constant: IntArray | None
    ) -> None:
        """`_add_force` where the line of sigma does not see the targets: it sees what the network makes, f (k, c)."""
        beyond, line = self.layer.apart_at(log_norms, constant)
        self._add_force(force, a, x, r, beyond(z))
        self._add_force(force, a, x, -f, line(z))

    def _add_force(self, force: Any, a: Any, x: Any, r: Any, pair: tuple[Any, Any]) -> None:
        """Add sum_k (r_k . a) d sigma/dw at fixed |w|, and sum_k r_k sigma in units of `inner`, to `force` (m, P)."""
        (value, slope), product = pair, self._backend.product
        drive = product(a, r.T).T
        force[:, : self.n_inputs] += product((drive * slope).T, x)
        force[:, self.n_inputs :] += product(value.T, r)

    def _mean(self, force: Any, a: Any, inner: Any, scale: Any, samples: int) -> FloatArray:
        """Forces of `_add_force` summed over samples (m, P) as a mean, in the units of theta. They lack what rounded
        kinks, whose widths go with |w|, add along w: sigma is homogeneous, so that a . dU/da = w . dU/dw."""
        d = self.n_inputs
        if self.kink > 0:
            on_w, on_a = force[:, :d], force[:, d:]
            if not bool((scale > SMALLEST).all()):  # no input weights: nothing moves them
                on_w *= scale > SMALLEST
            lacks = (a * on_a).sum(1) - (inner * on_w).sum(1)
            on_w += (self.layer.reach**2 * lacks)[:, None] * inner
            on_a *= scale
        return self._backend.numpy(force) * (self._weight / samples)

    def _values(self, theta: FloatArray, neurons: IntArray, rows: slice, leading: bool = False) -> Any:
        constant = self._constant(neurons)
        w, a = self._split(theta, constant)
        value, _ = self.layer.unit(self._x[rows] @ w.T, self.layer.sizes(w), constant, leading)
        return value.T[:, :, None] * a[:, None, :]

    def _neuron_jacobian(self, theta: FloatArray, neurons: IntArray, rows: slice) -> Any:
        b, d, constant = self._backend, self.n_inputs, self._constant(neurons)
        w, a = self._split(theta, constant)
        x, sizes = self._x[rows], self.layer.sizes(w)
        lengths = nonzero(sizes)
        z = x @ w.T
        value, slope = self.layer.unit(z, sizes, constant)
        radial = self.layer.radial(z, value, slope, lengths, constant)
        out = b.zeros((theta.shape[0], self.n_params, x.shape[0], self.n_outputs))
        tilt = slope.T[:, None, :] * x.T
        if radial is not None:
            tilt = tilt + (w / lengths[:, None])[:, :, None] * radial.T[:, None, :]
        out[:, :d] = tilt[..., None] * a[:, None, None, :]
        for k in range(self.n_outputs):
            out[:, d + k, :, k] = value.T
        return out.reshape(theta.size, x.shape[0], self.n_outputs)
