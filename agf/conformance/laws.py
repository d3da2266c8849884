"""The laws that every problem obeys, each a function of a `Probe` that says what it measured or raises a Violation.

Slopes of Taylor remainders, Euler's identity, one method against another. Nothing here knows any problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agf import sphere
from agf.arrays import FloatArray
from agf.contract.core_laws import (
    gradient_of_loss,
    gradient_of_utility,
    homogeneity,
    pull_against_loss,
    utility_against_loss,
    words_and_features,
)
from agf.contract.flow_system import FlowSystem
from agf.contract.offered_laws import (
    conserved,
    hessian,
    layers,
    least_loss,
    outputs_against_loss,
    own_coordinates,
    self_interaction,
)
from agf.contract.probe import NotApplicable, Probe, Violation
from agf.contract.problem import Problem
from agf.coordinates.polar_system import PolarSystem
from agf.errors import NoTheory
from agf.init import Init
from agf.records.settings import Settings
from agf.records.table import number


def _attributes(probe: Probe) -> str:
    p = probe.problem
    for name, least in (("degree", 2), ("width", 1), ("n_params", 1)):
        value = getattr(p, name, None)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise Violation(name, repr(value), f"an integer of at least {least}", f"`{name}` not set in __init__")
    if not isinstance(getattr(p, "name", None), str):
        raise Violation("name", repr(getattr(p, "name", None)), "a string", "the class attribute is missing")
    return f"degree {p.degree}, {p.width} neurons of {p.n_params} parameters"


def _shapes(probe: Probe) -> str:
    for m in {1, probe.neurons.size}:
        theta, who = probe.theta[:m], probe.neurons[:m]
        probe.loss_grad(theta, who)
        residual = probe.residual(theta, who)
        probe.utility(probe.directions[:m], who, residual)
        probe.pull(probe.directions[:m], np.log(sphere.norms(theta)), who, residual)
    return "shapes and finiteness of loss_grad, utility and pull"


def _empty(probe: Probe) -> str:
    loss, _ = probe.loss_grad(probe.empty, probe.no_neurons)
    residual = probe.residual(probe.empty, probe.no_neurons)
    probe.utility(probe.empty, probe.no_neurons, residual)
    probe.pull(probe.empty, np.zeros(0), probe.no_neurons, residual)
    one = probe.neurons[:1]
    zero, grad = probe.loss_grad(np.zeros((1, probe.problem.n_params)), one)
    if abs(zero - loss) > 1e-12 * abs(loss):
        raise Violation(
            "loss_grad", f"{zero:.10g} with one neuron at zero", f"{loss:.10g}, the loss without neurons",
            "a constant in the network, or a regularizer that counts neurons",
        )  # fmt: skip
    if np.abs(grad).max() > 1e-10 * np.abs(probe.loss_grad(probe.theta, probe.neurons)[1]).max():
        raise Violation(
            "loss_grad", f"a gradient of {np.abs(grad).max():.3g} at theta = 0", "0, for a degree of at least 2",
            "a single layer of weights, or a constant in the activation",
        )  # fmt: skip
    return f"loss without neurons {number(loss, 6)}"


def _permutation(probe: Probe) -> str:
    """The order of rows never matters; where neurons are interchangeable their indices do not either."""
    p = probe.problem
    loss, grad = probe.loss_grad(probe.theta, probe.neurons)
    order = np.arange(probe.neurons.size)[::-1]
    trials = [("rows and indices reversed", probe.theta[order], probe.neurons[order])]
    if p.interchangeable:
        trials.append(("rows reversed, indices kept", probe.theta[order], probe.neurons))
    for words, theta, neurons in trials:
        other, turned = probe.loss_grad(theta, neurons)
        if abs(other - loss) > 1e-10 * abs(loss) or np.abs(turned - grad[order]).max() > 1e-9 * np.abs(grad).max():
            raise Violation(
                "loss_grad", f"{other:.10g} with {words}", f"{loss:.10g}, whatever the order",
                "a loop that depends on the order, or neurons with an identity: set interchangeable = False",
            )  # fmt: skip
    residual = probe.residual(probe.theta, probe.neurons)
    many: dict[str, tuple[Any, ...]] = {"utility": (probe.directions, probe.neurons, residual)}
    many["self_interaction"] = (probe.directions, probe.neurons, probe.theta[:1], probe.neurons[:1])
    many["outputs"] = (probe.theta, probe.neurons)
    for name, arguments in many.items():
        for words, neurons in [("reversed", probe.neurons[order])] + [("kept", probe.neurons)] * p.interchangeable:
            straight = probe.ask(name, *arguments)
            turned = probe.ask(name, arguments[0][order], neurons, *arguments[2:])
            if straight is None:
                continue
            one, other = (each[0] if isinstance(each, tuple) else each for each in (straight, turned))
            if np.abs(other - one[order]).max() > 1e-9 * np.abs(one).max():
                raise Violation(
                    name, f"other values with rows reversed and indices {words}", "the same, in that order",
                    "a sum over neurons, or a loop in which one changes what the next finds",
                )  # fmt: skip
    return "the order of neurons does not matter" + ("" if p.interchangeable else "; their indices do")


def _values(probe: Probe, at: Probe, name: str) -> FloatArray:
    """What `loss_grad` or `utility` returns, at the weights of another probe, in one array."""
    if name == "loss_grad":
        loss, gradient = probe.loss_grad(at.theta, at.neurons)
        values = np.array([loss])
    else:
        residual = probe.residual(at.theta, at.neurons)
        values, gradient = probe.utility(at.directions, at.neurons, residual)
    return np.concatenate([values, gradient.ravel()])


def _samples(probe: Probe) -> str:
    """The order of the rows of the data never matters: losses, gradients and utilities are those of a set."""
    p = probe.problem
    n = getattr(p, "n_samples", None)
    data = {
        name: np.asarray(p.arguments[name])
        for name in p.data_arguments
        if n is not None and isinstance(p.arguments.get(name), np.ndarray | list | tuple)
    }
    data = {name: rows for name, rows in data.items() if rows.ndim and rows.shape[0] == n}
    if len(data) < 2:
        raise NotApplicable("there are no rows of inputs and targets")
    order = probe.rng.permutation(int(n or 0))
    other = Probe(type(p)(**{**p.arguments, **{name: rows[order] for name, rows in data.items()}}), probe.rng)
    for name in ("loss_grad", "utility"):
        one, two = (_values(each, probe, name) for each in (probe, other))
        if np.abs(two - one).max() > 1e-9 * np.abs(one).max():
            raise Violation(
                name, "other values with the samples in another order", "the same, as for any order",
                "weights by position, inputs and targets sorted apart, or a subset of the first rows",
            )  # fmt: skip
    return "the order of samples does not matter"


def _inputs(probe: Probe) -> str:
    """The order of the inputs never matters, where the problem says where they are."""
    p = probe.problem
    given = p.arguments.get(p.inputs_argument)
    if given is None:
        raise NotApplicable("no argument is said to hold inputs (`inputs_argument`)")
    x = np.asarray(given)
    order = probe.rng.permutation(x.shape[1])
    other = Probe(type(p)(**{**p.arguments, p.inputs_argument: x[:, order]}), probe.rng)
    columns, who = np.arange(p.n_params), probe.neurons
    if p.interchangeable:
        columns[: order.size] = order
    else:
        who = np.argsort(order)[who]
    pairs: dict[str, Any] = {
        "loss_grad": (probe.loss_grad(probe.theta, probe.neurons), other.loss_grad(probe.theta[:, columns], who))
    }
    residuals = probe.residual(probe.theta, probe.neurons), other.residual(probe.theta[:, columns], who)
    pairs["utility"] = (
        probe.utility(probe.directions, probe.neurons, residuals[0]),
        other.utility(probe.directions[:, columns], who, residuals[1]),
    )
    for name, ((one, gradient), (two, turned)) in pairs.items():
        gap = np.abs(np.asarray(two) - one).max() > 1e-9 * np.abs(np.asarray(one)).max()
        if gap or np.abs(turned - gradient[:, columns]).max() > 1e-9 * np.abs(gradient).max():
            raise Violation(
                name, "other values with the inputs in another order", "the same, as for any order",
                "an input with a place of its own: leave `inputs_argument` empty, or say where the inputs are",
            )  # fmt: skip
    return "the order of inputs does not matter"


def _own_ways(probe: Probe) -> str:
    """What a problem may offer beside its network is of the right kind, whichever part of a run asks for it."""
    p = probe.problem
    found = probe.ask("features", probe.theta, probe.neurons)
    probe.ask("acquired", found, found)
    probe.ask("conserved", probe.theta, probe.neurons)
    probe.ask("example")
    own = [name for name in ("phases", "many_phases") if getattr(type(p), name) is not getattr(Problem, name)]
    start = p.init(1e-8, seed=0)
    probe.ask("phases", start, Settings())
    probe.ask("many_phases", [start], Settings())
    return "brings its own " + " and ".join(own) if own else "brings no phases of its own"


def _no_aliases(probe: Probe) -> str:
    """Results belong to the caller: a second call does not change what the first returned."""
    residual = probe.residual(probe.theta, probe.neurons)
    kept = {
        "loss_grad": probe.loss_grad(probe.theta, probe.neurons)[1],
        "utility": probe.utility(probe.theta, probe.neurons, residual)[1],
    }
    copies = {name: array.copy() for name, array in kept.items()}
    probe.residual(0.5 * probe.theta, probe.neurons)
    probe.loss_grad(0.5 * probe.theta, probe.neurons)
    probe.utility(0.5 * probe.theta, probe.neurons, residual)
    for name, array in kept.items():
        if not np.array_equal(array, copies[name]):
            raise Violation(
                name, "a result overwritten by the next call", "a new array", "a work array that is returned"
            )
    again = probe.utility(probe.theta, probe.neurons, residual)[1]
    if not np.array_equal(again, copies["utility"]):
        raise Violation(
            "residual", "another utility from the same residual", "the same one", "state kept between calls"
        )
    return "inputs unchanged, results not overwritten"


def _batches(probe: Probe) -> str:
    p: Any = probe.problem
    if not hasattr(p, "batch_loss_grad"):
        raise NotApplicable("`batch_loss_grad` is not offered")
    n = int(p.n_samples)
    grad = probe.loss_grad(probe.theta, probe.neurons)[1]
    parts = [rows for rows in (np.arange(n // 3), np.arange(n // 3, n)) if rows.size]
    mean = sum(rows.size / n * p.batch_loss_grad(probe.theta, probe.neurons, rows)[1] for rows in parts)
    if np.abs(mean - grad).max() > 1e-10 * np.abs(grad).max():
        ratio = np.sum(mean * grad) / np.sum(grad**2)
        raise Violation(
            "batch_loss_grad", f"batches that average to {ratio:.4g} times the gradient",
            "1", "a sum over the batch where the loss is a mean",
        )  # fmt: skip
    return "batches average to the whole"


def _initial(probe: Probe) -> str:
    p = probe.problem
    alpha = 1e-200
    init, again, other = p.init(alpha, seed=1), p.init(alpha, seed=1), p.init(alpha, seed=2)
    if init.directions.shape != (p.width, p.n_params):
        raise Violation("initial", f"shape {init.directions.shape}", f"({p.width}, {p.n_params})", "rows are neurons")
    if not np.array_equal(init.directions, again.directions) or not np.array_equal(init.log_norms, again.log_norms):
        raise Violation("initial", "two results from one seed", "the same one", "randomness not taken from `rng`")
    norms = np.delete(init.log_norms, p.permanent)
    finite = norms[np.isfinite(norms)]
    if finite.size == 0 or np.abs(finite - np.log(alpha)).max() > 20:
        raise Violation(
            "initial", "norms far from alpha", "parameters of order one: `init` scales them", "alpha applied twice"
        )
    same = np.array_equal(init.directions, other.directions)
    return "reproducible" + (" and deterministic" if same else ", seeds differ") + ", norms of order alpha at 1e-200"


def _flow_system(probe: Probe) -> str:
    """The problem's own coordinates start at the same network, loss and slope as plain gradient flow."""
    p = probe.problem
    init, system = own_coordinates(probe)
    y = system.start()
    _batched(system, np.stack([y, y + 1e-3 * system.scale(y)]))
    tiny = Init.from_params(1e-6 * init.params())
    small, polar = probe.ask("flow_system", tiny), PolarSystem(p, tiny)
    grows, known = polar.growth(polar.start()), small.growth(small.start())
    if grows > 0 and known is not None and not known > 0:
        raise Violation(
            "flow_system",
            f"growth {known} where a small neuron grows at a rate of {grows:.3g}",
            "a positive rate, or None where it is not known",
            "growth of neurons that are active, or the wrong sign: a flow would count as settled on a plateau",
        )
    told = "says what grows" if known is not None else "does not say what grows: flows settle on no plateau by its word"
    return f"starts at the same loss and slope as gradient flow, and {told}"


