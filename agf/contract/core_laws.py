"""The laws of a problem on which every number hangs; `agf check` has more.

Slopes of Taylor remainders, Euler's identity, one method against another. Nothing here knows any problem.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf import sphere
from agf.arrays import FloatArray, IntArray
from agf.contract.probe import NotApplicable, Probe, Violation
from agf.init import Init
from agf.numerics.derivatives import LENGTH, central
from agf.records.table import number

#: A remainder below this fraction of the value is rounding. Limit: of what a law can tell; sums of
#: thousands of samples are off by less.
ROUNDING = 1e-12


def at_start(probe: Probe, init: Init) -> None:
    """What is computed first: the loss without neurons, not negative, and the utilities of the given neurons."""
    p = probe.problem
    loss, _ = probe.loss_grad(probe.empty, probe.no_neurons)
    some = np.flatnonzero(np.isfinite(init.log_norms[probe.neurons]))
    who = probe.neurons[some]
    residual = probe.residual(probe.empty, probe.no_neurons)
    probe.utility(init.directions[who], who, residual)
    probe.pull(init.directions[who], init.log_norms[who], who, residual)
    beside, _ = probe.loss_grad(probe.theta, probe.neurons)
    least = min(loss, beside)
    if least < -ROUNDING * max(abs(loss), abs(beside)):
        raise Violation(
            "loss_grad", f"a loss of {least:.6g}", "losses of at least 0: all tolerances are shares of the loss",
            f"a constant left out of the loss of {p.name!r}, such as the entropy of the targets",
        )  # fmt: skip


def words_and_features(probe: Probe) -> str:
    """What is asked for at every drop, which would otherwise be found out at the first one, or when a file is read."""
    probe.ask("describe")
    probe.ask("remarks")
    found = probe.ask("features", probe.theta, probe.neurons)
    moments = [probe.theta, 0.5 * probe.theta[::-1]]
    together = probe.ask("features_along", np.stack(moments), probe.neurons)
    for k, theta in enumerate(moments):
        alone = probe.ask("features", theta, probe.neurons)
        for name in sorted({*alone, *together}):
            one, of_both = (np.asarray(each.get(name, ())) for each in (alone, together))
            if of_both.shape != (2, *one.shape) or not np.allclose(of_both[k], one, 1e-8, 1e-12, equal_nan=True):
                raise Violation(
                    "features_along", f"other {name!r} of two moments than of each", "`features` of each, one a row",
                    "rows mixed up, or a sum over all moments",
                )  # fmt: skip
    probe.ask("label", probe.theta, probe.neurons, probe.neurons[:1])
    return "words are text, features arrays of numbers" + (f": {', '.join(found)}" if found else "")


def gradient_of_loss(probe: Probe) -> str:
    probe = probe.sharp()
    return _taylor("loss_grad", lambda t: probe.loss_grad(t, probe.neurons), probe)


def gradient_of_utility(probe: Probe) -> str:
    probe = probe.sharp()
    residual = probe.seen

    def total(theta: FloatArray) -> tuple[float, FloatArray]:
        values, grads = probe.utility(theta, probe.neurons, residual)
        return float(values.sum()), grads

    return _taylor("utility", total, probe)


def _taylor(method: str, function: Callable[[FloatArray], tuple[float, FloatArray]], probe: Probe) -> str:
    value, grad = function(probe.theta)
    along = sphere.random(probe.rng, 1, probe.theta.size).reshape(probe.theta.shape) * probe.size
    order = _remainder_order(function, probe.theta, value, grad, along, probe.steps)
    if order is None:
        return "gradient exact to rounding"
    if order > 1.5:
        return f"the Taylor remainder falls as step^{order:.2f}"
    ratios = []
    for p in range(probe.problem.n_params):
        column = np.zeros_like(along)
        column[:, p] = along[:, p]
        measured = central(lambda at: function(at)[0], probe.theta, LENGTH * column) / LENGTH
        ratios.append(measured / np.sum(grad * column) if np.sum(grad * column) != 0 else np.inf)
    wrong = np.flatnonzero(np.abs(np.array(ratios) - 1.0) > 1e-3).astype(np.int64)
    columns = f"parameters {_ranges(wrong)} of each neuron" if 0 < wrong.size < len(ratios) else "all parameters"
    ratio = float(np.median(np.array(ratios)[wrong])) if wrong.size else 1.0
    raise Violation(
        method, f"a remainder that falls as step^{order:.2f}; measured over returned slope {ratio:.4g} in {columns}",
        "step^2 and a ratio of 1", likely_factor(ratio),
    )  # fmt: skip


def _remainder_order(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    theta: FloatArray,
    value: float,
    grad: FloatArray,
    along: FloatArray,
    steps: FloatArray,
) -> float | None:
    """Order in h of f(theta + h v) - f(theta) - h grad.v at the smallest steps above rounding; None if all rounding."""
    slope = float(np.sum(grad * along))
    ahead = np.array([function(theta + h * along)[0] for h in steps])
    errors = np.abs(ahead - value - steps * slope)
    seen = errors > ROUNDING * max(abs(value), float(np.abs(ahead).max()))
    if seen.sum() < 3:
        return None
    last = np.flatnonzero(seen)[-4:]
    return float(np.polyfit(np.log(steps[last]), np.log(errors[last]), 1)[0])


def likely_factor(ratio: float) -> str:
    if abs(ratio + 1.0) < 1e-3:
        return "the sign"
    if not 1e-6 <= abs(ratio) <= 1e6:  # NaN as well
        return "a term left out"
    for value in (0.5, 2.0):
        if abs(ratio / value - 1.0) < 1e-3:
            return f"a factor {value:g}: half-squared losses have the 1/2"
    if abs(ratio - round(ratio)) < 1e-3 or abs(1.0 / ratio - round(1.0 / ratio)) < 1e-3:
        return "a factor: a sum over samples or outputs in one place and a mean in the other"
    return "a wrong formula, or a term left out"


def homogeneity(probe: Probe) -> str:
    p = probe.problem
    residual = probe.seen
    values, grads = probe.utility(probe.theta, probe.neurons, residual)
    top = np.abs(values).max()
    if top == 0:
        raise NotApplicable("every utility is zero at random weights")
    best = int(np.argmax(np.abs(values)))
    for s in (0.25, 3.0):
        scaled = probe.utility(s * probe.theta, probe.neurons, residual)[0]
        if np.abs(scaled - s**p.degree * values).max() > 1e-9 * s**p.degree * top:
            measured = np.log(np.abs(scaled[best] / values[best])) / np.log(s)
            raise Violation(
                "utility", f"degree {measured:.4g} at scale {s:g}", f"U(s theta) = s^{p.degree} U(theta)",
                "digits lost near theta = 0 by subtracting nearly equal numbers; use a form that loses none"
                if abs(measured - p.degree) < 1e-6
                else f"`degree` should be {round(float(measured))}" if abs(measured - round(float(measured))) < 1e-6
                else "the activation itself in place of its leading order at the origin",
            )  # fmt: skip
    euler = np.sum(probe.theta * grads, axis=1) - p.degree * values
    if np.abs(euler).max() > 1e-9 * p.degree * top:
        raise Violation(
            "utility", f"theta.grad U = {np.sum(probe.theta[best] * grads[best]) / values[best]:.6g} U",
            f"{p.degree} U (Euler)", "a gradient that is not that of the utility returned",
        )  # fmt: skip
    return f"degree {p.degree}, Euler identity to {np.abs(euler).max() / (p.degree * top):.0e}"


def utility_against_loss(probe: Probe) -> str:
    """L(active) - L(active + s neuron) = s^degree U + smaller terms, with and without active neurons."""
    p = probe.problem
    half = probe.neurons.size // 2
    cases = [(probe.empty, probe.no_neurons, probe.neurons)]
    if half:
        cases.append((probe.theta[:half], probe.neurons[:half], probe.neurons[half:]))
    worst = 0.0
    for active, who, others in cases:
        theta = probe.theta[-others.size :]
        values = probe.utility(theta, others, probe.residual(active, who))[0]
        if not values.any():
            continue
        k = int(np.argmax(np.abs(values)))
        scales = 2.0 ** -np.arange(0.0, 24.0 / p.degree)
        ratios = np.array(
            [
                probe.gain(active, who, s * theta[k : k + 1], others[k : k + 1]) / (s**p.degree * values[k])
                for s in scales
            ]
        )
        noise = 1e-15 * abs(probe.loss_grad(active, who)[0]) / (scales**p.degree * abs(values[k]))
        # the first correction is a power of s, so successive halvings tell the limit
        best = int(np.argmin(np.abs(np.diff(ratios)) + noise[1:]))
        step = abs(ratios[best + 1] - ratios[best])
        error = abs(ratios[best + 1] - 1.0)
        if error > 3.0 * step + 100.0 * noise[best + 1] + 1e-9:
            raise Violation(
                "utility", f"a small neuron lowers the loss by {ratios[best + 1]:.4g} times its utility"
                + (" beside active neurons" if who.size else ""), "1", likely_factor(float(ratios[best + 1])) +
                ", between `utility` (or `residual`) and `loss_grad`",
            )  # fmt: skip
        worst = max(worst, error)
    return f"a small neuron lowers the loss by its utility, to {worst:.0e}"


def pull_against_loss(probe: Probe) -> str:
    """pull = -grad L / rho^(degree-1) at any norm, and grad U where the norm is tiny; network_pull is made of it."""
    p = probe.problem
    directions, log_norms = sphere.polar(probe.theta)
    residual = probe.residual(probe.theta, probe.neurons)
    pull = probe.pull(directions, log_norms, probe.neurons, residual)
    wanted = -probe.loss_grad(probe.theta, probe.neurons)[1] * np.exp(-(p.degree - 1) * log_norms)[:, None]
    if np.abs(pull - wanted).max() > 1e-8 * np.abs(wanted).max():
        ratio = float(np.sum(pull * wanted) / np.sum(wanted**2))
        raise Violation(
            "pull", f"{ratio:.4g} times -grad L / rho^{p.degree - 1}", "1",
            "an activation that is not homogeneous: override `pull`" if abs(ratio - 1) < 0.5 else likely_factor(ratio),
        )  # fmt: skip
    tiny = probe.pull(directions, np.full(log_norms.shape, -700.0), probe.neurons, residual)
    leading = probe.utility(directions, probe.neurons, residual)[1]
    if np.abs(tiny - leading).max() > 1e-6 * np.abs(leading).max():
        raise Violation(
            "pull", f"{np.abs(tiny).max():.3g} at norm exp(-700)", f"grad U = {np.abs(leading).max():.3g}",
            "an underflow: divide by the norm before multiplying, or hand over to the leading order",
        )  # fmt: skip
    members = np.arange(probe.neurons.size) % 2 == 0
    apart = probe.pull(
        directions, log_norms, probe.neurons, probe.residual(probe.theta[members], probe.neurons[members])
    )
    shared = probe.network_pull(directions, log_norms, probe.neurons, members)
    if np.abs(shared - apart).max() > 1e-8 * np.abs(apart).max():
        raise Violation(
            "network_pull", f"{number(np.abs(shared - apart).max())} from `pull` on the residual of the members",
            "`pull` on the `residual` of the rows in `members`", "`members` or a norm left out of the residual",
        )  # fmt: skip
    return "pull is the gradient of the loss, and of the utility at norm exp(-700)"


def _ranges(indices: IntArray) -> str:
    """ "0-3, 7" for 0, 1, 2, 3, 7."""
    groups = np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)
    return ", ".join(f"{g[0]}-{g[-1]}" if g.size > 1 else str(g[0]) for g in groups)
