"""The predicted staircase: drops, levels and what is needed to draw, save and repeat it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, numbers
from agf.asked import asked
from agf.clock import Clock
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records import files, naming
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import Table, Tabular, counted, one_line
from agf.results import endings, staircase_file, staircase_table
from agf.results.drop import Drop

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@asked
@dataclass(frozen=True, repr=False)
class Staircase(Tabular):
    """The predicted staircase of K drops.

    Parameters
    ----------
    problem : str
        Name of the problem.
    degree : int
        Leading order kappa of the utility.
    clock : Clock
        Between flow time and accelerated time.
    start_level : float
        Loss of the zero function, in the problem's own normalisation, as all levels.
    drops : tuple[Drop, ...]
        K records in order of time.
    status : Status
        Why it ended.
    settings : Settings
        What was requested.
    init : Init or None
        Where training starts; None for a theory as alpha -> 0.
    arguments : dict[str, Any]
        Its constructor arguments, enough to build it again.
    bounds : float ndarray or None, shape (K,)
        Lower bounds on the jump times (flow time) where the theory gives them, else NaN.
    stats : dict[str, float]
        Evaluations and seconds.
    notes : tuple[str, ...]
        What the reader should know, in words.
    curve_times : float ndarray
        Flow times of the predicted loss curve (mode="resolved"), else empty.
    curve_losses : float ndarray
        Losses of the predicted loss curve, else empty.
    """

    problem: str
    degree: int
    clock: Clock
    start_level: float
    drops: tuple[Drop, ...]
    status: Status
    settings: Settings = field(default_factory=Settings)
    init: Init | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    bounds: FloatArray | None = None
    stats: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    curve_times: FloatArray = field(default_factory=lambda: np.zeros(0))
    curve_losses: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def mode(self) -> str:
        """ "agf", "limit", "resolved", or "theory" for a closed form."""
        return "theory" if self.status is Status.THEORY else self.settings.mode

    @property
    def times(self) -> FloatArray:
        """(K+1,) flow time of the switches, times[0] = 0."""
        return np.array([0.0, *[drop.time for drop in self.drops]])

    @property
    def half_times(self) -> FloatArray:
        """(K+1,) flow time at which each drop is half-way, half_times[0] = 0."""
        return np.array([0.0, *[drop.half_time for drop in self.drops]])

    @property
    def accelerated_times(self) -> FloatArray:
        """(K+1,) times in units of clock.scale (theory: of -log alpha)."""
        return np.array([0.0, *[drop.accelerated_time for drop in self.drops]])

    @property
    def levels(self) -> FloatArray:
        """(K+1,) loss on each plateau, levels[0] that of the zero function."""
        return np.array([self.start_level, *[drop.level for drop in self.drops]])

    def level(self, t: FloatArray | float) -> FloatArray:
        """Loss of the staircase at flow times t (any shape), right-continuous."""
        return self.levels[np.searchsorted(self.times[1:], numbers(t, "t"), side="right")]

    def curve(self, t: FloatArray | float) -> FloatArray:
        """Predicted loss at flow times t: the resolved curve where there is one, else the steps."""
        if self.curve_times.size == 0:
            return self.level(t)
        return np.interp(numbers(t, "t"), self.curve_times, self.curve_losses)

    def features(self, name: str) -> FloatArray:
        """(K, ...) one feature after each drop, by name. RequestError when the problem has no such feature, or one of
        another shape after one drop than after another, as of a number for each active neuron."""
        for drop in self.drops:
            naming.feature(name, drop.features, self.problem)
        found = [np.asarray(drop.features[name]) for drop in self.drops]
        if len(shapes := {feature.shape for feature in found}) > 1:
            raise RequestError(
                explain(
                    f"feature {name!r} has another shape after one drop than after another.",
                    found=", ".join(map(str, sorted(shapes))),
                    remedy="`drops[k].features` holds that of each.",
                )
            )
        return np.array(found)

    # -- looking at it ----------------------------------------------------------------------------------------

    @property
    def ending(self) -> str:
        """Why it ended, as a sentence with what was measured."""
        return endings.prediction(self)

    @property
    def labels(self) -> list[str]:
        """(K,) what happens at each drop: its label and what leaves, by the label under which it joined alone.

        What never did has the word that those begin with, its number, and its name where coordinates have names:
        "coordinate 7 (bmi)".
        """
        return staircase_table.labels(self)

    def table(self) -> Table:
        """The drops as a table; with their error bars, conditioning and overlaps where these are known."""
        return staircase_table.table(self)

    def __repr__(self) -> str:
        drops = counted(len(self.drops), "drop")
        return one_line(f"<Staircase of {self.problem}, mode {self.mode}, {drops}, {self.status.word}>")

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        color: str | None = None,
        label: str = "predicted",
        rules: bool = True,
    ) -> Axes:
        """Draw the levels, or the resolved curve (`agf.plot.staircase`).

        Parameters
        ----------
        path : str or os.PathLike or None, optional
            Picture to write.
        ax : matplotlib.axes.Axes or None, optional
            Where to draw; a new figure when None.
        color : str or None, optional
            Of the line; that of predictions when None.
        label : str, optional
            Of the line.
        rules : bool, optional
            Whether each drop has a rule and its name.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.
        """
        from agf import plot

        return plot.save(plot.staircase(self, ax=ax, color=color or plot.PREDICTED, label=label, rules=rules), path)

    def graph(self) -> Any:
        """The saddles visited as a networkx DiGraph (`agf.graph.saddles`)."""
        from agf import graph

        return graph.saddles([self])

    # -- plain values -----------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for the start and one for each drop.

        * `drop`: number of the drop, from 1; 0 is the start
        * `time`: flow time of the switch
        * `half_time`: flow time at which the loss has fallen half-way
        * `accelerated_time`: `time` over the unit of accelerated time
        * `level`: loss on the plateau after it
        * `label`: what was learned, and what left
        * `neurons`: indices of the neurons that became active, joined by blanks
        * `collapsed`: indices of those that returned to dormancy, likewise
        * `utility`: largest utility of the activated neurons, at unit norm; loss
        * `runner_up`: index of the neuron that would have been next
        * `runner_up_gap`: accelerated time that it lacked
        * `bound`: lower bound on `time`, where a theory gives one
        * `grad_norm`: norm of the loss gradient over the active neurons, at the level
        * `predicted_decrease`: loss that the flow could still lose before the next activation
        * `how`: how the active neurons settled
        * `critical`: whether the level is that of a critical point (true, false)
        * `conditioning`: relative change of `half_time` under slightly changed settings
        * `error`: error bar of `half_time`, relative
        * `level_error`: error bar of `level`, as a fraction of the loss of the zero function
        * `overlap`: whether another neuron grows before the drop is over (true, false)

        Returns
        -------
        pandas.DataFrame
            What is not known is NaN, NA or empty.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        from agf.results import frames

        return frames.frame(frames.staircase(self))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the same rows as csv at `path`.

        Raises
        ------
        FileError
            When it cannot be written.
        """
        from agf.results import frames

        frames.write(frames.staircase(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        return {
            "problem": self.problem,
            "mode": self.mode,
            "threshold": self.settings.threshold,
            "settle": self.settings.settle,
            "alpha": None if self.init is None else self.init.alpha,
            "seed": None if self.init is None else self.init.seed,
            "degree": self.degree,
            "clock_scale": self.clock.scale,
            "times": self.times.tolist(),
            "half_times": self.half_times.tolist(),
            "accelerated_times": self.accelerated_times.tolist(),
            "levels": self.levels.tolist(),
            "bounds": None if self.bounds is None else self.bounds.tolist(),
            "drops": [drop.to_dict() for drop in self.drops],
            "status": self.status.word,
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
        files.write(path, "staircase", *self.to_file())

    def to_file(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of the run file."""
        return staircase_file.parts(self)

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Staircase:
        """From header and arrays of the run file at `path` (`files.read`).

        Raises
        ------
        FileError
            When parts are missing.
        """
        return cls(**staircase_file.fields(header, arrays, path))
