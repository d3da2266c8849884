"""The active set is settled: the dormant neurons alone cross the plateau, on the frozen residual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.resolved.members import STILL
from agf.algorithm.resolved.run import Run
from agf.clock import charge
from agf.contract.order import Order
from agf.records.status import Status
from agf.rounding import TINY

#: Log norms before joining at which the end of a plateau is drawn. Cost: points of the curve.
_BEND = (4.0, 3.0, 2.0, 1.5, 1.0, 0.7, 0.4, 0.2, 0.0)


class Plateau:
    """How a plateau is crossed, in the long steps of `dormant.cross`.

    Parameters
    ----------
    run : Run
        Of which pass; its state moves on to where a neuron joins.
    """

    def __init__(self, run: Run) -> None:
        self.given, self.run = run.given, run

    def cross(self) -> Status | None:
        """Dormant neurons on the frozen residual until one joins; the status when none will."""
        given, run, state = self.given, self.run, self.run.state
        dormant = np.flatnonzero(~state.active & np.isfinite(state.log_norms))
        if given.settings.max_drops is not None and len(run.drops()) > given.settings.max_drops:
            return Status.MAX_DROPS  # the last one found may not be over
        if state.level <= given.tolerated:
            return Status.FITTED
        decides = run.waiting.order(state, dormant)
        if decides is Order.NONE:
            return self._none_joins()
        if decides is Order.NEXT:
            run.join(dormant, np.zeros(dormant.size))  # no plateau to skip: all flow in real time from here
            return None
        if dormant.size == 0:
            return self._none_joins()
        small, left = np.flatnonzero(run.members.small(state)), run.gradients_left
        found = run.waiting.next(state, small, given.tolerances.plateau, max(given.stop - state.time, 0.0), left)
        if isinstance(found, Status):
            if found is Status.MAX_TIME and np.isfinite(given.stop):
                run.path.add(given.stop, state.level, 0.0)
                return found
            return self._none_joins() if found in (Status.MAX_TIME, Status.NO_GROWTH) else found
        log_norms = found.state.log_norms
        if not (log_norms[small] <= run.members.grown[small] + STILL).all():
            # They turned to faster growth on the way: the flow goes on, and is not asked again too soon.
            run.settled, run.moving = False, state.time + 0.5 * found.time
            return None
        run.state = found.state
        log_norm = float(log_norms[found.neurons].max())
        self._bend(float(found.utility.max()), log_norm, log_norm - float(state.log_norms[found.neurons].max()))
        if state.time == 0.0 and not run.waiting.forked:
            run.landing = run.state
        if run.planned is not None and run.planned.method == "rk45":
            run.planned = None  # a plateau is left more slowly than it was reached
        run.join(found.neurons, found.utility)
        return None

    def _bend(self, utility: float, log_norm: float, grown: float) -> None:
        """The last part of a plateau, which the loss leaves as (rho / rho now)^kappa by the law of a lone neuron.

        utility, log_norm : at which it joins.  grown : its log norm over that at which the plateau begins, where its
        part of the loss is in the level.
        """
        run, state, problem = self.run, self.run.state, self.given.problem
        theta = state.directions * np.exp(np.maximum(state.log_norms, -700.0))[:, None]
        alive = np.flatnonzero(np.isfinite(state.log_norms))
        level, loss = state.level, float(problem.loss_grad(theta[alive], alive)[0])
        kappa = problem.degree
        before = np.array(_BEND)
        left = charge(np.full(before.shape, log_norm), log_norm - before, kappa) / (kappa * utility)
        log_scale = self.given.clock.log_scale
        times = state.time - left * np.exp(-log_scale)
        speeds = kappa**2 * utility * np.exp((kappa - 2) * (log_norm - before) + log_scale)
        if grown > before[0]:
            # What is skipped may be so long that a cubic on the slopes at its ends would swing: it is level.
            run.path.slopes[-1] = speeds[0] = 0.0
        at_start, gained = np.exp(-kappa * grown), (level - loss) / max(-np.expm1(-kappa * grown), TINY)
        for time, gap, speed in zip(times, before, speeds, strict=True):
            if gap < grown and time > run.path.times[-1]:
                part = gained * np.exp(-kappa * gap)
                run.path.add(float(time), float(level + gained * at_start - part), float(-part * speed))
        run.state = replace(state, level=loss)

    def _none_joins(self) -> Status | None:
        """What follows where no neuron will join any more: the flow of those that are active, to its end."""
        if not self.run.state.active.any():
            return Status.NO_GROWTH
        self.run.last, self.run.settled = True, False
        return None
