"""Load any run file."""

from __future__ import annotations

import os
from typing import Any

from agf.asked import asked
from agf.errors import FileError, RequestError, explain
from agf.records import files
from agf.rectified.dormant_phase import DormantPhase
from agf.results.comparison import Comparison
from agf.results.landscape import Landscape
from agf.results.rewinding import Rewinding
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

Loaded = Staircase | Trajectory | Comparison | Landscape | DormantPhase | Rewinding

_KINDS: dict[str, Any] = {
    "staircase": Staircase,
    "trajectory": Trajectory,
    "comparison": Comparison,
    "landscape": Landscape,
    "dormant-phase": DormantPhase,
    "rewinding": Rewinding,
}


@asked
def load(path: str | os.PathLike[str]) -> Loaded:
    """What was saved under `path`.

    Parameters
    ----------
    path : str or os.PathLike[str]
        a run file, as `save`, a checkpoint or `agf ... -o` writes it.

    Returns
    -------
    Staircase or Trajectory or Comparison or Landscape or DormantPhase or Rewinding
        Whichever was saved; a comparison is matched again.

    Raises
    ------
    FileError
        Saying which: absent, not a run file, truncated, of a later version, with a part missing or holding pickles
        (nothing in a file is ever executed).
    """
    kind, header, arrays = files.read(path)
    if kind not in _KINDS:
        raise FileError(
            explain(f"cannot read {str(path)!r}: it holds {kind!r}.", expected="one of " + ", ".join(_KINDS))
        )
    return _KINDS[kind].from_file(header, arrays, path)


def training(path: str | os.PathLike[str]) -> Staircase | Trajectory | Comparison:
    """What was predicted, trained or compared under `path`. RequestError when it is something else; else as `load`."""
    found = load(path)
    if isinstance(found, Landscape | DormantPhase | Rewinding):
        raise _other(path, found, "", "predict, train or compare")
    return found


def prediction(path: str | os.PathLike[str]) -> Staircase:
    """The prediction saved under `path`, alone or in a comparison. RequestError when there is none; else as `load`."""
    run = load(path)
    stairs = run.stairs if isinstance(run, Comparison) else run
    if not isinstance(stairs, Staircase):
        raise _other(path, run, "no prediction, but ", "predict or compare")
    return stairs


def trajectory(path: str | os.PathLike[str]) -> Trajectory:
    """The trajectory saved under `path`, alone or in a comparison. RequestError when there is none; else as `load`."""
    run = load(path)
    curve = run.trajectory if isinstance(run, Comparison) else run
    if not isinstance(curve, Trajectory):
        raise _other(path, run, "no trajectory, but ", "train or compare")
    return curve


_HELD = {
    Staircase: "a prediction",
    Trajectory: "a training run",
    Comparison: "a comparison",
    Landscape: "a landscape",
    DormantPhase: "a dormant phase",
    Rewinding: "cycles of rewinding",
}


def _other(path: str | os.PathLike[str], found: Loaded, lack: str, commands: str) -> RequestError:
    """That something else was saved than what one of `commands` saves."""
    expected = f"a run file of agf {commands}"
    return RequestError(explain(f"{str(path)!r} holds {lack}{_HELD[type(found)]}.", expected=expected))
