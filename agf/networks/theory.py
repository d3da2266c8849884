"""The staircase of infinitely wide (leaky) ReLU networks of one output as the initialization vanishes, without weights.

Neurons align in a time that does not depend on the scale, while drops wait for its log: so the dormant neurons of a
network of infinite width are, for the drops, one neuron at every end of the alignment ([BF24] section 7 in words of
[AGF]: the extremal vectors that attract), and the staircase is that of these few. Whoever starts dead stays so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, positive
from agf.clock import Clock
from agf.errors import NoTheory, RequestError, explain
from agf.records.settings import Settings
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.sphere import cartesian

if TYPE_CHECKING:
    from agf import Engine, State
    from agf.networks.two_layer import TwoLayer

#: Scale of the few neurons. Derived: any, since mode "limit" takes it to 0.
_ALPHA = 1e-12
#: Fall of the loss, relative to that at the start, that is none. Derived: what the cost flow of the engine may leave.
_ROUNDING = Settings.rtol
#: What later drops rest on. Measured on random data in docs/spurious.md.
_HELD = (
    "Drops after the first take dormant neurons to hold still while others settle ([AGF] Algorithm 1). Where a drop "
    'turns one into another cone, the flow differs: mode "resolved" at a tiny alpha follows them.'
)
#: Work after which no further drop is looked for, in evaluations of the loss. Limit: some ten seconds; a flow that
#: began within it ends by its own limit, and the drops so far are kept.
_WORK = 100_000
#: Evaluations of the loss that take as long as a round of events of the dormant neurons, and as long as a face of the
#: cones, of which (2 n)^(d - 1) are looked at to say what can still be reached. Cost: they say when to stop.
_ROUND, _FACE = 10, 0.1


def staircase(problem: TwoLayer, alpha: float | None = None) -> Staircase:
    """The drops at m = infinity, lambda -> 0, in units of -log lambda; flow times where alpha = lambda is given.

    Raises NoTheory for other networks, losses that are not half-squared, several outputs, and too many cones.
    """
    import agf  # by the front door: prediction and landscape stand above networks

    unit = np.nan
    if alpha is not None:
        unit = -np.log(positive(alpha, "alpha", where="theory"))
        if not unit > 0:
            message = "alpha must be below 1: time is in units of -log alpha."
            raise RequestError(explain(message, where="theory", found=alpha))
    if problem.permanent:
        message = "has no closed form with an output bias, which moves before any neuron grows."
        raise NoTheory(explain(message, where=f"problem {problem.name!r}", remedy='Use mode="limit".'))
    if problem.activation.name not in ("relu", "leaky-relu") or problem.n_outputs != 1:
        message = "has a closed form for relu and leaky-relu neurons with one output."
        raise NoTheory(explain(message, where=f"problem {problem.name!r}", remedy='Use mode="limit".'))
    if not problem.quadratic_loss:
        message = f"has no closed form for the {problem.loss.name} loss, which separable classes let fall for ever."
        raise NoTheory(explain(message, where=f"problem {problem.name!r}", remedy='Use mode="limit".'))
    found = agf.landscape(problem, starts=1)  # of use only where it is complete
    if not found.complete:
        message = "has too many activation cones to list where neurons align."
        raise NoTheory(explain(message, where=f"problem {problem.name!r}", remedy='Use mode="limit".'))
    ends = found.ends
    start = found.level
    if not ends:
        return _told(problem, alpha, start, (), ("nothing is left to fit",))
    few = problem.of_width(len(ends))
    init = agf.Init.scaled(np.array([one.direction for one in ends]), _ALPHA)
    found_drops, network, status = _drops(few, agf.Engine(few, init, agf.Settings(mode="limit")), start)
    drops = tuple(
        replace(
            drop,
            time=drop.accelerated_time * unit,
            half_time=drop.accelerated_time * unit,
            label=", ".join(ends[int(i)].label for i in drop.neurons),
        )
        for drop in found_drops
    )
    last = (
        f"The end is {agf.escape(few, network).sentence}."
        if status is Status.THEORY
        else f"Not the end: these {len(drops)} drops are the first, and a prediction of given weights goes on."
    )
    notes = [f"m = infinity, lambda -> 0: the {len(ends)} ends of alignment stand for all neurons."]
    if len(drops) > 1:
        notes.append(_HELD)
    return _told(problem, alpha, start, drops, (*notes, last), status)


def _drops(problem: TwoLayer, engine: Engine, first: float) -> tuple[list[Drop], FloatArray, Status]:
    """Drops from the loss `first` on until no neuron grows, the network then, and what kept it from the end.

    Where no direction lowers the loss, or none of the neurons ever comes to one that does, utilities are rounding, of
    numbers or of kinks, and what grew on them would take for ever.
    """
    import agf

    stats = getattr(engine.phases, "stats", {})
    state, drops, faces = engine.init(), list[Drop](), 0.0
    level = first
    while _ROUND * stats.get("dormant_steps", 0) + stats.get("loss_evaluations", 0) + _FACE * faces < _WORK:
        step = engine.step(state)
        if step.drop is None:
            failed = step.status if step.status is not None and step.status.failed else None
            return drops, _network(state), failed or Status.THEORY
        if level - step.drop.level > _ROUNDING * first:
            drops.append(step.drop)
        state, level = step.state, step.drop.level
        faces += (2.0 * problem.n_samples) ** (problem.n_inputs - 1)
        if agf.escape(problem, _network(state)).verdict in ("optimal", "spurious"):
            return drops, _network(state), Status.THEORY
    return drops, _network(state), Status.MAX_STEPS


def _network(state: State[Any]) -> FloatArray:
    """Parameters (H, P), dormant neurons as small as they are in the limit: they tell what can still be reached."""
    small = cartesian(state.directions, np.full(state.active.size, np.log(_ALPHA)))
    return np.where(state.active[:, None], state.params, small)


def _told(
    problem: TwoLayer,
    alpha: float | None,
    start: float,
    drops: tuple[Drop, ...],
    notes: tuple[str, ...],
    status: Status = Status.THEORY,
) -> Staircase:
    return Staircase(
        problem=problem.name,
        degree=2,
        clock=Clock(2, 0.0 if alpha is None else float(np.log(-np.log(alpha)))),
        start_level=start,
        drops=drops,
        status=status,
        settings=Settings(mode="limit"),
        arguments=problem.arguments,
        notes=notes,
    )
