"""Laws of what a problem may offer beside the core: each is tested where it is offered.

Thresholds hang on outputs and self-interactions, the end of a flow on its bound and its Hessian, and what is restored
along a flow on what is said to be conserved.
"""

from __future__ import annotations

import numpy as np

from agf import sphere
from agf.arrays import FloatArray
from agf.contract.core_laws import likely_factor
from agf.contract.flow_system import FlowSystem
from agf.contract.probe import NotApplicable, Probe, Violation
from agf.init import Init

#: Steps of descent, on which the loss must stay above the bound of `least_loss`. Cost: of the test; a bound that only
#: later losses pass is not found out.
_DESCENT = 30


def conserved(probe: Probe) -> str:
    """d/dt along the flow, by differences, against the rate at which a step of that length changes the quantity."""
    p = probe.problem
    flow = -probe.loss_grad(probe.theta, probe.neurons)[1]
    step = 1e-5 * probe.size / max(float(np.linalg.norm(flow)), 1e-300)
    other = sphere.random(probe.rng, 1, flow.size).reshape(flow.shape) * np.linalg.norm(flow)
    found = probe.ask("conserved", probe.theta, probe.neurons)
    if not found:
        raise NotApplicable("no conserved quantities are named")

    def rate(along: FloatArray, name: str) -> FloatArray:
        ahead = np.asarray(p.conserved(probe.theta + step * along, probe.neurons)[name])
        behind = np.asarray(p.conserved(probe.theta - step * along, probe.neurons)[name])
        return (ahead - behind) / (2 * step)

    for name, value in found.items():
        drift, typical = np.abs(rate(flow, name)).max(), np.abs(rate(other, name)).max()
        noise = 1e-14 * float(np.abs(value).max()) / step
        if drift > 1e-5 * typical + noise:
            ratio = drift / typical if typical else np.inf
            raise Violation(
                "conserved", f"{name!r} drifts {ratio:.2g} times as fast as in a random direction",
                "0 along the flow", "a wrong factor in the quantity, or a wrong gradient",
            )  # fmt: skip
    return "kept along the flow: " + ", ".join(found)


def layers(probe: Probe) -> str:
    """p |a|^2 - |w|^2 of every neuron stays along the flow where `layers` says so."""
    if probe.problem.layers is None:
        raise NotApplicable("no layers are named")
    d, power = probe.problem.layers
    probe = probe.sharp()
    terms = probe.theta * probe.loss_grad(probe.theta, probe.neurons)[1]
    drift = power * terms[:, d:].sum(axis=1) - terms[:, :d].sum(axis=1)
    typical = power * np.abs(terms).sum(axis=1)
    if np.any(np.abs(drift) > 1e-6 * typical.max()):
        raise Violation(
            "layers", f"{power} |a|^2 - |w|^2 drifts {np.abs(drift).max() / typical.max():.2g} times as fast as it can",
            "0 along the flow", f"an activation that is not homogeneous of degree {power}, or another split than {d}",
        )  # fmt: skip
    return f"{power} |a|^2 - |w|^2 is kept along the flow"


def outputs_against_loss(probe: Probe) -> str:
    """out_i . out_j = E<f_i, f_j>, which a half-squared loss shows in L(i, j) - L(i) - L(j) + L()."""
    p = probe.problem
    if not p.quadratic_loss:
        raise NotApplicable("the loss is not half-squared")
    if probe.neurons.size < 2:
        raise NotApplicable("there is one neuron only")
    out = probe.ask("outputs", probe.theta, probe.neurons)
    if out is None:
        raise NotApplicable("`outputs` is not offered")
    first, second = (probe.theta[:1], probe.neurons[:1]), (probe.theta[1:2], probe.neurons[1:2])
    both = probe.theta[:2], probe.neurons[:2]
    losses = [probe.loss_grad(*pair)[0] for pair in (both, first, second, (probe.empty, probe.no_neurons))]
    wanted = losses[0] - losses[1] - losses[2] + losses[3]
    found = float(out[0] @ out[1])
    scale = float(np.linalg.norm(out[0]) * np.linalg.norm(out[1]))
    if abs(found - wanted) > 1e-8 * scale + 1e-13 * abs(losses[3]):
        raise Violation(
            "outputs", f"out_0 . out_1 = {found:.6g}", f"E<f_0, f_1> = {wanted:.6g}, from the loss",
            likely_factor(wanted / found if found else np.inf),
        )  # fmt: skip
    return "products of outputs are those in the loss"


