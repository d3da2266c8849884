"""What all pictures share: axes, colours, the scale of the loss, rules with names, legends, and files."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.errors import FileError, explain
from agf.pictures import ticks
from agf.records import files
from agf.records.table import number, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Okabe and Ito, in the order used for features and neurons.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
PREDICTED = "#D55E00"
OBSERVED = "#0072B2"
RULE = "#999999"
#: Formats that matplotlib writes without further software.
SUFFIXES = (".pdf", ".svg", ".eps", ".ps", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
#: Least distance between the middles of two drop labels, in sizes of their font.
_LABEL_GAP = 1.5
#: Labels of drops on one picture at most; where more are, or than fit on the axes, they are left to the table.
_MOST_LABELS = 24
#: Letters of the longest label of a drop; longer ones are shortened.
_LONGEST_LABEL = 24
#: Letters of a name anywhere else; more would squeeze the axes.
_LONGEST_NAME = 80
#: Columns of a legend below the axes.
_MOST_COLUMNS = 3


def import_matplotlib() -> Any:
    """matplotlib, also where MPLBACKEND names a backend that does not exist: files are drawn without any."""
    asked = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
    import matplotlib as mpl

    if asked is not None:
        os.environ["MPLBACKEND"] = asked
        with contextlib.suppress(ValueError):
            mpl.rcParams["backend"] = asked
    return mpl


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this process."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def new_axes(enlarged: float = 1.0) -> Axes:
    """Axes of a new figure in the user's style. enlarged : size over that of the style.

    The figure belongs to pyplot only in a notebook, which shows it below the cell, or if the session already uses
    pyplot; otherwise no global state is touched, and no display is needed.
    """
    if "matplotlib.pyplot" in sys.modules or in_notebook():
        import_matplotlib()
        from matplotlib import pyplot

        drawn, ax = pyplot.subplots(layout="constrained")
        drawn.set_size_inches(*(enlarged * drawn.get_size_inches()))
        return ax
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    figure.set_size_inches(*(enlarged * figure.get_size_inches()))
    FigureCanvasAgg(figure)
    return figure.subplots()


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a picture that could not be written at `path`, before anything is computed. Raises FileError."""
    files.check_writable(path)
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(
            explain(
                f"cannot draw {str(path)!r}: its suffix names no picture format.",
                expected="one of " + ", ".join(SUFFIXES),
            )
        )
    if import_matplotlib().rcParams["text.usetex"]:
        raise FileError(
            explain(
                "matplotlib is told to set text by LaTeX, and the labels of these pictures are not written in it.",
                found="text.usetex: True",
                remedy="Set it to False for them, in matplotlibrc or by matplotlib.rc_context.",
            )
        )


def save(ax: Axes, path: str | os.PathLike[str] | None) -> Axes:
    """Write the figure of `ax` in the format of the suffix; nothing when path is None. Returns `ax`.

    The file appears complete or not at all, and holds no date, so that equal pictures are equal files.
    Raises FileError for an unknown suffix or a path that cannot be written.
    """
    if path is None:
        return ax
    check_path(path)
    mpl = import_matplotlib()

    suffix = Path(path).suffix.lower()[1:]
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes without a figure cannot be drawn on either
    with mpl.rc_context({"svg.hashsalt": "agf"}), files.atomic(path) as handle:
        try:
            figure.savefig(handle, format=suffix, dpi=200, metadata=undated.get(suffix))
        except (ValueError, OverflowError) as error:  # of ticks, where what is drawn spans more than float64
            raise FileError(explain("matplotlib cannot draw this.", where=str(path), found=str(error))) from error
    return ax


# -- rules and words ----------------------------------------------------------------------------------------------


def drop_rules(ax: Axes, times: FloatArray, labels: Sequence[str]) -> None:
    """A thin vertical rule at each time, and the labels above the axes, pushed apart where they would overlap."""
    from matplotlib.font_manager import FontProperties

    # From the foot of the words, so that a leader crosses none of them.
    foot: dict[str, Any] = {"relpos": (0.5, 0.0), "patchA": None, "shrinkA": 0, "shrinkB": 0}
    leader = {"arrowstyle": "-", "color": RULE, "linewidth": 0.5, **foot}
    for time in times:
        ax.axvline(time, color=RULE, linewidth=0.6, linestyle=":", zorder=0)
    to_fraction = ax.transScale + ax.transLimits
    at = np.array([to_fraction.transform((time, ax.get_ylim()[0]))[0] for time in times])
    shown = np.flatnonzero((at >= 0) & (at <= 1))
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes without a figure cannot be drawn on either
    font = FontProperties(size="x-small").get_size_in_points()
    gap = _LABEL_GAP * font / (72 * ax.bbox.width / figure.dpi)
    if shown.size > min(_MOST_LABELS, 1 / gap) or not any(labels):
        return
    if any(len(label) > _LONGEST_LABEL and _names(label) for label in labels):  # of one picture all alike
        labels = [_names(label) or label for label in labels]
    order = shown[np.argsort(at[shown], kind="stable")]
    placed = spread(at[order], gap)
    placed += max(-placed.min(initial=0.0), 0.0) - max(placed.max(initial=1.0) - 1.0, 0.0)
    for index, x in zip(order, placed, strict=True):
        ax.annotate(
            plain(short(labels[index])),
            (times[index], 1.0),
            (x, 1.03),
            xycoords=ax.get_xaxis_transform(),
            textcoords="axes fraction",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize="x-small",
            arrowprops=leader,
            annotation_clip=False,
        )


