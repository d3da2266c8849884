"""Snapshots of the smaller problem that ties leave, told of the neurons that were given, and back to resume from."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.contract.problem import Problem
from agf.contract.ties import Ties

Arrays = dict[str, Any]


def untie(arrays: Arrays, ties: Ties, problem: Problem) -> Arrays:
    """Fields of a Trajectory of `problem`, from those (`Recorder.arrays`) of `ties.problem`."""
    if not ties.any:
        return arrays
    return _seen(arrays, problem, ties.log_norms(arrays["log_norms"]), ties.directions(arrays["directions"]))


def tie(arrays: Arrays, ties: Ties) -> Arrays:
    """Fields of a Trajectory of `ties.problem`, from those of the problem with the ties."""
    if not ties.any:
        return arrays
    log_norms = arrays["log_norms"][:, ties.first] + ties.shifts
    return _seen(arrays, ties.problem, log_norms, arrays["directions"][:, ties.first])


def _seen(arrays: Arrays, problem: Problem, log_norms: FloatArray, directions: FloatArray) -> Arrays:
    everyone = np.arange(problem.width)
    thetas = [np.exp(rows)[:, None] * units for rows, units in zip(log_norms, directions, strict=True)]
    shots = [problem.features(theta, everyone) for theta in thetas]
    features = {name: np.array([shot[name] for shot in shots]) for name in arrays["features_over_time"]}
    return {**arrays, "log_norms": log_norms, "directions": directions, "features_over_time": features}
