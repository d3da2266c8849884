"""The predicted staircase: drops, levels and what is needed to draw, save and repeat it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.errors import FileError, explain
from agf.init import Init
from agf.records import files
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import Table, level, number, percent, visible
from agf.results import endings, names, origin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class Drop:
    """One drop of the loss.

    Parameters
    ----------
    time : float
        Flow time of the switch; NaN where a theory gives no time.
    half_time : float
        Flow time at which the loss has fallen half-way: what one reads off a curve.
    accelerated_time : float
        `time` over clock.scale.
    level : float
        Loss on the plateau after it.
    neurons : int ndarray
        Indices that became active.
    collapsed : int ndarray
        Indices that returned to dormancy.
    label : str
        What was learned, in words.
    utility : float ndarray, shape (k,)
        Utility of the activated neurons at unit norm.
    runner_up : tuple[int, float] or None
        (index of the next neuron, accelerated time it lacked), or None.
    grad_norm : float
        Norm of the loss gradient over the active neurons at the level.
    predicted_decrease : float
        Loss the flow could still lose before the next activation (`agf.Settled`).
    how : str
        How the active neurons settled, for the record (`agf.Settled`).
    critical : bool
        Whether the level is that of a critical point, not just the loss at a horizon.
    conditioning : float
        Relative change of half_time in a repeat under slightly changed settings (`conditioning`); inf if it does not
        come there, NaN if not measured.
    error : float
        Error bar of half_time, relative: an estimate of its deviation from gradient flow at this alpha, from what the
        mode leaves out (`agf.algorithm.deviation`); NaN where there is none.
    level_error : float
        The same of the level, relative to the loss of the zero function.
    overlap : bool or None
        Whether the drop is not over, or another neuron grows, before the next one begins: Algorithm 1 assumes the
        opposite. None where it was not looked at.
    features : dict[str, FloatArray]
        Problem features after the drop.
    log_norms : float ndarray or None, shape (H,)
        After the drop.
    active : ndarray or None, shape (H,)
        After the drop.
    directions : float ndarray or None, shape (H, P)
        Unit rows after the drop, of dormant and active neurons; None where they are more than `MAX_KEPT` numbers.
    """

    time: float
    half_time: float
    accelerated_time: float
    level: float
    neurons: IntArray = field(default_factory=_NOBODY.copy)
    collapsed: IntArray = field(default_factory=_NOBODY.copy)
    label: str = ""
    utility: FloatArray = field(default_factory=lambda: np.zeros(0))
    runner_up: tuple[int, float] | None = None
    grad_norm: float = np.nan
    predicted_decrease: float = np.nan
    how: str = ""
    critical: bool = True
    conditioning: float = np.nan
    error: float = np.nan
    level_error: float = np.nan
    overlap: bool | None = None
    features: dict[str, FloatArray] = field(default_factory=dict)
    log_norms: FloatArray | None = None
    active: np.ndarray | None = None
    directions: FloatArray | None = None

    def __repr__(self) -> str:
        label = visible(self.label if len(self.label) <= 40 else self.label[:37] + "...")
        return f"<Drop at time {number(self.half_time)} to level {number(self.level)}, {label}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the JSON of one drop."""
        return {
            "time": self.time,
            "half_time": self.half_time,
            "accelerated_time": self.accelerated_time,
            "level": self.level,
            "neurons": self.neurons.tolist(),
            "collapsed": self.collapsed.tolist(),
            "label": self.label,
            "utility": self.utility.tolist(),
            "runner_up": list(self.runner_up) if self.runner_up else None,
            "grad_norm": self.grad_norm,
            "predicted_decrease": self.predicted_decrease,
            "how": self.how,
            "critical": self.critical,
            "conditioning": self.conditioning,
            "error": self.error,
            "level_error": self.level_error,
            "overlap": self.overlap,
        }


_DROP_ARRAYS = ("log_norms", "active", "directions")
#: Numbers of the directions that a drop keeps: memory (8 MB a drop).
MAX_KEPT = 10**6


def kept(directions: FloatArray) -> FloatArray | None:
    """A copy for a `Drop`, or None where it would be too large to keep."""
    return directions.copy() if directions.size <= MAX_KEPT else None