def short(label: str, most: int = _LONGEST_LABEL) -> str:
    """A label of so many letters at most: the names of coordinates or the numbers alone, then as many items as fit."""
    bare = re.sub(r"\s*\([^()]*\)", "", label)
    for whole in (label, _names(label), bare):
        if 0 < len(whole) <= most:
            return whole
    items = re.split(r", | and ", bare)
    for kept in range(len(items) - 1, 0, -1):
        some = f"{', '.join(items[:kept])} + {len(items) - kept} more"
        if len(some) <= most:
            return some
    return bare[: most - 3] + "..."


def _names(label: str) -> str:
    """The names of coordinates alone, of a label that is these and their numbers; "" for others."""
    named = re.fullmatch(r"coordinates? \d+ \(([^()]+)\)((?:, \d+ \([^()]+\))*)", label)
    return ", ".join([named[1], *re.findall(r"\(([^()]+)\)", named[2])]) if named else ""


def plain(name: object) -> str:
    """A name as it stands in a picture: no formula, no controls, not hidden as "_x" is in legends, in letters it has.

    What none of the user's fonts has is written as in Python, \\u8eab for a letter.
    """
    words = visible(str(name))
    if not words.isascii():
        have = _letters(tuple(import_matplotlib().rcParams["font.family"]))
        escaped = [c if ord(c) in have else c.encode("ascii", "backslashreplace").decode() for c in words]
        words = "".join(escaped)
    words = (words if len(words) <= _LONGEST_NAME else words[: _LONGEST_NAME - 3] + "...").replace("$", r"\$")
    return f" {words}" if words[:1] in ("", "_") else words


def told_apart(names: list[str]) -> list[str]:
    """Names in a legend, numbered in the order given where they are not all different."""
    return names if len(set(names)) == len(names) else [f"{k}: {name}" for k, name in enumerate(names, 1)]


