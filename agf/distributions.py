"""The numbers of a sweep: distributions of jump times and levels, orders of acquisition, agreement, convergence.

A group is one combination of the settings other than the seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.asked import asked
from agf.errors import RequestError, explain
from agf.graph import learned, saddles
from agf.records import files
from agf.results.staircase import Staircase

if TYPE_CHECKING:
    import networkx as nx

#: Quantiles shown for every distribution. Setting: of pictures; the runs are all there.
QUANTILES = (0.05, 0.5, 0.95)
#: What they are called.
ENDS = ("05", "median", "95")


@dataclass(frozen=True)
class Fit:
    """Least-squares line through (log x, log y): y ~ x^slope.

    Parameters
    ----------
    slope : float
        The exponent.
    error : float
        Standard error of the slope.
    n : int
        Number of points.
    """

    slope: float
    error: float
    n: int


@asked
def power_law(x: Iterable[float], y: Iterable[float]) -> Fit | None:
    """Slope of log y against log x with its standard error, or None with fewer than three usable points."""
    x, y = list(x), list(y)
    if len(x) != len(y):
        raise RequestError(
            explain(f"there are {len(x)} x and {len(y)} y.", where="power_law", expected="as many of both")
        )
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if a > 0 and b > 0 and math.isfinite(a) and math.isfinite(b)]
    if len(pairs) < 3 or len({a for a, _ in pairs}) < 2:
        return None
    log_x, log_y = np.log(np.array(pairs)).T
    centred = log_x - log_x.mean()
    slope = float(centred @ (log_y - log_y.mean()) / (centred @ centred))
    rest = log_y - log_y.mean() - slope * centred
    spread = float(rest @ rest) / (len(pairs) - 2)
    return Fit(slope, math.sqrt(spread / float(centred @ centred)), len(pairs))


@dataclass(frozen=True)
class Group:
    """Runs that share everything but the seed.

    Parameters
    ----------
    settings : dict[str, Any]
        The shared values.
    staircases : list[Staircase]
        predictions (drops without features), one a run.
    seeds : list[int]
        Their seeds.
    failed : list[str]
        Messages of runs that failed.
    matches : list[list[dict[str, Any]]]
        One list a compared run, dicts with k, time_error, level_error.
    """

    settings: dict[str, Any]
    staircases: list[Staircase]
    seeds: list[int]
    failed: list[str]
    matches: list[list[dict[str, Any]]]

    @property
    def name(self) -> str:
        """The shared values in words."""
        return words(self.settings)

    def column(self, name: str, k: int) -> FloatArray:
        """The quantity `name` of the k-th drop (k >= 1) over the runs that have it."""
        values = [getattr(run.drops[k - 1], name) for run in self.staircases if len(run.drops) >= k]
        return np.array(values, dtype=np.float64)

    def median_staircase(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Quantiles (K,) of the half-drop times and levels (K + 1,) at jumps that most runs make.

        All runs count at every jump: who never makes it does so at the end of time, and stays on the last level. So
        times grow from jump to jump and levels fall, as they do in every run.
        """
        runs = self.staircases
        times = np.full((len(runs), self.depth), np.nan)
        levels = np.zeros((len(runs), self.depth + 1))
        for row, steps, run in zip(times, levels, runs, strict=True):
            row[: len(run.drops)] = [drop.half_time for drop in run.drops]
            known = [run.start_level, *[drop.level for drop in run.drops]]
            steps[:] = known + [known[-1]] * (self.depth + 1 - len(known))
        shown = np.mean(np.isfinite(times), axis=0) > 0.5
        never = 0.5 * np.finfo(np.float64).max  # finite, since quantiles are differences
        low, middle, high = np.quantile(np.where(np.isfinite(times), times, never)[:, shown], QUANTILES, axis=0)
        return low, middle, high, np.median(levels, axis=0)[: middle.size + 1]

    def median_error(self, k: int) -> float:
        """Median size of the relative error in time of drop k over the runs; NaN where none was observed."""
        return _errors(self.observed("time", k))[0]

    def observed(self, name: str, k: int) -> FloatArray:
        """Finite relative errors of the time or the level of drop k."""
        found = [files.from_json_float(m[f"{name}_error"]) for run in self.matches for m in run if m["k"] == k]
        return _finite(found)

    @property
    def is_one_run(self) -> bool:
        """Whether there are several seeds, and all of them gave the same times and levels."""
        runs = {tuple((drop.time, drop.level) for drop in run.drops) for run in self.staircases}
        return len(self.staircases) > 1 and len(runs) == 1 and runs != {()}

    @property
    def depth(self) -> int:
        """Largest number of drops in a run."""
        return max((len(run.drops) for run in self.staircases), default=0)


