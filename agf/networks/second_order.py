"""Two-layer networks on samples to second order: self-interactions beside an active network, Gram matrix, Hessian."""

from __future__ import annotations

from typing import Any

from agf.arrays import FloatArray, IntArray
from agf.networks.first_order import FirstOrder
from agf.networks.hidden_layer import nonzero
from agf.networks.sampled import MAX_ORDER


class SecondOrder(FirstOrder):
    """As `SampledProblem`, without forming outputs or Jacobians: f_i is sigma(w_i . x) a_i."""

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, (m,), weighted by l'' at the active network."""
        b, d, layer = self._backend, self.n_inputs, self.layer
        m, count = directions.shape[0], active.shape[0] if active.size <= MAX_ORDER else 0
        fixed, active_fixed = self._constant(neurons), self._constant(active_neurons[:count])
        w, a = self._split(directions, fixed)
        v, o = self._split(active[:count], active_fixed)
        sizes, active_sizes = layer.sizes(w), layer.sizes(v)
        lengths = nonzero(active_sizes)
        # l'' of a quadratic loss is the same at any network
        f = self._y if self.loss.quadratic else self._predict(active, active_neurons)
        total, cross = b.zeros((m,)), b.zeros((m, count, self.n_params))
        for rows in self._blocks(m + count):
            x = self._x[rows]
            curvature = self.loss.curvature(b, f[rows], self._y[rows])
            value = layer.unit((w @ x.T).T, sizes, fixed, leading=True)[0]
            total += (value**2 * curvature.squares(a)).sum(0)
            if count == 0:
                continue
            z = (v @ x.T).T
            others, slopes = layer.unit(z, active_sizes, active_fixed)
            radials = layer.radial(z, others, slopes, lengths, active_fixed)
            for j in range(count):
                weighted = value * (curvature.apply(o[j]) @ a.T)
                cross[:, j, :d] += (weighted * slopes[:, j : j + 1]).T @ x
                if radials is not None:
                    cross[:, j, :d] += (weighted.T @ radials[:, j])[:, None] * (v[j] / lengths[j])
                cross[:, j, d:] += curvature.moment(value * others[:, j : j + 1], a)
        return self._left_over(
            b.numpy(total), b.numpy(cross).reshape(m, count * self.n_params), active, active_neurons, f
        )

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), sharp kinks ignored; None above order 4,000."""
        if theta.size > MAX_ORDER:
            return None
        b, d, layer = self._backend, self.n_inputs, self.layer
        m, constant = theta.shape[0], self._constant(neurons)
        w, a = self._split(theta, constant)
        sizes = layer.sizes(w)
        safe = nonzero(sizes)
        f = self._predict(theta, neurons)
        out = self._gram(theta, neurons, f).reshape(m, self.n_params, m, self.n_params)
        for rows in self._blocks(m * (d + self.n_outputs)):
            x = self._x[rows]
            z = x @ w.T
            r = self.loss.residual(b, f[rows], self._y[rows])
            drive = r @ a.T
            curvature = layer.curvature(z, sizes, constant)
            value, slope = layer.unit(z, sizes, constant)
            radial = layer.radial(z, value, slope, safe, constant)
            for i in range(m):
                unit = w[i] / safe[i]
                # beside a rounded kink sigma is |w| phi(z / |w|): only directions across w bend it
                across = x if radial is None else x - (x @ unit)[:, None] * unit
                out[i, :d, i, :d] -= ((drive[:, i] * curvature[:, i])[:, None] * across).T @ across
                mixed = (slope[:, i : i + 1] * x).T @ r
                if radial is not None:
                    pull = (drive[:, i] * radial[:, i]).sum() / safe[i]
                    out[i, :d, i, :d] -= pull * (b.eye(d) - unit[:, None] * unit)
                    mixed = mixed + unit[:, None] * (radial[:, i] @ r)
                out[i, :d, i, d:] -= mixed
                out[i, d:, i, :d] -= mixed.T
        return b.numpy(out.reshape(theta.size, theta.size)) * (self._weight / self.n_samples)

    def _gram(self, theta: FloatArray, neurons: IntArray, f: Any) -> Any:
        b, d, c, layer = self._backend, self.n_inputs, self.n_outputs, self.layer
        m, constant = theta.shape[0], self._constant(neurons)
        w, a = self._split(theta, constant)
        sizes = layer.sizes(w)
        lengths = nonzero(sizes)
        out = b.zeros((m, self.n_params, m, self.n_params))
        for rows in self._blocks(m * self.n_params, least=m * self.n_params):  # work arrays no larger than the result
            x = self._x[rows]
            curvature = self.loss.curvature(b, f[rows], self._y[rows])
            z = x @ w.T
            value, slope = layer.unit(z, sizes, constant)
            radial = layer.radial(z, value, slope, lengths, constant)
            tilt = slope[:, :, None] * x[:, None, :]  # d sigma/dw, (samples, m, d)
            if radial is not None:
                tilt = tilt + radial[:, :, None] * (w / lengths[:, None])
            flat = tilt.reshape(tilt.shape[0], m * d)
            if curvature.weights is None:  # l'' is the identity
                out[:, :d, :, :d] += (flat.T @ flat).reshape(m, d, m, d) * (a @ a.T)[:, None, :, None]
                out[:, :d, :, d:] += (flat.T @ value).reshape(m, d, m, 1) * a[:, None, None, :]
                out[:, d:, :, d:] += (value.T @ value)[:, None, :, None] * b.eye(c)[:, None, :]
                continue
            for i in range(m):
                ours = curvature.apply(a[i])
                weighted = (tilt * (ours @ a.T)[:, :, None]).reshape(flat.shape)
                out[i, :d, :, :d] += (tilt[:, i].T @ weighted).reshape(d, m, d)
                mixed = (value[:, :, None] * ours[:, None, :]).reshape(flat.shape[0], m * c)
                out[i, :d, :, d:] += (tilt[:, i].T @ mixed).reshape(d, m, c)
                for k in range(c):
                    unit = curvature.moment(value * value[:, i : i + 1], b.eye(c)[k : k + 1] + b.zeros((m, c)))
                    out[i, d + k, :, d:] += unit
        for i in range(m):
            for j in range(m):
                out[j, d:, i, :d] = out[i, :d, j, d:].T
        return out.reshape(theta.size, theta.size)
