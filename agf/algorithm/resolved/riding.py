"""The time-resolved prediction: active neurons flow in real time, dormant ones ride on the changing residual.

[AGF] Algorithm 1 lets the active neurons settle in no time. Here they take their time: dormant neurons stay independent
of one another and without influence on the residual, and a neuron joins the active flow at a small fraction of the norm
R* at which it would saturate. Drops may then overlap, and the loss curve itself is predicted. While the active set is
settled it is not stepped: the dormant neurons alone cover the plateau, in the long steps of `dormant.cross`.
"""

from __future__ import annotations

import time as wall

from agf.algorithm.conditioning import condition_drops, mark_forks, mark_lost
from agf.algorithm.deviation import of_curve
from agf.algorithm.observer import Observer
from agf.algorithm.outcome import staircase
from agf.algorithm.resolved.given import Given
from agf.algorithm.resolved.motion import Motion
from agf.algorithm.resolved.plateau import Plateau
from agf.algorithm.resolved.run import Run
from agf.algorithm.resolved.tolerances import decades
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.init import Init
from agf.integrators import MarchError
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.stopping.ending import failure


def resolve_riding(
    problem: Problem, init: Init, settings: Settings, observer: Observer | None, kept: Checkpoint | None
) -> Staircase:
    """The predicted curve and its drops; see `agf.algorithm.resolved.resolve.resolve`, whose contract this keeps."""
    began = wall.perf_counter()
    run = Run(Given.of(problem, init, settings), observer)
    given = run.given

    def result(status: Status, drops: list[Drop]) -> Staircase:
        times, losses, _ = run.path.points()
        curve = given.clock.flow(times), losses
        stairs = staircase(given, status, drops, stats=run.stats, notes=run.notes, began=began, curve=curve)
        return of_curve(stairs, decades(problem, settings), run.drift, run.path.slipped(drops))

    if kept is not None:
        run.observer = kept.watching(observer, lambda: result(Status.INTERRUPTED, run.drops()))
    with guard(problem, lambda: result(Status.ERROR, run.drops()) if len(run.path.times) > 1 else None):
        try:
            status = go(run)
            run.warn()
            drops = mark_lost(run.drops(), given.clock.flow_time(run.lost))
            measured = settings.conditioning is not False and status is not Status.INTERRUPTED
            if measured and drops and drops[-1].half_time > 0.0:
                middle = 0.5 * (drops[-1].level + (drops[-2].level if len(drops) > 1 else given.start_level))
                probe = Run(Given.of(problem, init, settings, probe=True, floor=middle))
                probe.follow(run)
                ended = go(probe)
                times, losses, _ = probe.path.curve()
                told, notes = condition_drops(drops, given.start_level, given.clock.flow(times), losses, ended)
                drops, forks = mark_forks(mark_lost(told, given.clock.flow_time(run.lost)), run.waiting.forked)
                run.notes.extend([*notes, *forks])
                for name, value in probe.stats.items():
                    run.stats[name] += value
                status = ended if ended is Status.INTERRUPTED else status
            found = result(status, drops)
        except KeyboardInterrupt:  # between the passes, or while drops are looked for: the curve is there
            found = result(Status.INTERRUPTED, run.drops())
        if observer is not None:
            for drop in found.drops:  # which they are is known in the end
                observer(run.path.state(drop.accelerated_time), drop)
        return found


def go(run: Run) -> Status:
    """Alternate plateaus and stretches of flow until nothing is left to happen."""
    if run.given.start_level == 0.0:  # losses are told from one another by shares of it
        return Status.FITTED
    plateau, motion = Plateau(run), Motion(run)
    try:
        run.start()
        status = None
        while status is None:
            status = plateau.cross() if run.settled else motion.flow()
    except KeyboardInterrupt:
        run.path.cut()
        return Status.INTERRUPTED
    except MarchError as error:
        run.notes.append(str(error))
        return failure(error)
    return status
