"""What a run file must hold: one schema, checked once when a file is read, whoever reads it.

A rule takes a value of a JSON document and its place in it, and raises `Wrong` where the value is not what it must be.
Members that no rule names are left alone, so that a later version may add some.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agf.records.status import Status

Rule = Callable[[Any, str], None]
#: Integers of a file are counts and indices.
_MOST = 2**53


class Wrong(ValueError):
    """A member that is not what it must be; str() says which, what was found and what was expected."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(f"`{where}` is {found}, expected {expected}")


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


# -- rules for values ---------------------------------------------------------------------------------------------


def real(value: Any, where: str) -> None:
    """A number as `files.jsonable` writes it: null is NaN, and infinities are words."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**400
    if not (number or value is None or value in ("inf", "-inf")):
        raise Wrong(where, _shown(value), "a number")
    if isinstance(value, int) and abs(value) > 1e308:
        raise Wrong(where, _shown(value), "a number of float64")


def finite(value: Any, where: str) -> None:
    """A finite number."""
    real(value, where)
    if value is None or isinstance(value, str) or not math.isfinite(value):
        raise Wrong(where, _shown(value), "a finite number")


def positive(value: Any, where: str) -> None:
    """A finite positive number."""
    finite(value, where)
    if not value > 0:
        raise Wrong(where, _shown(value), "a positive number")


def whole(least: int = 0) -> Rule:
    """An integer of at least `least`."""

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MOST:
            raise Wrong(where, _shown(value), f"an integer of at least {least}")

    return rule


def text(value: Any, where: str) -> None:
    """Text."""
    if not isinstance(value, str):
        raise Wrong(where, _shown(value), "text")


def flag(value: Any, where: str) -> None:
    """true, false, or null for unknown."""
    if not (value is None or isinstance(value, bool)):
        raise Wrong(where, _shown(value), "true or false")


def scalar(value: Any, where: str) -> None:
    """A number, text, true, false or null."""
    if not (value is None or isinstance(value, bool | int | float | str)):
        raise Wrong(where, _shown(value), "a number, text, true, false or null")


def anything(value: Any, where: str) -> None:
    """Any value: it is shown, and never computed with."""
    del value, where


def one_of(words: tuple[str, ...]) -> Rule:
    """One of these words."""

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, str) or value not in words:
            raise Wrong(where, _shown(value), "one of " + ", ".join(words))

    return rule


def optional(inner: Rule) -> Rule:
    """null, or what `inner` asks for."""

    def rule(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return rule


def listing(inner: Rule, length: int | None = None) -> Rule:
    """A list, of `length` entries where that is given."""

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            raise Wrong(where, _shown(value), "a list" + (f" of {length}" if length is not None else ""))
        for k, item in enumerate(value):
            inner(item, f"{where}[{k}]")

    return rule


def mapping(inner: Rule) -> Rule:
    """An object with any names."""

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Wrong(where, _shown(value), "an object with named members")
        for name, item in value.items():
            inner(item, f"{where}.{name}")

    return rule


def record(required: Mapping[str, Rule], may: Mapping[str, Rule] | None = None) -> Rule:
    """An object with these members, and perhaps those in `may`."""
    every = {**required, **(may or {})}

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Wrong(where, _shown(value), "an object with named members")
        for name in required:
            if name not in value:
                raise Wrong(f"{where}.{name}".removeprefix("."), "missing", "it to be there")
        for name in every.keys() & value.keys():
            every[name](value[name], f"{where}.{name}".removeprefix("."))

    return rule


# -- the documents ------------------------------------------------------------------------------------------------

_STATUS = one_of(tuple(status.word for status in Status))
_DROP = record(
    {
        "time": real, "half_time": real, "accelerated_time": real, "level": real, "neurons": listing(whole()),
        "collapsed": listing(whole()), "label": text, "utility": listing(real), "grad_norm": real,
        "predicted_decrease": real, "how": text, "critical": flag, "conditioning": real,
    },
    {"runner_up": optional(listing(real, 2)), "error": real, "level_error": real, "overlap": optional(flag)},
)  # fmt: skip


def _argument(value: Any, where: str) -> None:
    """A constructor argument: a scalar, a list of them, or the name of an array, pairs of a dict, an unsaved type."""
    if isinstance(value, list):
        listing(scalar)(value, where)
    elif not isinstance(value, dict):
        scalar(value, where)
    elif value.keys() == {"dict"}:
        listing(listing(scalar, 2))(value["dict"], where)
    elif value.keys() in ({"array"}, {"unsaved"}):
        text(next(iter(value.values())), where)
    else:
        raise Wrong(where, _shown(value), "a scalar, a list, or an object that names an array")


_COMMON = {
    "arguments": mapping(_argument), "fingerprint": text, "versions": mapping(text), "feature_names": listing(text),
}  # fmt: skip
_INIT = {"init": record({"alpha": finite, "kind": text}, {"seed": optional(whole())})}
_TRAINED = record(
    {},
    {
        "t_max": optional(finite), "method": text, "rtol": finite, "snapshots": whole(2), "max_steps": whole(1),
        "max_gradients": finite, "settle": finite, "lr": finite, "steps": whole(1), "momentum": finite,
        "batch_size": optional(whole(1)), "seed": optional(whole()), "path": text, "loss_scale": finite,
    },
)  # fmt: skip
_DOCUMENTS = {
    "staircase": record(
        {
            "result": record(
                {
                    "problem": text, "degree": whole(2), "levels": listing(real), "drops": listing(_DROP),
                    "status": _STATUS, "notes": listing(text), "stats": mapping(real),
                },
                {"bounds": optional(listing(real))},
            ),
            "settings": mapping(scalar), "log_scale": real, **_COMMON,
        },
        _INIT,
    ),
    "trajectory": record(
        {
            "problem": text, "degree": whole(2), "method": text, "status": _STATUS, "log_scale": optional(finite),
            "settings": _TRAINED, "stats": mapping(real), "notes": listing(text), **_COMMON,
        },
        {"evidence": text, **_INIT},
    ),
}  # fmt: skip

_ROW_DROP = record(
    {
        "time": real, "half_time": real, "accelerated_time": real, "level": real, "neurons": listing(whole()),
        "collapsed": listing(whole()), "label": text, "utility": listing(real),
    },
    {"runner_up": optional(listing(real, 2)), "error": real, "level_error": real, "overlap": optional(flag)},
)  # fmt: skip
#: A row of a sweep: one finished run.
ROW = record(
    {"key": text, "run": mapping(scalar), "error": text},
    {
        "predict": record(
            {
                "drops": listing(_ROW_DROP),
                "status": _STATUS,
                "start_level": real,
                "degree": whole(2),
                "clock_scale": real,
            }
        ),
        "train": record({"drops": listing(record({"time": real, "after": real})), "status": _STATUS}),
        "compare": listing(record({"k": whole(1), "observed_time": real, "time_error": real, "level_error": real})),
    },
)
#: The document of a sweep's folder, and one of those that say what was asked for in it.
SWEEP = record(
    {
        "format": text, "version": whole(), "problem": text, "fingerprint": text, "axes": listing(text),
        "do": listing(text), "flow": mapping(scalar),
    },
    {"arguments": mapping(text), "versions": mapping(text)},
)  # fmt: skip
ASKED = mapping(listing(scalar))


# -- the arrays ---------------------------------------------------------------------------------------------------

Size = int | str
#: Array -> its shape, and whether it must be finite. Letters are sizes that agree wherever they occur in a document; N?
#: may also be 0, as in an array that was not kept.
_STAIRCASE: dict[str, tuple[tuple[Size, ...], bool]] = {
    "curve_times": (("C",), True), "curve_losses": (("C",), False),
    "init_directions": (("H", "P"), True), "init_log_norms": (("H",), False),
}  # fmt: skip
_TRAJECTORY: dict[str, tuple[tuple[Size, ...], bool]] = {
    "times": (("N",), True), "losses": (("N",), False), "slopes": (("N?",), True),
    "snapshot_times": (("T",), True), "log_norms": (("T?", "H?"), False), "directions": (("T?", "H?", "P?"), True),
    "init_directions": (("H", "P"), True), "init_log_norms": (("H",), False),
}  # fmt: skip


def check(kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise `Wrong` where a run file of this kind does not hold what it must; other kinds are not looked at."""
    if kind == "comparison":
        parts = header.get("parts")
        record({"stairs": anything, "trajectory": anything})(parts, "parts")
        assert isinstance(parts, dict)
        for part in ("stairs", "trajectory", "repeat"):
            if part in parts:
                own = {name.removeprefix(f"{part}/"): a for name, a in arrays.items() if name.startswith(f"{part}/")}
                check("staircase" if part == "stairs" else "trajectory", parts[part], own)
    if kind in _DOCUMENTS:
        _DOCUMENTS[kind](header, "")
        _check_arrays(kind, header, arrays)


