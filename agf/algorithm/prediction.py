"""Predictions: the engine driven to its end, in the mode that was asked for, from one start or from many."""

from __future__ import annotations

import os
import time as wall
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from agf.algorithm.conditioning import condition_staircase, perturb
from agf.algorithm.departures.symmetry import HANDED
from agf.algorithm.deviation import Deviation
from agf.algorithm.engine import Engine
from agf.algorithm.observer import Observer
from agf.algorithm.outcome import staircase
from agf.algorithm.smallness import of_start, refuse_size
from agf.algorithm.task import Task
from agf.algorithm.untie import untie
from agf.arrays import USUAL
from agf.asked import asked
from agf.contract.admission import admit
from agf.contract.blame import blame, guard, guarded
from agf.contract.phases import Phases
from agf.contract.problem import Problem
from agf.contract.raised import told
from agf.coordinates.stand_ins import tied_copies
from agf.errors import AgfError, ComputationError
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.state import State
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase


@asked
@guarded
@np.errstate(**USUAL)
def predict(
    problem: Problem,
    init: Init,
    *,
    mode: str | None = None,
    threshold: str | None = None,
    settle: str | None = None,
    horizon: float | None = None,
    rtol: float | None = None,
    tie_rtol: float | None = None,
    joining: float | None = None,
    max_drops: int | None = None,
    t_max: float | None = None,
    max_gradients: float | None = None,
    conditioning: bool | None = None,
    observer: Observer | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **others: Any,
) -> Staircase:
    """Predict the loss drops of `problem` trained by gradient flow from `init`.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        From where.
    mode : str, optional
        "auto" (default), Algorithm 1 where its assumption holds and resolved in time where it does not; "agf", finite
        alpha ([AGF] Algorithm 1), the default where `threshold`, `settle` or `horizon` is given; "limit", alpha -> 0 at
        degree 2 ([AGF] Algorithm 2, [PF23] Algorithm 1); or "resolved", where the active neurons flow in real time,
        which predicts the curve as well.
        Options that are None have the default of `Settings`.
    threshold : str, optional
        Norm at which a neuron activates: "natural", R* at which it saturates, or "unit", 1 as in the paper.
    settle : str, optional
        How long active neurons flow: "horizon", for as long as the next activation takes, or "converged".
    horizon : float, optional
        Multiple of that time (settle="horizon").
    rtol : float, optional
        Relative error of directions, log norms and losses, of one step.
    tie_rtol : float, optional
        Neurons whose activation times agree to this fraction of the elapsed phase activate together.
    joining : float, optional
        Fraction of R* at which a neuron joins the active flow (mode="resolved").
    max_drops : int, optional
        Most drops; None for no bound.
    t_max : float, optional
        Flow time to stop at; None for no bound. Its former name `max_time` is still taken.
    max_gradients : float, optional
        Gradients after which a pass is given up, with status "max_steps" (or "plateau") and the drops so far; None for
        a million where neurons are resolved in time. The second pass, which measures conditioning, may take as many
        again; phases that a problem brings are not cut inside one.
    conditioning : bool, optional
        Whether to measure, by a second prediction, how much each drop's time moves when the tolerance and the initial
        weights (mode "resolved": the joining fraction) change a little. None: in mode "resolved" only.
    observer : Observer or None, optional
        Called as observer(state, drop) after every step; it cannot change the run. `agf.watch()` shows progress.
    checkpoint : str or os.PathLike[str] or None, optional
        Run file written as drops come, so that a killed prediction leaves the last of them readable.
    others : Any
        Anything else is refused, with the name that was probably meant.

    Returns
    -------
    Staircase
        Also when the run ended early: its status says why, and `status.failed` whether that was a failure. An
        interrupt (Ctrl-C) returns what was computed, with status "interrupted".

    Raises
    ------
    RequestError
        For a wrong request.
    ProblemError
        For a plugin that breaks its contract.
    """
    settings = Settings.of(
        {
            "mode": mode, "threshold": threshold, "settle": settle, "horizon": horizon, "rtol": rtol,
            "tie_rtol": tie_rtol, "joining": joining, "max_drops": max_drops, "t_max": t_max,
            "max_gradients": max_gradients, "conditioning": conditioning, **others,
        }
    )  # fmt: skip
    return predict_with(problem, init, settings, observer, checkpoint)