@functools.cache
def _letters(families: tuple[str, ...]) -> frozenset[int]:
    """What these families of fonts can draw: matplotlib takes each letter from the first that has it."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    have: set[int] = set()
    for family in families:
        with contextlib.suppress(ValueError):  # not installed
            have.update(get_font(findfont(FontProperties(family=[family]), fallback_to_default=False)).get_charmap())
    return frozenset(have)


def spread(positions: FloatArray, gap: float) -> FloatArray:
    """Sorted positions moved as little as possible (least squares) so that neighbours are `gap` apart.

    Isotonic regression of positions - k gap by pooling adjacent violators.
    """
    blocks: list[tuple[float, int]] = []
    for k, position in enumerate(positions):
        mean, count = float(position) - k * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    flat = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    return flat + gap * np.arange(len(positions))


def half_way(ax: Axes, places: Sequence[tuple[float, float]], color: str) -> None:
    """Mark where a curve is half-way down its drops: (time, loss) each."""
    if places:
        times, losses = zip(*places, strict=True)
        ax.plot(times, losses, "o", markersize=4, markerfacecolor="white", color=color, label="half-way down a drop")


def say(ax: Axes, words: str) -> None:
    """A sentence in the picture, on what is absent."""
    ax.text(0.5, 0.6, words, transform=ax.transAxes, ha="center", va="center", wrap=True)


# -- scale of the loss, legend -------------------------------------------------------------------------------------

#: A drop smaller than this share of the axis is hard to see.
_VISIBLE = 0.05


@dataclass(frozen=True)
class LossScale:
    """The scale log(L - base + floor) of a loss axis: logarithmic above the floor and linear below it.

    Parameters
    ----------
    first : float
        The highest level, L(0).
    """

    base: float
    floor: float
    first: float

    def heights(self, losses: FloatArray) -> FloatArray:
        """Where losses are on the axis, in decades."""
        return np.log10(np.maximum(losses - self.base, -0.5 * self.floor) + self.floor)

    def losses(self, heights: FloatArray) -> FloatArray:
        """The losses at these heights."""
        return self.base - self.floor + 10.0**heights

    @property
    def ticks(self) -> list[tuple[list[float], list[str]]]:
        """Losses at the ticks, and their words, from dense (at most nine) to sparse sets: the base and powers of ten.

        The words are losses where the base is 0, else the base and what is to be added to it.
        """
        powers = np.arange(np.ceil(np.log10(2 * self.floor)), np.floor(np.log10(self.first - self.base)) + 1)
        plus, base = "+" if self.base else "", f"{self.base:.4g}"
        sets = []
        for stride in range(-(-powers.size // 8) or 1, max(powers.size, 1) + 1):
            some = powers[::-stride][::-1]  # with the largest, which is furthest from the base
            words = [base, *[f"{plus}{10.0**power:g}" for power in some]]
            sets.append(([self.base, *(self.base + 10.0**some).tolist()], words))
        return sets

    @property
    def label(self) -> str:
        """What the axis shows."""
        if self.base:  # the foot of the axis is the base, and says so
            return f"loss (log of what is above {self.base:.4g})"
        return f"loss (log, linear below {number(self.floor, 2)})"


def find_scale(runs: Sequence[FloatArray], drawn: float = np.inf) -> LossScale | None:
    """The scale on which every drop of the runs can be seen; None where that is a linear one.

    Linear where the smallest drop can be seen, else logarithmic above 0, else above the lowest level; where it can be
    seen on none of them, the one on which it is largest. The floor is a third of the last but one plateau, so that the
    last plateau is in the picture too.

    Parameters
    ----------
    runs : Sequence[FloatArray]
        Levels of each run, from the first plateau to the last.
    drawn : float, optional
        Lowest loss in the picture beside them.
    """
    runs = [levels[np.isfinite(levels)] for levels in runs]
    runs = [levels for levels in runs if _falls(levels, levels).size]
    if not runs:
        return None
    first = max(float(levels[0]) for levels in runs)
    lowest = min(drawn, *[float(levels.min()) for levels in runs])
    rounding = np.finfo(np.float64).eps * abs(first)

    def above(base: float) -> LossScale:
        floor = min(float(np.min(_above(levels[:-1] - base, rounding), initial=first - base)) for levels in runs) / 3
        return LossScale(base, floor, first)

    def smallest(scale: LossScale | None) -> float:
        """The smallest drop, as a share of the axis."""
        ends = np.array([lowest, first])
        low, high = ends if scale is None else scale.heights(ends)
        falls = [_falls(levels, levels if scale is None else scale.heights(levels)).min() for levels in runs]
        return float(min(falls) / (high - low))

    if smallest(None) >= _VISIBLE:
        return None
    logs = [above(base) for base in dict.fromkeys((0.0 if lowest >= -rounding else lowest, lowest))]
    best = max((*logs, None), key=lambda scale: round(smallest(scale), 6))  # of equals the first
    return next((scale for scale in logs if smallest(scale) >= _VISIBLE), best)


def loss_scale(ax: Axes, runs: Sequence[FloatArray]) -> None:
    """Put the loss axis on the scale on which every drop can be seen (`find_scale`); what is drawn already stays in."""
    scale = find_scale(runs, float(ax.dataLim.y0) if ax.has_data() else np.inf)
    if scale is None:
        return
    ax.set_yscale("function", functions=(scale.heights, scale.losses))
    ticks.losses(ax, scale.ticks)
    low, high = scale.heights(np.array([scale.base, scale.first]))
    room = 0.05 * (high - low)
    ax.set_ylim(*scale.losses(np.array([max(low - room, np.log10(0.6 * scale.floor)), high + room])))
    ax.set_ylabel(scale.label)


def _falls(levels: FloatArray, heights: FloatArray) -> FloatArray:
    """How far the heights fall with every fall of the levels that is not rounding."""
    rounding = 1e3 * np.finfo(np.float64).eps * float(np.max(np.abs(levels), initial=0.0))
    return -np.diff(heights)[-np.diff(levels) > rounding]


def _above(levels: FloatArray, rounding: float) -> FloatArray:
    """The levels that are more than rounding."""
    return levels[levels > rounding]


def legend_below(ax: Axes) -> None:
    """The legend below the axes, where it hides neither curves nor rules, in as many columns as the figure has room."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
    from matplotlib.transforms import ScaledTranslation

    handles, words = ax.get_legend_handles_labels()
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes without a figure cannot be drawn on either
    below = ax.transAxes + ScaledTranslation(0, -34 / 72, figure.dpi_scale_trans)  # under ticks and label of the axis
    font = FontProperties(size=rcParams["legend.fontsize"])
    size = font.get_size_in_points()
    long = np.array([text_to_path.get_text_width_height_descent(word, font, "$" in word)[0] for word in words])

    def wide(columns: int) -> float:
        beside = rcParams["legend.handlelength"] + rcParams["legend.handletextpad"] + rcParams["legend.columnspacing"]
        return sum(float(part.max(initial=0.0)) + beside * size for part in np.array_split(long, columns))

    room = 72 * figure.get_figwidth()
    columns = next((columns for columns in range(_MOST_COLUMNS, 1, -1) if wide(columns) < room), 1)
    ax.legend(handles, words, loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below, ncols=columns,
              frameon=False)  # fmt: skip