def _check_arrays(kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    sizes: dict[str, int] = {}
    for name, (shape, must) in (_STAIRCASE if kind == "staircase" else _TRAJECTORY).items():
        if name in arrays or not name.startswith("init_") or "init" in header:
            _numbers(arrays, name, shape, sizes, must)
    for name, value in header["arguments"].items():
        if isinstance(value, dict) and "array" in value:
            _member(arrays, value["array"], "biufU", f"the argument {name!r}")
    if kind == "trajectory":
        for name in header["feature_names"]:
            found = _member(arrays, f"feature_{name}", "biuf", "real numbers")
            if found.shape[:1] != (sizes["T"],):
                raise Wrong(f"feature_{name}", f"of shape {found.shape}", f"({sizes['T']}, ...), a row a snapshot")
        for name in arrays:
            if name.startswith("state_"):
                _member(arrays, name, "biuf", "real numbers")
        if sizes["N"] and (np.diff(arrays["times"]) < 0).any():
            raise Wrong("times", "not in order", "times that do not fall")
        return
    if not header["result"]["levels"]:
        raise Wrong("result.levels", "empty", "the level at the start at least")
    bounds = header["result"].get("bounds")
    if bounds is not None and len(bounds) != len(header["result"]["drops"]):
        raise Wrong("result.bounds", f"of length {len(bounds)}", "one a drop")
    for k in range(len(header["result"]["drops"])):
        for name in ("log_norms", "active"):  # of the states of the phases, which may count in modes
            if f"drop{k}_{name}" in arrays:
                _numbers(arrays, f"drop{k}_{name}", ("M",), sizes, False, "biuf" if name == "log_norms" else "b")
        for name in header["feature_names"]:
            if f"drop{k}_feature_{name}" in arrays:
                _member(arrays, f"drop{k}_feature_{name}", "biuf", "real numbers")


def _member(arrays: dict[str, np.ndarray], name: str, kinds: str, words: str) -> np.ndarray:
    if name not in arrays:
        raise Wrong(name, "missing", words)
    if arrays[name].dtype.kind not in kinds:
        raise Wrong(name, f"of {arrays[name].dtype}", words)
    return arrays[name]


def _numbers(
    arrays: dict[str, np.ndarray],
    name: str,
    shape: tuple[Size, ...],
    sizes: dict[str, int],
    must: bool,
    kinds: str = "iuf",
) -> None:
    """An array of real numbers of this shape; letters met first are set to what is found."""
    found = _member(arrays, name, kinds, "real numbers")
    if found.ndim != len(shape):
        raise Wrong(name, f"of shape {found.shape}", f"{len(shape)} dimension(s)")
    for axis, letter in enumerate(shape):
        size = found.shape[axis]
        key = re.sub(r"\?", "", str(letter))
        if "?" in str(letter) and 0 in found.shape:
            continue
        if sizes.setdefault(key, size) != size:
            raise Wrong(name, f"of shape {found.shape}", f"size {sizes[key]} along axis {axis}, as in other arrays")
    if must and not np.isfinite(found).all():
        raise Wrong(name, "not finite everywhere", "finite numbers")
