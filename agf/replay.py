"""Repeat a run from its file alone, and say in words what differs between two runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import files, provenance, registry
from agf.contract import Problem
from agf.engine import predict
from agf.errors import FileError, RequestError, explain
from agf.init import Init
from agf.runs import load
from agf.staircase import Staircase, join_arguments
from agf.trajectory import Trajectory


def rerun(path: str | os.PathLike[str], *, problem: str | None = None, observer: Any = None) -> Staircase | Trajectory:
    """Compute the run of a file again, from what the file holds: problem, data, initial weights and settings.

    problem : where to find the problem when it is not registered under its name, as in "./mine.py:Mine".

    The same versions on the same machine give the same numbers (`differences` shows it). Raises FileError when the file
    is no prediction or trajectory, does not hold all that it needs, or its data are not those the run was made from;
    RequestError when the problem is not the one of the file.
    """
    result = load(path)
    if not isinstance(result, Staircase | Trajectory):
        raise FileError(
            explain(
                f"{str(path)!r} is a {type(result).__name__.lower()}.",
                expected="a single run",
                remedy="Save the prediction with agf predict -o and the training with agf train -o.",
            )
        )
    _check_complete(path)
    if result.init is None:
        raise FileError(
            explain(f"{str(path)!r} holds no initial weights.", remedy="A curve from elsewhere cannot be repeated.")
        )
    found = registry.find(result.problem if problem is None else problem)
    if found.name != result.problem:
        raise RequestError(explain(f"{str(path)!r} is a run of {result.problem!r}.", found=f"problem {found.name!r}"))
    built = registry.build(found, result.arguments)
    if isinstance(result, Staircase):
        return predict(built, result.init, observer=observer, **result.settings.to_dict())
    return _train(built, result.init, result, observer)


def _train(problem: Problem, init: Init, result: Trajectory, observer: Any) -> Trajectory:
    if "lr" in result.settings:
        from agf.descent import descend

        return descend(problem, init, observer=observer, **result.settings)
    from agf.gradient_flow import flow

    return flow(problem, init, observer=observer, **result.settings)


def _check_complete(path: str | os.PathLike[str]) -> None:
    _, header, arrays = files.read(path)
    missing = [name for name, value in header["arguments"].items() if isinstance(value, dict) and "unsaved" in value]
    if missing:
        raise FileError(explain(f"{str(path)!r} does not hold the argument(s) {', '.join(missing)}."))
    now = provenance.fingerprint(join_arguments(header["arguments"], arrays, path))
    if header.get("fingerprint") != now:
        raise FileError(
            explain(
                f"the data in {str(path)!r} are not those that the run was made from.",
                found=f"fingerprint {now}",
                expected=str(header.get("fingerprint")),
            )
        )


@dataclass(frozen=True)
class Differences:
    """What differs, in sentences: in what was asked, and in what came out. Both empty: the runs are the same."""

    asked: tuple[str, ...]
    numbers: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.asked or self.numbers)

    def __str__(self) -> str:
        if not self:
            return "The runs are the same: same request, same numbers."
        lines = ["What was asked:"] if self.asked else ["The same was asked."]
        lines += [f"  {sentence}" for sentence in self.asked]
        lines += ["What came out:"] if self.numbers else ["The same came out."]
        lines += [f"  {sentence}" for sentence in self.numbers]
        return "\n".join(lines)


def differences(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Differences:
    """What differs between two run files. Raises FileError when one cannot be read."""
    a, b = load(first), load(second)
    _, head_a, _ = files.read(first)
    _, head_b, _ = files.read(second)
    if type(a) is not type(b):
        kinds = f"One is a {type(a).__name__.lower()}, the other a {type(b).__name__.lower()}."
        return Differences((kinds,), ("Nothing that could be compared.",))
    if not isinstance(a, Staircase | Trajectory) or not isinstance(b, Staircase | Trajectory):
        raise FileError(explain("only predictions and trajectories can be compared this way."))
    asked = _asked(a, b) + _changes("version of ", head_a.get("versions", {}), head_b.get("versions", {}))
    return Differences(tuple(asked), tuple(numbers(a, b)))


def _asked(a: Staircase | Trajectory, b: Staircase | Trajectory) -> list[str]:
    out = []
    if a.problem != b.problem:
        out.append(f"problem: {a.problem} | {b.problem}")
    for name in sorted({*a.arguments, *b.arguments}):
        one, two = a.arguments.get(name), b.arguments.get(name)
        if provenance.fingerprint({"": one}) != provenance.fingerprint({"": two}):
            out.append(f"{name}: {_brief(one)} | {_brief(two)}")
    if a.init is not None and b.init is not None:
        out += _changes("", {"alpha": a.init.alpha, "seed": a.init.seed, "kind": a.init.kind},
                        {"alpha": b.init.alpha, "seed": b.init.seed, "kind": b.init.kind})  # fmt: skip
        same = a.init.directions.shape == b.init.directions.shape and bool(
            np.array_equal(a.init.directions, b.init.directions) and np.array_equal(a.init.log_norms, b.init.log_norms)
        )
        if not same and not out:
            out.append("initial weights differ")
    one = a.settings.to_dict() if isinstance(a, Staircase) else a.settings
    two = b.settings.to_dict() if isinstance(b, Staircase) else b.settings
    return out + _changes("", one, two)


def _changes(prefix: str, one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    names = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    return [f"{prefix}{name}: {one.get(name)} | {two.get(name)}" for name in names]


def _brief(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape:
        return f"array {shape}, fingerprint {provenance.fingerprint({'': value})}"
    return str(value)


def numbers(a: Staircase | Trajectory, b: Staircase | Trajectory) -> list[str]:
    """Sentences on what differs in the numbers of two results of one kind; empty when they are equal to the bit."""
    out = []
    if a.status is not b.status:
        out.append(f"status: {a.status.word} | {b.status.word}")
    if isinstance(a, Staircase) and isinstance(b, Staircase):
        if len(a.drops) != len(b.drops):
            out.append(f"number of drops: {len(a.drops)} | {len(b.drops)}")
        common = min(len(a.drops), len(b.drops)) + 1
        for k in range(common - 1):
            if a.drops[k].label != b.drops[k].label:
                out.append(f"drop {k + 1} learned: {a.drops[k].label} | {b.drops[k].label}")
                break
        for name in ("times", "half_times", "levels"):
            out += _distance(name, getattr(a, name)[:common], getattr(b, name)[:common])
    elif isinstance(a, Trajectory) and isinstance(b, Trajectory):
        if np.array_equal(a.times, b.times):
            return out + _distance("losses", a.losses, b.losses)
        end = min(a.times[-1], b.times[-1])
        grid = np.geomspace(end * 1e-4, end, 400)
        out += _distance("losses at equal times", a.loss_at(grid), b.loss_at(grid))
    return out


def _distance(name: str, one: np.ndarray, two: np.ndarray) -> list[str]:
    if np.array_equal(one, two, equal_nan=True):
        return []
    scale = np.maximum(np.abs(one), np.abs(two))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(scale > 0, np.abs(one - two) / scale, 0.0)
    worst = int(np.nanargmax(relative))
    return [f"{name}: up to {relative[worst]:.2g} relative (entry {worst}: {one[worst]:.6g} | {two[worst]:.6g})"]
