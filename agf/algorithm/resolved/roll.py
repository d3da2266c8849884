"""Who joins, arrives and leaves along a curve on which all neurons are followed together; it changes names alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.observer import Observer
from agf.algorithm.resolved.members import Members, Network
from agf.algorithm.resolved.path import Change, Path
from agf.algorithm.task import Task
from agf.arrays import FloatArray
from agf.contract.flow_system import Snapshot
from agf.records.state import State


class Roll:
    """The last state, and who is active in it.

    Parameters
    ----------
    task : Task
        Of which run.
    path : Path
        Where states are kept, and who came and went.
    stats : dict[str, float]
        Counters to add to.
    observer : Observer or None
        Who is shown every state.
    """

    def __init__(self, task: Task, path: Path, stats: dict[str, float], observer: Observer | None) -> None:
        init, settings = task.init, task.settings
        assert settings.joining is not None  # in this mode it is never left out
        self.problem, self.path, self.observer = task.problem, path, observer
        nobody = np.zeros(init.width, dtype=bool)
        self.state: State = State(0.0, nobody, init.directions, init.log_norms, task.start_level)
        self.alive = np.isfinite(init.log_norms)
        self.members = Members(task.problem, init.width, settings.threshold == "natural", settings.joining, stats)
        path.states.append(self.state)

    def call(self, times: FloatArray, losses: FloatArray, shots: Snapshot) -> None:
        """Who has joined, arrived and left by each of these times; it changes names alone."""
        log_norms = shots.log_norms
        idle = self.members.idle(self.state.active, self.alive, log_norms)
        for k, (time, loss) in enumerate(zip(times.tolist(), losses.tolist(), strict=True)):
            before = self.state
            self.state = State(time, before.active, shots.directions[k], log_norms[k], loss)
            if not idle[k]:
                self._change(before)
                idle[k:] = self.members.idle(self.state.active, self.alive, log_norms[k:])
            self.path.keep(self.state)
            if self.observer is not None:
                self.observer(self.state, None)

    def _change(self, before: State) -> None:
        """Who has joined, arrived and left since the state before."""
        state = self.state
        network = Network(self.problem, before.active, self.alive, state.directions, state.log_norms)
        gaps, low = self.members.joins(network), self.members.leaves(network)
        new, gone = np.flatnonzero(gaps >= 0.0), np.flatnonzero(low > 0.0)
        self.state = state = replace(state, active=(before.active | (gaps >= 0.0)) & ~(low > 0.0))
        if new.size:
            utility = self.problem.utility(state.directions[new], new, network.residual())[0]
            thresholds = state.log_norms.copy()
            thresholds[new] -= gaps[new]
            self.members.join(new, thresholds, utility)
        if gone.size:
            self.members.leave(gone)
            self.path.events.append(Change(state.time, gone, False, np.zeros(0), state))
        for k in self.members.arrive(state.log_norms):  # since the last look log norms have grown about evenly
            grown = np.array([before.log_norms[k], state.log_norms[k]])
            at = float(np.interp(self.members.grown[k], grown, [before.time, state.time]))
            self.path.events.append(Change(at, np.array([k]), True, self.members.utility[[k]], state))
