"""When the next neuron would activate, as cost minimization asks again and again while the active neurons move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from agf.algorithm.dormant import Rounds, wait
from agf.algorithm.field import Batch
from agf.algorithm.threshold import Threshold
from agf.arrays import FloatArray, IntArray
from agf.integrators import MarchError


@dataclass
class NextActivation:
    """Flow time to the activation of one of the dormant neurons, were the residual frozen; roughly.

    Parameters
    ----------
    dormant : Batch
        The neurons that wait; their residual is that of each question.
    threshold : Threshold
        What each has to reach; it learns from one question for the next.
    stop : float
        Flow time beyond which it does not matter when.
    stats : dict[str, float]
        Counters to add to.
    """

    dormant: Batch
    threshold: Threshold
    stop: float
    stats: dict[str, float]
    rounds: Rounds = field(default_factory=Rounds)  # once all questions have spent these, the last answer stays
    due: float = np.inf

    def after(self, theta: FloatArray, neurons: IntArray, enough: float = np.inf) -> float:
        """Seen from active neurons (m,) at theta (m, P); inf beyond `stop`, and `enough` where it is later than that:
        how the dormant ones go on from there is not followed then."""
        if self.rounds.left > 0:
            found = self._ask(theta, neurons, enough)
            if self.rounds.left > 0 and not enough <= found < np.inf:
                self.due = found
            elif self.rounds.left > 0:
                return found
        return self.due

    def _ask(self, theta: FloatArray, neurons: IntArray, enough: float) -> float:
        if self.dormant.neurons.size == 0:
            return np.inf
        clock = self.dormant.clock
        batch = replace(self.dormant, residual=self.dormant.problem.residual(theta, neurons))
        stop, enough = (float(clock.accelerated(end)) if np.isfinite(end) else np.inf for end in (self.stop, enough))
        try:
            time, self.threshold = wait(
                batch, self.threshold, stop=stop, enough=enough, stats=self.stats, rounds=self.rounds
            )
        except MarchError:
            return np.inf  # the next dormant phase meets it again, and reports it
        return clock.flow_time(time)
