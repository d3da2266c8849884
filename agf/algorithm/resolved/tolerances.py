"""How exact the steps of a pass are, the first and the one that measures what that does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.algorithm.conditioning import TOLERANCE
from agf.contract.problem import Problem
from agf.coordinates.sharp_system import RTOL_SHARP
from agf.records.settings import Settings

#: Tolerance of a step over that of the settings. Cost: what joining at a finite norm leaves out is far more than this.
STEP = 25.0
#: Tolerance of a step over the width to which a kink is rounded. Derived: the force of a kink goes from 0 to all
#: within the rounding, so that a step errs by half a percent of it. At a sixth a neuron that rests in it is thrown
#: across, to chatter for ever or leave a saddle where the flow stays: of some 25 networks three ended at a wrong level.
#: Mode "agf" takes it where its own steps, which are longer, have thrown neurons across.
LAYER = 5e-3
#: Factor of it in the second pass. Derived: it must not chatter either.
_PROBE_LAYER = 3.0
#: Tolerance of a step where kinks are sharp. Derived: over the flow's (`RTOL_SHARP`) by what repeats are coarser by, so
#: that what it misses of the flow is seen by the second pass (measured: at ten times more a network of 29 samples left
#: the minimum it ends at, for a drop of its own; it costs two to eight times what 3e-4 does, which lost a drop).
_KINKS = TOLERANCE * RTOL_SHARP
#: Largest tolerance of a step. Derived: with a coarser one long stabilised steps let the loss rise.
COARSEST = 3e-3
#: Factor of the joining fraction in the second pass by which conditioning is measured. Result: of the conditioning
#: alone; at 1.1 what joining moves would not be seen, at 10 it would be that of another method.
_PROBE_JOINING = 2.0
#: Width of rounded kinks in this pass, over that of the problem. Derived: what rounding moves is in proportion to the
#: width, so that the difference of the passes is all of it.
_PROBE_KINK = 2.0
#: Factor of the tolerance in this pass. Derived: that of a repeated prediction, and of joining.
_PROBE_STEP = TOLERANCE * _PROBE_JOINING


@dataclass(frozen=True)
class Tolerances:
    """Of one pass.

    Parameters
    ----------
    step : float
        Relative error of a step in real time.
    plateau : float
        Of a step of the dormant neurons on a plateau.
    joining : float
        Fraction of R* at which a neuron joins.
    rounding : float
        How many times more of a gradient counts as rounding than is.
    """

    step: float
    plateau: float
    joining: float
    rounding: float

    @classmethod
    def of(cls, problem: Problem, settings: Settings, probe: bool) -> Tolerances:
        """Those of the first pass, or of the one (`probe`) by whose difference from it conditioning is measured.

        On plateaus at kinks `dormant.cross` allows an error of the tolerance to the power 2/3 a step. Each member of a
        group takes steps of its own, and what these leave between them grows on the next plateau like a difference:
        there no looser.
        """
        assert settings.joining is not None  # in this mode it is never left out
        joining = min(_PROBE_JOINING * settings.joining, 1.0) if probe else settings.joining
        plateau = settings.rtol**1.5 if problem.cornered else settings.rtol
        return cls(_step(problem, settings, probe), plateau, joining, TOLERANCE if probe else 1.0)


def widen_kink(problem: Problem) -> Problem:
    """What the second pass follows: the same problem with kinks rounded twice as far, where they are rounded."""
    return problem.rounded(min(_PROBE_KINK * problem.kink, 1.0)) or problem


def decades(problem: Problem, settings: Settings) -> float:
    """Logarithm of the factor between the tolerances of the two passes, over that where kinks do not bound them."""
    first, second = _step(problem, settings, False), _step(widen_kink(problem), settings, True)
    return float(np.log(second / first) / np.log(_PROBE_STEP)) if first < second < COARSEST else 1.0


def _step(problem: Problem, settings: Settings, probe: bool) -> float:
    """Where kinks are sharp it is the same whatever the settings; where they are rounded it is bound to resolve them.

    Elsewhere long stabilised steps at a coarser one than `COARSEST` let the loss rise.
    """
    sharp = not problem.smooth
    rtol = _KINKS if sharp else min(STEP * settings.rtol, COARSEST)
    rtol = min(_PROBE_STEP * rtol, COARSEST) if probe else rtol
    if sharp or problem.kink == 0:
        return rtol
    return min(rtol, LAYER * problem.kink * (_PROBE_LAYER if probe else 1.0))
