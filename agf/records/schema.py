"""What a run file must hold: one schema, checked once when a file is read, whoever reads it.

A rule takes a value of a JSON document and its place in it, and raises `Wrong` where the value is not what it must be.
Members that no rule names are left alone, so that a later version may add some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.records.status import Status

Rule = Callable[[Any, str], None]
#: Largest integer of a file. Derived: integers are counts and indices, which float64 holds up to here.
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
    if isinstance(value, float) and math.isfinite(value):  # the usual case first: a list may be long
        return
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


def positive_or_inf(value: Any, where: str) -> None:
    """A positive number, or infinity as `files.jsonable` writes it."""
    if value != "inf":
        positive(value, where)


def sign(value: Any, where: str) -> None:
    """-1, 0 or 1."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 1:
        raise Wrong(where, _shown(value), "-1, 0 or 1")


def whole(least: int = 0) -> Rule:
    """An integer of at least `least`."""

    def rule(value: Any, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MOST:
            raise Wrong(where, _shown(value), f"an integer of at least {least}")

    return rule


def seed(value: Any, where: str) -> None:
    """null, or an integer of any size from 0: seeds of numpy have 128 bits."""
    if not (value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)):
        raise Wrong(where, _shown(value), "an integer of at least 0")


def text(value: Any, where: str) -> None:
    """Text."""
    if not isinstance(value, str):
        raise Wrong(where, _shown(value), "text")


def name(value: Any, where: str) -> None:
    """What something is called wherever it is shown: letters that can be printed."""
    text(value, where)
    if not (value.strip() and value.isprintable()):
        raise Wrong(where, _shown(value), "a name of printable letters")


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
            try:
                inner(item, where)
            except Wrong:
                inner(item, f"{where}[{k}]")  # its place is written out only where it is told: a list may be long
                raise

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
_INIT = {"init": record({"alpha": finite, "kind": text}, {"seed": seed})}
_TRAINED = record(
    {},
    {
        "t_max": optional(finite), "method": text, "rtol": finite, "snapshots": whole(2), "max_steps": whole(1),
        "max_gradients": finite, "settle": finite, "lr": finite, "steps": whole(1), "momentum": finite,
        "batch_size": optional(whole(1)), "seed": seed, "path": text, "loss_scale": finite,
    },
)  # fmt: skip
_CRITICAL = record(
    {
        "direction": listing(finite), "utility": real, "kind": one_of(("maximum", "minimum", "saddle", "degenerate")),
        "label": text, "neuron": optional(whole()), "share": real, "drop": real,
        "pattern": optional(listing(sign)), "slopes": optional(listing(finite)),
    }
)  # fmt: skip
_FLAT = record({"label": text, "kind": text, "dead": flag, "share": real, "pattern": optional(listing(sign))})
_DOCUMENTS = {
    "staircase": record(
        {
            "result": record(
                {
                    "problem": name, "degree": whole(2), "levels": listing(real), "drops": listing(_DROP),
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
            "problem": name, "degree": whole(2), "method": text, "status": _STATUS, "log_scale": optional(finite),
            "settings": _TRAINED, "stats": mapping(real), "notes": listing(text), **_COMMON,
        },
        {"evidence": text, **_INIT},
    ),
    "landscape": record(
        {
            "leak": finite,
            "result": record(
                {
                    "problem": name, "degree": whole(2), "at": text, "level": real, "complete": flag, "how": text,
                    "criticals": listing(_CRITICAL), "flats": listing(_FLAT), "notes": listing(text),
                }
            ),
        }
    ),
    "dormant-phase": record(
        {"problem": name, "leak": finite, "t_max": positive_or_inf}, {"along": optional(listing(finite))}
    ),
    "rewinding": record(
        {
            "problem": name, "arguments": mapping(_argument), "fingerprint": text, "versions": mapping(text),
            "settings": record(
                {
                    "method": text, "cycles": whole(), "keep": positive, "rewind": finite, "by": text,
                    "prunable": text, "masks": text, "signs": text, "flip": optional(listing(finite, 2)),
                    "budget": text, "rebalance": flag, "seed": seed, "train": anything,
                }
            ),
            **_INIT,
        }
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
            },
            {"ending": text},
        ),
        "train": record({"drops": listing(record({"time": real, "after": real})), "status": _STATUS}, {"ending": text}),
        "compare": listing(record({"k": whole(1), "observed_time": real, "time_error": real, "level_error": real})),
    },
)
#: The document of a sweep's folder, and the axes of one of its plans.
SWEEP = record(
    {
        "format": text, "version": whole(), "problem": name, "fingerprint": text, "axes": listing(text),
        "do": listing(text), "flow": mapping(scalar),
    },
    {"arguments": mapping(text), "versions": mapping(text)},
)  # fmt: skip
AXES = mapping(listing(scalar))


# -- the arrays ---------------------------------------------------------------------------------------------------

Size = int | str


