"""Initial weights in a file: an npz archive with the array `theta`, one row a neuron."""

from __future__ import annotations

import inspect
import os

import numpy as np

from agf import datasets
from agf.contract.problem import Problem
from agf.errors import DataError, RequestError, explain
from agf.init import WIDTHS, Init


def read(problem: Problem, path: str | os.PathLike[str]) -> Init:
    """The weights in a file, as a start of `problem`.

    Raises
    ------
    RequestError
        For a file that is none of weights, and weights of another shape, with the width that would take them.
    """
    file = str(path)
    theta = _theta(file)
    init = Init.from_params(theta, kind=f"from {file}")
    if (init.width, init.n_params) != (problem.width, problem.n_params):
        raise DataError(
            explain(
                f"`theta` has shape {np.shape(theta)}.",
                where=file,
                expected=f"({problem.width}, {problem.n_params}), one row a neuron of {problem.name}",
                remedy=_remedy(problem, init),
            )
        )
    return init


def rows(path: str | os.PathLike[str]) -> int:
    """How many rows the weights in a file have, one a neuron. Raises as `read`."""
    return len(np.atleast_1d(_theta(str(path))))


def _theta(file: str) -> np.ndarray:
    if not file.lower().endswith(".npz"):
        raise RequestError(
            explain(
                f"cannot read {file!r} as initial weights.",
                expected="an npz file",
                remedy="For weights of torch, first np.savez(FILE, theta=agf.Init.from_torch(MODEL).params()).",
            )
        )
    arrays = datasets.load(file)
    if "theta" not in arrays:
        raise DataError(
            explain("there is no array `theta`.", where=file, found=", ".join(arrays), expected="theta (H, P)")
        )
    return arrays["theta"]


def _remedy(problem: Problem, init: Init) -> str:
    """The width that weights ask for, where only that is another."""
    takes = inspect.signature(type(problem).__init__).parameters
    if init.n_params == problem.n_params and any(name in takes for name in WIDTHS):
        return f"For these weights, add --width {init.width - len(problem.permanent)}."
    if (init.n_params, init.width) == (problem.width, problem.n_params):
        return "Rows and columns may be swapped: theta.T."
    return ""
