"""An interactive report: one self-contained page with the staircase over the curve, norms, features and the drop table.

The page needs no network: the plotting library is embedded, and the numbers are those of the run files, as JSON.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.errors import RequestError, explain
from agf.pictures import axes
from agf.records import files, naming
from agf.records.table import visible
from agf.results.comparison import Comparison
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

#: Points of a curve and snapshots shown; more would only make the page heavy.
MAX_POINTS = 4000
MAX_SNAPSHOTS = 200
MAX_NEURONS = 200
#: Entries of one feature value shown; larger arrays are left to `Trajectory.features`.
MAX_ENTRIES = 2500

Result = Staircase | Trajectory | Comparison


def report(runs: Sequence[Result], path: str | os.PathLike[str]) -> int:
    """Write an interactive page about `runs` to `path`; returns its size in bytes.

    Raises RequestError when there is nothing to show or plotly is missing, FileError when it cannot be written.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise RequestError(
            explain("this needs plotly.", remedy="pip install plotly, or .[report] in the clone.")
        ) from None
    if not runs:
        raise RequestError(explain("no run was given.", where="report"))
    flat = _flat(runs)
    staircases = [run for run in flat if isinstance(run, Staircase)]
    curves = [run for run in flat if isinstance(run, Trajectory)]
    names = sorted({run.problem for run in flat})
    called = _names(flat)
    data = {
        "curves": [_curve(run, name) for run, name in zip(flat, called, strict=True) if isinstance(run, Trajectory)],
        "staircases": [
            _steps(run, name, curves) for run, name in zip(flat, called, strict=True) if isinstance(run, Staircase)
        ],
        "scale": _scale([*staircases, *curves]),
        "snapshots": next(
            (
                _snapshots(run, name)
                for run, name in zip(flat, called, strict=True)
                if isinstance(run, Trajectory) and run.snapshot_times.size
            ),
            None,
        ),
    }
    tables = "\n".join(f'<div class="scroll">{run.table().html()}</div>' for run in runs)
    title = "Staircase of " + ", ".join(names)
    parts = {
        "TITLE": html.escape(title),
        "SUBTITLE": html.escape(
            "; ".join(f"{name}: {run.status.word}" for name, run in zip(called, flat, strict=True))
        ),
        "TABLES": tables,
        "DATA": _embedded(data),
        "PLOTLY": get_plotlyjs(),
        "SCRIPT": _resource("page.js"),
    }
    page = _fill(_resource("page.html"), parts).encode(errors="backslashreplace")
    with files.atomic(path) as handle:
        handle.write(page)
    return len(page)


def _resource(name: str) -> str:
    return resources.files("agf.page").joinpath(name).read_text(encoding="utf-8")


def _fill(template: str, parts: dict[str, str]) -> str:
    """Each @NAME@ replaced once, in one pass, so that nothing inserted is read as a name."""
    return re.sub(r"@([A-Z]+)@", lambda match: parts[match[1]], template)


def _embedded(data: Any) -> str:
    """Strict JSON that cannot end its script element."""
    return json.dumps(files.jsonable(data), allow_nan=False).replace("<", "\\u003c")


def _flat(runs: Sequence[Result]) -> list[Staircase | Trajectory]:
    """Comparisons taken apart, and each run once."""
    out: list[Staircase | Trajectory] = []
    for run in runs:
        parts: list[Staircase | Trajectory] = [run.stairs, run.trajectory] if isinstance(run, Comparison) else [run]
        out += [part for part in parts if all(part is not other for other in out)]
    return out


def _names(runs: list[Staircase | Trajectory]) -> list[str]:
    """What each run is called: the problem where they differ, the kind, the start; numbered where all that is equal."""
    several = len({run.problem for run in runs}) > 1
    words = []
    for run in runs:
        kind = f"prediction ({run.mode})" if isinstance(run, Staircase) else run.kind
        start = [] if run.init is None else [run.init.description]
        start += [] if run.init is None or run.init.seed is None else [f"seed {run.init.seed}"]
        words.append(", ".join([*[run.problem] * several, kind, *start]))
    return [f"{word}, {words[:k].count(word) + 1}" if words.count(word) > 1 else word for k, word in enumerate(words)]


