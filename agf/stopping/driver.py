"""The one loop that steps a flow, and the contract of a rule that ends it.

`drive` steps a `FlowSystem` by a `Method` and asks each `Stop` after every step; the first that answers ends the run
with an `End`. Whoever integrates a flow composes: the system says what moves, the method how it is stepped, the rules
why it stops, and `each` sees every step (to record it, say). A new reason to stop is one rule in `agf.stopping.rules`.

    end = drive(system, Auto(1e-6), [Settled(tolerated), Drifting(tolerated), Budget(1e6)], system.start())
    end.why, end.at.t, end.left

Rules that see a discrete change (`Event`) locate it within the step: `end.at` is then the moment of the change, and the
caller drives on from there with another system. Gradients and Hessians are counted in one place, `Counted`, whoever
asks for them: the method, a rule, or the caller by `now.system`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem
from agf.integrators import ABSURD, Accepted, MarchError, NonFinite
from agf.rounding import EPS

#: When the next step is this small a fraction of the local time, local time restarts at 0. Derived: from here on
#: float64 knows less than half the digits of a step.
_REBASE = EPS**0.5
#: Change of the state by a step, in its scale, above which local time may restart (a blow-up, degree > 2). Derived: a
#: step that accuracy limits changes it by rtol^(1/3) or more, whatever rtol is; one that does not is limited by
#: stability, and time goes on.
_MOVED = 1e-6
#: The shortest step that a march takes, relative to its time. Derived: the next number, and room for rounding of the
#: stages.
_SHORTEST = 4 * EPS


class Why(Enum):
    """Why a run of `drive` ended."""

    SETTLED = "settled"  # what can still be lost is bounded, and does not count
    DRIFTING = "drifting"  # the loss falls like a power of time, with nowhere to settle
    PARKED = "parked"  # at a saddle, for longer than any perturbation in float64 would have taken to grow
    QUIET = "quiet"  # the loss has all but stopped, and nothing will show soon
    HORIZON = "horizon"  # the time that was to be followed is over
    COLLAPSED = "collapsed"  # neurons shrank to nothing
    JOINED = "joined"  # neurons have grown up
    LEFT = "left"  # neurons have returned to dormancy
    PASSED = "passed"  # a plateau lies behind: the next drop has begun
    TURNED = "turned"  # another system describes the flow from here on
    ROUNDING = "rounding"  # float64 does not resolve what is left
    TIMELESS = "timeless"  # steps no longer advance the time
    BUDGET = "budget"  # the gradients allowed are used up
    TIME = "time"  # `s_end` is reached
    STALLED = "stalled"  # the step fell below what float64 resolves
    NONFINITE = "nonfinite"  # a velocity or a loss is not finite


@dataclass(frozen=True)
class Work:
    """Evaluations of the gradient (a velocity, a loss with its rate), of its Jacobian, and accepted steps."""

    gradients: int = 0
    hessians: int = 0
    steps: int = 0


class Counted:
    """A system whose evaluations are counted, for methods, rules and recorders.

    Parameters
    ----------
    system : FlowSystem
        What is asked.
    work : Work
        Evaluations before.
    """

    def __init__(self, system: FlowSystem, work: Work = Work()) -> None:
        self.system = system
        self._gradients, self._hessians, self._steps = work.gradients, work.hessians, work.steps
        self._work: Work | None = work  # None where more has been counted since
        self._told: list[tuple[FloatArray, float, float]] = []  # the last two states, with loss and rate

    @property
    def work(self) -> Work:
        """All that was counted."""
        if self._work is None:
            self._work = Work(self._gradients, self._hessians, self._steps)
        return self._work

    def charge(self, gradients: int, hessians: int = 0, steps: int = 0) -> None:
        """Count what was done elsewhere."""
        self._gradients += gradients
        self._hessians += hessians
        self._steps += steps
        self._work = None

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds (N,): one gradient."""
        self._gradients += 1
        self._work = None
        return self.system.velocity(y)

    def gradients(self, ys: FloatArray) -> FloatArray:
        """dL/dy at states (m, N), (m, N): m gradients."""
        self.charge(ys.shape[0])
        return self.system.gradients(ys)

    def linearized(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """dy/ds at states (m, N), (m, N), and Jacobians of it, (m, N, N): m gradients and m Hessians."""
        self.charge(ys.shape[0], ys.shape[0])
        return self.system.linearized(ys)

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """L and -dL/ds at states (m, N), (m,) each: m gradients."""
        self.charge(ys.shape[0])
        with np.errstate(**ABSURD):
            losses, slopes = self.system.losses_and_rates(ys)
        return losses, -slopes

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """(L, -dL/ds): one gradient, or none at one of the last two states asked about, or where the system has it from
        the velocity it was last asked for."""
        for state, loss, rate in self._told:
            if state is y:
                return loss, rate
        if not self.system.loss_is_known(y):
            self.charge(1)
        with np.errstate(**ABSURD):
            loss, slope = self.system.loss_and_rate(y)
        self._told = [*self._told[-1:], (y, loss, -slope)]
        return loss, -slope

    def growth(self, y: FloatArray) -> float | None:
        """Largest growth rate of a small neuron, or None where the system does not know: two gradients."""
        self.charge(2)
        return self.system.growth(y)

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """Symmetric (N, N), see `FlowSystem.hessian`; None where there is none."""
        matrix = self.system.hessian(y)
        if matrix is not None:
            self.charge(0, 1)
        return matrix


@dataclass(frozen=True)
class Moment:
    """What every rule may look at, and nothing else.

    Attributes
    ----------
    t : float
        Time s since the start of the run.
    y : ndarray, (N,)
        State.
    loss : float
        L.
    rate : float
        -dL/ds.
    system : Counted
        For questions that cost evaluations; they are counted.
    step : Accepted or None
        The step that ended here, None at the start. Its own times are t - `origin`.
    origin : float
        Time at which the local time of `step` is 0.
    local : float
        Local time of this moment, which t - `origin` may not resolve.
    answers : dict
        See `ask`.
    """

    t: float
    y: FloatArray
    loss: float
    rate: float
    system: Counted
    step: Accepted | None = None
    origin: float = 0.0
    local: float = 0.0
    answers: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        """The answer to a question that several rules may ask at this moment: it is evaluated once."""
        if name not in self.answers:
            self.answers[name] = question()
        return self.answers[name]

    @property
    def work(self) -> Work:
        """Evaluations so far."""
        return self.system.work

    @property
    def fall(self) -> float:
        """-t dL/dt: what the loss would lose in another time as long, at this rate."""
        return self.rate * self.t

    def inside(self, t: float) -> Moment:
        """The moment at a time t within the step that ended here; one gradient."""
        return self if self.step is None or t >= self.t else self.within(t - self.origin)

    def within(self, s: float) -> Moment:
        """The moment at a local time s of the step that ended here, where t may not resolve it; one gradient."""
        assert self.step is not None
        y = self.step.dense(float(np.clip(s, self.step.s0, self.step.s1)))
        loss, rate = self.system.loss_and_rate(y)
        return replace(self, t=self.origin + s, y=y, loss=loss, rate=rate, local=s, answers={})


@dataclass(frozen=True)
class End:
    """How a run ended.

    Attributes
    ----------
    why : Why
        The reason.
    at : Moment
        Where; for an event, at its time within the last step.
    left : float
        Loss that can still be lost, as far as the rule knows: a bound, or inf.
    note : str
        What else is to be said, a sentence or nothing.
    who : ndarray of int
        Neurons or entries that the reason is about.
    after : tuple of FlowSystem and ndarray, or None
        Where it TURNED: what describes the flow from here on, and its state; at a HORIZON the plateau at hand.
    bounded : bool
        Whether `left` is a bound on all losses that can be reached, whatever grows; else what a flow at rest may lose.
    """

    why: Why
    at: Moment
    left: float = np.inf
    note: str = ""
    who: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    after: tuple[FlowSystem, FloatArray] | None = None
    bounded: bool = False


class Stop(Protocol):
    """One reason to stop: a value. What it remembers is a tuple of floats, so that a run can be stored and resumed.

    `look` changes nothing. What costs evaluations it asks at times in geometric progression, not at every step.
    """

    def init(self, now: Moment) -> tuple[float, ...]:
        """What it remembers at the start of a run."""
        ...

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """What it remembers from here on, and the end if this is one."""
        ...


class Method(Protocol):
    """How a flow is stepped: a value. See `agf.stopping.methods`."""

    def march(
        self, system: Counted, y: FloatArray, *, s0: float, s_end: float, memory: Any = None
    ) -> Iterator[Accepted]:
        """Accepted steps from (s0, y) on, the last ending at s_end; `memory` is that of the step before."""
        ...


Remembered = tuple[tuple[float, ...], ...]  # memory of each rule


@dataclass(frozen=True)
class Saved:
    """All that a run carries from one step to the next: `drive` goes on from it as if it had never stopped.

    Attributes
    ----------
    y : ndarray, (N,)
        State.
    origin : float
        Time at which local time is 0; it restarts where float64 no longer resolves it.
    local : float
        Local time.
    method : object
        Memory of the method.
    stops : tuple of tuples of floats
        Memory of each rule.
    work : Work
        Evaluations so far.
    """

    y: FloatArray
    origin: float = 0.0
    local: float = 0.0
    method: Any = None
    stops: Remembered | None = None
    work: Work = Work()


def drive(
    system: FlowSystem,
    method: Method,
    stops: Sequence[Stop],
    start: FloatArray | Saved,
    *,
    s_end: float = np.inf,
    each: Callable[[Moment, Saved], None] | None = None,
) -> End:
    """Step until the first rule says so.

    Parameters
    ----------
    system : FlowSystem
        What moves.
    method : Method
        How it is stepped.
    stops : sequence of Stop
        Rules, asked in this order at the start and after every step; the first that ends the run wins.
    start : ndarray or Saved
        State (N,) at time 0, or what `each` was given after an earlier step.
    s_end : float
        Time at which the run ends in any case (Why.TIME).
    each : callable, optional
        Called after every step with the moment (where an event ended the run: that of the event) and what resuming
        after it needs.

    Returns
    -------
    End
        Always: a march that cannot go on ends as STALLED or NONFINITE at its last good state.
    """
    saved = start if isinstance(start, Saved) else Saved(np.array(start, dtype=np.float64))
    counted = Counted(system, saved.work)
    now = _moment(counted, saved.y, saved.origin, saved.local)
    if not (np.isfinite(now.loss) and np.isfinite(now.rate)):
        return End(Why.NONFINITE, now, note="the loss is not finite.")
    if saved.stops is None:
        memories, end = _look(stops, now, tuple(stop.init(now) for stop in stops))
        saved = replace(saved, stops=memories)
        if end is not None:
            return end
    while True:
        steps = method.march(counted, saved.y, s0=saved.local, s_end=s_end - saved.origin, memory=saved.method)
        try:
            for step in steps:
                counted.charge(0, 0, 1)
                before, now = now, _moment(counted, step.y1, saved.origin, step.s1, step)
                if not (np.isfinite(now.loss) and np.isfinite(now.rate)):
                    return End(Why.NONFINITE, before, note="the loss is not finite.")
                memories, end = _look(stops, now, saved.stops)
                saved = Saved(step.y1, saved.origin, step.s1, step.memory, memories, counted.work)
                if each is not None:
                    each(now if end is None else end.at, saved)
                if end is not None:
                    return end
                if _blows_up(system, step):
                    break
            else:
                return End(Why.TIME, now)
        except MarchError as error:
            if not _unresolved(counted, saved):
                return End(Why.NONFINITE if isinstance(error, NonFinite) else Why.STALLED, now, note=str(error))
        saved = replace(saved, origin=saved.origin + saved.local, local=0.0)


def _moment(system: Counted, y: FloatArray, origin: float, local: float, step: Accepted | None = None) -> Moment:
    loss, rate = system.loss_and_rate(y)
    return Moment(origin + local, y, loss, rate, system, step, origin, local)


def _look(stops: Sequence[Stop], now: Moment, before: Remembered | None) -> tuple[Remembered, End | None]:
    """Ask every rule up to the first that ends the run; what they remember from here on."""
    memories, end = list(before or ()), None
    for k, stop in enumerate(stops):
        memories[k], end = stop.look(now, memories[k])
        if end is not None:
            break
    return tuple(memories), end


def _blows_up(system: FlowSystem, step: Accepted) -> bool:
    """Whether a step that is short next to the elapsed time went somewhere: a blow-up, not a wall."""
    if step.memory.step >= _REBASE * step.s1:
        return False
    return bool(np.max(np.abs(step.y1 - step.y0) / system.scale(step.y1)) > _MOVED)


def _unresolved(system: Counted, saved: Saved) -> bool:
    """Whether a march failed for the resolution of local time alone: its shortest step would move the state."""
    with np.errstate(**ABSURD):
        velocity = system.velocity(saved.y) / system.system.scale(saved.y)
    return saved.local * _SHORTEST * float(np.max(np.abs(velocity), initial=0.0)) > _MOVED
