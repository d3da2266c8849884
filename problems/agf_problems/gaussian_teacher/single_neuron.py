"""One ReLU student on one ReLU teacher, inputs N(0, s I): the neuron of [GB24] in closed form.

r = |w|, t the angle between w and the teacher, c the teacher's strength |b| |v|. With
g(t) = (sin t + (pi - t) cos t)/pi, for any a (teacher b > 0; else a -> -a):

    dr/dt = (s a / 2)(c g - a r)      da/dt = (s r / 2)(c g - a r)      dt/dt = -(s c a / r)(pi - t) sin t / (2 pi)

Balanced, a = +-r, the angle decouples from the norm, and a sign of w_1 flips after a time that no scale changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import agf
from agf.arrays import FloatArray
from agf.clock import Clock
from agf.errors import RequestError, explain

#: Nodes of the quadratures over angles: integrands are smooth, and 200 Gauss-Legendre nodes are rounding.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)

Method = Literal["lrr", "wr", "imp"]


def overlap(angle: FloatArray | float) -> FloatArray:
    """g(t) = (sin t + (pi - t) cos t) / pi: 1 at 0, 1/pi at a right angle, 0 at pi; at least cos t."""
    angle = np.asarray(angle)
    return np.asarray((np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi)


def balanced_weight(t: FloatArray | float, w0: float, c1: float, k: float) -> FloatArray:
    """w(t) of dw/dt = K w - C1 w^3 for any sign of K ([GB24] section 2, with its misprints mended).

    Parameters
    ----------
    t : float or ndarray
        Flow time.
    w0 : float
        Start.
    c1 : float
        C1 >= 0, the second moment of the inputs on the active half.
    k : float
        K = C2 sign(a0) sign(w0).
    """
    t = np.asarray(t, dtype=np.float64)
    if k == 0:
        return w0 / np.sqrt(1 + 2 * c1 * w0**2 * t)
    # E = exp(2 K t); both forms are the same quotient, each without overflow for its sign of K
    if k > 0:
        return np.sign(w0) * np.sqrt(k * w0**2 / (k * np.exp(-2 * k * t) - c1 * w0**2 * np.expm1(-2 * k * t)))
    return np.sign(w0) * np.sqrt(k * w0**2 * np.exp(2 * k * t) / (k + c1 * w0**2 * np.expm1(2 * k * t)))


def quadrants(c1: float, c2_right: float, c2_left: float) -> dict[str, float]:
    """Limit of a balanced w with one input, by the signs of (a0, w0), such as "+-"; |a| has the same limit.

    c1 : C1 on both halves.  c2_right, c2_left : C2 on x > 0 and x < 0, where labels are noise alone.
    """
    out = {}
    for a in (1, -1):
        for w in (1, -1):
            k = (c2_right if w > 0 else c2_left) * a * w
            out[f"{'+' if a > 0 else '-'}{'+' if w > 0 else '-'}"] = w * float(np.sqrt(max(k, 0.0) / c1))
    return out


@dataclass(frozen=True, repr=False)
class NeuronTheory(agf.Staircase):
    """The staircase of one neuron as alpha -> 0, with the closed forms of its whole motion.

    Parameters
    ----------
    inputs : int
        Dimension d.
    scale : float
        Variance s of every input; 1/d in [GB24].
    strength : float
        c = |b| |v|.
    """

    inputs: int = 1
    scale: float = 1.0
    strength: float = 1.0

    def rates(self, angle: float, norm: float, a: float) -> tuple[float, float, float]:
        """d/dt of (angle, |w|, a), for a teacher of positive output weight."""
        push = 0.5 * self.scale * (self.strength * float(overlap(angle)) - a * norm)
        turn = -self.scale * self.strength * (a / norm) * (np.pi - angle) * np.sin(angle) / (2 * np.pi)
        return float(turn), a * push, norm * push

    def population_loss(self, angle: float, norm: float, a: float) -> float:
        """E (f* - f)^2 / 2."""
        rho = a * norm
        return 0.25 * self.scale * (self.strength**2 + rho**2 - 2 * rho * self.strength * float(overlap(angle)))

    def flip_time(self, angle: float) -> float:
        """Flow time at which w_1 changes sign, balanced, a > 0, from an angle in (pi/2, pi); 0 below, inf at pi.

        2 pi / (s c) int_{pi/2}^{angle} dt / ((pi - t) sin t); over d it is 2.075241 at 2.0 and 6.943140 at 2.5.
        Raises RequestError for what is no angle of two vectors.
        """
        if not 0.0 <= angle <= np.pi:
            raise RequestError(
                explain("no such angle.", where="flip_time", expected="from 0 to pi, in radians", found=f"{angle:g}")
            )
        if angle <= np.pi / 2:
            return 0.0
        if angle == np.pi:
            return np.inf
        # in y = 1 / (pi - t) the integrand 1/((pi - t) sin t) dt = dy / (y sin(1/y)) is smooth up to pi
        low, high = 2 / np.pi, 1 / (np.pi - angle)
        y = 0.5 * (high - low) * _NODES + 0.5 * (high + low)
        return float(
            2 * np.pi / (self.scale * self.strength) * 0.5 * (high - low) * (_WEIGHTS @ (1 / (y * np.sin(1 / y))))
        )

    def reached_angle(self, time: float) -> float:
        """The largest angle from which w_1 has changed sign by a flow time (inverse of `flip_time`)."""
        from scipy.optimize import brentq

        if time <= 0:
            return np.pi / 2
        high = 1.0  # log of 1 / (pi - angle)
        while self.flip_time(np.pi - np.exp(-high)) < time:
            high += 1.0
        at = brentq(lambda y: self.flip_time(np.pi - np.exp(-y)) - time, -np.log(np.pi / 2) + 1e-12, high, xtol=1e-14)
        return float(np.pi - np.exp(-float(at)))

    def flipped(self, time: float) -> float:
        """P(w_1 has changed sign by a flow time | it starts negative, a > 0), isotropic balanced starts."""
        if self.inputs == 1:
            return 0.0
        if np.isinf(time):
            return 1.0
        return _cap(self.inputs, self.reached_angle(time)) / _cap(self.inputs, np.pi)

    def success(
        self,
        method: Method,
        *,
        time: float = np.inf,
        rewind: float = 0.0,
        imbalance: float | str = "balanced",
        rebalance: bool = True,
        norm: float = 1.0,
    ) -> float:
        """Probability that pruning to one input, the right one, and a restart end at the teacher, without noise.

        A restart learns where w_1 > 0 and a > 0, or |w_1| > |a|, which lets a change its sign.

        Parameters
        ----------
        method : str
            "lrr" goes on from where training ended, "wr" from flow time `rewind`, "imp" from the start.
        time : float
            Flow time of the dense phase.
        rewind : float
            Flow time that "wr" goes back to.
        imbalance : float or str
            |a0| / |w0| at the start, "balanced" for 1, or "iid" for a and the entries of w of one law: the last for
            "imp", and for "lrr" and infinite time, alone.
        rebalance : bool
            Whether "imp" and "wr" scale a to |w_1| after masking, as the theory of the paper has it.
        norm : float
            |w0|, which matters in a finite time where layers are not balanced.

        Returns
        -------
        float
            Balanced: 1/4 for IMP, 1/4 + P(flipped by then)/4 for LRR and WR; else by integration over the angles.

        Raises
        ------
        RequestError
            For an unknown method, or an imbalance whose probability is not known.
        """
        if method not in ("lrr", "wr", "imp"):
            raise RequestError(explain(f"unknown method {method!r}.", where="success", expected="lrr, wr or imp"))
        balanced, until = imbalance in ("balanced", 1.0), {"lrr": time, "wr": min(rewind, time), "imp": 0.0}[method]
        again = rebalance and method != "lrr"
        if method == "imp" and (again or imbalance == "iid"):
            return 0.25 if again else 0.375  # |w_1| > |a| for one in two of the quadrant (-, +)
        if balanced and (again or method == "lrr"):
            return 0.25 + 0.25 * self.flipped(until)
        if imbalance == "iid" and (method != "lrr" or np.isfinite(time)):
            raise RequestError(
                explain("weights of one law are known for imp, and for lrr and infinite time alone.", where="success")
            )
        if np.isfinite(until):
            return self._restarts(until, 1.0 if balanced else float(imbalance), again, norm)
        if imbalance != "iid":
            rescued = 1.0 if not balanced and float(imbalance) < 1 else 0.0
        else:
            from scipy.special import betainc

            rescued = float(betainc(0.5, self.inputs / 2, 0.5))  # P(a^2 < |w|^2)
        if self.inputs == 1:  # w keeps its sign: a > 0 learns, and a < 0 where |a| < |w| lets it change
            return 0.25 + 0.25 * rescued
        return 0.5 + 0.5 * rescued

    def _restarts(self, time: float, ratio: float, again: bool, norm: float) -> float:
        """P(success) of a restart from flow time `time`, over isotropic w0 of one norm and both signs of a0.

        ratio : |a0| / |w0|.  again : whether layers are balanced anew after masking.
        """
        from scipy.integrate import solve_ivp

        if self.inputs == 1:
            angles, weight = np.array([0.0, np.pi]), None
        else:
            angles = np.linspace(0.0, np.pi, _ANGLES)
            weight = np.array([_arc(self.inputs, angle) for angle in angles])
        out = 0.0
        for sign in (1.0, -1.0):
            y = np.concatenate([angles, np.full(angles.size, norm), np.full(angles.size, sign * ratio * norm)])

            def velocity(t: float, y: FloatArray) -> FloatArray:
                angle, size, a = y.reshape(3, -1)
                push = 0.5 * self.scale * (self.strength * overlap(angle) - a * size)
                turn = -self.scale * self.strength * (a / size) * (np.pi - angle) * np.sin(angle) / (2 * np.pi)
                return np.concatenate([turn, a * push, size * push])

            end = solve_ivp(velocity, (0, time), y, rtol=1e-8, atol=1e-10).y[:, -1] if time > 0 else y
            angle, size, a = end.reshape(3, -1)
            inner = size * np.cos(angle)
            margin = np.minimum(inner, a if again else np.maximum(a, inner - np.abs(a)))
            out += 0.5 * (float(np.mean(margin > 0)) if weight is None else _share(margin, weight))
        return out


#: Angles at which a start is followed where no closed form is known. Cost: the error is 1e-5 of the time.
_ANGLES = 601


def _share(margin: FloatArray, weight: FloatArray) -> float:
    """Part of the weight (cumulative, at the points of a grid) where the margin is positive; linear between points."""
    low, high, step = margin[:-1], margin[1:], np.diff(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(np.maximum(low, high) / np.abs(high - low), 0.0, 1.0)
    part = np.where((low > 0) & (high > 0), 1.0, np.where((low <= 0) & (high <= 0), 0.0, part))
    return float(np.sum(part * step) / weight[-1])


def _arc(inputs: int, angle: float) -> float:
    """int_0^{angle} sin^(d-2)."""
    t = 0.5 * angle * (_NODES + 1.0)
    return float(0.5 * angle * (_WEIGHTS @ np.sin(t) ** (inputs - 2)))


def _cap(inputs: int, angle: float) -> float:
    """int_{pi/2}^{angle} sin^(d-2)."""
    half = 0.5 * (angle - np.pi / 2)
    t = half * _NODES + 0.5 * (angle + np.pi / 2)
    return float(half * (_WEIGHTS @ np.sin(t) ** (inputs - 2)))


def theory_of(
    name: str, arguments: dict[str, Any], inputs: int, scale: float, strength: float, up: bool, alpha: float | None
) -> NeuronTheory:
    """The theory of one neuron; flow times when alpha is given."""
    level = 0.25 * scale * strength**2  # E f*^2 / 2
    utility = 0.25 * scale * strength  # at the teacher's direction, |w| = |a|
    accelerated = 1 / (2 * utility)  # in units of -log alpha
    time = np.nan if alpha is None else -np.log(alpha) * accelerated
    drop = agf.Drop(
        time=time, half_time=time, accelerated_time=accelerated, level=0.0, neurons=np.array([0]),
        label="neuron 0 (teacher 0)", utility=np.array([utility]), how="closed form",
    )  # fmt: skip
    log_scale = 0.0 if alpha is None else float(np.log(-np.log(alpha)))
    note = "For a start with a of the teacher's sign; one of the other sign, balanced, never learns."
    return NeuronTheory(
        problem=name, degree=2, clock=Clock(2, log_scale), start_level=level, drops=(drop,),
        status=agf.Status.THEORY, arguments=arguments, notes=(note,), inputs=inputs, scale=scale, strength=strength,
    )  # fmt: skip
