"""Biases of a two-layer network: a column of ones beside the inputs, and a row of theta that belongs to no neuron."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.errors import DataError, explain
from agf.init import Init
from agf.losses import Loss
from agf.records.settings import Settings
from agf.sphere import polar

#: Squared gradient of an output bias, over the loss, below which it rests at 0. Derived: of a mean over samples it is
#: twice what the bias would take off the loss, and a flow that has settled leaves as much at the default tolerance.
_BALANCED = Settings.rtol
#: Name -> hidden, output, and how a report says it.
_NAMED = {
    "none": (False, False, ""),
    "hidden": (True, False, " with biases"),
    "output": (False, True, " and an output bias"),
    "both": (True, True, " with biases, and an output bias"),
}
#: Which biases a network has.
BIASES = tuple(_NAMED)


@dataclass(frozen=True)
class Biases:
    """Which biases a network has.

    Parameters
    ----------
    hidden : bool
        sigma(w_i . x + b_i): the last input is 1.
    output : bool
        f + b: the last row of theta, active from the start, is (anything, b).
    described : str
        How a report says it.
    """

    hidden: bool
    output: bool
    described: str

    @classmethod
    def of(cls, name: str, where: str) -> Biases:
        """By name. Raises DataError for an unknown one."""
        if name not in BIASES:
            message = f"unknown bias {name!r}."
            raise DataError(explain(message, where=where, expected="one of " + ", ".join(BIASES)))
        return cls(*_NAMED[name])

    def inputs(self, X: FloatArray) -> FloatArray:
        """X (n, d), with the column of ones."""
        return np.column_stack([X, np.ones(X.shape[0])]) if self.hidden else X

    def permanent(self, neurons: int) -> tuple[int, ...]:
        """The row of the output bias beside so many neurons."""
        return (neurons,) if self.output else ()

    def clear(self, theta: FloatArray, inputs: int) -> None:
        """Set the biases in theta, all rows, to 0, where they start."""
        if self.hidden:
            theta[:, inputs - 1] = 0.0
        if self.output:
            theta[-1] = 0.0

    def start(self, init: Init, neurons: int, inputs: int, size: float) -> Init:
        """An initialization with the row of the output bias, added at b = 0 where it has only `neurons` rows.

        What does nothing in that row is set to `size`, that of the targets, so that its norm says how much the bias is
        to them.
        """
        directions, log_norms = init.directions, init.log_norms
        b = np.zeros(init.n_params - inputs)
        if init.width == neurons + 1:
            with np.errstate(under="ignore"):
                b = directions[-1, inputs:] * np.exp(log_norms[-1])
            directions, log_norms = directions[:-1], log_norms[:-1]
        row = np.zeros((1, init.n_params))
        row[0, inputs - 1] = size
        row[0, inputs:] = b
        unit, log_size = polar(row)
        return Init(
            np.concatenate([directions, unit]), np.concatenate([log_norms, log_size]), init.alpha, init.seed, init.kind
        )


def moves_at_once(
    loss: float, gradient: FloatArray, kind: Loss, targets: FloatArray, classes: Sequence[Any]
) -> tuple[str, ...]:
    """The sentence that an output bias moves at once, whose gradient at 0 this is; none where it rests.

    Parameters
    ----------
    loss : float
        Of no network.
    gradient : float ndarray
        Of the loss, in the bias.
    kind : Loss
        Which loss.
    targets : float ndarray, shape (n, c)
        What is to be fitted.
    classes : sequence
        Names of classes, empty for a regression.
    """
    if float(np.sum(gradient**2)) <= _BALANCED * loss:
        return ()
    what = "mean of the targets is not 0"
    if classes and not kind.quadratic:
        counts = (targets > 0).sum(axis=0) if targets.shape[1] > 1 else [np.sum(targets <= 0), np.sum(targets > 0)]
        what = f"classes are not balanced ({', '.join(str(int(n)) for n in counts)} samples)"
    return (f"The {what}: the output bias moves at once, whatever the scale of the weights.",)
