"""A loss curve with what was recorded along it: from gradient flow, gradient descent, or a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.asked import asked
from agf.clock import Clock
from agf.init import Init
from agf.records import files
from agf.records.status import Status
from agf.records.table import Table, level, number, one_line
from agf.results import endings, trajectory_file
from agf.results.loss_curve import LossCurve
from agf.results.snapshots import Snapshots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EMPTY = np.zeros(0)


@asked
@dataclass(frozen=True, repr=False)
class Trajectory(Snapshots, LossCurve):
    """Training as it happened. T snapshots, T_dense recorded losses (every accepted step or so).

    Parameters
    ----------
    problem : str
        Name of the problem.
    degree : int
        Leading order kappa of the utility.
    method : str
        "rk45", "rkc2", "gd", "csv", ..., a word for the record.
    times : float ndarray, shape (T_dense,)
        Flow time of every accepted step.
    losses : float ndarray, shape (T_dense,)
        Loss there, in the problem's own normalisation.
    status : Status
        Why it ended.
    clock : Clock or None
        Between flow time and accelerated time, or None where neurons are not small or not known.
    slopes : float ndarray, shape (T_dense,)
        dL/dt per unit of flow time, or empty; with them `time_at` is third order between the points.
    snapshot_times : float ndarray, shape (T,)
        Flow time of the snapshots, log-spaced.
    log_norms : float ndarray, shape (T, H)
        Natural logs of the norms.
    directions : float ndarray, shape (T, H, P)
        Unit rows, may be empty when not kept.
    features_over_time : dict[str, FloatArray]
        Name -> (T, ...).
    init : Init or None
        Where training started, or None where it is not known.
    arguments : dict[str, Any]
        Constructor arguments of the problem.
    settings : dict[str, Any]
        What the run was asked for (method, tolerances, lr, momentum, ...).
    stats : dict[str, float]
        Evaluations, steps, seconds, drift of conserved quantities.
    evidence : str
        What shows that the status is right, as a sentence: the loss that can still be lost, what grows and when it
        matters (numbers are in `stats`: "left", "due"). Empty where the status says it all.
    notes : tuple[str, ...]
        Warnings in words (float64 floor, drift).
    state : dict[str, FloatArray]
        What resuming needs beside the rest; opaque.
    """

    problem: str
    degree: int
    method: str
    times: FloatArray
    losses: FloatArray
    status: Status
    clock: Clock | None = None
    slopes: FloatArray = field(default_factory=_EMPTY.copy)
    snapshot_times: FloatArray = field(default_factory=_EMPTY.copy)
    log_norms: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    directions: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    features_over_time: dict[str, FloatArray] = field(default_factory=dict)
    init: Init | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, float] = field(default_factory=dict)
    evidence: str = ""
    notes: tuple[str, ...] = ()
    state: dict[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        time: str | int | None = None,
        loss: str | int | None = None,
        step: str | int | None = None,
        lr: float | None = None,
        momentum: float = 0.0,
        loss_scale: float = 1.0,
        problem: str = "curve",
        degree: int = 2,
    ) -> Trajectory:
        """A loss curve trained elsewhere, from a text file separated by commas, semicolons, tabs or blanks.

        The time map is stated in `notes`.

        Parameters
        ----------
        path : str or os.PathLike[str]
            The file.
        time : str or int or None, optional
            Column of flow times, by name or index.
        loss : str or int or None, optional
            Column of losses. Without names, the usual ones are looked for ("loss", "time", "step", ...); two unnamed
            columns are time or step, and loss.
        step : str or int or None, optional
            Instead, column of optimizer steps; minibatch steps are steps.
        lr : float or None, optional
            Learning rate of these steps: flow time = step lr / (1 - momentum), right to first order in lr.
        momentum : float, optional
            Momentum of these steps.
        loss_scale : float, optional
            How many times the loss of the problem was minimized: 2/c for torch's `nn.MSELoss` with c outputs. Losses
            are divided by it and flow times multiplied, since the gradient was as many times as large.
        problem : str, optional
            Name of what was trained, for the record.
        degree : int, optional
            kappa, for the record.

        Raises
        ------
        FileError
        DataError
            For what is no curve.
        RequestError
            For what is no curve.
        """
        from agf.results import curve_file

        given = curve_file.fields(path, time, loss, step, lr, momentum, loss_scale)
        return cls(problem, degree, **given)

    @property
    def kind(self) -> str:
        """How it came about, in words: "gradient flow", "gradient descent" or "curve"."""
        return {"gd": "gradient descent", "sgd": "stochastic gradient descent", "csv": "curve"}.get(
            self.method, "gradient flow"
        )

    @property
    def ending(self) -> str:
        """Why it ended, as a sentence with what was measured."""
        return endings.training(self)

    # -- looking at it ----------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Drops found in the curve, as a table."""
        rows = [
            [str(k), number(d.time, 6), number(d.before, 6), level(d.after, self.losses[0], 6)]
            for k, d in enumerate(self.drops, 1)
        ]
        return Table(
            f"Drops found in the {self.kind}" + f" of {self.problem}" * (self.problem != self.kind),
            ["drop", "half-drop time", "level before", "level after"],
            rows,
            [f"{self.status.word}: {self.ending}", *self.notes],
        )

    def __repr__(self) -> str:
        end = f"to flow time {number(float(self.times[-1]))}, " if self.times.size else ""
        return one_line(f"<Trajectory of {self.problem}, {self.method}, {end}{self.status.word}>")

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        color: str | None = None,
        label: str | None = None,
        marks: bool = True,
    ) -> Axes:
        """Draw the loss curve (`agf.plot.trajectory`).

        Parameters
        ----------
        path : str or os.PathLike or None, optional
            Picture to write.
        ax : matplotlib.axes.Axes or None, optional
            Where to draw; a new figure when None.
        color : str or None, optional
            Of the line; that of what was observed when None.
        label : str or None, optional
            Of the line; the kind of training when None.
        marks : bool, optional
            Whether to mark half-way down each visible drop.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.
        """
        from agf import plot

        return plot.save(plot.trajectory(self, ax=ax, color=color or plot.OBSERVED, label=label, marks=marks), path)

    # -- plain values -----------------------------------------------------------------------------------------

    def to_frame(self, *, snapshots: bool = False) -> Any:
        """A pandas DataFrame: the curve, or the snapshots with norms and features.

        * `time`: flow time of a recorded loss, or of a snapshot
        * `loss`: loss there
        * `log_norm_I`: natural log of the norm of neuron I (snapshots)
        * `FEATURE_I`: entry I of a feature (snapshots); `FEATURE_I_J` of a matrix

        Where coordinates have names, these follow: `coefficients_2 (bmi)`.

        Parameters
        ----------
        snapshots : bool, optional
            A row a snapshot, instead of one a recorded loss.

        Returns
        -------
        pandas.DataFrame
            In order of time.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        from agf.results import frames

        return frames.frame(frames.trajectory(self, snapshots))

    def to_csv(self, path: str | os.PathLike[str], *, snapshots: bool = False) -> None:
        """Write the same rows as csv at `path`; `from_csv` reads the curve again.

        Raises
        ------
        FileError
            When it cannot.
        """
        from agf.results import frames

        frames.write(frames.trajectory(self, snapshots), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        return {
            "problem": self.problem,
            "method": self.method,
            "degree": self.degree,
            "alpha": None if self.init is None else self.init.alpha,
            "seed": None if self.init is None else self.init.seed,
            "times": self.times.tolist(),
            "losses": self.losses.tolist(),
            "drops": [{"time": d.time, "before": d.before, "after": d.after} for d in self.drops],
            "status": self.status.word,
            "evidence": self.evidence,
            "settings": self.settings,
            "notes": list(self.notes),
            "stats": dict(self.stats),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file at `path`.

        Raises
        ------
        FileError
            When it cannot be written; nothing is then left behind.
        """
        files.write(path, "trajectory", *self.to_file())

    def to_file(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of the run file."""
        return trajectory_file.parts(self)

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Trajectory:
        """From header and arrays of the run file at `path` (`files.read`).

        Raises
        ------
        FileError
            When parts are missing.
        """
        return cls(**trajectory_file.fields(header, arrays, path))
