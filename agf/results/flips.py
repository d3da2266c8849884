"""Which weight changed sign when, and how large its neuron was: located on the dense solution of the flow.

An output weight changes sign only by passing through dormancy where the layers are balanced; an input weight changes
sign by turning, at any norm ([GB24], docs/masks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agf import registry
from agf.arrays import FloatArray
from agf.contract.admission import admitted
from agf.contract.problem import Problem
from agf.coordinates.choice import flow_system
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.table import Table, number
from agf.results import frames
from agf.results.drawn import Drawn
from agf.stopping import Explicit, Moment, Saved, Why, drive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.results.trajectory import Trajectory

KINDS = ("inner", "outer", "all")
#: Tolerance at which the flow is integrated again between snapshots; that of the run where it is tighter. Cost: times
#: of flips are as exact as those of the run.
_RTOL = 1e-6
#: Halvings that locate a sign change inside a step. Derived: float64 has 53 digits; what is left is rounding.
_HALVINGS = 50


@dataclass(frozen=True)
class Flip:
    """One change of sign.

    time : flow time.  neuron, parameter : row and column of theta.  sign : +1 or -1, after it.
    log_norm : natural log of the neuron's norm at that moment.
    """

    time: float
    neuron: int
    parameter: int
    sign: int
    log_norm: float


@dataclass(frozen=True, repr=False)
class Flips(Drawn):
    """Changes of sign over a run, in order of time.

    The picture: every change of sign at its time and at the norm of its neuron.

    problem : name.  kind : of the weights that were watched.  flips : the changes.
    watched : how many weights were watched.  end_log_norms : (H,) at the end, to tell what size a flip happened at.
    located : "dense solution", or "interpolation" for gradient descent.
    """

    problem: str
    kind: str
    flips: tuple[Flip, ...]
    watched: int
    end_log_norms: FloatArray
    located: str

    def __len__(self) -> int:
        return len(self.flips)

    def __getitem__(self, k: int) -> Flip:
        return self.flips[k]

    @property
    def times(self) -> FloatArray:
        """(F,) flow times."""
        return np.array([flip.time for flip in self.flips])

    def table(self) -> Table:
        """The first 40 of them."""
        rows = [
            [number(f.time, 6), str(f.neuron), str(f.parameter), "+" if f.sign > 0 else "-",
             number(float(np.exp(f.log_norm))), number(float(np.exp(f.log_norm - self.end_log_norms[f.neuron])))]
            for f in self.flips[:40]
        ]  # fmt: skip
        notes = [f"{len(self)} changes of sign among {self.watched} weights, located by {self.located}."]
        notes += [f"The first 40 of {len(self)}."] if len(self) > 40 else []
        columns = ["time", "neuron", "parameter", "sign after", "norm", "norm over that at the end"]
        return Table(f"Sign flips of {self.problem} ({self.kind} weights)", columns, rows, notes)

    def __repr__(self) -> str:
        return f"<Flips of {self.problem}: {len(self)} among {self.watched} {self.kind} weights>"

    def _draw(self, ax: Axes | None) -> Axes:
        from agf.pictures import signs

        return signs.flips(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a change of sign, in order of time.

        * `time`: flow time
        * `neuron`, `parameter`: row and column of theta
        * `sign`: +1 or -1, after it
        * `log_norm`, `end_log_norm`: natural log of the norm of the neuron at that moment, and at the end

        Returns
        -------
        pandas.DataFrame
            Empty where nothing changed its sign.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        neurons = np.array([flip.neuron for flip in self.flips], dtype=np.int64)
        return frames.frame({
            "time": self.times,
            "neuron": neurons,
            "parameter": np.array([flip.parameter for flip in self.flips], dtype=np.int64),
            "sign": np.array([flip.sign for flip in self.flips], dtype=np.int64),
            "log_norm": np.array([flip.log_norm for flip in self.flips], dtype=np.float64),
            "end_log_norm": self.end_log_norms[neurons],
        })  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        return {
            "problem": self.problem,
            "kind": self.kind,
            "watched": self.watched,
            "located": self.located,
            "flips": [vars(flip) for flip in self.flips],
        }


def flips(run: Trajectory, kind: str = "inner", problem: Problem | None = None) -> Flips:
    """Changes of sign over a run; `Trajectory.flips` says more."""
    if kind not in KINDS:
        raise RequestError(explain(f"unknown kind {kind!r}.", where="flips", expected="one of " + ", ".join(KINDS)))
    if run.directions.shape[0] == 0:
        raise RequestError(explain("this trajectory holds no parameters.", where="flips"))
    problem = problem or registry.rebuilt(run.problem, run.arguments)
    columns = _columns(problem, kind)
    descent = run.method in ("gd", "sgd")
    found: list[Flip] = []
    neurons = np.setdiff1d(np.arange(run.directions.shape[1]), problem.permanent)  # an output bias is none
    signs = np.sign(run.directions[:, neurons[:, None], columns])
    with admitted(problem, "flips"):
        for k in np.flatnonzero((signs[1:] * signs[:-1] < 0).any(axis=(1, 2))):
            found += _interpolated(run, int(k), columns) if descent else _integrated(problem, run, int(k), columns)
    return Flips(
        run.problem,
        kind,
        tuple(sorted((flip for flip in found if flip.neuron in neurons), key=lambda flip: flip.time)),
        signs.shape[1] * columns.size,
        run.log_norms[-1],
        "interpolation" if descent else "dense solution",
    )


def _columns(problem: Problem, kind: str) -> Any:
    """Columns of theta that are watched."""
    every = np.arange(problem.n_params)
    if kind == "all":
        return every
    inner = getattr(problem, "n_inputs", None)
    if inner is None:
        raise RequestError(
            explain(
                f"rows of {problem.name!r} are not input and output weights.", where=f"flips of kind {kind!r}",
                remedy='Use kind="all".',
            )
        )  # fmt: skip
    return every[:inner] if kind == "inner" else every[inner:]


def _interpolated(run: Trajectory, k: int, columns: Any) -> list[Flip]:
    """Sign changes between two snapshots, on the straight line between the weights."""
    before, after = (run.params(j)[:, columns] for j in (k, k + 1))
    out = []
    for i, j in np.argwhere(before * after < 0):
        part = before[i, j] / (before[i, j] - after[i, j])
        time, log_norm = ((1 - part) * a[k] + part * a[k + 1] for a in (run.snapshot_times, run.log_norms[:, i]))
        out.append(Flip(float(time), int(i), int(columns[j]), int(np.sign(after[i, j])), float(log_norm)))
    return out


def _integrated(problem: Problem, run: Trajectory, k: int, columns: Any) -> list[Flip]:
    """Sign changes between two snapshots, on the flow integrated again from the first to the second."""
    init = Init(run.directions[k], run.log_norms[k], 1.0 if run.init is None else run.init.alpha)
    system = flow_system(problem, init)
    unit = float(np.exp(system.log_time_unit))
    span = float(run.snapshot_times[k + 1] - run.snapshot_times[k])
    rtol = min(float(run.settings.get("rtol", _RTOL)), _RTOL)
    began = float(run.snapshot_times[k])
    out: list[Flip] = []
    before = run.directions[k][:, columns]

    def each(now: Moment, saved: Saved) -> None:
        nonlocal before
        step = now.step
        assert step is not None
        after = system.snapshot(step.y1).directions[:, columns]
        for i, j in np.argwhere(before * after < 0):
            low, high = step.s0, step.s1
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                there = system.snapshot(step.dense(middle)).directions[i, columns[j]]
                low, high = (low, middle) if there * after[i, j] > 0 else (middle, high)
            shot = system.snapshot(step.dense(high))
            time = began + (now.origin + high) * unit
            out.append(Flip(time, int(i), int(columns[j]), int(np.sign(after[i, j])), float(shot.log_norms[i])))
        before = np.where(after != 0, after, before)

    end = drive(system, Explicit(rtol), [], system.start(), s_end=span / unit, each=each)
    if end.why is not Why.TIME:
        raise RequestError(explain(f"the flow could not be followed again ({end.note}).", where="flips"))
    return out
