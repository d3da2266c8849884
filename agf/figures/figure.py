"""A figure with the data behind its panels and the table of predicted against observed."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from agf import plot
from agf.pictures.axes import import_matplotlib, spread
from agf.records import files, provenance
from agf.records.table import Table, Tabular, level, number, percent
from agf.results.comparison import Comparison

#: Letters of a label in the table; the json has all of it.
_LONGEST = 60
#: Least room between two numbers above a panel, in sizes of their font. Setting: of pictures.
_GAP = 0.5
#: Corner of a panel to its letter, points: above the topmost word of the axis. Setting: of pictures.
_CORNER = (-3, 7)
#: Room for one entry of a legend, inches. Setting: of pictures.
_WORD = 2.2


@dataclass(frozen=True)
class Rendition(Tabular):
    """One figure.

    Parameters
    ----------
    figure : Any
        matplotlib Figure.
    panels : dict[str, dict[str, np.ndarray]]
        Panel -> name -> array, the data drawn.
    reports : dict[str, Comparison]
        What each comparison is about -> the comparison of prediction and flow.
    settings : dict[str, Any]
        alpha, seeds and sizes, for the record.
    """

    name: str
    title: str
    figure: Any
    panels: dict[str, dict[str, np.ndarray]]
    reports: dict[str, Comparison]
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self) -> Table:
        """Predicted against observed, a row a drop, times being flow times of the half-drop; else the settings."""
        if not self.reports:
            told = [[name, number(value, 5) if isinstance(value, float) else str(value)] for name, value in
                    self.settings.items()]  # fmt: skip
            return Table(f"{self.name}: {self.title}", ["what", "value"], told)
        rows = []
        for about, report in self.reports.items():
            for match in report.matches:
                rows.append(
                    [
                        about, str(match.k), number(match.predicted_time, 5), number(match.observed_time, 5),
                        percent(match.time_error), level(match.predicted_level, match.start_level),
                        level(match.observed_level, match.start_level), percent(match.level_error),
                        shorten(match.label, _LONGEST, placeholder=" ..."),
                    ]
                )  # fmt: skip
        columns = ["run", "drop", "predicted time", "observed", "error", "level", "observed", "error", "learned"]
        notes = ["Times: flow time of the half-drop. Errors of levels are relative to L(0); a dash: no plateau shows."]
        if any("0" in row[5:7] for row in rows):
            notes.append("A level reads 0 where it is lost, in float64, when added to L(0).")
        return Table(f"{self.name}: {self.title}", columns, rows, notes)

    def numbers(self) -> dict[str, Any]:
        """Plain values: settings, and for every comparison its drops and largest errors."""
        return {
            "figure": self.name,
            "title": self.title,
            "settings": self.settings,
            "versions": provenance.versions(),
            "comparisons": {about: report.to_dict() for about, report in self.reports.items()},
        }

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write NAME.pdf, NAME.png, NAME-PANEL.npz for every panel and NAME.json; returns what was written.

        Raises FileError when the folder cannot be written.
        """
        root = Path(folder)
        return list(self._save(root))

    def _save(self, root: Path) -> Iterator[Path]:
        axes = self.figure.axes[0]
        for suffix in ("pdf", "png"):
            plot.save(axes, root / f"{self.name}.{suffix}")
            yield root / f"{self.name}.{suffix}"
        for panel, arrays in self.panels.items():
            buffer = io.BytesIO()
            named: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
            np.savez_compressed(buffer, **named)
            path = root / f"{self.name}-{panel}.npz"
            with files.atomic(path) as handle:
                handle.write(buffer.getvalue())
            yield path
        path = root / f"{self.name}.json"
        with files.atomic(path, "w") as handle:
            json.dump(files.jsonable(self.numbers()), handle, indent=1, allow_nan=False)
        yield path


