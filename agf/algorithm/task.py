"""What a prediction is given, in every mode: problem, start, settings, and the units in which all of it is measured."""

from __future__ import annotations

from dataclasses import dataclass

from agf.clock import Clock
from agf.contract.problem import Problem
from agf.contract.start import clock
from agf.init import Init
from agf.records.settings import Settings
from agf.stopping.rules import BUDGET


@dataclass(frozen=True)
class Task:
    """It stays as it is while a run moves on.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        From where.
    settings : Settings
        How to predict.
    clock : Clock
        What accelerated time is.
    start_level : float
        Loss of the zero function, to which losses are compared.
    """

    problem: Problem
    init: Init
    settings: Settings
    clock: Clock
    start_level: float

    @classmethod
    def of(cls, problem: Problem, init: Init, settings: Settings) -> Task:
        """From its origin: the clock of these weights, and the loss of the zero function."""
        return cls(problem, init, settings, clock(problem, init), float(problem.loss_grad(*problem.empty)[0]))

    def budget(self, spent: float = 0.0, usual: float = BUDGET) -> float:
        """Gradients left to a pass that has `spent` some: of the `usual`, unless a number was asked for."""
        most = self.settings.max_gradients
        return max((usual if most is None else most) - spent, 0.0)

    @property
    def tolerated(self) -> float:
        """Loss above the least at which all is fitted."""
        return self.settings.rtol * self.start_level