def _thinned(size: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `size` points, both ends kept."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int)) if size else np.zeros(0, int)


def _curve(run: Trajectory, name: str) -> dict[str, Any]:
    keep = _thinned(run.times.size, MAX_POINTS)
    return {"name": html.escape(name), "times": run.times[keep], "losses": run.losses[keep]}


def _steps(run: Staircase, name: str, curves: list[Trajectory]) -> dict[str, Any]:
    times, levels = run.half_times[1:], run.levels  # as in the pictures: what one reads off a curve
    known = times[np.isfinite(times)]
    if run.curve_times.size:
        keep = _thinned(run.curve_times.size, MAX_POINTS)
        steps = run.curve_times[keep], run.curve_losses[keep]
    elif known.size == 0:
        ends: list[float] = [float(curve.times[-1]) for curve in curves if curve.times.size] or [1.0]
        first, last = max(ends) * 1e-4, max(ends)
        steps = np.array([first, last]), np.array([levels[0], levels[0]])
    else:
        last = max([float(known[-1]) * 2, *[float(curve.times[-1]) for curve in curves if curve.times.size]])
        steps = np.array([known[0] / 10, *known, last]), np.array([*levels[: known.size + 1], levels[known.size]])
    return {
        "name": html.escape(name),
        "shape": "linear" if run.curve_times.size else "hv",
        "times": steps[0],
        "levels": steps[1],
        "drops": [
            {
                "half_time": drop.half_time,
                "middle": (before + drop.level) / 2,
                "label": html.escape(drop.label),
                "level": drop.level,
                "time": drop.time,
            }
            for before, drop in zip(levels, run.drops, strict=False)
        ],
    }


def _scale(runs: list[Staircase | Trajectory]) -> dict[str, Any] | None:
    """The scale of the loss that pictures have too (`canvas.find_scale`); None where it is linear."""
    losses = [run.losses for run in runs if isinstance(run, Trajectory) and run.losses.size]
    drawn = min([float(np.min(values)) for values in losses], default=np.inf)
    found = axes.find_scale([run.levels for run in runs], drawn)
    if found is None:
        return None
    ticks, words = found.ticks[0]
    return {"base": found.base, "floor": found.floor, "ticks": ticks, "words": words, "label": found.label}


def _snapshots(run: Trajectory, name: str) -> dict[str, Any]:
    keep = _thinned(run.snapshot_times.size, MAX_SNAPSHOTS)
    moments = run.snapshot_times[keep]
    norms = run.log_norms[keep][:, :MAX_NEURONS] / np.log(10.0) if run.log_norms.size else np.zeros((keep.size, 0))
    features = {
        feature: {
            "values": values[keep],
            "range": _range(values[keep]),
            "entries": _entries(run, feature, values),
            "named": naming.given(run.arguments, values[:1].size) is not None,
        }
        for feature, values in run.features_over_time.items()
        if values.ndim <= 3 and values[:1].size <= MAX_ENTRIES
    }
    neurons = naming.neurons(run, run.log_norms.shape[1]) if run.log_norms.size else []
    return {
        "name": html.escape(name),
        "times": moments,
        "losses": run.loss_at(moments),
        "log_norms": norms.T,
        "neurons": [html.escape(visible(name)) for name in neurons[:MAX_NEURONS]],
        "features": features,
    }


def _entries(run: Trajectory, feature: str, values: FloatArray) -> list[str]:
    """What the bars of a feature are called."""
    if values.ndim != 2:
        return []
    return [html.escape(visible(name)) for name in naming.components(run, feature, values.shape[1])]


def _range(values: FloatArray) -> list[float] | None:
    """A fixed vertical range over all times, so that bars can be compared while the slider moves."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return None
    low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
    margin = 0.05 * (high - low) or 1.0
    return [low - margin, high + margin]
