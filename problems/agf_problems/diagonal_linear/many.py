"""Many initializations of a diagonal network at once.

The least-squares problems depend on the order of the coordinates only, not on where they started: initializations that
have learned the same coordinates in the same order share one fit, and their dormant phases are one array operation.
They part where their orders do, so that the whole is a walk through the tree of orders.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import agf
from agf.arrays import FloatArray, IntArray
from agf.batch import Move, Script
from agf.rounding import SUM
from agf_problems.diagonal_linear.mirror import Mirror
from agf_problems.diagonal_linear.phases import LEAD, DiagonalPhases
from agf_problems.diagonal_linear.signed_fit import SignedFit

#: Entries of X up to which predictions share work. Cost: a copy of the fit at every fork takes more memory beyond than
#: sharing saves time.
MAX_SIZE = 1 << 20


@dataclass
class _Group:
    """Initializations that took the same way through the tree.

    Parameters
    ----------
    members : int ndarray, shape (m,)
        Which.
    z : float ndarray, shape (m, d)
        Their signed coordinates.
    times : float ndarray, shape (m,)
        Their flow times.
    fit : SignedFit
        That of the parent, to be copied unless `last`.
    edge : float ndarray, shape (d,)
        Signs to minimize with.
    activations : list[agf.Activation]
        (m,) what brought them here.
    """

    members: IntArray
    z: FloatArray
    times: FloatArray
    fit: SignedFit
    last: bool
    edge: FloatArray
    activations: list[agf.Activation]


class DiagonalMany:
    """Scripts of many initializations of one diagonal network.

    Parameters
    ----------
    x : float ndarray, shape (n, d)
        Inputs.
    y : float ndarray, shape (n,)
        Targets.
    settings : agf.Settings
        As for `DiagonalPhases`.
    inits : Sequence[agf.Init]
        Where they start.
    """

    def __init__(self, x: FloatArray, y: FloatArray, settings: agf.Settings, inits: Sequence[agf.Init]) -> None:
        self._x, self._y, self._settings = x, y, settings
        alone = [DiagonalPhases(x, y, init, settings) for init in inits]
        self._starts = [phases.start() for phases in alone]
        mirrors = [phases.mirror for phases in alone]
        self._mirrors = np.array([[m.log_p, m.log_q, m.sign_p, m.sign_q] for m in mirrors]).swapaxes(0, 1)  # (4, S, d)
        self._clocks = [phases.clock for phases in alone]
        self._scales = np.array([clock.scale for clock in self._clocks])
        self._moves: list[list[Move]] = [[] for _ in inits]
        self._ends: list[agf.Status | None] = [None for _ in inits]

    def scripts(self) -> list[Script | None]:
        """One script each; None where coordinates tied that can add nothing, which `DiagonalPhases` sorts out."""
        count, d = len(self._starts), self._x.shape[1]
        everybody, nothing = np.arange(count), np.zeros(d)
        root = _Group(everybody, np.zeros((count, d)), np.zeros(count), SignedFit(self._x, self._y), True, nothing, [])
        stack = list(self._part(root, nothing))
        while stack:  # depth first: few fits are alive at once
            group = stack.pop()
            beta = self._settle(group)
            if beta is not None:
                stack.extend(self._part(group, beta))
        return [
            None if end is None else Script(clock, start, moves, end)
            for clock, start, moves, end in zip(self._clocks, self._starts, self._moves, self._ends, strict=True)
        ]

    def _mirror(self, members: IntArray, columns: IntArray) -> Mirror:
        """Starts of these coordinates of these initializations, (m * k,), members slowest."""
        return Mirror(*self._mirrors[:, members[:, None], columns].reshape(4, -1))

    def _part(self, group: _Group, beta: FloatArray) -> Iterator[_Group]:
        """The dormant phase of a group that has settled at beta (d,): the groups of those that go on together."""
        members, z, elapsed, fit, n = group.members, group.z, group.times, group.fit, self._y.size
        v = fit.pull / n
        columns = np.flatnonzero((v != 0.0) & (beta == 0.0))
        if columns.size == 0:
            self._finish(members, agf.Status.FITTED)
            return
        signs, speeds = np.sign(v[columns]), np.abs(v[columns])
        shape = (members.size, columns.size)
        mirror = self._mirror(members, columns)
        heights = mirror.height(z[:, columns].ravel(), np.tile(signs, members.size)).reshape(shape)
        parts = fit.parts(columns, heights)
        if self._settings.threshold == "unit":
            target = mirror.height_of_norm(0.0)
        else:
            sizes = speeds * n / fit.distance(columns) * np.where(parts > 0.0, parts, 1.0)
            target = mirror.height_of_coefficient(sizes.ravel())
        times = np.where(parts > 0.0, np.maximum(target.reshape(shape) - heights, 0.0) / speeds, np.inf)
        growing = np.isfinite(times)  # an infinite height belongs to a coordinate without a part of this sign
        some = growing.any(axis=1)
        self._finish(members[~some], agf.Status.NO_GROWTH)
        members, z, elapsed = members[some], z[some], elapsed[some]
        times, heights, growing = times[some], heights[some], growing[some]
        limit = self._settings.max_drops
        if members.size == 0 or (limit is not None and len(self._moves[members[0]]) >= limit):
            self._finish(members, agf.Status.MAX_DROPS)
            return
        first = times.argmin(axis=1)
        steps = np.take_along_axis(times, first[:, None], axis=1)
        slack = self._settings.tie_rtol * steps + SUM * np.where(growing, np.abs(heights), 0.0) / speeds
        tied = growing & (times <= steps + slack)
        lead = LEAD if self._settings.threshold == "natural" else 0.0
        halves = np.maximum(steps[:, 0] - lead / speeds[first], 0.0)
        others = np.where(tied, np.inf, times)
        second = others.argmin(axis=1)
        waits = np.maximum(np.take_along_axis(others, second[:, None], axis=1) - steps, 0.0)[:, 0]

        patterns, which = np.unique(tied, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            ours = np.flatnonzero(which == k)
            chosen = columns[pattern]
            edge = np.where(beta != 0.0, group.edge, 0.0)
            edge[chosen] = signs[pattern]
            moved = z[ours]
            moved[:, columns] += v[columns] * steps[ours]
            scales = self._scales[members[ours]]
            now, half = (elapsed[ours] + steps[ours, 0]) / scales, (elapsed[ours] + halves[ours]) / scales
            activations = [
                agf.Activation(
                    float(now[i]),
                    float(half[i]),
                    chosen,
                    0.5 * speeds[pattern],
                    (int(columns[second[j]]), float(waits[j] / scales[i])) if np.isfinite(waits[j]) else None,
                )
                for i, j in enumerate(ours)
            ]
            # the one that takes the fit over comes first, and so is popped when all the others have copied it
            yield _Group(members[ours], moved, elapsed[ours] + steps[ours, 0], fit, k == 0, edge, activations)

    def _settle(self, group: _Group) -> FloatArray | None:
        """The active phase: coefficients (d,), or None when those that joined can add nothing."""
        if not group.last:
            group.fit = copy.deepcopy(group.fit, {id(data): data for data in (self._x, self._y)})
        fit, edge, members = group.fit, group.edge, group.members
        allowed = np.flatnonzero(edge)
        fit.minimize(allowed, edge[allowed])
        beta = np.zeros(edge.size)
        beta[allowed] = fit.shared(allowed, edge[allowed])
        if not beta[group.activations[0].neurons].any():
            return None
        active = beta != 0.0
        inside = np.flatnonzero(active)
        mirror = self._mirror(members, inside)
        whole = self._mirror(members, np.arange(edge.size))
        grown = self._rows(whole, group.z)
        targets = mirror.height_of_coefficient(np.tile(np.abs(beta[inside]), members.size))
        group.z[:, inside] = mirror.depth(targets, np.tile(edge[inside], members.size)).reshape(members.size, -1)

        r = self._y - self._x @ beta
        v = r @ self._x / r.size
        level, gap = 0.5 * float(r @ r) / r.size, abs(float(beta @ v))
        collapsed = np.flatnonzero((edge != 0.0) & ~active)
        directions, log_norms = self._rows(whole, group.z)
        slopes = np.exp(log_norms[:, inside]) * v[inside]
        for i, member in enumerate(members):
            settled = agf.Settled(level, collapsed, float(np.linalg.norm(slopes[i])), gap, "closed form")
            activation = group.activations[i]
            state: agf.State[None] = agf.State(activation.time, active, directions[i], log_norms[i], level)
            moves = self._moves[member]
            before = moves[-1].state if moves else self._starts[member]
            activated: agf.State[None] = agf.State(
                activation.time, before.active, grown[0][i], grown[1][i], before.level
            )
            moves.append(Move(activation, settled, state, activated))
        return beta

    @staticmethod
    def _rows(whole: Mirror, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, d, 2) and log norms (m, d) of all coordinates at z (m, d)."""
        rows, norms = whole.polar(z.ravel())
        return rows.reshape(*z.shape, 2), norms.reshape(z.shape)

    def _finish(self, members: IntArray, status: agf.Status) -> None:
        for member in members:
            self._ends[member] = status