@dataclass(frozen=True)
class Array:
    """What one array must be.

    Parameters
    ----------
    shape : tuple of int or str
        Letters are sizes that agree wherever they occur in a document, "D+1" is one more than D. "N?" may also be 0, as
        in an array that was not kept.
    finite : bool
        Whether every entry must be finite.
    kinds : str
        Kinds of numpy types that it may have.
    inside : tuple of int or str
        First and last value, or the letter that every value is below; for numbers that stand for something.
    """

    shape: tuple[Size, ...]
    finite: bool = True
    kinds: str = "iuf"
    inside: tuple[int, Size] | None = None


_START = {
    "init_directions": Array(("H", "P")),
    "init_log_norms": Array(("H",), finite=False),
}
_ARRAYS: dict[str, dict[str, Array]] = {
    "staircase": {"curve_times": Array(("C",)), "curve_losses": Array(("C",), finite=False), **_START},
    "trajectory": {
        "times": Array(("N",)),
        "losses": Array(("N",), finite=False),
        "slopes": Array(("N?",)),
        "snapshot_times": Array(("T",)),
        "log_norms": Array(("T?", "H?"), finite=False),
        "directions": Array(("T?", "H?", "P?")),
        **_START,
    },
    "landscape": {"samples": Array(("N", "D")), "residual": Array(("N",))},
    "dormant-phase": {
        "X": Array(("N", "D")),
        "weights": Array(("N",)),
        "start": Array(("H", "D+1")),
        "start_log_norms": Array(("H",), finite=False),
        "fates": Array(("H",), kinds="iu", inside=(0, 5)),
        "arrivals": Array(("H",)),
        "charges": Array(("H",), finite=False),
        "ends": Array(("H", "D+1")),
        "utilities": Array(("H",)),
        "clusters": Array(("H",), kinds="iu", inside=(0, "H")),
        "event_neurons": Array(("E",), kinds="iu", inside=(0, "H")),
        "event_samples": Array(("E",), kinds="iu", inside=(-1, "N")),
        "event_kinds": Array(("E",), kinds="iu", inside=(1, 5)),
        "event_times": Array(("E",)),
    },
    "rewinding": {
        **_START,
        "masks": Array(("L", "H", "P"), kinds="b"),
        "starts": Array(("L", "H", "P")),
        "ends": Array(("L", "H", "P")),
        "rewound": Array(("H", "P")),
        "losses": Array(("L",), finite=False),
        "accuracies": Array(("L",), finite=False),
        "scores": Array(("L?",), finite=False),
    },
}
#: What a drop may have of the states of the phases, which may count in modes.
_STATES = {
    "log_norms": Array(("M",), finite=False),
    "active": Array(("M",), kinds="b"),
    "directions": Array(("M", "Q")),
}
#: What gradient descent is resumed with, besides the number of its steps.
_DESCENT = ("lr", "momentum", "batch_size", "seed", "snapshots")
#: Arrays that a file of the kind may lack, besides the start of a curve that was trained elsewhere.
_MAY_LACK = {"landscape": ("samples", "residual")}