@dataclass(frozen=True, repr=False)
class Distributions:
    """Runs of a sweep by group, and their numbers; what is made of these for people, `Summary` knows.

    Parameters
    ----------
    problem : str
        Name of the problem.
    groups : list[Group]
        Runs that share everything but the seed.
    """

    problem: str
    groups: list[Group]

    def _jumps(self) -> Iterator[tuple[Group, dict[str, Any]]]:
        """A row a group and drop: how many make it, half-drop times and levels."""
        for group in self.groups:
            for k in range(1, group.depth + 1):
                times, levels = group.column("half_time", k), group.column("level", k)
                found = {"settings": group.settings, "drop": k, "runs": times.size, "time_spread": _spread(times)}
                for name, values in (("time", times), ("level", levels)):
                    found |= {f"{name}_{end}": q for end, q in zip(ENDS, _quantiles(values), strict=True)}
                yield group, found

    def _orders(self, most: int | None = None) -> Iterator[tuple[Group, dict[str, Any]]]:
        """A row a group and order of acquisition, the `most` frequent ones first."""
        for group in self.groups:
            total = len(group.staircases)
            for order, count in Counter(_order(run) for run in group.staircases).most_common(most):
                found = {"settings": group.settings, "share": count / total, "runs": count, "order": list(order)}
                yield group, found

    def positions(self) -> dict[str, FloatArray]:
        """P(feature is acquired at drop k), over all groups: name -> (K,) shares of the runs."""
        depth = max((group.depth for group in self.groups), default=0)
        total = sum(len(group.staircases) for group in self.groups)
        out: dict[str, FloatArray] = {}
        for group in self.groups:
            for run in group.staircases:
                for k, name in enumerate(_order(run)):
                    out.setdefault(name, np.zeros(depth))[k] += 1.0 / total
        return out

    def _agreement(self) -> Iterator[tuple[Group, dict[str, Any]]]:
        """A row a group and drop that was compared: relative errors of its time and level."""
        for group in self.groups:
            for k in range(1, group.depth + 1):
                compared = sum(m["k"] == k for run in group.matches for m in run)
                found = {"settings": group.settings, "drop": k, "runs": compared}
                for name in ("time", "level"):
                    errors = group.observed(name, k)
                    middle, high = _errors(errors)
                    found |= {f"{name}_errors": errors.size}
                    found |= {f"{name}_error_median": middle, f"{name}_error_95": high}
                if compared:
                    yield group, found

    def _convergence(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """A row a family of alphas and drop: limit, and how fast times come to it."""
        for shared, family in self._families("alpha"):
            family = sorted(family, key=lambda group: -float(group.settings["alpha"]))
            alphas = [float(group.settings["alpha"]) for group in family]
            if len(alphas) < 4 or alphas[0] >= 1:
                continue
            x = np.array([-1.0 / math.log(alpha) for alpha in alphas])
            runs = [dict(zip(group.seeds, group.staircases, strict=True)) for group in family]
            for k in range(1, min(group.depth for group in family) + 1):
                seeds = [seed for seed in runs[0] if _same_start([found.get(seed) for found in runs], k)]
                if not seeds:
                    continue
                y = np.array([np.mean([found[seed].drops[k - 1].accelerated_time for seed in seeds]) for found in runs])
                limit = max(y[-1] - x[-1] * (y[-2] - y[-1]) / (x[-2] - x[-1]), 0.0)  # of times
                fit = power_law(x[:-2], np.abs(y[:-2] - limit))
                yield (
                    shared,
                    {
                        "settings": _without(family[0].settings, "alpha"),
                        "drop": k,
                        "limit": float(limit),
                        "at_smallest_alpha": float(y[-1]),
                        "slope": None if fit is None else fit.slope,
                        "slope_error": None if fit is None else fit.error,
                        "runs": len(seeds),
                    },
                )

    def _sensitivity(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """A row a family of threshold rules and drop: median half-drop times under both."""
        for shared, family in self._families("threshold"):
            rules = {str(group.settings["threshold"]): group for group in family}
            if {"natural", "unit"} <= set(rules):
                for k in range(1, min(group.depth for group in rules.values()) + 1):
                    natural, unit = (float(np.median(rules[r].column("half_time", k))) for r in ("natural", "unit"))
                    found = {"settings": _without(family[0].settings, "threshold"), "drop": k}
                    yield shared, found | {"natural": natural, "unit": unit, "difference": unit / natural - 1}

    def graph(self) -> nx.DiGraph:
        """The merged saddle graph of all predictions."""
        return saddles(run for group in self.groups for run in group.staircases)

    def _families(self, axis: str) -> Iterator[tuple[str, list[Group]]]:
        """Groups that differ only in `axis`, with the values they share in words."""
        families: dict[tuple[Any, ...], list[Group]] = {}
        for group in self.groups:
            if axis in group.settings and group.staircases:
                rest = tuple(_without(group.settings, axis).items())
                families.setdefault(rest, []).append(group)
        for rest, family in families.items():
            yield words(dict(rest)), family


def words(settings: dict[str, Any]) -> str:
    """Settings as people read them: "alpha=0.01, width=5"."""
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in settings.items())


def _order(run: Staircase) -> tuple[str, ...]:
    """Features in the order in which a run acquired them, repeats kept."""
    return tuple(learned(drop) for drop in run.drops)


def _same_start(runs: Sequence[Staircase | None], k: int) -> bool:
    """Whether all of these runs exist and learned the same in their first k drops."""
    starts = {None if run is None or len(run.drops) < k else _order(run)[:k] for run in runs}
    return len(starts) == 1 and None not in starts


def _finite(values: Iterable[float]) -> FloatArray:
    array = np.array(list(values), dtype=np.float64)
    return array[np.isfinite(array)]


def _quantiles(values: FloatArray) -> list[float]:
    usable = values[np.isfinite(values)]
    return [math.nan] * len(QUANTILES) if usable.size == 0 else [float(q) for q in np.quantile(usable, QUANTILES)]


def _without(settings: dict[str, Any], axis: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != axis}


def _spread(values: FloatArray) -> float:
    usable = values[np.isfinite(values)]
    return math.nan if usable.size < 2 or usable.mean() == 0 else float(usable.std(ddof=1) / usable.mean())


def _errors(values: FloatArray) -> tuple[float, float]:
    if values.size == 0:
        return math.nan, math.nan
    return float(np.median(np.abs(values))), float(np.quantile(np.abs(values), 0.95))
