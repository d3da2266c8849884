"""The time-resolved prediction, by the way of following that a problem allows; each is imported where it is used.

Hidden units that mix are followed as modes (`modes`), coordinates in which nothing grows apart all together
(`contracting`), and neurons of anything else as [AGF] has them, active or dormant (`riding`).
"""

from __future__ import annotations

import numpy as np

from agf.algorithm.observer import Observer
from agf.contract.problem import Problem
from agf.contract.start import PHASES, POLAR, refuse_long
from agf.contract.ties import Ties
from agf.coordinates.mode_system import mixes
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.results.staircase import Staircase


def resolve(
    problem: Problem, init: Init, settings: Settings, observer: Observer | None = None, kept: Checkpoint | None = None
) -> Staircase:
    """Predict the loss curve and its drops with the active neurons resolved in time.

    The predicted curve is `Staircase.curve`. Its drops are those visible in it (`agf.results.curve.detect`): `time` and
    `half_time` are both the half-drop time, and `neurons` are all that grew since the drop before. `conditioning` is
    the relative change of the half-drop time when neurons join at twice the norm (Settings.joining) and go the other
    way at forks, a measure of how sensitive the competition behind the drop is.

    Raises RequestError for a wrong request, ProblemError for a plugin that breaks its contract.
    """
    if init.width > 1 and mixes(problem):
        from agf.algorithm.resolved.modes import resolve_modes

        refuse_long(problem, "predict", PHASES)
        return resolve_modes(problem, init, settings, observer, kept or Checkpoint(None))
    ties = problem.ties(init) or Ties(problem, init, np.arange(init.width))
    system = ties.problem.flow_system(ties.init)
    refuse_long(ties.problem, "predict", POLAR if system is None else PHASES)
    if system is not None and system.contracts:
        from agf.algorithm.resolved.contracting import resolve_contracting

        return resolve_contracting(problem, ties, system, init, settings, observer, kept)
    from agf.algorithm.resolved.riding import resolve_riding

    return resolve_riding(problem, init, settings, observer, kept)