def check(kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise `Wrong` where a run file of this kind does not hold what it must; other kinds are not looked at.

    Its numbers become those that are computed with, float64 and int64, in `arrays` itself.
    """
    if kind == "comparison":
        parts = header.get("parts")
        record({"stairs": anything, "trajectory": anything})(parts, "parts")
        assert isinstance(parts, dict)
        for part in ("stairs", "trajectory", "repeat"):
            if part in parts:
                own = {name.removeprefix(f"{part}/"): a for name, a in arrays.items() if name.startswith(f"{part}/")}
                check("staircase" if part == "stairs" else "trajectory", parts[part], own)
                arrays.update({f"{part}/{name}": a for name, a in own.items()})
    if kind in _DOCUMENTS:
        _DOCUMENTS[kind](header, "")
        _check_arrays(kind, header, arrays)


def _check_arrays(kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    sizes: dict[str, int] = {}
    for name, rule in _ARRAYS[kind].items():
        may_lack = name in _MAY_LACK.get(kind, ()) or (name in _START and kind != "rewinding" and "init" not in header)
        if name in arrays or not may_lack:
            _numbers(arrays, name, rule, sizes)
    for name, value in header.get("arguments", {}).items():
        if isinstance(value, dict) and "array" in value:
            _member(arrays, value["array"], "biufUS", f"the argument {name!r}")
    more = {"staircase": _check_staircase, "trajectory": _check_trajectory, "landscape": _check_landscape,
            "dormant-phase": _check_phase, "rewinding": _check_cycles}  # fmt: skip
    more[kind](header, arrays, sizes)


def _check_staircase(header: dict[str, Any], arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    if not header["result"]["levels"]:
        raise Wrong("result.levels", "empty", "the level at the start at least")
    bounds = header["result"].get("bounds")
    if bounds is not None and len(bounds) != len(header["result"]["drops"]):
        raise Wrong("result.bounds", f"of length {len(bounds)}", "one a drop")
    for k in range(len(header["result"]["drops"])):
        for name, rule in _STATES.items():
            if f"drop{k}_{name}" in arrays:
                _numbers(arrays, f"drop{k}_{name}", rule, sizes)
    for name in header["feature_names"]:
        for k in range(len(header["result"]["drops"])):
            if (member := f"drop{k}_feature_{name}") in arrays:
                _member(arrays, member, "biuf", "real numbers")


def _check_trajectory(header: dict[str, Any], arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    for name in header["feature_names"]:
        found = _member(arrays, f"feature_{name}", "biuf", "real numbers")
        if found.shape[:1] != (sizes["T"],):
            raise Wrong(f"feature_{name}", f"of shape {found.shape}", f"({sizes['T']}, ...), a row a snapshot")
    for name in arrays:
        if name.startswith("state_"):
            _member(arrays, name, "biuf", "real numbers")
    lacks = [name for name in _DESCENT if name not in header["settings"]] if "steps" in header["settings"] else []
    if lacks:
        raise Wrong(f"settings.{lacks[0]}", "missing", "it beside the number of steps")
    if sizes["N"] and (np.diff(arrays["times"]) < 0).any():
        raise Wrong("times", "not in order", "times that do not fall")


def _check_landscape(header: dict[str, Any], arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    if ("samples" in arrays) != ("residual" in arrays):
        raise Wrong("samples and residual", "one without the other", "both or none")
    result = header["result"]
    rows = {len(one["direction"]) for one in result["criticals"]}
    if len(rows) > 1 or (rows and sizes.get("D", 0) >= min(rows)):
        raise Wrong("result.criticals", f"directions of {sorted(rows)} parameters", "one length, above that of inputs")
    for name in ("criticals", "flats"):
        for k, one in enumerate(result[name]):
            for part in ("pattern", "slopes"):
                found = one.get(part)
                if found is not None and len(found) != sizes.get("N", len(found)):
                    raise Wrong(f"result.{name}[{k}].{part}", f"of length {len(found)}", "an entry a sample")
            if one.get("slopes") is not None and one["pattern"] is not None:
                listing(finite, len(one["pattern"]))(one["slopes"], f"result.{name}[{k}].slopes")


def _check_phase(header: dict[str, Any], arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    if (np.diff(arrays["event_neurons"].astype(np.int64)) < 0).any():
        raise Wrong("event_neurons", "not in order", "the events neuron by neuron")
    if sizes["H"] == 0:
        raise Wrong("start", "empty", "a neuron at least")
    held = np.unique(arrays["clusters"])
    if not np.array_equal(held, np.arange(held.size)):
        raise Wrong("clusters", "with gaps", "numbers from 0 without gaps")


def _check_cycles(header: dict[str, Any], arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    if "init" not in header:
        raise Wrong("init", "missing", "it to be there")
    if not sizes["L"]:
        raise Wrong("masks", "empty", "the dense cycle at least")
    if not isinstance(header["settings"]["train"], dict | str):
        raise Wrong("settings.train", _shown(header["settings"]["train"]), "options, or text")


def _member(arrays: dict[str, np.ndarray], name: str, kinds: str, words: str) -> np.ndarray:
    if name not in arrays:
        raise Wrong(name, "missing", words)
    if arrays[name].dtype.kind not in kinds:
        raise Wrong(name, f"of {arrays[name].dtype}", words)
    return arrays[name]


def _numbers(arrays: dict[str, np.ndarray], name: str, rule: Array, sizes: dict[str, int]) -> None:
    """An array as `rule` has it; letters met first are set to what is found."""
    words = "true or false" if rule.kinds == "b" else "real numbers" if "f" in rule.kinds else "integers"
    found = _member(arrays, name, rule.kinds, words)
    if found.ndim != len(rule.shape):
        raise Wrong(name, f"of shape {found.shape}", f"{len(rule.shape)} dimension(s)")
    for axis, letter in enumerate(rule.shape):
        key, plus, _ = str(letter).removesuffix("?").partition("+")
        size = found.shape[axis] - bool(plus)
        if str(letter).endswith("?") and 0 in found.shape:
            continue
        if sizes.setdefault(key, size) != size:
            expected = sizes[key] + bool(plus)
            raise Wrong(name, f"of shape {found.shape}", f"size {expected} along axis {axis}, as in other arrays")
    if rule.finite and not np.isfinite(found).all():
        raise Wrong(name, "not finite everywhere", "finite numbers")
    if rule.inside is not None and found.size:
        first, last = rule.inside
        last = sizes[last] - 1 if isinstance(last, str) else last
        if found.min() < first or found.max() > last:
            raise Wrong(name, f"from {found.min()} to {found.max()}", f"values from {first} to {last}")
    if rule.kinds != "b":  # whatever wrote it: 8 bits, or bytes in another order, are not what is computed with
        arrays[name] = found.astype(np.float64 if "f" in rule.kinds else np.int64, copy=False)
