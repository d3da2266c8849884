"""A predicted staircase in a run file: header and arrays, and what is read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agf.clock import Clock
from agf.records import files
from agf.records.settings import Settings
from agf.records.status import Status
from agf.results import origin
from agf.results.drop import Drop

if TYPE_CHECKING:
    from agf.results.staircase import Staircase

_DROP_ARRAYS = ("log_norms", "active", "directions")


def parts(stairs: Staircase) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays."""
    plain, arrays = origin.split(stairs.arguments, stairs.init)
    header = {
        "result": stairs.to_dict(),
        "settings": stairs.settings.to_dict(),
        "log_scale": stairs.clock.log_scale,
        "feature_names": sorted({name for drop in stairs.drops for name in drop.features}),
        **plain,
    }
    arrays.update(curve_times=stairs.curve_times, curve_losses=stairs.curve_losses)
    for k, drop in enumerate(stairs.drops):
        for name, value in drop.features.items():
            arrays[f"drop{k}_feature_{name}"] = value
        for name in _DROP_ARRAYS:
            if getattr(drop, name) is not None:
                arrays[f"drop{k}_{name}"] = getattr(drop, name)
    return header, arrays


def fields(header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> dict[str, Any]:
    """The fields of a `Staircase` from header and arrays of the run file at `path`. Raises FileError."""
    with files.complete(path):
        result = header["result"]
        bounds = result["bounds"]
        return {
            "problem": result["problem"],
            "degree": result["degree"],
            "clock": Clock(result["degree"], files.from_json_float(header["log_scale"])),
            "start_level": files.from_json_float(result["levels"][0]),
            "drops": tuple(_drop(k, d, header["feature_names"], arrays) for k, d in enumerate(result["drops"])),
            "status": Status.from_word(result["status"]),
            "settings": Settings.of(header["settings"]),
            "init": origin.init(header, arrays, path),
            "arguments": origin.arguments(header["arguments"], arrays, path),
            "bounds": None if bounds is None else np.asarray([files.from_json_float(b) for b in bounds]),
            "stats": files.typed(result["stats"], dict),
            "notes": tuple(files.typed(note, str) for note in result["notes"]),
            "curve_times": files.array(arrays, "curve_times", path),
            "curve_losses": files.array(arrays, "curve_losses", path),
        }


def _drop(k: int, d: dict[str, Any], features: list[str], arrays: dict[str, np.ndarray]) -> Drop:
    return Drop(
        time=files.from_json_float(d["time"]),
        half_time=files.from_json_float(d["half_time"]),
        accelerated_time=files.from_json_float(d["accelerated_time"]),
        level=files.from_json_float(d["level"]),
        neurons=np.asarray(files.typed(d["neurons"], list), dtype=np.int64).reshape(len(d["neurons"])),
        collapsed=np.asarray(files.typed(d["collapsed"], list), dtype=np.int64).reshape(len(d["collapsed"])),
        label=files.typed(d["label"], str),
        utility=np.asarray([files.from_json_float(u) for u in d["utility"]]),
        runner_up=(int(d["runner_up"][0]), files.from_json_float(d["runner_up"][1])) if d["runner_up"] else None,
        grad_norm=files.from_json_float(d["grad_norm"]),
        predicted_decrease=files.from_json_float(d["predicted_decrease"]),
        how=d["how"],
        critical=d["critical"],
        conditioning=files.from_json_float(d["conditioning"]),
        error=files.from_json_float(d.get("error")),
        level_error=files.from_json_float(d.get("level_error")),
        overlap=d.get("overlap"),
        features={name: arrays[f"drop{k}_feature_{name}"] for name in features if f"drop{k}_feature_{name}" in arrays},
        log_norms=arrays.get(f"drop{k}_log_norms"),
        active=arrays.get(f"drop{k}_active"),
        directions=arrays.get(f"drop{k}_directions"),
    )
