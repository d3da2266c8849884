"""What a sweep says, for people: tables and pictures of the distributions of its finished runs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agf import plot
from agf.arrays import FloatArray
from agf.asked import asked
from agf.clock import Clock
from agf.distributions import ENDS, Distributions, Group, words
from agf.distributions import power_law as power_law
from agf.errors import RequestError, explain
from agf.pictures.axes import loss_scale, plain
from agf.pictures.ticks import log_time
from agf.records import files
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import Table, apart, counted, level, number, one_line, percent
from agf.results.drop import Drop
from agf.results.staircase import Staircase

if TYPE_CHECKING:
    from agf.sweeping.sweep import Sweep

#: Digits in which quantiles may be told apart. Derived: as many as predictions are made to.
_DIGITS = 1 - round(math.log10(Settings.rtol))
#: Groups of a picture that are named. Limit: with more there is no legend, which would hide the staircases.
_MOST_NAMES = 12


class Summary(Distributions):
    """Statistics of a sweep, ready to print, draw and save.

    Parameters
    ----------
    problem : str
        Name of the problem.
    groups : list[Group]
        Runs that share everything but the seed.
    """

    def times(self) -> Table:
        """Distribution of the half-drop time and the level of each drop, a row a group and drop."""
        rows = []
        for group, jump in self._jumps():
            times, levels = ([jump[f"{name}_{end}"] for end in ENDS] for name in ("time", "level"))
            start = group.staircases[0].start_level
            levels = [0.0 if level(value, start) == "0" else value for value in levels]
            told = [*_told(times, jump["runs"]), percent(jump["time_spread"]), *_told(levels, jump["runs"])]
            rows.append([group.name, str(jump["drop"]), str(jump["runs"]), *told])
        columns = ["group", "drop", "runs", *_headed("time"), "std/mean", *_headed("level")]
        return Table(f"Jump times (flow time, half-drop) and levels of {self.problem}", columns, rows, self._notes())

    def orders(self, most: int = 5) -> Table:
        """The most frequent orders of acquisition of each group with their probabilities."""
        rows = [
            [
                group.name,
                percent(found["share"]) if len(group.staircases) > 1 else "-",
                str(found["runs"]),
                _chain(found["order"]),
            ]
            for group, found in self._orders(most)
        ]
        return Table(
            f"Order of acquisition of {self.problem}",
            ["group", "probability", "runs", "order"],
            rows,
            [f"At most {most} orders a group; probabilities are shares of the finished runs, of one none."],
        )

    def agreement(self) -> Table | None:
        """Relative errors of predicted half-drop times and levels against gradient flow; None without comparisons."""
        rows = []
        for group, found in self._agreement():
            row = [group.name, str(found["drop"]), str(found["runs"])]
            for name in ("time", "level"):
                high = percent(found[f"{name}_error_95"]) if found[f"{name}_errors"] > 1 else "-"
                row += [percent(found[f"{name}_error_median"]), high]
            rows.append(row)
        if not rows:
            return None
        columns = ["group", "drop", "runs", *_headed("time error")[1:], *_headed("level error")[1:]]
        return Table(f"Prediction against gradient flow, {self.problem}", columns, rows)

    def convergence(self) -> Table | None:
        """Distance of the accelerated jump times to their value at the smallest alpha, against 1/log(1/alpha).

        The error of the alpha -> 0 limit falls like 1/log(1/alpha), slope 1. Here the limit is extrapolated linearly in
        1/log(1/alpha) from the two smallest alphas. A drop counts in the seeds that learned the same in the same order
        up to it at every alpha; in the others it is not one drop. None with fewer than four alphas below 1.
        """
        rows = []
        for shared, found in self._convergence():
            slope = "-" if found["slope"] is None else f"{found['slope']:.2f} +- {found['slope_error']:.2f}"
            limits = apart([found["limit"], found["at_smallest_alpha"]], 6)
            rows.append([shared, str(found["drop"]), *limits, slope, str(found["runs"])])
        if not rows:
            return None
        return Table(
            f"Convergence in alpha, {self.problem}",
            ["group", "drop", "limit", "at smallest alpha", "slope in 1/log(1/alpha)", "runs"],
            rows,
            [
                "Mean accelerated jump times; the limit is extrapolated linearly from the two smallest alphas.",
                "Runs: seeds with the same order up to this drop at every alpha; other seeds are left out.",
                *["A slope takes five alphas."] * all(row[4] == "-" for row in rows),
            ],
        )

    def sensitivity(self) -> Table | None:
        """How far the two threshold rules move the median half-drop times; None without both."""
        rows = [
            [
                shared,
                str(found["drop"]),
                *apart([found["natural"], found["unit"]], 6),
                percent(found["difference"]),
            ]
            for shared, found in self._sensitivity()
        ]
        if not rows:
            return None
        columns = ["group", "drop", "natural", "unit", "difference"]
        return Table(f"Sensitivity to the threshold rule, {self.problem}", columns, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document of `agf summarize --json`: every table as a list of rows with the numbers that the
        table shows rounded, and the settings of the group; empty where there is nothing to say.

        * `times`: `drop`, `runs` that make it, `time_05`, `time_median`, `time_95` (half-drop), `time_spread` (standard
          deviation over mean), `level_05`, `level_median`, `level_95`
        * `orders`: all of them, `share` of the runs, `runs`, `order` (names)
        * `agreement`: `drop`, `runs`, how many `time_errors` and `level_errors` there are, their `..._error_median` and
          `..._error_95`, relative
        * `convergence`: `drop`, `limit`, `at_smallest_alpha`, `slope`, `slope_error`, `runs`
        * `sensitivity`: `drop`, `natural`, `unit`, `difference`
        """
        return {
            "problem": self.problem,
            "times": [found for _, found in self._jumps()],
            "orders": [found for _, found in self._orders()],
            "agreement": [found for _, found in self._agreement()],
            "convergence": [found for _, found in self._convergence()],
            "sensitivity": [found for _, found in self._sensitivity()],
            "notes": self._notes(),
        }

    def __repr__(self) -> str:
        runs = sum(len(group.staircases) for group in self.groups)
        groups = counted(len(self.groups), "group")
        return one_line(f"<Summary of {self.problem}, {groups}, {counted(runs, 'prediction')}>")

    def tables(self) -> list[Table]:
        """Every table that has something to say."""
        found = [self.times(), self.orders(), self.agreement(), self.convergence(), self.sensitivity()]
        return [table for table in found if table is not None]

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())

    def draw(self, *, ax: Any = None) -> Any:
        """Staircases of the groups: median level against time, with the 5-95 % band of the half-drop times.

        Returns the matplotlib axes: `ax` where they are given.
        """
        ax = plot.new_axes() if ax is None else ax
        drawn = [group for group in self.groups if group.staircases]
        heights: list[FloatArray] = []
        styles = itertools.cycle(itertools.product(("-", "--", ":"), plot.PALETTE))
        for group, (dash, colour) in zip(drawn, styles, strict=False):
            name, style = plain(self._difference(group)), {"color": colour, "ls": dash, "lw": 1.5}
            low, middle, high, levels = group.median_staircase()
            heights.append(levels)
            if middle.size:
                end = 3 * middle[-1]
                ax.plot([middle[0] / 10, *np.repeat(middle, 2), end], np.repeat(levels, 2), label=name, **style)
                for k in range(middle.size):
                    right = min(high[k], end)
                    ax.fill_betweenx(levels[[k + 1, k]], low[k], right, color=colour, alpha=0.2, lw=0)
        log_time(ax)
        ax.set_xlabel("flow time t")
        ax.set_ylabel("level (loss)")
        loss_scale(ax, heights)
        ax.set_title(f"{plain(self.problem)}: median staircase, 5-95 % of the jump times")
        if 0 < len(ax.get_legend_handles_labels()[0]) <= _MOST_NAMES:
            ax.legend(frameon=False, fontsize="small")
        if not drawn:
            ax.text(0.5, 0.5, "no finished prediction", ha="center", transform=ax.transAxes)
        return ax

    def draw_errors(self, *, ax: Any = None) -> Any:
        """Error of the predicted half-drop times against alpha, both logarithmic: a line a drop, its median over the
        runs, and everything else that differs. Errors below the tolerance of predictions are rounding, and drawn there.

        Parameters
        ----------
        ax : matplotlib axes or None
            Where to draw; new axes by default.

        Returns
        -------
        Axes
            What was drawn on.

        Raises
        ------
        RequestError
            For a sweep that compared nothing, or at one alpha only.
        """
        families = [(name, group) for name, group in self._families("alpha") if len(group) > 1]
        if not any(one.matches for _, family in families for one in family):
            words = "an error against alpha needs comparisons at several alphas."
            raise RequestError(explain(words, where="summarize", remedy="Sweep with --do compare and --alpha A,B,..."))
        ax = plot.new_axes() if ax is None else ax
        styles = itertools.cycle(itertools.product(("-", "--", ":"), plot.PALETTE))
        for shared, family in families:
            for k in range(1, max(group.depth for group in family) + 1):
                points = [(float(group.settings["alpha"]), group.median_error(k)) for group in family]
                known = sorted((alpha, max(error, Settings.rtol)) for alpha, error in points if not math.isnan(error))
                if known:
                    dash, colour = next(styles)
                    name = f"drop {k}" + (f", {plain(shared)}" if len(families) > 1 else "")
                    ax.plot(*zip(*known, strict=True), "o", ls=dash, color=colour, ms=3.5, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("alpha")
        ax.set_ylabel(f"error of the half-drop time ({Settings.rtol:g}: none)")
        ax.set_title(f"{plain(self.problem)}: prediction against gradient flow")
        if 0 < len(ax.get_legend_handles_labels()[0]) <= 2 * _MOST_NAMES:
            ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return ax

    def _difference(self, group: Group) -> str:
        """In words, what sets a group apart from the others; all of it for a single group."""
        common = set.intersection(*[set(map(repr, other.settings.items())) for other in self.groups])
        own = {name: value for name, value in group.settings.items() if repr((name, value)) not in common}
        return words(own or group.settings)

    def _notes(self) -> list[str]:
        failed = sum(len(group.failed) for group in self.groups)
        notes = [f"{counted(failed, 'failed run')} left out."] if failed else []
        if any(group.column("half_time", k).size < len(group.staircases) for group in self.groups
               for k in range(1, group.depth + 1)):  # fmt: skip
            notes.append("Times and levels are of the runs that make the drop; in the picture others never make it.")
        same = [group.name for group in self.groups if group.is_one_run]
        if same:
            more = f" (and {len(same) - 1} more groups)" if len(same) > 1 else ""
            notes.append(f"All seeds of {same[0]}{more} are the same run: nothing is random there.")
        return notes


@asked
def summarize(sweep: Sweep) -> Summary:
    """Statistics of the finished runs of a sweep.

    Raises
    ------
    RequestError
        When none is finished.
    """
    groups: dict[str, Group] = {}
    for entry in sweep.entries():
        settings = {name: value for name, value in entry["run"].items() if name != "seed"}
        group = groups.setdefault(repr(settings), Group(settings, [], [], [], []))
        if entry["error"]:
            group.failed.append(entry["error"])
        if "predict" in entry:
            group.staircases.append(_staircase(sweep.plan.problem, entry["predict"]))
            group.seeds.append(int(entry["run"].get("seed", 0)))
        if "compare" in entry:
            group.matches.append(entry["compare"])
    if not groups:
        raise RequestError(explain("no run is finished.", where=f"sweep {sweep.folder}"))
    return Summary(sweep.plan.problem, list(groups.values()))


def _staircase(problem: str, document: dict[str, Any]) -> Staircase:
    real = files.from_json_float
    drops = tuple(
        Drop(
            time=real(drop["time"]),
            half_time=real(drop["half_time"]),
            accelerated_time=real(drop["accelerated_time"]),
            level=real(drop["level"]),
            neurons=np.asarray(drop["neurons"], dtype=np.int64),
            collapsed=np.asarray(drop["collapsed"], dtype=np.int64),
            label=drop["label"],
            utility=np.asarray([real(value) for value in drop["utility"]]),
            runner_up=(int(drop["runner_up"][0]), real(drop["runner_up"][1])) if drop.get("runner_up") else None,
        )
        for drop in document["drops"]
    )
    scale = real(document["clock_scale"])
    return Staircase(
        problem=problem,
        degree=document["degree"],
        clock=Clock(document["degree"], math.log(scale)),
        start_level=real(document["start_level"]),
        drops=drops,
        status=Status.from_word(document["status"]),
    )


def _chain(order: Sequence[str]) -> str:
    """An order in words; a word that repeats is written once: "mode 1 > 2 > 3"."""
    words, last = [], ""
    for name in order:
        numbered = re.fullmatch(r"(\D+) (\d.*)", name, flags=re.DOTALL)
        kind, item = numbered.groups() if numbered else ("", name)
        words.append(item if kind and kind == last else name)
        last = kind
    return " > ".join(words) or "nothing"


def _told(found: Sequence[float], runs: int) -> list[str]:
    """The quantiles for people, with digits in which they differ; of one run its value alone."""
    return ["-", number(found[1]), "-"] if runs == 1 else apart(found, most=_DIGITS)


def _headed(name: str) -> list[str]:
    """Their columns."""
    return [f"{name} 5 %", f"{name} median", f"{name} 95 %"]
