"""Activation functions, and their leading order at the origin, which is measured rather than written down.

sigma(z) = right z^power for small z > 0 and left |z|^power for small z < 0, up to smaller terms; the degree of the
utility is `power + 1` ([AGF] section 2 needs exactly this much of sigma).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from agf.arrays import count, number
from agf.errors import DataError, ProblemError, explain
from agf.numerics.backend import Backend
from agf.rounding import TINY

Function = Callable[[Backend, Any], Any]
_NUMPY = Backend.of(None)
#: Where the leading order is read off. Derived: for every smooth sigma, sigma(z) / z^p has converged to rounding there,
#: and its third power is a normal number.
_TINY = 1e-20
#: Width of a kink below which its neuron counts as zero. Derived: quotients by it do not overflow (norm 1e-303).
SMALLEST = 64 * TINY
#: Pre-activation, over the width of a rounded kink, up to which a sample is inactive. Derived: the slope jumps by the
#: tolerance of a step there, which no step sees; at 1e-3 slides took twice the steps. A neuron whose last sample pushes
#: it out comes there in finite time, as it comes to 0 at a sharp kink; on a slope down to 0 it never would.
_INACTIVE = 1e-6
#: Pre-activation below which the part of an odd sigma beyond the line is its series of five terms. Derived: the sixth
#: is 1e-13 of it there, and above it the difference of two numbers has lost no more than z^-2 EPS / 3 of it, as little.
_SERIES = 0.06


@dataclass(frozen=True)
class Activation:
    """sigma, sigma' and sigma'' of arrays of any shape, and what follows from them.

    At a kink `slope` is the left one, so relu'(0) = 0; `curvature` ignores kinks.

    Attributes
    ----------
    smooth : bool
        Whether sigma' is continuous.
    power : int
        Leading order at the origin, see the module.
    right : float
        Its coefficient right of 0.
    left : float
        Its coefficient left of 0.
    homogeneous : bool
        Whether sigma equals its leading order everywhere (relu, power), so that nothing is approximated.
    beyond : tuple of two functions, or None
        sigma(z) - sigma'(0) z and its derivative, with relative accuracy at any z: what is left where the leading order
        sees nothing, by a symmetry of the data.
    """

    name: str
    value: Function
    slope: Function
    curvature: Function
    smooth: bool
    power: int
    right: float
    left: float
    homogeneous: bool
    beyond: tuple[Function, Function] | None = None

    @classmethod
    def of(
        cls,
        name: str,
        value: Function,
        slope: Function,
        curvature: Function,
        smooth: bool = True,
        beyond: tuple[Function, Function] | None = None,
    ) -> Activation:
        """Measure the leading order of sigma. Raises ProblemError when it has none or misses the origin."""

        def at(z: float) -> float:
            return float(value(_NUMPY, np.array([z]))[0])

        if at(0.0) != 0.0:
            raise ProblemError(
                explain(
                    "sigma(0) is not 0.",
                    where=f"activation {name!r}",
                    found=at(0.0),
                    expected="a sigma through the origin",
                )
            )
        side = 1.0 if at(_TINY) != 0.0 else -1.0
        small, double = at(side * _TINY), at(2 * side * _TINY)
        power = round(math.log2(double / small)) if small != 0.0 and double / small > 0 else 0
        if power < 1 or abs(double / small / 2.0**power - 1.0) > 1e-9:
            raise ProblemError(
                explain(
                    "sigma has no leading power at the origin.",
                    where=f"activation {name!r}",
                    found=f"sigma({_TINY:g}) = {small:g}, sigma({2 * _TINY:g}) = {double:g}",
                    expected="sigma(z) ~ c z^p with a whole p >= 1",
                )
            )
        right, left = at(_TINY) / _TINY**power, at(-_TINY) / _TINY**power
        z = np.array([-3.0, -0.7, 0.4, 2.0])
        leading = np.where(z > 0, right, left) * np.abs(z) ** power
        homogeneous = bool(np.allclose(value(_NUMPY, z), leading, rtol=1e-12, atol=0.0))
        return cls(name, value, slope, curvature, smooth, power, right, left, homogeneous, beyond)

    @property
    def degree(self) -> int:
        """kappa, the degree of the utility."""
        return self.power + 1

    @property
    def next_power(self) -> int:
        """Power of z, over the leading one, of what is `beyond` it at the origin."""
        assert self.beyond is not None
        small, double = (float(self.beyond[0](_NUMPY, np.array([z]))[0]) for z in (_TINY, 2.0 * _TINY))
        return round(math.log2(double / small)) - self.power

    def leading_value(self, b: Backend, z: Any) -> Any:
        """Leading order of sigma, itself where sigma is homogeneous."""
        if self.homogeneous:
            return self.value(b, z)
        if self.power == 1 and self.left == -self.right:
            return self.right * z
        return b.xp.where(z > 0, b.array(self.right), b.array(self.left)) * abs(z) ** self.power

    def leading_slope(self, b: Backend, z: Any) -> Any:
        """Its derivative."""
        if self.homogeneous:
            return self.slope(b, z)
        if self.power == 1 and self.left == -self.right:
            return b.xp.full_like(z, self.right)
        factor = b.xp.where(z > 0, b.array(self.right), b.array(-self.left))
        return self.power * factor * abs(z) ** (self.power - 1)

    def rounded(self, b: Backend, z: Any) -> tuple[Any, Any]:
        """A sigma of power 1, and a slope that rises from the left to the right one over 0 < z < 1.

        Taken at w . x in units of a width in proportion to |w|, the slope is that of a direction and continuous. Where
        both sides of a kink push towards it, the slope in between that balances them is then reached instead of being
        chattered across: any of them is a subgradient, and a flow on these slopes tends to that of sharp kinks
        (Filippov). The value is not rounded, and there is no slope at z <= 0: what is inactive feels nothing, however
        near the kink. In between the slope is not that of the value; a continuous derivative of a value that is 0 on
        the left and z on the right would rise above 1, and hold neurons that cross.
        """
        left, jump = -self.left, self.right + self.left
        slope = b.clip(z, 0.0, 1.0) * (z > _INACTIVE)
        return self.value(b, z), slope if jump == 1.0 else jump * slope + left

    def rounded_curvature(self, b: Backend, z: Any, widths: Any) -> Any:
        """Derivative of that slope across w, (samples, m)."""
        jump = self.right + self.left
        return ((z > 0) & (z < widths)) * (jump / b.xp.where(widths > SMALLEST, widths, b.array(1.0)))


def _zero(b: Backend, z: Any) -> Any:
    return b.zeros(tuple(z.shape))


def _one(b: Backend, z: Any) -> Any:
    return b.zeros(tuple(z.shape)) + 1.0


def _leaky(name: str, leak: float) -> Activation:
    def value(b: Backend, z: Any) -> Any:
        return b.xp.where(z > 0, z, leak * z) if leak else b.clip(z, 0.0)

    def slope(b: Backend, z: Any) -> Any:
        return b.xp.where(z > 0, b.array(1.0), b.array(leak)) if leak else z > 0

    return Activation.of(name, value, slope, _zero, smooth=False)


def _power(name: str, k: int) -> Activation:
    return Activation.of(
        name, lambda b, z: z**k, lambda b, z: k * z ** (k - 1), lambda b, z: k * (k - 1) * z ** max(k - 2, 0)
    )


def _linear() -> Activation:
    return Activation.of("linear", lambda b, z: z, _one, _zero)


def _tanh() -> Activation:
    def slope(b: Backend, z: Any) -> Any:
        return 1.0 - b.xp.tanh(z) ** 2

    def beyond(b: Backend, z: Any) -> Any:
        series = z**3 * (-1 / 3 + z**2 * (2 / 15 + z**2 * (-17 / 315 + z**2 * (62 / 2835 - z**2 * 1382 / 155925))))
        return b.xp.where(abs(z) < _SERIES, series, b.xp.tanh(z) - z)

    return Activation.of(
        "tanh",
        lambda b, z: b.xp.tanh(z),
        slope,
        lambda b, z: -2.0 * b.xp.tanh(z) * slope(b, z),
        beyond=(beyond, lambda b, z: -(b.xp.tanh(z) ** 2)),
    )


def _erf() -> Activation:
    def slope(b: Backend, z: Any) -> Any:
        return (2.0 / math.sqrt(math.pi)) * b.xp.exp(-(z**2))

    unit = 2.0 / math.sqrt(math.pi)

    def beyond(b: Backend, z: Any) -> Any:
        series = z**3 * (-1 / 3 + z**2 * (1 / 10 + z**2 * (-1 / 42 + z**2 * (1 / 216 - z**2 / 1320))))
        return b.xp.where(abs(z) < _SERIES, unit * series, b.special.erf(z) - unit * z)

    return Activation.of(
        "erf",
        lambda b, z: b.special.erf(z),
        slope,
        lambda b, z: -2.0 * z * slope(b, z),
        beyond=(beyond, lambda b, z: unit * b.xp.expm1(-(z**2))),
    )


def _gelu() -> Activation:
    def density(b: Backend, z: Any) -> Any:
        return b.xp.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)

    return Activation.of(
        "gelu",
        lambda b, z: z * b.special.ndtr(z),
        lambda b, z: b.special.ndtr(z) + z * density(b, z),
        lambda b, z: (2.0 - z**2) * density(b, z),
        beyond=(
            lambda b, z: 0.5 * z * b.special.erf(z / math.sqrt(2.0)),
            lambda b, z: 0.5 * b.special.erf(z / math.sqrt(2.0)) + z * density(b, z),
        ),
    )


def _silu() -> Activation:
    def slope(b: Backend, z: Any) -> Any:
        s = b.special.expit(z)
        return s * (1.0 + z * (1.0 - s))

    def curvature(b: Backend, z: Any) -> Any:
        s = b.special.expit(z)
        return s * (1.0 - s) * (2.0 + z * (1.0 - 2.0 * s))

    def beyond_slope(b: Backend, z: Any) -> Any:
        s = b.special.expit(z)
        return 0.5 * b.xp.tanh(0.5 * z) + z * s * (1.0 - s)

    return Activation.of(
        "silu",
        lambda b, z: z * b.special.expit(z),
        slope,
        curvature,
        beyond=(lambda b, z: 0.5 * z * b.xp.tanh(0.5 * z), beyond_slope),
    )


_MAKERS: dict[str, Callable[[], Activation]] = {
    "linear": _linear,
    "relu": partial(_leaky, "relu", 0.0),
    "square": partial(_power, "square", 2),
    "tanh": _tanh,
    "erf": _erf,
    "gelu": _gelu,
    "silu": _silu,
}

#: Valid names, in the order they are listed to people.
NAMES = ("linear", "relu", "leaky-relu", "square", "power", "tanh", "erf", "gelu", "silu")


def activation(name: str, *, leak: float | None = None, power: int | None = None) -> Activation:
    """The activation of that name; `leak` (default 0.01) is for leaky-relu, `power` (default 3) for power.

    Raises DataError for an unknown name, with the list of valid ones, and for a parameter the activation does not take.
    """
    key = str(name).lower().replace("_", "-").replace(" ", "-")
    if key not in NAMES:
        raise DataError(explain(f"unknown activation {name!r}.", expected="one of " + ", ".join(NAMES)))
    for given, parameter, owner in ((leak, "leak", "leaky-relu"), (power, "power", "power")):
        if given is not None and key != owner:
            raise DataError(
                explain(f"`{parameter}` is for activation {owner!r}.", where=f"activation {key!r}", found=given)
            )
    if key == "power":
        return _power("power", count(3 if power is None else power, "power"))
    if key == "leaky-relu":
        slope = 0.01 if leak is None else number(leak)
        if not 0.0 <= slope <= 1.0:
            raise DataError(explain("`leak` must be between 0 and 1.", where="activation 'leaky-relu'", found=leak))
        return _leaky("leaky-relu", slope)
    return _MAKERS[key]()
