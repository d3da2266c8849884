"""The two phases for any problem: what `Engine` uses where a problem brings none of its own."""

from __future__ import annotations

from agf.algorithm.arrivals import Arrivals
from agf.algorithm.cost_minimization import CostMinimization
from agf.algorithm.memory import GenericState
from agf.algorithm.phase_run import PhaseRun
from agf.algorithm.task import Task
from agf.algorithm.utility_maximization import UtilityMaximization
from agf.contract.problem import Problem
from agf.init import Init
from agf.records.settings import Settings
from agf.records.state import Activation, Settled
from agf.records.status import Status


class GenericPhases:
    """`UtilityMaximization` and `CostMinimization` of one run ([AGF] Algorithm 1).

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        From where.
    settings : Settings
        How to predict.
    """

    def __init__(self, problem: Problem, init: Init, settings: Settings) -> None:
        run = PhaseRun(Task.of(problem, init, settings))
        arrivals = Arrivals(run)
        self.run, self.clock, self.stats, self.notes = run, run.clock, run.stats, run.notes
        self._maximize, self._minimize = UtilityMaximization(run, arrivals), CostMinimization(run, arrivals.above)

    @property
    def symmetric(self) -> bool:
        """Whether the run ended where utilities vanish by a symmetry."""
        return self._maximize.symmetric

    def start(self) -> GenericState:
        """All neurons dormant, time 0."""
        return self.run.start()

    def dormant(self, state: GenericState) -> tuple[GenericState, Activation | Status]:
        """Utility maximization until the next activation, or the status that says why there is none."""
        return self._maximize.to_activation(state)

    def active(self, state: GenericState, activation: Activation) -> tuple[GenericState, Settled | Status]:
        """Cost minimization until the active neurons rest, newcomers included."""
        return self._minimize.to_rest(state, activation)
