"""When a run goes on in other coordinates: rules that end a stretch of it with the system that takes over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import FlowSystem
from agf.coordinates.cone_system import ConeSystem
from agf.coordinates.held_neurons import NEAR, HeldSystem, between_drops, hold
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.sharp_system import SharpSystem
from agf.coordinates.split_system import SplitSystem
from agf.coordinates.weight_system import WeightSystem
from agf.integrators import STIFF_STEPS
from agf.numerics.ndf import History
from agf.stopping.driver import End, Moment, Why
from agf.stopping.methods import EXPENSIVE, EXPENSIVE_ENTRY, LARGEST, PER_ENTRY
from agf.stopping.rules import Memory

#: Stages of a stabilised step from which on a plateau is looked for. Cost: of looking, which takes a decomposition.
_LOOK_STAGES = 100.0
#: Length of steps over the elapsed time below which a plateau is looked for as well: at the edge of stability they
#: would take for ever. Cost: a plateau that is found is as exact as the steps.
_SHORT = 1e-6
#: It is looked for every so many steps. Cost: of looking.
_EVERY = 10


@dataclass(frozen=True)
class Held:
    """A plateau of degree 3 or more starts, on which the large neurons are held at their minimum, or ends.

    Attributes
    ----------
    rtol : float
        Tolerance of the steps.
    """

    rtol: float

    def init(self, now: Moment) -> Memory:
        """The loss when a plateau was last looked for."""
        return (np.inf,)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether another system describes the flow from here on."""
        system = now.system.system
        if isinstance(system, HeldSystem):
            if not system.over(now.y):
                return memory, None
            home = PolarSystem(system.problem, system.init)
            return memory, End(Why.TURNED, now, after=home.stiff(now.y) or (home, now.y))
        y = now.y
        if now.step is None or now.work.steps % _EVERY:
            return memory, None
        if isinstance(system, WeightSystem):
            y, system = system.in_polar(y), system.polar
        if not isinstance(system, PolarSystem) or system.power == 0:
            return memory, None
        if not self._resting(now, system, y, memory[0]):
            return (now.loss,), None
        found = hold(system, y, self.rtol)
        if found is None:
            return (now.loss,), None
        plateau, y, evaluations = found
        now.system.charge(evaluations)
        return (now.loss,), End(Why.TURNED, now, after=(plateau, y))

    def _resting(self, now: Moment, system: PolarSystem, y: FloatArray, before: float) -> bool:
        """Whether steps are cut short by stability, or by what it leaves at its edge."""
        step = now.step
        assert step is not None
        if step.stages >= _LOOK_STAGES:
            return True
        first = abs(system.first_loss)
        near = (NEAR * self.rtol) ** 2 * first  # what neurons so near a minimum add to its loss
        short = step.memory.step < _SHORT * now.t
        return short and abs(now.loss - before) <= near and between_drops(system, y, first - now.loss, first)


@dataclass(frozen=True)
class Stiff:
    """Explicit steps cost more than solving with the Hessian would, in coordinates that have one; or these are over.

    Where kinks are sharp, steps are counted that stability limits, until they have cost what the Hessian of the cone
    does: what meets kink after kink is cheaper without. Coordinates that have no answer yet are asked again after as
    many gradients as a Hessian counts: where modes have to be learned first, that may be at any time.
    """

    def init(self, now: Moment) -> Memory:
        """After how many gradients to ask next."""
        return (0.0,)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether other coordinates serve better."""
        y, system = now.y, now.system.system
        if isinstance(system, SplitSystem) and system.over(y):
            return memory, End(Why.TURNED, now, after=system.polar.stiff(system.in_polar(y)))
        if isinstance(system, ConeSystem):
            over = now.step is not None and system.over(y, now.step.memory.step)
            return memory, End(Why.TURNED, now, after=system.back(y)) if over else None
        if isinstance(system, SharpSystem):
            few = now.step is None or now.step.memory.stiff < max(STIFF_STEPS[0], PER_ENTRY * y.size)
            inside = None if few or y.size > LARGEST else system.stiff(y)
            if inside is None or now.step is None:
                return memory, None
            cone = ConeSystem(system, now.step.s1 - now.step.s0)
            return memory, End(Why.TURNED, now, after=(cone, inside[1]))
        stages = 0.0 if now.step is None else now.step.stages
        spent = float(now.work.gradients)
        if spent < memory[0] or stages <= max(EXPENSIVE, EXPENSIVE_ENTRY * y.size) or y.size > LARGEST:
            return memory, None
        after = system.stiff(y)
        return (spent + PER_ENTRY * y.size,), None if after is None else End(Why.TURNED, now, after=after)


def crossing(end: End) -> End:
    """The end, or where a kink stopped steps in its cone, one that TURNED to coordinates in which they cross it."""
    cone = end.at.system.system
    if end.why is not Why.STALLED or not isinstance(cone, ConeSystem):
        return end
    return replace(end, why=Why.TURNED, after=cone.back(end.at.y))


def implicit_in(weights: FlowSystem | None, end: End) -> History | None:
    """With what implicit steps begin where the system that takes over at `end` is one of these `weights`, those that
    the first coordinates offered for stiff stretches; None elsewhere: explicit ones would only find out again."""
    step = end.at.step
    if step is None or weights is None or end.after is None or not isinstance(end.after[0], type(weights)):
        return None
    return History(step.s1 - step.s0)