def _batched(system: FlowSystem, ys: FloatArray) -> None:
    """What coordinates give for several states at once is what they give for each."""
    both = np.array([system.loss_and_rate(y) for y in ys]).T
    pairs = {
        "velocities": (system.velocities(ys), np.array([system.velocity(y) for y in ys])),
        "losses_and_rates": (np.array(system.losses_and_rates(ys)), both),
        "metrics": (system.metrics(ys), FlowSystem.metrics(system, ys)),
        "snapshots": (
            system.snapshots(ys).log_norms,
            np.array([system.snapshot(y).log_norms for y in ys]),
        ),
    }
    if system.contracts:
        step = 1e-6 * float(np.min(system.scale(ys[0])))
        moved = [
            system.velocities(ys + step * axis) - system.velocities(ys - step * axis) for axis in np.eye(ys[0].size)
        ]
        velocities, jacobians = system.linearized(ys)
        pairs["velocities of linearized"] = velocities, pairs["velocities"][1]
        pairs["jacobians"] = jacobians, np.stack(moved, axis=-1) / (2 * step)
        _contracting(system, ys[0])
    for name, (found, expected) in pairs.items():
        close = 1e-5 if name == "jacobians" else 1e-9
        if found.shape != expected.shape or not np.allclose(
            found, expected, rtol=close, atol=close * float(np.max(np.abs(expected), initial=0.0))
        ):
            raise Violation(
                "flow_system",
                f"{name} of two states that differ from those of each",
                "the same numbers, one row a state",
                "rows mixed up, or a sum over all states",
            )


