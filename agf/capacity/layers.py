"""What a neuron is made of, where the problem is a two-layer network on samples: weights, gates, favoured outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.networks.two_layer import TwoLayer
from agf.numerics.backend import Backend

_NUMPY = Backend.of(None)


def two_layer(problem: Problem) -> TwoLayer | None:
    """The two-layer network that a problem is, or restricts by a mask; None where it is none."""
    inner = getattr(problem, "unmasked", problem)
    return inner if isinstance(inner, TwoLayer) else None


def require_two_layer(problem: Problem, where: str) -> TwoLayer:
    """The same. Raises RequestError where it is none."""
    network = two_layer(problem)
    if network is None:
        raise RequestError(
            explain(
                f"problem {problem.name!r} has no rows (w, a) of input and output weights.",
                where=where,
                expected="a two-layer network on samples: relu, two-layer or a subclass of agf.TwoLayer",
            )
        )
    return network


def gates(network: TwoLayer, theta: FloatArray) -> BoolArray:
    """Whether w_i . x_k > 0, (m, n). A gate at exactly 0 is closed, as relu'(0) = 0."""
    return np.asarray(theta[:, : network.n_inputs] @ network.X.T > 0)


def favoured(a: FloatArray) -> IntArray:
    """The output that rows a (m, c) raise most above the others, (m,); for one output 1 where it is raised, else 0."""
    if a.shape[1] == 1:
        return (a[:, 0] > 0).astype(np.int64)
    return np.argmax(a - a.mean(axis=1, keepdims=True), axis=1)


def output_names(network: TwoLayer) -> tuple[Any, ...]:
    """What `favoured` counts: class names, or "-" and "+" of a single output, or the numbers of the outputs."""
    if network.classes:
        return network.classes
    return ("-", "+") if network.n_outputs == 1 else tuple(range(network.n_outputs))


def similarity(problem: Problem, one: FloatArray, other: FloatArray) -> FloatArray:
    """Cosine between unit rows (m, P) and (k, P), (m, k); rows of one and the same function count as one direction.

    (w, a) and (-w, -a) are one neuron where sigma is odd, (w, a) and (-w, a) where it is even.
    """
    network = two_layer(problem)
    if network is None:
        return one @ other.T
    d = network.n_inputs
    inner, outer = one[:, :d] @ other[:, :d].T, one[:, d:] @ other[:, d:].T
    sigma = network.activation
    z = np.array([0.3, 1.7])
    right, left = (np.asarray(sigma.value(_NUMPY, side * z)) for side in (1.0, -1.0))
    if np.allclose(left, -right, rtol=1e-12):
        return np.abs(inner + outer)
    return np.abs(inner) + outer if np.allclose(left, right, rtol=1e-12) else inner + outer
