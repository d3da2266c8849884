"""Predicted drops against observed ones: who meets whom, and by how much they miss."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import USUAL
from agf.asked import asked
from agf.errors import FileError, RequestError, explain
from agf.records import files, provenance
from agf.records.settings import FINE_DEPTH
from agf.records.status import Status
from agf.records.table import Table, counted, number, one_line, percent
from agf.results.curve import CurveDrop, rises
from agf.results.drawn import Drawn
from agf.results.drop import Drop
from agf.results.match import Match, alike, delay, drops, first_ratio, lateness, relative
from agf.results.matching import MARGIN, align
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Lateness of a first drop through the size of the steps, from which on it is told. Limit: below, times have other
#: errors, and nothing is said.
_LATE = 2e-3
#: Log of a common factor of all observed times, from which on it is told. Limit: predictions miss by
#: percents, and nothing is said of that.
_OFF = 0.05
#: Largest relative error of a time up to which a multiple of the loss is advised that is none of the usual ones. Limit:
#: beyond, nothing is: the data may be others; steps with momentum make a first drop late by a third.
_MEETS = 0.5
#: Spread of the logs of the single factors, as a fraction of the common one, up to which it is told. Limit:
#: nothing is said where it explains less than four fifths of the misses; a momentum of 0.9 makes the first of four
#: drops late by a third besides.
_ONE_FACTOR = 0.2
#: Tolerance of a repeated training, over that of the first. Derived: for steps of order 5 errors grow as much, and what
#: changes is then what the tolerance does.
_LOOSER = 10.0


@asked
@dataclass(frozen=True, repr=False)
class Comparison(Drawn):
    """Predicted and observed drops, matched in order.

    The picture: the curve with the predicted steps over it (`agf.plot.comparison`).

    Parameters
    ----------
    stairs : Staircase
        The prediction.
    trajectory : Trajectory
        The training it was compared with.
    repeat : Trajectory or None
        a second training, or None.
    matches : tuple[Match, ...]
        One for each predicted drop.
    drops : tuple[CurveDrop, ...]
        Visible drops of the curve.
    notes : tuple[str, ...]
        What makes the two sides differ, in words (initial weights, normalisation, an early end, rises).

    Attributes
    ----------
    unmatched_predicted : list[int]
        numbers (from 1) of predicted drops without a partner.
    unmatched_observed : list[int]
        numbers (from 1) of visible drops without a partner.
    """

    stairs: Staircase
    trajectory: Trajectory
    repeat: Trajectory | None
    matches: tuple[Match, ...]
    drops: tuple[CurveDrop, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def sides(self) -> dict[str, Staircase | Trajectory]:
        """What was compared, by the names of `compare`: stairs, trajectory and, where there is one, repeat."""
        found: dict[str, Staircase | Trajectory] = {"stairs": self.stairs, "trajectory": self.trajectory}
        return found if self.repeat is None else {**found, "repeat": self.repeat}

    @property
    def unmatched_predicted(self) -> list[int]:
        """Numbers of predicted drops that no visible drop contains."""
        return [match.k for match in self.matches if match.visible is None]

    @property
    def unmatched_observed(self) -> list[int]:
        """Numbers of visible drops that neither contain a predicted one nor are part of one."""
        met = {j for match in self.matches for j in match.seen}
        return [j for j in range(1, len(self.drops) + 1) if j not in met]

    @property
    def unseen(self) -> list[int]:
        """Numbers of predicted drops that the curve, which goes on beyond their times, never makes."""
        until = self.trajectory.complete_until
        return [
            match.k
            for match in self.matches
            if match.visible is None and np.isinf(match.observed_time) and match.predicted_time <= until
        ]

    @property
    def max_time_error(self) -> float:
        """Largest |time error| over the observed drops (the reproducible ones, given a repeat); NaN without any."""
        return _largest([match.time_error for match in self.matches if match.reproducible is not False])

    @property
    def max_level_error(self) -> float:
        """Largest |level error|, relative to L(0), over the visible levels; NaN without any."""
        return _largest([match.level_error for match in self.matches])

    @property
    def curve_error(self) -> float:
        """Largest |predicted curve - observed loss| / L(0) over the times both cover; NaN unless mode is "resolved"."""
        if self.stairs.curve_times.size == 0:
            return np.nan
        times, losses = self.trajectory.times, self.trajectory.losses
        both = times <= self.stairs.curve_times[-1]
        gap = np.abs(self.stairs.curve(times[both]) - losses[both])
        return relative(float(np.max(gap, initial=0.0)), self.stairs.start_level)

    # -- looking at it ----------------------------------------------------------------------------------------

    def table(self) -> Table:
        """One row a predicted drop, and what the reader should know in sentences (`comparison_table`)."""
        from agf.results import comparison_table

        return comparison_table.table(self)

    def __repr__(self) -> str:
        predicted = f"{counted(len(self.matches), 'drop')} predicted (mode {self.stairs.mode})"
        observed = f"{len(self.drops)} visible in {self.trajectory.kind}"
        return one_line(f"<Comparison of {self.stairs.problem}: {predicted}, {observed}>")

    def _draw(self, ax: Axes | None) -> Axes:
        from agf import plot

        return plot.comparison(self, ax=ax)

    # -- plain values -----------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a predicted drop.

        * `k`: number of the predicted drop, from 1
        * `label`: what was learned, and what left
        * `predicted_time`: predicted half-drop time
        * `observed_time`: flow time at which the curve first falls below the predicted mid-level; inf if it never
          does
        * `time_error`: predicted over observed time, minus 1
        * `predicted_level`: predicted loss after the drop
        * `observed_level`: loss of the curve after the visible drop
        * `level_error`: predicted minus observed level, over the loss of the zero function
        * `relative_level_error`: the same, over the observed level
        * `visible`: number of the visible drop that it belongs to, from 1
        * `visible_to`: number of the last one, where it is several visible drops
        * `bundled`: whether other predicted drops belong to the same visible one (true, false)
        * `spread`: relative change of the observed time in a repeat of the training
        * `conditioning`: as for a prediction
        * `bar`: error bar of the predicted time, relative

        Returns
        -------
        pandas.DataFrame
            What was not observed is NaN or NA.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        from agf.results import frames

        return frames.frame(frames.comparison(self))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the same rows as csv at `path`.

        Raises
        ------
        FileError
            When it cannot be written.
        """
        from agf.results import frames

        frames.write(frames.comparison(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        return {
            "problem": self.stairs.problem,
            "mode": self.stairs.mode,
            "method": self.trajectory.method,
            "alpha": None if self.stairs.init is None else self.stairs.init.alpha,
            "matches": [match.to_dict() for match in self.matches],
            "observed": [
                {"time": d.time, "before": d.before, "after": d.after, "start": d.start, "end": d.end}
                for d in self.drops
            ],
            "unmatched_predicted": self.unmatched_predicted,
            "unmatched_observed": self.unmatched_observed,
            "max_time_error": self.max_time_error,
            "max_level_error": self.max_level_error,
            "curve_error": self.curve_error,
            "notes": list(self.notes),
            "status": {"prediction": self.stairs.status.word, "trajectory": self.trajectory.status.word},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file at `path` with both sides in it.

        Raises
        ------
        FileError
            When it cannot be written.
        """
        header: dict[str, Any] = {"result": self.to_dict(), "parts": {}}
        arrays: dict[str, np.ndarray] = {}
        for name, side in self.sides.items():
            header["parts"][name], more = side.to_file()
            arrays.update({f"{name}/{key}": value for key, value in more.items()})
        files.write(path, "comparison", header, arrays)

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Comparison:
        """From header and arrays of the run file at `path`; matched again.

        Raises
        ------
        FileError
            When parts are missing.
        """
        parts = header.get("parts")
        if not isinstance(parts, dict) or not {"stairs", "trajectory"} <= parts.keys():
            raise FileError(explain(f"cannot read {str(path)!r}: it lacks the prediction or the trajectory."))

        def own(name: str) -> dict[str, np.ndarray]:
            return {key.removeprefix(f"{name}/"): a for key, a in arrays.items() if key.startswith(f"{name}/")}

        return compare(
            Staircase.from_file(parts["stairs"], own("stairs"), path),
            Trajectory.from_file(parts["trajectory"], own("trajectory"), path),
            repeat=Trajectory.from_file(parts["repeat"], own("repeat"), path) if "repeat" in parts else None,
        )


@asked
@np.errstate(**USUAL)
def compare(stairs: Staircase, trajectory: Trajectory, *, repeat: Trajectory | None = None) -> Comparison:
    """Match predicted drops with those visible in a loss curve.

    Parameters
    ----------
    stairs : Staircase
        a prediction with flow times (for a theory as alpha -> 0: `theory(alpha=...)`).
    trajectory : Trajectory
        The curve, in flow time.
    repeat : Trajectory or None, optional
        The same training under slightly different settings (say ten times the tolerance): drops whose time it does not
        reproduce to 0.3 % are marked.

    Returns
    -------
    Comparison
        A match for each predicted drop, with relative errors of its time and level, and what has no partner.

    Raises
    ------
    RequestError
        When the arguments are not a prediction and a curve, and when the prediction has no flow times.

    Notes
    -----
    Drops are matched in order, at least total disagreement in level intervals and log times. Predicted drops with no
    plateau between them in the curve are bundled into one visible drop; visible drops between the levels before and
    after one predicted drop belong to it together, and the plateaus between them are named. A predicted time is
    compared with the first time the curve falls below the predicted mid-level (the mean of the levels before and
    after), whether or not a drop is visible there. The fall in which initial weights die out, to the loss of the zero
    function, is no drop, and is told in a note. Predicted drops after the end of the curve, which it does not make
    before, have no partner; a level is compared where the curve has come to it, and where it ends on it, if the
    predicted curve is there by then as well, to the error bar of the level.
    """
    _refuse_others(stairs, trajectory, repeat)
    times = [drop.half_time if np.isfinite(drop.half_time) else drop.time for drop in stairs.drops]
    if not np.isfinite(times).all():
        raise RequestError(
            explain(
                "the prediction has no flow times to compare.",
                where="compare",
                remedy="Give the theory an alpha: theory(alpha=1e-8).",
            )
        )
    levels = stairs.levels
    visible, unlearned = _learned(trajectory.drops, stairs.start_level)
    middles = 0.5 * (levels[:-1] + levels[1:])
    passed = [trajectory.time_at(middle) for middle in middles]
    whole = trajectory.complete_until
    late = np.isinf(passed) & (np.asarray(times) > whole)  # the curve ends before it could show them
    n = int(np.argmax(late)) if late.any() else late.size
    cut = len(visible) if trajectory.times.size and whole < trajectory.times[-1] else None  # not over at the end
    # What starts on the level before the first of them is its beginning, and none other's.
    top = levels[n] + (MARGIN * (levels[n - 1] - levels[n]) if n else np.inf)
    begun = cut is not None and n < late.size and visible[-1].before <= top
    candidates = visible[:-1] if begun else visible
    partner = align(np.asarray(times[:n]), levels[: n + 1], candidates) + [None] * (late.size - n)
    matches = []
    for k, drop in enumerate(stairs.drops):
        first, end = partner[k] or (None, None)
        last = first is not None and (k + 1 == len(partner) or partner[k + 1] != partner[k])
        observed = passed[k]
        level = visible[end - 1].after if end is not None and last and end != cut else np.nan
        if end == len(visible) and _on_its_way(stairs, drop, trajectory):
            level = np.nan
        if observed == 0.0 and first is None:  # fallen before the curve begins
            level = float(trajectory.losses[0])
        again = np.inf if repeat is None else repeat.time_at(middles[k])
        finite = repeat is not None and np.isfinite(observed)
        matches.append(
            Match(
                k=k + 1,
                label=stairs.labels[k],
                predicted_time=times[k],
                observed_time=observed,
                predicted_level=drop.level,
                observed_level=level,
                start_level=stairs.start_level,
                visible=None if first is None else first + 1,
                visible_to=end,
                bundled=first is not None and partner.count(partner[k]) > 1,
                conditioning=drop.conditioning,
                bar=drop.error,
                spread=abs(relative(again - observed, observed)) if finite else np.nan,
            )
        )
    notes = *unlearned, *_notes(stairs, trajectory, matches)
    return Comparison(stairs, trajectory, repeat, tuple(matches), tuple(visible), notes)


def _on_its_way(stairs: Staircase, drop: Drop, trajectory: Trajectory) -> bool:
    """Whether the predicted curve is farther from the level of a drop, where the trajectory ends, than that level's
    error bar: on its way to it, or from it, as the trajectory then is."""
    if not stairs.curve_times.size:
        return False
    left = abs(float(stairs.curve(float(trajectory.times[-1]))) - drop.level)
    return left > drop.level_error * stairs.start_level  # of no bar, False


def _learned(drops: list[CurveDrop], zero: float) -> tuple[list[CurveDrop], list[str]]:
    """The drops by which something is learned; not the one in which initial weights die out, which ends at the loss of
    the zero function and is then told in a sentence."""
    first = drops[0] if drops else None
    if first is None or abs(first.after - zero) > FINE_DEPTH * (first.before - first.after):
        return drops, []
    above = number(first.before - zero)
    return drops[1:], [
        f"Until {number(first.end)} the initial weights die out, which took the loss {above} above {number(zero)}."
    ]


def _refuse_others(stairs: object, trajectory: object, repeat: object) -> None:
    """RequestError unless the arguments of `compare` are of their kinds."""
    if isinstance(stairs, Trajectory) and isinstance(trajectory, Staircase):
        raise RequestError(
            explain(
                "the prediction and the trajectory are exchanged.",
                where="compare",
                expected="compare(stairs, trajectory)",
            )
        )
    sides = [
        ("stairs", stairs, Staircase, "a prediction, from agf.predict or a theory"),
        ("trajectory", trajectory, Trajectory, "a curve, from agf.flow, agf.descend or Trajectory.from_csv"),
        ("repeat", repeat, Trajectory | None, "a curve, from agf.flow, or None"),
    ]
    for name, side, kind, expected in sides:
        if not isinstance(side, kind):
            raise RequestError(
                explain(f"{name} is of the wrong kind.", where="compare", found=type(side).__name__, expected=expected)
            )


def loosened(trajectory: Trajectory) -> dict[str, Any]:
    """Options of `flow` for a repeat of a gradient flow: to the same time, at ten times its tolerance."""
    settings = trajectory.settings
    return {
        "t_max": float(trajectory.times[-1]),
        "method": settings["method"],
        "rtol": min(_LOOSER * settings["rtol"], 0.1),
        "max_steps": settings["max_steps"],
    }


def _notes(stairs: Staircase, trajectory: Trajectory, matches: list[Match]) -> tuple[str, ...]:
    """What the reader should know about the pair."""
    notes = []
    if trajectory.problem not in ("", stairs.problem) and trajectory.method != "csv":
        notes.append(f"The trajectory is of {trajectory.problem!r}, the prediction of {stairs.problem!r}.")
    ours, theirs = stairs.init, trajectory.init
    if ours is not None and theirs is not None:
        same = np.array_equal(ours.directions, theirs.directions) and np.array_equal(ours.log_norms, theirs.log_norms)
        if not same:
            notes.append("Prediction and trajectory start from different initial weights.")
    notes += _apart(stairs, trajectory)
    notes += _beyond(trajectory, matches)
    notes += _rising(stairs, trajectory)
    ratio = first_ratio(stairs, trajectory)
    if not alike(ratio):
        notes.append(
            f"The curve starts at loss {number(trajectory.losses[0])}, the prediction at "
            f"{number(float(stairs.level(0.0)))}: the losses may be normalised differently."
            + (_scaled(stairs, trajectory, ratio) if trajectory.method == "csv" and ratio > 0 else "")
        )
    else:  # with another loss, times are off for that reason, and the size of the steps is not known
        notes += _stretched(trajectory, matches)
        if lateness(stairs, trajectory) > _LATE and trajectory.method == "csv":
            notes.append(f"Steps of this size make {delay(stairs, trajectory)}; smaller ones by less.")
    return tuple(notes)


def _apart(stairs: Staircase, trajectory: Trajectory) -> list[str]:
    """A sentence where the two are of one problem with other data or parameters, as far as that is known."""
    ours, theirs = stairs.arguments, trajectory.arguments
    if not (ours and theirs) or trajectory.problem != stairs.problem:
        return []
    pairs = {name: (ours.get(name), theirs.get(name)) for name in sorted({*ours, *theirs})}
    names = [
        name
        for name, (one, two) in pairs.items()
        if one is not two and provenance.fingerprint({"": one}) != provenance.fingerprint({"": two})
    ]
    return [f"Prediction and trajectory were given different {', '.join(names)}."] if names else []


def _scaled(stairs: Staircase, trajectory: Trajectory, ratio: float) -> str:
    """What to give where the loss of a curve is a constant times that of the prediction, tried here, with the errors
    that are left; nothing where the curve does not meet the prediction so either."""
    given, lr = trajectory.settings.get("loss_scale", 1.0), trajectory.settings.get("lr")
    exact = float(ratio * given)
    scale = _usual(stairs, exact)
    losses, factor = trajectory.losses * (given / scale), scale / given
    along, still = (
        compare(stairs, replace(trajectory, times=k * trajectory.times, losses=losses)) for k in (factor, 1)
    )
    scaled = still.max_time_error < along.max_time_error  # times are right as they are: only losses were forgotten
    tried = still if scaled else along
    most = MARGIN * np.max(-np.diff(stairs.levels), initial=0.0) / stairs.start_level
    if tried.max_level_error > most or (scale == exact and tried.max_time_error > _MEETS):
        return ""
    words = f" If the curve's is {scale:.4g} times the problem's loss, "
    words += "leave --loss-scale out" if scale == 1 else f"give --loss-scale {scale:.4g} (loss_scale=)"
    if scaled and lr is not None:
        words += f" and the learning rate {lr / factor:.4g}"
    elif scaled:
        words += f" and divide the times by {factor:.4g}"
    left = f"time {percent(tried.max_time_error)}, level {percent(tried.max_level_error)}"
    return f"{words}: the largest errors are then {left}." if np.isfinite(tried.max_time_error) else f"{words}."


def _usual(stairs: Staircase, scale: float) -> float:
    """`scale`, or what it cannot be told from: half or all of the squared error, with means over samples, over samples
    and outputs, or with sums, over the loss of the problem."""
    targets = np.asarray(stairs.arguments.get("Y", stairs.arguments.get("y", 0.0)))
    samples, outputs = (*targets.shape, 1, 1)[:2]
    own = samples if stairs.arguments.get("reduction") == "sum" else 1
    usual = [half * part / own for half in (1.0, 2.0) for part in (own, 1.0, 1.0 / outputs, samples)]
    return next((value for value in usual if alike(scale / value)), scale)


def _stretched(trajectory: Trajectory, matches: list[Match]) -> list[str]:
    """What would match where all times of a curve from elsewhere are off by one factor: a forgotten momentum, say."""
    lr, momentum = trajectory.settings.get("lr"), trajectory.settings.get("momentum", 0.0)
    pairs = [(m.observed_time, m.predicted_time) for m in matches if 0 < m.observed_time < np.inf]
    if trajectory.method != "csv" or lr is None or len(pairs) < 2:
        return []
    logs = np.log([observed / predicted for observed, predicted in pairs])
    off = float(logs[-1])  # what else makes drops late, as steps do, makes late ones late by less
    if abs(off) < _OFF or np.ptp(logs) > _ONE_FACTOR * abs(off):
        return []
    factor = float(np.exp(off))
    beta = 1 - factor * (1 - momentum)
    words = f"All observed times are about {number(factor)} times the predicted ones: they would match at"
    other = f", or with momentum {number(beta)} (--momentum, momentum=)" if 0 < beta < 1 else ""
    return [f"{words} learning rate {number(lr / factor)} (--lr, lr=){other}."]


def _rising(stairs: Staircase, trajectory: Trajectory) -> list[str]:
    """A sentence on rises of the curve as large as drops looked for in it, and not small beside the predicted ones."""
    before, gain = rises(trajectory.losses)
    falls = [drop for drop in -np.diff(stairs.levels) if drop > 0]
    least = MARGIN * min(falls, default=0.0)
    gain = gain[(gain > trajectory.depth * np.abs(before)) & (gain > least)]
    if gain.size == 0:
        return []
    most = percent(relative(float(np.max(gain)), float(trajectory.losses[0])))
    cause = "too loose a tolerance" if trajectory.kind == "gradient flow" else "noise, or too large a learning rate"
    if trajectory.settings.get("momentum"):
        cause = f"{cause}, or momentum that swings past the plateaus"
    return [f"The curve rises by up to {most} of L(0), {gain.size} time{'s' * (gain.size > 1)}: {cause}."]


def _beyond(trajectory: Trajectory, matches: list[Match]) -> list[str]:
    """A sentence on the predicted drops that come after the end of the curve, and on how to see them."""
    end = float(trajectory.times[-1]) if trajectory.times.size else 0.0
    late = [match.k for match in matches if match.predicted_time > end and np.isinf(match.observed_time)]
    if not late:
        return []
    which = "every predicted drop" if len(late) == len(matches) else f"predicted {drops(late)}"
    times = [match.predicted_time for match in matches if match.k in late]
    if trajectory.status is Status.MAX_TIME:  # as it was asked to
        ahead = [f"the next is at {number(min(times))}", *[f"the last at {number(max(times))}"] * (len(late) > 1)]
        return [f"The flow was to end at {number(end)} (t_max), before {which}: {', '.join(ahead)}."]
    until = f"{_length(trajectory, 1.1 * min(times))} to see " + ("the next" if len(late) > 1 else "it")
    if len(late) > 1:
        until += f", {_length(trajectory, 1.1 * max(times))} to see all"
    return [f"The curve ends at flow time {number(end)}, before {which}: train to {until}."]


def _length(trajectory: Trajectory, time: float) -> str:
    """A flow time as what is asked of a training loop, or of the flow."""
    lr, momentum = trajectory.settings.get("lr"), trajectory.settings.get("momentum", 0.0)
    if lr is not None:
        return f"{time * (1 - momentum) / lr:,.0f} steps"
    return f"flow time {number(time)}" + (" (t_max, --t-max)" if trajectory.method != "csv" else "")


def _largest(values: list[float]) -> float:
    """Largest absolute value, NaNs left out; NaN when nothing is left."""
    finite = [abs(value) for value in values if not np.isnan(value)]
    return max(finite) if finite else np.nan
