"""Pictures of a utility landscape: the circle (two inputs), the sphere (three), bars (anything)."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.errors import RequestError, explain
from agf.pictures.axes import OBSERVED, PALETTE, PREDICTED, RULE, legend_below, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.results.landscape import Landscape

VIEWS = ("auto", "circle", "sphere", "bars")
#: Bars that can still be told apart.
_MOST_BARS = 30
#: Room for so many, where there are fewer; labels of so few may have several lines, of so many letters.
_FEW_BARS, _LINE = 5, 36
_MARKS = {"maximum": "^", "minimum": "v", "saddle": "x", "degenerate": "s"}


def landscape(found: Landscape, *, ax: Axes | None = None, view: str = "auto") -> Axes:
    """The alignment function of a ReLU problem with its critical directions, or the utilities as bars.

    found : what `agf.landscape` returned.  ax : where to draw.  view : "circle" where inputs have two columns, "sphere"
    for three (both halves, seen along the third axis), "bars" for anything; "auto" chooses. Maxima point up, minima
    down, saddles are crosses; red ends neurons with a > 0, blue those with a < 0, full where the neuron grows. Each
    kind has its label, and new axes a legend.
    """
    alone = ax is None
    ax = new_axes() if ax is None else ax
    d = 0 if found.samples is None else found.samples.shape[1]
    if view not in VIEWS:
        raise RequestError(
            explain(f"there is no view {view!r}.", where="landscape", expected="one of " + ", ".join(VIEWS))
        )
    if view == "auto":
        view = {2: "circle", 3: "sphere"}.get(d, "bars")
    if (view, d) in (("circle", 2), ("sphere", 3)):
        (_circle if view == "circle" else _sphere)(found, ax)
        if alone:
            legend_below(ax)
    elif view == "bars":
        _bars(found, ax)
    else:
        need = 2 if view == "circle" else 3
        words = f"a {view} shows a ReLU problem of one output with {need} input columns."
        raise RequestError(explain(words, where="landscape", remedy='Use view="bars".'))
    return ax


def _height(found: Landscape, w: FloatArray) -> FloatArray:
    assert found.samples is not None
    assert found.residual is not None
    z = w @ found.samples.T
    out: FloatArray = np.maximum(z, found.leak * z) @ found.residual
    return out


def _mark(found: Landscape, ax: Any, index: int, x: float, y: float) -> None:
    one = found.criticals[index]
    color = PREDICTED if one.direction[-1] > 0 else OBSERVED
    filled = one.grows and one.kind != "saddle"
    label = f"{one.kind} of a {'>' if one.direction[-1] > 0 else '<'} 0{', grows' if filled else ''}"
    _labelled(ax.plot(x, y, _MARKS[one.kind], color=color, mfc=color if filled else "none", ms=7, zorder=3,
                     clip_on=False)[0], label)  # fmt: skip


def _labelled(artist: Any, label: str) -> None:
    """Give an artist of some axes a label, unless another one there has it already."""
    if label not in artist.axes.get_legend_handles_labels()[1]:
        artist.set_label(label)


def _circle(found: Landscape, ax: Axes) -> None:
    """G against the angle, cone boundaries as rules."""
    assert found.samples is not None
    angles = np.linspace(-180.0, 180.0, 1441)
    turn = np.deg2rad(angles)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    ax.plot(angles, _height(found, circle), color="black", lw=1.2, label="G(w)")
    kinks = np.degrees(np.arctan2(found.samples[:, 1], found.samples[:, 0]))
    for at in np.concatenate([kinks + 90, kinks - 90]):
        _labelled(ax.axvline((at + 180) % 360 - 180, color=RULE, lw=0.6, ls=":", zorder=0), "where an input switches")
    for flat in found.flats:
        if flat.pattern is not None:
            inside = (np.sign(circle @ found.samples.T) == flat.pattern).all(axis=1).tolist()
            whole = ax.get_xaxis_transform()
            flat_there = ax.fill_between(angles, 0, 1, where=inside, color=RULE, alpha=0.25, lw=0, transform=whole)
            _labelled(flat_there, "flat: neurons stay")
    for i, one in enumerate(found.criticals):
        v = one.direction[:2] * np.sqrt(2)
        _mark(found, ax, i, float(np.degrees(np.arctan2(v[1], v[0]))), float(_height(found, v[None])[0]))
    ax.set(xlabel="angle of w (degrees)", ylabel="G(w) = E[r relu(w . x)]", xlim=(-180, 180), title=plain(found.at))
    ax.set_xticks(np.arange(-180, 181, 90))


def _sphere(found: Landscape, ax: Axes) -> None:
    """Both halves of the sphere, the upper one to the left, colour for G."""
    grid = np.linspace(-1, 1, 201)
    x, y = np.meshgrid(grid, grid)
    inside = x**2 + y**2 <= 1
    scale = max((2 * abs(one.utility) for one in found.criticals), default=1.0)
    for side, shift in ((1.0, -1.1), (-1.0, 1.1)):
        z = side * np.sqrt(np.maximum(1 - x**2 - y**2, 0.0))
        values = np.full(x.shape, np.nan)
        values[inside] = _height(found, np.stack([x, y, z], axis=-1)[inside])
        drawn = ax.pcolormesh(grid + shift, grid, values, cmap="RdBu_r", vmin=-scale, vmax=scale, rasterized=True)
        for i, one in enumerate(found.criticals):
            v = one.direction[:3] * np.sqrt(2)
            if v[2] * side > 0 or (v[2] == 0 and side > 0):
                _mark(found, ax, i, float(v[0]) + shift, float(v[1]))
        ax.text(shift, -1.12, "w3 > 0" if side > 0 else "w3 < 0", ha="center", va="top")
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes without a figure cannot be drawn on either
    figure.colorbar(drawn, ax=ax, label="G(w)", shrink=0.7)
    ax.set(xlim=(-2.2, 2.2), ylim=(-1.3, 1.1), xticks=[], yticks=[], title=plain(found.at))
    ax.set_aspect("equal")


def _bars(found: Landscape, ax: Axes) -> None:
    """Utilities of the first directions, kinds by colour."""
    shown = found.criticals[:_MOST_BARS]
    colors = dict(zip(_MARKS, PALETTE, strict=False))
    seen: set[str] = set()
    for k, one in enumerate(shown):
        label = one.kind if one.kind not in seen else None
        seen.add(one.kind)
        ax.barh(k, one.utility, color=colors[one.kind], label=label)
    labels = [plain(one.label) for one in shown]
    labels = [fill(label, _LINE) if len(shown) <= _FEW_BARS else label for label in labels]
    ax.set_yticks(range(len(shown)), labels, fontsize="x-small")
    ax.set_ylim(max(len(shown), _FEW_BARS) - 0.4, -0.6)
    ax.axvline(0.0, color="black", lw=0.8)
    ax.set(xlabel="utility", title=plain(found.at))
    if shown:
        legend_below(ax)
