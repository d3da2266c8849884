"""What one pass is given: the task, how exactly it is followed, and where it may end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.algorithm.conditioning import LONGER
from agf.algorithm.resolved.tolerances import Tolerances, widen_kink
from agf.algorithm.task import Task
from agf.contract.problem import Problem
from agf.init import Init
from agf.records.settings import Settings
from agf.stopping.ending import FLOOR


@dataclass(frozen=True)
class Given(Task):
    """The same from the first step of a pass to its end; where the pass is, says its `Run`.

    Parameters
    ----------
    tolerances : Tolerances
        How exact its steps are.
    stop : float
        Accelerated time at which it ends.
    least : float
        Loss above which no more than the tolerance is left when what is asked is over.
    probe : bool
        Whether it is the pass by whose difference from the first one conditioning is measured: neurons go the other way
        at forks in it.
    """

    tolerances: Tolerances
    stop: float
    least: float
    probe: bool

    @classmethod
    def of(
        cls, problem: Problem, init: Init, settings: Settings, *, probe: bool = False, floor: float | None = None
    ) -> Given:
        """For the first pass or the `probe`; floor : loss at which it may end, before all is fitted."""
        problem = widen_kink(problem) if probe else problem
        task, limit = Task.of(problem, init, settings), settings.t_max
        return cls(
            **vars(task),
            tolerances=Tolerances.of(problem, settings, probe),
            stop=np.inf if limit is None else float(task.clock.accelerated(LONGER * limit if probe else limit)),
            least=float(problem.least_loss(init)) if floor is None else floor - settings.rtol * task.start_level,
            probe=probe,
        )

    def lost(self, loss: float) -> float:
        """Loss that may be lost unseen where it is `loss`."""
        return self.settings.rtol * max(loss, FLOOR * self.start_level)
