"""The staircase of infinitely wide (leaky) ReLU networks of one output as the initialization vanishes, without weights.

Neurons align in a time that does not depend on the scale, while drops wait for its log: so the dormant neurons of a
network of infinite width are, for the drops, one neuron at every end of the alignment ([BF24] section 7 in words of
[AGF]: the extremal vectors that attract), and the staircase is that of these few. Whoever starts dead stays so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import agf  # by the front door: prediction and landscape stand above networks
from agf.arrays import FloatArray, positive
from agf.clock import Clock
from agf.errors import NoTheory, RequestError, explain
from agf.records.settings import Settings
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.sphere import cartesian

if TYPE_CHECKING:
    from agf import Engine, Escape, State
    from agf.networks.two_layer import TwoLayer

#: Scale of the few neurons. Derived: any, since mode "limit" takes it to 0.
_ALPHA = 1e-12
#: Fall of the loss, relative to that at the start, that is none. Derived: what the cost flow of the engine may leave.
_ROUNDING = Settings.rtol
#: Tolerance of the staircase. Cost: of implicit steps, whose tolerance goes with its root; explicit ones have that of
#: sharp kinks (`sharp_system.RTOL_SHARP`).
_RTOL = 1e-8
#: Angle by which dormant neurons are turned after every drop of a repeat, once to either side. Derived: ten times what
#: carried directions are known to, the root of `_RTOL`.
_NUDGE = 10 * _RTOL**0.5
#: Part of a drawn vector across w below which there is none: in one column. Derived: rounding is far below, and a draw
#: in two columns or more far above.
_ASIDE = 1e-9
#: Difference of a time between staircase and repeats, relative, and of a level, over the height of its drop, from which
#: on it is another drop. Derived: ten times the nudge, in proportion to which everything moves where nothing forks.
_SAME = 10 * _NUDGE
#: Work after which no further drop is looked for, in evaluations of the loss, and that of a staircase with its two
#: repeats. Limit: some ten seconds; a flow that began within it ends by its own limit, and the drops so far are kept.
_WORK = 100_000
#: Evaluations of the loss that take as long as a round of events of the dormant neurons, and as long as a face of the
#: cones, of which (2 n)^(d - 1) are looked at to say what can still be reached. Cost: they say when to stop.
_ROUND, _FACE = 10, 0.1


def staircase(problem: TwoLayer, alpha: float | None = None) -> Staircase:
    """The drops at m = infinity, lambda -> 0, in units of -log lambda; flow times where alpha = lambda is given.

    Raises NoTheory for other networks, losses that are not half-squared, several outputs, and too many cones.
    """
    unit = np.nan
    if alpha is not None:
        unit = -np.log(positive(alpha, "alpha", where="theory"))
        if not unit > 0:
            message = "alpha must be below 1: time is in units of -log alpha."
            raise RequestError(explain(message, where="theory", found=alpha))
    _refuse(problem)
    found = agf.landscape(problem, starts=1)  # of use only where it is complete
    if not found.complete:
        raise _none(problem, "has too many activation cones to list where neurons align.")
    ends = found.ends
    start = found.level
    if not ends:
        return _told(problem, alpha, start, (), ("nothing is left to fit",))
    few = problem.of_width(len(ends)).rounded(0.0)
    init = agf.Init.scaled(np.array([one.direction for one in ends]), _ALPHA)

    def engine() -> Engine:
        return agf.Engine(few, init, agf.Settings(mode="limit", rtol=_RTOL))

    first = engine()
    found_drops, network, status = _drops(few, first, start)
    checked = status is Status.THEORY and 3 * _work(first) <= _WORK
    angles, most = (_NUDGE, -_NUDGE) if checked and found_drops else (), len(found_drops) + 1
    repeats = [_drops(few, engine(), start, angle, most, 1 / 3)[0] for angle in angles]
    repeats = repeats or [found_drops[:1]]  # nothing is carried before the first
    drops = tuple(
        replace(
            drop,
            time=drop.accelerated_time * unit,
            half_time=drop.accelerated_time * unit,
            label=", ".join(ends[int(i)].label for i in drop.neurons),
            conditioning=moved,
        )
        for drop, moved in zip(found_drops, _moved(found_drops, repeats, start), strict=True)
    )
    last = (
        f"The end is {_judged(agf.escape(few, network), np.sqrt(_RTOL) * ends[0].utility)}."
        if status is Status.THEORY
        else f"Not the end: these {len(drops)} drops are the first, and a prediction of given weights goes on."
    )
    notes = [f"m = infinity, lambda -> 0: the {len(ends)} ends of alignment stand for all neurons."]
    sure = sum(not np.isinf(drop.conditioning) for drop in drops)
    if not checked:
        notes.append("Whether later drops hang on a fork was not looked at, for the work it takes: their bars are inf.")
    elif sure < len(drops) or any(len(again) > sure for again in repeats):
        notes.append(
            f"Fork: dormant neurons turned by {_NUDGE:g} after each drop lead elsewhere after drop {sure}: "
            "what follows is one of several courses."
        )
    return _told(problem, alpha, start, drops, (*notes, last), status)


def _judged(end: Escape, noise: float) -> str:
    """The verdict in a sentence, utilities below `noise` being none: the active neurons are at rest to that."""
    if end.verdict != "leaving" or end.reached > noise:
        return end.sentence
    if end.utility <= noise:
        return f"optimal at any width: no direction has a utility above {noise:.1g}, to which levels are known"
    assert end.best is not None
    return (
        f"spurious: {end.best.label} would help most (utility {end.utility:.3e}), and neurons reach less than "
        f"{noise:.1g}, to which levels are known"
    )


def _work(engine: Engine) -> float:
    """What an engine has done, in evaluations of the loss."""
    stats = getattr(engine.phases, "stats", {})
    return _ROUND * stats.get("dormant_steps", 0) + stats.get("loss_evaluations", 0)


def _moved(drops: list[Drop], repeats: list[list[Drop]], first: float) -> list[float]:
    """How much each time moves in the repeats, relative; inf from the first drop on that is another one there."""
    moved, before = list[float](), first
    for k, drop in enumerate(drops):
        apart = [_apart(drop, again[k], before) if k < len(again) else np.inf for again in repeats]
        largest = max(apart, default=0.0)
        if largest > _SAME:
            return [*moved, *[np.inf] * (len(drops) - k)]
        moved.append(largest)
        before = drop.level
    return moved


def _apart(drop: Drop, other: Drop, before: float) -> float:
    late = abs(other.accelerated_time / drop.accelerated_time - 1.0)
    return late if abs(other.level - drop.level) <= _SAME * (before - drop.level) else np.inf


def _refuse(problem: TwoLayer) -> None:
    """Raise NoTheory for another network than those of this theory."""
    if problem.permanent:
        raise _none(problem, "has no closed form with an output bias, which moves before any neuron grows.")
    if problem.activation.name not in ("relu", "leaky-relu") or problem.n_outputs != 1:
        raise _none(problem, "has a closed form for relu and leaky-relu neurons with one output.")
    if not problem.quadratic_loss:
        name = problem.loss.name
        raise _none(problem, f"has no closed form for the {name} loss, which separable classes let fall for ever.")


def _none(problem: TwoLayer, message: str) -> NoTheory:
    return NoTheory(explain(message, where=f"problem {problem.name!r}", remedy='Use mode="limit".'))


def _drops(
    problem: TwoLayer, engine: Engine, first: float, nudge: float = 0.0, most: float = np.inf, share: float = 1.0
) -> tuple[list[Drop], FloatArray, Status]:
    """Drops from the loss `first` on until no neuron grows, the network then, and what kept it from the end.

    nudge : angle by which dormant neurons are turned after every drop.  most : drops that are enough.  share : of the
    work that may be done.

    Where no direction lowers the loss, or none of the neurons ever comes to one that does, utilities are rounding, of
    numbers or of kinks, and what grew on them would take for ever.
    """
    state, drops, faces = engine.init(), list[Drop](), 0.0
    level = first
    while len(drops) < most and _work(engine) + _FACE * faces < share * _WORK:
        step = engine.step(state)
        if step.drop is None:
            failed = step.status if step.status is not None and step.status.failed else None
            return drops, _network(state), failed or Status.THEORY
        if level - step.drop.level > _ROUNDING * first:
            drops.append(step.drop)
        state, level = _nudged(step.state, nudge), step.drop.level
        faces += (2.0 * problem.n_samples) ** (problem.n_inputs - 1)
        if agf.escape(problem, _network(state)).verdict in ("optimal", "spurious"):
            return drops, _network(state), Status.THEORY
    return drops, _network(state), Status.MAX_STEPS


def _nudged(state: State[Any], angle: float) -> State[Any]:
    """The state with input weights of dormant neurons turned by an angle, to a side that is drawn once and for all."""
    dormant = np.flatnonzero(~state.active)
    if angle == 0.0 or dormant.size == 0:
        return state
    directions, w = state.directions.copy(), state.directions[dormant, :-1]
    squares = np.sum(w**2, axis=1)[:, None]
    aside = np.random.default_rng(0).standard_normal(w.shape)
    aside -= np.sum(aside * w, axis=1)[:, None] / np.where(squares > 0, squares, 1.0) * w
    sizes = np.linalg.norm(aside, axis=1)[:, None]
    turns = sizes > _ASIDE
    turned = np.cos(angle) * w + np.sin(angle) * np.sqrt(squares) * aside / np.where(turns, sizes, 1.0)
    directions[dormant, :-1] = np.where(turns, turned, w)
    return replace(state, directions=directions)


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
