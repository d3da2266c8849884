"""A trajectory in a run file: header and arrays, and what is read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import positive
from agf.clock import Clock
from agf.records import files
from agf.records.status import Status
from agf.results import origin

if TYPE_CHECKING:
    from agf.results.trajectory import Trajectory

_ARRAYS = ("times", "losses", "slopes", "snapshot_times", "log_norms", "directions")


def parts(run: Trajectory) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays."""
    plain, arrays = origin.split(run.arguments, run.init)
    header: dict[str, Any] = {
        "problem": run.problem,
        "degree": run.degree,
        "method": run.method,
        "status": run.status.word,
        "log_scale": None if run.clock is None else run.clock.log_scale,
        "settings": run.settings,
        "stats": run.stats,
        "evidence": run.evidence,
        "notes": list(run.notes),
        "feature_names": sorted(run.features_over_time),
        **plain,
    }
    for name in _ARRAYS:
        arrays[name] = getattr(run, name)
    for name, value in run.features_over_time.items():
        arrays[f"feature_{name}"] = value
    for name, value in run.state.items():
        arrays[f"state_{name}"] = value
    return header, arrays


def fields(header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> dict[str, Any]:
    """The fields of a `Trajectory` from header and arrays of the run file at `path`. Raises FileError."""
    with files.complete(path):
        scale = header["log_scale"]
        settings = files.typed(header["settings"], dict)
        if "rtol" in settings:
            positive(settings["rtol"], "rtol")
        curve = [files.array(arrays, name, path) for name in ("times", "losses")]
        if curve[0].ndim != 1 or curve[0].shape != curve[1].shape:
            raise ValueError(f"times have shape {curve[0].shape} and losses {curve[1].shape}")
        return {
            "problem": header["problem"],
            "degree": header["degree"],
            "method": files.typed(header["method"], str),
            "status": Status.from_word(header["status"]),
            "clock": None if scale is None else Clock(header["degree"], float(scale)),
            "features_over_time": {n: files.array(arrays, f"feature_{n}", path) for n in header["feature_names"]},
            "init": origin.init(header, arrays, path),
            "arguments": origin.arguments(header["arguments"], arrays, path),
            "settings": settings,
            "stats": files.typed(header["stats"], dict),
            "evidence": files.typed(header.get("evidence", ""), str),
            "notes": tuple(files.typed(note, str) for note in header["notes"]),
            "state": {n.removeprefix("state_"): a for n, a in arrays.items() if n.startswith("state_")},
            **{name: files.array(arrays, name, path) for name in _ARRAYS},
        }
