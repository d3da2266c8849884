"""A flow in real time from one change of the active set to the next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agf.algorithm.resolved.coordinates import Riding
from agf.algorithm.resolved.members import Network
from agf.arrays import FloatArray
from agf.contract.flow_system import FlowSystem
from agf.coordinates.split_system import SplitSystem
from agf.coordinates.weight_system import WeightSystem
from agf.records.state import State
from agf.stopping.driver import Moment


@dataclass
class Stretch:
    """What is stepped.

    Parameters
    ----------
    system : Riding
        All neurons, in the coordinates in which the dormant ones ride.
    before : State
        Where it began.
    unit : float
        Accelerated time per unit of s.
    """

    system: Riding
    before: State
    unit: float
    moving: FlowSystem = field(init=False)  # what is stepped: where that is stiff, weights take over

    def __post_init__(self) -> None:
        self.moving = self.system

    def riding(self, y: FloatArray) -> FloatArray:
        """What is stepped, in the coordinates of `system`."""
        return self.moving.in_polar(y) if isinstance(self.moving, WeightSystem) else y

    def network(self, y: FloatArray, now: Moment) -> Network:
        """The neurons at y, for `Members`; at the end of a step, where that of `now` led, with what pulls at them."""
        system, step = self.system, now.step
        at = self.riding(y)
        # weights are those of active neurons: dormant ones ride in coordinates of `system`
        told = step is not None and y is step.y1 and isinstance(self.moving, Riding | SplitSystem)
        pulls = system.pulls(at, step.f1) if step is not None and told else None
        return Network(system.problem, self.before.active, system.alive, *system.polar(at), pulls)

    def time(self, s: float) -> float:
        """Accelerated time."""
        return self.before.time + s * self.unit

    def state(self, y: FloatArray, now: Moment) -> State:
        """At a moment, y being what rides."""
        return replace(self.system.state(y, self.before, self.time(now.t)), level=now.loss)