def subplots(rows: int, columns: int, width: float = 3.4, height: float = 2.8) -> tuple[Any, np.ndarray]:
    """A figure and its (rows, columns) axes, in the user's style, touching no global state."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def letter(axes: np.ndarray) -> None:
    """(a), (b), ... in the corners of the panels."""
    for index, ax in enumerate(axes.flat):
        ax.annotate(f"({chr(97 + index)})", (0, 1), _CORNER, xycoords="axes fraction", textcoords="offset points",
                    ha="right", va="bottom", weight="bold")  # fmt: skip


def shared_legend(figure: Any, *axes: Any, columns: int = 4) -> None:
    """One legend below the figure: every word of these panels once, with the style it has where it comes first."""
    styles: dict[str, Any] = {}
    for ax in axes:
        if ax.get_legend() is not None:
            ax.get_legend().remove()
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            styles.setdefault(label, handle)
    columns = max(min(columns, int(figure.get_figwidth() / _WORD)), 1)
    figure.legend(
        styles.values(), styles.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize="small"
    )


def observed(ax: Any, times: np.ndarray, values: np.ndarray, **style: Any) -> None:
    """A curve of gradient flow, broad and pale, so that a prediction on top of it hides nothing."""
    ax.plot(times, values, **{"color": plot.OBSERVED, "lw": 3, "alpha": 0.55, "solid_capstyle": "butt"} | style)


def predicted(ax: Any, times: np.ndarray, values: np.ndarray, end: float, **style: Any) -> None:
    """Steps from values[k] to values[k+1] at times[k], drawn up to `end`, where the curve they belong to ends."""
    begin = min(ax.get_xlim()[0], float(times.min(initial=end)))
    ax.plot(*steps(times, values, end, begin), **{"color": plot.PREDICTED, "lw": 1.2} | style)


def rules(ax: Any, places: np.ndarray, label: str, across: bool = False, **style: Any) -> None:
    """A thin line at each finite place, upright or across; one entry of the legend for all of them."""
    draw = ax.axhline if across else ax.axvline
    for k, place in enumerate(places[np.isfinite(places)]):
        draw(float(place), label="_" * bool(k) + label, zorder=0, **{"color": plot.RULE, "lw": 0.8, "ls": ":"} | style)


def bounds(ax: Any, places: np.ndarray) -> None:
    """Lower bounds on the times of the drops."""
    rules(ax, places, "lower bound on each jump", color=plot.PALETTE[2], ls="-.", lw=1.0)


def number_drops(ax: Any, times: np.ndarray) -> None:
    """The number of each drop above the axes, where it is predicted, or as near as neighbours leave room."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    ax.plot([], [], color="black", marker="$1$", ls="none", ms=5, label="number of a drop, where it is predicted")
    to_axes = ax.transData + ax.transAxes.inverted()
    at = np.array([to_axes.transform((time, ax.get_ylim()[0]))[0] for time in times])
    shown = np.flatnonzero((at >= 0) & (at <= 1))
    font = FontProperties(size="x-small")
    size = font.get_size_in_points()
    wide = np.array([text_to_path.get_text_width_height_descent(str(k + 1), font, False)[0] for k in shown])
    beside = np.cumsum(wide + _GAP * size) - 0.5 * wide
    beside *= ax.get_figure().dpi / 72 / ax.bbox.width
    placed = spread(at[shown] - beside, 0.0) + beside
    for k, x in zip(shown, placed, strict=True):
        ax.annotate(str(k + 1), (x, 1.0), (0, 2), xycoords="axes fraction", textcoords="offset points", ha="center",
                    va="bottom", fontsize="x-small")  # fmt: skip


def shades(count: int) -> list[Any]:
    """Colours that darken evenly, also to the colour-blind and in grey, from the largest alpha to the smallest."""
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.92, 0.0, count)))


def power_of_ten(alpha: float) -> str:
    """alpha in mathematics: a power of ten where it is one, else the number."""
    exponent = round(float(np.log10(alpha)))
    return rf"$10^{{{exponent}}}$" if np.isclose(alpha, 10.0**exponent) and exponent else f"{alpha:g}"


def steps(times: np.ndarray, levels: np.ndarray, end: float, begin: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Corners of a staircase with times (K,) and levels (K+1,), from `begin` to `end`; later steps are cut off."""
    within = times < end
    levels = levels[np.append(True, within)]
    x = np.concatenate([[begin], np.repeat(times[within], 2), [end]])
    return x, np.repeat(levels, 2)
