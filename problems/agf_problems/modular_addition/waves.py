"""The dormant flow of modular addition in closed form, while nothing is active: three waves a frequency.

The utility is then a sum over frequencies, Re sum_k G_k u_k v_k conj(w_k) in orthonormal coordinates of a neuron's
weights (one complex number u_k, v_k, w_k a frequency, the phase of the template absorbed), so every frequency moves on
its own: u' = G conj(v) w, v' = G conj(u) w, w' = G u v. The squares |u|^2, |v|^2, |w|^2 gain alike, by s(t), and
Im u v conj(w) is conserved:

    s'^2 = 4 G^2 Q(s),    Q(s) = (|u|^2 + s)(|v|^2 + s)(|w|^2 + s) - (Im u v conj(w))^2

Weierstrass' equation. With the roots e_j of Q, a gain s is R_F(s - e_1, s - e_2, s - e_3) / G before the blow-up
(Carlson's integral), and s(t) follows from Jacobi's functions.

Once a frequency is learned by a full group of six, the others are independent again; in between they are not, as the
squares that a few neurons leave mix them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ellipj, elliprf

from agf.arrays import FloatArray, IntArray
from agf_problems.modular_addition.template import ComplexArray, Template

#: Bisections of the time to a radius. Derived: the 53 digits of float64, and as many again for times far below the
#: bracket.
_BISECTIONS = 100


class ThreeWaves:
    """The three waves of m neurons at K frequencies.

    Parameters
    ----------
    waves : complex ndarray, shape (m, K, 3)
        u, v, w.
    rates : float ndarray, shape (K,)
        G, zero where the template has nothing.
    squares : float ndarray, shape (m,)
        Squared norms of the neurons, what does not move included.

    Attributes
    ----------
    blow_up : float ndarray, shape (m, K)
        Flow time at which a frequency alone would take its neuron to infinity; inf where it never grows.
    """

    def __init__(self, waves: ComplexArray, rates: FloatArray, squares: FloatArray):
        self._start = squares
        # gains in units of the largest square, so that neurons of any size are alike
        size = np.abs(waves).max(axis=2)
        waves = waves / np.where(size > 0, size, 1.0)[..., None]
        squares = np.abs(waves) ** 2
        product = waves[..., 0] * waves[..., 1] * waves[..., 2].conj()
        self._unit = size**2
        self._rate = rates * size
        one, two, three = np.moveaxis(squares, 2, 0)
        companion = np.zeros((*one.shape, 3, 3))
        companion[..., 0, 0] = -(one + two + three)
        companion[..., 0, 1] = -(one * two + two * three + three * one)
        companion[..., 0, 2] = product.imag**2 - one * two * three
        companion[..., 1, 0] = companion[..., 2, 1] = 1.0
        # the real root from which s grows comes last; the other two are real or conjugate
        roots = np.linalg.eigvals(companion).astype(np.complex128)
        at = np.where(np.abs(roots.imag) <= 1e-9, roots.real, -np.inf).argsort(axis=-1)
        self._roots = np.take_along_axis(roots, at, axis=-1)
        self._roots[..., 2] = np.minimum(self._roots[..., 2].real, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = self._before_blow_up(np.zeros_like(one))
            turned = 2.0 * self._before_blow_up(self._roots[..., 2].real) - ahead
            blow_up = np.where(product.real >= 0, ahead, turned)
        self.blow_up: FloatArray = np.where(np.isfinite(blow_up), blow_up, np.inf)

    @classmethod
    def of(cls, hats: ComplexArray, template: Template, squares: FloatArray) -> ThreeWaves:
        """Those of neurons of Fourier coefficients `hats` (m, 3, K) and squared norms (m,)."""
        weight, order = np.where(template.characters.paired, 2.0, 1.0), template.characters.order
        waves = hats.transpose(0, 2, 1) * np.sqrt(weight / order)[:, None]
        size = np.abs(template.spectrum)
        waves[..., 2] *= np.exp(1j * np.angle(template.spectrum))
        # utility 2/p^3 sum_chi |xh|^2 uh vh conj(wh xh), and a wave is uh sqrt(weight / p)
        return cls(waves, 2.0 / np.sqrt(weight * order**3) * size**3, squares)

    def _before_blow_up(self, gain: FloatArray) -> FloatArray:
        """Time from a gain, in units of `_unit`, to infinity."""
        away = gain[..., None] - self._roots
        return elliprf(*np.moveaxis(away, -1, 0)).real / self._rate

    def gains(self, times: FloatArray) -> FloatArray:
        """(m, K) what each of |u|^2, |v|^2 and |w|^2 has gained at flow times (m,), before any blow-up."""
        low, middle, high = np.moveaxis(self._roots, -1, 0)
        mean = self._roots.mean(axis=-1).real
        grows = np.isfinite(self.blow_up)
        z = self._rate * (np.where(grows, self.blow_up, 0.0) - times[:, None])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # real roots: s = e_3 + (e_1 - e_3) / sn^2; one real root e: s = e + h (1 + cn) / (1 - cn)
            order = np.sort(np.stack([low.real, middle.real, high.real]), axis=0)
            spread = order[2] - order[0]
            sn = ellipj(np.sqrt(spread) * z, np.clip((order[1] - order[0]) / spread, 0.0, 1.0))[0]
            real = order[0] + spread / sn**2
            h = np.abs(high.real - low)
            cn = ellipj(2.0 * np.sqrt(h) * z, np.clip(0.5 - 0.75 * (high.real - mean) / h, 0.0, 1.0))[1]
            single = high.real + h * (1.0 + cn) / (1.0 - cn)
        gains = np.where(low.imag == 0.0, real, single)
        return np.where(grows, gains, 0.0) * self._unit

    def squared_norms(self, times: FloatArray) -> FloatArray:
        """(m,) squared norms at flow times (m,)."""
        return self._start + 3.0 * self.gains(times).sum(axis=1)

    def strongest(self) -> IntArray:
        """(m,) position of the frequency that blows up first."""
        return self.blow_up.argmin(axis=1)

    def time_to(self, radius: float) -> FloatArray:
        """(m,) flow times at which the norms reach `radius`; inf for neurons that never grow."""
        high = self.blow_up.min(axis=1)
        finite = np.isfinite(high)
        low, high = np.zeros_like(high), np.where(finite, high, 0.0)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            reached = self.squared_norms(middle) >= radius**2
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(finite, high, np.inf)
