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
from agf.pictures.axes import import_matplotlib
from agf.records import files, provenance
from agf.records.table import Table, level, number, percent
from agf.results.comparison import Comparison

#: Letters of a label in the table; the json has all of it.
_LONGEST = 60


@dataclass(frozen=True)
class Rendition:
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
        ax.text(-0.02, 1.03, f"({chr(97 + index)})", transform=ax.transAxes, ha="right", va="bottom", weight="bold")


def shared_legend(figure: Any, ax: Any) -> None:
    """The legend of `ax` in a row below the figure, for all panels that mean the same by the same style."""
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize="small")


def number_drops(ax: Any) -> None:
    """Numbers in place of the names of drops above the axes; the table says what they are."""
    for k, text in enumerate(ax.texts, 1):
        text.set(text=str(k), rotation=0)


def steps(times: np.ndarray, levels: np.ndarray, end: float, begin: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Corners of a staircase with times (K,) and levels (K+1,), from `begin` to `end`."""
    x = np.concatenate([[begin], np.repeat(times, 2), [end]])
    return x, np.repeat(levels, 2)
