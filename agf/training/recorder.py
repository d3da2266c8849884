"""What a training run keeps: a loss curve, and snapshots where something is learned, both of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import Snapshot
from agf.errors import AgfError, ProblemError, RequestError, explain
from agf.results.curve import FLOOR
from agf.results.interpolant import Point, between, interpolate
from agf.results.trajectory import Trajectory

Evaluate = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
Shoot = Callable[[IntArray, FloatArray], list[Snapshot]]

#: Points of the loss curve kept. Cost: memory; beyond it those that the others reproduce best are dropped.
MAX_POINTS = 20_000
#: Error of a cubic between two points, over the loss above the least, at most. Cost: of points; half-drop times of
#: drops that are small next to the loss that stays are right to a tenth of it.
_OF_REST = 1e-4
#: Spacing of snapshots in log time. Cost: which of them are kept is decided by what the others do not show.
_SPACING = 0.05
#: Spacing of snapshots in log time where steps, as those of descent, are all of one length. Cost: of snapshots that are
#: kept.
_FINE_SPACING = 0.01
#: Spacing of snapshots in loss, as a fraction of the first. Cost: of snapshots that are kept.
_FALL = 0.01
#: Spacing of snapshots in points of the curve, which are close where it bends, however little of the loss that is, is
#: at least the number of points so far over this many times the room. Cost: of snapshots that are not kept, in runs of
#: many points.
_TIMES = 2
#: Part of the room that snapshots have when they are thinned: what came last is not thinned yet. Cost: of thinning more
#: often.
_LEFT = 0.9
#: Smallest range of a component of a feature, over the largest, on whose scale it is looked at. Derived: a drop that is
#: looked for changes what the network computes by the root of its share of the loss.
_SMALL = FLOOR**0.5
#: Halvings of a stretch of the curve. Limit: of evaluations, where a loss jumps.
_MAX_DEPTH = 9
#: Memory that snapshots take at most (but at least eight are kept). Limit: fewer are kept then; so much is written to a
#: file within the two seconds in which a run that is told to stop should be gone.
_SNAPSHOT_BYTES = 128 * 2**20
#: What holds the place of a snapshot until it is taken.
_EMPTY = Snapshot(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Progress:
    """What an observer is told after a step: flow time, loss and steps so far (of the whole run when resumed)."""

    time: float
    loss: float
    step: int


@contextmanager
def taking_over(where: str, run: object) -> Iterator[None]:
    """Go on from the state of `run`. Raises RequestError where it has no such state, as one of an odd file."""
    if not isinstance(run, Trajectory):
        raise RequestError(explain("`resume` is no trajectory.", where=where, found=repr(run), expected="one of flow"
                                   " or descend, or agf.load of a saved one"))  # fmt: skip
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, AgfError):
            raise
        raise RequestError(
            explain(f"cannot resume: the state of the trajectory is damaged ({error}).", where=where)
        ) from None


class Recorder:
    """Collects (time, loss, slope) points and snapshots in order of time.

    Parameters
    ----------
    snapshots : int
        Most snapshots kept.
    tolerance : float
        Relative error of times and losses that interpolation may add.
    sloped : bool
        Whether points have slopes dL/dt.
    numbers : int
        Of the weights: of large networks fewer snapshots are kept, those that fit in memory and are soon written, and
        as many times fewer are taken to choose from.
    least : float
        Loss that is approached, -inf where it is not known: late drops are small next to the loss that stays.
    """

    def __init__(
        self, snapshots: int, tolerance: float, sloped: bool = True, numbers: int = 1, least: float = -np.inf
    ) -> None:
        self.least = least
        self.capacity = min(snapshots, max(int(_SNAPSHOT_BYTES / (8 * numbers)), 8))
        #: How many times wider than usual snapshots are spaced.
        self._sparser = snapshots / self.capacity
        self.tolerance = tolerance
        self.sloped = sloped
        self.points: list[Point] = []
        self.kept: list[tuple[float, float, Snapshot]] = []  # time, loss, snapshot
        self.due = 0.0
        self.waited = 0  # points of the curve since the last snapshot

    # -- the curve --------------------------------------------------------------------------------------------

    def point(self, time: float, loss: float, slope: float = 0.0) -> None:
        """Append one point of the curve."""
        self.points.append((time, loss, slope))
        if len(self.points) > MAX_POINTS:
            self._thin_points()

    def record(self, ends: Sequence[Point], evaluate: Evaluate, shoot: Shoot) -> None:
        """Append points of the curve over the stretches that end at `ends`, and snapshots.

        `evaluate(which (m,), times (m,))` gives losses and slopes at times within the stretches of these indices, and
        `shoot`, asked likewise, snapshots. All is asked for together, and nothing has changed when either raises.
        """
        former = list(self.points), list(self.kept), self.due, self.waited
        try:
            blanks = self._extend(*self._refined(ends, evaluate), ends[0][0])
            if blanks:
                times, owners = zip(*blanks, strict=True)
                shots = shoot(np.array(owners), np.array(times))
                empty = self.kept[-len(blanks) :]
                self.kept[-len(blanks) :] = [
                    (time, loss, shot) for (time, loss, _), shot in zip(empty, shots, strict=True)
                ]
                self._thin_snapshots()
        except BaseException:
            self.points, self.kept, self.due, self.waited = former
            raise

    def _refined(self, ends: Sequence[Point], evaluate: Evaluate) -> tuple[list[Point], list[int]]:
        """Points of the stretches, `ends` among them, and the stretch of each.

        A stretch is halved until the cubic through its ends is right to `tolerance`, relative to the loss or, in time,
        relative to the time.
        """
        last = np.array(ends, dtype=np.float64)
        owner = np.arange(last.shape[0])
        left, right = np.vstack([self.points[-1:], last[:-1]]), last
        floor = FLOOR * abs(self.points[0][1])
        found, owners = [last], [owner]
        for _ in range(_MAX_DEPTH):
            (ta, la, sa), (tb, lb, sb) = left.T, right.T
            h, middle = tb - ta, 0.5 * (ta + tb)
            bend = np.abs(lb - la - h * sa) + np.abs(lb - la - h * sb)  # the cubic is off by less than this
            small = self.tolerance * np.maximum(np.maximum(np.abs(lb), floor), np.abs(sa + sb) / 2 * tb)
            small = np.minimum(small, _OF_REST * np.maximum(lb - self.least, floor))
            some = np.flatnonzero((bend > small) & (ta < middle) & (middle < tb))
            if not some.size:
                break
            losses, slopes = evaluate(owner[some], middle[some])
            good = np.isfinite(losses) & np.isfinite(slopes)
            some, losses, slopes = some[good], losses[good], slopes[good]
            middles = np.stack([middle[some], losses, slopes], axis=1)
            found.append(middles)
            owners.append(owner[some])
            guess = (0.5 * (la + lb) + h * (sa - sb) / 8)[some]
            # Halving divides the error of the cubic by 16: the halves are right when this one is off by less.
            deeper = np.abs(losses - guess) > 16 * small[some]
            again, middles = some[deeper], middles[deeper]
            owner = np.concatenate([owner[again], owner[again]])
            left, right = np.vstack([left[again], middles]), np.vstack([middles, right[again]])
        table, of = np.vstack(found), np.concatenate(owners)
        order = np.lexsort((table[:, 0], of))
        return [(t, loss, slope) for t, loss, slope in table[order].tolist()], of[order].tolist()

    def _extend(self, points: Sequence[Point], owners: Sequence[int], first: float) -> list[tuple[float, int]]:
        """Append points of the curve, and keep empty snapshots where they are due: their times and owners.

        Parameters
        ----------
        points : sequence of Point
            In order.
        owners : sequence of int
            The stretch of each.
        first : float
            Time of the first snapshot after the start.
        """
        blanks: list[tuple[float, int]] = []

        def blank(time: float, loss: float, owner: int) -> None:
            blanks.append((time, owner))
            self._keep(time, loss, _EMPTY)

        before = self.points[-1]
        self.due = self.due or first
        for point, owner in zip(points, owners, strict=True):
            self.point(*point)
            time, loss, _ = point
            while self.due < time:
                blank(self.due, between(before, point, self.due, self.points[0][1] - loss), owner)
            if self.deserves(loss) or self.due == time:
                blank(time, loss, owner)
            before = point
        return blanks

    def curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times, losses and slopes (empty when not `sloped`), (T,) each."""
        table = np.array(self.points, dtype=np.float64).reshape(-1, 3)
        return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy() if self.sloped else np.zeros(0)

    def _thin_points(self) -> None:
        """Drop points that their neighbours reproduce, to a tolerance loosened until half the room is free."""
        tolerance = self.tolerance
        while len(self.points) > MAX_POINTS // 2:
            times, losses, slopes = self.curve()
            odd = np.arange(1, times.size - 1, 2)
            even = np.delete(np.arange(times.size), odd)
            # there, and halfway to both neighbours: a cubic right next to one of them may swing on the way to the other
            places = times[odd], 0.5 * (times[odd] + times[odd - 1]), 0.5 * (times[odd] + times[odd + 1])
            left = times[even], losses[even], slopes[even] if self.sloped else slopes
            off = [np.abs(interpolate(*left, at) - interpolate(times, losses, slopes, at)) for at in places]
            unit = np.maximum(np.abs(losses[odd]), 1e-12 * np.abs(losses[0]))
            drop = odd[np.max(off, axis=0) <= tolerance * unit]
            keep = np.delete(np.arange(times.size), drop)
            self.points = [self.points[i] for i in keep]
            tolerance *= 10

    # -- snapshots --------------------------------------------------------------------------------------------

    def take(self, time: float, loss: float, snapshot: Snapshot) -> None:
        """Keep a snapshot (copies) and set when the next is due."""
        self._keep(time, loss, snapshot)
        self._thin_snapshots()

    def _keep(self, time: float, loss: float, snapshot: Snapshot) -> None:
        self.kept.append((time, loss, snapshot))
        self.due = time * (1.0 + self._sparser * (_SPACING if self.sloped else _FINE_SPACING))
        self.waited = 0

    def deserves(self, loss: float) -> bool:
        """Whether one more point of the curve, at this loss, deserves a snapshot: it has fallen, or bent for long."""
        self.waited += 1
        fallen = bool(self.kept) and self.kept[-1][1] - loss > self._sparser * _FALL * abs(self.kept[0][1])
        apart = max(self._sparser, len(self.points) / (_TIMES * self.capacity))
        return fallen or (self.sloped and self.waited >= apart)

    def _thin_snapshots(self) -> None:
        """Where there are too many, drop those that lines between neighbours show best, no two neighbours at once.

        As if they had come one by one: what is kept does not hang on what came together.
        """
        if len(self.kept) <= self.capacity:
            return
        drawn = _Drawn.of(self.kept)
        left, came = np.arange(self.capacity), self.capacity
        while came < drawn.times.size:
            more = max(self.capacity + 1 - left.size, 1)
            left, came = np.append(left, np.arange(came, drawn.times.size)[:more]), came + more
            if left.size > self.capacity:
                left = self._thinned(left, drawn)
        self.kept = [self.kept[k] for k in left.tolist()]

    def _thinned(self, left: IntArray, drawn: _Drawn) -> IntArray:
        """Those of the snapshots `left` that stay where there are too many."""
        room = max(int(_LEFT * self.capacity), 2)
        while left.size > room:
            stays, spare = [True] * left.size, left.size - room
            for k in (1 + np.argsort(drawn.missed(left), kind="stable")).tolist():
                if not spare:
                    break
                if stays[k - 1] and stays[k + 1]:
                    stays[k], spare = False, spare - 1
            left = left[stays]
        return left

    def arrays(self, last: tuple[float, float, Snapshot] | None = None) -> dict[str, Any]:
        """The snapshots, and `last` after them, as fields of a Trajectory (snapshot_times, log_norms, ...)."""
        kept = self.kept if last is None else [*self.kept, last]
        shots = [shot for _, _, shot in kept]
        # In any order: files keep names in the one of the alphabet.
        if len({frozenset((name, np.shape(value)) for name, value in shot.features.items()) for shot in shots}) > 1:
            raise ProblemError(
                explain("`features` has other names or shapes at one time than at another.",
                        expected="the same names with arrays of the same shapes at every call")
            )  # fmt: skip
        names = shots[0].features.keys() if shots else ()
        return {
            "snapshot_times": np.array([time for time, _, _ in kept]),
            "log_norms": np.array([shot.log_norms for shot in shots]),
            "directions": np.array([shot.directions for shot in shots]),
            "features_over_time": {name: np.array([shot.features[name] for shot in shots]) for name in names},
        }

    def cut(self, time: float) -> None:
        """Forget what lies beyond `time`: an interrupt may have come in the middle of recording."""
        while self.points and self.points[-1][0] > time:
            self.points.pop()
        while self.kept and self.kept[-1][0] > time:
            self.kept.pop()

    # -- resuming ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, FloatArray]:
        """What `restore` needs beside the trajectory's own arrays."""
        return {
            "recorder": np.array([_SPACING, _FALL, self.due, self.waited]),
            "snapshot_losses": np.array([loss for _, loss, _ in self.kept]),
        }

    def restore(
        self,
        curve: tuple[FloatArray, FloatArray, FloatArray],
        snapshots: dict[str, Any],
        state: dict[str, FloatArray],
    ) -> None:
        """Take over an earlier run: `curve`, `arrays` and `state` of its recorder (not the last, added, snapshot)."""
        times, losses, slopes = curve
        slopes = slopes if slopes.size else np.zeros_like(times)
        self.points = list(zip(times.tolist(), losses.tolist(), slopes.tolist(), strict=True))
        _, _, self.due, *more = state["recorder"].tolist()
        self.waited = int(more[0]) if more else 0  # an older file has none
        features = snapshots["features_over_time"]
        self.kept = [
            (
                float(time),
                float(state["snapshot_losses"][k]),
                Snapshot(
                    snapshots["log_norms"][k],
                    snapshots["directions"][k],
                    {name: values[k] for name, values in features.items()},
                ),
            )
            for k, time in enumerate(snapshots["snapshot_times"][: state["snapshot_losses"].size])
        ]


@dataclass(frozen=True)
class _Drawn:
    """What is drawn of snapshots: log norms, and then features.

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
    def of(cls, kept: list[tuple[float, float, Snapshot]]) -> _Drawn:
        """Those of these snapshots."""
        shots = [shot for _, _, shot in kept]
        parts = [np.array([shot.log_norms for shot in shots], dtype=np.float64)]
        for name in sorted(shots[0].features):
            try:
                rows = np.array([shot.features[name] for shot in shots], dtype=np.float64)
            except (KeyError, ValueError):  # other names or shapes at times: refused in the end, with all there is
                continue
            if rows.size:
                parts.append(rows.reshape(len(kept), -1))
        table = np.concatenate(parts, axis=1)
        sizes = np.array([rows.shape[1] for rows in parts])
        return cls(np.array([time for time, _, _ in kept]), np.where(np.isfinite(table), table, 0.0), sizes)

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
