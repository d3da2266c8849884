"""How the neurons of a batch are stepped: exactly where there is a closed form, else by a method for any field."""

from __future__ import annotations

from typing import Any

from agf.algorithm.crossings import Crossings
from agf.algorithm.dormand_prince import DormandPrince
from agf.algorithm.exact_stepper import ExactRest, ExactStepper
from agf.algorithm.field import Batch
from agf.algorithm.linear_stepper import LinearRest, LinearStepper, linear
from agf.algorithm.rest import Rest, StableRest
from agf.algorithm.stepper import Stepper


def steps_of(batch: Batch, rtol: float, noise: float) -> Stepper:
    """Exact steps where the problem's dormant neurons have them, else Dormand-Prince steps."""
    exact = ExactStepper.of(batch, rtol, noise)
    if exact is not None:
        return exact
    matrix = linear(batch)
    return DormandPrince(batch, rtol) if matrix is None else LinearStepper(batch, matrix, rtol)


def rest_of(steps: Stepper, crossings: Crossings) -> Rest[Any]:
    """What finds the neurons that rest, for these steps."""
    if isinstance(steps, ExactStepper):
        return ExactRest(steps, crossings)
    if isinstance(steps, LinearStepper):
        return LinearRest(steps, crossings)
    assert isinstance(steps, DormandPrince)
    return StableRest(steps, crossings)
