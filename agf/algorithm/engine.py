"""[AGF] Algorithm 1: two phases in turn, from all neurons dormant to the last drop.

    repeat
        utility maximization    the residual r of the active neurons is frozen, and every dormant neuron follows
                                d theta_i / dt = grad U_i(theta_i; r), until the first reaches its threshold
        activation              it joins the active neurons
        cost minimization       the active neurons follow d theta / dt = -grad L until they rest: a drop is over

`Engine.step` is one round. It holds settings and no memory; a user can drive `init` and `step` in a loop of their own.
The phases themselves are elsewhere: those for any problem in `utility_maximization` and `cost_minimization`, closed
forms with the problems that have them. `prediction` goes round until a step ends the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import USUAL
from agf.asked import asked
from agf.contract import start
from agf.contract.admission import admit
from agf.contract.phases import Phases
from agf.contract.problem import Problem
from agf.coordinates.mode_system import mixes
from agf.errors import ProblemError, RequestError, explain
from agf.init import Init
from agf.records.settings import Settings
from agf.records.state import Activation, Settled, State
from agf.records.status import Status
from agf.results.drop import Drop, kept


@dataclass(frozen=True)
class Step:
    """What one `Engine.step` gave.

    Parameters
    ----------
    state : State
        The next state.
    drop : Drop or None
        The drop that led to it, or None where the run ends.
    status : Status or None
        Why the run ends, or None where it goes on.
    activated : State or None
        The state at which the drop began, after its dormant phase.
    """

    state: State[Any]
    drop: Drop | None
    status: Status | None
    activated: State[Any] | None = None


class Engine:
    """Alternates the two phases of [AGF] Algorithm 1 for one problem and one initialization.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        Where training starts.
    settings : Settings, optional
        How to predict; mode "auto" is "agf" here, and mode "resolved", which has no phases, is refused.
    phases : Phases, optional
        Defaults to those of the mode (`PHASES`).
    """

    @asked
    def __init__(self, problem: Problem, init: Init, settings: Settings | None = None, phases: Phases | None = None):
        self._begin(problem, admit(problem, init, "predict"), Settings() if settings is None else settings, phases)

    @classmethod
    def of(cls, problem: Problem, init: Init, settings: Settings, phases: Phases | None = None) -> Engine:
        """That of a problem and an initialization which have been admitted: they are not looked at once more."""
        engine = cls.__new__(cls)
        engine._begin(problem, init, settings, phases)
        return engine

    def _begin(self, problem: Problem, init: Init, settings: Settings, phases: Phases | None) -> None:
        self.problem, self.origin = problem, init
        self.settings = settings.within("agf") if settings.mode == "auto" else settings
        self.phases = phases_of(problem, init, self.settings) if phases is None else phases
        self.clock = self.phases.clock

    def init(self) -> State[Any]:
        """All neurons dormant at time 0."""
        return self.phases.start()

    @np.errstate(**USUAL)
    def step(self, state: State[Any]) -> Step:
        """One round: a dormant phase from this state, and the active phase that it triggers; times are accelerated."""
        after, activation = self.phases.dormant(state)  # utility maximization, to an activation
        if isinstance(activation, Status):
            return Step(after, None, activation)
        _refuse_backwards(self.problem, state.time, activation.time)
        if self.settings.t_max is not None and self.clock.flow_time(activation.time) > self.settings.t_max:
            return Step(state, None, Status.MAX_TIME)
        final, settled = self.phases.active(after, activation)  # cost minimization, to rest
        if isinstance(settled, Status):
            return Step(final, None, settled)
        return Step(final, record(self.problem, self.phases, final, activation, settled), None, after)


def _refuse_backwards(problem: Problem, start: float, end: float) -> None:
    """Raise ProblemError where a phase of the problem's own ends before it starts, or at no time."""
    if not (np.isfinite(end) and end >= start):
        raise ProblemError(
            explain(
                f"the dormant phase ended at time {end}, before or beyond its start {start}.",
                where=f"problem {problem.name!r}",
            )
        )


def record(problem: Problem, phases: Phases, state: State[Any], activation: Activation, settled: Settled) -> Drop:
    """The drop that two phases made, read off the state they ended in; phases whose rows are no neurons name them."""
    clock = phases.clock
    named = getattr(phases, "label", None)
    active = state.active.nonzero()[0]
    params = state.rows(active)
    neurons, utility = activation.neurons, activation.utility
    if settled.joined.size:
        neurons, utility = np.append(neurons, settled.joined), np.append(utility, settled.utility)
    middle = activation.half_time if settled.half_time is None else settled.half_time
    return Drop(
        time=clock.flow_time(activation.time),
        half_time=clock.flow_time(middle),
        accelerated_time=activation.time,
        level=settled.level,
        neurons=neurons,
        collapsed=settled.collapsed,
        label=problem.label(params, active, np.sort(neurons)) if named is None else named(neurons),
        utility=utility,
        runner_up=activation.runner_up,
        grad_norm=settled.grad_norm,
        predicted_decrease=settled.predicted_decrease,
        how=settled.how,
        critical=settled.critical,
        features=problem.features(params, active),
        log_norms=state.log_norms.copy(),
        active=state.active.copy(),
        directions=kept(state.directions),
    )


def _agf(problem: Problem, init: Init, settings: Settings) -> Phases:
    """The problem's own phases, else those on modes where hidden units mix, else the generic ones."""
    own = problem.phases(init, settings)
    if own is not None:
        return own
    start.refuse_long(problem, "predict", start.PHASES)
    if init.width > 1 and mixes(problem):
        from agf.algorithm.mixing import MixedPhases

        return MixedPhases(problem, init, settings)
    from agf.algorithm.phases import GenericPhases

    return GenericPhases(problem, init, settings)


def _limit(problem: Problem, init: Init, settings: Settings) -> Phases:
    from agf.algorithm.limit import LimitPhases

    return LimitPhases(problem, init, settings)


#: The two phases of each mode that alternates.
PHASES: dict[str, Callable[[Problem, Init, Settings], Phases]] = {"agf": _agf, "limit": _limit}


def phases_of(problem: Problem, init: Init, settings: Settings) -> Phases:
    """The phases of a mode. Raises RequestError for a mode that has none."""
    if settings.mode not in PHASES:
        raise RequestError(
            explain(
                f"mode {settings.mode!r} does not alternate two phases.",
                where="Engine",
                expected="mode " + " or ".join(PHASES),
                remedy="Use agf.predict.",
            )
        )
    return PHASES[settings.mode](problem, init, settings)
