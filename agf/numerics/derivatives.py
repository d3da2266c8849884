"""Central differences, where no formula is known: the one place that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import EPS

#: Length of a difference relative to what it moves. Derived: its error is the square of this, and rounding over it;
#: they are equal at the cube root of epsilon.
LENGTH = EPS ** (1 / 3)

Value = TypeVar("Value", float, FloatArray)


def central(function: Callable[[FloatArray], Value], at: FloatArray, move: FloatArray) -> Value:
    """Half of f(at + move) - f(at - move): the derivative along a short move."""
    return 0.5 * (function(at + move) - function(at - move))


def hessian(gradient: Callable[[FloatArray], FloatArray], theta: FloatArray, length: float) -> FloatArray:
    """Symmetric matrix (N, N) of second derivatives at theta, of N entries, from 2 N gradients of the shape of theta.

    `length` is a scale of theta, on which the function changes.
    """
    step = LENGTH * length
    moves = step * np.eye(theta.size).reshape(theta.size, *theta.shape)
    matrix = np.array([central(gradient, theta, move).ravel() for move in moves]) / step
    matrix = matrix.reshape(theta.size, theta.size)
    return np.asarray(0.5 * (matrix + matrix.T))
