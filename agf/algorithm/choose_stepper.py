"""How the neurons of a batch are stepped: exactly where there is a closed form, else by a method for any field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agf.algorithm.crossings import Crossings
from agf.algorithm.dormand_prince import DormandPrince
from agf.algorithm.exact_stepper import ExactResting, ExactStepper
from agf.algorithm.field import Batch
from agf.algorithm.linear_stepper import LinearResting, LinearStepper, linear
from agf.algorithm.resting import Resting, StableResting
from agf.algorithm.stepper import Stepper

#: Width of kinks, over |w| rms|x|, in steps where they are sharp. Derived: a hundred times the error of a step on a
#: plateau (mode "resolved"), so that steps resolve the slope in between; what it moves is in proportion, and measured
#: by steps at twice the width where neurons go the other way (`Batch.contrary`).
_WIDTH = 1e-4
#: What finds the neurons that rest, for steps of one kind.
RestingOf = Callable[[Any, Crossings], Resting[Any]]


def choose_stepper(batch: Batch, rtol: float, noise: float) -> tuple[Stepper, RestingOf]:
    """Exact steps where the problem's dormant neurons have them, else Dormand-Prince steps; and how they come to rest.

    noise : utility gradients up to this cannot be told from 0.
    """
    exact = ExactStepper.of(batch, rtol, noise)
    if exact is not None:
        return exact, ExactResting
    matrix = linear(batch)
    if matrix is not None:
        return LinearStepper(batch, matrix, rtol), LinearResting
    if not batch.problem.smooth:  # steps would only chatter about a sharp kink that holds a neuron
        soft = batch.problem.rounded(2.0 * _WIDTH if batch.contrary else _WIDTH)
        batch = replace(batch, problem=soft or batch.problem)
    return DormandPrince(batch, rtol), StableResting
