"""Repeat a run from its file alone, and say in words what differs between two runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import registry
from agf.algorithm.prediction import predict_with
from agf.errors import FileError, RequestError, explain
from agf.loading.runs import training
from agf.records import files, provenance
from agf.records.table import number, visible
from agf.results.comparison import Comparison, compare
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

#: Drops of a kind that are told one by one. Cost: lines on the terminal.
_DROPS = 6
Side = Staircase | Trajectory
Result = Side | Comparison


def rerun(path: str | os.PathLike[str], *, problem: str | None = None, observer: Any = None) -> Result:
    """Compute the run of a file again, from what the file holds: problem, data, initial weights and settings.

    Both sides of a comparison are computed again and matched again; a curve that was trained elsewhere is kept.
    The same versions on the same machine give the same numbers (`differences` shows it).

    Parameters
    ----------
    problem : str or None, optional
        Where to find the problem when it is not registered under its name, as in "./mine.py:Mine".

    Raises
    ------
    FileError
        When the file does not hold all that it needs, or its data are not those the run was made from.
    RequestError
        When the problem is not the one of the file.
    """
    result = training(path)
    _, header, _ = files.read(path)
    if not isinstance(result, Comparison):
        return _again(result, header, path, problem, observer)
    again: dict[str, Any] = dict(result.sides)
    for name, side in result.sides.items():
        if not from_elsewhere(side):
            again[name] = _again(side, header["parts"][name], path, problem, observer)
    return compare(again.pop("stairs"), again.pop("trajectory"), **again)


def from_elsewhere(side: Side) -> bool:
    """Whether it is a loss curve that was trained elsewhere, which nothing here can repeat."""
    return isinstance(side, Trajectory) and side.init is None


def _again(
    result: Side, header: dict[str, Any], path: str | os.PathLike[str], problem: str | None, observer: Any
) -> Side:
    """One prediction or trajectory again; header : its part of the run file."""
    _check_complete(result, header, path)
    if result.init is None:
        raise FileError(
            explain(f"{str(path)!r} holds no initial weights.", remedy="A curve from elsewhere cannot be repeated.")
        )
    built = registry.rebuilt(result.problem, result.arguments, problem)
    if isinstance(result, Staircase):
        return predict_with(built, result.init, result.settings, observer)
    if "lr" in result.settings:
        from agf.training.descent import descend

        return descend(built, result.init, observer=observer, **result.settings)
    from agf.training.gradient_flow import flow

    return flow(built, result.init, observer=observer, **result.settings)


def _check_complete(result: Side, header: dict[str, Any], path: str | os.PathLike[str]) -> None:
    missing = [name for name, value in header["arguments"].items() if isinstance(value, dict) and "unsaved" in value]
    if missing:
        raise FileError(explain(f"{str(path)!r} does not hold the argument(s) {', '.join(missing)}."))
    now = provenance.fingerprint(result.arguments)
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
    """What differs, in sentences: in what was requested, and in what came out. Both empty: the runs are the same."""

    requested: tuple[str, ...]
    numbers: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.requested or self.numbers)

    def __str__(self) -> str:
        if not self:
            return "The runs are the same: same request, same numbers."
        lines = ["What was requested:"] if self.requested else ["The same was requested."]
        lines += [f"  {visible(sentence)}" for sentence in self.requested]
        lines += ["What came out:"] if self.numbers else ["The same came out."]
        lines += [f"  {visible(sentence)}" for sentence in self.numbers]
        return "\n".join(lines)


def differences(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Differences:
    """What differs between two run files of one kind; of comparisons, on either side.

    Raises FileError when one cannot be read, RequestError when they are of two kinds.
    """
    a, b = training(first), training(second)
    _, head_a, _ = files.read(first)
    _, head_b, _ = files.read(second)
    if type(a) is not type(b):
        kinds = [f"{str(path)!r} is a {_KINDS[type(run)]}" for path, run in ((first, a), (second, b))]
        raise RequestError(explain(f"{' and '.join(kinds)}.", expected="two runs of one kind"))
    requested: list[str] = []
    for name, (one, two) in _pairs(a, b).items():
        found = _requests(
            one, two, head_a["parts"][name] if name else head_a, head_b["parts"][name] if name else head_b
        )
        # both sides share problem and weights
        requested += [sentence for sentence in found if sentence not in requested]
    return Differences(tuple(requested), tuple(numbers(a, b)))


def _pairs(a: Result, b: Result) -> dict[str, tuple[Side, Side]]:
    """The sides that two results of one kind both have, by name; a single run is its own side, named ""."""
    one = a.sides if isinstance(a, Comparison) else {"": a}
    two = b.sides if isinstance(b, Comparison) else {"": b}
    return {name: (side, two[name]) for name, side in one.items() if name in two}


_KINDS = {Staircase: "prediction", Trajectory: "trajectory", Comparison: "comparison"}


def _requests(a: Side, b: Side, head_a: dict[str, Any], head_b: dict[str, Any]) -> list[str]:
    """What differs in the request of two predictions or two trajectories, and in the versions that answered."""
    out = []
    if a.problem != b.problem:
        out.append(f"problem: {a.problem} | {b.problem}")
    for name in sorted({*a.arguments, *b.arguments}):
        one, two = a.arguments.get(name), b.arguments.get(name)
        if provenance.fingerprint({"": one}) != provenance.fingerprint({"": two}):
            out.append(f"{name}: {_apart(one, two)}")
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
    out += _changes("", one, two)
    return out + _changes("version of ", head_a.get("versions", {}), head_b.get("versions", {}))


def _apart(one: Any, two: Any) -> str:
    """Where two constructor arguments differ: of arrays of one shape, how many entries, and which one most or first."""
    if np.ndim(one) == 0 or np.ndim(two) == 0 or np.shape(one) != np.shape(two):
        return f"{_shown(one)} | {_shown(two)}"
    a, b = np.asarray(one), np.asarray(two)
    real = {a.dtype.kind, b.dtype.kind} <= set("biuf")
    gaps = np.abs(np.subtract(a, b, dtype=np.float64)) if real else (a.astype(str) != b.astype(str)).astype(np.float64)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps)), gaps.shape))
    where = f"index {place[0]}" if len(place) == 1 else f"index {place}"
    which = "the most" if real else "the first"
    count = f"{np.count_nonzero(gaps):,} of {gaps.size:,} entries differ, {which} at {where}"
    return f"{count}: {_shown(a[place])} | {_shown(b[place])}"


def _shown(value: Any) -> str:
    """A value, short; of an array its shape, of a list of names the first ones."""
    if value is None:
        return "none"
    shape = np.shape(value)
    if not shape or isinstance(value, dict):
        return number(float(value), 6) if isinstance(value, float | np.floating) else str(value)[:60]
    items = np.asarray(value).ravel()[:4]
    if len(shape) == 1 and items.dtype.kind == "U":
        return f"{shape[0]} names: {', '.join(items.tolist())}{', ...' * (shape[0] > 4)}"
    return f"array {shape}"


def _changes(prefix: str, one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    names = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    return [f"{prefix}{name}: {one.get(name)} | {two.get(name)}" for name in names]


_WORDS = {"": "", "stairs": "prediction, ", "trajectory": "training, ", "repeat": "repeat, "}


def numbers(a: Result, b: Result) -> list[str]:
    """Sentences on what differs in the numbers of two results of one kind; empty when they are equal to the bit."""
    pairs = _pairs(a, b)
    out = [f"{_WORDS[name]}{sentence}" for name, pair in pairs.items() for sentence in _side_numbers(*pair)]
    repeats = [isinstance(run, Comparison) and run.repeat is not None for run in (a, b)]
    if repeats[0] is not repeats[1]:
        out.append(f"only the {'first' if repeats[0] else 'second'} has a repeat of the training")
    return out


def _side_numbers(a: Side, b: Side) -> list[str]:
    out = []
    if a.status is not b.status:
        out.append(f"status: {a.status.word} | {b.status.word}")
    if isinstance(a, Staircase) and isinstance(b, Staircase):
        if len(a.drops) != len(b.drops):
            out.append(f"number of drops: {len(a.drops)} | {len(b.drops)}")
        common = min(len(a.drops), len(b.drops)) + 1
        told = [k for k in range(common - 1) if a.drops[k].label != b.drops[k].label]
        out += [f"drop {k + 1} learned: {a.drops[k].label} | {b.drops[k].label}" for k in told[:_DROPS]]
        if len(told) > _DROPS:
            out.append(f"{len(told) - _DROPS} more drops learned something else")
        for longer, which in ((a, "first"), (b, "second")):
            for k, drop in list(enumerate(longer.drops, 1))[common - 1 : common - 1 + _DROPS]:
                moment = number(drop.half_time, 6)
                out.append(f"drop {k}, in the {which} only: {drop.label}, half-drop time {moment}")
        for name in ("times", "half_times", "levels"):
            out += _distance(name, getattr(a, name)[:common], getattr(b, name)[:common])
    elif isinstance(a, Trajectory) and isinstance(b, Trajectory):
        if np.array_equal(a.times, b.times):
            return out + _distance("losses", a.losses, b.losses)
        end = min(a.times[-1], b.times[-1])
        grid = end * np.geomspace(1e-4, 1.0, 400)  # 0 throughout where one has not left its start
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
