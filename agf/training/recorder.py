"""What a training run keeps: a loss curve and log-spaced snapshots, both of bounded size however long the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import Snapshot
from agf.errors import AgfError, RequestError, explain
from agf.results.curve import FLOOR, interpolate

#: Points of the loss curve kept; beyond it, those that the others reproduce best are dropped.
MAX_POINTS = 20_000
#: First spacing of snapshots in log time, and in loss as a fraction of the first; doubled when there are too many.
_RATIO = 1.05
_FALL = 0.01
_MAX_DEPTH = 6


@dataclass(frozen=True)
class Progress:
    """What an observer is told after a step: flow time, loss and steps so far (of the whole run when resumed)."""

    time: float
    loss: float
    step: int


@contextmanager
def taking_over(where: str) -> Iterator[None]:
    """Go on from the state of an earlier run. Raises RequestError where that is not such a state, as in an odd file."""
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
    """

    def __init__(self, snapshots: int, tolerance: float, sloped: bool = True) -> None:
        self.capacity = snapshots
        self.tolerance = tolerance
        self.sloped = sloped
        self.points: list[tuple[float, float, float]] = []
        self.kept: list[tuple[float, float, Snapshot]] = []  # time, loss, snapshot
        self.ratio = _RATIO
        self.fall = _FALL
        self.due = 0.0

    # -- the curve --------------------------------------------------------------------------------------------

    def point(self, time: float, loss: float, slope: float = 0.0) -> None:
        """Append one point of the curve."""
        self.points.append((time, loss, slope))
        if len(self.points) > MAX_POINTS:
            self._thin_points()

    def refine(self, evaluate: Callable[[float], tuple[float, float]], end: tuple[float, float, float]) -> int:
        """Append `end`, and points before it at which `evaluate(time)` -> (loss, slope) differs from interpolation.

        A stretch is halved until the cubic through its ends is right to `tolerance`, relative to the loss or, in time,
        relative to the time. Returns the number of evaluations.
        """
        evaluations = 0
        stack = [(self.points[-1], end, 0)]
        while stack:
            left, right, depth = stack.pop()
            (ta, la, sa), (tb, lb, sb) = left, right
            h = tb - ta
            bend = abs(lb - la - h * sa) + abs(lb - la - h * sb)  # the cubic is off by less than this
            small = self.tolerance * max(abs(lb), FLOOR * abs(self.points[0][1]), abs(sa + sb) / 2 * tb)
            middle = 0.5 * (ta + tb)
            if depth < _MAX_DEPTH and bend > small and ta < middle < tb:
                loss, slope = evaluate(middle)
                evaluations += 1
                if np.isfinite(loss) and np.isfinite(slope):
                    guess = 0.5 * (la + lb) + h * (sa - sb) / 8
                    # Halving divides the error of the cubic by 16: the halves are right when this one is off by less.
                    deeper = depth + 1 if abs(loss - guess) > 16 * small else _MAX_DEPTH
                    stack.append(((middle, loss, slope), right, deeper))
                    stack.append((left, (middle, loss, slope), deeper))
                    continue
            self.point(*right)
        return evaluations

    def loss_at(self, time: float) -> float:
        """Loss at a time within the last step, by interpolation."""
        table = np.array(self.points[-(2**_MAX_DEPTH + 1) :])
        return float(interpolate(table[:, 0], table[:, 1], table[:, 2], np.asarray(time)))

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
            guess = interpolate(times[even], losses[even], slopes[even] if self.sloped else slopes, times[odd])
            unit = np.maximum(np.abs(losses[odd]), 1e-12 * np.abs(losses[0]))
            drop = odd[np.abs(guess - losses[odd]) <= tolerance * unit]
            keep = np.delete(np.arange(times.size), drop)
            self.points = [self.points[i] for i in keep]
            tolerance *= 10

    # -- snapshots --------------------------------------------------------------------------------------------

    def take(self, time: float, loss: float, snapshot: Snapshot) -> None:
        """Keep a snapshot (copies) and set when the next is due."""
        self.kept.append((time, loss, snapshot))
        if len(self.kept) > self.capacity:
            self.kept = [self.kept[0], *self.kept[1:-1:2], self.kept[-1]]
            self.ratio *= self.ratio
            self.fall *= 2
        self.due = time * self.ratio

    def fallen(self, loss: float) -> bool:
        """Whether the loss has fallen enough since the last snapshot to deserve one."""
        return bool(self.kept) and self.kept[-1][1] - loss > self.fall * abs(self.kept[0][1])

    def arrays(self, last: tuple[float, float, Snapshot] | None = None) -> dict[str, Any]:
        """The snapshots, and `last` after them, as fields of a Trajectory (snapshot_times, log_norms, ...)."""
        kept = self.kept if last is None else [*self.kept, last]
        shots = [shot for _, _, shot in kept]
        names = shots[0].features.keys() if shots else ()
        return {
            "snapshot_times": np.array([time for time, _, _ in kept]),
            "log_norms": np.array([shot.log_norms for shot in shots]),
            "directions": np.array([shot.directions for shot in shots]),
            "features_over_time": {name: np.array([shot.features[name] for shot in shots]) for name in names},
        }

    def cut(self, time: float) -> None:
        """Forget what lies beyond `time`: an interrupt may have come in the middle of recording a step."""
        while self.points and self.points[-1][0] > time:
            self.points.pop()
        while self.kept and self.kept[-1][0] > time:
            self.kept.pop()

    # -- resuming ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, FloatArray]:
        """What `restore` needs beside the trajectory's own arrays."""
        return {
            "recorder": np.array([self.ratio, self.fall, self.due]),
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
        self.ratio, self.fall, self.due = (float(v) for v in state["recorder"])
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
