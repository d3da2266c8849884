"""Results as flat tables of plain columns: csv files, and pandas frames where pandas is installed."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.errors import RequestError, explain
from agf.records import files, naming
from agf.records.table import visible

if TYPE_CHECKING:
    from agf.results.comparison import Comparison
    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory

Columns = dict[str, Any]


def staircase(stairs: Staircase) -> Columns:
    """One row a drop, after a row for the start: `Staircase.to_frame` says what the columns are."""
    unknown = [np.nan]
    drops = stairs.drops
    bounds = np.full(len(drops), np.nan) if stairs.bounds is None else stairs.bounds
    return {
        "drop": np.arange(len(drops) + 1),
        "time": stairs.times,
        "half_time": stairs.half_times,
        "accelerated_time": stairs.accelerated_times,
        "level": stairs.levels,
        "label": ["start", *stairs.labels],
        "neurons": ["", *[_listed(drop.neurons) for drop in drops]],
        "collapsed": ["", *[_listed(drop.collapsed) for drop in drops]],
        "utility": unknown + [float(drop.utility.max()) if drop.utility.size else np.nan for drop in drops],
        "runner_up": ["", *[str(drop.runner_up[0]) if drop.runner_up else "" for drop in drops]],
        "runner_up_gap": unknown + [drop.runner_up[1] if drop.runner_up else np.nan for drop in drops],
        "bound": np.append(unknown, bounds),
        "grad_norm": unknown + [drop.grad_norm for drop in drops],
        "predicted_decrease": unknown + [drop.predicted_decrease for drop in drops],
        "how": ["", *[drop.how for drop in drops]],
        "critical": [None, *[bool(drop.critical) for drop in drops]],
        "conditioning": unknown + [drop.conditioning for drop in drops],
        "error": unknown + [drop.error for drop in drops],
        "level_error": unknown + [drop.level_error for drop in drops],
        "overlap": [None, *[drop.overlap for drop in drops]],
    }


def _listed(neurons: np.ndarray) -> str:
    return " ".join(str(i) for i in neurons.tolist())


def trajectory(traj: Trajectory, snapshots: bool = False) -> Columns:
    """One row a recorded loss: what `Trajectory.from_csv` reads, and `Trajectory.to_frame` says.

    Parameters
    ----------
    snapshots : bool, optional
        One row a snapshot instead, with `log_norm_I` of every neuron and `FEATURE_I` (`FEATURE_I_J` of a matrix) of
        every entry of every feature; "coefficients_2 (bmi)" where coordinates have names.
    """
    if not snapshots:
        return {"time": traj.times, "loss": traj.losses}
    moments = traj.snapshot_times
    out: Columns = {"time": moments, "loss": traj.loss_at(moments) if moments.size else moments}
    tables = {"log_norm": traj.log_norms} if traj.log_norms.size else {}
    for name, values in (tables | traj.features_over_time).items():
        known = naming.given(traj.arguments, values.shape[1]) if values.ndim == 2 else None
        for index in np.ndindex(values.shape[1:]):
            own = "" if known is None else f" ({visible(known[index[0]])})"
            out["_".join([name, *map(str, index)]) + own] = values[(slice(None), *index)]
    return out


def comparison(report: Comparison) -> Columns:
    """One row a predicted drop: `Comparison.to_frame` says what the columns are."""
    rows = [match.to_dict() for match in report.matches]
    names = ["k", "label", "predicted_time", "observed_time", "time_error", "predicted_level", "observed_level",
             "level_error", "relative_level_error", "visible", "visible_to", "bundled", "spread",
             "conditioning", "bar"]  # fmt: skip
    return {name: [row[name] for row in rows] for name in names}


def by_column(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Rows that all have the names of the first, as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def frame(columns: Mapping[str, Any]) -> Any:
    """A pandas DataFrame of these columns. Raises RequestError when pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise RequestError(explain("this needs pandas.", remedy="pip install pandas pyarrow")) from None
    return pd.DataFrame({name: _typed(pd, values) for name, values in columns.items()})


def _typed(pd: Any, values: Any) -> Any:
    """Truth values and counts some of which are not known, in the types of pandas that have such."""
    kinds = {type(value) for value in values if value is not None} if isinstance(values, list) else set()
    if kinds == {bool}:
        return pd.array(values, dtype="boolean")
    return pd.array(values, dtype="Int64") if kinds == {int} else values


def write(columns: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write columns as csv: floats to the last digit, NaN and None as empty cells. FileError when unwritable."""
    with files.atomic(path, "w") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return value
