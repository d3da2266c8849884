"""The snapshots that a training run keeps: a bounded number, those that lines between their neighbours do not show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import Snapshot
from agf.results.curve import FLOOR

#: Part of the room that snapshots have when they are thinned: what came last is not thinned yet. Cost: of thinning more
#: often.
_LEFT = 0.9
#: Smallest range of a component of a feature, over the largest, on whose scale it is looked at. Derived: a drop that is
#: looked for changes what the network computes by the root of its share of the loss.
_SMALL = FLOOR**0.5


@dataclass(frozen=True)
class Album:
    """Snapshots in order of time, and their losses, in blocks that were taken together.

    Parameters
    ----------
    capacity : int
        Most of them that are kept.
    times, losses : list of float
        Of each.
    blocks : tuple of Snapshot
        Several moments each.
    """

    capacity: int
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    blocks: tuple[Snapshot, ...] = ()

    def added(self, times: list[float], losses: list[float], shots: Snapshot) -> Album:
        """With moments that came after all others; thinned where there are too many."""
        more = replace(self, times=self.times + times, losses=self.losses + losses, blocks=(*self.blocks, shots))
        return more if len(more.times) <= self.capacity else more._chosen(more._thin())

    @cached_property
    def shots(self) -> Snapshot:
        """All of them, at least one."""
        return Snapshot.joined(self.blocks)

    def until(self, time: float) -> Album:
        """Without what lies beyond `time`."""
        left = sum(then <= time for then in self.times)
        return self if left == len(self.times) else self._chosen(np.arange(left))

    def _chosen(self, rows: IntArray) -> Album:
        times, losses = ([values[k] for k in rows.tolist()] for values in (self.times, self.losses))
        return replace(self, times=times, losses=losses, blocks=(self.shots.at(rows),))

    def _thin(self) -> IntArray:
        """Those that stay: without those that lines between neighbours show best, no two neighbours at once.

        As if they had come one by one: what is kept does not hang on what came together.
        """
        components = _Components.of(np.array(self.times), self.shots)
        left, came = np.arange(self.capacity), self.capacity
        while came < components.times.size:
            more = max(self.capacity + 1 - left.size, 1)
            left, came = np.append(left, np.arange(came, components.times.size)[:more]), came + more
            if left.size > self.capacity:
                left = self._thinned(left, components)
        return left

    def _thinned(self, left: IntArray, components: _Components) -> IntArray:
        """Those of the snapshots `left` that stay where there are too many."""
        room = max(int(_LEFT * self.capacity), 2)
        while left.size > room:
            stays, spare = [True] * left.size, left.size - room
            for k in (1 + np.argsort(components.missed(left), kind="stable")).tolist():
                if not spare:
                    break
                if stays[k - 1] and stays[k + 1]:
                    stays[k], spare = False, spare - 1
            left = left[stays]
        return left


@dataclass(frozen=True)
class _Components:
    """All components of snapshots: log norms, and then features.

    Parameters
    ----------
    times : float ndarray, shape (k,)
        Of the snapshots.
    table : float ndarray, shape (k, N)
        All components, finite.
    sizes : int ndarray, shape (F,)
        How many of the N are log norms, and of each feature.
    """

    times: FloatArray
    table: FloatArray
    sizes: IntArray

    @classmethod
    def of(cls, times: FloatArray, shots: Snapshot) -> _Components:
        """Those of these snapshots."""
        rows = [shots.log_norms, *(shots.features[name] for name in sorted(shots.features))]
        parts = [values.reshape(times.size, -1) for values in rows if values.size]
        table = np.concatenate(parts, axis=1)
        sizes = np.array([part.shape[1] for part in parts])
        return cls(times, np.where(np.isfinite(table), table, 0.0), sizes)

    def missed(self, left: IntArray) -> FloatArray:
        """(m - 2,) by how much a line in log time between its neighbours misses each inner one of m snapshots `left`.

        Every component of a feature counts as a fraction of its own range, so that what is learned late and is small
        counts as what comes first, and log norms as a fraction of the range of all.
        """
        times, table = self.times[left], self.table[left]
        x = np.log(np.maximum(times, 0.5 * times[1]))
        share = ((x[1:-1] - x[:-2]) / (x[2:] - x[:-2]))[:, None]
        gap = np.abs(table[1:-1] - table[:-2] - share * (table[2:] - table[:-2]))
        span = table.max(axis=0) - table.min(axis=0)
        least = np.maximum.reduceat(span, np.cumsum(self.sizes) - self.sizes)
        least[1:] *= _SMALL
        size = np.maximum(span, np.repeat(least, self.sizes))
        return np.asarray((gap / np.where(size > 0, size, 1.0)).max(axis=1))
