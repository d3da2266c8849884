"""Initial weights in a file: an npz archive with the array `theta`, one row a neuron, or a state_dict of torch."""

from __future__ import annotations

import inspect
import os

import numpy as np

from agf import datasets
from agf.contract.problem import Problem
from agf.errors import DataError, RequestError, explain
from agf.init import WIDTHS, Init
from agf.records import torch_weights

#: Endings of the names of files that torch writes.
_TORCH = (".pt", ".pth")
_BIASES = {
    "none": "no biases",
    "hidden": "hidden biases",
    "output": "an output bias",
    "both": "hidden biases and an output bias",
}


def read(problem: Problem, path: str | os.PathLike[str]) -> Init:
    """The weights in a file, as a start of `problem`.

    Raises
    ------
    RequestError
        For a file that is none of weights.
    DataError
        For weights of another shape, with the width that would take them, and a state_dict whose last row is an output
        bias where the problem takes it for a neuron, or the reverse.
    """
    file = str(path)
    theta = array(file)
    init = Init.from_params(theta, kind=f"from {file}")
    if (init.width, init.n_params) != (problem.width, problem.n_params):
        raise DataError(
            explain(
                f"`theta` has shape {np.shape(theta)}.",
                where=file,
                expected=f"({problem.width}, {problem.n_params}), one row a neuron of {problem.name}",
                remedy=_remedy(problem, init, file),
            )
        )
    if _of_torch(file) and (held := torch_weights.read(file)).output != bool(problem.permanent):
        raise DataError(
            explain(
                f"these weights have an output bias, which {problem.name} would take for a neuron."
                if held.output
                else f"these weights have no output bias, and {problem.name} would take the last neuron for it.",
                where=file,
                remedy=f"-p bias={held.bias}." if _takes_bias(problem) else "",
            )
        )
    return init


def rows(path: str | os.PathLike[str]) -> int:
    """How many rows the weights in a file have, one a neuron. Raises as `read`."""
    return len(np.atleast_1d(array(path)))


def array(path: str | os.PathLike[str]) -> np.ndarray:
    """theta as it is in a file. Raises RequestError for a file that is none of weights."""
    file = str(path)
    if _of_torch(file):
        return torch_weights.read(file).theta
    if not file.lower().endswith(".npz"):
        raise RequestError(
            explain(
                f"cannot read {file!r} as initial weights.",
                expected="an npz file with the array `theta`, or a state_dict of torch, " + " or ".join(_TORCH),
            )
        )
    arrays = datasets.load(file)
    if "theta" not in arrays:
        raise DataError(
            explain("there is no array `theta`.", where=file, found=", ".join(arrays), expected="theta (H, P)")
        )
    return arrays["theta"]


def _of_torch(file: str) -> bool:
    return file.lower().endswith(_TORCH)


def _takes_bias(problem: Problem) -> bool:
    return "bias" in inspect.signature(type(problem).__init__).parameters


def _remedy(problem: Problem, init: Init, file: str) -> str:
    """The biases or the width that weights ask for, where only these are others."""
    takes = inspect.signature(type(problem).__init__).parameters
    if _of_torch(file) and _takes_bias(problem):
        held = torch_weights.read(file)
        bias, ours = held.bias, getattr(problem, "bias", "none")
        # a hidden bias is a column: others that differ are not explained by it
        if bias != ours and init.n_params == problem.n_params + held.biased - (ours in ("hidden", "both")):
            return f"These weights have {_BIASES[bias]}: -p bias={bias}."
    if init.n_params == problem.n_params and any(name in takes for name in WIDTHS):
        return f"For these weights, add --width {init.width - len(problem.permanent)}."
    if (init.n_params, init.width) == (problem.width, problem.n_params):
        return "Rows and columns may be swapped: theta.T."
    return ""
