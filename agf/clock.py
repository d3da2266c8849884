"""The one place where times, charges and norms change units.

Symbols: kappa is `degree`; rho the norm of a neuron; S its charge (accumulated utility, flow time x loss); c its
threshold. *Flow time* t is the time of d theta/dt = -grad L. *Accelerated time* is t / scale with scale = E[c_i].
Everything is carried as a logarithm where float64 could overflow (degree >= 3 at alpha = 1e-200): log_start and
log_norms are the natural logs of the initial and the present norms, log_radius that of the norm of the threshold, each
(m,) or a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from agf.arrays import USUAL, FloatArray, count, numbers
from agf.asked import asked
from agf.errors import RequestError, explain


@asked
def charge(log_norms: FloatArray, log_start: FloatArray, degree: int) -> FloatArray:
    """Charge that takes a neuron from norm exp(log_start) to exp(log_norms), (m,); flow time x loss.

    [AGF] eq. 15: log(rho/rho0) if degree is 2, else (rho0^(2-degree) - rho^(2-degree)) / (degree - 2).
    """
    if degree == 2:
        return log_norms - log_start
    power = degree - 2
    with np.errstate(over="ignore"):
        return -np.exp(-power * log_start) * np.expm1(-power * (log_norms - log_start)) / power


@asked
def threshold(log_start: FloatArray, degree: int, log_radius: FloatArray | float = 0.0) -> FloatArray:
    """Charge at which a neuron of norm exp(log_start) reaches norm exp(log_radius), (m,); flow time x loss.

    [AGF] section 2 has radius 1, the default. inf where it overflows; `log_threshold` does not.
    """
    return charge(np.asarray(log_radius, dtype=np.float64), log_start, degree)


@asked
def log_threshold(log_start: FloatArray, degree: int, log_radius: FloatArray | float = 0.0) -> FloatArray:
    """Natural log of `threshold`, (m,), finite at any scale; -inf where the neuron is already there."""
    gap = np.maximum(np.asarray(log_radius) - log_start, 0.0)
    with np.errstate(divide="ignore"):
        if degree == 2:
            return np.log(gap)
        power = degree - 2
        return -power * log_start + np.log(-np.expm1(-power * gap)) - np.log(power)


@asked
def log_norm(charges: FloatArray, log_start: FloatArray, degree: int) -> FloatArray:
    """Inverse of `charge`: log norm of a neuron after `charges` S (m,), flow time x loss; inf past the blow-up."""
    if degree == 2:
        return log_start + charges
    power = degree - 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        remaining = 1.0 - power * charges * np.exp(power * log_start)
        return np.where(remaining > 0, log_start - np.log(np.maximum(remaining, 0.0)) / power, np.inf)


#: Output of a lone neuron over its final one when half of its drop in the loss is gone. Derived: (1 - x)^2 = 1/2.
HALF = 1.0 - np.sqrt(0.5)


@asked
def half_drop_ratio(degree: int) -> float:
    """Norm over R* at which the frozen law stands when the loss has fallen half-way, for this degree kappa: n_kappa.

    n_2 = (sqrt 2 - 1)^(1/2) = 0.64359, n_3 = 0.79784, n_4 = 0.89733.

    A lone neuron obeys rho' = kappa (U rho^(kappa-1) - 2 C rho^(2 kappa-1)) and saturates at R* = (U/2C)^(1/kappa);
    half the loss is gone at rho^kappa = (1 - 1/sqrt 2) R*^kappa. The ratio is the norm of the same neuron without
    saturation at that instant.
    """
    degree = count(degree, "degree", where="half_drop_ratio", least=2)
    if degree == 2:
        return float((np.sqrt(2.0) - 1.0) ** 0.5)
    from scipy.integrate import quad  # a quarter of a second to import, and degree 2 needs none

    h = HALF ** (1.0 / degree)
    lost = quad(lambda r: r / (1.0 - r**degree), 0.0, h)[0]
    power = degree - 2
    return float((power * (h**-power / power - lost)) ** (-1.0 / power))


#: Natural log of the largest flow time per unit of accelerated time. Limit: float64 ends at 709.
_MAX_LOG_SCALE = 700.0


@asked
@dataclass(frozen=True)
class Clock:
    """Converts between flow time, accelerated time and optimizer steps.

    Parameters
    ----------
    degree : int
        Leading order kappa of the utility.
    log_scale : float
        Natural log of `scale`, flow time per unit of accelerated time, which is the mean threshold E[c_i] for norm 1.
    """

    degree: int
    log_scale: float

    @classmethod
    @np.errstate(**USUAL)
    def from_norms(cls, degree: int, log_norms: FloatArray) -> Clock:
        """Clock of neurons that start at these log_norms (m,): scale is their mean threshold for norm 1.

        Where none starts below norm 1 (which is small where the data ask for more), for e times the largest norm. With
        no neuron at all, accelerated time is flow time.

        Raises
        ------
        RequestError
            Where flow times leave float64.
        """
        log_norms = numbers(log_norms, "log_norms")
        finite = log_norms[np.isfinite(log_norms)]
        if finite.size == 0:
            return cls(degree, 0.0)
        radius = 0.0 if (finite < 0).any() else float(finite.max()) + 1.0
        clock = cls(degree, float(np.logaddexp.reduce(log_threshold(finite, degree, radius)) - np.log(finite.size)))
        if clock.log_scale > _MAX_LOG_SCALE:
            raise RequestError(
                explain(
                    f"flow times are about exp({clock.log_scale:.0f}), beyond float64.",
                    where="Clock",
                    remedy="Start from larger weights (a larger alpha).",
                )
            )
        return clock

    @cached_property
    def scale(self) -> float:
        """Flow time per unit of accelerated time; inf where float64 overflows (`log_scale` stays finite)."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.exp(self.log_scale))

    @np.errstate(**USUAL | {"over": "ignore", "invalid": "ignore"})
    def flow(self, accelerated: FloatArray | float) -> FloatArray:
        """Flow time of accelerated times, in the shape of these."""
        times = numbers(accelerated, "accelerated")
        return np.where(times == 0, 0.0, times * self.scale)

    def flow_time(self, accelerated: float) -> float:
        """`flow` of one time, a tenth of its price."""
        return float(accelerated) * self.scale if accelerated else 0.0

    @np.errstate(**USUAL)
    def accelerated(self, flow_time: FloatArray | float) -> FloatArray:
        """Accelerated time of flow times: flow_time / scale, in the shape of these."""
        return numbers(flow_time, "flow_time") * np.exp(-self.log_scale)

    @staticmethod
    def steps(flow_time: FloatArray | float, lr: float, momentum: float = 0.0) -> FloatArray:
        """Optimizer steps that cover a flow time: flow_time (1 - momentum) / lr, right to first order in lr."""
        return numbers(flow_time, "flow_time") * (1.0 - numbers(momentum, "momentum")) / numbers(lr, "lr")

    @staticmethod
    def flow_of_steps(steps: FloatArray | float, lr: float, momentum: float = 0.0) -> FloatArray:
        """Flow time of optimizer steps: steps lr / (1 - momentum), right to first order in lr."""
        return numbers(steps, "steps") * numbers(lr, "lr") / (1.0 - numbers(momentum, "momentum"))