def self_interaction(probe: Probe) -> str:
    """C from the loss alone, and no self-interaction left beside an active neuron with the same output."""
    p = probe.problem
    alone = probe.finite(
        "self_interaction",
        probe.ask("self_interaction", probe.directions, probe.neurons, probe.empty, probe.no_neurons),
    )
    if (alone < 0).any():
        raise Violation("self_interaction", f"{alone.min():.3g}", "0 or more", "a subtraction of nearly equal numbers")
    words = "not negative"
    if p.quadratic_loss and _homogeneous_outputs(probe):
        k, s = int(np.argmax(alone)), probe.size
        who = probe.neurons[k : k + 1]
        utility = probe.utility(probe.directions[k : k + 1], who, probe.residual(probe.empty, probe.no_neurons))[0][0]
        gain = probe.gain(probe.empty, probe.no_neurons, s * probe.directions[k : k + 1], who)
        wanted = (s**p.degree * utility - gain) / s ** (2 * p.degree)
        noise = 1e-13 * abs(probe.loss_grad(probe.empty, probe.no_neurons)[0]) / s ** (2 * p.degree)
        if abs(alone[k] - wanted) > 1e-6 * abs(wanted) + noise:
            raise Violation(
                "self_interaction",
                f"{alone[k]:.6g}",
                f"{wanted:.6g}, from the loss",
                likely_factor(float(wanted / alone[k])),
            )
        words = "as in the loss"
    elif p.quadratic_loss and (bounds := _interactions(probe, k := int(np.argmax(alone)))) is not None:
        least, most = bounds
        if not 0.9 * least <= alone[k] <= 1.1 * most:
            raise Violation(
                "self_interaction", f"{alone[k]:.6g}",
                f"between {least:.6g} and {most:.6g}, from the loss with one and two of this neuron",
                likely_factor(float((least if alone[k] < least else most) / alone[k])),
            )  # fmt: skip
        words = "about as in the loss"
    beside = np.asarray(p.self_interaction(probe.directions, probe.neurons, probe.theta[:1], probe.neurons[:1]))
    if beside.shape == alone.shape and p.quadratic_loss and (beside > alone * (1 + 1e-6) + 1e-12 * alone.max()).any():
        raise Violation(
            "self_interaction", f"{beside.max():.4g} beside an active neuron", f"at most {alone.max():.4g}, as alone",
            "a projection that does not project",
        )  # fmt: skip
    return f"{words}, and not larger beside active neurons"


def _interactions(probe: Probe, k: int) -> tuple[float, float] | None:
    """Least and largest C of neuron k at norms s from 1 and the natural size to the leading order, over s^(2 degree).

    Two equal neurons gain 2 E<f, r> - 4 C, one E<f, r> - C. None where no other neuron is like it, or all is rounding.
    """
    p = probe.problem
    if probe.neurons.size < 2 or not p.interchangeable:
        return None
    pair = probe.neurons[[k, k - 1]]
    nothing = probe.loss_grad(probe.empty, probe.no_neurons)[0]
    found = []
    for s in (1.0, *probe.size * 2.0 ** -np.arange(0.0, 24.0 / p.degree)):
        rows = s * np.repeat(probe.directions[k : k + 1], 2, axis=0)
        one, two = (nothing - float(p.loss_grad(rows[:n].copy(), pair[:n])[0]) for n in (1, 2))
        c = one - 0.5 * two
        if np.isfinite(c) and c > 1e-11 * max(abs(nothing), abs(one), abs(two)):  # else digits are lost
            found.append(c / s ** (2 * p.degree))
    return (min(found), max(found)) if found else None


def _homogeneous_outputs(probe: Probe) -> bool:
    """Whether the neuron itself, not only its leading order, is homogeneous: -grad L of a lone neuron tells."""
    one, who = probe.theta[:1], probe.neurons[:1]
    gains = [probe.gain(probe.empty, probe.no_neurons, s * one, who) for s in (1.0, 0.5, 2.0)]
    # gain = s^k U - s^2k C: three scales, two unknowns
    k = probe.problem.degree
    matrix = np.array([[s**k, -(s ** (2 * k))] for s in (1.0, 0.5, 2.0)])
    answer, *_ = np.linalg.lstsq(matrix, np.array(gains), rcond=None)
    return bool(np.abs(matrix @ answer - gains).max() < 1e-10 * np.abs(gains).max())


