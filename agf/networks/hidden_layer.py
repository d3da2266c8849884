"""The hidden layer on samples: sigma(w . x) and its slopes, for many neurons at once, kinks sharp or rounded.

Neurons come as rows (w, a). A neuron may be *constant*: it outputs a whatever the sample is, and its w does nothing.
That is an output bias. Formulas are written once, for numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.networks.activations import SMALLEST, Activation
from agf.numerics.backend import Backend
from agf.rounding import FAINT, LOG_LEAST

#: sigma of pre-activations (samples, m) and its slope.
Sigma = Callable[[Any], tuple[Any, Any]]

#: Sums of squares in this range have lost nothing to underflow or overflow. Derived: what underflows is below TINY,
#: EPS^2 of such a sum.
_SQUARES = (FAINT, 1.0 / FAINT)
#: Samples that are looked at first for whether a neuron is alive. Cost: most are alive on one of them.
_PROBES = 32


class HiddenLayer:
    """sigma(w . x_k) of the samples x_k.

    Parameters
    ----------
    backend : Backend
        Whose arrays are computed with.
    x : array of the backend, shape (n, d)
        Inputs.
    activation : Activation
        sigma.
    kink : float
        Half-width of rounded kinks relative to |w| rms|x|; 0 for smooth activations and sharp kinks.
    blocks : callable
        m -> slices of the samples in which arrays of m columns stay bounded.
    """

    def __init__(
        self,
        backend: Backend,
        x: Any,
        activation: Activation,
        kink: float,
        blocks: Callable[[int], Iterator[slice]],
    ) -> None:
        self.backend, self.x, self.activation, self.kink, self._blocks = backend, x, activation, kink, blocks
        inputs = np.abs(backend.numpy(x))
        largest = inputs.max()
        self.reach = kink * float(largest * np.sqrt(np.mean(np.sum((inputs / largest) ** 2, axis=1))))
        self._stride = max(1, inputs.shape[0] // _PROBES)
        self._empty = bool((~inputs.any(axis=1)).any())  # samples that are 0, where every neuron is

    def sizes(self, w: Any) -> Any:
        """|w| of every row, without underflow of the squares."""
        squares = (w * w).sum(1)
        if w.shape[0] and float(squares.min()) > _SQUARES[0] and float(squares.max()) < _SQUARES[1]:
            return squares**0.5
        largest = self.backend.xp.amax(abs(w), 1)
        return largest * ((w / nonzero(largest)[:, None]) ** 2).sum(1) ** 0.5

    def inner(self, w: Any, constant: Any = None) -> tuple[Any, Any]:
        """Input weights in the units in which `sigma` takes them, (m, d), and the units: (m, 1), or 1 for sharp kinks.

        These are the widths of rounded kinks, in proportion to |w|: all neurons then share one sigma.
        """
        if self.kink == 0:
            return w, 1.0
        awake = self.awake(w)
        widths = 2.0 * self.reach * self.sizes(awake)[:, None]
        if constant is not None:
            widths[constant] = 1.0
        return awake / nonzero(widths), widths

    def awake(self, w: Any) -> Any:
        """Input weights (m, d), those of dead neurons as 0: neither outputs nor forces.

        Dead is a relu neuron for which no sample is strictly active; it stays where it is for ever (a regular solution
        [Min23]). With sharp kinks relu'(0) = 0 sees to that; a rounded one would pull at a neuron that stands just
        beside its last sample, and bring it back to life. A few samples show that most neurons are alive.
        """
        if self.kink == 0 or self.activation.left != 0 or not w.shape[0]:
            return w
        b = self.backend
        alive = b.xp.amax(w @ self.x[:: self._stride].T, 1) > 0
        if bool(alive.all()):
            return w
        for rows in self._blocks(w.shape[0]):
            alive = alive | (b.xp.amax(w @ self.x[rows].T, 1) > 0)
        return w * alive[:, None]

    def sigma(self, constant: Any = None, leading: bool = False) -> Sigma:
        """sigma of pre-activations z (samples, m) of `inner` weights, in their units, and d sigma/dz at fixed |w|."""
        b, act = self.backend, self.activation
        if self.kink > 0:
            return lambda z: held(self._rounded(z), constant)
        if leading:
            return lambda z: held((act.leading_value(b, z), act.leading_slope(b, z)), constant)
        return lambda z: held((act.value(b, z), act.slope(b, z)), constant)

    def _rounded(self, z: Any) -> tuple[Any, Any]:
        """A rounded sigma, but exactly 0 of a sample that is 0: it has no kink to be rounded, and nothing fits it."""
        value, slope = self.activation.rounded(self.backend, z)
        return (value * (z != 0), slope) if self._empty else (value, slope)

    def sigma_at(self, log_norms: FloatArray, constant: Any = None) -> Sigma:
        """sigma(rho z) / rho^p and its slope at unit neurons, exact at any norm rho; a constant one has 1 / rho^p."""
        b, act = self.backend, self.activation
        level = 1.0 if constant is None else b.array(np.exp(-act.power * log_norms[constant]))
        if act.homogeneous:
            plain = self.sigma()
            return lambda z: held(plain(z), constant, level)
        rho = b.array(np.exp(np.maximum(log_norms, LOG_LEAST)))

        def sigma(z: Any) -> tuple[Any, Any]:
            pair = act.value(b, rho * z) / rho**act.power, act.slope(b, rho * z) / rho ** (act.power - 1)
            return held(pair, constant, level)

        return sigma

    def unit(self, z: Any, sizes: Any, constant: Any = None, leading: bool = False) -> tuple[Any, Any]:
        """sigma of pre-activations z (samples, m) of neurons of these sizes |w|, and d sigma/dz at fixed |w|."""
        if self.kink == 0:
            return self.sigma(constant, leading)(z)
        widths = 2.0 * self.reach * sizes
        value, slope = self.sigma()(z / nonzero(widths))
        return held((widths * value, (widths > SMALLEST) * slope), constant)

    def radial(self, z: Any, value: Any, slope: Any, lengths: Any, constant: Any = None) -> Any:
        """d sigma/d|w| at fixed z, (samples, m), or None where that is 0; by Euler's identity beside a rounded kink."""
        if self.kink == 0:
            return None
        out = (value - slope * z) / lengths
        if constant is not None:
            out[:, constant] = 0.0
        return out

    def curvature(self, z: Any, sizes: Any, constant: Any = None) -> Any:
        """d^2 sigma/dz^2 at fixed |w|, (samples, m)."""
        if self.kink > 0:
            out = self.activation.rounded_curvature(self.backend, z, self.reach * sizes)
        else:
            out = self.activation.curvature(self.backend, z)
        if constant is not None:
            out[:, constant] = 0.0
        return out


def held(pair: tuple[Any, Any], constant: Any, level: Any = 1.0) -> tuple[Any, Any]:
    """Value and slope with those of constant neurons, by their index or None, set to `level` and 0."""
    if constant is not None:
        value, slope = pair
        value[:, constant] = level
        slope[:, constant] = 0.0
    return pair


def nonzero(sizes: Any) -> Any:
    """Sizes to divide by: 1 in place of 0, where the quotient is 0 anyway."""
    return sizes + (sizes == 0)
