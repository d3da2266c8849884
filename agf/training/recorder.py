"""What a training run keeps: a loss curve, and snapshots where something is learned, both of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import Snapshot
from agf.contract.problem import Problem
from agf.errors import AgfError, RequestError, explain
from agf.init import Init
from agf.results.curve import FLOOR
from agf.results.interpolant import Point, between, interpolate
from agf.results.trajectory import Trajectory
from agf.training.album import Album

Evaluate = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
Shoot = Callable[[IntArray, FloatArray], Snapshot]

#: Points of the loss curve kept. Cost: memory; beyond it those that the others reproduce best are dropped.
MAX_POINTS = 20_000
#: Part of the points that a pass of thinning drops at least while its tolerance stays. Cost: of passes.
_FEW = 0.1
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
#: Halvings of a stretch of the curve. Limit: of evaluations, where a loss jumps.
_MAX_DEPTH = 9
#: Memory that snapshots take at most (but at least eight are kept). Limit: fewer are kept then; so much is written to a
#: file within the two seconds in which a run that is told to stop should be gone.
_SNAPSHOT_BYTES = 128 * 2**20
#: Difference of the loss of the same weights, over it and the first. Limit: of what is resumed; one problem gives it
#: to rounding, on any machine.
_SAME = 1e-6
#: Snapshots that are kept by default. Cost: of memory and files; pictures show no more.
SNAPSHOTS = 200


@dataclass(frozen=True)
class Progress:
    """What an observer is told after a step: flow time, loss and steps so far (of the whole run when resumed)."""

    time: float
    loss: float
    step: int


@contextmanager
def taking_over(where: str, run: object, problem: Problem) -> Iterator[None]:
    """Go on from the state of `run` with `problem`. Raises RequestError where it has no such state, as one of an odd
    file, or where its last loss is another one now, as of a plugin that was changed since."""
    if not isinstance(run, Trajectory):
        raise RequestError(explain("`resume` is no trajectory.", where=where, found=repr(run), expected="one of flow"
                                   " or descend, or agf.load of a saved one"))  # fmt: skip
    try:
        yield
        _refuse_other(where, run, problem)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, AgfError):
            raise
        raise RequestError(
            explain(f"cannot resume: the state of the trajectory is damaged ({error}).", where=where)
        ) from None


def _refuse_other(where: str, run: Trajectory, problem: Problem) -> None:
    if not run.losses.size or run.snapshot_times[-1:].tolist() != run.times[-1:].tolist():
        return  # the loss of its last snapshot is not in its curve
    then, now = float(run.losses[-1]), problem.loss_grad(run.params(-1), np.arange(problem.width))[0]
    if not np.isclose(now, then, rtol=_SAME, atol=_SAME * float(run.losses[0])):
        raise RequestError(
            explain(
                "cannot resume: the problem is not the one that was trained.",
                where=where,
                found=f"a loss of {now:.6g} at the last weights of the run, which was {then:.6g}",
                remedy="Its data, or the file it is in, have changed: train anew.",
            )
        )


def numbers(problem: Problem, init: Init) -> int:
    """How many numbers one snapshot of a network holds: its weights and its features."""
    found = problem.features(init.directions, np.arange(init.width))
    return int(init.directions.size + sum(np.size(feature) for feature in found.values()))


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
        Of one snapshot: of large networks fewer snapshots are kept, those that fit in memory and are soon written, and
        as many times fewer are taken to choose from.
    least : float
        Loss that is approached, -inf where it is not known: late drops are small next to the loss that stays.
    """

    def __init__(
        self, snapshots: int, tolerance: float, sloped: bool = True, numbers: int = 1, least: float = -np.inf
    ) -> None:
        self.least = least
        capacity = min(snapshots, max(int(_SNAPSHOT_BYTES / (8 * numbers)), 8))
        self.album = Album(capacity)
        #: How many times wider than usual snapshots are spaced.
        self._sparser = max(min(snapshots, SNAPSHOTS) / capacity, 1.0)
        self.tolerance = tolerance
        self.sloped = sloped
        self.points: list[Point] = []
        self.due = 0.0
        self.waited = 0  # points of the curve since the last snapshot
        self.last = -np.inf  # loss at the last snapshot

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
        former = list(self.points), self.album, self.due, self.waited, self.last
        try:
            blanks = self._extend(*self._refined(ends, evaluate), ends[0][0])
            if blanks:
                times, losses, owners = (list(column) for column in zip(*blanks, strict=True))
                self.album = self.album.added(times, losses, shoot(np.array(owners), np.array(times)))
        except BaseException:
            self.points, self.album, self.due, self.waited, self.last = former
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

    def _extend(self, points: Sequence[Point], owners: Sequence[int], first: float) -> list[tuple[float, float, int]]:
        """Append points of the curve; times, losses and owners of the snapshots that are due.

        Parameters
        ----------
        points : sequence of Point
            In order.
        owners : sequence of int
            The stretch of each.
        first : float
            Time of the first snapshot after the start.
        """
        blanks: list[tuple[float, float, int]] = []

        def blank(time: float, loss: float, owner: int) -> None:
            blanks.append((time, loss, owner))
            self._wait(time, loss)

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
        """Drop points that their neighbours reproduce, or that are as near to them in time, to a tolerance loosened, as
        little as will do, until half the room is free: late noise would else outlive the first drop."""
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
            known = np.max(off, axis=0) <= tolerance * unit
            drop = odd[known | (times[odd + 1] - times[odd - 1] <= tolerance * times[odd])]
            keep = np.delete(np.arange(times.size), drop)
            self.points = [self.points[i] for i in keep]
            tolerance *= 10 if drop.size < _FEW * times.size else 1

    # -- snapshots --------------------------------------------------------------------------------------------

    def take(self, time: float, loss: float, snapshot: Snapshot) -> None:
        """Keep a snapshot (copies) and set when the next is due."""
        self.album = self.album.added([time], [loss], Snapshot.stacked([snapshot]))
        self._wait(time, loss)

    def _wait(self, time: float, loss: float) -> None:
        self.due = time * (1.0 + self._sparser * (_SPACING if self.sloped else _FINE_SPACING))
        self.waited, self.last = 0, loss

    def deserves(self, loss: float) -> bool:
        """Whether one more point of the curve, at this loss, deserves a snapshot: it has fallen, or bent for long."""
        self.waited += 1
        fallen = self.last - loss > self._sparser * _FALL * abs(self.points[0][1])
        apart = max(self._sparser, len(self.points) / (_TIMES * self.album.capacity))
        return fallen or (self.sloped and self.waited >= apart)

    def arrays(self, last: tuple[float, Snapshot] | None = None) -> dict[str, Any]:
        """The snapshots, and `last` after them, as fields of a Trajectory (snapshot_times, log_norms, ...)."""
        times, shots = self.album.times, self.album.shots
        if last is not None:
            times, shots = [*times, last[0]], Snapshot.joined([shots, Snapshot.stacked([last[1]])])
        return {
            "snapshot_times": np.array(times),
            "log_norms": shots.log_norms,
            "directions": shots.directions,
            "features_over_time": shots.features,
        }

    def cut(self, time: float) -> None:
        """Forget what lies beyond `time`: an interrupt may have come in the middle of recording."""
        while self.points and self.points[-1][0] > time:
            self.points.pop()
        self.album = self.album.until(time)
        self.last = self.album.losses[-1] if self.album.losses else -np.inf

    # -- resuming ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, FloatArray]:
        """What `restore` needs beside the trajectory's own arrays."""
        return {
            "recorder": np.array([_SPACING, _FALL, self.due, self.waited]),
            "snapshot_losses": np.array(self.album.losses),
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
        losses = state["snapshot_losses"].tolist()
        kept = slice(len(losses))
        shots = Snapshot(snapshots["log_norms"], snapshots["directions"], snapshots["features_over_time"]).at(kept)
        times = snapshots["snapshot_times"][kept].tolist()
        self.album = replace(self.album, times=times, losses=losses, blocks=(shots,))
        self.last = losses[-1]