def hessian(probe: Probe) -> str:
    """The Hessian against differences of the gradient along a random direction, and its symmetry."""
    probe = probe.sharp()
    theta, who = probe.theta[:2], probe.neurons[:2]
    matrix = probe.ask("hessian", theta, who)
    if matrix is None:
        raise NotApplicable("`hessian` is not offered")
    matrix = probe.finite("hessian", matrix)
    along = sphere.random(probe.rng, 1, theta.size).reshape(theta.shape) * probe.size
    h = 1e-6
    wanted = (probe.loss_grad(theta + h * along, who)[1] - probe.loss_grad(theta - h * along, who)[1]) / (2 * h)
    found = (matrix @ along.ravel()).reshape(theta.shape)
    if np.abs(found - wanted).max() > 1e-4 * np.abs(wanted).max():
        ratio = float(np.sum(wanted * found) / np.sum(found**2)) if found.any() else np.inf
        raise Violation("hessian", f"{ratio:.4g} times too small along a random direction", "1", likely_factor(ratio))
    if np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        raise Violation(
            "hessian", "a matrix that is not symmetric", "a symmetric one", "rows and columns ordered apart"
        )
    return "the derivative of the gradient, symmetric"


def least_loss(probe: Probe) -> str:
    """The lower bound of what the flow can reach lies between 0 and the losses along it."""
    p = probe.problem
    theta = p.initial(1.0, probe.rng, p.kinds[0]) * 0.1 * probe.size
    bound = float(probe.ask("least_loss", Init.from_params(theta)))
    neurons = np.arange(p.width)
    loss, grad = probe.loss_grad(theta, neurons)
    length = 0.1 * loss / max(float(np.sum(grad**2)), np.finfo(float).tiny)
    for _ in range(_DESCENT):
        after, slope = probe.loss_grad(theta - length * grad, neurons)
        if after < loss:
            theta, loss, grad = theta - length * grad, after, slope
        length *= 1.2 if after <= loss else 0.5
    if not 0.0 <= bound <= loss * (1 + 1e-9):
        raise Violation("least_loss", f"{bound:.10g}", f"from 0 to {loss:.10g}, a loss that descent reaches", "a level")
    return f"{bound:.6g}, below {loss:.6g} after {_DESCENT} steps of descent"


def flow_system(probe: Probe) -> str:
    """The problem's own coordinates start at the loss and the slope of gradient flow."""
    own_coordinates(probe)
    return "starts at the same loss and slope as gradient flow"


def own_coordinates(probe: Probe) -> tuple[Init, FlowSystem]:
    """Weights and the problem's own coordinates of their flow, which start where gradient flow does."""
    p = probe.problem
    theta = sphere.random(probe.rng, p.width, p.n_params) * 0.1 * probe.size
    if not p.interchangeable:
        kind = "gaussian" if "gaussian" in p.kinds else p.kinds[0]
        theta = p.initial(1.0, probe.rng, kind) * 0.1 * probe.size
    init = Init.from_params(theta)
    system = probe.ask("flow_system", init)
    if system is None:
        raise NotApplicable("plain polar coordinates are used")
    y = system.start()
    loss, grad = probe.loss_grad(init.params(), np.arange(p.width))
    rate = -float(np.sum(grad**2)) * np.exp(system.log_time_unit)
    found = float(system.loss(y)), float(system.loss_rate(y))
    if abs(found[0] - loss) > 1e-9 * abs(loss):
        raise Violation(
            "flow_system", f"loss {found[0]:.10g} at the start", f"{loss:.10g}", "other coordinates of the weights"
        )
    if abs(found[1] - rate) > 1e-6 * abs(rate):
        raise Violation(
            "flow_system",
            f"loss_rate {found[1]:.6g} at the start",
            f"-|grad L|^2 = {rate:.6g}",
            likely_factor(rate / found[1] if found[1] else np.inf),
        )
    return init, system