@dataclass(frozen=True, repr=False)
class Staircase:
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

    def level(self, t: Any) -> FloatArray:
        """Loss of the staircase at flow times t (any shape), right-continuous."""
        t = np.asarray(t, dtype=np.float64)
        return self.levels[np.searchsorted(self.times[1:], t, side="right")]

    def curve(self, t: Any) -> FloatArray:
        """Predicted loss at flow times t: the resolved curve where there is one, else the steps."""
        if self.curve_times.size == 0:
            return self.level(t)
        return np.interp(np.asarray(t, dtype=np.float64), self.curve_times, self.curve_losses)

    def features(self, name: str) -> FloatArray:
        """(K, ...) one feature after each drop, by name. KeyError when the problem has no such feature."""
        return np.array([drop.features[name] for drop in self.drops])

    # -- looking at it ----------------------------------------------------------------------------------------

    @property
    def ending(self) -> str:
        """Why it ended, as a sentence with what was measured."""
        return endings.prediction(self)

    @property
    def words(self) -> list[str]:
        """(K,) what happens at each drop: its label and what leaves, by the label under which it joined alone.

        What never did has the word that labels begin with, its number, and its name where coordinates have names:
        "coordinate 7 (bmi)".
        """
        called: dict[int, str] = {}
        out = []
        known = names.given(self.arguments, self.init.width) if self.init is not None else None
        word = names.word_of(self.drops[0].label) if self.drops else "neuron"
        for drop in self.drops:
            left = [
                called.get(i, f"{word} {i}" + (f" ({known[i]})" if known and i < len(known) else ""))
                for i in drop.collapsed.tolist()
            ]
            out.append(drop.label + (f"; leaves: {', '.join(left)}" if left else ""))
            if drop.neurons.size == 1:
                called[int(drop.neurons[0])] = drop.label
        return out

    def table(self) -> Table:
        """The drops as a table; with their error bars, conditioning and overlaps where these are known."""
        drops = self.drops
        barred = any(not np.isnan(drop.error) for drop in drops)
        probed = any(not np.isnan(drop.conditioning) for drop in drops)
        probed &= self.mode != "auto" or bool(self.settings.conditioning)  # in mode auto it is part of the bars
        looked = any(drop.overlap is not None for drop in drops)
        columns = ["drop", "time", "half-drop time", *["within"] * barred, "accelerated", "level", *["within"] * barred]
        columns += [*["conditioning"] * probed, *["overlaps"] * looked, "learned"]
        blank = ["-"] * (probed + looked)
        rows = [["0", "0", "0", *["-"] * barred, "0", number(self.start_level, 6), *["-"] * barred, *blank, "start"]]
        for k, (drop, words) in enumerate(zip(drops, self.words, strict=True), 1):
            row = [str(k), number(drop.time, 6), number(drop.half_time, 6), *[percent(drop.error)] * barred]
            row += [number(drop.accelerated_time, 6), level(drop.level, self.start_level, 6)]
            row += [*[percent(drop.level_error)] * barred, *[percent(drop.conditioning)] * probed]
            rows.append([*row, *["yes" if drop.overlap else "no"] * looked, words])
        scale = f", {self.init.words}" if self.init is not None else ""
        return Table(
            f"Predicted staircase of {self.problem}{scale}, mode {self.mode}",
            columns,
            rows,
            [f"{self.status.word}: {self.ending}", *self.notes],
        )

    def __repr__(self) -> str:
        return f"<Staircase of {self.problem}, mode {self.mode}, {len(self.drops)} drops, {self.status.word}>"

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()

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
        plain, arrays = origin.split(self.arguments, self.init)
        header = {
            "result": self.to_dict(),
            "settings": self.settings.to_dict(),
            "log_scale": self.clock.log_scale,
            "feature_names": sorted({name for drop in self.drops for name in drop.features}),
            **plain,
        }
        arrays.update(curve_times=self.curve_times, curve_losses=self.curve_losses)
        for k, drop in enumerate(self.drops):
            for name, value in drop.features.items():
                arrays[f"drop{k}_feature_{name}"] = value
            for name in _DROP_ARRAYS:
                if getattr(drop, name) is not None:
                    arrays[f"drop{k}_{name}"] = getattr(drop, name)
        return header, arrays

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Staircase:
        """From header and arrays of the run file at `path` (`files.read`).

        Raises
        ------
        FileError
            When parts are missing.
        """
        try:
            result = header["result"]
            drops = tuple(
                Drop(
                    time=files.from_json_float(d["time"]),
                    half_time=files.from_json_float(d["half_time"]),
                    accelerated_time=files.from_json_float(d["accelerated_time"]),
                    level=files.from_json_float(d["level"]),
                    neurons=np.asarray(files.typed(d["neurons"], list), dtype=np.int64).reshape(len(d["neurons"])),
                    collapsed=np.asarray(files.typed(d["collapsed"], list), dtype=np.int64).reshape(
                        len(d["collapsed"])
                    ),
                    label=files.typed(d["label"], str),
                    utility=np.asarray([files.from_json_float(u) for u in d["utility"]]),
                    runner_up=(int(d["runner_up"][0]), files.from_json_float(d["runner_up"][1]))
                    if d["runner_up"]
                    else None,
                    grad_norm=files.from_json_float(d["grad_norm"]),
                    predicted_decrease=files.from_json_float(d["predicted_decrease"]),
                    how=d["how"],
                    critical=d["critical"],
                    conditioning=files.from_json_float(d["conditioning"]),
                    error=files.from_json_float(d.get("error")),
                    level_error=files.from_json_float(d.get("level_error")),
                    overlap=d.get("overlap"),
                    features={
                        name: arrays[f"drop{k}_feature_{name}"]
                        for name in header["feature_names"]
                        if f"drop{k}_feature_{name}" in arrays
                    },
                    log_norms=arrays.get(f"drop{k}_log_norms"),
                    active=arrays.get(f"drop{k}_active"),
                    directions=arrays.get(f"drop{k}_directions"),
                )
                for k, d in enumerate(result["drops"])
            )
            return cls(
                problem=result["problem"],
                degree=result["degree"],
                clock=Clock(result["degree"], files.from_json_float(header["log_scale"])),
                start_level=files.from_json_float(result["levels"][0]),
                drops=drops,
                status=Status.from_word(result["status"]),
                settings=Settings.of(header["settings"]),
                init=origin.init(header, arrays, path),
                arguments=origin.arguments(header["arguments"], arrays, path),
                bounds=None
                if result["bounds"] is None
                else np.asarray([files.from_json_float(b) for b in result["bounds"]]),
                stats=files.typed(result["stats"], dict),
                notes=tuple(files.typed(note, str) for note in result["notes"]),
                curve_times=files.array(arrays, "curve_times", path),
                curve_losses=files.array(arrays, "curve_losses", path),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                explain(f"cannot read {str(path)!r}: a part is missing or of the wrong kind ({error}).")
            ) from None