def _contracting(system: FlowSystem, y: FloatArray) -> None:
    """Solutions that differ by what velocities make do not move apart, nor shift the loss by more than is said."""
    jacobian, gradient = system.linearized(y[None])[1][0], system.gradients(y[None])[0]
    short = 1e-3 / max(float(np.linalg.norm(jacobian)), np.finfo(float).tiny)
    for error in (system.velocity(y), system.velocity(y + system.scale(y))):
        size, later = system.distance(error), system.distance(error + short * jacobian @ error)
        step = 1e-6 / max(float(np.max(np.abs(error) / system.scale(y))), np.finfo(float).tiny)
        slope = (system.loss(y + step * error) - system.loss(y - step * error)) / (2 * step)
        bound = float(system.changes(gradient[None])[0]) * size
        if later > size * (1 + 1e-9) or abs(slope) > bound * (1 + 1e-4) + 1e-9 * abs(system.loss(y)) / step:
            raise Violation(
                "flow_system",
                f"a distance of {size:.10g} that becomes {later:.10g}, and moves the loss by {slope:.3g}",
                f"a distance that does not grow, and moves it by {bound:.3g} at most",
                "`distance` is no norm in which the Jacobian contracts, or `changes` is not its dual one",
            )


def _theory(probe: Probe) -> str:
    """A closed form starts at the loss of nothing, only falls, and for degree 2 is the limit that is predicted."""
    p = probe.problem
    try:
        theory = p.theory()
    except NoTheory as reason:
        raise NotApplicable("no closed form is offered") from reason
    start = probe.loss_grad(probe.empty, probe.no_neurons)[0]
    if abs(theory.levels[0] - start) > 1e-9 * abs(start):
        raise Violation(
            "theory",
            f"levels[0] = {theory.levels[0]:.10g}",
            f"{start:.10g}, the loss without neurons",
            "another normalisation",
        )
    if (np.diff(theory.levels) > 1e-9 * start).any():
        raise Violation("theory", "a level that rises", "levels that fall", "levels out of order")
    if p.degree != 2 or p.theory_at_infinite_width:
        return f"{len(theory.drops)} drops that start at the loss without neurons"
    from agf.algorithm.prediction import predict

    limit = predict(p, p.init(1e-8, seed=0), mode="limit")
    count = min(len(limit.drops), len(theory.drops))
    for name, a, b in (
        ("accelerated times", theory.accelerated_times, limit.accelerated_times),
        ("levels", theory.levels, limit.levels),
    ):
        gap = np.abs(a[: count + 1] - b[: count + 1]) / np.abs(b[: count + 1]).max()
        if count and gap.max() > 1e-3:
            k = int(np.argmax(gap > 1e-3))
            raise Violation(
                "theory",
                f"{name}[{k}] = {a[k]:.6g}",
                f'{b[k]:.6g}, of mode "limit"',
                "a formula outside its assumptions",
            )
    return f'{count} drops as in mode "limit"'


