"""The hidden layer on samples: sigma(w . x) and its slopes, for many neurons at once, kinks sharp or rounded.

Neurons come as rows (w, a). A neuron may be *constant*: it outputs a whatever the sample is, and its w does nothing.
That is an output bias. Formulas are written once, for numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.networks.activations import SMALLEST, Activation
from agf.numerics.backend import Backend
from agf.rounding import EPS, FAINT, LOG_FAINT, LOG_LEAST

#: sigma of pre-activations (samples, m) and its slope.
Sigma = Callable[[Any], tuple[Any, Any]]

#: Sums of squares in this range have lost nothing to underflow or overflow. Derived: what underflows is below TINY,
#: EPS^2 of such a sum.
_SQUARES = (FAINT, 1.0 / FAINT)
#: Log norm below which what is beyond the line of sigma is a power of the norm. Derived: the power after it is less
#: than rounding, EPS^2 of it, and its cube has all digits.
_FAINT_NORM = 2.0 * float(np.log(EPS))


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
        Width of rounded kinks relative to |w| rms|x|; 0 for smooth activations and sharp kinks.
    """

    def __init__(self, backend: Backend, x: Any, activation: Activation, kink: float) -> None:
        self.backend, self.x, self.activation, self.kink = backend, x, activation, kink
        inputs = np.abs(backend.numpy(x))
        largest = inputs.max()
        self.reach = kink * float(largest * np.sqrt(np.mean(np.sum((inputs / largest) ** 2, axis=1))))

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
        widths = self.reach * self.sizes(w)[:, None]
        if constant is not None:
            widths[constant] = 1.0
        return w / nonzero(widths), widths

    def sigma(self, constant: Any = None, leading: bool = False) -> Sigma:
        """sigma of pre-activations z (samples, m) of `inner` weights, in their units, and d sigma/dz at fixed |w|."""
        b, act = self.backend, self.activation
        if self.kink > 0:
            return lambda z: held(act.rounded(b, z), constant)
        if leading:
            return lambda z: held((act.leading_value(b, z), act.leading_slope(b, z)), constant)
        return lambda z: held((act.value(b, z), act.slope(b, z)), constant)

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

    def apart_at(self, log_norms: FloatArray, constant: Any = None) -> tuple[Sigma, Sigma]:
        """`sigma_at` of an activation with a slope at the origin in two: beyond the line, with its own relative
        accuracy, and the line."""
        b, act = self.backend, self.activation
        assert act.beyond is not None
        (value, slope), level = act.beyond, 1.0 if constant is None else b.array(np.exp(-log_norms[constant]))
        held_up = np.maximum(log_norms, _FAINT_NORM)  # powers of smaller norms underflow, and are powers
        rho = b.array(np.exp(held_up))
        less = b.array(np.exp(act.next_power * np.maximum(log_norms - held_up, LOG_FAINT)))
        return (
            lambda z: held((less * value(b, rho * z) / rho, less * slope(b, rho * z)), constant, level),
            lambda z: held((act.leading_value(b, z), act.leading_slope(b, z)), constant, 0.0),
        )

    def unit(self, z: Any, sizes: Any, constant: Any = None, leading: bool = False) -> tuple[Any, Any]:
        """sigma of pre-activations z (samples, m) of neurons of these sizes |w|, and d sigma/dz at fixed |w|."""
        if self.kink == 0:
            return self.sigma(constant, leading)(z)
        widths = self.reach * sizes
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
