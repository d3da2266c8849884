"""What a run was of, as a run file holds it: the constructor arguments of the problem, and the initialization."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.init import Init
from agf.records import files, provenance
from agf.records.recorded import Unsaved, recorded


def split(given: dict[str, Any], start: Init | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays that say it; `arguments` and `init` read them again.

    Parameters
    ----------
    given : dict
        Constructor arguments.
    start : Init or None
        Where the run started, where that is known.
    """
    header: dict[str, Any] = {"fingerprint": provenance.fingerprint(given), "versions": provenance.versions()}
    header["arguments"], arrays = _split(given)
    if start is not None:
        header["init"] = {"alpha": start.alpha, "seed": start.seed, "kind": start.kind}
        arrays.update(init_directions=start.directions, init_log_norms=start.log_norms)
    return header, arrays


def init(header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Init | None:
    """The Init of a run file, or None when it has none."""
    if "init" not in header:
        return None
    return Init(
        files.array(arrays, "init_directions", path),
        files.array(arrays, "init_log_norms", path),
        **header["init"],
    )


def _split(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Constructor arguments as JSON plus arrays; an array is named in the JSON as {"array": member}."""
    plain: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, given in arguments.items():
        value = recorded(given)
        if isinstance(value, dict):
            plain[name] = {"dict": [[key, item] for key, item in value.items()]}
        elif isinstance(value, np.ndarray):
            arrays[f"argument_{name}"] = value
            plain[name] = {"array": f"argument_{name}"}
        else:
            plain[name] = {"unsaved": type(given).__name__} if isinstance(value, Unsaved) else value
    return plain, arrays


def arguments(plain: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> dict[str, Any]:
    """The constructor arguments of a run file; what could not be saved is left out."""
    out: dict[str, Any] = {}
    for name, value in files.typed(plain, dict).items():
        if isinstance(value, dict) and "array" in value:
            out[name] = files.array(arrays, value["array"], path)
        elif isinstance(value, dict) and "dict" in value:
            out[name] = dict(value["dict"])
        elif not (isinstance(value, dict) and "unsaved" in value):
            out[name] = value
    return out