LAWS: dict[str, Callable[[Probe], str]] = {
    "attributes": _attributes,
    "shapes and finiteness": _shapes,
    "empty network": _empty,
    "gradient of the loss": gradient_of_loss,
    "gradient of the utility": gradient_of_utility,
    "homogeneity": homogeneity,
    "utility against loss": utility_against_loss,
    "pull against loss": pull_against_loss,
    "order of neurons": _permutation,
    "order of samples": _samples,
    "order of inputs": _inputs,
    "no side effects": _no_aliases,
    "words and features": words_and_features,
    "initialization": _initial,
    "own phases": _own_ways,
    "conserved quantities": conserved,
    "layers": layers,
    "outputs against loss": outputs_against_loss,
    "self-interaction": self_interaction,
    "hessian": hessian,
    "minibatches": _batches,
    "own flow coordinates": _flow_system,
    "least loss": least_loss,
    "closed form": _theory,
}

#: Law -> the laws it builds on, beside the first two: when one of those is broken, this one may well be.
_BUILDS_ON = {
    "utility against loss": ("homogeneity",),
    "pull against loss": ("gradient of the loss", "gradient of the utility", "homogeneity", "utility against loss"),
    "self-interaction": ("utility against loss",),
    "conserved quantities": ("gradient of the loss",),
    "layers": ("gradient of the loss",),
    "hessian": ("gradient of the loss",),
    "minibatches": ("gradient of the loss",),
    "own flow coordinates": ("gradient of the loss",),
    "least loss": ("gradient of the loss",),
    "closed form": ("gradient of the loss", "gradient of the utility", "utility against loss"),
}
NEEDS = {law: ("attributes", "shapes and finiteness", *_BUILDS_ON.get(law, ())) for law in LAWS}
