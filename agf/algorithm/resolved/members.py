"""Which neurons flow in real time: when a dormant one joins them, when an active one leaves, and when it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.algorithm.crossings import TURN
from agf.algorithm.threshold import ExactThreshold
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.interaction import SOME
from agf.contract.problem import Problem
from agf.coordinates.aligned import groups, homogeneous, log_group_norms
from agf.init import Init
from agf.records.state import State
from agf.sphere import normalize

#: Log norm, over that at which it would join, below which an active neuron has returned to dormancy. Result: of when it
#: turns on its own again; at -0.2 neurons would leave and join over and over, at -23 they drag steps down long after
#: they stopped to matter.
_LEAVES = np.log(0.1)
#: Fraction of R* at which a neuron that joined is counted to the drop under way. Result: of which neurons are named in
#: a drop; many may share a feature, and each stays below R* then; at 1 few would be named, at 0.03 those that merely
#: pass by.
_ARRIVED = 0.3
#: Log norm below the smallest norm at which a neuron ever joined from which on dormant ones are watched for joining.
#: Result: one that would join at a norm smaller by more is seen too late; at 0.4 many would be, at 40 all are looked at
#: after every step.
_WATCH = 4.0
#: Ratio of what the leading order leaves out at two norms of ratio 2, below which it is of first order in them.
#: Derived: that is 2 at first order and 4 at second.
_FIRST = 2.0**1.5
#: Log norm by which active neurons that are still small may grow, at their present rate, on any plateau. Result: a
#: plateau on which one grows by more is stepped through; at 5 a drop of its own would be passed over, at 0.05 a plateau
#: is seldom one.
STILL = 0.5


@dataclass(frozen=True)
class Network:
    """All neurons at one time, for `Members`.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    active : bool ndarray, shape (H,)
        Those that make the residual.
    alive : bool ndarray, shape (H,)
        Those that are not exactly zero.
    directions : float ndarray, shape (H, P)
        Unit rows.
    log_norms : float ndarray, shape (H,)
        Natural logs of the norms.
    pulls : tuple[float ndarray, float ndarray] or None
        What the pull on each neuron has along it, and its length, (H,) each, where a step has told.
    """

    problem: Problem
    active: BoolArray
    alive: BoolArray
    directions: FloatArray
    log_norms: FloatArray
    pulls: tuple[FloatArray, FloatArray] | None = None

    def residual(self) -> Any:
        """What the active neurons leave to fit."""
        rows = np.flatnonzero(self.active)
        return self.problem.residual(self.directions[rows] * np.exp(self.log_norms[rows])[:, None], rows)


def leading(problem: Problem, init: Init, joining: float) -> float:
    """Factor of the joining fraction, at most 1, down to which dormant neurons are what their leading order says.

    Dormant neurons move by the leading order of their activation. What that leaves out is of second order in the norm
    where the activation is odd, as what joining leaves out is. Where it is of first order (gelu, silu) neurons join
    where it is no more than that, joining^2 of the pull: it turns them, and small components decide later drops.
    """
    rows = np.flatnonzero(np.isfinite(init.log_norms))[:SOME]
    residual = problem.residual(*problem.empty)
    ahead = normalize(problem.utility(init.directions[rows], rows, residual)[1])
    plain = problem.utility(ahead, rows, residual)[1]
    size = np.linalg.norm(plain, axis=1)
    threshold = ExactThreshold(problem, True, *problem.empty, log_factor=float(np.log(joining)))
    log_norms = threshold.log_radius(size / problem.degree, threshold.log_self_interaction(ahead, rows))
    told = np.isfinite(log_norms) & (size > 0)
    if not problem.smooth or not told.any():
        return 1.0

    def beyond(shrunk: float) -> float:
        """Part of the pull that is of higher order, at so much smaller norms."""
        full = problem.pull(ahead[told], log_norms[told] - np.log(shrunk), rows[told], residual)
        return float(np.max(np.linalg.norm(full - plain[told], axis=1) / size[told]))

    here = beyond(1.0)
    first_order = here < _FIRST * beyond(2.0)
    return min(joining**2 / here, 1.0) if first_order and here > 0 else 1.0


class Members:
    """The bookkeeping of who joins, arrives and leaves; the active set itself is in the `State`.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    width : int
        How many.
    natural : bool
        Whether thresholds are natural norms.
    joining : float
        Fraction of R* at which a neuron joins.
    stats : dict[str, float]
        Counters to add to.
    """

    def __init__(self, problem: Problem, width: int, natural: bool, joining: float, stats: dict[str, float]) -> None:
        # Alone, without the active neurons: the norm at which a neuron starts to matter need not be exact.
        self.threshold = ExactThreshold(problem, natural, *problem.empty, log_factor=float(np.log(joining)))
        self.problem, self.joining, self.stats = problem, joining, stats
        self.lowest = np.inf  # smallest log norm at which a neuron joined
        self.grown = np.full(width, -np.inf)  # log norm at which a neuron that joined counts in a drop
        self.arriving = np.zeros(width, dtype=bool)  # joined, and not yet counted
        self.utility = np.zeros(width)  # at which it joined
        self.grouped = groups(problem) and homogeneous(problem)

    def small(self, state: State) -> BoolArray:
        """Active neurons that have not grown up, (H,): they still ride, as dormant ones do."""
        return state.active & (state.log_norms < self.grown)

    def join(self, neurons: IntArray, log_norms: FloatArray, utility: FloatArray) -> None:
        """Note neurons (k,) that join, of log norms (H,), with their utilities (k,)."""
        self.lowest = min(self.lowest, float(log_norms[neurons].min()))
        self.grown[neurons] = log_norms[neurons] + np.log(_ARRIVED / self.joining)
        self.arriving[neurons] = True
        self.utility[neurons] = utility

    def leave(self, neurons: IntArray) -> None:
        """Note neurons (k,) that leave."""
        self.arriving[neurons] = False

    def arrive(self, log_norms: FloatArray) -> IntArray:
        """Neurons that joined and are by now, at log norms (H,), so large that the drop is theirs; once each."""
        here = np.flatnonzero(self.arriving & (log_norms >= self.grown))
        self.arriving[here] = False
        return here

    def idle(self, active: BoolArray, alive: BoolArray, log_norms: FloatArray) -> BoolArray:
        """Which of these rows of log norms (k, H) are such that nobody can join, leave or arrive there, (k,)."""
        near = ~active & alive & (log_norms > self.lowest - _WATCH)
        low = active & (log_norms < self.lowest + _LEAVES)
        here = self.arriving & (log_norms >= self.grown)
        return ~(near | low | here).any(axis=1) if np.isfinite(self.lowest) else np.zeros(len(log_norms), dtype=bool)

    def joins(self, network: Network) -> FloatArray:
        """Log norm over the one at which it would join of each dormant neuron that may, (H,); -inf for others.

        The norm is that of its group: what k aligned neurons do to the residual before they join is k times what one
        of them does.
        """
        directions, log_norms = network.directions, network.log_norms
        out = np.full(log_norms.shape, -np.inf)
        near = (log_norms > self.lowest - _WATCH) | np.isinf(self.lowest)  # none has joined: all are watched
        rows = np.flatnonzero(~network.active & network.alive & near)
        if rows.size:
            gaps = self._gaps(network, rows)
            if self.grouped and np.max(gaps) + 0.5 * np.log(rows.size) >= 0:  # else no group can be so far
                group = log_group_norms(directions[rows], log_norms[rows], np.arange(rows.size), TURN)
                gaps = gaps + group - log_norms[rows]
            out[rows] = gaps
        return out

    def _gaps(self, network: Network, rows: IntArray) -> FloatArray:
        """Log norm over the one at which it would join of each of these neurons (k,), alone."""
        directions, log_norms = network.directions[rows], network.log_norms[rows]
        if network.pulls is None:
            self._count()
            return self.threshold.gaps(directions, log_norms, rows, network.residual())[0]
        along, size = (pull[rows] for pull in network.pulls)
        heights = self.threshold.above(directions, log_norms, rows, size / self.problem.degree)
        return np.where(along > 0, heights, -np.inf)

    def large(self, network: Network) -> tuple[IntArray, FloatArray, FloatArray]:
        """Dormant neurons (k,) that are above the norms at which they join, by how much in log norm, and utilities.

        Those without a positive utility too: they shrink and turn for what they are themselves, which is not left out.
        """
        rows = np.flatnonzero(~network.active & network.alive)
        if rows.size == 0:
            return rows, np.zeros(0), np.zeros(0)
        self._count()
        directions, log_norms = network.directions[rows], network.log_norms[rows]
        heights, utility = self.threshold.heights(directions, log_norms, rows, network.residual())
        above = heights >= 0.0
        return rows[above], heights[above], utility[above]

    def leaves(self, network: Network) -> FloatArray:
        """Log of how far each active neuron has shrunk below the norm at which it would leave, (H,)."""
        directions, log_norms = network.directions, network.log_norms
        out = np.full(log_norms.shape, -np.inf)
        low = np.flatnonzero(network.active & (log_norms < self.lowest + _LEAVES))
        if low.size:
            low = np.setdiff1d(low, self.problem.permanent)
        if low.size:
            utility, gradient = self.problem.utility(directions[low], low, network.residual())
            self._count()
            aligned = np.linalg.norm(gradient, axis=1) / self.problem.degree
            radius = self.threshold.log_radius(aligned, self.threshold.log_self_interaction(directions[low], low))
            out[low] = np.where(utility < 0, radius + _LEAVES - log_norms[low], -np.inf)
        return out

    def _count(self) -> None:
        self.stats["utility_evaluations"] = self.stats.get("utility_evaluations", 0) + 1