def predict_with(
    problem: Problem,
    init: Init,
    settings: Settings,
    observer: Observer | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Staircase:
    """`predict` with its options in one record."""
    init = admit(problem, init, "predict")
    kept = Checkpoint(checkpoint, eager=True)
    with guard(problem):
        first = np.nan
        if settings.mode != "limit":
            first = refuse_size(problem, init)
        ties = tied_copies(problem, init)
        kept.whole = partial(untie, ties=ties, problem=problem, init=init)
        try:
            stairs = kept.whole(_predicted(ties.problem, ties.init, settings, first, observer, kept))
        except ComputationError as error:
            if error.partial is not None:
                error.partial = kept.whole(error.partial)
            raise
        if problem.layers is not None:
            from agf.rectified.verdict import add_verdict  # a tenth of a second to import, and few problems have kinks

            stairs = add_verdict(problem, stairs)
        stairs = of_start(stairs, first)
        if stairs.curve_times.size or not (settings.conditioning and stairs.drops):
            return stairs  # what is resolved in time measures its own
        if stairs.status is Status.INTERRUPTED:
            return stairs
        again = _predicted(ties.problem, *perturb(ties.init, settings), first, None, Checkpoint(None))
        return condition_staircase(stairs, again)


def _predicted(
    problem: Problem, init: Init, settings: Settings, first: float, observer: Observer | None, kept: Checkpoint
) -> Staircase:
    """In the mode that is asked for; first : loss of the initial weights."""
    if settings.mode == "resolved":
        from agf.algorithm.resolved.resolve import resolve

        return resolve(problem, init, settings, observer, kept)
    if settings.mode == "auto":
        from agf.algorithm.auto import auto

        def alternate(paper: Settings, watch: Observer | None, phases: Phases | None = None) -> Staircase:
            return _alternate(Engine.of(problem, init, paper, phases), watch, kept)

        return auto(problem, init, settings, first, observer, kept, alternate)
    if settings.mode == "limit":
        from agf.algorithm.limit import closed_form

        known = closed_form(problem, init, settings)
        if known is not None:
            return known
    engine = Engine.of(problem, init, settings)
    stairs = _alternate(engine, observer, kept)
    if settings.mode == "agf" and getattr(engine.phases, "symmetric", False):
        from agf.algorithm.resolved.resolve import resolve

        followed = resolve(problem, init, settings.within("resolved"), observer, kept)
        return replace(followed, notes=(HANDED, *followed.notes))
    return stairs


def _alternate(engine: Engine, observer: Observer | None, kept: Checkpoint) -> Staircase:
    """The drops of an engine until one of its steps ends the run; kept and handed back whatever ends it."""
    problem, phases = engine.problem, engine.phases
    began = wall.perf_counter()
    state = engine.init()
    drops: list[Drop] = []
    deviation = Deviation(problem, engine.clock, getattr(phases, "rates", None))
    task = Task(problem, engine.origin, engine.settings, engine.clock, state.level)
    stats, notes = getattr(phases, "stats", {}), getattr(phases, "notes", [])  # which phases may lack

    def result(status: Status) -> Staircase:
        told: Sequence[Drop] = drops
        if engine.settings.mode == "agf":
            least = float(problem.least_loss(engine.origin)) if status is Status.NO_CRITICAL_POINT else None
            told = deviation.barred(drops, task.start_level, least)
        return staircase(task, status, told, stats=stats, notes=notes, began=began)

    observer = kept.watching(observer, lambda: result(Status.INTERRUPTED))
    try:
        with guard(problem, lambda: result(Status.ERROR) if drops else None):
            return result(steps(engine, state, drops, deviation, observer))
    except KeyboardInterrupt:
        return result(Status.INTERRUPTED)


def steps(
    engine: Engine, state: State[Any], drops: list[Drop], deviation: Deviation, observer: Observer | None
) -> Status:
    """Round after round of Algorithm 1, the drops added to `drops` and to `deviation`; the status that ends them."""
    most = engine.settings.max_drops
    while most is None or len(drops) < most:
        settled, step = state, engine.step(state)
        state = step.state
        if step.drop is not None:
            if engine.settings.mode == "agf" and step.activated is not None:
                deviation.add(settled, step.activated, state, step.drop)
            drops.append(step.drop)  # last: an interrupt between the two leaves no drop without its measures
        if observer is not None:
            observer(state, step.drop)
        if step.status is not None:
            return step.status
    return Status.MAX_DROPS


@asked
@np.errstate(**USUAL)
def predict_many(
    problem: Problem,
    inits: Sequence[Init],
    *,
    mode: str | None = None,
    threshold: str | None = None,
    settle: str | None = None,
    horizon: float | None = None,
    rtol: float | None = None,
    tie_rtol: float | None = None,
    joining: float | None = None,
    max_drops: int | None = None,
    t_max: float | None = None,
    max_gradients: float | None = None,
    conditioning: bool | None = None,
    **others: Any,
) -> list[Staircase]:
    """`predict` from many initializations of one problem, in order.

    Where a problem has `many_phases`, the initializations share the work, and each result agrees with that of `predict`
    to rounding; it does not depend, not even in the last bit, on which others were asked for. Elsewhere this is a loop.

    Parameters
    ----------
    problem : Problem
        What is trained.
    inits : Sequence[Init]
        From where.
    mode : str, optional
        As in `predict`, as are all other options: "agf", "limit" or "resolved".
    threshold : str, optional
        Norm at which a neuron activates: "natural", R* at which it saturates, or "unit", 1 as in the paper.
    settle : str, optional
        How long active neurons flow: "horizon", for as long as the next activation takes, or "converged".
    horizon : float, optional
        Multiple of that time (settle="horizon").
    rtol : float, optional
        Relative error of directions, log norms and losses, of one step.
    tie_rtol : float, optional
        Neurons whose activation times agree to this fraction of the elapsed phase activate together.
    joining : float, optional
        Fraction of R* at which a neuron joins the active flow (mode="resolved").
    max_drops : int, optional
        Most drops; None for no bound.
    t_max : float, optional
        Flow time to stop at; None for no bound. Its former name `max_time` is still taken.
    max_gradients : float, optional
        Gradients after which a pass is given up, with status "max_steps" (or "plateau") and the drops so far; None for
        a million where neurons are resolved in time. The second pass, which measures conditioning, may take as many
        again; phases that a problem brings are not cut inside one.
    conditioning : bool, optional
        Whether to measure, by a second prediction, how much each drop's time moves when the tolerance and the initial
        weights (mode "resolved": the joining fraction) change a little. None: in mode "resolved" only.
    others : Any
        Anything else is refused, with the name that was probably meant.

    Returns
    -------
    list[Staircase]
        One for each initialization.

    Raises
    ------
    RequestError
        As `predict`.
    ProblemError
        As `predict`.
    KeyboardInterrupt
        When interrupted.
    """
    settings = Settings.of(
        {
            "mode": mode, "threshold": threshold, "settle": settle, "horizon": horizon, "rtol": rtol,
            "tie_rtol": tie_rtol, "joining": joining, "max_drops": max_drops, "t_max": t_max,
            "max_gradients": max_gradients, "conditioning": conditioning, **others,
        }
    )  # fmt: skip
    out = []
    for found in predict_each(problem, inits, settings):
        if isinstance(found, Exception):
            raise found
        out.append(found)
    return out


def predict_each(problem: Problem, inits: Sequence[Init], settings: Settings) -> Iterator[Staircase | Exception]:
    """The results of `predict_many` as they are computed; where one raises, its exception, and then the others.

    Raises RequestError before the first for a wrong request.
    """
    inits = [admit(problem, init, "predict") for init in inits]
    alone = settings.mode != "agf" or settings.conditioning  # the repeat of a prediction is its own
    try:
        many = None if alone or not inits else problem.many_phases(inits, settings)
    except AgfError:  # one of them may be to blame, and then says so itself
        many = None
    except Exception as error:
        guilty = blame(type(problem), error)
        place = f" in {guilty.place}" if guilty is not None else ""
        words = f"`many_phases` of problem {problem.name!r} raised {told(error)}{place}; each start is predicted alone."
        warnings.warn(words, stacklevel=2)
        many = None
    for init, phases in zip(inits, many or [None] * len(inits), strict=True):
        try:
            if phases is None:
                found = predict_with(problem, init, settings)
            else:
                first = refuse_size(problem, init)
                found = _alternate(Engine.of(problem, init, settings, phases), None, Checkpoint(None))
                found = of_start(found, first)
        except Exception as error:
            yield error
            continue
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        yield found
