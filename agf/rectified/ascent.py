"""Maxima of the utility on the unit sphere by ascent from many starts, for problems without an enumeration."""

from __future__ import annotations

import numpy as np

from agf import sphere
from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.networks.two_layer import TwoLayer
from agf.rectified.several_outputs import finished
from agf.results.landscape import Critical, Region
from agf.rounding import TIED

#: Starts: the argument `starts`. Setting: more find more maxima, and none proves that there are no others.
STARTS = 100
#: Neurons times squared samples that are followed where nothing is enumerated. Cost: ten seconds; more find more
#: maxima, and none proves that there are no others.
FOLLOWED = 1.5e7
#: Steps of each at most. Cost: one that takes more ends where it is, and is one of several equal.
_STEPS = 1000
#: Slope, or step along it, relative to the gradient, below which an ascent ends; ends, utilities and sines that agree
#: to it are one. Result: of how many maxima, and which pieces of the loss at a kink, are told apart; at 1e-3 neighbours
#: of a wide fan of faces would be one, at 1e-12 one end would be several.
SAME = 1e-6
#: Distance of directions above which these are several of equal utility, or a continuum. Derived: a utility is flat to
#: second order at a maximum, so that directions whose utilities agree to `SAME` may be its root apart.
_NEAR = SAME**0.5


def maxima(problem: Problem, residual: object, starts: int = STARTS) -> tuple[list[Critical], list[Region]]:
    """The different ends of `starts` ascents from the problem's own random directions, and what stays at 0."""
    theta, neurons = _starts(problem, starts)
    theta, utility = climb(problem, residual, theta, neurons)
    exact = np.ones(starts, dtype=bool)
    if isinstance(problem, TwoLayer) and not problem.activation.smooth and not problem.permanent:
        exact[:] = False
        if starts * problem.n_samples**2 <= FOLLOWED:
            theta, utility, exact = finished(problem, residual, theta)
    scale = float(np.abs(utility).max(initial=0.0))
    stuck = np.abs(utility) <= TIED * scale if scale else np.ones(utility.size, dtype=bool)
    names = [_name(problem, theta[i : i + 1], neurons[i : i + 1]) for i in range(starts)]
    names = [name if sure else f"{name}, perhaps short of a kink" for name, sure in zip(names, exact, strict=True)]
    taken = stuck.copy()
    criticals = []
    for i in np.argsort(-utility, kind="stable"):
        if taken[i]:
            continue
        same = ~taken & (np.abs(utility - utility[i]) <= SAME * scale) & np.array([n == names[i] for n in names])
        taken |= same
        spread = np.linalg.norm(theta[same] - theta[i], axis=1).max()
        criticals.append(
            Critical(
                theta[i],
                float(utility[i]),
                "maximum",
                (names[i] or _written(theta[i])) + (", one of several equal" if spread > _NEAR else ""),
                None if problem.interchangeable else int(neurons[i]),
                share=float(same.sum()) / starts,
            )
        )
    flats = [Region("no utility to climb", "minimum", False, float(stuck.mean()))] if stuck.any() else []
    return criticals, flats


def _name(problem: Problem, theta: FloatArray, neurons: IntArray) -> str:
    """The problem's label of one neuron, without its number where that says nothing."""
    if not problem.interchangeable:
        return problem.label(theta, neurons, neurons)
    first = np.zeros(1, dtype=np.int64)
    words = problem.label(theta, first, first)
    return words.removeprefix("neuron 0").strip(" ()") if words.startswith("neuron 0") else words


def _written(direction: FloatArray) -> str:
    """A direction by its largest parameters, for neurons whose problem has no words for it."""
    largest = np.argsort(-np.abs(direction), kind="stable")[:3]
    return ", ".join(f"theta[{j}] {direction[j]:.2f}" for j in largest if round(direction[j], 2))


def _starts(problem: Problem, starts: int) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(0)
    parts = [problem.initial(1.0, rng, problem.kinds[0]) for _ in range(-(-starts // problem.width))]
    theta = sphere.normalize(np.concatenate(parts)[:starts])
    return theta, np.arange(starts, dtype=np.int64) % problem.width


def climb(problem: Problem, residual: object, theta: FloatArray, neurons: IntArray) -> tuple[FloatArray, FloatArray]:
    """Ascent of the utility on the sphere, each row with its own step: directions and utilities where it ends."""
    utility, gradient = problem.utility(theta, neurons, residual)
    step = 1.0 / np.maximum(np.linalg.norm(gradient, axis=1), np.finfo(float).tiny)
    going = np.ones(neurons.size, dtype=bool)
    for _ in range(_STEPS):
        slope = sphere.tangent(theta, gradient)
        size = np.linalg.norm(slope, axis=1)
        going &= size > SAME * np.linalg.norm(gradient, axis=1)
        going &= step * size > SAME
        rows = np.flatnonzero(going)
        if rows.size == 0:
            break
        trial = sphere.normalize(theta[rows] + step[rows, None] * slope[rows])
        value, turned = problem.utility(trial, neurons[rows], residual)
        better = value > utility[rows]
        kept = rows[better]
        theta[kept], utility[kept], gradient[kept] = trial[better], value[better], turned[better]
        step[kept] *= 1.5
        step[rows[~better]] *= 0.3
    return theta, utility
